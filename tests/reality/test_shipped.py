"""Everything that we ship does with a real model what its user wants, and shows each agent what it needs."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from roundel.workflow import functions
from tests.docs.test_examples import NAMES
from tests.reality.audit import Finding, audit
from tests.reality.harness import Played, manual_loops, play
from tests.reality.provider import Provider
from tests.reality.shipped import EXAMPLES, MANUAL, NOT_STARTED, Item, shipped

ITEMS = shipped()


class Verdict(NamedTuple):
    played: Played
    problems: list[str]
    """What a user would complain about."""
    findings: list[Finding]
    """What agents were not shown, besides what is expected."""


def judge(item: Item, chatty: bool, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Verdict:
    with Provider(chatty=chatty, faults=item.faults) as provider:
        provider.set_environment(monkeypatch)
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.setattr(functions, "_entry_points", {})  # those of packages that the manual installs
        started = item.start(folder)
        played = play(started, provider, folder, accepts=item.accepts, variables=item.variables)
    result = played.result
    cast = played.cast._replace(tasks_from=item.tasks_from, independent=item.independent)
    problems = []
    if result.status != item.status:
        lock = result.summary.get("lock") or {}
        problems.append(f"it is {result.status}: {result.error or lock.get('what', '')}")
    elif wrong := item.wanted(result.output, started.input):
        problems.append(wrong)
    if result.status == "completed":
        ends = {name: loop["exit_reason"] for name, loop in result.loops.items()}
        problems += [f"loop {name} ended: {why}" for name, why in ends.items() if why not in item.ends]
    findings = audit(provider.record, cast)
    return Verdict(
        played, problems, [one for one in findings if (one.agent, one.problem) not in item.expected]
    )


@pytest.mark.parametrize("chatty", [False, True], ids=["plain", "chatty"])
@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.name)
def test_what_ships_works_with_a_model(
    item: Item, chatty: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict = judge(item, chatty, tmp_path, monkeypatch)
    lines = [f"{one.agent}: {one.problem} (requests {one.requests})" for one in verdict.findings]
    assert not verdict.problems + lines, "\n".join(verdict.problems + lines)


def test_the_list_is_complete() -> None:
    assert set(EXAMPLES) == set(NAMES)
    assert set(MANUAL) | set(NOT_STARTED) == set(manual_loops())
