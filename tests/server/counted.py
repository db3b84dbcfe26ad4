"""A call that is paid for, in the process of a server: it counts itself in a file."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

CALLS = "ROUNDEL_TEST_CALLS"
SECONDS = "ROUNDEL_TEST_SECONDS"


async def call(text: str) -> str:
    with Path(os.environ[CALLS]).open("ab", buffering=0) as file:  # noqa: ASYNC230 (one short write)
        file.write(f"{text}\n".encode())
    await asyncio.sleep(float(os.environ.get(SECONDS, "0.02")))
    return f"{text}."


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []
