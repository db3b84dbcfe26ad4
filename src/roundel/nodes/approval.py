"""What a person says to a tool call: go ahead, do not, or go ahead with other arguments."""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct

from roundel.workflow.message import Message

YES = frozenset({"approve", "approved", "yes", "y", "ok", "true", "同意", "批准"})
NO = frozenset({"reject", "rejected", "no", "n", "false", "拒绝", "不同意"})
_DECIDED = frozenset({"approve", "arguments"})
_FIELDS = _DECIDED | {"reason"}
REFUSAL = "a person did not allow this call"
AGAIN = "Say approve, reject, reject: why, or give other arguments as a JSON object."


class Decision(Struct, frozen=True):
    approved: bool
    arguments: dict[str, Any] = {}
    reason: str = REFUSAL


def decision(message: Message, arguments: dict[str, Any]) -> Decision:
    """A word of consent or refusal, or a JSON object: other arguments, or what is decided. Any other text is
    why the call is not made, which the model is told."""
    if message.data and _DECIDED & message.data.keys():
        return _decided(message.data, arguments)
    text = message.text.strip()
    given = _object(text)
    if given is not None:
        decided = given and given.keys() <= _FIELDS and _DECIDED & given.keys()
        return _decided(given, arguments) if decided else Decision(True, given)
    word, _, rest = text.partition(":")
    if _word(word) in YES and not rest:
        return Decision(True, arguments)
    return Decision(False, reason=_reason(rest if _word(word) in NO else text))


def unclear(message: Message) -> str:
    """Why an answer is neither consent nor refusal nor other arguments; empty if it is one of them.

    `decision` takes any other text for a refusal. Where the person can be asked again this is asked first: a
    slip of the hand must not decide about a call."""
    if message.data and _DECIDED & message.data.keys():
        return ""
    text = message.text.strip()
    word = text.partition(":")[0].strip().lower()
    if text.lower() in YES or word in NO:
        return ""
    if not text.startswith("{"):
        return AGAIN
    try:
        json.loads(text)
    except ValueError as error:
        return f"These arguments are not JSON: {error}. {AGAIN}"
    return ""


def _decided(data: dict[str, Any], arguments: dict[str, Any]) -> Decision:
    """Consent has to be said: what is neither a yes nor other arguments is a no."""
    edited = data.get("arguments", arguments)
    if not isinstance(edited, dict):
        return Decision(False, reason=_reason("the arguments that were given instead are no JSON object"))
    approves = data.get("approve", True)
    if approves is True or (isinstance(approves, str) and _word(approves) in YES):
        return Decision(True, edited)
    return Decision(False, reason=_reason(str(data.get("reason") or "")))


def _word(text: str) -> str:
    return text.strip().rstrip(".!。！").lower()


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _reason(text: str) -> str:
    return f"{REFUSAL}: {text.strip()}" if text.strip() else REFUSAL
