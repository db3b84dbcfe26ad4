"""The local host: things at the same time, things that fail, things that are stopped."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.hosts.local_run import LocalRun
from roundel.llm.script import script_from
from roundel.workflow.message import Message
from tests.events import readable


def agents(*names: str) -> list[dict[str, Any]]:
    return [{"id": name, "type": "agent", "config": {}} for name in names]


def host_for(graph: roundel.Graph, **options: Any) -> LocalRun:
    return LocalRun(roundel.prepare(graph), **options)


def run_host(host: LocalRun) -> roundel.Result:
    return asyncio.run(host.run((Message("go"),)))


def diamond() -> roundel.Graph:
    graph = roundel.Graph(start="In", end="Join")
    graph.node("In", "passthrough").node("Join", "passthrough", only_last_message=False)
    return graph


def test_independent_nodes_run_concurrently() -> None:
    graph, seen = diamond(), []
    together = asyncio.Barrier(3)

    async def meet(text: str) -> str:
        async with asyncio.timeout(5):
            await together.wait()  # passes only if all three are at work at once
        seen.append(text)
        return text

    for name in ("A", "B", "C"):
        graph.node(name, "python", function=meet).edge("In", name).edge(name, "Join")
    result = roundel.run(graph, "go")
    assert result.status == "completed"
    assert len(seen) == 3


def test_slow_branch_does_not_delay_the_other() -> None:
    order: list[str] = []
    graph = roundel.Graph(start=["Slow", "Quick"], end="Last")

    @graph.function("Slow")
    async def slow() -> str:
        await asyncio.sleep(0.2)
        order.append("slow")
        return "slow"

    @graph.function("Quick")
    async def quick() -> str:
        order.append("quick")
        return "quick"

    @graph.function("Next")
    async def following() -> str:
        order.append("next")
        return "next"

    @graph.function("Last")
    async def last() -> str:
        order.append("last")
        return "last"

    graph.edge("Quick", "Next").edge("Next", "Last").edge("Slow", "Last")
    roundel.run(graph)
    assert order == ["quick", "next", "slow", "last"]


def test_inline_call_does_not_delay_a_queued_result() -> None:
    """Two calls end in the same turn; what follows from both must run side by side."""
    graph = roundel.Graph(start=["A", "B"], end="B2")
    together = asyncio.Barrier(2)

    async def at_once() -> str:
        return "x"

    async def meet() -> str:
        async with asyncio.timeout(5):
            await together.wait()
        return "met"

    for name, function in (("A", at_once), ("B", at_once), ("A2", meet), ("B2", meet)):
        graph.node(name, "python", function=function)
    graph.edge("A", "A2").edge("B", "B2")
    assert roundel.run(graph).output == "met"


def test_blocking_functions_run_concurrently() -> None:
    graph = diamond()
    together = threading.Barrier(4)

    def block() -> str:
        together.wait(timeout=20)  # passes only if all four are blocked at once
        return "done"

    for name in "ABCD":
        graph.node(name, "python", function=block).edge("In", name).edge(name, "Join")
    assert roundel.run(graph).status == "completed"


def test_a_node_that_raises_fails_the_run_with_its_address() -> None:
    graph = roundel.Graph(start="A", end="A")

    @graph.function("A")
    async def broken() -> str:
        raise ValueError("no such city")

    result = roundel.run(graph)
    assert result.status == "failed"
    assert result.error == "A: ValueError: no such city"
    assert result.output == ""


@pytest.mark.parametrize("way", ["cancelled", "exit"])
def test_node_raising_cancelled_or_system_exit_fails_without_hanging(way: str) -> None:
    graph = diamond()

    async def strange() -> str:
        await asyncio.sleep(0)
        raise asyncio.CancelledError if way == "cancelled" else SystemExit(3)

    async def fine() -> str:
        await asyncio.sleep(0.01)
        return "fine"

    graph.node("Strange", "python", function=strange).edge("In", "Strange").edge("Strange", "Join")
    graph.node("Fine", "python", function=fine).edge("In", "Fine").edge("Fine", "Join")
    result = roundel.run(graph)
    assert result.status == "failed"
    assert result.nodes["Fine"] == 1


def test_a_time_limit_on_a_node() -> None:
    graph = roundel.Graph(start="A", end="A")

    @graph.function("A", timeout=0.05)
    async def slow() -> str:
        await asyncio.sleep(10)
        return "late"

    result = roundel.run(graph)
    assert (result.status, result.error) == ("failed", "A: no answer after 0.05 seconds")


def test_failing_node_is_retried() -> None:
    graph, tries = roundel.Graph(start="A", end="A"), []

    @graph.function("A", retry={"max_attempts": 3, "min_wait_seconds": 0, "max_wait_seconds": 0})
    async def moody() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("busy")
        return "at last"

    result = roundel.run(graph)
    assert (result.output, len(tries), result.nodes) == ("at last", 3, {"A": 1})


def test_retry_attempts_are_limited() -> None:
    graph, tries = roundel.Graph(start="A", end="A"), []

    @graph.function("A", retry={"max_attempts": 2, "min_wait_seconds": 0, "max_wait_seconds": 0})
    async def hopeless() -> str:
        tries.append(1)
        raise ConnectionError("busy")

    assert roundel.run(graph).error == "A: ConnectionError: busy"
    assert len(tries) == 2


def test_cancelled_run_cancels_its_nodes_and_reports_stopped() -> None:
    stopped: list[str] = []
    graph = roundel.Graph(start=["A", "B"], end="A")

    async def endless(address: str) -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopped.append(address)
            raise
        return "never"

    graph.node("A", "python", function=endless).node("B", "python", function=endless)
    events: list[roundel.Event] = []
    host = host_for(graph, on_event=events.append)

    async def cancel_soon() -> None:
        task = asyncio.create_task(host.run((Message("go"),)))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel_soon())
    assert sorted(stopped) == ["A", "B"]
    assert host.result().status == "stopped"
    assert events[-1].event == "run_finished"
    assert events[-1].fields()["status"] == "stopped"


def test_an_endless_loop_of_quick_nodes_can_be_cancelled() -> None:
    graph = roundel.Graph(start="A", end="Out", limits={"rounds": 10**9})
    graph.node("A", "literal", content="a").node("B", "passthrough").node("Out", "passthrough")
    never = {"type": "keyword", "config": {"any": ["z"]}}
    graph.edge("A", "B").edge("B", "A").edge("B", "Out", condition=never)
    host = host_for(graph)

    async def cancel_soon() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(host.run((Message("go"),)), 0.2)

    asyncio.run(cancel_soon())
    assert host.result().status == "stopped"


def human_graph() -> roundel.Graph:
    graph = roundel.Graph(start="Ask", end="Out")
    graph.node("Ask", "human", description="Which colour?").node("Out", "passthrough")
    return graph.edge("Ask", "Out")


def test_run_without_an_ask_callback_waits() -> None:
    events: list[roundel.Event] = []
    result = run_host(host_for(human_graph(), on_event=events.append))
    assert result.status == "waiting"
    assert [event.event for event in events[-3:]] == [
        "human_input_required",
        "run_state_change",
        "run_progress",
    ]
    assert events[-3].fields()["prompt"] == "Which colour?"
    assert readable(events[-2]) == {"status": "waiting", "reason": "for Ask"}


def test_ask_callback_answers_a_human_node() -> None:
    async def ask(question: roundel.Question) -> str:
        assert (question.node_id, question.prompt) == ("Ask", "Which colour?")
        return "blue"

    events: list[roundel.Event] = []
    result = run_host(host_for(human_graph(), ask=ask, on_event=events.append))
    assert (result.status, result.output) == ("completed", "blue")
    states = [event.fields()["status"] for event in events if event.event == "run_state_change"]
    assert states == ["waiting", "running"]


def test_questions_are_asked_one_at_a_time() -> None:
    asking: list[int] = []
    graph = diamond()

    async def ask(question: roundel.Question) -> str:
        asking.append(1)
        assert sum(asking) == 1
        await asyncio.sleep(0.01)
        asking.append(-1)
        return question.node_id

    for name in "ABC":
        graph.node(name, "human").edge("In", name).edge(name, "Join")
    result = run_host(host_for(graph, ask=ask))
    assert result.status == "completed"
    assert result.output == "C"


def test_other_branches_continue_while_a_question_is_open() -> None:
    graph = human_graph()
    graph.node("Other", "literal", content="x").node("Beside", "passthrough").edge("Other", "Beside")
    graph.edge("Beside", "Out")
    mapping = graph.mapping()
    mapping["graph"]["start"] = ["Ask", "Other"]
    result = roundel.run(mapping)
    assert result.status == "waiting"
    assert result.nodes == {"Ask": 1, "Other": 1, "Beside": 1}


def test_all_missing_requirements_are_reported_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("ROUNDEL_MODEL", raising=False)
    file = tmp_path / "flow.yaml"
    file.write_text(
        "graph:\n"
        "  start: A\n"
        "  nodes:\n"
        "    - {id: A, type: agent}\n"
        "    - {id: B, type: python, config: {function: 'statistics:mode'}}\n"
        "    - {id: C, type: agent}\n"
        "    - {id: D, type: agent, config: {model: 'openai:gpt-4o'}}\n"
        "  edges: [{from: A, to: B}, {from: B, to: C}, {from: C, to: D}]\n"
    )
    with pytest.raises(roundel.WorkflowError) as caught:
        roundel.run(file, "go")
    found = [(diagnostic.line, diagnostic.message) for diagnostic in caught.value.diagnostics]
    assert [line for line, _ in found] == [4, 7]
    assert found[0][1] == "agents 'A' and 'C' have no model"
    assert "there is no key; set OPENAI_API_KEY" in found[1][1]
    # The three ways to give one, and a run without any.
    hint = caught.value.diagnostics[0].hint
    assert all(way in hint for way in ("models: {default:", "--model", "$ROUNDEL_MODEL", "--script"))


def test_state_of_long_loops_does_not_grow() -> None:
    """The queue, the marks and the activations after many rounds are those after a few."""
    sizes = []
    for rounds in (10, 3000):
        graph = roundel.Graph(start="A", end="Out", limits={"rounds": 10**6})
        graph.node("A", "literal", content="a").node("B", "passthrough").node("Out", "passthrough")
        graph.node("Gate", "loop_counter", max_iterations=rounds)
        graph.edge("A", "B").edge("B", "A").edge("B", "Gate").edge("Gate", "A").edge("Gate", "Out")
        host = host_for(graph)
        assert run_host(host).loops["A"]["rounds"] == rounds
        state = host.state
        assert state.root is not None
        sizes.append(
            (
                len(state.calls),
                len(state.ready_queue),
                len(state.held),
                sum(map(len, state.root.queues)),
                sum(map(len, state.root.arrivals)),
            )
        )
    # The counter's release message and the back edge's last one stay queued at A.
    assert sizes[0] == sizes[1]


def test_messages_that_will_be_cleared_do_not_accumulate() -> None:
    graph = roundel.Graph(start="Writer", end="Final", limits={"rounds": 10**6}, breaker=False)
    graph.node("Writer", "agent").node("Final", "passthrough")
    graph.node("Gate", "loop_counter", max_iterations=500)
    graph.edge("Writer", "Final", trigger=False, clear_context=True)
    graph.edge("Writer", "Writer").edge("Writer", "Gate").edge("Gate", "Writer")
    graph.edge("Gate", "Final", carry_data=False)
    most: list[int] = []

    def look(_event: roundel.Event) -> None:
        root = host.state.root
        most.append(max(map(len, root.arrivals)) if root else 0)

    script = script_from({"Writer": [f"draft {number}" for number in range(500)]})
    host = host_for(graph, script=script, on_event=look)
    result = run_host(host)
    assert result.output == "draft 499"
    assert max(most) <= 3


@pytest.mark.parametrize("kept", [False, True])
def test_a_cancelled_call_may_swallow_the_cancellation(tmp_path: Path, kept: bool) -> None:
    """Nobody waits for what it gives in the end."""
    late = asyncio.Event()

    async def work(text: str) -> str:
        if text == "1":
            return "stop"
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            late.set()
        return "late"

    async def wait(text: str) -> str:
        await late.wait()
        await asyncio.sleep(0.01)
        return text

    go_on, stop = ({"type": "keyword", "config": {key: ["stop"]}} for key in ("none", "any"))
    body = roundel.Graph(start="Work", end="On")
    body.node("Work", "python", function=work).node("On", "passthrough").node("Out", "break")
    body.edge("Work", "On", condition=go_on).edge("Work", "Out", condition=stop)
    graph = roundel.Graph(start="Each", end="Wait")
    graph.node("Each", "loop_agent", strategy={"mode": "array", "max_parallel": 2}, body=body)
    graph.node("Wait", "python", function=wait).edge("Each", "Wait")
    result = roundel.run(graph, "[1, 2]", store=tmp_path / "runs.db" if kept else None)
    assert (result.status, result.output) == ("completed", '["stop"]')


def test_node_raising_a_base_exception_fails_the_run() -> None:
    graph = diamond()

    async def leave(text: str) -> str:
        raise GeneratorExit

    for name in ("A", "B"):
        graph.node(name, "python", function=leave).edge("In", name).edge(name, "Join")

    async def story() -> roundel.Result:
        async with asyncio.timeout(30):
            return await roundel.run_async(graph, "go")

    result = asyncio.run(story())
    assert (result.status, result.error) == ("failed", "A: GeneratorExit")


def test_an_error_that_is_not_valid_text_is_stored_as_text(tmp_path: Path) -> None:
    graph = roundel.Graph(start="A", end="A")

    @graph.function("A")
    async def fail() -> str:
        raise ValueError("\ud800")

    result = roundel.run(graph, "go", store=tmp_path / "runs.db")
    assert (result.status, result.error) == ("failed", "A: ValueError: \\ud800")
