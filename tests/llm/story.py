"""Workflows whose agents speak to a wire, and what came of running them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

import roundel
from tests.llm.wire import Reply, Wire

KEY = "sk-known-0123456789abcdef"
PROVIDERS = ("openai", "anthropic", "google")
MODELS = {
    "openai": "openai:gpt-4o",
    "anthropic": "anthropic:claude-haiku-4-5",
    "google": "google:gemini-2.5-flash",
}
AT_ONCE = {"min_wait_seconds": 0, "max_wait_seconds": 0}
"""A retry that does not keep a test waiting."""
LOOK = Reply(tool_calls=(("a1", "look", {"place": "Oslo"}),))
"""A model that wants to look something up, with one of the tools of `tools.py`."""

every_provider = pytest.mark.parametrize("provider", PROVIDERS)
every_way = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


def profile(wire: Wire, provider: str = "openai", **fields: Any) -> dict[str, Any]:
    """A model of the provider's, behind the wire."""
    url = getattr(wire, f"{provider}_url")
    return {"model": MODELS[provider], "base_url": url, "api_key": KEY, **fields}


def workflow(models: Mapping[str, Any], *tools: str, **config: Any) -> dict[str, Any]:
    """One agent `A`, with functions of `tools.py` as its tools."""
    if tools:
        config["tools"] = list(tools)
    return {
        "models": dict(models),
        "tools": {name: {"python": f"tests.llm.tools:{name}"} for name in tools},
        "graph": {
            "start": ["A"],
            "end": ["A"],
            "nodes": [{"id": "A", "type": "agent", "config": config}],
            "edges": [],
        },
    }


def asking(wire: Wire, provider: str = "openai", *tools: str, **config: Any) -> dict[str, Any]:
    """One agent that asks a model behind the wire, and again at once where that may help."""
    return workflow({"default": profile(wire, provider)}, *tools, **{"retry": AT_ONCE, **config})


@dataclass
class Story:
    events: list[roundel.Event] = field(default_factory=list)
    result: roundel.Result = field(init=False)

    def of(self, name: str) -> list[dict[str, Any]]:
        """The data of all events of a name."""
        return [event.fields() for event in self.events if event.event == name]

    @property
    def error(self) -> str:
        assert self.result.status == "failed", self.result
        return self.result.error or ""

    @property
    def warnings(self) -> list[str]:
        return [data["message"] for data in self.of("warning")]


def run_story(source: Any, input: str | roundel.Message = "How is it?", **options: Any) -> Story:
    story = Story()
    story.result = roundel.run(source, input, on_event=story.events.append, **options)
    return story
