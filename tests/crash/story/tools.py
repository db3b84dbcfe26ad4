"""What the story does to the world: lines in files of the working folder."""

from __future__ import annotations

import asyncio

from tests.crash import kills


async def note(word: str, idempotency_key: str) -> str:
    """Notes a word, once for each key."""
    await asyncio.sleep(kills.pace)
    kills.append("attempts", idempotency_key)
    kills.reach("before effect")
    if idempotency_key not in kills.lines("effects"):
        kills.append("effects", idempotency_key)
    kills.reach("after effect")
    return f"noted {word}"


async def stamp(address: str, text: str) -> str:
    kills.append("stamps", address)
    return f"{text} at {address}"


__all__ = ["note", "stamp"]
