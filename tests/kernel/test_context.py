"""What agents are given: the task, their own last output, what is new."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.nodes.loading import check_plan
from roundel.plan.graph import compile_workflow
from roundel.runs.runs import Runs
from tests.events import node_status

SEEN = "{{ messages.map(m, (m.role == 'assistant' ? 'own:' : '') + m.text) }}"
"""A prompt that shows what the agent was given; an agent without a scripted reply repeats it."""


def agent(name: str, /, *, window: int | None = None, **config: Any) -> dict[str, Any]:
    envelope = {} if window is None else {"context_window": window}
    return {"id": name, "type": "agent", "config": {"provider": "openai", "name": "m", **config}, **envelope}


def loop(writer: dict[str, Any], critic: dict[str, Any] | None = None, rounds: int = 3, **graph: Any) -> Any:
    """A writer and a critic, left by a counter."""
    critic = critic or agent("Critic", context="message")
    edges = [("Writer", "Critic"), ("Critic", "Writer"), ("Critic", "Guard"), ("Guard", "Writer")]
    return {
        "graph": {
            "start": "Writer",
            "end": "Final",
            "nodes": [
                writer,
                critic,
                {"id": "Guard", "type": "loop_counter", "config": {"max_iterations": rounds}},
                {"id": "Final", "type": "passthrough"},
            ],
            "edges": [
                *({"from": one, "to": other} for one, other in edges),
                {"from": "Guard", "to": "Final"},
            ],
            **graph,
        }
    }


def outputs(workflow: Any, node: str, script: dict[str, Any], text: str = "tea") -> list[Any]:
    """What a node said in each of its runs, read as JSON where it shows what it was given."""
    said: list[Any] = []

    def note(event: Any) -> None:
        if event.node_id == node and node_status(event) == "completed":
            said.append(event.fields()["output"])

    result = roundel.run(workflow, text, script=script, on_event=note)
    assert result.status == "completed", result.error
    return [json.loads(one) if one.startswith("[") else one for one in said]


CRITIC = {"Critic": ["shorter", "warmer", "calmer"]}


def given_first(lists: list[Any]) -> list[Any]:
    """The lists without the agent's own words, which are the lists before."""
    return [[one if not one.startswith("own:") else "own" for one in each] for each in lists]


def test_without_a_setting_an_agent_in_a_loop_sees_task_own_and_new() -> None:
    seen = given_first(outputs(loop(agent("Writer", prompt=SEEN)), "Writer", CRITIC))
    assert seen == [["tea"], ["tea", "own", "shorter"], ["tea", "own", "warmer"]]


def test_the_critic_sees_the_task_its_last_verdict_and_the_new_draft() -> None:
    critic = agent("Critic", prompt=SEEN)
    seen = given_first(outputs(loop(agent("Writer"), critic), "Critic", {"Writer": ["one", "two", "three"]}))
    assert seen == [["tea", "one"], ["tea", "own", "two"], ["tea", "own", "three"]]


def test_a_window_keeps_its_meaning() -> None:
    seen = outputs(loop(agent("Writer", window=0, prompt=SEEN)), "Writer", CRITIC)
    assert seen == [["tea"], ["shorter"], ["warmer"]]
    seen = given_first(outputs(loop(agent("Writer", window=-1, prompt=SEEN)), "Writer", CRITIC))
    assert seen[2] == ["tea", "own", "shorter", "own", "warmer"]


def test_history_gives_every_round() -> None:
    seen = given_first(outputs(loop(agent("Writer", context="history", prompt=SEEN)), "Writer", CRITIC))
    assert seen == [["tea"], ["tea", "own", "shorter"], ["tea", "own", "shorter", "own", "warmer"]]


def test_message_gives_what_has_arrived() -> None:
    seen = outputs(loop(agent("Writer", context="message", prompt=SEEN)), "Writer", CRITIC)
    assert seen == [["tea"], ["shorter"], ["warmer"]]


def test_the_graph_decides_for_agents_that_say_nothing() -> None:
    workflow = loop(agent("Writer", prompt=SEEN), context="history")
    assert len(outputs(workflow, "Writer", CRITIC)[2]) == 5
    workflow = loop(agent("Writer", window=0, prompt=SEEN), context="history")
    assert outputs(workflow, "Writer", CRITIC)[2] == ["warmer"]


def test_an_edge_that_keeps_messages_is_a_choice_of_its_own() -> None:
    workflow = loop(agent("Writer", prompt=SEEN))
    workflow["graph"]["edges"][1]["keep_message"] = True
    assert outputs(workflow, "Writer", CRITIC) == [["tea"], ["shorter"], ["shorter", "warmer"]]


def test_kept_messages_are_new_once() -> None:
    workflow = loop(agent("Writer", context="history", prompt=SEEN))
    workflow["graph"]["edges"][1]["keep_message"] = True
    assert given_first(outputs(workflow, "Writer", CRITIC))[2] == ["tea", "own", "shorter", "own", "warmer"]


def test_clear_context_clears_own_and_history_but_not_the_task() -> None:
    for policy in ("task", "history"):
        workflow = loop(agent("Writer", context=policy, prompt=SEEN))
        workflow["graph"]["edges"][1]["clear_context"] = True
        assert outputs(workflow, "Writer", CRITIC) == [["tea"], ["tea", "shorter"], ["tea", "warmer"]]
    # The same where the edge is the only one to its target.
    critic = agent("Critic", prompt=SEEN)
    workflow = loop(agent("Writer"), critic)
    workflow["graph"]["edges"][0]["clear_context"] = True
    assert outputs(workflow, "Critic", {"Writer": ["one", "two", "three"]})[1] == ["tea", "two"]


def test_a_text_in_common_is_not_given_twice() -> None:
    seen = given_first(
        outputs(loop(agent("Writer", prompt=SEEN)), "Writer", {"Critic": ["tea", "tea", "tea"]})
    )
    assert seen[1] == ["tea", "own", "tea"]  # the critic may say what the task says
    critic = agent("Critic", prompt=SEEN)
    assert outputs(loop(agent("Writer"), critic), "Critic", {"Writer": ["tea"]})[0] == ["tea"]


def test_outside_of_loops_task_is_message() -> None:
    chain = {
        "graph": {
            "start": "A",
            "end": "B",
            "nodes": [agent("A"), agent("B", context="task", prompt=SEEN)],
            "edges": [{"from": "A", "to": "B"}],
        }
    }
    assert outputs(chain, "B", {"A": ["one"]}) == [["one"]]


def test_templates_know_the_task_and_the_previous_answer() -> None:
    prompt = "{{ task }} / {{ previous }} / {{ text }}"
    said = outputs(loop(agent("Writer", context="message", prompt=prompt)), "Writer", CRITIC)
    assert said == [
        "tea /  / tea",
        "tea / tea /  / tea / shorter",
        "tea / tea / tea /  / tea / shorter / warmer",
    ]
    # Outside of loops the task is the input of the graph.
    assert roundel.run(roundel.Agent("A", prompt="About {{ task }}"), "tea", script={"*": None}).output == ""
    chain = roundel.SequentialAgent(
        "C", [roundel.Agent("A"), roundel.Agent("B", prompt="{{ task }}: {{ text }}")]
    )
    assert roundel.run(chain, "tea", script={"A": "one"}).output == "tea: one"


def test_a_prompt_that_uses_the_text_takes_the_place_of_what_is_new() -> None:
    """The model still gets the task and its own last answer."""
    from roundel.kernel.commands import Call, CallContext
    from roundel.nodes.prompt import Template, build_messages
    from roundel.workflow.message import Message

    inputs = (Message("tea"), Message("draft", "assistant"), Message("shorter"))
    call = Call("W", 0, inputs, None, 1, 2, CallContext("tea", "draft", 1, 1))
    texts = [message.text for message in build_messages(call, Template("Critic: {{ text }}"), False)]
    assert texts == ["tea", "draft", "Critic: shorter"]
    texts = [message.text for message in build_messages(call, Template("{{ messages.size() }}"), False)]
    assert texts == ["3"]
    texts = [message.text for message in build_messages(call, Template("Go on."), False)]
    assert texts == ["tea", "draft", "shorter", "Go on."]


def loop_agent(body: Any, **config: Any) -> Any:
    config = {"strategy": {"mode": "count", "max": 3}, "body": body, **config}
    return {
        "graph": {"start": "L", "end": "L", "nodes": [{"id": "L", "type": "loop_agent", "config": config}]}
    }


def test_the_body_of_a_loop_agent_sees_its_input_as_the_task() -> None:
    seen = given_first(outputs(loop_agent(agent("Writer", prompt=SEEN)), "Writer", {}))
    assert seen == [["tea"], ["tea", "own"], ["tea", "own"]]


def test_a_round_of_author_and_critic() -> None:
    body = {
        "start": "Writer",
        "end": "Critic",
        "nodes": [agent("Writer", prompt=SEEN), agent("Critic")],
        "edges": [{"from": "Writer", "to": "Critic"}],
    }
    seen = given_first(outputs(loop_agent(body), "Writer", CRITIC))
    assert seen == [["tea"], ["tea", "own", "shorter"], ["tea", "own", "warmer"]]


@pytest.mark.parametrize(
    ("context", "second", "third"),
    [
        ("fresh", ['["tea"]'], None),
        ("carry", ["tea", '["tea"]'], ["tea", '["tea"]', '["tea", "[\\"tea\\"]"]']),
        ("task", ["tea", 'own:["tea"]'], None),
    ],
)
def test_a_loop_agent_that_says_what_rounds_get(context: str, second: Any, third: Any) -> None:
    seen = outputs(loop_agent(agent("Writer", prompt=SEEN), context=context), "Writer", {})
    assert seen[:2] == [["tea"], second]
    assert third is None or seen[2] == third


def test_each_element_of_a_list_is_a_task_of_its_own() -> None:
    for width in (1, 2):
        workflow = loop_agent(agent("Writer", prompt=SEEN), strategy={"mode": "array", "max_parallel": width})
        seen = outputs(workflow, "Writer", {}, '["a", "b"]')
        assert sorted(seen) == [["a"], ["b"]]


def test_an_inner_loop_has_its_own_task_at_each_entry() -> None:
    inner = loop(agent("Writer", prompt=SEEN), rounds=2)["graph"]
    nodes = [
        agent("Plan"),
        *inner["nodes"],
        {"id": "Outer", "type": "loop_counter", "config": {"max_iterations": 2}},
    ]
    nodes.append({"id": "End", "type": "passthrough"})
    # What the last round sent to the writer is still there, and would be part of the next task.
    edges = [{"from": "Plan", "to": "Writer", "clear_context": True}, *inner["edges"]]
    pairs = [("Final", "Plan"), ("Final", "Outer"), ("Outer", "Plan"), ("Outer", "End")]
    edges += [{"from": one, "to": other} for one, other in pairs]
    workflow = {"graph": {"start": "Plan", "end": "End", "nodes": nodes, "edges": edges}}
    seen = given_first(
        outputs(workflow, "Writer", {"Plan": ["first", "second"], "Critic": ["a", "b", "c", "d"]})
    )
    assert seen == [["first"], ["first", "own", "a"], ["second"], ["second", "own", "c"]]


def test_an_agent_in_a_subgraph_is_not_in_the_loop_around_it() -> None:
    sub = {"start": "W", "end": "W", "nodes": [agent("W", prompt=SEEN)]}
    node = {"id": "Writer", "type": "subgraph", "config": {"type": "config", "config": sub}}
    assert outputs(loop(node), "W", CRITIC) == [["tea"], ["shorter"], ["warmer"]]


def test_history_outside_of_loops_goes_back_to_the_beginning_of_the_run() -> None:
    sub = {"start": "W", "end": "W", "nodes": [agent("W", context="history", prompt=SEEN)]}
    node = {"id": "Writer", "type": "subgraph", "config": {"type": "config", "config": sub}}
    seen = given_first(outputs(loop(node), "W", CRITIC))
    assert seen[2] == ["tea", "own", "shorter", "own", "warmer"]


def test_parts_of_a_dynamic_edge_have_the_task_and_no_own() -> None:
    workflow = loop(agent("Writer"), agent("Critic", prompt=SEEN), rounds=2)
    workflow["graph"]["edges"][0]["dynamic"] = {
        "type": "map",
        "split": {"type": "regex", "config": {"pattern": r"\w+"}},
    }
    seen = outputs(workflow, "Critic", {"Writer": ["one two", "three four"]})
    assert sorted(map(str, seen)) == sorted(
        map(str, [["tea", word] for word in ("one", "two", "three", "four")])
    )


def test_an_empty_answer_is_asked_for_once_more() -> None:
    result = roundel.run(roundel.Agent("A"), "tea", script={"A": ["", "tea is warm"]})
    assert (result.output, result.usage["model_calls"]) == ("tea is warm", 2)


def test_an_agent_without_an_answer_says_so_in_its_data() -> None:
    warnings: list[Any] = []

    def note(event: Any) -> None:
        if event.event == "warning":
            warnings.append(event.fields()["message"])

    result = roundel.run(roundel.Agent("A"), "tea", script={"A": [""]}, on_event=note)
    assert (result.output, result.data, result.usage["model_calls"]) == ("", {"answered": False}, 2)
    assert warnings == ["the model gave no answer, also when it was called once more"]


def test_no_model_gets_an_empty_answer_as_its_own() -> None:
    script = {"Writer": ["one", "", "", "three"], "Critic": ["shorter", "warmer", "calmer"]}
    prompt = "{{ previous }}"
    workflow = loop(agent("Writer"), agent("Critic", context="message"), rounds=3)
    workflow["graph"]["nodes"][0]["config"]["prompt"] = prompt
    events: list[Any] = []
    roundel.run(workflow, "tea", script=script, on_event=events.append)
    said = [e.fields()["output"] for e in events if e.node_id == "Writer" and node_status(e) == "completed"]
    assert said == ["one", "", "three"]


def test_the_second_call_is_within_the_limits(tmp_path: Path) -> None:
    result = roundel.run(
        roundel.Agent("A"),
        "tea",
        script={"A": ["", "late"]},
        limits={"model_calls": 1},
        store=tmp_path / "runs.db",
    )
    assert result.status == "suspended_locked"


def test_a_run_remembers_across_a_restart(tmp_path: Path) -> None:
    """A process that resumes the run in round 3 gives the agent the same as one that never stopped."""
    workflow = loop(agent("Writer", context="history", prompt=SEEN))
    whole = outputs(workflow, "Writer", CRITIC)

    async def story() -> list[Any]:
        async with Runs(tmp_path / "runs.db") as runs:
            run_id = await runs.start(workflow, "tea", script=CRITIC, breakpoints=["Writer[3]"])
            await runs.result(run_id)
        async with Runs(tmp_path / "runs.db") as runs:
            await runs.resume(run_id)
            events = await runs.events(run_id)
        return [
            e.fields()["output"] for e in events if e.node_id == "Writer" and node_status(e) == "completed"
        ]

    assert [json.loads(one) for one in asyncio.run(story())] == whole


def test_rules_of_version_0_give_what_has_arrived() -> None:
    plan, _ = check_plan(loop(agent("Writer")))
    assert plan is not None
    assert plan.graph.nodes[0].context is not None
    assert compile_workflow(plan.workflow, 0).graph.nodes[0].context is None
    # What a file says itself was not possible then, so it holds.
    plan, _ = check_plan(loop(agent("Writer", context="task")))
    assert plan is not None
    assert compile_workflow(plan.workflow, 0).graph.nodes[0].context is not None
