"""What lists of runs show of a run, after each step of random workflows."""

from __future__ import annotations

import random
import zlib
from typing import Any

import msgspec
import pytest

import roundel
from roundel.kernel.commands import Ask, Call
from roundel.kernel.facts import Answered, Fact, Finished, Outcome
from roundel.kernel.payloads import decode_payload
from roundel.kernel.progress import SHOWN_ARGUMENTS, SHOWN_GUARDS, SHOWN_TEXT
from roundel.kernel.progress import progress as run_progress
from roundel.kernel.snapshot import _ADDED_FIELDS, SNAPSHOTS, SnapshotError
from roundel.kernel.state import Run
from roundel.plan.graph import Plan
from roundel.workflow.message import Message
from tests.kernel import graphs, loop_agents
from tests.kernel.frozen import copied, frozen, thawed
from tests.kernel.simulator import Script, Simulator, plan_of


def progress(run: Run) -> dict[str, Any]:
    """The progress of a run as JSON has it."""
    shown = run_progress(run)
    encoded = msgspec.json.encode(shown)
    assert decode_payload(shown.event, encoded) == shown
    found: dict[str, Any] = msgspec.json.decode(encoded)
    return found


class Watched(Simulator):
    """Looks at the progress after each step, and compares it with the events so far."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.looks = 0
        self.rounds: dict[str, int] = {}

    def apply(self, fact: Fact) -> None:
        begun = len(self.events)
        super().apply(fact)
        for event in self.events[begun:]:
            if event.event == "loop_round":
                self.rounds[event.fields()["loop"]] = event.fields()["round"]
        shown = progress(self.state)
        for loop in shown["loops"]:
            assert loop["limit"] is None or 1 <= loop["round"] <= loop["limit"]
            assert loop["address"].endswith(f"[{loop['round']}]")
        assert shown["questions"] == [one.address for one in self.in_flight if isinstance(one, Ask)]
        assert shown["usage"] == self.state.summary()["usage"]
        if self.state.over:
            assert shown["loops"] == shown["questions"] == []
        shares = [guard["share"] for guard in shown["guards"]]
        assert shares == sorted(shares, reverse=True) and all(share >= 0 for share in shares)
        assert len(shares) <= SHOWN_GUARDS
        self.looks += 1


def watch(plan: Plan, script: Script, text: str, seed: int) -> int:
    chosen = random.Random(seed)
    return Watched(plan, script, chosen.randrange).start(text).finish().looks


@pytest.mark.parametrize("block", range(4))
def test_progress_of_random_graphs(block: int) -> None:
    looks = 0
    for seed in range(block * 40, block * 40 + 40):
        workflow, text, script = graphs.case(seed)
        looks += watch(plan_of(workflow), script, text, seed)
    assert looks > 200


def test_progress_of_random_loop_agents() -> None:
    looks = 0
    for seed in range(60):
        workflow, text, script, _ = loop_agents.case(seed)
        looks += watch(plan_of(workflow, loop_agents.FUNCTIONS), script, text, seed)
    assert looks > 200


def test_inner_loops_come_last_and_limits_are_proven_ones() -> None:
    inner = {
        "start": "Say",
        "end": "Out",
        "nodes": [
            {"id": "Say", "type": "agent"},
            {"id": "Count", "type": "loop_counter", "config": {"max_iterations": 4}},
            {"id": "Out", "type": "passthrough"},
        ],
        "edges": [
            {"from": "Say", "to": "Count"},
            {"from": "Say", "to": "Say"},
            {"from": "Count", "to": "Say"},
            {"from": "Count", "to": "Out"},
        ],
    }
    config = {"strategy": {"mode": "count", "max": 3}, "body": inner}
    outer = {"start": "Again", "nodes": [{"id": "Again", "type": "loop_agent", "config": config}]}
    run = Simulator(plan_of({"graph": outer}), {}).start("go")
    shown = progress(run.state)
    assert [(loop["loop"], loop["round"], loop["limit"]) for loop in shown["loops"]] == [
        ("Again", 1, 3),
        ("Say", 1, 4),
    ]
    assert shown["loops"][1]["address"].startswith(shown["loops"][0]["address"])


def test_the_newest_score_is_that_of_a_message_or_of_a_report() -> None:
    graph = roundel.Graph(start="A", end="B").node("A", "agent").node("B", "agent").edge("A", "B")
    run = Simulator(roundel.prepare(graph), {}).start("go")
    assert progress(run.state)["score"] is None
    said = Outcome((Message("x", "assistant", data={"score": 7.5}),))
    run.apply(Finished("A", said, run.now()))
    assert progress(run.state)["score"] == 7.5
    for report, expected in (({"score": None}, 7.5), ({"score": True}, 7.5), ({"score": 8}, 8)):
        again = Simulator(roundel.prepare(graph), {}).start("go")
        again.apply(Finished("A", said, again.now()))
        again.apply(Finished("B", Outcome((Message("y"),), report=report), again.now()))
        assert progress(again.state)["score"] == expected


def two_loops() -> Plan:
    """Writer, Critic and Gate are a loop inside of that of Plan, Review and Outer; both have a threshold."""
    graph = roundel.Graph(start="Plan", end="Done", breaker=False)
    for name in ("Plan", "Writer", "Critic", "Review"):
        graph.node(name, "agent")
    graph.node("Gate", "loop", max_rounds=30, exit_on_score=90)
    graph.node("Outer", "loop", max_rounds=2, exit_on_score=7)
    graph.node("Done", "passthrough")
    graph.edge("Plan", "Writer").edge("Writer", "Critic").edge("Critic", "Gate")
    graph.edge("Gate", "Writer", port="continue").edge("Gate", "Review", port="exit")
    graph.edge("Review", "Outer")
    graph.edge("Outer", "Plan", port="continue").edge("Outer", "Done", port="exit")
    return roundel.prepare(graph)


def said(run: Simulator, score: object = None) -> None:
    """The agent in flight answers, with a score if there is one; then the nodes run that call nobody."""
    [call] = run.in_flight
    run.in_flight = []
    data = {"score": score} if score is not None else None
    run.apply(Finished(call.address, Outcome((Message("x", "assistant", data=data),)), run.now()))
    while isinstance(call := run.in_flight[0], Call) and not run.plan.sites[call.site].kind.speaks:
        run.apply(run.answer(run.in_flight.pop(0)))


def scored_rounds(run: Simulator, scores: list[float]) -> None:
    for score in scores:
        said(run)
        said(run, score)


def test_scores_are_one_for_each_round_of_the_innermost_loop() -> None:
    """Critic returns a score, and Gate reports it once more: still it is one score of one round."""
    run = Simulator(two_loops(), {}).start("go")
    assert (progress(run.state)["scores"], progress(run.state)["threshold"]) == ([], 7)
    said(run)
    scored_rounds(run, [50, 61.5])
    shown = progress(run.state)
    assert (shown["scores"], shown["threshold"], shown["score"]) == ([50, 61.5], 90, 61.5)
    assert shown["active"] == ["Writer"]
    scored_rounds(run, [92])
    assert [loop["loop"] for loop in progress(run.state)["loops"]] == ["Plan"]
    # Only the outer loop runs now, and has no score yet.
    assert (progress(run.state)["scores"], progress(run.state)["threshold"]) == ([50, 61.5, 92], None)
    said(run, 3)
    assert (progress(run.state)["scores"], progress(run.state)["threshold"]) == ([3], 7)
    said(run)
    assert progress(run.state)["scores"] == [50, 61.5, 92]
    scored_rounds(run, [40])  # the first round again, of another entry
    assert progress(run.state)["scores"] == [50, 61.5, 92, 40]


def test_scores_are_bounded_and_survive_a_snapshot() -> None:
    plan = two_loops()
    run = Simulator(plan, {}).start("go")
    said(run)
    scored_rounds(run, [float(number) for number in range(25)])
    expected = [float(number) for number in range(5, 25)]
    assert progress(run.state)["scores"] == expected
    assert progress(copied(run.state, plan))["scores"] == expected
    for value in (float("nan"), float("inf"), 1e305, "twelve", True):
        scored_rounds(run, [value])  # type: ignore[list-item]
    assert progress(run.state)["scores"] == expected


def test_a_snapshot_without_a_field_that_was_added_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_ADDED_FIELDS, ("GuardStats", "scores"), dict)
    plan = two_loops()
    run = Simulator(plan, {}).start("go")
    said(run)
    scored_rounds(run, [50])
    body, texts = frozen(run.state)
    stored = SNAPSHOTS.decode_versioned(zlib.decompress(body))
    stored.shapes["GuardStats"].remove("scores")
    for entry in stored.table:
        if entry[:2] == ["m", "GuardStats"]:
            del entry[2]["scores"]
    older = zlib.compress(SNAPSHOTS.encode_versioned(stored))
    restored = thawed(older, plan, texts)
    assert (restored.guard_stats.score, restored.guard_stats.scores) == (50, {})
    assert progress(restored)["scores"] == []
    stored.shapes["GuardStats"].remove("score")  # a field that may not be missing
    with pytest.raises(SnapshotError, match="the fields of 'GuardStats' have changed"):
        thawed(zlib.compress(SNAPSHOTS.encode_versioned(stored)), plan, texts)


def test_a_question_is_shown_short() -> None:
    node = {"id": "Ask", "type": "human", "config": {"description": "Is it good? " * 100}}
    run = Simulator(plan_of({"graph": {"start": "Ask", "nodes": [node]}}), {}).start("go")
    shown = progress(run.state)
    assert shown["question"] == {
        "address": "Ask",
        "node_id": "Ask",
        "prompt": ("Is it good? " * 100)[:SHOWN_TEXT],
        "tool": None,
    }
    assert shown["active"] == []  # the person works, not the node
    [call] = run.state.calls.values()
    assert isinstance(call.command, Ask)
    arguments = {"to": "a" * 999, "count": 3, "tags": ["b" * 999], **{f"x{n}": None for n in range(20)}}
    call.command = msgspec.structs.replace(
        call.command, about={"prompt": "May it?", "tool": {"name": "send", "arguments": arguments}}
    )
    tool = progress(run.state)["question"]["tool"]
    assert (tool["name"], tool["arguments"]["count"], len(tool["arguments"])) == ("send", 3, SHOWN_ARGUMENTS)
    assert tool["arguments"]["to"] == "a" * SHOWN_TEXT
    assert tool["arguments"]["tags"].startswith('["bbb') and len(tool["arguments"]["tags"]) == SHOWN_TEXT


def test_the_time_of_work_is_without_that_of_waiting() -> None:
    graph = roundel.Graph(start="A", end="Ask").node("A", "agent").node("Ask", "human").edge("A", "Ask")
    run = Simulator(roundel.prepare(graph), {}).start("go")
    began = run.state.started_at
    run.apply(Finished("A", Outcome((Message("x"),)), began + 2))
    assert progress(run.state)["work_seconds"] == 2
    run.apply(Answered("Ask", Message("fine"), began + 1000))
    assert progress(run.state)["work_seconds"] == 2
