"""Dead loops: detects that the last rounds of a loop only repeated what was said in it before.

A round is stale if every message of an agent or a person in it repeats an earlier one of the same
speaker (novelty.py), and no Python node or tool returned a result that is new to the loop. A loop is
dead when its last rounds are stale: at least two, with at least `window` messages. So a speaker who
repeats itself never outvotes one who makes progress, and a loop in which something outside still changes
continues.

Memory is bounded, since a snapshot contains the history: per speaker, `MOST_EARLIER + 2 * window`
messages; results only as digests. What is dropped cannot be compared any more, so `truncated_speakers`
marks those whose first messages look new only because their predecessors are gone.

All verdicts are stored decisions (`decide`), because they depend on Unicode tables and on the measure,
which a later version may change (docs/decisions/0018 and 0023).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any

from roundel.kernel.facts import Decide
from roundel.kernel.novelty import MOST_EARLIER, TIMES, novelty_at, parse_text
from roundel.workflow.limits import Breaker

Utterance = tuple[int, str, str, str]
"""A message: round, speaker, address, text."""
StaleMessages = list[tuple[int, float]]
"""Messages by their index in `LoopHistory.said`, with their novelty."""
MAX_ROUND_MESSAGES = 128
"""The number of messages of one round that are remembered, the last ones."""
MOST_RESULTS, DIGITS = 100, 8
"""The number of results that are remembered, and the hex digits of each digest. Short digests keep
snapshots small; a collision only hides one new result."""
STALE_ROUNDS = 2
"""A loop is dead after at least this many stale rounds at its end."""
SHOWN = 500
"""The number of characters of a message that the evidence contains."""
MOST_CHANGES = 5
_PASSING = re.compile(
    rf"{TIMES}"
    r"|\b0x[0-9a-f]+|\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"
    r"|(?:/private)?(?:/var)?/tmp/[^\s'\"]+|/var/folders/[^\s'\"]+|[a-z]:\\[^\s'\"]{0,99}\\temp\\[^\s'\"]+",
    re.IGNORECASE,
)
"""Dates, times, durations, memory addresses, UUIDs and temporary paths: they differ in every result, so
they are no progress. Other numbers are: "3 failed" after "4 failed"."""


class LoopHistory:
    """The messages and results of a loop. The kernel creates one per free loop and per composite
    node."""

    __slots__ = ("current_messages", "results", "round", "said", "seen", "since", "truncated_speakers")

    def __init__(self) -> None:
        self.current_messages: list[tuple[Any, str, str, str]] = []
        """The current round: position in the order of the run, speaker, address, text."""
        self.results: list[str] = []
        """Digests of the results of Python nodes and tools in that round."""
        self.said: list[Utterance] = []
        """The last messages of each speaker in earlier rounds."""
        self.truncated_speakers: list[str] = []
        """The speakers of whom older messages were dropped."""
        self.seen: list[str] = []
        """Digests of the last results of earlier rounds."""
        self.round = 0
        """The number of completed rounds."""
        self.since = 0
        """Only rounds after this one can be stale: in it there was progress, or the loop was found
        dead."""

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
        self.results.append(hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS])
        if len(self.results) > 2 * MOST_RESULTS:
            del self.results[:-MOST_RESULTS]

    def end_round(self, breaker: Breaker, decide: Decide) -> StaleMessages | None:
        """Ends the current round; returns the messages that show that the loop is dead, None if it is
        not.

        Messages that were sent in parallel are taken in the order of the file, so that nothing depends
        on timing.
        """
        self.round += 1
        spoken = bool(self.current_messages)
        self.said += [(self.round, *message[1:]) for message in sorted(self.current_messages)]
        self.current_messages.clear()
        if self.results and self.said:  # a loop without messages cannot be dead
            if decide(self._has_new_result):
                self.since = self.round
            self.seen = [*self.seen, *self.results][-MOST_RESULTS:]
        self.results.clear()
        dead: StaleMessages = []
        if spoken and breaker.detects_dead_loops and self.since < self.round:
            bounds = (self.round, self.since, breaker.threshold, breaker.window)
            fresh, stale = decide(find_stale_messages, self.said, self.truncated_speakers, *bounds)
            dead = [(place, value) for place, value in stale]
            # A later call could not see anymore that this round had something new in it. So the result
            # is recorded.
            if fresh and self._forgets(breaker.window):
                self.since = self.round
        if spoken and not dead:  # otherwise the evidence needs the messages
            self.forget(breaker.window)
        return dead or None

    def _has_new_result(self) -> bool:
        return any(digest not in self.seen for digest in self.results)

    def reset_staleness(self) -> None:
        """After a trip: only later rounds can make the loop dead again."""
        self.since = self.round

    def forget(self, window: int) -> None:
        """Drops messages that no comparison needs any more."""
        retained = self._retained(window)
        if len(retained) < len(self.said):
            dropped = set(range(len(self.said))).difference(retained)
            speakers = {self.said[place][1] for place in dropped}
            self.truncated_speakers = sorted(speakers.union(self.truncated_speakers))
            self.said = [self.said[place] for place in retained]

    def _forgets(self, window: int) -> bool:
        """Whether `forget` would drop messages of this round, which could not be judged again then."""
        retained = set(self._retained(window))
        return any(one[0] == self.round and place not in retained for place, one in enumerate(self.said))

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


def find_stale_messages(
    said: Sequence[Utterance],
    truncated_speakers: Sequence[str],
    newest: int,
    since: int,
    threshold: float,
    window: int,
) -> tuple[bool, StaleMessages]:
    """Whether the newest round has anything new, and the messages of the stale rounds at the end.

    The list is empty if there are not enough of them for a dead loop. Rounds are judged again each time,
    from the last one backwards: a later message can show that an earlier one was no news (novelty.py).
    """
    stale: StaleMessages = []
    numbers = sorted({one[0] for one in said if one[0] > since}, reverse=True)
    for rounds, number in enumerate(numbers, 1):
        places = [place for place, one in enumerate(said) if one[0] == number]
        values = _stale(said, places, truncated_speakers, threshold)
        if values is None:
            return number == newest, []
        stale = [*values, *stale]
        if rounds >= STALE_ROUNDS and len(stale) >= window:
            return False, stale
    return False, []


def _stale(
    said: Sequence[Utterance], places: Sequence[int], truncated_speakers: Sequence[str], threshold: float
) -> StaleMessages | None:
    """The novelty of each message of a round; None if one of them is new enough."""
    judged: StaleMessages = []
    for place in places:
        speaker = said[place][1]
        series = [at for at, one in enumerate(said) if one[1] == speaker]
        own = series.index(place)
        if own < MOST_EARLIER and speaker in truncated_speakers:
            continue  # its predecessors were dropped; it was judged in its own round
        value = novelty_at([said[at][3] for at in series], own)
        if value >= threshold:
            return None
        judged.append((place, value))
    return judged


def repetitions(said: Sequence[Utterance], stale: StaleMessages) -> list[dict[str, Any]]:
    """The stale messages, each with the message that it repeats and the differences: the evidence."""
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
    """The differences: by lines, or by words if both texts are single lines."""
    old, new = (text.split("\n") if "\n" in before + now else text.split(" ") for text in (before, now))
    glue = "\n" if "\n" in before + now else " "
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    changes = [
        [glue.join(old[a:b])[:SHOWN], glue.join(new[c:d])[:SHOWN]]
        for tag, a, b, c, d in matcher.get_opcodes()
        if tag != "equal"
    ]
    return changes[:MOST_CHANGES]
