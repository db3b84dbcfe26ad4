"""The side effects of the story: lines in files of the working folder."""

from __future__ import annotations

import asyncio

import roundel
from roundel.workflow.graph import Node
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


class Audit(roundel.Middleware):
    """Looks at a model, a person, a loop agent and an agent with tools that runs in parts."""

    def applies(self, node: Node) -> bool:
        return node.id in ("Writer", "Each", "Reader", "Expert")

    async def before(self, visit: roundel.Visit) -> None:
        kills.append("reviews", visit.key)

    async def after(self, visit: roundel.Visit, messages: tuple[roundel.Message, ...]) -> list[str] | None:
        kills.append("reviews", visit.key)
        return [f"{messages[-1].text}, audited"] if visit.node.id == "Expert" else None


__all__ = ["Audit", "note", "stamp"]
