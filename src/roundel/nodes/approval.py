"""What a person says to a tool call: go ahead, do not, or go ahead with other arguments."""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct

from roundel.workflow.message import Message

YES = frozenset({"approve", "approved", "yes", "y", "ok", "true", "同意", "批准"})
NO = frozenset({"reject", "rejected", "no", "n", "false", "拒绝", "不同意"})
REFUSAL = "a person did not allow this call"


class Decision(Struct, frozen=True):
    approved: bool
    arguments: dict[str, Any] = {}
    reason: str = REFUSAL


def decision(message: Message, arguments: dict[str, Any]) -> Decision:
    """A word of consent or refusal, or `approve` in the data; a JSON object is other arguments; any other
    text is why the call is not made, which the model is told."""
    data = message.data or {}
    if "arguments" in data or "approve" in data:
        return _decided(data, arguments)
    text = message.text.strip()
    word, _, rest = text.partition(":")
    if word.strip().lower() in YES and not rest:
        return Decision(True, arguments)
    if word.strip().lower() in NO:
        return Decision(False, reason=_reason(rest))
    edited = _object(text)
    return Decision(True, edited) if edited is not None else Decision(False, reason=_reason(text))


def _decided(data: dict[str, Any], arguments: dict[str, Any]) -> Decision:
    if data.get("approve") is False:
        return Decision(False, reason=_reason(str(data.get("reason") or "")))
    edited = data.get("arguments")
    return Decision(True, edited if isinstance(edited, dict) else arguments)


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _reason(text: str) -> str:
    return f"{REFUSAL}: {text.strip()}" if text.strip() else REFUSAL
