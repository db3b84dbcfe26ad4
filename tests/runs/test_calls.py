"""Reading what the calls of a run got and returned."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from roundel.hosts.local import LocalEngine
from roundel.journal.store import NoRun, StoreError
from roundel.runs.calls import (
    ANSWER_CHARACTERS,
    ELSEWHERE,
    MAX_PARTS,
    NOT_KEPT,
    NOT_STORED,
    CallDetails,
    CallPart,
    NoCall,
    page_of,
    shortened,
)
from roundel.runs.runs import Runs

MODEL = {"default": {"model": "openai:gpt-4o", "params": {"temperature": 0.5}}}
TOOLS = {"look": {"python": "tests.llm.tools:look"}}
SCRIPT = {
    "A": [
        {"tool_calls": [{"name": "look", "arguments": {"place": "Oslo"}, "result": "rain"}]},
        "It rains.",
    ]
}


def agent(**config: Any) -> dict[str, Any]:
    return {"id": "A", "type": "agent", "config": {"role": "Be brief.", **config}}


def flow(*nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    names = [node["id"] for node in nodes]
    edges = [{"from": one, "to": other} for one, other in pairwise(names)]
    graph = {"start": names[0], "end": names[-1], "nodes": list(nodes), "edges": edges}
    return {"models": MODEL, "tools": TOOLS, "graph": graph, **more}


LOOKING = flow(agent(tools=["look"], params={"max_tokens": 50}))
Tell = Callable[[Runs], Awaitable[None]]


def tell(place: Path | None, story: Tell, **options: Any) -> None:
    async def work() -> None:
        async with Runs(place, on_warnings=None, **options) as runs:
            await story(runs)

    asyncio.run(work())


async def finish(runs: Runs, workflow: Any, script: Any = None, **options: Any) -> str:
    run_id = await runs.start(workflow, "How is it?", script=script, **options)
    await runs.result(run_id)
    return run_id


def texts(parts: tuple[CallPart, ...]) -> list[str]:
    return [part.text for part in parts]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def test_each_call_of_a_conversation_shows_what_the_model_got(place: Path) -> None:
    async def story(runs: Runs) -> None:
        run_id = await finish(runs, LOOKING, SCRIPT)
        first, last = await runs.call(run_id, "A", 1), await runs.call(run_id, "A")
        assert (first.call, last.call, last.calls) == (1, 2, 2)
        for call in (first, last):
            assert call.complete and not call.why and call.state == "ended" and call.kind == "model"
            assert call.system is not None and call.system.text == "Be brief."
            assert texts(call.messages) == ["How is it?"] and call.messages[0].role == "user"
            assert call.params == {"temperature": 0.5, "max_tokens": 50}
            assert call.tools is not None and [tool["name"] for tool in call.tools.value] == ["look"]
        assert not first.exchanges and first.reply is not None and first.stop == "tool_calls"
        assert first.reply.value["tool_calls"][0]["arguments"] == {"place": "Oslo"}
        (exchange,) = last.exchanges
        assert exchange.value["results"][0]["text"] == "rain"
        assert last.reply is not None and last.reply.text == "It rains."
        assert last.usage is not None and last.usage.model_calls == 1

    tell(place, story)


def test_the_number_agrees_with_the_order_of_the_calls_also_with_failures(place: Path) -> None:
    workflow = flow(agent(output_schema={"type": "object", "required": ["a"]}))

    async def story(runs: Runs) -> None:
        run_id = await finish(runs, workflow, {"A": ["no JSON", '{"b": 1}', {"error": "no luck"}]})
        for number, count in ((1, 0), (2, 2), (3, 4)):
            call = await runs.call(run_id, "A", number)
            assert len(call.after) == count and call.schema is not None
        failed = await runs.call(run_id, "A")
        assert (failed.call, failed.calls, failed.reply) == (3, 3, None) and "no luck" in failed.error
        assert texts(failed.after)[0] == "no JSON"

    tell(place, story)


def test_a_call_in_a_round_is_found_by_its_address(place: Path) -> None:
    graph = {
        "start": "W",
        "end": "Out",
        "nodes": [
            {**agent(), "id": "W"},
            {"id": "Guard", "type": "loop_counter", "config": {"max_iterations": 2}},
            {"id": "Out", "type": "passthrough"},
        ],
        "edges": [
            {"from": "W", "to": "Guard"},
            {"from": "W", "to": "W"},
            {"from": "Guard", "to": "W"},
            {"from": "Guard", "to": "Out"},
        ],
    }

    async def story(runs: Runs) -> None:
        run_id = await finish(runs, {"models": MODEL, "graph": graph}, {"W": ["one", "two"]})
        call = await runs.call(run_id, "W[2]/W")
        assert (call.node_id, call.call, call.calls) == ("W", 1, 1)
        assert call.path[0].loop == "W" and call.path[0].round == 2
        assert call.reply is not None and call.reply.text == "two"
        with pytest.raises(NoCall, match="is a round"):
            await runs.call(run_id, "W[2]")

    tell(place, story)


def test_what_is_not_there_is_refused_by_name(place: Path) -> None:
    async def story(runs: Runs) -> None:
        run_id = await finish(runs, LOOKING, SCRIPT)
        for address, number, why in (
            ("B", None, "no place 'B'"),
            ("A[", None, "is not an address"),
            ("A", 3, "has 2 calls, and none with the number 3"),
            ("A[1]/find", None, "no tool call"),
            ("A[2]/look", None, "no tool call"),
            ("A[1]/look", 2, "made once"),
        ):
            with pytest.raises(NoCall, match=why.replace("[", r"\[")):
                await runs.call(run_id, address, number)
        with pytest.raises(NoRun):
            await runs.call("nobody", "A")

    tell(place, story)


def test_a_tool_call_shows_what_was_asked_allowed_and_returned(place: Path) -> None:
    workflow = flow(agent(tools=["look"], approval=["look"]))
    looks = [{"name": "look", "arguments": {"place": place}, "result": "rain"} for place in ("Oslo", "Rome")]
    script = {
        "A": [{"tool_calls": looks}, "It rains."],
        "A/look": ['{"place": "Bergen"}', "reject: too far"],
    }

    async def story(runs: Runs) -> None:
        run_id = await finish(runs, workflow, script)
        call = await runs.call(run_id, "A[1]/look")
        assert (call.kind, call.tool, call.status, call.complete) == ("tool", "look", "completed", True)
        assert call.arguments is not None and call.arguments.value == {"place": "Oslo"}
        assert call.approved is not None and call.approved.value == {"place": "Bergen"}
        assert call.result is not None and call.result.text == "rain"
        rejected = await runs.call(run_id, "A[1]/look#2")
        assert rejected.status == "rejected" and rejected.approved is None
        assert rejected.result is not None and "too far" in rejected.result.text

    tell(place, story)


def test_a_tool_call_that_waits_for_a_person_says_so(place: Path) -> None:
    async def story(runs: Runs) -> None:
        run_id = await finish(runs, flow(agent(tools=["look"], approval=["look"])), SCRIPT)
        call = await runs.call(run_id, "A[1]/look")
        assert (call.state, call.status, call.result) == ("in_flight", "waiting", None)
        assert call.arguments is not None and call.arguments.value == {"place": "Oslo"}

    tell(place, story)


def test_a_tool_call_that_was_not_made_says_so(place: Path) -> None:
    looks = [{"name": "look", "arguments": {"place": each}, "result": "rain"} for each in ("Oslo", "Rome")]

    async def story(runs: Runs) -> None:
        workflow = flow(agent(tools=["look"], max_calls_per_round=1))
        run_id = await finish(runs, workflow, {"A": [{"tool_calls": looks}, "It rains."]})
        refused = await runs.call(run_id, "A[1]/look#2")
        assert not refused.complete and "did not make this call" in refused.why
        assert refused.arguments is not None and refused.arguments.value == {"place": "Rome"}

    tell(place, story)


class Gate:
    """A function that waits until somebody opens it."""

    def __init__(self) -> None:
        self.entered, self.opened = asyncio.Event(), asyncio.Event()


class SlowModel:
    """Patches the script of a run, so that a model answers only when the gate is open."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate = Gate()
        from roundel.llm.script import ScriptedModel

        reply = ScriptedModel.reply

        async def late(model: Any, *given: Any) -> Any:
            self.gate.entered.set()
            await self.gate.opened.wait()
            return await reply(model, *given)

        monkeypatch.setattr(ScriptedModel, "reply", late)


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "not stored"])
def test_a_call_in_flight_is_shown_by_the_process_that_makes_it(
    place: Path, monkeypatch: pytest.MonkeyPatch, is_stored: bool
) -> None:
    async def work() -> None:
        slow = SlowModel(monkeypatch)
        async with Runs(place) as runs, Runs(place) as others:
            run_id = await runs.start(flow(agent()), "How is it?", script={"A": "Fine."}, stored=is_stored)
            await slow.gate.entered.wait()
            call = await runs.call(run_id, "A")
            assert (call.state, call.call, call.calls, call.complete) == ("in_flight", 1, 1, True)
            assert texts(call.messages) == ["How is it?"] and call.reply is None
            if is_stored:
                seen = await others.call(run_id, "A")
                assert (seen.state, seen.complete, seen.why) == ("in_flight", False, ELSEWHERE)
                assert not seen.messages
            with pytest.raises(NoCall):
                await runs.call(run_id, "A", 2)
            slow.gate.opened.set()
            if not is_stored:
                await runs.engine.wait_until_idle(run_id)
            else:
                await runs.result(run_id)
            ended = await (others if is_stored else runs).call(run_id, "A")
            assert ended.state == "ended" and ended.complete
            assert ended.reply is not None and ended.reply.text == "Fine."

    asyncio.run(work())


def test_a_fork_finds_what_its_parents_got(place: Path) -> None:
    workflow = flow(agent(), {"id": "B", "type": "agent", "config": {}})

    async def story(runs: Runs) -> None:
        run_id = await finish(runs, workflow, {"A": "one", "B": "two"})
        child = await runs.fork(run_id, "B")
        await runs.resume(child)
        grandchild = await runs.fork(child, "B")
        for each in (child, grandchild):
            call = await runs.call(each, "A")
            assert call.complete and texts(call.messages) == ["How is it?"]
        assert (await runs.call(child, "B")).complete
        await runs.prune(run_id, keep="nothing")
        lost = await runs.call(grandchild, "A")
        assert (lost.complete, lost.why, lost.reply and lost.reply.text) == (False, NOT_STORED, "one")

    tell(place, story)


def test_pruning_deletes_what_calls_got(place: Path) -> None:
    async def story(runs: Runs) -> None:
        run_id = await finish(runs, LOOKING, SCRIPT)
        assert await runs.store.pieces_size(run_id)
        await runs.prune(run_id, keep="last")
        assert not await runs.store.pieces_size(run_id)
        with pytest.raises(StoreError, match="was pruned"):
            await runs.call(run_id, "A")

    tell(place, story)


def test_without_bytes_nothing_is_kept_also_after_a_resume(place: Path) -> None:
    workflow = flow(agent(), {"id": "H", "type": "human"}, {"id": "B", "type": "agent", "config": {}})

    async def begin(runs: Runs) -> None:
        await finish(runs, workflow, {"A": "one", "B": "two"})

    async def go_on(runs: Runs) -> None:
        run_id = await runs.find("last")
        await runs.answer(run_id, "yes")
        await runs.result(run_id)
        for address in ("A", "B"):
            call = await runs.call(run_id, address)
            assert (call.complete, call.why, call.messages) == (False, NOT_KEPT, ())
            assert call.reply is not None and call.reply.text in ("one", "two")
        assert not await runs.store.pieces_size(run_id)

    tell(place, begin, context_bytes=0)
    tell(place, go_on)


def test_the_limit_holds_over_a_resume(place: Path) -> None:
    workflow = flow(agent(), {"id": "H", "type": "human"}, {"id": "B", "type": "agent", "config": {}})
    limit = 3_000

    async def begin(runs: Runs) -> None:
        run_id = await runs.start(workflow, "x" * 500, script={"A": "one", "B": "two " * 2000})
        await runs.result(run_id)

    async def go_on(runs: Runs) -> None:
        run_id = await runs.find("last")
        await runs.answer(run_id, "".join(map(chr, range(0x4E00, 0x4E00 + 2_000))))
        await runs.result(run_id)
        call = await runs.call(run_id, "B")
        assert not call.complete and "--context-bytes" in call.why
        assert call.messages[-1].bytes == 6_000 and not call.messages[-1].text
        assert await runs.store.pieces_size(run_id) < limit + 1_000

    tell(place, begin, context_bytes=limit)
    tell(place, go_on)


def test_of_a_node_that_is_not_logged_only_lengths_are_shown(place: Path) -> None:
    workflow = flow({**agent(tools=["look"]), "log_output": False})

    async def story(runs: Runs) -> None:
        run_id = await finish(runs, workflow, SCRIPT)
        shown = [await runs.call(run_id, *which) for which in (("A", 1), ("A", 2), ("A[1]/look",))]
        for call in shown:
            text = msgspec.json.encode(call).decode()
            for hidden in ("How is it?", "Be brief.", "Oslo", "rain", "It rains."):
                assert hidden not in text
            assert not call.complete and "log_output" in call.why
        assert shown[1].reply is not None and shown[1].reply.bytes == len("It rains.")

    tell(place, story)


def test_a_run_that_was_retried_with_changes_counts_what_is_left(place: Path) -> None:
    workflow = flow(agent(), {"id": "B", "type": "agent", "config": {}})

    async def story(runs: Runs) -> None:
        run_id = await finish(runs, workflow, {"A": "one", "B": {"error": "no luck"}})
        await runs.retry(run_id, script={"A": "one", "B": ["two", "two"]}, limits={"model_calls": 9})
        for address, calls, reply in (("A", 1, "one"), ("B", None, "two")):
            call = await runs.call(run_id, address)
            assert call.complete and call.reply is not None and call.reply.text == reply
            assert calls in (None, call.calls)

    tell(place, story)


def test_a_lost_piece_loses_a_view_and_no_run(place: Path) -> None:
    import sqlite3

    async def begin(runs: Runs) -> None:
        await finish(runs, LOOKING, SCRIPT)

    async def look(runs: Runs) -> None:
        run_id = await runs.find("last")
        call = await runs.call(run_id, "A")
        assert (call.complete, call.why) == (False, NOT_STORED)
        assert (await runs.replay(run_id)) is None
        assert (await runs.events(run_id))[-1].event == "run_finished"

    tell(place, begin)
    with sqlite3.connect(place) as database:
        database.execute("DELETE FROM texts")
    database.close()
    tell(place, look)


def test_an_answer_is_short_however_long_the_context(place: Path) -> None:
    async def story(runs: Runs) -> None:
        run_id = await runs.start(flow(agent()), "word " * 20_000, script={"A": "long " * 20_000})
        await runs.result(run_id)
        details = await runs.call(run_id, "A")
        assert details.reply is not None and len(details.reply.text) == 100_000
        short = shortened(details)
        assert short.reply is not None and short.reply.more and short.reply.bytes == 100_000
        assert short.messages[0].more and len(msgspec.json.encode(short)) < 40_000
        read, offset = "", 0
        while True:
            page = page_of(details, details.messages[0].piece, offset)
            read += page.text
            if page.next is None:
                break
            offset = page.next
        assert read == "word " * 20_000 and page.length == len(read)
        with pytest.raises(NoCall, match="no piece"):
            page_of(details, "nothing", 0)
        with pytest.raises(NoCall, match="has 100000 characters"):
            page_of(details, "reply", 100_001)

    tell(place, story)


def test_a_list_of_very_many_messages_is_bounded() -> None:
    many = tuple(CallPart(str(number), "message", text="x" * 900) for number in range(10 * MAX_PARTS))
    details = CallDetails(
        run_id="r",
        address="A",
        node_id="A",
        path=(),
        kind="model",
        call=1,
        calls=1,
        state="ended",
        complete=True,
        messages=many,
        system=CallPart("s", "system", text="Be brief."),
    )
    short = shortened(details)
    assert len(short.messages) == MAX_PARTS and short.omitted == 9 * MAX_PARTS
    assert (short.messages[0].piece, short.messages[-1].piece) == ("0", str(10 * MAX_PARTS - 1))
    assert short.system == details.system and short.messages[-1].text and not short.messages[0].text
    assert sum(len(part.text) for part in short.parts) <= ANSWER_CHARACTERS


def test_only_the_last_calls_of_a_run_without_a_store_are_known() -> None:
    async def story(runs: Runs) -> None:
        run_id = await runs.start(LOOKING, "How is it?", script=SCRIPT, stored=False)
        await runs.engine.wait_until_idle(run_id)
        call = await runs.call(run_id, "A", 1)
        assert call.complete and call.reply is not None and call.reply.value["tool_calls"]
        with pytest.raises(StoreError, match="is not stored"):
            await runs.call(run_id, "A[1]/look")

    async def work() -> None:
        async with Runs(engine=LocalEngine(lambda: pytest.fail("no store is needed"))) as runs:
            await story(runs)

    asyncio.run(work())
