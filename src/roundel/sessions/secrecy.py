"""What is pinned of a workflow holds no keys.

A key that came from the environment is not in the text of the file. One that stands there, or was given as a
variable, is taken out. In its place stands a name, and whoever goes on with the run has to give it in the
environment under that name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

from roundel.journal.store import Pinned
from roundel.workflow.graph import Workflow
from roundel.workflow.secrets import SHORTEST

NAME = "ROUNDEL_SECRET_"
_NAMED = re.compile(rf"{NAME}\d+")


def keys_of(workflow: Workflow) -> list[str]:
    """The secrets of a workflow that are long enough to be searched for in its text."""
    found = {value for value in workflow.secrets.values() if len(value) >= SHORTEST}
    return sorted(found, key=lambda key: (-len(key), key))


def without(keys: Iterable[str], value: Any) -> Any:
    """A text with a name in place of each key; what is no text holds none."""
    if isinstance(value, str):
        for number, key in enumerate(keys, 1):
            value = value.replace(key, f"{NAME}{number}")
    return value


def restored(value: Any) -> Any:
    """A text with its keys, as far as the environment has them."""
    if not isinstance(value, str):
        return value
    return _NAMED.sub(lambda found: os.environ.get(found[0], found[0]), value)


def missing(pinned: Pinned) -> list[str]:
    """The names of keys that the environment does not have."""
    texts = (*pinned.files.values(), *map(str, pinned.variables.values()))
    names = {name for text in texts for name in _NAMED.findall(text)}
    return sorted(name for name in names if name not in os.environ)
