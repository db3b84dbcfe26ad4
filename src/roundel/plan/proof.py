"""The proof that loops end: what bounds each, as it may be entered, and how many rounds there can be."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from msgspec import Struct

from roundel.plan.graph import GraphPlan, NodePlan, Plan
from roundel.plan.guards import counting_edges, guards, never_repeats
from roundel.plan.loops import EnteredLoop, survey
from roundel.plan.scope import Scope
from roundel.workflow.node_type import Bound

MOST_NAMED = 3
"""How many of the edges that bound a loop are named."""

FOREVER = 10**15
"""Who would wait for more rounds than these is told of no number."""


class Limit(Struct, frozen=True):
    guard: str
    """A node; or edges, such as `Reviewer → Writer`, whose conditions let no further round begin."""
    limit: int | str
    """A number of rounds; or a time, such as `20 seconds`: the guard's first run after it ends the loop."""


class Proof(Struct, frozen=True):
    """What is certain of a loop each time that it is entered at one of its nodes."""

    id: str
    nodes: tuple[str, ...]
    bounded_by: tuple[Limit, ...]
    worst_case_rounds: int | None
    """None where nothing but the cap, or a clock, bounds it."""
    cap: int
    depth: int
    """How many loops are around it, with those around a subgraph that it is in."""
    worst_case_total: int | None
    """The rounds of a whole run: times those of the loops around it, as far as they are known."""

    @property
    def per_entry(self) -> str:
        return describe_bound(self.bounded_by, self.worst_case_rounds, self.cap)

    def __str__(self) -> str:
        again = " each time" if self.depth or self.worst_case_total != self.worst_case_rounds else ""
        if again and self.worst_case_total is not None:
            again += f", {self.worst_case_total} in all"
        return f"{self.id}: {describe_bound(self.bounded_by, self.worst_case_rounds, self.cap, again)}"


class ProvenLoop(Struct, frozen=True, eq=False):
    """A proof, and the loop that it is about."""

    loop: EnteredLoop
    proof: Proof
    default: bool
    """Its cap is nobody's choice."""


ProvenLoops = dict[Scope, ProvenLoop]
"""What is certain of the free cycles of a graph."""


class GraphUse(Struct, frozen=True, eq=False):
    """A graph, and how it is called: so often at most in a run, inside so many loops."""

    graph: GraphPlan
    times: int | None
    depth: int
    default: bool


def prove(plan: Plan) -> list[Proof]:
    """One proof for each loop and node at which it may be entered, and for each node that is a loop."""
    found: list[Proof] = []
    for use, here in _uses(plan):
        found += [case.proof for case in here.values()]
        found += [_prove_node(use, here, node) for node in use.graph.nodes if node.kind.loops]
    return found


def proven_loops(plan: Plan) -> list[ProvenLoop]:
    return [case for _, here in _uses(plan) for case in here.values()]


def _uses(plan: Plan) -> Iterator[tuple[GraphUse, ProvenLoops]]:
    """Every graph as it is used, outer ones first, with what is certain of its free cycles."""
    pending = [GraphUse(plan.graph, 1, 0, not plan.workflow.limits.rounds)]
    for use in pending:  # grows while we walk it
        here = {case.loop.scope: case for case in _cases(use)}
        yield use, here
        for node in use.graph.nodes:
            pending += _inside(use, here, node)


def _prove_node(use: GraphUse, here: ProvenLoops, node: NodePlan) -> Proof:
    times, depth = _runs(use, here, node)
    most = node.kind.rounds(node.config)
    names = tuple(inner.id for body in node.bodies for inner in body.nodes)
    limits = () if most is None else (Limit(node.id, most),)
    return Proof(node.id, names, limits, most, most or 0, depth, _times(most, times))


def _cases(use: GraphUse) -> Iterator[ProvenLoop]:
    totals: dict[Scope, int | None] = {use.graph.root: use.times}
    chosen = use.graph.caps if _default(use) else range(len(use.graph.nodes))
    for loop in survey(use.graph).found:
        scope = loop.scope
        assert scope.parent is not None
        limits, worst = bounds(scope)
        total = totals[scope] = _times(worst, totals[scope.parent])
        names = tuple(node.id for node in loop.nodes)
        proof = Proof(loop.id, names, limits, worst, scope.cap, use.depth + loop.depth, total)
        yield ProvenLoop(loop, proof, loop.entry.index not in chosen)


def _inside(use: GraphUse, here: ProvenLoops, node: NodePlan) -> Iterator[GraphUse]:
    """How the graphs inside a node are used."""
    if not node.bodies:
        return
    times, depth = _runs(use, here, node)
    iterations = node.kind.iterations(node.config) if node.kind.controller is not None else (1,)
    for body, most in zip_longest(node.bodies, iterations):
        yield GraphUse(body, _times(most, times), depth + node.kind.loops, _default(use))


def _runs(use: GraphUse, here: ProvenLoops, node: NodePlan) -> tuple[int | None, int]:
    """How often a node runs at most, and in how many loops: once in each round of the innermost one."""
    surveyed = survey(use.graph)
    around = [here[loop.scope] for loop in surveyed.around(node)]
    totals = [case.proof.worst_case_total for case in around] or [use.times]
    known = [total for total in totals if total is not None]
    # Not known: how many parts a dynamic edge brings, and what loops that were not analysed do.
    whole = len(known) == len(totals) and not node.has_dynamic_input and node.index not in surveyed.opaque
    return max(known) if whole else None, max((case.proof.depth + 1 for case in around), default=use.depth)


def _default(use: GraphUse) -> bool:
    return use.default and not use.graph.graph.limits.rounds


def _times(one: int | None, other: int | None) -> int | None:
    product = None if one is None or other is None else one * other
    return product if product is None or product <= FOREVER else None


def bounds(scope: Scope) -> tuple[tuple[Limit, ...], int | None]:
    """The guards that bound a loop, and the rounds that there can be each time that it is entered."""
    if "bounds" not in scope.memo:
        scope.memo["bounds"] = _bounds(scope)
    known: tuple[tuple[Limit, ...], int | None] = scope.memo["bounds"]
    return known


def _bounds(scope: Scope) -> tuple[tuple[Limit, ...], int | None]:
    if never_repeats(scope):
        return (), 1
    limits = tuple(Limit(node.id, _limit(bound)) for node, bound in guards(scope)) + _edge_limits(scope)
    counts = round_limits(limits)
    return limits, min(*counts.values(), scope.cap) if counts else None


def _edge_limits(scope: Scope) -> tuple[Limit, ...]:
    found = counting_edges(scope)
    if found is None:
        return ()
    edges, rounds = found
    named = [str(edge.edge) for edge in edges[:MOST_NAMED]]
    more = [f"{len(edges) - MOST_NAMED} more"] if len(edges) > MOST_NAMED else []
    return (Limit(" and ".join([*named, *more]), rounds),)


def round_limits(limits: tuple[Limit, ...]) -> dict[str, int]:
    """The guards that count rounds, and how many."""
    return {limit.guard: limit.limit for limit in limits if isinstance(limit.limit, int)}


def _limit(bound: Bound) -> int | str:
    if bound.rounds is not None:
        return max(1, bound.rounds)
    seconds = f"{bound.seconds:.15g}"
    return f"{seconds} second{'' if seconds == '1' else 's'}"


def describe_bound(limits: tuple[Limit, ...], worst: int | None, cap: int, again: str = "") -> str:
    """The same in words, for people."""
    clocks = [f"at most {at.limit}{again}, by {at.guard}" for at in limits if isinstance(at.limit, str)]
    counts = round_limits(limits)
    if worst is None:
        return "; ".join(clocks) or f"nothing but its cap of {_rounds(cap)}"
    first = " and ".join(guard for guard, limit in counts.items() if limit == worst)
    why = f"by {first}" if first else "by its cap" if counts else "which always ends it"
    return "; ".join([f"at most {_rounds(worst)}{again}, {why}", *clocks])


def _rounds(count: int) -> str:
    return f"{count} round{'' if count == 1 else 's'}"
