"""The novelty of a message beside its speaker's earlier ones: 1 for new text, 0 for a repetition.

The measure looks at what changed and not at how much stayed the same, so an edit counts however long the
text around it is. In five sentences:

1. A message is split into units, its sentences and lines; two units are equal if they differ only in
   case, spacing, words with digits and, in a short text, the punctuation around them.
2. A unit that none of the speaker's last messages contains is new; but a unit that only puts other names
   (up to three consecutive words) where an earlier unit had others is new the first time that this place
   changes, and a repetition from then on.
3. A number is new the first time that its place changes, and as long as it mostly moves in one direction
   from message to message; a duration only if it falls.
4. A message without anything new in it is a repetition, unless it drops units, moves one part of a list or,
   in a long text, combines units as never before.
5. In a text that consists mostly of numbers, the numbers are its words.

The novelty is the share of new text, raised to at least FLOOR if anything is new; it is 0 if nothing is.
`judge` also tells how certain a repetition is: word by word, with known words only, or with other words in
some place. The breaker waits longer where it is less certain (dead_loop.py).

The first half of the module parses texts into units and finds where two units differ; the second half
(`_Comparison`) applies the rules. Most units of a long text are known, and the code relies on that: a
unit is looked up by its key, and its words are only computed when it has to be compared. Parsed texts
and lines are cached, because each message is compared with the following ones too. A message costs about
a tenth of a millisecond.

Rejected (docs/decisions/0023): compression, which measures how much of a text is known, and of a
one-line fix in a long file everything is known except a line: it locked 389 of 400 series of real
revisions. Vocabulary that stops growing, which does not separate the two either. Lists of polite
phrases, which only find the phrases of their author. Free paraphrase is not detected.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations, pairwise
from typing import NamedTuple

from roundel.kernel.repetition import ATTEMPT, repeats_exactly

EXACT, REORDERED, ONE_PLACE, NEW = "exact", "reordered", "one_place", "new"
"""What a message is beside the earlier ones of its speaker, from the most certain repetition to news."""
NAME, NAME_CHARACTERS, NAME_TOKENS = 3, 6, 8
"""The largest name, in words, in characters of a script without spaces, and in tokens with
punctuation."""
_WIDE = "\u3040-\u30ff\u3400-\u9fff"
"""Scripts without spaces between words: each character is a word."""
_TOKEN = re.compile(rf"[{_WIDE}]|[^\W{_WIDE}]+(?:-[^\W{_WIDE}]+)*|[^\w\s]")
_SENTENCE_END = re.compile(r"[.!?][\"'”’)]*\s+|[。！？；]")
_DIGIT = re.compile(r"\d")
_WITH_DIGITS = re.compile(r"\d[\w-]*")
_WORD = re.compile(rf"[{_WIDE}]|\b[^\W\d{_WIDE}]+\b")
CLOCKS = (
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
    r"|\d\d?:\d\d:\d\d(?:[.,]\d+)?"
)
"""Dates, and times with seconds."""
DURATIONS = r"\b\d+(?:\.\d+)?\s?(?:[mµun]?s|sec(?:onds?)?|min(?:utes?)?|h(?:ours?)?)\b"
_QUANTITY = re.compile(
    rf"(?P<clock>{CLOCKS}|\d\d?:\d\d)"
    rf"|(?P<duration>{DURATIONS})"
    r"|(?P<number>(?<![\w.])[-+−]?\d+(?:,\d{3})*(?:\.\d+)?)(?=[^\W\d_]{0,3}(?![\w-]))"
    r"|(?P<identifier>\b(?=\w*[a-z_])(?=\w*\d)[\w-]+)",
    re.IGNORECASE,
)
"""Numbers, also with a short unit (`12%`, `80MB`). Clocks and identifiers change with every message and
measure nothing."""

Spans = tuple[tuple[int, int], ...]
"""Ranges in a list of words, each from a start up to an end; an empty range where words were
inserted."""


class TextUnit:
    """A sentence or a line. Words are computed lazily: most units are known, and only their keys are
    compared."""

    __slots__ = ("_bag", "_numbers", "_words", "exact", "figures", "key", "text")

    def __init__(self, text: str, numbers: bool) -> None:
        self.text = text
        self._numbers = numbers
        self._words: tuple[str, ...] | None = None
        self._bag: frozenset[str] = frozenset()
        self.figures = ""
        """The text, if it has numbers and they do not count as words."""
        if numbers or not _DIGIT.search(text):
            written = "".join(text.lower().split())
        else:
            written = "".join(self._tokens())
            self.figures = text
        self.exact = written.lstrip(">")
        """The key with the punctuation around it: in a long text, which may be code, a missing colon is
        an edit."""
        first, last = 0, len(written)
        while first < last and not (written[first].isalnum() or written[first] == "_"):
            first += 1
        while last > first and not (written[last - 1].isalnum() or written[last - 1] == "_"):
            last -= 1
        self.key = written[first:last]
        """Equal for units that count as equal in a short text; empty if there is only punctuation."""

    @property
    def words(self) -> tuple[str, ...]:
        if self._words is None:
            tokens = self._tokens()
            first, last = 0, len(tokens)
            while first < last and not _is_word(tokens[first][0]):
                first += 1
            while last > first and not _is_word(tokens[last - 1][0]):
                last -= 1
            self._words = tuple(tokens[first:last])
        return self._words

    @property
    def bag(self) -> frozenset[str]:
        if not self._bag:
            self._bag = frozenset(self.words)
        return self._bag

    def _tokens(self) -> list[str]:
        tokens: list[str] = _TOKEN.findall(self.text.lower())
        return tokens if self._numbers else ["0" if has_digit(token) else token for token in tokens]


class ParsedText(NamedTuple):
    """A message, split into units."""

    units: tuple[TextUnit, ...]
    keys: tuple[str, ...]
    places: dict[str, int]
    """The index of the last unit with each key."""
    exact: frozenset[str]
    figures: dict[tuple[str, int], str]
    """The units with numbers, by key and the number of earlier units with the same key."""
    size: int
    """The number of characters of all keys."""
    numbers: bool
    """The text consists mostly of numbers, so they count as words."""


@lru_cache(64)
def parse_text(text: str) -> ParsedText:
    """Splits a text into units. Cached: each message is compared with several later ones."""
    lines = [line for line in map(str.strip, text.split("\n")) if line]
    numbers = _is_numeric(text)
    units = tuple([unit for line in lines for unit in _units(line, numbers)])
    if lines and not units:  # only punctuation, which is one unit so that "…" can repeat "…"
        units = (_punctuation_unit(" ".join(lines)),)
    keys = tuple(unit.key for unit in units)
    places = {key: place for place, key in enumerate(keys)}
    exact = frozenset([unit.exact for unit in units])
    return ParsedText(units, keys, places, exact, _figures(units), sum(map(len, keys)), numbers)


def _is_numeric(text: str) -> bool:
    numbers = len(_WITH_DIGITS.findall(text))
    # A cheap test first: few numbers in a long text are no table, and counting words takes time.
    return numbers * 24 > len(text) and numbers > len(_WORD.findall(text))


@lru_cache(8192)
def _units(line: str, numbers: bool) -> tuple[TextUnit, ...]:
    ends = [found.end() for found in _SENTENCE_END.finditer(line)]
    units = [TextUnit(line[start:end], numbers) for start, end in pairwise((0, *ends, len(line)))]
    found = tuple([unit for unit in units if unit.key])
    # Signs alone are no sentence, but a line of different ones may be part of a drawing.
    return found if found or len(set(line)) < 2 else (_punctuation_unit(line),)


def _figures(units: Sequence[TextUnit]) -> dict[tuple[str, int], str]:
    found: dict[tuple[str, int], str] = {}
    count: dict[str, int] = {}
    for unit in units:
        if unit.figures:
            before = count.get(unit.key, 0)
            found[unit.key, before] = unit.figures
            count[unit.key] = before + 1
    return found


def _punctuation_unit(text: str) -> TextUnit:
    unit = TextUnit(text, True)
    unit.key = unit.exact or text  # nothing is left of ">", the mark of a quotation
    return unit


def has_digit(word: str) -> bool:
    return any(map(str.isdigit, word))


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


@lru_cache(2048)
def quantities(text: str) -> tuple[tuple[float, bool], ...]:
    """The numbers of a text, each with whether it is a duration. The number of an attempt is none."""
    found = []
    for match in _QUANTITY.finditer(ATTEMPT.sub(" ", text)):
        if match.lastgroup == "number":
            found.append((float(match[0].replace(",", "").replace("−", "-")), False))
        elif match.lastgroup == "duration":
            found.append((float(re.match(r"[\d.]+", match[0])[0]), True))  # type: ignore[index]
    return tuple(found)


def trend(values: Sequence[float]) -> float:
    """How consistently a number rises (1) or falls (-1) from message to message."""
    pairs = list(combinations(values, 2))
    return sum((then < later) - (then > later) for then, later in pairs) / len(pairs)


def _moves(rows: Sequence[tuple[tuple[float, bool], ...]]) -> bool:
    """Whether one of the numbers in the last row changes for the first time, or moves mostly in one
    direction.

    The rows are the numbers of one place in successive messages."""
    latest = rows[-1]
    rows = [row for row in rows if len(row) == len(latest)]
    for column, (now, is_duration) in enumerate(latest):
        values = [row[column][0] for row in rows]
        before = values[:-1]
        if not before:
            continue
        if len(set(before)) == 1 and now != before[-1] and not is_duration:
            return True
        direction = trend(values)
        if -direction >= TREND or (direction >= TREND and not is_duration):
            return True
    return False


# Differences between two units.


def differences(unit: TextUnit, other: TextUnit) -> tuple[Spans, Spans] | None:
    """The ranges in both units where they differ, if they differ only in names; None otherwise.

    Half of the words of the longer unit must be equal, and at least two: otherwise two short sentences
    with nothing in common would differ "only in names".
    """
    longer = max(len(unit.words), len(other.words))
    shared = len(unit.bag & other.bag)
    if 2 * shared < len(unit.bag) - 1 or 2 * shared < len(other.bag) - 1:  # a cheap test first
        return None
    found = _runs(unit.words, other.words)
    if found is None:
        return None
    mine, theirs = found
    same = len(unit.words) - sum(end - start for start, end in mine)
    return (mine, theirs) if same >= 2 and 2 * same >= longer else None


def _runs(words: Sequence[str], others: Sequence[str]) -> tuple[Spans, Spans] | None:
    """The differing ranges. Nearly always there is one, between an equal start and an equal end."""
    first, last, shorter = 0, 0, min(len(words), len(others))
    while first < shorter and words[first] == others[first]:
        first += 1
    while last < shorter - first and words[-1 - last] == others[-1 - last]:
        last += 1
    mine, theirs = (first, len(words) - last), (first, len(others) - last)
    if _is_name(words[slice(*mine)]) and _is_name(others[slice(*theirs)]):
        return (mine,), (theirs,)
    return _several_runs(words, others, mine, theirs)


def _several_runs(
    words: Sequence[str], others: Sequence[str], mine: tuple[int, int], theirs: tuple[int, int]
) -> tuple[Spans, Spans] | None:
    """The differing ranges if there are several, within the given ranges of both."""
    at, there = mine[0], theirs[0]
    found: list[tuple[int, int]] = []
    found_there: list[tuple[int, int]] = []
    while at < mine[1] or there < theirs[1]:
        if at < mine[1] and there < theirs[1] and words[at] == others[there]:
            at += 1
            there += 1
            continue
        matched = _next_match(words, others, at, there)
        if matched is None:
            return None
        found.append((at, matched[0]))
        found_there.append((there, matched[1]))
        at, there = matched
    return tuple(found), tuple(found_there)


def _next_match(words: Sequence[str], others: Sequence[str], at: int, there: int) -> tuple[int, int] | None:
    """The nearest positions from which both match again; None if more than a name lies before them.

    Bounded by NAME_TOKENS, so it costs the same in units of any length; a diff algorithm would be
    quadratic.
    """
    ahead = others[there : there + NAME_TOKENS + 1]
    for total in range(1, 2 * NAME_TOKENS + 1):
        for skipped in range(max(0, total - NAME_TOKENS), min(NAME_TOKENS, total, len(words) - at) + 1):
            mine, theirs = at + skipped, there + total - skipped
            if mine < len(words) and words[mine] not in ahead:
                continue
            if _matches_from(words, others, mine, theirs):
                if _is_name(words[at:mine]) and _is_name(others[there:theirs]):
                    return mine, theirs
                return None
    return None


def _matches_from(words: Sequence[str], others: Sequence[str], at: int, there: int) -> bool:
    """Whether both match in two words, since one may match by chance, or both end here."""
    if at >= len(words) or there >= len(others):
        return at == len(words) and there == len(others)
    return words[at : at + 2] == others[there : there + 2] or (
        words[at] == others[there] and (at + 1 == len(words) or there + 1 == len(others))
    )


def _is_name(tokens: Sequence[str]) -> bool:
    """Whether the tokens are few enough to be a name."""
    if len(tokens) <= NAME:
        return True
    words = [token for token in tokens if _is_word(token[0])]
    wide = all(len(word) == 1 and "\u3040" <= word <= "\u9fff" for word in words)
    return len(tokens) <= NAME_TOKENS and len(words) <= (NAME_CHARACTERS if wide else NAME)


def spans_overlap(changes: Spans, places: Spans) -> bool:
    """Whether each change touches one of the ranges."""
    return all(any(_touch(change, place) for place in places) for change in changes)


def _touch(one: tuple[int, int], other: tuple[int, int]) -> bool:
    if one[0] == one[1] or other[0] == other[1]:
        return one[0] <= other[1] and other[0] <= one[1]
    return one[0] < other[1] and other[0] < one[1]


TREND = 0.6
"""A number moves in one direction if the pairs of messages in which it rises exceed those in which it falls
by this share of all pairs, or the other way round."""
MOST_EARLIER = 8
"""The number of earlier messages of the speaker that a message is compared with."""
FLOOR = 0.2
"""The novelty of a single edit, in a text of any length; above the default threshold of 0.1."""
BRIEF, SHORT, LONG = 3, 5, 12
"""The largest number of units of a brief text and of a short one; a text with more than LONG is long."""
FEWEST_WORDS = 3
"""A text with fewer different words has no order of words that could be told from a pattern of signs."""
ENOUGH = 2
"""After this many edits in a long text, all other unknown units count as new without a comparison."""
MOST_PREDECESSORS = 4
"""The number of earlier messages in which the predecessor of a unit of a long text is searched."""
NEARBY = 4
"""The distance, in units, within which a neighbour is searched that both texts contain."""


def novelty(text: str, earlier: Sequence[str]) -> float:
    """The novelty of a text compared with earlier ones of the same speaker."""
    return judge(text, earlier)[1]


def judge(text: str, earlier: Sequence[str]) -> tuple[str, float]:
    """How a text relates to earlier ones of the same speaker, and its novelty.

    The relation is `exact`, `reordered` or `one_place` if nothing is new, by the certainty that it is a
    repetition; otherwise it is `new`."""
    earlier = [other for other in earlier[-MOST_EARLIER:] if other.strip()]
    message = parse_text(text)
    if not message.units:
        return EXACT, 0.0
    if not earlier:
        return NEW, 1.0
    if repeats_exactly(text, earlier):
        return EXACT, 0.0
    comparison = _Comparison(message, [parse_text(other) for other in earlier])
    value = comparison.novelty()
    return (NEW if value else comparison.certainty()), value


# Comparison of one message with the others.


class _Comparison:
    """Applies the rules of the module docstring to one message."""

    def __init__(self, message: ParsedText, earlier: list[ParsedText]) -> None:
        self._message, self._earlier = message, earlier
        self._is_brief, self._short = len(message.units) <= BRIEF, len(message.units) <= SHORT
        self._latest_first = earlier[::-1]
        self._renamed = 0
        """The number of units that only put other names in places where names have changed before."""
        self._echoes = 0
        """The number of units that only grew by a word that they had."""

    def novelty(self) -> float:
        """Counts new units first (rules 1 to 3); only without any do the rules for the whole text apply
        (4)."""
        message = self._message
        if self._is_brief and self._has_other_order():
            return FLOOR if self._moves_a_word() else 0.0
        edits = size = 0
        for place, unit in enumerate(message.units):
            if self._is_known(unit):
                if self._short or self._is_exactly_known(unit):
                    continue
            elif self._is_renamed_again(unit, place):
                continue
            edits += 1
            size += len(unit.key)
            if edits == ENOUGH and len(message.units) > LONG:
                size = sum([len(unit.key) for unit in message.units if not self._is_known(unit)])
                break
        if edits:
            return round(FLOOR + (1 - FLOOR) * min(1.0, size / message.size), 3)
        news = self._moves_a_number() or (not self._renamed and self._is_new_as_a_whole())
        return FLOOR if news else 0.0

    def certainty(self) -> str:
        """How certain it is that a message without news is a repetition: if it consists of known sentences or
        of known words, nothing else has changed."""
        if self._is_brief and self._has_other_order():
            return REORDERED
        known = {figures for text in self._earlier for figures in text.figures.values()}
        has_other_numbers = not known.issuperset(self._message.figures.values())
        is_known = self._is_known if self._short else self._is_exactly_known
        changed = sum(not is_known(unit) for unit in self._message.units)
        return ONE_PLACE if self._renamed or has_other_numbers or changed > self._echoes else REORDERED

    # Brief texts.

    def _has_other_order(self) -> bool:
        """Whether a text has the words of an earlier one, each as often, but not the same sentences."""
        if all(map(self._is_known, self._message.units)):
            return False
        words = _content_words(self._message)
        if len(set(words)) < FEWEST_WORDS:
            return False
        others = [_content_words(text) for text in self._earlier if len(text.units) <= BRIEF]
        return words not in others and sorted(words) in map(sorted, others)

    def _moves_a_word(self) -> bool:
        words = _content_words(self._message)
        return len(words) > SHORT and _is_move(words, _content_words(self._earlier[-1]))

    def _is_known(self, unit: TextUnit) -> bool:
        # Most units occur in the last message, so this is quicker than building a set of all units.
        for text in self._latest_first:  # noqa: SIM110 (`any` would create a generator for each unit)
            if unit.key in text.places:
                return True
        return False

    def _is_exactly_known(self, unit: TextUnit) -> bool:
        for text in self._latest_first:  # noqa: SIM110
            if unit.exact in text.exact:
                return True
        return False

    # Unknown units.

    def _is_renamed_again(self, unit: TextUnit, place: int) -> bool:
        """Whether a unit only puts other names where names have changed before.

        Looks for two different predecessors that changed in the same place; a single change of a name
        may be news, and so is a number that moves in one direction beside the names.
        """
        nearest: tuple[TextUnit, Spans] | None = None
        has_changed_before = False
        predecessors = [unit]
        long = len(self._message.units) > LONG
        for other in self._latest_first[: MOST_PREDECESSORS if long else None]:
            found = self._predecessor(unit, place, other)
            if found is None:
                continue
            before, added, removed = found
            if self._message.numbers and any(map(has_digit, _words_in(unit, added))):
                return False
            predecessors.append(before)
            if not any(end > start for start, end in removed):
                # An insertion is news, unless it repeats a word of the unit ("very very good").
                more = _words_in(unit, added)
                is_echo = all(word in before.bag for word in more) and any(_is_word(word[0]) for word in more)
                self._echoes += is_echo
                return is_echo
            if nearest is None:
                nearest = before, removed
            elif before.key != nearest[0].key and not has_changed_before:
                changed = differences(nearest[0], before)
                has_changed_before = changed is not None and spans_overlap(nearest[1], changed[0])
        if has_changed_before and not _moves([quantities(each.text) for each in predecessors[::-1]]):
            self._renamed += 1
            return True
        return False

    def _predecessor(
        self, unit: TextUnit, place: int, other: ParsedText
    ) -> tuple[TextUnit, Spans, Spans] | None:
        """The unit of another text that this one replaces, and where they differ: the most similar
        one."""
        best: tuple[int, TextUnit, Spans, Spans] | None = None
        for before in self._candidates(place, other):
            found = differences(unit, before)
            if found is not None:
                size = sum(end - start for start, end in found[0])
                if best is None or size < best[0]:
                    best = (size, before, *found)
        return best[1:] if best is not None else None

    def _candidates(self, place: int, other: ParsedText) -> list[TextUnit]:
        """The units of another text that are gone; in a long text, only those at the same position.

        Comparing each unit with all units of a long text would be quadratic in its length.
        """
        here = self._message.places
        if len(other.units) <= LONG:
            return [unit for unit in other.units if unit.key not in here]
        found = []
        for direction in (-1, 1):
            away, there = _neighbour(self._message.keys, place, direction, other)
            for step in range(1, away + 1):
                at = there - direction * step
                if 0 <= at < len(other.units) and other.units[at].key not in here:
                    found.append(other.units[at])
        return found

    # Messages without new units.

    def _is_new_as_a_whole(self) -> bool:
        """Rule 4: whether known units are dropped, combined or moved in a way that is new."""
        message, before = self._message, self._earlier[-1]
        if any(message.keys == text.keys for text in self._earlier):
            return False
        mine, size = message.places.keys(), len(message.units)
        if all(mine != text.places.keys() for text in self._earlier):
            return size > LONG or mine <= before.places.keys()
        # The same units in another order, or some of them more often or less often.
        if Counter(message.keys) == Counter(before.keys):
            return size > SHORT and _is_move(message.keys, before.keys)
        return not self._short and not _is_echo(message.keys, before.keys)

    def _moves_a_number(self) -> bool:
        """Rule 3: whether a number in a unit that is known but for its numbers moves."""
        figures = self._message.figures
        for place, now in figures.items():
            rows = [text.figures[place] for text in self._earlier if place in text.figures]
            if rows and any(row != now for row in rows) and _moves([*map(quantities, rows), quantities(now)]):
                return True
        return False


def _content_words(text: ParsedText) -> list[str]:
    """The words and numbers of a text."""
    tokens = (token for unit in text.units for token in _TOKEN.findall(unit.text.lower()))
    return [token for token in tokens if _is_word(token[0])]


def _words_in(unit: TextUnit, spans: Spans) -> list[str]:
    return [word for start, end in spans for word in unit.words[start:end]]


def _neighbour(keys: Sequence[str], place: int, direction: int, other: ParsedText) -> tuple[int, int]:
    """The distance to the next unit that both texts contain, and its index in the other text."""
    for away in range(1, NEARBY + 1):
        at = place + direction * away
        if not 0 <= at < len(keys):
            return away, -1 if direction < 0 else len(other.units)
        if keys[at] in other.places:
            return away, other.places[keys[at]]
    return 0, 0


def _is_move(now: Sequence[str], before: Sequence[str]) -> bool:
    """Whether one part was moved to another place, or two exchanged theirs; a shuffle is neither."""
    start, end, before_end = _changed(now, before)
    part, was = tuple(now[start:end]), tuple(before[start:before_end])
    if len(part) != len(was) or not part:
        return False
    if part[0] == was[-1] and part[-1] == was[0] and part[1:-1] == was[1:-1]:
        return True
    cuts = (cut for cut in range(1, len(part)) if part[cut] == was[0])
    return any(part[cut:] + part[:cut] == was for cut in cuts)


def _is_echo(now: Sequence[str], before: Sequence[str]) -> bool:
    """Whether something was only added, right after a copy of itself: the text grows by repetition."""
    start, end, was_end = _changed(now, before)
    # The common start is as long as possible, so a copy can only be before the addition, never after it.
    return was_end == start and now[start:end] == now[2 * start - end : start]


def _changed(now: Sequence[str], before: Sequence[str]) -> tuple[int, int, int]:
    """The range in which two sequences differ: the start, and the end in each."""
    start, shorter = 0, min(len(now), len(before))
    while start < shorter and now[start] == before[start]:
        start += 1
    same = 0
    while same < shorter - start and now[-1 - same] == before[-1 - same]:
        same += 1
    return start, len(now) - same, len(before) - same
