"""A stored run as a script: whoever runs the script gets the same events again, without models and people."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from roundel.hosts.control import Question
from roundel.hosts.engine import Attachment
from roundel.journal.store import StoreError
from roundel.kernel.events import Event
from roundel.llm.script import load_script, script_from
from roundel.runs.as_script import _written
from roundel.runs.runs import Runs
from roundel.workflow.message import Message

EXAMPLES = Path(__file__).parents[2] / "examples"
WAITS = ("waiting", "running")
calls: list[str] = []


def order(item: str, count: int = 1) -> str:
    """Orders something."""
    calls.append(item)
    return f"{count} {item} ordered"


def fail(item: str) -> str:
    """Never works."""
    raise ValueError(f"no {item}")


def comparable(events: list[Event]) -> list[Any]:
    """Events without what differs between any two runs: times and the id of the run. A script answers at
    once, so a run does not wait for it. Calls that run at the same time end in any order."""
    shown = [
        event
        for event in events
        if event.event != "run_state_change" or event.fields()["status"] not in WAITS
    ]
    return sorted(map(_plain, shown), key=lambda event: event[2] or "")


def _plain(event: Event) -> Any:
    return event.event, event.node_id, event.address, _without_times(msgspec.to_builtins(event.data))


VOLATILE = frozenset(
    {"timestamp", "seconds", "elapsed_seconds", "waited", "work_seconds"}
    # Who answers, and what a provider says of its calls.
    | {"attempts", "by", "stop", "total", "via"}
)


def _without_times(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_times(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {key: item for key, item in value.items() if key not in VOLATILE}
    return {key: _without_times(item) for key, item in kept.items()}


async def repeated(
    workflow: Any, input: str, script: Any, *, answer: Callable[[str], Message] | None = None
) -> tuple[str, list[Any], list[Any]]:
    """Runs a workflow with a script, and a person who answers by address; then runs the script of that run.
    Returns the script, and the events of both."""

    async def ask(question: Question) -> Message:
        assert answer is not None
        return answer(question.address)

    async with Runs("memory:as_script") as runs:
        first = await runs.start(workflow, input, script=script, attach=Attachment(ask))
        result = await runs.result(first)
        text = await runs.script(first)
        second = await runs.start(workflow, input, script=script_from(text))
        again = await runs.result(second)
        assert again.status == result.status, again.error
        return text, comparable(await runs.events(first)), comparable(await runs.events(second))


def repeat(workflow: Any, input: str = "tea", script: Any = None, **options: Any) -> dict[str, Any]:
    """Checks that both runs have the same events, and returns the script as data."""
    text, before, after = asyncio.run(repeated(workflow, input, script, **options))
    assert after == before
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def graph(*nodes: dict[str, Any], edges: tuple[Any, ...] = (), **more: Any) -> dict[str, Any]:
    return {
        "graph": {"nodes": list(nodes), "edges": list(edges), "start": nodes[0]["id"], **more},
    }


@pytest.mark.parametrize(
    ("name", "script"),
    [
        (folder.parent.name, file)
        for folder in sorted(EXAMPLES.glob("*/workflow.yaml"))
        for file in ("script.yaml", *(("down.yaml",) if folder.parent.name == "fallback" else ()))
        if folder.parent.name != "timer"  # which ends by the clock
    ],
)
def test_examples(name: str, script: str) -> None:
    folder = EXAMPLES / name
    found = repeat(folder / "workflow.yaml", "tea", load_script(folder / script)[0].without_delays())
    assert found


def test_replies_have_their_addresses_and_tokens() -> None:
    writer = {"id": "Writer", "type": "agent", "config": {}}
    found = repeat(graph(writer), "tea", {"Writer": [{"text": "a\nb", "tokens": {"input": 3, "output": 4}}]})
    assert found == {"Writer": [{"at": "Writer", "text": "a\nb", "tokens": {"input": 3, "output": 4}}]}


def test_a_loop_has_a_reply_for_each_round() -> None:
    workflow = graph(
        {"id": "Writer", "type": "agent", "config": {}},
        {"id": "Reviewer", "type": "agent", "config": {}},
        {"id": "Final", "type": "passthrough"},
        edges=(
            {"from": "Writer", "to": "Reviewer"},
            {"from": "Reviewer", "to": "Writer", "condition": {"cel": "!text.contains('ok')"}},
            {"from": "Reviewer", "to": "Final", "condition": {"cel": "text.contains('ok')"}},
        ),
        loops={"Writer": {"max_rounds": 9}},
        end="Final",
    )
    script = {"Writer": ["one", "two", "three"], "Reviewer": ["no", "nearly", "ok"]}
    found = repeat(workflow, "tea", script)
    assert [line["at"] for line in found["Writer"]] == [f"Writer[{n}]/Writer" for n in (1, 2, 3)]
    assert [line["text"] for line in found["Reviewer"]] == ["no", "nearly", "ok"]


def tooled(**config: Any) -> dict[str, Any]:
    tools = {name: {"python": f"{__name__}:{name}"} for name in ("order", "fail")}
    agent = {"id": "Buyer", "type": "agent", "config": {"tools": ["order", "fail"], **config}}
    return {**graph(agent), "tools": tools}


def test_tools_are_not_called_again() -> None:
    calls.clear()
    requests = [
        {"name": "order", "arguments": {"item": "tea", "count": 2}},
        {"name": "order", "arguments": {"item": "cups"}},
        {"name": "fail", "arguments": {"item": "milk"}},
        {"name": "unknown", "arguments": {}},
        {"name": "order", "arguments": "no object"},
    ]
    script = {"Buyer": [{"text": "", "tool_calls": requests}, "done"]}
    found = repeat(tooled(), "tea", script)
    assert sorted(calls) == ["cups", "tea"]  # by the first run alone
    recorded = found["Buyer"][0]["tool_calls"]
    assert [call.get("result") for call in recorded[:2]] == ["2 tea ordered", "1 cups ordered"]
    assert "no milk" in recorded[2]["error"]
    assert found["Buyer"][1] == {"at": "Buyer", "call": 1, "text": "done"}


def test_decisions_about_tool_calls_are_part_of_the_script() -> None:
    calls.clear()
    requests = [{"name": "order", "arguments": {"item": "tea", "count": 2}}]
    script = {"Buyer": [{"tool_calls": requests}, {"tool_calls": requests}, "done"]}
    answers = {
        "Buyer[1]/order": Message("", "user", {"approve": True, "arguments": {"item": "tea", "count": 1}}),
        "Buyer[2]/order": Message("no: too expensive", "user"),
    }
    found = repeat(tooled(approval=["order"]), "tea", script, answer=answers.__getitem__)
    assert calls == ["tea"]
    assert [line["at"] for line in found["Buyer/order"]] == ["Buyer[1]/order", "Buyer[2]/order"]
    assert found["Buyer"][0]["tool_calls"][0]["result"] == "1 tea ordered"


def test_answers_of_people_have_text_and_data() -> None:
    workflow = graph(
        {"id": "Writer", "type": "agent", "config": {}},
        {"id": "Person", "type": "human", "config": {"description": "Good?"}},
        edges=(
            {"from": "Writer", "to": "Person"},
            {"from": "Person", "to": "Writer", "condition": {"cel": "has(data.again) && data.again"}},
        ),
        loops={"Writer": {"max_rounds": 5}},
        end="Person",
    )
    answers = {
        "Writer[1]/Person": Message("no", "user", {"again": True, "marks": [1, 2.5, None]}),
        "Writer[2]/Person": Message("yes", "user"),
    }
    found = repeat(workflow, "tea", {"Writer": ["one", "two"]}, answer=answers.__getitem__)
    assert found["Person"] == [
        {"at": "Writer[1]/Person", "text": "no", "data": {"again": True, "marks": [1, 2.5, None]}},
        {"at": "Writer[2]/Person", "text": "yes"},
    ]


def test_questions_of_parallel_parts_keep_their_own_answers() -> None:
    workflow = graph(
        {"id": "List", "type": "literal", "config": {"content": "a\nb\nc"}},
        {"id": "Person", "type": "human", "config": {"description": "Good?"}},
        edges=(
            {
                "from": "List",
                "to": "Person",
                "dynamic": {"type": "map", "split": {"type": "regex", "config": {"pattern": "[a-z]"}}},
            },
        ),
        end="Person",
    )
    found = repeat(workflow, "tea", {}, answer=lambda address: Message(f"about {address}", "user"))
    assert len(found["Person"]) == 3
    assert all(line["text"] == f"about {line['at']}" for line in found["Person"])


def test_failures_fail_again_with_their_kind() -> None:
    workflow = graph(
        {"id": "Writer", "type": "agent", "config": {}},
        {"id": "Other", "type": "agent", "config": {}},
        edges=({"from": "Writer", "to": "Other", "on": "error"},),
        end=["Writer", "Other"],
    )
    script = {"Writer": [{"error": "slow down", "type": "RateLimited"}], "Other": ["instead"]}
    found = repeat(workflow, "tea", script)
    assert found["Writer"] == [{"at": "Writer", "error": "slow down", "type": "RateLimited"}]
    failed = graph({"id": "Writer", "type": "agent", "config": {}})
    repeat(failed, "tea", script)


def test_a_failure_that_became_a_message_is_a_failure_again() -> None:
    for config in ({}, {"output_schema": {"type": "object"}}):
        writer = {"id": "Writer", "type": "agent", "config": {"on_error": "message", **config}}
        found = repeat(graph(writer), "tea", {"Writer": [{"error": "down", "type": "ModelError"}]})
        assert found["Writer"][0]["error"] == "down"


def test_a_retried_call_has_its_last_result() -> None:
    async def story() -> None:
        workflow = graph({"id": "Writer", "type": "agent", "config": {}})
        async with Runs("memory:as_script") as runs:
            run_id = await runs.start(workflow, "tea", script={"Writer": [{"error": "down"}]})
            assert (await runs.result(run_id)).status == "failed"
            assert (await runs.retry(run_id, script={"Writer": ["up again"]})).status == "completed"
            assert yaml.safe_load(await runs.script(run_id)) == {
                "Writer": [{"at": "Writer", "text": "up again"}]
            }

    asyncio.run(story())


@pytest.mark.parametrize(
    ("schema", "replies"),
    [
        ({"type": "object", "required": ["a"]}, ["no JSON", '{"b": 1}', '{"a": 1}']),
        ({"type": "array"}, ["[1, 2]"]),
        ({"type": "object"}, [{"text": "", "data": {"a": 1}}]),
    ],
)
def test_answers_with_a_schema_are_repaired_again(schema: Any, replies: list[Any]) -> None:
    writer = {"id": "Writer", "type": "agent", "config": {"output_schema": schema, "max_repairs": 3}}
    found = repeat(graph(writer), "tea", {"Writer": replies})
    assert len(found["Writer"]) == len(replies)


def test_a_run_that_is_not_over_has_the_replies_so_far() -> None:
    async def story() -> None:
        workflow = graph(
            {"id": "Writer", "type": "agent", "config": {}},
            {"id": "Person", "type": "human", "config": {}},
            edges=({"from": "Writer", "to": "Person"},),
        )
        async with Runs("memory:as_script") as runs:
            run_id = await runs.start(workflow, "tea", script={"Writer": ["draft"]})
            assert (await runs.result(run_id)).status == "waiting"
            assert yaml.safe_load(await runs.script(run_id)) == {
                "Writer": [{"at": "Writer", "text": "draft"}]
            }
            empty = await runs.start(graph({"id": "A", "type": "passthrough"}), "tea")
            await runs.result(empty)
            assert script_from(await runs.script(empty)).line("A", 0) is None

    asyncio.run(story())


def test_a_pruned_run_has_no_script_any_more() -> None:
    async def story() -> None:
        workflow = graph({"id": "Writer", "type": "agent", "config": {}})
        async with Runs("memory:as_script") as runs:
            run_id = await runs.start(workflow, "tea", script={"Writer": ["draft"]})
            await runs.result(run_id)
            await runs.prune(run_id, keep="best")
            with pytest.raises(StoreError, match="pruned"):
                await runs.script(run_id)

    asyncio.run(story())


def test_secrets_are_not_part_of_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "a-long-secret-token")
    writer = {"id": "Writer", "type": "agent", "config": {"role": "${SHOP_TOKEN}"}}
    text, _, _ = asyncio.run(repeated(graph(writer), "tea", {"Writer": ["it is a-long-secret-token"]}))
    assert "a-long-secret-token" not in text


NUMBERS = ("1e3", "0o17", "1_000", "on", "~", "null", ".inf", "12:30", "2024-01-01", "=", "<<")
SYNTAX = ("- a", "a: b", "#", "|", "'\"", "${X}", "é", "🙂")
SPACES = ("\n", " \n x\n", "\x85", "\u2028", "\ufeff", "\t", "a\r\nb", "\x00")
texts = st.text() | st.sampled_from((*NUMBERS, *SYNTAX, *SPACES))


@given(st.dictionaries(texts.filter(bool), st.lists(texts, min_size=1), max_size=3))
def test_any_text_survives_the_file(replies: dict[str, list[str]]) -> None:
    lines = {name: [{"text": text} for text in given] for name, given in replies.items()}
    script = script_from(_written(lines))
    assert msgspec.json.decode(script.text) == {
        name: [{"text": text} if text else {} for text in given] for name, given in replies.items()
    }


@pytest.mark.parametrize("name", ["Writer", "a long name " * 20])
def test_a_long_script_is_written_in_parts(name: str) -> None:
    lines = [{"at": f"Writer[{number}]", "text": "tea" + "\n" * (number % 4)} for number in range(1, 351)]
    written = _written({name: lines, "Other": lines[:1]})
    read = msgspec.json.decode(script_from(written).text)
    assert [line["text"] for line in read[name]] == [line["text"] for line in lines]
    assert len(read["Other"]) == 1
