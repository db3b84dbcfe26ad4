"""Reading a text in a test, with either of PyYAML's parsers."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import yaml

from roundel.workflow import yaml_parser
from roundel.workflow.diagnostics import Report
from roundel.workflow.document import read_text

PARSERS = [getattr(yaml, "CSafeLoader", yaml.SafeLoader), yaml.SafeLoader]


def parsed_by(parser: Any) -> Any:
    return patch.object(yaml_parser, "_Loader", parser)


def read(text: str) -> Any:
    """The plain value of a text that has nothing wrong with it."""
    report = Report()
    root = read_text(text, report)
    assert report.diagnostics == [] and root is not None
    return root.plain()


def problems(text: str) -> list[tuple[str, int, int]]:
    report = Report()
    read_text(text, report)
    return [(found.code, found.line, found.column) for found in report.diagnostics]
