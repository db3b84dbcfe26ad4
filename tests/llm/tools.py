"""Tools that the agents of the tests offer."""

from __future__ import annotations

import asyncio
import os

from roundel import Message


def look(place: str) -> str:
    """Looks at a place."""
    return f"{place} is quiet"


async def dawdle(place: str) -> str:
    """Looks at a place, and is in no hurry."""
    await asyncio.sleep(0.05)
    return f"{place} is far"


def break_down(place: str) -> str:
    """Never works."""
    raise RuntimeError(f"no way to {place}")


async def sleep() -> str:
    """Does not come back."""
    await asyncio.sleep(60)
    return "never"


def environment(names: list[str]) -> dict[str, str]:
    """Variables of the environment."""
    return {name: os.environ[name] for name in names}


# Functions of `python` nodes that say something in a role.


def ask_first() -> Message:
    return Message("Where?", "user", preserve_role=True)


def answer_first() -> Message:
    return Message("In Oslo.", "assistant", preserve_role=True)


def ask_then() -> Message:
    return Message("When?", "user", preserve_role=True)


def rule() -> Message:
    return Message("Never guess.", "system", preserve_role=True)
