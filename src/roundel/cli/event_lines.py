"""Formats events as plain lines, for `roundel log`, pipes and log files: no control codes and no colour."""

from __future__ import annotations

import json
from collections.abc import Sequence

from msgspec import UNSET

from roundel.cli.output import one_line
from roundel.cli.progress import arguments_text, bound_of, report_text, wait_text
from roundel.kernel.events import Event
from roundel.kernel.payloads import (
    AnswerReceived,
    AnswerTimeout,
    BreakerTripped,
    BreakerUnlocked,
    CallWaiting,
    Change,
    LimitReached,
    LockedByHand,
    LoopLeft,
    LoopRound,
    MemoryFailed,
    NodeCompleted,
    NodeFailed,
    NodeRunning,
    ProgressReported,
    QuestionAsked,
    ScoreRegression,
    ToolCallChange,
    ToolCallEnded,
    ToolCallStarted,
    Warned,
)
from roundel.kernel.state import TRIPS

EXCERPT = 100
_ACTIONS = {
    "default": "the default is the answer",
    "port": "takes the port timeout",
    "failed": "the node fails",
    "rejected": "the call is rejected",
}
"""What happens instead of an answer, by the `action` of `human_input_timeout`."""


def _reached_limit(data: LimitReached) -> str:
    if data.model is None:
        return f"{data.limit} {data.what}"
    missing = "usage reported by" if data.missing == "usage" else "known price for"
    return f"no {missing} {data.model}"


def format_event(  # noqa: PLR0912 (a case for each event)
    event: Event,
) -> str | None:
    """The event as one line; None for events that a person does not need, such as token streams."""
    address = one_line(event.address or "")
    match event.data:
        case NodeRunning() | NodeCompleted() | NodeFailed() as data:
            return _node_line(address, data)
        case LoopRound(round=number) as data:
            return f"{address}  {bound_of(data, is_node=_is_node(event)).label(number)}"
        case LoopLeft(rounds=rounds, reason=reason):
            return f"{address}  left after {rounds} round{'' if rounds == 1 else 's'}  {reason}"
        case ToolCallStarted() | ToolCallEnded() as data:
            return _tool_line(address, data)
        case QuestionAsked() as data:
            return _question_line(address, data)
        case AnswerReceived() as data:
            return _answer_line(address, data)
        case AnswerTimeout(action=action):
            return f"{address}  not answered in time  {_ACTIONS[action]}"
        case LimitReached() as data:
            return f"{address}  limit reached  {_reached_limit(data)}"
        case BreakerTripped() as data:
            why = f": {excerpt(data.reason)}" if isinstance(data, LockedByHand) else ""
            return f"{address}  breaker tripped  {TRIPS[data.trigger].text}{why}".lstrip()
        case BreakerUnlocked(reason=reason, by=by, changes=changes):
            what = "; ".join(filter(None, (reason, _changes_text(changes))))
            return f"{address}  unlocked{_by(by)}  {excerpt(what)}".strip()
        case Warned(message=message):
            return f"{address}  warning  {excerpt(message)}".strip()
        case ProgressReported() as data:
            return f"{address}  progress  {excerpt(report_text(data))}"
        case CallWaiting() as data:
            return f"{address}  {excerpt(wait_text(data, data.seconds))}"
        case MemoryFailed(store=store, error=error):
            return f"{address}  without memory  {store}: {excerpt(error)}"
        case ScoreRegression(previous=previous, score=score):
            return f"{address}  score fell  from {previous} to {score}"
        case _:
            return None


def _question_line(address: str, data: QuestionAsked) -> str:
    question = f"{data.prompt} {arguments_text(data.tool.arguments if data.tool is not None else None)}"
    asked = f"{address}  asks  {excerpt(question)}".rstrip()
    return f"{asked}  (answer before {data.deadline})" if data.deadline else asked


def _answer_line(address: str, data: AnswerReceived) -> str:
    """Who answered, and what: the answer, what was changed in a tool call, or why it was rejected."""
    what = {"changed": _changes_text(data.changes), "rejected": data.reason, "approved": ""}
    text = what.get(data.decision, data.text)
    return f"{address}  {data.decision}{_by(data.by)}  {excerpt(text)}".rstrip()


def _by(person: str) -> str:
    return f" by {one_line(person)}" if person else ""


def _changes_text(changes: Sequence[Change] | None) -> str:
    """What was changed: `/grams 5000 → 3000`."""
    return ", ".join(f"{one.path} {_value(one.before)} → {_value(one.after)}" for one in changes or ())


def _value(value: object) -> str:
    return "none" if value is UNSET else json.dumps(value, ensure_ascii=False)


def _is_node(event: Event) -> bool:
    """Whether the loop of an event is a node that repeats by itself."""
    return bool(event.path) and event.path[-1].node is not None


def _node_line(address: str, data: NodeRunning | NodeCompleted | NodeFailed) -> str | None:
    if isinstance(data, NodeRunning):
        return f"{address}  retried" if data.retried else None
    if isinstance(data, NodeFailed):
        handled = " (handled)" if data.handled else ""
        return f"{address}  failed{handled}  {excerpt(data.error)}".rstrip()
    summary = (data.report or {}).get("summary")  # of a vote, whose output is the text that was voted on
    text = summary if isinstance(summary, str) else data.output or ""
    return f"{address}  completed  {excerpt(text)}".rstrip()


def _tool_line(address: str, data: ToolCallChange) -> str | None:
    """A tool call; its address already contains the round and the name of the tool."""
    if isinstance(data, ToolCallEnded):
        return f"{address}  {data.status}  {excerpt(data.result)}".rstrip()
    if data.status == "waiting":
        return None  # the next event is the question
    return f"{address}  called  {excerpt(arguments_text(data.arguments))}".rstrip()


def excerpt(text: str) -> str:
    """The beginning of a text as one line."""
    # More than EXCERPT characters first, since white space collapses; but never a whole message of
    # megabytes.
    line = one_line(text, EXCERPT * 4)
    return line if len(line) <= EXCERPT else line[: EXCERPT - 1].rstrip() + "…"
