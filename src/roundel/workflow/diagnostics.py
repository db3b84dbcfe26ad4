"""Diagnostics: what is wrong with a workflow and where, as data first and text second.

A `Report` collects the diagnostics of one load. The loader, the checks of node types and the checks of a
plan add to it; `roundel check`, editors and drawings read it. Nothing is printed here.

Subjects. A drawing marks the node or edge that a diagnostic is about, so the report has to know it.
While a node or edge is read, `subject_scope` notes it, and what is added inside belongs to it. Problems
that are found before a node is read (syntax, variables) have only a location; `_SubjectIndex` finds the
node around that location afterwards.

Secrets. Messages quote values of the file, and some secrets are found only after a message was added. So
masking happens when the diagnostics are read, except for values that are shortened (`mask_value`).

Misspellings. `match_misspelling` decides whether an unknown word is a typing error for a known one,
which makes it an error instead of a warning, so it is strict. `did_you_mean` only suggests, so it is
lenient.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct
from msgspec.structs import force_setattr

if TYPE_CHECKING:
    from roundel.workflow.document import Located
    from roundel.workflow.secret_finder import SecretFinder

MAX_SHOWN: Final = 200
"""The most diagnostics of a report that are shown. One more says how many there are besides."""
MAX_KEPT: Final = 2000
"""The most errors, and the most warnings, of one text that are kept; more are only counted. The memory of a
report is bounded by it, whatever a text of megabytes consists of."""
MAX_COMPARISONS: Final = 100_000
"""The most words that the hints of one report are compared with, which takes about a second. A text with
thousands of unknown names gets no suggestions for most of them."""
MAX_EDITS: Final = 2
MAX_WORD_LENGTH: Final = 100
"""Longer words are not compared: that takes quadratic time, and nobody types such a name by hand."""


def fold_word(word: str) -> str:
    """Removes differences that do not count: case, `-` and `_`, and with these camelCase."""
    return word.replace("-", "").replace("_", "").casefold()


def match_misspelling(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` misspells: the one with the fewest edits, the first of several.

    An edit is a letter left out, added or replaced, or two neighbours swapped. There may be at most two,
    and fewer than half the letters of the longer word: `id` and `to`, or `tags` and `vars`, are two
    edits apart, and nobody meant the one by the other.
    """
    if len(word) > MAX_WORD_LENGTH:
        return None
    given, best, found = fold_word(word), MAX_EDITS + 1, None
    for candidate in known:
        meant = fold_word(candidate)
        longest = max(len(given), len(meant))
        if abs(len(given) - len(meant)) >= best:
            continue  # The difference in length is a lower bound for the edits.
        edits = _edit_distance(given, meant)
        if edits < best and 2 * edits < longest:
            best, found = edits, candidate
    return found


def _edit_distance(one: str, other: str) -> int:
    """The optimal string alignment distance: insertions, deletions, replacements and swaps of
    neighbours, where no piece is edited twice. Dynamic programming over three rows: `before`, `above`
    and the current `line`."""
    before: list[int] = []
    above = list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        line = [row]
        for column, wanted in enumerate(other, 1):
            cost = min(above[column] + 1, line[-1] + 1, above[column - 1] + (letter != wanted))
            if row > 1 and column > 1 and letter == other[column - 2] and one[row - 2] == wanted:
                cost = min(cost, before[column - 2] + 1)
            line.append(cost)
        before, above = above, line
    return above[-1]


Severity = Literal["error", "warning"]


class Diagnostic(Struct, frozen=True, kw_only=True):
    """One error or warning. Lines and columns count from 1; 0 means unknown.

    The code is stable and documented (docs/errors.md); message and hint are for people, and may
    change."""

    code: str
    """The stable code, which the manual explains."""
    severity: Severity
    """Whether it prevents a run."""
    file: str = ""
    """The name of the text or file."""
    line: int = 0
    """The line, from 1; 0 if unknown."""
    column: int = 0
    """The column, from 1; 0 if unknown."""
    message: str
    """What is wrong."""
    hint: str = ""
    """What to do about it; may be empty."""

    def __post_init__(self) -> None:
        # Names of files, and texts from Python, may contain lone surrogates, which cannot be printed or
        # stored as JSON.
        for name in ("file", "message", "hint"):
            text = getattr(self, name)
            if not text.isascii():
                force_setattr(self, name, text.encode("utf-8", "replace").decode())

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part)
        hint = f" ({self.hint})" if self.hint else ""
        return f"{place}{': ' if place else ''}{self.severity}: {self.message}{hint}"


LocationKey = tuple[str, int, int]
"""A file, a line and a column."""


class Finding(Struct, frozen=True):
    """A diagnostic with the node or edge that it is about. `Report.findings` creates it for drawings."""

    diagnostic: Diagnostic
    subject: LocationKey
    """The location of the node or edge; without one, the location of the diagnostic itself."""


# `file` is not masked: an editor has to open it. Names of files are shown everywhere anyway.
_UNMASKED_FIELDS = frozenset({"code", "severity", "file"})


class Report:
    """Collects diagnostics about one file, and about the files that it uses (`extend`). The loader
    creates it.

    Equal diagnostics are stored once: an alias or a variable may bring the same mistake to many
    places."""

    def __init__(self, file: str = "", secrets: SecretFinder | None = None) -> None:
        self.file = file
        self.secrets = secrets
        """Masks the diagnostics; None if nothing is read that could contain a secret."""
        self._found: dict[Diagnostic, LocationKey | None] = {}
        """Each diagnostic with its subject, if one was being read. A dict, since it removes duplicates
        and has an order."""
        self._subject: LocationKey | None = None
        self._kept = {"error": 0, "warning": 0}
        self._dropped = {"error": 0, "warning": 0}
        """How many were found beyond those that are kept."""
        self._compared = 0
        self._subjects: list[tuple[str, Located]] = []
        """All subjects with their files, to attribute diagnostics that have only a location."""
        self.error_count = 0
        """How often an error was reported, equal ones included. Whatever is read while it grows is
        faulty: GraphReader compares it before and after, and a duplicate must count there too."""

    @contextmanager
    def subject_scope(self, at: Located) -> Iterator[None]:
        """Attributes what is added inside to the node or edge at this location. The innermost scope
        counts."""
        self._subjects.append((self.file, at))
        around, self._subject = self._subject, (self.file, at.line, at.column)
        try:
            yield
        finally:
            self._subject = around

    def error(
        self, code: str, message: str, at: Located | tuple[int, int] | None = None, hint: str = ""
    ) -> None:
        self._add("error", code, message, at, hint)

    def warning(
        self, code: str, message: str, at: Located | tuple[int, int] | None = None, hint: str = ""
    ) -> None:
        self._add("warning", code, message, at, hint)

    def _add(
        self, severity: Severity, code: str, message: str, at: Located | tuple[int, int] | None, hint: str
    ) -> None:
        line, column = _line_and_column(at)
        self.add(
            Diagnostic(
                code=code,
                severity=severity,
                file=self.file,
                line=line,
                column=column,
                message=message,
                hint=hint,
            )
        )

    def mask_value(self, value: Any) -> Any:
        """Masks a value that a message will quote in shortened form: half a secret could not be found
        any more."""
        return value if self.secrets is None else self.secrets.masker.mask_value(value)

    def suggest(self, word: str, candidates: Collection[str]) -> str:
        """As `did_you_mean`, until the whole report has compared MAX_COMPARISONS words."""
        if self._compared >= MAX_COMPARISONS:
            return ""
        self._compared += len(candidates) + 1
        return did_you_mean(word, candidates)

    def add(self, diagnostic: Diagnostic) -> None:
        self._keep(diagnostic, self._subject)
        self.error_count += diagnostic.severity == "error"

    def _keep(self, diagnostic: Diagnostic, subject: LocationKey | None) -> None:
        if diagnostic in self._found:
            self._found[diagnostic] = subject
        elif self._kept[diagnostic.severity] < MAX_KEPT:
            self._found[diagnostic] = subject
            self._kept[diagnostic.severity] += 1
        else:
            self._dropped[diagnostic.severity] += 1

    def extend(self, other: Report) -> None:
        """Adds the diagnostics of another file. Those without a subject there are attributed to the node
        that uses the file, which is being read now."""
        for diagnostic, subject in other._found.items():
            self._keep(diagnostic, subject or self._subject)
        for severity, count in other._dropped.items():
            self._dropped[severity] += count
        self._subjects += other._subjects
        self.error_count += other.error_count

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """The diagnostics, masked, in the order of files, lines and columns: at most MAX_SHOWN, errors before
        warnings, and then one that counts the rest."""
        return [*self._mask(self._shown()), *self._rest()]

    @property
    def findings(self) -> list[Finding]:
        """The same diagnostics, each with the node or edge that it is about."""
        spans, shown = _SubjectIndex(self._subjects), self._shown()
        pairs = [*zip(self._mask(shown), map(self._found.get, shown), strict=True)]
        pairs += [(one, None) for one in self._rest()]
        return [
            Finding(one, subject or spans.find_enclosing(_location_key(one)) or _location_key(one))
            for one, subject in pairs
        ]

    def _shown(self) -> list[Diagnostic]:
        found = sorted(self._found, key=_location_key)
        if len(found) > MAX_SHOWN:
            first = sorted(found, key=lambda one: one.severity != "error")[:MAX_SHOWN]
            found = sorted(first, key=_location_key)
        return found

    def _rest(self) -> list[Diagnostic]:
        """Says how many diagnostics are not shown; empty if all are."""
        errors, warnings = self.counts
        errors_shown = min(self._kept["error"], MAX_SHOWN)
        more = {
            "error": errors - errors_shown,
            "warning": warnings - min(self._kept["warning"], MAX_SHOWN - errors_shown),
        }
        texts = [f"{count:,} more {name}{'s' * (count > 1)}" for name, count in more.items() if count]
        if not texts:
            return []
        message = f"there {'is' if sum(more.values()) == 1 else 'are'} {' and '.join(texts)}"
        if more["error"]:
            return [self._count_of_others("error", "more-problems", message)]
        return [self._count_of_others("warning", "more-problems", message)]

    def _count_of_others(self, severity: Severity, code: str, message: str) -> Diagnostic:
        hint = f"at most {MAX_SHOWN} problems are shown; correct these first"
        return Diagnostic(code=code, severity=severity, file=self.file, message=message, hint=hint)

    def _mask(self, found: list[Diagnostic]) -> list[Diagnostic]:
        # Masked only now: some secrets are found after a diagnostic was added that quotes them.
        return found if self.secrets is None else self.secrets.masker.mask_value(found, _UNMASKED_FIELDS)

    @property
    def counts(self) -> tuple[int, int]:
        """The number of errors and of warnings, shown or not."""
        kept, dropped = self._kept, self._dropped
        return kept["error"] + dropped["error"], kept["warning"] + dropped["warning"]

    @property
    def errors(self) -> list[Diagnostic]:
        return [found for found in self.diagnostics if found.severity == "error"]

    @property
    def ok(self) -> bool:
        return not self.error_count


class _SubjectIndex:
    """Finds the subject around a location. Built on first use, since most reports have no need of it.

    Subjects are nested or disjoint, so the one that starts last before a location, or one of those
    around it, is the answer: a binary search, then a walk along `_parents`."""

    def __init__(self, subjects: list[tuple[str, Located]]) -> None:
        self._subjects = subjects
        self._starts: list[LocationKey] | None = None
        self._ends: list[LocationKey] = []
        self._parents: list[int] = []
        """For each subject the index of the one directly around it; -1 if there is none."""

    def find_enclosing(self, spot: LocationKey) -> LocationKey | None:
        """The start of the innermost subject around a location; None if there is none."""
        if not spot[1]:
            return None  # Line 0: about the file as a whole, or from Python.
        if self._starts is None:
            self._starts = self._build()
        number = bisect_right(self._starts, spot) - 1
        while number >= 0 and self._ends[number] < spot:
            number = self._parents[number]
        return self._starts[number] if number >= 0 else None

    def _build(self) -> list[LocationKey]:
        # A sweep over the sorted starts; `open_` has the subjects around the current one, the innermost
        # last.
        found = {(file, at.line, at.column): (file, *_end_of(at)) for file, at in self._subjects}
        begins = sorted(found)
        open_: list[int] = []
        for number, begin in enumerate(begins):
            while open_ and self._ends[open_[-1]] < begin:
                open_.pop()
            self._parents.append(open_[-1] if open_ else -1)
            self._ends.append(found[begin])
            open_.append(number)
        return begins


def _end_of(at: Located) -> tuple[int, int]:
    """The end of a value in its text, estimated from its last part: the tree has no end positions.
    Closing brackets and quotes are missed, which does not matter for attributing a diagnostic."""
    last, pending = (at.line, at.column), [at]
    while pending:
        inner = pending.pop()
        value = inner.value
        if isinstance(value, dict):
            pending += value.values()
        elif isinstance(value, list):
            pending += value
        else:
            text = str(value)
            lines = text.count("\n")
            last = max(last, (inner.line + lines, inner.column + len(text)))
    return last


def _location_key(found: Diagnostic) -> LocationKey:
    return found.file, found.line, found.column


def _line_and_column(at: Located | tuple[int, int] | None) -> tuple[int, int]:
    if at is None:
        return 0, 0
    return at if isinstance(at, tuple) else (at.line, at.column)


class WorkflowError(Exception):
    """A workflow cannot be used. Raised by `load` and `from_mapping`, with all diagnostics."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__(self.diagnostics)

    def __str__(self) -> str:
        return "\n".join(map(str, self.diagnostics))


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """A question that names the nearest candidate, for a hint; empty if none is near.

    Case, `-`, `_` and camelCase do not count as differences. It takes microseconds for each candidate,
    so callers bound how often they ask.
    """
    if len(word) > MAX_WORD_LENGTH:
        return ""
    known: dict[str, str] = {}
    for candidate in candidates:
        known.setdefault(fold_word(candidate), candidate)
    near = get_close_matches(fold_word(word), known, n=1, cutoff=0.65)
    return f"did you mean '{known[near[0]]}'?" if near else ""
