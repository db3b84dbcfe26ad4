"""Workflows from Python."""

from __future__ import annotations

import asyncio
import gc
import warnings
from pathlib import Path
from typing import Any

import pytest

import roundel
from tests.events import node_status

FILE = """
graph:
  id: review
  start: Writer
  end: Final
  nodes:
    - {id: Writer, type: agent, config: {role: Write.}, context_window: 2}
    - {id: Gate, type: loop_counter, config: {max_iterations: 2}}
    - {id: Final, type: passthrough}
  edges:
    - {from: Writer, to: Writer, condition: {type: keyword, config: {none: [DONE]}}}
    - {from: Writer, to: Gate}
    - {from: Gate, to: Writer}
    - {from: Gate, to: Final}
    - {from: Writer, to: Final, condition: {type: keyword, config: {any: [DONE]}}}
"""


def built() -> roundel.Graph:
    graph = roundel.Graph("review", start="Writer", end="Final")
    graph.node("Writer", "agent", role="Write.", context_window=2)
    graph.node("Gate", "loop_counter", max_iterations=2)
    graph.node("Final", "passthrough")
    graph.edge("Writer", "Writer", condition={"type": "keyword", "config": {"none": ["DONE"]}})
    graph.edge("Writer", "Gate").edge("Gate", "Writer").edge("Gate", "Final")
    return graph.edge("Writer", "Final", condition={"type": "keyword", "config": {"any": ["DONE"]}})


def test_builder_and_file_give_the_same_workflow(tmp_path: Path) -> None:
    file = tmp_path / "review.yaml"
    file.write_text(FILE)
    assert roundel.load(file).graph == built().workflow().graph


def test_run_returns_the_result() -> None:
    result = roundel.run(built(), "go", script={"Writer": ["one", "DONE"]})
    assert result.completed
    assert result.output == "DONE"
    assert result.loops == {"Writer": {"rounds": 2, "exit_reason": "exit_edge", "entries": 1}}
    assert result.usage["model_calls"] == 2


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("max_tokens", "tokens"),
        ("cost", "cost_usd"),
        ("budget", "cost_usd"),
        ("max_cost_usd", "cost_usd"),
        ("calls", "model_calls"),
        ("timeout", "seconds"),
    ],
)
def test_a_limit_that_does_not_exist_is_an_error_and_not_no_limit(wrong: str, right: str) -> None:
    hint = f"'{wrong}'.*did you mean '{right}'"
    limits = {wrong: 10}
    limited: list[Any] = [
        roundel.Graph("g", start="A", limits=limits).node("A", "agent"),
        roundel.Graph("g", start="A").node("A", "agent", limits=limits),
        roundel.Graph("g", start="A", loops={"A": {"limits": limits}}).node("A", "agent").edge("A", "A"),
        {"limits": limits, "graph": {"start": "A", "nodes": [{"id": "A", "type": "agent"}]}},
    ]
    for workflow in limited:
        with pytest.raises(roundel.WorkflowError, match=hint):
            roundel.run(workflow, script={"A": "tea"})
    with pytest.raises(ValueError, match=hint):
        roundel.run(roundel.Agent("A"), script={"A": "tea"}, limits=limits)


def test_run_accepts_files_mappings_builders_workflows_and_plans(tmp_path: Path) -> None:
    file = tmp_path / "review.yaml"
    file.write_text(FILE)
    graph = built()
    sources: list[Any] = [file, str(file), graph, graph.mapping(), graph.workflow(), roundel.prepare(graph)]
    for source in sources:
        assert roundel.run(source, "go", script={"Writer": "DONE"}).output == "DONE"


def test_stream_yields_events_as_they_happen() -> None:
    async def watch() -> list[str]:
        stream = roundel.stream(built(), "go", script={"Writer": ["one", "DONE"]})
        return [event.event async for event in stream]

    seen = asyncio.run(watch())
    assert seen[0] == "run_started"
    assert seen[-1] == "run_finished"
    assert seen.count("loop_round") == 2


def test_closing_the_stream_stops_the_run() -> None:
    stopped = []
    graph = roundel.Graph(start="A", end="A")

    @graph.function("A")
    async def endless() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            stopped.append(True)

    async def watch() -> None:
        stream = roundel.stream(graph, "go")
        async for event in stream:
            if node_status(event) == "running":
                break
        await stream.aclose()

    asyncio.run(watch())
    assert stopped == [True]


def test_stream_raises_workflow_errors() -> None:
    async def watch() -> None:
        async for _ in roundel.stream(built(), "go"):
            pass

    with pytest.raises(roundel.WorkflowError, match="has no model"):
        asyncio.run(watch())


def test_functions_are_accepted_wherever_a_file_names_one() -> None:
    graph = roundel.Graph(start="Count", end="Out")

    @graph.function("Count", ports=["again", "done"])
    def count(data: dict[str, int]) -> roundel.Outcome:
        number = data.get("number", 0) + 1
        return roundel.to("done" if number == 3 else "again", {"data": {"number": number}})

    def loud(message: roundel.Message) -> str:
        return f"{(message.data or {})['number']}!"

    graph.node("Out", "passthrough").edge("Count", "Count", port="again")
    graph.edge("Count", "Out", port="done", process=loud, condition=lambda message: True)
    result = roundel.run(graph, "go")
    assert (result.output, result.nodes) == ("3!", {"Count": 3, "Out": 1})


def test_a_condition_function_that_raises_fails_the_run() -> None:
    graph = roundel.Graph(start="A", end="B")
    graph.node("A", "literal", content="x").node("B", "passthrough")

    def broken(message: roundel.Message) -> bool:
        raise KeyError("mood")

    graph.edge("A", "B", condition=broken)
    result = roundel.run(graph)
    assert result.status == "failed"
    assert result.error is not None
    assert "A → B" in result.error
    assert "mood" in result.error


def test_a_processor_may_drop_a_message_and_then_nothing_is_triggered() -> None:
    graph = roundel.Graph(start="A", end="B")
    graph.node("A", "literal", content="x").node("B", "passthrough")
    graph.edge("A", "B", process=lambda message: None)
    events: list[roundel.Event] = []
    result = roundel.run(graph, on_event=events.append)
    assert (result.status, result.output) == ("completed", "")
    assert [event.fields() for event in events if event.event == "end_not_reached"] == [{"edges": ["A → B"]}]


def test_all_errors_are_reported_together() -> None:
    graph = roundel.Graph(start="A", end="Nowhere")
    graph.node("A", "literal").node("B", "loop_countr")
    with pytest.raises(roundel.WorkflowError) as caught:
        graph.workflow()
    codes = {diagnostic.code for diagnostic in caught.value.diagnostics}
    assert codes == {"missing-key", "unknown-type", "unknown-node"}


def test_check_returns_the_report() -> None:
    graph = roundel.Graph(start="A", end="A")
    graph.node("A", "literal", content="x").node("B", "passthrough")
    workflow, report = roundel.check(graph)
    assert workflow is not None
    assert [diagnostic.code for diagnostic in report.diagnostics] == ["never-runs"]


def test_subgraphs_nest_in_python() -> None:
    inner = roundel.Graph("inner", start="Shout", end="Shout")

    @inner.function("Shout")
    def shout(text: str) -> str:
        return text.upper()

    outer = roundel.Graph("outer", start="In", end="Sub")
    outer.node("In", "passthrough").node("Sub", "subgraph", graph=inner).edge("In", "Sub")
    assert roundel.run(outer, "quiet").output == "QUIET"


def test_public_names_exist() -> None:
    for name in roundel.__all__:
        assert getattr(roundel, name) is not None
    with pytest.raises(AttributeError):
        _ = roundel.nothing_of_the_kind


def test_unknown_option_is_reported_by_name() -> None:
    with pytest.raises(TypeError, match="there is no option 'scrpt'; known are script, ask"):
        roundel.run(built(), "go", scrpt={})  # type: ignore[call-arg]


@pytest.mark.parametrize("name", ["run", "resume"])
def test_a_blocking_call_in_a_running_event_loop_points_to_the_coroutine(name: str) -> None:
    async def story() -> None:
        with pytest.raises(RuntimeError, match=rf"await roundel\.{name}_async\("):
            getattr(roundel, name)("flow.yaml")

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        asyncio.run(story())
        gc.collect()
    assert not [str(warning.message) for warning in warned], "no coroutine is left that nobody awaits"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("limits", "give it when you create the graph: Graph(…, limits=…)"),
        ("limts", "did you mean 'limits'?"),
        ("start", "Graph(…, start=…)"),
        ("id", "Graph(…, id=…)"),
        ("tools", "Graph(…, tools=…)"),
        ("nodes", "add them with `graph.node(…)`"),
        ("sandwiches", "settings of a graph: args, breaker, context"),
    ],
)
def test_an_attribute_of_a_graph_that_would_have_no_effect_is_an_error(name: str, hint: str) -> None:
    graph = built()
    with pytest.raises(AttributeError, match=f"'{name}' of a Graph cannot be set") as refused:
        setattr(graph, name, {"tokens": 1})
    assert hint in str(refused.value)
    assert graph.id == "review"


def test_a_class_of_its_own_may_have_attributes_that_are_no_settings() -> None:
    class Review(roundel.Graph):
        def __init__(self, editor: str) -> None:
            super().__init__("review", start=editor)
            self.editor = editor

    assert Review("Ann").editor == "Ann"
    with pytest.raises(AttributeError, match="'limits' of a Graph cannot be set"):
        Review("Ann").limits = {"tokens": 1}


def test_check_reports_agents_without_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROUNDEL_MODEL", raising=False)
    graph = roundel.Graph(start="A", end="A").node("A", "agent")
    _, report = roundel.check(graph)
    assert [(one.severity, one.code) for one in report.diagnostics] == [("warning", "no-model")]
    assert roundel.check(graph, model="openai:gpt-4o")[1].diagnostics == []
    monkeypatch.setenv("ROUNDEL_MODEL", "openai:gpt-4o")
    assert roundel.check(graph)[1].diagnostics == []


def test_check_does_not_make_middleware() -> None:
    made = []

    @roundel.middleware("careful")
    class Careful(roundel.Middleware):
        def __init__(self, level: int) -> None:
            made.append(level)

    nodes = [{"id": "A", "type": "passthrough"}]
    graph = {"nodes": nodes, "start": "A", "end": "A"}
    source = {"graph": graph, "middleware": [{"name": "careful", "config": {"level": 1}}]}
    assert roundel.check(source)[1].diagnostics == []
    (found,) = roundel.check({**source, "middleware": [{"name": "careful", "config": {"depth": 1}}]})[
        1
    ].errors
    assert "the middleware 'careful' cannot be made: missing a required argument: 'level'" in found.message
    assert made == []
