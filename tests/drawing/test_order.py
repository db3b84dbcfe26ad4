"""A drawing is a function of the graph: the order of nodes and edges in the file does not change it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roundel.drawing.assembly import draw
from roundel.drawing.drawing import Density
from roundel.drawing.nesting import natural_key
from tests.drawing.drawings import (
    assert_tidy,
    council,
    edge,
    graph,
    held,
    keyword,
    node,
    picture,
    placed,
    plan_of,
    repeated,
)
from tests.plan.shapes import dense

DENSITIES: tuple[Density, ...] = ("normal", "compact")


def shuffled(described: dict[str, Any], random: Random) -> dict[str, Any]:
    """The same graph with its nodes and edges in another order, also those inside its nodes."""
    nodes = [_with_shuffled_body(each, random) for each in described["nodes"]]
    edges = list(described.get("edges", []))
    random.shuffle(nodes)
    random.shuffle(edges)
    return {**described, "nodes": nodes, "edges": edges}


def _with_shuffled_body(described: dict[str, Any], random: Random) -> dict[str, Any]:
    config = described.get("config") or {}
    if described["type"] == "subgraph":
        return {**described, "config": {**config, "config": shuffled(config["config"], random)}}
    return described


def assert_same_drawing(described: dict[str, Any], random: Random) -> None:
    plan, other = plan_of(described), plan_of(shuffled(described, random))
    for density in DENSITIES:
        one = draw(plan, density=density)
        assert msgspec.json.encode(one) == msgspec.json.encode(draw(other, density=density))
        assert_tidy(one)


@st.composite
def random_graphs(draw_: st.DrawFn, deep: bool = True) -> dict[str, Any]:
    names = draw_(st.lists(st.text("ab评1 ", min_size=1, max_size=4), min_size=1, max_size=9, unique=True))
    ends = st.tuples(st.sampled_from(names), st.sampled_from(names))
    edges = [
        edge(*pair, trigger=draw_(st.booleans()), **draw_(st.sampled_from([{}, keyword(any=["yes"])])))
        for pair in draw_(st.lists(ends, max_size=20, unique=True))
    ]
    kinds: list[Callable[[str], dict[str, Any]]] = [node, node, node, repeated, council]
    nodes = [draw_(st.sampled_from(kinds))(name) for name in names]
    if deep and draw_(st.booleans()):
        nodes[0] = held(names[0], draw_(random_graphs(deep=False)))
    starts = draw_(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))
    return {**graph(nodes, edges), "start": starts}


@settings(deadline=None, max_examples=150)
@given(random_graphs(), st.randoms(use_true_random=False))
def test_the_order_of_the_file_does_not_change_the_drawing(described: dict[str, Any], random: Random) -> None:
    assert_same_drawing(described, random)


@pytest.mark.parametrize("seed", range(12))
def test_file_order_does_not_change_the_drawing_of_a_dense_graph(seed: int) -> None:
    """Guards, ports, several entries: loops whose nesting depends on where they are entered."""
    described = dense(seed, most=20)["graph"]
    assert_same_drawing(described, Random(seed))


def test_loop_entry_is_on_top_regardless_of_file_order() -> None:
    nodes = [node("Reviewer"), node("Out"), node("Writer"), node("Start")]
    edges = [
        edge("Reviewer", "Writer"),
        edge("Reviewer", "Out"),
        edge("Writer", "Reviewer"),
        edge("Start", "Writer"),
    ]
    drawing = draw(plan_of({**graph(nodes, edges), "start": ["Start"]}))
    [loop] = drawing.regions
    assert loop.title == "loop Writer" and loop.entry == "Writer"
    heights = [placed(drawing, name).box.y for name in ("Start", "Writer", "Reviewer", "Out")]
    assert heights == sorted(heights)


def test_unentered_loop_starts_at_its_first_id() -> None:
    edges = [edge("Step 10", "Step 9"), edge("Step 9", "Step 10"), edge("A", "Z")]
    nodes = [node("A"), node("Z"), node("Step 10"), node("Step 9")]
    [loop] = draw(plan_of(graph(nodes, edges))).regions
    assert loop.entry == "Step 9"


def test_the_guards_of_a_loop_are_named_in_the_same_order() -> None:
    nodes = [
        node("A"),
        *(node(name, "loop_counter", max_iterations=3) for name in ("G10", "G2")),
        node("Out"),
    ]
    edges = [edge(*pair) for pair in (("A", "G10"), ("A", "G2"), ("A", "A"))]
    edges += [edge(guard, target) for guard in ("G10", "G2") for target in ("A", "Out")]
    described = graph(nodes, edges)
    for count in range(5):
        plan = plan_of(shuffled(described, Random(count)))
        [loop] = draw(plan).regions
        assert loop.captions == ("at most 3 rounds, by G10 and G2",)


def test_the_edges_that_end_a_loop_are_named_in_the_same_order() -> None:
    soon = {"condition": {"cel": "round < 3"}}
    edges = [edge("A", "B"), edge("A", "C"), edge("B", "A", **soon), edge("C", "A", **soon)]
    edges.append(edge("C", "Out", **keyword(any=["done"])))
    described = graph([node("A"), node("B"), node("C"), node("Out")], edges)
    for count in range(5):
        [loop] = draw(plan_of(shuffled(described, Random(count)))).regions
        assert loop.captions == ("at most 3 rounds, by B → A and C → A",)


def test_ids_sort_by_their_numbers() -> None:
    names = ["Step 10", "Step 9", "Step", "9", "10", "Step 9b", "1" * 5000]
    assert sorted(names, key=natural_key) == ["9", "10", "1" * 5000, "Step", "Step 9", "Step 9b", "Step 10"]


def test_equal_ids_in_different_parents_have_different_keys() -> None:
    inner = graph([node("A"), node("B")], [edge("A", "B")])
    drawing = draw(plan_of(graph([held("One", inner), held("Two/3", inner)], [edge("One", "Two/3")])))
    assert [found.key for found in drawing.nodes] == [
        "One",
        "One/A",
        "One/B",
        "Two%2F3",
        "Two%2F3/A",
        "Two%2F3/B",
    ]
    [between] = [found for found in drawing.edges if found.source == "One"]
    assert between.target == "Two%2F3"
    assert "<title>One → Two/3</title>" in picture(
        plan_of(graph([node("One"), node("Two/3")], [edge("One", "Two/3")]))
    )
