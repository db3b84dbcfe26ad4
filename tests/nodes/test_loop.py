"""The loop node: when it leaves, why, with what; what it remembers, and where it finds a score."""

from __future__ import annotations

import asyncio
import math
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

import roundel
from roundel.kernel.commands import Call
from roundel.kernel.events import encode_event
from roundel.kernel.facts import Outcome
from roundel.kernel.payloads import NodeCompleted
from roundel.nodes import TYPES
from roundel.nodes.consensus import Consensus
from roundel.nodes.loading import check as check_workflow
from roundel.nodes.loop import NODE, Config, LoopDecision, LoopState, ScoreHistory, decide_round
from roundel.plan.graph import compile_workflow
from roundel.plan.loops import loops
from roundel.workflow.graph import Node
from roundel.workflow.message import Message
from tests.kernel.frozen import copied
from tests.kernel.simulator import Simulator, plan_of

Line = Any
"""One reply of a script."""


def writing(**config: Any) -> roundel.Graph:
    graph = roundel.Graph(start="Writer", end="Done", limits={"rounds": 30}, breaker=False)
    graph.node("Writer", "agent").node("Gate", "loop", **config).node("Done", "passthrough")
    graph.edge("Writer", "Gate").edge("Gate", "Writer", port="continue")
    return graph.edge("Gate", "Done", port="exit")


def run(
    lines: list[Line], graph: roundel.Graph | None = None, **config: Any
) -> tuple[roundel.Result, list[roundel.Event]]:
    events: list[roundel.Event] = []
    result = roundel.run(graph or writing(**config), script={"Writer": lines}, on_event=events.append)
    assert result.status == "completed"
    return result, events


def scored(*scores: Any) -> list[Line]:
    """A draft for each score; None for one without."""
    drafts = [{"text": f"draft {number}"} for number in range(1, len(scores) + 1)]
    return [
        draft if score is None else {**draft, "data": {"score": score}}
        for draft, score in zip(drafts, scores, strict=True)
    ]


def ended(result: roundel.Result) -> tuple[int, str]:
    return result.loops["Writer"]["rounds"], result.loops["Writer"]["exit_reason"]


def of_gate(events: list[roundel.Event]) -> list[dict[str, Any]]:
    done = [event for event in events if event.event == "node_state_change" and event.node_id == "Gate"]
    return [event.data.report or {} for event in done if isinstance(event.data, NodeCompleted)]


def said_by_gate(events: list[roundel.Event]) -> list[str | None]:
    done = [event for event in events if event.node_id == "Gate"]
    return [event.data.output for event in done if isinstance(event.data, NodeCompleted)]


def regressions(events: list[roundel.Event]) -> list[dict[str, Any]]:
    return [event.fields() for event in events if event.event == "score_regression"]


# Rounds


@pytest.mark.parametrize("most", [1, 2, 3, 29, 30])
def test_max_rounds_is_exact(most: int) -> None:
    result, events = run(["x"], max_rounds=most)
    assert ended(result) == (most, "max_rounds_reached")
    assert result.nodes == {"Writer": most, "Gate": most, "Done": 1}
    assert [data["should_exit"] for data in of_gate(events)] == [False] * (most - 1) + [True]
    assert [data["current_round"] for data in of_gate(events)] == list(range(1, most + 1))


def test_max_rounds_defaults_to_three() -> None:
    assert ended(run(["x"])[0]) == (3, "max_rounds_reached")


def test_max_rounds_above_the_cap_locks_the_run() -> None:
    result = roundel.run(writing(max_rounds=31), script={"Writer": ["x"]})
    assert (result.status, result.nodes["Gate"]) == ("suspended_locked", 30)


# Scores


@pytest.mark.parametrize(
    ("scores", "wanted", "rounds", "reason"),
    [
        ([70, 90], 90, 2, "score_threshold_reached"),
        ([70, 91], 90, 2, "score_threshold_reached"),
        ([70, 89, 80, 0], 90, 4, "max_rounds_reached"),
        ([89.9, 89.95], 89.95, 2, "score_threshold_reached"),
        ([89.9, 89.94, 1, 1], 89.95, 4, "max_rounds_reached"),
        ([0.4, 0.8], 0.75, 2, "score_threshold_reached"),
        ([90.0], 90, 1, "score_threshold_reached"),
        ([90], 90.0, 1, "score_threshold_reached"),
        (["95"], 90, 1, "score_threshold_reached"),
        ([None, None, 95], 90, 3, "score_threshold_reached"),
        ([95, 95, 95, 95], None, 4, "max_rounds_reached"),
        ([95, 0, 0, 0], 0, 4, "max_rounds_reached"),
        ([95, 0, -5, 0], -1, 4, "max_rounds_reached"),
        ([-95, -1, -5, -3], 1, 4, "max_rounds_reached"),
        (["ninety", True, [95], {"a": 95}], 1, 4, "max_rounds_reached"),
        ([None] * 4, 0.1, 4, "max_rounds_reached"),
    ],
)
def test_exit_on_score_ends_the_loop(
    scores: list[Any], wanted: float | None, rounds: int, reason: str
) -> None:
    result, _ = run(scored(*scores), max_rounds=4, exit_on_score=wanted)
    assert ended(result) == (rounds, reason)


def test_last_round_reports_all_conditions_that_held() -> None:
    result, events = run(scored(50, 60.5, 95), exit_on_score=90)
    assert ended(result) == (3, "max_rounds_reached")
    assert of_gate(events)[-1]["held"] == ["max_rounds_reached", "score_threshold_reached"]
    assert of_gate(events)[0]["held"] == []


def test_output_contains_the_decision_fields() -> None:
    lines = [{"text": "a draft", "data": {"score": 91, "tone": "dry", "timestamp": "old"}}]
    result, events = run(lines, exit_on_score=90)
    fields = {
        "should_exit": True,
        "exit_reason": "score_threshold_reached",
        "current_round": 1,
        "score": 91,
        "best_round": 1,
        "best_score": 91,
        "held": ["score_threshold_reached"],
    }
    assert result.output == "a draft"
    assert result.data is not None
    assert fields.items() <= result.data.items()
    assert result.data["tone"] == "dry"
    [data] = of_gate(events)
    assert fields.items() <= data.items()
    stamps = [event.timestamp for event in events]
    assert min(stamps) <= data["timestamp"] == result.data["timestamp"] <= max(stamps)
    assert len(data["timestamp"]) == len("2026-11-15T20:00:00.000Z")


def test_missing_score_is_null() -> None:
    _, events = run(scored(None), max_rounds=1)
    [data] = of_gate(events)
    assert (data["score"], data["best_round"], data["best_score"]) == (None, None, None)
    assert b'"score":null' in encode_event(
        next(event for event in events if isinstance(event.data, NodeCompleted) and event.data.report == data)
    )


def test_the_next_round_gets_the_message_and_the_decision() -> None:
    seen: list[Message] = []
    graph = writing(max_rounds=2)

    @graph.function("Spy")
    def spy(message: Message) -> str:
        seen.append(message)
        return "x"

    graph.edge("Gate", "Spy", port="continue").edge("Spy", "Writer")
    run([{"text": "one", "data": {"score": 5}}, "two"], graph)
    assert [(message.text, message.role, message.source) for message in seen] == [("one", "user", "Gate")]
    assert seen[0].data is not None and seen[0].data["should_exit"] is False


# Where the score is


@pytest.mark.parametrize(
    ("line", "score"),
    [
        ({"text": '{"score": 1}', "data": {"score": 2, "weighted_score": 3}}, 2),
        ({"text": '{"score": 1}', "data": {"weighted_score": 3}}, 3),
        ({"text": '{"score": 1}', "data": {"score": None, "weighted_score": 3}}, 3),
        ({"text": '{"score": 1}', "data": {"score": "?", "weighted_score": 3.5}}, 3.5),
        ({"text": '{"score": 1}', "data": {"other": 3}}, 1),
        ('{"weighted_score": 4}', 4),
        ('{"weighted_score": 4, "score": 5}', 5),
        ('  {"score": 4.25}\n', 4.25),
        ('{"score": "4.5"}', 4.5),
        ('Well.\n```json\n{"score": 91, "note": "good"}\n```\nBye.', 91),
        ('I say {"score": 12} and nothing else', 12),
        ('Format: {"score": 0}. Mine: {"score": 12}, {"note": "x"}', 12),
        ('{"score": 60, "parts": [{"score": 95}]}', 60),
        ('{"review": {"score": 95}}', None),
        ('Use {braces} and {"score": 7}', 7),
        ('{"note": "two\nlines", "score": 8}', 8),
        ('{"score": 60, "parts": [{"score": 95}, ', None),
        ('{"score": 60, "note": "cut o', None),
        ('{"score": NaN}', None),
        ('{"score": Infinity, "weighted_score": 3}', 3),
        ('{"score": 1e999}', None),
        ('{"score": true}', None),
        ("[91]", None),
        ("91", None),
        ("score: 91", None),
        ("", None),
        ('{"score": ' + "9" * 400 + "}", None),
        ('{"score": ' + "9" * 5000 + "}", None),
        ('{"a":' * 5000 + '{"score": 5}', None),
        ("{" * 5000 + '"score": 5}', None),
    ],
)
def test_score_is_found_in_data_or_text(line: Line, score: float | None) -> None:
    _, events = run([line], max_rounds=1)
    assert of_gate(events)[0]["score"] == score


@pytest.mark.parametrize(
    ("source", "line", "score"),
    [
        ("data.points", {"data": {"points": 7}}, 7),
        ("data.points", {"data": {"score": 7}}, None),
        ("data.marks.style + data.marks.facts", {"data": {"marks": {"style": 30, "facts": 40}}}, 70),
        ("double(text) * 10.0", "8.5", 85),
        ("double(text) * 10.0", "no idea", None),
        ("text.contains('ship it') ? 100 : 0", "Ship it? ship it!", 100),
        ("round * 10", "x", 10),
        ("data.points > 3", {"data": {"points": 7}}, None),
        ({"regex": r"Score: (\d+(?:\.\d+)?)"}, "Score: 91.5 of 100. Score: 3", 91.5),
        ({"regex": r"Score: (\d+)"}, "no score", None),
        ({"regex": r"Score: (\w+)"}, "Score: high", None),
        ({"regex": r"(?i)评分[：:]\s*(-?\d+)"}, "评分：-5", -5),
        ({"regex": r"Score:(?: (\d+))?"}, "Score:", None),
        ({"regex": r"Score: (\w+)"}, "Score: nan", None),
    ],
)
def test_custom_score_source(source: Any, line: Line, score: float | None) -> None:
    _, events = run([line], max_rounds=1, score=source)
    assert of_gate(events)[0]["score"] == score


def test_failing_score_expression_gives_no_score_and_an_error() -> None:
    _, events = run([{"text": "x", "data": {"points": 2.5}}], max_rounds=1, score="data.points / 10")
    assert of_gate(events)[0]["score"] is None
    assert "`data.points / 10`: " in of_gate(events)[0]["score_error"]
    _, events = run([{"text": "x", "data": {"points": 25}}], max_rounds=1, score="data.points / 10")
    assert "score_error" not in of_gate(events)[0]


def reviewed(**config: Any) -> roundel.Graph:
    """A writer and a critic, who both speak to the gate."""
    graph = writing(**config).node("Critic", "agent")
    return graph.edge("Writer", "Critic").edge("Critic", "Gate")


def test_score_comes_from_the_last_message_with_one() -> None:
    for critic, score in (({"data": {"score": 20}}, 20), ("Fine.", 10)):
        events: list[roundel.Event] = []
        script = {"Writer": {"data": {"score": 10}}, "Critic": critic}
        roundel.run(reviewed(max_rounds=1), script=script, on_event=events.append)
        assert of_gate(events)[0]["score"] == score


@pytest.mark.parametrize("window", [-1, 0, 1, 5])
def test_messages_kept_by_the_context_window_give_no_score(window: int) -> None:
    _, events = run(scored(50, None, None), writing(context_window=window))
    assert [data["score"] for data in of_gate(events)] == [50, None, None]


def test_loop_node_without_input_still_counts_rounds() -> None:
    graph = (
        roundel.Graph(start="Writer", end="Done", breaker=False)
        .node("Writer", "agent")
        .node("Done", "passthrough")
    )
    graph.node("Gate", "loop", max_rounds=2).edge("Writer", "Gate", carry_data=False)
    graph.edge("Gate", "Writer", port="continue").edge("Gate", "Done", port="exit")
    result, _ = run(["x"], graph)
    assert (ended(result), result.output) == ((2, "max_rounds_reached"), "")


# The round


@pytest.mark.parametrize(
    ("given", "current"),
    [
        *[(2, 2), (2.0, 2), (7, 7), (1, 1), (1.0, 1)],
        *[(0, 1), (-3, 1), (None, 1), (2.5, 1), ("2", 1), (True, 1), ([2], 1)],
        *[(math.nan, 1), (math.inf, 1), (10**400, 1)],
    ],
)
def test_given_iteration_sets_the_round(given: object, current: int) -> None:
    assert decide_round(Config(max_rounds=99), {"iteration": given}).current_round == current


def test_round_defaults_to_one() -> None:
    assert decide_round(Config(), {}).current_round == 1
    assert decide_round(Config(max_rounds=1), {}).exit_reason == "max_rounds_reached"


def test_a_later_iteration_in_the_data_wins() -> None:
    lines = [{"text": "x", "data": {"iteration": 4}}, {"text": "x", "data": {"iteration": 5.0}}]
    result, events = run(lines, max_rounds=5)
    assert ended(result) == (2, "max_rounds_reached")
    assert [data["current_round"] for data in of_gate(events)] == [4, 5]


@pytest.mark.parametrize(
    ("given", "rounds"),
    [
        ([5], [5, 6, 7, 8, 9]),
        ([5, 5, 5, 5, 5], [5, 6, 7, 8, 9]),
        ([5, 2, 1, 0, 4], [5, 6, 7, 8, 9]),
        ([5.0, 8, 3], [5, 8, 9]),
        ([None, None, 7], [1, 2, 7, 8, 9]),
        ([1, 1, 3, 3, 3], [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ([True, "7", 2.5, -4, 0, [7], {"n": 7}, "", False], [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ([12], [12]),
        ([1e300], [2**53 - 1]),
    ],
)
def test_the_loop_counts_on_from_a_given_iteration(given: list[Any], rounds: list[int]) -> None:
    lines = [{"text": "x", "data": {"iteration": iteration}} for iteration in given] + [{"text": "x"}]
    result, events = run(lines, max_rounds=9)
    assert [data["current_round"] for data in of_gate(events)] == rounds
    assert ended(result) == (len(rounds), "max_rounds_reached")


def test_continued_count_ends_with_its_loop() -> None:
    lines = [{"text": "x", "data": {"iteration": 5}}, *[{"text": "x"}] * 20]
    _, exits = nested(lines, max_rounds=7)
    assert exits == {"Outer[1]": 3, "Outer[2]": 7}


def test_a_continued_count_survives_a_restart(tmp_path: Path) -> None:
    graph = roundel.Graph("counted", start="In", end="Done", breaker=False).node("In", "passthrough")
    graph.node("Gate", "loop", max_rounds=7).node("Person", "human").node("Done", "passthrough")
    graph.edge("In", "Gate").edge("Gate", "Person", port="continue").edge("Person", "In")
    graph.edge("Gate", "Done", port="exit")
    store = tmp_path / "runs.db"
    result = roundel.run(graph, Message("x", data={"iteration": 5}), store=store)

    async def answer() -> None:
        async with roundel.Runs(store) as runs:
            await runs.answer(result.run_id, "go on", execute=False)

    rounds: list[int] = []
    while result.status == "waiting":
        assert len(rounds) < 9
        asyncio.run(answer())
        result = roundel.resume(result.run_id, store=store)
        rounds.append(result.nodes["Gate"])
    assert (result.status, result.nodes["Gate"]) == ("completed", 3)
    assert result.data is not None and result.data["current_round"] == 7


@pytest.mark.parametrize("seed", range(40))
def test_given_iterations_never_exceed_the_bound(seed: int) -> None:
    dice = random.Random(seed)
    odd = [None, True, "9", 2.5, -1, 0, 1, 2, 3, 4, 5, 6, 1e300, 3.0, [1]]
    lines = [{"text": "x", "data": {"iteration": dice.choice(odd)}} for _ in range(12)]
    most = dice.randint(1, 8)
    result, events = run(lines, max_rounds=most)
    rounds = [data["current_round"] for data in of_gate(events)]
    assert rounds == sorted(set(rounds))
    assert all(later >= number for number, later in enumerate(rounds, 1))
    assert len(rounds) <= most <= rounds[-1]
    assert ended(result)[0] == len(rounds)


@pytest.mark.parametrize("iteration", [1, 0, -1, "9", None, 1.5, True])
def test_earlier_given_iteration_does_not_reset_the_bound(iteration: object) -> None:
    result, _ = run([{"text": "x", "data": {"iteration": iteration}}], max_rounds=3)
    assert ended(result) == (3, "max_rounds_reached")


def test_node_in_an_inner_loop_counts_inner_rounds() -> None:
    result, exits = nested(max_rounds=3)
    assert exits == {"Outer[1]": 3, "Outer[2]": 3}
    assert result.loops["Writer"] == {"rounds": 6, "exit_reason": "max_rounds_reached", "entries": 2}


def nested(lines: Line = "x", **config: Any) -> tuple[roundel.Result, dict[str, int]]:
    """A loop in a loop that is entered twice; how many rounds it had each time."""
    graph = roundel.Graph(start="Outer", end="End", limits={"rounds": 20}, breaker=False)
    graph.node("Outer", "literal", content="o").node("Writer", "agent").node("Gate", "loop", **config)
    graph.node("Twice", "loop", max_rounds=2).node("End", "passthrough")
    graph.edge("Outer", "Writer").edge("Writer", "Gate").edge("Gate", "Writer", port="continue")
    graph.edge("Gate", "Twice", port="exit").edge("Twice", "Outer", port="continue")
    graph.edge("Twice", "End", port="exit")
    result, events = run(lines, graph)
    exits = [event for event in events if event.event == "loop_exit" and event.fields()["loop"] == "Writer"]
    return result, {str(event.address).split(".")[0]: event.fields()["rounds"] for event in exits}


# Regression


@pytest.mark.parametrize(
    ("scores", "allowed", "falls"),
    [
        ([50, 40], 10, []),
        ([50, 39.5], 10, [(39.5, 50, 10.5, 2)]),
        ([50, 39, 20], 10, [(39, 50, 11, 2), (20, 39, 19, 3)]),
        ([50, 49], 0, [(49, 50, 1, 2)]),
        ([50, 50], 0, []),
        ([50, 60, 90], 0, []),
        ([0.8, 0.7], 0.1, []),
        ([0.8, 0.65], 0.1, [(0.65, 0.8, pytest.approx(0.15), 2)]),
        ([None, 5], 1, []),
        ([50, None], 10, []),
        ([50, None, 20], 10, [(20, 50, 30, 3)]),
        ([-5, -50], 10, [(-50, -5, 45, 2)]),
    ],
)
def test_score_regression_is_reported(scores: list[Any], allowed: float, falls: list[Any]) -> None:
    _, events = run(scored(*scores), max_rounds=len(scores), regression=allowed)
    found = [
        tuple(data[key] for key in ("score", "previous", "fall", "round")) for data in regressions(events)
    ]
    assert found == falls


def test_default_regression_event_precedes_node_completion() -> None:
    _, events = run(scored(80, 66), max_rounds=2)
    [at] = [number for number, event in enumerate(events) if event.event == "score_regression"]
    assert (events[at].node_id, events[at].address) == ("Gate", "Writer[2]/Gate")
    assert (events[at + 1].node_id, events[at + 1].fields()["status"]) == ("Gate", "completed")


# Patience


@pytest.mark.parametrize(
    ("scores", "patience", "least", "rounds"),
    [
        ([40, 80, 66, 79, 99], 2, 1, 4),
        ([40, 80, 66, 81, 70, 70, 99], 2, 1, 6),
        ([40, 40], 1, 0, 2),
        ([40, 41, 42, 43, 43], 1, 0, 5),
        ([40, 41, 42], 1, 2, 2),
        ([40, 42, 44, 45], 1, 2, 4),
        ([80, 80.5, 81, 81.5, 81.9], 2, 1, 5),  # half a point twice is a gain of one
        ([0.2, 0.3, 0.35], 1, 0.1, 3),
        ([50, None, None], 2, 0, 3),
        ([50, None, 51, None, None], 2, 0, 5),
        ([None, None, None, 50, 50], 1, 0, 5),  # it begins to count with the first score
        ([-5, -4, -4], 1, 0, 3),
    ],
)
def test_plateau_ends_the_loop(scores: list[Any], patience: int, least: float, rounds: int) -> None:
    result, events = run(scored(*scores), max_rounds=20, patience=patience, min_delta=least, regression=999)
    assert ended(result) == (rounds, "plateau_reached")
    assert of_gate(events)[-1]["held"] == ["plateau_reached"]


def test_no_plateau_without_scores() -> None:
    assert ended(run(scored(None), max_rounds=5, patience=1)[0]) == (5, "max_rounds_reached")


# The best round


@pytest.mark.parametrize(
    ("scores", "best", "score"),
    [
        ([40, 80, 66], 2, 80),
        ([80, 80, 80], 1, 80),
        ([40, 80, 90], 3, 90),
        ([None, 5, None], 2, 5),
        ([-9, -3, -7], 2, -3),
        ([1, 1.5, 1.25], 2, 1.5),
    ],
)
def test_keep_best_outputs_the_best_round(scores: list[Any], best: int, score: float) -> None:
    result, events = run(scored(*scores), keep="best")
    assert result.output == f"draft {best}"
    assert result.data is not None
    assert (result.data["best_round"], result.data["best_score"]) == (best, score)
    assert (result.data["score"], result.data["current_round"]) == (scores[-1], 3)
    # What goes back into the loop is the last draft all the same.
    assert said_by_gate(events) == ["draft 1", "draft 2", f"draft {best}"]


def test_last_round_is_output_by_default_or_without_a_best() -> None:
    assert run(scored(40, 80, 66))[0].output == "draft 3"
    assert run(scored(None, None, None), keep="best")[0].output == "draft 3"


def test_best_round_is_output_with_its_data() -> None:
    lines = [
        {"text": "one", "data": {"score": 9, "parts": [1, {"a": None}]}},
        {"text": "two", "data": {"score": 8, "note": "x"}},
    ]
    result, _ = run(lines, keep="best", max_rounds=2)
    assert result.data is not None
    assert result.data["parts"] == [1, {"a": None}]
    assert "note" not in result.data


def test_the_best_round_among_equal_iterations() -> None:
    lines = [{"text": str(score), "data": {"iteration": 4, "score": score}} for score in (1, 9, 5)]
    result, _ = run(lines, keep="best", patience=1, max_rounds=9)
    assert result.output == "9"


# What it remembers


def behave(state: Any, line: Message, round: int, **config: Any) -> Outcome:
    class Clock:
        now = staticmethod(lambda: 1_800_000_000.0)

    behaviour = NODE.prepare(Node("Gate", "loop", Config(**config), NODE), Clock())
    outcome = behaviour(Call("Writer[1]/Gate", 0, (line,), state, 0, round))
    assert isinstance(outcome, Outcome)
    return outcome


def test_state_is_json_and_does_not_grow() -> None:
    state, sizes = None, set()
    for number in range(1, 200):
        line = Message("x" * 50, data={"score": 50 + number % 7})
        outcome = behave(state, line, number, max_rounds=1000, keep="best", patience=999)
        written = msgspec.json.encode(outcome.state)
        state = msgspec.json.decode(written, type=LoopState)
        sizes.add(len(written))
    assert max(sizes) < 400


def test_a_best_message_in_blocks_survives_the_journal() -> None:
    blocks: Any = [{"type": "text", "text": "a picture"}, {"type": "image", "url": "a.png"}]
    best = msgspec.convert({"content": blocks, "data": {"score": 9}}, Message)
    outcome = behave(None, best, 1, keep="best", max_rounds=2)
    state = msgspec.json.decode(msgspec.json.encode(outcome.state), type=LoopState)
    outcome = behave(state, Message("worse", data={"score": 1}), 2, keep="best", max_rounds=2)
    assert (outcome.port, outcome.messages[0].content) == ("exit", best.content)
    assert outcome.report is not None and outcome.report["timestamp"] == "2027-01-15T08:00:00.000Z"


def test_non_json_data_does_not_fail_the_node() -> None:
    outcome = behave(None, Message("x", data={"score": 9, "thing": object}), 1, keep="best")
    assert outcome.state.best.content == "x"


def test_state_resets_when_the_loop_is_entered_again() -> None:
    # Had it kept the 90 of the first entry, the second would end in its first round.
    _, exits = nested(scored(80, 90, 10, 20, 30, 30), max_rounds=9, patience=1, exit_on_score=90)
    assert exits == {"Outer[1]": 2, "Outer[2]": 4}


def test_the_best_of_an_earlier_entry_is_forgotten() -> None:
    result, _ = nested(scored(80, 90, 10, 20), max_rounds=2, keep="best")
    assert result.output == "draft 4"


# Consensus


def debated(script: dict[str, Any], **config: Any) -> tuple[roundel.Result, list[roundel.Event]]:
    """A chair who opens each round, and all others of the script, who speak to the gate."""
    graph = roundel.Graph(start="Chair", end="Done", breaker=False).node("Chair", "literal", content="Well?")
    graph.node("Gate", "loop", **{"max_rounds": 5, "exit_condition": "consensus", **config})
    graph.node("Done", "passthrough").edge("Gate", "Chair", port="continue").edge("Gate", "Done", port="exit")
    for name in script:
        graph.node(name, "agent").edge("Chair", name).edge(name, "Gate")
    events: list[roundel.Event] = []
    return roundel.run(graph, script=script, on_event=events.append), events


def why(result: roundel.Result) -> tuple[int, str]:
    return result.loops["Chair"]["rounds"], result.loops["Chair"]["exit_reason"]


def test_all_participants_have_to_agree() -> None:
    result, _ = debated({"Ada": ["I agree", "Yes, I agree."], "Bo": ["I don't agree at all", "达成共识"]})
    assert why(result) == (2, "consensus_reached")


def test_single_participant_is_no_consensus() -> None:
    assert why(debated({"Ada": "I agree"})[0]) == (5, "max_rounds_reached")


def test_consensus_requires_the_exit_condition() -> None:
    script = {"Ada": "I agree", "Bo": "I agree"}
    assert why(debated(script, exit_condition="max_rounds")[0]) == (5, "max_rounds_reached")


def test_custom_consensus_phrases() -> None:
    script = {"Ada": ["I agree", "deal"], "Bo": ["I agree", "Deal!"]}
    assert why(debated(script, consensus={"phrases": "deal"})[0]) == (2, "consensus_reached")


def test_consensus_by_vote() -> None:
    script = {
        "Ada": ["no", "yes"],
        "Bo": ["yes", {"text": "x", "data": {"vote": "approve"}}],
        "Cy": "abstain",
    }
    assert why(debated(script, consensus={"method": "vote"})[0]) == (2, "consensus_reached")
    script["Cy"] = "no"
    assert why(debated(script, consensus={"method": "vote"})[0]) == (5, "max_rounds_reached")
    result, _ = debated(script, consensus={"method": "vote", "quorum": 0.6})
    assert why(result) == (2, "consensus_reached")


def test_consensus_must_hold_for_stable_for_rounds() -> None:
    script = {"Ada": "I agree", "Bo": ["I agree", "Hm.", "I agree", "I agree", "I agree"]}
    assert why(debated(script, consensus={"stable_for": 2})[0]) == (4, "consensus_reached")
    assert why(debated(script, consensus={"stable_for": 1})[0]) == (1, "consensus_reached")


def in_a_row(script: dict[str, Any], **config: Any) -> roundel.Result:
    """Speakers in one line, each with an edge to the next, and the last one to the gate."""
    names = list(script)
    graph = roundel.Graph(start=names[0], end="Done", breaker=False)
    graph.node("Gate", "loop", **{"max_rounds": 4, "exit_condition": "consensus", **config})
    for name, following in zip(names, [*names[1:], "Gate"], strict=True):
        graph.node(name, "agent").edge(name, following)
    graph.node("Done", "passthrough").edge("Gate", names[0], port="continue").edge(
        "Gate", "Done", port="exit"
    )
    return roundel.run(graph, script=script)


def exit_of(result: roundel.Result) -> tuple[int, str]:
    [loop] = result.loops.values()
    return loop["rounds"], loop["exit_reason"]


def test_speakers_without_an_edge_to_the_gate_take_part() -> None:
    script: dict[str, Any] = {"Writer": ["v1", "I agree: v2"], "Critic": ["Too long.", "I agree."]}
    assert exit_of(in_a_row(script)) == (2, "consensus_reached")
    script["Writer"] = ["v1", "I do not agree"]
    assert exit_of(in_a_row(script)) == (4, "max_rounds_reached")


def test_all_speakers_have_to_agree_in_the_same_round() -> None:
    script = {"Ada": ["I agree", "Hm.", "I agree"], "Bo": ["Hm.", "I agree", "I agree"], "Cy": "I agree"}
    assert exit_of(in_a_row(script)) == (3, "consensus_reached")


def test_votes_of_speakers_without_an_edge_count() -> None:
    script = {"Ada": ["no", "yes"], "Bo": "yes"}
    assert exit_of(in_a_row(script, consensus={"method": "vote"})) == (2, "consensus_reached")


def test_a_gate_at_the_entry_hears_the_round_before() -> None:
    graph = roundel.Graph(start="Gate", end="Done", breaker=False)
    graph.node("Gate", "loop", max_rounds=6, exit_condition="consensus").node("Done", "passthrough")
    graph.node("Ada", "agent").node("Bo", "agent").edge("Gate", "Ada", port="continue").edge("Ada", "Bo")
    graph.edge("Bo", "Gate").edge("Gate", "Done", port="exit")
    result = roundel.run(graph, script={"Ada": ["Hm.", "I agree"], "Bo": "I agree"})
    assert exit_of(result) == (3, "consensus_reached")


def test_who_speaks_only_after_the_gate_takes_no_part() -> None:
    graph = roundel.Graph(start="Ada", end="Done", breaker=False)
    graph.node("Gate", "loop", max_rounds=6, exit_condition="consensus").node("Done", "passthrough")
    graph.node("Ada", "agent").node("Bo", "agent").node("Fixer", "agent")
    graph.edge("Ada", "Bo").edge("Bo", "Gate").edge("Gate", "Fixer", port="continue").edge("Fixer", "Ada")
    graph.edge("Gate", "Done", port="exit")
    script = {"Ada": ["Hm.", "I agree"], "Bo": "I agree", "Fixer": "Fixed."}
    assert exit_of(roundel.run(graph, script=script)) == (2, "consensus_reached")


def test_an_agent_inside_a_subgraph_takes_part() -> None:
    inner = roundel.Graph(start="Judge", end="Judge").node("Judge", "agent")
    graph = roundel.Graph(start="Ada", end="Done", breaker=False)
    graph.node("Gate", "loop", max_rounds=6, exit_condition="consensus").node("Done", "passthrough")
    graph.node("Ada", "agent").node("Court", "subgraph", graph=inner).node("Bo", "agent")
    graph.edge("Ada", "Court").edge("Court", "Bo").edge("Bo", "Gate").edge("Gate", "Ada", port="continue")
    graph.edge("Gate", "Done", port="exit")
    script = {"Ada": "I agree", "Judge": ["No.", "No.", "I agree"], "Bo": "I agree"}
    assert exit_of(roundel.run(graph, script=script)) == (3, "consensus_reached")


def test_runs_of_version_0_count_only_what_arrives() -> None:
    nodes = [
        {"id": "Ada", "type": "agent"},
        {"id": "Bo", "type": "agent"},
        {"id": "Done", "type": "passthrough"},
    ]
    gate = {"id": "Gate", "type": "loop", "config": {"max_rounds": 3, "exit_condition": "consensus"}}
    edges = [{"from": "Ada", "to": "Bo"}, {"from": "Bo", "to": "Gate"}]
    ports = [
        {"from": "Gate", "to": "Ada", "port": "continue"},
        {"from": "Gate", "to": "Done", "port": "exit"},
    ]
    graph = {"nodes": [*nodes, gate], "edges": [*edges, *ports], "start": "Ada", "end": "Done"}
    workflow = plan_of({"graph": graph}).workflow
    rounds = []
    for semantics in (0, 1):
        simulator = Simulator(compile_workflow(workflow, semantics), {"Ada": ["I agree"], "Bo": ["I agree"]})
        simulator.start("tea").finish()
        rounds.append(sum(execution.address.endswith("/Bo") for execution in simulator.executions))
    assert rounds == [3, 1]


def test_a_consensus_that_nobody_can_express_is_a_warning() -> None:
    graph = writing(exit_condition="consensus")
    _, report = check_workflow(graph)
    [found] = [found for found in report.diagnostics if found.code == "no-consensus"]
    assert "needs at least 2 speakers in the loop 'Writer', which has 1" in found.message
    _, report = check_workflow(writing(exit_condition="consensus", consensus={"method": "vote"}))
    assert not [found for found in report.diagnostics if found.code == "no-consensus"]


# The decision alone: every order of conditions

ALL = Config(
    max_rounds=3,
    exit_on_score=90,
    exit_condition="consensus",
    patience=1,
    min_delta=5,
)
STALE = ScoreHistory(best_round=1, best_score=95, last_score=95, gained=95)


@pytest.mark.parametrize(
    ("round", "score", "consensus", "held"),
    [
        (
            3,
            91,
            True,
            ["max_rounds_reached", "score_threshold_reached", "consensus_reached", "plateau_reached"],
        ),
        (2, 91, True, ["score_threshold_reached", "consensus_reached", "plateau_reached"]),
        (2, 89, True, ["consensus_reached", "plateau_reached"]),
        (2, 89, False, ["plateau_reached"]),
        (2, None, False, ["plateau_reached"]),
        (2, 100, False, ["score_threshold_reached"]),
        (3, None, False, ["max_rounds_reached", "plateau_reached"]),
        (4, 100, False, ["max_rounds_reached", "score_threshold_reached"]),
        (1, 89, True, ["consensus_reached", "plateau_reached"]),
    ],
)
def test_first_condition_that_holds_is_the_exit_reason(
    round: int, score: float | None, consensus: bool, held: list[str]
) -> None:
    given = {"iteration": round, "score": score, "consensus": consensus}
    decision = decide_round(ALL, given, STALE)
    assert list(decision.held) == held
    assert (decision.should_exit, decision.exit_reason) == (True, held[0])


def test_no_condition_holds() -> None:
    decision = decide_round(ALL, {"iteration": 2, "score": 89.9})
    assert (decision.should_exit, decision.exit_reason, decision.held) == (False, "", ())
    assert decision.history == ScoreHistory(2, 89.9, 89.9, 89.9, 0, 0, ahead=1)
    assert isinstance(decision, LoopDecision)


@pytest.mark.parametrize("score", [None, "high", True, False, math.nan, math.inf, -math.inf, [95], 10**400])
def test_invalid_scores_are_ignored(score: object) -> None:
    decision = decide_round(Config(exit_on_score=0.001, regression=0), {"score": score}, STALE)
    assert (decision.score, decision.should_exit, decision.regression) == (None, False, None)
    assert decision.history.last_score == 95


def test_decide_round_does_not_mutate_its_arguments() -> None:
    given: dict[str, Any] = {"iteration": 2, "score": 50}
    first = decide_round(ALL, given, STALE)
    assert given == {"iteration": 2, "score": 50}
    assert decide_round(ALL, given, STALE) == first


def test_weighted_score_is_accepted() -> None:
    decision = decide_round(ALL, {"weighted_score": 95, "iteration": 1})
    assert decision.exit_reason == "score_threshold_reached"


def test_consecutive_consensus_is_stored_in_the_history() -> None:
    config = Config(max_rounds=9, exit_condition="consensus", consensus=Consensus(stable_for=2))
    first = decide_round(config, {"iteration": 1, "consensus": True})
    assert (first.should_exit, first.history.agreed) == (False, 1)
    assert decide_round(config, {"iteration": 2, "consensus": True}, first.history).held == (
        "consensus_reached",
    )
    assert decide_round(config, {"iteration": 2, "consensus": "yes"}, first.history).held == ()


# Bad settings


def diagnosed(tmp_path: Path, *settings: str) -> list[roundel.Diagnostic]:
    lines = [f"        {line}\n" for line in settings]
    path = tmp_path / "flow.yaml"
    path.write_text(
        "graph:\n  start: Writer\n  end: Done\n  edges:\n    - {from: Writer, to: Gate}\n"
        "    - {from: Gate, to: Writer, port: continue}\n    - {from: Gate, to: Done, port: exit}\n"
        "  nodes:\n    - {id: Writer, type: agent}\n    - {id: Done, type: passthrough}\n"
        "    - id: Gate\n      type: loop\n      config:\n" + "".join(lines),
        encoding="utf-8",
    )
    return check_workflow(path)[1].diagnostics


@pytest.mark.parametrize(
    ("setting", "code", "message", "hint"),
    [
        ("max_rounds: 0", "wrong-type", "must be a whole number of at least 1, not 0", ""),
        ("max_rounds: 2.5", "wrong-type", "must be a whole number of at least 1, not 2.5", ""),
        ("max_rounds: true", "wrong-type", "must be a whole number of at least 1, not true", ""),
        ("max_rounds: many", "wrong-type", "'max_rounds' of node 'Gate' must be a whole number", ""),
        (
            "exit_on_score: high",
            "wrong-type",
            "'exit_on_score' of node 'Gate' must be a number, not 'high'",
            "",
        ),
        ("exit_on_score: [90]", "wrong-type", "must be a number, not a list", ""),
        (
            "exit_condition: consenus",
            "wrong-type",
            "one of max_rounds, consensus",
            "did you mean 'consensus'?",
        ),
        ("patience: 0", "wrong-type", "must be a whole number of at least 1, not 0", ""),
        ("keep: bets", "wrong-type", "one of last, best", "did you mean 'best'?"),
        ("regression: -1", "wrong-type", "must be a number of at least 0, not -1", ""),
        ("score: 5", "wrong-type", "'score' must be a CEL expression or a {regex: …}", "score: data.points"),
        ("score: {cel: data.x}", "wrong-type", "'score' must be a CEL expression", "score: data.points"),
        ("score: data.", "bad-expression", "cannot read `data.`", ""),
        (
            "score: vars.x",
            "bad-expression",
            "the name 'vars', which is not known here; known names: text, data",
            "",
        ),
        ("score: ''", "bad-expression", "cannot read", ""),
        ("score: {regex: 'Score: ('}", "bad-pattern", "cannot read the pattern", ""),
        (
            "score: {regex: 'Score: 5'}",
            "bad-pattern",
            "must have one group, and has 0",
            "put the number in ( )",
        ),
        ("score: {regex: '(a)(b)'}", "bad-pattern", "must have one group, and has 2", "(?: )"),
        ("score: {regex: [a]}", "wrong-type", "'regex' of the score must be text, not a list", ""),
        ("max_round: 3", "unknown-key", "has an unknown key 'max_round'", "did you mean 'max_rounds'?"),
        ("consensus: {method: judge}", "judge-in-loop", "a loop calls nobody", "use phrase or vote"),
    ],
)
def test_invalid_settings_are_rejected(
    tmp_path: Path, setting: str, code: str, message: str, hint: str
) -> None:
    found = [each for each in diagnosed(tmp_path, setting) if each.severity == "error"]
    assert [(each.code, each.line) for each in found] == [(code, 14)]
    assert message in found[0].message
    assert hint in found[0].hint


@pytest.mark.parametrize(
    ("setting", "code", "message"),
    [
        ("rounds_at_most: 3", "unknown-key", "'rounds_at_most'"),
        ("min_delta: 1", "without-effect", "'min_delta' has no effect without 'patience'"),
        ("consensus: {}", "without-effect", "'consensus' has no effect without 'exit_condition: consensus'"),
        ("score: {regex: '(a)', group: 1}", "unknown-key", "the score has an unknown key 'group'"),
    ],
)
def test_suspicious_settings_are_warnings(tmp_path: Path, setting: str, code: str, message: str) -> None:
    [found] = diagnosed(tmp_path, setting)
    assert (found.severity, found.code, found.line) == ("warning", code, 14)
    assert message in found.message


def test_valid_settings_have_no_diagnostics(tmp_path: Path) -> None:
    settings = ("exit_on_score: 89.5", "patience: 2", "min_delta: 0.5", "keep: best", "regression: 0")
    requests_seen = ("exit_condition: consensus", "consensus: {method: vote, quorum: 1, stable_for: 2}")
    assert (
        diagnosed(tmp_path, "max_rounds: 1", "score: {regex: '(?i)score: (\\d+)'}", *settings, *requests_seen)
        == []
    )
    assert diagnosed(tmp_path, "exit_on_score: -1", "score: data.score", "patience:") == []


def test_ports() -> None:
    assert TYPES["loop"].ports(Config()) == ("continue", "exit")
    graph = writing().edge("Gate", "Done", port="leave")
    _, report = check_workflow(graph)
    assert [found.code for found in report.errors] == ["unknown-port"]


def test_node_in_a_loop_needs_an_exit_edge() -> None:
    graph = roundel.Graph(start="Writer", end="Gate").node("Writer", "agent").node("Gate", "loop")
    graph.edge("Writer", "Gate").edge("Gate", "Writer", port="continue")
    _, report = check_workflow(graph)
    assert "guard-wiring" in [found.code for found in report.errors]


# Outside of a cycle


def deciding(**config: Any) -> roundel.Graph:
    graph = roundel.Graph(start="Writer", end=["Good", "Bad"]).node("Writer", "agent")
    graph.node("Gate", "loop", **config).node("Good", "passthrough").node("Bad", "passthrough")
    graph.edge("Writer", "Gate").edge("Gate", "Good", port="exit")
    return graph.edge("Gate", "Bad", port="continue")


@pytest.mark.parametrize(
    ("line", "taken"),
    [
        ({"text": "x", "data": {"score": 91}}, "Good"),
        ({"text": "x", "data": {"score": 89}}, "Bad"),
        ({"text": "x", "data": {"score": 1, "iteration": 3}}, "Good"),
        ("x", "Bad"),
    ],
)
def test_node_outside_of_a_cycle_decides_once_by_port(line: Line, taken: str) -> None:
    events: list[roundel.Event] = []
    script = {"Writer": line}
    result = roundel.run(deciding(exit_on_score=90), script=script, on_event=events.append)
    assert (result.status, result.nodes) == ("completed", {"Writer": 1, "Gate": 1, taken: 1})
    [data] = of_gate(events)
    assert data["should_exit"] is (taken == "Good")
    assert not [event for event in events if event.event in ("loop_round", "loop_exit")]


def test_max_rounds_one_outside_of_a_cycle_exits() -> None:
    result = roundel.run(deciding(max_rounds=1), script={"Writer": "x"})
    assert result.data is not None
    assert (result.data["current_round"], result.data["exit_reason"]) == (1, "max_rounds_reached")


def test_check_warns_of_a_loop_node_outside_of_a_cycle() -> None:
    workflow, report = check_workflow(deciding())
    [found] = report.diagnostics
    assert workflow is not None
    assert (found.severity, found.code) == ("warning", "nothing-repeats")
    assert "'Gate'" in found.message


# The node whose message the exit carries.


def judged(**config: Any) -> roundel.Graph:
    """A writer, and a critic whose score the gate reads."""
    graph = roundel.Graph(start="Writer", end="Done", breaker=False)
    graph.node("Writer", "agent").node("Critic", "agent").node("Gate", "loop", **config)
    graph.node("Done", "passthrough").edge("Writer", "Critic").edge("Critic", "Gate")
    return graph.edge("Gate", "Writer", port="continue").edge("Gate", "Done", port="exit")


DRAFTS = ["draft 1", "draft 2", "draft 3"]


def test_exit_carries_the_last_message_of_the_named_node() -> None:
    script = {"Writer": DRAFTS, "Critic": scored(50, 91)}
    events: list[roundel.Event] = []
    result = roundel.run(
        judged(output="Writer", exit_on_score=90), "tea", script=script, on_event=events.append
    )
    assert (result.output, (result.data or {})["score"], (result.data or {})["current_round"]) == (
        "draft 2",
        91,
        2,
    )
    assert said_by_gate(events) == ["draft 1", "draft 2"]  # the critic's, and the writer's


def test_without_output_the_exit_carries_what_came_in() -> None:
    script = {"Writer": DRAFTS, "Critic": ["poor", {"text": "good", "data": {"score": 91}}]}
    assert roundel.run(judged(exit_on_score=90), "tea", script=script).output == "good"


def test_continue_carries_what_came_in() -> None:
    script = {"Writer": "{{text}}", "Critic": ["poor", "good"]}
    events: list[roundel.Event] = []
    roundel.run(judged(output="Writer", max_rounds=2), "tea", script=script, on_event=events.append)
    assert said_by_gate(events) == ["poor", "{{text}}"]


def test_best_round_is_that_of_the_named_node() -> None:
    script = {"Writer": DRAFTS, "Critic": scored(50, 80, 60)}
    result = roundel.run(judged(output="Writer", keep="best"), "tea", script=script)
    assert (result.output, (result.data or {})["best_round"], (result.data or {})["best_score"]) == (
        "draft 2",
        2,
        80,
    )


def test_named_node_that_said_nothing_leaves_what_came_in() -> None:
    graph = judged(output="Helper", max_rounds=2).node("Helper", "agent")
    graph.edge("Writer", "Helper", condition={"type": "keyword", "config": {"only": "help"}})
    graph.edge("Helper", "Critic")
    script = {"Writer": DRAFTS, "Critic": ["poor", "good"], "Helper": "here"}
    assert roundel.run(graph, "tea", script=script).output == "good"


def test_named_node_keeps_its_last_message_in_rounds_in_which_it_does_not_run() -> None:
    graph = judged(output="Helper", max_rounds=3).node("Helper", "agent")
    graph.edge("Writer", "Helper", condition={"type": "keyword", "config": {"only": "help"}})
    graph.edge("Helper", "Critic")
    script = {"Writer": ["help", "draft", "draft"], "Critic": "poor", "Helper": "here"}
    assert roundel.run(graph, "tea", script=script).output == "here"


def test_each_entry_of_the_loop_begins_without_a_message() -> None:
    """The outer loop enters the inner one twice; in the second entry the helper does not speak."""
    graph = judged(output="Helper", max_rounds=1).node("Helper", "agent").node("Again", "loop", max_rounds=2)
    graph.edge("Writer", "Helper", condition={"type": "keyword", "config": {"only": "help"}})
    graph.edge("Helper", "Critic").node("End", "passthrough").edge("Done", "Again").node("In", "passthrough")
    graph.edge("In", "Writer").edge("Again", "In", port="continue").edge("Again", "End", port="exit")
    graph._settings.update(start=["In"], end=["End"])
    script = {"Writer": ["help", "draft"], "Critic": ["poor", "good"], "Helper": "here"}
    assert roundel.run(graph, "tea", script=script).output == "good"


def test_named_node_may_be_in_a_loop_inside() -> None:
    graph = roundel.Graph(start="Writer", end="Done", breaker=False).node("Writer", "agent")
    graph.node("Polisher", "agent").node("Checker", "agent").node(
        "Gate", "loop", output="Polisher", max_rounds=2
    )
    graph.node("Done", "passthrough").edge("Writer", "Polisher").edge("Polisher", "Checker")
    again = {"type": "keyword", "config": {"only": "again"}}
    graph.edge("Checker", "Polisher", condition=again)
    graph.edge("Checker", "Gate", condition={"type": "keyword", "config": {"only": "again", "negate": True}})
    graph.edge("Gate", "Writer", port="continue").edge("Gate", "Done", port="exit")
    script = {"Writer": "w", "Polisher": ["p1", "p2", "p3", "p4"], "Checker": ["again", "ok", "again", "ok"]}
    assert roundel.run(graph, "tea", script=script).output == "p4"


def test_gate_waits_for_the_named_node() -> None:
    """Side leads only back to the entry: no edge lets the gate wait for it."""
    graph = (
        roundel.Graph(start="Writer", end="Done", breaker=False).node("Writer", "agent").node("Side", "agent")
    )
    graph.node("Gate", "loop", output="Side", max_rounds=2).node("Done", "passthrough").edge("Writer", "Side")
    graph.edge("Writer", "Gate").edge("Side", "Writer", trigger=False)
    graph.edge("Gate", "Writer", port="continue").edge("Gate", "Done", port="exit")
    (loop,) = loops(compile_workflow(graph.workflow()).graph)
    layer = {unit.node.id: unit.layer for unit in loop.scope.units if unit.node is not None}
    assert layer["Writer"] < layer["Side"] < layer["Gate"]
    assert roundel.run(graph, "tea", script={"Writer": "w", "Side": ["s1", "s2"]}).output == "s2"


def test_where_nothing_can_order_them_the_message_is_of_the_round_before() -> None:
    """The gate gives data to the side node, which therefore runs no earlier."""
    graph = (
        roundel.Graph(start="Writer", end="Done", breaker=False).node("Writer", "agent").node("Side", "agent")
    )
    graph.node("Gate", "loop", output="Side", max_rounds=3).node("Done", "passthrough").edge("Writer", "Side")
    graph.edge("Writer", "Gate").edge("Gate", "Side", trigger=False, port="continue")
    graph.edge("Side", "Writer", trigger=False)
    graph.edge("Gate", "Writer", port="continue").edge("Gate", "Done", port="exit")
    assert roundel.run(graph, "tea", script={"Writer": "w", "Side": ["s1", "s2", "s3"]}).output == "s2"


def test_node_that_runs_after_the_gate_gives_its_message_of_the_round_before() -> None:
    graph = roundel.Graph(start="Gate", end="Done", breaker=False).node("Gate", "loop", output="Writer")
    graph.node("Writer", "agent").node("Done", "passthrough").edge("Gate", "Writer", port="continue")
    graph.edge("Writer", "Gate").edge("Gate", "Done", port="exit")
    assert roundel.run(graph, "tea", script={"Writer": DRAFTS}).output == "draft 2"


def test_output_names_a_node_of_the_loop() -> None:
    _, report = check_workflow(judged(output="Writter"))
    (found,) = report.errors
    assert (found.code, found.hint) == ("unknown-node", "did you mean 'Writer'?")
    assert found.message == "'Writter', whose output 'Gate' is to carry, is no node of the loop 'Writer'"
    for name in ("Done", "Gate"):
        _, report = check_workflow(judged(output=name))
        assert [found.code for found in report.errors] == ["unknown-node"]


def test_output_outside_of_a_loop_is_a_warning() -> None:
    graph = roundel.Graph(start="Writer", end="Done").node("Writer", "agent").node("Done", "passthrough")
    graph.node("Critic", "agent").node("Gate", "loop", output="Writer").edge("Writer", "Critic")
    graph.edge("Critic", "Gate").edge("Gate", "Done")
    _, report = check_workflow(graph)
    assert report.ok
    assert {found.code for found in report.diagnostics} == {"nothing-repeats", "without-effect"}
    assert roundel.run(graph, "tea", script={"Writer": "draft", "Critic": "good"}).output == "good"


def test_carried_message_survives_snapshots_replays_and_any_order() -> None:
    """Writer and Side run at the same time, and the gate carries the message of one of them."""
    nodes = [{"id": name, "type": "agent"} for name in ("In", "Writer", "Side")]
    gate = {"id": "Gate", "type": "loop", "config": {"output": "Side", "max_rounds": 3}}
    edges: list[dict[str, Any]] = [{"from": "In", "to": "Writer"}, {"from": "In", "to": "Side"}]
    edges += [{"from": "Writer", "to": "Gate"}, {"from": "Side", "to": "In", "trigger": False}]
    edges += [
        {"from": "Gate", "to": "In", "port": "continue"},
        {"from": "Gate", "to": "Done", "port": "exit"},
    ]
    last = {"id": "Done", "type": "passthrough"}
    graph = {"nodes": [*nodes, gate, last], "edges": edges, "start": "In", "end": "Done"}
    plan = plan_of({"graph": graph})
    script = {"In": ["go"], "Writer": ["w1", "w2", "w3"], "Side": ["s1", "s2", "s3"]}

    def text(simulator: Simulator) -> str:
        output = simulator.finish().state.output
        return "" if output is None else output.text

    whole = Simulator(plan, script).start("tea")
    assert text(whole) == "s3"
    for seed in range(20):
        assert text(Simulator(plan, script, random.Random(seed).randrange).start("tea")) == "s3"
    for length in range(1, len(whole.journal)):
        resumed = Simulator(plan, script).resume(whole.journal[:length])
        resumed.state = copied(resumed.state, plan)
        assert text(resumed) == "s3"
