"""Figures of a run as words."""

from __future__ import annotations

from roundel.cli.live.progress import Snapshot


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


def usage_words(run: Snapshot) -> list[str]:
    calls, tools = run.usage.get("model_calls", 0), run.usage.get("tool_calls", 0)
    tokens = run.usage.get("input_tokens", 0) + run.usage.get("output_tokens", 0)
    counted = ((calls, "model call"), (tools, "tool call"), (tokens, "token"))
    return [f"{count:,} {word}{'' if count == 1 else 's'}" for count, word in counted if count]


def ending(run: Snapshot) -> str:
    """The run in one line: `completed in 1.2 s · 7 model calls`."""
    joint = " " if run.reason.startswith("for ") else ": "
    reason = joint + run.reason if run.reason else ""
    told = "after" if run.status in ("running", "waiting", "suspended_locked") else "in"
    return " · ".join((f"{run.status}{reason} {told} {duration(run.seconds)}", *usage_words(run)))
