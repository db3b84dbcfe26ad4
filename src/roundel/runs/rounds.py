"""The rounds of a run as figures: score, tokens, cost, novelty and time, counted from its events.

Events are enough, so this works for running, finished and pruned runs alike, and needs no plan. An event
counts for every round that its address is inside of: the figures of an outer round include those of
inner loops.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from statistics import fmean

from msgspec import Struct

from roundel.kernel.events import Event
from roundel.kernel.novelty import MOST_EARLIER, novelty
from roundel.workflow.limits import dollars, picodollars


class Round(Struct, frozen=True):
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
    """How long it took."""
    outputs: dict[str, str] = {}
    """What the nodes of the round returned, by address, without those of loops inside it."""


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
    tally = _RoundTally(speakers)
    for event in events:
        tally.add(event)
    return tally.loops()


class _OpenRound:
    """A round whose figures are being added up."""

    def __init__(self, address: str, number: int, started: float) -> None:
        self.address = address
        self.number = number
        self.started = self.ended = started
        self.score: float | None = None
        self.tokens = 0
        self.cost = 0  # in picodollars: sums of floats would depend on their order
        self.priced = False
        self.statements: list[tuple[str, str]] = []
        self.outputs: list[tuple[str, str]] = []
        """Who said what."""
        self.texts: dict[str, str] = {}
        """What nodes returned whose innermost round it is, by address."""


class _RoundTally:
    """Adds events up, in one pass."""

    def __init__(self, speakers: Collection[str]) -> None:
        self._speakers = frozenset(speakers)
        self._loops: dict[str, list[_OpenRound]] = {}
        self._reasons: dict[str, str] = {}
        self._rounds: dict[str, _OpenRound] = {}

    def add(self, event: Event) -> None:
        """Counts an event for its rounds. A round has no event for its end: it lasts until its last
        event."""
        address, now = event.address or "", _seconds(event.timestamp)
        if event.event == "loop_round":
            started = _OpenRound(address, event.data["round"], now)
            self._rounds[address] = started
            self._loops.setdefault(event.data["loop"], []).append(started)
        elif event.event == "loop_exit":
            self._reasons[event.data["loop"]] = event.data["reason"]
        around = list(self._rounds_around(address))
        if around and event.event == "node_state_change" and event.data.get("output"):
            around[-1].texts[address] = event.data["output"]
        for open_round in around:
            open_round.ended = now
            if event.event == "token_usage":
                _count_tokens(open_round, event)
            elif event.event == "node_state_change":
                self._note(open_round, event)

    def _rounds_around(self, address: str) -> Iterator[_OpenRound]:
        """The rounds that contain an address, from the outermost on: each `]` ends the address of
        one."""
        end = address.find("]")
        while end >= 0:
            found = self._rounds.get(address[: end + 1])
            if found is not None:
                yield found
            end = address.find("]", end + 1)

    def _note(self, open_round: _OpenRound, event: Event) -> None:
        """Adds the score and the output of a node."""
        data = event.data
        score = data.get("score", (data.get("data") or {}).get("score"))
        if isinstance(score, (int, float)) and not isinstance(score, bool):
            open_round.score = float(score)
        text = data.get("output")
        if text:
            statements = (event.node_id or "", text)
            open_round.outputs.append(statements)
            if event.node_id in self._speakers:
                open_round.statements.append(statements)

    def loops(self) -> list[LoopRounds]:
        return [
            LoopRounds(name, tuple(_finished(rounds)), self._reasons.get(name, ""))
            for name, rounds in self._loops.items()
        ]


def _count_tokens(open_round: _OpenRound, event: Event) -> None:
    """Adds the usage of a call. A cost of 0 is a known price; None is an unknown one."""
    data = event.data
    open_round.tokens += data.get("input_tokens", 0) + data.get("output_tokens", 0)
    if data.get("cost_usd") is not None:
        open_round.cost += picodollars(data["cost_usd"])
        open_round.priced = True


def _finished(rounds: list[_OpenRound]) -> Iterator[Round]:
    # Decided for the whole loop: otherwise the measure would change from round to round.
    spoken = any(open_round.statements for open_round in rounds)
    earlier: dict[str, list[str]] = {}
    for open_round in rounds:
        statements = open_round.statements if spoken else open_round.outputs
        yield Round(
            open_round.address,
            open_round.number,
            open_round.score,
            open_round.tokens,
            dollars(open_round.cost) if open_round.priced else None,
            _novelty(statements, earlier),
            open_round.ended - open_round.started,
            open_round.texts,
        )


def _novelty(statements: list[tuple[str, str]], earlier: dict[str, list[str]]) -> float | None:
    """How new the statements are, each compared with what the same speaker wrote in earlier rounds. Only
    the last MOST_EARLIER are compared, as the breaker does."""
    values = []
    for speaker, text in statements:
        before = earlier.setdefault(speaker, [])
        values.append(novelty(text, before))
        before.append(text)
        del before[:-MOST_EARLIER]
    return fmean(values) if values else None


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()
