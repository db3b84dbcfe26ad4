"""Dead loops: whether the last rounds of a loop only repeated what was said in it before.

A round is stale if every message of an agent or a person in it repeats an earlier one of the same speaker
(novelty.py) and no Python node or tool gave a result that the loop has not seen. A loop is dead when its last
rounds are stale: at least two, with at least `window` messages. So a voice that repeats itself never outvotes
one that moves, and a loop in which something outside still changes goes on.
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
"""A message: its round, who said it, at which address, and its text."""
StaleMessages = list[tuple[int, float]]
"""Messages by their place in a list, and how new each is."""
MAX_ROUND_MESSAGES = 128
"""So many messages of a round are remembered, the last ones."""
MOST_RESULTS, DIGITS = 100, 8
"""So many results are remembered, the last ones, each by so many digits: a snapshot holds them all."""
STALE_ROUNDS = 2
SHOWN = 500
"""Characters of a message in the evidence."""
MOST_CHANGES = 5
_PASSING = re.compile(
    rf"{TIMES}"
    r"|\b0x[0-9a-f]+|\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"
    r"|(?:/private)?(?:/var)?/tmp/[^\s'\"]+|/var/folders/[^\s'\"]+|[a-z]:\\[^\s'\"]{0,99}\\temp\\[^\s'\"]+",
    re.IGNORECASE,
)
"""Dates, times, durations, memory addresses, UUIDs and temporary paths: they always change."""


class LoopHistory:
    """What was said and found out in a loop."""

    __slots__ = ("current_messages", "results", "round", "said", "seen", "since", "truncated_speakers")

    def __init__(self) -> None:
        self.current_messages: list[tuple[Any, str, str, str]] = []
        """In the current round: when in the order of the run, who, where, what."""
        self.results: list[str] = []
        """What Python nodes and tools gave in that round, as digests."""
        self.said: list[Utterance] = []
        """In the rounds before, the last messages of each speaker."""
        self.truncated_speakers: list[str] = []
        """The speakers who said more than that."""
        self.seen: list[str] = []
        """The last results of those rounds."""
        self.round = 0
        """How many rounds are over."""
        self.since = 0
        """The last round after which the loop may be dead: there was progress, or a person unlocked it."""

    @property
    def has_new_content(self) -> bool:
        """Whether the current round has a message or a result."""
        return bool(self.current_messages or self.results)

    def record_message(self, when: Any, node: str, address: str, text: str) -> None:
        self.current_messages.append((when, node, address, text))
        if len(self.current_messages) > 2 * MAX_ROUND_MESSAGES:
            # A loop inside has many rounds; in order, so that it does not matter who was quicker.
            self.current_messages.sort()
            del self.current_messages[:-MAX_ROUND_MESSAGES]

    def record_result(self, text: str) -> None:
        plain = " ".join(_PASSING.sub("", text).split())
        self.results.append(hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS])
        if len(self.results) > 2 * MOST_RESULTS:
            del self.results[:-MOST_RESULTS]

    def end_round(self, breaker: Breaker, decide: Decide) -> StaleMessages | None:
        """The messages that show that the loop is dead; None if it is not.

        What was said at the same time is looked at in the order of the file, so that nothing depends on who
        was quicker."""
        self.round += 1
        spoken = bool(self.current_messages)
        self.said += [(self.round, *message[1:]) for message in sorted(self.current_messages)]
        self.current_messages.clear()
        if self.results and self.said:  # where nobody has spoken yet, no loop can be dead
            if decide(self._has_new_result):
                self.since = self.round
            self.seen = [*self.seen, *self.results][-MOST_RESULTS:]
        self.results.clear()
        dead: StaleMessages = []
        if spoken and breaker.detects_dead_loops and self.since < self.round:
            bounds = (self.round, self.since, breaker.threshold, breaker.window)
            fresh, stale = decide(find_stale_messages, self.said, self.truncated_speakers, *bounds)
            dead = [(place, value) for place, value in stale]
            if fresh and self._forgets(breaker.window):
                self.since = self.round
        if spoken and not dead:  # else the messages are needed as evidence
            self.forget(breaker.window)
        return dead or None

    def _has_new_result(self) -> bool:
        return any(digest not in self.seen for digest in self.results)

    def reset_staleness(self) -> None:
        """The loop was found dead, and is only found dead again by what follows."""
        self.since = self.round

    def forget(self, window: int) -> None:
        kept = self._kept(window)
        if len(kept) < len(self.said):
            known = {self.said[place][1] for place in set(range(len(self.said))).difference(kept)}
            self.truncated_speakers = sorted(known.union(self.truncated_speakers))
            self.said = [self.said[place] for place in kept]

    def _forgets(self, window: int) -> bool:
        """Whether messages of this round would be forgotten, which could not be judged again then."""
        kept = set(self._kept(window))
        return any(one[0] == self.round and place not in kept for place, one in enumerate(self.said))

    def _kept(self, window: int) -> list[int]:
        most, count, kept = MOST_EARLIER + 2 * window, dict[str, int](), list[int]()
        for place in range(len(self.said) - 1, -1, -1):
            speaker = self.said[place][1]
            count[speaker] = count.get(speaker, 0) + 1
            if count[speaker] <= most:
                kept.append(place)
        return kept[::-1]

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
    """Whether the newest round said anything new, and the messages of the stale rounds at the end if they are
    enough to call the loop dead."""
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
    """How new the messages of a round are; None if one of them is new enough."""
    judged: StaleMessages = []
    for place in places:
        speaker = said[place][1]
        series = [at for at, one in enumerate(said) if one[1] == speaker]
        own = series.index(place)
        if own < MOST_EARLIER and speaker in truncated_speakers:
            continue  # what it may repeat is forgotten; it was judged when it was said
        value = novelty_at([said[at][3] for at in series], own)
        if value >= threshold:
            return None
        judged.append((place, value))
    return judged


def repetitions(said: Sequence[Utterance], stale: StaleMessages) -> list[dict[str, Any]]:
    """The stale messages, each beside the one that it repeats, with what little changed."""
    return [_repetition(said, place, value) for place, value in stale]


def _repetition(said: Sequence[Utterance], place: int, value: float) -> dict[str, Any]:
    _, node, address, text = said[place]
    shown: dict[str, Any] = {"node": node, "address": address, "text": text[:SHOWN], "novelty": value}
    earlier = [one for one in said[:place] if one[1] == node]
    if earlier:
        nearest = max(reversed(earlier), key=lambda one: _similarity(one[3], text))
        shown |= {"repeats": nearest[2], "changed": _changes(nearest[3], text)}
    return shown


def _similarity(one: str, other: str) -> tuple[bool, float]:
    keys, others = set(parse_text(one).keys), set(parse_text(other).keys)
    return one.strip() == other.strip(), len(keys & others) / max(1, len(keys | others))


def _changes(before: str, now: str) -> list[list[str]]:
    """What differs, line by line or in a single line word by word."""
    old, new = (text.split("\n") if "\n" in before + now else text.split(" ") for text in (before, now))
    glue = "\n" if "\n" in before + now else " "
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    changes = [
        [glue.join(old[a:b])[:SHOWN], glue.join(new[c:d])[:SHOWN]]
        for tag, a, b, c, d in matcher.get_opcodes()
        if tag != "equal"
    ]
    return changes[:MOST_CHANGES]
