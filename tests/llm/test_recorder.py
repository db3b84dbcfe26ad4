"""Replies of models are recorded as a script that replays the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.llm.story import KEY, Story, asking, every_provider, every_way, profile, run_story, workflow
from tests.llm.wire import Recorded, Reply, Wire
from tests.llm.wire.reply import ToolCall

LIVE = {"token_stream", "call_sent", "warning"}
"""Events of real models alone: how they speak, and what went wrong before they did."""


def plot(story: Story) -> list[tuple[Any, ...]]:
    """What happened, without what is never the same twice: times, the id of the run, models and prices, and
    which of two tools in two threads was quicker."""
    events = [event for event in story.events if event.event not in LIVE]
    trace = [
        (event.event, event.node_id, event.address, without_volatile_fields(event.fields()))
        for event in events
    ]
    places = [number for number, event in enumerate(events) if event.event == "tool_call"]
    calls = sorted((trace[number] for number in places), key=lambda call: str(call[2:]))
    for number, call in zip(places, calls, strict=True):
        trace[number] = call
    return trace


def without_volatile_fields(data: Any) -> Any:
    if isinstance(data, dict):
        skipped = {"model", "cost_usd", "unpriced_calls", "run_id", "seconds", "first_token", "scripted"}
        skipped |= {"total", "work_seconds", "stop", "attempts"}
        return {name: without_volatile_fields(value) for name, value in data.items() if name not in skipped}
    return data


def twice(source: Any, file: Path, input: str = "How is it?") -> tuple[Story, Story]:
    """A run with real models, and the same from its record."""
    return run_story(source, input, record=file), run_story(source, input, script=file)


@every_provider
@every_way
def test_tool_rounds_are_replayed(wire: Wire, tmp_path: Path, provider: str, stream: bool) -> None:
    calls: tuple[ToolCall, ...] = (
        ("a1", "look", {"place": "Oslo"}),
        ("a2", "fly", {}),
        ("a3", "look", {"place": "Tromsø"}),
    )
    wire.replies(Reply(text="Let me look.", tool_calls=calls), Reply(text="Quiet."))
    first, second = twice(asking(wire, provider, "look", stream=stream), tmp_path / "said.yaml")
    assert len(wire.requests) == 2
    assert plot(first) == plot(second)
    assert second.result.output == "Quiet."


def test_record_is_a_readable_script(wire: Wire, tmp_path: Path) -> None:
    wire.replies(Reply(tool_calls=(("a1", "look", {"place": "Oslo"}),)), Reply(text="Quiet."))
    run_story(asking(wire, "openai", "look"), record=tmp_path / "said.yaml")
    text = (tmp_path / "said.yaml").read_text()
    assert KEY not in text
    tokens = {"input": 10, "output": 5}
    call = {"id": "a1", "name": "look", "arguments": {"place": "Oslo"}}
    assert yaml.safe_load(text) == {
        "A": [
            {"at": "A", "text": "", "tool_calls": [call], "tokens": tokens},
            {"at": "A", "call": 1, "text": "Quiet.", "tokens": tokens},
        ]
    }


def test_malformed_tool_arguments_are_replayed(wire: Wire, tmp_path: Path) -> None:
    wire.replies(Reply(tool_calls=(("a1", "look", '{"place": "Os'),)), Reply(text="Quiet."))
    first, second = twice(asking(wire, "openai", "look"), tmp_path / "said.yaml")
    assert plot(first) == plot(second)


def test_parts_of_a_dynamic_edge_are_replayed(wire: Wire, tmp_path: Path) -> None:
    def answer(request: Recorded) -> Reply:
        item = int(request.messages()[1]["content"])
        if request.tool_results() or item % 2:
            return Reply(text=f"item {item}", delay=0.02 * (9 - item))
        call = ("a1", "look", {"place": f"number {item}"})
        return Reply(tool_calls=(call,), delay=0.02 * (9 - item))

    wire.replies(answer)
    source = asking(wire, "openai", "look", role="You count.")
    graph = source["graph"]
    graph["nodes"].insert(0, {"id": "Items", "type": "literal", "config": {"content": "1 2 3 4 5 6 7 8"}})
    split = {"type": "regex", "config": {"pattern": r"\d+"}}
    spread = {"type": "map", "split": split, "config": {"max_parallel": 8}}
    graph["start"], graph["edges"] = ["Items"], [{"from": "Items", "to": "A", "dynamic": spread}]
    first, second = twice(source, tmp_path / "said.yaml")
    assert len(wire.requests) == 12
    assert first.result.output == second.result.output
    assert sorted(map(repr, plot(first))) == sorted(map(repr, plot(second)))


def test_loop_is_replayed(wire: Wire, tmp_path: Path) -> None:
    wire.replies(*(Reply(text=f"draft {number}") for number in range(1, 5)))
    source = asking(wire)
    graph = source["graph"]
    graph["nodes"].append({"id": "Gate", "type": "loop_counter", "config": {"max_iterations": 3}})
    graph["nodes"].append({"id": "Out", "type": "passthrough", "config": {}})
    pairs = [("A", "A"), ("A", "Gate"), ("Gate", "A"), ("Gate", "Out")]
    graph["edges"] = [{"from": one, "to": other} for one, other in pairs]
    graph["end"] = ["Out"]
    first, second = twice(source, tmp_path / "said.yaml")
    assert plot(first) == plot(second)


def test_repairs_and_reflections_are_replayed(wire: Wire, tmp_path: Path) -> None:
    wire.replies(Reply(text="seven"), Reply(text='{"score": 7}'), Reply(text='{"score": 8}'))
    schema = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}
    thinking = {"type": "reflection", "config": {"reflection_prompt": "Look again."}}
    source = asking(wire, output_schema=schema, thinking=thinking)
    first, second = twice(source, tmp_path / "said.yaml")
    assert plot(first) == plot(second)
    assert second.result.data == {"score": 8}


@pytest.mark.parametrize("on_error", ["fail", "message"])
def test_failure_is_replayed(wire: Wire, tmp_path: Path, on_error: str) -> None:
    wire.replies(Reply(status=401))
    first, second = twice(asking(wire, on_error=on_error), tmp_path / "said.yaml")
    assert plot(first) == plot(second)
    assert KEY not in (tmp_path / "said.yaml").read_text()


def test_failed_attempt_is_not_replayed_if_the_retry_succeeded(wire: Wire, tmp_path: Path) -> None:
    wire.replies(Reply(status=400), Reply(text="Quiet."))
    source = workflow({"default": profile(wire)})
    node = source["graph"]["nodes"][0]
    node["retry"] = {"max_attempts": 2, "min_wait_seconds": 0, "max_wait_seconds": 0}
    first, second = twice(source, tmp_path / "said.yaml")
    assert first.result.output == second.result.output == "Quiet."
