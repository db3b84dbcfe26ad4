"""When an unknown word is a misspelling of a known one.

What is wrong with a workflow, and where: data first, text second.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct
from msgspec.structs import force_setattr

if TYPE_CHECKING:
    from roundel.workflow.document import Located
    from roundel.workflow.secret_finder import SecretFinder

MAX_EDITS: Final = 2
MAX_WORD_LENGTH: Final = 100
"""Nobody mistypes a longer name, and comparing two words takes quadratic time."""


def fold_word(word: str) -> str:
    """A word without what does not count as a difference: case, `-` and `_`, and so camelCase."""
    return word.replace("-", "").replace("_", "").casefold()


def match_misspelling(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` misspells: the one with the fewest edits, the first of several.

    An edit is a letter left out, added or replaced, or two neighbours swapped. There may be at most two,
    and fewer than half the letters of the longer word: `id` and `to`, or `tags` and `vars`, are two edits
    apart, and nobody meant the one by the other.
    """
    if len(word) > MAX_WORD_LENGTH:
        return None
    given, best, found = fold_word(word), MAX_EDITS + 1, None
    for candidate in known:
        meant = fold_word(candidate)
        longest = max(len(given), len(meant))
        if abs(len(given) - len(meant)) >= best:
            continue
        edits = _edit_distance(given, meant)
        if edits < best and 2 * edits < longest:
            best, found = edits, candidate
    return found


def _edit_distance(one: str, other: str) -> int:
    """The optimal string alignment distance: no piece is edited twice."""
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
    """One finding. Lines and columns count from 1; 0 means unknown."""

    code: str
    severity: Severity
    file: str = ""
    line: int = 0
    column: int = 0
    message: str
    hint: str = ""

    def __post_init__(self) -> None:
        # Names of files, and text that came in as Python strings, need not be valid Unicode.
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
    """A diagnostic, and the node or edge that it is about."""

    diagnostic: Diagnostic
    subject: LocationKey
    """Where the node or edge begins that was being read; if there is none, the place of the diagnostic."""


_UNMASKED_FIELDS = frozenset({"code", "severity", "file"})


class Report:
    """Collects findings about `file`; an equal one is kept once."""

    def __init__(self, file: str = "", secrets: SecretFinder | None = None) -> None:
        self.file = file
        self.secrets = secrets
        """What is masked in the findings; None if nothing is read that could hold a secret."""
        self._found: dict[Diagnostic, LocationKey | None] = {}
        """Each diagnostic with the subject that it was found in, if one was being read."""
        self._subject: LocationKey | None = None
        self._subjects: list[tuple[str, Located]] = []
        """All subjects, with their files: what is found in a text before it is read lies in one of them."""
        self.error_count = 0
        """How often an error was reported, equal ones included: whatever is read while it grows is faulty."""

    @contextmanager
    def subject_scope(self, at: Located) -> Iterator[None]:
        """What is added inside is about the node or edge at this place; the innermost one counts."""
        self._subjects.append((self.file, at))
        find_enclosing, self._subject = self._subject, (self.file, at.line, at.column)
        try:
            yield
        finally:
            self._subject = find_enclosing

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
        """A value as it may be repeated: masked before it is cut, since half a secret is no longer found."""
        return value if self.secrets is None else self.secrets.masker.mask_value(value)

    def add(self, diagnostic: Diagnostic) -> None:
        self._found[diagnostic] = self._subject
        self.error_count += diagnostic.severity == "error"

    def extend(self, other: Report) -> None:
        """What another file says of no node or edge in it is about the node that uses that file."""
        for diagnostic, subject in other._found.items():
            self._found[diagnostic] = subject or self._subject
        self._subjects += other._subjects
        self.error_count += other.error_count

    @property
    def diagnostics(self) -> list[Diagnostic]:
        return sorted(self._masked_diagnostics(), key=_location_key)

    @property
    def findings(self) -> list[Finding]:
        """The diagnostics, each with the node or edge that it is about."""
        spans = _SubjectIndex(self._subjects)
        pairs = zip(self._masked_diagnostics(), self._found.values(), strict=True)
        made = [
            Finding(one, subject or spans.find_enclosing(_location_key(one)) or _location_key(one))
            for one, subject in pairs
        ]
        return sorted(made, key=lambda finding: _location_key(finding.diagnostic))

    def _masked_diagnostics(self) -> list[Diagnostic]:
        # Masked only now: some secrets are found after something else was.
        found = list(self._found)
        return found if self.secrets is None else self.secrets.masker.mask_value(found, _UNMASKED_FIELDS)

    @property
    def errors(self) -> list[Diagnostic]:
        return [found for found in self.diagnostics if found.severity == "error"]

    @property
    def ok(self) -> bool:
        return not self.error_count


class _SubjectIndex:
    """Which subject surrounds a place in the text. Worked out only if it is asked for."""

    def __init__(self, subjects: list[tuple[str, Located]]) -> None:
        self._subjects = subjects
        self._starts: list[LocationKey] | None = None
        self._ends: list[LocationKey] = []
        self._parents: list[int] = []
        """The number of the subject directly around each one; -1 if there is none."""

    def find_enclosing(self, spot: LocationKey) -> LocationKey | None:
        """Where the innermost subject around a place begins."""
        if not spot[1]:
            return None
        if self._starts is None:
            self._starts = self._build()
        number = bisect_right(self._starts, spot) - 1
        while number >= 0 and self._ends[number] < spot:
            number = self._parents[number]
        return self._starts[number] if number >= 0 else None

    def _build(self) -> list[LocationKey]:
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
    """Where the text of a value ends, as far as its parts tell."""
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
    """A workflow that cannot be used, with everything that was found."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__(self.diagnostics)

    def __str__(self) -> str:
        return "\n".join(map(str, self.diagnostics))


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """A question that names the nearest candidate, or nothing.

    Case, `-`, `_` and camelCase do not count as differences.
    """
    if len(word) > MAX_WORD_LENGTH:
        return ""
    known: dict[str, str] = {}
    for candidate in candidates:
        known.setdefault(fold_word(candidate), candidate)
    near = get_close_matches(fold_word(word), known, n=1, cutoff=0.65)
    return f"did you mean '{known[near[0]]}'?" if near else ""
