"""`Runs.pause` returns when the run is paused: its calls in flight have ended, and are stored."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.extend import Attachment
from tests.hosts.test_cancellation import turns
from tests.runs.test_service import OTHER, Gate, using

Story = Callable[[roundel.Runs], Awaitable[None]]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


async def requested(runs: roundel.Runs, run_id: str) -> None:
    """Until the pause is accepted."""
    while not (await runs.inspect(run_id)).state.paused:
        await turns(1)


async def at_the_gate(runs: roundel.Runs) -> tuple[Gate, str]:
    """A run with a call in flight, which the gate holds."""
    gate = Gate()
    run_id = await runs.start(gate.graph, "tea")
    await gate.has_started.wait()
    return gate, run_id


def test_a_pause_waits_for_the_calls_in_flight(place: Path) -> None:
    async def story(runs: roundel.Runs) -> None:
        gate, run_id = await at_the_gate(runs)
        pausing = asyncio.create_task(runs.pause(run_id, "lunch"))
        await requested(runs, run_id)
        assert not pausing.done(), "its call is in flight"
        gate.go.set()
        await pausing
        row = await runs.row(run_id)
        assert (row.status, row.owner) == ("paused", "")
        done = [event.address for event in await runs.events(run_id) if event.fields().get("output") == "tea"]
        assert done == ["A"], "the result of the call is stored"
        assert (await runs.resume(run_id)).output == "tea"

    using(place, story)


def test_a_pause_may_return_when_it_is_accepted(place: Path) -> None:
    async def story(runs: roundel.Runs) -> None:
        gate, run_id = await at_the_gate(runs)
        await runs.pause(run_id, wait=False)
        assert (await runs.row(run_id)).status == "running"
        gate.go.set()
        assert (await runs.result(run_id)).status == "paused"

    using(place, story)


def test_a_caller_that_stops_waiting_has_paused_the_run(place: Path) -> None:
    async def story(runs: roundel.Runs) -> None:
        gate, run_id = await at_the_gate(runs)
        pausing = asyncio.create_task(runs.pause(run_id))
        await requested(runs, run_id)
        pausing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pausing
        gate.go.set()
        assert (await runs.result(run_id)).status == "paused"

    using(place, story)


def test_a_stop_ends_the_wait_for_a_pause(place: Path) -> None:
    async def story(runs: roundel.Runs) -> None:
        _, run_id = await at_the_gate(runs)
        pausing = asyncio.create_task(runs.pause(run_id))
        await requested(runs, run_id)
        await runs.stop(run_id)
        await pausing
        assert (await runs.row(run_id)).status == "stopped"

    using(place, story)


def test_a_run_that_asks_a_person_pauses_without_the_answer(place: Path) -> None:
    asked = asyncio.Event()

    async def ask(_question: roundel.Question) -> str:
        asked.set()
        await asyncio.Event().wait()
        return ""

    async def story(runs: roundel.Runs) -> None:
        graph = roundel.Graph(start="H").node("H", "human")
        run_id = await runs.start(graph, "tea", attach=Attachment(ask=ask))
        await asked.wait()
        await runs.pause(run_id)
        assert (await runs.row(run_id)).status == "paused"

    using(place, story)


def test_a_run_without_a_store_pauses_and_keeps_its_result(place: Path) -> None:
    async def story(runs: roundel.Runs) -> None:
        gate = Gate()
        run_id = await runs.start(gate.graph, "tea", stored=False)
        await gate.has_started.wait()
        pausing = asyncio.create_task(runs.pause(run_id))
        await requested(runs, run_id)
        gate.go.set()
        await pausing
        assert (await runs.result(run_id)).status == "paused"

    using(place, story)


def test_a_pause_reports_that_the_host_failed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_arguments: object) -> None:
        raise roundel.StoreError("the disk is gone")

    async def story(runs: roundel.Runs) -> None:
        gate, run_id = await at_the_gate(runs)
        pausing = asyncio.create_task(runs.pause(run_id))
        await requested(runs, run_id)
        with monkeypatch.context() as patched:
            patched.setattr(runs.store, "append", broken)
            gate.go.set()
            with pytest.raises(roundel.StoreError, match="the disk is gone"):
                await pausing

    using(place, story)


def test_a_pause_of_another_process_waits_too(place: Path) -> None:
    command: list[Any] = [sys.executable, "-c", OTHER, str(place)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        run_id = other.stdout.readline().strip()

        async def story(runs: roundel.Runs) -> None:
            await runs.pause(run_id)
            assert (await runs.row(run_id)).status == "paused"

        using(place, story)
        assert other.stdout.readline() == "paused\n"
        assert other.wait(60) == 0
