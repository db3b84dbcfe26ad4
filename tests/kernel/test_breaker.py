"""The breaker: what trips it, what does not, and how it is tuned."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

import roundel
from roundel.kernel.dead_loop import LoopHistory
from roundel.kernel.events import Event
from roundel.kernel.facts import Finished, Outcome, Reopened, Started, decide_live
from roundel.kernel.state import Run
from roundel.kernel.step import IllegalFact, step
from roundel.kernel.token_surge import expected_usage
from roundel.workflow.limits import Breaker
from roundel.workflow.message import Message
from tests.kernel.breaker_samples import ANN, BEN, DEAD, LIVELY, NAMES, SERVER, STORY, TEA, VARIED
from tests.kernel.simulator import Script, Simulator, plan_of
from tests.kernel.spending import Dict, Spender, constant, ring

SAME = "I have looked at the file and everything seems to be in order."


def agent_ring(rounds: int, agents: int = 1, **graph: Any) -> Dict:
    """So many agents who speak in turn, for so many rounds."""
    names = [f"A{number}" for number in range(agents)]
    ways = [*pairwise(names), (names[-1], names[0]), (names[-1], "Guard")]
    ways += [("Guard", names[0]), ("Guard", "Out")]
    return {
        "breaker": True,
        "graph": {
            "nodes": [
                *({"id": name, "type": "agent"} for name in names),
                {"id": "Guard", "type": "loop_counter", "config": {"max_iterations": rounds}},
                {"id": "Out", "type": "passthrough"},
            ],
            "edges": [{"from": a, "to": b} for a, b in ways],
            "start": names[0],
            "end": "Out",
            **graph,
        },
    }


def capped_ring() -> Dict:
    """An agent who speaks until it says `never`: only the cap is certain to end this."""
    stop = {"type": "keyword", "config": {"begins": ["never"]}}
    again = {"type": "keyword", "config": {"begins": ["never"], "negate": True}}
    nodes = [{"id": "A0", "type": "agent"}, {"id": "Out", "type": "passthrough"}]
    edges = [{"from": "A0", "to": "A0", "condition": again}, {"from": "A0", "to": "Out", "condition": stop}]
    return {"breaker": True, "graph": {"nodes": nodes, "edges": edges, "start": "A0", "end": "Out"}}


def run_script(workflow: Dict, script: Script) -> Simulator:
    return Simulator(plan_of(workflow), script).start("go").finish()


def tripped(run: Simulator) -> list[Event]:
    return [event for event in run.events if event.event == "breaker_tripped"]


def series(texts: list[str], agents: int) -> tuple[Dict, Script]:
    script = {f"A{number}": texts[number::agents] for number in range(agents)}
    return agent_ring(len(texts) // agents, agents), script


def count_agent_calls(run: Simulator) -> int:
    return sum(1 for execution in run.executions if execution.node.startswith("A"))


# The rates.


@pytest.mark.parametrize("agents", [1, 2])
@pytest.mark.parametrize("name", LIVELY)
def test_breaker_does_not_trip_while_messages_are_new(name: str, agents: int) -> None:
    run = run_script(*series(LIVELY[name], agents))
    assert not tripped(run)
    assert run.state.status == "completed"
    assert 6 <= len(LIVELY[name]) <= 10


@pytest.mark.parametrize("agents", [1, 2])
@pytest.mark.parametrize("name", DEAD)
def test_breaker_trips_within_two_rounds_of_the_first_repetition(name: str, agents: int) -> None:
    texts = DEAD[name]
    run = run_script(*series([*texts, *texts] if agents > 1 else texts, agents))
    assert [event.fields()["trigger"] for event in tripped(run)] == ["dead_loop"]
    assert run.state.status == "suspended_locked"
    assert count_agent_calls(run) <= 6 * agents


@pytest.mark.parametrize("name", VARIED)
def test_variations_lock_only_loops_that_nothing_else_ends(name: str) -> None:
    texts = VARIED[name] * 2
    proved = run_script(agent_ring(18), {"A0": texts})
    assert proved.state.status == "completed"
    [warning] = [event for event in proved.events if event.event == "warning"]
    assert (warning.fields()["code"], warning.node_id) == ("stale", "A0")
    capped = run_script(capped_ring(), {"A0": texts})
    assert (capped.state.status, [event.fields()["trigger"] for event in tripped(capped)]) == (
        "suspended_locked",
        ["dead_loop"],
    )


# Dead loops.


def test_dead_loop_event_holds_the_evidence() -> None:
    one, other = " ".join(TEA), " ".join(STORY)
    run = run_script(agent_ring(30, 2), {"A0": [one], "A1": [other]})
    [event] = tripped(run)
    data = event.fields()
    assert (event.node_id, event.address, data["address"]) == ("A0", "A0[3]", "A0[3]")
    assert data["state"] == "SUSPENDED_LOCKED"
    assert data["novelty"] == [0, 0, 0, 0]
    assert (data["stale_rounds"], data["threshold"]) == (2, 0.1)
    assert data["guard"] == "Guard"
    assert [reply_text["text"] for reply_text in data["messages"]] == [one, other, one, other]
    last = data["messages"][-1]
    assert (last["address"], last["repeats"], last["changed"]) == ("A0[3]/A1", "A0[2]/A1", [])
    lock = run.state.lock
    assert lock is not None
    assert (lock.what, lock.address) == ("dead_loop", "A0[3]")
    assert lock.evidence["messages"] == data["messages"]
    assert run.events[-1].fields()["status"] == "suspended_locked"


def test_evidence_names_the_repeated_message_and_the_difference() -> None:
    texts = [f"Attempt {number} was refused, I ask once more." for number in range(1, 9)]
    [event] = tripped(run_script(agent_ring(30), {"A0": texts}))
    assert event.address == "A0[4]"
    shown = [
        (reply_text["address"], reply_text["repeats"], reply_text["changed"])
        for reply_text in event.fields()["messages"]
    ]
    assert shown == [
        ("A0[2]/A0", "A0[1]/A0", [["1", "2"]]),
        ("A0[3]/A0", "A0[2]/A0", [["2", "3"]]),
        ("A0[4]/A0", "A0[3]/A0", [["3", "4"]]),
    ]


ORDERS = ["a b c", "b c a", "c a b", "a c b", "b a c", "c b a"]
BULLETS = ["\n".join(f"- {word} tea" for word in order.split()) for order in ORDERS]
NAMED = [f"I have asked {name} to look at it." for name in NAMES]


@pytest.mark.parametrize(
    ("texts", "patience", "address"),
    [
        ([SAME], {}, "A0[4]"),
        ([SAME], {"exact": 5}, "A0[6]"),
        (BULLETS, {}, "A0[7]"),
        (BULLETS, {"reordered": 3}, "A0[4]"),
        (NAMED * 2, {"one_place": 4}, "A0[6]"),
        (NAMED * 2, {"one_place": "never"}, "A0[23]"),  # the script repeats its last reply from round 20 on
    ],
)
def test_patience_depends_on_the_certainty(texts: list[str], patience: Dict, address: str) -> None:
    workflow = {**capped_ring(), "breaker": {"patience": patience}}
    [event] = tripped(run_script(workflow, {"A0": texts}))
    assert event.address == address


def test_a_bounded_loop_that_hardly_changes_gets_one_warning() -> None:
    workflow = {**agent_ring(9), "breaker": {"patience": {"one_place": 3}}}
    run = run_script(workflow, {"A0": NAMED})
    assert run.state.status == "completed"
    [warning] = [event for event in run.events if event.event == "warning"]
    assert (warning.address, warning.fields()["code"]) == ("A0[5]", "stale")
    assert warning.fields()["message"] == (
        f"For 3 rounds, 'A0' has changed only a word or a number here and there: "
        f"'{NAMES[2]}' became '{NAMES[3]}'; '{NAMES[3]}' became '{NAMES[4]}'"
    )


def test_a_warning_costs_nothing_afterwards() -> None:
    """A loop with a proved bound may go on for long: it remembers no more messages than any other, and no
    evidence is collected a second time."""
    names = [
        f"I have asked {chr(65 + number % 26)}{chr(97 + number // 26)}n to look." for number in range(150)
    ]
    workflow = agent_ring(150, loops={"A0": {"max_rounds": 200}})
    run = Simulator(plan_of({**workflow, "breaker": {"patience": {"one_place": 3}}}), {"A0": names}).start(
        "go"
    )
    most = 0
    while run.in_flight:
        run.apply(run.answer(run.in_flight.pop()))
        assert run.state.root is not None
        most = max([most, *(len(history.said) for history in run.state.root.histories.values())])
    assert run.state.status == "completed"
    assert len([event for event in run.events if event.event == "warning"]) == 1
    assert most <= 16


def test_a_new_score_is_progress() -> None:
    graph = agent_ring(9)["graph"]
    graph["nodes"][0]["config"] = {"output_schema": {"type": "object"}}
    replies = [f'{{"verdict": "not yet", "score": {50 + number}}}' for number in (1, 7, 3, 9, 2, 8, 4, 6, 5)]
    assert not tripped(
        run_script({"breaker": {"patience": {"one_place": 2}}, "graph": graph}, {"A0": replies})
    )
    assert tripped(run_script({"breaker": True, "graph": graph}, {"A0": replies[:1] * 9}))


@pytest.mark.parametrize(
    "texts",
    [
        [f"{count} tests pass" for count in (2, 5, 10, 11, 14)],
        [f"accuracy {value}" for value in (0.71, 0.78, 0.84, 0.83, 0.9)],
        [f"def area(a, b):\n    return a {sign} b" for sign in ("-", "+", "/", "%", "*")],
    ],
)
def test_progress_in_a_single_place_is_not_locked(texts: list[str]) -> None:
    """With a reviewer who always says the same, and a test that fails until the last round."""
    for workflow in (agent_ring(len(texts), 2), agent_ring(len(texts), 2, loops={"A0": {"max_rounds": 50}})):
        run = run_script(workflow, {"A0": texts, "A1": ["1 failed"]})
        assert run.state.status == "completed"


def test_falling_durations_are_progress() -> None:
    history = LoopHistory()
    for number, milliseconds in enumerate((900, 700, 650, 500, 480, 300), 1):
        history.record_message((), "A", f"L[{number}]/A", SAME)
        history.record_result(f"p95 {milliseconds} ms, p99 {milliseconds + 90} ms")
        assert history.end_round(Breaker(), decide_live) is None


def test_one_repeating_agent_does_not_trip_while_another_makes_progress() -> None:
    script = {"A0": [SAME], "A1": [f"{text} {number}" for number, text in enumerate((*TEA, *STORY))]}
    assert not tripped(run_script(agent_ring(9, 2), script))


def test_dead_loop_needs_two_rounds_and_three_messages() -> None:
    [event] = tripped(run_script(agent_ring(30, 3), {"A0": [SAME], "A1": [ANN], "A2": [BEN]}))
    assert event.address == "A0[3]"  # the first that repeats anything is the second
    [event] = tripped(run_script(agent_ring(30), {"A0": [SAME]}))
    assert event.address == "A0[4]"


@pytest.mark.parametrize(
    ("output", "status"),
    [
        ("test_{count} failed", "completed"),
        ("{left} failed", "completed"),
        ("test_parser failed in {seconds:.2f}s at 2026-11-16T10:00:0{count}Z", "suspended_locked"),
        ("no such file: /tmp/run-{count}/a.txt (0x7f{count}a0)", "suspended_locked"),
    ],
)
def test_a_new_result_of_a_python_node_is_progress(output: str, status: str) -> None:
    graph = roundel.Graph(start="Coder", end="Out").node("Coder", "agent").node("Out", "passthrough")
    graph.node("Guard", "loop_counter", max_iterations=8)
    count = 0

    @graph.function("Test")
    def test(_text: str) -> str:
        nonlocal count
        count += 1
        return output.format(count=count, left=9 - count, seconds=count / 7)

    for a, b in (
        ("Coder", "Test"),
        ("Test", "Coder"),
        ("Test", "Guard"),
        ("Guard", "Coder"),
        ("Guard", "Out"),
    ):
        graph.edge(a, b)
    assert roundel.run(graph, "go", script={"Coder": [SAME]}).status == status


def test_literal_messages_do_not_count_as_repetition() -> None:
    graph = agent_ring(20)
    graph["graph"]["nodes"][0] = {"id": "A0", "type": "literal", "config": {"content": SAME}}
    assert run_script(graph, {}).state.status == "completed"


def test_human_messages_count_as_repetition() -> None:
    graph = agent_ring(20)
    graph["graph"]["nodes"][0] = {"id": "A0", "type": "human"}
    assert tripped(run_script(graph, {"A0": [SAME]}))


def test_loop_that_is_ending_is_not_locked() -> None:
    assert run_script(agent_ring(4), {"A0": [SAME]}).state.status == "completed"
    assert tripped(run_script(agent_ring(5), {"A0": [SAME]}))


def test_the_elements_of_a_list_may_be_alike() -> None:
    for strategy in ({"mode": "array", "items": "[1, 2, 3, 4, 5, 6]"}, {"mode": "count", "max": 6}):
        config = {"body": {"id": "W", "type": "agent"}, "strategy": strategy}
        graph = {"nodes": [{"id": "Each", "type": "loop_agent", "config": config}], "start": "Each"}
        assert run_script({"breaker": True, "graph": graph}, {"W": [SAME]}).state.status == "completed"


@pytest.mark.parametrize("quick", [0, -1])
def test_dead_loop_detection_does_not_depend_on_completion_order(quick: int) -> None:
    ways = [("In", "A"), ("In", "B"), ("A", "Both"), ("B", "Both"), ("Both", "In"), ("Both", "Guard")]
    ways += [("Guard", "In"), ("Guard", "Out")]
    graph = {
        "nodes": [
            {"id": "In", "type": "passthrough"},
            {"id": "A", "type": "agent"},
            {"id": "B", "type": "agent"},
            {"id": "Guard", "type": "loop_counter", "config": {"max_iterations": 20}},
            {"id": "Both", "type": "passthrough"},
            {"id": "Out", "type": "passthrough"},
        ],
        "edges": [{"from": a, "to": b} for a, b in ways],
        "start": "In",
        "end": "Out",
    }
    plan = plan_of({"breaker": True, "graph": graph})
    script = {"A": ["one", "two", ANN], "B": ["three", "four", BEN]}
    run = Simulator(plan, script, lambda count: quick % count).start("go").finish()
    [event] = tripped(run)
    assert event.address == "In[5]"
    assert [reply_text["node"] for reply_text in event.fields()["messages"]] == ["A", "B", "A", "B"]


def test_only_the_last_messages_of_a_long_round_are_stored() -> None:
    inner = agent_ring(600)["graph"]
    ways = [("Top", "A0"), ("Out", "Top"), ("Out", "Twice"), ("Twice", "Top"), ("Twice", "End")]
    nodes = [{"id": "Top", "type": "passthrough"}, *inner["nodes"], {"id": "End", "type": "passthrough"}]
    nodes.append({"id": "Twice", "type": "loop_counter", "config": {"max_iterations": 2}})
    edges = [*inner["edges"], *({"from": a, "to": b} for a, b in ways)]
    nodes[-1]["config"]["max_iterations"] = 4
    loops = {"A0": {"breaker": False, "max_rounds": 1000}, "Top": {"breaker": {"window": 2}}}
    graph = {"nodes": nodes, "edges": edges, "start": "Top", "end": "End", "loops": loops}
    run = Simulator(plan_of({"breaker": {"timeout": False}, "graph": graph}), {"A0": [SAME]}).start("go")
    most = 0
    while run.in_flight:
        run.apply(run.answer(run.in_flight.pop()))
        assert run.state.root is not None
        most = max([most, *(len(history.current_messages) for history in run.state.root.histories.values())])
    [event] = tripped(run)
    assert (event.address, most) == ("Top[3]", 256)


# Tools.


def with_tool(rounds: int, **graph: Any) -> Dict:
    workflow = agent_ring(rounds, **graph)
    workflow["graph"]["nodes"][0]["config"] = {"tools": ["look"]}
    return {**workflow, "tools": {"look": {"python": "statistics:mean"}}}


class SameResult(Simulator):
    """Its tool gives the same each time."""

    def _use(self, call: Any, use: Any) -> Any:
        fact: Any = super()._use(call, use)
        fact.outcome.state["text"] = "nothing found"
        return fact


def test_repeated_message_after_repeated_tool_results_is_a_dead_loop() -> None:
    script = {"A0": ["?look", SAME] * 10}
    run = SameResult(plan_of(with_tool(10)), script).start("go").finish()
    [event] = tripped(run)
    assert event.address == "A0[4]"
    other = Simulator(plan_of(with_tool(10)), script).start("go").finish()  # each result is another one
    assert not tripped(other)


def test_repeated_tool_results_with_new_messages_are_not_a_dead_loop() -> None:
    texts = [text for name in ("a debate", "support") for text in LIVELY[name]]
    script = {"A0": [line for text in texts for line in ("?look", text)]}
    assert not tripped(SameResult(plan_of(with_tool(10)), script).start("go").finish())


def test_silent_rounds_do_not_affect_dead_loop_detection() -> None:
    """Every other round of a loop agent only passes on what the agent said before."""
    nodes = [
        {"id": "In", "type": "passthrough"},
        {"id": "A", "type": "agent"},
        {"id": "Again", "type": "literal", "config": {"content": "go"}},
    ]
    edges = [
        {"from": "In", "to": "A", "condition": {"cel": "text == 'go'"}},
        {"from": "In", "to": "Again", "condition": {"cel": "text != 'go'"}},
    ]
    body = {"id": "body", "nodes": nodes, "edges": edges, "start": "In", "end": ["A", "Again"]}
    config = {"body": body, "strategy": {"mode": "condition", "until": "text == 'never'", "max": 12}}
    graph = {"nodes": [{"id": "Loop", "type": "loop_agent", "config": config}], "start": "Loop"}
    run = Simulator(plan_of({"breaker": True, "graph": graph}), {"A": [SAME]}).start("go").finish()
    [event] = tripped(run)
    assert event.fields()["stale_rounds"] == 3
    passed_on = [seen.address for seen in run.executions if seen.node == "Again"]
    assert passed_on == ["Loop[2]/Again", "Loop[4]/Again", "Loop[6]/Again"]


# Tokens and time.


def spending(workflow: Dict, sizes: list[int]) -> Spender:
    script = {name: [f"{name} {n} {n * n * 7919}" for n in range(60)] for name in "AB"}
    plan = plan_of({"breaker": {"dead_loop": False}, **workflow})
    return (
        Spender(plan, script, lambda _node, ordinal: sizes[min(ordinal, len(sizes) - 1)]).start("go").finish()
    )


def test_token_surge_trips_the_breaker() -> None:
    run = spending(ring(5), [10, 10, 9000])
    [event] = [event for event in run.events if event.event == "breaker_tripped"]
    assert event.fields()["trigger"] == "token_surge"
    assert event.fields()["tokens"] > 3 * event.fields()["estimate"]
    assert event.fields()["factor"] == 3
    assert spending(ring(5), [3000]).state.status == "completed"  # large from the start


def test_calls_without_token_counts_do_not_affect_the_surge_estimate() -> None:
    assert spending(ring(5), [0, 0, 5000]).state.status == "completed"


@pytest.mark.parametrize(
    "breaker",
    [
        {"token_surge": False, "dead_loop": False},
        {"factor": 1e6, "dead_loop": False},
        {"enabled": False},
        False,
    ],
)
def test_token_surge_detection_can_be_relaxed(breaker: Any) -> None:
    assert spending({**ring(5), "breaker": breaker}, [10, 10, 9000]).state.status == "completed"


def test_breaker_trips_on_working_time() -> None:
    run = (
        Spender(plan_of({"breaker": {"seconds": 2, "dead_loop": False}, **ring(20)}), {}).start("go").finish()
    )
    [event] = tripped(run)
    assert event.fields()["trigger"] == "timeout"
    assert event.fields()["limit"] == 2
    assert 2 < event.fields()["seconds"] < 3
    free = plan_of({"breaker": {"seconds": 2, "dead_loop": False, "timeout": False}, **ring(20)})
    assert Spender(free, {}, constant(1)).start("go").finish().state.status == "completed"


def test_waiting_for_human_input_does_not_count_as_working_time() -> None:
    workflow = agent_ring(3)
    workflow["graph"]["nodes"][0] = {"id": "A0", "type": "human"}
    run = Simulator(plan_of({**workflow, "breaker": {"seconds": 5}}), {"A0": ["a", "b", "c"]}).start("go")
    while run.in_flight:
        command = run.in_flight.pop()
        run.clock += 1000 if command.address.endswith("A0") else 0
        run.apply(run.answer(command))
    assert run.state.status == "completed"


# Tuning.


@pytest.mark.parametrize(
    ("where", "breaker"),
    [
        ("file", False),
        ("file", {"dead_loop": False}),
        ("file", {"window": 30}),
        ("file", {"threshold": 0}),
        ("graph", False),
        ("graph", {"dead_loop": False}),
        ("loop", False),
        ("loop", {"window": 50}),
    ],
)
def test_breaker_can_be_tuned_and_disabled(where: str, breaker: Any) -> None:
    workflow = agent_ring(12)
    if where == "file":
        workflow["breaker"] = breaker
    elif where == "graph":
        workflow["graph"]["breaker"] = breaker
    else:
        workflow["graph"]["loops"] = {"A0": {"breaker": breaker}}
    assert run_script(workflow, {"A0": [SAME]}).state.status == "completed"


def test_innermost_breaker_setting_wins() -> None:
    workflow = agent_ring(12, breaker=False, loops={"A0": {"breaker": {"window": 2}}})
    [event] = tripped(run_script({**workflow, "breaker": False}, {"A0": [SAME]}))
    assert event.address == "A0[3]"


def test_a_loop_agent_is_tuned_under_loops_too() -> None:
    strategy = {"mode": "condition", "until": 'text == "never"', "max": 9}
    config = {"body": {"id": "W", "type": "agent"}, "strategy": strategy}
    graph: Dict = {"nodes": [{"id": "Again", "type": "loop_agent", "config": config}], "start": "Again"}
    [event] = tripped(run_script({"breaker": True, "graph": graph}, {"W": [SAME]}))
    assert event.address == "Again[4]"
    graph["loops"] = {"Again": {"breaker": False}}
    assert run_script({"breaker": True, "graph": graph}, {"W": [SAME]}).state.status == "completed"


def test_higher_threshold_counts_fewer_messages_as_new() -> None:
    texts = LIVELY["a server that is written step by step"]
    workflow, script = series(texts, 1)
    assert texts[0] == SERVER
    assert not tripped(run_script(workflow, script))
    workflow["graph"]["breaker"] = {"threshold": 0.5, "patience": {"one_place": 3}}
    run = run_script(workflow, script)
    assert [event.fields()["code"] for event in run.events if event.event == "warning"] == ["stale"]


def test_idle_time_does_not_count() -> None:
    plan = plan_of(agent_ring(3))
    started = Started("run", (Message("go"),), 0.0)
    for reopened in (True, False):
        run = Run(plan)
        step(run, started)
        (address,) = run.calls
        if reopened:
            step(run, Reopened(99_999.0))
        step(run, Finished(address, Outcome((Message("hello"),)), 100_000.0))
        assert run.worked == (1.0 if reopened else 100_000.0)
        assert (run.lock is None) == reopened


def test_completed_run_cannot_be_reopened() -> None:
    run = Simulator(plan_of(agent_ring(1)), {}).start("go").finish().state
    with pytest.raises(IllegalFact):
        step(run, Reopened(1.0))


def test_silent_rounds_have_constant_cost() -> None:
    history, looked = LoopHistory(), 0

    def decide(function: Any, *arguments: Any) -> Any:
        nonlocal looked
        looked += 1
        return function(*arguments)

    history.record_message((), "A", "L[1]/A", SAME)
    for _ in range(2000):
        history.record_result("the same")
        assert history.end_round(Breaker(), decide) is None
    # One look at the results of each round, and one at the message.
    assert looked <= 2001
    assert len(history.said) + len(history.seen) <= 101
    for number in range(1000):  # as many rounds of a loop inside may give
        history.record_result(str(number))
    assert len(history.results) <= 200


@pytest.mark.parametrize(("agents", "calls", "size"), [(0, 1, 0), (1, 1, 600), (3, 3, 600)])
def test_expected_usage_counts_calls_and_tokens_per_call(agents: int, calls: int, size: int) -> None:
    names = [f"A{number}" for number in range(agents)]
    nodes = [{"id": "In", "type": "passthrough"}, *({"id": name, "type": "agent"} for name in names)]
    plan = plan_of({"graph": {"nodes": nodes, "start": ["In", *names]}})
    assert expected_usage(plan) == (calls, size)


def test_unlocked_loop_needs_new_repetitions_to_trip_again() -> None:
    history = LoopHistory()

    def said_again() -> bool:
        history.record_message((), "A", f"L[{history.round + 1}]/A", SAME)
        dead = history.end_round(Breaker(), decide_live) is not None
        if dead:
            history.reset_staleness()
        return dead

    assert [said_again() for _ in range(10)] == [
        *(False, False, False, True),  # one is new, three repeat it
        *(False, False, True),
        *(False, False, True),
    ]
