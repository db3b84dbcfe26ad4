"""Formats events as plain lines, for `roundel log`, pipes and log files: no control codes and no colour.

A line for a round also says how many rounds there can be and what bounds them. `LoopBounds` finds that
by the address of the round: it walks the plan along the address, because an event only has the address,
and the same loop id may occur in several graphs. An address is a path with three kinds of steps:
`Loop[2]` is a round of a loop, `.Inner[5]` a round of a loop inside it, and `/Node` a node; a node with
a graph of its own continues behind its slash.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from roundel.cli.output import one_line
from roundel.cli.progress import arguments_text, report_text, wait_text
from roundel.kernel.events import Event
from roundel.kernel.state import TRIPS
from roundel.plan.graph import NodePlan, Plan
from roundel.plan.proof import bounds
from roundel.plan.scope import Scope

_NUMBER = re.compile(r"\[\d+\]")
_ROUND = re.compile(r"(#[\d.]+)?\[\d+\]")
_PART = re.compile(r"(#[\d.]+)?/")


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
        key = _NUMBER.sub("", address)
        bound = self._known.get(key)
        if bound is None:
            bound = self._known[key] = _in_graph(self._plan.graph.root, address) or LoopBound(None, "")
        return bound


def _of_loop(scope: Scope) -> LoopBound:
    limits, worst = bounds(scope)
    if worst is None:
        # Only the cap of the loop and guards that do not count rounds, such as a time limit, bound it.
        clocks = "".join(f" · {one_line(limit.guard)}: {limit.limit}" for limit in limits)
        return LoopBound(scope.cap, f" (cap){clocks}")
    guard = next((limit.guard for limit in limits if limit.limit == worst), "")
    return LoopBound(worst, f" · {one_line(guard)}" if guard else "")


def _in_graph(root: Scope, rest: str) -> LoopBound | None:
    """Finds the loop at an address inside a graph: through loops (`Outer[2].Inner[5]`), or inside a
    node."""
    return _in_loops(root, rest) or _in_nodes(root, rest)


def _in_loops(scope: Scope, rest: str) -> LoopBound | None:
    """Finds the loop at `rest` or inside it: a loop of the scope, or a node of a looping type."""
    for unit in scope.units:
        for member in unit.core if unit.node is None else ():
            after = _after_round(scope.graph.nodes[member], rest)
            if after is None:
                continue
            # Each entry node of a cycle makes a loop of its own, so the member selects the scope.
            inner = scope.inner(unit, member)
            found = _of_loop(inner) if not after else _behind(inner, after)
            if found is not None:
                return found
    return _in_looping_nodes(scope, rest)


def _behind(scope: Scope, after: str) -> LoopBound | None:
    """Finds the loop that `.Loop[1]` or `/Node` leads to from a round of a loop."""
    return _in_loops(scope, after[1:]) if after[0] == "." else _in_nodes(scope, after[1:])


def _in_looping_nodes(scope: Scope, rest: str) -> LoopBound | None:
    for node in _nodes(scope):
        after = _after_round(node, rest) if node.kind.loops else None
        if after == "":
            return LoopBound(node.kind.rounds(node.config), "")
        for body in node.bodies if after else ():
            found = _behind(body.root, after or "")
            if found is not None:
                return found
    return None


def _in_nodes(scope: Scope, rest: str) -> LoopBound | None:
    for node in _nodes(scope):
        part = _PART.match(rest, len(node.label)) if rest.startswith(node.label) else None
        for body in node.bodies if part else ():
            found = _in_graph(body.root, rest[part.end() :]) if part else None
            if found is not None:
                return found
    return None


def _nodes(scope: Scope) -> Iterator[NodePlan]:
    return (unit.node for unit in scope.units if unit.node is not None)


def _after_round(node: NodePlan, rest: str) -> str | None:
    """What follows `Node[2]`, or `Node#3[2]` for part 3 behind a `map` edge; None if it is another node.

    Labels may contain any character, so the label is compared as a prefix and not parsed.
    """
    number = _ROUND.match(rest, len(node.label)) if rest.startswith(node.label) else None
    return rest[number.end() :] if number else None


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
