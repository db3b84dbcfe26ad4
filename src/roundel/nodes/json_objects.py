"""The JSON objects in a text: the whole of it, in a fenced block, or among words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

_decoder = json.JSONDecoder(strict=False)  # models break lines inside of strings
_MAX_OBJECTS_TRIED = 1000
"""How many opening braces are tried; text that is all braces must not take for ever."""


def json_objects(text: str) -> Iterator[dict[str, Any]]:
    """In order; not those inside of others, and none of an object that is cut off at the end."""
    start, end = text.find("{"), len(text.rstrip())
    for _ in range(_MAX_OBJECTS_TRIED):
        if start < 0:
            return
        try:
            found, after = _decoder.raw_decode(text, start)
        except json.JSONDecodeError as error:
            if error.pos >= end or error.msg.startswith("Unterminated"):
                return
            after = start + 1
        except (RecursionError, ValueError):  # too deep, or a number of too many digits
            return
        else:
            yield found
        start = text.find("{", after)
