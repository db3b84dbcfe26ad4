"""Streams of events, and the view that every reader makes of them. `make streams` records both."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roundel.kernel.events import Event, decode_event
from roundel.kernel.payloads import RunFinished
from roundel.runs.fold import RunFold
from roundel.runs.view import ViewSnapshot
from tests.runs.test_fold import check_end
from tools.streams import FOLDER, encoded, lines, random_runs, stories, timeless, view_of

PATHS = sorted(FOLDER.glob("*.jsonl"))


def read(path: Path) -> list[Event]:
    return [decode_event(line) for line in path.read_bytes().splitlines()]


STREAMS = {path.stem: read(path) for path in PATHS}


def test_there_are_streams_of_everything() -> None:
    names = {path.parent.name for path in (FOLDER.parents[2] / "examples").glob("*/workflow.yaml")}
    assert names - {"debugging"} <= set(STREAMS)
    seen = {event.event for events in STREAMS.values() for event in events}
    assert {
        "breaker_unlocked",
        "human_input_received",
        "limit_reached",
        "round_finished",
        "run_state_change",
        "tool_call",
        "warning",
    } <= seen
    statuses = {getattr(event.data, "status", "") for events in STREAMS.values() for event in events}
    assert {"cancelled", "failed", "paused", "skipped", "stopped", "suspended_locked", "waiting"} <= statuses
    assert any(event.part for events in STREAMS.values() for event in events)
    assert not isinstance(STREAMS["nested_loops_cut"][-1].data, RunFinished)


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_makes_its_view(name: str) -> None:
    written = json.loads((FOLDER / f"{name}.view.json").read_text(encoding="utf-8"))
    assert json.loads(encoded(view_of(STREAMS[name]))) == written


@pytest.mark.parametrize("name", STREAMS)
def test_a_view_ends_as_the_kernel_says(name: str) -> None:
    ends = [at for at, event in enumerate(STREAMS[name], 1) if isinstance(event.data, RunFinished)]
    for at in ends:
        data = STREAMS[name][at - 1].data
        assert isinstance(data, RunFinished)
        check_end(view_of(STREAMS[name][:at]), data)


@settings(max_examples=100, deadline=None)
@given(name=st.sampled_from(sorted(STREAMS)), share=st.floats(0, 1))
def test_a_view_continues_from_any_event(name: str, share: float) -> None:
    events = STREAMS[name]
    at = round(share * len(events))
    sent = msgspec.json.decode(encoded(view_of(events[:at])), type=ViewSnapshot)
    fold = RunFold.restore(sent)
    for event in events[at:]:
        fold.apply(event)
    assert encoded(fold.snapshot()) == encoded(view_of(events))


def test_a_second_recording_is_the_same() -> None:
    for name, events in [*stories(), *random_runs()]:
        again = lines([timeless(name, event) for event in events])
        assert again == (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8"), name
