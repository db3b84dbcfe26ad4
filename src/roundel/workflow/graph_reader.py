"""Reads graphs: their nodes and edges, the names that connect them, and drafts of graphs with errors.

`GraphReader` reads a graph in three passes, because names refer forward as well as backward: first all
nodes, then the edges (whose ends and ports are checked against the nodes), then the settings that name
nodes (`start`, `end`, `loops`). An id of a node that could not be read still counts as known, so that
one faulty node does not make every edge to it an error as well.

Drafts. The loader continues after each problem, and returns a workflow only if there is none. An editor
still wants to draw the part that could be read while a person repairs the rest. `NodeReader.drafts` is a
stack that collects this part: reading a node or graph pushes the drafts of everything inside it, and
then replaces those by one draft of its own. A node that could not be read, or that an edge names but
that does not exist, becomes a placeholder, which preserves what is known of it: its id, its type, and
the graphs inside it.

A draft can be compiled and drawn, never run: its report has an error, and the behaviour of a placeholder
raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from msgspec import Struct

from roundel.workflow.diagnostics import Report
from roundel.workflow.document import Located, OutsideFolderError, describe_refused_file
from roundel.workflow.fields import INVALID, SourceLocation, child, has_misspelling, locate_key
from roundel.workflow.functions import ModuleError
from roundel.workflow.graph import Edge, GraphDefinition, GraphSettings, Node, NodeReader
from roundel.workflow.memory_config import AUTO, FileMemory
from roundel.workflow.node_type import NodeType, NodeTypes, all_ports
from roundel.workflow.secret_finder import SecretFinder

UNNAMED = "?"
"""The placeholder's id for a node without one, and its type if that is not text."""


class PlaceholderConfig(Struct, frozen=True):
    """The config of a placeholder. Its type is what tells a placeholder from a node
    (`is_placeholder`)."""

    bodies: tuple[GraphDefinition, ...] = ()
    """The drafts of the graphs inside the node, so that the drawing shows them."""
    missing: bool = False
    """Whether the file only names the node, and does not define it."""


def make_placeholder(
    name: str,
    type_: str,
    known: NodeType | None,
    inside: Iterable[Node | GraphDefinition],
    at: SourceLocation,
    position: tuple[float, ...] = (),
) -> Node:
    """Creates a placeholder for a node that could not be read. `known` is its type, if that exists, so
    that the plan and the drawing still treat it as a loop or a guard."""
    config = PlaceholderConfig(tuple(_as_body(held) for held in inside))
    return Node(name, type_, config, _placeholder_type(type_, known), position=position, at=at)


def make_missing_node(name: str) -> Node:
    """Creates a placeholder for a node that an edge, `start` or `end` names, but that does not exist."""
    return Node(name, "missing", PlaceholderConfig(missing=True), _placeholder_type("missing", None))


def is_placeholder(node: Node) -> bool:
    return isinstance(node.config, PlaceholderConfig)


def is_missing(node: Node) -> bool:
    return isinstance(node.config, PlaceholderConfig) and node.config.missing


def read_partial_edge(item: Located, file: str) -> Edge | None:
    """Takes the ends, the port and the trigger of an edge that could not be read; None if an end is
    missing.

    The trigger matters to a drawing, since only triggering edges make loops (docs/decisions/0002)."""
    source, target, port = get_text(item, "from"), get_text(item, "to"), get_text(item, "port")
    if not source or not target:
        return None
    assert isinstance(item.value, dict)
    trigger = item.value.get("trigger")
    triggers = trigger is None or trigger.value is not False
    return Edge(source, target, triggers, port=port or None, at=SourceLocation(file, item.line, item.column))


def build_draft_graph(
    nodes: Iterable[Node], edges: Iterable[Edge], start: Iterable[str], end: Iterable[str], **more: Any
) -> GraphDefinition:
    """Builds a graph in which every name refers to a node, with placeholders for those that are missing.

    If several nodes have the same id, plan/graph.py connects the edges to the last of them. A reader of
    the file takes the first one for the real node, so it is moved behind the others."""
    first: dict[str, Node] = {}
    again = [node for node in nodes if first.setdefault(node.id, node) is not node]
    edges, start, end = tuple(edges), tuple(dict.fromkeys(start)), tuple(dict.fromkeys(end))
    used = [*start, *end, *(name for edge in edges for name in (edge.source, edge.target))]
    missing = [make_missing_node(name) for name in dict.fromkeys(used) if name not in first]
    return GraphDefinition(
        nodes=(*again, *first.values(), *missing), edges=edges, start=start, end=end, **more
    )


def get_text(at: Located, key: str) -> str | None:
    """The text at a key. A number counts as text: `id: 7` is an error, and a draft shows the node as
    `7`."""
    place = at.value.get(key) if isinstance(at.value, dict) else None
    return None if place is None else get_scalar_text(place)


def _get_position(at: Located) -> tuple[float, ...]:
    """The position of a node that could not be read, so that it stays where it is while it is edited."""
    place = at.value.get("position") if isinstance(at.value, dict) else None
    numbers = [item.value for item in _as_list(place) if isinstance(item.value, (int, float))]
    return tuple(numbers) if len(numbers) == 2 and all(0 <= number <= 100_000 for number in numbers) else ()


def get_scalar_text(at: Located) -> str | None:
    plain = isinstance(at.value, (str, int, float)) and not isinstance(at.value, bool)
    return str(at.value) if plain else None


def _as_body(held: Node | GraphDefinition) -> GraphDefinition:
    return (
        held
        if isinstance(held, GraphDefinition)
        else GraphDefinition(nodes=(held,), start=(held.id,), at=held.at)
    )


def _bodies(config: PlaceholderConfig) -> tuple[GraphDefinition, ...]:
    return config.bodies


def _refuse_to_run(node: Any, _services: Any) -> Any:
    raise RuntimeError(f"'{node.id}' is a placeholder for a node that could not be read, so it cannot run")


def _placeholder_type(name: str, known: NodeType | None) -> NodeType:
    return NodeType(
        name,
        PlaceholderConfig,
        "a node that could not be read",
        _refuse_to_run,
        bodies=_bodies,
        loops=known is not None and known.loops,
        guard=known is not None and known.guard,
    )


MAX_SUGGESTED = 5
"""Nodes that a hint names."""
_ENDPOINT_KEYS = ("start", "end")


class GraphReader(NodeReader):
    """Reads graphs and checks the names in them. `WorkflowReader` (loader.py) is the class that is
    instantiated."""

    def __init__(self, report: Report, types: NodeTypes) -> None:
        super().__init__(report, types)
        self.vars: dict[str, Any] = {}
        """The variables that expressions of the graphs in this file can read."""
        self.secrets = report.secrets or SecretFinder()
        """Shared by all readers of a workflow."""

    def read_graph(self, at: Located) -> Any:
        """Reads the graph at a location, or returns INVALID. Node types whose config has a graph call it
        too.

        In both cases it leaves exactly one entry on `drafts` for this graph; a value that is not a
        mapping leaves none."""
        # Errors are counted instead of collecting INVALID results: checks of names report errors about
        # values that were read without a problem.
        first, errors = len(self.drafts), self.report.error_count
        settings = self.read_struct(at, GraphSettings, "the graph")
        if not isinstance(at.value, dict):
            return INVALID
        # An agent sees the memories of its graph and of the graphs around it.
        around, self.memories = self.memories, (*self.memories, *_memory_names(at))
        nodes = self._read_nodes(at)
        self.memories = around
        drafted = [draft for draft in self.drafts[first:] if isinstance(draft, Node)]
        edges, drafted_edges = self._read_edges(at, nodes)
        self._check_names(at, nodes, drafted_edges, settings)
        if settings is not INVALID and settings.context is not None:
            self.check_profile(settings.context.profile_id, child(at, "context", "profile_id"))
        if settings is not INVALID and settings.id:
            self.names.append(("graph", settings.id, child(at, "id")))
        if settings is INVALID or self.report.error_count > errors:
            self.drafts[first:] = [self._build_draft(at, settings, drafted, drafted_edges)]
            return INVALID
        graph = GraphDefinition(
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
            on_failure=settings.on_failure,
            debug=settings.debug,
            context=settings.context,
            vars=self.secrets.mask_variables(self.vars),
            at=SourceLocation(self.report.file, at.line, at.column),
        )
        self.drafts[first:] = [graph]
        return graph

    def draft_node(self, at: Located, made: Any, inside: list[Node | GraphDefinition]) -> Node:
        if isinstance(made, Node):
            return made
        type_ = get_text(at, "type") or UNNAMED
        try:
            known = self.types.get(type_)
        except ModuleError:
            known = None  # `node_type` has reported it.
        place = SourceLocation(self.report.file, at.line, at.column)
        name = get_text(at, "id") or UNNAMED
        return make_placeholder(name, type_, known, inside, place, _get_position(at))

    def _build_draft(
        self, at: Located, settings: Any, nodes: list[Node], edges: list[Edge]
    ) -> GraphDefinition:
        """Builds the draft of a graph with errors. Settings that could not be read are taken from the
        raw values, as far as these are unambiguous."""
        assert isinstance(at.value, dict)
        names = {
            key: [name for item in _as_list(at.value.get(key)) if (name := get_scalar_text(item))]
            for key in _ENDPOINT_KEYS
        }
        known = {node.id for node in nodes}
        voting = at.value.get("is_majority_voting")
        more: dict[str, Any] = {
            "id": get_text(at, "id") or "",
            "is_majority_voting": voting is not None and voting.value is True,
            "at": SourceLocation(self.report.file, at.line, at.column),
        }
        if settings is not INVALID:
            # The plan looks up the node of each entry, so an entry for an unknown node must not get
            # there.
            loops = {name: loop for name, loop in settings.loops.items() if name in known}
            more |= {"limits": settings.limits, "loops": loops, "breaker": settings.breaker}
        return build_draft_graph(nodes, edges, names["start"], names["end"], **more)

    def _list_items(self, at: Located, name: str) -> list[Located] | None:
        """The items under a key; None, with an error in the report, if the value is not a list.

        A single node or edge may stand without the list, as a mapping that looks like one."""
        assert isinstance(at.value, dict)
        place = at.value.get(name)
        if place is None or place.value is None:
            return []
        if isinstance(place.value, list):
            return place.value
        if isinstance(place.value, dict) and ("id" in place.value or "from" in place.value):
            return [place]
        self._report_wrong_type(place, f"'{name}' of the graph", "a list", "start each item with `- `")
        return None

    def _read_nodes(self, at: Located) -> dict[str, Node | None]:
        """Reads the nodes, by id. A node that has an id but could not be read is None: edges may name
        it."""
        nodes: dict[str, Node | None] = {}
        lines: dict[str, int] = {}
        items = self._list_items(at, "nodes")
        if items == [] and not has_misspelling(at, "nodes", GraphSettings):
            self.report.error("no-nodes", "the graph has no nodes", at)
        around, self.siblings = self.siblings, _nodes_by_id(items or ())
        for item in items or ():
            # Read before the id is checked: a duplicate may have other mistakes, and its draft is drawn.
            node = self.read(item, Node, "a node")
            name = _get_string(item, "id")
            if name is None:
                continue
            if name in nodes:
                where = f", in line {lines[name]}" if lines[name] else ""
                message = f"there is already a node '{name}'{where}"
                self.report.error("duplicate-id", message, item, "give each node a unique id")
                continue
            nodes[name] = None if node is INVALID else node
            lines[name] = item.line
        self.siblings = around
        return nodes

    def _read_edges(self, at: Located, nodes: dict[str, Node | None]) -> tuple[list[Edge], list[Edge]]:
        """Returns the edges, and for a draft the same edges with those that could be read in part."""
        edges: dict[tuple[str, str, str | None], Edge] = {}
        unread = []
        for item in self._list_items(at, "edges") or ():
            with self.report.subject_scope(item):
                edge = self._read_edge(item, nodes, edges)
            if edge is None:
                unread.append(read_partial_edge(item, self.report.file))
        self._check_dynamic(edges.values())
        found = list(edges.values())
        return found, [*found, *(edge for edge in unread if edge is not None)]

    def _read_edge(
        self, item: Located, nodes: dict[str, Node | None], edges: dict[tuple[str, str, str | None], Edge]
    ) -> Edge | None:
        """Reads an edge and adds it to `edges`; None if it could not be read.

        A graph has one edge for each source, target and port; a later one replaces an earlier one.
        The later one also decides the place in the order of the edges."""
        edge = self.read(item, Edge, _describe_edge(item))
        self._check_endpoints(item, nodes)
        if not isinstance(edge, Edge):
            return None
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
        return edge

    def _check_endpoints(self, item: Located, nodes: dict[str, Node | None]) -> None:
        for key in ("from", "to"):
            name = _get_string(item, key)
            if name is not None and name not in nodes:
                assert isinstance(item.value, dict)
                self._report_unknown_node(item.value[key], name, f"the edge's '{key}'", nodes)

    def _report_unknown_node(self, at: Located, name: str, what: str, nodes: Mapping[str, Any]) -> None:
        if not nodes:
            return  # The missing nodes have been reported; every edge would be a second error.
        hint = self.report.suggest(name, nodes) or f"nodes: {', '.join(islice(nodes, 12))}"
        self.report.error("unknown-node", f"{what} names the node '{name}', which does not exist", at, hint)

    def _check_port(self, item: Located, edge: Edge, source: Node | None) -> None:
        # The ports of a node depend on its config, so they are unknown for a node that could not be
        # read.
        if edge.port is None or source is None:
            return
        ports = all_ports(source.kind, source.config)
        if edge.port in ports:
            return
        assert isinstance(item.value, dict)
        hint = self.report.suggest(edge.port, ports) or f"its ports: {', '.join(ports)}"
        message = f"node '{source.id}' has no port '{edge.port}'"
        self.report.error("unknown-port", message, item.value["port"], hint)

    def _check_functions(self, item: Located, edge: Edge) -> None:
        # For the short form (`condition: name`), `child` stops at the condition itself, which is the
        # name.
        if edge.condition is not None and edge.condition.function is not None:
            place = child(item, "condition", "config", "name")
            self.check_function("condition", edge.condition.function, place)
        if edge.process is not None and edge.process.function is not None:
            place = child(item, "process", "config", "name")
            self.check_function("processor", edge.process.function, place)

    def _check_dynamic(self, edges: Any) -> None:
        # One run of the target gathers the messages of all its dynamic edges and splits them together,
        # so there can be only one setting.
        first: dict[str, Edge] = {}
        for edge in edges:
            if edge.dynamic is None:
                continue
            other = first.setdefault(edge.target, edge)
            if other.dynamic != edge.dynamic:
                place = Located(None, edge.at.line, edge.at.column)
                # This runs outside `subject_scope`: the location of the edge attributes the error to the
                # edge.
                self.report.error(
                    "dynamic-differs",
                    f"two dynamic edges lead to '{edge.target}' with different settings "
                    f"(the other is in line {other.at.line})",
                    place,
                    "give both the same type, split, max_parallel and group_size",
                )

    def _check_names(
        self, at: Located, nodes: dict[str, Node | None], edges: Sequence[Edge], settings: Any
    ) -> None:
        assert isinstance(at.value, dict)
        for key in _ENDPOINT_KEYS:
            place = at.value.get(key)
            for item in _as_list(place):
                if isinstance(item.value, str) and item.value not in nodes:
                    self._report_unknown_node(item, item.value, f"'{key}'", nodes)
        if settings is INVALID:
            return
        for name in settings.loops:
            if name not in nodes:
                self._report_unknown_node(locate_key(at.value["loops"], name), name, "'loops'", nodes)
        # With majority voting every node gets the input.
        lacks_start = not settings.start and not settings.is_majority_voting
        if lacks_start and not has_misspelling(at, "start", GraphSettings):
            self.report.error("no-start", "the graph has no 'start'", at, _suggest_start(nodes, edges))
        if settings.vars:
            self.report.error("misplaced-vars", "'vars' belongs at the top of the file", at.value["vars"])
        self._check_memory(at, settings)

    def _check_memory(self, at: Located, settings: GraphSettings) -> None:
        seen: set[str] = set()
        # Not strict: without memories, `child` returns the graph itself, as one item.
        for store, place in zip(settings.memory, _as_list(child(at, "memory")), strict=False):
            if store.name in seen:
                self.report.error("duplicate-id", f"there are two memories '{store.name}'", place)
            seen.add(store.name)
            if isinstance(store.config, FileMemory):
                self._check_sources(store.name, store.config, place)
            elif getattr(store.config, "memory_path", AUTO) not in ("", AUTO) and not self.access.confined:
                self._check_path_exists(
                    store.name, store.config.memory_path, child(place, "config", "memory_path")
                )

    def _check_sources(self, name: str, config: FileMemory, at: Located) -> None:
        places = _as_list(child(at, "config", "file_sources"))
        for source, place in zip(config.file_sources, places, strict=True):
            if not self._check_path_exists(name, source.path, child(place, "path")):
                message = f"the memory '{name}' reads '{source.path}', which does not exist"
                hint = "searched: the folder of this file, and the working folder"
                self.report.warning("missing-source", message, child(place, "path"), hint)

    def _check_path_exists(self, name: str, path: str, at: Located) -> bool:
        """Whether a path of a memory exists. Reports an error if it leads outside the allowed folders.

        A path that is refused counts as existing, so that it is reported once."""
        try:
            found = self.access.find(path, self.folder)
            if found is None and self.access.confined:
                raise OutsideFolderError(None)  # a text does not learn which of the two it is
            return found is not None
        except OutsideFolderError as outside:
            message = f"the memory '{name}' cannot read '{path}': {outside}"
            if self.access.confined:
                self.report.error("not-allowed", describe_refused_file(path), at, outside.hint)
            else:
                self.report.error("outside-folder", message, at, outside.hint)
            return True


def _nodes_by_id(items: Iterable[Located]) -> dict[str, Located]:
    named = ((_get_string(item, "id"), item) for item in items)
    return {name: item for name, item in named if name is not None}


def _get_string(at: Located, key: str) -> str | None:
    place = at.value.get(key) if isinstance(at.value, dict) else None
    return place.value if place is not None and isinstance(place.value, str) else None


def _memory_names(at: Located) -> list[str]:
    """The names of the memories of a graph, also of those that cannot be read: an agent that names such
    a memory is not a second error."""
    names = (_get_string(item, "name") for item in _as_list(child(at, "memory")) if item is not at)
    return [name for name in names if name is not None]


def _describe_edge(at: Located) -> str:
    source, target = _get_string(at, "from"), _get_string(at, "to")
    return f"the edge from '{source}' to '{target}'" if source and target else "an edge"


def _suggest_start(nodes: Iterable[str], edges: Iterable[Edge]) -> str:
    """A hint for a graph without `start`. It is never guessed when a run starts: which node gets the input
    decides what the others are given, and a node that is not named may be one that nobody uses any more."""
    triggered = {edge.target for edge in edges if edge.trigger and edge.source != edge.target}
    first = [name for name in nodes if name not in triggered]
    hint = "name the node that gets the input"
    if len(first) == 1:
        return f"{hint}: `start: {first[0]}`, the only one that no other node triggers"
    if len(first) in range(2, MAX_SUGGESTED + 1):
        return f"{hint}; no other node triggers {', '.join(first[:-1])} and {first[-1]}"
    return hint


def _as_list(at: Located | None) -> list[Located]:
    if at is None:
        return []
    return at.value if isinstance(at.value, list) else [at]
