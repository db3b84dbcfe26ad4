"""What bounds a loop that is at work, found by its address."""

from __future__ import annotations

import re
from dataclasses import dataclass

from roundel.cli.drawing.caption import one_line
from roundel.plan.graph import NodePlan, Plan
from roundel.plan.proof import bounds
from roundel.plan.scope import Scope

_NUMBER = re.compile(r"\[\d+\]")
_PART = re.compile(r"(#[\d.]+)?/")


@dataclass(frozen=True, slots=True)
class Bound:
    rounds: int | None
    """How many rounds there can be, as far as that is known."""
    by: str

    def told(self, number: int) -> str:
        limit = f" of {self.rounds}" if self.rounds is not None and number <= self.rounds else ""
        return f"round {number}{limit}{self.by}"


class Bounds:
    """Looked up once a loop, however many rounds it has."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._known: dict[str, Bound] = {}

    def at(self, address: str) -> Bound:
        key = _NUMBER.sub("", address)
        bound = self._known.get(key)
        if bound is None:
            scope = _in_graph(self._plan.graph.root, address)
            bound = self._known[key] = _bound(scope) if scope is not None else Bound(None, "")
        return bound


def _bound(scope: Scope) -> Bound:
    limits, worst = bounds(scope)
    if worst is None:
        clocks = "".join(f" · {one_line(limit.guard)}: {limit.limit}" for limit in limits)
        return Bound(scope.cap, f" (cap){clocks}")
    guard = next((limit.guard for limit in limits if limit.limit == worst), "")
    return Bound(worst, f" · {one_line(guard)}" if guard else "")


def _in_graph(root: Scope, rest: str) -> Scope | None:
    """The loop that an address leads to from a graph: by loops (`Outer[2].Inner[5]`), or into a node."""
    return _in_loops(root, rest) or _in_nodes(root, rest)


def _in_loops(scope: Scope, rest: str) -> Scope | None:
    for unit in scope.units:
        for member in unit.members if unit.node is None else ():
            name = scope.graph.nodes[member].label
            number = _NUMBER.match(rest, len(name)) if rest.startswith(name) else None
            if number is None:
                continue
            inner, after = scope.inner(unit, member), rest[number.end() :]
            if not after:
                return inner
            found = _in_loops(inner, after[1:]) if after[0] == "." else _in_nodes(inner, after[1:])
            if found is not None:
                return found
    return None


def _in_nodes(scope: Scope, rest: str) -> Scope | None:
    for unit in scope.units:
        node = unit.node
        if node is not None and node.body is not None and rest.startswith(node.label):
            found = _in_body(node, rest)
            if found is not None:
                return found
    return None


def _in_body(node: NodePlan, rest: str) -> Scope | None:
    part = _PART.match(rest, len(node.label))
    assert node.body is not None
    return _in_graph(node.body.root, rest[part.end() :]) if part else None
