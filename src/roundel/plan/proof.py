"""The proof that loops end: what bounds each loop, and how many rounds there can be.

For each loop, as it may be entered at each of its nodes (loops.py), `bounds` collects the guards and
counting edges that no round can avoid (guards.py). The smallest of their limits is the worst case per
entry; without any, nothing but the cap is certain to end it. `_uses` then walks the graphs from the
outside inwards and multiplies: a loop inside another one can be entered once in each of its rounds, and
a subgraph runs as often as its node.

A number is only given where it is certain. Clocks, dynamic edges with an unknown number of parts, and
loops whose analysis did not fit into the budget make it None, and None spreads to everything inside.
"""

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
"""The number of edges that bound a loop and are named in the text."""

FOREVER = 10**15
"""Beyond this many rounds the number is left out: nobody would wait for them."""


class Limit(Struct, frozen=True):
    """One guard, or several edges, that bound a loop."""

    guard: str
    """A node; or edges, such as `Reviewer → Writer`, whose conditions prevent a further round."""
    limit: int | str
    """A number of rounds; or a time such as `20 seconds`, after which the guard's next run ends the
    loop."""


class Proof(Struct, frozen=True):
    """What is certain about a loop each time that it is entered at one particular node. `prove` creates
    it."""

    id: str
    """The name of the loop."""
    nodes: tuple[str, ...]
    """The ids of its nodes."""
    bounded_by: tuple[Limit, ...]
    """The guards that bound it."""
    worst_case_rounds: int | None
    """None if only the cap or a clock bounds it."""
    cap: int
    """The most rounds, after which a run is locked."""
    depth: int
    """The number of loops around it, including those around a subgraph that contains it."""
    worst_case_total: int | None
    """The rounds in a whole run: multiplied by those of the loops around it; None if one is not
    known."""

    @property
    def per_entry(self) -> str:
        return describe_bound(self.bounded_by, self.worst_case_rounds, self.cap)

    def __str__(self) -> str:
        again = " each time" if self.depth or self.worst_case_total != self.worst_case_rounds else ""
        if again and self.worst_case_total is not None:
            again += f", {self.worst_case_total} in all"
        return f"{self.id}: {describe_bound(self.bounded_by, self.worst_case_rounds, self.cap, again)}"


class ProvenLoop(Struct, frozen=True, eq=False):
    """A free loop with its proof."""

    loop: EnteredLoop
    proof: Proof
    default: bool
    """Its cap is the default: nobody has chosen it, so the check warns if nothing else bounds the
    loop."""


ProvenLoops = dict[Scope, ProvenLoop]
"""The proofs of the free loops of a graph, by scope."""


class GraphUse(Struct, frozen=True, eq=False):
    """A graph and its use: how often it runs at most, inside how many loops, with a default cap or
    not."""

    graph: GraphPlan
    times: int | None
    depth: int
    default: bool


def prove(plan: Plan) -> list[Proof]:
    """One proof for each free loop and entry, and one for each node that is a loop itself."""
    found: list[Proof] = []
    for use, here in _uses(plan):
        found += [case.proof for case in here.values()]
        found += [_prove_node(use, here, node) for node in use.graph.nodes if node.kind.loops]
    return found


def proven_loops(plan: Plan) -> list[ProvenLoop]:
    """The free loops of all graphs with their proofs."""
    return [case for _, here in _uses(plan) for case in here.values()]


def _uses(plan: Plan) -> Iterator[tuple[GraphUse, ProvenLoops]]:
    """Every graph as it is used, outer ones first, with the proofs of its free loops."""
    pending = [GraphUse(plan.graph, 1, 0, not plan.workflow.limits.rounds)]
    for use in pending:  # grows during the iteration
        here = {case.loop.scope: case for case in _cases(use)}
        yield use, here
        for node in use.graph.nodes:
            pending += _inside(use, here, node)


def _prove_node(use: GraphUse, here: ProvenLoops, node: NodePlan) -> Proof:
    """The proof of a loop agent or debate, which its own settings bound."""
    times, depth = _runs(use, here, node)
    most = node.kind.rounds(node.config)
    names = tuple(inner.id for body in node.bodies for inner in body.nodes)
    limits = () if most is None else (Limit(node.id, most),)
    return Proof(node.id, names, limits, most, most or 0, depth, _times(most, times))


def _cases(use: GraphUse) -> Iterator[ProvenLoop]:
    """The free loops of a graph. Outer loops come first, so the total of the parent is always known."""
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
    """The uses of the graphs inside a node."""
    if not node.bodies:
        return
    times, depth = _runs(use, here, node)
    iterations = node.kind.iterations(node.config) if node.kind.controller is not None else (1,)
    for body, most in zip_longest(node.bodies, iterations):
        yield GraphUse(body, _times(most, times), depth + node.kind.loops, _default(use))


def _runs(use: GraphUse, here: ProvenLoops, node: NodePlan) -> tuple[int | None, int]:
    """How often a node runs at most, and in how many loops: once in each round of the innermost one.

    The innermost loop depends on the entry, so there may be several; the largest total counts.
    """
    surveyed = survey(use.graph)
    around = [here[loop.scope] for loop in surveyed.around(node)]
    totals = [case.proof.worst_case_total for case in around] or [use.times]
    known = [total for total in totals if total is not None]
    # Unknown: the number of parts of a dynamic edge, and the rounds of loops that were not analysed.
    whole = len(known) == len(totals) and not node.has_dynamic_input and node.index not in surveyed.opaque
    return max(known) if whole else None, max((case.proof.depth + 1 for case in around), default=use.depth)


def _default(use: GraphUse) -> bool:
    """Whether loops of the graph have the default cap unless they set their own."""
    return use.default and not use.graph.graph.limits.rounds


def _times(one: int | None, other: int | None) -> int | None:
    """The product; None if a factor is unknown, or if it is too large to be of use."""
    product = None if one is None or other is None else one * other
    return product if product is None or product <= FOREVER else None


def bounds(scope: Scope) -> tuple[tuple[Limit, ...], int | None]:
    """The guards that bound a loop, and its worst case per entry. Cached in the scope."""
    if "bounds" not in scope.memo:
        scope.memo["bounds"] = _bounds(scope)
    known: tuple[tuple[Limit, ...], int | None] = scope.memo["bounds"]
    return known


def _bounds(scope: Scope) -> tuple[tuple[Limit, ...], int | None]:
    """A loop that can never repeat needs no guard. The cap counts only together with a guard."""
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
    """The guards that count rounds, with their limits; without clocks."""
    return {limit.guard: limit.limit for limit in limits if isinstance(limit.limit, int)}


def _limit(bound: Bound) -> int | str:
    if bound.rounds is not None:
        return max(1, bound.rounds)  # the round in which the guard runs has begun already
    seconds = f"{bound.seconds:.15g}"
    return f"{seconds} second{'' if seconds == '1' else 's'}"


def describe_bound(limits: tuple[Limit, ...], worst: int | None, cap: int, again: str = "") -> str:
    """The bound as a text."""
    clocks = [f"at most {at.limit}{again}, by {at.guard}" for at in limits if isinstance(at.limit, str)]
    counts = round_limits(limits)
    if worst is None:
        return "; ".join(clocks) or f"nothing but its cap of {_rounds(cap)}"
    first = " and ".join(guard for guard, limit in counts.items() if limit == worst)
    why = f"by {first}" if first else "by its cap" if counts else "which always ends it"
    return "; ".join([f"at most {_rounds(worst)}{again}, {why}", *clocks])


def _rounds(count: int) -> str:
    return f"{count} round{'' if count == 1 else 's'}"
