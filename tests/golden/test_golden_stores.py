"""Stores of earlier versions stay readable, and their runs resumable, with the rules that they began under.

`5c60b12.db` and `5c60b12.json` were made with the code of that commit, by

    python -m tests.golden.test_golden_stores 5c60b12.db

The second file contains the events of each run, and those that followed when the run was taken up again. So
the expected values come from the program that wrote the store.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from roundel.hosts.engine import Attachment
from roundel.journal.store import StoreError
from roundel.kernel.events import Event
from roundel.kernel.payloads import Custom, NodeCompleted
from roundel.kernel.unlock import CHECKS
from roundel.runs.runs import Runs
from tests.golden.typed import comparable, newest, upgraded

FOLDER = Path(__file__).parent
EXPECTED = FOLDER / "5c60b12.json"
STORE = FOLDER / "5c60b12.db"
Continue = Callable[[Runs, str], Awaitable[object]]
VOLATILE = ("timestamp", "elapsed")
MOST_EVENTS = 120
"""The newest events of a run that are told; only the run with a snapshot has more."""
COMPARED = 40
"""Those of that run that are compared: there are more events now, so fewer rounds are among the newest."""


async def resume(runs: Runs, run_id: str) -> None:
    await runs.resume(run_id)


async def retry(runs: Runs, run_id: str) -> None:
    await runs.retry(run_id)


async def answer(runs: Runs, run_id: str) -> None:
    await runs.answer(run_id, "yes", execute=Attachment())
    await runs.wait(run_id)


async def unlock(runs: Runs, run_id: str) -> None:
    await runs.unlock(run_id, "more", checks=CHECKS, limits={"model_calls": 7}, execute=Attachment())
    await runs.wait(run_id)


async def fork(runs: Runs, run_id: str) -> None:
    forked = await runs.fork(run_id, "Writer[2]")
    await runs.resume(forked)


CONTINUE: dict[str, Continue] = {
    "completed": fork,
    "failed": retry,
    "paused": resume,
    "locked": unlock,
    "waiting": answer,
    "debate": resume,
    "vote": resume,
    "prose": resume,
    "until": resume,
    "long": resume,
    "stopped": fork,
    "forked": resume,
    "revised": fork,
    "retried": resume,
    "running": resume,
}


def shown(event: Event) -> list[Any]:
    """What an event says, without times."""
    return [event.seq, event.event, event.node_id, event.address, _plain(event.fields())]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items() if key not in VOLATILE}
    return [_plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value


async def tell(path: Path, name: str, run_id: str) -> dict[str, Any]:
    """The events of a run, and the result of taking it up again."""
    async with Runs(path) as runs:
        events = [shown(event) for event in await runs.events(run_id)]
        status = (await runs.row(run_id)).status
        told: dict[str, Any] = {"id": run_id, "status": status, "events": events[-MOST_EVENTS:]}
        if name in CONTINUE:
            before = {row.id for row in await runs.list()}
            await CONTINUE[name](runs, run_id)
            new = [row.id for row in await runs.list() if row.id not in before]
            run_id = new[0] if new else run_id
            later = [shown(event) for event in await runs.events(run_id)]
            told["later"] = (later if new else later[len(events) :])[-MOST_EVENTS:]
    return told


def cases() -> dict[str, dict[str, Any]]:
    return dict(json.loads(EXPECTED.read_text("utf-8")))


@pytest.fixture
def no_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The script of the run that was cut off lets a reply wait for a minute."""
    sleep = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda seconds: sleep(0 if seconds >= 60 else seconds))


@pytest.mark.usefixtures("no_delays")
@pytest.mark.parametrize("name", [*CONTINUE, "pruned"])
def test_a_run_reads_and_continues_as_it_did(name: str, tmp_path: Path) -> None:
    expected = cases()[name]
    path = tmp_path / "runs.db"
    shutil.copy(STORE, path)
    told = asyncio.run(tell(path, name, expected["id"]))
    now, then = comparable(json.loads(json.dumps(told))), upgraded(expected)
    most = COMPARED if name == "long" else MOST_EVENTS
    assert newest(now, most) == newest(then, most)


def test_the_reports_of_old_events_are_apart(tmp_path: Path) -> None:
    """The events of the pruned run are stored in the first version."""
    path = tmp_path / "runs.db"
    shutil.copy(STORE, path)

    async def read() -> list[Event]:
        async with Runs(path) as runs:
            return await runs.events(cases()["pruned"]["id"])

    events = asyncio.run(read())
    reports = [event.data.report for event in events if isinstance(event.data, NodeCompleted)]
    assert any(report is not None and "count" in report for report in reports)
    assert not any(isinstance(event.data, Custom) for event in events)


def test_every_status_is_there() -> None:
    statuses = {case["status"] for case in cases().values()}
    assert statuses == {"running", "waiting", "paused", "suspended_locked", "completed", "failed", "stopped"}


def test_a_pruned_run_cannot_be_taken_up(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    shutil.copy(STORE, path)

    async def take_up() -> None:
        async with Runs(path) as runs:
            await runs.fork(cases()["pruned"]["id"], "Writer[2]")

    with pytest.raises(StoreError, match="pruned"):
        asyncio.run(take_up())


async def record(path: Path) -> dict[str, Any]:
    """The expected values; the store is made anew for each run."""
    from tests.golden.make_store import make

    ids = await make(path)
    told = {}
    for name, run_id in ids.items():
        copy = path.with_suffix(f".{name}")
        shutil.copy(path, copy)
        told[name] = await tell(copy, name, run_id)
        copy.unlink()
    return told


if __name__ == "__main__":
    file = Path(sys.argv[1])
    recorded = asyncio.run(record(file))
    file.with_suffix(".json").write_text(json.dumps(recorded, ensure_ascii=False, indent=0) + "\n", "utf-8")
