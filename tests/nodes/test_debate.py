"""Debates: participants that answer each other."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.nodes.loading import check as check_workflow
from roundel.plan.graph import compile_workflow
from tests.events import node_status
from tests.kernel.simulator import Simulator

AGREE = {"Ada": ["I am for it", "I agree."], "Bo": ["I don't agree", "I agree too."]}


def agents(*names: str) -> list[dict[str, Any]]:
    return [{"id": name, "type": "agent"} for name in names]


def debate(*names: str, **config: Any) -> roundel.Graph:
    config.setdefault("participants", agents(*(names or ("Ada", "Bo"))))
    return roundel.Graph(start="Council", end="Council", breaker=False).node("Council", "debate", **config)


def run_with_events(graph: Any, script: Any, **options: Any) -> tuple[roundel.Result, list[roundel.Event]]:
    events: list[roundel.Event] = []
    return roundel.run(graph, "tea?", script=script, on_event=events.append, **options), events


def debate_turns(events: list[roundel.Event]) -> list[tuple[int, str, str]]:
    found = [event.fields() for event in events if event.event == "debate_round"]
    return [(data["round"], data["agent"], data["content"]) for data in found]


def prompts_by_address(
    graph: roundel.Graph, answers: dict[str, list[str]]
) -> dict[str, list[tuple[str, str, str]]]:
    """What people are shown at each address: role, source and text."""
    shown: dict[str, list[tuple[str, str, str]]] = {}
    left = {name: list(texts) for name, texts in answers.items()}

    async def ask(question: roundel.Question) -> str:
        shown[question.address] = [(each.role, each.source, each.text) for each in question.inputs]
        return left[question.node_id].pop(0)

    assert roundel.run(graph, "tea?", ask=ask).completed
    return shown


def people(*names: str) -> list[dict[str, Any]]:
    return [{"id": name, "type": "human"} for name in names]


def test_participants_speak_in_turn_for_max_rounds() -> None:
    script = {"Ada": ["a1", "a2"], "Bo": ["b1", "b2"], "Cy": ["c1", "c2"]}
    result, events = run_with_events(debate("Ada", "Bo", "Cy", max_rounds=2), script)
    rounds = [(1, "Ada", "a1"), (1, "Bo", "b1"), (1, "Cy", "c1")]
    rounds += [(2, "Ada", "a2"), (2, "Bo", "b2"), (2, "Cy", "c2")]
    assert debate_turns(events) == rounds
    assert result.output == "Ada: a2\nBo: b2\nCy: c2"
    assert result.data == {
        "debate_history": [{"agent": a, "content": c, "round": r} for r, a, c in rounds],
        "total_rounds": 2,
        "exit_reason": "max_rounds_reached",
        "held": ["max_rounds_reached"],
    }
    assert result.loops["Council"] == {"rounds": 2, "exit_reason": "max_rounds_reached", "entries": 1}
    assert result.nodes == {"Council": 1, "Ada": 2, "Bo": 2, "Cy": 2}


def test_events_report_rounds_answers_and_exit() -> None:
    result, events = run_with_events(debate(max_rounds=1), {"Ada": "a", "Bo": "b"})
    nodes = ("node_state_change", "model_call")
    reported = [(event.event, event.address) for event in events if event.event not in nodes]
    assert reported[1:-1] == [
        ("loop_round", "Council[1]"),
        ("debate_round", "Council"),
        ("debate_round", "Council"),
        ("round_finished", "Council[1]"),
        ("loop_exit", "Council[1]"),
    ]
    ran = [event.address for event in events if node_status(event) == "running"]
    assert ran == ["Council", "Council[1]/Ada", "Council[1]/Bo"]
    done = next(e.fields() for e in events if e.node_id == "Council" and node_status(e) == "completed")
    assert done["report"]["exit_reason"] == "max_rounds_reached"
    assert "debate_history" not in done
    assert done["data"] == result.data


def test_agent_pairs_define_the_speaking_order() -> None:
    graph = debate("Ada", "Bo", "Cy", agent_pairs=[["Cy", "Ada"], ["Ada", "Cy"], ["Cy", "Bo"]], max_rounds=1)
    _, events = run_with_events(graph, {"Ada": "a", "Cy": ["c1", "c2"]})
    assert debate_turns(events) == [(1, "Cy", "c1"), (1, "Ada", "a"), (1, "Cy", "c2")]


def test_participants_see_the_whole_history_with_their_own_words_as_assistant() -> None:
    graph = debate(participants=people("Ada", "Bo"), max_rounds=2)
    shown = prompts_by_address(graph, {"Ada": ["a1", "a2"], "Bo": ["b1", "b2"]})
    topic = ("user", "", "tea?")
    assert shown == {
        "Council[1]/Ada": [topic],
        "Council[1]/Bo": [topic, ("user", "Ada", "a1")],
        "Council[2]/Ada": [topic, ("assistant", "Ada", "a1"), ("user", "Bo", "b1")],
        "Council[2]/Bo": [topic, ("user", "Ada", "a1"), ("assistant", "Bo", "b1"), ("user", "Ada", "a2")],
    }


def test_participant_is_prompted_when_answering_an_earlier_speaker() -> None:
    pairs = [["Ada", "Bo"], ["Bo", "Ada"], ["Cy", "Ada"], ["Di", "Ed"], ["Ed", "Di"]]
    graph = debate(participants=people("Ada", "Bo", "Cy", "Di", "Ed"), agent_pairs=pairs, max_rounds=1)
    shown = prompts_by_address(graph, {"Ada": ["a"], "Bo": ["b"], "Cy": ["c"], "Di": ["d"], "Ed": ["e"]})
    texts = {address: [text for _, _, text in messages] for address, messages in shown.items()}
    assert texts["Council[1]/Ada"] == ["tea?"]
    assert texts["Council[1]/Bo"] == ["tea?", "a"]
    assert texts["Council[1]/Cy"] == ["tea?", "a", "b", "Answer Ada."]
    assert texts["Council[1]/Di"] == ["tea?", "a", "b", "c"], "Ed has not said anything yet"


def test_consensus_requires_everyone_in_the_same_round() -> None:
    script = {"Ada": ["I agree", "Hm.", "I agree"], "Bo": ["No.", "I agree", "达成共识"]}
    result, _ = run_with_events(debate(max_rounds=9, exit_condition="consensus"), script)
    assert (result.loops["Council"]["rounds"], result.loops["Council"]["exit_reason"]) == (
        3,
        "consensus_reached",
    )
    assert result.data is not None
    assert result.data["held"] == ["consensus_reached"]


def test_agreement_without_the_exit_condition_does_not_end_the_debate() -> None:
    result, _ = run_with_events(debate(max_rounds=3), {"*": "I agree"})
    assert result.loops["Council"]["rounds"] == 3


def test_consensus_in_the_last_round_is_reported() -> None:
    result, _ = run_with_events(debate(max_rounds=2, exit_condition="consensus"), AGREE)
    assert result.data is not None
    assert result.data["exit_reason"] == "max_rounds_reached"
    assert result.data["held"] == ["max_rounds_reached", "consensus_reached"]


def test_consensus_must_hold_for_stable_for_rounds() -> None:
    config = {"max_rounds": 9, "exit_condition": "consensus", "consensus": {"stable_for": 2}}
    script = {"Ada": "I agree", "Bo": ["I agree", "No.", "I agree"]}
    result, _ = run_with_events(debate(**config), script)
    assert result.loops["Council"]["rounds"] == 4


def test_consensus_uses_the_last_answer_of_each_participant() -> None:
    pairs = [["Ada", "Bo"], ["Bo", "Ada"], ["Ada", "Bo"]]
    script = {"Ada": ["No.", "I agree"], "Bo": "I agree"}
    graph = debate(agent_pairs=pairs, max_rounds=5, exit_condition="consensus")
    assert run_with_events(graph, script)[0].loops["Council"]["rounds"] == 1


@pytest.mark.parametrize(("quorum", "rounds"), [(0.6, 1), (0.7, 2)])
def test_consensus_by_vote(quorum: float, rounds: int) -> None:
    config = {"exit_condition": "consensus", "consensus": {"method": "vote", "quorum": quorum}}
    script = {"Ada": "Vote: approve", "Bo": "Vote: approve", "Cy": ["Vote: reject", "Vote: approve"]}
    result, _ = run_with_events(debate("Ada", "Bo", "Cy", max_rounds=5, **config), script)
    assert result.loops["Council"] == {"rounds": rounds, "exit_reason": "consensus_reached", "entries": 1}


def judged(**consensus: Any) -> dict[str, Any]:
    judge = {"id": "Judge", "type": "agent"}
    return {"exit_condition": "consensus", "consensus": {"method": "judge", "judge": judge, **consensus}}


def test_judge_runs_after_each_round() -> None:
    script = {"Ada": "a", "Bo": "b", "Judge": ["No, they differ.", "Yes."]}
    result, events = run_with_events(debate(max_rounds=5, **judged()), script)
    assert result.nodes == {"Council": 1, "Ada": 2, "Bo": 2, "Judge": 2}
    assert result.loops["Council"]["exit_reason"] == "consensus_reached"
    assert result.output == "Ada: a\nBo: b", "what the judge says is not part of the debate"
    assert [agent for _, agent, _ in debate_turns(events)] == ["Ada", "Bo", "Ada", "Bo"]
    ran = [event.address for event in events if node_status(event) == "running"]
    assert ran[3] == "Council[1]/Judge"


def test_a_judge_sees_the_topic_the_whole_discussion_and_the_question() -> None:
    config = judged(judge=people("Judge")[0], question="One mind?")
    graph = debate(participants=people("Ada", "Bo"), max_rounds=3, **config)
    shown = prompts_by_address(graph, {"Ada": ["a1", "a2"], "Bo": ["b1", "b2"], "Judge": ["no", "yes"]})
    assert shown["Council[2]/Judge"] == [
        ("user", "", "tea?"),
        ("user", "Ada", "a1"),
        ("user", "Bo", "b1"),
        ("user", "Ada", "a2"),
        ("user", "Bo", "b2"),
        ("user", "", "One mind?"),
    ]


def test_unused_judge_is_not_in_the_plan() -> None:
    config = {**judged(), "exit_condition": "max_rounds"}
    result, _ = run_with_events(debate(max_rounds=1, **config), {"*": "yes"})
    assert result.nodes == {"Council": 1, "Ada": 1, "Bo": 1}
    assert [node.id for node in roundel.prepare(debate(**config)).sites] == ["Council", "Ada", "Bo"]


def test_maximum_iterations_per_participant_are_known() -> None:
    pairs = [["Ada", "Bo"], ["Bo", "Ada"], ["Ada", "Bo"]]
    node = roundel.prepare(debate(agent_pairs=pairs, max_rounds=4, **judged())).graph.nodes[0]
    assert [body.nodes[0].id for body in node.bodies] == ["Ada", "Bo", "Judge"]
    assert node.kind.iterations(node.config) == (8, 4, 4)


def test_unclear_judge_answer_counts_as_no() -> None:
    result, events = run_with_events(debate(max_rounds=2, **judged()), {"*": "Let me think about it"})
    assert result.loops["Council"] == {"rounds": 2, "exit_reason": "max_rounds_reached", "entries": 1}
    warnings = [event.fields()["message"] for event in events if event.event == "warning"]
    assert len(warnings) == 2
    assert "neither yes nor no" in warnings[0]


def silent(name: str) -> dict[str, Any]:
    """A participant who gives no message, since its graph never gets to its end."""
    nodes = [{"id": f"{name} thinks", "type": "passthrough"}, {"id": f"{name} says", "type": "passthrough"}]
    edge = {"from": f"{name} thinks", "to": f"{name} says", "condition": False}
    inner = {"nodes": nodes, "edges": [edge], "start": f"{name} thinks", "end": f"{name} says"}
    return {"id": name, "type": "subgraph", "config": {"type": "config", "config": inner}}


def test_silent_participant_does_not_agree() -> None:
    participants = [*agents("Ada", "Bo"), silent("Mute")]
    result, events = run_with_events(
        debate(participants=participants, max_rounds=2, exit_condition="consensus"), {"*": "I agree"}
    )
    assert [agent for _, agent, _ in debate_turns(events)] == ["Ada", "Bo", "Ada", "Bo"]
    assert result.data is not None
    assert result.data["held"] == ["max_rounds_reached"]


def test_debate_of_silent_participants_returns_an_empty_message() -> None:
    graph = debate(participants=[silent("Mute"), silent("Still")], max_rounds=2, **judged())
    result, _ = run_with_events(graph, {})
    assert (result.status, result.output) == ("completed", "")
    assert result.nodes.get("Judge") is None, "there is nothing to judge"
    assert result.data is not None
    assert result.data["debate_history"] == []


def test_data_of_the_last_answer_is_in_the_output() -> None:
    result, _ = run_with_events(debate(max_rounds=1), {"Ada": "a", "Bo": {"text": "b", "data": {"score": 8}}})
    assert result.data is not None
    assert (result.data["score"], result.data["total_rounds"]) == (8, 1)


def test_output_can_be_the_last_answer_alone() -> None:
    answer = {"text": "b2", "data": {"score": 8}}
    result, _ = run_with_events(debate(max_rounds=2, output="last"), {"Ada": "a", "Bo": ["b1", answer]})
    assert result.output == "b2"
    assert (result.data or {})["score"] == 8


def test_output_has_the_lines_of_each_turn_as_they_are() -> None:
    pairs = [["Ada", "Bo"], ["Bo", "Ada"], ["Ada", "Bo"]]
    script = {"Ada": ["a1", "a2", "Well:\n- one\n- two", "I agree."], "Bo": "b"}
    result, _ = run_with_events(debate(max_rounds=2, agent_pairs=pairs), script)
    assert result.output == "Ada: Well:\n- one\n- two\nBo: b\nAda: I agree."


def test_output_is_the_last_round_in_which_somebody_spoke() -> None:
    inner: dict[str, Any] = {"start": "Say", "end": "Out"}
    inner["nodes"] = [{"id": "Say", "type": "agent"}, {"id": "Out", "type": "passthrough"}]
    inner["edges"] = [{"from": "Say", "to": "Out", "condition": {"cel": "text != 'nothing'"}}]
    speakers = [
        {"id": name, "type": "subgraph", "config": {"type": "config", "config": inner}}
        for name in ("Ada", "Bo")
    ]
    graph = debate(participants=speakers, max_rounds=2)
    result, events = run_with_events(graph, {"Say": ["a", "nothing"]})
    assert len(debate_turns(events)) == 2
    assert result.output == "Ada: a\nBo: a"


def test_run_of_version_0_hands_on_its_last_answer_and_judges_the_round() -> None:
    plan = compile_workflow(debate(max_rounds=2, **judged()).workflow(), semantics=0)
    whole = Simulator(plan, {"Ada": ["a1", "a2"], "Bo": ["b1", "b2"], "Judge": ["no"]}).start("tea?").finish()
    assert whole.state.output is not None
    assert whole.state.output.text == "b2"
    judge = next(seen for seen in whole.executions if "Judge" in str(seen))
    assert "tea?" not in str(judge)


def test_failing_participant_fails_the_run_with_its_address() -> None:
    result, events = run_with_events(debate(), {"Ada": "a", "Bo": ["b", {"error": "no model"}]})
    assert (result.status, result.error) == ("failed", "Council[2]/Bo: no model")
    assert len(debate_turns(events)) == 3


def test_debate_waits_for_human_participants() -> None:
    graph = debate(participants=[*agents("Ada"), *people("Bo")], max_rounds=2)
    result, events = run_with_events(graph, {"Ada": "a"})
    assert result.status == "waiting"
    assert [e.address for e in events if e.event == "human_input_required"] == ["Council[1]/Bo"]
    assert run_with_events(graph, {"Ada": "a", "Bo": ["b1", "b2"]})[0].output == "Ada: a\nBo: b2"


def test_a_break_in_a_participant_ends_the_debate() -> None:
    inner = {
        "nodes": [{"id": "Bo thinks", "type": "agent"}, {"id": "Enough", "type": "break"}],
        "edges": [
            {
                "from": "Bo thinks",
                "to": "Enough",
                "condition": {"type": "keyword", "config": {"any": ["done"]}},
            }
        ],
        "start": "Bo thinks",
        "end": "Bo thinks",
    }
    bo = {"id": "Bo", "type": "subgraph", "config": {"type": "config", "config": inner}}
    result, _ = run_with_events(
        debate(participants=[*agents("Ada"), bo], max_rounds=5), {"Ada": "a", "Bo thinks": ["b", "done"]}
    )
    assert result.data is not None
    assert (result.data["exit_reason"], result.data["total_rounds"], result.output) == (
        "break",
        2,
        "Ada: a\nBo: done",
    )


# --- Inside of other things


def running(events: list[roundel.Event]) -> list[str | None]:
    return [event.address for event in events if node_status(event) == "running"]


def test_debate_in_a_free_cycle_restarts_each_round() -> None:
    graph = roundel.Graph(start="Draft", end="Out").node("Draft", "agent").node("Out", "passthrough")
    graph.node("Council", "debate", participants=agents("Ada", "Bo"), max_rounds=2)
    graph.node("Gate", "loop_counter", max_iterations=2)
    graph.edge("Draft", "Council").edge("Council", "Draft").edge("Council", "Gate")
    graph.edge("Gate", "Draft").edge("Gate", "Out")
    result, events = run_with_events(
        graph, {"Ada": ["a1", "a2", "a3", "a4"], "Bo": "b", "Draft": ["d1", "d2"]}
    )
    assert result.loops["Draft"]["rounds"] == 2
    assert result.loops["Council"] == {"rounds": 4, "exit_reason": "max_rounds_reached", "entries": 2}
    assert [content for _, agent, content in debate_turns(events) if agent == "Ada"] == [
        "a1",
        "a2",
        "a3",
        "a4",
    ]
    assert "Draft[2].Council[1]/Ada" in running(events)


def test_debate_in_a_subgraph() -> None:
    inner = debate(max_rounds=1)
    outer = roundel.Graph(start="Sub", end="Sub").node("Sub", "subgraph", graph=inner)
    result, events = run_with_events(outer, {"Ada": "a", "Bo": "b"})
    assert result.output == "Ada: a\nBo: b"
    assert running(events) == ["Sub", "Sub/Council", "Sub/Council[1]/Ada", "Sub/Council[1]/Bo"]


def test_debate_as_the_body_of_a_loop_agent() -> None:
    body = {
        "id": "Council",
        "type": "debate",
        "config": {"participants": agents("Ada", "Bo"), "max_rounds": 1},
    }
    graph = roundel.Graph(start="Again", end="Again")
    graph.node("Again", "loop_agent", strategy={"mode": "count", "max": 2}, body=body)
    result, events = run_with_events(graph, {"Ada": ["a1", "a2"], "Bo": ["b1", "b2"]})
    assert result.output == "Ada: a2\nBo: b2"
    assert running(events)[-2:] == ["Again[2].Council[1]/Ada", "Again[2].Council[1]/Bo"]


def test_debate_of_loop_agents_and_of_debates() -> None:
    twice = {"strategy": {"mode": "count", "max": 2}, "body": agents("Bo")[0]}
    group = {"participants": agents("Cy", "Di"), "max_rounds": 1}
    participants = [
        {"id": "Twice", "type": "loop_agent", "config": twice},
        {"id": "Group", "type": "debate", "config": group},
    ]
    result, events = run_with_events(
        debate(participants=participants, max_rounds=1), {"Bo": ["b1", "b2"], "Di": "d"}
    )
    assert [(agent, content) for _, agent, content in debate_turns(events)][-1] == (
        "Group",
        "Cy: b2\nDi: d",
    )
    assert result.output == "Twice: b2\nGroup: Cy: b2\nDi: d"
    assert "Council[1].Twice[2]/Bo" in running(events)
    assert "Council[1].Group[1]/Di" in running(events)


def test_result_does_not_depend_on_completion_order() -> None:
    """Two debates at the same time, each with delays of its own: the same is said, and the same comes out."""

    def run_conversation(seed: int) -> tuple[Any, ...]:
        draw = random.Random(seed)
        script = {
            name: [{"text": f"{name} {number}", "delay": draw.random() / 100} for number in range(2)]
            for name in ("Ada", "Bo", "Cy", "Di")
        }
        graph = roundel.Graph(start=["First", "Second"], end="Out")
        graph.node("First", "debate", participants=agents("Ada", "Bo"), max_rounds=2)
        graph.node("Second", "debate", participants=agents("Cy", "Di"), max_rounds=2)
        graph.node("Out", "passthrough", only_last_message=False).edge("First", "Out").edge("Second", "Out")
        result, events = run_with_events(graph, script)
        ended = {
            event.address: event.fields().get("output") for event in events if "status" in event.fields()
        }
        return result.summary, sorted((str(where), str(text)) for where, text in ended.items())

    assert all(run_conversation(seed) == run_conversation(0) for seed in range(1, 6))


# --- What is wrong with one

HEAD = """graph:
  start: Council
  nodes:
    - id: Council
      type: debate
      config:
"""
PAIR = "        participants: [{id: Ada, type: agent}, {id: Bo, type: agent}]\n"
CONSENSUS = PAIR + "        exit_condition: consensus\n        consensus: "

WRONG = [
    ("", 4, "few-participants", "a debate needs at least 2 participants, and has none", "list nodes"),
    (
        "        participants: [{id: Ada, type: agent}]\n",
        7,
        "few-participants",
        "at least 2 participants, and has 1",
        "",
    ),
    (
        "        participants:\n          - {id: Ada, type: agent}\n          - {id: Ada, type: human}\n",
        9,
        "duplicate-id",
        "there is already a participant 'Ada', in line 8",
        "an id of its own",
    ),
    ("        participants: Ada\n", 7, "wrong-type", "must be a list", "start each item with `- `"),
    ("        participants: [Ada, Bo]\n", 7, "unknown-node", "there is no node 'Ada' to take part", ""),
    (
        "        participants:\n          - {id: Ada, type: agent}\n          - {id: Bo, type: agnet}\n",
        9,
        "unknown-type",
        "'agnet'",
        "did you mean 'agent'?",
    ),
    (
        "        participants:\n          - {id: Ada, type: agent}\n          - {nodes: [], start: Bo}\n",
        9,
        "wrong-type",
        "a participant must be a node, not a graph",
        "the type subgraph",
    ),
    (
        PAIR + "        agent_pairs:\n          - [Ada, Bo]\n          - [Bo, Adda]\n",
        10,
        "unknown-node",
        "the pair names 'Adda', who does not take part",
        "did you mean 'Ada'?",
    ),
    (PAIR + "        agent_pairs: [[Zoe, Bo]]\n", 8, "unknown-node", "'Zoe'", "participants: Ada, Bo"),
    (
        PAIR + "        agent_pairs: [[Ada]]\n",
        8,
        "bad-pair",
        "this is [Ada]",
        "write [who answers, whom]",
    ),
    (PAIR + "        agent_pairs: [[Ada, Bo, Ada]]\n", 8, "bad-pair", "two participants", ""),
    (PAIR + "        agent_pairs: [[Ada, Ada]]\n", 8, "bad-pair", "the first answers the second", ""),
    (PAIR + "        agent_pairs: [Ada, Bo]\n", 8, "wrong-type", "must be a list", ""),
    (PAIR + "        max_rounds: 0\n", 8, "wrong-type", "a whole number of at least 1", ""),
    (PAIR + "        exit_condition: agreement\n", 8, "wrong-type", "one of max_rounds, consensus", ""),
    (CONSENSUS + "{method: judge}\n", 9, "no-judge", "has no judge", "name one"),
    (
        CONSENSUS + "{method: judge, judge: {id: Bo, type: agent}}\n",
        9,
        "duplicate-id",
        "there is already a participant 'Bo'",
        "give the judge an id of its own",
    ),
    (CONSENSUS + "{method: judge, judge: Bo}\n", 9, "unknown-node", "there is no node 'Bo' to take part", ""),
    (CONSENSUS + "{quorum: 2}\n", 9, "wrong-type", "'quorum'", ""),
]


def found_in(text: str, folder: Path) -> list[roundel.Diagnostic]:
    path = folder / "debate.yaml"
    path.write_text(HEAD + text, encoding="utf-8")
    return check_workflow(path)[1].diagnostics


@pytest.mark.parametrize(("text", "line", "code", "message", "hint"), WRONG)
def test_invalid_settings_are_reported_with_their_location(
    text: str, line: int, code: str, message: str, hint: str, tmp_path: Path
) -> None:
    first = next(found for found in found_in(text, tmp_path) if found.severity == "error")
    assert (first.code, first.line) == (code, line)
    assert message in first.message
    assert hint in first.hint


DOUBTED = [
    (
        PAIR + "        agent_pairs: [[Ada, Bo]]\n",
        7,
        "never-runs",
        "'Bo' never speaks: no pair begins with it",
        "add a pair [Bo, …]",
    ),
    (PAIR + "        consensus: {quorum: 0.5}\n", 8, "without-effect", "'exit_condition: consensus'", ""),
    (
        CONSENSUS + "{judge: {id: Judge, type: agent}}\n",
        9,
        "without-effect",
        "'judge' has no effect with the method phrase",
        "write `method: judge`",
    ),
    (CONSENSUS + "{stable_for: 4}\n", 9, "no-consensus", "for 4 rounds, and there are 3", ""),
    (
        CONSENSUS + "{}\n        agent_pairs: [[Ada, Bo]]\n",
        9,
        "no-consensus",
        "it takes two who speak, and there is one",
        "",
    ),
    (
        PAIR + "        judge: {id: Judge, type: agent}\n",
        8,
        "unknown-key",
        "'judge'",
        "it belongs to the consensus",
    ),
]


@pytest.mark.parametrize(("text", "line", "code", "message", "hint"), DOUBTED)
def test_suspicious_settings_are_warnings(
    text: str, line: int, code: str, message: str, hint: str, tmp_path: Path
) -> None:
    diagnostics = found_in(text, tmp_path)
    assert all(found.severity == "warning" for found in diagnostics)
    warning = next(found for found in diagnostics if found.code == code)
    assert (warning.line, message in warning.message, hint in warning.hint) == (line, True, True)


def test_valid_debate_has_no_diagnostics(tmp_path: Path) -> None:
    text = CONSENSUS + "{method: judge, judge: {id: Judge, type: agent}}\n"
    assert found_in(text, tmp_path) == []


def test_cancelling_the_run_cancels_the_participants() -> None:
    async def story() -> list[str]:
        seen: list[str] = []
        graph = debate(max_rounds=9)
        async for event in roundel.stream(graph, "tea?", script={"*": [{"text": "x", "delay": 5}]}):
            seen.append(event.event)
            if event.address == "Council[1]/Ada":
                break
        return seen

    assert asyncio.run(asyncio.wait_for(story(), 4))[-1] == "node_state_change"


# Participants that are nodes of the graph


def among_nodes(**config: Any) -> roundel.Graph:
    graph = roundel.Graph(start="Council", end="Council", breaker=False)
    graph.node("Ada", "agent", role="You want it soon.").node("Bo", "agent", role="You want it safe.")
    return graph.node("Council", "debate", max_rounds=2, **config)


@pytest.mark.parametrize(
    "config",
    [
        {"agent_pairs": [["Ada", "Bo"], ["Bo", "Ada"]]},
        {"participants": ["Ada", "Bo"]},
        {"participants": ["Ada"], "agent_pairs": [["Ada", "Bo"], ["Bo", "Ada"]]},
        {"participants": [{"id": "Ada", "type": "agent"}], "agent_pairs": [["Ada", "Bo"], ["Bo", "Ada"]]},
    ],
)
def test_participants_may_be_ids_of_nodes_of_the_graph(config: dict[str, Any]) -> None:
    graph = among_nodes(**config)
    workflow, report = check_workflow(graph)
    assert workflow is not None
    assert not [found for found in report.diagnostics if found.code in ("never-runs", "few-participants")]
    result = roundel.run(graph, "tea?", script={"Ada": ["a1", "a2"], "Bo": ["b1", "b2"]})
    assert (result.output, result.nodes) == ("Ada: a2\nBo: b2", {"Council": 1, "Ada": 2, "Bo": 2})


def test_a_participant_of_the_graph_has_the_settings_of_its_node() -> None:
    workflow, _ = check_workflow(among_nodes(agent_pairs=[["Ada", "Bo"], ["Bo", "Ada"]]))
    assert workflow is not None
    council = workflow.graph.nodes[2].config
    assert [one.graph.nodes[0].config.role for one in council.participants] == [
        "You want it soon.",
        "You want it safe.",
    ]


def test_a_node_may_run_by_itself_and_take_part() -> None:
    graph = roundel.Graph(start="Ada", end="Council", breaker=False).node("Ada", "agent").node("Bo", "agent")
    graph.node("Council", "debate", max_rounds=1, agent_pairs=[["Bo", "Ada"], ["Ada", "Bo"]])
    result = roundel.run(graph.edge("Ada", "Council"), "tea?", script={"Ada": "a1", "Bo": "b1"})
    assert result.output == "Bo: b1\nAda: a1"
    assert result.nodes == {"Ada": 2, "Bo": 1, "Council": 1}


@pytest.mark.parametrize(
    ("participants", "code"),
    [
        (["Ada", "Ba"], "unknown-node"),
        (["Ada", "Council"], "circular-participant"),
        (["Ada", "Other"], "circular-participant"),
    ],
)
def test_ids_that_cannot_take_part(participants: list[str], code: str) -> None:
    graph = among_nodes(participants=participants)
    graph.node("Other", "debate", participants=["Bo", "Council"])
    _, report = check_workflow(graph)
    assert code in [found.code for found in report.errors]


def test_mistakes_of_a_node_that_takes_part_are_reported_once() -> None:
    graph = among_nodes(agent_pairs=[["Ada", "Bo"], ["Bo", "Ada"]]).node("Cy", "agent", max_tool_calls=-1)
    graph.node("Pair", "debate", participants=["Ada", "Cy"])
    _, report = check_workflow(graph)
    assert len([found for found in report.errors if "tool calls" in found.message.lower()]) == 1


def test_a_vote_takes_ids_too() -> None:
    graph = roundel.Graph(start="Poll", end="Poll").node("Ada", "agent").node("Bo", "agent")
    graph.node("Poll", "vote", participants=["Ada", "Bo"])
    result = roundel.run(graph, "tea?", script={"Ada": "yes", "Bo": "yes"})
    assert result.data is not None
    assert result.data["approved"]
