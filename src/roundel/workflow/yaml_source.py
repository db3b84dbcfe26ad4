"""YAML texts, as PyYAML's parsers can take them."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any, Final

import yaml

from roundel.workflow.composer import compose
from roundel.workflow.diagnostics import Report
from roundel.workflow.located import Located, line_and_column
from roundel.workflow.syntax import report_syntax

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# What YAML calls printable, the other way round.
_FORBIDDEN = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
_MOST_FORBIDDEN: Final = 20
_ODD_BREAKS: Final = "\x85\u2028\u2029"


def compose_yaml(text: str, json_error: Exception, report: Report) -> Located | None:
    """The tree of a text that is not JSON, for the reason given."""
    if _holds_forbidden(text, report):
        return None
    text, hidden = _with_hidden_breaks(text)
    try:
        # This is yaml.parse without a Python frame for each event.
        return compose(iter(_Loader(text).get_event, None), report, hidden)
    except yaml.MarkedYAMLError as error:  # errors without a mark are about forbidden characters
        report_syntax(error, json_error, text, report)
    except (ValueError, OverflowError):  # PyYAML's own scanner, on escapes beyond Unicode
        report.error("syntax", "the text holds an escape that is not a character")
    return None


def _holds_forbidden(text: str, report: Report) -> bool:
    found = list(islice(_FORBIDDEN.finditer(text), _MOST_FORBIDDEN))
    for match in found:
        message = f"the character U+{ord(match[0]):04X} is not allowed in a workflow file"
        report.error("control-character", message, line_and_column(text, match.start()), "remove it")
    return bool(found)


def _with_hidden_breaks(text: str) -> tuple[str, dict[int, str]]:
    """Replaces the characters that only YAML 1.1 takes for line breaks, and says how to get them back."""
    if not any(character in text for character in _ODD_BREAKS):
        return text, {}
    private = (chr(code) for code in range(0xF0000, 0xFFFFE))
    spare = (character for character in private if character not in text)
    masks = dict(zip(spare, _ODD_BREAKS, strict=False))
    hidden = text.translate({ord(odd): mask for mask, odd in masks.items()})
    return hidden, {ord(mask): odd for mask, odd in masks.items()}
