"""Builds workflows in Python: the same objects as a file gives, by the same checks.

graph = Graph("review", start="Writer", end="Final")
graph.node("Writer", "agent", role="Write, and revise after criticism.")
graph.node("Final", "passthrough")
graph.edge("Writer", "Final")
roundel.run(graph, "a text about tea", script={"Writer": ["first draft"]})
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from roundel.nodes import TYPES
from roundel.workflow.graph import Envelope, Workflow
from roundel.workflow.loader import from_mapping

Names = str | Sequence[str]
Code = TypeVar("Code", bound=Callable[..., Any])


class Graph:
    """A graph in the making. Functions may stand wherever a file would name one."""

    def __init__(self, id: str = "", *, start: Names = (), end: Names = (), **settings: Any) -> None:
        self._settings: dict[str, Any] = {"id": id, "start": _names(start), "end": _names(end), **settings}
        self._nodes: list[dict[str, Any]] = []
        self._edges: list[dict[str, Any]] = []
        self._functions: dict[str, Callable[..., Any]] = {}

    def node(self, id: str, type: str, **fields: Any) -> Graph:
        """Adds a node. Fields of its type's config and of every node (`timeout`, …) stand side by side."""
        known = _config_names(type)
        envelope = {name: value for name, value in fields.items() if name not in known}
        config = {name: self._named(value) for name, value in fields.items() if name in known}
        inner = config.pop("graph", None)
        if isinstance(inner, Graph):
            self._functions.update(inner._functions)
            config = {"type": "config", "config": inner.mapping()["graph"]}
        unknown = set(envelope) - set(Envelope.__struct_fields__)
        if unknown:
            # It is the config's business to say what it does not know.
            config.update({name: envelope.pop(name) for name in sorted(unknown)})
        self._nodes.append({"id": id, "type": type, "config": config, **envelope})
        return self

    def function(self, id: str, **fields: Any) -> Callable[[Code], Code]:
        """Makes a `python` node of the function that it decorates."""

        def add(function: Code) -> Code:
            self.node(id, "python", function=function, **fields)
            return function

        return add

    def edge(self, source: str, target: str, **fields: Any) -> Graph:
        for name in ("condition", "process"):
            if callable(fields.get(name)):
                fields[name] = {"type": "function", "config": {"name": self._named(fields[name])}}
        self._edges.append({"from": source, "to": target, **fields})
        return self

    def mapping(self) -> dict[str, Any]:
        """What a file with this workflow would hold."""
        return {"graph": {**self._settings, "nodes": list(self._nodes), "edges": list(self._edges)}}

    def workflow(self, **root: Any) -> Workflow:
        """The finished workflow; `root` are the keys beside `graph`. WorkflowError if it is not sound."""
        return from_mapping({**root, **self.mapping()}, TYPES, self._functions)

    def _named(self, value: Any) -> Any:
        if not callable(value) or isinstance(value, type):
            return value
        name = str(getattr(value, "__qualname__", type(value).__name__))
        while self._functions.get(name, value) is not value:
            name += "'"
        self._functions[name] = value
        return name


def _names(names: Names) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _config_names(type: str) -> set[str]:
    try:
        config = TYPES[type].config
    except KeyError:
        return set()
    names = {field.encode_name for field in msgspec.structs.fields(config)}
    return names | set(getattr(config, "__aliases__", {}))
