"""A stored run means the same on a machine whose libraries decide otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.hosts.stored_run import open_run, read_events
from roundel.journal.sqlite import SqliteStore
from roundel.kernel import dead_loop, token_surge
from roundel.nodes import consensus, vote
from roundel.nodes.agreement import is_agreement
from roundel.nodes.consensus import Ballot
from roundel.workflow.condition import Keyword
from roundel.workflow.expression import Expression
from roundel.workflow.fan_out import RegexSplit
from roundel.workflow.processor import RegexExtract
from tests.journal.stores import using

Workflow = Mapping[str, Any]
found_something_out = dead_loop.LoopHistory._has_new_result


def agent(name: str) -> dict[str, Any]:
    return {"id": name, "type": "agent"}


def loop_agent(strategy: dict[str, Any]) -> dict[str, Any]:
    return {"id": "L", "type": "loop_agent", "config": {"strategy": strategy, "body": agent("B")}}


def edge(source: str, target: str, **more: Any) -> dict[str, Any]:
    return {"from": source, "to": target, **more}


def graph(nodes: list[dict[str, Any]], edges: list[dict[str, Any]] = [], **more: Any) -> Workflow:  # noqa: B006
    return {"graph": {"nodes": nodes, "edges": edges, "start": nodes[0]["id"], **more}}


PATTERN = {"type": "keyword", "config": {"regex": ["go{2}d"]}}
FOLDED = {"type": "keyword", "config": {"any": ["STRASSE"], "case_sensitive": False}}
EXTRACT = {"type": "regex_extract", "config": {"pattern": "<(.*?)>", "group": 1}}
SPLIT = {"type": "map", "split": {"type": "regex", "config": {"pattern": r"\w+"}}}
COUNTER = {"id": "Guard", "type": "loop_counter", "config": {"max_iterations": 3}}
UNTIL = {"mode": "condition", "until": "text.contains('3')", "max": 9}
ITEMS = {"mode": "array", "items": "data.words"}
DEBATE: dict[str, Any] = {"agent_pairs": [["Ann", "Ben"], ["Ben", "Ann"]], "exit_condition": "consensus"}
DEBATE |= {"participants": [agent("Ann"), agent("Ben")]}
VOTE = {"participants": [agent("Ann"), agent("Ben")]}

CASES: dict[str, tuple[Workflow, dict[str, Any]]] = {
    "pattern": (
        graph(
            [agent("Writer"), agent("Critic"), agent("End"), COUNTER],
            [
                edge("Writer", "Critic"),
                edge("Critic", "End", condition=PATTERN),
                edge("Critic", "Writer", condition={"cel": "!text.contains('good') && round < 9"}),
                edge("Critic", "Guard", condition={"cel": "!text.contains('good')"}),
                edge("Guard", "Writer"),
                edge("Guard", "End"),
            ],
            end="End",
        ),
        {"Writer": ["one", "two"], "Critic": ["bad", "good"], "End": "done"},
    ),
    "case": (
        graph([agent("A"), agent("B")], [edge("A", "B", condition=FOLDED)]),
        {"A": "straße", "B": "here"},
    ),
    "processor": (
        graph([agent("A"), agent("B")], [edge("A", "B", process=EXTRACT)]),
        {"A": "see <this> and <that>", "B": "done"},
    ),
    "split": (
        graph([agent("A"), agent("B")], [edge("A", "B", dynamic=SPLIT)]),
        {"A": "three short words", "B": "done"},
    ),
    "failing condition": (
        graph([agent("A"), agent("B")], [edge("A", "B", condition={"cel": "data.score > 3"})]),
        {"A": "no score", "B": "done"},
    ),
    "until": (graph([loop_agent(UNTIL)]), {"B": ["1", "2", "3", "4"]}),
    "items": (
        graph([agent("A"), loop_agent(ITEMS)], [edge("A", "L")]),
        {"A": {"text": "", "data": {"words": ["x", "y"]}}, "B": ["1", "2"]},
    ),
    "debate": (
        graph([{"id": "D", "type": "debate", "config": DEBATE}]),
        {"Ann": ["No.", "I agree"], "Ben": ["Yes.", "I agree"]},
    ),
    "vote": (
        graph([{"id": "V", "type": "vote", "config": VOTE}]),
        {"Ann": "yes", "Ben": "no"},
    ),
    "dead loop": (
        graph(
            [agent("A"), agent("B"), agent("End")],
            [edge("A", "B"), edge("B", "A", condition=PATTERN), edge("B", "End", condition=FOLDED)],
        ),
        {"A": "the same thing as before, again", "B": "a good thing, and always the same one"},
    ),
}


def turned(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decides the opposite, as far as there is one."""

    def other(*arguments: Any, **named: Any) -> Any:
        result = function(*arguments, **named)
        if isinstance(result, bool):
            return not result
        return 1.0 - result if isinstance(result, float) else None

    return other


@pytest.fixture
def other_machine(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Turns this process into one whose pattern, CEL, Unicode and breaker code decide otherwise."""

    def patch() -> None:
        monkeypatch.setattr(Expression, "evaluate", turned(Expression.evaluate))
        monkeypatch.setattr(dead_loop, "judge", lambda *_arguments: ("new", 1.0))
        monkeypatch.setattr(dead_loop.LoopHistory, "_has_new_result", turned(found_something_out))
        monkeypatch.setattr(token_surge, "expected_calls", lambda plan: (1, [1] * len(plan.sites)))
        monkeypatch.setattr(consensus, "is_agreement", turned(is_agreement))
        monkeypatch.setattr(vote, "read_ballot", lambda *_arguments: Ballot("abstain"))
        monkeypatch.setattr(RegexExtract, "process", lambda _self: lambda _message: None)
        monkeypatch.setattr(RegexSplit, "texts", lambda _self, _message: [])
        test = Keyword.test
        monkeypatch.setattr(Keyword, "test", lambda self: turned(test(self)))

    return patch


@pytest.mark.parametrize("case", CASES)
def test_a_stored_run_is_read_as_it_happened(
    case: str, tmp_path: Path, other_machine: Callable[[], None]
) -> None:
    workflow, script = CASES[case]

    async def story(store: SqliteStore) -> None:
        shown: list[Any] = []
        result = await roundel.run_async(workflow, "go", script=script, store=store, on_event=shown.append)
        before = await open_run(store, result.run_id)
        other_machine()
        assert await read_events(store, result.run_id) == [event for event in shown if event.seq]
        after = await open_run(store, result.run_id)
        assert after.state.status == before.state.status == result.status
        assert after.state.summary() == before.state.summary()

    asyncio.run(using(tmp_path / "runs.db", story))
