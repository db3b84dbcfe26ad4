"""Tools of the samples. Scripts replace the results of all but `hold`; the server imports them for their
signatures."""

from __future__ import annotations

import asyncio
from pathlib import Path

GATES = Path("gates")
"""In the folder of the server."""


async def hold(gate: str) -> str:
    """Waits until a test opens the gate."""
    while not (GATES / gate).exists():  # noqa: ASYNC110 (another process makes the file)
        await asyncio.sleep(0.01)
    return "open"


def read_offer(id: int) -> str:
    """Reads the offer of a supplier."""
    return f"offer {id}"


def send_mail(to: str, subject: str, body: str, attach: list[str] | None = None) -> str:
    """Sends a mail to a supplier."""
    return f"sent '{subject}' to {to} ({len(body)} characters, {len(attach or [])} files)"


def run_tests(path: str, timeout: int = 20) -> str:
    """Runs the tests in a file."""
    return f"{path}: passed within {timeout} s"
