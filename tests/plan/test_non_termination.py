"""Loops that never end: what is called so, and that no run ends one of them."""

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
from roundel.plan.loops import loops
from roundel.plan.non_termination import non_terminating
from tests.kernel.graphs import case
from tests.plan.tangles import WORDS, Gambler, fallible, plan_of, scope_at, spiced, tangle, woven

WORD = {"type": "keyword", "config": {"begins": ["z"]}}


def findings(graph: roundel.Graph) -> list[str]:
    _, report = loading.check(graph)
    return [f"{found.code}: {found.message}" for found in report.errors]


def agents(names: str) -> roundel.Graph:
    first, *others = names.split()
    graph = roundel.Graph(start=first, end=others[-1])
    for name in (first, *others):
        graph.node(name, "agent")
    return graph


# Loops in loops.


def inner(graph: roundel.Graph) -> roundel.Graph:
    """Outer leads to Ask and Tell, which are a loop of their own, and Tell back to Outer."""
    graph.edge("Outer", "Ask").edge("Ask", "Tell").edge("Tell", "Ask", condition=WORD)
    return graph.edge("Tell", "Outer")


def test_outer_loop_around_an_inner_loop_that_always_leads_back_never_ends() -> None:
    (found,) = findings(inner(agents("Outer Ask Tell")))
    assert found == "no-way-out: the loop Outer → Ask → Tell → Outer never ends: no edge leaves it"


def test_exit_from_the_inner_loop_may_skip_the_back_edge() -> None:
    """Ask may lead to Aside: then Tell does not run, and Outer is not triggered again."""
    graph = inner(agents("Outer Ask Tell Aside")).edge("Ask", "Aside", condition=WORD)
    assert findings(graph.edge("Aside", "Outer", condition=WORD)) == []
    script = {"Ask": "z", "Aside": "b", "*": "a"}
    result = roundel.run(graph, "go", script=script)
    assert result.status == "completed"
    assert result.loops["Outer"]["exit_reason"] == "no_trigger"


def test_exit_in_the_same_layer_does_not_skip_the_back_edge() -> None:
    graph = inner(agents("Outer Ask Tell Aside")).edge("Tell", "Aside", condition=WORD)
    (found,) = findings(graph.edge("Aside", "Outer", condition=WORD))
    assert found.startswith("no-way-out: the loop Outer → Ask → Tell → Aside → Outer")


def test_inner_loop_may_end_without_a_trigger() -> None:
    graph = (
        agents("Outer Ask Tell").edge("Outer", "Ask").edge("Ask", "Tell").edge("Tell", "Ask", condition=WORD)
    )
    graph.edge("Ask", "Ask").edge("Tell", "Outer", condition=WORD)
    assert findings(graph) == []


def test_entry_that_never_fires_is_ignored() -> None:
    """Entered at Ask the loop would go on for ever, but nothing enters it there."""
    graph = agents("In Ask Tell Out").edge("In", "Tell").edge("In", "Ask", condition=False)
    graph.edge("Ask", "Ask").edge("Ask", "Tell", condition=False).edge("Tell", "Ask", condition=False)
    assert findings(graph.edge("Tell", "Out", condition=WORD)) == []


def test_exit_that_never_fires_is_reported() -> None:
    graph = (
        agents("Ask Tell Out").edge("Ask", "Tell").edge("Tell", "Ask").edge("Tell", "Out", condition=False)
    )
    (found,) = findings(graph)
    assert found.endswith("never ends: its way out, Tell → Out, has `condition: false` and never fires")


# Loops that a break ends.


def repeated(body: roundel.Graph) -> roundel.Graph:
    graph = roundel.Graph(start="Again", end="Again")
    return graph.node(
        "Again", "loop_agent", strategy={"mode": "count", "max": 2}, body=body.mapping()["graph"]
    )


def test_a_break_ends_a_loop() -> None:
    body = agents("Ask Tell").node("Stop", "break").edge("Ask", "Stop").edge("Stop", "Ask")
    assert findings(repeated(body)) == []
    assert roundel.run(repeated(body), "go", script={"*": "a"}).loops["Again"]["exit_reason"] == "break"


def test_break_next_to_the_loop_ends_it() -> None:
    body = agents("In Ask").edge("In", "Ask").edge("Ask", "Ask")
    (found,) = findings(repeated(body))
    assert found.startswith("no-way-out: the loop Ask → Ask never ends")
    assert findings(repeated(body.node("Stop", "break").edge("In", "Stop"))) == []


# Loops that only a failure ends.


def all_findings(graph: roundel.Graph) -> list[str]:
    _, report = loading.check(graph)
    return [f"{found.severity} {found.code}: {found.message}" for found in report.diagnostics]


def test_loop_that_only_a_failure_leaves_is_a_warning() -> None:
    graph = (
        agents("Ask Tell Alert").edge("Ask", "Tell").edge("Tell", "Ask").edge("Ask", "Alert", port="error")
    )
    graph._settings["limits"] = {"rounds": 5}
    assert all_findings(graph) == [
        "warning ends-by-failure: the loop Ask → Tell → Ask ends only if a node fails: "
        "nothing leaves it but Ask → Alert (error)"
    ]
    assert all_findings(graph.edge("Tell", "Alert", condition=WORD)) == []


def test_failure_that_leads_nowhere_else_does_not_end_a_loop() -> None:
    """Ask is triggered again whether it fails or not; and by Fallback, if Tell fails."""
    graph = agents("Ask Tell Fallback").edge("Ask", "Tell").edge("Tell", "Ask")
    graph.edge("Ask", "Ask", port="error", condition=WORD)  # otherwise the run fails
    assert findings(graph) == ["no-way-out: the loop Ask → Tell → Ask never ends: no edge leaves it"]
    graph.edge("Tell", "Fallback", port="error")
    assert all_findings(graph)[:1] == [
        "warning ends-by-failure: the loop Ask → Tell → Ask ends only if a node fails: "
        "nothing leaves it but Tell → Fallback (error)"
    ]
    assert all_findings(graph.edge("Fallback", "Ask", condition=WORD))[:1] == [
        "warning ends-by-failure: the loop Ask → Tell → Fallback → Ask ends only if a node fails"
    ]
    graph = agents("Ask Tell Fallback").edge("Ask", "Tell").edge("Tell", "Ask")
    assert findings(graph.edge("Tell", "Fallback", port="error").edge("Fallback", "Ask")) == [
        "no-way-out: the loop Ask → Tell → Fallback → Ask never ends: no edge leaves it"
    ]


def test_two_error_edges_of_which_either_may_fire_are_not_certain() -> None:
    graph = (
        agents("Ask Tell Other").edge("Ask", "Tell").edge("Tell", "Ask").edge("Other", "Ask", condition=WORD)
    )
    graph.edge("Tell", "Ask", port="error", condition=WORD).edge(
        "Tell", "Other", port="error", condition=WORD
    )
    assert findings(graph) == []


# No run ends a loop that was said to be endless.


def grim(seed: int) -> dict[str, Any]:
    """Few nodes, most of which always speak, and edges that nearly always fire."""
    random = Random(seed)
    names = [f"N{number}" for number in range(random.randint(2, 7))]
    kinds = ("agent", "agent", "agent", "passthrough", "fork", "mute")
    nodes = [{"id": name, "type": random.choice(kinds)} for name in names]
    ways = {(names[at - 1], name) for at, name in enumerate(names)}
    ways |= {(random.choice(names), random.choice(names)) for _ in range(random.randint(0, 6))}
    edges: list[dict[str, Any]] = [{"from": one, "to": other} for one, other in sorted(ways)]
    for edge in edges:
        if random.random() < 0.35:
            edge["condition"] = random.choice((WORD_A, WORD_A, WORD_B, False))
    graph = {"nodes": nodes, "edges": edges, "start": names[0], "limits": {"rounds": 6, "steps": 200}}
    return {"graph": graph}


def nest(seed: int) -> dict[str, Any]:
    """A ring that leads back for certain, with a loop inside it, and nodes aside that may lead elsewhere."""
    random = Random(seed)
    ring = [f"N{number}" for number in range(random.randint(2, 5))]
    asides = [f"Aside {number}" for number in range(random.randint(1, 2))]
    edges: list[dict[str, Any]] = [{"from": one, "to": other} for one, other in pairwise([*ring, ring[0]])]
    first, last = sorted(random.choices(range(1, len(ring)), k=2))
    edges.append({"from": ring[last], "to": ring[first], "condition": WORD_A})
    for aside in asides:
        edges.append({"from": random.choice(ring), "to": aside, "condition": random.choice((WORD_A, None))})
        edges.append({"from": aside, "to": random.choice(ring), "condition": random.choice((WORD_B, None))})
    nodes = [{"id": name, "type": "agent"} for name in (*ring, *asides)]
    graph = {"nodes": nodes, "edges": edges, "start": ring[0], "limits": {"rounds": 6, "steps": 200}}
    return {"graph": graph}


WORD_A = {"type": "keyword", "config": {"any": ["a"]}}
WORD_B = {"type": "keyword", "config": {"any": ["b"]}}
KINDS: dict[str, Callable[[int], dict[str, Any]]] = {
    "grim": grim,
    "nest": nest,
    "woven": woven,
    "tangle": tangle,
    "ring": lambda seed: spiced(case(seed)[0], seed),
    "grim, failing": lambda seed: fallible(grim(seed), seed),
    "nest, failing": lambda seed: fallible(nest(seed), seed),
}


def ended(plan: Plan, seed: int, counts: Counter[str], failing: bool = True) -> list[str]:
    """The loops that were said to be endless, and that a run ended all the same."""
    called = {loop.scope for loop in non_terminating(loops(plan.graph), failing=failing)}
    found = []
    for number, word in enumerate(WORDS if called else ()):
        for event in Gambler(plan, seed * 31 + number, fallible=failing).start(word).finish().events:
            if event.event in ("loop_round", "loop_exit") and scope_at(plan, str(event.address)) in called:
                counts[event.event] += 1
                if event.event == "loop_exit":
                    found.append(f"seed {seed}: {event.address}")
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_runs_never_leave_a_loop_reported_as_non_terminating(kind: str) -> None:
    counts: Counter[str] = Counter()
    for seed in range(1000):
        assert ended(plan_of(KINDS[kind](seed), seed), seed, counts) == []
    if kind in ("grim", "nest"):  # the others have a way out, nearly all of them
        assert counts["loop_round"] > 1000, counts


@pytest.mark.parametrize("kind", ["grim, failing", "nest, failing"])
def test_runs_without_failures_never_leave_a_loop_that_only_a_failure_ends(kind: str) -> None:
    counts: Counter[str] = Counter()
    for seed in range(500):
        assert ended(plan_of(KINDS[kind](seed), seed), seed, counts, failing=False) == []
    assert counts["loop_round"] > 500, counts
