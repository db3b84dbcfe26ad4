"""Builds workflows in Python: the same objects as a file gives, by the same checks.

graph = Graph("review", start="Writer", end="Final")
graph.node("Writer", "agent", role="Write, and revise after criticism.")
graph.node("Final", "passthrough")
graph.edge("Writer", "Final")
roundel.run(graph, "a text about tea", script={"Writer": ["first draft"]})
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from roundel.nodes import TYPES
from roundel.workflow.diagnostics import Report
from roundel.workflow.graph import Envelope, Workflow
from roundel.workflow.loader import examine_mapping, from_mapping

Names = str | Sequence[str]
Code = TypeVar("Code", bound=Callable[..., Any])


class Part(Protocol):
    """What can be added to a graph as a node, such as the agents of `roundel.agents`."""

    def add_to(self, graph: Graph) -> object: ...


class Graph:
    """A graph in the making. Functions may stand wherever a file would name one."""

    def __init__(self, id: str = "", *, start: Names = (), end: Names = (), **settings: Any) -> None:
        self.id = id
        self._settings: dict[str, Any] = {"id": id, "start": _names(start), "end": _names(end), **settings}
        self._nodes: list[dict[str, Any]] = []
        self._edges: list[dict[str, Any]] = []

    def node(self, id: str, type: str, **fields: Any) -> Graph:
        """Adds a node. Fields of its type's config and of every node (`timeout`, …) stand side by side."""
        known = _config_names(type)
        envelope = {name: value for name, value in fields.items() if name not in known}
        config = {name: value for name, value in fields.items() if name in known}
        if isinstance(config.get("graph"), Graph):
            config = {"type": "config", "config": config["graph"]}
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

    def add(self, part: Part) -> Graph:
        """Adds an agent, several agents or a loop agent as a node."""
        part.add_to(self)
        return self

    def edge(self, source: str, target: str, **fields: Any) -> Graph:
        for name in ("condition", "process"):
            if callable(fields.get(name)):
                fields[name] = {"type": "function", "config": {"name": fields[name]}}
        self._edges.append({"from": source, "to": target, **fields})
        return self

    def mapping(self) -> dict[str, Any]:
        """What a file with this workflow would hold."""
        return {"graph": self._written(_Writer())}

    def workflow(self, **root: Any) -> Workflow:
        """The finished workflow; `root` are the keys beside `graph`. WorkflowError if it is not sound."""
        writer = _Writer()
        return from_mapping({**root, "graph": self._written(writer)}, TYPES, writer.named)

    def examined(self, variables: Mapping[str, Any] | None = None) -> tuple[Workflow | None, Report]:
        """The workflow, if it is sound, and what there is to say about it."""
        writer = _Writer()
        return examine_mapping({"graph": self._written(writer)}, TYPES, writer.named, variables)

    def _written(self, writer: _Writer) -> dict[str, Any]:
        parts = {"nodes": self._nodes, "edges": self._edges}
        return {**self._settings, **{key: writer.plain(value) for key, value in parts.items()}}


class _Writer:
    """Writes graphs as a file would have them: code by names, which are unique in the whole workflow."""

    def __init__(self) -> None:
        self.named: dict[str, Any] = {}
        self._around: list[Graph] = []

    def plain(self, value: Any) -> Any:
        if isinstance(value, Graph):
            return self._graph(value)
        if isinstance(value, Mapping):
            return {key: self.plain(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.plain(item) for item in value]
        return self._name(value) if _is_code(value) else value

    def _graph(self, graph: Graph) -> dict[str, Any]:
        if graph in self._around:
            raise ValueError(f"the graph '{graph.id}' stands inside itself")
        self._around.append(graph)
        written = graph._written(self)
        self._around.pop()
        return written

    def _name(self, code: Any) -> str:
        name = str(getattr(code, "__qualname__", type(code).__name__))
        while self.named.get(name, code) is not code:
            name += "'"
        self.named[name] = code
        return name


def _is_code(value: Any) -> bool:
    """A function, or an object that is a loop strategy."""
    return not isinstance(value, type) and (callable(value) or callable(getattr(value, "dispatch", None)))


def _names(names: Names) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _config_names(type: str) -> set[str]:
    try:
        config = TYPES[type].config
    except KeyError:
        return set()
    names = {field.encode_name for field in msgspec.structs.fields(config)}
    return names | set(getattr(config, "__aliases__", {}))
