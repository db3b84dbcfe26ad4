"""Node types, one module each: what may be set, what the node does, by which ports it is left.

A module is found by the name of its type: the type `literal` is the `NODE` of `literal.py`. So a new node
type is one new file here and needs no entry anywhere, and loading a workflow imports only the types that it
uses. A module with several types, or one whose name is not that of its type, has `NODES`. It is found too,
but only after all modules here have been imported, unless `_MODULES` says where it is.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec

from roundel.workflow.node_type import NodeType, NodeTypes

_MODULES = {"llm": "agent", "break": "jump", "continue": "jump"}
"""Where common types are whose module has another name."""


def _named(name: str) -> list[NodeType]:
    """The types of the module that a type of this name should be in; none if there is no such module."""
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
