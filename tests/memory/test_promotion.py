"""Only people write to long-term memory, for example from the quarantine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.journal.store import StoreError
from roundel.nodes.services import Request
from roundel.runs.memory import Quarantined
from tests.memory.memory_runs import agents, do, run_reply, stored_entries, texts


def promote(store: Path, group: str, *given: Any, **named: Any) -> list[str]:
    async def work() -> list[str]:
        async with roundel.Memory(store) as memory:
            return [entry.text for entry in await memory.promote(group, *given, **named)]

    return do(work())


def given_by(store: Path, run: str = "last", **named: Any) -> list[Quarantined]:
    async def work() -> list[Quarantined]:
        async with roundel.Memory(store) as memory:
            return list(await memory.quarantine(run, **named))

    return do(work())


def test_long_term_memory_is_not_written_automatically(store: Path) -> None:
    run_reply(agents("working", "long_term", group="team"), "tea", store)
    assert texts(store, "team", "long_term") == []


def test_an_entry_is_promoted_and_read(store: Path, requests: list[Request]) -> None:
    run_reply(agents("working", group="team"), "oolong tastes of peaches", store)
    (entry,) = stored_entries(store, "team")
    assert promote(store, "team", entry.id) == ["oolong tastes of peaches"]
    assert promote(store, "team", entry.id) == ["oolong tastes of peaches"]  # and is there once
    (promoted,) = stored_entries(store, "team", "long_term")
    assert (promoted.run_id, promoted.node, promoted.address) == (entry.run_id, "A", "A")
    run_reply(agents("long_term", group="team"), "x", store, "what of oolong?")
    assert "[1] oolong tastes of peaches" in requests[-1].messages[0].text
    run_reply(agents("long_term", group="team"), "x", store, "and milk?")
    assert len(requests[-1].messages) == 1


def test_entry_of_another_group_cannot_be_promoted(store: Path) -> None:
    run_reply(agents("working", group="team"), "tea", store)
    (entry,) = stored_entries(store, "team")
    with pytest.raises(StoreError, match="group 'others' has no entry 1"):
        promote(store, "others", entry.id)


def test_a_text_is_cut_into_passages(store: Path) -> None:
    text = "".join(f"Sentence number {number}. " for number in range(60))
    pieces = promote(store, "team", text=text)
    assert len(pieces) == 3
    assert pieces == texts(store, "team", "long_term")[::-1]
    assert all(len(piece) <= 500 for piece in pieces)
    assert pieces[1].partition(". ")[2] and pieces[1][:10] in pieces[0]


def test_keys_are_masked_on_promotion(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-0123456789abcdef")
    assert promote(store, "team", text="it is sk-0123456789abcdef") == ["it is ***"]


@pytest.mark.parametrize(
    ("group", "named", "message"),
    [
        ("", {"text": "tea"}, "belongs to a group"),
        ("team", {}, "promote one thing"),
        ("team", {"text": "tea", "run": "last"}, "promote one thing"),
        ("team", {"text": "  "}, "has no text"),
        ("team", {"run": "last"}, "name the address"),
        ("team", {"run": "last", "at": "Nobody"}, "no node has an output at 'Nobody'"),
        ("team", {"run": "none", "at": "A"}, "there is no run 'none'"),
    ],
)
def test_invalid_promotions_are_rejected(
    store: Path, group: str, named: dict[str, str], message: str
) -> None:
    run_reply(agents(), "tea", store)
    with pytest.raises(StoreError, match=message):
        promote(store, group, **named)


# Quarantine


def test_quarantine_lists_all_node_outputs(store: Path) -> None:
    inner = roundel.Graph(start="B", end="B").node("B", "agent")
    graph = roundel.Graph(start="A", end="Sub")
    graph.node("A", "agent", tools=["statistics:mean"]).node("Person", "human").node(
        "Sub", "subgraph", graph=inner
    )
    graph.edge("A", "Person").edge("Person", "Sub")
    script = {
        "A": [{"text": "draft", "data": {"confidence": 0.4}}],
        "Person": ["fine"],
        "B": [{"text": "final", "data": {"confidence": 0.95, "score": 7}}],
    }
    result = roundel.run(graph, "go", script=script, store=store)
    assert result.completed, result.error
    found = given_by(store)
    assert [(one.address, one.node, one.content, one.confidence) for one in found] == [
        ("A", "A", "draft", 0.4),
        ("Person", "Person", "fine", None),
        ("Sub/B", "B", "final", 0.95),
        ("Sub", "Sub", "final", 0.95),
    ]
    assert found[2].metadata["score"] == 7
    assert [one.time for one in found] == sorted(one.time for one in found)
    assert promote(store, "team", run="last", at="Sub/B") == ["final"]


def test_quarantine_lists_each_message_with_metadata(store: Path) -> None:
    graph = roundel.Graph(start="Code", end="Code")
    graph.node("Code", "python", function=_two)
    roundel.run(graph, "go", store=store)
    found = given_by(store)
    assert [(one.content, one.metadata, one.confidence) for one in found] == [
        ("one", {"from": "x", "confidence": 0.1}, 0.1),
        ("two", {}, None),
    ]


def _two() -> list[Any]:
    return [{"content": "one", "metadata": {"from": "x", "confidence": 0.1}}, "two"]


def test_quarantine_uses_intercepted_output_and_omits_unlogged_nodes(store: Path) -> None:
    class Shout(roundel.Middleware):
        def applies(self, node: Any) -> bool:
            return bool(node.id == "A")

        def after(self, visit: roundel.Visit, messages: tuple[roundel.Message, ...]) -> list[str]:
            return [message.text.upper() for message in messages]

    flow = agents()
    flow["graph"]["nodes"].append({"id": "Secret", "type": "agent", "log_output": False})
    flow["graph"]["edges"] = [{"from": "A", "to": "Secret"}]
    flow["memory"]["group_id"] = "team"
    run_reply(flow, "tea", store, script={"Secret": ["hidden"]}, middleware=[Shout()])
    assert [(one.address, one.content) for one in given_by(store)] == [("A", "TEA")]
    assert texts(store, "team") == ["TEA"]


def test_quarantine_of_a_pruned_run_lists_the_kept_rounds(store: Path) -> None:
    body = {"id": "A", "type": "agent"}
    loop = {
        "id": "Loop",
        "type": "loop_agent",
        "config": {"strategy": {"mode": "count", "max": 3}, "body": body},
    }
    run_reply({"graph": {"start": "Loop", "nodes": [loop]}}, "", store, script={"A": ["one", "two", "three"]})
    whole = given_by(store)

    async def prune() -> None:
        async with roundel.Runs(store) as runs:
            await runs.prune("last", keep="last")

    do(prune())
    left = given_by(store)
    assert [one.content for one in whole] == ["one", "two", "three", "three"]
    assert {one.content for one in left} == {"three"}
    assert all(any(abs(one.time - other.time) < 0.01 for other in whole) for one in left)


def test_forgetting(store: Path) -> None:
    async def story() -> None:
        async with roundel.Memory(store) as memory:
            (first,) = await memory.promote("team", text="tea")
            await memory.promote("team", text="milk")
            await memory.promote("others", text="tea")
            assert await memory.forget("others", first.id) == 0
            assert await memory.forget("team", first.id, 99) == 1
            assert [entry.text for entry in await memory.list("team")] == ["milk"]
            assert await memory.forget_all("team") == 1
            assert [entry.text for entry in await memory.list("others")] == ["tea"]

    do(story())
