"""The limit on rounds of tools, from the file to the requests that a provider gets."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.kernel.unlock import CHECKS
from tests.llm.story import KEY, LOOK, Story, asking, every_provider, profile, run_story, workflow
from tests.llm.wire import Recorded, Reply, Wire

NAMES = ("max_tool_calls", "maxToolCalls", "tool_loop_limit", "max_calls_per_round")
FILE = """
models:
  default:
    model: openai:gpt-4o
    base_url: {url}
    api_key: {key}
tools:
  look: {{python: "tests.llm.tools:look"}}
graph:
  breaker: {{dead_loop: false}}
  start: [A]
  end: [A]
  nodes:
    - id: A
      type: agent
      config:
        tools: [look]
        {limit}
  edges: []
"""


def insatiable(request: Recorded) -> Reply:
    """Asks for a tool whether or not there are any."""
    return Reply(text="More.", tool_calls=LOOK.tool_calls)


def run_file(wire: Wire, folder: Path, limit: str) -> Story:
    wire.replies(insatiable)
    path = folder / "workflow.yaml"
    path.write_text(FILE.format(url=wire.openai_url, key=KEY, limit=limit))
    return run_story(path)


@pytest.mark.parametrize(
    ("limit", "requests"),
    [
        ("max_tool_calls: 10", 11),
        ("max_tool_calls: 2", 3),
        ("max_tool_calls: 0", 1),
        ("maxToolCalls: 2", 3),
        ("params: {tool_loop_limit: 2}", 3),
        ("parameters: {tool_loop_limit: 2}", 3),
        ("params: {max_tool_calls: 2}", 3),
        ("params: {maxToolCalls: 0}", 1),
        ("max_tool_calls: 2\n        params: {tool_loop_limit: 5}", 3),
        ("max_tool_calls: 10\n        params: {tool_loop_limit: 5}", 11),
        ("role: Be quick", 11),
    ],
)
def test_limit_in_the_file_bounds_the_model_calls(
    wire: Wire, tmp_path: Path, limit: str, requests: int
) -> None:
    story = run_file(wire, tmp_path, limit)
    assert len(wire.requests) == requests
    assert [request.tool_names() for request in wire.requests] == [["look"]] * (requests - 1) + [[]]
    assert not any(name in json.dumps(request.body) for request in wire.requests for name in NAMES)
    assert story.result.output == "More."
    assert story.result.usage["model_calls"] == requests
    assert story.result.usage["tool_calls"] == requests - 1


def test_tool_limit_is_reported_in_event_and_data(wire: Wire, tmp_path: Path) -> None:
    story = run_file(wire, tmp_path, "max_tool_calls: 2")
    assert story.of("limit_reached") == [{"what": "tool_rounds", "limit": 2, "address": "A"}]
    assert story.result.data == {"stop_reason": "tool_limit", "answered": True, "tool_rounds": 2}


@pytest.mark.parametrize(
    "limit",
    [
        "max_tool_calls: -1",
        "maxToolCalls: -1",
        "params: {tool_loop_limit: -1}",
        "parameters: {maxToolCalls: no}",
    ],
)
def test_invalid_limit_is_rejected(wire: Wire, tmp_path: Path, limit: str) -> None:
    with pytest.raises(roundel.WorkflowError) as raised:
        run_file(wire, tmp_path, limit)
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.message == "Max tool calls must be non-negative"
    lines = (tmp_path / "workflow.yaml").read_text().splitlines()
    assert (diagnostic.line, diagnostic.column) == (len(lines) - 1, lines[-2].rindex(": ") + 3)
    assert not wire.requests


def test_tool_limit_in_a_profile_is_not_sent_to_the_provider(wire: Wire) -> None:
    wire.replies(Reply(text="Quiet."))
    run_story(workflow({"default": profile(wire, params={"tool_loop_limit": 2})}, "look"))
    assert wire.requests[0].parameters() == {}


@every_provider
def test_the_last_request_offers_no_tool(wire: Wire, provider: str) -> None:
    wire.replies(insatiable)
    run_story(asking(wire, provider, "look", max_tool_calls=1))
    first, last = (request.body for request in wire.requests)
    assert wire.requests[0].tool_names() == ["look"]
    if provider == "anthropic":  # it refuses a history with calls if the request names no tools
        assert wire.requests[1].tool_names() == ["look"]
        assert (first["tool_choice"], last["tool_choice"]) == ({"type": "auto"}, {"type": "none"})
    else:
        assert not {"tools", "tool_choice", "toolConfig"} & last.keys()


@every_provider
@pytest.mark.parametrize("choice", ["required", ["look"]], ids=str)
def test_forced_tool_choice_is_dropped_in_the_last_request(wire: Wire, provider: str, choice: Any) -> None:
    wire.replies(LOOK, Reply(text="Quiet."))
    story = run_story(asking(wire, provider, "look", max_tool_calls=1, params={"tool_choice": choice}))
    assert (story.result.output, len(wire.requests)) == ("Quiet.", 2)


@every_provider
def test_on_limit_error_fails_the_node(wire: Wire, provider: str) -> None:
    wire.replies(insatiable)
    story = run_story(asking(wire, provider, "look", max_tool_calls=3, on_limit="error"))
    assert story.error == "A: the model asked for tools again after 3 rounds of them, which is the limit"
    assert len(wire.requests) == 4
    assert [request.tool_names() for request in wire.requests] == [["look"]] * 4


@every_provider
@pytest.mark.parametrize("on_limit", ["error", "suspend"])
def test_answer_after_the_last_tool_round_is_used(wire: Wire, provider: str, on_limit: str) -> None:
    wire.replies(LOOK, LOOK, Reply(text="Quiet."))
    story = run_story(asking(wire, provider, "look", max_tool_calls=2, on_limit=on_limit))
    assert (story.result.status, story.result.output, len(wire.requests)) == ("completed", "Quiet.", 3)
    assert [request.tool_names() for request in wire.requests] == [["look"]] * 3


@every_provider
def test_model_that_only_requests_tools_has_not_answered(wire: Wire, provider: str) -> None:
    wire.replies(LOOK)
    story = run_story(asking(wire, provider, "look", max_tool_calls=2))
    assert (story.result.status, story.result.output, len(wire.requests)) == ("completed", "", 3)
    assert story.result.data == {"stop_reason": "tool_limit", "answered": False, "tool_rounds": 2}


@every_provider
def test_unlock_reuses_the_request_that_reached_the_limit(wire: Wire, provider: str, tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    wire.replies(LOOK, LOOK, Reply(text="Quiet."))
    flow = asking(wire, provider, "look", max_tool_calls=1, on_limit="suspend")
    locked = roundel.run(flow, "go", store=store)
    assert (locked.status, len(wire.requests)) == ("suspended_locked", 2)

    async def unlock() -> roundel.Result:
        async with roundel.Runs(store) as runs:
            await runs.unlock(locked.run_id, "one more", checks=CHECKS, execute=False)
        return await roundel.resume_async(locked.run_id, store=store, workflow=flow)

    result = asyncio.run(unlock())
    assert (result.status, result.output) == ("completed", "Quiet.")
    assert len(wire.requests) == 3
    assert len(wire.requests[-1].tool_results()) == 2


def test_calls_beyond_the_round_width_get_results(wire: Wire) -> None:
    calls = tuple((f"a{number}", "look", {"place": "Oslo"}) for number in range(3))
    wire.replies(Reply(tool_calls=calls), Reply(text="Quiet."))
    story = run_story(asking(wire, "openai", "look", max_calls_per_round=2))
    results = dict(wire.requests[1].tool_results())
    assert list(results) == ["a0", "a1", "a2"]
    assert "only 2 calls are allowed at once" in results["a2"]
    assert story.result.usage["tool_calls"] == 2
