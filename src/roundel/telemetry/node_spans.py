"""A span each time that a node runs."""

from __future__ import annotations

from typing import Any

from roundel.kernel.events import Event
from roundel.telemetry.conventions import (
    ADDRESS,
    AGENT,
    NODE,
    OPERATION,
    OUTPUT_MESSAGES,
    PARTIAL,
    REASON,
    ROUND,
    RUN_ID,
    said,
)
from roundel.telemetry.part import Open, Part


def on_node_state_change(part: Part, event: Event, now: int) -> None:
    status, at_work = event.data.get("status"), part.get(event.address or "")
    if status == "running":
        if at_work is not None:
            part.end(at_work, now, "lost")
        _begin_node(part, event, now)
    elif status == "skipped" and at_work is None:
        _add_skipped_event(part, event, now)
    else:
        _end_node(part, at_work or adopted(part, event), event, now)


def adopted(part: Part, event: Event) -> Open:
    """A node that was at work before this part of the run."""
    begun = _begin_node(part, event, part.since)
    begun.span.set_attribute(PARTIAL, True)
    return begun


def _begin_node(part: Part, event: Event, start: int) -> Open:
    address, node = event.address or "", event.node_id or ""
    attributes: dict[str, Any] = {RUN_ID: event.run_id, NODE: node, ADDRESS: address}
    number = round_of(address)
    if number:
        attributes[ROUND] = number
    begun = part.begin("node", node, address, f"node {node}", start, attributes)
    if node in part.agents:
        known_as_agent(begun)
    return begun


def known_as_agent(node: Open) -> None:
    if not node.agent:
        node.agent = True
        node.span.update_name(f"invoke_agent {node.name}")
        node.span.set_attributes({OPERATION: "invoke_agent", AGENT: node.name})


def _end_node(part: Part, node: Open, event: Event, now: int) -> None:
    data = event.data
    if "error" in data:
        node.fail(data["error"])
    if "reason" in data:
        node.span.set_attribute(REASON, data["reason"])
    if part.content and "output" in data:
        node.span.set_attribute(OUTPUT_MESSAGES, said("assistant", data["output"]))
    part.end(node, now, data.get("status", ""))


def _add_skipped_event(part: Part, event: Event, now: int) -> None:
    told = {NODE: event.node_id or "", ADDRESS: event.address or "", REASON: event.data.get("reason", "")}
    part.nearest(event.address).span.add_event("roundel.skipped", told, now)


def round_of(address: str) -> int:
    """The round of the innermost loop around an address; 0 outside of any."""
    number = address.rpartition("[")[2].partition("]")[0]
    return int(number) if "[" in address and number.isdigit() else 0
