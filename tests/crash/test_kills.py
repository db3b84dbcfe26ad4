"""A run that is killed at any moment loses no result and repeats no completed call.

The story (story/workflow.yaml) is run in real processes that are ended by SIGKILL: at every event, before and
after every commit, before and after every effect of a tool, several times in a row, and at random moments.
Whatever happened, its end and its trace are those of the run that nobody disturbed. A second story
(failing/workflow.yaml) has failures that are handled, and some that fail the run, which is then retried. In a
third one (debugged/workflow.yaml) somebody debugs the run: takes steps, sets breakpoints and edits messages.
"""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from roundel.hosts.stored_run import read_events
from roundel.journal.sqlite import SqliteStore
from roundel.kernel.events import Event, decode_event
from tests.events import timeless

ROOT = Path(__file__).parents[2]
RANDOM_RUNS = 25
"""Each is killed at up to MOST_KILLS random moments."""
MOST_KILLS = 6
PACE = 0.002
Kill = tuple[str, int]
Report = Callable[[int], None]


def run_cases(cases: Iterable[dict[str, Any]]) -> None:
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    command = [sys.executable, "-m", "tests.crash.driver"]
    done = subprocess.run(command, input=lines, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class Story:
    """A run of the story, and what its processes left behind."""

    def __init__(
        self,
        folder: Path,
        width: int,
        kills: list[Kill],
        pace: float = 0.0,
        *,
        interrupted: bool = False,
        story: str = "story",
    ) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.case = {"folder": str(folder), "width": width, "kills": kills, "pace": pace}
        self.case["interrupted"] = interrupted
        self.case["story"] = story

    def lines(self, name: str) -> list[str]:
        file = self.folder / name
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else []

    @property
    def result(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads((self.folder / "result.json").read_text(encoding="utf-8"))
        return told

    @cached_property
    def trace(self) -> list[Event]:
        return asyncio.run(self._trace())

    async def _trace(self) -> list[Event]:
        store = SqliteStore(self.folder / "runs.db", sync="off")
        try:
            (row,) = await store.rows()
            assert row.owner == ""
            return await read_events(store, row.id)
        finally:
            await store.close()


def plain(event: Event) -> tuple[Any, ...]:
    left_out = ("deadline", "entry")
    data = {name: value for name, value in timeless(event.fields()).items() if name not in left_out}
    return event.event, event.node_id, event.address, data


def without_waits(trace: list[Event]) -> list[Event]:
    """Without the times at which a run waited for a person: after a kill, the deadline may have passed."""
    waits = [{"status": "waiting"}, {"status": "running", "reason": "timeout"}]
    return [
        event
        for event in trace
        if event.event != "run_state_change"
        or not any(wait.items() <= event.fields().items() for wait in waits)
    ]


def by_place(trace: list[Event]) -> dict[str | None, list[tuple[Any, ...]]]:
    """What happened at each address, in order: the same whatever else was at work at the same time."""
    places: dict[str | None, list[tuple[Any, ...]]] = {}
    for event in trace:
        if event.address is not None or event.event == "run_finished":
            places.setdefault(event.address, []).append(plain(event))
    return places


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Story]:
    """The story as it goes if nobody disturbs it, one after the other and several at a time."""
    stories = {width: Story(tmp_path_factory.mktemp("story") / str(width), width, []) for width in (1, 2)}
    run_cases(story.case for story in stories.values())
    return stories


def compare(story: Story, other: Story, *, in_order: bool) -> None:
    assert (story.result["status"], story.result["output"]) == ("completed", "the report")
    trace, expected = story.trace, other.trace
    assert [event.seq for event in trace] == list(range(1, len(trace) + 1))
    check_shown(story, trace)
    if story.case["interrupted"]:
        changes = [event.fields()["status"] for event in trace if event.event == "run_state_change"]
        assert changes == ["paused", "running"] * len(story.lines("killed"))
        trace = [event for event in trace if event.event != "run_state_change"]
    trace, expected = without_waits(trace), without_waits(expected)
    assert len(trace) == len(expected)
    if in_order:
        assert [plain(event) for event in trace] == [plain(event) for event in expected]
    assert by_place(trace) == by_place(expected)
    check_effects(story, other)
    check_rows(story)


def check_shown(story: Story, trace: list[Event]) -> None:
    """Nothing was seen that did not stay true, down to its time."""
    for line in story.lines("shown"):
        event = decode_event(line.encode())
        assert event == trace[event.seq - 1]


def check_effects(story: Story, other: Story) -> None:
    """Every effect is there once; what was finished was not begun again."""
    keys = sorted(line.partition(":")[2] for line in story.lines("effects"))
    assert keys == sorted(line.partition(":")[2] for line in other.lines("effects"))
    for name in ("calls", "attempts", "stamps", "reviews"):
        made, expected = ([_without_run(name, line) for line in one.lines(name)] for one in (story, other))
        assert set(made) == set(expected)
        # A retried run makes the calls again that failed.
        assert max(Counter(expected).values(), default=1) == 1 or story.case["story"] == "failing"
    for line in story.lines("resumed"):
        before = json.loads(line)
        finished = Counter(before["kept"])
        for call in story.lines("calls")[before["made"]["calls"] :]:
            address, _, number = call.rpartition(" ")
            assert int(number) >= finished[address], f"{call} was asked for again"
        for key in story.lines("attempts")[before["made"]["attempts"] :]:
            assert not finished[key.partition(":")[2]], f"{key} was called again"
        for address in story.lines("stamps")[before["made"]["stamps"] :]:
            assert not finished[address], f"{address} ran again"
        reviewed = Counter(before["reviewed"])
        for key in story.lines("reviews")[before["made"]["reviews"] :]:
            address, _, moment = _without_run("reviews", key).rpartition(":")
            assert ("before", "after").index(moment) >= reviewed[address], f"{key} was asked again"


def _without_run(name: str, line: str) -> str:
    """Keys begin with the id of the run, which is another one each time."""
    return line.partition(":")[2] if name in ("attempts", "reviews") else line


def check_rows(story: Story) -> None:
    """The facts in the store follow each other without a gap."""
    database = sqlite3.connect(story.folder / "runs.db")
    try:
        query = "SELECT place % (1 << 32), count FROM chunks ORDER BY place"
        rows = database.execute(query).fetchall()
        (facts, status) = database.execute("SELECT facts, status FROM runs").fetchone()
    finally:
        database.close()
    reached = 0
    for first, count in rows:
        assert first == reached
        reached += count
    # The run's row is told of its facts now and then, and always when its status changes.
    assert reached == facts if status != "running" else reached >= facts


def check(stories: list[Story], other: Story, report: Report, *, in_order: bool) -> None:
    run_cases(story.case for story in stories)
    for story in stories:
        compare(story, other, in_order=in_order)
    report(sum(len(story.lines("killed")) for story in stories))


PLACES = {"event": "event", "before commit": "before commit", "after commit": "before commit"}


@pytest.mark.parametrize("place", PLACES)
def test_run_killed_at_every_point_resumes(
    place: str, unbroken: dict[int, Story], tmp_path: Path, count_kills: Report
) -> None:
    many = unbroken[1].result["counted"][PLACES[place]]
    assert many > 20
    stories = [Story(tmp_path / str(number), 1, [(place, number)]) for number in range(1, many + 1)]
    check(stories, unbroken[1], count_kills, in_order=True)
    assert sum(len(story.lines("killed")) for story in stories) == many


@pytest.mark.parametrize("place", ["before effect", "after effect"])
def test_run_killed_inside_a_tool_resumes(
    place: str, unbroken: dict[int, Story], tmp_path: Path, count_kills: Report
) -> None:
    """What was cut off is made again, once and with the same key: the call, or those of the same round."""
    many = unbroken[1].result["counted"]["before effect"]
    stories = [Story(tmp_path / str(number), 1, [(place, number)]) for number in range(1, many + 1)]
    check(stories, unbroken[1], count_kills, in_order=True)
    for story in stories:
        again = [key for key, count in Counter(story.lines("attempts")).items() if count > 1]
        assert max(Counter(story.lines("attempts")).values()) == 2
        assert len({key.rpartition("/")[0] for key in again}) == 1


@pytest.fixture(scope="module")
def unbroken_failing(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """The story of failures: two of them fail the run, which is retried."""
    story = Story(tmp_path_factory.mktemp("failing") / "unbroken", 1, [], story="failing")
    run_cases([story.case])
    finished = [event.fields()["status"] for event in story.trace if event.event == "run_finished"]
    assert finished == ["failed", "failed", "completed"]
    assert sum(event.fields().get("handled", False) for event in story.trace) == 3
    assert sum(event.event == "human_input_timeout" for event in story.trace) == 1
    # The calls that failed are the only ones that were made twice.
    twice = [call for call, count in Counter(story.lines("calls")).items() if count > 1]
    assert twice == ["Each[3]/Worker 0", "Clerk 2"]
    return story


def test_failing_run_killed_at_every_event_is_resumed_or_retried(
    unbroken_failing: Story, tmp_path: Path, count_kills: Report
) -> None:
    many = unbroken_failing.result["counted"]["event"]
    assert many > 20
    stories = [
        Story(tmp_path / str(number), 1, [("event", number)], story="failing")
        for number in range(1, many + 1)
    ]
    check(stories, unbroken_failing, count_kills, in_order=True)
    assert sum(len(story.lines("killed")) for story in stories) == many


def test_failing_run_killed_after_every_commit_is_resumed_or_retried(
    unbroken_failing: Story, tmp_path: Path, count_kills: Report
) -> None:
    many = unbroken_failing.result["counted"]["before commit"]
    story = Story(tmp_path / "one", 1, [("after commit", 2)] * many, story="failing")
    check([story], unbroken_failing, count_kills, in_order=True)
    assert len(story.lines("killed")) > many // 3


@pytest.fixture(scope="module")
def unbroken_debugged(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """The story of somebody who debugs a run."""
    story = Story(tmp_path_factory.mktemp("debugged") / "unbroken", 1, [], story="debugged")
    run_cases([story.case])
    changes = Counter(
        event.fields().get("reason") for event in story.trace if event.event == "run_state_change"
    )
    assert set(changes) == {"paused", "step", "breakpoint", "resumed"}
    assert changes["step"] > 10
    edits = [
        (event.address, event.fields()["text"]) for event in story.trace if event.event == "message_edited"
    ]
    assert edits == [("Writer[1]/Stamp", "a draft, edited"), ("Writer[2]/Stamp", "another draft, edited")]
    return story


def check_debugged(stories: list[Story], other: Story, report: Report) -> None:
    """A kill changes where the run pauses, and nothing else."""
    run_cases(story.case for story in stories)
    for story in stories:
        assert (story.result["status"], story.result["output"]) == ("completed", "the report")
        assert [event.seq for event in story.trace] == list(range(1, len(story.trace) + 1))
        assert by_place(story.trace) == by_place(other.trace)
        check_shown(story, story.trace)
        check_effects(story, other)
        check_rows(story)
    report(sum(len(story.lines("killed")) for story in stories))


@pytest.mark.parametrize("place", ["event", "after commit"])
def test_debugged_run_killed_at_every_point_goes_on(
    place: str, unbroken_debugged: Story, tmp_path: Path, count_kills: Report
) -> None:
    """By a step, or by a resume."""
    many = unbroken_debugged.result["counted"][PLACES[place]]
    assert many > 50
    stories = [
        Story(tmp_path / str(number), 1, [(place, number)], story="debugged") for number in range(1, many + 1)
    ]
    check_debugged(stories, unbroken_debugged, count_kills)
    assert sum(len(story.lines("killed")) for story in stories) == many


def test_debugged_run_killed_after_every_commit_goes_on(
    unbroken_debugged: Story, tmp_path: Path, count_kills: Report
) -> None:
    """No process gets further than one commit of the run; the second one, since the first claims it."""
    many = unbroken_debugged.result["counted"]["before commit"]
    story = Story(tmp_path / "one", 1, [("after commit", 3)] * many, story="debugged")
    check_debugged([story], unbroken_debugged, count_kills)
    assert len(story.lines("killed")) > many // 4


def test_run_killed_after_every_commit_resumes(
    unbroken: dict[int, Story], tmp_path: Path, count_kills: Report
) -> None:
    """No process gets further than one commit."""
    many = unbroken[1].result["counted"]["before commit"]
    kills: list[Kill] = [("after commit", 2)] * many
    story = Story(tmp_path / "one", 1, kills)
    check([story], unbroken[1], count_kills, in_order=True)
    assert len(story.lines("killed")) > many // 3


def test_run_killed_with_several_calls_in_flight_resumes(
    unbroken: dict[int, Story], tmp_path: Path, count_kills: Report
) -> None:
    chance = random.Random(7)
    places = ["event", "before commit", "after commit", "before effect", "after effect"]
    stories = []
    for number in range(30):
        kills = [(chance.choice(places), chance.randint(1, 12)) for _ in range(chance.randint(1, 4))]
        stories.append(Story(tmp_path / str(number), 2, kills))
    check(stories, unbroken[2], count_kills, in_order=False)


@pytest.mark.parametrize("width", [1, 2])
def test_run_killed_at_random_moments_resumes(
    width: int, unbroken: dict[int, Story], tmp_path: Path, count_kills: Report
) -> None:
    chance = random.Random(width)
    stories = []
    for number in range(RANDOM_RUNS):
        kills = [("some time", chance.randint(5, 90)) for _ in range(chance.randint(1, MOST_KILLS))]
        stories.append(Story(tmp_path / str(number), width, kills, PACE))
    check(stories, unbroken[width], count_kills, in_order=width == 1)


@pytest.mark.parametrize("place", ["event", "before commit", "before effect"])
def test_run_interrupted_at_every_point_resumes(
    place: str, unbroken: dict[int, Story], tmp_path: Path
) -> None:
    """The same with commands and SIGINT: the run is paused in good order, and resumed."""
    many = unbroken[1].result["counted"][PLACES.get(place, place)]
    stories = [
        Story(tmp_path / str(number), 1, [(place, number)], interrupted=True) for number in range(1, many + 1)
    ]
    check(stories, unbroken[1], lambda _: None, in_order=True)
    assert sum(len(story.lines("killed")) for story in stories) > many // 2, "some came after the end"


def test_run_interrupted_repeatedly_with_several_calls_in_flight_resumes(
    unbroken: dict[int, Story], tmp_path: Path
) -> None:
    chance = random.Random(11)
    places = ["event", "before commit", "after commit", "before effect", "after effect"]
    stories = []
    for number in range(20):
        kills = [(chance.choice(places), chance.randint(1, 12)) for _ in range(chance.randint(1, 5))]
        stories.append(Story(tmp_path / str(number), 2, kills, PACE, interrupted=True))
    check(stories, unbroken[2], lambda _: None, in_order=False)
