"""`exit_loop` and `roundel.break_loop`: a model or a tool ends the loop around an agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel import LoopMode, WorkflowError
from roundel.nodes.loading import check as check_workflow
from tests.nodes.conversations import Told, run_conversation, wants

MORE = {"type": "keyword", "config": {"none": ["never"]}}


def leave(reason: str = "", **arguments: Any) -> dict[str, Any]:
    """A reply that requests `exit_loop`."""
    given = {**({"reason": reason} if reason else {}), **arguments}
    return {"tool_calls": [{"name": "exit_loop", "arguments": given}]}


def cycle(*tools: Any, exit_edge: bool = True, **config: Any) -> roundel.Graph:
    """A writer and a reviewer, without another way out than the tool and a review that never comes."""
    graph = roundel.Graph(start="Writer", end="Out", breaker={"dead_loop": False})
    graph.node("Writer", "agent", tools=list(tools) or ["exit_loop"], **config)
    graph.node("Reviewer", "agent").node("Out", "passthrough")
    graph.edge("Writer", "Reviewer").edge("Reviewer", "Writer", condition=MORE)
    graph.edge("Reviewer", "Out", condition={"type": "keyword", "config": {"any": ["never"]}})
    return graph.edge("Writer", "Out", port="exit") if exit_edge else graph


def repeated(body: Any, strategy: LoopMode, name: str = "Loop") -> roundel.Graph:
    graph = roundel.Graph(start=name, end=name, breaker={"dead_loop": False})
    return graph.node(name, "loop_agent", strategy=strategy.strategy, body=body)


def worker(*tools: Any, **config: Any) -> roundel.Graph:
    graph = roundel.Graph(start="Worker", end="Worker")
    return graph.node("Worker", "agent", tools=list(tools) or ["exit_loop"], **config)


# A free cycle.


def test_exit_loop_leaves_by_its_port_and_no_other_edge_fires() -> None:
    story = run_conversation(
        cycle(), {"Writer": ["one", leave("good enough", result="two")], "Reviewer": "more"}
    )
    result = story.result
    assert (result.status, result.output) == ("completed", "two")
    assert result.nodes == {"Writer": 2, "Reviewer": 1, "Out": 1}
    assert result.loops["Writer"] == {"rounds": 2, "exit_reason": "good enough", "entries": 1}
    assert result.data == {
        "stop_reason": "exit_loop",
        "exit_reason": "good enough",
        "answered": True,
        "tool_rounds": 1,
    }
    assert story.tool_calls() == [
        ("Writer[2].Writer[1]/exit_loop", "running"),
        ("Writer[2].Writer[1]/exit_loop", "completed"),
    ]
    assert (result.usage["model_calls"], result.usage["tool_calls"]) == (3, 1)


@pytest.mark.parametrize(
    ("arguments", "output", "data"),
    [
        ({"result": "text"}, "text", {}),
        ({"result": {"score": 7}}, '{"score": 7}', {"score": 7}),
        ({"result": {"text": "said", "data": {"n": 1}}}, "said", {"n": 1}),
        ({"result": [1, "b"]}, '[1, "b"]', {}),
        ({"result": 7}, "7", {}),
        ({}, "I said it.", {}),
    ],
)
def test_result_becomes_the_message(arguments: dict[str, Any], output: str, data: dict[str, Any]) -> None:
    line = {"text": "I said it.", **leave(**arguments)}
    result = run_conversation(cycle(), {"Writer": line}).result
    assert result.output == output
    assert result.data == {
        **data,
        "stop_reason": "exit_loop",
        "exit_reason": "exit_loop",
        "answered": True,
        "tool_rounds": 1,
    }


def test_exit_without_a_result_or_text_sends_an_empty_message() -> None:
    result = run_conversation(cycle(), {"Writer": leave()}).result
    assert (result.output, result.nodes["Out"]) == ("", 1)
    assert result.data is not None
    assert (result.data["answered"], result.loops["Writer"]["exit_reason"]) == (False, "exit_loop")


def test_conditions_on_the_exit_edge_apply() -> None:
    graph = cycle(exit_edge=False)
    graph.edge("Writer", "Out", port="exit", condition={"cel": "data.score > 5"})
    result = run_conversation(graph, {"Writer": leave(result={"score": 1})}).result
    assert result.nodes == {"Writer": 1}
    assert result.loops["Writer"]["exit_reason"] == "no_trigger"


def test_an_exit_edge_may_lead_to_a_node_of_the_loop() -> None:
    """Then the port only chooses the way."""
    graph = cycle(exit_edge=False)
    graph.node("Judge", "agent").edge("Writer", "Judge", port="exit").edge("Judge", "Writer", condition=MORE)
    graph.edge("Judge", "Out", condition={"type": "keyword", "config": {"any": ["never"]}})
    script = {"Writer": [leave(result="a"), "b"], "Judge": "go on", "Reviewer": "never again"}
    result = run_conversation(graph, script).result
    assert result.nodes == {"Writer": 2, "Judge": 1, "Reviewer": 1, "Out": 1}


# Bodies of loop agents and debates.


@pytest.mark.parametrize(
    "mode", [LoopMode.count(5), LoopMode.condition("false", max=5), LoopMode.array("[1,2,3]")]
)
def test_in_the_body_of_a_loop_agent_it_is_a_break(mode: LoopMode) -> None:
    script = {"Worker": ["one", leave("done", result="two")]}
    result = run_conversation(repeated(worker(), mode), script).result
    assert result.data is not None
    assert (result.status, result.data["results"]) == ("completed", ["one", "two"])
    assert result.loops["Loop"]["exit_reason"] == "done"


def test_structured_result_is_gathered_as_a_value() -> None:
    script = {"Worker": leave("done", result={"name": "tea"})}
    result = run_conversation(repeated(worker(), LoopMode.array("[1, 2]")), script).result
    assert result.output == '[{"name": "tea"}]'


def test_exit_edge_in_a_body_takes_precedence_over_the_break() -> None:
    body = roundel.Graph(start="Worker", end=["Late", "Worker"])
    body.node("Worker", "agent", tools=["exit_loop"]).node("Late", "passthrough")
    body.edge("Worker", "Late", port="exit")
    result = run_conversation(repeated(body, LoopMode.count(3)), {"Worker": leave(result="x")}).result
    assert result.loops["Loop"] == {"rounds": 3, "exit_reason": "count_reached", "entries": 1}
    assert result.nodes["Late"] == 3


def test_the_innermost_loop_ends() -> None:
    inner = repeated(worker(), LoopMode.count(3), "Inner")
    result = run_conversation(
        repeated(inner, LoopMode.count(2), "Outer"), {"Worker": leave(result="x")}
    ).result
    assert result.nodes == {"Outer": 1, "Inner": 2, "Worker": 2}


def test_it_reaches_out_of_a_subgraph_and_of_a_free_cycle() -> None:
    body = roundel.Graph(start="Sub", end="Sub").node("Sub", "subgraph", graph=cycle(exit_edge=False))
    script = {"Writer": ["one", leave(result="two")], "Reviewer": "more"}
    result = run_conversation(repeated(body, LoopMode.count(5)), script).result
    assert (result.output, result.nodes["Writer"], result.nodes["Reviewer"]) == ("two", 2, 1)


def test_participant_ends_a_debate() -> None:
    graph = roundel.Graph(start="Talk", end="Talk", breaker={"dead_loop": False})
    people = [
        {"id": "Ann", "type": "agent", "config": {"tools": ["exit_loop"]}},
        {"id": "Ben", "type": "agent"},
    ]
    graph.node("Talk", "debate", participants=people, max_rounds=5)
    result = run_conversation(graph, {"Ann": ["a", leave("bored", result="enough")], "Ben": "b"}).result
    assert result.loops["Talk"] == {"rounds": 2, "exit_reason": "bored", "entries": 1}
    assert (result.nodes["Ann"], result.nodes["Ben"]) == (2, 1)


# The round of tools.


def note(word: str) -> str:
    """Notes a word."""
    return f"noted {word}"


def results(story: Told) -> list[tuple[str, str]]:
    ended = (event.fields() for event in story.named("tool_call"))
    return [(data["id"], data["status"]) for data in ended if data["status"] not in ("running", "waiting")]


def test_other_calls_of_the_reply_are_made_before_the_node_ends() -> None:
    exits = [leave("first", result="x")["tool_calls"][0], leave("second", result="y")["tool_calls"][0]]
    line = {"tool_calls": [wants("note", word="a")["tool_calls"][0], *exits, *wants("nothing")["tool_calls"]]}
    story = run_conversation(cycle(note, "exit_loop"), {"Writer": line})
    assert sorted(results(story)) == [
        ("call_1_1", "completed"),
        ("call_1_2", "completed"),
        ("call_1_3", "completed"),
        ("call_1_4", "failed"),
    ]
    assert "noted a" in story.results()
    assert story.result.output == "x"
    assert story.result.loops["Writer"]["exit_reason"] == "first"
    assert story.result.usage["model_calls"] == 1


def test_exit_counts_as_a_round_of_tools() -> None:
    line = [wants("note", word="a"), leave(result="x"), "answered without tools"]
    graph = cycle(note, "exit_loop", max_tool_calls=2)
    assert run_conversation(graph, {"Writer": line}).result.output == "x"
    graph = cycle(note, "exit_loop", max_tool_calls=1)
    story = run_conversation(graph, {"Writer": line, "Reviewer": "never"})
    assert (story.result.output, story.result.nodes["Reviewer"]) == ("never", 1)
    graph = cycle(note, "exit_loop", max_tool_calls=1, on_limit="error")
    assert "asked for tools again" in str(run_conversation(graph, {"Writer": line}).result.error)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"because": "x"}, "there is no 'because'"),
        ({"reason": {"a": 1}}, "'reason'"),
    ],
)
def test_wrong_arguments_are_a_result_for_the_model(arguments: dict[str, Any], problem: str) -> None:
    story = run_conversation(cycle(), {"Writer": [leave(**arguments), leave(result="x")]})
    assert problem in story.results()[0]
    assert results(story)[0] == ("call_1_1", "failed")
    assert (story.result.output, story.result.usage["model_calls"]) == ("x", 2)


def test_person_may_reject_or_edit_the_exit() -> None:
    graph = cycle(approval=["exit_loop"])
    script = {
        "Writer": [leave(result="x"), leave(result="y")],
        "Writer/exit_loop": ["reject: not yet", '{"result": "z", "reason": "by hand"}'],
    }
    story = run_conversation(graph, script)
    assert [status for _, status in results(story)] == ["rejected", "completed"]
    assert (story.result.output, story.result.loops["Writer"]["exit_reason"]) == ("z", "by hand")


def test_result_has_to_fit_the_schema_of_the_answer() -> None:
    schema = {"type": "object", "required": ["score"]}
    graph = cycle(output_schema=schema)
    story = run_conversation(graph, {"Writer": [leave(result={}), leave(result='{"score": 3}')]})
    assert "does not fit the JSON Schema" in story.results()[0]
    assert story.result.data is not None
    assert (story.result.output, story.result.data["score"]) == ('{"score": 3}', 3)


def test_scripted_outcome_replaces_the_tool() -> None:
    line = {"tool_calls": [{"name": "exit_loop", "result": "not executed"}]}
    result = run_conversation(cycle(), {"Writer": [line, "answer"], "Reviewer": "never"}).result
    assert result.nodes["Reviewer"] == 1


# Where the tool is named.


@pytest.mark.parametrize(
    "config",
    [
        {"tools": "exit_loop"},
        {"dynamic_tools": {"tool_ids": ["exit_loop"]}},
        {"tooling": {"type": "function", "config": {"tools": [{"name": "exit_loop"}]}}},
    ],
)
def test_tool_can_be_named_wherever_tools_are(config: dict[str, Any]) -> None:
    graph = roundel.Graph(start="A", end="Out").node("A", "agent", **config).node("Out", "passthrough")
    graph.edge("A", "Out", port="exit")
    _, report = check_workflow(graph)
    assert not report.diagnostics
    assert run_conversation(graph, {"A": leave(result="x")}).result.output == "x"


def test_agent_without_tools_has_no_exit_port() -> None:
    graph = roundel.Graph(start="A", end="B").node("A", "agent").node("B", "passthrough")
    with pytest.raises(WorkflowError) as caught:
        roundel.load(graph.edge("A", "B", port="exit"))
    assert [found.code for found in caught.value.diagnostics] == ["unknown-port"]


def test_misspelt_name_gets_a_hint() -> None:
    _, report = check_workflow(cycle("exit_lop"))
    (found,) = report.errors
    assert (found.code, found.hint) == ("unknown-tool", "did you mean 'exit_loop'?")


def test_name_is_reserved() -> None:
    with pytest.raises(ValueError, match="built-in tool"):
        roundel.tool("exit_loop")

    def exit_loop() -> str:
        """My own."""
        return "mine"

    story = run_conversation(cycle(exit_loop), {"Writer": [wants("exit_loop_2"), "x"], "Reviewer": "never"})
    assert story.results() == ["mine"]


def test_exit_loop_without_anything_to_end_is_an_error() -> None:
    _, report = check_workflow(cycle(exit_edge=False))
    (found,) = report.errors
    assert found.code == "misplaced-jump"
    assert "'Writer' offers the tool exit_loop" in found.message
    assert "add an edge with port: exit from 'Writer'" in found.hint
    _, report = check_workflow(repeated(cycle(exit_edge=False), LoopMode.count(2)))
    assert not report.errors


# Functions.


def stop(word: str) -> Any:
    """Ends it."""
    return roundel.break_loop({"word": word}, reason="the tool says so")


async def stop_async(word: str) -> Any:
    """Ends it."""
    await asyncio.sleep(0)
    return stop(word)


@pytest.mark.parametrize("function", [stop, stop_async])
def test_tool_that_returns_break_loop_does_the_same(function: Callable[..., Any]) -> None:
    script = {"Writer": wants(function.__name__, word="tea")}
    result = run_conversation(cycle(function), script).result
    assert (result.output, result.loops["Writer"]["exit_reason"]) == ('{"word": "tea"}', "the tool says so")
    assert result.data is not None
    assert (result.data["word"], result.data["stop_reason"]) == ("tea", "exit_loop")
    script = {"Worker": wants(function.__name__, word="tea")}
    result = run_conversation(repeated(worker(function), LoopMode.count(3)), script).result
    assert result.loops["Loop"]["exit_reason"] == "the tool says so"


def test_break_loop_of_a_tool_fails_the_node_where_nothing_can_end() -> None:
    graph = cycle(stop, exit_edge=False)
    _, report = check_workflow(graph)
    assert not report.errors
    result = run_conversation(graph, {"Writer": wants("stop", word="x")}).result
    assert result.status == "failed"
    assert result.error == (
        "Writer[1]/Writer: 'break' is not inside a loop agent or debate, "
        "and no edge with 'port: exit' leads from it"
    )


def test_tool_cannot_end_only_the_round() -> None:
    def skip() -> Any:
        """Skips."""
        return roundel.continue_loop("x")

    script = {"Worker": [wants("skip"), "done"]}
    story = run_conversation(repeated(worker(skip), LoopMode.count(1)), script)
    assert "roundel.break_loop" in story.results()[0]
    assert (results(story), story.result.output) == ([("call_1_1", "failed")], "done")


@pytest.mark.parametrize(("value", "output"), [("left", "left"), (None, "")])
def test_function_of_a_node_leaves_by_the_exit_port(value: Any, output: str) -> None:
    graph = roundel.Graph(start="Step", end="Out").node("Out", "passthrough").node("Back", "passthrough")
    graph.function("Step")(lambda round: roundel.break_loop(value, "third") if round == 3 else "on")
    graph.edge("Step", "Back").edge("Back", "Step").edge("Step", "Out", port="exit")
    result = run_conversation(graph, None).result
    assert (result.status, result.output, result.nodes) == (
        "completed",
        output,
        {"Step": 3, "Back": 2, "Out": 1},
    )
    assert result.loops["Step"]["exit_reason"] == "third"


def test_parts_of_a_dynamic_edge_leave_one_by_one() -> None:
    graph = roundel.Graph(start="Split", end=["Left", "Rest"])
    graph.node("Split", "passthrough").node("Part", "agent", tools=["exit_loop"])
    graph.node("Left", "passthrough", only_last_message=False).node("Rest", "passthrough")
    graph.edge("Split", "Part", dynamic={"type": "map", "split": {"type": "json_path", "config": {}}})
    graph.edge("Part", "Rest").edge("Part", "Left", port="exit")
    script = {"Part": [leave(result="a"), "b", leave(result="c")]}
    story = run_conversation(graph, script, input="[1, 2, 3]")
    outputs = {
        event.node_id: event.fields()
        for event in story.named("node_state_change")
        if "output" in event.fields()
    }
    assert story.result.nodes["Part"] == 3
    assert (outputs["Left"]["output"], outputs["Rest"]["output"]) == ("c", "b")


# Stored runs.


def test_stored_run_replays_and_forks(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    script = {"Writer": ["one", leave("enough", result="two")], "Reviewer": "more"}
    first = run_conversation(cycle(), script, store=store).result

    async def later() -> None:
        async with roundel.Runs(store) as runs:
            assert await runs.replay(first.run_id) is None
            other = await runs.fork(first.run_id, "Writer[2]/Writer")
            again = await runs.resume(other)
            assert (again.output, again.loops) == (first.output, first.loops)
            assert await runs.replay(other) is None
            after = await runs.resume(await runs.fork(first.run_id, "Out"))
            assert (after.output, after.nodes) == (first.output, first.nodes)

    asyncio.run(later())


def test_retry_after_a_misplaced_break_makes_the_call_again(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    calls: list[str] = []

    def finish(word: str) -> Any:
        """Ends it, the first time."""
        calls.append(word)
        return roundel.break_loop(word) if len(calls) == 1 else "fine"

    graph = cycle(finish, exit_edge=False)
    script = {"Writer": ["one", wants("finish", word="tea"), "two"], "Reviewer": ["more", "never"]}
    first = run_conversation(graph, script, store=store).result
    assert first.status == "failed"

    async def later() -> roundel.Result:
        async with roundel.Runs(store) as runs:
            return await runs.retry(first.run_id, workflow=graph)

    result = asyncio.run(later())
    assert (result.status, result.output, calls) == ("completed", "never", ["tea", "tea"])
    assert result.nodes == {"Writer": 2, "Reviewer": 2, "Out": 1}


def test_error_edge_handles_a_misplaced_break() -> None:
    graph = cycle(stop, exit_edge=False).node("Help", "passthrough").edge("Writer", "Help", port="error")
    result = run_conversation(graph, {"Writer": wants("stop", word="x")}).result
    assert (result.status, result.nodes) == ("completed", {"Writer": 1, "Help": 1})
