"""What agents use: tokens, on the span of their node, and tools, each call with a span of its own.

Events do not say which nodes are agents. If nobody said it when the run began here, a node is known for one
by using tokens or tools.
"""

from __future__ import annotations

from typing import Any

from roundel.kernel.events import Event
from roundel.telemetry.conventions import (
    ADDRESS,
    AGENT,
    CACHED,
    COST,
    INPUT_TOKENS,
    NODE,
    OPERATION,
    OUTPUT_TOKENS,
    ROUND,
    RUN_ID,
    STATUS,
    TOOL,
    TOOL_ARGUMENTS,
    TOOL_CALL_ID,
    TOOL_RESULT,
    as_json,
    model_attributes,
)
from roundel.telemetry.node_spans import adopted, known_as_agent
from roundel.telemetry.part import Open, Part
from roundel.workflow.money import dollars, picodollars

CALLED = ("completed", "failed")


def on_token_usage(part: Part, event: Event, now: int) -> None:
    data = event.data
    node = part.get(event.address or "") or adopted(part, event)
    known_as_agent(node)
    node.touch(now)
    if not data.get("aside"):
        node.span.set_attributes(model_attributes(data.get("model", "")))
    if data.get("cached"):
        node.span.set_attribute(CACHED, True)
        return
    node.read += data.get("input_tokens", 0)
    node.written += data.get("output_tokens", 0)
    node.span.set_attributes({INPUT_TOKENS: node.read, OUTPUT_TOKENS: node.written})
    if data.get("cost_usd") is not None:
        node.cost += picodollars(data["cost_usd"])
        node.span.set_attribute(COST, dollars(node.cost))


def on_tool_call(part: Part, event: Event, now: int) -> None:
    status, address = event.data.get("status", ""), event.address or ""
    holder, call = part.holder(address), part.get(address)
    if holder.kind == "node":
        known_as_agent(holder)
    if status == "running":
        if call is None:
            _begin_tool(part, event, now)
    elif call is not None or status in CALLED:
        _end_tool(part, call or _begin_tool(part, event, now), event, now)
    else:  # a person is asked first, or it was not called at all
        told = {TOOL: event.data.get("name", ""), STATUS: status, ADDRESS: address}
        holder.span.add_event("roundel.tool_call", told, now)


def _begin_tool(part: Part, event: Event, now: int) -> Open:
    name, address, agent = event.data.get("name", ""), event.address or "", event.node_id or ""
    attributes: dict[str, Any] = {
        OPERATION: "execute_tool",
        TOOL: name,
        TOOL_CALL_ID: event.data.get("id") or "",
        AGENT: agent,
        RUN_ID: event.run_id,
        NODE: agent,
        ADDRESS: address,
        ROUND: event.data.get("round", 0),
    }
    return part.begin("tool", name, address, f"execute_tool {name}", now, attributes)


def _end_tool(part: Part, call: Open, event: Event, now: int) -> None:
    status, result = event.data.get("status", ""), event.data.get("result", "")
    if status == "failed":
        call.fail(result if part.content else "")
    if part.content:
        call.span.set_attribute(TOOL_ARGUMENTS, as_json(event.data.get("arguments", {})))
        call.span.set_attribute(TOOL_RESULT, result)
    part.end(call, now, status)
