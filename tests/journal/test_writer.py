"""One thread that writes for everybody."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roundel.journal.store import StoreError
from roundel.journal.writer import WritableDatabase, Writer

Work = Callable[[sqlite3.Connection], Any]


class Numbers(WritableDatabase):
    """A database with one table."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self) -> sqlite3.Connection:
        made = self.open_second()
        made.execute("PRAGMA journal_mode = WAL")
        made.execute("CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY)")
        return made

    def open_second(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)

    def is_current(self, connection: sqlite3.Connection) -> bool:
        return True

    def loss(self) -> None:
        return None

    def explain(self, error: Exception) -> StoreError:
        return StoreError(f"explained: {error}")


def writer_of(path: Path) -> Writer:
    return Writer(Numbers(path))


def put(number: int) -> Work:
    return lambda db: db.execute("INSERT INTO t VALUES (?)", (number,)).lastrowid


def numbers(db: sqlite3.Connection) -> list[int]:
    return [number for (number,) in db.execute("SELECT n FROM t ORDER BY n")]


def test_a_thread_that_cannot_start_fails_its_jobs_and_the_next_one_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system is at the limit of threads for a moment."""
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "roundel-journal":
            raise RuntimeError("can't start new thread")
        start(thread)

    async def story() -> list[int]:
        writer = writer_of(tmp_path / "t.db")
        monkeypatch.setattr(threading.Thread, "start", refuse)
        for attempt in (writer.write(put(1)), add(writer, 2)):
            with pytest.raises(StoreError, match="can't start new thread"):
                await asyncio.wait_for(attempt, 60)
        monkeypatch.undo()
        await writer.write(put(3))
        found = await writer.read(numbers)
        assert writer.waiting <= 1  # the thread wakes its callers before it counts
        await writer.close()
        return found

    assert asyncio.run(story()) == [3]


INSERT = "INSERT OR IGNORE INTO t VALUES (?)"


async def add(writer: Writer, number: int) -> None:
    await writer.add(INSERT, (number,), lambda _db, about: StoreError(f"{about} is there"), number)


def hold() -> tuple[Work, threading.Event]:
    """A job that lasts until it is let go, so that others gather behind it."""
    go = threading.Event()
    return lambda _db: go.wait(10), go


def test_writes_queued_during_a_commit_share_the_next_one(tmp_path: Path) -> None:
    async def story() -> int:
        writer = writer_of(tmp_path / "db")
        slow, go = hold()
        first = asyncio.create_task(writer.write(slow))
        rest = [asyncio.create_task(writer.write(put(number))) for number in range(200)]
        await asyncio.sleep(0)
        go.set()
        assert await asyncio.gather(*rest) == list(range(200))
        await first
        assert await writer.read(numbers) == list(range(200))
        await writer.close()
        return writer.commits

    assert asyncio.run(story()) <= 3


def test_failing_job_rolls_back_only_itself(tmp_path: Path) -> None:
    def half(db: sqlite3.Connection) -> None:
        put(100)(db)
        raise StoreError("no")

    async def story() -> list[Any]:
        writer = writer_of(tmp_path / "db")
        slow, go = hold()
        jobs = [slow, put(1), half, put(2), put(1), lambda _db: 1 / 0, put(3)]
        tasks = [asyncio.create_task(writer.write(job)) for job in jobs]
        await asyncio.sleep(0)
        go.set()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert await writer.read(numbers) == [1, 2, 3]
        await writer.close()
        return [str(one) for one in done]

    assert asyncio.run(story()) == [
        *("True", "1", "no", "2"),
        "explained: UNIQUE constraint failed: t.n",
        "explained: division by zero",
        "3",
    ]


@pytest.mark.parametrize("with_job", [False, True])
def test_rejected_row_rolls_back_no_other(with_job: bool, tmp_path: Path) -> None:
    async def story() -> list[Any]:
        writer = writer_of(tmp_path / "db")
        await writer.write(put(2))
        before = writer.commits
        jobs = [writer.write(put(9))] if with_job else []
        done = await asyncio.gather(
            *(add(writer, number) for number in (1, 2, 3)), *jobs, return_exceptions=True
        )
        assert writer.commits == before + 1
        assert await writer.read(numbers) == [1, 2, 3, 9][: 3 + with_job]
        await writer.close()
        return [str(one) for one in done[:3]]

    assert asyncio.run(story()) == ["None", "2 is there", "None"]


def test_rows_and_jobs_are_written_in_submission_order(tmp_path: Path) -> None:
    seen: list[list[int]] = []

    async def story() -> None:
        writer = writer_of(tmp_path / "db")
        looks = [writer.write(lambda db: seen.append(numbers(db))) for _ in range(2)]
        await asyncio.gather(add(writer, 1), add(writer, 2), looks[0], add(writer, 3), looks[1])
        await writer.close()

    asyncio.run(story())
    assert seen == [[1, 2], [1, 2, 3]]


def test_cancelled_waiter_does_not_affect_the_other_rows(tmp_path: Path) -> None:
    async def story() -> None:
        writer = writer_of(tmp_path / "db")
        tasks = [asyncio.create_task(add(writer, number)) for number in range(3)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(one) for one in done] == [type(None), asyncio.CancelledError, type(None)]
        assert await writer.read(numbers) == [0, 1, 2]
        await writer.close()

    asyncio.run(story())


def test_single_failing_job_is_rolled_back(tmp_path: Path) -> None:
    def half(db: sqlite3.Connection) -> None:
        put(1)(db)
        raise StoreError("no")

    async def story() -> None:
        writer = writer_of(tmp_path / "db")
        with pytest.raises(StoreError, match="no"):
            await writer.write(half)
        assert await writer.read(numbers) == []
        assert writer.commits == 0
        await writer.write(put(2))
        assert await writer.read(numbers) == [2]
        await writer.close()

    asyncio.run(story())


def test_transaction_aborted_by_sqlite_fails_all_its_jobs(tmp_path: Path) -> None:
    """As a full disk does it: SQLite takes back the whole transaction in the middle of it."""

    def ends(db: sqlite3.Connection) -> None:
        db.execute("ROLLBACK")
        raise sqlite3.OperationalError("database or disk is full")

    async def story() -> None:
        writer = writer_of(tmp_path / "db")
        slow, go = hold()
        tasks = [asyncio.create_task(writer.write(job)) for job in (slow, put(1), ends, put(2))]
        await asyncio.sleep(0)
        go.set()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        failed = [str(one) for one in done if isinstance(one, StoreError)]
        assert len(failed) >= 3
        assert set(failed) == {"explained: database or disk is full"}
        assert await writer.read(numbers) == []
        assert await writer.write(put(3)) == 3
        await writer.close()

    asyncio.run(story())


def test_cancelled_write_is_still_executed(tmp_path: Path) -> None:
    async def story() -> list[int]:
        writer = writer_of(tmp_path / "db")
        slow, go = hold()
        waiting = asyncio.create_task(writer.write(slow))
        called_off = asyncio.create_task(writer.write(put(1)))
        await asyncio.sleep(0)
        called_off.cancel()
        await asyncio.gather(called_off, return_exceptions=True)
        go.set()
        await waiting
        found = await writer.read(numbers)
        await writer.close()
        return found

    assert asyncio.run(story()) == [1]


def test_writer_can_be_reopened_after_close(tmp_path: Path) -> None:
    async def story() -> None:
        writer = writer_of(tmp_path / "db")
        await writer.close()
        await writer.write(put(1))
        closing = asyncio.create_task(writer.close())
        await asyncio.sleep(0)
        await writer.write(put(2))
        await closing
        await writer.close()
        assert await writer.read(numbers) == [1, 2]
        await writer.close()

    asyncio.run(story())


def test_closed_event_loop_is_not_notified(tmp_path: Path) -> None:
    writer = writer_of(tmp_path / "db")
    slow, go = hold()

    async def leave() -> None:
        waiting = asyncio.ensure_future(writer.write(slow))
        await asyncio.sleep(0.01)
        waiting.cancel()

    asyncio.run(leave())
    go.set()

    async def come_back() -> int:
        number: int = await writer.write(put(1))
        await writer.close()
        return number

    assert asyncio.run(come_back()) == 1


def test_connection_failure_is_reported_on_every_call(tmp_path: Path) -> None:
    async def story() -> None:
        writer = writer_of(tmp_path / "no" / "db")
        for _ in range(2):
            with pytest.raises(StoreError, match="explained: unable to open database file"):
                await writer.read(numbers)
        await writer.close()

    asyncio.run(story())


def test_thread_that_cannot_start_is_an_error_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def work() -> None:
        writer = writer_of(tmp_path / "n.db")
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            async with asyncio.timeout(60):
                done = await asyncio.gather(writer.write(put(1)), add(writer, 2), return_exceptions=True)
        assert [str(each) for each in done] == ["explained: can't start new thread"] * 2
        await writer.write(put(3))
        assert await writer.read(numbers) == [3]
        await writer.close()

    asyncio.run(work())
