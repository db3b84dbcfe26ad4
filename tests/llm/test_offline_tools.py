"""A scripted run is offline: it starts no MCP server, and a script may give the results of tool calls."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import roundel
from roundel.llm import mcp
from tests.llm.wire import Reply, Wire
from tests.nodes.conversations import run_conversation, wants

TOOLBOX = str(Path(__file__).parent / "servers" / "toolbox.py")


def workflow(tools: dict[str, Any], /, **config: Any) -> dict[str, Any]:
    node = {"id": "A", "type": "agent", "config": config}
    return {"tools": tools, "graph": {"nodes": [node], "start": "A", "end": "A"}}


@pytest.fixture
def started(tmp_path: Path) -> tuple[dict[str, Any], Path]:
    """A server, and the file that it makes when it is started."""
    mark = tmp_path / "started"
    program = f"open({str(mark)!r}, 'w').close()"
    return {"command": sys.executable, "args": ["-c", program]}, mark


def test_a_scripted_run_starts_no_program(started: tuple[dict[str, Any], Path]) -> None:
    server, mark = started
    near = workflow({"near": {"mcp": server}}, tools=["near"])
    assert run_conversation(near, {"A": "done"}).result.output == "done"
    local = {"type": "mcp_local", "config": server}
    assert run_conversation(workflow({}, tooling=[local]), {"A": "done"}).result.output == "done"
    asks = [wants("near_read", path="x"), "done"]
    assert run_conversation(near, {"A": asks}).result.output == "done"
    assert not mark.exists()


def test_a_scripted_run_connects_to_no_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        remote = {"type": "mcp_remote", "config": {"server": url}}
        for source in (
            workflow({"far": {"mcp": {"url": url}}}, tools=["far"]),
            workflow({}, tooling=[remote]),
        ):
            assert run_conversation(source, {"A": [wants("search", q="tea"), "done"]}).result.output == "done"
        with pytest.raises(BlockingIOError):
            listening.accept()


def test_scripted_run_does_not_need_the_mcp_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp, "find_spec", lambda _name: None)
    source = workflow({"far": {"mcp": {"url": "http://localhost:1"}}}, tools=["far"])
    assert run_conversation(source, {"A": "done"}).result.output == "done"
    with pytest.raises(roundel.WorkflowError, match="MCP tools need the extra"):
        roundel.run(
            {**source, "models": {"default": {"model": "openai:m", "base_url": "http://localhost:1"}}}
        )


SERVED = {"far": {"mcp": {"url": "http://localhost:1"}}, "mean": {"python": "statistics:mean"}}


def call(name: str, **more: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": {"data": [1, 3]}, **more}]}


def test_script_provides_mcp_tool_results() -> None:
    source = workflow(SERVED, tools=["far", "mean"])
    replies = [
        call("search", result="three hits"),
        call("search", result={"hits": 3}),
        call("search", result=""),
        call("search", error="the index is gone"),
        call("search"),
        call("mean"),
        "done",
    ]
    story = run_conversation(source, {"A": replies})
    *given, missing, mean = story.results()
    assert given == ["three hits", '{"hits": 3}', "", "the index is gone"]
    assert missing == (
        "there is no tool 'search'; there are: mean; "
        "a scripted run starts no MCP server: give the call a `result` in the script"
    )
    assert mean == "2", "a Python tool is called for real"
    assert story.result.usage["tool_calls"] == 5


def test_script_may_replace_a_python_tool() -> None:
    source = workflow(SERVED, tools=["mean"])
    assert run_conversation(source, {"A": [call("mean", result=42), "done"]}).results() == ["42"]
    [unknown] = run_conversation(source, {"A": [call("search", result=42), "done"]}).results()
    assert unknown == "there is no tool 'search'; there are: mean"


def test_approval_applies_to_scripted_tool_results() -> None:
    source = workflow(SERVED, tools=["far"], approval=["search"])
    script = {"A": [call("search", result="x"), call("search", result="y"), "done"]}
    story = run_conversation(source, {**script, "A/search": ["approve", "reject: no"]})
    assert story.results() == ["x", "a person did not allow this call: no"]


def test_result_and_error_together_are_rejected() -> None:
    with pytest.raises(roundel.WorkflowError) as caught:
        run_conversation(workflow(SERVED, tools=["mean"]), {"A": [call("mean", result=1, error="x")]})
    [found] = caught.value.diagnostics
    assert found.code == "two-results"


def test_record_contains_mcp_results_for_offline_replay(tmp_path: Path) -> None:
    server = {"command": sys.executable, "args": [TOOLBOX, "stdio"]}
    source = workflow({"box": {"mcp": server}, "mean": {"python": "statistics:mean"}}, tools=["box", "mean"])
    kept = tmp_path / "said.yaml"
    asks = (
        ("c1", "echo", {"text": "tea"}),
        ("c2", "fail", {"text": "Atlantis"}),
        ("c3", "mean", {"data": [4]}),
    )
    with Wire() as wire:
        source["models"] = {"default": {"model": "openai:m", "base_url": wire.openai_url, "api_key": "k"}}
        wire.replies(Reply(tool_calls=asks), Reply("done"))
        first = run_conversation(source, None, record=kept)
    assert sorted(first.results()) == ["4", "no such city: Atlantis", "tea"]
    calls = yaml.safe_load(kept.read_text())["A"][0]["tool_calls"]
    assert [(one.get("result"), one.get("error")) for one in calls] == [
        ("tea", None),
        (None, "no such city: Atlantis"),
        (None, None),  # a Python tool is called again
    ]
    source["tools"]["box"] = {"mcp": {"url": "http://localhost:1"}}
    again = run_conversation(source, yaml.safe_load(kept.read_text()))
    assert sorted(again.results()) == sorted(first.results())
    assert again.result.output == "done"
