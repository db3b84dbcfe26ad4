"""Graphs that are large or dense: all-to-all, ladders, chains, rings, many small loops, random edges."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from random import Random
from typing import Any

Dict = dict[str, Any]

WORD = {"type": "keyword", "config": {"begins": ["z"]}}
DONE = {"type": "keyword", "config": {"none": ["z"]}}
CONDITIONS = (WORD, DONE, {"cel": "round > 2"}, {"cel": "round < 3"}, {"cel": "round < 5"}, False)
PLAIN = ("agent", "agent", "passthrough", "literal", "loop")
KINDS = (*PLAIN, "agent", "human", "python")


def workflow(names: list[str], edges: Iterable[Dict], *guards: Dict) -> Dict:
    nodes = [{"id": name, "type": "agent"} for name in names]
    nodes += [*guards, {"id": "Out", "type": "passthrough"}]
    ways = [*edges, edge(names[-1], "Out", condition=DONE)]
    return {"graph": {"nodes": nodes, "edges": ways, "start": names[0], "end": "Out"}}


def named(count: int) -> list[str]:
    return [f"N{number}" for number in range(count)]


def edge(source: str, target: str, **fields: Any) -> Dict:
    return {"from": source, "to": target, **fields}


def forward(names: list[str]) -> list[Dict]:
    return [edge(one, other) for one, other in pairwise(names)]


def complete(count: int) -> Dict:
    """Every node leads to every other."""
    names = named(count)
    ways = ((one, other) for one in names for other in names if one != other)
    return workflow(names, [edge(one, other, condition=WORD) for one, other in ways])


def ladder(count: int) -> Dict:
    """A node leads to the next and back: each loop holds a smaller one, as deep as there are nodes."""
    names = named(count)
    back = [edge(other, one, condition=WORD) for one, other in pairwise(names)]
    return workflow(names, [*forward(names), *back])


def guarded_ladder(count: int) -> Dict:
    """The same, and beside the innermost way back stands a counter."""
    made = ladder(count)
    graph, last = made["graph"], f"N{count - 1}"
    graph["nodes"].append({"id": "Guard", "type": "loop_counter"})
    graph["edges"] += [edge(last, "Guard", condition=WORD), edge("Guard", last), edge("Guard", "Out")]
    return made


def chain(count: int) -> Dict:
    names = named(count)
    return workflow(names, forward(names))


def ring(count: int) -> Dict:
    names = named(count)
    return workflow(names, [*forward(names), edge(names[-1], names[0], condition=WORD)])


def guarded_ring(count: int) -> Dict:
    """A ring of which every node is followed by a counter of its own."""
    names = named(count)
    guards = [{"id": f"G{name}", "type": "loop_counter"} for name in names]
    ways = [edge(name, f"G{name}") for name in names] + [edge(f"G{name}", names[0]) for name in names]
    ways += [edge(f"G{name}", "Out") for name in names]
    return workflow(names, [*forward(names), edge(names[-1], names[0], condition=WORD), *ways], *guards)


def small_loops(count: int) -> Dict:
    """A chain of which every other node leads back to the one before."""
    names = named(count)
    back = [edge(names[at + 1], names[at], condition=WORD) for at in range(0, count - 1, 2)]
    return workflow(names, [*forward(names), *back])


def star(count: int) -> Dict:
    """One node leads to all others, each under a condition of its own, and each leads back."""
    hub, *others = named(count)
    ways = [edge(hub, name, condition={"type": "keyword", "config": {"any": [name]}}) for name in others]
    return workflow([hub, *others], [*ways, *(edge(name, hub) for name in others)])


def scattered(count: int, edges: int, seed: int = 1) -> Dict:
    """So many edges between random nodes."""
    random, names = Random(seed), named(count)
    ways = {(random.choice(names), random.choice(names)) for _ in range(edges)}
    return workflow(names, [edge(one, other, condition=WORD) for one, other in sorted(ways)])


SHAPES: dict[str, Callable[[int], Dict]] = {
    "ladder": ladder,
    "guarded ladder": guarded_ladder,
    "chain": chain,
    "ring": ring,
    "guarded ring": guarded_ring,
    "small loops": small_loops,
    "star": star,
    "scattered": lambda count: scattered(count, 2 * count),
    "scattered, dense": lambda count: scattered(count, 4 * count),
}
"""By a number of nodes."""


def dense(seed: int, least: int = 5, most: int = 40, kinds: tuple[str, ...] = KINDS) -> Dict:
    """A random dense graph: guards, ports, conditions, data edges, several starts."""
    random = Random(seed)
    names = named(random.randint(least, most))
    nodes = [_node(random, name, kinds) for name in names]
    guards = [f"G{number}" for number in range(random.randint(0, max(1, len(names) // 4)))]
    nodes += [_guard(random, name) for name in guards]
    kind_of = {node["id"]: node["type"] for node in nodes}
    density, everybody = random.choice((0.1, 0.3, 0.6, 1.0)), [*names, *guards]
    ways = [(one, other) for one in everybody for other in everybody if random.random() < density]
    ways += [(random.choice(names), guard) for guard in guards] + [(guard, "Out") for guard in guards]
    ways += [(random.choice(names), "Out")]
    edges = {(one, other): _way(random, one, other, kind_of) for one, other in ways}
    start = random.sample(names, random.choice((1, 1, 1, 2)))
    nodes.append({"id": "Out", "type": "passthrough"})
    return {"graph": {"nodes": nodes, "edges": list(edges.values()), "start": start, "end": "Out"}}


def _node(random: Random, name: str, kinds: tuple[str, ...]) -> Dict:
    kind = random.choice(kinds)
    config = {"literal": {"content": "z"}, "loop": {"max_rounds": random.randint(1, 5)}}.get(kind, {})
    return {"id": name, "type": kind, "config": config}


def _guard(random: Random, name: str) -> Dict:
    if random.random() < 0.3:
        return {"id": name, "type": "loop_timer", "config": {"passthrough": random.random() < 0.5}}
    return {"id": name, "type": "loop_counter", "config": {"max_iterations": random.randint(1, 5)}}


def _way(random: Random, source: str, target: str, kinds: dict[str, str]) -> Dict:
    made = edge(source, target)
    if random.random() < 0.4:
        made["condition"] = random.choice(CONDITIONS)
    if random.random() < 0.1:
        made["trigger"] = False
    if kinds[source] == "loop" and random.random() < 0.8:
        made["port"] = random.choice(("continue", "exit"))
    return made
