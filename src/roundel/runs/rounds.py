"""The rounds of a run as figures: score, tokens, cost, novelty, time and failures.

They are those of the view (fold.py), so this works for running, finished and pruned runs alike, and needs no
plan. What is added here is the novelty of what was said in a round, a measure that takes long, and what its
nodes returned.

Times are working times, as limits in seconds count them: without pauses, without the time in which only
people were asked, or nobody executed the run. So a run that was resumed, and a fork, take as long as their
work took. Events say that of rounds that have ended; for others their reader may know it, or else timestamps
count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from statistics import fmean

from msgspec import Struct

from roundel.hosts.stored_run import replay_steps
from roundel.journal.store import Store
from roundel.kernel.events import Event, RoundStatus
from roundel.kernel.novelty import MOST_EARLIER, novelty
from roundel.kernel.payloads import LoopLeft, LoopRound, NodeCompleted, RoundFinished
from roundel.runs.fold import RunFold
from roundel.runs.view import ViewedExecution, ViewedRound

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
    """Each loop with its rounds, also of what is left of a pruned run; `speakers` are the ids of agents and
    of people."""
    tally = RoundTally(speakers, is_pruned=True)
    for event in events:
        tally.add(event)
    return tally.loops()


class RoundTally:
    """Counts the rounds of a run, in one pass. More events may be added after the loops were read.
    `is_pruned` as for `RunFold`."""

    def __init__(self, speakers: Collection[str], *, is_pruned: bool = False) -> None:
        self.fold = RunFold(is_pruned=is_pruned)
        """What else is to see of the run."""
        self._speakers = frozenset(speakers)
        self._loops: dict[str, list[str]] = {}
        """The addresses of the rounds of each loop, by name, in the order in which they began."""
        self._reasons: dict[str, str] = {}
        self._said: dict[str, list[tuple[str, str]]] = {}
        """For each round what was returned in it, and by which node."""
        self._worked: float | None = None
        """How long the run has worked, if that is known."""
        self._began: dict[str, float] = {}
        """How long it had worked by then, for each round that has not ended."""
        self._novelties: dict[tuple[str, ...], float] = {}
        """The novelty of texts, each after those before it: comparing them takes longest by far, and outer
        loops and later calls of `loops` compare the same ones again."""

    @property
    def seq(self) -> int:
        """The number of the last event."""
        return self.fold.seq

    @property
    def rounds(self) -> int:
        """How many rounds were counted."""
        return len(self._said)

    def add(self, event: Event, worked: float | None = None) -> None:
        """Counts an event. `worked` is the working time of the run at the event, in seconds."""
        self.fold.apply(event)
        self._worked = worked
        address, data = event.address or "", event.data
        match data:
            case LoopRound():
                if address not in self._said:
                    self._loops.setdefault(data.loop, []).append(address)
                self._said[address] = []
                if worked is not None:
                    self._began[address] = worked
            case RoundFinished():
                self._began.pop(address, None)
            case LoopLeft():
                self._reasons[data.loop] = data.reason
            case NodeCompleted(output=str(text)) if text:
                for around in self.fold.rounds_around(address):
                    self._said[around].append((event.node_id or "", text))

    def loops(self, only: str = "") -> list[LoopRounds]:
        """Each loop with its rounds so far, or only that with a name."""
        view = self.fold.snapshot()
        known = {one.address: one for loop in view.loops for one in loop.rounds}
        return [
            LoopRounds(
                name,
                tuple(self._figures([known[each] for each in addresses], view.executions)),
                self._reasons.get(name, ""),
            )
            for name, addresses in self._loops.items()
            if only in ("", name)
        ]

    def _figures(
        self, rounds: Sequence[ViewedRound], executions: Mapping[str, ViewedExecution]
    ) -> Iterator[Round]:
        # Decided for the whole loop: otherwise the measure would change from round to round.
        spoken = any(node in self._speakers for one in rounds for node, _ in self._said[one.address])
        earlier: dict[str, list[str]] = {}
        for one in rounds:
            said = self._said[one.address]
            statements = [each for each in said if each[0] in self._speakers] if spoken else said
            outputs = ((each, executions[each].output) for each in one.executions)
            yield Round(
                one.address,
                one.number,
                one.score,
                one.usage.input_tokens + one.usage.output_tokens,
                # Nothing is known of the price of a script.
                (one.usage.cost_usd or 0.0) if one.priced else None,
                self._novelty(statements, earlier),
                self._seconds(one),
                {address: text for address, text in outputs if text},
                one.started,
                one.ended if one.status != "running" else None,
                one.status,
                one.failures,
                one.lane,
            )

    def _seconds(self, one: ViewedRound) -> float:
        """How long a round has taken; for one that has not ended, so far."""
        if one.work_seconds is not None:
            return one.work_seconds
        began = self._began.get(one.address)
        if began is None or self._worked is None:
            return _moment(one.ended) - _moment(one.started)
        return max(0.0, self._worked - began)  # idle time is excluded to the millisecond

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


def _moment(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()
