"""Everything that ships and has a loop, and what its user wants of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from click.testing import CliRunner

from roundel.cli import cli
from tests.docs.manual import ROOT
from tests.reality.audit import NO_NAMES, NO_NEWS, NO_OWN, TWICE
from tests.reality.harness import (
    Started,
    example,
    example_names,
    file,
    manual_loops,
    manual_workflow,
    page_block,
    started_by,
)
from tests.reality.personas import ASKS_BACK, LEAD_IN, NO_WORK, UNTOLD
from tests.reality.provider import Fault
from tests.reality.world import find

Wanted = Callable[[str, str], str]
"""From the result and the task to what is wrong with the result; empty if the user gets what they wanted."""
GOOD_ENDS = (
    "exit_edge",
    "score_threshold_reached",
    "consensus_reached",
    "condition_met",
    "break",
    "exit_loop",
)
"""Reasons for which a loop ends that has reached its goal."""
HALF = 1
"""One of the two things that a first draft lacks."""


class Item(NamedTuple):
    """Something that ships."""

    name: str
    start: Callable[[Path], Started]
    wanted: Wanted
    status: str = "completed"
    ends: tuple[str, ...] = GOOD_ENDS
    """The reasons for which its loops may end."""
    accepts: str = "OK"
    """What a person says who is content."""
    variables: Mapping[str, Any] = {}
    faults: Mapping[int, Fault] = {}
    tasks_from: Mapping[str, str] = {}
    independent: tuple[str, ...] = ()
    expected: Mapping[tuple[str, str], str] = {}
    """Findings of the audit that are right as they are: agent and problem, with the reason."""


# What users want.


def _asked_back(output: str) -> str:
    for words in (ASKS_BACK, NO_WORK, UNTOLD, "What would you like me to do", "What is the question"):
        if words in output:
            return f"the result is a question: {output[:60]}"
    return "" if output.strip() else "the result is empty"


def text(least: int = 2) -> Wanted:
    """A work about the task with so many improvements, and nothing around it."""

    def check(output: str, task: str) -> str:
        work = find(output)
        if asked := _asked_back(output):
            return asked
        if work is None:
            return f"the result is no work: {output[:60]}"
        if not work.is_about(task):
            return f"the result is about something else: {work.topic}"
        if work.improvements < least:
            return f"the result has {work.improvements} of {least} improvements"
        return "the result has a lead-in" if output.strip() != work.text else ""

    return check


def mentions(pattern: str) -> Wanted:
    def check(output: str, task: str) -> str:
        if asked := _asked_back(output):
            return asked
        if not re.search(pattern, output):
            return f"the result does not say {pattern}: {output[:60]}"
        return "the result has a lead-in" if output.startswith(LEAD_IN.strip()) else ""

    return check


def each(one: Callable[[Any], bool], count: int) -> Wanted:
    """A JSON list of so many results."""

    def check(output: str, task: str) -> str:
        try:
            values = json.loads(output)
        except ValueError:
            return f"the result is no list: {output[:60]}"
        if not isinstance(values, list) or len(values) != count:
            return f"the result is no list of {count}: {output[:60]}"
        wrong = [value for value in values if not one(value)]
        return f"a part of the result is wrong: {wrong[0]}"[:90] if wrong else ""

    return check


def nothing(output: str, task: str) -> str:
    """The run is locked before it has a result."""
    return ""


def is_work(value: Any) -> bool:
    """A work alone."""
    work = find(value) if isinstance(value, str) else None
    return work is not None and work.text == value


# The starter, and the page that shows it.


def starter(folder: Path) -> Started:
    """What `roundel new` writes."""
    done = CliRunner().invoke(cli, ["new", str(folder / "tea")])
    assert done.exit_code == 0, done.output
    return Started(folder / "tea.yaml", "a short text about tea")


def readme_yaml(folder: Path) -> Started:
    block = page_block(ROOT / "README.md", "yaml")
    return file(block.text, "a short text about tea", "tea.yaml")(folder)


def readme_python(folder: Path) -> Started:
    starter(folder)
    return started_by(page_block(ROOT / "README.md", "python").text, folder)


def demo(name: str, input: str) -> Callable[[Path], Started]:
    return file((files("roundel") / "demo" / f"{name}.yaml").read_text("utf-8"), input, f"{name}.yaml")


def python_example(folder: Path) -> Started:
    program = ROOT / "examples" / "python_functions" / "build.py"
    return started_by(program.read_text("utf-8"), program.parent)


# The lists.

STARTERS = [
    Item("roundel new", starter, text()),
    Item("README, the file", readme_yaml, text()),
    Item("README, Python", readme_python, text(), ends=("count_reached",)),
]

INNER = {"Coder": "Planner", "Tester": "Planner"}
DEMOS = [
    Item("demo polish", demo("polish", "a line that sells tea"), text()),
    Item(
        "demo circles",
        demo("circles", "Find a day for the launch."),
        nothing,
        status="suspended_locked",
        expected={(name, TWICE): "they repeat themselves, which is the story" for name in ("Ann", "Ben")},
    ),
    Item("demo slogan", demo("slogan", "a slogan for a tea house by the sea"), text()),
    Item(
        "demo parser",
        demo("parser", "a parser for durations such as 2h 30m"),
        text(),
        tasks_from=INNER,
        expected={("Coder", NO_NAMES): "the gate hands on the tester's note under its own name"},
    ),
    Item("demo letter", demo("letter", "an invitation to tea"), text()),
]

EXAMPLES: dict[str, dict[str, Any]] = {
    "analyst": {"wanted": mentions(r"Ordered \d+ grams"), "ends": ()},
    "batch": {"wanted": each(is_work, 2), "ends": ("array_done",), "independent": ("Writer", "Editor")},
    "debate": {"wanted": mentions("Friday|Monday")},
    "debugging": {"wanted": text()},
    "fallback": {
        "wanted": text(0),
        "faults": {1: "400", 2: "400", 3: "400"},
        "ends": ("max_iterations_reached",),
    },
    "fan_out": {
        "wanted": mentions(r"Answer to .*part 1.*Answer to .*part 2"),
        "ends": (),
        "independent": ("Researcher", "Summariser"),
    },
    "human_review": {"wanted": text()},
    "nested_loops": {"wanted": text(), "tasks_from": INNER},
    "polish": {"wanted": text()},
    "python_functions": {"wanted": mentions("^Please! About a sign")},
    "review_loop": {"wanted": text()},
    "subgraph": {"wanted": text()},
    "timer": {
        "wanted": mentions(r"\d+ km: the shortest way"),
        "ends": ("max_duration_reached",),
        "variables": {"SECONDS": 0.001},
    },
    "voting": {"wanted": mentions("^8$"), "ends": (), "independent": ("Anna/Ben/Cem",)},
}

TEA = "a short text about tea"
LINE = "Tea is warm and good on cold days at home"
_LOCKS: dict[str, Any] = {"wanted": nothing, "status": "suspended_locked"}
MANUAL: dict[str, dict[str, Any]] = {
    "debate/council.yaml": {"input": "When?", "wanted": mentions("Friday|Monday")},
    "loop-agent/topics.yaml": {
        "wanted": each(is_work, 2),
        "ends": ("array_done",),
        "independent": ("Author",),
    },
    "loop/gate.yaml": {"wanted": text(), "ends": ("score_threshold_reached", "max_rounds_reached")},
    "debate/judged.yaml": {
        "input": "When?",
        "wanted": mentions("Friday|Monday"),
        "expected": {
            ("Ada", NO_NEWS): "what the judge says is no part of the debate",
            ("Judge", NO_OWN): "the judge decides about each round anew",
        },
    },
    "debugging/slogan.yaml": {"wanted": text(HALF), "ends": ("max_rounds_reached",)},
    "editor/tea.yaml": {"wanted": text(), "accepts": "ACCEPT"},
    "editor/guarded.yaml": {"wanted": text(), "accepts": "ACCEPT"},
    "events/letter.yaml": {"wanted": text()},
    "events/circle.yaml": {**_LOCKS, "input": "where is my tea?"},
    # A text that only loses words says nothing new, so the breaker takes it for a dead loop.
    "extending/shorten.yaml": {**_LOCKS, "input": LINE},
    "failures/chapters.yaml": {
        "input": '["green tea", "black tea"]',
        "wanted": each(is_work, 2),
        "ends": ("array_done",),
        "independent": ("Write", "Editor/Write"),
    },
    "failures/patient.yaml": {"wanted": text(0), "faults": {1: "400"}},
    "failures/menu.yaml": {
        "input": '["green tea", "black tea"]',
        "wanted": each(is_work, 2),
        "ends": ("array_done",),
        "independent": ("Line",),
    },
    "limits/budget.yaml": {"wanted": text()},
    # Nobody criticises this writer. Once its text lacks nothing it repeats itself, which the breaker notices.
    "limits/rehearsal.yaml": {**_LOCKS},
    "limits/polite.yaml": {**_LOCKS, "input": "When do we launch?"},
    "loop-agent/count.yaml": {"input": LINE, "wanted": mentions("(?i)tea"), "ends": ("count_reached",)},
    "loop-agent/until.yaml": {"wanted": text(HALF), "ends": ("max_rounds_reached",)},
    "loop-agent/each.yaml": {"wanted": each(is_work, 2), "ends": ("array_done",), "independent": ("Reader",)},
    "loop-agent/ratings.yaml": {
        "input": '["a haiku", "a sonnet"]',
        "wanted": each(lambda value: isinstance(value, dict) and "score" in value, 2),
        "ends": ("array_done",),
        "independent": ("Critic",),
    },
    "loop-agent/search.yaml": {"wanted": mentions("(?i)tea"), "ends": ("strategy_ended",)},
    "loop-agent/files.yaml": {
        "input": '["green tea", "black tea"]',
        "wanted": each(is_work, 2),
        "ends": ("array_done",),
        "independent": ("Editor", "Reader", "Editor/Reader"),
    },
    "loop/plateau.yaml": {"wanted": text(), "ends": ("plateau_reached", "max_rounds_reached")},
    "loops/notes.yaml": {"wanted": text()},
    "proof/rounds.yaml": {"wanted": text()},
    "proof/retry.yaml": {"wanted": text(0), "faults": {1: "400"}},
    "proof/chosen.yaml": {"wanted": text(), "accepts": "ACCEPT"},
    "proof/ways.yaml": {"wanted": text()},
    "python/build.py": {"wanted": text()},
    "python/polish.py": {"wanted": text()},
    "tools/polish.yaml": {"wanted": text(), "ends": ("it is good",)},
    "tools/Polish": {"wanted": mentions("(?i)tea"), "ends": ("accepted",)},
}
NOT_STARTED: dict[str, str] = {
    "workflow-files/verdict.yaml": "shows which edge a verdict takes; its end says no more than that",
    "agents/context.yaml": "shows what an agent is given; its prompt asks the model for nothing",
    "loops/quiet.yaml": "shows how a loop ends whose reviewer says neither of its words",
    "proof/tired.yaml": "shows a guard that does not bound its loop",
    "proof/late.yaml": "shows a guard that counts further than the cap",
    "running/memory.yaml": "shows which messages a function gets; the words of its agent do not matter",
}
"""Loops of the manual that nobody would start with a model, with the reason."""


def _manual() -> list[Item]:
    items = []
    for name, (page, block) in manual_loops().items():
        if name in NOT_STARTED:
            continue
        given = dict(MANUAL[name])
        items.append(Item(f"manual {name}", manual_workflow(page, block, given.pop("input", TEA)), **given))
    return items


def shipped() -> list[Item]:
    """The templates of the editor are the examples (server/examples.py)."""
    examples = [Item(f"example {name}", example(name), **EXAMPLES[name]) for name in example_names()]
    built = Item("example python_functions, Python", python_example, EXAMPLES["python_functions"]["wanted"])
    return [*STARTERS, *DEMOS, *examples, built, *_manual()]
