"""Forks: with more rounds, with functions, with other variables, and of another workflow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import roundel
from roundel import Graph, LoopAgent, LoopMode
from roundel.nodes import TYPES, passthrough
from roundel.workflow.condition import Keyword
from tests.events import node_status
from tests.runs.polish_workflow import using

Flow = dict[str, Any]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def completed(events: list[roundel.Event]) -> list[str]:
    """The addresses at which a node completed."""
    return [str(event.address) for event in events if node_status(event) == "completed" and event.address]


# More rounds.

SCRIPT = {
    name: [f"{name} says number {number}" for number in range(30)]
    for name in ("Writer", "Critic", "Body", "Ann", "Ben", "Judge", "Next")
}


def flow(start: str, nodes: list[Flow], edges: list[tuple[Any, ...]], **settings: Any) -> Flow:
    """A flow that ends with an agent behind its loop, which must not run before the loop is over."""
    return {
        "breaker": False,
        "graph": {
            "id": "flow",
            "start": start,
            "end": "End",
            "nodes": [*nodes, {"id": "Next", "type": "agent"}, {"id": "End", "type": "passthrough"}],
            "edges": [
                {"from": source, "to": target, **dict(*more)}
                for source, target, *more in (*edges, ("Next", "End"))
            ],
            **settings,
        },
    }


SPEAKERS = [{"id": "Writer", "type": "agent"}, {"id": "Critic", "type": "agent"}]


def capped(**settings: Any) -> Flow:
    """A free cycle whose way out is never taken, so that its cap locks it."""
    never = {"condition": {"type": "keyword", "config": {"any": ["nobody says this"]}}}
    edges = [("Writer", "Critic"), ("Critic", "Writer"), ("Critic", "Next", never)]
    return flow("Writer", SPEAKERS, edges, **settings)


def counted(rounds: int) -> Flow:
    guard = {"id": "Guard", "type": "loop_counter", "config": {"max_iterations": rounds}}
    edges = [
        ("Writer", "Critic"),
        ("Critic", "Writer"),
        ("Critic", "Guard"),
        ("Guard", "Writer"),
        ("Guard", "Next"),
    ]
    return flow("Writer", [*SPEAKERS, guard], edges)


def gated(rounds: int, **config: Any) -> Flow:
    gate = {"id": "Gate", "type": "loop", "config": {"max_rounds": rounds, **config}}
    back, out = {"port": "continue"}, {"port": "exit"}
    edges = [("Writer", "Critic"), ("Critic", "Gate"), ("Gate", "Writer", back), ("Gate", "Next", out)]
    return flow("Writer", [*SPEAKERS, gate], edges)


def repeated(**strategy: Any) -> Flow:
    config = {"strategy": strategy, "body": {"id": "Body", "type": "agent"}}
    return flow("Loop", [{"id": "Loop", "type": "loop_agent", "config": config}], [("Loop", "Next")])


def debated(rounds: int) -> Flow:
    people = [{"id": "Ann", "type": "agent"}, {"id": "Ben", "type": "agent"}]
    judge = {"method": "judge", "judge": {"id": "Judge", "type": "agent"}}
    config = {"participants": people, "max_rounds": rounds, "consensus": judge}
    return flow("Loop", [{"id": "Loop", "type": "debate", "config": config}], [("Loop", "Next")])


def nested(rounds: int) -> Flow:
    """A loop that is entered again in each of two rounds of the loop around it."""
    inner = counted(rounds)["graph"]
    body = {"id": "Part", "type": "subgraph", "config": {"type": "config", "config": inner}}
    config = {"strategy": {"mode": "count", "max": 2}, "body": body}
    return flow("Loop", [{"id": "Loop", "type": "loop_agent", "config": config}], [("Loop", "Next")])


MORE_ROUNDS: dict[str, tuple[Flow, Flow, str]] = {
    "cap of the graph": (capped(limits={"rounds": 3}), capped(limits={"rounds": 5}), "Writer[4]/Writer"),
    "cap of a loop": (
        capped(loops={"Writer": {"max_rounds": 3}}),
        capped(loops={"Writer": {"max_rounds": 5}}),
        "Writer[4]/Writer",
    ),
    "loop_counter": (counted(3), counted(5), "Writer[4]/Writer"),
    "loop": (gated(3), gated(5), "Writer[4]/Writer"),
    "loop that carries": (gated(3, output="Writer"), gated(5, output="Writer"), "Writer[4]/Writer"),
    "count": (repeated(mode="count", max=3), repeated(mode="count", max=5), "Loop[4]/Body"),
    "condition": (
        repeated(mode="condition", until="false", max=3),
        repeated(mode="condition", until="false", max=5),
        "Loop[4]/Body",
    ),
    "condition that suspends": (
        repeated(mode="condition", until="false", max=3, on_limit="suspend"),
        repeated(mode="condition", until="false", max=5, on_limit="suspend"),
        "Loop[4]/Body",
    ),
    "array": (
        repeated(mode="array", items="[1, 2, 3]"),
        repeated(mode="array", items="[1, 2, 3, 4, 5]"),
        "Loop[4]/Body",
    ),
    "parallel array": (
        repeated(mode="array", items="[1, 2, 3]", max_parallel=2),
        repeated(mode="array", items="[1, 2, 3, 4, 5]", max_parallel=2),
        "Loop[4]/Body",
    ),
    "debate": (debated(3), debated(5), "Loop[4]/Ann"),
    "loop in a loop": (nested(3), nested(5), "Loop[1]/Part/Writer[4]/Writer"),
}


@pytest.mark.parametrize("name", MORE_ROUNDS)
def test_fork_with_more_rounds_continues_where_the_run_ended(place: Path, name: str) -> None:
    before, after, first = MORE_ROUNDS[name]
    run = roundel.run(before, "go", script=SCRIPT, store=place)
    whole = roundel.run(after, "go", script=SCRIPT, store=place)
    assert run.status == whole.status

    async def story(runs: roundel.Runs) -> None:
        old, complete = completed(await runs.events(run.run_id)), completed(await runs.events(whole.run_id))
        fork = await runs.fork(run.run_id, workflow=after)
        assert first in (await runs.inspect(fork)).state.calls
        shared = completed(await runs.events(fork))
        result = await runs.resume(fork)
        new = completed(await runs.events(fork))
        assert (result.status, result.output, sorted(new)) == (whole.status, whole.output, sorted(complete))
        # What both runs do comes from the old one, up to the round that only the new one has.
        assert set(shared) == {
            address for address in old if address.split("[")[0] != "Next" and address in shared
        }
        assert first not in shared and new[: len(shared)] == shared
        differs = await runs.replay(run.run_id, workflow=after)
        assert differs is not None and (differs.address, differs.what) == (
            first,
            "runs now, and did not then",
        )

    using(place, story)


@pytest.mark.parametrize("name", ["cap of the graph", "loop_counter", "loop", "count", "debate"])
def test_fork_with_more_rounds_begins_at_an_address(place: Path, name: str) -> None:
    before, after, first = MORE_ROUNDS[name]
    run = roundel.run(before, "go", script=SCRIPT, store=place)
    whole = roundel.run(after, "go", script=SCRIPT, store=place)
    loop, speaker = first.split("[")[0], first.split("/")[1]

    async def story(runs: roundel.Runs) -> None:
        for at in (f"{loop}[2]", f"{loop}[3]/{speaker}", f"{loop}[4]"):
            fork = await runs.fork(run.run_id, at, workflow=after)
            assert not any(
                f"{loop}[{at[len(loop) + 1]}]" in done for done in completed(await runs.events(fork))
            )
            result = await runs.resume(fork)
            assert (result.status, result.output) == (whole.status, whole.output)
        with pytest.raises(roundel.StoreError, match=r"does not reach 'End'.*4\]/.* would come first"):
            await runs.fork(run.run_id, "End", workflow=after)

    using(place, story)


def test_fork_with_a_higher_limit_continues_a_locked_run(place: Path) -> None:
    run = roundel.run(capped(), "go", script=SCRIPT, store=place, limits={"rounds": 2})
    assert run.status == "suspended_locked"

    async def story(runs: roundel.Runs) -> None:
        fork = await runs.fork(run.run_id, limits={"rounds": 4})
        assert list((await runs.inspect(fork)).state.calls) == ["Writer[3]/Writer"]
        result = await runs.resume(fork)
        assert result.status == "suspended_locked"
        again = await runs.fork(fork, limits={"rounds": 5})
        assert list((await runs.inspect(again)).state.calls) == ["Writer[5]/Writer"]

    using(place, story)


# Functions.


class Calls:
    """A graph with a function in each place that takes one, and what was called."""

    def __init__(self, rounds: int = 2) -> None:
        self.made: list[str] = []
        self.rounds = rounds

    def graph(self, *, first_edge: bool = False, type: str = "agent") -> Graph:
        graph = Graph("coded", start="Writer", end="End", tools={"add": self._add})
        fields: dict[str, Any] = {
            "agent": {"tools": ["add"]},
            "python": {"function": lambda message: "hello"},
        }
        graph.node("Writer", type, **fields[type])
        graph.add(LoopAgent("Count", self._named("count"), LoopMode.count(self.rounds)))
        graph.add(LoopAgent("Until", self._named("until"), LoopMode.condition(self._enough)))
        graph.add(LoopAgent("Each", self._named("each"), LoopMode.array(self._items)))
        graph.add(LoopAgent("Own", self._named("own"), LoopMode.custom(self._dispatch)))
        graph.node("End", "passthrough")
        if first_edge:  # all edges and lambdas after it get other numbers
            graph.edge("Writer", "End", condition=lambda message: False)
        graph.edge("Writer", "Count", condition=lambda message: "hello" in message.text)
        graph.edge("Count", "Until", process=lambda message: message.text + "!")
        graph.edge("Until", "Each", condition=self._log("test"))
        graph.edge("Each", "Own")
        graph.edge("Own", "End")
        return graph

    def _named(self, name: str) -> Callable[[Any], str]:
        def function(message: Any) -> str:
            self.made.append(name)
            return f"{message.text} {name}"

        function.__name__ = name
        return function

    def _add(self, number: int) -> int:
        """Adds one."""
        self.made.append("add")
        return number + 1

    def _enough(self, messages: Any) -> bool:
        return "until" in messages[-1].text

    def _items(self, messages: Any) -> list[str]:
        self.made.append("items")
        return ["a", "b", "c"]

    def _dispatch(self, state: dict[str, Any]) -> bool:
        return bool(state["round"] < 1)

    def _log(self, name: str) -> Callable[[Any], bool]:
        def test(message: Any) -> bool:
            self.made.append(name)
            return True

        return test


CODED_SCRIPT = {"Writer": [{"tool_calls": [{"name": "add", "arguments": {"number": 1}}]}, "hello"]}
CODED_OUTPUT = '["a each", "b each", "c each"] own'


@pytest.mark.parametrize("given", ["graph", "workflow", "plan"])
@pytest.mark.parametrize("limits", [None, {"steps": 500}])
def test_fork_of_a_workflow_with_functions(place: Path, given: str, limits: dict[str, float] | None) -> None:
    """The same workflow is given again, with the code of another object."""
    assert roundel.run(Calls().graph(), "go", script=CODED_SCRIPT, store=place).output == CODED_OUTPUT
    other = Calls()
    graph = other.graph()
    workflow: Any = {"graph": graph, "workflow": graph.workflow(), "plan": roundel.prepare(graph)}[given]

    async def story(runs: roundel.Runs) -> None:
        run = await runs.find("last")
        assert await runs.replay(run, workflow=workflow, limits=limits) is None
        assert other.made == [], "a replay calls no function"
        for at, calls in (
            ("Writer[1]/add", ["add", "count", "count", "until", "test", "items", *["each"] * 3, "own"]),
            ("Count[2]", ["count", "until", "test", "items", *["each"] * 3, "own"]),
            ("Each[3]", ["each", "own"]),
            ("Own", ["own"]),
        ):
            for source in (workflow, None):
                fork = await runs.fork(run, at, workflow=source, limits=limits)
                other.made.clear()
                assert (await runs.resume(fork, workflow=workflow)).output == CODED_OUTPUT
                assert other.made == calls, f"from {at} on"
                assert await runs.replay(fork) is None

    using(place, story)


def test_fork_with_the_same_definition_copies_its_decisions(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not made again, by a library that might decide otherwise today."""
    graph = Graph("tested", start="A", end="C")
    for name in "ABC":
        graph.node(name, "python", function=lambda message: message.text)
    graph.edge("A", "B", condition={"type": "keyword", "config": {"any": ["go"]}})
    graph.edge("B", "C")
    roundel.run(graph, "go", store=place)

    async def story(runs: roundel.Runs) -> None:
        with monkeypatch.context() as library:
            library.setattr(Keyword, "test", lambda _self: lambda _text: False)
            with pytest.raises(roundel.StoreError, match="never reached 'C'"):
                await runs.fork("last", "C", workflow=graph, limits={"steps": 9})
            fork = await runs.fork("last", "C", workflow=graph)
            assert (await runs.resume(fork, workflow=graph)).output == "go"

    using(place, story)


def test_fork_keeps_the_results_of_functions_on_edges_with_other_numbers(place: Path) -> None:
    roundel.run(Calls().graph(), "go", script=CODED_SCRIPT, store=place)
    other = Calls(rounds=3)
    graph = other.graph(first_edge=True)

    async def story(runs: roundel.Runs) -> None:
        differs = await runs.replay("last", workflow=graph)
        assert differs is not None
        assert (differs.address, differs.what) == ("Writer", "is another kind of call now")
        # The new edge has no result, so its function is called; the model and the tool are not.
        fork = await runs.fork("last", workflow=graph)
        assert list((await runs.inspect(fork)).state.calls) == ["Writer"]
        assert (await runs.resume(fork, workflow=graph)).output == CODED_OUTPUT
        assert other.made == ["count"] * 3 + ["until", "test", "items", *["each"] * 3, "own"]
        # And from a graph that has this edge to one that does not.
        third = Calls(rounds=4)
        again = await runs.fork(fork, workflow=third.graph())
        assert list((await runs.inspect(again)).state.calls) == ["Count[4]/count"]
        assert (await runs.resume(again, workflow=third.graph())).output == CODED_OUTPUT

    using(place, story)


def test_result_of_another_kind_of_node_is_not_used(place: Path) -> None:
    roundel.run(Calls().graph(type="python"), "go", store=place)

    async def story(runs: roundel.Runs) -> None:
        agent = Calls().graph()
        fork = await runs.fork("last", workflow=agent, script=CODED_SCRIPT)
        assert list((await runs.inspect(fork)).state.calls) == ["Writer"]
        assert (await runs.resume(fork, workflow=agent)).output == CODED_OUTPUT

    using(place, story)


def test_answer_of_another_strategy_is_not_used(place: Path) -> None:
    """Both ask a function at the same address; the list of one means nothing to the other."""

    def graph(mode: LoopMode) -> Graph:
        made = Graph("loops", start="Loop", end="Loop")
        return made.add(LoopAgent("Loop", lambda message: message.text + "!", mode))

    roundel.run(graph(LoopMode.array(lambda messages: ["a", "b"])), "go", store=place)
    other = graph(LoopMode.custom(lambda state: state["round"] < 2))

    async def story(runs: roundel.Runs) -> None:
        assert (await runs.replay("last", workflow=other)) is not None
        fork = await runs.fork("last", workflow=other)
        assert (await runs.resume(fork, workflow=other)).output == "go!!"

    using(place, story)


def test_resumed_fork_without_its_functions_says_what_to_do(place: Path) -> None:
    roundel.run(Calls().graph(), "go", script=CODED_SCRIPT, store=place)

    async def story(runs: roundel.Runs) -> None:
        fork = await runs.fork("last", "Own")
        with pytest.raises(roundel.WorkflowError, match=r"'own' was given in Python.*workflow="):
            await runs.resume(fork)
        assert (await runs.resume(fork, workflow=Calls().graph())).completed

    using(place, story)


# Variables.

FILE = """\
vars: {ROUNDS: 2}
breaker: false
graph:
  id: varied
  start: Writer
  end: End
  nodes:
    - {id: Topic, type: literal, config: {content: "About ${TOPIC}."}}
    - {id: Writer, type: agent}
    - {id: Guard, type: loop_counter, config: {max_iterations: "${ROUNDS}"}}
    - {id: End, type: agent}
  edges:
    - {from: Writer, to: Writer}
    - {from: Writer, to: Guard}
    - {from: Guard, to: Writer}
    - {from: Guard, to: Topic}
    - {from: Topic, to: End}
"""


@pytest.fixture
def varied(tmp_path: Path, place: Path) -> Path:
    """A file of which a run exists, with the topic tea and two rounds."""
    file = tmp_path / "varied.yaml"
    file.write_text(FILE)
    variables = {"TOPIC": "tea"}
    assert roundel.run(file, "go", variables=variables, script=SCRIPT, store=place).completed
    return file


def test_fork_with_another_variable_reads_the_file_again(place: Path, varied: Path) -> None:
    async def story(runs: roundel.Runs) -> None:
        assert await runs.replay("last", variables={"TOPIC": "tea", "ROUNDS": 2}) is None
        differs = await runs.replay("last", variables={"TOPIC": "coffee"})
        assert differs is not None and (differs.address, differs.what) == ("End", "gets another input")
        assert "About tea." in differs.before and "About coffee." in differs.now
        fork = await runs.fork("last", variables={"ROUNDS": 3})
        assert list((await runs.inspect(fork)).state.calls) == ["Writer[3]/Writer"]
        assert (await runs.resume(fork)).completed
        workflow = (await runs.plan(fork)).workflow
        assert workflow.variables == {"TOPIC": "tea", "ROUNDS": 3}, "a fork of the fork has them too"
        other = await runs.fork(fork, "End", variables={"TOPIC": "coffee"})
        call = (await runs.inspect(other)).state.calls["End"].command
        assert [message.text for message in getattr(call, "inputs", ())] == ["About coffee."]

    using(place, story)


def test_fork_with_variables_of_another_file_or_graph(place: Path, varied: Path) -> None:
    moved = varied.rename(varied.with_name("moved.yaml"))

    async def story(runs: roundel.Runs) -> None:
        with pytest.raises(roundel.StoreError, match=r"varied\.yaml, which no longer exists.*--workflow"):
            await runs.fork("last", "End", variables={"TOPIC": "coffee"})
        with pytest.raises(roundel.StoreError, match="no longer exists"):
            await runs.replay("last", variables={"TOPIC": "coffee"})
        run = await runs.find("last")
        fork = await runs.fork(run, workflow=moved, variables={"ROUNDS": 3})
        assert (await runs.plan(fork)).workflow.variables == {"TOPIC": "tea", "ROUNDS": 3}
        with pytest.raises(ValueError, match="not replaced yet"):
            await runs.fork(run, workflow=roundel.load(moved, {"TOPIC": "tea"}), variables={"ROUNDS": 3})

    using(place, story)


def test_workflow_from_python_has_to_be_given_again_for_other_variables(place: Path) -> None:
    graph = Graph("greet", start="Say")
    graph.node("Say", "literal", content="Hello ${NAME}")
    assert roundel.run(graph, variables={"NAME": "Ada"}, store=place).output == "Hello Ada"

    async def story(runs: roundel.Runs) -> None:
        with pytest.raises(roundel.StoreError, match=r"was not started from a file.*workflow="):
            await runs.fork("last", "Say", variables={"NAME": "Grace"})
        fork = await runs.fork("last", "Say", workflow=graph, variables={"NAME": "Grace"})
        assert (await runs.resume(fork, workflow=graph)).output == "Hello Grace"

    using(place, story)


@pytest.mark.parametrize(
    ("name", "hint"), [("ROUND", "did you mean 'ROUNDS'?"), ("XYZ", "its variables: ROUNDS, TOPIC")]
)
def test_unknown_variable_is_an_error(place: Path, varied: Path, name: str, hint: str) -> None:
    async def story(runs: roundel.Runs) -> None:
        for refuse in (runs.fork, runs.replay):
            with pytest.raises(roundel.WorkflowError) as caught:
                await refuse("last", variables={name: 1})
            (found,) = caught.value.diagnostics
            assert (found.code, found.file, found.hint) == ("unknown-variable", str(varied), hint)
            assert f"no variable '{name}'" in found.message
        assert len(await runs.list()) == 1

    using(place, story)


def test_fork_with_a_variable_of_the_environment(
    place: Path, varied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has a placeholder for it, so it is known although `vars` does not have it."""
    monkeypatch.setenv("TOPIC", "tea")
    assert roundel.run(varied, "go", script=SCRIPT, store=place).completed

    async def story(runs: roundel.Runs) -> None:
        assert await runs.replay("last", variables={"TOPIC": "tea"}) is None
        assert await runs.replay("last", variables={"TOPIC": "coffee"}) is not None

    using(place, story)


# Failed runs.


class Elements:
    """A loop over ten elements, three at a time. The fifth fails until it is repaired."""

    def __init__(self) -> None:
        self.called: list[str] = []
        self.repaired = False
        self._others_done = asyncio.Event()

    def graph(self, *, beside: bool = False) -> Graph:
        graph = Graph("elements", start=["Loop", "Beside"] if beside else "Loop", end="End")
        items = [f"e{number}" for number in range(1, 11)]
        graph.add(LoopAgent("Loop", self._work, LoopMode.array(lambda _: items, max_parallel=3)))
        graph.node("End", "passthrough")
        graph.edge("Loop", "End")
        if beside:
            graph.node("Beside", "python", function=self._beside)
            graph.edge("Beside", "End")
        return graph

    async def _work(self, message: roundel.Message) -> str:
        text = message.text
        self.called.append(text)
        if text == "e5" and not self.repaired:
            await self._others_done.wait()  # so that two of the elements behind it finish before it fails
            raise RuntimeError("broken")
        if text == "e7":
            self._others_done.set()
        return text.upper()

    def _beside(self, message: roundel.Message) -> str:
        self.called.append("beside")
        return "beside"


ELEMENTS = [f"E{number}" for number in range(1, 11)]


@pytest.mark.parametrize("change", ["none", "workflow", "limits", "another branch"])
def test_fork_of_a_failed_run_keeps_what_finished(place: Path, change: str) -> None:
    elements = Elements()
    run = roundel.run(elements.graph(), "go", store=place)
    assert (run.status, run.error) == ("failed", "Loop[5]/_work: RuntimeError: broken")
    finished = {text for text in elements.called if text != "e5"}
    assert {"e1", "e2", "e3", "e4", "e6", "e7"} <= finished < {text.lower() for text in ELEMENTS}
    changes: dict[str, dict[str, Any]] = {
        "none": {},
        "workflow": {"workflow": elements.graph()},
        "limits": {"limits": {"steps": 900}},
        "another branch": {"workflow": elements.graph(beside=True)},
    }
    code = changes[change].get("workflow") or elements.graph()

    async def story(runs: roundel.Runs) -> None:
        fork = await runs.fork(run.run_id, **changes[change])
        assert (await runs.row(fork)).status == "running"
        elements.called.clear()
        assert (await runs.resume(fork, workflow=code)).status == "failed", "it is not repaired yet"
        assert not finished & set(elements.called)
        finished.update(set(elements.called) - {"e5"})
        # A fork of the fork, whose history has a failure, a retry and another failure.
        elements.repaired = True
        again = await runs.fork(fork, **changes[change])
        elements.called.clear()
        result = await runs.resume(again, workflow=code)
        assert result.completed
        assert sorted(elements.called) == sorted({text.lower() for text in ELEMENTS} - finished)
        for one in (run.run_id, fork, again):
            assert await runs.replay(one) is None

    using(place, story)


def test_fork_of_a_failed_run_continues_inside_the_rounds_of_an_agent(place: Path) -> None:
    """The tool was called before the model failed: it is not called again."""
    called: list[int] = []

    def add(number: int) -> int:
        """Adds one."""
        called.append(number)
        return number + 1

    graph = Graph("agent", start="Agent", tools={"add": add})
    graph.node("Agent", "agent", tools=["add"])
    replies = [{"tool_calls": [{"name": "add", "arguments": {"number": 1}}]}, {"error": "gone"}, "two"]
    run = roundel.run(graph, "go", script={"Agent": replies}, store=place)
    assert (run.status, called) == ("failed", [1])

    async def story(runs: roundel.Runs) -> None:
        for changes in ({}, {"workflow": graph}, {"limits": {"steps": 9}}):
            fork = await runs.fork(run.run_id, **changes)
            result = await runs.resume(fork, workflow=graph)
            assert (result.output, called) == ("two", [1])

    using(place, story)


def test_message_of_the_failed_call_can_be_changed(place: Path) -> None:
    graph = Graph("shout", start="Shout")
    graph.node("Shout", "python", function=lambda message: message.text.upper() if message.text else 1 / 0)
    assert roundel.run(graph, "", store=place).status == "failed"

    async def story(runs: roundel.Runs) -> None:
        fork = await runs.fork("last", message="hello")
        assert (await runs.resume(fork, workflow=graph)).output == "HELLO"

    using(place, story)


def test_fork_that_would_fail_at_once_is_refused(place: Path) -> None:
    """A condition of the graph fails: to evaluate it again helps only with another workflow."""

    def flow(expression: str) -> dict[str, Any]:
        nodes = [{"id": "A", "type": "agent"}, {"id": "B", "type": "passthrough"}]
        edge = {"from": "A", "to": "B", "condition": {"cel": expression}}
        return {"graph": {"start": "A", "end": "B", "nodes": nodes, "edges": [edge]}}

    run = roundel.run(flow("data.score > 1"), "go", script={"A": "a"}, store=place)
    assert run.status == "failed"

    async def story(runs: roundel.Runs) -> None:
        with pytest.raises(roundel.StoreError, match=r"the new run would fail at once.*condition"):
            await runs.fork("last")
        with pytest.raises(roundel.StoreError, match="over, with these changes too"):
            await runs.fork("last", workflow=flow("text == 'a'"))
        fork = await runs.fork("last", "A", workflow=flow("text == 'a'"))
        assert (await runs.resume(fork)).output == "a"
        assert len(await runs.list()) == 2

    using(place, story)


# Pure nodes that fail.


def test_failure_of_a_pure_node_is_repeated(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [{"id": "A", "type": "agent"}, {"id": "B", "type": "passthrough"}]
    workflow = {"graph": {"start": "A", "nodes": nodes, "edges": [{"from": "A", "to": "B"}]}}

    def prepare(node: Any, services: Any) -> Any:
        async def fail(call: Any) -> Any:
            raise RuntimeError("no way through")

        return fail

    monkeypatch.setitem(TYPES._types, "passthrough", replace(passthrough.NODE, prepare=prepare))
    run = roundel.run(workflow, "go", script={"A": "a"}, store=place)
    assert (run.status, run.error) == ("failed", "B: RuntimeError: no way through")
    assert using(place, lambda runs: runs.replay("last", limits={"steps": 9})) is None
