"""Figures of a run as words."""

from __future__ import annotations

from roundel.cli.live.progress import Snapshot
from roundel.cli.live.spending import Usage
from roundel.cli.output import dollars


def clock(seconds: float) -> str:
    """As it stands while a run goes: `0:07`, `12:34`, `1:02:03`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def usage_words(usage: Usage) -> list[str]:
    counted = ((usage.model_calls, "model call"), (usage.tool_calls, "tool call"), (usage.tokens, "token"))
    return [f"{count:,} {word}{'' if count == 1 else 's'}" for count, word in counted if count]


def cost_words(usage: Usage) -> str:
    """Never 0 for what nobody knows; empty if there was nothing to pay for."""
    if not usage.paid or not (usage.model_calls or usage.cost_usd):
        return ""
    if not usage.priced:
        return "cost unknown"
    if not usage.unpriced_calls:
        return dollars(usage.cost_usd)
    calls = "1 call" if usage.unpriced_calls == 1 else f"{usage.unpriced_calls:,} calls"
    return f"at least {dollars(usage.cost_usd)}, {calls} without a price"


def ending(run: Snapshot) -> str:
    """The run in one line: `completed in 1.2 s · 7 model calls`."""
    joint = " " if run.reason.startswith("for ") else ": "
    reason = joint + run.reason if run.reason not in ("", run.status) else ""
    preposition = "in" if run.status in ("completed", "failed", "stopped") else "after"
    parts = (f"{run.status}{reason} {preposition} {duration(run.seconds)}", *usage_words(run.usage))
    return " · ".join(filter(None, (*parts, cost_words(run.usage))))
