"""Failed items of lists are retried alone, in a new run that keeps the items that succeeded."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.hosts.stored_run import open_run
from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import Chunk, Claim
from roundel.runs.failed_items import fork_failed_items
from roundel.runs.runs import Runs
from tests.kernel.frozen import copied

ITEMS = '["ant", "bee", "cat", "dog"]'


def using(tmp_path: Path, story: Callable[[Runs], Awaitable[None]]) -> None:
    async def work() -> None:
        async with Runs(tmp_path / "runs.db") as runs:
            await story(runs)

    asyncio.run(work())


class Shop:
    """A workflow whose functions count their calls, and fail for some items until they are repaired."""

    def __init__(self, *broken: str) -> None:
        self.calls: Counter[str] = Counter()
        self.broken = set(broken)

    def call(self, name: str, text: str) -> str:
        self.calls[f"{name} {text}"] += 1
        if f"{name} {text}" in self.broken:
            raise ConnectionError(f"{name} is busy")
        return f"{name}({text})"

    def step(self, name: str) -> Any:
        def function(text: str) -> str:
            return self.call(name, text)

        function.__name__ = name
        return function

    def repair(self) -> Counter[str]:
        """Repairs everything; returns the calls so far."""
        self.broken.clear()
        made, self.calls = self.calls, Counter()
        return made


def body(shop: Shop, *names: str) -> roundel.Graph:
    graph = roundel.Graph("body", start=names[0], end=names[-1])
    for name in names:
        graph.node(name, "python", function=shop.step(name))
    for one, other in pairwise(names):
        graph.edge(one, other)
    return graph


def listing(shop: Shop, *names: str, **strategy: Any) -> roundel.Graph:
    """A list of items, each handled by nodes one after the other, and a node that follows the list."""
    settings = {"mode": "array", "on_error": "null", **strategy}
    graph = roundel.Graph("listing", start="Before", end="After")
    graph.node("Before", "python", function=lambda text: shop.call("before", "list") and text)
    graph.node("Each", "loop_agent", body=body(shop, *names), strategy=settings)
    graph.node("After", "python", function=lambda text: shop.call("after", "list") and text)
    return graph.edge("Before", "Each").edge("Each", "After")


async def start(runs: Runs, graph: roundel.Graph, text: str = ITEMS) -> roundel.Result:
    return await runs.result(await runs.start(graph, text))


@pytest.mark.parametrize("max_parallel", [1, 2, 10])
@pytest.mark.parametrize("on_error", ["null", "drop"])
def test_only_failed_items_and_what_follows_run_again(
    tmp_path: Path, max_parallel: int, on_error: str
) -> None:
    shop = Shop("rate bee", "rate dog")
    graph = listing(shop, "rate", max_parallel=max_parallel, on_error=on_error)

    async def story(runs: Runs) -> None:
        first = await start(runs, graph)
        gaps = ["rate(ant)", None, "rate(cat)", None]
        kept = gaps if on_error == "null" else [one for one in gaps if one is not None]
        assert (first.status, json.loads(first.output)) == ("completed", kept)
        shop.repair()
        again = await runs.retry(first.run_id, failed_items=True, workflow=graph)
        assert again.status == "completed"
        assert json.loads(again.output) == ["rate(ant)", "rate(bee)", "rate(cat)", "rate(dog)"]
        assert shop.calls == {"rate bee": 1, "rate dog": 1, "after list": 1}
        # The old run stays as it was, and the new one says where it comes from.
        assert again.run_id != first.run_id
        assert (await runs.result(first.run_id)).output == first.output
        assert (await runs.row(again.run_id)).parent == first.run_id

    using(tmp_path, story)


@pytest.mark.parametrize("max_parallel", [1, 3])
def test_finished_nodes_of_a_failed_item_are_kept(tmp_path: Path, max_parallel: int) -> None:
    shop = Shop("rate fetch(bee)", "rate fetch(dog)")
    graph = listing(shop, "fetch", "rate", "note", max_parallel=max_parallel)

    async def story(runs: Runs) -> None:
        first = await start(runs, graph)
        shop.repair()
        again = await runs.retry(first.run_id, failed_items=True, workflow=graph)
        assert None not in json.loads(again.output)
        failed = ("bee", "dog")
        assert shop.calls == {
            **{f"rate fetch({item})": 1 for item in failed},
            **{f"note rate(fetch({item}))": 1 for item in failed},
            "after list": 1,
        }

    using(tmp_path, story)


def test_items_that_fail_again_can_be_retried_again(tmp_path: Path) -> None:
    shop = Shop("rate bee", "rate dog")
    graph = listing(shop, "rate")

    async def story(runs: Runs) -> None:
        first = await start(runs, graph)
        shop.broken.remove("rate bee")
        second = await runs.retry(first.run_id, failed_items=True, workflow=graph)
        assert json.loads(second.output) == ["rate(ant)", "rate(bee)", "rate(cat)", None]
        shop.repair()
        third = await runs.retry(second.run_id, failed_items=True, workflow=graph)
        assert json.loads(third.output) == ["rate(ant)", "rate(bee)", "rate(cat)", "rate(dog)"]
        assert shop.calls == {"rate dog": 1, "after list": 1}
        with pytest.raises(roundel.StoreError, match="no item of a list failed in run"):
            await runs.retry(third.run_id, failed_items=True, workflow=graph)

    using(tmp_path, story)


@pytest.mark.parametrize("max_parallel", [1, 4])
def test_nested_lists(tmp_path: Path, max_parallel: int) -> None:
    """In each failed shelf only the failed book is handled again, and what follows the list of books."""
    shop = Shop("read b", "read e")
    inner = roundel.Graph("shelf", start="Open", end="Close")
    inner.node("Open", "python", function=lambda text: shop.call("open", text) and text)
    strategy = {"mode": "array", "on_error": "null"}
    inner.node("Books", "loop_agent", body=body(shop, "read"), strategy=strategy)
    inner.node("Close", "python", function=lambda text: shop.call("close", text) and text)
    inner.edge("Open", "Books").edge("Books", "Close")
    outer = {**strategy, "max_parallel": max_parallel}
    graph = roundel.Graph("library", start="Shelves", end="Shelves")
    graph.node("Shelves", "loop_agent", body=inner, strategy=outer)

    async def story(runs: Runs) -> None:
        first = await start(runs, graph, '[["a", "b"], ["c", "d"], ["e", "f"]]')
        assert json.loads(first.output) == [["read(a)", None], ["read(c)", "read(d)"], [None, "read(f)"]]
        shop.repair()
        again = await runs.retry(first.run_id, failed_items=True, workflow=graph)
        shelves = [["read(a)", "read(b)"], ["read(c)", "read(d)"], ["read(e)", "read(f)"]]
        assert json.loads(again.output) == shelves
        closed = [f'close ["read({one})", "read({two})"]' for one, two in ("ab", "ef")]
        assert shop.calls == {"read b": 1, "read e": 1, **dict.fromkeys(closed, 1)}

    using(tmp_path, story)


def test_list_in_a_loop_repeats_the_rounds_that_followed(tmp_path: Path) -> None:
    shop = Shop("rate bee")
    graph = roundel.Graph("looped", start="Each", end="Done")
    strategy = {"mode": "array", "on_error": "null", "items": '["ant", "bee"]'}
    graph.node("Each", "loop_agent", body=body(shop, "rate"), strategy=strategy)
    graph.node("Look", "python", function=lambda text: shop.call("look", "list") and text)
    graph.node("Gate", "loop", max_rounds=2)
    graph.node("Done", "passthrough")
    graph.edge("Each", "Look").edge("Look", "Gate")
    graph.edge("Gate", "Each", port="continue").edge("Gate", "Done", port="exit")

    async def story(runs: Runs) -> None:
        first = await start(runs, graph, "go")
        assert first.status == "completed"
        shop.repair()
        await runs.retry(first.run_id, failed_items=True, workflow=graph)
        # Round 1 keeps the ant; round 2 follows the list of round 1.
        assert shop.calls == {"rate bee": 2, "rate ant": 1, "look list": 2}

    using(tmp_path, story)


def test_branches_beside_the_list_are_kept(tmp_path: Path) -> None:
    shop = Shop("rate bee")
    graph = listing(shop, "rate")
    graph.node("Side", "python", function=lambda text: shop.call("side", "list") and text)
    graph.edge("Before", "Side").edge("Side", "After")

    async def story(runs: Runs) -> None:
        first = await start(runs, graph)
        shop.repair()
        await runs.retry(first.run_id, failed_items=True, workflow=graph)
        assert shop.calls == {"rate bee": 1, "after list": 1}

    using(tmp_path, story)


def test_failed_run_is_retried_as_before(tmp_path: Path) -> None:
    shop = Shop("rate bee")
    graph = listing(shop, "rate", on_error="stop")

    async def story(runs: Runs) -> None:
        first = await start(runs, graph)
        assert first.status == "failed"
        shop.repair()
        again = await runs.retry(first.run_id, failed_items=True, workflow=graph)
        assert (again.run_id, again.status) == (first.run_id, "completed")
        assert shop.calls == {"rate bee": 1, "rate cat": 1, "rate dog": 1, "after list": 1}

    using(tmp_path, story)


def test_script_has_another_reply_for_a_retried_call(tmp_path: Path) -> None:
    graph = roundel.Graph(start="Each", end="Each")
    inner = roundel.Graph("body", start="Rate", end="Rate").node("Rate", "agent")
    graph.node("Each", "loop_agent", body=inner, strategy={"mode": "array", "on_error": "null"})
    script = {"Rate": ["one", {"error": "busy"}, "three", {"error": "busy"}, "five", "six"]}

    async def story(runs: Runs) -> None:
        run_id = await runs.start(graph, ITEMS, script=script)
        assert json.loads((await runs.result(run_id)).output) == ["one", None, "three", None]
        again = await runs.retry(run_id, failed_items=True)
        assert json.loads(again.output) == ["one", "five", "three", "six"]
        # Usage counts the kept calls once, and the two new ones.
        assert again.usage["model_calls"] == 6, "with the two that had failed"
        retried = [
            event.address
            for event in await runs.events(again.run_id)
            if event.event == "node_state_change" and event.fields().get("retried")
        ]
        assert retried == ["Each[2]/Rate", "Each[4]/Rate"]

    using(tmp_path, story)


def test_agent_continues_in_its_round_of_tools(tmp_path: Path) -> None:
    calls: list[str] = []

    def weigh(item: str) -> str:
        calls.append(item)
        return f"{item} weighs 3 g"

    inner = roundel.Graph("body", start="Rate", end="Rate", tools={"weigh": weigh})
    inner.node("Rate", "agent", tools=["weigh"])
    graph = roundel.Graph(start="Each", end="Each")
    graph.node("Each", "loop_agent", body=inner, strategy={"mode": "array", "on_error": "drop"})
    ask = {"tool_calls": [{"name": "weigh", "arguments": {"item": "bee"}}]}
    script = {"Rate": ["light", ask, {"error": "busy"}, "heavy", "tiny"]}

    async def story(runs: Runs) -> None:
        run_id = await runs.start(graph, '["ant", "bee", "cat"]', script=script)
        assert json.loads((await runs.result(run_id)).output) == ["light", "heavy"]
        again = await runs.retry(run_id, failed_items=True, workflow=graph)
        assert json.loads(again.output) == ["light", "tiny", "heavy"]
        assert calls == ["bee"]

    using(tmp_path, story)


def test_run_without_failed_items_and_run_that_is_not_over(tmp_path: Path) -> None:
    graph = roundel.Graph(start="Ask", end="Ask").node("Ask", "human")

    async def story(runs: Runs) -> None:
        run_id = await runs.start(graph, "hello")
        assert (await runs.result(run_id)).status == "waiting"
        with pytest.raises(
            roundel.StoreError, match="is waiting; its failed items can be retried when it is over"
        ):
            await runs.retry(run_id, failed_items=True)

    using(tmp_path, story)


def test_condition_that_cannot_be_evaluated_needs_another_workflow(tmp_path: Path) -> None:
    shop = Shop()
    inner = body(shop, "rate")
    inner.node("Good", "passthrough").edge("rate", "Good", condition={"cel": "data.score > 1"})
    graph = roundel.Graph(start="Each", end="Each")
    graph.node("Each", "loop_agent", body=inner, strategy={"mode": "array", "on_error": "null"})

    async def story(runs: Runs) -> None:
        first = await start(runs, graph, '["ant", "bee"]')
        assert json.loads(first.output) == [None, None]
        with pytest.raises(roundel.StoreError, match=r"would fail again.*--workflow FILE"):
            await runs.retry(first.run_id, failed_items=True, workflow=graph)
        shop.repair()
        inner._edges[0]["condition"] = {"cel": "!has(data.score)"}
        again = await runs.retry(first.run_id, failed_items=True, workflow=graph)
        assert json.loads(again.output) == ["rate(ant)", "rate(bee)"]
        assert shop.calls == {}

    using(tmp_path, story)


class Died(roundel.StoreError):
    """The store takes no more."""


class Failing(SqliteStore):
    """A store that takes so many chunks and no more, as if the process had died."""

    left = 10_000

    async def append(self, claim: Claim, first: int, chunk: Chunk, *reported: Any) -> int:
        self.left -= 1
        if self.left <= 0:
            raise Died
        return await super().append(claim, first, chunk, *reported)


@pytest.mark.parametrize("chunks", range(1, 9))
def test_a_crash_during_the_retry_repeats_no_finished_item(tmp_path: Path, chunks: int) -> None:
    shop = Shop("rate fetch(bee)", "rate fetch(dog)")
    graph = listing(shop, "fetch", "rate")

    async def die() -> str:
        store = Failing(tmp_path / "runs.db")
        async with Runs(store) as runs:
            first = await start(runs, graph)
            shop.repair()
            new = await fork_failed_items(store, first.run_id, workflow=graph)
            store.left = chunks
            with contextlib.suppress(roundel.StoreError):
                await runs.resume(new, workflow=graph)
        await store.close()
        return new

    new = asyncio.run(die())

    async def story(runs: Runs) -> None:
        if (await runs.row(new)).status == "running":
            await runs.resume(new, workflow=graph)
        result = await runs.result(new)
        assert json.loads(result.output) == [f"rate(fetch({one}))" for one in ("ant", "bee", "cat", "dog")]
        # What was in flight when the process died is made again, and nothing else.
        assert set(shop.calls) == {"rate fetch(bee)", "rate fetch(dog)", "after list"}
        assert shop.calls.total() <= 4
        assert await runs.replay(new, workflow=graph) is None

    using(tmp_path, story)


def test_inherited_results_are_part_of_a_snapshot(tmp_path: Path) -> None:
    shop = Shop("rate bee")
    graph = listing(shop, "rate")

    async def story(runs: Runs) -> None:
        first = await start(runs, graph)
        new = await fork_failed_items(runs.store, first.run_id, workflow=graph)
        state = (await open_run(runs.store, new)).state
        assert sorted(state.inherited) == ["Each[3]/rate", "Each[4]/rate"]
        assert copied(state, state.plan).inherited == state.inherited

    using(tmp_path, story)
