"""Calls with a deadline: what hangs or crashes fails its own test, and not the whole suite.

The calls are made in another process, since neither a pattern nor an expression that hangs can be interrupted
in the process that evaluates it. It is started when it is first needed, and serves all tests.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Final, NoReturn

import pytest

SECONDS: Final = 60


class _Worker:
    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()

    def kill(self) -> None:
        self._process.kill()
        self._process.join()
        self.pipe.close()


_workers: Final[list[_Worker]] = []


class Deadline:
    """A function of a module, with arguments that can be pickled."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        if not _workers:
            _workers.append(_Worker())
        pipe = _workers[0].pipe
        pipe.send((self._function, arguments))
        try:
            if pipe.recv() == "begun" and not pipe.poll(SECONDS):  # the first call waits for the imports
                self._fail(f"no end after {SECONDS} seconds on {arguments!r:.2000}")
            raised, value = pipe.recv()
        except EOFError:
            self._fail(f"the process crashed on {arguments!r:.2000}")
        if raised is not None:
            raise raised
        return value

    def _fail(self, reason: str) -> NoReturn:
        _workers.pop().kill()
        pytest.fail(reason)


def _serve(pipe: Connection) -> None:
    while True:
        try:
            function, arguments = pipe.recv()
        except EOFError:
            return
        pipe.send("begun")
        try:
            pipe.send((None, function(*arguments)))
        except Exception as error:
            pipe.send((error, None))
