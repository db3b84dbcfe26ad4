"""The rounds of a run as figures: score, tokens, cost, novelty, time and failures, counted from its events.

Events are enough, so this works for running, finished and pruned runs alike, and needs no plan. An event
counts for every round that its address is inside of: the figures of an outer round include those of
inner loops.

Times are working times, as limits in seconds count them: without pauses, without the time in which only
people were asked, or nobody executed the run. So a run that was resumed, and a fork, take as long as their
work took. Events alone do not say how long that was; where it is not known, their timestamps count.

`round_finished` says how a round has ended. One that the end of its run cut off has none: it is `failed` if
something in it failed, else `stopped`. Runs of earlier versions that were pruned have no such events at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from statistics import fmean

from msgspec import Struct

from roundel.hosts.stored_run import replay_steps
from roundel.journal.store import Store
from roundel.kernel.events import Event, RoundStatus
from roundel.kernel.novelty import MOST_EARLIER, novelty
from roundel.kernel.payloads import (
    AsideUsage,
    LoopLeft,
    LoopRound,
    ModelCallEnded,
    NodeCompleted,
    NodeFailed,
    NodeRunning,
    NodeStateChange,
    RoundFinished,
    RunFinished,
    RunStateChanged,
)
from roundel.workflow.address import Path, rounds_around
from roundel.workflow.limits import dollars, picodollars

PAGE = 500
"""Events that are counted before other tasks run."""


class Round(Struct, frozen=True, gc=False):
    """The figures of one round. Created by `loop_rounds`."""

    address: str
    """Its address in the run, such as `Writer[3]`."""
    number: int
    """Its number, from 1."""
    score: float | None
    """The last score that a node of the round returned."""
    tokens: int
    """The tokens that it used."""
    cost_usd: float | None
    """None if no price is known."""
    novelty: float | None
    """The mean novelty of what agents and people wrote in the round, or of all outputs if the loop has
    no such nodes; None if there were none."""
    seconds: float
    """How long it took, without the time in which the run did not work."""
    outputs: dict[str, str] = {}
    """What the nodes of the round returned, by address, without those of loops inside it."""
    started: str = ""
    """When it began."""
    ended: str | None = None
    """When it ended; None if it is running."""
    status: RoundStatus = "completed"
    """`cancelled` if something beside it ended it; `stopped` if the run ended before the round did, and
    nothing in the round failed."""
    failures: int = 0
    """How often nodes in it failed, without failures that an error edge took."""
    lane: int = 0
    """The place beside other rounds of its loop that ran at the same time, from 0; always 0 for rounds that
    ran one after the other."""


class LoopRounds(Struct, frozen=True):
    """The rounds of one loop. Created by `loop_rounds`."""

    loop: str
    """The name of the loop."""
    rounds: tuple[Round, ...]
    """The rounds of all entries into the loop, one after the other."""
    exit_reason: str
    """Why it was last left; empty if it was not left yet."""


def loop_rounds(events: Iterable[Event], speakers: Collection[str] = ()) -> list[LoopRounds]:
    """Each loop with its rounds; `speakers` are the ids of agents and of people."""
    tally = RoundTally(speakers)
    for event in events:
        tally.add(event)
    return tally.loops()


class _OpenRound:
    """A round whose figures are being added up. A server keeps many: each container that it does without is
    one less for the garbage collector to look at."""

    __slots__ = (
        "address",
        "began",
        "cost",
        "ended",
        "failed",
        "failures",
        "lane",
        "last_event",
        "number",
        "outputs",
        "priced",
        "score",
        "seconds",
        "started",
        "statements",
        "status",
        "texts",
        "tokens",
    )

    def __init__(self, address: str, number: int, began: str, now: float, lane: int) -> None:
        self.address = address
        self.number = number
        self.began = self.last_event = began
        self.started = self.ended = now
        self.lane = lane
        self.status: RoundStatus = "running"
        self.seconds = 0.0
        """How long it took, once it has ended."""
        self.failed: dict[str, Path] | None = None
        """The nodes that have failed, and did not run again, by address; None if there are none."""
        self.failures = 0
        self.score: float | None = None
        self.tokens = 0
        self.cost = 0  # in picodollars: sums of floats would depend on their order
        self.priced = False
        self.statements: list[tuple[str, str]] = []
        self.outputs: list[tuple[str, str]] = []
        """Who said what."""
        self.texts: dict[str, str] = {}
        """What nodes returned whose innermost round it is, by address."""

    def note_state(self, event: Event, data: NodeStateChange) -> None:
        """Notes which of its nodes have failed, for a round that the end of the run cuts off."""
        address, failed = event.address or "", self.failed
        if isinstance(data, NodeFailed) and not data.handled:
            self.failed = {**(failed or {}), address: event.path}
            self.failures += 1
        elif failed and isinstance(data, NodeRunning):
            self.failed = {other: path for other, path in failed.items() if other != address} or None
        elif failed and isinstance(data, NodeCompleted):
            # A node that has completed caught what failed inside of it.
            depth, around = len(event.path), event.path
            self.failed = {
                other: path
                for other, path in failed.items()
                if path[:depth] != around or not path[depth:] or path[depth].node != event.node_id
            } or None

    def end(self, event: Event, data: RoundFinished) -> None:
        usage = data.usage
        self.status, self.last_event, self.seconds = data.status, event.timestamp, data.work_seconds
        self.score, self.failures = data.score, data.failures
        self.tokens = usage.input_tokens + usage.output_tokens
        if self.priced:  # nothing is known of the price of a script
            self.cost = picodollars(usage.cost_usd or 0.0)


class RoundTally:
    """Adds events up, in one pass. More may be added after the loops were read."""

    def __init__(self, speakers: Collection[str]) -> None:
        self._speakers = frozenset(speakers)
        self._loops: dict[str, list[_OpenRound]] = {}
        self._reasons: dict[str, str] = {}
        self._rounds: dict[str, _OpenRound] = {}
        self.seq = 0
        """The number of the last event."""
        self._over = ""
        """The status with which the run ended; empty if it is not over."""
        self._novelties: dict[tuple[str, ...], float] = {}
        """The novelty of texts, each after those before it: comparing them takes longest by far, and outer
        loops and later calls of `loops` compare the same ones again."""

    @property
    def rounds(self) -> int:
        """How many rounds were counted."""
        return len(self._rounds)

    def add(self, event: Event, worked: float | None = None) -> None:
        """Counts an event for the rounds around it that are running. `worked` is the working time of the run
        at the event, in seconds."""
        address, now = event.address or "", _seconds(event.timestamp) if worked is None else worked
        self.seq, data = event.seq, event.data
        match data:
            case LoopRound():
                begun = _OpenRound(address, data.round, event.timestamp, now, data.lane)
                self._rounds[address] = begun
                self._loops.setdefault(data.loop, []).append(begun)
            case RoundFinished():
                if address in self._rounds:
                    self._rounds[address].end(event, data)
            case LoopLeft():
                self._reasons[data.loop] = data.reason
            case RunFinished():
                self._over = data.status
            case RunStateChanged():  # a retry changes the state of a run again
                self._over = ""
        around = list(self._rounds_around(address))
        if around and isinstance(data, NodeCompleted) and data.output:
            around[-1].texts[address] = data.output
        for open_round in around:
            if open_round.status != "running":
                continue
            open_round.ended, open_round.last_event = now, event.timestamp
            if isinstance(data, (ModelCallEnded, AsideUsage)):
                _count_tokens(open_round, data)
            elif isinstance(data, NodeStateChange):
                if isinstance(data, NodeCompleted):
                    self._note(open_round, event.node_id or "", data)
                open_round.note_state(event, data)

    def _status(self, one: _OpenRound) -> RoundStatus:
        if one.status != "running" or not self._over:
            return one.status
        if one.failed:
            return "failed"
        return "completed" if self._over == "completed" else "stopped"

    def _rounds_around(self, address: str) -> Iterator[_OpenRound]:
        """The rounds that contain an address, from the outermost on."""
        return filter(None, map(self._rounds.get, rounds_around(address)))

    def _note(self, open_round: _OpenRound, node_id: str, data: NodeCompleted) -> None:
        """Adds the score and the output of a node."""
        if data.score is not None:
            open_round.score = float(data.score)
        if data.output:
            statements = (node_id, data.output)
            open_round.outputs.append(statements)
            if node_id in self._speakers:
                open_round.statements.append(statements)

    def loops(self, only: str = "") -> list[LoopRounds]:
        """Each loop with its rounds so far, or only that with a name."""
        return [
            LoopRounds(name, tuple(self._finished(rounds)), self._reasons.get(name, ""))
            for name, rounds in self._loops.items()
            if only in ("", name)
        ]

    def _finished(self, rounds: list[_OpenRound]) -> Iterator[Round]:
        # Decided for the whole loop: otherwise the measure would change from round to round.
        spoken = any(open_round.statements for open_round in rounds)
        earlier: dict[str, list[str]] = {}
        for open_round in rounds:
            status = self._status(open_round)
            statements = open_round.statements if spoken else open_round.outputs
            yield Round(
                open_round.address,
                open_round.number,
                open_round.score,
                open_round.tokens,
                dollars(open_round.cost) if open_round.priced else None,
                self._novelty(statements, earlier),
                # Idle time is excluded to the millisecond.
                open_round.seconds
                if open_round.status != "running"
                else max(0.0, open_round.ended - open_round.started),
                open_round.texts,
                open_round.began,
                open_round.last_event if status != "running" else None,
                status,
                open_round.failures,
                open_round.lane,
            )

    def _novelty(self, statements: list[tuple[str, str]], earlier: dict[str, list[str]]) -> float | None:
        """How new the statements are, each compared with what the same speaker wrote in earlier rounds. Only
        the last MOST_EARLIER are compared, as the breaker does."""
        values = []
        for speaker, text in statements:
            before = earlier.setdefault(speaker, [])
            key = (text, *before)
            value = self._novelties.get(key)
            if value is None:
                value = self._novelties[key] = novelty(text, before)
            values.append(value)
            before.append(text)
            del before[:-MOST_EARLIER]
        return fmean(values) if values else None


async def count_events(store: Store, run_id: str, tally: RoundTally) -> None:
    """Adds the stored events of a run that a tally does not have yet, each with its working time."""
    async for worked, events in replay_steps(store, run_id, after=tally.seq):
        for number, event in enumerate(events, 1):
            tally.add(event, worked)
            if number % PAGE == 0:  # those of a pruned run come together
                await asyncio.sleep(0)


def _count_tokens(open_round: _OpenRound, data: ModelCallEnded | AsideUsage) -> None:
    """Adds the usage of a call. A cost of 0 is a known price; None is an unknown one."""
    open_round.tokens += data.input_tokens or 0
    if isinstance(data, ModelCallEnded):
        open_round.tokens += data.output_tokens or 0
    if data.cost_usd is not None:
        open_round.cost += picodollars(data.cost_usd)
        open_round.priced = True


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()
