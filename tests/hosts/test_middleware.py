"""Middleware around the nodes of a run: watching, changing, refusing; in order, and once."""

from __future__ import annotations

import asyncio
import logging
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.workflow.functions import entry_points
from roundel.workflow.graph import Node
from tests.events import node_status, readable

Messages = tuple[roundel.Message, ...]


class Mark(roundel.Middleware):
    """Adds its sign to what agents say, and notes where it was asked."""

    def __init__(self, sign: str = "!") -> None:
        self.sign = sign
        self.seen: list[str] = []

    def before(self, visit: roundel.Visit) -> None:
        self.seen.append(f"before {visit.address}")

    async def after(self, visit: roundel.Visit, messages: Messages) -> list[str]:
        self.seen.append(f"after {visit.address}")
        return [message.text + self.sign for message in messages]


class Refuse(roundel.Middleware):
    def __init__(self, node: str, moment: str, error: Exception | None = None) -> None:
        self.node, self.moment, self.error = node, moment, error or roundel.Veto("not today")

    def applies(self, node: Node) -> bool:
        return node.id == self.node

    def before(self, visit: roundel.Visit) -> None:
        if self.moment == "before":
            raise self.error

    def after(self, visit: roundel.Visit, messages: Messages) -> None:
        if self.moment == "after":
            raise self.error


def chain(*names: str, **settings: Any) -> dict[str, Any]:
    nodes = [{"id": name, "type": "agent"} for name in names]
    edges = [{"from": one, "to": other} for one, other in pairwise(names)]
    return {**settings, "graph": {"id": "chain", "nodes": nodes, "edges": edges, "start": names[0]}}


SCRIPT = {"A": "a", "B": "b"}


def test_middleware_runs_in_order_before_and_after_a_node() -> None:
    first, second = Mark("1"), Mark("2")
    events: list[roundel.Event] = []
    result = roundel.run(chain("A"), script=SCRIPT, middleware=[first, second], on_event=events.append)
    assert result.output == "a12"
    assert first.seen == second.seen == ["before A", "after A"]
    assert readable(events[-2]) == {"status": "completed", "output": "a12"}


def test_middleware_may_return_any_number_of_messages() -> None:
    class Split(roundel.Middleware):
        def after(self, visit: roundel.Visit, messages: Messages) -> Any:
            if visit.node.id == "A":
                return [roundel.Message("x"), {"text": "y"}]
            return [f"{len(visit.inputs)} inputs"] if visit.node.id == "B" else []

    assert roundel.run(chain("A", "B"), script=SCRIPT, middleware=[Split()]).output == "2 inputs"
    assert roundel.run(chain("C"), script=SCRIPT, middleware=[Split()]).output == ""


def test_middleware_intercepts_every_node_type() -> None:
    inner = {"nodes": [{"id": "Inner", "type": "passthrough"}], "start": "Inner"}
    body = {"nodes": [{"id": "Worker", "type": "agent"}], "start": "Worker"}
    nodes = [
        {"id": "Person", "type": "human"},
        {"id": "Sub", "type": "subgraph", "config": {"type": "config", "config": inner}},
        {
            "id": "Each",
            "type": "loop_agent",
            "config": {"strategy": {"mode": "count", "max": 2}, "body": body},
        },
        {"id": "Tools", "type": "agent", "config": {"tools": ["mean"]}},
    ]
    edges = [{"from": "Person", "to": "Sub"}, {"from": "Sub", "to": "Each"}, {"from": "Each", "to": "Tools"}]
    workflow = {
        "tools": {"mean": {"python": "statistics:mean"}},
        "graph": {"nodes": nodes, "edges": edges, "start": "Person"},
    }
    asks = {"tool_calls": [{"name": "mean", "arguments": {"data": [1, 3]}}]}
    script = {"Person": "hi", "Worker": ["one", "two"], "Tools": [asks, "2"]}
    mark = Mark()
    result = roundel.run(workflow, "go", script=script, middleware=[mark])
    assert result.output == "2!"
    assert mark.seen == [
        "before Person",
        "after Person",
        "before Sub",
        "before Sub/Inner",
        "after Sub/Inner",
        "after Sub",
        "before Each",
        "before Each[1]/Worker",
        "after Each[1]/Worker",
        "before Each[2]/Worker",
        "after Each[2]/Worker",
        "after Each",
        "before Tools",
        "after Tools",
    ]


def test_middleware_context_has_address_round_key_and_inputs() -> None:
    visits: list[roundel.Visit] = []

    class Look(roundel.Middleware):
        def before(self, visit: roundel.Visit) -> None:
            visits.append(visit)
            visit.tell("looked", at=visit.address)

    nodes = [
        {"id": "A", "type": "agent"},
        {"id": "G", "type": "loop_counter", "config": {"max_iterations": 2}},
        {"id": "End", "type": "passthrough"},
    ]
    edges = [
        {"from": "A", "to": "G"},
        {"from": "A", "to": "A"},
        {"from": "G", "to": "A"},
        {"from": "G", "to": "End"},
    ]
    workflow = {"graph": {"nodes": nodes, "edges": edges, "start": "A", "end": "End"}}
    events: list[roundel.Event] = []
    result = roundel.run(
        workflow, "go", script={"A": ["x", "y"]}, middleware=[Look()], on_event=events.append
    )
    assert result.completed
    second = [visit for visit in visits if visit.node.id == "A"][1]
    assert (second.address, second.ordinal, second.round) == ("A[2]/A", 1, 2)
    assert second.key == f"{result.run_id}:A[2]/A:before"
    assert [message.text for message in second.inputs] == ["x"]
    looked = [event for event in events if event.event == "custom"]
    assert [event.address for event in looked] == [event.fields()["data"]["at"] for event in looked]
    assert len(looked) == len(visits)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_veto_fails_the_node(moment: str) -> None:
    result = roundel.run(chain("A", "B"), script=SCRIPT, middleware=[Refuse("B", moment)])
    assert result.status == "failed"
    assert result.error == "B: vetoed by the middleware Refuse: not today"
    assert result.usage["model_calls"] == (1 if moment == "before" else 2)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_middleware_that_fails_is_named(moment: str) -> None:
    broken = Refuse("A", moment, KeyError("where"))
    result = roundel.run(chain("A"), script=SCRIPT, middleware=[broken])
    assert result.error == f"A: the middleware Refuse failed {moment} the node: KeyError: 'where'"


def test_an_observer_that_fails_is_logged_and_does_not_affect_the_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Blind(roundel.Middleware):
        seen = 0

        def observe(self, event: roundel.Event) -> None:
            self.seen += 1
            raise ValueError(event.event)

        async def close(self, run_id: str) -> None:
            raise OSError("gone")

    blind = Blind()
    with caplog.at_level(logging.ERROR, "roundel.middleware"):
        assert roundel.run(chain("A"), script=SCRIPT, middleware=[blind]).completed
    assert blind.seen == 1
    assert [record.message for record in caplog.records] == [
        "the middleware Blind failed at 'run_started', and sees no more",
        "the middleware Blind failed when it was closed",
    ]


def test_observing_costs_no_fact(tmp_path: Path) -> None:
    seen: list[roundel.Event] = []

    class Watch(roundel.Middleware):
        def observe(self, event: roundel.Event) -> None:
            seen.append(event)

    events: list[roundel.Event] = []
    store = tmp_path / "runs.db"
    watched = roundel.run(
        chain("A"), script=SCRIPT, store=store, middleware=[Watch()], on_event=events.append
    )
    assert seen == events
    plain = roundel.run(chain("A"), script=SCRIPT, store=store)

    async def facts(run_id: str) -> int:
        async with roundel.Runs(store) as runs:
            return (await runs.row(run_id)).facts

    assert asyncio.run(facts(watched.run_id)) == asyncio.run(facts(plain.run_id))


def test_a_resumed_run_uses_the_middleware_given_on_resume(tmp_path: Path) -> None:
    nodes = [{"id": "A", "type": "agent"}, {"id": "Person", "type": "human"}, {"id": "B", "type": "agent"}]
    edges = [{"from": "A", "to": "Person"}, {"from": "Person", "to": "B"}]
    workflow = {"graph": {"nodes": nodes, "edges": edges, "start": "A"}}
    store, mark = tmp_path / "runs.db", Mark("1")
    waiting = roundel.run(workflow, "go", script={"A": "a", "B": "b"}, store=store, middleware=[mark])
    assert waiting.status == "waiting"

    async def answer() -> roundel.Result:
        async with roundel.Runs(store) as runs:
            await runs.answer(waiting.run_id, "yes", execute=False)
            return await runs.resume(waiting.run_id, middleware=[Mark("2")])

    assert asyncio.run(answer()).output == "b2"
    assert mark.seen == ["before A", "after A", "before Person"]

    async def texts() -> list[Any]:
        async with roundel.Runs(store) as runs:
            assert await runs.replay(waiting.run_id) is None
            events = await runs.events(waiting.run_id)
        return [event.fields()["output"] for event in events if node_status(event) == "completed"][:3]

    assert asyncio.run(texts()) == ["a1", "yes2", "b2"]


# Middleware that a workflow names.

CODE = """
import roundel

class Sign(roundel.Middleware):
    def __init__(self, sign="?"):
        self.sign = sign
    def after(self, visit, messages):
        return [message.text + self.sign for message in messages]

def nothing():
    return 3
"""


def run_file(folder: Path, named: str, **options: Any) -> roundel.Result:
    (folder / "rules.py").write_text(CODE)
    file = folder / "flow.yaml"
    nodes = "{nodes: [{id: A, type: agent}], start: A}"
    file.write_text(f"middleware: {named}\ngraph: {nodes}\n")
    return roundel.run(file, script={"A": "a"}, **options)


@pytest.mark.parametrize(
    ("middleware", "output"),
    [
        ("rules:Sign", "a?"),
        ("[rules:Sign, {name: 'rules:Sign', config: {sign: '!'}}]", "a?!"),
        ("[]", "a"),
    ],
)
def test_workflow_file_names_its_middleware(tmp_path: Path, middleware: str, output: str) -> None:
    assert run_file(tmp_path, middleware).output == output


def test_middleware_from_python_runs_after_that_of_the_workflow(tmp_path: Path) -> None:
    assert run_file(tmp_path, "rules:Sign", middleware=[Mark("!")]).output == "a?!"


def test_middleware_name_may_be_registered_or_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    roundel.middleware("marked")(Mark)

    class Point:
        value = "some.package:Mark"

        def load(self) -> Any:
            return lambda: Mark("~")

    monkeypatch.setitem(entry_points("roundel.middleware"), "offered", Point())
    workflow = chain("A", middleware=["marked", {"name": "offered"}])
    assert roundel.run(workflow, script=SCRIPT).output == "a!~"


@pytest.mark.parametrize(
    ("middleware", "reported"),
    [
        ("ruler:Sign", "there is no middleware 'ruler:Sign'"),
        ("rules:Sing", "module 'rules' has no function 'Sing'"),
        ("rules:nothing", "'rules:nothing' makes no roundel.Middleware, but an object of int"),
        ("{name: 'rules:Sign', config: {size: 1}}", "the middleware 'rules:Sign' cannot be made: TypeError"),
        ("{config: {}}", "has no 'name'"),
        ("3", "an item of 'middleware' must be a mapping"),
    ],
)
def test_missing_middleware_is_reported_before_the_run(
    tmp_path: Path, middleware: str, reported: str
) -> None:
    with pytest.raises(roundel.WorkflowError) as raised:
        run_file(tmp_path, middleware)
    assert reported in str(raised.value)
    assert "flow.yaml:1:" in str(raised.value)


def test_middleware_in_a_subgraph_file_has_no_effect(tmp_path: Path) -> None:
    (tmp_path / "inner.yaml").write_text(
        "middleware: 'x:Y'\ngraph: {nodes: [{id: A, type: passthrough}], start: A}"
    )
    outer = tmp_path / "outer.yaml"
    inner = "{type: file, config: {path: inner.yaml}}"
    outer.write_text(f"graph: {{nodes: [{{id: S, type: subgraph, config: {inner}}}], start: S}}")
    _, report = roundel.check(outer)
    assert [problem.code for problem in report.diagnostics] == ["without-effect"]


# What is odd.


@pytest.mark.parametrize("kept", [False, True])
def test_events_emitted_before_a_veto_are_published(tmp_path: Path, kept: bool) -> None:
    class Warn(roundel.Middleware):
        def before(self, visit: roundel.Visit) -> None:
            visit.tell("warning", message="a secret")
            raise roundel.Veto("no secrets")

    events: list[roundel.Event] = []
    store = tmp_path / "runs.db" if kept else None
    result = roundel.run(chain("A"), script=SCRIPT, middleware=[Warn()], on_event=events.append, store=store)
    assert result.error == "A: vetoed by the middleware Warn: no secrets"
    assert [event.event for event in events] == [
        "run_started",
        "node_state_change",
        "custom",
        "node_state_change",
        "run_finished",
    ]


def test_veto_applies_when_its_events_cannot_be_stored(tmp_path: Path) -> None:
    class Warn(roundel.Middleware):
        def before(self, visit: roundel.Visit) -> None:
            visit.tell("warning", about=object())
            raise roundel.Veto("no secrets")

    result = roundel.run(chain("A"), script=SCRIPT, middleware=[Warn()], store=tmp_path / "runs.db")
    assert result.error == "A: vetoed by the middleware Warn: no secrets"


def test_middleware_that_returns_no_message_is_named() -> None:
    class Odd(roundel.Middleware):
        def after(self, visit: roundel.Visit, messages: Messages) -> Any:
            return (message.text for message in messages)

    result = roundel.run(chain("A"), script=SCRIPT, middleware=[Odd()])
    assert result.error is not None
    assert result.error.startswith("A: the middleware Odd failed after the node: TypeError: ")


def test_hook_may_be_a_static_method() -> None:
    class Plain(roundel.Middleware):
        @staticmethod
        def before(visit: roundel.Visit) -> None:
            raise roundel.Veto("no")

    result = roundel.run(chain("A"), script=SCRIPT, middleware=[Plain()])
    assert result.error == "A: vetoed by the middleware Plain: no"
