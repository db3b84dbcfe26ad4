"""Lists of messages that become too long: what is dropped, what a summary replaces, what must stay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import roundel
from roundel.llm.script import script_from
from roundel.nodes.compaction import (
    apply_compaction,
    message_tokens,
    plan_compaction,
    text_tokens,
    unit_tokens,
)
from roundel.nodes.services import Exchange, Reply, ToolRequest, ToolResult
from roundel.workflow.context import Context
from roundel.workflow.message import Message
from tests.events import node_status
from tests.kernel.test_context import SEEN, agent, given_first, loop

WORDS = "x" * 36
"""A text of 13 tokens."""


def events_of(workflow: Any, script: dict[str, Any], **options: Any) -> tuple[Any, list[Any]]:
    events: list[Any] = []
    result = roundel.run(workflow, "tea", script=script, on_event=events.append, **options)
    return result, events


def compactions(events: list[Any]) -> list[Any]:
    return [(event.address, event.fields()) for event in events if event.event == "context_compacted"]


def outputs(events: list[Any], node: str) -> list[Any]:
    said = [e.fields()["output"] for e in events if e.node_id == node and node_status(e) == "completed"]
    return [json.loads(one) for one in said]


def test_a_message_counts_a_quarter_of_its_bytes_and_four() -> None:
    assert [text_tokens(text) for text in ("", "abcd", "abcde", "茶茶")] == [4, 5, 6, 6]


@pytest.mark.parametrize("strategy", ["drop_oldest", "summarize"])
def test_a_long_history_is_compacted(strategy: str) -> None:
    context = {"max_tokens": 60, "strategy": strategy, "keep_last": 1}
    writer = agent("Writer", context=context, prompt=SEEN)
    script = {"Critic": [f"{WORDS}{number}" for number in range(6)], "Writer/context": ["all of it"]}
    result, events = events_of(loop(writer, rounds=6), script)
    assert result.status == "completed", result.error
    for address, data in compactions(events):
        assert address.endswith("/Writer/context")
        assert data["strategy"] == strategy
        assert data["after"] <= 60 < data["before"]
        assert data["messages"] > 0
    assert compactions(events)
    last = given_first(outputs(events, "Writer"))[-1]
    assert last[0] == "tea"  # the task always stays
    assert last[-1] == f"{WORDS}4"
    if strategy == "summarize":
        assert last[1].startswith("Summary of ")
        assert last[1].endswith(" earlier messages:\nall of it")
        assert (
            sum(text.startswith("Summary") for text in last) == 1
        )  # a later summary includes the earlier one
        assert result.usage["model_calls"] == 12 + len(compactions(events))
    else:
        assert result.usage["model_calls"] == 12


def test_without_a_script_for_summaries_they_say_how_many_messages_there_were() -> None:
    """Replies for every node do not answer for summaries."""
    context = {"max_tokens": 60, "strategy": "summarize", "keep_last": 1}
    writer = agent("Writer", context=context, prompt=SEEN)
    nodes = {"Critic": [f"{WORDS}{number}" for number in range(5)], "Guard": ["*"]}
    _, events = events_of(loop(writer, rounds=5), nodes)
    ((_, data), *_) = compactions(events)
    summary = f"Summary of {data['messages']} earlier messages:\n{data['messages']} messages"
    assert any(summary in seen for seen in outputs(events, "Writer"))
    script = script_from({"*": ["not this"]})
    assert script.line("Writer/context", 0, optional=True) is None


def test_a_summary_that_fails_drops_the_messages_with_a_warning() -> None:
    context = {"max_tokens": 60, "strategy": "summarize", "keep_last": 1}
    writer = agent("Writer", context=context, prompt=SEEN)
    script = {
        "Critic": [f"{WORDS}{number}" for number in range(4)],
        "Writer/context": [{"error": "overloaded"}],
    }
    result, events = events_of(loop(writer, rounds=4), script)
    assert result.status == "completed"
    warned = [event.fields()["message"] for event in events if event.event == "warning"]
    assert any("the summary failed" in text and "overloaded" in text for text in warned)
    assert all(data["strategy"] == "drop_oldest" for _, data in compactions(events))


def test_summaries_are_within_the_limits(tmp_path: Path) -> None:
    context = {"max_tokens": 60, "strategy": "summarize", "keep_last": 1}
    writer = agent("Writer", context=context, prompt=SEEN)
    script = {"Critic": [f"{WORDS}{number}" for number in range(6)]}
    _, events = events_of(loop(writer, rounds=6), script)
    first = next(place for place, event in enumerate(events) if event.event == "context_compacted")
    before = sum(
        node_status(event) == "completed" for event in events[:first] if event.node_id in ("Writer", "Critic")
    )
    result, _ = events_of(
        loop(writer, rounds=6), script, limits={"model_calls": before}, store=tmp_path / "runs.db"
    )
    assert result.status == "suspended_locked"
    assert result.usage["model_calls"] == before


def test_what_must_stay_and_does_not_fit_fails_the_node() -> None:
    writer = agent("Writer", context={"max_tokens": 10, "policy": "task"}, role=WORDS)
    result, _ = events_of(loop(writer), {"Critic": ["shorter"]})
    assert result.status == "failed"
    assert "does not fit; set `context: {max_tokens: …}`" in str(result.error)


def test_an_error_edge_may_take_an_overflow() -> None:
    nodes = [agent("A", context={"max_tokens": 4}), {"id": "Sorry", "type": "passthrough"}]
    edges = [{"from": "A", "to": "Sorry", "port": "error"}]
    workflow = {"graph": {"start": "A", "end": ["A", "Sorry"], "nodes": nodes, "edges": edges}}
    result, _ = events_of(workflow, {"A": ["x"]})
    assert result.data is not None
    assert result.data["type"] == "ContextOverflow"


def test_an_overflow_that_a_provider_reports_halves_the_list_once() -> None:
    writer = agent("Writer", context={"policy": "history", "keep_last": 1}, prompt=SEEN)
    overflow = {"error": "too long", "type": "ContextOverflow"}
    script = {
        "Writer": ["one", "two", overflow, "three"],
        "Critic": [f"{WORDS}{number}" for number in range(3)],
    }
    result, events = events_of(loop(writer), script)
    assert result.status == "completed", result.error
    ((address, data),) = compactions(events)
    assert address == "Writer[3]/Writer/context"
    assert data["after"] <= data["before"] // 2
    result, _ = events_of(loop(writer), {**script, "Writer": ["one", "two", overflow, overflow]})
    assert (result.status, "too long" in str(result.error)) == ("failed", True)


def test_without_a_mapping_an_overflow_fails_the_node() -> None:
    overflow = {"error": "too long", "type": "ContextOverflow"}
    result, events = events_of(
        loop(agent("Writer", context="history")), {"Writer": ["one", overflow], "Critic": ["a"]}
    )
    assert result.status == "failed"
    assert not compactions(events)


def exchange(text: str) -> Exchange:
    request = ToolRequest("1", "look")
    return Exchange(Reply("", tool_calls=(request,)), (ToolResult("1", "look", "completed", text),))


units = st.lists(
    st.one_of(st.text(max_size=60).map(Message), st.text(max_size=60).map(exchange)), max_size=12
)


@given(
    units,
    st.integers(0, 50),
    st.integers(1, 200),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(1, 4),
    st.sampled_from(["drop_oldest", "summarize"]),
)
def test_the_task_and_the_newest_stay_and_sizes_are_right(
    mixed: list[Any], fixed: int, limit: int, head: int, first: int, last: int, strategy: Any
) -> None:
    messages = tuple(unit for unit in mixed if isinstance(unit, Message))
    exchanges = tuple(unit for unit in mixed if isinstance(unit, Exchange))
    head = min(head, len(messages))
    context = Context("history", limit, strategy, first, last)
    compacted = plan_compaction((*messages, *exchanges), fixed, context, head)
    kept, left = apply_compaction(compacted, messages, exchanges)
    size = fixed + sum(map(message_tokens, kept)) + sum(map(unit_tokens, left))
    everything: tuple[Message | Exchange, ...] = (*messages, *exchanges)
    assert compacted.before == fixed + sum(map(unit_tokens, everything))
    assert compacted.after == size
    assert kept[:head] == messages[:head]
    assert (*kept, *left)[-1:] == (*messages, *exchanges)[-1:]
    assert compacted.fits == (size <= limit)
    if compacted.before <= limit:
        assert not compacted.removed
