"""Diagnostics as warnings of Python, with the place in the code of the caller.

A program that loads a workflow in Python sees no terminal output of `roundel check`, so what is doubtful in
the workflow reaches it through the module `warnings`: shown once for each place by default, and subject to
the filters of the program (`warnings.filterwarnings("error", category=roundel.RoundelWarning)`).

The place is the nearest frame on the stack that is neither of this package nor of asyncio. A fixed
`stacklevel` would be wrong for most callers: the same code runs directly, in an event loop that `roundel.run`
has created, and in a task. A task has no caller on its stack, so code that creates one for a caller
passes the place on with `keep_caller`.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from contextvars import Context, ContextVar, copy_context
from pathlib import Path
from typing import Any, NamedTuple

from roundel.workflow.diagnostics import Diagnostic

_SKIPPED = tuple(
    f"{folder}{os.sep}" for folder in (Path(__file__).parents[1], Path(os.__file__).parent / "asyncio")
)
"""The folders of code that is never the caller. asyncio is not imported here: `roundel check` starts without
it."""


class RoundelWarning(UserWarning):
    """Something in a workflow, a script or a run is probably not as intended."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        # The category says that it is a warning.
        text = str(diagnostic).replace("warning: ", "", 1)
        super().__init__(f"{text} [{diagnostic.code}]")
        self.diagnostic = diagnostic

    def __reduce__(self) -> tuple[type[RoundelWarning], tuple[Diagnostic]]:
        return type(self), (self.diagnostic,)


class _Caller(NamedTuple):
    """A line of code, as `warnings.warn_explicit` takes it."""

    file: str
    line: int
    module: str
    registry: dict[Any, Any]


_caller: ContextVar[_Caller | None] = ContextVar("roundel_caller", default=None)


def warn_caller(diagnostics: Sequence[Diagnostic]) -> None:
    """Issues each warning among the diagnostics once, at the line that called this package."""
    found = [diagnostic for diagnostic in dict.fromkeys(diagnostics) if diagnostic.severity == "warning"]
    place = (_caller.get() or _find_caller()) if found else None
    for diagnostic in found:
        assert place is not None
        warnings.warn_explicit(
            RoundelWarning(diagnostic), None, place.file, place.line, place.module, place.registry
        )


def keep_caller() -> Context:
    """A context for a task that works for the current caller: it warns at the line of the caller."""
    context = copy_context()
    context.run(_caller.set, _caller.get() or _find_caller())
    return context


def _find_caller() -> _Caller:
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_SKIPPED):
        frame = frame.f_back
    names = frame.f_globals
    return _Caller(
        frame.f_code.co_filename,
        frame.f_lineno,
        names.get("__name__", "<unknown>"),
        names.setdefault("__warningregistry__", {}),
    )
