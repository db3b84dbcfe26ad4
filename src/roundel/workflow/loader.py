"""From a file, a text or a plain mapping to a workflow, with every problem that it has."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from roundel.workflow.diagnostics import Report, WorkflowError, did_you_mean
from roundel.workflow.document import Located, read_file, read_text
from roundel.workflow.dotenv import read_dotenv
from roundel.workflow.fields import INVALID, Place, child, key_place, located, without_effect
from roundel.workflow.functions import Finder
from roundel.workflow.graph import (
    Edge,
    Graph,
    GraphReader,
    Limits,
    Node,
    Settings,
    Workflow,
)
from roundel.workflow.node_type import NodeTypes
from roundel.workflow.variables import substitute

MAX_FILE_DEPTH: Final = 32
MAX_FILES: Final = 1000


class Root(Struct, frozen=True, omit_defaults=True):
    """The top of a workflow file."""

    graph: Any = None
    version: str | int | float = ""
    vars: dict[str, Any] = {}
    models: dict[str, Any] = {}
    tools: dict[str, Any] = {}
    limits: Limits = Limits()
    breaker: Any = None
    memory: Any = None

    def __check__(self, at: Located, report: Report) -> bool:
        without_effect(self, ("models", "tools", "breaker", "memory"), at, report)
        return True


def load(
    source: str | os.PathLike[str],
    types: NodeTypes,
    variables: Mapping[str, Any] | None = None,
) -> Workflow:
    """The workflow of a file; WorkflowError with everything that is wrong with it."""
    workflow, report = examine(source, types, variables)
    if workflow is None:
        raise WorkflowError(report.diagnostics)
    return workflow


def examine(
    source: str | os.PathLike[str],
    types: NodeTypes,
    variables: Mapping[str, Any] | None = None,
) -> tuple[Workflow | None, Report]:
    """The workflow of a file, or None, and what there is to say about it."""
    path = Path(source)
    report = Report(str(source))
    root = read_file(path, report)
    return _examined(root, report, types, variables or {}, path, {})


def examine_text(
    text: str, types: NodeTypes, variables: Mapping[str, Any] | None = None, name: str = "<text>"
) -> tuple[Workflow | None, Report]:
    report = Report(name)
    return _examined(read_text(text, report), report, types, variables or {}, None, {})


def from_mapping(
    value: Mapping[str, Any],
    types: NodeTypes,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    variables: Mapping[str, Any] | None = None,
) -> Workflow:
    """The workflow that a plain mapping describes, as a file with the same content would."""
    workflow, report = examine_mapping(value, types, functions, variables)
    if workflow is None:
        raise WorkflowError(report.diagnostics)
    return workflow


def examine_mapping(
    value: Mapping[str, Any],
    types: NodeTypes,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    variables: Mapping[str, Any] | None = None,
) -> tuple[Workflow | None, Report]:
    report = Report("<python>")
    root = located(value, report)
    return _examined(root, report, types, variables or {}, None, functions or {})


def _examined(
    root: Located | None,
    report: Report,
    types: NodeTypes,
    variables: Mapping[str, Any],
    path: Path | None,
    functions: Mapping[str, Callable[..., Any]],
) -> tuple[Workflow | None, Report]:
    if root is None:
        return None, report
    folder = path.resolve().parent if path else None
    reader = WorkflowReader(report, types, Finder(functions, folder), folder, variables)
    if path is not None:
        reader.chain = (path.resolve(),)
    workflow = reader.read_workflow(root, functions, str(path) if path else "")
    return (workflow if report.ok else None), report


class WorkflowReader(GraphReader):
    """Reads whole files, and the files of their subgraphs."""

    def __init__(
        self,
        report: Report,
        types: NodeTypes,
        finder: Finder,
        folder: Path | None,
        variables: Mapping[str, Any],
    ) -> None:
        super().__init__(report, types)
        self.finder = finder
        self.folder = folder
        self.top = folder
        self.variables = variables
        self.vars: dict[str, Any] = {}
        self.chain: tuple[Path, ...] = ()
        self.files: list[Path] = []
        """Each file of a subgraph as often as it is used; the same list for all readers of a workflow."""

    def read_workflow(
        self, at: Located, functions: Mapping[str, Callable[..., Any]], file: str
    ) -> Workflow | None:
        root = self._resolved(at)
        settings = self._read_root(root)
        if isinstance(settings, Root):
            self.vars = settings.vars
        graph = self._graph_of(root)
        if settings is INVALID or graph is INVALID:
            return None
        return Workflow(
            graph,
            str(settings.version),
            settings.vars,
            settings.models,
            settings.tools,
            settings.limits,
            settings.breaker,
            settings.memory,
            dict(functions),
            file,
        )

    def read_subgraph(self, at: Located) -> Any:
        """The graph of a file that another one uses; what stands beside it counts for it alone."""
        root = self._resolved(at)
        settings = self._read_root(root)
        if isinstance(settings, Root):
            self.vars = {**self.vars, **settings.vars}
        graph = self._graph_of(root)
        if settings is INVALID or graph is INVALID or graph.limits.rounds:
            return graph
        return replace(graph, limits=settings.limits)

    def _resolved(self, at: Located) -> Located:
        dotenv = read_dotenv(self.folder / ".env", self.report) if self.folder else {}
        # The variables of the file that a subgraph is used from stand behind its own.
        inherited = {**os.environ, **self.vars}
        return substitute(at, self.report, self.variables, inherited, dotenv)

    def _read_root(self, root: Located) -> Any:
        if isinstance(root.value, dict) and "graph" not in root.value and "nodes" in root.value:
            return Root()  # the file is the graph itself
        return self.read_struct(root, Root, "the workflow")

    def _graph_of(self, root: Located) -> Any:
        if not isinstance(root.value, dict):
            return self._wrong(root, "the workflow", "a mapping")
        if "nodes" in root.value and "graph" not in root.value:
            return self.read_graph(root)
        if "graph" not in root.value:
            self.report.error("missing-key", "the workflow has no 'graph'", root)
            return INVALID
        return self.read_graph(root.value["graph"])

    def read_graph(self, at: Located) -> Any:
        """The graph at a place; also called by node types that hold a graph."""
        settings = self.read_struct(at, Settings, "the graph")
        if not isinstance(at.value, dict):
            return INVALID
        nodes = self._nodes(at)
        edges = self._edges(at, nodes)
        self._check_names(at, nodes, settings)
        if settings is INVALID or not self.report.ok:
            return INVALID
        return Graph(
            nodes=tuple(node for node in nodes.values() if node is not None),
            edges=tuple(edges),
            start=tuple(dict.fromkeys(settings.start)),
            end=tuple(dict.fromkeys(settings.end)),
            id=settings.id,
            description=settings.description,
            initial_instruction=settings.initial_instruction,
            log_level=settings.log_level,
            is_majority_voting=settings.is_majority_voting,
            memory=settings.memory,
            limits=settings.limits,
            loops=settings.loops,
            breaker=settings.breaker,
            vars=self.vars,
            at=Place(self.report.file, at.line, at.column),
        )

    def _items(self, at: Located, name: str) -> list[Located] | None:
        """What is listed under a name; None, with the reason in the report, if it is no list."""
        assert isinstance(at.value, dict)
        place = at.value.get(name)
        if place is None or place.value is None:
            return []
        if isinstance(place.value, list):
            return place.value
        if isinstance(place.value, dict) and ("id" in place.value or "from" in place.value):
            return [place]
        self._wrong(place, f"'{name}' of the graph", "a list", "write each item behind a `- `")
        return None

    def _nodes(self, at: Located) -> dict[str, Node | None]:
        """Nodes by id; None for one that has an id but could not be read."""
        nodes: dict[str, Node | None] = {}
        lines: dict[str, int] = {}
        items = self._items(at, "nodes")
        if items == []:
            self.report.error("no-nodes", "the graph has no nodes", at)
        for item in items or ():
            node = self.read(item, Node, "a node")
            name = _text(item, "id")
            if name is None:
                continue
            if name in nodes:
                self.report.error(
                    "duplicate-id",
                    f"there is already a node '{name}', in line {lines[name]}",
                    item,
                    "give each node an id of its own",
                )
                continue
            nodes[name] = None if node is INVALID else node
            lines[name] = item.line
        return nodes

    def _edges(self, at: Located, nodes: dict[str, Node | None]) -> list[Edge]:
        edges: dict[tuple[str, str, str | None], Edge] = {}
        for item in self._items(at, "edges") or ():
            edge = self.read(item, Edge, _edge_name(item))
            self._check_ends(item, nodes)
            if edge is INVALID:
                continue
            self._check_port(item, edge, nodes.get(edge.source))
            self._check_functions(item, edge)
            key = (edge.source, edge.target, edge.port)
            if key in edges:
                self.report.warning(
                    "duplicate-edge",
                    f"this edge replaces the one from '{edge.source}' to '{edge.target}' "
                    f"in line {edges[key].at.line}",
                    item,
                    "remove one of the two",
                )
                del edges[key]
            edges[key] = edge
        self._check_dynamic(edges.values())
        return list(edges.values())

    def _check_ends(self, item: Located, nodes: dict[str, Node | None]) -> None:
        for key in ("from", "to"):
            name = _text(item, key)
            if name is not None and name not in nodes:
                assert isinstance(item.value, dict)
                self._unknown_node(item.value[key], name, f"the edge's '{key}'", nodes)

    def _unknown_node(self, at: Located, name: str, what: str, nodes: Mapping[str, Any]) -> None:
        if not nodes:
            return  # the report says why there is none
        hint = did_you_mean(name, nodes) or f"nodes: {', '.join(list(nodes)[:12])}"
        self.report.error("unknown-node", f"{what} names the node '{name}', which does not exist", at, hint)

    def _check_port(self, item: Located, edge: Edge, source: Node | None) -> None:
        if edge.port is None or source is None:
            return
        ports = source.kind.ports(source.config)
        if edge.port in ports:
            return
        assert isinstance(item.value, dict)
        hint = did_you_mean(edge.port, ports) or (f"its ports: {', '.join(ports)}" if ports else "")
        message = (
            f"node '{source.id}' has no port '{edge.port}'" if ports else f"node '{source.id}' has no ports"
        )
        self.report.error("unknown-port", message, item.value["port"], hint)

    def _check_functions(self, item: Located, edge: Edge) -> None:
        if edge.condition is not None and edge.condition.function is not None:
            place = child(item, "condition", "config", "name")
            self.check_function("condition", edge.condition.function, place)
        if edge.process is not None and edge.process.function is not None:
            place = child(item, "process", "config", "name")
            self.check_function("processor", edge.process.function, place)

    def _check_dynamic(self, edges: Any) -> None:
        first: dict[str, Edge] = {}
        for edge in edges:
            if edge.dynamic is None:
                continue
            other = first.setdefault(edge.target, edge)
            if other.dynamic != edge.dynamic:
                place = Located(None, edge.at.line, edge.at.column)
                self.report.error(
                    "dynamic-differs",
                    f"two dynamic edges lead to '{edge.target}' with different settings "
                    f"(the other is in line {other.at.line})",
                    place,
                    "give both the same type, split, max_parallel and group_size",
                )

    def _check_names(self, at: Located, nodes: dict[str, Node | None], settings: Any) -> None:
        assert isinstance(at.value, dict)
        for key in ("start", "end"):
            place = at.value.get(key)
            for item in _listed(place):
                if isinstance(item.value, str) and item.value not in nodes:
                    self._unknown_node(item, item.value, f"'{key}'", nodes)
        if settings is INVALID:
            return
        for name in settings.loops:
            if name not in nodes:
                self._unknown_node(key_place(at.value["loops"], name), name, "'loops'", nodes)
        if not settings.start and not settings.is_majority_voting:
            self.report.error("no-start", "the graph has no 'start'", at, "name the node that gets the input")
        if settings.vars:
            self.report.error("misplaced-vars", "'vars' belongs at the top of the file", at.value["vars"])
        self._check_memory(at, settings)

    def _check_memory(self, at: Located, settings: Settings) -> None:
        seen: set[str] = set()
        for store, place in zip(settings.memory, _listed(child(at, "memory")), strict=False):
            if store.name in seen:
                self.report.error("duplicate-id", f"there are two memory stores '{store.name}'", place)
            seen.add(store.name)

    def read_graph_file(self, at: Located) -> Any:
        """The graph of another file, named at a place of this one."""
        name = str(at.value)
        path = self._find(name)
        if path is None:
            self.report.error(
                "no-file",
                f"the subgraph file '{name}' is not there",
                at,
                "it is looked for beside this file, in its folder `subgraphs`, and in the working folder",
            )
            return INVALID
        if path in self.chain:
            names = " → ".join(step.name for step in (*self.chain[self.chain.index(path) :], path))
            self.report.error("circular-file", f"subgraph files go round in a circle: {names}", at)
            return INVALID
        if len(self.chain) > MAX_FILE_DEPTH or len(self.files) >= MAX_FILES:
            message = (
                f"with '{name}' there are too many subgraph files: "
                f"more than {MAX_FILE_DEPTH} inside each other, or {MAX_FILES} in all"
            )
            self.report.error("too-many-files", message, at)
            return INVALID
        self.files.append(path)
        return self._read_other(path)

    def _find(self, name: str) -> Path | None:
        folders = [folder for folder in (self.folder, self.top, Path.cwd()) if folder is not None]
        places = [place / name for folder in folders for place in (folder, folder / "subgraphs")]
        # os.path takes names of any length, pathlib raises.
        return next((place.resolve() for place in places if os.path.isfile(place)), None)  # noqa: PTH113

    def _read_other(self, path: Path) -> Any:
        report = Report(os.path.relpath(path))
        root = read_file(path, report)
        graph: Any = INVALID
        if root is not None:
            other = WorkflowReader(report, self.types, self.finder, path.parent, self.variables)
            other.top, other.chain, other.vars = self.top, (*self.chain, path), self.vars
            other.files = self.files
            graph = other.read_subgraph(root)
        self.report.extend(report)
        return graph


def _text(at: Located, key: str) -> str | None:
    place = at.value.get(key) if isinstance(at.value, dict) else None
    return place.value if place is not None and isinstance(place.value, str) else None


def _edge_name(at: Located) -> str:
    source, target = _text(at, "from"), _text(at, "to")
    return f"the edge from '{source}' to '{target}'" if source and target else "an edge"


def _listed(at: Located | None) -> list[Located]:
    if at is None:
        return []
    return at.value if isinstance(at.value, list) else [at]
