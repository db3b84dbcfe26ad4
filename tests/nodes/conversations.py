"""Agents that use tools, run on a script, and what there is to see of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import roundel


@dataclass
class Told:
    """A run, and its events."""

    events: list[roundel.Event] = field(default_factory=list)
    result: roundel.Result = field(init=False)

    def named(self, name: str) -> list[roundel.Event]:
        return [event for event in self.events if event.event == name]

    def tool_calls(self, *statuses: str) -> list[tuple[str, str]]:
        """Where tools were called and what came of it; all events of the kind if no status is named."""
        return [
            (str(event.address), event.fields()["status"])
            for event in self.named("tool_call")
            if not statuses or event.fields()["status"] in statuses
        ]

    def results(self) -> list[str]:
        return [event.fields()["result"] for event in self.named("tool_call") if "result" in event.fields()]

    def addresses(self) -> list[str]:
        """Where tools were called, each time once."""
        seen = [str(event.address) for event in self.named("tool_call")]
        return list(dict.fromkeys(seen))


def run_conversation(
    workflow: Any, script: Mapping[str, Any] | None, input: str = "go", **given: Any
) -> Told:
    story = Told()
    story.result = roundel.run(workflow, input, script=script, on_event=story.events.append, **given)
    return story


def agent(*tools: Any, **config: Any) -> roundel.Graph:
    """One agent `A` with functions as its tools, which may be called with the same arguments any number of
    times."""
    graph = roundel.Graph(start="A", end="A", breaker={"dead_loop": False})
    return graph.node("A", "agent", tools=list(tools), **config)


def wants(*names: str, **arguments: Any) -> dict[str, Any]:
    """A reply that asks for tools, each with the same arguments."""
    return {"tool_calls": [{"name": name, "arguments": arguments} for name in names]}


def look(place: str = "here") -> str:
    """Looks somewhere."""
    return f"seen {place}"


def fail(reason: str = "broken") -> str:
    """Always fails."""
    raise ValueError(reason)
