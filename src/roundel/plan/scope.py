"""Scopes: what is scheduled as one acyclic piece, the whole graph or one round of a loop.

The units of a scope are its nodes, with each loop inside it folded into one unit. The edges between
units order them, except the edges into the scope's own entry, which begin the next round. A loop may be
entered at any of its nodes, and its nesting depends on where: a scope is compiled once for each (loop,
entry) that occurs, and cached for all later rounds.

Which edges order units:

  - triggering edges inside the scope: after folding they form no cycle;
  - edges with `trigger: false`, as far as they close no cycle: their target should see their data.
    Where they would close one, a target still waits for a source of an earlier layer;
  - the same for a node whose message another one carries (`NodeType.carries`);
  - in a loop, a unit that may leave it comes before the whole next layer, so that whether a later layer
    runs never depends on timing.

Side nodes
----------
A side node belongs to a loop although no triggering edge leads from it back into the loop. The loop
triggers it, and it sends nothing but data, all of it to that loop: a prompt or a note that the next
round reads. If it counted as a node outside, it would end the loop whenever it is triggered. The rule
(docs/decisions/0002):

  - it is in neither `start` nor `end`;
  - at least one triggering edge leads to it, and all of them start in the loop;
  - at least one edge leads from it to another node, none of them triggers, and all of them lead into
    the loop: to its nodes, or to other side nodes of it;
  - when all of its side nodes have joined, a triggering edge still leaves the loop, and not only if a
    node fails. Otherwise none joins: the rule must not take the last exit away, and nothing decides
    which of them should stay outside.

The candidates are found once for each graph; most graphs have none, and skip all of this.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from roundel.plan.components import components, layers, reachable
from roundel.workflow.node_type import ERROR_PORT

if TYPE_CHECKING:
    from roundel.plan.graph import EdgePlan, GraphPlan, NodePlan


class SideCandidate(Struct, frozen=True, eq=False):
    """A node that may be a side node, by its edges alone."""

    node: int
    sources: frozenset[int]
    """The sources of its triggering edges."""
    targets: frozenset[int]
    """The targets of its data, without itself."""


def candidates(graph: GraphPlan) -> tuple[SideCandidate, ...]:
    """The nodes that are side nodes if they are beside a loop."""
    found: dict[int, set[int]] = {}
    for node in graph.nodes:
        outward = [edge for edge in node.edges if edge.target != node.index]
        fixed = node.is_start or node.is_end
        if outward and not fixed and not any(edge.trigger for edge in node.edges):
            found[node.index] = set()
    for edge in graph.edges:
        if edge.trigger and edge.target in found:
            found[edge.target].add(edge.source)
    return tuple(
        SideCandidate(node, frozenset(sources), _targets(graph, node))
        for node, sources in found.items()
        if sources
    )


def _targets(graph: GraphPlan, node: int) -> frozenset[int]:
    return frozenset(edge.target for edge in graph.nodes[node].edges if edge.target != node)


def side_nodes(graph: GraphPlan, loop: Sequence[int], around: Collection[int]) -> list[int]:
    """The side nodes of a loop, given as its strongly connected nodes, among the nodes `around` it.

    `around` is the scope that contains the loop: a node joins an inner loop only if it belongs to the
    outer one too.
    """
    core = frozenset(loop)
    beside = [each for each in graph.candidates if each.node in around and each.sources <= core]
    if not beside:
        return []
    joined = leading_back(core, beside)
    members = core.union(each.node for each in joined)
    leaves = any(
        edge.trigger and edge.port != ERROR_PORT and edge.target not in members
        for node in core
        for edge in graph.nodes[node].edges
    )
    return [each.node for each in joined] if leaves else []


def leading_back(core: frozenset[int], beside: list[SideCandidate]) -> list[SideCandidate]:
    """The candidates whose data all goes to the loop, directly or through other such candidates."""
    givers: dict[int, list[int]] = {}
    for each in beside:
        for target in each.targets:
            givers.setdefault(target, []).append(each.node)
    targets = {each.node: each.targets for each in beside}
    closed = _without_other_targets(core, set(targets), targets, givers)
    leading = reachable((node for node in closed if not core.isdisjoint(targets[node])), givers)
    # Candidates that only send data to each other never lead back. Dropping them may leave others with a
    # target outside; what remains after the second pass still leads back, since its targets do.
    closed = _without_other_targets(core, closed & leading, targets, givers)
    return [each for each in beside if each.node in closed]


def _without_other_targets(
    core: frozenset[int], nodes: set[int], targets: dict[int, frozenset[int]], givers: dict[int, list[int]]
) -> set[int]:
    """The largest subset of `nodes` that sends data only to the loop and to each other."""
    pending = [node for node in nodes if any(to not in core and to not in nodes for to in targets[node])]
    left = nodes.difference(pending)
    for dropped in pending:  # grows during the iteration
        for node in givers.get(dropped, ()):
            if node in left:
                left.discard(node)
                pending.append(node)
    return left


class Unit(Struct, eq=False):
    """A node or a folded loop in a scope. Units are numbered by (layer, position), the order of
    execution."""

    index: int
    layer: int
    position: int
    members: tuple[int, ...]
    core: tuple[int, ...]
    """The members without side nodes: the nodes at which a folded loop may be entered."""
    node: NodePlan | None
    """None for a folded loop."""
    out: tuple[tuple[EdgePlan, int], ...]
    """The node's edges, each with the number of loops that it leaves."""
    ordinary: tuple[tuple[EdgePlan, int], ...] = ()
    """Those of a node that take what leaves by no explicit port; most nodes have no others."""
    explicit: dict[str, tuple[tuple[EdgePlan, int], ...]] = {}
    """Those that take what leaves by an explicit port, for each such port of the node."""
    successors: tuple[int, ...] = ()
    begins: frozenset[int] = frozenset()
    """The triggering edges of its node that may begin a round: those into a folded loop, and those to the
    entry of a loop around it, if there are several."""
    hears_this_round: frozenset[int] = frozenset()
    """The nodes whose messages its calls get, and that settle before it in each round (`NodeType.carries`,
    `NodeType.hears`)."""

    @property
    def order(self) -> tuple[int, int]:
        return self.layer, self.position

    def edges_for(self, port: str) -> tuple[tuple[EdgePlan, int], ...]:
        """The edges that a message may take that leaves by this port."""
        return self.explicit.get(port, self.ordinary)


class Scope(Struct, eq=False):
    """A compiled scope. `compile_scope` creates it; the kernel and the analyses share it."""

    graph: GraphPlan
    members: frozenset[int]
    entry: int | None
    """The node at which the loop was entered; None for the whole graph."""
    parent: Scope | None
    cap: int
    units: tuple[Unit, ...] = ()
    waits: tuple[int, ...] = ()
    """The number of units that each unit waits for."""
    roots: tuple[int, ...] = ()
    forgetful: tuple[int, ...] = ()
    """Nodes whose state is reset when this loop is entered."""
    cleared: tuple[int, ...] = ()
    """Nodes with several incoming edges whose context is cleared by an edge from this loop."""
    folded: frozenset[int] = frozenset()
    """The nodes of the folded loops."""
    back: str = ""
    """The label of the node whose edge begins each further round, if no other edge can."""
    _inner: dict[tuple[int, int], Scope] = {}
    memo: dict[str, Any] = {}
    """Cached results of analyses, by name."""

    def inner(self, unit: Unit, entry: int) -> Scope:
        """The scope of a folded loop, entered at `entry`; compiled on first use."""
        key = (unit.index, entry)
        if key not in self._inner:
            self._inner[key] = compile_scope(self.graph, unit.members, entry, self)
        return self._inner[key]

    def known_inner(self, unit: Unit, entry: int) -> Scope | None:
        """The same if it has been compiled; None otherwise. An analysis must not compile beyond its
        budget."""
        return self._inner.get((unit.index, entry))

    def inners(self) -> Iterator[tuple[tuple[int, int], Scope]]:
        """The compiled loops inside, by unit and entry."""
        return iter(list(self._inner.items()))

    def loops_left(self, target: int) -> int:
        """The number of loops that an edge from this scope to `target` leaves."""
        left = 0
        scope: Scope | None = self
        while scope is not None and scope.entry is not None and target not in scope.members:
            left += 1
            scope = scope.parent
        return left


def compile_scope(graph: GraphPlan, members: Sequence[int], entry: int | None, parent: Scope | None) -> Scope:
    """Compiles the graph (no entry) or a loop entered at `entry`.

    Edges into the entry are left out: without them the loop is acyclic up to loops inside it, which are
    folded.
    """
    cap = graph.cap(entry)
    scope = Scope(graph, frozenset(members), entry, parent, cap)
    inside = [
        edge
        for node in members
        for edge in graph.nodes[node].edges
        if edge.target in scope.members and edge.target != entry
    ]
    cores, groups = _folded(scope, _connected(members, inside))
    unit_of = {node: number for number, group in enumerate(groups) for node in group}
    carried = _carried(scope)
    data = [(edge.source, edge.target) for edge in inside if not edge.trigger]
    before, layer = _ordered(len(groups), inside, [*data, *carried], unit_of)
    # Within a layer by the place in the file, which decides wherever two units are equal.
    ranked = sorted(range(len(groups)), key=lambda number: (layer[number], groups[number][0]))
    place = {number: index for index, number in enumerate(ranked)}
    units = [_unit(scope, place[number], layer[number], cores[number], groups[number]) for number in ranked]
    for source, target in carried:
        if layer[unit_of[source]] < layer[unit_of[target]]:
            units[place[unit_of[target]]].hears_this_round |= {source}
    follows: list[set[int]] = [{place[later] for later in before[number]} for number in ranked]
    if entry is not None:
        _wait_for_exits(units, follows)
    for unit in units:
        unit.successors = tuple(sorted(follows[unit.index]))
    waits = [0] * len(units)
    for unit in units:
        for later in unit.successors:
            waits[later] += 1
    scope.units, scope.waits = tuple(units), tuple(waits)
    scope.roots = tuple(index for index, count in enumerate(waits) if count == 0)
    scope.folded = frozenset(node for unit in units if unit.node is None for node in unit.members)
    back = _only_back(scope)
    for unit in units:
        if unit.node is not None and unit.node.index == back:
            scope.back = unit.node.label
    for unit in units:
        if unit.node is not None:
            unit.begins = frozenset(
                edge.index for edge, loops in unit.out if edge.trigger and _begins_round(scope, edge, loops)
            )
    if entry is not None:
        scope.forgetful = _forgetful(units)
        scope.cleared = _cleared(graph, members)
    return scope


def _only_back(scope: Scope) -> int | None:
    """The only node of which an edge leads back to the entry of a loop; None if there are several."""
    if scope.entry is None:
        return None
    into = scope.graph.nodes[scope.entry].into
    sources = {edge.source for edge in into if edge.trigger and edge.source in scope.members}
    return sources.pop() if len(sources) == 1 else None


def _begins_round(scope: Scope, edge: EdgePlan, loops: int) -> bool:
    """Whether an edge may begin a round of a loop that it stays in or enters, and nothing else says so."""
    for _ in range(loops):
        assert scope.parent is not None
        scope = scope.parent
    if edge.target == scope.entry:
        return not scope.back
    return edge.target in scope.folded


def _connected(members: Sequence[int], inside: list[EdgePlan]) -> list[list[int]]:
    """The strongly connected components over triggering edges; only these make loops
    (docs/decisions/0002)."""
    successors: dict[int, list[int]] = {}
    for edge in inside:
        if edge.trigger:
            successors.setdefault(edge.source, []).append(edge.target)
    return components(members, successors)


def _folded(scope: Scope, cores: list[list[int]]) -> tuple[list[list[int]], list[list[int]]]:
    """The members of each unit: strongly connected nodes, without and with their side nodes."""
    if not scope.graph.candidates:
        return cores, cores
    joined: dict[int, list[int]] = {}
    for core in cores:
        if _is_loop(scope, core):
            joined[core[0]] = side_nodes(scope.graph, core, scope.members)
    sides = {side for found in joined.values() for side in found}
    left = [core for core in cores if core[0] not in sides]
    return left, [sorted([*core, *joined.get(core[0], ())]) for core in left]


def _is_loop(scope: Scope, core: Sequence[int]) -> bool:
    # An edge from the scope's own entry to itself is its back edge, not a loop inside it.
    return len(core) > 1 or (core[0] != scope.entry and scope.graph.nodes[core[0]].triggers_itself)


def _carried(scope: Scope) -> list[tuple[int, int]]:
    """The pairs of a node of the scope and another one whose calls get its messages."""
    nodes = (scope.graph.nodes[node] for node in scope.members)
    pairs = (
        (source, node.index)
        for node in nodes
        if scope.entry not in (None, node.index)
        for source in (*node.hears, node.carries)
        if source is not None and source in scope.members
    )
    return sorted(set(pairs))


def _ordered(
    count: int, inside: list[EdgePlan], data: list[tuple[int, int]], unit_of: dict[int, int]
) -> tuple[list[set[int]], dict[int, int]]:
    """For each unit, the units that wait for it; and the layer of each unit. `data` are pairs of nodes that
    should run in this order, if the edges allow it."""
    firm: dict[int, set[int]] = {number: set() for number in range(count)}
    for edge in inside:
        source, target = unit_of[edge.source], unit_of[edge.target]
        if source != target and edge.trigger:
            firm[source].add(target)
    units = ((unit_of[source], unit_of[target]) for source, target in data)
    loose = {(source, target) for source, target in units if source != target}
    # Data edges that are part of a cycle cannot order units. A cycle over both kinds of edges is found
    # by its component, and only the data edges within one are left out.
    either = {number: list(after) for number, after in firm.items()}
    for source, target in loose:
        either[source].append(target)
    cycle_of = {unit: n for n, group in enumerate(components(range(count), either)) for unit in group}
    for source, target in loose:
        if cycle_of[source] != cycle_of[target]:
            firm[source].add(target)
    # Data edges within a cycle still order two units that other edges put into different layers, in that
    # direction: this closes no cycle, since it follows the layers.
    layer = layers(range(count), {number: sorted(after) for number, after in firm.items()})
    for source, target in loose:
        if layer[source] < layer[target]:
            firm[source].add(target)
    return [firm[number] for number in range(count)], layer


def _unit(scope: Scope, index: int, layer: int, core: list[int], group: list[int]) -> Unit:
    members = tuple(group)
    if _is_loop(scope, core):
        return Unit(index, layer, group[0], members, tuple(core), None, _leaving(scope, members))
    node = scope.graph.nodes[group[0]]
    out = tuple((edge, scope.loops_left(edge.target)) for edge in node.edges)
    ordinary = tuple(pair for pair in out if not pair[0].explicit)
    explicit = {port: tuple(pair for pair in out if pair[0].port == port) for port in node.explicit_ports}
    return Unit(index, layer, group[0], members, members, node, out, ordinary, explicit)


def _leaving(scope: Scope, members: tuple[int, ...]) -> tuple[tuple[EdgePlan, int], ...]:
    """The edges out of a folded loop, each with the number of loops around it that it leaves as well."""
    inside = frozenset(members)
    edges = (edge for node in members for edge in scope.graph.nodes[node].edges)
    return tuple((edge, scope.loops_left(edge.target)) for edge in edges if edge.target not in inside)


def _wait_for_exits(units: list[Unit], follows: list[set[int]]) -> None:
    """Makes all units of the next layer wait for each unit that may leave the loop."""
    by_layer: dict[int, list[Unit]] = {}
    for unit in units:
        by_layer.setdefault(unit.layer, []).append(unit)
    for unit in units:
        if any(edge.trigger and left for edge, left in unit.out):
            follows[unit.index].update(later.index for later in by_layer.get(unit.layer + 1, ()))


def _forgetful(units: list[Unit]) -> tuple[int, ...]:
    """Nodes directly in this loop that ask to be reset; those of inner loops belong to their scopes."""
    nodes = (unit.node for unit in units if unit.node is not None)
    return tuple(node.index for node in nodes if node.kind.forgets(node.config))


def _cleared(graph: GraphPlan, members: Sequence[int]) -> tuple[int, ...]:
    """See `queue.compact`: arrivals at these nodes can be dropped between rounds."""
    edges = (edge for member in members for edge in graph.nodes[member].edges)
    targets = {edge.target for edge in edges if (edge.clear or edge.clear_kept) and not edge.direct}
    return tuple(sorted(targets))
