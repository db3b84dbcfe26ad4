"""Events of earlier versions: those in what is left of a pruned run, and in the fact of a retry with changes.

All other events are made from facts, by the present program. Version 1 had no types, and a `completed` event
into which its report was merged. Version 2 had `token_usage`, and events of tools did not name their agent.

What an old event does not say stays unknown: the totals of the run, when a model call began, and how long it
took.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from roundel.kernel.payloads import (
    AsideUsage,
    BreakerUnlocked,
    Custom,
    EventData,
    LimitReached,
    ModelCallEnded,
    NodeCompleted,
    NodeFailed,
    ToolCallStarted,
    decode_payload,
)
from roundel.workflow.address import agent_of_tool

Fields = dict[str, Any]


def of_version_1(name: str, data: Fields, address: str = "") -> EventData:
    """The data of an event from before events had types. Anybody could emit any event then, so what does not
    fit is `Custom`."""
    if name == NodeCompleted.event and data.get("status") not in ("running", "failed", "skipped"):
        data = _with_report(data)
    return of_version_2(name, data, address)


def of_revision(name: str, data: Fields, address: str = "") -> EventData:
    """The data of an event in the fact of a retry with changes, whose version is not known."""
    return of_version_1(name, {"locks": False, **data} if name == LimitReached.event else data, address)


def of_version_2(name: str, data: Fields, address: str = "") -> EventData:
    """The data of an event from before model calls had a beginning. Newer data stays as it is."""
    upgrade = _UPGRADES.get(name)
    try:
        new_name, fields = (name, data) if upgrade is None else upgrade(data, address)
        return decode_payload(new_name, msgspec.json.encode(fields))
    except (msgspec.MsgspecError, KeyError):
        return Custom(name, data)


def _with_report(data: Fields) -> Fields:
    """The data of a `completed` whose report was merged into it, and could replace any field."""
    fits = {"output": str, "data": dict, "report": dict, "messages": int, "score": float, "usage": dict}
    own = {name: data[name] for name, kind in fits.items() if isinstance(data.get(name), kind)}
    merged = {name: value for name, value in data.items() if name not in own}
    if merged.get("status") == "completed":
        del merged["status"]
    if merged:
        own["report"] = {**merged, **own.get("report", {})}
    return {"status": "completed", **own}


def _tokens(data: Fields, _address: str) -> tuple[str, Fields]:
    """A `token_usage`: a model call that has ended, or one of embeddings."""
    model, cost = data.get("model", ""), data.get("cost_usd")
    if data.get("aside"):
        tokens = data["input_tokens"]
        return AsideUsage.event, {
            "purpose": "embedding",
            "model": model,
            "input_tokens": tokens,
            "cost_usd": cost,
        }
    known = ("model", "input_tokens", "output_tokens", "cost_usd", "cached")
    fields = {name: data[name] for name in known if name in data}
    ended = {"status": "completed", "call": 0, "purpose": "answer", "scripted": not model}
    return ModelCallEnded.event, {**ended, **fields}


def _node(data: Fields, _address: str) -> tuple[str, Fields]:
    """A change of a node: the score was part of what it returned, and the origin was called an address."""
    fields = dict(data)
    if data.get("status") == "completed" and "score" not in data:
        found = [own["score"] for own in (data.get("report"), data.get("data")) if own and "score" in own]
        if found and isinstance(found[0], (int, float)) and not isinstance(found[0], bool):
            fields["score"] = found[0]
    if data.get("status") == "failed" and "address" in data:
        fields["origin"] = fields.pop("address")
    return NodeFailed.event, fields


def _tool(data: Fields, address: str) -> tuple[str, Fields]:
    return ToolCallStarted.event, {"caller": agent_of_tool(address), **data}


def _limit(data: Fields, _address: str) -> tuple[str, Fields]:
    """Which limits had locked the run was not known; those of an agent's calls never do."""
    return LimitReached.event, {"locks": data.get("what") != "calls_per_round", **data}


def _unlock(data: Fields, _address: str) -> tuple[str, Fields]:
    fields = dict(data)
    limits, message = fields.pop("limits", None) or {}, fields.pop("message", None)
    changes = [{"path": f"/limits/{name}", "after": value} for name, value in limits.items()]
    if message is not None:
        changes.append({"path": "/message", "after": message})
    return BreakerUnlocked.event, {**({"changes": changes} if changes else {}), **fields}


_UPGRADES: dict[str, Callable[[Fields, str], tuple[str, Fields]]] = {
    "token_usage": _tokens,
    NodeFailed.event: _node,
    ToolCallStarted.event: _tool,
    LimitReached.event: _limit,
    BreakerUnlocked.event: _unlock,
}
