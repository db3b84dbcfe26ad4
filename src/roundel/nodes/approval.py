"""What a person says to a tool call: go ahead, do not, or go ahead with other arguments."""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct

from roundel.workflow.message import Message

YES = frozenset({"approve", "approved", "yes", "y", "ok", "true", "同意", "批准"})
NO = frozenset({"reject", "rejected", "no", "n", "false", "拒绝", "不同意"})
_DECISION_KEYS = frozenset({"approve", "arguments"})
_ANSWER_KEYS = _DECISION_KEYS | {"reason"}
REFUSAL = "a person did not allow this call"
ANSWER_HINT = "Say approve, reject, reject: why, or give other arguments as a JSON object."


class ApprovalDecision(Struct, frozen=True):
    approved: bool
    arguments: dict[str, Any] = {}
    reason: str = REFUSAL


def read_decision(message: Message, arguments: dict[str, Any]) -> ApprovalDecision:
    """A word of consent or refusal, or a JSON object: other arguments, or what is decided. Any other text is
    why the call is not made, which the model is told."""
    if message.data and _DECISION_KEYS & message.data.keys():
        return _decision_from_fields(message.data, arguments)
    text = message.text.strip()
    given = _parse_object(text)
    if given is not None:
        is_decision = given and given.keys() <= _ANSWER_KEYS and _DECISION_KEYS & given.keys()
        return _decision_from_fields(given, arguments) if is_decision else ApprovalDecision(True, given)
    word, _, rest = text.partition(":")
    if _normalize_word(word) in YES and not rest:
        return ApprovalDecision(True, arguments)
    return ApprovalDecision(False, reason=_refusal_reason(rest if _normalize_word(word) in NO else text))


def approval_answer_problem(message: Message) -> str:
    """Why an answer is neither consent nor refusal nor other arguments; empty if it is one of them.

    `decision` takes any other text for a refusal. Where the person can be asked again this is asked first: a
    slip of the hand must not decide about a call."""
    if message.data and _DECISION_KEYS & message.data.keys():
        return ""
    text = message.text.strip()
    word = text.partition(":")[0].strip().lower()
    if text.lower() in YES or word in NO:
        return ""
    if not text.startswith("{"):
        return ANSWER_HINT
    try:
        json.loads(text)
    except ValueError as error:
        return f"These arguments are not JSON: {error}. {ANSWER_HINT}"
    return ""


def _decision_from_fields(data: dict[str, Any], arguments: dict[str, Any]) -> ApprovalDecision:
    """Consent has to be said: what is neither a yes nor other arguments is a no."""
    edited = data.get("arguments", arguments)
    if not isinstance(edited, dict):
        return ApprovalDecision(
            False, reason=_refusal_reason("the arguments that were given instead are no JSON object")
        )
    approves = data.get("approve", True)
    if approves is True or (isinstance(approves, str) and _normalize_word(approves) in YES):
        return ApprovalDecision(True, edited)
    return ApprovalDecision(False, reason=_refusal_reason(str(data.get("reason") or "")))


def _normalize_word(text: str) -> str:
    return text.strip().rstrip(".!。！").lower()


def _parse_object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _refusal_reason(text: str) -> str:
    return f"{REFUSAL}: {text.strip()}" if text.strip() else REFUSAL
