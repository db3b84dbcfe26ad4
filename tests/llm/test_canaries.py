"""A distinct canary stands in every source of secrets, and is in no place where runs are stored or shown."""

from __future__ import annotations

import asyncio
import json
import traceback
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.journal import run_journal
from roundel.kernel.unlock import CHECKS
from roundel.telemetry import Metrics
from tests.llm.canaries import CANARIES, EVERYTHING, SAYS, SOURCES, TOOLS, Gossip, World
from tests.llm.wire import Reply, Wire
from tests.telemetry.in_memory import RecordedTelemetry


@pytest.fixture
def world(
    tmp_path: Path, wire: Wire, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> World:
    wire.replies(TOOLS, SAYS)
    # So that each commit is followed by a snapshot.
    monkeypatch.setattr(run_journal, "SNAPSHOT_FACTS", 1)
    monkeypatch.setattr(run_journal, "SNAPSHOT_SHARE", 0)
    return World(tmp_path, wire, monkeypatch, caplog)


def status(world: World) -> str:
    async def look() -> str:
        async with roundel.Runs(world.store) as runs:
            return (await runs.list(limit=1))[0].status

    return asyncio.run(look())


def test_models_get_the_real_values(world: World) -> None:
    world.run()
    first = json.dumps(world.wire.requests[0].body, ensure_ascii=False)
    for source in ("environment", "variable_by_name", "marked", "marked_outside", "given", "dotenv"):
        assert json.dumps(CANARIES[source], ensure_ascii=False)[1:-1] in first, source
    headers = world.wire.requests[0].headers
    assert headers["x-gateway"] == f"Bearer {CANARIES['header']}"
    second = world.wire.requests[-1].headers
    assert second["authorization"] == f"Bearer {CANARIES['agent_key']}"


@pytest.mark.parametrize("way", [[], ["--json"]], ids=["live", "json"])
def test_no_leak_from_a_run_that_waits_and_is_answered(world: World, way: list[str]) -> None:
    world.run("--record", str(world.record), *way)
    assert status(world) == "waiting"
    world.look_everywhere()
    world.check()
    world.has_masks("file record.yaml", "table runs", "table chunks", "table snapshots", "log of roundel")
    world.has_masks("output of run", "output of log", "output of runs", "output of memory")
    world.give_again()
    world.stored("answer", "last", EVERYTHING)
    assert status(world) == "completed"
    world.look_everywhere()
    world.check()
    world.stored("prune", "last", "--keep", "last")
    world.look_everywhere()
    world.check()
    world.has_masks("table kept")


def test_no_leak_from_an_unstored_run(world: World) -> None:
    world.run("--no-store", "--json")
    world.check()
    world.has_masks("output of run", "log of roundel")


def test_no_leak_from_a_failing_model(world: World) -> None:
    world.wire.replies(Reply(status=401, error_body=f"wrong key: {EVERYTHING}"))
    world.run("--record", str(world.record), "--json")
    assert status(world) == "failed"
    world.look_everywhere()
    world.check()
    world.has_masks("file record.yaml", "table chunks", "output of log")


@pytest.mark.parametrize(
    "changes",
    [
        {"Shout": {"function": "tests.llm.canaries:fails"}},
        {"Agent": {"tools": ["near"]}},
        {"Agent": {"tools": ["far"]}},
    ],
    ids=["python", "mcp program", "mcp address"],
)
def test_no_leak_from_a_failing_node(world: World, changes: dict[str, Any]) -> None:
    world.write(**changes)
    world.wire.replies(SAYS)
    world.run()
    assert status(world) == "failed"
    world.look_everywhere()
    world.check()
    world.has_masks("table chunks", "output of run")


def test_no_leak_from_a_failing_edge_function(world: World) -> None:
    source = world.write()
    source["graph"]["edges"][1]["condition"] = "tests.llm.canaries:is_open"
    world.file.write_text(json.dumps(source))
    world.run()
    assert status(world) == "failed"
    world.look_everywhere()
    world.check()
    world.has_masks("table chunks", "output of run")


@pytest.mark.parametrize("moment", ["", "begin", "before", "after", "observe", "close"])
def test_no_leak_from_failing_middleware(world: World, moment: str) -> None:
    watch, metrics = RecordedTelemetry(capture_content=True), Metrics()
    events: list[roundel.Event] = []
    result = roundel.run(
        world.file,
        EVERYTHING,
        variables=world.variables,
        store=world.store,
        on_event=events.append,
        middleware=[Gossip(moment), watch.telemetry, metrics],
    )
    assert result.status == ("failed" if moment in ("before", "after") else "waiting")
    world.seen["result"] = f"{result!r} {events!r}"
    world.seen["spans"] = "".join(span.to_json() for span in watch.spans)
    world.seen["prometheus"] = metrics.exposition().decode()
    world.check()
    world.has_masks("result", "spans", "table chunks")


def test_no_leak_from_middleware_that_cannot_be_created(world: World) -> None:
    source = world.write()
    source["middleware"] = [{"name": "tests.llm.canaries:fails"}]
    world.file.write_text(json.dumps(source))
    result = world.run()
    assert result.exit_code == 2
    with pytest.raises(roundel.WorkflowError) as refused:
        roundel.run(world.file, variables=world.variables)
    world.seen["error"] = "".join(traceback.format_exception(refused.value))
    world.check()
    world.has_masks("output of run", "error")


def test_no_leak_from_a_run_that_is_locked_and_unlocked(world: World) -> None:
    world.run("--limit", "model_calls=1")
    assert status(world) == "suspended_locked"
    world.look_everywhere()
    world.check()
    world.give_again()
    checks = [f"--{name.replace('_', '-')}" for name in CHECKS]
    words = ["--reason", EVERYTHING, "--note", EVERYTHING, "--by", EVERYTHING, "--limit", "model_calls=9"]
    world.stored("unlock", "last", *checks, *words)
    assert status(world) == "waiting"
    world.look_everywhere()
    world.check()


def test_no_leak_from_a_prompt_recorded_by_a_tool_loop(world: World) -> None:
    """The run is locked before an agent repairs what it said when it was asked to reflect."""
    source = world.write()
    thinking = {"type": "reflection", "config": {"reflection_prompt": "Think of ${FILE_TOKEN}."}}
    schema = {"type": "object", "required": ["n"]}
    source["graph"]["nodes"][1]["config"].update(
        thinking=thinking, output_schema=schema, tools=[], cache=False
    )
    world.file.write_text(json.dumps(source))
    world.wire.replies(Reply(text='{"n": 1}'), Reply(text="well"), SAYS)
    world.run("--limit", "model_calls=2")
    assert status(world) == "suspended_locked"
    assert CANARIES["variable_by_name"] in world.wire.requests[1].messages()[-1]["content"]
    world.look_everywhere()
    world.check()
    assert any("reflection_prompt" in text for sink, text in world.sinks() if sink == "table snapshots")


def test_no_leak_from_a_run_that_is_paused_and_stopped(world: World) -> None:
    world.run()
    world.give_again()
    world.stored("pause", "last", "--reason", EVERYTHING)
    assert status(world) == "paused"
    world.look_everywhere()
    world.check()
    world.stored("stop", "last", "--reason", EVERYTHING)
    assert status(world) == "stopped"
    world.look_everywhere()
    world.check()


def test_no_leak_from_a_run_controlled_by_another_process(world: World) -> None:
    """The process that is at work on the run finds the request in the store."""

    async def ask(question: roundel.Question) -> str:
        async with roundel.Runs(world.store) as runs:
            await runs.pause("last", EVERYTHING)
        raise EOFError

    world.give_again()
    roundel.run(world.file, EVERYTHING, variables=world.variables, store=world.store, ask=ask)
    assert status(world) == "paused"
    world.look_everywhere()
    world.check()
    world.has_masks("table controls")


def test_no_leak_from_a_forked_run(world: World) -> None:
    world.run()
    world.give_again()
    world.stored("fork", "last", "--at", "Editor", "--message", EVERYTHING, "--no-run")
    world.look_everywhere()
    world.check()
    assert "would take the same path" in world.stored("replay", "last").output
    world.check()


def test_no_leak_from_commands_that_only_read_the_workflow(world: World) -> None:
    given = f"GIVEN_PASSWORD={CANARIES['given']}"
    source = world.write()
    for broken in (False, True):
        if broken:
            source["graph"]["nodes"][0]["limits"] = {"rounds": "${FILE_TOKEN}"}
            source["graph"]["edges"][2]["condition"] = {"cel": "text != '${DOTENV_TOKEN}'"}
        world.file.write_text(json.dumps(source))
        for words in (["check"], ["check", "--json"], ["show"], ["show", "--format", "svg"], ["forecast"]):
            result = world.cli(words[0], str(world.file), "--var", given, *words[1:])
            assert result.exit_code == (2 if broken else 0), result.output
    world.check()
    world.has_masks("output of check", "output of show")  # of the suggested command, too


def test_no_leak_from_manually_promoted_memory(world: World) -> None:
    text = f"{CANARIES['environment']} and {CANARIES['unused']}"
    world.stored("memory", "promote", "--group", "team", "--text", text)
    world.look_everywhere()
    world.check()
    world.has_masks("table memories")


def test_text_that_only_looks_like_a_key_is_not_masked(world: World) -> None:
    world.run(text="sk-live-0123456789abcdef")
    assert "sk-live-0123456789abcdef" in world.stored("runs", "--json").stdout


def test_every_secret_source_has_a_canary(world: World) -> None:
    known = set(roundel.load(world.file, world.variables).secrets.values())
    outside = {"unused", "environment"}
    missing = [source for source in SOURCES if source not in outside and CANARIES[source] not in known]
    assert missing == []
