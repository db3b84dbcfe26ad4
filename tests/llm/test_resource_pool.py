"""Resources that runs share are opened once, stay open for a while when idle, and are always closed."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from roundel.llm.resource_pool import ResourceLease, ResourcePool, close_pool, current_pool


class Line:
    """Something that is opened and closed."""

    def __init__(self, name: str, story: list[str]) -> None:
        self.name, self.story = name, story
        story.append(f"open {name}")

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.story.append(f"close {self.name}")


def take(lease: ResourceLease, name: str, story: list[str]) -> Line:
    return lease.take(name, lambda: Line(name, story), Line.close)


def run_story(story: Callable[[list[str]], Awaitable[None]]) -> list[str]:
    log: list[str] = []
    asyncio.run(story(log))  # type: ignore[arg-type]
    return log


def test_two_leases_share_a_resource_and_the_last_one_leaves_it_idle() -> None:
    async def story(log: list[str]) -> None:
        pool = ResourcePool(60)
        one, other = pool.lease(), pool.lease()
        assert take(one, "a", log) is take(other, "a", log) is take(one, "a", log)
        await one.release()
        await other.release()
        assert log == ["open a"]
        assert len(pool) == 1
        again = pool.lease()
        take(again, "a", log)
        assert log == ["open a"], "it was still there"
        await again.release()
        await pool.close()

    assert run_story(story) == ["open a", "close a"]


def test_idle_resources_are_closed_and_leased_ones_stay_open() -> None:
    async def story(log: list[str]) -> None:
        pool = ResourcePool(0.001)
        brief, long = pool.lease(), pool.lease()
        take(brief, "a", log)
        take(long, "b", log)
        await brief.release()
        while "close a" not in log:  # noqa: ASYNC110 (nobody could set an event)
            await asyncio.sleep(0.001)
        assert (log, len(pool)) == (["open a", "open b", "close a"], 1)
        await long.release()
        while len(pool):  # noqa: ASYNC110
            await asyncio.sleep(0.001)

    assert run_story(story)[-1] == "close b"


def test_without_idle_time_a_resource_is_closed_when_its_last_lease_is_released() -> None:
    async def story(log: list[str]) -> None:
        lease = ResourcePool(0).lease()
        take(lease, "a", log)
        await lease.release()
        assert log == ["open a", "close a"]
        await lease.release()

    assert run_story(story) == ["open a", "close a"]


def test_end_of_the_event_loop_closes_idle_resources() -> None:
    async def story(log: list[str]) -> None:
        lease = current_pool().lease()
        take(lease, "a", log)
        await lease.release()

    assert run_story(story) == ["open a", "close a"]


def test_run_cancelled_by_the_end_of_the_loop_closes_its_resources() -> None:
    async def story(log: list[str]) -> None:
        has_started = asyncio.Event()

        async def run() -> None:
            lease = current_pool().lease()
            take(lease, "a", log)
            try:
                has_started.set()
                await asyncio.Event().wait()
            finally:
                await lease.release()

        task = asyncio.create_task(run())
        await has_started.wait()
        assert not task.done()

    assert run_story(story) == ["open a", "close a"]


def test_finished_event_loop_can_be_garbage_collected() -> None:
    loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []

    async def story(log: list[str]) -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        lease = current_pool().lease()
        take(lease, "a", log)
        await lease.release()
        await asyncio.sleep(0)  # the guardian waits

    run_story(story)
    gc.collect()
    assert loops[0]() is None


def test_each_event_loop_has_a_pool_of_its_own() -> None:
    pools = []

    async def story() -> None:
        assert current_pool() is current_pool()
        pools.append(current_pool())

    asyncio.run(story())
    asyncio.run(story())
    assert pools[0] is not pools[1]
    assert current_pool() is not current_pool(), "without a loop nothing is shared"


def test_release_after_closing_the_pool_is_harmless() -> None:
    async def story(log: list[str]) -> None:
        lease = current_pool().lease()
        take(lease, "a", log)
        await close_pool()
        assert log == ["open a", "close a"]
        await lease.release()

    assert run_story(story) == ["open a", "close a"]


def test_failure_to_close_is_logged_and_the_other_resources_are_closed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(_resource: Any) -> None:
        raise OSError("the line is dead")

    async def story(log: list[str]) -> None:
        pool = ResourcePool(60)
        lease = pool.lease()
        lease.take("bad", object, fail)
        take(lease, "good", log)
        with caplog.at_level(logging.WARNING, "roundel"):
            await pool.close()

    assert run_story(story) == ["open good", "close good"]
    assert "could not be closed" in caplog.text
    assert "the line is dead" in caplog.text


def test_resource_that_fails_to_open_is_not_pooled() -> None:
    def fail() -> Line:
        raise OSError("no line")

    async def story(log: list[str]) -> None:
        lease = ResourcePool(0).lease()
        with pytest.raises(OSError, match="no line"):
            lease.take("a", fail, Line.close)
        take(lease, "a", log)
        await lease.release()

    assert run_story(story) == ["open a", "close a"]
