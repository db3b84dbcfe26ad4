"""Two people who debug one run at the same time: nothing is done twice, and nothing is lost silently."""

from __future__ import annotations

import asyncio
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

import roundel
from roundel.hosts import control
from roundel.hosts.control import EditConflict
from roundel.journal.store import StoreError
from roundel.kernel.facts import BreakpointsChanged, Resumed, Stepped, WaitingEdited
from tests.hosts.debug_controller import Controller
from tests.runs import debug_workflows
from tests.runs.debug_workflows import FUNCTIONS, PARALLEL, Bench, assert_same_trace, begin, ready, says

ROOT = Path(__file__).parents[2]
CALLS = sorted(f"W[{number}]/{name}" for number in (1, 2, 3) for name in "WBC")
REFUSALS = [
    r"another process owns run \w+ \(process \d+\); try again",
    r"another process (owns|executes) run \w+.*; `roundel log \w+ --follow` follows it",
    r"run \w+ is running; `roundel pause \w+` pauses it, and then it can take steps",
    r"run \w+: the run is not paused; it is running",
    r"run \w+ is over: it is completed; `roundel fork \w+ --at ADDRESS` starts a new one from any .*",
    r"run \w+ is over: it is completed; it cannot reach a breakpoint",
    r"run \w+ has no breakpoint 'W'; it has .*",
    r"the messages of run \w+ can be edited while it is paused or locked; it is (running|completed)",
    r"no message waits at '.+'",
    r"the messages at '.+' have the numbers 0 to \d+, not \d+",
    r"no node '.+' is in a part of the run that is active; messages wait at .+",
    r"conflict: message \d+ at '.+' was changed meanwhile; it is now: go\+*",
]
"""Everything that may be said to somebody whose request comes too late."""


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "POLL_SECONDS", 0.01)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    fresh = Bench()
    monkeypatch.setattr(debug_workflows, "bench", fresh)
    return fresh


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/runs.db?sync=off"


async def check_end(
    runs: roundel.Runs, run_id: str, applied: Counter[str], refused: list[str], calls: list[str]
) -> None:
    """Each request was applied once or refused, each call made once, and the end is the usual one."""
    facts = Counter(type(entry.fact) for entry in await runs.store.entries(run_id))
    assert facts[Stepped] == applied["step"] + applied["round"]
    assert facts[Resumed] == applied["resume"]
    assert facts[BreakpointsChanged] == applied["set"] + applied["remove"]
    assert facts[WaitingEdited] == applied["edit"]
    for text in refused:
        reason = text.partition(": ")[2]
        assert any(re.fullmatch(pattern, reason) for pattern in REFUSALS), text
    assert sorted(calls) == CALLS
    row = await runs.row(run_id)
    assert (row.status, row.owner) == ("completed", "")
    undisturbed = await begin(runs, FUNCTIONS)
    await assert_same_trace(runs, run_id, undisturbed)
    assert await runs.replay(run_id) is None


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("place", ["file", "memory"])
def test_two_debuggers_in_one_process(place: str, seed: int, file: str, bench: Bench) -> None:
    """In a file each has a store of his own; in memory both use the same object."""

    async def story() -> None:
        async with roundel.Runs(file if place == "file" else "memory:") as one, roundel.Runs(file) as two:
            run_id = await begin(one, FUNCTIONS, breakpoints=["cel: true"])
            first = Controller(one, run_id, 2 * seed)
            second = Controller(two if place == "file" else one, run_id, 2 * seed + 1)
            await asyncio.gather(first.work(), second.work())
            applied, refused = first.applied + second.applied, first.refused + second.refused
            await check_end(one, run_id, applied, refused, list(bench.calls))

    asyncio.run(story())


def test_two_debuggers_in_two_processes(file: str) -> None:
    async def story() -> None:
        async with roundel.Runs(file) as runs:
            run_id = await begin(runs, FUNCTIONS, breakpoints=["cel: true"])
            command = [sys.executable, "-m", "tests.hosts.debug_process", "control", file, run_id]
            pipe = asyncio.subprocess.PIPE
            processes = [
                await asyncio.create_subprocess_exec(*command, seed, cwd=ROOT, stdin=pipe, stdout=pipe)
                for seed in "12"
            ]
            for process in processes:
                assert process.stdout is not None
                assert await process.stdout.readline() == b"ready\n"
            # The input is written to both before either of them is waited for.
            ends = await asyncio.gather(*(process.communicate(b"go\n") for process in processes))
            found: list[dict[str, Any]] = [msgspec.json.decode(output) for output, _ in ends]
            applied = Counter(found[0]["applied"]) + Counter(found[1]["applied"])
            await check_end(
                runs,
                run_id,
                applied,
                found[0]["refused"] + found[1]["refused"],
                found[0]["calls"] + found[1]["calls"],
            )

    asyncio.run(story())


def test_an_edit_of_a_message_that_somebody_else_has_edited_is_refused(file: str) -> None:
    async def story() -> None:
        async with roundel.Runs(file) as one, roundel.Runs(file) as two:
            run_id = await begin(one, PARALLEL, says(*"ABCD", "Join"), breakpoints=["Join"])
            seen = [(await runs.debug(run_id)).queues[0].messages[1] for runs in (one, two)]
            assert seen[0] == seen[1]
            after = await one.edit(run_id, "by one", position=1, version=seen[0].version)
            assert [message.text for message in after.queues[0].messages] == ["B 0", "by one", "D 0"]
            events = await one.events(run_id)
            with pytest.raises(EditConflict, match="1 at 'Join' was changed meanwhile; it is now: by one"):
                await two.edit(run_id, "by two", position=1, version=seen[1].version)
            assert await two.debug(run_id) == after
            assert await two.events(run_id) == events
            # Another message, and the same one in its new version.
            await two.edit(run_id, "by two", position=0, version=after.queues[0].messages[0].version)
            await two.edit(run_id, "by two as well", position=1, version=after.queues[0].messages[1].version)
            # What both want is no conflict, unless somebody has changed it meanwhile.
            with pytest.raises(EditConflict):
                await one.edit(
                    run_id, "by two as well", position=1, version=after.queues[0].messages[1].version
                )
            texts = [message.text for message in (await one.debug(run_id)).queues[0].messages]
            assert texts == ["by two", "by two as well", "D 0"]
            assert (await one.resume(run_id)).completed

    asyncio.run(story())


def test_of_two_edits_at_the_same_moment_one_is_refused(file: str) -> None:
    async def story() -> None:
        async with roundel.Runs(file) as one, roundel.Runs(file) as two:
            run_id = await begin(one, PARALLEL, says(*"ABCD", "Join"), breakpoints=["Join"])
            version = (await one.debug(run_id)).queues[0].messages[0].version
            outcomes = await asyncio.gather(
                one.edit(run_id, "by one", position=0, version=version),
                two.edit(run_id, "by two", position=0, version=version),
                return_exceptions=True,
            )
            refused = [outcome for outcome in outcomes if isinstance(outcome, StoreError)]
            assert len(refused) == 1
            texts = [
                event.fields()["text"]
                for event in await one.events(run_id)
                if event.event == "message_edited"
            ]
            assert texts == (["by two"] if refused[0] is outcomes[0] else ["by one"])

    asyncio.run(story())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"position": 3}, "the messages at 'Join' have the numbers 0 to 2, not 3"),
        ({"position": -1}, "the messages at 'Join' have the numbers 0 to 2, not -1"),
        ({"at": "Nobody"}, "no node 'Nobody' is in a part of the run that is active; messages wait at Join"),
        ({"at": "A"}, "no message waits at 'A'"),
        ({"at": "A", "position": 0, "version": "00000000"}, "no message waits at 'A'"),
        ({"version": "00000000"}, "message 2 at 'Join' was changed meanwhile; it is now: D 0"),
    ],
)
def test_an_edit_of_a_message_that_is_not_there_changes_nothing(
    options: dict[str, Any], text: str, file: str
) -> None:
    async def story() -> None:
        async with roundel.Runs(file) as runs:
            run_id = await begin(runs, PARALLEL, says(*"ABCD", "Join"), breakpoints=["Join"])
            before = await runs.debug(run_id)
            for change in ({"text": "edited"}, {"data": {"score": 1}}):
                with pytest.raises(StoreError) as caught:
                    await runs.edit(run_id, **change, **options)
                assert text in str(caught.value)
            assert await runs.debug(run_id) == before
            assert await ready(runs, run_id) == ["Join"]

    asyncio.run(story())
