"""The harness itself: a loop that shows its agents everything passes, and a blind one does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reality.audit import NO_OWN, NO_TASK
from tests.reality.harness import file
from tests.reality.shipped import Item, text
from tests.reality.test_shipped import judge

TASK = "a short text about tea"
LOOP = """
models: {default: {model: "openai:gpt-4o"}}
graph:
  nodes:
    - id: Writer
      type: agent
      config: {role: "Write a short text. Revise it as the critic says. Answer with the text alone."}
      context_window: WINDOW
    - id: Critic
      type: agent
      config: {role: "Criticise the text, or begin with ACCEPT."}
      context_window: WINDOW
    - {id: Guard, type: loop_counter, config: {max_iterations: 5}}
    - {id: Task, type: passthrough}
    - {id: Final, type: passthrough}
  edges:
    - {from: Task, to: Writer, keep_message: true}
    - {from: Task, to: Critic, trigger: false, keep_message: true}
    - {from: Writer, to: Critic}
    - {from: Writer, to: Final, trigger: false, clear_context: true}
    - {from: Critic, to: Final, condition: {cel: 'text.startsWith("ACCEPT")'}, carry_data: false}
    - {from: Critic, to: Writer, condition: {cel: '!text.startsWith("ACCEPT")'}}
    - {from: Critic, to: Guard, condition: {cel: '!text.startsWith("ACCEPT")'}}
    - {from: Guard, to: Writer}
    - {from: Guard, to: Final, carry_data: false}
  start: Task
  end: Final
"""
SEEING = LOOP.replace("WINDOW", "-1")
BLIND = LOOP.replace("WINDOW", "0").replace(", keep_message: true", "")


@pytest.mark.parametrize("chatty", [False, True], ids=["plain", "chatty"])
def test_a_loop_that_shows_everything_converges(
    chatty: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict = judge(Item("seeing", file(SEEING, TASK), text()), chatty, tmp_path, monkeypatch)
    assert (verdict.problems, verdict.findings) == ([], [])


def test_a_blind_loop_is_told_from_one_that_sees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = judge(Item("blind", file(BLIND, TASK), text()), False, tmp_path, monkeypatch)
    assert "the result is a question" in verdict.problems[0]
    found = {(one.agent, one.problem) for one in verdict.findings}
    assert {("Writer", NO_TASK), ("Writer", NO_OWN)} <= found


def test_only_expected_findings_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {("Writer", NO_TASK): "a reason"}
    item = Item("blind", file(BLIND, TASK), text(), expected=expected)
    found = {(one.agent, one.problem) for one in judge(item, False, tmp_path, monkeypatch).findings}
    assert ("Writer", NO_TASK) not in found
    assert ("Writer", NO_OWN) in found
