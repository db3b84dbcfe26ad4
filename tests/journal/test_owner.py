"""Who is at work on a run, and whether they still are."""

from __future__ import annotations

import os
import subprocess
import sys

from roundel.journal.owner import is_alive, let_go, machine, me

CHILD = "import sys; from roundel.journal.owner import me; print(me(), flush=True); sys.stdin.read()"


def test_a_claim_of_this_process_lasts_until_it_lets_go() -> None:
    first, second = me(), me()
    assert first != second
    assert is_alive(first, 0, 99)  # it need not be heard of
    let_go(first)
    assert not is_alive(first, 99, 0)
    assert is_alive(second, 0, 99)
    let_go(second)


def test_another_process_is_alive_until_it_ends() -> None:
    command = [sys.executable, "-c", CHILD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        owner = child.stdout.readline().strip()
        assert is_alive(owner, 0, 99)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not is_alive(owner, 99, 0)  # nobody has asked for its end yet, and still it is gone
    assert not is_alive(owner, 99, 0)


def test_a_number_that_was_given_to_another_process_is_not_the_same_one() -> None:
    host, pid, _, token = me().rsplit("/", 3)
    parent = os.getppid()
    assert not is_alive(f"{host}/{parent}/12/{token}", 99, 0)
    assert pid == str(os.getpid())


def test_another_machine_is_believed_until_its_lease_is_over() -> None:
    owner = f"not-{machine()}/1/1/abc"
    assert is_alive(owner, 10, 9)
    assert not is_alive(owner, 10, 10)
    assert not is_alive("", 10, 0)
