"""The decision of a loop node as a plain call."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

import roundel
from roundel import LoopProcessor, Message
from roundel.kernel.payloads import NodeCompleted

FIELDS = [
    "should_exit",
    "exit_reason",
    "current_round",
    "timestamp",
    "score",
    "best_round",
    "best_score",
    "held",
]


def test_process_returns_one_decision() -> None:
    decided = LoopProcessor(max_rounds=3, exit_on_score=90).process({"iteration": 2, "score": 91})
    assert list(decided) == FIELDS
    stamp = decided.pop("timestamp")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", stamp)
    assert decided == {
        "should_exit": True,
        "exit_reason": "score_threshold_reached",
        "current_round": 2,
        "score": 91,
        "best_round": 2,
        "best_score": 91,
        "held": ["score_threshold_reached"],
    }


def test_each_call_counts_as_a_round() -> None:
    processor, rounds = LoopProcessor(), 0
    while not processor.process()["should_exit"]:
        rounds += 1
        assert rounds < 9
    assert rounds == 2


@pytest.mark.parametrize(
    ("given", "rounds"),
    [
        ([1, 2, 3], [1, 2, 3]),
        ([5, None, None], [5, 6, 7]),
        ([5, 2, 5], [5, 2, 5]),
        ([5, None, 2, None], [5, 6, 2, 3]),
        ([0, "7", 2.5], [1, 2, 3]),
        ([True, math.nan, math.inf], [1, 2, 3]),
        ([3.0, None, 9], [3, 4, 9]),
    ],
)
def test_a_given_iteration_is_taken_as_it_is_and_counted_on_from(given: list[Any], rounds: list[int]) -> None:
    processor = LoopProcessor(max_rounds=99)
    assert [processor.process({"iteration": each})["current_round"] for each in given] == rounds


SETTINGS: list[dict[str, Any]] = [
    {"max_rounds": 9, "exit_on_score": 95},
    {"max_rounds": 4},
    {"max_rounds": 9, "patience": 2, "min_delta": 5},
    {"max_rounds": 9, "score": "data.points * 2.0", "exit_on_score": 99},
    {"max_rounds": 9, "score": {"regex": r"Score: (\d+)"}, "exit_on_score": 50},
]
ROUNDS: list[dict[str, Any]] = [
    {"score": 40, "points": 20.0, "text": "Score: 40"},
    {"weighted_score": 80, "points": 40.0, "text": '{"score": 7}'},
    {"text": "no score"},
    {"iteration": 6, "score": 82.5, "points": 41.0, "text": "Score: 51"},
    {"score": 96, "points": 50.0, "text": "x"},
    {"score": "high", "points": 3.0, "text": "x"},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_processor_decides_like_the_loop_node(settings: dict[str, Any]) -> None:
    graph = roundel.Graph(start="Writer", end="Done", breaker=False).node("Writer", "agent")
    graph.node("Gate", "loop", **settings).node("Done", "passthrough")
    graph.edge("Writer", "Gate").edge("Gate", "Writer", port="continue").edge("Gate", "Done", port="exit")
    events: list[roundel.Event] = []
    lines = [{"text": each["text"], "data": each} for each in ROUNDS]
    roundel.run(graph, script={"Writer": lines}, on_event=events.append)
    gate = [
        event.data for event in events if event.node_id == "Gate" and isinstance(event.data, NodeCompleted)
    ]
    processor = LoopProcessor(**settings)
    fields = [*FIELDS, "score_error"]
    fields.remove("timestamp")
    decided: dict[str, Any] = {}
    for completed, given in zip(gate, ROUNDS, strict=False):
        decided, report = processor.process(given), completed.report or {}
        assert {name: decided.get(name) for name in fields} == {name: report.get(name) for name in fields}
    assert decided["should_exit"]


def test_consensus_is_given_or_read_from_messages() -> None:
    def processor(**consensus: Any) -> LoopProcessor:
        return LoopProcessor(max_rounds=9, exit_condition="consensus", consensus=consensus)

    assert processor().process({"consensus": True})["exit_reason"] == "consensus_reached"
    assert processor().process({"consensus": "yes"})["exit_reason"] == ""
    said = {"Ada": "I agree", "Bo": Message("达成共识")}
    assert processor().process({"messages": said})["exit_reason"] == "consensus_reached"
    assert processor().process({"messages": {**said, "Cy": "I don't agree"}})["exit_reason"] == ""
    votes = {"Ada": "yes", "Bo": {"text": "x", "data": {"vote": "approve"}}, "Cy": "abstain"}
    assert processor(method="vote").process({"messages": votes})["exit_reason"] == "consensus_reached"
    stable = processor(stable_for=2)
    assert [stable.process({"messages": said})["should_exit"] for _ in range(2)] == [False, True]
    with pytest.raises(TypeError, match="'messages' maps each participant to a message, and is not a list"):
        processor().process({"messages": ["I agree"]})


def test_process_does_not_mutate_its_argument() -> None:
    given = {"score": 50}
    LoopProcessor().process(given)
    assert given == {"score": 50}
    with pytest.raises(TypeError, match=r"process\(\) takes a mapping such as .*, not a int"):
        LoopProcessor().process(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_rounds": 0}, "'max_rounds' of the LoopProcessor must be a whole number of at least 1, not 0"),
        ({"max_rounds": True}, "must be a whole number of at least 1, not true"),
        ({"exit_on_score": "high"}, "must be a number, not 'high'"),
        ({"exit_condition": "consenus"}, "did you mean 'consensus'?"),
        ({"patience": 0}, "must be a whole number of at least 1"),
        ({"patience": 1, "min_delta": -1}, "must be a number of at least 0"),
        ({"score": "data."}, "cannot read `data.`"),
        ({"score": {"regex": "(a)(b)"}}, "must have one group, and has 2"),
        ({"exit_condition": "consensus", "consensus": {"method": "judge"}}, "a loop calls nobody"),
        ({"exit_condition": "consensus", "consensus": {"quorum": 2}}, "'quorum'"),
    ],
)
def test_settings_are_checked_as_in_a_file(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(roundel.WorkflowError) as caught:
        LoopProcessor(**settings)
    assert message in str(caught.value)
    assert {found.file for found in caught.value.diagnostics} == {"<python>"}


def test_settings_without_effect_are_a_warning() -> None:
    with pytest.warns(UserWarning, match="'min_delta' has no effect without 'patience'"):
        LoopProcessor(min_delta=1)
