"""The rounds of a run as figures: score, tokens, cost, novelty, time and failures, counted from its events.

Events are enough, so this works for running, finished and pruned runs alike, and needs no plan. An event
counts for every round that its address is inside of: the figures of an outer round include those of
inner loops.

Times are working times, as limits in seconds count them: without pauses, without the time in which only
people were asked, or nobody executed the run. So a run that was resumed, and a fork, take as long as their
work took. Events alone do not say how long that was; where it is not known, their timestamps count.

No event says that a round has ended. It has if its loop was left, if a round around it has ended, if the run
is over, or if a later round has begun and none of its nodes is running: rounds may run in parallel.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from itertools import count
from statistics import fmean

from msgspec import Struct

from roundel.hosts.stored_run import replay_steps
from roundel.journal.store import Store
from roundel.kernel.events import Event, RoundStatus
from roundel.kernel.novelty import MOST_EARLIER, novelty
from roundel.kernel.payloads import (
    LoopLeft,
    LoopRound,
    NodeCompleted,
    NodeFailed,
    NodeRunning,
    NodeStateChange,
    RunFinished,
    RunStateChanged,
    TokenUsage,
)
from roundel.workflow.address import innermost_round, rounds_around
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
    """`stopped` if the run ended before the round did, and nothing in the round failed."""
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
        "has_nodes",
        "has_successor",
        "lane",
        "last_event",
        "left",
        "number",
        "outputs",
        "priced",
        "running",
        "score",
        "started",
        "statements",
        "texts",
        "tokens",
    )

    def __init__(self, address: str, number: int, began: str, now: float, lane: int) -> None:
        self.address = address
        self.number = number
        self.began = self.last_event = began
        self.started = self.ended = now
        self.lane = lane
        self.left = False
        """Its loop was left."""
        self.has_successor = False
        """A later round of its loop has begun."""
        self.has_nodes = False
        """One of its nodes has started: rounds that run in parallel begin before their nodes."""
        self.running: set[str] | None = None
        """The addresses of its nodes that are running; None if there are none, like below."""
        self.failed: set[str] | None = None
        """The addresses of its nodes that have failed, and did not run again."""
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

    @property
    def is_done(self) -> bool:
        """Whether all of its nodes that have started are finished."""
        return self.has_nodes and not self.running

    def note_state(self, address: str, data: NodeStateChange) -> None:
        """Follows the state of one of its nodes."""
        self.has_nodes = True
        if isinstance(data, NodeRunning):
            self.running = self.running or set()
            self.running.add(address)
            self.failed = _without(self.failed, address)
            return
        self.running = _without(self.running, address)
        if isinstance(data, NodeCompleted) and self.failed:
            # A node that has completed caught what failed inside of it.
            inside = tuple(f"{start}{mark}" for start in _addresses_inside(address) for mark in "[/#")
            self.failed = {other for other in self.failed if not other.startswith(inside)} or None
        elif isinstance(data, NodeFailed) and not data.handled:
            self.failed = self.failed or set()
            self.failed.add(address)
            self.failures += 1


def _without(addresses: set[str] | None, address: str) -> set[str] | None:
    if addresses is not None:
        addresses.discard(address)
    return addresses or None


class RoundTally:
    """Adds events up, in one pass. More may be added after the loops were read."""

    def __init__(self, speakers: Collection[str]) -> None:
        self._speakers = frozenset(speakers)
        self._loops: dict[str, list[_OpenRound]] = {}
        self._reasons: dict[str, str] = {}
        self._rounds: dict[str, _OpenRound] = {}
        self._unfinished: dict[str, list[_OpenRound]] = {}
        """The rounds of each loop that may still be running, by what their addresses begin with."""
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
        """Counts an event for its rounds. A round has no event for its end: it lasts until its last
        event. `worked` is the working time of the run at the event, in seconds."""
        address, now = event.address or "", _seconds(event.timestamp) if worked is None else worked
        self.seq, data = event.seq, event.data
        match data:
            case LoopRound():
                self._begin(event, data, now)
            case LoopLeft():
                self._reasons[data.loop] = data.reason
                self._leave(address)
            case RunFinished():
                self._over = data.status
            case RunStateChanged():  # a retry changes the state of a run again
                self._over = ""
        around = list(self._rounds_around(address))
        if around and isinstance(data, NodeCompleted) and data.output:
            around[-1].texts[address] = data.output
        for open_round in around:
            open_round.ended, open_round.last_event = now, event.timestamp
            if isinstance(data, TokenUsage):
                _count_tokens(open_round, data)
            elif isinstance(data, NodeStateChange):
                if isinstance(data, NodeCompleted):
                    self._note(open_round, event.node_id or "", data)
                open_round.note_state(address, data)

    def _begin(self, event: Event, data: LoopRound, now: float) -> None:
        address = event.address or ""
        stem = innermost_round(address)[0]
        unfinished = [one for one in self._unfinished.get(stem, ()) if not one.is_done]
        for one in self._unfinished.get(stem, ()):
            one.has_successor = True
        taken = {one.lane for one in unfinished}
        lane = next(lane for lane in count() if lane not in taken)
        begun = _OpenRound(address, data.round, event.timestamp, now, lane)
        self._unfinished[stem] = [*unfinished, begun]
        self._rounds[address] = begun
        self._loops.setdefault(data.loop, []).append(begun)

    def _leave(self, address: str) -> None:
        """Ends the rounds of a loop. A free loop is left at the address of its last round, a node that
        repeats by itself at its own."""
        stems = [innermost_round(address)[0]] if address.endswith("]") else _addresses_inside(address)
        for stem in stems:
            for one in self._unfinished.pop(stem if stem.endswith("[") else f"{stem}[", ()):
                one.left = True

    def _status(self, one: _OpenRound) -> RoundStatus:
        around = list(self._rounds_around(one.address))
        if any(each.left or (each.has_successor and each.is_done) for each in around):
            return "failed" if one.failed else "completed"
        if not self._over:
            return "running"
        if one.failed:
            return "failed"
        return "completed" if self._over == "completed" else "stopped"

    def _rounds_around(self, address: str) -> Iterator[_OpenRound]:
        """The rounds that contain an address, from the outermost on."""
        return filter(None, map(self._rounds.get, rounds_around(address)))

    def _note(self, open_round: _OpenRound, node_id: str, data: NodeCompleted) -> None:
        """Adds the score and the output of a node."""
        score = data.score
        if isinstance(score, (int, float)) and not isinstance(score, bool):
            open_round.score = float(score)
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
                max(0.0, open_round.ended - open_round.started),
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


def _count_tokens(open_round: _OpenRound, data: TokenUsage) -> None:
    """Adds the usage of a call. A cost of 0 is a known price; None is an unknown one."""
    open_round.tokens += data.input_tokens + data.output_tokens
    if data.cost is not None:
        open_round.cost += picodollars(data.cost)
        open_round.priced = True


def _addresses_inside(address: str) -> tuple[str, ...]:
    """What the addresses of rounds and nodes inside of a node begin with: a round of a node in a round is
    written with a dot, as in `Writer[2].Each[1]`."""
    around, slash, label = address.rpartition("/")
    return (address, f"{around}.{label}") if slash else (address,)


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()
