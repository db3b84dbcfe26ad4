"""A worker process: performs jobs about texts, one after the other, until the server hangs up.

The server starts it with one end of a socket as standard input (worker_pool.py), and nothing else of its own.
A frame is four bytes with its length, and the payload. The first frame is the setup: the policy and the
environment, which contain secrets and are therefore not on the command line. Each following frame is a job,
or another setup, for the next server. An answer begins with one byte, its kind.

What a text does here, the server survives: the process has a limit on memory, gets a lower priority than the
server when a job takes long, and is killed when one takes too long. It imports no code of users: `-P` keeps
the working folder off the import path, and under a policy the loader imports no function. What installed
packages provide (node types) is imported, since a text cannot be checked without it.

A thread waits for the end of the server, so that a server that was killed leaves no worker behind, whatever
the worker is doing at that moment.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import socket
import threading
import traceback
from typing import Final

import msgspec
from msgspec import Struct

from roundel.journal.store import StoreError
from roundel.plan.overrides import LimitError
from roundel.server.text_jobs import (
    Check,
    DrawRun,
    ForecastText,
    Job,
    NoPicture,
    Picture,
    ReadScript,
    Verify,
)
from roundel.server.trials import Try
from roundel.workflow.diagnostics import Diagnostic, WorkflowError
from roundel.workflow.policy import TRUSTED, Policy

MEMORY_BYTES: Final = 1 << 30
"""Address space of a worker. A job that needs more gets MemoryError."""
MAX_ANSWER: Final = 64_000_000
"""Bytes of an answer: the server holds all of it."""
RETIRE_BYTES: Final = 300_000_000
"""A worker that has so much memory after a job is replaced: a process does not give back all of it."""
LENGTH_BYTES: Final = 4
READY: Final = b"r"
"""It can begin."""
DONE: Final = b"d"
"""The result of the job follows."""
FAILED: Final = b"f"
"""A `JobFailure` follows: the job is wrong."""
DEFECT: Final = b"x"
"""A traceback follows: Roundel is wrong."""
NO_MEMORY: Final = b"m"
"""The job needs too much memory, or its answer is too large. The worker ends."""
RETIRED: Final = b"D"
"""Like DONE, and the worker ends."""


def _open_statm() -> int | None:
    """The figures of this process, which Linux offers as a file. It is opened once, before any job."""
    try:
        return os.open("/proc/self/statm", os.O_RDONLY)
    except FileNotFoundError:
        return None


_STATM: Final = _open_statm()


class Setup(Struct, frozen=True, tag=True):
    """What a worker has to know before its first job."""

    policy: Policy
    trusted: bool
    """The policy is TRUSTED, which no data can be."""
    environment: dict[str, str]


Frame = Setup | Check | Picture | ForecastText | Verify | ReadScript | DrawRun | Try


class JobFailure(Struct, frozen=True):
    """An error of a job that the client has to know."""

    kind: str
    """The name of its class."""
    text: str
    diagnostics: tuple[Diagnostic, ...] = ()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends its workers
    _limit(resource.RLIMIT_AS, MEMORY_BYTES)
    _limit(resource.RLIMIT_CORE, 0)
    connection = socket.socket(fileno=0)
    threading.Thread(target=_end_with_server, args=(connection,), daemon=True).start()
    policy = Policy()
    while (frame := _receive(connection)) is not None:
        try:
            given: Setup | Job = msgspec.json.decode(frame, type=Frame)
            if isinstance(given, Setup):
                policy = TRUSTED if given.trusted else given.policy
                os.environ.clear()
                os.environ.update(given.environment)
                answer = READY
            else:
                answer = _perform(given, policy)
        except MemoryError:
            answer = NO_MEMORY
        except Exception:
            answer = DEFECT + traceback.format_exc().encode(errors="replace")
        connection.sendall(len(answer).to_bytes(LENGTH_BYTES, "big") + answer)
        if answer[:1] in (NO_MEMORY, RETIRED):
            break


def _limit(kind: int, wanted: int) -> None:
    hard = resource.getrlimit(kind)[1]
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(kind, (limit, limit))


def _end_with_server(connection: socket.socket) -> None:
    poll = select.poll()
    poll.register(connection, getattr(select, "POLLRDHUP", select.POLLHUP))  # the former only on Linux
    poll.poll()
    os._exit(0)


def _receive(connection: socket.socket) -> bytes | None:
    """The next frame; None at the end."""
    head = connection.recv(LENGTH_BYTES, socket.MSG_WAITALL)
    if len(head) < LENGTH_BYTES:
        return None
    length = int.from_bytes(head, "big")
    frame = connection.recv(length, socket.MSG_WAITALL)
    return frame if len(frame) == length else None


def _perform(job: Job, policy: Policy) -> bytes:
    try:
        result = job.perform(policy)
    except WorkflowError as error:
        return FAILED + msgspec.json.encode(JobFailure("WorkflowError", str(error), tuple(error.diagnostics)))
    except (LimitError, NoPicture, StoreError) as error:
        return FAILED + msgspec.json.encode(JobFailure(type(error).__name__, str(error)))
    if len(result) > MAX_ANSWER:
        return NO_MEMORY
    return (DONE if _resident_bytes() < RETIRE_BYTES else RETIRED) + result


def _resident_bytes() -> int:
    """The memory of this process; 0 on systems that do not say. Not its peak: that of a new process is the
    one of its parent."""
    if _STATM is None:
        return 0
    return int(os.pread(_STATM, 100, 0).split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    main()
