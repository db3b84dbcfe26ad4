"""Votes: all participants run in parallel, and enough of them must approve."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.kernel.payloads import NodeCompleted
from roundel.plan.graph import compile_workflow
from tests.events import node_status
from tests.kernel.simulator import Simulator


def agents(*names: str) -> list[dict[str, Any]]:
    return [{"id": name, "type": "agent"} for name in names]


def humans(*names: str) -> list[dict[str, Any]]:
    return [{"id": name, "type": "human"} for name in names]


def vote(*names: str, **config: Any) -> roundel.Graph:
    config.setdefault("participants", agents(*(names or ("Ann", "Bob", "Cat"))))
    graph = roundel.Graph(start="Vote", end=["Yes", "No"]).node("Vote", "vote", **config)
    graph.node("Yes", "passthrough").node("No", "passthrough")
    return graph.edge("Vote", "Yes", port="approved").edge("Vote", "No", port="rejected")


def run_with_events(graph: Any, script: Any) -> tuple[roundel.Result, list[roundel.Event]]:
    events: list[roundel.Event] = []
    return roundel.run(graph, "Ship it?", script=script, on_event=events.append), events


def summary(result: roundel.Result) -> str:
    return str((result.data or {})["summary"])


def running(events: list[roundel.Event]) -> list[str | None]:
    return [event.address for event in events if node_status(event) == "running"]


def test_threshold_of_approvals_approves() -> None:
    result, events = run_with_events(
        vote(threshold=0.6), {"Ann": "yes", "Bob": "No, not yet.", "Cat": "Approved"}
    )
    assert result.output == "Ship it?"
    assert result.nodes == {"Vote": 1, "Ann": 1, "Bob": 1, "Cat": 1, "Yes": 1}
    tally = {
        "ballots": {"Ann": "approve", "Bob": "reject", "Cat": "approve"},
        "share": 2 / 3,
        "approved": True,
        "summary": "approved: 2 of 3",
    }
    assert result.data == tally
    (completed,) = (
        event.data for event in events if event.node_id == "Vote" and node_status(event) == "completed"
    )
    assert completed == NodeCompleted("Ship it?", tally, tally, 1, port="approved")
    assert running(events) == ["Vote", "Vote/Ann", "Vote/Bob", "Vote/Cat", "Yes"]
    assert result.loops == {}, "a vote is no loop"
    assert not [event for event in events if event.event.startswith("loop_")]


@pytest.mark.parametrize(
    ("threshold", "replies", "output"),
    [
        (0.67, ["yes", "yes", "no"], "rejected: 2 of 3, less than 0.67"),
        (0.66, ["yes", "yes", "no"], "approved: 2 of 3"),
        (0.5, ["yes", "no", "abstain"], "approved: 1 of 2, 1 abstained"),
        (0.9, ["yes", "abstain", "abstain"], "approved: 1 of 1, 2 abstained"),
        (1, ["yes", "yes", "yes"], "approved: 3 of 3"),
        (0.5, ["no", "no", "I could not say."], "rejected: 0 of 2, 1 abstained, less than 0.5"),
        (0.1, ["abstain", "Hm.", ""], "rejected: nobody voted"),
    ],
)
def test_abstentions_do_not_count(threshold: float, replies: list[str], output: str) -> None:
    script = dict(zip(("Ann", "Bob", "Cat"), replies, strict=True))
    result, _ = run_with_events(vote(threshold=threshold), script)
    assert result.data is not None
    assert (result.output, result.data["summary"]) == ("Ship it?", output)
    assert result.data["approved"] is output.startswith("approved")
    assert result.nodes.get("Yes", 0) == int(output.startswith("approved"))


@pytest.mark.parametrize(
    ("replies", "output", "share"),
    [
        (["8", "score: 7", "6/10"], "approved: 7 of 10 on average", 0.7),
        (["10", "2", "7"], "rejected: 6.33 of 10 on average, less than 0.67", 19 / 30),
        (["9", "eleven", "12"], "approved: 9 of 10 on average, 2 abstained", 0.9),
        (["well", "0", "11"], "rejected: nobody voted", 0),
    ],
)
def test_scores_count_by_their_mean(replies: list[str], output: str, share: float) -> None:
    script = dict(zip(("Ann", "Bob", "Cat"), replies, strict=True))
    result, _ = run_with_events(vote(vote_type="score_1_10"), script)
    assert result.data is not None
    assert (result.output, result.data["summary"]) == ("Ship it?", output)
    assert result.data["share"] == pytest.approx(share)


def test_ballots_of_scores_are_the_scores() -> None:
    script = {"Ann": {"text": "good", "data": {"score": 8.5}}, "Bob": '{"score": 4}', "Cat": "no idea"}
    result, _ = run_with_events(vote(vote_type="score_1_10"), script)
    assert result.data is not None
    assert result.data["ballots"] == {"Ann": 8.5, "Bob": 4, "Cat": "abstain"}


def test_participants_receive_the_input_and_the_question() -> None:
    shown: dict[str, list[str]] = {}

    async def ask(question: roundel.Question) -> str:
        shown[question.address] = [message.text for message in question.inputs]
        return "yes"

    graph = vote(participants=humans("Ann", "Bob"), question="Yes or no?")
    result = roundel.run(graph, "Ship it?", ask=ask)
    assert (result.output, summary(result)) == ("Ship it?", "approved: 2 of 2")
    assert shown == {"Vote/Ann": ["Ship it?", "Yes or no?"], "Vote/Bob": ["Ship it?", "Yes or no?"]}


def test_vote_waits_for_human_participants() -> None:
    graph = vote(participants=[*agents("Ann"), *humans("Bob", "Cat")])
    result, events = run_with_events(graph, {"Ann": "yes", "Bob": "yes"})
    assert result.status == "waiting"
    waits = [event.fields()["reason"] for event in events if event.fields().get("status") == "waiting"]
    assert waits == ["for Vote/Cat"]


def test_silent_participant_abstains() -> None:
    inner = {
        "nodes": [{"id": "Think", "type": "passthrough"}, {"id": "Say", "type": "passthrough"}],
        "edges": [{"from": "Think", "to": "Say", "condition": False}],
        "start": "Think",
        "end": "Say",
    }
    mute = {"id": "Mute", "type": "subgraph", "config": {"type": "config", "config": inner}}
    result, _ = run_with_events(vote(participants=[*agents("Ann"), mute]), {"Ann": "yes"})
    assert summary(result) == "approved: 1 of 1, 1 abstained"
    assert result.data is not None
    assert result.data["ballots"] == {"Ann": "approve", "Mute": "abstain"}


def test_failing_participant_fails_the_run_with_its_address() -> None:
    result, _ = run_with_events(vote(), {"*": "yes", "Bob": {"error": "no model"}})
    assert (result.status, result.error) == ("failed", "Vote/Bob: no model")


def test_one_participant_is_enough() -> None:
    assert summary(run_with_events(vote("Ann"), {"Ann": "yes"})[0]) == "approved: 1 of 1"


def test_vote_hands_on_what_was_voted_on() -> None:
    """The draft with its own data; neither what came before it, nor the question."""
    graph = vote("Ann", question="Yes or no?").node("Notes", "literal", content="some notes")
    graph.node("In", "passthrough").node("Draft", "agent").edge("In", "Notes").edge("In", "Draft")
    graph.edge("Notes", "Vote").edge("Draft", "Vote")
    graph._settings["start"] = ["In"]
    result, _ = run_with_events(graph, {"Draft": {"text": "a draft", "data": {"id": 7}}, "Ann": "yes"})
    assert result.output == "a draft"
    tally = {"ballots": {"Ann": "approve"}, "share": 1, "approved": True, "summary": "approved: 1 of 1"}
    assert result.data == {"id": 7, **tally}


def test_run_of_version_0_hands_on_the_tally() -> None:
    plan = compile_workflow(vote("Ann").workflow(), semantics=0)
    output = Simulator(plan, {"Ann": ["yes"]}).start("a draft").finish().state.output
    assert output is not None
    assert output.text == "approved: 1 of 1"
    assert output.data == {"ballots": {"Ann": "approve"}, "share": 1, "approved": True}


def test_each_participant_is_asked_once() -> None:
    node = roundel.prepare(vote("Ann", "Bob")).graph.nodes[0]
    assert node.kind.iterations(node.config) == (1, 1)


# --- Inside of other things


def looped() -> roundel.Graph:
    graph = roundel.Graph(start="Draft", end="Out").node("Draft", "agent").node("Out", "passthrough")
    graph.node("Vote", "vote", participants=agents("Ann", "Bob"), threshold=1)
    return (
        graph.edge("Draft", "Vote")
        .edge("Vote", "Draft", port="rejected")
        .edge("Vote", "Out", port="approved")
    )


def test_vote_can_end_a_cycle() -> None:
    result, events = run_with_events(
        looped(), {"Draft": ["d1", "d2", "d3"], "Ann": "yes", "Bob": ["no", "no", "yes"]}
    )
    assert (result.output, summary(result)) == ("d3", "approved: 2 of 2")
    assert result.loops["Draft"]["rounds"] == 3
    assert "Draft[3]/Vote/Bob" in running(events)


def test_vote_in_a_subgraph_a_loop_agent_and_a_debate() -> None:
    config = {"participants": agents("Ann", "Bob")}
    node = {"id": "Vote", "type": "vote", "config": config}
    inner = roundel.Graph(start="Vote", end="Vote").node("Vote", "vote", **config)
    sub = roundel.Graph(start="Sub", end="Sub").node("Sub", "subgraph", graph=inner)
    strategy = {"mode": "count", "max": 2}
    again = roundel.Graph(start="Again", end="Again").node(
        "Again", "loop_agent", strategy=strategy, body=node
    )
    council = roundel.Graph(start="Council", end="Council")
    council.node("Council", "debate", participants=[*agents("Ada"), node], max_rounds=1)
    for graph, address, output in [
        (sub, "Sub/Vote/Bob", "Ship it?"),
        (again, "Again[2]/Vote/Bob", "Ship it?"),
        (council, "Council[1]/Vote/Bob", "Ada: yes\nVote: yes"),
    ]:
        result, events = run_with_events(graph, {"Ann": "yes", "Bob": "yes", "Ada": "yes"})
        assert (result.output, summary(result)) == (output, "approved: 2 of 2")
        assert running(events)[-1] == address


def test_participants_may_be_loops() -> None:
    body = {"strategy": {"mode": "count", "max": 2}, "body": agents("Bob")[0]}
    graph = vote(participants=[*agents("Ann"), {"id": "Twice", "type": "loop_agent", "config": body}])
    result, events = run_with_events(graph, {"Ann": "yes", "Bob": ["no", "yes"]})
    assert summary(result) == "approved: 2 of 2"
    assert "Vote/Twice[2]/Bob" in running(events)


def test_a_break_in_a_participant_ends_the_loop_agent_around_the_vote() -> None:
    inner = {
        "nodes": [{"id": "Think", "type": "agent"}, {"id": "Enough", "type": "break"}],
        "edges": [{"from": "Think", "to": "Enough"}],
        "start": "Think",
    }
    bob = {"id": "Bob", "type": "subgraph", "config": {"type": "config", "config": inner}}
    body = {"id": "Vote", "type": "vote", "config": {"participants": [*agents("Ann"), bob]}}
    graph = roundel.Graph(start="Again", end="Again")
    graph.node("Again", "loop_agent", strategy={"mode": "count", "max": 5}, body=body)
    result, _ = run_with_events(graph, {"Ann": {"text": "yes", "delay": 2}, "Think": "stop"})
    assert (result.output, result.loops["Again"]["exit_reason"]) == ("stop", "break")


def test_ballots_are_assigned_regardless_of_completion_order() -> None:
    result, _ = run_with_events(vote("Ann", "Bob"), {"Ann": {"text": "yes", "delay": 0.05}, "Bob": "no"})
    assert result.data is not None
    assert result.data["ballots"] == {"Ann": "approve", "Bob": "reject"}


def test_result_does_not_depend_on_completion_order() -> None:
    def run_conversation(seed: int) -> tuple[Any, ...]:
        draw = random.Random(seed)
        lines = {"Draft": ["d1", "d2", "d3"], "Ann": ["no", "yes", "yes"], "Bob": ["yes", "no", "yes"]}
        script = {
            name: [{"text": text, "delay": draw.random() / 50} for text in texts]
            for name, texts in lines.items()
        }
        result, events = run_with_events(looped(), script)
        ended = {
            event.address: event.fields().get("output") for event in events if "status" in event.fields()
        }
        return result.summary, sorted((str(where), str(text)) for where, text in ended.items())

    first = run_conversation(0)
    assert (first[0]["output"], first[0]["data"]["summary"]) == ("d3", "approved: 2 of 2")
    assert first[0]["data"]["ballots"] == {"Ann": "approve", "Bob": "approve"}
    assert list(first[0]["data"]["ballots"]) == ["Ann", "Bob"], "in the order of the file"
    assert all(run_conversation(seed) == first for seed in range(1, 6))


# --- What is wrong with one

HEAD = """graph:
  start: Vote
  nodes:
    - id: Vote
      type: vote
      config:
"""
PAIR = "        participants: [{id: Ann, type: agent}, {id: Bob, type: agent}]\n"

WRONG = [
    ("", 4, "few-participants", "a vote needs at least a participant, and has none", "list nodes"),
    ("        participants: []\n", 7, "few-participants", "has none", "under 'participants'"),
    (
        "        participants:\n          - {id: Ann, type: agent}\n          - {id: Ann, type: agent}\n",
        9,
        "duplicate-id",
        "there is already a participant 'Ann', in line 8",
        "an id of its own",
    ),
    ("        participants: [Ann]\n", 7, "unknown-node", "there is no node 'Ann' to take part", ""),
    (PAIR + "        threshold: 0\n", 8, "wrong-type", "a number above 0 and of at most 1", ""),
    (PAIR + "        threshold: 67\n", 8, "wrong-type", "a number above 0 and of at most 1", ""),
    (PAIR + "        vote_type: stars\n", 8, "wrong-type", "one of yes_no, score_1_10", ""),
    (
        PAIR + "  edges: [{from: Vote, to: Vote, port: aproved}]\n",
        8,
        "unknown-port",
        "node 'Vote' has no port 'aproved'",
        "did you mean 'approved'?",
    ),
]


@pytest.mark.parametrize(("text", "line", "code", "message", "hint"), WRONG)
def test_invalid_settings_are_reported_with_their_location(
    text: str, line: int, code: str, message: str, hint: str, tmp_path: Path
) -> None:
    path = tmp_path / "vote.yaml"
    path.write_text(HEAD + text, encoding="utf-8")
    first = next(found for found in roundel.check(path)[1].diagnostics if found.severity == "error")
    assert (first.code, first.line) == (code, line)
    assert message in first.message
    assert hint in first.hint
