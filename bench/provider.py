"""A provider on loopback, in a process of its own, that answers at once; the same for all contenders."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

ANSWER = " ".join(["Tea has travelled further than most people, and it arrives at four."] * 5)
"""Streamed word by word."""


@contextmanager
def provider() -> Iterator[str]:
    """Its address, for clients of OpenAI's."""
    command = [sys.executable, "-m", "bench.provider"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()  # which ends it


def serve() -> None:
    from tests.llm.wire import Reply, Wire

    with Wire() as wire:
        wire.replies(Reply(ANSWER))
        print(wire.openai_url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    serve()
