"""Tools that the agents of the tests offer."""

from __future__ import annotations

import asyncio
import os


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


def environment() -> dict[str, str]:
    """All variables of the environment."""
    return dict(os.environ)
