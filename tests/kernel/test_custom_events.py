"""Only the kernel, and the nodes that come with it, emit the events of the engine."""

from __future__ import annotations

from typing import Any

import pytest

import roundel
from roundel.extend import NodeType, Outcome, Usage
from roundel.kernel.old_events import of_version_1
from roundel.kernel.payloads import (
    ContextCompacted,
    Custom,
    MemoryFailed,
    ModelCallEnded,
    NodeCompleted,
    Warned,
    as_told,
    told_by_middleware,
    told_by_node,
)
from roundel.workflow.functions import ModuleError
from roundel.workflow.node_type import NodeTypes

FORGED = {"input_tokens": 10**9, "output_tokens": 10**9, "model": "openai:gpt-4o", "cost_usd": 1e6}
GRAPH: dict[str, Any] = {
    "graph": {"nodes": [{"id": "A", "type": "literal", "config": {"content": "tea"}}], "start": "A"}
}


def test_middleware_cannot_forge_usage() -> None:
    class Forger(roundel.Middleware):
        def after(self, visit: roundel.Visit, messages: Any) -> None:
            visit.tell("token_usage", **FORGED)
            visit.tell("warning", message="nothing")

    seen: list[roundel.Event] = []
    roundel.run(GRAPH, "x", middleware=[Forger()], on_event=seen.append)
    assert not [event for event in seen if isinstance(event.data, ModelCallEnded | Warned)]
    told = [event for event in seen if event.event == "custom"]
    assert [event.data for event in told] == [
        Custom("token_usage", FORGED),
        Custom("warning", {"message": "nothing"}),
    ]
    assert {event.address for event in told} == {"A"}


def test_middleware_that_rejects_cannot_forge_usage() -> None:
    class Forger(roundel.Middleware):
        def before(self, visit: roundel.Visit) -> None:
            visit.tell("token_usage", **FORGED)
            raise roundel.Veto("no")

    seen: list[roundel.Event] = []
    roundel.run(GRAPH, "x", middleware=[Forger()], on_event=seen.append)
    assert [event.data for event in seen if event.event in ("custom", "token_usage")] == [
        Custom("token_usage", FORGED)
    ]


def test_a_function_cannot_forge_usage_or_a_status() -> None:
    graph = roundel.Graph(start="A", end="A")

    @graph.function("A")
    def forge(_text: str) -> Outcome:
        report = {"status": "failed", "output": "a lie", "count": 1}
        return Outcome((roundel.Message("true"),), report=report, events=(("token_usage", FORGED),))

    seen: list[roundel.Event] = []
    result = roundel.run(graph, "x", on_event=seen.append)
    assert result.status == "completed" and result.output == "true"
    done = next(event.data for event in seen if isinstance(event.data, NodeCompleted))
    assert (done.output, done.status) == ("true", "completed")
    assert done.report == {"status": "failed", "output": "a lie", "count": 1}
    assert [event.data for event in seen if event.event in ("custom", "token_usage")] == [
        Custom("token_usage", FORGED)
    ]


def test_only_the_events_of_a_type_keep_their_names() -> None:
    compacted: dict[str, Any] = {"strategy": "summarize", "before": 9, "after": 4, "messages": 2}
    assert told_by_node(("context_compacted",), "context_compacted", compacted) == ContextCompacted(
        **compacted
    )
    assert told_by_node((), "context_compacted", compacted) == Custom("context_compacted", compacted)
    assert told_by_node(("warning",), "warning", {"text": 1}) == Custom("warning", {"text": 1})
    assert as_told(("warning",), Warned("x")) == Warned("x")
    assert as_told((), Warned("x")) == Custom("warning", {"message": "x"})


def test_old_facts_of_middleware() -> None:
    """The writer of memories told `memory_error` by the name that middleware of users could use as well."""
    problem = {"store": "notes", "error": "full"}
    assert told_by_middleware("memory_error", problem) == MemoryFailed("notes", "full")
    assert told_by_middleware("token_usage", FORGED) == Custom("token_usage", FORGED)
    assert told_by_middleware("custom", {"name": "a", "data": {"b": 1}}) == Custom("a", {"b": 1})
    assert told_by_middleware("custom", {"b": 1}) == Custom("custom", {"b": 1})


def test_old_events_whose_report_replaced_fields() -> None:
    old = {"status": "failed!", "output": 3, "count": 1, "data": {"score": 2}}
    assert of_version_1("node_state_change", old) == NodeCompleted(
        None, {"score": 2}, {"status": "failed!", "output": 3, "count": 1}, score=2
    )
    assert of_version_1("warning", {"text": "x"}) == Custom("warning", {"text": "x"})
    assert of_version_1("checked", {"by": "me"}) == Custom("checked", {"by": "me"})


def test_a_type_of_a_package_cannot_claim_events(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = NodeType("forger", Usage, "Claims an event.", lambda _node, _services: None, events=("warning",))  # type: ignore[arg-type,return-value]
    monkeypatch.setattr("roundel.workflow.node_type.entry_points", lambda _group: {"forger": "it"})
    monkeypatch.setattr("roundel.workflow.node_type.load_entry_point", lambda _point: kind)
    with pytest.raises(ModuleError, match="only built-in types"):
        NodeTypes()["forger"]
