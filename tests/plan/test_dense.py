"""Large and dense graphs: the analysis is exact up to its limit, reports where it stops, and ends."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

import roundel
from roundel.nodes import TYPES, loading
from roundel.plan.edge_certainty import last_round
from roundel.plan.forecast import Estimate, forecast
from roundel.plan.graph import Plan, compile_workflow
from roundel.plan.guards import WatchedNodes, inner_edges
from roundel.plan.loops import Survey, survey, survey_graphs
from roundel.plan.proof import prove
from roundel.plan.scope import SideCandidate, leading_back
from roundel.plan.structure import check_structure
from roundel.workflow.diagnostics import Report
from roundel.workflow.loader import from_mapping
from tests.kernel.graphs import case
from tests.plan import reference
from tests.plan.shapes import PLAIN, SHAPES, complete, dense, edge, guarded_ladder, ladder, ring, workflow
from tests.plan.tangles import WORDS, Gambler, fallible, plan_of, rounds, spiced, tangle, woven

DEADLINE = 60
"""Seconds, against hanging; all of these take a second or two."""

RANDOM: dict[str, Callable[[int], dict[str, Any]]] = {
    "dense": lambda seed: dense(seed, 3, 6),
    "tangle": tangle,
    "woven": woven,
    "ring": lambda seed: spiced(case(seed)[0], seed),
    "tangle, failing": lambda seed: fallible(tangle(seed), seed),
    "woven, failing": lambda seed: fallible(woven(seed), seed),
    "ring, failing": lambda seed: fallible(spiced(case(seed)[0], seed), seed),
}


def compiled(mapping: dict[str, Any]) -> Plan:
    return compile_workflow(from_mapping(mapping, TYPES))


def check_within(plan: Plan, limit: int) -> None:
    """Lets the analysis of the plan cost no more than this."""
    for graph, found in survey_graphs(plan.graph.family, limit):
        graph._survey = found


# The same as the rules say, step by step.


def shown(found: Survey) -> list[reference.Pair]:
    return [(tuple(node.index for node in loop.nodes), loop.entry.index, loop.depth) for loop in found.found]


@pytest.mark.parametrize("kind", RANDOM)
def test_loops_match_the_reference_search(kind: str) -> None:
    compared = 0
    for seed in range(200):
        plan = plan_of(RANDOM[kind](seed), seed)
        for graph in plan.graph.family:
            found = survey(graph)
            if not found.unanalysed:
                assert shown(found) == [pair for pair, _ in reference.pairs(graph)], seed
                compared += len(found.found)
    assert compared > 200


@pytest.mark.parametrize("kind", RANDOM)
def test_loop_bounds_match_the_reference_rules(kind: str) -> None:
    counts: Counter[bool] = Counter()
    for seed in range(200):
        plan = plan_of(RANDOM[kind](seed), seed)
        for loop in (loop for graph in plan.graph.family for loop in survey(graph).found[:20]):
            own = [unit.node for unit in loop.scope.units if unit.node is not None and unit.node.kind.guard]
            for guard in (None, *own):
                gap = WatchedNodes(loop.scope, guard).gap()
                assert gap is reference.gap(loop.scope, guard), (seed, loop.id, guard and guard.id)
                counts[gap is None] += 1
            lasts = [edge for node in loop.nodes for edge in node.edges if last_round(edge) is not None]
            shut = [edge for edge in lasts if edge in inner_edges(loop.scope)]
            assert WatchedNodes(loop.scope, None, shut).gap() is reference.gap(loop.scope, None, shut), seed
    assert counts[True] > 50
    assert counts[False] > 50


def test_side_nodes_match_the_reference_search() -> None:
    sizes: Counter[int] = Counter()
    for seed in range(2000):
        random = Random(seed)
        nodes = range(random.randint(1, 8))
        beside = [
            SideCandidate(node, frozenset(), frozenset(random.sample(range(-2, 9), random.randint(1, 3))))
            for node in nodes
        ]
        core = frozenset((-1, -2))
        found = leading_back(core, beside)
        assert found == reference.leading_back(core, beside), seed
        sizes[len(found)] += 1
    assert len(sizes) > 4


# Where the budget ends.


@pytest.mark.parametrize("limit", [0, 100, 300, 1000])
def test_unanalysed_loops_are_recorded(limit: int) -> None:
    """Whatever a full search finds has been found, or stands in a loop that was put down as unseen."""
    missed = 0
    for seed in range(60):
        plan = plan_of(dense(seed, 3, 5), seed)
        whole = {scope: pair for graph in plan.graph.family for pair, scope in reference.pairs(graph)}
        for graph, found in survey_graphs(plan.graph.family, limit):
            seen = {loop.scope for loop in found.found}
            unanalysed = {
                unanalysed.scope.inner(unanalysed.unit, unanalysed.entry.index)
                for unanalysed in found.unanalysed
            }
            missed += len(unanalysed)
            assert not seen & unanalysed
            for scope in (scope for scope in whole if scope.graph is graph):
                around = scope
                while around not in seen and around not in unanalysed:
                    assert around.parent is not None, (seed, whole[scope])
                    around = around.parent
                assert around in unanalysed or around is scope, (seed, whole[scope])
                assert around in seen or scope.members <= found.opaque
    assert missed


@pytest.mark.parametrize("kind", RANDOM)
def test_a_smaller_budget_never_adds_an_error_or_a_bound(kind: str) -> None:
    fewer = 0
    for seed in range(80):
        full, small = (plan_of(RANDOM[kind](seed), seed) for _ in range(2))
        check_within(small, 200 + 10 * seed)
        reports = Report(), Report()
        for plan, report in zip((full, small), reports, strict=True):
            check_structure(plan, report)
        errors, known = (Counter(report.errors) for report in reports)
        assert not known - errors, seed
        fewer += errors != known
        bounds, proved = (Counter(prove(plan)) for plan in (full, small))
        for proof in proved - bounds:  # what a loop not analysed would add to it is not known
            assert proof.worst_case_total is None, seed
        runs, told = ({row.node: row.runs for row in forecast(plan).nodes} for plan in (full, small))
        for node, estimate in told.items():
            assert estimate.worst in (None, runs[node].worst), (seed, node)
    assert fewer or kind not in ("dense", "tangle")


@pytest.mark.parametrize("kind", ["dense", "tangle"])
def test_runs_stay_within_the_bounds_proven_on_a_small_budget(kind: str) -> None:
    compared = 0
    for seed in range(80):
        made = dense(seed, 3, 6, PLAIN) if kind == "dense" else tangle(seed)
        made["graph"]["limits"] = {"rounds": 25, "steps": 400}
        plan = plan_of(made, seed)
        check_within(plan, 500)
        found = survey(plan.graph)
        known = dict(zip((loop.scope for loop in found.found), prove(plan), strict=False))
        worst = {row.node: row.runs.worst for row in forecast(plan).nodes if not row.path}
        for number, word in enumerate(WORDS):
            gambler = Gambler(plan, seed * 31 + number).start(word)
            events = gambler.finish().events
            longest, totals = rounds(plan, events)
            for scope in longest:
                proof = known.get(scope)
                if proof is not None and scope.graph is plan.graph:
                    assert longest[scope] <= (proof.worst_case_rounds or proof.cap)
                    assert proof.worst_case_total is None or totals[scope] <= proof.worst_case_total
                    compared += 1
            ran = Counter(
                event.node_id
                for event in events
                if event.event == "node_state_change"
                and event.fields()["status"] == "running"
                and "/" not in str(event.address).rpartition("/")[0]
            )
            for node, times in ran.items():
                most = worst.get(str(node))
                assert most is None or times <= most, (seed, node)
    assert compared > 20


def test_a_tangle_beyond_the_budget_is_reported() -> None:
    _, report = loading.check(complete(12))
    (found,) = [found for found in report.diagnostics if found.code == "loops-not-analysed"]
    assert found.severity == "warning"
    assert "'N1', 'N2', 'N3', 'N4', 'N5' and 6 more" in found.message
    assert "nothing but their caps is known to end them" in found.message
    _, report = loading.check(complete(6))
    assert "loops-not-analysed" not in {found.code for found in report.diagnostics}


def test_all_graphs_of_a_workflow_share_one_analysis_budget() -> None:
    inner = complete(9)["graph"]
    body = {"type": "config", "config": inner}
    nodes = [{"id": f"Sub{number}", "type": "subgraph", "config": body} for number in range(20)]
    whole = compiled({"graph": {"nodes": nodes, "edges": [], "start": "Sub0", "end": "Sub0"}})
    alone = compiled(complete(9))
    assert len(survey(alone.graph).found) > 100
    analysed = [len(survey(graph).found) for graph in whole.graph.family[:-1]]
    assert sum(analysed) < 2 * len(survey(alone.graph).found)
    assert min(analysed) > 0, "outer loops come first, in all graphs"


def test_guard_in_an_unanalysed_loop_is_not_an_error() -> None:
    """It stands in the innermost loop of very many, and is wired as it should be."""
    _, report = loading.check(guarded_ladder(600))
    assert report.errors == []
    (found,) = [found for found in report.diagnostics if found.code == "loops-not-analysed"]
    assert "'N598'" not in found.message  # only some are named, however many there are
    assert len(found.message) < 1000


def test_executions_in_an_unanalysed_loop_are_unknown() -> None:
    plan = compiled(ladder(900))
    runs = {row.node: row.runs for row in forecast(plan).nodes}
    assert runs["N0"].worst == 100
    assert runs["N899"].worst is None
    assert runs["N899"].typical > runs["N0"].typical
    assert runs["Out"] == Estimate(1, 1)


def test_a_loop_with_very_many_guards_is_not_analysed() -> None:
    made = SHAPES["guarded ring"](1000)
    _, report = loading.check(made)
    assert [found.code for found in report.diagnostics] == ["loops-not-analysed"]
    assert "entered at 'N0'" in report.diagnostics[0].message
    assert prove(compiled(made)) == []


def test_a_large_loop_with_some_guards_is_analysed() -> None:
    made = ring(2000)["graph"]
    made["nodes"] += [{"id": f"G{number}", "type": "loop_counter"} for number in range(5)]
    for number in range(5):
        made["edges"] += [edge("N7", f"G{number}"), edge(f"G{number}", "N9"), edge(f"G{number}", "Out")]
    (proof,) = prove(compiled({"graph": made}))
    assert [limit.guard for limit in proof.bounded_by] == [f"G{number}" for number in range(5)]


# Messages stay readable.


def test_a_warning_names_some_of_very_many_nodes() -> None:
    names = [f"N{number}" for number in range(30)]
    ways = [edge(one, names[(at + 1) % 30], condition={"cel": "text != ''"}) for at, one in enumerate(names)]
    guards = [{"id": f"G{number}", "type": "loop_counter"} for number in range(12)]
    led = [edge("N3", guard["id"], condition={"cel": "round > 1"}) for guard in guards]
    led += [edge(guard["id"], to) for guard in guards for to in ("N4", "Out")]
    _, report = loading.check(workflow(names, [*ways, *led], *guards))
    (found,) = [found for found in report.diagnostics if found.code == "only-capped"]
    assert found.message.count("does not bound it") == 8
    assert "nor do 4 other guards" in found.message
    assert found.message.endswith("'N0', 'N1', 'N2', 'N3', 'N4', 'N5', 'N6', 'N7' and 22 more says")


def test_an_error_names_some_of_very_many_nodes() -> None:
    names = [f"N{number}" for number in range(50)]
    ways = [edge(one, names[(at + 1) % 50]) for at, one in enumerate(names)]
    made = workflow(names, ways)["graph"]
    made["edges"] = ways
    _, report = loading.check({"graph": {**made, "end": []}})
    (found,) = [found for found in report.errors if found.code == "no-way-out"]
    assert "N18 → N19 → … (30 more) → N0 never ends" in found.message
    made["start"] = names
    _, report = loading.check({"graph": {**made, "end": []}})
    (found,) = [found for found in report.errors if found.code == "two-entries"]
    assert "'N6' and 'N7' and 42 more at once" in found.message


def test_loops_of_the_same_bound_are_printed_once(tmp_path: Path) -> None:
    done = command(tmp_path, complete(7), "check")
    lines = [line for line in done.stdout.splitlines() if ": loop " in line]
    assert len(lines) == len(set(lines))
    assert len(json.loads(command(tmp_path, complete(7), "check", "--json").stdout)["loops"]) > len(lines)


# Nothing hangs.


def command(folder: Path, mapping: dict[str, Any], *words: str) -> subprocess.CompletedProcess[str]:
    file = folder / "large.yaml"
    file.write_text(json.dumps(mapping))
    line = [sys.executable, "-m", "roundel", words[0], str(file), *words[1:]]
    return subprocess.run(line, capture_output=True, text=True, timeout=DEADLINE, check=False)


LARGE: dict[str, Callable[[], dict[str, Any]]] = {
    name: partial(shape, 2000) for name, shape in SHAPES.items()
}
LARGE["complete"] = partial(complete, 60)


@pytest.mark.parametrize("name", LARGE)
def test_a_large_graph_is_checked(name: str, tmp_path: Path) -> None:
    done = command(tmp_path, LARGE[name](), "check")
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-500:]
    assert "ok, 0 errors" in done.stdout


@pytest.mark.parametrize("name", ["ladder", "complete"])
def test_a_large_graph_has_a_forecast(name: str, tmp_path: Path) -> None:
    made = LARGE[name]()
    done = command(tmp_path, made, "forecast", "--json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["forecast"]["nodes"]) == len(made["graph"]["nodes"])


@pytest.mark.parametrize(
    ("name", "form", "refused"),
    [
        ("complete", "mermaid", ""),
        ("small loops", "svg", ""),
        ("complete", "svg", "pieces of edges, more than 20,000, are too many to draw"),
        ("ladder", "tree", "are nested too deep to draw"),
    ],
)
def test_a_large_graph_is_shown_or_refused(name: str, form: str, refused: str, tmp_path: Path) -> None:
    done = command(tmp_path, LARGE[name](), "show", "--format", form)
    assert refused in done.stderr
    assert bool(done.stdout) == (done.returncode == 0) == (not refused)


@pytest.mark.parametrize("seed", range(30))
def test_dense_graphs_are_checked(seed: int) -> None:
    """With guards, ports and conditions of all kinds; what is said of them differs, that it ends does not."""
    _, report = loading.check(dense(seed))
    assert {found.code for found in report.diagnostics} <= {
        *("two-entries", "guard-wiring", "never-runs", "only-capped", "loops-not-analysed"),
        *("no-way-out", "unreachable-exit", "guard-above-cap", "end-not-reached", "nothing-repeats"),
        *("idle-guard", "maybe-two-entries"),
    }


def test_a_large_graph_runs() -> None:
    for shape in ("chain", "ring", "small loops"):
        done = roundel.run(SHAPES[shape](2000), "go", script={"*": "a"})
        assert (done.status, done.output) == ("completed", "a")


def test_deeply_nested_loops_run() -> None:
    done = roundel.run(ladder(300), "go", script={"*": "a"})
    assert (done.status, done.output) == ("completed", "a")
    assert len(done.loops) == 299


def test_very_many_unknown_names_are_reported() -> None:
    """To look for the nearest name takes long, so that is done for the first of them only, and a report has
    a bound, too."""
    made = SHAPES["chain"](2000)
    for way in made["graph"]["edges"]:
        way["to"] += "x"
    _, report = loading.check(made)
    hints = [found.hint for found in report.errors if found.code == "unknown-node"]
    assert report.counts[0] == 2000
    assert hints[0] == "did you mean 'N1'?"
    assert hints[-1].startswith("nodes: N0, N1, N2")
