"""How many of our modules take part when one node runs: what a reader has to open to follow it.

An agent in round 50 of a stored loop, between the event that it is running and the same event of the next
node. The functions that are called then are noted, in all threads, by module.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import roundel
from roundel.hosts.engine import Attachment
from roundel.kernel.events import Event

ROUND = 50
PACKAGE = "roundel."


def draft(number: int) -> str:
    """A text that is unlike those before it."""
    digits = hashlib.sha256(str(number).encode()).hexdigest()
    return " ".join(digits[at : at + 4] for at in range(0, 64, 4))


SCRIPT = {"Writer": [{"text": draft(number)} for number in range(ROUND + 5)]}


def loop() -> dict[str, Any]:
    """A writer that is asked again and again, until a counter ends the loop."""
    return {
        "graph": {
            "nodes": [
                {"id": "Writer", "type": "agent", "config": {"prompt": "Write."}},
                {"id": "Guard", "type": "loop_counter", "config": {"max_iterations": ROUND + 5}},
                {"id": "Out", "type": "passthrough"},
            ],
            "edges": [
                {"from": "Writer", "to": "Guard"},
                {"from": "Writer", "to": "Writer"},
                {"from": "Guard", "to": "Writer"},
                {"from": "Guard", "to": "Out"},
            ],
            "start": ["Writer"],
            "end": ["Out"],
        },
    }


class Noted:
    """The functions that are called while it is on, by module."""

    def __init__(self) -> None:
        self.found: dict[str, set[str]] = {}
        self.on = False

    def note(self, frame: FrameType, event: str, argument: object) -> None:
        if self.on and event == "call":
            module = frame.f_globals.get("__name__", "")
            if module.startswith(PACKAGE):
                self.found.setdefault(module, set()).add(frame.f_code.co_name)

    def follow(self, event: Event) -> None:
        if event.event == "node_state_change" and event.data.status == "running":  # type: ignore[union-attr]
            self.on = event.address == f"Writer[{ROUND}]/Writer"


async def modules() -> dict[str, set[str]]:
    noted = Noted()
    with tempfile.TemporaryDirectory() as folder:
        threading.setprofile(noted.note)
        sys.setprofile(noted.note)
        try:
            async with roundel.Runs(Path(folder) / "runs.db") as runs:
                run_id = await runs.start(
                    loop(), "go", script=SCRIPT, attach=Attachment(on_event=noted.follow)
                )
                assert (await runs.wait(run_id)).completed
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    return noted.found


def report() -> None:
    found = asyncio.run(modules())
    print(f"modules per node execution: {len(found)}")
    for module in sorted(found):
        print(f"  {module}: {', '.join(sorted(found[module]))}")


if __name__ == "__main__":
    report()
