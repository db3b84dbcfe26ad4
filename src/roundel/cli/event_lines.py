"""Formats events as plain lines, for `roundel log`, pipes and log files: no control codes and no colour.

A line for a round also says how many rounds there can be and what bounds them. `LoopBounds` finds that
by the address of the round, since the same loop id may occur in several graphs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from roundel.cli.output import one_line
from roundel.cli.progress import arguments_text, report_text, wait_text
from roundel.kernel.events import Event
from roundel.kernel.state import TRIPS
from roundel.plan.address import parse
from roundel.plan.graph import Plan
from roundel.plan.proof import bounds
from roundel.plan.scope import Scope
from roundel.workflow.address import AddressError, without_rounds


@dataclass(frozen=True, slots=True)
class LoopBound:
    """How many rounds a loop can have; `LoopBounds` creates it."""

    rounds: int | None
    """The largest number of rounds, if it is known."""
    by: str
    """The guard that causes the bound, as a suffix of the label."""

    def label(self, number: int) -> str:
        # A raised limit makes the proven bound wrong; a round beyond it is shown without one.
        limit = f" of {self.rounds}" if self.rounds is not None and number <= self.rounds else ""
        return f"round {number}{limit}{self.by}"


class LoopBounds:
    """The bounds of all loops of a plan, computed once per loop and not once per round."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._known: dict[str, LoopBound] = {}

    def at(self, address: str) -> LoopBound:
        key = without_rounds(address)
        bound = self._known.get(key)
        if bound is None:
            bound = self._known[key] = self._find(address)
        return bound

    def _find(self, address: str) -> LoopBound:
        try:
            place = parse(address, self._plan)
        except AddressError:  # of a stored run whose workflow was changed since
            return LoopBound(None, "")
        if place.loop is not None:
            return _of_loop(place.loop)
        return LoopBound(place.node.kind.rounds(place.node.config), "")


def _of_loop(scope: Scope) -> LoopBound:
    limits, worst = bounds(scope)
    if worst is None:
        # Only the cap of the loop and guards that do not count rounds, such as a time limit, bound it.
        clocks = "".join(f" · {one_line(limit.guard)}: {limit.limit}" for limit in limits)
        return LoopBound(scope.cap, f" (cap){clocks}")
    guard = next((limit.guard for limit in limits if limit.limit == worst), "")
    return LoopBound(worst, f" · {one_line(guard)}" if guard else "")


EXCERPT = 100
_TEXTS = {
    "breaker_unlocked": ("unlocked", "reason"),
    "warning": ("warning", "message"),
}
"""Events of which one text is shown: the word before it, and its field."""
_ACTIONS = {
    "default": "the default is the answer",
    "port": "takes the port timeout",
    "failed": "the node fails",
    "rejected": "the call is rejected",
}
"""What happens instead of an answer, by the `action` of `human_input_timeout`."""


def _reached_limit(data: dict[str, Any]) -> str:
    if "model" not in data:
        return f"{data['limit']} {data['what']}"
    missing = "usage reported by" if data.get("missing") == "usage" else "known price for"
    return f"no {missing} {data['model']}"


def format_event(event: Event, bounds: LoopBounds | None) -> str | None:
    """The event as one line; None for events that a person does not need, such as token streams."""
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
    if kind.startswith("human_input_"):
        return _question_line(kind, address, data)
    if kind == "limit_reached":
        return f"{address}  limit reached  {_reached_limit(data)}"
    if kind == "breaker_tripped":
        why = f": {excerpt(data['reason'])}" if "reason" in data else ""
        return f"{address}  breaker tripped  {TRIPS[data['trigger']].text}{why}".lstrip()
    if kind in _TEXTS:
        word, field = _TEXTS[kind]
        return f"{address}  {word}  {excerpt(data.get(field, ''))}".strip()
    if kind == "progress":
        return f"{address}  progress  {excerpt(report_text(data))}"
    if kind == "call_waiting":
        return f"{address}  {excerpt(wait_text(data, data['seconds']))}"
    if kind == "memory_error":
        return f"{address}  without memory  {data['store']}: {excerpt(data['error'])}"
    if kind == "score_regression":
        return f"{address}  score fell  from {data['previous']} to {data['score']}"
    return None


def _question_line(kind: str, address: str, data: dict[str, Any]) -> str:
    if kind == "human_input_received":
        return f"{address}  answered  {excerpt(data.get('text', ''))}".rstrip()
    if kind == "human_input_timeout":
        return f"{address}  not answered in time  {_ACTIONS.get(data['action'], data['action'])}"
    question = f"{data.get('prompt', '')} {arguments_text(data.get('tool', {}).get('arguments'))}"
    asked = f"{address}  asks  {excerpt(question)}".rstrip()
    return f"{asked}  (answer before {data['deadline']})" if "deadline" in data else asked


def _node_line(address: str, data: dict[str, object]) -> str | None:
    status = data.get("status")
    if data.get("retried"):
        return f"{address}  retried"
    if status not in ("completed", "failed"):
        return None
    text = str(data.get("output" if status == "completed" else "error") or "")
    if status == "completed" and isinstance(data.get("summary"), str):
        text = str(data["summary"])  # of a vote, whose output is the text that was voted on
    handled = " (handled)" if data.get("handled") else ""
    return f"{address}  {status}{handled}  {excerpt(text)}".rstrip()


def _tool_line(address: str, data: dict[str, Any]) -> str | None:
    """A tool call; its address already contains the round and the name of the tool."""
    status = data["status"]
    if status == "waiting":
        return None  # the next event is the question
    if status == "running":
        return f"{address}  called  {excerpt(arguments_text(data['arguments']))}".rstrip()
    return f"{address}  {status}  {excerpt(str(data.get('result') or ''))}".rstrip()


def excerpt(text: str) -> str:
    """The beginning of a text as one line."""
    # More than EXCERPT characters first, since white space collapses; but never a whole message of
    # megabytes.
    line = one_line(text, EXCERPT * 4)
    return line if len(line) <= EXCERPT else line[: EXCERPT - 1].rstrip() + "…"
