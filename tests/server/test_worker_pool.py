"""The pool of worker processes, with real processes: turns, quotas, and what becomes of one that is stuck."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest

from roundel.plan.overrides import LimitError
from roundel.server import worker_pool
from roundel.server.problems import Problem
from roundel.server.text_jobs import ForecastText, ReadScript, Verdict, Verify
from roundel.server.trials import Try
from roundel.server.worker_pool import WorkerPool
from roundel.workflow.allow_list import Policy
from roundel.workflow.diagnostics import WorkflowError

TEXT = "graph: {nodes: [{id: A, type: passthrough}], start: A}"
QUICK = Try(kind="score", config=None)


@asynccontextmanager
async def pool(
    size: int = 1, policy: Policy | None = None, **options: tuple[str, ...]
) -> AsyncIterator[WorkerPool]:
    opened = WorkerPool(policy or Policy(), size, **options)
    try:
        yield opened
    finally:
        await opened.close()


def story(tell: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await tell()

    asyncio.run(main())


def pids(opened: WorkerPool) -> list[int]:
    return [one.process.pid for one in opened._workers]


async def stuck(opened: WorkerPool, token: str = "heavy") -> tuple[int, asyncio.Future[bytes]]:
    """A worker that has begun a job and does not go on."""
    await opened.submit(QUICK, token)
    (pid,) = pids(opened)
    os.kill(pid, signal.SIGSTOP)
    return pid, opened.submit(QUICK, token)


async def problem(answer: asyncio.Future[bytes]) -> Problem:
    with pytest.raises(Problem) as caught:
        await answer
    assert caught.value.headers["retry-after"]
    return caught.value


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def address_space(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()


def descriptors(pid: int) -> set[str]:
    targets = {str(one.readlink()) for one in Path(f"/proc/{pid}/fd").iterdir()}
    return {"socket" if target.startswith("socket:") else target for target in targets}


def command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


def test_results_and_errors_cross_the_pipe() -> None:
    async def tell() -> None:
        async with pool() as opened:
            assert await opened.submit(QUICK, "a") == b'{"result":null,"error":null}'
            verdict = msgspec.json.decode(await opened.submit(Verify(text=TEXT), "a"), type=Verdict)
            assert verdict.is_sound and not verdict.diagnostics
            with pytest.raises(WorkflowError, match="'txt'"):
                await opened.submit(ReadScript(script={"A": [{"txt": "x"}]}), "a")
            with pytest.raises(LimitError, match="raunds"):
                await opened.submit(ForecastText(text=TEXT, limits={"raunds": 2}), "a")
            assert len(pids(opened)) == 1 and opened.restarts == 0

    story(tell)


def test_numbers_of_any_size_cross_the_pipe() -> None:
    async def tell() -> None:
        async with pool() as opened:
            job = Try(kind="condition", config={"cel": "data.n > 1.0"}, data={"n": 10**30, "m": -1.5e300})
            assert b"result" in await opened.submit(job, "a")

    story(tell)


# Turns.


def note(done: list[str], token: str, _answer: asyncio.Future[bytes]) -> None:
    done.append(token)


def test_tokens_take_turns() -> None:
    async def tell() -> None:
        async with pool() as opened:
            done: list[str] = []
            answers = []
            for token in "aaabbc":
                answer = opened.submit(QUICK, token)
                answer.add_done_callback(partial(note, done, token))
                answers.append(answer)
            await asyncio.gather(*answers)
            assert "".join(done) == "abcaba"

    story(tell)


def test_one_token_does_not_get_all_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "LONG_SECONDS", 3600.0)

    async def tell() -> None:
        async with pool(size=2) as opened:
            pid, first = await stuck(opened)
            second = opened.submit(QUICK, "heavy")
            await opened.submit(QUICK, "light")  # by another worker, which has nothing to do now
            assert not first.done() and not second.done() and opened.waiting == 1
            first.cancel()  # frees the worker that is stuck
            await second
            assert is_gone(pid) or pid not in pids(opened)

    story(tell)


def test_another_worker_is_ready_while_a_job_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell() -> None:
        async with pool(size=2) as opened:
            monkeypatch.setattr(worker_pool, "LONG_SECONDS", 3600.0)
            await opened.submit(QUICK, "heavy")
            monkeypatch.setattr(worker_pool, "LONG_SECONDS", 0.0)
            (pid,) = pids(opened)
            os.kill(pid, signal.SIGSTOP)
            opened.submit(QUICK, "heavy")
            while sum(one.is_ready for one in opened._workers) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0)
            assert opened.waiting == 0
            assert os.getpriority(os.PRIO_PROCESS, pid) > os.getpriority(os.PRIO_PROCESS, 0)

    story(tell)


def test_a_token_has_a_quota_and_the_queue_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "QUOTA", 3)
    monkeypatch.setattr(worker_pool, "MAX_WAITING", 5)

    async def tell() -> None:
        async with pool() as opened:
            answers = [opened.submit(QUICK, "heavy") for _ in range(3)]
            with pytest.raises(Problem) as refused:
                opened.submit(QUICK, "heavy")
            assert refused.value.status == 429 and refused.value.headers["retry-after"]
            answers += [opened.submit(QUICK, token) for token in "ab"]
            with pytest.raises(Problem) as refused:
                opened.submit(QUICK, "c")
            assert refused.value.status == 503 and refused.value.headers["retry-after"]
            await asyncio.gather(*answers)
            await opened.submit(QUICK, "heavy")  # the quota counts what is not done

    story(tell)


# What is stuck, dies or takes too much.


def test_a_stuck_worker_is_killed_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell() -> None:
        async with pool() as opened:
            with monkeypatch.context() as patch:
                await opened.submit(QUICK, "a")
                patch.setattr(worker_pool, "JOB_SECONDS", 0.1)
                pid, answer = await stuck(opened)
                refused = await problem(answer)
            assert refused.status == 503 and "takes more than 0.1 seconds" in refused.detail
            await opened.submit(QUICK, "a")
            assert pids(opened) != [pid] and opened.restarts == 1
        assert is_gone(pid)

    story(tell)


def test_a_job_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell() -> None:
        async with pool() as opened:
            _, first = await stuck(opened)
            monkeypatch.setattr(worker_pool, "WAIT_SECONDS", 0.1)
            refused = await problem(opened.submit(QUICK, "light"))
            assert refused.status == 503 and "has waited" in refused.detail
            assert opened.waiting == 0 and not first.done()
            first.cancel()

    story(tell)


def test_a_worker_that_dies_fails_its_own_job_alone() -> None:
    async def tell() -> None:
        async with pool() as opened:
            pid, answer = await stuck(opened)
            waiting = opened.submit(QUICK, "a")
            os.kill(pid, signal.SIGKILL)
            assert (await problem(answer)).status == 503
            await waiting
            assert opened.restarts == 1

    story(tell)


def test_an_idle_worker_that_dies_is_replaced() -> None:
    async def tell() -> None:
        async with pool() as opened:
            await opened.submit(QUICK, "a")
            (lost,) = opened._workers
            os.kill(lost.process.pid, signal.SIGKILL)
            while not lost.is_over:  # noqa: ASYNC110 - the end of the connection is on its way
                await asyncio.sleep(0)
            await opened.submit(QUICK, "a")
            assert opened.restarts == 1

    story(tell)


def test_a_text_that_needs_too_much_memory_is_refused() -> None:
    async def tell() -> None:
        async with pool() as opened:
            await opened.submit(QUICK, "a")
            (pid,) = pids(opened)
            # The real limit takes seconds to reach.
            assert resource.prlimit(pid, resource.RLIMIT_AS)[0] == 1 << 30
            resource.prlimit(pid, resource.RLIMIT_AS, (address_space(pid) + 20_000_000, 1 << 30))
            bomb = Verify(text=f"graph: [{'[], ' * 200_000}]")
            refused = await problem(opened.submit(bomb, "a"))
            assert refused.status == 503 and "memory" in refused.detail
            await opened.submit(QUICK, "a")
            assert pids(opened) != [pid] and opened.restarts == 1

    story(tell)


def test_a_job_that_nobody_waits_for_frees_its_worker() -> None:
    async def tell() -> None:
        async with pool() as opened:
            pid, answer = await stuck(opened)
            forgotten = opened.submit(QUICK, "b")
            last = opened.submit(QUICK, "c")
            forgotten.cancel()
            answer.cancel()
            await last
            assert pids(opened) != [pid] and opened.restarts == 1

    story(tell)


def test_a_pool_without_processes_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    async def tell() -> None:
        missing = (sys.executable, "-c", "raise SystemExit(3)")
        async with pool(command=missing) as opened:
            for _ in range(3):
                with pytest.raises(Problem, match="no process can be started"):
                    await opened.submit(QUICK, "a")
        assert len([one for one in caplog.records if one.levelname == "ERROR"]) == 1

    story(tell)


def test_closing_ends_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "max_spares", 0)

    async def tell() -> None:
        async with pool() as opened:
            pid, answer = await stuck(opened)
            waiting = opened.submit(QUICK, "a")
        assert is_gone(pid)
        for one in (answer, waiting):
            assert (await problem(one)).status == 503
        with pytest.raises(Problem):
            opened.submit(QUICK, "a")

    story(tell)


# What a worker is.


def test_a_worker_imports_no_code_of_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop.py").write_text(
        "from pathlib import Path\nPath('imported').touch()\ndef price(text): ...\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setattr(worker_pool, "max_spares", 0)
    worker_pool.end_spares()
    text = "graph: {nodes: [{id: A, type: python, config: {function: 'shop:price'}}], start: A}"

    async def tell() -> None:
        async with pool(policy=Policy(functions=("shop:price",))) as opened:
            verdict = msgspec.json.decode(await opened.submit(Verify(text=text), "a"), type=Verdict)
            assert verdict.is_sound
            assert not (tmp_path / "imported").exists()
            (pid,) = pids(opened)
            # Nothing of the server but the socket: its store, its listener and its log are not there.
            assert descriptors(pid) == {"socket", "/dev/null", f"/proc/{pid}/statm"}
            assert "shop" not in command_line(pid), "the policy is not on the command line"

    story(tell)
