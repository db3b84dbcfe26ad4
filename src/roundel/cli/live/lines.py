"""A run as plain lines, for logs and pipes: no control codes, no colour."""

from __future__ import annotations

from typing import Any

from roundel.cli.live.bounds import Bounds
from roundel.cli.live.talks import arguments_text
from roundel.cli.output import one_line
from roundel.kernel.events import Event
from roundel.kernel.trips import TRIPS

EXCERPT = 100


def line_of(event: Event, bounds: Bounds | None) -> str | None:
    """None for what is not worth a line."""
    kind, data = event.event, event.data
    address = one_line(event.address or "")
    if kind == "node_state_change":
        return _node_line(address, data)
    if kind == "loop_round":
        label = bounds.at(event.address or "").label if bounds is not None else "round {}".format
        return f"{address}  {label(data['round'])}"
    if kind == "loop_exit":
        rounds = data["rounds"]
        return f"{address}  left after {rounds} round{'' if rounds == 1 else 's'}  {data['reason']}"
    if kind == "tool_call":
        return _tool_line(address, data)
    if kind == "human_input_required":
        question = f"{data.get('prompt', '')} {arguments_text(data.get('tool', {}).get('arguments'))}"
        return f"{address}  asks  {excerpt(question)}".rstrip()
    if kind == "human_input_received":
        return f"{address}  answered  {excerpt(data.get('text', ''))}".rstrip()
    if kind == "limit_reached":
        return f"{address}  limit reached  {data['limit']} {data['what']}"
    if kind == "breaker_tripped":
        return f"{address}  breaker tripped  {TRIPS[data['trigger']].text}"
    if kind == "breaker_unlocked":
        return f"{address}  unlocked  {excerpt(data['reason'])}"
    if kind == "warning":
        return f"{address}  warning  {excerpt(data.get('message', ''))}"
    if kind == "memory_error":
        return f"{address}  without memory  {data['store']}: {excerpt(data['error'])}"
    if kind == "score_regression":
        return f"{address}  score fell  from {data['previous']} to {data['score']}"
    return None


def _node_line(address: str, data: dict[str, object]) -> str | None:
    status = data.get("status")
    if status not in ("completed", "failed"):
        return None
    text = str(data.get("output" if status == "completed" else "error") or "")
    return f"{address}  {status}  {excerpt(text)}".rstrip()


def _tool_line(address: str, data: dict[str, Any]) -> str | None:
    """The address holds the round and the tool's name."""
    status = data["status"]
    if status == "waiting":
        return None  # the question comes next
    if status == "running":
        return f"{address}  called  {excerpt(arguments_text(data['arguments']))}".rstrip()
    return f"{address}  {status}  {excerpt(str(data.get('result') or ''))}".rstrip()


def excerpt(text: str) -> str:
    line = one_line(text, EXCERPT * 4)
    return line if len(line) <= EXCERPT else line[: EXCERPT - 1].rstrip() + "…"
