"""Threads for users' functions: shared by the process, reused, and never in the way of its end."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from roundel.nodes import user_code
from roundel.nodes.user_code import run_in_thread


def ident() -> int:
    return threading.get_ident()


def printed(code: str) -> str:
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return ran.stdout


def test_an_idle_thread_is_used_again() -> None:
    async def story() -> None:
        seen: set[int] = set()
        for _ in range(200):
            # The result is passed on before the thread is idle again, so others may be started in between.
            thread = await run_in_thread(ident)
            if thread in seen:
                return
            seen.add(thread)
        raise AssertionError("each call had a thread of its own")

    asyncio.run(story())


def test_concurrent_calls_use_separate_threads() -> None:
    together = threading.Barrier(5)

    def meet() -> int:
        together.wait(60)
        return ident()

    async def story() -> None:
        assert len(set(await asyncio.gather(*(run_in_thread(meet) for _ in range(5))))) == 5

    asyncio.run(story())


def test_a_function_may_run_a_workflow_that_needs_a_thread_itself() -> None:
    """However deep: there is no fixed number of threads that could be used up."""

    def nested(depth: int) -> int:
        return depth if depth == 100 else asyncio.run(run_in_thread(nested, depth + 1))

    assert asyncio.run(run_in_thread(nested, 0)) == 100


def test_a_thread_that_is_idle_for_too_long_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_code, "IDLE_SECONDS", 0.001)
    monkeypatch.setattr(user_code, "_pool", user_code._ThreadPool())
    used: list[threading.Thread] = []
    asyncio.run(run_in_thread(lambda: used.append(threading.current_thread())))
    used[0].join(60)
    assert not used[0].is_alive()
    assert asyncio.run(run_in_thread(ident)), "a new one takes its place"


def test_thread_is_named_after_its_function() -> None:
    def fetch() -> str:
        return threading.current_thread().name

    assert asyncio.run(run_in_thread(fetch)) == "roundel-fetch"


def test_forked_process_starts_its_own_threads() -> None:
    code = (
        "import asyncio, os, warnings\n"
        "from roundel.nodes.user_code import run_in_thread\n"
        "asyncio.run(run_in_thread(int))\n"  # an idle thread that the child does not have
        "warnings.simplefilter('ignore')\n"  # that there are threads is the point
        "child = os.fork()\n"
        "if not child:\n"
        "    os._exit(asyncio.run(asyncio.wait_for(run_in_thread(int, 7), 30)))\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert printed(code) == "7\n"


def test_the_process_does_not_wait_for_a_function() -> None:
    code = (
        "import asyncio, threading\n"
        "from roundel.nodes.user_code import run_in_thread\n"
        "async def main():\n"
        "    begun = asyncio.Event()\n"
        "    loop = asyncio.get_running_loop()\n"
        "    task = asyncio.create_task(run_in_thread(lambda: (loop.call_soon_threadsafe(begun.set),"
        " threading.Event().wait())))\n"
        "    await begun.wait()\n"
        "    task.cancel()\n"
        "asyncio.run(main())\n"
        "print('over')\n"
    )
    assert printed(code) == "over\n"
