"""The proof that loops end: what it sees, what it must not be taken in by, and that no run contradicts it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import roundel
from roundel.nodes import loading
from roundel.plan.graph import Plan, compile_workflow
from roundel.plan.guards import effective_bound
from roundel.plan.proof import Limit, Proof, prove, proven_loops
from tests.kernel.graphs import case
from tests.plan.tangles import WORDS, Gambler, fallible, plan_of, rounds, spiced, tangle, woven

MORE = {"type": "keyword", "config": {"none": ["ACCEPT"]}}
DONE = {"type": "keyword", "config": {"begins": ["ACCEPT"]}}
LESS = {"type": "keyword", "config": {"none": ["ACCEPT", "maybe"]}}
VERDICT = {"type": "keyword", "config": {"begins": ["ACCEPT"]}}
OTHERWISE = {"type": "keyword", "config": {"begins": ["ACCEPT"], "negate": True}}
DROP = {"type": "regex_extract", "config": {"pattern": "x", "on_no_match": "drop"}}
EACH = {"type": "map", "split": {"type": "regex", "config": {"pattern": "x", "on_no_match": "empty"}}}


def review(
    limit: int = 3, *, to: Any = MORE, back: Any = MORE, out: dict[str, Any] | None = None
) -> roundel.Graph:
    """A writer and a reviewer, and a guard that counts each round that is not accepted."""
    graph = roundel.Graph(start="Writer", end="Final")
    graph.node("Writer", "agent").node("Reviewer", "agent").node("Final", "passthrough")
    graph.node("Guard", "loop_counter", max_iterations=limit)
    graph.edge("Writer", "Reviewer").edge("Reviewer", "Writer", condition=back)
    graph.edge("Reviewer", "Guard", condition=to).edge("Reviewer", "Final", condition=DONE)
    return graph.edge("Guard", "Writer").edge("Guard", "Final", **(out or {}))


def proofs(graph: roundel.Graph) -> dict[str, Proof]:
    return {proof.id: proof for proof in prove(compile_workflow(graph.workflow()))}


def worst(graph: roundel.Graph, loop: str = "Writer") -> int | None:
    return proofs(graph)[loop].worst_case_rounds


def proof_lines(graph: roundel.Graph) -> list[str]:
    return [str(proof) for proof in prove(compile_workflow(graph.workflow()))]


# A guard beside the edge back.


def test_guard_with_the_condition_of_the_back_edge_bounds_the_loop() -> None:
    (proof,) = prove(compile_workflow(review().workflow()))
    assert proof.bounded_by == (Limit("Guard", 3),)
    assert (proof.worst_case_rounds, proof.worst_case_total, proof.cap, proof.depth) == (3, 3, 100, 0)
    assert proof.nodes == ("Writer", "Reviewer", "Guard")
    assert str(proof) == "Writer: at most 3 rounds, by Guard"
    assert proof.per_entry == "at most 3 rounds, by Guard"


def test_unconditional_guard_bounds_the_loop() -> None:
    assert worst(review(to=None)) == 3


@pytest.mark.parametrize("to", [LESS, DONE, False, {"cel": "round > 1"}])
def test_guard_with_a_different_condition_does_not_bound_the_loop(to: Any) -> None:
    assert worst(review(to=to)) is None


def test_conditions_are_compared_literally() -> None:
    assert worst(review(to=MORE, back=LESS)) is None


def test_same_keywords_with_and_without_negate_cover_all_cases() -> None:
    """Each message of the reviewer takes one of two edges, to nodes that both lead to the guard."""

    def graph(rest: dict[str, Any], **way: Any) -> roundel.Graph:
        made = review(to=False, back=None)
        for node, condition in (("Polish", VERDICT), ("Rework", rest)):
            made.node(node, "passthrough").edge("Reviewer", node, condition=condition).edge(
                node, "Guard", **way
            )
        return made

    assert worst(graph(OTHERWISE)) == 3
    assert worst(graph(MORE)) is None  # "I can't say ACCEPT yet" takes neither
    assert worst(graph({"type": "keyword", "config": {"begins": ["no"], "negate": True}})) is None
    assert worst(graph(OTHERWISE, process=DROP)) is None


def test_verdict_and_its_negation_leave_no_round_without_the_guard() -> None:
    assert worst(review(to=OTHERWISE, back=OTHERWISE)) == 3
    assert worst(review(to=VERDICT, back=OTHERWISE)) is None


@pytest.mark.parametrize("way", [{"process": DROP}, {"dynamic": EACH}, {"condition": MORE}])
def test_edge_to_the_guard_that_may_drop_the_message_does_not_bound_the_loop(way: dict[str, Any]) -> None:
    graph = review(to=False).node("Other", "passthrough").edge("Reviewer", "Other", condition=MORE)
    assert worst(graph.edge("Other", "Guard")) == 3
    graph = review(to=False).node("Other", "passthrough").edge("Reviewer", "Other", condition=MORE)
    assert worst(graph.edge("Other", "Guard", **way)) is None


def test_impure_condition_functions_do_not_bound_the_loop() -> None:
    def whim(_message: roundel.Message) -> bool:
        return True

    assert worst(review(to=whim, back=whim)) is None
    assert worst(review(to="code_pass", back="code_pass")) == 3  # this one is pure


def test_edges_without_data_still_trigger_the_guard() -> None:
    graph = review(to=False, out={"carry_data": False}).node("Other", "passthrough")
    graph.edge("Reviewer", "Other", carry_data=False, clear_context=True).edge("Other", "Guard")
    assert worst(graph) == 3


@pytest.mark.parametrize("out", [{"condition": DONE}, {"process": DROP}, {"trigger": False}])
def test_guard_with_a_conditional_exit_does_not_bound_the_loop(out: dict[str, Any]) -> None:
    assert worst(review(out=out)) is None


def test_guard_may_be_anywhere_on_every_round() -> None:
    graph = review(to=False)
    assert worst(graph.edge("Writer", "Guard")) == 3


def test_the_guard_itself_may_be_the_entry() -> None:
    graph = (
        roundel.Graph(start="Guard", end="Final")
        .node("Final", "passthrough")
        .node("Other", "literal", content="x")
    )
    graph.node("Guard", "loop_timer", max_duration=20, passthrough=True).edge("Guard", "Other")
    graph.edge("Other", "Guard", condition=MORE).edge("Guard", "Final")
    assert proof_lines(graph) == ["Guard: at most 20 seconds, by Guard"]


# Ways to the guard by other nodes.


def through(kind: str, **config: Any) -> roundel.Graph:
    graph = review(to=False).node("Other", kind, **config)
    return graph.edge("Reviewer", "Other", condition=MORE).edge("Other", "Guard")


@pytest.mark.parametrize(
    ("kind", "config"), [("agent", {}), ("human", {}), ("literal", {"content": "x"}), ("passthrough", {})]
)
def test_path_through_nodes_that_always_output_bounds_the_loop(kind: str, config: dict[str, Any]) -> None:
    assert worst(through(kind, **config)) == 3


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        ("python", {}),
        ("loop_counter", {}),
        ("loop_timer", {"passthrough": True}),
        ("subgraph", {"graph": roundel.Graph(start="A", end="A").node("A", "agent")}),
    ],
)
def test_path_through_a_node_that_may_be_silent_does_not_bound_the_loop(
    kind: str, config: dict[str, Any]
) -> None:
    assert proofs(through(kind, **config))["Writer"].bounded_by == ()


def test_back_edge_of_a_node_that_runs_only_with_the_guard_is_bounded() -> None:
    """What Late leads back from has been counted: it runs behind Reviewer, under the guard's condition."""
    graph = review(back=False).node("Late", "python").edge("Reviewer", "Late", condition=MORE)
    assert worst(graph.edge("Late", "Writer")) == 3
    graph = review(back=False).node("Late", "python").edge("Reviewer", "Late", condition=MORE)
    assert worst(graph.edge("Late", "Writer").edge("Writer", "Late", condition=LESS)) is None


def test_every_back_edge_counts() -> None:
    graph = review().edge("Writer", "Writer", condition=MORE)
    assert worst(graph) is None
    graph = review().edge("Writer", "Writer", condition=MORE).edge("Writer", "Guard", condition=MORE)
    assert worst(graph) == 3
    assert worst(review().edge("Writer", "Writer", condition=False)) == 3


def test_ports() -> None:
    def graph(**guard: Any) -> roundel.Graph:
        made = roundel.Graph(start="Pick", end="Final").node("Final", "passthrough")
        made.function("Pick", ports=["again", "done"])(lambda: None)
        made.node("Guard", "loop_counter").edge("Pick", "Pick", port="again").edge(
            "Pick", "Final", port="done"
        )
        return made.edge("Pick", "Guard", **guard).edge("Guard", "Pick").edge("Guard", "Final")

    assert worst(graph(), "Pick") == 10
    assert worst(graph(port="again"), "Pick") == 10
    assert worst(graph(port="done"), "Pick") is None


@pytest.mark.parametrize(("port", "limit"), [(None, 10), ("left", None)])
def test_node_that_always_outputs_may_use_another_port(port: str | None, limit: int | None) -> None:
    nodes = [{"id": "Fork", "type": "fork"}, {"id": "Guard", "type": "loop_counter"}]
    edges: list[dict[str, Any]] = [
        {"from": "Fork", "to": "Fork"},
        {"from": "Fork", "to": "Guard", "port": port},
    ]
    edges += [{"from": "Guard", "to": "Fork"}, {"from": "Guard", "to": "Out"}]
    nodes.append({"id": "Out", "type": "passthrough"})
    graph = {"nodes": nodes, "edges": edges, "start": "Fork", "end": "Out"}
    (proof,) = prove(plan_of({"graph": graph}, 0))
    assert proof.worst_case_rounds == limit


def test_loop_node_bounds_the_loop_by_its_port() -> None:
    graph = roundel.Graph(start="Writer", end="Final").node("Writer", "agent").node("Final", "passthrough")
    graph.node("Gate", "loop", max_rounds=4).edge("Writer", "Gate").edge("Gate", "Writer", port="continue")
    assert proof_lines(graph.edge("Gate", "Final", port="exit")) == ["Writer: at most 4 rounds, by Gate"]


# Failures.


def test_error_edge_back_to_the_entry_bypasses_the_guard() -> None:
    graph = review().edge("Writer", "Writer", port="error")
    assert worst(graph) is None
    assert check_messages(graph) == [
        "only-capped: loop 'Writer' is bounded only by its cap of 100 rounds; 'Guard' does not bound it, "
        "since Writer → Writer (error) may begin a round that it does not count; "
        "whether it ends before depends on what 'Reviewer' says and whether 'Writer' fails"
    ]
    assert worst(graph.edge("Writer", "Guard", port="error")) == 3


def retry(**edge: Any) -> roundel.Graph:
    """A node that is tried again when it fails, and a guard that counts the failures."""
    graph = roundel.Graph(start="Try", end="End").node("Try", "agent").node("End", "passthrough")
    graph.node("Guard", "loop_counter", max_iterations=3).edge("Try", "End")
    graph.edge("Guard", "Try").edge("Guard", "End").edge("Try", "Try", port="error", **edge)
    return graph


def test_bounded_retry() -> None:
    assert proof_lines(retry().edge("Try", "Guard", port="error")) == ["Try: at most 3 rounds, by Guard"]
    assert check_messages(retry().edge("Try", "Guard", port="error")) == []
    timeout = {"cel": "data.type == 'Timeout'"}
    assert worst(retry(condition=timeout).edge("Try", "Guard", port="error", condition=timeout), "Try") == 3
    assert worst(retry().edge("Try", "Guard", port="error", condition=timeout), "Try") is None
    # An edge without a port takes no failure.
    assert worst(retry().edge("Try", "Guard"), "Try") is None
    assert worst(retry().edge("Try", "Guard", port="error", trigger=False), "Try") is None


def test_retry_that_counts_rounds() -> None:
    graph = roundel.Graph(start="Try", end="End").node("Try", "agent").node("End", "passthrough")
    graph.edge("Try", "End").edge("Try", "Try", port="error", condition={"cel": "round < 3"})
    assert proof_lines(graph) == ["Try: at most 3 rounds, by Try → Try (error)"]
    assert check_messages(graph) == []


def test_node_that_may_leave_by_its_error_edge_is_not_certain_to_lead_to_the_guard() -> None:
    """Without it, Writer always leads to Reviewer, and Reviewer always to the guard."""
    graph = review(to=None)
    assert worst(graph) == 3
    graph.node("Fallback", "agent").edge("Reviewer", "Fallback", port="error").edge("Fallback", "Writer")
    assert worst(graph) is None
    assert "Fallback → Writer may begin a round" in check_messages(graph)[0]
    assert worst(graph.edge("Fallback", "Guard")) == 3


@pytest.mark.parametrize("condition", [None, {"cel": "data.type == 'Timeout'"}])
def test_failure_that_leaves_the_loop_does_no_harm(condition: Any) -> None:
    """If the edge does not fire, the run fails: either way there is no further round."""
    graph = review(to=None).node("Alert", "agent")
    graph.edge("Writer", "Alert", port="error", condition=condition)
    assert worst(graph.edge("Reviewer", "Alert", port="error")) == 3
    # The guard cannot have counted, but the loop is left.
    assert worst(graph.edge("Guard", "Alert", port="error", condition=condition)) == 3


def test_failing_guard_does_not_count() -> None:
    graph = review(to=None).edge("Guard", "Writer", port="error")
    assert worst(graph) is None
    assert (
        "'Guard' does not bound it, since it counts no round in which it fails, and Guard → Writer (error) "
        "lets the loop go on" in check_messages(graph)[0]
    )
    # What it sends when it does not fail is still watched.
    other = review(to=None).node("Other", "loop_counter", max_iterations=5).edge("Other", "Final")
    other.edge("Reviewer", "Other").edge("Other", "Writer").edge("Guard", "Writer", port="error")
    assert proof_lines(other) == ["Writer: at most 5 rounds, by Other"]
    other.edge("Guard", "Other", port="error")
    assert proof_lines(other) == ["Writer: at most 5 rounds, by Other"]


@pytest.mark.parametrize("edge", [{"trigger": False}, {"condition": False}])
def test_error_edge_that_handles_nothing_changes_nothing(edge: dict[str, Any]) -> None:
    graph = review(to=None).edge("Guard", "Writer", port="error", **edge)
    assert worst(graph.edge("Writer", "Writer", port="error", **edge)) == 3


def test_error_edges_in_a_subgraph_bypass_the_guard_there() -> None:
    inner = review().edge("Writer", "Writer", port="error")
    graph = roundel.Graph(start="Top", end="Out").node("Top", "subgraph", graph=inner)
    graph.node("Out", "passthrough").node("Gate", "loop_counter", max_iterations=5)
    graph.edge("Top", "Out").edge("Top", "Top", port="error").edge("Top", "Gate", port="error")
    assert proof_lines(graph.edge("Gate", "Top").edge("Gate", "Out")) == [
        "Top: at most 5 rounds, by Gate",
        "Writer: nothing but its cap of 100 rounds",
    ]


def quitting(*edges: dict[str, Any]) -> Proof:
    """A node that may leave by the port `exit`, and a guard."""
    nodes = [{"id": name, "type": "quitter"} for name in "AB"]
    nodes += [{"id": "Guard", "type": "loop_counter"}, {"id": "Out", "type": "passthrough"}]
    ways = ("A B", "B A", "B Guard", "Guard A", "Guard Out")
    plain = [{"from": way.split()[0], "to": way.split()[1]} for way in ways]
    graph = {"nodes": nodes, "edges": [*plain, *edges], "start": "A", "end": "Out"}
    (proof,) = prove(plan_of({"graph": graph}, 0))
    return proof


@pytest.mark.parametrize(
    ("edges", "limit"),
    [
        ([], 10),
        ([{"from": "A", "to": "Out"}], 10),
        ([{"from": "A", "to": "A"}], None),
        ([{"from": "A", "to": "A"}, {"from": "A", "to": "Guard"}], 10),
        ([{"from": "B", "to": "Out", "condition": MORE}], 10),
        # Unlike a failure, an exit that no edge takes does not end the run.
        ([{"from": "B", "to": "A"}, {"from": "B", "to": "Out", "condition": MORE}], None),
    ],
)
def test_node_that_may_leave_by_a_port_of_its_own(edges: list[dict[str, Any]], limit: int | None) -> None:
    assert quitting(*({**edge, "port": "exit"} for edge in edges)).worst_case_rounds == limit


def test_agent_that_may_leave_by_its_tool() -> None:
    def graph(*more: str) -> roundel.Graph:
        made = roundel.Graph(start="Writer", end="End").node("Writer", "agent", tools=["exit_loop"])
        made.node("Reviewer", "agent").node("End", "passthrough").edge("Writer", "Reviewer")
        made.edge("Reviewer", "Writer")
        for target in more:
            made.edge("Writer", target, port="exit")
        return made

    # A loop that only its model leaves is bounded by its cap, as if it decided by words.
    assert check_messages(graph("End")) == [
        "only-capped: loop 'Writer' is bounded only by its cap of 100 rounds; "
        "whether it ends before depends on what 'Writer' says"
    ]
    for targets, limit in ((("End",), 4), (("Writer",), None), (("Writer", "Guard"), 4)):
        guarded = graph().node("Guard", "loop_counter", max_iterations=4).edge("Reviewer", "Guard")
        guarded.edge("Guard", "Writer").edge("Guard", "End")
        for target in targets:
            guarded.edge("Writer", target, port="exit")
        assert worst(guarded) == limit


def test_person_who_may_not_answer_in_time() -> None:
    graph = roundel.Graph(start="Writer", end="End").node("Writer", "agent").node("End", "passthrough")
    graph.node("Boss", "human", timeout="2h").edge("Writer", "Boss").edge("Boss", "Writer")
    graph.node("Guard", "loop_counter", max_iterations=4).edge("Boss", "Guard")
    graph.edge("Guard", "Writer").edge("Guard", "End")
    assert worst(graph) == 4
    assert worst(graph.edge("Boss", "End", port="timeout")) == 4
    assert worst(graph.edge("Boss", "Writer", port="timeout")) == 4  # an exit takes precedence
    graph._edges = [edge for edge in graph._edges if (edge["to"], edge.get("port")) != ("End", "timeout")]
    assert worst(graph) is None
    assert "Boss → Writer (timeout) may begin a round" in check_messages(graph)[0]


# Several guards, clocks, caps.


def test_smallest_of_several_guards_is_the_bound() -> None:
    graph = review(5).node("First", "loop_counter", max_iterations=2)
    graph.node("Clock", "loop_timer", max_duration=20)
    for guard in ("First", "Clock"):
        graph.edge("Reviewer", guard, condition=MORE).edge(guard, "Writer").edge(guard, "Final")
    (proof,) = prove(compile_workflow(graph.workflow()))
    assert set(proof.bounded_by) == {Limit("Guard", 5), Limit("First", 2), Limit("Clock", "20 seconds")}
    assert str(proof) == "Writer: at most 2 rounds, by First; at most 20 seconds, by Clock"


def test_two_guards_that_share_the_rounds_bound_nothing_between_them() -> None:
    graph = review(to=LESS).node("Other", "loop_counter").edge("Other", "Writer").edge("Other", "Final")
    assert worst(graph.edge("Reviewer", "Other", condition=DONE)) is None


def test_cap_below_the_guard_is_the_bound() -> None:
    graph = roundel.Graph(start="Writer", end="Final", loops={"Writer": {"max_rounds": 2}})
    graph._nodes, graph._edges = review()._nodes, review()._edges
    assert proof_lines(graph) == ["Writer: at most 2 rounds, by its cap"]
    _, report = loading.check(graph)
    (found,) = report.diagnostics
    assert (found.code, found.severity) == ("guard-above-cap", "warning")
    assert found.message == "'Guard' comes too late: after 2 rounds, not 3, the loop's cap locks the run"


def test_a_loop_that_always_ends_with_its_first_round() -> None:
    graph = (
        roundel.Graph(start="A", end="Out").node("A", "agent").node("B", "agent").node("Out", "passthrough")
    )
    graph.edge("A", "B").edge("B", "A", condition=MORE).edge("B", "Out")
    assert proof_lines(graph) == ["A: at most 1 round, which always ends it"]
    assert loading.check(graph)[1].diagnostics == []


def test_passthrough_timer_below_its_limit_does_not_leave_the_loop() -> None:
    """Below its limit a clock that hands on takes the edge back and not the one out."""
    graph = roundel.Graph(start="A", end="Out").node("A", "agent").node("Out", "passthrough")
    graph.node("Clock", "loop_timer", passthrough=True).edge("A", "Clock").edge("Clock", "A").edge(
        "Clock", "Out"
    )
    assert proof_lines(graph) == ["A: at most 60 seconds, by Clock"]


# Loops in loops, and in subgraphs.


def nested() -> roundel.Graph:
    """Gate counts Body's rounds; Guard counts those of the loop around it, if it is led to."""
    graph = roundel.Graph(start="Outer", end="Out").node("Out", "passthrough")
    graph.node("Outer", "agent").node("Body", "agent").node("Check", "agent")
    graph.node("Gate", "loop_counter", max_iterations=3).node("Guard", "loop_counter", max_iterations=2)
    graph.edge("Outer", "Body").edge("Body", "Body", condition=MORE).edge("Body", "Gate", condition=MORE)
    graph.edge("Gate", "Body").edge("Gate", "Check").edge("Body", "Check", condition=DONE)
    graph.edge("Check", "Outer", condition=MORE).edge("Check", "Out", condition=DONE)
    return graph.edge("Guard", "Outer").edge("Guard", "Out")


def test_nested_loops_are_multiplied() -> None:
    graph = nested().edge("Check", "Guard", condition=MORE)
    assert proof_lines(graph) == [
        "Outer: at most 2 rounds, by Guard",
        "Body: at most 3 rounds each time, 6 in all, by Gate",
    ]
    body = proofs(graph)["Body"]
    assert (body.depth, body.worst_case_rounds, body.worst_case_total) == (1, 3, 6)


def test_astronomic_round_totals_are_omitted() -> None:
    graph = nested().edge("Check", "Guard", condition=MORE)
    graph._settings["limits"] = {"rounds": 10**30}
    for node in graph._nodes:
        if node["type"] == "loop_counter":
            node["config"]["max_iterations"] = 10**9
    assert proof_lines(graph)[1] == "Body: at most 1000000000 rounds each time, by Gate"


def test_the_guard_of_an_inner_loop_does_not_bound_the_outer_one() -> None:
    graph = nested().edge("Check", "Guard", condition=LESS).edge("Gate", "Out")
    assert proof_lines(graph) == [
        "Outer: nothing but its cap of 100 rounds",
        "Body: at most 3 rounds each time, by Gate",
    ]


def test_edge_inside_an_inner_loop_may_be_dropped_on_exit() -> None:
    """Body leads to Late for certain; but if it leads to Check too, Late does not run."""
    graph = nested().node("Late", "agent").edge("Body", "Late").edge("Late", "Body", condition=MORE)
    assert proofs(graph.edge("Late", "Guard"))["Outer"].worst_case_rounds is None


def test_edge_out_of_an_inner_loop_counts() -> None:
    assert proofs(nested().edge("Body", "Guard"))["Outer"].worst_case_rounds == 2


def test_back_edges_from_an_inner_loop_count() -> None:
    graph = nested().edge("Check", "Guard", condition=MORE).edge("Body", "Outer", condition=DONE)
    assert proofs(graph)["Outer"].worst_case_rounds is None


@pytest.mark.parametrize(
    ("to", "limit"), [(MORE, "at most 3 rounds, by Guard"), (LESS, "nothing but its cap")]
)
def test_loop_with_two_possible_entries_is_proved_for_each(to: Any, limit: str) -> None:
    graph = review(to=to).node("Start", "agent")
    graph._settings["start"] = ["Start"]
    graph.edge("Start", "Writer", condition=MORE).edge("Start", "Reviewer", condition=DONE)
    first, second = proof_lines(graph)
    assert first.startswith(f"Writer: {limit}")
    assert second.startswith(f"Reviewer: {limit}")


def test_a_subgraph_in_a_loop() -> None:
    graph = (
        roundel.Graph(start="Top", end="Out")
        .node("Top", "subgraph", graph=review(4))
        .node("Out", "passthrough")
    )
    graph.node("Gate", "loop_counter", max_iterations=5).edge("Top", "Top").edge("Top", "Gate")
    graph.edge("Gate", "Top").edge("Gate", "Out")
    assert proof_lines(graph) == [
        "Top: at most 5 rounds, by Gate",
        "Writer: at most 4 rounds each time, 20 in all, by Guard",
    ]


def test_subgraph_after_a_dynamic_edge_has_no_total() -> None:
    graph = roundel.Graph(start="In", end="Many").node("In", "agent").node("Many", "subgraph", graph=review())
    assert proof_lines(graph.edge("In", "Many", dynamic=EACH)) == [
        "Writer: at most 3 rounds each time, by Guard"
    ]


@pytest.mark.parametrize("rounds", [0, 1, 7])
def test_a_loop_agent_is_bounded_by_its_count(rounds: int) -> None:
    body = {"id": "Step", "type": "passthrough"}
    graph = roundel.Graph(start="Again").node(
        "Again", "loop_agent", strategy={"mode": "count", "max": rounds}, body=body
    )
    assert proofs(graph)["Again"] == Proof(
        "Again", ("Step",), (Limit("Again", rounds),), rounds, rounds, 0, rounds
    )


def test_a_graph_that_a_loop_agent_repeats() -> None:
    body = review().mapping()["graph"]
    graph = roundel.Graph(start="Again", end="Again")
    graph.node("Again", "loop_agent", strategy={"mode": "count", "max": 7}, body=body)
    assert proof_lines(graph) == [
        "Again: at most 7 rounds, by Again",
        "Writer: at most 3 rounds each time, 21 in all, by Guard",
    ]


# What is said against a workflow.


def check_messages(graph: roundel.Graph) -> list[str]:
    _, report = loading.check(graph)
    return [f"{found.code}: {found.message}" for found in report.diagnostics]


def test_inner_loop_of_a_loop_with_two_entries_is_warned_of_once() -> None:
    """Entered at A, the loop around has one of C and D inside; entered at B, one of A, C and D."""
    graph = roundel.Graph(start="In", end="Out").node("In", "agent").node("Out", "passthrough")
    for name in "ABCD":
        graph.node(name, "agent")
    hit = {"type": "keyword", "config": {"begins": ["x"]}}
    miss = {"type": "keyword", "config": {"none": ["x"]}}
    graph.edge("In", "A", condition=hit).edge("In", "B", condition=miss)
    graph.edge("A", "B", condition=hit).edge("A", "C", condition=miss).edge("B", "C").edge("C", "D")
    graph.edge("D", "C", condition=hit)
    graph.edge("D", "A", condition=miss).edge("D", "Out", condition=DONE)
    found = [text.split("'")[1] for text in check_messages(graph)]
    assert sorted(found) == ["A", "B", "C"]


def test_loop_bounded_only_by_its_cap_is_a_warning() -> None:
    graph = roundel.Graph(start="Writer", end="Reviewer").node("Writer", "agent").node("Reviewer", "human")
    graph.edge("Writer", "Reviewer").edge("Reviewer", "Writer", condition=MORE)
    assert check_messages(graph) == [
        "only-capped: loop 'Writer' is bounded only by its cap of 100 rounds; "
        "whether it ends before depends on what 'Reviewer' says"
    ]
    assert proof_lines(graph) == ["Writer: nothing but its cap of 100 rounds"]


def test_warning_explains_why_a_guard_does_not_bound_the_loop() -> None:
    assert (
        "'Guard' does not bound it, since Reviewer → Writer may begin a round"
        in check_messages(review(to=LESS))[0]
    )
    assert "its way out is not always open" in check_messages(review(out={"condition": DONE}))[0]
    graph = review(to=False).edge("Writer", "Guard", dynamic=EACH)
    assert "a dynamic edge leads to it" in check_messages(graph)[0]


@pytest.mark.parametrize("chosen", [{"loops": {"Writer": {"max_rounds": 9}}}, {"limits": {"rounds": 9}}])
def test_explicit_cap_is_not_warned_of(chosen: dict[str, Any]) -> None:
    graph = review(to=LESS)
    graph._settings.update(chosen)
    assert check_messages(graph) == []
    assert proof_lines(graph) == ["Writer: nothing but its cap of 9 rounds"]


def test_timer_bound_is_not_warned_of() -> None:
    graph = review(to=LESS).node("Clock", "loop_timer", max_duration=1).edge("Writer", "Clock")
    graph.edge("Clock", "Writer").edge("Clock", "Final")
    assert check_messages(graph) == []
    assert proof_lines(graph) == ["Writer: at most 1 second, by Clock"]


def test_each_loop_entry_is_warned_of_once() -> None:
    names = [f"N{number}" for number in range(6)]
    graph = roundel.Graph(start="N0", end="Out").node("Out", "passthrough")
    for name in names:
        graph.node(name, "agent")
    for source in names:
        for target in names:
            graph.edge(source, target, condition=MORE)
    found = [found.split(";")[0] for found in check_messages(graph.edge("N3", "Out", condition=DONE))]
    found = [doubt for doubt in found if doubt.startswith("only-capped")]
    assert 0 < len(found) == len(set(found)) <= 6


def test_unreachable_exit_is_an_error() -> None:
    graph = roundel.Graph(start="A", end="Out").node("A", "agent").node("B", "agent").node("C", "agent")
    graph.node("Out", "passthrough").edge("A", "B").edge("B", "A").edge("B", "C", condition=False)
    assert check_messages(graph.edge("C", "A").edge("C", "Out")) == [
        "unreachable-exit: the loop A → B → C → A never ends: its way out, C → Out, is out of reach"
    ]


# No run does more than was proved.

SEEDS = 600
KINDS: dict[str, Callable[[int], dict[str, Any]]] = {
    "woven": woven,
    "tangle": tangle,
    "ring": lambda seed: spiced(case(seed)[0], seed),
    "woven, failing": lambda seed: fallible(woven(seed), seed),
    "tangle, failing": lambda seed: fallible(tangle(seed), seed),
    "ring, failing": lambda seed: fallible(spiced(case(seed)[0], seed), seed),
}


def contradictions(plan: Plan, seed: int, counts: Counter[str]) -> list[str]:
    known = {found.loop.scope: found.proof for found in proven_loops(plan)}
    found = []
    for number, word in enumerate(WORDS):
        longest, totals = rounds(plan, Gambler(plan, seed * 31 + number).start(word).finish().events)
        for scope, most in longest.items():
            proof = known[scope]
            counts.update(_kind(proof, most))
            for limit, count in ((proof.worst_case_rounds, most), (proof.worst_case_total, totals[scope])):
                if limit is not None and count > limit:
                    found.append(f"seed {seed}: {count} rounds, but {proof}")
    return found


def _kind(proof: Proof, most: int) -> list[str]:
    if proof.worst_case_rounds is None:
        return ["open, and long"] if most >= 5 else ["open"]
    kind = "guarded" if proof.bounded_by else "at once"
    return [kind, f"{kind}, and met"] if most == proof.worst_case_rounds else [kind]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", range(2))
def test_runs_never_contradict_the_proof(kind: str, part: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(part * SEEDS, (part + 1) * SEEDS):
        assert contradictions(plan_of(KINDS[kind](seed), seed), seed, counts) == []
    # It is no empty claim: many loops are proved, and many of those do all the rounds that they may.
    ran = sum(counts[name] for name in ("guarded", "at once", "open", "open, and long"))
    # Most error edges lead past a guard, and failures end runs early.
    assert counts["guarded"] > ran / (25 if "failing" in kind else 12), counts
    assert counts["guarded, and met"] > counts["guarded"] / (6 if "failing" in kind else 4), counts
    assert counts["open, and long"], counts


def test_correctly_wired_guards_are_recognised() -> None:
    """Most counters of these workflows stand beside the edge back; a few are spoilt by one edge more."""
    proved: Counter[bool] = Counter()
    for seed in range(700):
        for found in proven_loops(plan_of(case(seed)[0], seed)):
            scope = found.loop.scope
            if any(unit.node is not None and effective_bound(unit.node, scope) for unit in scope.units):
                proved[found.proof.worst_case_rounds is not None] += 1
    assert proved[True] > 200
    assert proved[True] > 4 * proved[False]
