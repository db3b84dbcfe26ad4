"""Node types, one module each: the settings of a node, what it does, and its ports.

A module is found by the name of its type: the type `literal` is the `NODE` of `literal.py`. So a new
node type is one new file here and needs no registration, and loading a workflow imports only the types
that it uses. A module with several types, or with a name other than that of its type, defines `NODES`.
Its types are found only after all modules of the package have been imported, unless `_MODULES` names the
module.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec

from roundel.workflow.node_type import NodeType, NodeTypes

_MODULES = {"llm": "agent", "break": "jump", "continue": "jump"}
"""The modules of common types whose name differs from that of the module, so that using them does not
import all modules."""


def _named(name: str) -> list[NodeType]:
    """The types of the module in which a type of this name should be; none if there is no such module.
    The name comes from a file, so it is checked before anything is imported by it."""
    module = _MODULES.get(name, name)
    if not module.isidentifier() or module.startswith("_") or find_spec(f"{__name__}.{module}") is None:
        return []
    return _types_of(f"{__name__}.{module}")


def _all() -> Iterator[NodeType]:
    for module in sorted(found.name for found in pkgutil.iter_modules(__path__)):
        yield from _types_of(f"{__name__}.{module}")


def _types_of(module: str) -> list[NodeType]:
    made = import_module(module)
    return [*getattr(made, "NODES", ()), *([made.NODE] if hasattr(made, "NODE") else [])]


TYPES = NodeTypes(find=_named, find_all=_all)
