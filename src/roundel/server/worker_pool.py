"""The worker processes for texts: a small number of them, a fair queue, and what happens when one is stuck.

What a text costs to read, check or draw is known only afterwards, so it happens in processes that can be
killed (worker.py). `WorkerPool.submit` queues a job; the result is the answer as bytes, or an exception.

*Fair.* Each token has a queue of its own, and the tokens take turns. One token has at most all workers but
one at the same time, and at most QUOTA jobs in all: whatever it sends, others find a worker.

*Bounded.* A job waits for WAIT_SECONDS at most, and works for JOB_SECONDS at most; then its worker is killed,
and its caller gets 503. A caller that does not need the answer any more cancels the future: a job that waits
is forgotten, and the worker of one that has begun is killed.

*Replaced.* Workers start when there are jobs for them, or when a job takes long. One that ended is replaced
with the next job; if new ones cannot start, the time between two attempts doubles, and jobs are refused
meanwhile.

All of it happens on the event loop, except for starting a process and waiting for its end, which take
milliseconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Final

import msgspec

from roundel.journal.store import StoreError
from roundel.plan.overrides import LimitError
from roundel.server import worker
from roundel.server.problems import Problem
from roundel.server.text_jobs import Job
from roundel.workflow.diagnostics import WorkflowError
from roundel.workflow.policy import Policy

COMMAND: Final = (sys.executable, "-P", "-m", "roundel.server.worker")
WORKERS = 2
QUOTA = 32
"""Jobs of one token that wait or work."""
MAX_WAITING = 128
"""Jobs that wait, of all tokens: each may have a text of megabytes."""
WAIT_SECONDS = 30.0
JOB_SECONDS = 30.0
"""Much more than any job needs: a worker also has to start, perhaps on a machine that is busy."""
LONG_SECONDS = 0.5
"""After so long, a job counts as long: its worker gets a lower priority than the server, and another worker
is started for those who come next."""
NICENESS = 5
START_SECONDS = 60.0
"""How long a process may take until it can begin: much, on a machine that is very busy."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds until another process is started after one that could not."""
RETRY_AFTER = {"retry-after": "10"}
logger = logging.getLogger("roundel.server")

_spares: list[tuple[subprocess.Popen[bytes], socket.socket]] = []
max_spares = 0
"""Idle processes that a pool leaves to the next one when it closes. For programs with many servers, one after
the other, such as tests: a process takes a third of a second to start."""


class WorkerDefect(Exception):
    """A job failed with an error that is not the client's; the text is the traceback in the worker."""


class _Task:
    """A job that waits or works."""

    def __init__(self, token: str, frame: bytes, answer: asyncio.Future[bytes]) -> None:
        self.token, self.frame, self.answer = token, frame, answer
        self.timer: asyncio.TimerHandle | None = None

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class _Worker(asyncio.Protocol):
    """A process and the connection to it. It is starting, idle (`task` is None), working, or over."""

    def __init__(self, pool: WorkerPool, process: subprocess.Popen[bytes], link: socket.socket) -> None:
        self.process, self.link = process, link
        self.task: _Task | None = None
        self.is_ready = self.is_over = False
        self._pool = pool
        self._transport: asyncio.Transport
        self._received = bytearray()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def send(self, frame: bytes) -> None:
        self._transport.write(len(frame).to_bytes(worker.LENGTH_BYTES, "big") + frame)

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        if len(received) < worker.LENGTH_BYTES:
            return
        end = worker.LENGTH_BYTES + int.from_bytes(received[: worker.LENGTH_BYTES], "big")
        if len(received) >= end:
            answer = bytes(received[worker.LENGTH_BYTES : end])
            self._received = bytearray()
            self._pool.on_answer(self, answer[:1], answer[1:])

    def connection_lost(self, error: Exception | None) -> None:
        if not self.is_over:
            self._pool.on_lost(self)

    def detach(self) -> None:
        """Leaves the process alone, and the event loop free of it."""
        self.is_over = True
        self._transport.abort()

    def kill(self) -> None:
        self.detach()
        self.link.close()
        self.process.kill()


class WorkerPool:
    """The workers of one server. `close` ends them; a pool that had no job has none."""

    def __init__(self, policy: Policy, size: int = WORKERS, command: tuple[str, ...] = COMMAND) -> None:
        self._policy, self._size, self._command = policy, size, command
        self.restarts = 0
        """How many workers ended before the server did: they were killed, died, or had grown too large."""
        self._queues: dict[str, deque[_Task]] = {}
        """The jobs that wait, by token; the token whose turn it is comes first. No queue is empty."""
        self._jobs: Counter[str] = Counter()
        """The jobs of each token that wait or work."""
        self._workers: set[_Worker] = set()
        self._starts: set[asyncio.Task[None]] = set()
        self._ends: set[asyncio.Future[Any]] = set()
        self._pause = 0.0
        """Seconds until the next attempt to start a process; zero if the last one succeeded."""
        self._retry: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def waiting(self) -> int:
        """The number of jobs that wait."""
        return sum(map(len, self._queues.values()))

    def submit(self, job: Job, token: str) -> asyncio.Future[bytes]:
        """Queues a job of a caller. Problem if there are too many; the future has the encoded result, a
        Problem if there is none, or the error of the job."""
        if self._closed:
            raise Problem(503, "unavailable", "the server is shutting down", headers={"retry-after": "5"})
        if self._jobs[token] >= QUOTA:
            detail = f"you have {QUOTA} texts that are being read; wait for one of them"
            raise Problem(429, "too-many-requests", detail, headers={"retry-after": "1"})
        if self.waiting >= MAX_WAITING:
            detail = f"{MAX_WAITING} texts are waiting to be read; try again later"
            raise Problem(503, "unavailable", detail, headers=RETRY_AFTER)
        if self._retry is not None and not self._workers:
            raise _cannot_start()
        loop = asyncio.get_running_loop()
        task = _Task(token, msgspec.json.encode(job), loop.create_future())
        self._jobs[token] += 1
        self._queues.setdefault(token, deque()).append(task)
        task.timer = loop.call_later(WAIT_SECONDS, task.fail, _waited_too_long())
        task.answer.add_done_callback(lambda _answer: self._on_done(task))
        self._dispatch()
        return task.answer

    async def close(self) -> None:
        """Ends all workers. Jobs that are not done fail."""
        self._closed = True
        if self._retry is not None:
            self._retry.cancel()
        gone = Problem(503, "unavailable", "the server is shutting down", headers={"retry-after": "5"})
        for task in [task for queue in self._queues.values() for task in queue]:
            task.fail(gone)
        for one in list(self._workers):
            if one.task is not None:
                one.task.fail(gone)
            is_spare = one.is_ready and one.task is None and self._command == COMMAND
            if is_spare and len(_spares) < max_spares:
                one.detach()
                _spares.append((one.process, one.link))
            else:
                self._end(one)
        self._workers.clear()
        await asyncio.gather(*self._starts, return_exceptions=True)
        await asyncio.gather(*self._ends, return_exceptions=True)

    # The queue.

    def _on_done(self, task: _Task) -> None:
        """A job has an answer, or nobody waits for it any more."""
        if not task.answer.cancelled():
            task.answer.exception()  # a caller who has gone does not read it
        if task.timer is not None:
            task.timer.cancel()
        self._jobs[task.token] -= 1
        if not self._jobs[task.token]:
            del self._jobs[task.token]
        queue = self._queues.get(task.token)
        if queue is not None and task in queue:
            queue.remove(task)
            if not queue:
                del self._queues[task.token]
        for one in self._workers:
            if one.task is task:  # it works for nobody
                self._replace(one)
                break

    def _dispatch(self) -> None:
        """Gives jobs to idle workers, and starts a worker if there are more jobs than idle ones."""
        idle = [one for one in self._workers if one.is_ready and one.task is None]
        while idle and (task := self._next()) is not None:
            self._begin(idle.pop(), task)
        if self._next(peek=True) is not None:
            starting = sum(not one.is_ready for one in self._workers) + len(self._starts)
            if starting < self.waiting:
                self._start_one()

    def _start_one(self) -> None:
        """Starts a worker, if there may be one more."""
        room = len(self._workers) + len(self._starts) < self._size
        if room and not self._closed and self._retry is None:
            start = asyncio.create_task(self._start())
            self._starts.add(start)
            start.add_done_callback(self._starts.discard)

    def _next(self, peek: bool = False) -> _Task | None:
        """The first job of the first token that may have another worker; its token is last from then on."""
        working = Counter(one.task.token for one in self._workers if one.task is not None)
        most = max(1, self._size - 1)
        for token, queue in self._queues.items():
            # One that was given up may still be in the queue, until its callback has run.
            task = next((one for one in queue if not one.answer.done()), None)
            if task is None or working[token] >= most:
                continue
            if not peek:
                queue.remove(task)
                del self._queues[token]
                if queue:
                    self._queues[token] = queue
            return task
        return None

    def _begin(self, one: _Worker, task: _Task) -> None:
        assert task.timer is not None
        task.timer.cancel()
        task.timer = asyncio.get_running_loop().call_later(JOB_SECONDS, task.fail, _took_too_long())
        one.task = task
        one.send(task.frame)
        asyncio.get_running_loop().call_later(LONG_SECONDS, self._on_long, one, task)

    def _on_long(self, one: _Worker, task: _Task) -> None:
        if one.task is not task:
            return
        with contextlib.suppress(OSError):  # it has just ended
            os.setpriority(os.PRIO_PROCESS, one.process.pid, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)
        if all(other.task is not None for other in self._workers):
            self._start_one()

    # Workers.

    async def _start(self) -> None:
        try:
            if _spares and self._command == COMMAND:
                process, link = _spares.pop()
            else:
                process, link = await asyncio.to_thread(_spawn, self._command)
            one = _Worker(self, process, link)
            # A duplicate: the loop closes its own.
            await asyncio.get_running_loop().create_connection(lambda: one, sock=link.dup())
        except OSError as error:
            self._on_start_failed(str(error))
            return
        if self._closed:
            self._end(one)
            return
        self._workers.add(one)
        setup = worker.Setup(self._policy, self._policy.trusted, _environment())
        one.send(msgspec.json.encode(setup))
        asyncio.get_running_loop().call_later(START_SECONDS, self._check_started, one)

    def _check_started(self, one: _Worker) -> None:
        if not one.is_ready and not one.is_over:
            self.on_lost(one)

    def on_answer(self, one: _Worker, kind: bytes, payload: bytes) -> None:
        task, one.task = one.task, None
        if kind == worker.READY:
            one.is_ready, self._pause = True, 0.0
        elif not one.is_ready:
            self.on_lost(one)
        elif kind in (worker.NO_MEMORY, worker.RETIRED):
            self._replace(one)
        if task is not None and not task.answer.done():
            if kind in (worker.DONE, worker.RETIRED):
                task.answer.set_result(payload)
            else:
                task.fail(_error_of(kind, payload))
        self._dispatch()

    def on_lost(self, one: _Worker) -> None:
        """A worker has died, or cannot start."""
        task, one.task = one.task, None
        if one.is_ready:
            self._replace(one)
            if task is not None:
                task.fail(_died())
        else:
            self._workers.discard(one)
            self._end(one)
            self._on_start_failed("it ended, or did not answer")

    def _replace(self, one: _Worker) -> None:
        """Ends a worker; another one takes its place when there is a job."""
        self.restarts += 1
        self._workers.discard(one)
        self._end(one)
        if not self._closed:
            self._dispatch()

    def _end(self, one: _Worker) -> None:
        one.kill()
        end = asyncio.get_running_loop().run_in_executor(None, one.process.wait)
        self._ends.add(end)
        end.add_done_callback(self._ends.discard)

    def _on_start_failed(self, why: str) -> None:
        if self._closed:
            return
        if not self._pause:  # once, and not with every attempt
            shown = " ".join(self._command)
            logger.error("no process for reading texts can be started: %s; try `%s </dev/null`", why, shown)
        self._pause = min(LONGEST_PAUSE, 2 * self._pause or FIRST_PAUSE)
        if self._retry is None:
            self._retry = asyncio.get_running_loop().call_later(self._pause, self._try_again)
        if not self._workers:
            for task in [task for queue in self._queues.values() for task in queue]:
                task.fail(_cannot_start())

    def _try_again(self) -> None:
        self._retry = None
        self._dispatch()


def _spawn(command: tuple[str, ...]) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """A process, and the socket that leads to its standard input."""
    ours, theirs = socket.socketpair()
    try:
        process = subprocess.Popen(
            command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()
    ours.setblocking(False)
    return process, ours


def _environment() -> dict[str, str]:
    """The environment of the server, without values that are no text."""
    return {name: value for name, value in os.environ.items() if _is_text(name + value)}


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _error_of(kind: bytes, payload: bytes) -> Exception:
    if kind == worker.NO_MEMORY:
        limit = worker.MEMORY_BYTES >> 20
        detail = (
            f"reading the text takes more than {limit:,} MB of memory; make the text smaller, or split it"
        )
        return Problem(503, "unavailable", detail, headers=RETRY_AFTER)
    if kind == worker.DEFECT:
        return WorkerDefect(payload.decode(errors="replace"))
    failure = msgspec.json.decode(payload, type=worker.JobFailure)
    if failure.kind == "WorkflowError":
        return WorkflowError(failure.diagnostics)
    if failure.kind == "NoPicture":
        return Problem(422, "invalid-workflow", failure.text)
    kinds: dict[str, Callable[[str], Exception]] = {"LimitError": LimitError, "StoreError": StoreError}
    return kinds[failure.kind](failure.text)


def _waited_too_long() -> Problem:
    detail = f"the text has waited {WAIT_SECONDS:g} seconds, since too many others are read; try again later"
    return Problem(503, "unavailable", detail, headers=RETRY_AFTER)


def _took_too_long() -> Problem:
    detail = f"reading the text takes more than {JOB_SECONDS:g} seconds; make the text smaller, or split it"
    return Problem(503, "unavailable", detail, headers=RETRY_AFTER)


def _died() -> Problem:
    detail = "the process that read the text has died; if this happens again, make the text smaller"
    return Problem(503, "unavailable", detail, headers=RETRY_AFTER)


def _cannot_start() -> Problem:
    detail = "texts cannot be read now, since no process can be started for it; see the log of the server"
    return Problem(503, "unavailable", detail, headers=RETRY_AFTER)


def end_spares() -> None:
    """Ends the processes that closed pools have left."""
    while _spares:
        process, link = _spares.pop()
        with contextlib.suppress(OSError):
            link.close()
        process.kill()
        process.wait()
