"""Where a process is to be killed or interrupted: it counts how often it has come to each place, and sends
itself a signal at one."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

pace = 0.0
"""Seconds that each tool takes."""
_place, _number, _signal = "", 0, signal.SIGKILL
_reached: Counter[str] = Counter()


def arm(place: str, number: int, sent: signal.Signals = signal.SIGKILL) -> None:
    global _place, _number, _signal
    _place, _number, _signal = place, number, sent


def reach(place: str) -> None:
    _reached[place] += 1
    if place == _place and _reached[place] == _number:
        os.kill(os.getpid(), _signal)


def count(place: str) -> int:
    return _reached[place]


def lines(name: str) -> list[str]:
    return Path(name).read_text(encoding="utf-8").splitlines() if Path(name).exists() else []


def append(name: str, line: str) -> None:
    """One write, so that a kill never leaves half a line."""
    with Path(name).open("ab", buffering=0) as file:
        file.write(f"{line}\n".encode())


class Connection(sqlite3.Connection):
    """A connection that may be the last thing a process sees of a commit."""

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        # An insert outside of a transaction is one of its own.
        if sql != "COMMIT" and (self.in_transaction or not sql.startswith("INSERT")):
            return super().execute(sql, *values)
        reach("before commit")
        cursor = super().execute(sql, *values)
        reach("after commit")
        return cursor


def watch_commits() -> None:
    plain: Any = sqlite3.connect
    sqlite3.connect = lambda *given, **named: plain(*given, **named, factory=Connection)
