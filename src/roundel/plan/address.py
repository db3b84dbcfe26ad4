"""Finds the place in a plan that an address names (workflow/address.py has the grammar).

The text alone does not say whether `Each[4]` is a round of a loop of edges or of a node that repeats by
itself, and an id may contain the full stop that joins rounds. So the plan is walked along the address.
"""

from __future__ import annotations

from typing import NamedTuple

from roundel.plan.graph import NodePlan, Plan
from roundel.plan.scope import Scope
from roundel.workflow.address import AddressError, CallPlace, Path, PathStep, Segment, segments

MAX_KNOWN = 256
"""Places of a plan that are remembered."""


class Place(NamedTuple):
    """A place in a plan. `parse` creates it."""

    path: Path
    """What is around the node; for a round, that round is its last step."""
    node: NodePlan
    """For a round, the entry of its loop, or the node that repeats by itself."""
    part: str = ""
    call: CallPlace | None = None
    """For a call of an agent, or one of its rounds of tools, whose label is empty."""
    is_round: bool = False
    loop: Scope | None = None
    """For a round of a loop of edges."""


def parse(address: str, plan: Plan) -> Place:
    """The place that an address names; AddressError if the plan has no such place."""
    known = plan.places
    found = known.get(address)
    if found is None:
        if len(known) >= MAX_KNOWN:
            known.clear()
        known[address] = found = _find(plan, segments(address), address)
    assert isinstance(found, Place)
    return found


def _find(plan: Plan, rest: list[Segment], address: str) -> Place:
    # Loops may be nested a thousand deep, so the ways that are still to be tried are a list.
    ways: list[tuple[Scope, int, Path]] = [(plan.graph.root, 0, ())]
    while ways:
        scope, at, path = ways.pop()
        if at == len(rest):
            continue
        segment, left = rest[at], len(rest) - at - 1
        for unit in scope.units:
            if unit.node is None:
                for member in unit.core if segment.round is not None else ():
                    entry = scope.graph.nodes[member]
                    if entry.label == segment.label:
                        loop = scope.inner(unit, member)
                        inner = (*path, PathStep(loop=entry.id, round=segment.round or 0))
                        if not left:
                            return Place(inner, entry, is_round=True, loop=loop)
                        ways.append((loop, at + 1, inner))
            elif unit.node.label == segment.label:
                node, part = unit.node, segment.part
                if segment.round is None and not left:
                    return Place(path, node, part)
                if node.has_tool_loop and left < 2:
                    call = CallPlace(segment.round or 0, rest[-1].text if left else "")
                    return Place(path, node, part, call)
                if node.kind.loops == (segment.round is not None):
                    inner = (*path, PathStep(None, node.id, segment.round or 0, part, segment.repeat))
                    if not left and node.bodies:
                        return Place(inner, node, is_round=True)
                    ways += [(body.root, at + 1, inner) for body in node.bodies]
    raise AddressError(f"the workflow has no place '{address}'")
