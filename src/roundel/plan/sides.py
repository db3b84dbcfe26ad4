"""Side nodes: they belong to a loop although no triggering edge leads from them back into it.

A loop leads to such a node, and the node gives nothing but data, all of it to that loop. Counted as a node
outside, it would end the loop whenever it is triggered. The rule (docs/decisions/0002):

  - it is in neither `start` nor `end`;
  - at least one triggering edge leads to it, and all of them start in the loop;
  - at least one edge leads from it to another node, none of them triggers, and all of them lead into the
    loop: to its nodes, or to other side nodes of it;
  - when all of its side nodes have joined, a triggering edge still leaves the loop. Else none of them joins.

Which nodes may be side nodes at all is found once for each graph, and is mostly none.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from roundel.plan.components import reachable

if TYPE_CHECKING:
    from roundel.plan.graph import GraphPlan


class Candidate(Struct, frozen=True, eq=False):
    node: int
    sources: frozenset[int]
    """Where its triggering edges start."""
    targets: frozenset[int]
    """Where its data goes, itself left out."""


def candidates(graph: GraphPlan) -> tuple[Candidate, ...]:
    """The nodes that are side nodes if they stand beside a loop."""
    found: dict[int, set[int]] = {}
    for node in graph.nodes:
        outward = [edge for edge in node.edges if edge.target != node.index]
        fixed = node.index in graph.start or node.index in graph.ends
        if outward and not fixed and not any(edge.trigger for edge in node.edges):
            found[node.index] = set()
    for edge in graph.edges:
        if edge.trigger and edge.target in found:
            found[edge.target].add(edge.source)
    return tuple(
        Candidate(node, frozenset(sources), _targets(graph, node))
        for node, sources in found.items()
        if sources
    )


def _targets(graph: GraphPlan, node: int) -> frozenset[int]:
    return frozenset(edge.target for edge in graph.nodes[node].edges if edge.target != node)


def side_nodes(graph: GraphPlan, loop: Sequence[int], around: Collection[int]) -> list[int]:
    """The side nodes of a loop, given as its strongly connected nodes, among the nodes `around` it."""
    core = frozenset(loop)
    beside = [each for each in graph.candidates if each.node in around and each.sources <= core]
    if not beside:
        return []
    joined = leading_back(core, beside)
    members = core.union(each.node for each in joined)
    leaves = any(
        edge.trigger and edge.target not in members for node in core for edge in graph.nodes[node].edges
    )
    return [each.node for each in joined] if leaves else []


def leading_back(core: frozenset[int], beside: list[Candidate]) -> list[Candidate]:
    """Those whose data all goes to the loop, directly or by way of others of them."""
    givers: dict[int, list[int]] = {}
    for each in beside:
        for target in each.targets:
            givers.setdefault(target, []).append(each.node)
    targets = {each.node: each.targets for each in beside}
    kept = _without_other_targets(core, set(targets), targets, givers)
    leading = reachable((node for node in kept if not core.isdisjoint(targets[node])), givers)
    # Those that lead back lead on to others that do, so whatever is left now leads back as well.
    kept = _without_other_targets(core, kept & leading, targets, givers)
    return [each for each in beside if each.node in kept]


def _without_other_targets(
    core: frozenset[int], kept: set[int], targets: dict[int, frozenset[int]], givers: dict[int, list[int]]
) -> set[int]:
    """The nodes that give data only to the loop, and to each other."""
    pending = [node for node in kept if any(to not in core and to not in kept for to in targets[node])]
    kept = kept.difference(pending)
    for dropped in pending:  # grows while we walk it
        for node in givers.get(dropped, ()):
            if node in kept:
                kept.discard(node)
                pending.append(node)
    return kept
