"""Who is at work on a run, and whether they still are."""

from __future__ import annotations

import os
import socket
from functools import lru_cache
from pathlib import Path

LEASE = 30.0
"""Seconds after which a process that has not been heard of is taken for dead."""


@lru_cache(maxsize=1)
def machine() -> str:
    return socket.gethostname()


_at_work: set[str] = set()
"""The claims of this process; it may have let go of a run although no store could be told."""


def me() -> str:
    """This process, and one claim of it."""
    pid = os.getpid()
    owner = f"{machine()}/{pid}/{_started(pid)}/{os.urandom(3).hex()}"
    _at_work.add(owner)
    return owner


def let_go(owner: str) -> None:
    _at_work.discard(owner)


def is_alive(owner: str, until: float, now: float) -> bool:
    """A process of this machine is asked; any other is believed until its lease is over."""
    if not owner:
        return False
    host, pid, started, _ = owner.rsplit("/", 3)
    if host == machine() and pid.isdigit():
        if int(pid) == os.getpid():
            return owner in _at_work
        return _runs(int(pid)) and _started(int(pid)) == started
    return until > now


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _started(pid: int) -> str:
    """When a process began, where the system tells: numbers of processes are used again."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return "-"
    state, *rest = text.rpartition(")")[2].split()
    return "gone" if state in "ZX" else rest[18]
