"""What is wrong with a workflow, and where: data first, text second."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import force_setattr

from roundel.workflow.spelling import LONGEST_WORD, folded

if TYPE_CHECKING:
    from roundel.workflow.document import Located
    from roundel.workflow.secret_finder import SecretFinder

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


_KEPT = frozenset({"code", "severity", "file"})


class Report:
    """Collects findings about `file`; an equal one is kept once."""

    def __init__(self, file: str = "", secrets: SecretFinder | None = None) -> None:
        self.file = file
        self.secrets = secrets
        """What is masked in the findings; None if nothing is read that could hold a secret."""
        self._found: dict[Diagnostic, None] = {}

    def error(
        self, code: str, message: str, at: Located | tuple[int, int] | None = None, hint: str = ""
    ) -> None:
        self._note("error", code, message, at, hint)

    def warning(
        self, code: str, message: str, at: Located | tuple[int, int] | None = None, hint: str = ""
    ) -> None:
        self._note("warning", code, message, at, hint)

    def _note(
        self, severity: Severity, code: str, message: str, at: Located | tuple[int, int] | None, hint: str
    ) -> None:
        line, column = _position(at)
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

    def hidden(self, value: Any) -> Any:
        """A value as it may be repeated: masked before it is cut, since half a secret is no longer found."""
        return value if self.secrets is None else self.secrets.masker.masked(value)

    def add(self, diagnostic: Diagnostic) -> None:
        self._found[diagnostic] = None

    def extend(self, other: Report) -> None:
        self._found.update(other._found)

    @property
    def diagnostics(self) -> list[Diagnostic]:
        # Masked only now: some secrets are found after something else was.
        found = self._found if self.secrets is None else self.secrets.masker.masked(list(self._found), _KEPT)
        return sorted(found, key=lambda found: (found.file, found.line, found.column))

    @property
    def errors(self) -> list[Diagnostic]:
        return [found for found in self.diagnostics if found.severity == "error"]

    @property
    def ok(self) -> bool:
        return all(found.severity != "error" for found in self._found)


def _position(at: Located | tuple[int, int] | None) -> tuple[int, int]:
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
    if len(word) > LONGEST_WORD:
        return ""
    known: dict[str, str] = {}
    for candidate in candidates:
        known.setdefault(folded(candidate), candidate)
    near = get_close_matches(folded(word), known, n=1, cutoff=0.65)
    return f"did you mean '{known[near[0]]}'?" if near else ""
