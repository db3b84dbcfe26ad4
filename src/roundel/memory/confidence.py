"""How sure a node is of what it said, and whether that is enough for working memory."""

from __future__ import annotations

from math import inf, isnan

from roundel.workflow.graph import Node
from roundel.workflow.message import Message

CONFIDENCE = "confidence"


def confidence_of(message: Message) -> float | None:
    """A number in the metadata or, if there is none, in the data of a message."""
    for fields in (message.metadata, message.data):
        found = (fields or {}).get(CONFIDENCE)
        if isinstance(found, (int, float)) and not isinstance(found, bool):
            number = _as_float(found)
            if not isnan(number):
                return number
    return None


def _as_float(found: float) -> float:
    try:
        return float(found)
    except OverflowError:  # more digits than a float has room for
        return inf if found > 0 else -inf


def is_confident(message: Message, node: Node, least: float) -> bool:
    """What agents and people say without a word on it is taken; of other nodes only what says so itself."""
    confidence = confidence_of(message)
    if confidence is None:
        return node.kind.speaks or node.kind.asks
    return confidence >= least
