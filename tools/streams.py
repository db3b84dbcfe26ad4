"""Records tests/conformance/events: streams of events, and the view that each of them makes.

Every reader of events has to make the same views of them (tests/conformance/test_streams.py, and the tests of
the page). The streams come from the examples with their scripts, from stories with locks, retries and people,
and from random runs of the tests of the kernel. `make streams` records them again; the files change only if
events or views do.

Times are replaced, since those of a run are different each time: an event takes a quarter of a second,
whatever it does.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

import roundel
from roundel.kernel.events import Event, decode_event, encode_event, stamp
from roundel.runs.fold import RunFold
from roundel.runs.view import ViewSnapshot

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "tests" / "conformance" / "events"
BEGAN, STEP = 1_800_000_000, 0.25
"""The time of the first event, and the time between two."""
NO_STREAM = ("debugging",)
"""Examples that pause, and never end by themselves."""
RANDOM = {
    "graph": (2, 7, 11),
    "failures": (1, 5, 8, 12),
    "loop_agents": (1, 4, 16, 21, 30),
}
"""Random runs, by kind and seed: breaks, parts, retries, pauses, cancelled loops, stops."""
DRAFTS = [{"text": f"draft {number}", "tokens": {"input": 10, "output": number}} for number in range(1, 9)]
CHECKS = ["cause_understood", "cost_accepted", "workflow_reviewed"]


def draft_loop(editor: str) -> dict[str, Any]:
    """A writer, and an editor of this type who wants more, or not."""
    again = {"type": "keyword", "config": {"any": ["more"]}}
    done = {"type": "keyword", "config": {"any": ["good"]}}
    nodes = [("Writer", "agent"), ("Editor", editor), ("Done", "passthrough")]
    return {
        "graph": {
            "id": "draft",
            "start": "Writer",
            "end": "Done",
            "nodes": [{"id": name, "type": kind} for name, kind in nodes],
            "edges": [
                {"from": "Writer", "to": "Editor"},
                {"from": "Editor", "to": "Writer", "condition": again},
                {"from": "Editor", "to": "Done", "condition": done},
            ],
        }
    }


def examples() -> Iterator[tuple[str, list[Event]]]:
    for workflow in sorted((ROOT / "examples").glob("*/workflow.yaml")):
        name = workflow.parent.name
        if name not in NO_STREAM:
            seen: list[Event] = []
            roundel.run(
                str(workflow), "tea", script=str(workflow.parent / "script.yaml"), on_event=seen.append
            )
            yield name, seen


async def locked_and_unlocked(runs: roundel.Runs) -> str:
    """A cap locks the loop twice; a person raises it, and then stops the run."""
    script = {"Writer": DRAFTS, "Editor": ["more"]}
    run_id = await runs.start(draft_loop("agent"), "tea", script=script, limits={"rounds": 2})
    await runs.result(run_id)
    await runs.unlock(
        run_id, "it was too low", checks=CHECKS, by="kim", limits={"rounds": 4}, note="be brief"
    )
    await runs.result(run_id)
    await runs.stop(run_id, "enough", by="kim")
    return run_id


async def failed_and_retried(runs: roundel.Runs) -> str:
    """A call fails; the retry makes it again."""
    script = {"Writer": DRAFTS, "Editor": ["more", {"error": "rate limit"}, "good"]}
    run_id = await runs.start(draft_loop("agent"), "tea", script=script)
    await runs.result(run_id)
    await runs.retry(run_id, by="kim")
    return run_id


async def failed(runs: roundel.Runs) -> str:
    """A call fails in the second round."""
    script = {"Writer": DRAFTS, "Editor": ["more", {"error": "rate limit"}]}
    run_id = await runs.start(draft_loop("agent"), "tea", script=script)
    await runs.result(run_id)
    return run_id


async def answered_and_stopped(runs: roundel.Runs) -> str:
    """A person answers once, and the run is stopped while it waits again."""
    run_id = await runs.start(draft_loop("human"), "tea", script={"Writer": DRAFTS})
    await runs.result(run_id)
    await runs.answer(run_id, "more", by="kim")
    await runs.result(run_id)
    await runs.stop(run_id, "enough", by="kim")
    return run_id


STORIES = (locked_and_unlocked, failed_and_retried, failed, answered_and_stopped)


def stories() -> Iterator[tuple[str, list[Event]]]:
    for story in STORIES:
        yield story.__name__, asyncio.run(_told(story))


async def _told(story: Callable[[roundel.Runs], Any]) -> list[Event]:
    with tempfile.TemporaryDirectory() as folder:
        async with roundel.Runs(Path(folder) / "runs.db") as runs:
            return list(await runs.events(await story(runs)))


def random_runs() -> Iterator[tuple[str, list[Event]]]:
    from tests.kernel.test_rounds import MAKERS, Rough

    for kind, seeds in RANDOM.items():
        for seed in seeds:
            case, functions = MAKERS[kind](seed)
            yield f"{kind}_{seed}", Rough(case, seed, functions).go(case[1]).events


def cut(streams: dict[str, list[Event]]) -> Iterator[tuple[str, list[Event]]]:
    """The beginning of a stream, as of a run that goes on."""
    name = "nested_loops"
    yield f"{name}_cut", streams[name][: random.Random(7).randrange(20, len(streams[name]))]


def record() -> dict[str, list[Event]]:
    """All streams, by name, with times that are always the same."""
    streams = dict(examples()) | dict(stories()) | dict(random_runs())
    streams |= dict(cut(streams))
    return {
        name: [timeless(name, event) for event in events if event.seq] for name, events in streams.items()
    }


def timeless(name: str, event: Event) -> Event:
    """An event with the times and the id of its stream."""
    fields = _timeless(json.loads(encode_event(event)), event.seq)
    fields |= {"timestamp": stamp(BEGAN + STEP * event.seq), "run_id": name}
    return decode_event(json.dumps(fields).encode())


def _timeless(value: Any, seq: int) -> Any:
    if isinstance(value, list):
        return [_timeless(one, seq) for one in value]
    if not isinstance(value, dict):
        return value
    return {key: _time(key, one, seq) for key, one in value.items()}


def _time(key: str, value: Any, seq: int) -> Any:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return _timeless(value, seq)
    if key == "work_seconds":
        return STEP * seq
    return STEP if key in ("seconds", "waited", "first_token", "elapsed") else value


def view_of(events: list[Event]) -> ViewSnapshot:
    fold = RunFold()
    for event in events:
        fold.apply(event)
    return fold.snapshot()


def encoded(view: ViewSnapshot) -> str:
    return (
        json.dumps(json.loads(msgspec.json.encode(view, enc_hook=repr)), ensure_ascii=False, indent=1) + "\n"
    )


def lines(events: list[Event]) -> str:
    return "".join(encode_event(event).decode() + "\n" for event in events)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    warnings.simplefilter("ignore", roundel.RoundelWarning)
    for old in [*FOLDER.glob("*.jsonl"), *FOLDER.glob("*.view.json")]:
        old.unlink()
    for name, events in record().items():
        (FOLDER / f"{name}.jsonl").write_text(lines(events), encoding="utf-8")
        (FOLDER / f"{name}.view.json").write_text(encoded(view_of(events)), encoding="utf-8")
        print(f"{name}: {len(events)} events", file=sys.stderr)


if __name__ == "__main__":
    main()
