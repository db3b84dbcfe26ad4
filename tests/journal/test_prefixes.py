"""Random workflows in a real store: a run resumes to the same end from any prefix of its journal."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.hosts.engine import RunSpec, make_result
from roundel.hosts.stored_run import Origin, create, open_run, pin, read_events
from roundel.journal import run_journal as snapshots_module
from roundel.journal.run_journal import pack
from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import Chunk, Claim, StoreError
from roundel.kernel.events import Event
from roundel.kernel.facts import Entry, Started, encode_entry
from roundel.llm.script import Script, script_from
from roundel.nodes import TYPES
from roundel.workflow.graph import Workflow
from roundel.workflow.loader import from_mapping
from roundel.workflow.message import Message
from tests.events import without_figures
from tests.journal.stores import resumed, using
from tests.kernel import graphs, loop_agents
from tests.kernel.reference import FAILS, wanted
from tests.kernel.simulator import timeless

Case = tuple[Workflow, str, Script]


def line(text: str) -> Any:
    if text.startswith(FAILS):
        return {"error": text}
    tools = wanted(text)
    return {"text": text, "tool_calls": [{"name": name} for name in tools]} if tools else text


def scripted(replies: dict[str, list[str]]) -> Script:
    return script_from({name: [line(text) for text in texts] for name, texts in replies.items()})


def graph_case(seed: int) -> Case:
    workflow, text, replies = graphs.case_with_tools(seed) if seed % 2 else graphs.case(seed)
    return from_mapping(workflow, TYPES), text, scripted(replies)


def loop_case(seed: int) -> Case:
    workflow, text, replies, _ = loop_agents.case(seed, tools=bool(seed % 2))
    return from_mapping(workflow, TYPES, loop_agents.FUNCTIONS), text, scripted(replies)


CASES: dict[str, Callable[[int], Case]] = {"graphs": graph_case, "loop agents": loop_case}


def cases(kind: str, first: int, count: int) -> Iterator[tuple[int, Case]]:
    """Those that `roundel check` would let pass."""
    seeds = itertools.count(first)
    while count:
        seed = next(seeds)
        case = CASES[kind](seed)
        if roundel.check(case[0])[1].ok:
            count -= 1
            yield seed, case


async def echo_answer(question: roundel.Question) -> str:
    """Says what it is told."""
    return question.inputs[-1].text if question.inputs else ""


def by_place(trace: list[Event]) -> dict[str, list[Any]]:
    """What happened at each address: the same whatever happened at the same time elsewhere."""
    places: dict[str, list[Any]] = {}
    for event in trace:
        if event.address is not None:
            places.setdefault(event.address, []).append(
                (event.event, event.node_id, without_figures(timeless(event.data)))
            )
    return places


def check(result: roundel.Result, trace: list[Event], other: roundel.Result, expected: list[Event]) -> None:
    assert [event.seq for event in trace] == list(range(1, len(trace) + 1))
    if other.status != "completed":
        # Where two branches would fail, or meet a limit, whichever is first ends the run.
        assert result.status in ("failed", "suspended_locked")
        return
    assert result.summary == other.summary
    assert by_place(trace) == by_place(expected)


class Ended(StoreError):
    """The store takes no more."""


class Failing(SqliteStore):
    """A store that takes so many chunks and no more."""

    left = 0

    async def append(self, claim: Claim, first: int, chunk: Chunk, *reported: Any) -> int:
        self.left -= 1
        if not self.left:
            raise Ended
        return await super().append(claim, first, chunk, *reported)


async def resume_from_entries(
    store: SqliteStore, case: Case, entries: list[Entry], name: str
) -> roundel.Result | None:
    """Resumes a run whose journal holds these entries; None if it is locked by then."""
    workflow, _, script = case
    (started, decisions), *rest = entries
    assert isinstance(started, Started)
    first = Entry(Started(name, started.input, started.time), decisions)
    written = Chunk(len(entries), pack(map(encode_entry, (first, *rest))))
    plan = roundel.prepare(workflow)
    pinned = pin(plan, script)
    await (
        await create(store, name, RunSpec(plan, started.input), pinned, origin=Origin("", "", (written,)))
    ).close()
    if (await open_run(store, name)).state.status == "suspended_locked":
        return None
    return await resumed(store, name, workflow=workflow, ask=echo_answer)


@pytest.mark.parametrize("kind", CASES)
def test_resuming_from_any_prefix_of_the_facts_gives_the_same_result(kind: str, tmp_path: Path) -> None:
    prefixes = 0

    async def story(store: SqliteStore) -> None:
        nonlocal prefixes
        for seed, case in cases(kind, 0, 50):
            workflow, text, script = case
            whole = await roundel.run_async(workflow, text, script=script, store=store, ask=echo_answer)
            trace = await read_events(store, whole.run_id)
            entries = await store.entries(whole.run_id)
            chance = random.Random(seed)
            for length in sorted(chance.sample(range(1, len(entries)), min(12, len(entries) - 1))):
                name = f"{seed} {length}"
                result = await resume_from_entries(store, case, entries[:length], name)
                if result is None:  # locked, while calls in flight had still to report
                    assert whole.status == "suspended_locked"
                    pairs = zip(await read_events(store, name), trace, strict=False)
                    assert all((mine.event, mine.data) == (other.event, other.data) for mine, other in pairs)
                    continue
                check(result, await read_events(store, name), whole, trace)
                prefixes += 1

    asyncio.run(using(tmp_path / "runs.db", story))
    assert prefixes > 200


async def resume_until_done(
    store: Failing, run_id: str, workflow: Workflow, chance: random.Random, shown: list[Event]
) -> int:
    """Goes on, and is cut off, until it is over; how often there was a snapshot."""
    snapshots = 0
    while (await open_run(store, run_id)).state.status in ("running", "waiting"):
        snapshots += await store.snapshot(run_id) is not None
        store.left = chance.randint(2, 6)
        with contextlib.suppress(Ended):
            await resumed(store, run_id, workflow=workflow, ask=echo_answer, on_event=shown.append)
    return snapshots


@pytest.mark.parametrize("kind", CASES)
def test_repeatedly_interrupted_run_with_frequent_snapshots_completes(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots_module, "SNAPSHOT_FACTS", 2)
    monkeypatch.setattr(snapshots_module, "SNAPSHOT_SHARE", 0)
    snapshots = 0

    async def story() -> None:
        nonlocal snapshots
        for seed, (workflow, text, script) in cases(kind, 100, 40):
            store = Failing(tmp_path / f"{seed}.db", sync="off")
            whole = await roundel.run_async(workflow, text, script=script, store=store, ask=echo_answer)
            trace = await read_events(store, whole.run_id)
            chance = random.Random(seed)
            store.left = chance.randint(1, 4)
            shown: list[Event] = []
            try:
                result = await roundel.run_async(
                    workflow, text, script=script, store=store, ask=echo_answer, on_event=shown.append
                )
            except Ended:
                run_id = (await store.rows())[0].id
                snapshots += await resume_until_done(store, run_id, workflow, chance, shown)
                result = make_result((await open_run(store, run_id)).state)
            again = await read_events(store, result.run_id)
            check(result, again, whole, trace)
            assert all(again[event.seq - 1] == event for event in shown if event.seq)
            await store.close()

    asyncio.run(story())
    assert snapshots > 20


def test_resuming_a_run_that_completed_without_calls_reports_it_as_over(tmp_path: Path) -> None:
    """It was killed before it could say so."""
    config = {"strategy": {"mode": "array"}, "body": {"id": "B", "type": "agent"}}
    node = {"id": "Each", "type": "loop_agent", "config": config}
    workflow = {"graph": {"nodes": [node], "start": "Each"}}

    async def story(store: SqliteStore) -> None:
        plan = roundel.prepare(workflow)
        pinned = pin(plan, script_from({}))
        await (await create(store, "run", RunSpec(plan, (Message("[]"),)), pinned)).close()
        assert (await store.row("run")).status == "running"
        with pytest.raises(StoreError, match="run run is over: it is completed"):
            await resumed(store, "run")
        assert (await store.row("run")).status == "completed"

    asyncio.run(using(tmp_path / "runs.db", story))
