"""What a person is shown of a lock in the terminal."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from roundel.cli.event_lines import format_event
from roundel.cli.prompt import evidence
from roundel.kernel.state import GROUP_LIMIT, Lock
from tests.kernel.simulator import plan_of
from tests.kernel.spending import Spender, UnpricedSpender, constant, ring

ONLY_SURGES = {"dead_loop": False, "timeout": False}


def shown(run: Spender) -> str:
    console = Console(width=200, record=True, file=StringIO())
    assert run.state.lock is not None
    console.print(evidence(run.state.lock))
    return console.export_text()


def test_a_token_surge_shows_the_call_that_was_too_large() -> None:
    plan = plan_of({**ring(50), "breaker": ONLY_SURGES})
    run = Spender(plan, {}, lambda _node, ordinal: 2000 * 2**ordinal).start("go").finish()
    text = shown(run)
    assert "the breaker trips at 3 times the estimate" in text
    assert "tokens; up to 4,000 are usual for it" in text


@pytest.mark.parametrize(
    ("size", "lock", "line"),
    [
        (100, "no price is known for house:A", "no known price for house:A"),
        (0, "house:A reported no usage", "no usage reported by house:A"),
    ],
)
def test_an_unknown_cost_is_explained(size: int, lock: str, line: str) -> None:
    run = UnpricedSpender(plan_of(ring(3, limits={"cost_usd": 1})), {}, constant(size))
    run.unpriced = ("A",)
    run.start("go").finish()
    assert f"locked: {lock}, at A[1]/A" in shown(run)
    [event] = [event for event in run.events if event.event == "limit_reached"]
    assert format_event(event) == f"A[1]/A  limit reached  {line}"


def test_the_cost_of_a_small_request_is_not_shown_as_nothing() -> None:
    models = {"default": {"model": "openai:house", "price": {"input": 2, "output": 10}}}
    graph: dict[str, Any] = {"nodes": [{"id": "A", "type": "agent"}], "start": "A"}
    graph["limits"] = {"cost_usd": 0.000001}
    run = Spender(plan_of({"models": models, "graph": graph}), {}).start("go").finish()
    assert "0 spent, 0 reserved by calls in flight, 0.00001 more wanted" in shown(run)


def test_a_shared_limit_shows_whose_it_is_and_when_there_is_room_again() -> None:
    figures = {
        "limit": 20,
        "what": "cost_usd",
        "per": "per day",
        "scope": "group ada",
        "spent": 19.75,
        "reserved": 0.2,
        "wanted": 0.1,
        "resets": "2026-12-01T00:00:00.000Z",
    }
    console = Console(width=200, record=True, file=StringIO())
    console.print(evidence(Lock(GROUP_LIMIT, 20, "Writer", "Writer", figures)))
    text = console.export_text()
    assert "the limit of 20 dollars per day of group ada is reached, at Writer" in text
    assert "group ada: 19.75 spent, 0.2 reserved by calls in flight, 0.1 more wanted" in text
    assert "there is room again from 2026-12-01T00:00:00.000Z on" in text
