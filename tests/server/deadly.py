"""A call that kills its process, until somebody repairs it."""

from __future__ import annotations

import os
from pathlib import Path

CALLS = "ROUNDEL_TEST_DEADLY_CALLS"
REPAIRED = "ROUNDEL_TEST_REPAIRED"
EXIT = 77


def call(text: str) -> str:
    with Path(os.environ[CALLS]).open("ab", buffering=0) as file:
        file.write(f"{text}\n".encode())
    if not Path(os.environ[REPAIRED]).exists():
        os._exit(EXIT)
    return f"{text}, alive"
