"""Runs as spans: what is inside of what, what it used, how it ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from opentelemetry.trace import StatusCode

import roundel
from roundel.telemetry.conventions import to_nanoseconds
from tests.docs.offline import copy_examples
from tests.llm.story import profile, workflow
from tests.llm.wire import Reply, Wire
from tests.runs.polish_workflow import using
from tests.telemetry.in_memory import (
    CIRCLE,
    RecordedTelemetry,
    agents,
    attributes_of,
    context,
    reply,
    span_events,
)


def example(folder: Path, name: str, input: str = "tea", **options: Any) -> RecordedTelemetry:
    watch, place = RecordedTelemetry(**options), copy_examples(folder) / name
    watch.run(place / "workflow.yaml", input, script=place / "script.yaml")
    return watch


def test_run_and_each_node_execution_are_spans() -> None:
    watch, events = RecordedTelemetry(), list[roundel.Event]()
    script = {"Ann": reply("hello", 12, 4), "Ben": reply("good day", 20, 6)}
    result = watch.run(agents("Ann", "Ben"), script=script, on_event=events.append)
    run = watch.one("invoke_workflow chain")
    assert attributes_of(run)["gen_ai.operation.name"] == "invoke_workflow"
    assert attributes_of(run)["gen_ai.workflow.name"] == "chain"
    assert attributes_of(run)["roundel.run_id"] == result.run_id
    assert attributes_of(run)["roundel.status"] == "completed"
    assert (attributes_of(run)["roundel.input_tokens"], attributes_of(run)["roundel.output_tokens"]) == (
        32,
        10,
    )
    assert (run.start_time, run.end_time) == tuple(to_nanoseconds(events[n].timestamp) for n in (0, -1))
    ann = watch.one("invoke_agent Ann")
    assert dict(attributes_of(ann)) == {
        "roundel.run_id": result.run_id,
        "roundel.node": "Ann",
        "roundel.address": "Ann",
        "roundel.status": "completed",
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "Ann",
        "gen_ai.provider.name": "script",
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.output_tokens": 4,
    }
    assert ann.status.status_code is StatusCode.UNSET
    assert watch.parents_by_address() == {"Ann": "", "Ben": ""}


def test_round_spans_contain_nodes_and_inner_rounds(tmp_path: Path) -> None:
    watch = example(tmp_path, "nested_loops")
    parents_by_address = watch.parents_by_address()
    assert (
        parents_by_address["Planner[1]"]
        == parents_by_address["Planner[2]"]
        == parents_by_address["Final"]
        == ""
    )
    assert (
        parents_by_address["Planner[1].Coder[2]"] == parents_by_address["Planner[1]/Reviewer"] == "Planner[1]"
    )
    assert parents_by_address["Planner[1].Coder[2]/Tester"] == "Planner[1].Coder[2]"
    second = watch.at("Planner[1].Coder[2]")
    assert (second.name, attributes_of(second)["roundel.loop"], attributes_of(second)["roundel.round"]) == (
        "round Coder",
        "Coder",
        2,
    )
    assert attributes_of(watch.at("Planner[1].Coder[2]/Tester"))["roundel.round"] == 2
    assert span_events(second)["roundel.skipped"] == {
        "roundel.node": "Test Guard",
        "roundel.address": "Planner[1].Coder[2]/Test Guard",
        "roundel.reason": "the loop was left",
    }
    assert span_events(watch.at("Planner[1]"))["roundel.loop_exit"]["roundel.reason"] == "exit_edge"
    for span in watch.spans:
        inside = [one for one in watch.spans if one.parent and one.parent.span_id == context(span).span_id]
        assert all((span.start_time or 0) <= (one.start_time or 0) for one in inside)
        assert all((span.end_time or 0) >= (one.end_time or 0) for one in inside)


def test_subgraph_span_contains_its_nodes(tmp_path: Path) -> None:
    parents_by_address = example(tmp_path, "subgraph").parents_by_address()
    assert parents_by_address["Draft"] == parents_by_address["Polish"] == ""
    assert parents_by_address["Draft/Writer[1]"] == parents_by_address["Draft/Latest"] == "Draft"
    assert parents_by_address["Draft/Writer[2]/Critic"] == "Draft/Writer[2]"


def test_debate_span_contains_rounds_and_participants(tmp_path: Path) -> None:
    watch = example(tmp_path, "debate")
    parents_by_address = watch.parents_by_address()
    assert [parents_by_address[f"Council[{number}]"] for number in (1, 2, 3)] == ["Council"] * 3
    assert parents_by_address["Council[3]/Bo"] == "Council[3]"
    assert span_events(watch.at("Council"))["roundel.loop_exit"]["roundel.rounds"] == 3
    assert watch.at("Council").name == "node Council"


def test_parallel_rounds_contain_their_own_nodes(tmp_path: Path) -> None:
    watch = example(tmp_path, "batch")
    parents_by_address = watch.parents_by_address()
    for number in (1, 2, 3, 4):
        assert parents_by_address[f"Sections[{number}]"] == "Sections"
        assert (
            parents_by_address[f"Sections[{number}]/Writer"]
            == parents_by_address[f"Sections[{number}]/Editor"]
            == f"Sections[{number}]"
        )


def test_parts_of_a_dynamic_edge_are_sibling_spans(tmp_path: Path) -> None:
    parents_by_address = example(tmp_path, "fan_out").parents_by_address()
    assert {parents_by_address[f"Researcher#{number}"] for number in range(1, 6)} == {""}
    assert parents_by_address["Summariser#1.2"] == parents_by_address["Summariser#2.1"] == ""


def test_tool_call_is_a_child_span_of_its_agent(tmp_path: Path) -> None:
    watch = example(tmp_path, "analyst")
    agent, second = watch.at("Analyst"), watch.at("Analyst[1]/sales#2")
    assert agent.name == "invoke_agent Analyst"
    assert (
        attributes_of(agent)["gen_ai.usage.input_tokens"],
        attributes_of(agent)["gen_ai.usage.output_tokens"],
    ) == (930, 85)
    assert second.name == "execute_tool sales"
    assert attributes_of(second)["gen_ai.operation.name"] == "execute_tool"
    assert attributes_of(second)["gen_ai.tool.call.id"] == "call_1_2"
    assert (attributes_of(second)["roundel.status"], attributes_of(second)["roundel.round"]) == (
        "completed",
        1,
    )
    parents_by_address = watch.parents_by_address()
    assert [parents_by_address[f"Analyst[{call}"] for call in ("1]/sales", "1]/sales#2", "2]/order")] == [
        "Analyst"
    ] * 3
    assert span_events(agent)["roundel.tool_call"]["roundel.status"] == "waiting"


def test_each_model_call_is_a_child_span_of_its_agent(tmp_path: Path) -> None:
    watch = example(tmp_path, "analyst")
    agent, calls = watch.at("Analyst"), watch.chats("Analyst")
    assert [span.name for span in calls] == ["chat gpt-4o"] * 3
    assert {span.parent.span_id for span in calls if span.parent} == {context(agent).span_id}
    shown = [attributes_of(span) for span in calls]
    assert [one["roundel.call"] for one in shown] == [1, 2, 3]
    assert sum(one["gen_ai.usage.input_tokens"] for one in shown) == 930
    assert [one["gen_ai.response.finish_reasons"] for one in shown] == [
        ("tool_calls",),
        ("tool_calls",),
        ("stop",),
    ]
    assert {one["roundel.status"] for one in shown} == {"completed"}


def test_a_call_that_a_provider_refused_at_first_shows_its_attempts() -> None:
    watch = RecordedTelemetry()
    with Wire() as wire:
        wire.replies(Reply(status=503), Reply(text="Quiet."))
        watch.run(workflow({"default": profile(wire)}, retry={"max_attempts": 2, "min_wait_seconds": 0}))
    (call,) = watch.chats("A")
    attempt = span_events(call)["roundel.attempt"]
    assert (attempt["roundel.attempt"], attempt["roundel.status"]) == (1, 503)
    assert attributes_of(call)["roundel.seconds"] > 0


def test_agent_span_in_a_loop_contains_its_tool_calls(tmp_path: Path) -> None:
    tools = {"look": {"python": "tests.llm.tools:look"}}
    talker = {"id": "Talker", "type": "agent", "config": {"tools": ["look"]}}
    graph = {**CIRCLE["graph"], "nodes": [talker, {"id": "Out", "type": "passthrough"}]}
    call = {"tool_calls": [{"name": "look", "arguments": {"place": "Oslo"}}]}
    watch = RecordedTelemetry()
    watch.run({"tools": tools, "graph": graph}, script={"Talker": [call, "not yet", call, "DONE"]})
    parents_by_address = watch.parents_by_address()
    assert parents_by_address["Talker[2].Talker[1]/look"] == "Talker[2]/Talker"
    assert parents_by_address["Talker[2]/Talker"] == "Talker[2]"


def test_model_and_cost_are_recorded() -> None:
    watch = RecordedTelemetry()
    with Wire() as wire:
        wire.replies(Reply(text="Quiet.", input_tokens=1000, output_tokens=200))
        watch.run(workflow({"default": profile(wire, "google", price={"input": 3, "output": 10})}))
    agent, run = watch.at("A"), watch.one("invoke_workflow workflow")
    assert attributes_of(agent)["gen_ai.provider.name"] == "gcp.gemini"
    assert attributes_of(agent)["gen_ai.request.model"] == "gemini-2.5-flash"
    assert (
        attributes_of(agent)["roundel.cost_usd"]
        == attributes_of(run)["roundel.cost_usd"]
        == pytest.approx(0.005)
    )
    assert watch.counts("roundel.cost_usd") == {
        ("gcp.gemini", "gemini-2.5-flash", "workflow"): pytest.approx(0.005)
    }
    tokens = watch.metric("gen_ai.client.token.usage")
    assert tokens["chat", "gcp.gemini", "gemini-2.5-flash", "input", "workflow"].sum == 1000


def test_failed_span_has_error_status_and_reason() -> None:
    watch = RecordedTelemetry()
    watch.run(agents("Ann", "Ben"), script={"Ann": "hello", "Ben": {"error": "rate limit"}})
    ben, run = watch.at("Ben"), watch.one("invoke_workflow chain")
    assert (ben.status.status_code, ben.status.description) == (StatusCode.ERROR, "rate limit")
    assert (run.status.status_code, run.status.description) == (StatusCode.ERROR, "Ben: rate limit")
    assert attributes_of(ben)["error.type"] == attributes_of(run)["error.type"] == "failed"
    assert watch.at("Ann").status.status_code is StatusCode.UNSET


def fallback() -> roundel.Graph:
    """A team of two graphs, one inside the other, and an agent for their failures."""
    inner = roundel.Graph("inner", start="Risky").node("Risky", "agent", provider="openai", name="m")
    outer = roundel.Graph("outer", start="Inner").node("Inner", "subgraph", graph=inner)
    graph = roundel.Graph("fallback", start="Team", end="Spare").node("Team", "subgraph", graph=outer)
    graph.node("Spare", "agent", provider="openai", name="m")
    return graph.edge("Team", "Spare", port="error")


def test_handled_failure_ends_all_spans_inside_and_not_the_run() -> None:
    watch = RecordedTelemetry()
    result = watch.run(fallback(), script={"Risky": {"error": "rate limit"}, "Spare": "plan B"})
    assert result.output == "plan B"
    for address in ("Team/Inner/Risky", "Team"):
        span = watch.at(address)
        assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "rate limit")
    assert "roundel.status" in attributes_of(watch.at("Team/Inner"))
    run = watch.one("invoke_workflow fallback")
    assert run.status.status_code is StatusCode.UNSET
    assert attributes_of(run)["roundel.status"] == "completed"
    spans = [watch.at(address) for address in ("Team", "Team/Inner", "Team/Inner/Risky")]
    ends = [span.end_time or 0 for span in spans]
    assert ends == sorted(ends, reverse=True)
    assert ends[0] <= (watch.at("Spare").start_time or 0)


def test_retried_run_is_another_segment_of_the_same_trace(tmp_path: Path) -> None:
    store, here, later = tmp_path / "runs.db", RecordedTelemetry(), RecordedTelemetry()
    script = {"Ann": "hello", "Ben": [{"error": "rate limit"}, "good day"]}
    failed = here.run(agents("Ann", "Ben"), script=script, store=store)
    assert failed.status == "failed"

    async def retried(runs: roundel.Runs) -> roundel.Result:
        return await runs.retry(failed.run_id, middleware=[later.telemetry])

    assert using(store, retried).output == "good day"
    first, second = here.one("invoke_workflow chain"), later.one("invoke_workflow chain")
    assert [attributes_of(part)["roundel.status"] for part in (first, second)] == ["failed", "completed"]
    assert context(first).trace_id == context(second).trace_id
    assert span_events(second)["roundel.resumed"]["roundel.reason"] == "retried"
    assert attributes_of(later.at("Ben"))["roundel.status"] == "completed"
    assert later.counts("roundel.runs") == {("chain", "completed"): 1}


def test_a_lock_is_recorded_where_it_happened_and_ends_all_spans(tmp_path: Path) -> None:
    watch = RecordedTelemetry()
    watch.run(CIRCLE, script={"Talker": "I will look into it."}, store=tmp_path / "runs.db")
    run = watch.one("invoke_workflow circle")
    assert attributes_of(run)["roundel.status"] == "suspended_locked"
    tripped = span_events(run)["roundel.breaker_tripped"]  # between two rounds
    assert (tripped["roundel.trigger"], tripped["roundel.stale_rounds"]) == ("dead_loop", 3)
    assert watch.counts("roundel.locks") == {("circle", "dead_loop"): 1}
    assert watch.counts("roundel.runs") == {("circle", "suspended_locked"): 1}


def test_the_next_segment_records_who_unlocked_the_run(tmp_path: Path) -> None:
    store, watch = tmp_path / "runs.db", RecordedTelemetry()
    locked = roundel.run(CIRCLE, script={"Talker": "I will look into it."}, store=store)

    async def unlocked(runs: roundel.Runs) -> list[roundel.Event]:
        checks = ("cause_understood", "cost_accepted", "workflow_reviewed")
        await runs.unlock(locked.run_id, "it is late", checks=checks, by="ada", exit="Out", execute=False)
        await runs.resume(locked.run_id)
        return list(await runs.events(locked.run_id))

    for event in using(store, unlocked):
        watch.telemetry.observe(event)
    first, later = watch.all("invoke_workflow circle")
    assert [attributes_of(part)["roundel.status"] for part in (first, later)] == [
        "suspended_locked",
        "completed",
    ]
    assert span_events(later)["roundel.breaker_unlocked"]["roundel.by"] == "ada"
    assert span_events(later)["roundel.resumed"]["roundel.reason"] == "unlocked: it is late"


def test_a_run_resumed_elsewhere_is_one_trace(tmp_path: Path) -> None:
    place, store = copy_examples(tmp_path) / "human_review", tmp_path / "runs.db"
    here, elsewhere = RecordedTelemetry(), RecordedTelemetry()
    waiting = here.run(place / "workflow.yaml", script=place / "writer_only.yaml", store=store)
    assert waiting.status == "waiting"
    editor = here.at("Writer[1]/Editor")
    assert (
        attributes_of(editor)["roundel.status"]
        == attributes_of(here.one("invoke_workflow human_review"))["roundel.status"]
        == "waiting"
    )
    assert attributes_of(here.one("invoke_workflow human_review"))["roundel.reason"] == "for Writer[1]/Editor"

    async def answered_elsewhere(runs: roundel.Runs) -> None:
        await runs.answer(waiting.run_id, "Say when.", execute=False)
        await runs.resume(waiting.run_id, middleware=[elsewhere.telemetry])

    using(store, answered_elsewhere)
    first, later = here.one("invoke_workflow human_review"), elsewhere.one("invoke_workflow human_review")
    assert {context(span).trace_id for span in (*here.spans, *elsewhere.spans)} == {context(first).trace_id}
    assert {attributes_of(span)["roundel.run_id"] for span in (*here.spans, *elsewhere.spans)} == {
        waiting.run_id
    }
    assert (first.parent, later.parent) == (None, None)
    assert [link.context.span_id for link in later.links] == [context(first).span_id]
    assert attributes_of(later)["roundel.partial"] is True
    assert attributes_of(later)["roundel.status"] == "waiting"
    assert elsewhere.parents_by_address()["Writer[2]/Editor"] == "Writer[2]"


def test_an_immediate_answer_stays_in_the_same_process(tmp_path: Path) -> None:
    async def editor(question: roundel.Question) -> str:
        return "OK"

    place, watch = copy_examples(tmp_path) / "human_review", RecordedTelemetry()
    watch.run(place / "workflow.yaml", script=place / "writer_only.yaml", ask=editor)
    first, later = watch.all("invoke_workflow human_review")
    assert [attributes_of(part)["roundel.status"] for part in (first, later)] == ["waiting", "completed"]
    assert context(first).trace_id == context(later).trace_id
    answered = [
        span for span in watch.spans if attributes_of(span).get("roundel.address") == "Writer[1]/Editor"
    ]
    assert [attributes_of(span).get("roundel.partial", False) for span in answered] == [False, True]


def test_run_span_is_a_child_of_the_current_span() -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import use_span

    watch = RecordedTelemetry()
    request = TracerProvider(shutdown_on_exit=False).get_tracer("a server").start_span("GET /")
    with use_span(request):
        watch.run(agents("Ann"), script={"Ann": "hello"})
    run = watch.one("invoke_workflow chain")
    assert run.parent is not None
    assert run.parent.span_id == request.get_span_context().span_id
    assert context(run).trace_id == request.get_span_context().trace_id


SECRET = "the heron stands in the reeds"


def test_message_content_is_recorded_only_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    script = {"Ann": reply(SECRET), "Ben": SECRET}
    watch = RecordedTelemetry()
    watch.run(agents("Ann", "Ben"), SECRET, script=script)
    watch.run(CIRCLE, SECRET, script={"Talker": SECRET})
    assert SECRET not in watch.text

    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    for watch in (RecordedTelemetry(), RecordedTelemetry(capture_content=True)):
        watch.run(agents("Ann", "Ben"), SECRET, script=script)
        run = watch.one("invoke_workflow chain")
        said = '[{"role":"user","parts":[{"type":"text","content":"' + SECRET + '"}]}]'
        assert attributes_of(run)["gen_ai.input.messages"] == said
        assert SECRET in attributes_of(run)["gen_ai.output.messages"]
        assert SECRET in attributes_of(watch.at("Ann"))["gen_ai.output.messages"]
    assert RecordedTelemetry(capture_content=False).text == ""


def test_tool_arguments_are_recorded_only_with_content(tmp_path: Path) -> None:
    without, asked = (
        example(tmp_path / "a", "analyst"),
        example(tmp_path / "b", "analyst", capture_content=True),
    )
    assert "gen_ai.tool.call.arguments" not in attributes_of(without.at("Analyst[1]/sales"))
    assert "oolong" not in without.text
    assert attributes_of(asked.at("Analyst[1]/sales#2"))["gen_ai.tool.call.arguments"] == '{"tea":"oolong"}'
    assert "gen_ai.tool.call.result" in attributes_of(asked.at("Analyst[1]/sales#2"))


def test_unlogged_node_output_is_not_recorded() -> None:
    watch = RecordedTelemetry(capture_content=True)
    flow = agents("Ann", "Ben")
    flow["graph"]["nodes"][0]["log_output"] = False
    watch.run(flow, script={"Ann": SECRET, "Ben": "well"})
    assert "gen_ai.output.messages" not in attributes_of(watch.at("Ann"))
    assert "gen_ai.output.messages" in attributes_of(watch.at("Ben"))
