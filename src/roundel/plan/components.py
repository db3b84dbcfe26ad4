"""Algorithms on small directed graphs: strongly connected components, layers and reachability.

Graphs are successor lists over integers. All algorithms are iterative, because generated workflows may
nest or chain thousands of nodes, and Python's stack is limited; and deterministic, because the plan's
order depends on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

Successors = Mapping[int, Sequence[int]]


def components(nodes: Iterable[int], successors: Successors) -> list[list[int]]:
    """Tarjan's strongly connected components, each sorted. A component comes after all that it leads
    to."""
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    on_stack: set[int] = set()
    stack: list[int] = []
    found: list[list[int]] = []
    for root in nodes:
        if root in order:
            continue
        work = [(root, iter(successors.get(root, ())))]
        order[root] = low[root] = len(order)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[node])
                if low[node] == order[node]:
                    found.append(_popped(stack, on_stack, node))
            elif following not in order:
                order[following] = low[following] = len(order)
                stack.append(following)
                on_stack.add(following)
                work.append((following, iter(successors.get(following, ()))))
            elif following in on_stack:
                low[node] = min(low[node], order[following])
    return found


def _popped(stack: list[int], on_stack: set[int], until: int) -> list[int]:
    members = []
    while True:
        member = stack.pop()
        on_stack.discard(member)
        members.append(member)
        if member == until:
            return sorted(members)


def layers(nodes: Sequence[int], successors: Successors) -> dict[int, int]:
    """The length of the longest path to each node of an acyclic graph."""
    waiting = dict.fromkeys(nodes, 0)
    for node in nodes:
        for following in successors.get(node, ()):
            waiting[following] += 1
    ready = [node for node in nodes if waiting[node] == 0]
    layer = dict.fromkeys(ready, 0)
    for node in ready:  # grows during the iteration
        for following in successors.get(node, ()):
            layer[following] = max(layer.get(following, 0), layer[node] + 1)
            waiting[following] -= 1
            if waiting[following] == 0:
                ready.append(following)
    return layer


def reachable(starts: Iterable[int], successors: Successors) -> set[int]:
    """The starts and all nodes that can be reached from them."""
    found = set(starts)
    pending = list(found)
    while pending:
        for following in successors.get(pending.pop(), ()):
            if following not in found:
                found.add(following)
                pending.append(following)
    return found
