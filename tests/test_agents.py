"""Agents as Python objects."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel import Agent, LoopAgent, LoopMode, SequentialAgent
from tests.events import node_status


def shout(text: str) -> str:
    return text.upper()


def test_single_agent_runs() -> None:
    assert roundel.run(Agent("Writer", role="Write."), "tea", script={"Writer": "Tea."}).output == "Tea."


def test_an_agent_is_a_node_like_any_other() -> None:
    graph = roundel.Graph("text", start="Writer", end="Out")
    graph.add(Agent("Writer", role="Write.", timeout=3)).node("Out", "passthrough").edge("Writer", "Out")
    plain = roundel.Graph("text", start="Writer", end="Out").node("Writer", "agent", role="Write.", timeout=3)
    plain.node("Out", "passthrough").edge("Writer", "Out")
    assert graph.mapping() == plain.mapping()
    assert graph.workflow().graph == plain.workflow().graph


def test_sequential_agents_run_in_order() -> None:
    words = roundel.Graph("Words", start="Join", end="Join").node("Join", "passthrough")
    sequence = SequentialAgent("Team", [Agent("Writer"), shout, words])
    events: list[roundel.Event] = []
    result = roundel.run(sequence, "tea", script={"Writer": "a text"}, on_event=events.append)
    assert (result.output, result.nodes) == ("A TEXT", {"Writer": 1, "shout": 1, "Words": 1, "Join": 1})
    ran = [event.address for event in events if node_status(event) == "running"]
    assert ran == ["Writer", "shout", "Words", "Words/Join"]


def test_a_sequence_in_a_graph_is_one_node() -> None:
    graph = roundel.Graph(start="Team", end="Team").add(SequentialAgent("Team", [Agent("A"), Agent("B")]))
    assert roundel.run(graph, "x", script={}).nodes == {"Team": 1, "A": 1, "B": 1}


def test_empty_sequence_is_rejected() -> None:
    with pytest.raises(roundel.WorkflowError, match="'Team' has no agents"):
        SequentialAgent("Team", [])


# Names


def refused(make: Any) -> roundel.Diagnostic:
    with pytest.raises(roundel.WorkflowError) as caught:
        make()
    [found] = caught.value.diagnostics
    assert (found.severity, found.file) == ("error", "<python>")
    return found


TWICE = Agent("A")


@pytest.mark.parametrize(
    "steps",
    [
        [Agent("A"), Agent("B"), Agent("A")],
        [TWICE, TWICE],
        [Agent("A"), LoopAgent("A", shout, LoopMode.count(1))],
        [Agent("A"), SequentialAgent("A", [shout])],
        [Agent("A"), roundel.Graph("A", start="x", end="x").node("x", "passthrough")],
    ],
)
def test_duplicate_step_names_are_rejected_on_construction(steps: Any) -> None:
    found = refused(lambda: SequentialAgent("Team", steps))
    assert found.code == "duplicate-id"
    assert found.message == "'Team' has more than one step that is named 'A'"


def test_an_agent_that_is_named_like_another_node_is_refused() -> None:
    graph = roundel.Graph("text", start="A", end="A").node("A", "passthrough").add(Agent("A"))
    found = refused(graph.workflow)
    assert (found.code, found.message) == ("duplicate-id", "there is already a node 'A'")


def test_the_same_name_at_two_places_is_two_nodes() -> None:
    part = SequentialAgent("Part", [Agent("A")])
    team = SequentialAgent("Team", [part, SequentialAgent("Other", [part, Agent("A")]), Agent("A")])
    events: list[roundel.Event] = []
    result = roundel.run(team, "x", script={"A": ["a", "b", "c", "d"]}, on_event=events.append)
    ran = [event.address for event in events if node_status(event) == "running"]
    assert ran == ["Part", "Part/A", "Other", "Other/Part", "Other/Part/A", "Other/A", "A"]
    assert result.completed
    loop = LoopAgent("A", Agent("A"), LoopMode.count(2))
    assert roundel.run(loop, "x", script={"A": ["a", "b"]}).output == "b"


def test_functions_that_share_a_name_are_numbered() -> None:
    steps: list[Any] = [shout, lambda text: text + "1", Agent("shout_2"), shout, lambda text: text + "2"]
    result = roundel.run(SequentialAgent("Team", steps), "a", script={"shout_2": "b"})
    assert result.output == "B2"
    assert list(result.nodes) == ["shout", "<lambda>", "shout_2", "shout_3", "<lambda>_2"]


@pytest.mark.parametrize("name", ["", " ", None, 3])
@pytest.mark.parametrize(
    "make",
    [
        Agent,
        lambda name: Agent(name=name),
        lambda name: SequentialAgent(name, [shout]),
        lambda name: LoopAgent(name, shout, LoopMode.count(1)),
    ],
)
def test_a_name_is_text(make: Any, name: Any) -> None:
    found = refused(lambda: make(name))
    assert found.message.endswith(f"must be text that is not empty, not {name!r}")


def test_a_graph_without_an_id_has_no_name_in_a_sequence() -> None:
    graph = roundel.Graph(start="x", end="x").node("x", "passthrough")
    assert "a Graph in 'Team' has no id" in refused(lambda: SequentialAgent("Team", [graph])).message


def test_the_name_of_the_model_is_not_that_of_the_node() -> None:
    def config(agent: Agent) -> Any:
        return agent.workflow().graph.nodes[0]

    node = config(Agent("Writer", provider="openai", name="gpt-4o"))
    assert (node.id, node.config.provider, node.config.name) == ("Writer", "openai", "gpt-4o")
    node = config(Agent(name="Writer", model="openai:gpt-4o"))
    assert (node.id, node.config.model, node.config.name) == ("Writer", "openai:gpt-4o", "")
    node = config(Agent(name="Writer", provider="openai", model="gpt-4o"))
    assert (node.id, node.config.provider, node.config.model) == ("Writer", "openai", "gpt-4o")
    graph = roundel.Graph(start="Writer").node("Writer", "agent", provider="openai", name="gpt-4o")
    assert graph.workflow().graph.nodes[0].config.name == "gpt-4o"


def test_model_name_given_as_node_name_is_reported() -> None:
    found = refused(lambda: Agent(name="gpt-4o", provider="openai"))
    assert found.message == "'gpt-4o' names the node, so the provider 'openai' has no model"
    assert found.hint == """name the node first: Agent("Writer", provider='openai', name='gpt-4o')"""
    assert refused(Agent).message.startswith("the name of this Agent must be text")


# Loop agents

BODIES: list[Any] = [
    Agent("Step"),
    [Agent("Step")],
    roundel.Graph(start="Step", end="Step").node("Step", "agent"),
    SequentialAgent("Round", [Agent("Step")]),
]


@pytest.mark.parametrize("body", BODIES, ids=["an agent", "a list of one", "a graph", "a sequence"])
def test_a_loop_agent_repeats_anything(body: Any) -> None:
    result = roundel.run(LoopAgent("Polish", body, LoopMode.count(2)), "go", script={"Step": ["one", "two"]})
    assert (result.output, result.nodes) == ("two", {"Polish": 1, "Step": 2})


def test_the_same_workflow_as_a_file(tmp_path: Path) -> None:
    file = tmp_path / "polish.yaml"
    file.write_text(
        "graph:\n"
        "  id: Polish\n"
        "  nodes:\n"
        "    - id: Polish\n"
        "      type: loop_agent\n"
        "      config:\n"
        "        strategy: {mode: condition, until: data.score >= 90, max: 5, on_limit: suspend}\n"
        "        body:\n"
        "          id: Round\n"
        "          nodes: [{id: Writer, type: agent}, {id: Critic, type: agent}]\n"
        "          edges: [{from: Writer, to: Critic}]\n"
        "          start: Writer\n"
        "          end: Critic\n"
        "        context: carry\n"
        "  start: Polish\n"
        "  end: Polish\n"
    )
    team = SequentialAgent("Round", [Agent("Writer"), Agent("Critic")])
    mode = LoopMode.condition("data.score >= 90", max=5, on_limit="suspend")
    agent = LoopAgent("Polish", team, mode, context="carry")
    assert agent.workflow().graph == roundel.load(file).graph


def test_every_run_function_accepts_agents() -> None:
    agent = LoopAgent("Loop", shout, LoopMode.count(1))

    async def watch() -> list[str]:
        return [event.event async for event in roundel.stream(agent, "a")]

    assert roundel.run(agent, "a").output == "A"
    assert asyncio.run(roundel.run_async(agent, "a")).output == "A"
    assert "loop_round" in asyncio.run(watch())
    assert roundel.run(roundel.prepare(agent), "a").output == "A"
    assert roundel.run(roundel.load(agent), "a").output == "A"
    assert roundel.check(agent)[1].diagnostics == []


def test_a_loop_agent_in_a_graph() -> None:
    graph = roundel.Graph(start="Loop", end="Out").node("Out", "passthrough")
    graph.add(LoopAgent("Loop", lambda text: text + "+", LoopMode.count(3))).edge("Loop", "Out")
    assert roundel.run(graph, "a").output == "a+++"


def test_functions_with_the_same_name_do_not_collide() -> None:
    """Lambdas all have one name, and each loop, inside or beside, has its own."""
    inner = LoopAgent(
        "Inner", lambda text: text + "i", LoopMode.condition(lambda messages: len(messages) > 2)
    )
    middle = SequentialAgent("Middle", [inner, lambda text: text + "m"])
    outer = LoopAgent("Outer", middle, LoopMode.condition(lambda messages: len(messages) > 1))
    graph = roundel.Graph(start="Outer", end="End").add(outer)
    graph.node("End", "python", function=lambda text: text + "e")
    graph.edge("Outer", "End", process=lambda message: message.text + "p", condition=lambda message: True)
    assert roundel.run(graph, "x").output == "xiimpe"


def test_a_graph_inside_itself_is_refused() -> None:
    graph = roundel.Graph("endless", start="A", end="A")
    graph.add(LoopAgent("A", graph, LoopMode.count(1)))
    with pytest.raises(ValueError, match="the graph 'endless' contains itself"):
        roundel.run(graph)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (None, "'Polish' has no body"),
        ([], "'Polish' has no body"),
        ([Agent("A"), Agent("B")], "'Polish' repeats exactly one body, not 2"),
        ((shout, shout, shout), "'Polish' repeats exactly one body, not 3"),
        ("Writer", "'Polish' cannot run 'Writer'"),
        (7, "'Polish' cannot run 7"),
        (Agent, "'Polish' cannot run"),
    ],
)
def test_loop_agent_takes_exactly_one_body(body: Any, message: str) -> None:
    with pytest.raises(roundel.WorkflowError) as caught:
        LoopAgent("Polish", body, LoopMode.count(2))
    [found] = caught.value.diagnostics
    assert found.message.startswith(message)
    assert found.hint
    assert found.file == "<python>"


class NoStrategy:
    def init(self, state: Any) -> None:
        pass


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        (None, "'Polish' has no strategy"),
        (3, "'Polish': 3 is not a loop strategy: it has no method 'init'"),
        ("count", "'Polish': 'count' is not a loop strategy"),
        (Agent("A"), "'Polish': an object of the class 'Agent' is not a loop strategy"),
        (
            NoStrategy(),
            "'Polish': an object of the class 'NoStrategy' is not a loop strategy",
        ),
        (NoStrategy, "'Polish': an object of the class 'NoStrategy' is not a loop strategy: it has no"),
        (LoopMode.count, "'Polish': LoopMode.count is not a loop strategy: it makes one when it is called"),
    ],
)
def test_invalid_strategy_is_rejected(strategy: Any, message: str) -> None:
    with pytest.raises(roundel.WorkflowError) as caught:
        LoopAgent("Polish", Agent("A"), strategy)
    [found] = caught.value.diagnostics
    assert (found.code, found.file) == ("no-strategy", "<python>")
    assert found.message.startswith(message)
    assert "LoopMode.count(3)" in found.hint


def test_strategy_may_be_a_mapping_as_in_a_file() -> None:
    agent = LoopAgent("Polish", shout, {"mode": "count", "max": 2})
    assert roundel.run(agent, "a").nodes["shout"] == 2
    with pytest.raises(roundel.WorkflowError, match="'cuont' is not a loop strategy"):
        roundel.run(LoopAgent("Polish", shout, {"mode": "cuont"}))


@pytest.mark.parametrize(
    "mode",
    [LoopMode.count("many"), LoopMode.condition("x > 1"), LoopMode.array(max_parallel=0)],  # type: ignore[arg-type]
)
def test_strategies_invalid_in_a_file_are_rejected(mode: LoopMode) -> None:
    with pytest.raises(roundel.WorkflowError):
        LoopAgent("Polish", shout, mode).workflow()


# How many at once


async def slow(text: str) -> str:
    await asyncio.sleep(0.01)
    return text


@pytest.mark.parametrize(
    "arguments",
    [
        {"max_parallel": 3},
        {"executor": 3},
        {"executor": ThreadPoolExecutor(3)},
        {"executor": 3, "max_parallel": 3},
    ],
)
def test_parallelism_sets_max_parallel(arguments: Any) -> None:
    agent = LoopAgent("Each", slow, LoopMode.array(), **arguments)
    assert agent.strategy["max_parallel"] == 3
    events: list[roundel.Event] = []
    roundel.run(agent, "[1, 2, 3, 4]", on_event=events.append)
    states = [event.fields()["status"] for event in events if event.node_id == "slow"]
    assert states[:4] == ["running"] * 3 + ["completed"]


class Inline(Executor):
    """Runs what it is given at once, and does not say how many workers it has."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@pytest.mark.parametrize(
    ("mode", "arguments", "code", "message"),
    [
        (
            LoopMode.count(3),
            {"max_parallel": 2},
            "not-parallel",
            "2 rounds cannot run at the same time",
        ),
        (
            LoopMode.count(3),
            {"max_parallel": 2, "executor": 4},
            "not-parallel",
            "2 rounds cannot run at the same time",
        ),
        (
            LoopMode.array(),
            {"executor": object()},
            "bad-executor",
            "the executor is an object of the class 'object', not a concurrent.futures.Executor or a number",
        ),
        (LoopMode.array(), {"executor": True}, "bad-executor", "the executor is True, not a"),
        (LoopMode.count(1), {"executor": "4"}, "bad-executor", "the executor is '4', not a"),
        (LoopMode.array(), {"executor": 0}, "bad-executor", "the executor has to have at least one thread"),
        (
            LoopMode.array(),
            {"executor": Inline()},
            "not-parallel",
            "the number of workers of the executor is unknown; give max_parallel",
        ),
        (
            LoopMode.array(max_parallel=4),
            {"max_parallel": 3},
            "not-parallel",
            "max_parallel is 4 in the strategy, but 3 here; give one of them",
        ),
    ],
)
def test_invalid_parallelism_is_rejected(mode: LoopMode, arguments: Any, code: str, message: str) -> None:
    with pytest.raises(roundel.WorkflowError) as caught:
        LoopAgent("Each", slow, mode, **arguments)
    [found] = caught.value.diagnostics
    assert found.code == code
    assert found.message.startswith(f"'Each': {message}")


@pytest.mark.parametrize(
    ("mode", "arguments", "width"),
    [
        (LoopMode.array(), {"executor": 2, "max_parallel": 3}, 3),
        (LoopMode.array(max_parallel=4), {"executor": 2}, 4),
        (LoopMode.array(), {"executor": Inline(), "max_parallel": 5}, 5),
        (LoopMode.count(3), {"executor": 2}, None),
        (LoopMode.condition("true"), {"executor": Inline()}, None),
    ],
)
def test_max_parallel_and_executor_workers_are_independent(
    mode: LoopMode, arguments: Any, width: int | None
) -> None:
    assert LoopAgent("Each", slow, mode, **arguments).strategy.get("max_parallel") == width


# What runs on an executor


def thread(text: str) -> str:
    return threading.current_thread().name


def process(text: str) -> str:
    return f"{os.getpid()} {text}"


@pytest.mark.parametrize(
    "strategy",
    [
        LoopMode.count(2),
        LoopMode.condition(lambda messages: len(messages) > 2),
        LoopMode.custom(lambda state: state["round"] < 2),
        LoopMode.array(lambda messages: ["a", "b"], gather=False),
    ],
)
def test_functions_of_the_body_run_on_the_executor(strategy: LoopMode) -> None:
    with ThreadPoolExecutor(1, thread_name_prefix="own") as pool:
        result = roundel.run(LoopAgent("Loop", thread, strategy, executor=pool), "a")
        assert (result.status, result.loops["Loop"]["rounds"]) == ("completed", 2)
        assert result.output == "own_0"
        assert pool.submit(thread, "").result() == "own_0"  # it stays open


def test_integer_executor_is_a_thread_pool() -> None:
    assert roundel.run(LoopAgent("Loop", thread, LoopMode.count(2), executor=2), "a").output == "Loop_0"


def test_functions_run_on_all_workers_concurrently() -> None:
    together = threading.Barrier(3, timeout=20)

    def meet(text: str) -> str:
        together.wait()
        return text

    agent = LoopAgent("Each", meet, LoopMode.array(), executor=3)
    assert roundel.run(agent, '["a", "b", "c"]').output == '["a", "b", "c"]'


def test_a_body_runs_on_its_executor_as_a_whole_and_an_inner_loop_on_its_own() -> None:
    def where(text: str) -> str:
        return f"{text} {thread('').split('_')[0]}"

    graph = roundel.Graph("Part", start="F", end="F").node("F", "python", function=where)
    inner = LoopAgent("Inner", where, LoopMode.count(1), executor=1)
    plain = LoopAgent("Plain", where, LoopMode.count(1))
    body = SequentialAgent("Body", [where, graph, SequentialAgent("S", [plain]), inner])
    outer = LoopAgent("Outer", body, LoopMode.count(1), executor=1)
    result = roundel.run(SequentialAgent("All", [outer, where]), "at")
    assert result.output == "at Outer Outer Outer Inner roundel-where"


def test_function_on_an_executor_receives_its_parameters_and_may_break() -> None:
    def grow(text: str, round: int) -> Any:
        return roundel.break_loop(text) if round > 3 else f"{text}{round}"

    result = roundel.run(LoopAgent("Grow", grow, LoopMode.count(9), executor=1), "r")
    assert (result.output, result.loops["Grow"]["exit_reason"]) == ("r123", "break")


def test_a_pool_of_processes_runs_functions_too() -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        other = pool.submit(os.getpid).result()
        result = roundel.run(LoopAgent("Loop", process, LoopMode.count(1), executor=pool), "a")
    assert (result.error, result.output) == (None, f"{other} a")


def test_a_coroutine_stays_in_the_event_loop() -> None:
    async def here(text: str) -> str:
        return threading.current_thread().name

    agent = LoopAgent("Loop", here, LoopMode.count(1), executor=1)
    assert roundel.run(agent, "a").output == threading.current_thread().name


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (ValueError("broken"), "ValueError: broken"),
        (StopIteration(), "StopIteration"),
        (StopIteration("end"), "StopIteration: end"),
        (SystemExit(3), "SystemExit(3)"),
    ],
)
def test_a_function_that_raises_on_an_executor_fails_its_node(raised: BaseException, error: str) -> None:
    def fail(text: str) -> str:
        raise raised

    result = roundel.run(LoopAgent("Loop", fail, LoopMode.count(1), executor=1), "a")
    assert (result.status, result.error) == ("failed", f"Loop[1]/fail: {error}")


def test_an_executor_that_is_closed_fails_the_node() -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    result = roundel.run(LoopAgent("Loop", shout, LoopMode.count(1), executor=pool), "a")
    assert result.status == "failed"
    assert "cannot schedule new futures after shutdown" in str(result.error)


def test_function_used_twice_keeps_its_name_on_an_executor() -> None:
    graph = roundel.Graph(start="A", end="B").node("A", "python", function=shout)
    graph.node("B", "python", function=shout).edge("A", "B")
    functions = LoopAgent("Loop", graph, LoopMode.count(1), executor=1).workflow().functions
    assert list(functions) == ["shout"]


def test_max_parallel_of_one_is_always_allowed() -> None:
    assert roundel.run(LoopAgent("Loop", shout, LoopMode.count(2), max_parallel=1), "a").nodes["shout"] == 2


def test_process_pool_size_sets_max_parallel() -> None:
    with ProcessPoolExecutor(2) as pool:
        assert LoopAgent("Each", slow, LoopMode.array(), executor=pool).strategy["max_parallel"] == 2


def test_strategy_must_implement_its_decision() -> None:
    result = roundel.run(LoopAgent("Loop", shout, roundel.LoopStrategy()), "a")
    assert result.status == "failed"
    assert "NotImplementedError" in str(result.error)
