"""Which processes have certainly ended."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from roundel.journal import leases as module
from roundel.journal.leases import Process, SystemProcesses, has_ended

CHILD = """
import sys
import msgspec
from roundel.journal.leases import SystemProcesses
print(msgspec.json.encode(SystemProcesses().current()).decode(), flush=True)
sys.stdin.read()
"""
HERE = Process("boot", 7, 1, "100", "here")


class Table:
    """Processes by their pids, with the times at which they started."""

    def __init__(self, **started: str) -> None:
        self._started = {int(pid.removeprefix("p")): time for pid, time in started.items()}

    def current(self) -> Process:
        return HERE

    def start_time(self, pid: int) -> str | None:
        return self._started.get(pid)


@pytest.mark.parametrize(
    ("process", "ended"),
    [
        (Process("boot", 7, 2, "200", "here"), False),
        (Process("boot", 7, 3, "300", "here"), True),  # there is no such pid any more
        (Process("boot", 7, 2, "199", "here"), True),  # the pid was given to another process
        (Process("boot", 7, 4, "400", "here"), False),  # it is there, and more cannot be read
        (Process("boot", 8, 3, "300", "here"), False),  # another container counts its own pids
        (Process("other", 7, 3, "300", "here"), False),  # another machine, or an earlier boot of this one
        (Process("boot", 7, 3, "", "here"), False),  # its start could not be read
        (Process("", 0, 3, "300", "here"), False),  # a system without /proc
    ],
)
def test_has_ended_is_known_only_for_processes_visible_to_the_reader(process: Process, ended: bool) -> None:
    assert has_ended(process, HERE, Table(p1="100", p2="200", p4="")) is ended


def test_reader_without_proc_cannot_tell_that_a_process_ended() -> None:
    nowhere = Process("", 0, 1, "", "here")
    assert not has_ended(Process("", 0, 3, "300", "here"), nowhere, Table())


def test_process_description_names_the_host_if_foreign() -> None:
    assert Process("boot", 7, 2, "200", "here").describe(HERE) == "process 2"
    assert Process("boot", 8, 2, "200", "box").describe(HERE) == "process 2 on box"
    assert Process("", 0, 2, "", "mac").describe(Process("", 0, 3, "", "mac")) == "process 2 on mac"


def test_a_child_is_alive_until_it_is_killed() -> None:
    system = SystemProcesses()
    here = system.current()
    with subprocess.Popen(
        [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        process = msgspec.json.decode(child.stdout.readline(), type=Process)
        assert process.pid == child.pid
        assert process.shares_pid_namespace(here)
        assert not has_ended(process, here, system)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert has_ended(process, here, system)  # a zombie has ended as well
    assert has_ended(process, here, system)


def test_the_pid_of_another_process_is_not_the_same_process() -> None:
    system = SystemProcesses()
    here = system.current()
    assert not has_ended(here, here, system)
    assert has_ended(msgspec.structs.replace(here, start_time="12"), here, system)


def namespace(*options: str) -> Process:
    """The identity of a process in a PID namespace of its own."""
    command = ["unshare", "--pid", "--fork", *options, sys.executable, "-c", CHILD]
    done = subprocess.run(command, input="", capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no PID namespaces here: {done.stderr.strip()}")
    return msgspec.json.decode(done.stdout, type=Process)


@pytest.mark.skipif(shutil.which("unshare") is None, reason="no unshare")
def test_a_process_in_another_pid_namespace_is_not_known_to_have_ended() -> None:
    system = SystemProcesses()
    here = system.current()
    inside = namespace("--mount-proc")
    assert (inside.boot_id, inside.hostname, inside.pid) == (here.boot_id, here.hostname, 1)
    assert inside.start_time
    assert inside.pid_namespace != here.pid_namespace
    assert not has_ended(inside, here, system)


@pytest.mark.skipif(shutil.which("unshare") is None, reason="no unshare")
def test_proc_of_another_pid_namespace_is_ignored() -> None:
    inside = namespace()  # it is process 1, and /proc/1 is another process
    assert (inside.pid, inside.boot_id, inside.start_time) == (1, "", "")


def test_without_proc_no_process_is_known_to_have_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PROC", tmp_path)
    system = SystemProcesses()
    process = system.current()
    assert (process.boot_id, process.start_time, process.pid) == ("", "", os.getpid())
    assert system.start_time(os.getpid()) == ""  # as under `hidepid`: it is there, and cannot be read
    assert not has_ended(process, process, system)
