"""Providers that installed packages bring."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib.metadata import EntryPoint
from typing import Any

import pytest

import roundel
from roundel.extend import Event, NodeError, Profile, Reply, Request
from roundel.workflow import functions

StreamCallback = Callable[[str], None] | None
made: list[Parrot] = []


class Parrot:
    """Says what its profile tells it to."""

    def __init__(self, profile: Profile) -> None:
        self.name = profile.provider_and_name[1]
        self.calls = 0
        self.closed = False
        made.append(self)
        if self.name == "absent":
            raise NodeError("there is no such parrot")
        if self.name == "broken":
            raise RuntimeError("no feathers")

    async def reply(self, request: Request, say: StreamCallback) -> Reply:
        self.calls += 1
        if self.name == "shy" and self.calls < 3:
            raise ConnectionError("the parrot flew off")
        if self.name == "slow":
            await asyncio.Event().wait()
        if self.name == "odd":
            return "no reply"  # type: ignore[return-value]
        text = request.messages[-1].text
        if say is not None:
            say(text[:4])
            say(text[4:])
        counted = self.name != "uncounted"
        return Reply(text=text, input_tokens=1000 * counted, output_tokens=500 * counted)

    async def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package whose entry point leads here."""
    made.clear()
    points = {
        "parrot": EntryPoint("parrot", f"{__name__}:Parrot", "roundel.providers"),
        "openai": EntryPoint("openai", f"{__name__}:Parrot", "roundel.providers"),
        "missing": EntryPoint("missing", "no_such_module:Model", "roundel.providers"),
    }
    monkeypatch.setitem(functions._entry_points, "roundel.providers", points)


def run(model: str, **settings: Any) -> roundel.Result:
    profile = {"model": model, **settings}
    retry = {"min_wait_seconds": 0, "max_wait_seconds": 0, "max_attempts": 3}
    node = {"id": "Bird", "type": "agent", "config": {"retry": retry}}
    return roundel.run(
        {"models": {"default": profile}, "graph": {"nodes": [node], "start": "Bird"}},
        "hello there",
        on_event=seen.append,
    )


seen: list[Event] = []


def test_plugin_reply_is_priced_streamed_and_the_plugin_closed() -> None:
    seen.clear()
    result = run("parrot:grey", price={"input": 1, "output": 2})
    assert result.output == "hello there"
    assert result.usage["cost_usd"] == pytest.approx(0.002)
    assert result.usage["input_tokens"] == 1000
    parts = [event.fields()["text"] for event in seen if event.event == "token_stream"]
    assert "".join(parts) == "hello there"
    assert made[0].closed


@pytest.mark.parametrize(
    ("price", "cost"), [({"input": 1, "output": 2}, None), ({"input": 0, "output": 0}, 0)]
)
def test_plugin_reply_without_usage_has_unknown_cost(price: dict[str, float], cost: float | None) -> None:
    usage = run("parrot:uncounted", price=price).usage
    assert (usage["cost_usd"], usage["unpriced_calls"]) == (cost, int(cost is None))


def test_failing_call_is_retried() -> None:
    assert run("parrot:shy").output == "hello there"
    assert made[0].calls == 3


def test_slow_call_times_out() -> None:
    result = run("parrot:slow", timeout=0.01)
    assert result.status == "failed" and "no answer after 0.01 seconds" in str(result.error)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("parrot:odd", "parrot:odd gave str in place of a Reply"),
    ],
)
def test_invalid_reply_fails_the_node(model: str, reason: str) -> None:
    assert reason in str(run(model).error)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("parrot:absent", "there is no such parrot"),
        ("parrot:broken", "parrot:broken cannot be used: RuntimeError: no feathers"),
        ("missing:one", "missing:one cannot be used: cannot import 'no_such_module:Model'"),
    ],
)
def test_unavailable_provider_is_rejected_before_the_run(model: str, reason: str) -> None:
    with pytest.raises(roundel.WorkflowError, match=reason):
        run(model)


def test_plugin_cannot_override_a_known_provider() -> None:
    with pytest.raises(roundel.WorkflowError, match="there is no key"):
        run("openai:gpt-4o")
    assert made == []


def test_plugin_name_is_checked_with_spelling_hints() -> None:
    node = {"id": "A", "type": "agent", "config": {"model": "parrot:grey"}}
    workflow = {"graph": {"nodes": [node], "start": "A"}}
    assert roundel.check(workflow)[1].diagnostics == []
    node["config"] = {"model": "parot:grey"}
    (found,) = roundel.check(workflow)[1].diagnostics
    assert (found.code, found.hint) == ("unknown-provider", "did you mean 'parrot'?")
