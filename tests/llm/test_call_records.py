"""What the facts of a run say of its calls: attempts, times, why the model stopped."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

import roundel
from roundel.kernel.facts import CallRecord, Failed, Finished, Usage, decode_fact, encode_fact
from tests.llm.story import AT_ONCE, LOOK, asking, every_provider, every_way, profile, workflow
from tests.llm.wire import Reply, Wire


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def facts_of(place: Path, source: Any, **options: Any) -> list[Finished | Failed]:
    """The results of the calls of a stored run, read from its store."""
    result = roundel.run(source, "How is it?", store=place, **options)

    async def read() -> list[Finished | Failed]:
        async with roundel.Runs(place) as runs:
            entries = await runs.store.entries(result.run_id)
            return [entry.fact for entry in entries if isinstance(entry.fact, (Finished, Failed))]

    return asyncio.run(read())


def record_of(fact: Finished | Failed) -> CallRecord:
    record = fact.call if isinstance(fact, Failed) else fact.outcome.call
    assert record is not None
    return msgspec.structs.replace(record, context="")


@every_provider
@every_way
def test_a_call_says_how_long_it_took_and_why_it_ended(
    wire: Wire, place: Path, provider: str, stream: bool
) -> None:
    wire.replies(LOOK, Reply(text="Quiet."))
    calls = [record_of(fact) for fact in facts_of(place, asking(wire, provider, "look", stream=stream))]
    first, tool, second = calls
    assert (first.stop, second.stop, tool.stop) == ("tool_calls", "stop", "")
    assert first.seconds > 0 and second.seconds > 0 and tool.seconds > 0
    for call in (first, second):
        assert (call.first_token is not None) is stream
        assert call.first_token is None or 0 < call.first_token <= call.seconds
    assert tool.first_token is None and not (first.attempts or second.attempts or tool.attempts)


def test_an_answer_that_was_cut_off_or_held_back_says_so(wire: Wire, place: Path) -> None:
    for finish, stop in (("length", "length"), ("content_filter", "content_filter")):
        wire.replies(Reply(text="Qui", finish=finish))
        (fact,) = facts_of(place, asking(wire))
        assert record_of(fact).stop == stop


def test_the_attempts_before_an_answer_are_kept_without_secrets(wire: Wire, place: Path) -> None:
    fields = profile(wire)
    refused = {"error": {"message": f"no {fields['api_key']}"}}
    wire.replies(
        Reply(status=429, retry_after=0.01), Reply(status=500, error_body=refused), Reply(text="Quiet.")
    )
    retry = {"max_attempts": 3, **AT_ONCE}
    (fact,) = facts_of(place, workflow({"default": fields}, retry=retry))
    record = record_of(fact)
    one, two = record.attempts
    assert (one.model, one.status, one.retry_after, one.waited) == ("openai:gpt-4o", 429, 0.01, 0.01)
    assert (two.status, two.retry_after, two.waited) == (500, None, 0)
    assert two.error == "the provider answered 500: no ***"
    assert record.seconds > one.seconds + two.seconds > 0
    assert fields["api_key"].encode() not in encode_fact(fact)


def test_a_failed_call_keeps_its_attempts(wire: Wire, place: Path) -> None:
    wire.replies(Reply(status=500))
    models = {"default": profile(wire, fallback="other"), "other": profile(wire, "anthropic")}
    (fact,) = facts_of(place, workflow(models, retry={"max_attempts": 2, **AT_ONCE}))
    assert isinstance(fact, Failed) and fact.attempts == 4
    record = record_of(fact)
    assert [attempt.model.split(":")[0] for attempt in record.attempts] == ["openai", "openai", "anthropic"]
    assert record.seconds > sum(attempt.seconds for attempt in record.attempts)


def test_a_failure_that_becomes_a_message_keeps_its_attempts(wire: Wire, place: Path) -> None:
    wire.replies(Reply(status=500))
    retry = {"max_attempts": 2, **AT_ONCE}
    (fact,) = facts_of(place, asking(wire, on_error="message", retry=retry))
    assert isinstance(fact, Finished) and fact.outcome.usage == Usage(model_calls=1)
    assert [attempt.status for attempt in record_of(fact).attempts] == [500]


def test_the_retry_of_a_node_adds_its_attempts_to_those_of_the_model(wire: Wire, place: Path) -> None:
    wire.replies(Reply(status=500), Reply(status=500), Reply(status=500), Reply(text="Quiet."))
    source = asking(wire, retry={"max_attempts": 2, **AT_ONCE})
    source["graph"]["nodes"][0]["retry"] = {"max_attempts": 2, **AT_ONCE}
    (fact,) = facts_of(place, source)
    record = record_of(fact)
    assert [(attempt.status, attempt.model) for attempt in record.attempts] == [(500, "openai:gpt-4o")] * 3
    assert record.seconds > sum(attempt.seconds for attempt in record.attempts)


def test_a_function_with_a_retry_keeps_its_attempts(place: Path) -> None:
    graph, tries = roundel.Graph("g", start="F", end="F"), []

    @graph.function("F", retry={"max_attempts": 3, **AT_ONCE})
    def sometimes(text: str) -> str:
        tries.append(text)
        if len(tries) < 3:
            raise ValueError("no luck")
        return "ok"

    (fact,) = facts_of(place, graph)
    assert [attempt.error for attempt in record_of(fact).attempts] == ["ValueError: no luck"] * 2
    tries.append("more")
    (fact,) = facts_of(place, graph)
    assert isinstance(fact, Finished) and fact.outcome.call is None, "it was tried once, and is no call"


def test_a_script_takes_the_time_that_it_names(place: Path) -> None:
    script = {
        "A": [{"tool_calls": [{"name": "look", "arguments": {"place": "Oslo"}, "result": "rain"}]}, "Quiet."]
    }
    source = workflow({"default": {"model": "openai:gpt-4o"}}, "look")
    calls = [record_of(fact) for fact in facts_of(place, source, script=script)]
    assert calls == [CallRecord(0, stop="tool_calls"), CallRecord(0), CallRecord(0, stop="stop")]
    (fact,) = facts_of(place, source, script={"A": {"error": "no luck", "delay": 0.01}})
    assert record_of(fact) == CallRecord(0.01)


def test_a_reply_from_the_cache_takes_no_time(
    wire: Wire, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROUNDEL_CACHE", str(tmp_path / "cache"))
    wire.replies(Reply(status=500), Reply(text="Quiet."))
    source = asking(wire, cache=True, retry={"max_attempts": 2, **AT_ONCE})
    (paid,) = facts_of(place, source)
    (cached,) = facts_of(place, source)
    assert record_of(paid).attempts and record_of(paid).seconds > 0
    kept = CallRecord(0, stop="stop", response_id=record_of(paid).response_id)
    assert record_of(cached) == kept
    assert len(wire.requests) == 2


def test_a_fact_without_a_record_stays_as_it_was() -> None:
    """Not known is not 0: a call of an older version has no record."""
    for line in (
        b'{"type":"finished","address":"A","outcome":{},"time":1.0}',
        b'{"type":"failed","address":"A","error":"no","time":1.0}',
    ):
        fact = decode_fact(line)
        assert isinstance(fact, (Finished, Failed))
        assert (fact.call if isinstance(fact, Failed) else fact.outcome.call) is None
        assert encode_fact(fact) == line


def test_a_replay_reads_the_record_and_calls_nothing(wire: Wire, place: Path) -> None:
    wire.replies(Reply(status=500), Reply(text="Quiet."))

    async def story() -> None:
        async with roundel.Runs(place) as runs:
            source = asking(wire, retry={"max_attempts": 2, **AT_ONCE})
            run_id = await runs.start(source, "How is it?")
            await runs.result(run_id)
        async with roundel.Runs(place) as runs:  # another process, as it were
            old = await records(runs, run_id)
            fork = await runs.fork(run_id, "A")
            assert await runs.replay(run_id) is None
            assert (await runs.inspect(run_id)).state.status == "completed"
            assert len(old) == 1 and len(old[0].attempts) == 1
            assert await records(runs, run_id) == old
            assert await records(runs, fork) == []
        assert len(wire.requests) == 2

    asyncio.run(story())


async def records(runs: roundel.Runs, run_id: str) -> list[CallRecord]:
    facts = [entry.fact for entry in await runs.store.entries(run_id)]
    return [record_of(fact) for fact in facts if isinstance(fact, (Finished, Failed))]
