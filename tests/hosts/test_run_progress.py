"""`run_progress`: how far a run is, for those who observe it. The time is that of the facts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

import roundel
from roundel.hosts import core
from roundel.hosts.contexts import RunContexts
from roundel.hosts.core import RunLog
from roundel.hosts.live_events import LiveFeeds
from roundel.journal.run_journal import RunJournal, progress_of
from roundel.journal.store import Claim, Store
from roundel.kernel.events import Event
from roundel.kernel.facts import Finished, Outcome, Paused, Resumed, Started, Usage
from roundel.kernel.payloads import RunProgress
from roundel.kernel.state import Run
from roundel.workflow.message import Message
from roundel.workflow.secrets import SecretMasker
from tests.hosts.core_host import Entries

BEGIN = 1_000_000.0


class Later:
    """What a log wants to do later."""

    def __init__(self, seconds: float, act: Callable[[float], None]) -> None:
        self.seconds, self.act, self.cancelled = seconds, act, False

    def cancel(self) -> None:
        self.cancelled = True


class Story:
    """A loop of two agents with two limits, executed fact by fact."""

    def __init__(self, *, observed: bool = True, stored: bool = False) -> None:
        limits = {"rounds": 5, "tool_calls": 9}
        graph = roundel.Graph(start="Writer", end="Done", breaker=False, limits=limits)
        graph.node("Writer", "agent").node("Critic", "agent").node("Done", "passthrough")
        graph.edge("Writer", "Critic").edge("Critic", "Writer")
        graph.edge("Critic", "Done", condition={"cel": 'text == "done"'})
        self.log = RunLog(Run(roundel.prepare(graph)), SecretMasker(), RunContexts(SecretMasker(), 0))
        self.later: list[Later] = []
        self.events: list[Event] = []
        self.log.timer = self._set_timer
        if observed:
            self.log.observers = (self.events.append,)
        if stored:
            self.log.journal = RunJournal(cast(Store, Entries()), Claim("run", 1, 1, 0))
        self.log.record(Started("run", (Message("tea"),), BEGIN))

    def _set_timer(self, seconds: float, act: Callable[[float], None]) -> Later:
        self.later.append(Later(seconds, act))
        return self.later[-1]

    def reply(self, after: float, text: str = "more") -> None:
        """The agent in flight answers, so many seconds after the beginning."""
        [address] = self.log.state.calls
        said = Outcome((Message(text, "assistant"),), usage=Usage(model_calls=1))
        self.log.record(Finished(address, said, BEGIN + after))

    def due(self, after: float) -> None:
        """The time that the log has asked for has come."""
        [one] = [later for later in self.later if not later.cancelled]
        self.later.clear()
        one.act(BEGIN + after)

    @property
    def shown(self) -> list[tuple[float, RunProgress]]:
        """What was shown, each with the seconds since the beginning."""
        found = [event for event in self.events if isinstance(event.data, RunProgress)]
        assert all(event.seq == 0 and event.address is None for event in found)
        return [(second(event), cast(RunProgress, event.data)) for event in found]

    @property
    def times(self) -> list[float]:
        return [time for time, _ in self.shown]


def second(event: Event) -> float:
    return round(float(event.timestamp[17:-1]) - BEGIN % 60, 3)


def test_it_is_shown_at_most_once_a_second() -> None:
    story = Story()
    for time in (0.2, 0.9, 1.0, 1.5, 1.99, 2.5, 3.4):
        story.reply(time)
    assert story.times == [1, 2.5]
    progress = story.shown[-1][1]
    assert [(loop.address, loop.round) for loop in progress.loops] == [("Writer[4]", 4)]
    assert (progress.usage.model_calls, progress.active) == (6, ["Writer"])


def test_guards_come_nearest_first() -> None:
    story = Story()
    story.reply(0)
    story.reply(2)
    [(_, progress)] = story.shown
    shares = [guard.share for guard in progress.guards]
    assert len(shares) > 1 and shares == sorted(shares, reverse=True)
    assert progress == progress_of(story.log.state)


def test_what_came_too_soon_is_shown_when_nothing_else_comes() -> None:
    story = Story()
    story.reply(1.5)
    assert story.times == [1.5]
    story.reply(1.75)
    story.reply(2)
    assert [later.seconds for later in story.later if not later.cancelled] == [0.75], "one timer for both"
    story.due(2.5)
    assert story.times == [1.5, 2.5]
    assert story.shown[-1][1] == progress_of(story.log.state)
    story.reply(3.25)
    assert story.times == [1.5, 2.5], "less than a second after the timer"


def test_a_change_of_status_is_shown_at_once() -> None:
    story = Story()
    story.log.record(Paused("lunch", BEGIN + 0.1, interrupt=True))
    story.log.record(Resumed(BEGIN + 0.2))
    assert story.times == [0.1, 0.2]
    pauses = [progress.pause for _, progress in story.shown]
    assert [pause and pause.reason for pause in pauses] == ["lunch", None]
    assert all(later.cancelled for later in story.later)


def test_the_end_of_the_run_is_the_last_event() -> None:
    story = Story()
    story.reply(0.2)
    story.reply(0.4, "done")
    story.reply(1.2)
    assert story.times == [] and story.events[-1].event == "run_finished"
    story.due(1)
    assert story.times == []


def test_of_a_stored_run_only_what_is_committed_is_shown() -> None:
    async def work() -> None:
        story = Story(stored=True)
        await story.log.commit(alone=True)
        story.reply(0.5)
        story.due(1)
        story.reply(1.5)
        assert story.times == []
        await story.log.commit(alone=True)
        assert story.times == [1.5]
        assert [event.seq for event in story.events][-2:] == [story.log.state.seq, 0]

    asyncio.run(work())


def test_followers_get_it_behind_the_event_that_it_follows() -> None:
    story = Story(observed=False)
    story.log.live = LiveFeeds()
    with story.log.live.subscribe("run") as follower:
        story.reply(2)
        story.reply(4)
        assert list(follower.take(story.log.state.seq)) == []
        [event] = follower.take(story.log.state.seq + 1)
        assert event.data == progress_of(story.log.state)


def test_nothing_is_computed_for_a_run_that_nobody_observes(monkeypatch: pytest.MonkeyPatch) -> None:
    def compute(_run: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(core, "progress_of", compute)
    story = Story(observed=False)
    story.log.live = LiveFeeds()
    with story.log.live.subscribe("another run"):
        for time in (1, 2, 3):
            story.reply(time)
    assert story.later == []
    with story.log.live.subscribe("run"):
        story.reply(4)
        with pytest.raises(AssertionError):
            story.reply(5)
