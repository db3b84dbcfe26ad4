"""Scopes: units, layers, dependencies between units, nesting by entry."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roundel
from roundel.drawing.nesting import nest
from roundel.plan.components import components, layers, reachable
from roundel.plan.graph import GraphPlan, compile_workflow
from roundel.plan.loops import loops
from roundel.plan.scope import Scope


def plan(edges: str, start: str, *data: str, end: tuple[str, ...] = ()) -> GraphPlan:
    """`A>B B>A`: triggering edges; further arguments: edges that only carry data."""
    pairs = [pair.split(">") for pair in edges.split()]
    loose = [pair.split(">") for pair in data]
    names = dict.fromkeys(name for pair in [*pairs, *loose] for name in pair)
    graph = roundel.Graph(start=start.split(","), end=list(end))
    for name in names:
        graph.node(name, "passthrough")
    for source, target in pairs:
        graph.edge(source, target)
    for source, target in loose:
        graph.edge(source, target, trigger=False)
    return compile_workflow(graph.workflow()).graph


def shape(scope: Scope) -> list[tuple[int, str]]:
    """Each unit as (layer, its nodes)."""
    nodes = scope.graph.nodes
    return [(unit.layer, "".join(nodes[member].id for member in unit.members)) for unit in scope.units]


def waits(scope: Scope) -> dict[str, set[str]]:
    nodes = scope.graph.nodes
    names = ["".join(nodes[member].id for member in unit.members) for unit in scope.units]
    found: dict[str, set[str]] = {name: set() for name in names}
    for unit in scope.units:
        for later in unit.successors:
            found[names[later]].add(names[unit.index])
    return found


def test_layers_are_longest_paths() -> None:
    assert shape(plan("A>B A>C B>D C>D A>D", "A").root) == [(0, "A"), (1, "B"), (1, "C"), (2, "D")]


def test_a_loop_is_folded_into_one_unit() -> None:
    root = plan("I>A A>B B>A B>O", "I").root
    assert shape(root) == [(0, "I"), (1, "AB"), (2, "O")]


def test_inside_a_loop_the_edges_into_its_entry_do_not_count() -> None:
    graph = plan("A>B B>C C>A C>O", "A")
    (loop,) = loops(graph)
    assert shape(loop.scope) == [(0, "A"), (1, "B"), (2, "C")]


def test_nesting_depends_on_the_entry() -> None:
    # Two rings that share B: entered at A, the ring B-C is inside; entered at C, the ring A-B is.
    graph = plan("A>B B>A B>C C>B B>O", "A")
    root = graph.root
    unit = next(unit for unit in root.units if unit.node is None)
    at_a = root.inner(unit, graph.index["A"])
    at_c = root.inner(unit, graph.index["C"])
    assert shape(at_a) == [(0, "A"), (1, "BC")]
    assert shape(at_c) == [(0, "C"), (1, "AB")]
    assert root.inner(unit, graph.index["A"]) is at_a, "compiled once, then kept"


def test_a_self_edge_is_a_loop_except_at_the_entry() -> None:
    graph = plan("A>B B>B B>A A>A B>O", "A")
    outer, inner = loops(graph)
    assert shape(outer.scope) == [(0, "A"), (1, "B")]
    assert outer.scope.units[1].node is None
    assert shape(inner.scope) == [(0, "B")]
    assert inner.scope.units[0].node is not None


def test_data_edges_create_no_loop_but_order_nodes() -> None:
    assert shape(plan("A>B", "A", "B>A").root) == [(0, "A"), (1, "B")]
    assert waits(plan("G>C", "G,D", "D>C").root)["C"] == {"G", "D"}


def test_mutual_data_edges_order_nothing() -> None:
    root = plan("X>S X>T", "X", "S>T", "T>S").root
    assert waits(root)["S"] == waits(root)["T"] == {"X"}


def test_next_layer_of_a_loop_waits_for_nodes_that_may_exit() -> None:
    # B may leave the loop in the layer of C; D follows C alone and must still wait for B.
    graph = plan("A>B A>C C>D D>A B>O B>A", "A")
    (loop,) = loops(graph)
    assert waits(loop.scope)["D"] == {"B", "C"}
    assert waits(graph.root)["O"] == {"ABCD"}


def test_edges_know_how_many_loops_they_leave() -> None:
    graph = plan("A>B B>C C>B C>A C>O", "A")
    inner = next(loop for loop in loops(graph) if loop.depth == 1)
    unit = next(unit for unit in inner.scope.units if unit.node is not None and unit.node.id == "C")
    left = {graph.nodes[edge.target].id: count for edge, count in unit.out}
    assert left == {"B": 0, "A": 1, "O": 2}


# Side nodes.


def groups(graph: GraphPlan) -> list[str]:
    """The loops, outer ones first, each as it may be entered: `A: AB`."""
    return [f"{loop.id}: {''.join(node.id for node in loop.nodes)}" for loop in loops(graph)]


def test_a_side_node_is_folded_into_its_loop() -> None:
    graph = plan("A>B B>A B>N B>O", "A", "N>A")
    assert groups(graph) == ["A: ABN"]
    assert shape(graph.root) == [(0, "ABN"), (1, "O")]
    (loop,) = loops(graph)
    assert shape(loop.scope) == [(0, "A"), (1, "B"), (2, "N")]
    assert [str(edge.edge) for edge in loop.leaving()] == ["B → O"]
    assert graph.root.units[0].core == (graph.index["A"], graph.index["B"])


def test_a_loop_of_one_node_has_side_nodes_too() -> None:
    assert groups(plan("A>A A>N A>O", "A", "N>A")) == ["A: AN"]


@pytest.mark.parametrize(
    "data",
    [
        (),  # a node with no edge out of it is an end, and the edge to it leaves the loop
        ("N>N",),
        ("N>A", "N>O"),
        ("O>N", "N>O"),
    ],
)
def test_side_node_gives_data_only_to_its_loop(data: tuple[str, ...]) -> None:
    assert groups(plan("A>B B>A B>N B>O", "A", *data)) == ["A: AB"]


def test_a_side_node_may_give_data_to_itself() -> None:
    assert groups(plan("A>B B>A B>N B>O", "A", "N>A", "N>N")) == ["A: ABN"]


def test_a_side_node_triggers_nothing() -> None:
    assert groups(plan("A>B B>A B>N N>M B>O", "A", "N>A", "M>A")) == ["A: AB"]


def test_side_node_is_triggered_only_by_its_loop() -> None:
    assert groups(plan("I>A I>N A>B B>A B>N B>O", "I", "N>A")) == ["A: AB"]
    assert groups(plan("I>A A>B B>A B>O", "I", "I>N", "N>A")) == ["A: AB"]


def test_a_side_node_is_in_neither_start_nor_end() -> None:
    assert groups(plan("A>B B>A B>N B>O", "A,N", "N>A")) == ["A: AB"]
    assert groups(plan("A>B B>A B>N B>O", "A", "N>A", end=("N",))) == ["A: AB"]
    assert groups(plan("A>B B>A B>N B>O", "A", "N>A", end=("O",))) == ["A: ABN"]


def test_side_nodes_join_only_if_another_exit_remains() -> None:
    assert groups(plan("A>B B>A B>N", "A", "N>A")) == ["A: AB"]
    assert groups(plan("A>B B>A B>N A>M", "A", "N>A", "M>A")) == ["A: AB"]
    assert groups(plan("A>B B>A B>N A>M A>O", "A", "N>A", "M>A")) == ["A: ABNM"]


def test_side_nodes_give_data_to_each_other() -> None:
    assert groups(plan("A>B B>A B>N A>M A>O", "A", "N>M", "M>A")) == ["A: ABNM"]
    assert groups(plan("A>B B>A B>N A>M A>O", "A", "N>M", "M>N", "M>A")) == ["A: ABNM"]
    assert groups(plan("A>B B>A B>N A>M A>O", "A", "N>M", "M>N")) == ["A: AB"]


def test_side_nodes_of_loops_in_loops() -> None:
    ring = "A>B B>C C>B C>A A>O B>N"
    assert groups(plan(ring, "A", "N>C")) == ["A: ABCN", "B: BCN"]
    assert groups(plan(ring, "A", "N>A")) == ["A: ABCN", "B: BC"], "what it gives goes to the outer loop"
    assert groups(plan(f"{ring} A>N", "A", "N>C")) == ["A: ABCN", "B: BC"], "the outer loop triggers it too"


def test_node_that_is_the_only_exit_of_the_outer_loop_is_no_side_node() -> None:
    assert groups(plan("A>B B>C C>B C>A B>N", "A", "N>C")) == ["A: ABC", "B: BC"]


def test_a_loop_is_not_entered_at_a_side_node() -> None:
    """Nothing leads to the loop, and the side node stands first in the file."""
    made = roundel.Graph(start="O")
    for name in "NABO":
        made.node(name, "passthrough")
    made.edge("A", "B").edge("B", "A").edge("B", "N").edge("B", "O").edge("N", "A", trigger=False)
    graph = compile_workflow(made.workflow()).graph
    assert groups(graph) == ["A: NAB"]
    drawn = nest(graph)
    assert [loop.entry.id for loop in drawn.loops() if loop.entry] == ["A"]


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32))
def test_components_and_layers_of_random_graphs(seed: int) -> None:
    dice = random.Random(seed)
    count = dice.randint(1, 12)
    follow = {
        node: sorted({dice.randrange(count) for _ in range(dice.randint(0, 3))}) for node in range(count)
    }
    groups = components(range(count), follow)
    assert sorted(node for group in groups for node in group) == list(range(count))
    reach = {node: reachable([node], follow) for node in range(count)}
    for group in groups:
        for node in range(count):
            together = node in reach[group[0]] and group[0] in reach[node]
            assert together == (node in group)
    forward = {node: [other for other in follow[node] if other > node] for node in range(count)}
    layer = layers(range(count), forward)
    for node in range(count):
        before = [layer[other] for other in range(count) if node in forward[other]]
        assert layer[node] == (max(before) + 1 if before else 0)


def test_long_chains_need_no_deep_stack() -> None:
    count = 5000
    chain = {node: [node + 1] for node in range(count - 1)}
    assert len(components(range(count), chain)) == count
    ring = {**chain, count - 1: [0]}
    assert len(components(range(count), ring)) == 1
    assert layers(range(count), chain)[count - 1] == count - 1
