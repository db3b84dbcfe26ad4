"""The entries of `.env` files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from roundel.workflow.diagnostics import Diagnostic, Report

_ENTRY = re.compile(r"\s*(?:export\s+)?(?P<name>[^\W\d][\w.-]*)\s*=(?P<value>.*)")
_QUOTED = re.compile(r"""\s*(?:'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)")\s*(?:\#.*)?""")
_COMMENT = re.compile(r"\s\#.*")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t"}


def read_dotenv(path: Path, report: Report | None = None) -> dict[str, str]:
    """The entries of a `.env` file; none if there is no such file."""
    report = report or Report()
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        _warn(report, path, 0, f"the file cannot be read: {getattr(error, 'strerror', error)}")
        return {}
    return dict(_entries(text.split("\n"), path, report))


def _entries(lines: list[str], path: Path, report: Report) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _ENTRY.fullmatch(line)
        value = _entry_value(match["value"]) if match else None
        if match and value is not None:
            yield match["name"], value
        else:
            # The line may hold a secret, so it is not repeated.
            _warn(report, path, number, "this line is not NAME=VALUE; it is left out")


def _entry_value(text: str) -> str | None:
    if not text.lstrip().startswith(("'", '"')):
        return _COMMENT.sub("", text).strip()
    quoted = _QUOTED.fullmatch(text)
    if quoted is None:
        return None
    if quoted["double"] is None:
        return quoted["single"]
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), quoted["double"])


def _warn(report: Report, path: Path, line: int, message: str) -> None:
    report.add(Diagnostic(code="bad-dotenv", severity="warning", file=str(path), line=line, message=message))
