"""Working memory: the newest 50, for 24 hours, of what is sure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import roundel
from tests.memory.memory_runs import Group, agents, do, run_reply, texts

HOUR = 3600


@pytest.mark.parametrize(
    ("fields", "enters"),
    [
        ({}, True),
        ({"data": {"confidence": 0.8}}, True),
        ({"data": {"confidence": 0.79}}, False),
        ({"data": {"confidence": 1}}, True),
        ({"data": {"confidence": 0}}, False),
        ({"metadata": {"confidence": 0.79}}, False),
        ({"metadata": {"confidence": 0.8}}, True),
        ({"metadata": {"confidence": 0.9}, "data": {"confidence": 0.1}}, True),
        ({"data": {"confidence": "very"}}, True),
        ({"data": {"confidence": True}}, True),
        ({"data": {"confidence": float("nan")}}, True),
        ({"data": {"confidence": 10**400}}, True),
        ({"data": {"confidence": -(10**400)}}, False),
        ({"data": {"other": 0.1}}, True),
    ],
)
@pytest.mark.parametrize("node", ["A", "Person"])
def test_agent_and_human_output_enters_working_memory(
    node: str, fields: dict[str, Any], enters: bool
) -> None:
    async def story() -> None:
        group = Group()
        await group.give("tea", node, **fields)
        assert await group.working() == (["tea"] if enters else [])
        await group.memory.close()

    do(story())


@pytest.mark.parametrize(
    ("node", "fields", "enters"),
    [
        ("Code", {}, False),
        ("Code", {"data": {"confidence": 0.8}}, True),
        ("Code", {"metadata": {"confidence": 0.79}}, False),
        ("Code", {"data": {"confidence": "very"}}, False),
        ("Text", {"data": {"confidence": 1}}, False),
    ],
)
def test_other_nodes_enter_working_memory_only_with_confidence(
    node: str, fields: dict[str, Any], enters: bool
) -> None:
    async def story() -> None:
        group = Group()
        await group.give("tea", node, **fields)
        assert await group.working() == (["tea"] if enters else [])
        await group.memory.close()

    do(story())


def test_confidence_threshold_is_configurable() -> None:
    async def story() -> None:
        group = Group(confidence=0.5)
        await group.give("half", data={"confidence": 0.5})
        await group.give("less", data={"confidence": 0.49})
        assert await group.working() == ["half"]
        await group.memory.close()

    do(story())


def test_working_memory_keeps_the_newest_fifty() -> None:
    async def story() -> None:
        group = Group()
        for number in range(51):
            await group.give(f"text {number}")
        assert await group.working() == [f"text {number}" for number in range(50, 0, -1)]
        await group.give("text 7")
        assert (await group.working())[:2] == ["text 7", "text 50"]
        assert len(await group.working()) == 50
        await group.memory.close()

    do(story())


def test_working_memory_expires_after_24_hours() -> None:
    async def story() -> None:
        group = Group()
        await group.give("old")
        await group.give("said again")
        group.time += 23 * HOUR
        await group.give("said again")
        await group.give("new")
        assert await group.working() == ["new", "said again", "old"]
        group.time += HOUR - 1
        assert await group.working() == ["new", "said again", "old"]
        group.time += 1
        assert await group.working() == ["new", "said again"]
        await group.give("newer")
        entries = await group.memory.memories.entries("team", 0)
        assert [entry.text for entry in entries] == ["newer", "new", "said again"]
        await group.memory.close()

    do(story())


def test_empty_texts_are_ignored_and_long_ones_truncated() -> None:
    async def story() -> None:
        group = Group()
        await group.give("  \n")
        await group.give("x" * 5000)
        (text,) = await group.working()
        assert len(text) == 4001 and text.endswith("…")
        await group.memory.close()

    do(story())


def test_keys_are_masked_in_working_memory(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-0123456789abcdef")
    notes = {"name": "notes", "type": "simple"}
    flow = agents("notes", memory=[notes], group="team")
    run_reply(flow, "the key is sk-0123456789abcdef", store, "what of sk-0123456789abcdef?")

    async def look() -> list[str]:
        async with roundel.Memory(store) as memory:
            return [f"{entry.text} {entry.about}" for entry in await memory.list("team")]

    found = do(look())
    assert len(found) == 2
    assert not [text for text in found if "0123" in text]
    assert "***" in found[0]


def test_without_a_group_nothing_is_written_and_nothing_is_read(store: Path, requests: list[Any]) -> None:
    events = run_reply(agents("working", "long_term"), "tea", store)
    assert texts(store, "") == []
    assert [message.text for message in requests[0].messages] == ["go"]
    assert "memory_error" not in {event.event for event in events}


def test_working_memory_is_read_by_later_runs_of_the_same_group_only(
    store: Path, requests: list[Any]
) -> None:
    flow = agents("working")
    run_reply(flow, "the oolong tastes of peaches", store, group="team")
    run_reply(flow, "and of honey", store, "how does it taste?", group="team")
    run_reply(flow, "unknown", store, "how does it taste?", group="others")
    shown = [[message.text for message in request.messages] for request in requests]
    assert shown[0] == ["go"]
    assert shown[1][0].splitlines()[2] == "[1] the oolong tastes of peaches"
    assert shown[1][1] == "how does it taste?"
    assert shown[2] == ["how does it taste?"]
    assert texts(store, "team") == ["and of honey", "the oolong tastes of peaches"]
    assert texts(store, "others") == ["unknown"]


def test_group_may_be_a_variable_and_the_option_overrides_it(store: Path) -> None:
    flow = {"vars": {"TEAM": "north"}, **agents("working", group="${TEAM}-1")}
    run_reply(flow, "one", store)
    run_reply(flow, "two", store, variables={"TEAM": "south"})
    run_reply(flow, "three", store, group="west")
    assert [texts(store, name) for name in ("north-1", "south-1", "west")] == [["one"], ["two"], ["three"]]


def test_prepared_workflow_accepts_a_group(store: Path) -> None:
    plan = roundel.prepare(agents("working"))
    run_reply(plan, "one", store, group="west")
    assert texts(store, "west") == ["one"]


def test_agent_may_disable_writing_to_working_memory(store: Path, requests: list[Any]) -> None:
    run_reply(agents("working", group="team"), "tea", store)
    run_reply(agents({"name": "working", "write": False}, group="team"), "milk", store)
    assert texts(store, "team") == ["tea"]
    assert "[1] tea" in requests[1].messages[0].text


def test_unlogged_output_is_not_remembered_unless_requested(store: Path) -> None:
    flow = agents(group="team")
    flow["graph"]["nodes"][0]["log_output"] = False
    run_reply(flow, "a secret", store)
    assert texts(store, "team") == []
    flow["graph"]["nodes"][0]["config"] = {"memories": ["working"]}
    run_reply(flow, "said on purpose", store)
    assert texts(store, "team") == ["said on purpose"]


def test_human_and_subgraph_output_is_remembered_once(store: Path) -> None:
    inner = roundel.Graph(start="B", end="B").node("B", "agent")
    graph = roundel.Graph(start="Person", end="Sub")
    graph.node("Person", "human", description="?").node("Sub", "subgraph", graph=inner)
    graph.edge("Person", "Sub")
    script = {"Person": ["yes"], "B": [{"text": "well", "data": {"confidence": 0.9}}]}
    roundel.run(graph, "go", script=script, store=store, group="team")
    assert texts(store, "team") == ["well", "yes"]


def test_recall_lists_best_matches_then_newest(store: Path, requests: list[Any]) -> None:
    flow = agents({"name": "working", "top_k": 3})
    for text in ("tea is green", "milk is white", "coffee is black", "water is clear"):
        run_reply(flow, text, store, group="team")
    run_reply(flow, "ok", store, "what of milk and tea?", group="team")
    lines = [line for line in requests[-1].messages[0].text.splitlines() if line.startswith("[")]
    assert lines == ["[1] milk is white", "[2] tea is green", "[3] water is clear"]
    strict = agents({"name": "working", "similarity_threshold": 0.2})
    run_reply(strict, "ok", store, "what of milk and tea?", group="team")
    lines = [line for line in requests[-1].messages[0].text.splitlines() if line.startswith("[")]
    assert lines == ["[1] milk is white", "[2] tea is green"]


def test_error_message_is_not_remembered(store: Path) -> None:
    board = [{"name": "board", "type": "blackboard"}]
    flow = agents("board", memory=board, group="team", name="m", on_error="message")
    result = roundel.run(flow, "go", script={"A": [{"error": "no network"}]}, store=store)
    assert result.output == "Error calling model m: no network"
    assert texts(store, "team") == []


def test_group_must_be_text() -> None:
    with pytest.raises(TypeError, match="a group is a text, not 5"):
        roundel.run(agents("working"), group=5)  # type: ignore[arg-type]
