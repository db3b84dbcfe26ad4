"""What is pinned of a workflow holds no keys.

A key that came from the environment is not in the text of the file. One that stands there, or was given as a
variable, is taken out. In its place stands a name, and whoever goes on with the run has to give it in the
environment under that name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from roundel.workflow.graph import Workflow

SHORTEST = 16
"""Anything shorter is no key but a word such as `ollama`, and may stand elsewhere too."""
NAME = "ROUNDEL_SECRET_"
_NAMED = re.compile(rf"{NAME}\d+")
_HOLDERS = ("headers", "env")


def keys_of(workflow: Workflow) -> list[str]:
    """Every key that a workflow names: of models, in headers, in the environment of its servers."""
    found = {key for key in _found((workflow.graph, workflow.models, workflow.tools)) if len(key) >= SHORTEST}
    return sorted(found, key=lambda key: (-len(key), key))


def _found(value: Any) -> Iterator[str]:
    if isinstance(value, Struct):
        for name in value.__struct_fields__:
            inner = getattr(value, name)
            if name == "api_key" and isinstance(inner, str):
                yield inner
            elif name in _HOLDERS and isinstance(inner, dict):
                yield from (word for held in inner.values() for word in str(held).split())
            else:
                yield from _found(inner)
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _found(inner)
    elif isinstance(value, (tuple, list)):
        for inner in value:
            yield from _found(inner)
