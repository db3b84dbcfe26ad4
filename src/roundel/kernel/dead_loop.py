"""Dead loops: detects that the last rounds of a loop only repeated what was said in it before.

A round is stale if every message of an agent or a person in it repeats earlier ones of the same speaker
(novelty.py), and no Python node, tool or score gave a result that is new to the loop. So a speaker who
repeats itself never outvotes one who makes progress, and a loop in which something outside still changes
continues.

How many stale rounds in a row make a loop dead depends on the certainty of the evidence (`Patience`): few if
every message repeats an earlier one word by word, more if some only reorder known words, many if some put
another word or number in the place of one. The last kind may be a search that has not found its answer yet.
So it only locks loops that nothing but their cap bounds; where a bound is proved, it is a warning.

Memory is bounded, since a snapshot contains the history: per speaker, `MOST_EARLIER + 2 * window`
messages; results only as digests. A round is judged once, when it ends.

All verdicts are stored decisions (`decide`), because they depend on Unicode tables and on the measure,
which a later version may change (docs/decisions/0018, 0023 and 0047).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from roundel.kernel.facts import Decide
from roundel.kernel.novelty import (
    CLOCKS,
    DURATIONS,
    EXACT,
    MOST_EARLIER,
    NEW,
    ONE_PLACE,
    REORDERED,
    TREND,
    judge,
    parse_text,
    quantities,
    trend,
)
from roundel.kernel.repetition import IDENTIFIERS
from roundel.workflow.evaluation_budget import note_work
from roundel.workflow.limits import Breaker

Utterance = tuple[int, str, str, str]
"""A message: round, speaker, address, text."""
StaleMessages = list[tuple[int, float]]
"""Messages by their index in `LoopHistory.said`, with their novelty."""
CERTAINTIES = (EXACT, REORDERED, ONE_PLACE)
"""From the most certain repetition to the least."""
MAX_ROUND_MESSAGES = 128
"""The number of messages of one round that are remembered, the last ones."""
MOST_RESULTS, DIGITS = 100, 8
"""The number of results that are remembered, and the hex digits of each digest. Short digests keep
snapshots small; a collision only hides one new result."""
MEASURED, MOST_MEASURED = 2000, 20
"""The number of characters of a result in which durations are read, and of results whose durations are
remembered."""
SHOWN = 500
"""The number of characters of a message that the evidence contains."""
MOST_COMPARED = 400
"""The number of lines or words of two messages together that are compared one by one."""
MOST_CHANGES = 5
_PASSING = re.compile(rf"{CLOCKS}|{DURATIONS}|{IDENTIFIERS}", re.IGNORECASE)
"""Dates, times, durations, memory addresses, ids and temporary paths: they differ in every result, so they
are no progress. Other numbers are: "3 failed" after "4 failed"."""


class Staleness(NamedTuple):
    """The end of a loop that repeats itself."""

    certainty: str
    """How certain it is: one of `CERTAINTIES`."""
    rounds: int
    """The number of stale rounds."""
    messages: StaleMessages


class LoopHistory:
    """The messages and results of a loop. The kernel creates one per free loop and per composite
    node."""

    __slots__ = (
        "current_messages",
        "durations",
        "results",
        "round",
        "said",
        "seen",
        "streaks",
        "warned",
    )

    def __init__(self) -> None:
        self.current_messages: list[tuple[Any, str, str, str]] = []
        """The current round: position in the order of the run, speaker, address, text."""
        self.results: list[str] = []
        """Digests of the results of Python nodes, tools and scores in that round."""
        self.durations: dict[str, list[list[float]]] = {}
        """By the digest of a result: the durations in its last versions."""
        self.said: list[Utterance] = []
        """The last messages of each speaker in earlier rounds."""
        self.seen: list[str] = []
        """Digests of the last results of earlier rounds."""
        self.round = 0
        """The number of completed rounds."""
        self.streaks: dict[str, list[int]] = {}
        """For each certainty: how many of the last rounds in a row are stale with at least this certainty,
        and how many messages they have."""
        self.warned = False
        """Whether there was a warning about this loop, which comes once."""

    @property
    def has_new_content(self) -> bool:
        """Whether the current round has a message or a result."""
        return bool(self.current_messages or self.results)

    def record_message(self, when: Any, node: str, address: str, text: str) -> None:
        self.current_messages.append((when, node, address, text))
        if len(self.current_messages) > 2 * MAX_ROUND_MESSAGES:
            # A loop inside may have many rounds. Sorted before it is cut, so that the messages that are
            # dropped do not depend on timing; twice the limit, so that this is rare.
            self.current_messages.sort()
            del self.current_messages[:-MAX_ROUND_MESSAGES]

    def record_result(self, text: str) -> None:
        plain = " ".join(_PASSING.sub("", text).split())
        digest = hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS]
        self.results.append(digest)
        if len(self.results) > 2 * MOST_RESULTS:
            del self.results[:-MOST_RESULTS]
        durations = [value for value, is_duration in quantities(text[:MEASURED]) if is_duration]
        if durations:
            self.durations[digest] = [*self.durations.pop(digest, []), durations][-MOST_EARLIER:]
            if len(self.durations) > MOST_MEASURED:
                del self.durations[next(iter(self.durations))]

    def end_round(self, breaker: Breaker, decide: Decide) -> Staleness | None:
        """Ends the current round; returns the evidence if the loop has repeated itself for long enough, None
        if it has not.

        Messages that were sent in parallel are taken in the order of the file, so that nothing depends
        on timing.
        """
        self.round += 1
        spoken = bool(self.current_messages)
        self.said += [(self.round, *message[1:]) for message in sorted(self.current_messages)]
        self.current_messages.clear()
        has_progress = False
        if self.results and self.said:  # a loop without messages cannot be dead
            has_progress = bool(decide(self._has_new_result))
            self.seen = [*self.seen, *self.results][-MOST_RESULTS:]
        self.results.clear()
        found: Staleness | None = None
        if has_progress:
            self.reset_staleness()
        elif spoken and breaker.detects_dead_loops:
            found = self._find_staleness(breaker, decide)
        if spoken and found is None:  # otherwise the evidence needs the messages
            self.forget(breaker.window)
        return found

    def _find_staleness(self, breaker: Breaker, decide: Decide) -> Staleness | None:
        certainty, stale = decide(judge_round, self.said, self.round, breaker.threshold)
        if isinstance(
            certainty, bool
        ):  # the decision of an earlier program, which found the loop dead or not
            numbers = {self.said[place][0] for place, _ in stale}
            return (
                Staleness(EXACT, len(numbers), [(place, value) for place, value in stale]) if stale else None
            )
        for kind in CERTAINTIES:
            is_stale = certainty in CERTAINTIES[: CERTAINTIES.index(kind) + 1]
            rounds, messages = self.streaks.get(kind, (0, 0))
            self.streaks[kind] = [rounds + 1, messages + len(stale)] if is_stale else [0, 0]
        for kind, (rounds, messages) in self.streaks.items():
            if kind == ONE_PLACE and self.warned:
                continue  # the bound of the loop ends it, and one warning is enough
            patience = breaker.patience.rounds(kind)
            if patience is not None and rounds >= patience and messages >= breaker.window:
                shown = min(rounds, 2 * breaker.window)  # `said` has the predecessors of so many
                stale = decide(judge_rounds, self.said, self.round - shown, breaker.threshold)
                return Staleness(kind, rounds, [(place, value) for place, value in stale])
        return None

    def _has_new_result(self) -> bool:
        """Whether a result is new to the loop, or all durations in one fall: something is made faster, while
        chance lets a duration fall now and rise then."""
        return any(
            digest not in self.seen or _fall(self.durations.get(digest, ())) for digest in self.results
        )

    def reset_staleness(self) -> None:
        """After progress or a trip: only later rounds can make the loop dead."""
        self.streaks = {}

    def forget(self, window: int) -> None:
        """Drops messages that no comparison needs any more."""
        retained = self._retained(window)
        if len(retained) < len(self.said):
            self.said = [self.said[place] for place in retained]

    def _retained(self, window: int) -> list[int]:
        """The indexes of the last messages of each speaker: those that stale rounds can contain, and
        their predecessors."""
        most, count, retained = MOST_EARLIER + 2 * window, dict[str, int](), list[int]()
        for place in range(len(self.said) - 1, -1, -1):
            speaker = self.said[place][1]
            count[speaker] = count.get(speaker, 0) + 1
            if count[speaker] <= most:
                retained.append(place)
        return retained[::-1]

    def last(self, most: int) -> list[Utterance]:
        """The last messages, those of the current round included."""
        return [*self.said, *((self.round + 1, *message[1:]) for message in sorted(self.current_messages))][
            -most:
        ]


def _fall(rows: Sequence[list[float]]) -> bool:
    """Whether all durations of a result fall from one version to the next, mostly."""
    if len(rows) < 3 or len({len(row) for row in rows}) != 1:
        return False
    return all(trend(column) <= -TREND for column in zip(*rows, strict=True))


def judge_round(said: Sequence[Utterance], number: int, threshold: float) -> tuple[str, StaleMessages]:
    """How certain it is that a round repeats earlier ones, by its least certain message; and its messages.

    Empty if one of them is new.
    """
    note_work(sum(len(one[3]) for one in said if one[0] == number))
    worst, stale = 0, list[tuple[int, float]]()
    for place, one in enumerate(said):
        if one[0] == number:
            kind, value = _judge(said, place)
            if value >= threshold:
                return NEW, []
            # Small edits are no news if the threshold is above them.
            worst = max(worst, CERTAINTIES.index(ONE_PLACE if kind == NEW else kind))
            stale.append((place, value))
    return CERTAINTIES[worst], stale


def judge_rounds(said: Sequence[Utterance], since: int, threshold: float) -> StaleMessages:
    """The messages of all rounds after one, with their novelty. Those whose predecessors are forgotten would
    look new, and are left out."""
    note_work(sum(len(one[3]) for one in said))
    judged = [(place, _judge(said, place)[1]) for place, one in enumerate(said) if one[0] > since]
    return [(place, value) for place, value in judged if value < threshold]


def _judge(said: Sequence[Utterance], place: int) -> tuple[str, float]:
    speaker = said[place][1]
    return judge(said[place][3], [one[3] for one in said[:place] if one[1] == speaker])


def repetitions(said: Sequence[Utterance], stale: StaleMessages) -> list[dict[str, Any]]:
    """The stale messages, each with the message that it repeats and the differences: the evidence."""
    note_work(sum(len(one[3]) for one in said))
    return [_repetition(said, place, value) for place, value in stale]


def _repetition(said: Sequence[Utterance], place: int, value: float) -> dict[str, Any]:
    _, node, address, text = said[place]
    data: dict[str, Any] = {"node": node, "address": address, "text": text[:SHOWN], "novelty": value}
    earlier = [one for one in said[:place] if one[1] == node]
    if earlier:
        # Reversed, so that the latest of equally similar messages is shown.
        nearest = max(reversed(earlier), key=lambda one: _similarity(one[3], text))
        data |= {"repeats": nearest[2], "changed": _changes(nearest[3], text)}
    return data


def _similarity(one: str, other: str) -> tuple[bool, float]:
    keys, others = set(parse_text(one).keys), set(parse_text(other).keys)
    return one.strip() == other.strip(), len(keys & others) / max(1, len(keys | others))


def _changes(before: str, now: str) -> list[list[str]]:
    """The differences: by lines, or by words if both texts are single lines. Long parts between the first
    difference and the last are one change, since comparing them takes the square of their length at least."""
    glue = "\n" if "\n" in before + now else " "
    old, new = before.split(glue), now.split(glue)
    if len(old) + len(new) > MOST_COMPARED:
        old, new = _without_common_ends(old, new)
    if len(old) + len(new) > MOST_COMPARED:
        return [[_shown(old, glue), _shown(new, glue)]]
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    changes = [
        [glue.join(old[a:b])[:SHOWN], glue.join(new[c:d])[:SHOWN]]
        for tag, a, b, c, d in matcher.get_opcodes()
        if tag != "equal"
    ]
    return changes[:MOST_CHANGES]


def _without_common_ends(old: list[str], new: list[str]) -> tuple[list[str], list[str]]:
    shorter = min(len(old), len(new))
    first = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    rest = shorter - first
    last = next((at for at in range(rest) if old[-1 - at] != new[-1 - at]), rest)
    return old[first : len(old) - last], new[first : len(new) - last]


def _shown(parts: list[str], glue: str) -> str:
    return glue.join(parts[: SHOWN + 1])[:SHOWN]
