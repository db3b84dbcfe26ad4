"""Standard output of a command, kept apart from what the code of users prints.

The results of a command go to standard output, and programs read them: `--json` is one object per line. A
`print` in a node, a tool or a module that is imported would break that. So while a command runs, `sys.stdout`
and the file descriptor 1 lead to standard error, and only the functions of output.py, which use
`standard_output`, write to the real one. The descriptor matters for programs that user code starts, for
libraries in C, and for modules that have kept the old `sys.stdout`.

In a process of the program this is never taken back: a thread that was left behind, or a function of
`atexit`, may print after the command has ended.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import TextIO

from roundel.cli.signals import interrupts, redirect_to_null

_reserved: TextIO | None = None


def standard_output() -> TextIO:
    """Where the results of the current command go."""
    return sys.stdout if _reserved is None else _reserved


@contextlib.contextmanager
def reserved_for_command() -> Iterator[None]:
    """Reserves standard output for the command inside the block."""
    global _reserved
    before = sys.stdout
    if _reserved is not None or before is None:
        yield
    elif _is_of_process(before):
        _reserved, sys.stdout = _take_descriptor(before), sys.stderr
        yield
    else:  # a test, or a program that calls the command, has replaced the stream
        _reserved, sys.stdout = before, sys.stderr
        try:
            yield
        finally:
            _reserved, sys.stdout = None, before


def _is_of_process(stream: TextIO) -> bool:
    try:
        return stream is sys.__stdout__ and stream.fileno() == 1
    except (OSError, ValueError):  # it has none, or is closed
        return False


def _take_descriptor(stream: TextIO) -> TextIO:
    """A new stream to where descriptor 1 leads, which then leads to standard error."""
    stream.flush()
    number = os.dup(1)  # programs that are started do not inherit it
    interrupts.note_terminal(number)
    try:
        os.dup2(2, 1)
    except OSError:  # standard error is closed
        redirect_to_null(1)
    assert isinstance(stream, io.TextIOWrapper)
    return os.fdopen(number, "w", encoding=stream.encoding, errors=stream.errors)
