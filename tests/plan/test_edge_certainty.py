"""Conditions that count rounds: how they are read, what they bound, and that runs do what was proved."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random
from typing import Any

import pytest

import roundel
from roundel.nodes import loading
from roundel.plan.edge_certainty import last_round
from roundel.plan.graph import compile_workflow
from roundel.plan.proof import Limit, prove, proven_loops
from tests.plan.tangles import WORDS, Gambler, plan_of, rounds

Dict = dict[str, Any]


def cel(expression: str) -> Dict:
    return {"cel": expression}


def alone(expression: str, **settings: Any) -> roundel.Graph:
    """One agent that repeats as long as the expression holds; what it says leads nowhere else."""
    graph = roundel.Graph(start="A", end="Out", **settings).node("A", "agent").node("Out", "passthrough")
    graph.edge("A", "A", condition=cel(expression))
    return graph.edge("A", "Out", condition={"type": "keyword", "config": {"begins": ["never said"]}})


def proofs(graph: roundel.Graph) -> dict[str, Any]:
    return {proof.id: proof for proof in prove(compile_workflow(graph.workflow()))}


@pytest.mark.parametrize(
    ("expression", "last"),
    [
        *(("round < 3", 2), ("round <= 3", 3), ("3 > round", 2), ("3 >= round", 3), ("round<3", 2)),
        *(("(round < 3)", 2), (" ( ( round < 3 ) ) ", 2), ("round < 0", -1), ("round <= -2", -2)),
        ("data.score < 90.0 && round < 5", 4),
        ("round < 5 && round <= 3 && text != ''", 3),
        ("(text == 'a' || text == \"b\") && (round < 4 && true)", 3),
        ("text != '&& round < 2 ||' && round < 4", 3),
        # These say nothing of rounds, or not for certain.
        *(("round < 3 || true", None), ("!(round >= 3)", None), ("round > 3", None), ("3 < round", None)),
        *(("round != 3", None), ("round == 3", None), ("round < 3 ? true : true", None)),
        *(("true ? round < 3 : true", None), ("round < 3.5", None), ("round + 0 < 3", None)),
        *(("-round < 3", None), ("data.round < 3", None), ("size(text) + round < 9", None)),
        ("text == 'a' || text == 'b' && round < 2", None),
        ("(round < 3 || text == '') && true", None),
        ("[1, 2].exists(round, round < 3)", None),
        ("round < int(data.n)", None),
        ('text != "\\"" && round < 3', None),
        ("true // && round < 3", None),
        ("text != '''a' ''' && round < 3", None),
    ],
)
def test_round_conditions_are_parsed(expression: str, last: int | None) -> None:
    (edge, _) = compile_workflow(alone(expression).workflow()).graph.edges
    assert last_round(edge) == last


@pytest.mark.parametrize(
    ("expression", "most"),
    [
        *(("round < 3", 3), ("round <= 3", 4), ("3 > round", 3), ("3 >= round", 4), ("round < 1", 1)),
        *(("round <= 0", 1), ("round < -5", 1), ("text != 'z' && round < 4", 4)),
    ],
)
def test_bound_equals_the_rounds_of_a_run(expression: str, most: int) -> None:
    graph = alone(expression)
    proof = proofs(graph)["A"]
    assert (proof.worst_case_rounds, proof.worst_case_total) == (most, most)
    assert proof.bounded_by == (Limit("A → A", most),)
    counted = f"{most} round{'' if most == 1 else 's'}"
    assert str(proof) == f"A: at most {counted}, by A → A"
    assert loading.check(graph)[1].diagnostics == []
    assert roundel.run(graph, "go", script={"A": [f"say {n}" for n in range(9)]}).loops["A"]["rounds"] == most


def test_every_back_edge_must_be_bounded() -> None:
    graph = alone("round < 3").node("B", "agent").edge("A", "B").edge("B", "A", condition=cel("round < 5"))
    assert proofs(graph)["A"].bounded_by == (Limit("A → A and B → A", 5),)
    graph = alone("round < 3").node("B", "agent").edge("A", "B").edge("B", "A")
    assert proofs(graph)["A"].worst_case_rounds is None


def test_condition_may_precede_the_back_edge() -> None:
    graph = alone("round < 9").node("B", "agent").edge("A", "B", condition=cel("round <= 2")).edge("B", "A")
    assert proofs(graph)["A"].bounded_by == (Limit("A → A and A → B", 9),)
    graph = alone("false").node("B", "agent").edge("A", "B", condition=cel("round <= 2")).edge("B", "A")
    graph._edges = [edge for edge in graph._edges if (edge["from"], edge["to"]) != ("A", "A")]
    assert proofs(graph)["A"].bounded_by == (Limit("A → B", 3),)


def test_unneeded_edges_are_not_listed() -> None:
    graph = alone("round < 4").node("B", "agent").edge("A", "B", condition=cel("round < 2"))
    assert proofs(graph.edge("B", "A", condition=False))["A"].bounded_by == (Limit("A → A", 4),)


def nested(inner: str, outer: str) -> roundel.Graph:
    """Body repeats inside a loop that begins with Outer."""
    graph = roundel.Graph(start="Outer", end="Out").node("Outer", "agent").node("Body", "agent")
    graph.node("Check", "agent").node("Out", "passthrough")
    graph.edge("Outer", "Body").edge("Body", "Body", condition=cel(inner)).edge("Body", "Check")
    graph.edge("Check", "Outer", condition=cel(outer))
    return graph.edge("Check", "Out", condition=cel(f"!({outer})"))


def test_round_refers_to_the_innermost_loop() -> None:
    graph = nested("false", "round < 3")
    assert proofs(graph)["Outer"].worst_case_rounds == 3
    # Body's edges count Body's rounds, also one that leads back to Outer.
    graph = nested("round < 2", "false").edge("Body", "Outer", condition=cel("round < 3"))
    found = proofs(graph)
    assert found["Outer"].bounded_by == ()
    assert found["Outer"].worst_case_rounds is None or found["Outer"].worst_case_rounds == 1


def test_round_condition_of_an_inner_loop_does_not_bound_the_outer() -> None:
    """In each round of Outer the loop of Body is in its first round again."""
    graph = roundel.Graph(start="Outer", end="Out", limits={"rounds": 12}).node("Outer", "agent")
    graph.node("Body", "agent").node("Out", "passthrough").edge("Outer", "Body")
    graph.edge("Body", "Body", condition=cel("text == 'more'")).edge(
        "Body", "Outer", condition=cel("round < 2")
    )
    graph.edge("Body", "Out", condition=cel("text == 'out'"))
    assert proofs(graph)["Outer"].worst_case_rounds is None
    assert (
        roundel.run(graph, "go", script={"Body": [f"say {n}" for n in range(20)]}).status
        == "suspended_locked"
    )


def test_a_counter_and_a_condition() -> None:
    graph = alone("round < 7").node("Guard", "loop_counter", max_iterations=5).edge("A", "Guard")
    proof = proofs(graph.edge("Guard", "A").edge("Guard", "Out"))["A"]
    assert proof.bounded_by == (Limit("Guard", 5),)
    # Guard → A counts no rounds, so the condition on A → A bounds nothing by itself.
    assert str(proof) == "A: at most 5 rounds, by Guard"


def test_condition_above_the_cap_is_a_warning() -> None:
    _, report = loading.check(alone("round < 500"))
    (found,) = report.diagnostics
    assert found.code == "guard-above-cap"
    assert found.message == "'A → A' comes too late: after 100 rounds, not 500, the loop's cap locks the run"


def test_long_lists_of_edges_are_abbreviated() -> None:
    graph = alone("round < 3")
    for number in range(6):
        graph.node(f"N{number}", "agent").edge("A", f"N{number}").edge(
            f"N{number}", "A", condition=cel("round < 3")
        )
    (limit,) = proofs(graph)["A"].bounded_by
    assert (limit.guard, limit.limit) == ("A → A and N0 → A and N1 → A and 4 more", 3)


def test_smallest_sufficient_limit_is_found() -> None:
    graph = alone("round < 12")
    for number in range(10):
        graph.node(f"N{number}", "agent").edge("A", f"N{number}", condition=cel(f"round < {number + 20}"))
        graph.edge(f"N{number}", "A", condition=cel(f"round < {number + 2}"))
    assert proofs(graph)["A"].worst_case_rounds == 12


# No run does more than was proved.

LIMITED = (
    "round < {}",
    "round <= {}",
    "{} > round",
    "{} >= round",
    "text != 'zz' && round < {}",
    "(round < {})",
)
SAID = ("round < {} || text == 'a'", "!(round < {})", "round > {}", "text == 'a' && round < {}")


def random_round_conditions(seed: int) -> Dict:
    """Rings in rings whose edges count rounds, most of them in a way that bounds the loop."""
    random = Random(seed)
    names = [f"N{number}" for number in range(random.randint(1, 6))]
    nodes = [{"id": name, "type": random.choice(("agent", "passthrough", "fork"))} for name in names]
    edges: list[Dict] = [{"from": one, "to": other} for one, other in pairwise(names)]
    for _ in range(random.randint(1, 4)):
        low, high = sorted(random.choices(range(len(names)), k=2))
        form = random.choice(LIMITED if random.random() < 0.85 else SAID)
        condition = {"cel": form.format(random.randint(0, 5))}
        edges.append({"from": names[high], "to": names[low], "condition": condition})
    for edge in edges:
        if random.random() < 0.1:
            edge["condition"] = random.choice(({"cel": "round < 3"}, False, {"cel": "text == 'b'"}))
    if random.random() < 0.5:
        away = {"type": "keyword", "config": {"any": ["b"]}}
        edges.append({"from": random.choice(names), "to": "Out", "condition": away})
    nodes.append({"id": "Out", "type": "passthrough"})
    graph = {"nodes": nodes, "edges": edges, "start": names[0], "end": "Out"}
    return {"graph": {**graph, "limits": {"rounds": 25, "steps": 400}}}


def test_runs_never_exceed_bounds_proven_by_conditions() -> None:
    counts: Counter[str] = Counter()
    for seed in range(1200):
        plan = plan_of(random_round_conditions(seed), seed)
        known = {found.loop.scope: found.proof for found in proven_loops(plan)}
        for number, word in enumerate(WORDS):
            events = Gambler(plan, seed * 31 + number).start(word).finish().events
            longest, totals = rounds(plan, events)
            for scope, most in longest.items():
                proof = known[scope]
                if proof.worst_case_rounds is None:
                    counts["open"] += 1
                    continue
                assert most <= proof.worst_case_rounds, (seed, str(proof))
                assert proof.worst_case_total is None or totals[scope] <= proof.worst_case_total
                if proof.bounded_by:
                    counts["bounded"] += 1
                    counts["met"] += most == proof.worst_case_rounds
    assert counts["bounded"] > 2000, counts
    assert counts["met"] > counts["bounded"] / 3, counts
