"""Structural diagnostics of a workflow before it runs."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

import roundel
from roundel.nodes import loading
from roundel.plan.graph import compile_workflow
from roundel.plan.loops import loops


def codes(graph: roundel.Graph) -> list[str]:
    """What is said of the structure; what bounds loops is another matter (test_proof.py)."""
    _, report = loading.check(graph)
    found = [f"{found.severity} {found.code}" for found in report.diagnostics]
    return [code for code in found if code != "warning only-capped"]


def ring(*names: str, **fields: Any) -> roundel.Graph:
    graph = roundel.Graph(start=names[0], end="Out", **fields).node("Out", "passthrough")
    for name in names:
        graph.node(name, "passthrough")
    for source, target in pairwise(names):
        graph.edge(source, target)
    return graph


WORD = {"type": "keyword", "config": {"begins": ["z"]}}


def test_loop_with_an_exit_is_valid() -> None:
    assert codes(ring("A", "B").edge("B", "A").edge("B", "Out", condition=WORD)) == []


def test_loop_that_may_end_without_a_trigger_is_valid() -> None:
    graph = roundel.Graph(start="A", end="B").node("A", "agent").node("B", "human")
    assert codes(graph.edge("A", "B").edge("B", "A", condition=WORD)) == []


@pytest.mark.parametrize("names", [("A",), ("A", "B"), ("A", "B", "C", "D")])
def test_loop_without_an_exit_is_an_error(names: tuple[str, ...]) -> None:
    graph = ring(*names).edge(names[-1], names[0])
    assert "error no-way-out" in codes(graph)


def test_exit_that_never_fires_is_an_error() -> None:
    graph = ring("A", "B").edge("B", "A").edge("B", "Out", condition=False)
    assert "error no-way-out" in codes(graph)


def test_inner_loop_without_an_exit_is_an_error() -> None:
    # Whatever happens outside, B goes round and round; nothing but itself follows it.
    graph = ring("A", "B", "C").edge("C", "A", condition=WORD).edge("C", "Out")
    graph = graph.node("Trap", "passthrough").edge("B", "Trap").edge("Trap", "Trap")
    assert "error no-way-out" in codes(graph)


def test_node_without_output_may_end_a_loop() -> None:
    graph = roundel.Graph(start="A", end="A").edge("A", "A")
    graph.function("A")(lambda: None)
    assert codes(graph) == []


def guarded(*edges: tuple[str, str], **options: Any) -> roundel.Graph:
    graph = ring("A", "B").node("Gate", "loop_counter").edge("B", "A").edge("B", "Gate")
    for source, target in edges:
        graph.edge(source, target, **options)
    return graph


def test_correctly_wired_guard_is_valid() -> None:
    assert codes(guarded(("Gate", "A"), ("Gate", "Out"))) == []


@pytest.mark.parametrize("edges", [[("Gate", "Out")], [("Gate", "A")], []])
def test_guard_that_cannot_act_is_an_error(edges: list[tuple[str, str]]) -> None:
    _, report = loading.check(guarded(*edges))
    found = next(found for found in report.diagnostics if found.code == "guard-wiring")
    assert "'Gate'" in found.message
    assert "'Gate' → a node of the loop" in found.hint
    assert "'Gate' → the node after the loop" in found.hint


def found(graph: roundel.Graph, code: str) -> Any:
    _, report = loading.check(graph)
    (diagnostic,) = [each for each in report.diagnostics if each.code == code]
    return diagnostic


def test_guard_without_edges_lacks_back_edge_and_exit() -> None:
    message = found(guarded(), "guard-wiring").message
    assert "no edge leads from it back into the loop, and none leads out of the loop" in message


def test_guard_without_an_exit_in_a_loop_with_another_exit_is_a_warning() -> None:
    graph = guarded(("Gate", "A")).edge("A", "Out", condition=WORD)
    assert codes(graph) == ["warning idle-guard"]
    message = found(graph, "idle-guard").message
    assert "loop_counter 'Gate' does not end the loop 'A'" in message
    assert "which is left by A → Out" in message
    # An exit that never opens is none.
    assert "error guard-wiring" in codes(guarded(("Gate", "A")).edge("A", "Out", condition=False))


def test_guard_that_only_triggers_another_guard_is_a_warning() -> None:
    graph = guarded(("Gate", "Clock")).node("Clock", "loop_timer").edge("Clock", "A").edge("Clock", "Out")
    assert codes(graph) == ["warning idle-guard"]
    assert "it only triggers 'Clock'" in found(graph, "idle-guard").message


def test_guard_that_gives_its_loop_only_data_is_a_warning() -> None:
    graph = guarded(("Gate", "A"), trigger=False).edge("A", "Out", condition=WORD)
    assert codes(graph) == ["warning idle-guard"]


def test_loop_node_outside_of_a_loop_is_a_warning() -> None:
    graph = roundel.Graph(start="A", end="Good").node("A", "agent").node("Gate", "loop", exit_on_score=90)
    graph.node("Good", "passthrough").node("Bad", "passthrough").edge("A", "Gate")
    graph.edge("Gate", "Good", port="exit").edge("Gate", "Bad", port="continue")
    assert codes(graph) == ["warning nothing-repeats"]
    assert "'Gate' is in no loop: it decides once" in found(graph, "nothing-repeats").message


def test_a_guard_of_an_inner_loop_may_lead_to_the_outer_one() -> None:
    graph = ring("Outer", "Body", "Check").node("Gate", "loop_counter")
    graph.edge("Body", "Body").edge("Body", "Gate").edge("Gate", "Body").edge("Gate", "Check")
    graph.edge("Check", "Outer", condition=WORD).edge("Check", "Out")
    # Body → Check is there by `ring`; without it the inner loop is left by its guard alone.
    assert codes(graph) == []


def test_two_starts_in_one_loop_are_an_error() -> None:
    graph = roundel.Graph(start=["A", "B"], end="Out").node("Out", "passthrough")
    graph.node("A", "passthrough").node("B", "passthrough").edge("A", "B").edge("B", "A").edge("B", "Out")
    assert codes(graph) == ["error two-entries"]


def test_node_entering_a_loop_twice_is_an_error() -> None:
    graph = ring("A", "B").edge("B", "A").edge("B", "Out").node("In", "passthrough")
    graph.edge("In", "A").edge("In", "B")
    mapping = graph.mapping()
    mapping["graph"]["start"] = "In"
    _, report = loading.check(mapping)
    assert [found.code for found in report.diagnostics] == ["two-entries"]


def test_nodes_that_never_run_and_ends_that_are_never_reached() -> None:
    graph = roundel.Graph(start="A", end="Far").node("A", "passthrough").node("Far", "passthrough")
    graph.node("Alone", "passthrough").edge("Alone", "Far").edge("A", "Far", trigger=False)
    found = codes(graph)
    assert found.count("warning never-runs") == 2
    assert "warning end-not-reached" in found


def test_graph_without_an_end_is_a_warning() -> None:
    graph = roundel.Graph(start="A").node("A", "agent").node("B", "agent")
    assert codes(graph.edge("A", "B").edge("B", "A", condition=WORD)) == ["warning no-end"]


def test_dense_loops_are_checked_quickly() -> None:
    """Every node leads to every other: the ways to nest grow without end, the check does not."""
    names = [f"N{number}" for number in range(14)]
    graph = roundel.Graph(start="N0", end="Out").node("Out", "passthrough")
    for name in names:
        graph.node(name, "agent")
    for source in names:
        for target in names:
            graph.edge(source, target, condition=WORD)
    graph.edge("N3", "Out")
    assert set(codes(graph)) == {"warning maybe-two-entries", "warning loops-not-analysed"}


def test_guard_that_is_the_only_back_edge_is_an_error() -> None:
    graph = ring("A", "B").node("Gate", "loop_counter").edge("B", "Gate")
    graph.edge("Gate", "A").edge("Gate", "Out")
    _, report = loading.check(graph)
    (found,) = [found for found in report.diagnostics if found.code == "guard-wiring"]
    assert "'Gate' is the only way back to 'A'" in found.message
    at_once = ring("A", "B").node("Gate", "loop_counter", max_iterations=1).edge("B", "Gate")
    assert "error guard-wiring" not in codes(at_once.edge("Gate", "A").edge("Gate", "Out"))
    # In a loop inside another one it goes on counting, unless it starts again at each entry.
    for scope, expected in (("run", []), ("loop", ["error guard-wiring"])):
        graph = ring("Outer", "A", "B", "C").node("Gate", "loop_counter", scope=scope).edge("B", "Gate")
        graph.edge("Gate", "A").edge("Gate", "C").edge("C", "Outer").edge("C", "Out", condition=WORD)
        assert codes(graph) == expected
    passing = ring("A", "B").node("Gate", "loop_timer", passthrough=True).edge("B", "Gate")
    assert "error guard-wiring" not in codes(passing.edge("Gate", "A").edge("Gate", "Out"))


def test_error_edges_of_a_guard_are_no_part_of_its_wiring() -> None:
    """They fire when it fails, not at its limit."""
    right = guarded(("Gate", "A"), ("Gate", "Out")).edge("Gate", "Out", port="error")
    assert codes(right) == []
    only_failing = guarded(("Gate", "A")).edge("Gate", "Out", port="error")
    assert codes(only_failing) == ["warning ends-by-failure", "warning idle-guard"]
    message = found(only_failing, "idle-guard").message
    assert "no edge leads from it out of the loop when it reaches its limit" in message
    assert "which is left by Gate → Out (error)" in message
    # A guard that fails leads on, so the loop may repeat, though the guard is silent below its limit.
    back = ring("A", "B").node("Gate", "loop_counter").edge("B", "Gate").edge("Gate", "A").edge("Gate", "Out")
    assert "error guard-wiring" not in codes(back.edge("Gate", "A", port="error"))


def test_error_edges_of_a_loop_node_may_leave_its_loop() -> None:
    graph = ring("A").node("Gate", "loop").edge("A", "Gate").edge("Gate", "A", port="continue")
    graph.edge("Gate", "Out", port="exit").node("Alert", "passthrough").edge("Gate", "Alert", port="error")
    assert codes(graph) == []
    lost = ring("A").node("Gate", "loop").edge("A", "Gate").edge("Gate", "A", port="error")
    assert "error guard-wiring" in codes(lost.edge("Gate", "Out", port="exit"))


def test_side_node_is_none_if_only_a_failure_leaves_the_loop_otherwise() -> None:
    graph = (
        ring("A", "B")
        .node("Notes", "passthrough")
        .node("Alert", "passthrough")
        .edge("B", "A", condition=WORD)
    )
    graph.edge("B", "Notes").edge("Notes", "A", trigger=False).edge("A", "Alert", port="error")
    (loop,) = loops(compile_workflow(graph.workflow()).graph)
    assert [node.id for node in loop.nodes] == ["A", "B"]
    graph.edge("B", "Out", condition=WORD)
    (loop,) = loops(compile_workflow(graph.workflow()).graph)
    assert [node.id for node in loop.nodes] == ["A", "B", "Notes"]
