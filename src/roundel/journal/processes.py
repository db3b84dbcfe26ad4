"""Which process is which, and which of them have certainly ended.

A process id alone says little: the system gives it again after the process has ended, and each PID namespace
(each container) counts its own. A process is identified by the boot of its kernel, its PID namespace, its pid
and the time at which it started. Where all of these can be compared, a process that has ended is recognised
at once; where they cannot (another machine, another container, no /proc), nothing is known about it, and its
lease has to expire (leases.py).

The answer may only ever err in one direction. A process that has ended and is taken for alive costs a few
seconds; one that is alive and taken for dead would lose its runs. So whatever cannot be read counts as
unknown, not as ended.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Protocol

from msgspec import Struct

PROC = Path("/proc")


class Process(Struct, frozen=True):
    """One process, as others recognise it. Fields are empty where the system does not tell."""

    boot_id: str
    pid_namespace: int
    pid: int
    start_time: str
    hostname: str
    """For messages only: containers may have the same one."""

    def is_beside(self, other: Process) -> bool:
        """Both are in the same PID namespace of the same booted kernel: they see each other by their pids."""
        here, there = (self.boot_id, self.pid_namespace), (other.boot_id, other.pid_namespace)
        return all(here) and here == there

    def describe(self, reader: Process) -> str:
        """In the words of a message that the reader's user sees."""
        where = "" if self.is_beside(reader) else f" on {self.hostname}"
        return f"process {self.pid}{where}"


class Processes(Protocol):
    """What a process knows about itself and those beside it."""

    def current(self) -> Process: ...

    def start_time(self, pid: int) -> str | None:
        """When the process with this pid started; None if there is none, empty if that cannot be read."""


class SystemProcesses:
    """The processes of this machine, by /proc where there is one. Created by each store."""

    def current(self) -> Process:
        pid, hostname = os.getpid(), socket.gethostname()
        if not self._shows_this_namespace(pid):
            return Process("", 0, pid, "", hostname)
        try:
            boot_id = (PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()
            namespace = (PROC / "self/ns/pid").stat().st_ino
        except OSError:
            return Process("", 0, pid, "", hostname)
        return Process(boot_id, namespace, pid, self.start_time(pid) or "", hostname)

    def start_time(self, pid: int) -> str | None:
        try:
            text = (PROC / str(pid) / "stat").read_text("ascii", errors="replace")
        except FileNotFoundError:
            # The processes of other users are invisible in a /proc that is mounted with `hidepid`.
            return None if _is_missing(pid) else ""
        except ProcessLookupError:
            return None
        except OSError:
            return ""
        state, *fields = text.rpartition(")")[2].split()  # a name may contain anything, also brackets
        return None if state in "ZX" else fields[18]  # nobody has asked for its exit code yet, but it is over

    def _shows_this_namespace(self, pid: int) -> bool:
        """False if /proc was mounted in another PID namespace: it then shows other processes under our pids
        (`unshare --pid` without `--mount-proc`)."""
        try:
            return (PROC / "self").readlink().name == str(pid)
        except OSError:
            return False


def has_ended(process: Process, reader: Process, processes: Processes) -> bool:
    """True only if the process has certainly ended, as far as the reader can see."""
    if not process.start_time or not process.is_beside(reader):
        return False
    started = processes.start_time(process.pid)
    return started is None or started not in ("", process.start_time)


def _is_missing(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
