"""The rounds of a run as figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.kernel.events import Event, stamp
from roundel.runs.rounds import loop_rounds
from tests.runs.polish_workflow import BOTH, POLISH

WORDS = [
    "walnut",
    "harbour",
    "velvet",
    "engine",
    "quiet",
    "granite",
    "orange",
    "ladder",
    "simple",
    "thunder",
    "copper",
    "kettle",
]


def events_of(workflow: Any, script: Any) -> list[roundel.Event]:
    seen: list[roundel.Event] = []
    assert roundel.run(workflow, "tea", script=script, on_event=seen.append).completed
    return seen


def test_score_tokens_and_novelty_of_each_round() -> None:
    (loop,) = loop_rounds(events_of(POLISH, BOTH), {"Writer", "Editor"})
    assert (loop.loop, loop.exit_reason) == ("Writer", "score_threshold_reached")
    assert [one.number for one in loop.rounds] == [1, 2, 3, 4]
    assert [one.score for one in loop.rounds] == [50, 80, 60, 95]
    assert [one.tokens for one in loop.rounds] == [13, 25, 34, 47]
    assert [one.cost_usd for one in loop.rounds] == [None] * 4, "a script has no price"
    assert loop.rounds[0].novelty == 1
    assert all(0.2 <= (one.novelty or 0) <= 1 for one in loop.rounds[1:])


def test_repeating_writer_has_zero_novelty() -> None:
    script = {"Writer": [{"text": "the same again", "data": {"score": 1}}], "Editor": "no"}
    seen = events_of({"breaker": False, **POLISH}, script)
    (loop,) = loop_rounds(seen, {"Writer", "Editor"})
    assert [one.novelty for one in loop.rounds] == [1, 0, 0, 0, 0]


def test_nested_loops_count_for_themselves_and_the_outer_loop() -> None:
    folder = Path(__file__).parents[2] / "examples" / "nested_loops"
    script = {
        "Planner": ["plan a", "plan b"],
        "Coder": [{"text": f"{word} {word[::-1]}", "tokens": {"input": 1, "output": 1}} for word in WORDS],
        "*": [f"no {word}" for word in reversed(WORDS)],
    }
    seen = events_of(str(folder / "workflow.yaml"), script)
    found = {loop.loop: loop for loop in loop_rounds(seen)}
    outer, inner = found["Planner"], found["Coder"]
    assert sum(one.tokens for one in outer.rounds) == sum(one.tokens for one in inner.rounds) > 0
    assert {one.address.partition(".")[0] for one in inner.rounds} == {one.address for one in outer.rounds}
    # The outputs of a node belong to its innermost round.
    assert outer.rounds[0].outputs["Planner[1]/Planner"] == "plan a"
    assert not any("Coder[" in address for one in outer.rounds for address in one.outputs)
    for one in inner.rounds:
        assert one.outputs[f"{one.address}/Coder"]


def test_cost_and_time_of_each_round() -> None:
    def at(second: float, kind: str, address: str, **data: Any) -> Event:
        return Event(1, kind, stamp(1_000_000 + second), "run", "Writer", address, data)

    usage = {"input_tokens": 5, "output_tokens": 5}
    (loop,) = loop_rounds(
        [
            at(0, "loop_round", "W[1]", loop="W", round=1),
            at(1, "token_usage", "W[1]/Writer", **usage, cost_usd=0.25),
            at(2, "token_usage", "W[1]/Writer", **usage, cost_usd=None),
            at(2.5, "node_state_change", "W[1]/Writer", status="completed", output="said"),
            at(4, "loop_round", "W[2]", loop="W", round=2),
            at(7, "token_usage", "W[2]/Writer", **usage, cost_usd=None),
            at(9, "node_state_change", "Other", status="completed", output="elsewhere", score=3),
        ]
    )
    assert [one.cost_usd for one in loop.rounds] == [0.25, None]
    assert [one.seconds for one in loop.rounds] == pytest.approx([2.5, 3])
    assert [one.novelty for one in loop.rounds] == [1, None]
    assert loop.exit_reason == ""
    assert all(one.score is None for one in loop.rounds)
