"""Builds workflows in Python: the same objects as from a file, through the same checks.

    graph = Graph("review", start="Writer", end="Final")
    graph.node("Writer", "agent", role="Write, and revise after criticism.")
    graph.node("Final", "passthrough")
    graph.edge("Writer", "Final")
    roundel.run(graph, "a text about tea", script={"Writer": ["first draft"]})

A `Graph` collects entries and checks nothing. `_GraphWriter` then writes the mapping that a file would
contain, in which code is replaced by names, and the loader reads that mapping. So there is one set of
checks and one meaning, and a stored run of a Python workflow can be inspected like any other; only the
code behind the names has to be provided again to resume it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import msgspec

from roundel.nodes import TYPES
from roundel.nodes.python import on_executor
from roundel.workflow.diagnostics import Diagnostic, Report, WorkflowError, did_you_mean
from roundel.workflow.document import AllowPaths
from roundel.workflow.functions import EXIT_LOOP
from roundel.workflow.graph import GraphSettings, NodeEnvelope, Workflow
from roundel.workflow.loader import examine_mapping
from roundel.workflow.python_warnings import warn_caller

if TYPE_CHECKING:
    from concurrent.futures import Executor

Names = str | Sequence[str]
Entries = Mapping[str, Any]
Code = TypeVar("Code", bound=Callable[..., Any])


class GraphPart(Protocol):
    """Something that can be added to a graph as a node, such as the agents of `roundel.agents`."""

    def add_to(self, graph: Graph) -> object: ...


class GraphOnExecutor(NamedTuple):
    """A graph whose functions run on an executor; `LoopAgent` creates it. A graph inside may have
    another one."""

    graph: Graph
    executor: Executor


_SETTINGS = frozenset(GraphSettings.__struct_fields__) | {"models", "tools"}
"""What a graph may be given when it is created."""


class Graph:
    """A graph to which nodes and edges are added. A function may be given wherever a file would name
    one.

    `models` and `tools` are the entries that a file has beside its graph. Those of a graph inside
    another one are also known in the whole workflow.
    """

    def __init__(
        self,
        id: str = "",
        *,
        start: Names = (),
        end: Names = (),
        models: Entries | None = None,
        tools: Entries | None = None,
        **settings: Any,
    ) -> None:
        self._shared_entries = {"models": models or {}, "tools": tools or {}}
        self._settings: dict[str, Any] = {"id": id, "start": _names(start), "end": _names(end), **settings}
        self._nodes: list[dict[str, Any]] = []
        self._edges: list[dict[str, Any]] = []

    @property
    def id(self) -> str:
        return str(self._settings["id"])

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuses attributes that would have no effect. A class of its own may have more of them."""
        is_setting = name in _SETTINGS or hasattr(Graph, name)
        if name.startswith("_") or (type(self) is not Graph and not is_setting):
            super().__setattr__(name, value)
            return
        if name in ("nodes", "edges"):
            hint = f"add them with `graph.{name[:-1]}(…)`"
        elif name in _SETTINGS:
            hint = f"give it when you create the graph: Graph(…, {name}=…)"
        else:
            hint = did_you_mean(name, _SETTINGS) or f"settings of a graph: {', '.join(sorted(_SETTINGS))}"
        raise AttributeError(f"'{name}' of a Graph cannot be set, it would have no effect; {hint}")

    def node(self, id: str, type: str, **fields: Any) -> Graph:
        """Adds a node. `fields` are those of its type's config and those of every node, such as
        `timeout`."""
        known = _config_names(type)
        envelope = {name: value for name, value in fields.items() if name not in known}
        config = {name: value for name, value in fields.items() if name in known}
        # As a file writes a subgraph whose graph is in the same file.
        if isinstance(config.get("graph"), Graph):
            config = {"type": "config", "config": config["graph"]}
        unknown = set(envelope) - set(NodeEnvelope.__struct_fields__)
        if unknown:
            # Unknown fields become part of the config, whose check reports them with a suggestion.
            config.update({name: envelope.pop(name) for name in sorted(unknown)})
        self._nodes.append({"id": id, "type": type, "config": config, **envelope})
        return self

    def function(self, id: str, **fields: Any) -> Callable[[Code], Code]:
        """A decorator that makes a function a `python` node."""

        def add(function: Code) -> Code:
            self.node(id, "python", function=function, **fields)
            return function

        return add

    def add(self, part: GraphPart) -> Graph:
        """Adds an agent, several agents or a loop agent as a node."""
        part.add_to(self)
        return self

    def edge(self, source: str, target: str, **fields: Any) -> Graph:
        # A function in place of the mapping that a file has there.
        for name in ("condition", "process"):
            if callable(fields.get(name)):
                fields[name] = {"type": "function", "config": {"name": fields[name]}}
        self._edges.append({"from": source, "to": target, **fields})
        return self

    def mapping(self) -> dict[str, Any]:
        """The content of a file with this workflow."""
        return _GraphWriter().root(self, {})

    def workflow(self, **root: Any) -> Workflow:
        """The workflow; `root` are the keys beside `graph`. Raises WorkflowError if it has errors; its
        warnings are warnings of Python."""
        writer = _GraphWriter()
        workflow, report = examine_mapping(writer.root(self, root), TYPES, writer.named)
        if workflow is None:
            raise WorkflowError(report.diagnostics)
        warn_caller(report.diagnostics)
        return workflow

    def build_and_check(
        self, variables: Mapping[str, Any] | None = None, allow_paths: AllowPaths = ()
    ) -> tuple[Workflow | None, Report]:
        """The workflow, or None if it has errors, and the report."""
        writer = _GraphWriter()
        return examine_mapping(writer.root(self, {}), TYPES, writer.named, variables, allow_paths)

    def _to_mapping(self, writer: _GraphWriter) -> dict[str, Any]:
        nodes = [writer.node(node) for node in self._nodes]
        return {**self._settings, "nodes": nodes, "edges": writer.to_plain(self._edges)}


class _GraphWriter:
    """Writes one workflow as a file would have it, with code by name; names are unique in the whole
    workflow."""

    def __init__(self) -> None:
        self.named: dict[str, Any] = {}
        self._around: list[Graph] = []
        self._executors: list[Executor] = []
        self._pooled: dict[tuple[int, int], Any] = {}
        """The wrapper of each function for an executor, by the identities of both."""
        self._shared_entries: dict[str, dict[str, Any]] = {"models": {}, "tools": {}}

    def root(self, graph: Graph, given: Entries) -> dict[str, Any]:
        """The whole file. Entries of `given` take precedence over those of the graph."""
        for what, known in self._shared_entries.items():
            # All shared entries come first, so that no function in a graph takes the name of a tool.
            self._add_shared(what, {**graph._shared_entries[what], **given.get(what, {})})
            for inner in _graphs_in(graph._nodes, {id(graph)}):
                self._add_shared(what, inner._shared_entries[what])
            if known:
                given = {**given, what: known}
        return {**self.to_plain(given), "graph": graph._to_mapping(self)}

    def node(self, node: dict[str, Any]) -> dict[str, Any]:
        config = node["config"]
        if self._executors and node["type"] == "python" and _is_blocking(config.get("function")):
            node = {**node, "config": {**config, "function": self._on_executor(config["function"])}}
        written: dict[str, Any] = self.to_plain(node)
        return written

    def _on_executor(self, function: Any) -> Any:
        """The same wrapper for all nodes with the same function: two wrappers would get two names."""
        executor = self._executors[-1]
        key = (id(function), id(executor))
        if key not in self._pooled:
            self._pooled[key] = on_executor(function, executor)
        return self._pooled[key]

    def to_plain(self, value: Any) -> Any:
        if isinstance(value, GraphOnExecutor):
            self._executors.append(value.executor)
            written = self._graph(value.graph)
            self._executors.pop()
            return written
        if isinstance(value, Graph):
            return self._graph(value)
        if isinstance(value, Mapping):
            return {key: self.to_plain(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.to_plain(item) for item in value]
        return self._name(value) if _is_code(value) else value

    def _graph(self, graph: Graph) -> dict[str, Any]:
        if graph in self._around:
            raise ValueError(f"the graph '{graph.id}' contains itself")
        self._around.append(graph)
        written = graph._to_mapping(self)
        self._around.pop()
        return written

    def _add_shared(self, what: str, entries: Entries) -> None:
        known = self._shared_entries[what]
        for name, entry in entries.items():
            written = self.to_plain({"python": entry} if _is_code(entry) else entry)
            if known.setdefault(name, written) != written:
                message = f"'{name}' under '{what}' differs from the entry of the graph around this one"
                raise WorkflowError([_conflict(message)])

    def _name(self, code: Any) -> str:
        """A unique name for code: its own name, which models see for a tool, and a number if it is
        taken."""
        own = name = str(getattr(code, "__name__", type(code).__name__))
        number = 1
        while self._is_name_taken(name, code):
            number += 1
            name = f"{own}_{number}"
        self.named[name] = code
        return name

    def _is_name_taken(self, name: str, code: Any) -> bool:
        if self.named.get(name, code) is not code or name == EXIT_LOOP:
            return True
        # An agent that names a tool refers to the entry under `tools`, if there is one.
        entry = self._shared_entries["tools"].get(name)
        return entry is not None and entry != {"python": name}


def _conflict(message: str) -> Diagnostic:
    hint = "give it another name"
    return Diagnostic(code="two-meanings", severity="error", file="<python>", message=message, hint=hint)


def _is_blocking(function: Any) -> bool:
    """Whether it is a function that would block the event loop."""
    return callable(function) and not iscoroutinefunction(function)


def _graphs_in(value: Any, seen: set[int]) -> Iterator[Graph]:
    if isinstance(value, Graph) and id(value) not in seen:
        seen.add(id(value))
        yield value
        yield from _graphs_in(value._nodes, seen)
    elif isinstance(value, Mapping):
        yield from _graphs_in(list(value.values()), seen)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _graphs_in(item, seen)


def _is_code(value: Any) -> bool:
    """Whether a value is a function, or an object that is a loop strategy."""
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
