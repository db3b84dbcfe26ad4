"""Regular expressions of users: Python's meaning, and a limit on the time that a match may take.

Python's own `re` cannot be interrupted: `^(\\w+\\s?)*$` on 49 letters and a mark would hold up every run of
the process for ever. So patterns are checked by `re` and matched by the `regex` library, with a time limit.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from roundel.workflow.document import Located
from roundel.workflow.fields import Reader

SECONDS = 0.5
"""The processor time that one search may take."""
MAX_LENGTH = 5000


class PatternError(ValueError):
    """A pattern that cannot be used, or that took too long."""


class Pattern:
    """A pattern that Python can read; compiled for the library when it is first used."""

    __slots__ = ("_compiled", "_translated", "groupindex", "groups", "source")

    def __init__(self, source: str, flags: int = 0) -> None:
        from roundel.workflow.pattern_dialect import Unsupported, translated

        if len(source) > MAX_LENGTH:
            raise PatternError(f"it has {len(source)} characters; at most {MAX_LENGTH} are allowed")
        self.source = source
        try:
            with warnings.catch_warnings():
                # A set such as `[[a]` may mean something else in a later Python; it is not for us to say so.
                warnings.simplefilter("ignore", FutureWarning)
                translation = translated(source, flags)
        except (Unsupported, re.error, OverflowError) as error:
            raise PatternError(str(error)) from None
        except RecursionError:
            raise PatternError("its groups are nested too deeply") from None
        self._translated = translation.written
        self.groups, self.groupindex = translation.groups, translation.names
        self._compiled: Any = None

    def search(self, text: str) -> Any:
        """The first match, or None; PatternError if it takes too long."""
        try:
            return (self._compiled or self._compile()).search(text, timeout=SECONDS)
        except TimeoutError:
            raise self._too_slow(text) from None

    def finditer(self, text: str) -> Iterator[Any]:
        """Every match; PatternError if they take too long, all together."""
        try:
            yield from (self._compiled or self._compile()).finditer(text, timeout=SECONDS)
        except TimeoutError:
            raise self._too_slow(text) from None

    def _compile(self) -> Any:
        # A tenth of a second, which only those pay who have patterns.
        import regex  # type: ignore[import-untyped]

        try:
            self._compiled = regex.compile(self._translated, regex.VERSION0)
        except (regex.error, OverflowError, RecursionError) as error:
            raise PatternError(f"the pattern {self.source!r} cannot be used: {error}") from None
        return self._compiled

    def _too_slow(self, text: str) -> PatternError:
        return PatternError(
            f"the pattern {self.source!r} took more than {SECONDS:g} seconds on a text of {len(text)} "
            "characters; make it simpler, above all where something is repeated inside a repeat, "
            r"such as (\w+\s?)*"
        )


@lru_cache(maxsize=1024)
def compiled(source: str, flags: int = 0) -> Pattern:
    return Pattern(source, flags)


def flags_of(*, case_sensitive: bool, multiline: bool = False, dotall: bool = False) -> int:
    flags = 0 if case_sensitive else re.IGNORECASE
    return flags | (re.MULTILINE if multiline else 0) | (re.DOTALL if dotall else 0)


def check_pattern(source: str, at: Located, reader: Reader, flags: int = 0) -> Pattern | None:
    """The pattern; None if it cannot be used, which the report says."""
    try:
        return compiled(source, flags)
    except PatternError as error:
        shown = source if len(source) <= 200 else source[:199] + "…"
        reader.report.error("bad-pattern", f"cannot read the pattern {shown!r}: {error}", at)
        return None
