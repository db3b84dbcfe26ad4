"""How long a drawing takes, beside checking the same workflow, which an editor does each time as well.

The graph is a chain of blocks of twenty nodes. Each block is a loop with an inner loop, a shortcut, a data
edge from the block before, ports on the nodes that decide, and conditions with labels. Each sample compiles
the workflow anew, since a plan remembers its analysis.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import msgspec

from roundel.drawing.assembly import draw
from roundel.drawing.drawing import Density
from roundel.drawing.svg import svg
from roundel.nodes.loading import check_plan
from roundel.plan.graph import Plan, compile_workflow
from roundel.plan.proof import prove

SAMPLES = 5
BLOCK = 20
NODES = (20, 100, 300, 1_000)
DENSITIES: tuple[Density, ...] = ("normal", "compact")
TARGET = "target: 300 nodes laid out and as SVG within 300 ms"


def workflow(count: int) -> dict[str, Any]:
    names = [
        f"Node {number}" if number % 7 else f"A node with a longer name {number}" for number in range(count)
    ]
    nodes = [_node(name, number % BLOCK) for number, name in enumerate(names)]
    blocks = [names[at : at + BLOCK] for at in range(0, count, BLOCK)]
    edges = [edge for block in blocks for edge in _inside(block)]
    for before, after in pairwise(blocks):
        edges += [_edge(before[-1], after[0], port="exit"), _edge(before[5], after[12], trigger=False)]
    nodes.append({"id": "Out", "type": "passthrough"})
    edges.append(_edge(names[-1], "Out", port="exit"))
    return {"graph": {"id": "large", "nodes": nodes, "edges": edges, "start": names[0], "end": "Out"}}


def _node(name: str, place: int) -> dict[str, Any]:
    if place in (9, BLOCK - 1):
        return {"id": name, "type": "loop", "config": {"max_rounds": 5}}
    return {"id": name, "type": "agent"}


def _inside(block: list[str]) -> Iterator[dict[str, Any]]:
    """An inner loop from the fourth to the tenth node, a second one behind it, and the loop around both."""
    for place, (one, other) in enumerate(pairwise(block)):
        if place == 9:
            yield _edge(one, other, port="exit")
        else:
            yield _edge(one, other, **(_when(f"word {place}") if place % 3 == 0 else {}))
    yield _edge(block[9], block[3], port="continue")
    yield _edge(block[12], block[15], **_when("skip"))
    yield _edge(block[14], block[11], **_when("again"))
    yield _edge(block[-1], block[0], port="continue")


def _edge(source: str, target: str, **more: Any) -> dict[str, Any]:
    return {"from": source, "to": target, **more}


def _when(word: str) -> dict[str, Any]:
    return {"condition": {"type": "keyword", "config": {"any": [word]}}}


def seconds(work: Callable[[], Any]) -> float:
    taken = []
    for _ in range(SAMPLES):
        begin = time.process_time()
        work()
        taken.append(time.process_time() - begin)
    return statistics.median(taken)


def checked(described: dict[str, Any]) -> Plan:
    plan, report = check_plan(described)
    assert plan is not None and report.ok, report.errors
    prove(plan)
    return plan


def measure(count: int, density: Density) -> None:
    described = workflow(count)
    plan = checked(described)
    drawing = draw(plan, density=density)
    check = seconds(lambda: checked(described))
    layout = seconds(lambda: draw(compile_workflow(plan.workflow), density=density))
    picture, data = seconds(lambda: svg(drawing)), seconds(lambda: msgspec.json.encode(drawing))
    whole = layout + picture
    figures = f"{check * 1e3:>7.1f} {layout * 1e3:>8.1f} {picture * 1e3:>6.1f} {data * 1e3:>6.2f}"
    print(f"{count:>6,} {density:>8} {figures} {whole * 1e3:>8.1f} ({whole / check:.2f}×)")


def report() -> None:
    print("drawing, CPU ms (medians; ratio of layout and SVG to checking the same workflow)")
    print(f"{'nodes':>6} {'density':>8} {'check':>7} {'layout':>8} {'SVG':>6} {'JSON':>6} {'whole':>8}")
    for count in NODES:
        for density in DENSITIES:
            measure(count, density)
    print(f"{TARGET}\n")
