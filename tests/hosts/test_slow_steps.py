"""Patterns that take long: a step has one budget for all of them, and does not block the event loop."""

from __future__ import annotations

import asyncio
import random
import sys
import threading
import time
from collections.abc import Callable
from functools import cache, partial, wraps
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roundel
from roundel.hosts.core import HostCore
from roundel.journal.sqlite import SqliteStore
from roundel.kernel import dead_loop
from roundel.kernel.facts import DecisionError, Decisions
from roundel.nodes.structured_output import validation_error
from roundel.workflow.evaluation_budget import STEP_SECONDS
from roundel.workflow.expression import Expression, ExpressionError
from roundel.workflow.pattern import MATCH_TIME_LIMIT, PatternError, compile_pattern
from tests.hosts.core_host import CoreHost
from tests.hosts.test_core import case_of, same
from tests.journal.stores import using
from tests.server.live import loop_text

ENDLESS = "(x+x+)+y"
LONG = "x" * 10_000


def cpu(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


@cache
def slow_text() -> str:
    """A text on which the pattern takes a while on this machine, but not too long for one search."""
    search, text = compile_pattern(ENDLESS).search, "x" * 10
    search(text)  # compiles it
    # The least of several: a garbage collection may fall into one.
    while min(cpu(partial(search, text)) for _ in range(3)) < MATCH_TIME_LIMIT / 10:
        text += "x"
    return text


def fan(count: int) -> dict[str, Any]:
    """A node with so many edges, each with a pattern of its own that is slow."""
    nodes = [
        {"id": name, "type": "passthrough"} for name in ("A", *(f"B{number}" for number in range(count)))
    ]
    edges = [
        {
            "from": "A",
            "to": f"B{number}",
            "condition": {"type": "keyword", "config": {"regex": f"{ENDLESS}{number}", "negate": True}},
        }
        for number in range(count)
    ]
    return {"graph": {"nodes": nodes, "edges": edges, "start": "A"}}


# The budget


def test_all_patterns_of_a_step_share_a_budget_and_a_replay_decides_nothing() -> None:
    decisions, pattern, errors = Decisions(), compile_pattern(ENDLESS), []

    def decide_often() -> None:
        for _ in range(20):
            with pytest.raises((PatternError, DecisionError)) as caught:
                decisions.record_or_replay(pattern.search, LONG)
            errors.append(str(caught.value))

    assert cpu(decide_often) < STEP_SECONDS + 2 * MATCH_TIME_LIMIT
    assert "took more than 0.5 seconds" in errors[0]
    assert "the patterns and expressions before it took more than 2 seconds together" in errors[-1]
    assert repr(ENDLESS) in errors[-1]

    live, errors = errors, []
    decisions.begin(decisions.made)
    assert cpu(decide_often) < MATCH_TIME_LIMIT
    decisions.end()
    assert errors == live


def test_a_used_up_budget_stops_expressions_too_and_the_next_step_has_a_new_one() -> None:
    decisions, pattern = Decisions(), compile_pattern(ENDLESS)
    expression = Expression("text == 'x'", ("text",))
    for _ in range(20):
        with pytest.raises(PatternError):
            decisions.record_or_replay(pattern.search, LONG)
    with pytest.raises(ExpressionError, match="took more than 2 seconds together"):
        decisions.record_or_replay(expression.evaluate, {"text": "x"})
    decisions.begin(None)
    assert decisions.record_or_replay(expression.evaluate, {"text": "x"}) is True


def test_a_node_with_too_many_slow_edges_fails_and_says_why() -> None:
    result = roundel.run(fan(400), slow_text(), script={})
    assert result.status == "failed"
    assert "the patterns and expressions before it took more than 2 seconds together" in str(result.error)


def test_the_patterns_of_a_schema_share_a_budget() -> None:
    schema = {"allOf": [{"not": {"pattern": f"{ENDLESS}{number}"}} for number in range(400)]}
    text, problems = slow_text(), []
    assert cpu(lambda: problems.append(validation_error(text, schema))) < STEP_SECONDS + 4 * MATCH_TIME_LIMIT
    assert "took more than 2 seconds together" in problems[0]


# Off the event loop


def test_slow_steps_of_a_stored_run_leave_the_event_loop_free(tmp_path: Path) -> None:
    """Most of the matching is done by other threads. Processor time is compared, so the load of the machine
    does not matter."""
    text = slow_text()
    needed = cpu(lambda: [compile_pattern(f"{ENDLESS}{number}").search(text) for number in range(16)])

    async def story(store: SqliteStore) -> tuple[str, float]:
        began = time.thread_time()
        result = await roundel.run_async(fan(16), text, script={}, store=store)
        return result.status, time.thread_time() - began

    status, spent = asyncio.run(using(tmp_path / "runs.db", story))
    assert status == "completed"
    assert spent < needed * 0.5


def test_long_messages_of_a_loop_are_compared_in_another_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[threading.Thread] = []

    def judge_round(*arguments: Any) -> Any:
        judged = dead_loop.judge_round.__wrapped__(*arguments)  # type: ignore[attr-defined]
        compared.append(threading.current_thread())
        return judged

    async def story(store: SqliteStore) -> str:
        file = tmp_path / "loop.yaml"
        file.write_text(loop_text(10).replace("breaker: false\n", ""), encoding="utf-8")
        script = {"Writer": ["lorem ipsum " * 10_000] * 10}
        return (await roundel.run_async(file, "x", script=script, store=store)).status

    monkeypatch.setattr(dead_loop, "judge_round", wraps(dead_loop.judge_round)(judge_round))
    assert asyncio.run(using(tmp_path / "runs.db", story)) == "suspended_locked"
    assert compared and threading.main_thread() not in compared


def test_a_slow_run_of_a_store_is_the_same_as_one_in_memory(tmp_path: Path) -> None:
    events: list[roundel.Event] = []
    live = roundel.run(fan(5), slow_text(), script={}, on_event=events.append)

    stored: list[roundel.Event] = []

    async def story(store: SqliteStore) -> roundel.Result:
        return await roundel.run_async(fan(5), slow_text(), script={}, store=store, on_event=stored.append)

    result = asyncio.run(using(tmp_path / "runs.db", story))
    assert result.status == live.status == "completed"
    assert [(one.event, one.address) for one in stored if one.seq] == [
        (one.event, one.address) for one in events if one.seq
    ]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**40))
def test_steps_in_a_thread_decide_the_same(seed: int) -> None:
    plan, text, script = case_of(seed)
    dice = random.Random(seed)
    host = CoreHost(plan, script, dice).begin(text)

    def begin_to_be_slow(host: CoreHost) -> None:
        host.log.is_slow = host.log.is_slow or dice.random() < 0.2

    same(host.run(begin_to_be_slow), seed)


def is_stepping() -> bool:
    """Whether a thread makes a step now."""
    frames = sys._current_frames()
    for thread in threading.enumerate():
        frame = frames.get(thread.ident or 0) if thread.name.startswith("roundel-step") else None
        while frame is not None:
            if frame.f_code is HostCore.apply_next.__code__:
                return True
            frame = frame.f_back
    return False


def test_a_run_that_is_cancelled_during_a_slow_step_waits_for_the_thread(tmp_path: Path) -> None:
    """Nothing else may use the run before: its last fact would be written into the middle of a step."""

    async def story(store: SqliteStore) -> str:
        task = asyncio.ensure_future(roundel.run_async(fan(400), slow_text(), script={}, store=store))
        while not is_stepping():  # noqa: ASYNC110 (a thread sets no event)
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not is_stepping()
        (row,) = await store.rows()
        assert row.owner == ""
        return row.status

    assert asyncio.run(using(tmp_path / "runs.db", story)) == "failed"
