"""What workflow.yaml and build.py do in Python: two nodes, a condition and two edge processors."""

from __future__ import annotations

import roundel

MOST_WORDS = 8


def measure(text: str) -> roundel.Outcome:
    """A node's function: it chooses the port by which its message leaves."""
    words = len(text.split())
    port = "fits" if words <= MOST_WORDS else "too_long"
    return roundel.to(port, {"text": text, "data": {"words": words}})


def ask_politely(text: str) -> str:
    """A node's function: what it gives is the node's message."""
    return f"Say please: {text}"


def is_friendly(message: roundel.Message) -> bool:
    """A condition: whether the edge fires."""
    return "please" in message.text.lower()


def without_quotes(message: roundel.Message) -> str:
    """A processor: the text that arrives in place of the one that was sent."""
    return message.text.strip('"')


def shorten(message: roundel.Message) -> str:
    words = (message.data or {})["words"]
    return f"{words} words are too many, {MOST_WORDS} are allowed: {message.text}"
