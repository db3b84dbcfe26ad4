"""Regular expressions of users: Python's syntax and meaning, with a time limit on each search.

Patterns are matched inside the kernel, and Python's `re` cannot be interrupted: `^(\\w+\\s?)*$` on 49
letters and a mark would block every run of the process. The `regex` library has a
time limit, but it reads some patterns differently: it knows more syntax (fuzzy matching, nested sets,
POSIX classes, recursion), and some of its classes differ (its `\\w` includes combining marks, its `\\s`
lacks four separators).

So a pattern is parsed by Python's own parser (`re._parser`), and written anew from the tree, with
nothing in it that the two engines could read differently: every class by its Unicode properties, every
letter in a case-insensitive pattern as a set of its cases. The result has the meaning that Python gives
it, and the time limit of the library (docs/decisions/0017).

`re._parser` is private. A test compares both engines on random patterns for each version of Python.
Faults of the library that this search found, and that the translation avoids, are noted below where they
matter.

A search costs about 2 µs more for the clock. The library is imported when the first pattern is used,
since that takes a tenth of a second.
"""

from __future__ import annotations

import re
import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from itertools import chain
from typing import Any

from msgspec import Struct

from roundel.workflow.document import Located
from roundel.workflow.evaluation_budget import BudgetExceeded, EvaluationBudget, current_budget
from roundel.workflow.fields import Reader

# The parser of the standard library, whose modules have no types of their own.
_casefix: Any = import_module("re._casefix")
ops: Any = import_module("re._constants")
parser: Any = import_module("re._parser")

MAX_DEPTH = 100
"""How deep groups may be nested; the translation recurses."""
MAX_TRANSLATED_LENGTH = 100_000
"""A class such as `[\\u0000-\\uffff]` with ignored case is written with thousands of characters."""
MAX_PARTS = 100_000
"""The library copies a repeated part as often as it has to occur at least. Nested repeats multiply the
copies: `(?:(?:(?:a+)+)+)+` with more levels would take all memory."""

# Python's classes in terms of Unicode properties. The negated ones are written out as well, since a
# class inside a set cannot be negated on its own.
_WORD = r"\p{L}\p{N}_"
_SPACE = r"\s\x1c-\x1f"
_UNICODE = {
    ops.CATEGORY_WORD: _WORD,
    ops.CATEGORY_NOT_WORD: (
        r"\p{M}\p{S}\p{Z}\p{C}\p{Pd}\p{Ps}\p{Pe}\p{Pi}\p{Pf}\p{Po}"
        r"\u203f\u2040\u2054\ufe33\ufe34\ufe4d-\ufe4f\uff3f"
    ),
    ops.CATEGORY_DIGIT: r"\p{Nd}",
    # Not \P{Nd}: the library matches [^\d\D] wrongly with it.
    ops.CATEGORY_NOT_DIGIT: r"\p{L}\p{M}\p{Nl}\p{No}\p{P}\p{S}\p{Z}\p{C}",
    ops.CATEGORY_SPACE: _SPACE,
    ops.CATEGORY_NOT_SPACE: (
        r"\p{L}\p{M}\p{N}\p{P}\p{S}\p{Cf}\p{Cs}\p{Co}\p{Cn}\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f"
    ),
}
_ASCII_WORD = "0-9A-Z_a-z"
_ASCII = {
    ops.CATEGORY_WORD: _ASCII_WORD,
    ops.CATEGORY_NOT_WORD: r"\x00-\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\U0010ffff",
    ops.CATEGORY_DIGIT: "0-9",
    ops.CATEGORY_NOT_DIGIT: r"\x00-\x2f\x3a-\U0010ffff",
    ops.CATEGORY_SPACE: r"\x09-\x0d\x20",
    ops.CATEGORY_NOT_SPACE: r"\x00-\x08\x0e-\x1f\x21-\U0010ffff",
}
_REPEATS = (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT)
_EMPTY_HAS_NO_BOUNDARY = re.search(r"\B", "") is None
"""Up to Python 3.13, `\\B` does not match in an empty text. The translation follows the Python that runs
it."""


class UnsupportedPattern(ValueError):
    """Python can read the pattern, but the library cannot be made to give it the same meaning."""


class Translation(Struct, frozen=True):
    """A pattern in the syntax of the library, with the groups that it had for Python."""

    written: str
    groups: int
    """The number of capturing groups."""
    names: dict[str, int]
    """The numbers of the groups that have names."""


def translate(source: str, flags: int) -> Translation:
    """Translates a pattern for the library. Raises `re.error` if Python cannot read it, or
    UnsupportedPattern."""
    tree = parser.parse(source, flags)
    written = _PatternWriter(tree.state).sequence(tree, tree.state.flags, 0)
    if len(written) > MAX_TRANSLATED_LENGTH:
        raise UnsupportedPattern("it is too large when all its characters are written out")
    return Translation(written, tree.state.groups - 1, dict(tree.state.groupdict))


class _PatternWriter:
    """Writes the tree of `re._parser` in the syntax of the library.

    No flags are passed to the library as a whole, since (?i), (?a) and the like may apply to a part of a
    pattern. Each item is written so that it means the same under any flags."""

    def __init__(self, state: Any) -> None:
        self._names = {number: name for name, number in state.groupdict.items()}
        self._copies, self._parts = 1, 0
        """How often the library copies the part that is being written, and the sum of all copies so
        far."""
        self._in_lookbehind = False
        """Whether this is inside a look-behind. The library matches it from right to left, so groups
        capture differently."""

    def sequence(self, items: Any, flags: int, depth: int) -> str:
        if depth > MAX_DEPTH:
            raise UnsupportedPattern(f"its groups are nested more than {MAX_DEPTH} deep")
        self._parts += self._copies * max(len(items), 1)
        if self._parts > MAX_PARTS:
            raise UnsupportedPattern(
                "it repeats too much: nest its repeats less, or lower their minimum counts"
            )
        return "".join([self._item(kind, value, flags, depth) for kind, value in items])

    def _item(self, kind: Any, value: Any, flags: int, depth: int) -> str:
        if kind is ops.LITERAL:
            return _character_class([(kind, value)], flags) if flags & re.IGNORECASE else _escape(value)
        if kind is ops.NOT_LITERAL:
            return _character_class([(ops.NEGATE, None), (ops.LITERAL, value)], flags)
        if kind is ops.IN:
            return _character_class(value, flags)
        if kind is ops.ANY:
            return "(?s:.)" if flags & re.DOTALL else "(?-s:.)"
        if kind is ops.AT:
            return _position_assertion(value, flags)
        if kind in _REPEATS:
            low, high, body = value
            most = "" if high is ops.MAXREPEAT else str(high)
            outside, self._copies = self._copies, self._copies * (low + 1)
            inside = self.sequence(body, flags, depth + 1)
            self._copies = outside
            # In Python, each iteration of a possessive repeat is atomic; in the library, only the repeat
            # as a whole.
            if kind is ops.POSSESSIVE_REPEAT:
                return f"(?>(?>{inside}){{{low},{most}}})"
            return f"(?:{inside}){{{low},{most}}}{'?' if kind is ops.MIN_REPEAT else ''}"
        if kind is ops.BRANCH:
            branches = (self.sequence(branch, flags, depth + 1) for branch in value[1])
            return f"(?:{'|'.join(branches)})"
        if kind is ops.SUBPATTERN:
            return self._group(value, flags, depth)
        if kind is ops.ATOMIC_GROUP:
            return f"(?>{self.sequence(value, flags, depth + 1)})"
        if kind in (ops.ASSERT, ops.ASSERT_NOT):
            return self._lookaround(kind, value, flags, depth)
        return self._reference(kind, value, flags, depth)

    def _group(self, value: Any, flags: int, depth: int) -> str:
        number, added, removed, body = value
        inside = self.sequence(body, (_merge_flags(flags, added)) & ~removed, depth + 1)
        if number is None:
            return f"(?:{inside})"
        if self._in_lookbehind:
            raise UnsupportedPattern(
                "a group that captures inside a look-behind is not supported; write (?: )"
            )
        name = self._names.get(number)
        return f"(?P<{name}>{inside})" if name else f"({inside})"

    def _lookaround(self, kind: Any, value: Any, flags: int, depth: int) -> str:
        # Python checks the width when it compiles, which does not happen here; the library would accept
        # any width.
        direction, body = value
        if direction < 0 and len(set(body.getwidth())) > 1:
            raise re.error("look-behind requires fixed-width pattern")
        outside, self._in_lookbehind = self._in_lookbehind, self._in_lookbehind or direction < 0
        inside = self.sequence(body, flags, depth + 1)
        self._in_lookbehind = outside
        return f"(?{'<' if direction < 0 else ''}{'=' if kind is ops.ASSERT else '!'}{inside})"

    def _reference(self, kind: Any, value: Any, flags: int, depth: int) -> str:
        if kind is ops.GROUPREF:
            if self._in_lookbehind:
                raise UnsupportedPattern("a reference to a group inside a look-behind is not supported")
            if flags & re.IGNORECASE:
                if flags & re.ASCII:
                    raise UnsupportedPattern(
                        "a reference to a group with both (?a) and (?i) is not supported"
                    )
                return rf"(?i:\g<{value}>)"
            return rf"\g<{value}>"
        if kind is ops.GROUPREF_EXISTS:
            number, yes, no = value
            chosen = self.sequence(yes, flags, depth + 1)
            other = self.sequence(no, flags, depth + 1) if no else ""
            return f"(?({number}){_non_capturing(chosen)}|{_non_capturing(other)})"
        raise UnsupportedPattern(f"{str(kind).lower()} is not supported")


def _merge_flags(flags: int, added: int) -> int:
    """Adds flags to those around. `(?a: )` and `(?u: )` exclude each other: the inner one wins."""
    kinds = re.ASCII | re.UNICODE
    return (flags & ~kinds if added & kinds else flags) | added


def _non_capturing(body: str) -> str:
    return f"(?:{body})"


def _escape(code: int) -> str:
    # Everything else is written as an escape, so that no character can be syntax of the library.
    character = chr(code)
    return character if character.isalnum() else f"\\U{code:08x}"


def _position_assertion(place: Any, flags: int) -> str:
    if place is ops.AT_BEGINNING:
        return "(?m:^)" if flags & re.MULTILINE else r"\A"
    if place is ops.AT_END:
        return "(?m:$)" if flags & re.MULTILINE else "(?-m:$)"
    if place is ops.AT_BEGINNING_STRING:
        return r"\A"
    if place is ops.AT_END_STRING:
        return r"\Z"
    # Not \b: the library's own word boundary uses its own \w.
    word = f"[{_ASCII_WORD if flags & re.ASCII else _WORD}]"
    if place is ops.AT_BOUNDARY:
        return f"(?:(?<={word})(?!{word})|(?<!{word})(?={word}))"
    some = r"(?!\A\Z)" if _EMPTY_HAS_NO_BOUNDARY else ""
    return f"(?:(?<={word})(?={word})|{some}(?<!{word})(?!{word}))"


def _character_class(items: Any, flags: int) -> str:
    """Writes a set of characters. Where case is ignored, all cases are written out instead of using
    (?i): the library misses matches of `(?i:x)|[^ab]`."""
    negated = items[0][0] is ops.NEGATE
    categories = _ASCII if flags & re.ASCII else _UNICODE
    parts = []
    for kind, value in items[1:] if negated else items:
        if kind is ops.CATEGORY:
            parts.append(categories[value])
            continue
        low, high = (value, value) if kind is ops.LITERAL else value
        parts.append(_range(low, high))
        if flags & re.IGNORECASE:
            others = _other_cases(low, high, bool(flags & re.ASCII))
            parts.extend(_range(code, code) for code in others if not low <= code <= high)
    return f"[{'^' if negated else ''}{''.join(parts)}]"


def _range(low: int, high: int) -> str:
    return _escape(low) if low == high else f"{_escape(low)}-{_escape(high)}"


def _other_cases(low: int, high: int, ascii_only: bool) -> list[int]:
    """The characters that equal one in the range when case is ignored. ASCII ranges need no table."""
    if ascii_only or high < 128:
        letters = (chr(code) for code in range(max(low, ord("A")), min(high, ord("z")) + 1))
        found = {letter.swapcase() for letter in letters if letter.isalpha()}
        if not ascii_only:
            found.update(*(_BEYOND_ASCII.get(letter.lower(), "") for letter in found))
        return sorted(map(ord, found))
    if low == high and chr(low).upper() == chr(low).lower():
        return []
    codes, cases = _case_table()
    inside = codes[bisect_left(codes, low) : bisect_right(codes, high)]
    return sorted({case for code in inside for case in cases[code]})


# Letters outside ASCII that equal an ASCII letter when case is ignored: dotted and dotless i, the Kelvin
# sign, the long s.
_BEYOND_ASCII = {"i": "\u0130\u0131", "k": "\u212a", "s": "\u017f"}
_CASED_RANGES = ((0x80, 0x2E00), (0xA600, 0xAC00), (0xFB00, 0x11900), (0x16E00, 0x16F00), (0x1E900, 0x1E944))
"""The blocks that contain letters with cases. Most of Unicode has none: to look at all of it takes 40
times as long (0.2 seconds)."""


@lru_cache(maxsize=1)
def _case_table() -> tuple[list[int], dict[int, list[int]]]:
    """The letters that have cases, sorted, and for each the letters that Python treats as equal when
    case is ignored.

    Python compares lower-case forms, and adds the pairs in `_casefix._EXTRA_CASES`; this computes the
    same classes."""
    classes: dict[int, list[int]] = {}
    for code in chain(range(0x80), *(range(*block) for block in _CASED_RANGES)):
        if chr(code).upper() != chr(code).lower():
            lower = ord(chr(code).lower()[0])
            key = min(lower, *_casefix._EXTRA_CASES.get(lower, (lower,)))
            classes.setdefault(key, []).append(code)
    cases = {code: same for same in classes.values() for code in same}
    return sorted(cases), cases


MATCH_TIME_LIMIT = 0.5
"""The processor time in seconds that one search may take. All searches of a step share a budget
(evaluation_budget.py)."""
MAX_LENGTH = 5000
"""The longest source, in characters: parsing and translating cannot be interrupted either."""


class PatternError(ValueError):
    """A pattern that cannot be used, or a search that took too long."""


class Pattern:
    """A translated pattern. `compile_pattern` creates and caches it.

    The library compiles it on first use: loading a workflow checks all patterns, and most commands use
    none."""

    __slots__ = ("_compiled", "_translated", "groupindex", "groups", "source")

    def __init__(self, source: str, flags: int = 0) -> None:
        if len(source) > MAX_LENGTH:
            raise PatternError(f"it has {len(source)} characters; at most {MAX_LENGTH} are allowed")
        self.source = source
        try:
            with warnings.catch_warnings():
                # Python warns that a set such as `[[a]` may mean something else in a later version. The
                # warning would go to the user of the program that loads the workflow, who cannot do
                # anything about it.
                warnings.simplefilter("ignore", FutureWarning)
                translation = translate(source, flags)
        except (UnsupportedPattern, re.error, OverflowError) as error:
            raise PatternError(str(error)) from None
        except RecursionError:
            raise PatternError("its groups are nested too deeply") from None
        self._translated = translation.written
        self.groups, self.groupindex = translation.groups, translation.names
        self._compiled: Any = None

    def search(self, text: str) -> Any:
        """The first match, or None. Raises PatternError if it takes too long."""
        compiled, budget = self._compiled or self._compile(), current_budget.get()
        timeout = MATCH_TIME_LIMIT if budget is None else self._begin(budget)
        try:
            return compiled.search(text, timeout=timeout)
        except TimeoutError:
            raise self._timeout_error(text, budget, timeout) from None
        finally:
            if budget is not None:
                budget.end()

    def finditer(self, text: str) -> Iterator[Any]:
        """All matches. Raises PatternError if they take too long together."""
        compiled, budget = self._compiled or self._compile(), current_budget.get()
        timeout = MATCH_TIME_LIMIT if budget is None else self._begin(budget)
        try:
            yield from compiled.finditer(text, timeout=timeout)
        except TimeoutError:
            raise self._timeout_error(text, budget, timeout) from None
        finally:
            if budget is not None:
                budget.end()

    def _begin(self, budget: EvaluationBudget) -> float:
        try:
            return budget.begin(MATCH_TIME_LIMIT)
        except BudgetExceeded as error:
            raise PatternError(f"the pattern {self.source!r} was not matched: {error}") from None

    def _compile(self) -> Any:
        # Imported here, since it takes a tenth of a second, and most workflows have no patterns.
        import regex  # type: ignore[import-untyped]

        try:
            self._compiled = regex.compile(self._translated, regex.VERSION0)
        except (regex.error, OverflowError, RecursionError) as error:
            raise PatternError(f"the pattern {self.source!r} cannot be used: {error}") from None
        return self._compiled

    def _timeout_error(self, text: str, budget: EvaluationBudget | None, timeout: float) -> PatternError:
        if budget is not None and timeout < MATCH_TIME_LIMIT:
            budget.use_up(timeout)
            self._begin(budget)
        return PatternError(
            f"the pattern {self.source!r} took more than {MATCH_TIME_LIMIT:g} seconds on a text of "
            f"{len(text)} characters; make it simpler, above all where something is repeated inside a "
            r"repeat, such as (\w+\s?)*"
        )


@lru_cache(maxsize=1024)
def compile_pattern(source: str, flags: int = 0) -> Pattern:
    """The pattern of a source, from a cache: the loader checks it, and the kernel asks for it again.
    Raises PatternError."""
    return Pattern(source, flags)


def build_flags(*, case_sensitive: bool, multiline: bool = False, dotall: bool = False) -> int:
    flags = 0 if case_sensitive else re.IGNORECASE
    return flags | (re.MULTILINE if multiline else 0) | (re.DOTALL if dotall else 0)


def check_pattern(source: str, at: Located, reader: Reader, flags: int = 0) -> Pattern | None:
    """Compiles a pattern while a file is read; None, with an error in the report, if it cannot be
    used."""
    try:
        return compile_pattern(source, flags)
    except PatternError as error:
        shown = source if len(source) <= 200 else source[:199] + "…"
        reader.report.error("bad-pattern", f"cannot read the pattern {shown!r}: {error}", at)
        return None
