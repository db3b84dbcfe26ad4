"""Loops that may be entered at two nodes at once: when there is a warning, and that no run fails without."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import pytest

import roundel
from roundel.nodes import loading
from roundel.plan.graph import Plan
from roundel.plan.structure import check_structure
from roundel.workflow.diagnostics import Report
from tests.kernel.graphs import case
from tests.plan.tangles import PORTS, WORDS, Gambler, fallible, plan_of, spiced, tangle, woven
from tests.plan.test_non_termination import grim, nest

Dict = dict[str, Any]
CODES = ("two-entries", "maybe-two-entries")


def keyword(**config: Any) -> Dict:
    return {"type": "keyword", "config": config}


HIT, MISS = keyword(any=["x"]), keyword(none=["x"])


def ring() -> roundel.Graph:
    """A and B, a loop that is left by a word."""
    graph = roundel.Graph(start="In", end="Out").node("In", "agent").node("Out", "passthrough")
    graph.node("A", "agent").node("B", "agent").edge("A", "B").edge("B", "A", condition=keyword(none=["z"]))
    return graph.edge("B", "Out", condition=keyword(any=["z"]))


def into(first: Dict, second: Dict) -> roundel.Graph:
    return ring().edge("In", "A", **first).edge("In", "B", **second)


def warnings(graph: roundel.Graph | Dict) -> list[str]:
    _, report = loading.check(graph)
    return [f"{found.severity}: {found.message}" for found in report.diagnostics if found.code in CODES]


def test_two_entry_edges_that_may_both_fire_are_a_warning() -> None:
    graph = into({}, {"condition": HIT})
    assert warnings(graph) == [
        "warning: a loop may be entered at 'A' and 'B' at once, and then the run fails: "
        "In → A and In → B may both fire"
    ]
    assert roundel.run(graph, "go", script={"In": "x"}).status == "failed"


def test_certain_double_entry_is_one_error() -> None:
    (found,) = warnings(into({}, {}))
    assert found.startswith("error: a loop is entered at 'A' and 'B' at once")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (HIT, MISS),
        (MISS, HIT),
        (HIT, keyword(none=["y", "x"])),
        (keyword(any=["x", "y"]), keyword(none=["x", "y"], any=["w"])),
        (keyword(any=["x"], case_sensitive=False), keyword(none=["x"], case_sensitive=False)),
        (keyword(any=["x"], word=True), keyword(none=["x"], word=True)),
        (keyword(begins=["x"]), keyword(begins=["x"], negate=True)),
        (keyword(regex=["x"], none=["y"]), keyword(regex=["x"], none=["y"], negate=True)),
        (keyword(begins=["x"]), keyword(begins=["y", "x"], negate=True)),
        (keyword(only=["x"]), keyword(begins=["x"], negate=True)),
        (keyword(begins=["x"]), MISS),
        (keyword(begins=["x"], any=["y"]), keyword(none=["x", "y"])),
        (HIT, keyword(any=["x"], negate=True)),
        (MISS, keyword(none=["x"], negate=True)),
        (HIT, False),
        (None, False),
    ],
)
def test_mutually_exclusive_conditions_are_no_warning(first: Any, second: Any) -> None:
    assert warnings(into({"condition": first}, {"condition": second})) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (HIT, HIT),
        (HIT, keyword(any=["y"])),
        (MISS, keyword(none=["y"])),
        (keyword(any=["x", "y"]), MISS),
        (keyword(any=["x"], regex=["y"]), MISS),  # a text with y and without x
        (keyword(regex=["x"]), MISS),
        (keyword(any=["x"], case_sensitive=False), MISS),  # X
        (HIT, keyword(none=["x"], word=True)),  # xx
        (HIT, keyword(none=["X"])),
        (HIT, keyword(begins=["x"], negate=True)),  # "no x"
        (keyword(begins=["x"]), keyword(none=["x"], word=True)),  # _x_
        (keyword(begins=["*x*"]), keyword(none=["*x*"])),  # x
        (keyword(begins=["x"]), keyword(only=["x"], negate=True)),  # x y
        (keyword(begins=["x", "y"]), keyword(begins=["x"], negate=True)),
        (keyword(begins=["x"]), keyword(begins=["x"], none=["z"], negate=True)),  # x z
        (keyword(begins=["x"], case_sensitive=False), keyword(begins=["x"], negate=True)),  # X
        ({"cel": "round < 1"}, MISS),
        ("code_pass", "code_fail"),
    ],
)
def test_overlapping_conditions_are_a_warning(first: Any, second: Any) -> None:
    assert len(warnings(into({"condition": first}, {"condition": second}))) == 1


def test_inner_loop_of_a_loop_with_two_entries_is_warned_of_once() -> None:
    """C and D may be entered at once from A, and from B; the loop around begins at either of them."""
    graph = roundel.Graph(start="In", end="Out").node("In", "agent").node("Out", "passthrough")
    for name in "ABCD":
        graph.node(name, "agent")
    graph.edge("In", "A", condition=HIT).edge("In", "B", condition=MISS)
    graph.edge("A", "B", condition=HIT).edge("B", "A", condition=HIT)
    for source in "AB":
        graph.edge(source, "C", condition=HIT).edge(source, "D", condition=keyword(any=["y"]))
    graph.edge("C", "D").edge("D", "C", condition=HIT).edge("D", "A", condition=MISS)
    graph.edge("D", "B", condition=HIT).edge("D", "Out", condition=keyword(any=["z"]))
    assert len([found for found in warnings(graph) if "'C' and 'D'" in found]) == 1


@pytest.mark.parametrize("long_way_first", [False, True])
def test_exclusive_paths_of_different_length_are_no_warning(long_way_first: bool) -> None:
    """Fork leads to A at once, or to B by way of Detour: never to both, whoever is named first."""
    graph = ring().node("Fork", "agent").node("Detour", "agent").edge("In", "Fork")
    graph.edge("Fork", "Detour", condition=HIT)
    ways: list[tuple[str, str, Dict]] = [("Fork", "A", {"condition": MISS}), ("Detour", "B", {})]
    for source, target, fields in reversed(ways) if long_way_first else ways:
        graph.edge(source, target, **fields)
    assert warnings(graph) == []


def test_node_with_several_messages_may_take_both_entries() -> None:
    edges = ({"condition": HIT}, {"condition": MISS})
    for last, count in ((True, 0), (False, 1)):
        graph = into(*edges)
        graph._nodes[0] = {"id": "In", "type": "passthrough", "config": {"only_last_message": last}}
        assert len(warnings(graph)) == count
    graph = into(*edges)
    graph._nodes[0] = {"id": "In", "type": "python", "config": {}}
    assert len(warnings(graph)) == 1


def test_parts_of_a_dynamic_edge_may_take_both_entries() -> None:
    graph = into({"condition": HIT}, {"condition": MISS}).node("First", "agent")
    graph._settings["start"] = ["First"]
    graph.edge("First", "In", dynamic={"type": "map", "split": {"type": "regex", "config": {"pattern": "x"}}})
    assert len(warnings(graph)) == 1


def test_middleware_may_give_several_messages() -> None:
    mapping = into({"condition": HIT}, {"condition": MISS}).mapping()
    assert warnings(mapping) == []
    assert len(warnings({**mapping, "middleware": ["roundel:Middleware"]})) == 1


def test_ports() -> None:
    graph = ring()
    graph._nodes[0] = {"id": "In", "type": "loop", "config": {}}
    graph.edge("In", "A", port="continue")
    assert warnings(graph.edge("In", "B", port="exit")) == []
    graph = ring()
    graph._nodes[0] = {"id": "In", "type": "loop", "config": {}}
    assert len(warnings(graph.edge("In", "A", port="continue").edge("In", "B"))) == 1


def test_failures_exclude_everything_else() -> None:
    assert warnings(into({}, {"port": "error"})) == []
    graph = ring().node("Far", "agent").edge("In", "A").edge("In", "Far", port="error").edge("Far", "B")
    assert warnings(graph) == []
    assert len(warnings(into({"port": "error"}, {"port": "error", "condition": HIT}))) == 1
    assert warnings(into({"port": "error", "condition": HIT}, {"port": "error", "condition": MISS})) == []
    # Another part may fail beside those that do not.
    split = {"type": "map", "split": {"type": "regex", "config": {"pattern": "x"}}}
    graph = into({}, {"port": "error"}).node("First", "agent").edge("First", "In", dynamic=split)
    graph._settings["start"] = ["First"]
    assert len(warnings(graph)) == 1


def test_a_start_in_the_loop_and_an_edge_into_it() -> None:
    graph = ring().edge("In", "B", condition=HIT)
    graph._settings["start"] = ["A", "In"]
    (found,) = warnings(graph)
    assert found.endswith("'start' names the first, and In → B may fire")


def test_mutually_exclusive_sources_are_no_warning() -> None:
    """Only one of Left and Right runs, and each leads into the loop at another node."""
    graph = ring().node("Left", "agent").node("Right", "agent").node("Far", "agent")
    graph.edge("In", "Left", condition=HIT).edge("In", "Right", condition=MISS)
    graph.edge("Right", "Far").edge("Far", "B").edge("Left", "A")
    assert warnings(graph) == []
    assert len(warnings(graph.edge("In", "Far", condition=keyword(any=["y"])))) == 1


def test_loop_exits_from_a_single_layer() -> None:
    """Check leaves the first loop for A, or its guard does for B, never both."""
    graph = ring().node("Check", "agent").node("Guard", "loop_counter")
    graph.edge("In", "Check").edge("Check", "In").edge("Check", "Guard").edge("Guard", "In")
    graph.edge("Check", "A", condition=HIT).edge("Guard", "B")
    assert warnings(graph) == []
    assert len(warnings(graph.edge("Guard", "A", condition=HIT))) == 1
    graph = ring().node("Left", "agent").node("Right", "agent").edge("In", "Left").edge("In", "Right")
    graph.edge("Left", "In").edge("Right", "In").edge("Left", "A", condition=HIT)
    assert len(warnings(graph.edge("Right", "B", condition=HIT))) == 1


def test_unreachable_entry_is_no_warning() -> None:
    graph = ring().node("Lost", "agent").edge("In", "A").edge("Lost", "B")
    assert warnings(graph) == []


def test_loops_in_loops_and_in_subgraphs() -> None:
    inner = into({}, {"condition": HIT})
    around = inner.edge("B", "In", condition=keyword(any=["back"]))
    assert len(warnings(around)) == 1
    graph = roundel.Graph(start="Sub", end="Sub").node("Sub", "subgraph", graph=into({}, {"condition": HIT}))
    assert len(warnings(graph)) == 1


def test_warnings_of_a_dense_graph_are_limited() -> None:
    names = [f"N{number}" for number in range(8)]
    graph = roundel.Graph(start="N0", end="Out").node("Out", "passthrough")
    for name in names:
        graph.node(name, "agent")
    for source in names:
        for target in names:
            graph.edge(source, target, condition=HIT)
    found = warnings(graph.edge("N3", "Out", condition=MISS))
    assert len(found) == 6
    assert found[0].endswith("N0 → N1 and N0 → N2 may both fire")
    assert found[-1] == "warning: there are more loops that may be entered at two nodes at once"


def test_long_paths_need_no_deep_stack() -> None:
    graph = ring()
    for side, condition, target in (("L", HIT, "A"), ("R", MISS, "B")):
        names = [f"{side}{number}" for number in range(1500)]
        for name in names:
            graph.node(name, "agent")
        graph.edge("In", names[0], condition=condition)
        for one, other in pairwise(names):
            graph.edge(one, other)
        graph.edge(names[-1], target)
    assert warnings(graph) == []


# No run fails without a warning.


def forked(seed: int) -> Dict:
    """A loop and some nodes before it, most of whose edges exclude each other."""
    random = Random(seed)
    before = [f"P{number}" for number in range(random.randint(1, 5))]
    loop = [f"L{number}" for number in range(random.randint(2, 4))]
    kinds = ("agent", "agent", "fork", "passthrough", "mute")
    nodes = [{"id": name, "type": random.choice(kinds)} for name in (*before, *loop)]
    edges: list[Dict] = [{"from": one, "to": other} for one, other in pairwise(loop)]
    edges.append({"from": loop[-1], "to": loop[0], "condition": keyword(any=["a"])})
    for at, name in enumerate(before):
        later = [*before[at + 1 :], *loop]
        one, other = random.choice(later), random.choice(later)
        how = random.randrange(4)
        kind = nodes[at]["type"]
        if how == 0 and kind in ("fork", "mute"):
            edges += [
                {"from": name, "to": one, "port": PORTS[0]},
                {"from": name, "to": other, "port": PORTS[1]},
            ]
        elif how == 1:
            edges.append({"from": name, "to": one})
        else:
            word = random.choice(("a", "b"))
            edges.append({"from": name, "to": one, "condition": keyword(any=[word])})
            edges.append({"from": name, "to": other, "condition": keyword(none=[word if how < 3 else "a"])})
    if random.random() < 0.5:  # the nodes before are a loop of their own
        edges.append({"from": random.choice(before), "to": before[0], "condition": keyword(any=["b"])})
    if random.random() < 0.3:
        edges.append({"from": random.choice(loop), "to": before[0], "condition": keyword(any=["b"])})
    nodes.append({"id": "Out", "type": "passthrough"})
    edges.append({"from": random.choice(loop), "to": "Out", "condition": keyword(none=["a"])})
    graph = {"nodes": nodes, "edges": edges, "start": before[0], "end": "Out"}
    return {"graph": {**graph, "limits": {"rounds": 6, "steps": 200}}}


KINDS: dict[str, Callable[[int], Dict]] = {
    "forked": forked,
    "grim": grim,
    "nest": nest,
    "woven": woven,
    "tangle": tangle,
    "ring": lambda seed: spiced(case(seed)[0], seed),
    "forked, failing": lambda seed: fallible(forked(seed), seed),
    "nest, failing": lambda seed: fallible(nest(seed), seed),
}


def clashing(plan: Plan, seed: int) -> int:
    """How many of some runs failed since a loop was entered at two nodes at once."""
    runs = (Gambler(plan, seed * 31 + number).start(word).finish() for number, word in enumerate(WORDS))
    errors = [run.state.error or "" for run in runs]
    return sum("a loop was entered at" in error for error in errors)


@pytest.mark.parametrize("kind", KINDS)
def test_runs_never_fail_by_double_entry_without_a_warning(kind: str) -> None:
    counts: Counter[str] = Counter()
    for seed in range(1000):
        plan, report = plan_of(KINDS[kind](seed), seed), Report()
        check_structure(plan, report)
        warned = any(found.code in CODES for found in report.diagnostics)
        failed = clashing(plan, seed)
        assert warned or not failed, f"seed {seed}"
        counts[f"warned {warned}, failed {bool(failed)}"] += 1
    if kind == "forked":
        # Neither everything nor nothing is warned of, and many warnings come true.
        assert counts["warned False, failed False"] > 300, counts
        assert counts["warned True, failed True"] > 40, counts
