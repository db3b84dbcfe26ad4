"""What a bare text used as a condition was probably meant to be, where it names no function."""

from __future__ import annotations

import json
import re
from typing import Final

from roundel.workflow.condition import NAMES

_LONGEST: Final = 200
_IDENTIFIER: Final = re.compile(r"[A-Za-z_]\w*(?:[.:][A-Za-z_]\w*)*")
_EXPRESSION: Final = re.compile(
    r"[<>=]|&&|\|\||^\s*!"  # comparisons and logic
    rf"|\b(?:{'|'.join(NAMES)})\s*[.\[+*/%-]"  # data.score, data["score"]
    r"|\w\("  # has(data.score)
)


def written_as(text: str) -> str:
    """The condition to write instead, as a hint; empty if the text may well be the name of a function."""
    text = " ".join(text.split())
    if len(text) > _LONGEST:
        return ""
    if _EXPRESSION.search(text):
        return f"an expression is written as condition: {{cel: {json.dumps(text, ensure_ascii=False)}}}"
    if _IDENTIFIER.fullmatch(text) and not text.isupper():
        return ""
    word = text if re.fullmatch(r"\w+", text) else json.dumps(text, ensure_ascii=False)
    return f"a keyword is written as condition: {{type: keyword, config: {{any: [{word}]}}}}"
