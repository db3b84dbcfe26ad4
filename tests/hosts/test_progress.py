"""`roundel.progress`: what functions say about their progress while they run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.nodes.user_code import MAX_PENDING_REPORTS
from tests.nodes.conversations import agent, run_conversation, wants


def node(function: Callable[..., Any], **settings: Any) -> roundel.Graph:
    """One python node `Work`."""
    graph = roundel.Graph(start="Work", end="Work", breaker=False, **settings)
    graph.function("Work")(function)
    return graph


def reports(workflow: Any, script: Any = None, **given: Any) -> list[tuple[str, dict[str, Any]]]:
    """The addresses and the data of the reports of a run."""
    story = run_conversation(workflow, script, **given)
    assert story.result.status == "completed", story.result.error
    assert {event.seq for event in story.named("progress")} <= {0}
    return [(str(event.address), event.fields()) for event in story.named("progress")]


def count(text: str) -> str:
    for number in range(3):
        roundel.progress(f"step {number}", number / 2)
    return text


async def count_async(text: str) -> str:
    await asyncio.sleep(0)
    return count(text)


STEPS = [{"text": f"step {number}", "fraction": number / 2} for number in range(3)]


@pytest.mark.parametrize("function", [count, count_async])
def test_function_of_a_node_reports_its_progress(function: Callable[..., Any]) -> None:
    assert reports(node(function)) == [("Work", data) for data in STEPS]


def test_report_comes_between_the_start_and_the_end_of_its_node() -> None:
    story = run_conversation(node(count), None)
    names = [event.fields().get("status") or event.event for event in story.events]
    assert names[1:6] == ["running", "progress", "progress", "progress", "completed"]
    assert [event.node_id for event in story.named("progress")] == ["Work"] * 3


@pytest.mark.parametrize("function", [count, count_async])
def test_tool_reports_at_the_address_of_its_call(function: Callable[..., Any]) -> None:
    function_name = function.__name__
    asks = wants(function_name, text="x")
    asks["tool_calls"] *= 2
    found = reports(agent(function), {"A": [asks, "done"]})
    for address in (f"A[1]/{function_name}", f"A[1]/{function_name}#2"):
        assert [data for place, data in found if place == address] == STEPS
    assert len(found) == 6


def test_functions_beside_nodes_report_too() -> None:
    """A condition, a processor, a hook of middleware and a converter of a loop agent."""

    def is_good(message: roundel.Message) -> bool:
        roundel.progress("condition")
        return True

    def shorten(message: roundel.Message) -> str:
        roundel.progress("processor")
        return "short"

    def elements(messages: tuple[roundel.Message, ...]) -> list[str]:
        roundel.progress("converter")
        return ["x"]

    class Check(roundel.Middleware):
        async def before(self, visit: roundel.Visit) -> None:
            roundel.progress("middleware")

    graph = roundel.Graph(start="Work", end="Each")
    graph.function("Work")(lambda text: text)
    graph.add(roundel.LoopAgent("Each", lambda text: text, roundel.LoopMode.array(elements)))
    graph.edge("Work", "Each", condition=is_good, process=shorten)
    found = reports(graph, middleware=[Check()])
    texts = [(address, data["text"]) for address, data in found]
    assert texts[:4] == [
        ("Work", "middleware"),
        ("Work", "condition"),
        ("Work", "processor"),
        ("Each", "middleware"),
    ]
    assert ("Each", "converter") in texts


def test_parallel_functions_report_at_their_own_addresses() -> None:
    together = threading.Barrier(3)

    def meet(text: str) -> str:
        together.wait(10)
        roundel.progress(text)
        together.wait(10)
        return text

    body = roundel.LoopAgent("Each", meet, roundel.LoopMode.array(max_parallel=3))
    found = reports(body, input='["a", "b", "c"]')
    assert len(found) == 3
    assert {data["text"]: address for address, data in found} == {
        text: f"Each[{number}]/meet" for number, text in enumerate("abc", 1)
    }


def test_functions_on_an_executor_report_from_threads() -> None:
    with ThreadPoolExecutor(1) as pool:
        body = roundel.LoopAgent("Each", count, roundel.LoopMode.count(1), executor=pool)
        assert [data for _, data in reports(body)] == STEPS


def test_run_inside_of_a_function_reports_to_itself() -> None:
    inner: list[roundel.Event] = []

    def outer(text: str) -> str:
        roundel.progress("before")
        roundel.run(node(count), on_event=inner.append)
        roundel.progress("after")
        return text

    assert [data["text"] for _, data in reports(node(outer))] == ["before", "after"]
    assert [event.fields() for event in inner if event.event == "progress"] == STEPS


def test_report_after_the_end_of_the_call_is_dropped() -> None:
    late: list[asyncio.Task[None]] = []

    async def report_later() -> None:
        await asyncio.sleep(0.01)
        roundel.progress("too late")

    async def begin(text: str) -> str:
        late.append(asyncio.ensure_future(report_later()))
        return text

    async def end(text: str) -> str:
        await late[0]
        return text

    graph = roundel.Graph(start="Begin", end="End")
    graph.function("Begin")(begin)
    graph.function("End")(end)
    assert reports(graph.edge("Begin", "End")) == []


def test_outside_of_a_run_progress_has_no_effect() -> None:
    roundel.progress("nobody listens")
    roundel.progress("nobody listens", 0.5)


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan"), 50])
def test_fraction_out_of_range_is_an_error(fraction: float) -> None:
    with pytest.raises(ValueError, match="'fraction' must be from 0 to 1"):
        roundel.progress("x", fraction)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_many_reports_do_not_break_the_run(asynchronous: bool) -> None:
    many = 100_000

    def flood(text: str) -> str:
        for number in range(many):
            roundel.progress(str(number), number / many)
        return text

    async def flood_async(text: str) -> str:
        return flood(text)

    found = reports(node(flood_async if asynchronous else flood))
    numbers = [int(data["text"]) for _, data in found]
    assert numbers == sorted(set(numbers)), "in order"
    assert numbers[-1] == many - 1, "the latest is not dropped"
    assert len(numbers) == many if asynchronous else len(numbers) >= MAX_PENDING_REPORTS


def test_secrets_and_invalid_text_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEA_API_KEY", "sk-tea-0123456789abcdef")

    def tell(text: str) -> str:
        roundel.progress("the key is sk-tea-0123456789abcdef \ud800")
        return text

    graph = node(tell)
    graph.node("Reader", "agent", role="${TEA_API_KEY}")
    graph.edge("Work", "Reader")
    ((_, data),) = reports(graph, {"Reader": "ok"})
    assert "0123456789" not in data["text"]
    data["text"].encode()


def test_node_that_does_not_log_its_output_reports_nothing() -> None:
    graph = roundel.Graph(start="Work", end="Work")
    graph.node("Work", "python", function=count, log_output=False)
    assert reports(graph) == []


def test_reports_are_not_stored(tmp_path: Path) -> None:
    store = str(tmp_path / "runs.db")
    story = run_conversation(node(count), None, store=store)
    assert len(story.named("progress")) == 3

    async def stored() -> list[roundel.Event]:
        async with roundel.Runs(store) as runs:
            return await runs.events(story.result.run_id)

    assert [event.event for event in asyncio.run(stored())] == [
        event.event for event in story.events if event.seq
    ]
