"""Calls with a deadline: what hangs or crashes fails its own test, and not the whole suite.

The calls are made in another process, since neither a pattern nor an expression that hangs can be interrupted
in the process that evaluates it.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import pytest

SECONDS = 60


class Deadline:
    """A function of a module, called in a process of its own that is started when it is first needed."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._process: Any = None
        self._pipe: Any = None

    def __call__(self, *arguments: Any) -> Any:
        if self._process is None:
            self._start()
        self._pipe.send(arguments)
        answered = self._pipe.poll(SECONDS)
        try:
            raised, value = self._pipe.recv() if answered else (None, None)
        except EOFError:
            self.close()
            pytest.fail(f"the process crashed on {arguments!r:.2000}")
        if not answered:
            self.close()
            pytest.fail(f"no end after {SECONDS} seconds on {arguments!r:.2000}")
        if raised is not None:
            raise raised
        return value

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(self._function, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = None


def _serve(function: Callable[..., Any], pipe: Connection) -> None:
    while True:
        try:
            arguments = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send((None, function(*arguments)))
        except Exception as error:
            pipe.send((error, None))
