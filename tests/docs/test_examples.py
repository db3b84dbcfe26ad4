"""Every example runs offline and without delays, and ends as its description says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.offline import EXAMPLES, copy_examples

NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/workflow.yaml"))
ENDS: dict[str, dict[str, Any]] = {
    "analyst": {
        "output": "Oolong sells better every day. I have ordered some; of green there is enough.",
        "data": {"stop_reason": "answered", "answered": True, "tool_rounds": 2},
    },
    "batch": {
        "output": '["Green: heated at once.", "Black: left in the air.", "Oolong: stopped halfway.", '
        '"White: only dried."]',
        "nodes": {"Planner": 1, "Sections": 1, "Writer": 4, "Editor": 4, "Final": 1},
    },
    "debate": {
        "output": "The release is tomorrow at nine, once the tests have passed.",
        "loops": {"Council": {"rounds": 3, "exit_reason": "consensus_reached", "entries": 1}},
    },
    "debugging": {
        "status": "paused",
        "pause": {"reason": "breakpoint", "address": "Writer[2]/Writer", "breakpoint": "Writer[2]"},
    },
    "fallback": {
        "output": "Steam, and then the afternoon.",
        "loops": {"Writer": {"rounds": 2, "exit_reason": "error", "entries": 1}},
    },
    "fan_out": {"nodes": {"Editor": 1, "Researcher": 5, "Summariser": 3}},
    "human_review": {"output": "Please come to tea on Sunday at four."},
    "nested_loops": {
        "output": "def total(xs): return sum(xs)",
        "loops": {
            "Planner": {"rounds": 2, "exit_reason": "exit_edge", "entries": 1},
            "Coder": {"rounds": 3, "exit_reason": "exit_edge", "entries": 2},
        },
    },
    "polish": {
        "output": "Picked before the sun is up. Yours by four.",
        "loops": {"Writer": {"rounds": 4, "exit_reason": "score_threshold_reached", "entries": 1, "best": 4}},
    },
    "python_functions": {"output": "Please close the door", "data": {"words": 4}},
    "review_loop": {
        "output": "Tea has travelled further than most people, and it arrives every afternoon at four.",
        "nodes": {"Writer": 3, "Reviewer": 3, "Loop Guard": 2, "Final": 1},
    },
    "subgraph": {"output": "steam above the cup\na leaf opens like a hand\nthe afternoon waits"},
    "timer": {},
    "voting": {"output": "8"},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return copy_examples(tmp_path).parent


def roundel(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return python(folder, "-m", "roundel", *arguments)


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def run(folder: Path, name: str, script: str = "script.yaml", *more: str) -> dict[str, Any]:
    """What the last line of the run says."""
    example = f"examples/{name}"
    scripted = ("--script", f"{example}/{script}", "--input", "tea", "--json", *more)
    done = roundel(folder, "run", f"{example}/workflow.yaml", *scripted)
    last: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])["data"]
    return last


def test_every_example_is_tested() -> None:
    assert set(NAMES) == set(ENDS)


@pytest.mark.parametrize("name", NAMES)
def test_example_passes_check_and_gives_the_expected_result(name: str, folder: Path) -> None:
    # With a model, since most examples leave it to those who run them.
    model = ("--model", "openai:gpt-4o")
    checked = roundel(folder, "check", "--strict", *model, f"examples/{name}/workflow.yaml")
    assert checked.returncode == 0, checked.stderr
    end = run(folder, name)
    assert end["status"] == ENDS[name].get("status", "completed"), end
    assert {key: end[key] for key in ENDS[name]} == ENDS[name]


@pytest.mark.parametrize("name", NAMES)
def test_example_header_shows_the_run_command(name: str) -> None:
    text = (EXAMPLES / name / "workflow.yaml").read_text(encoding="utf-8")
    head = "".join(line.removeprefix("#") for line in text.splitlines(keepends=True) if line.startswith("#"))
    commands = re.sub(r"\\\n +", "", head)
    example = f"examples/{name}"
    assert f"roundel run {example}/workflow.yaml --script {example}/script.yaml --input" in commands


def test_review_loop_ends_by_its_guard(folder: Path) -> None:
    end = run(folder, "review_loop", "script.yaml", "--var", "ROUNDS=2")
    assert end["output"] == "Tea is a drink that has travelled further than most people."
    assert end["loops"]["Writer"]["exit_reason"] == "max_iterations_reached"


def test_polish_example_outputs_the_best_round(folder: Path) -> None:
    end = run(folder, "polish", "script.yaml", "--var", "ROUNDS=3")
    assert end["output"] == "Our tea is picked before the sun is up."
    assert end["loops"]["Writer"]["exit_reason"] == "max_rounds_reached"


def test_human_review_example_waits_for_input(folder: Path) -> None:
    end = run(folder, "human_review", "writer_only.yaml")
    assert end["status"] == "waiting"


def test_analyst_example_orders_only_after_approval(folder: Path) -> None:
    end = run(folder, "analyst")
    (orders,) = folder.glob(".roundel/work/*/orders.json")
    (order,) = json.loads(orders.read_text(encoding="utf-8")).values()
    assert order == {"tea": "oolong", "grams": 3000}
    assert end["usage"]["tool_calls"] == 3
    script = folder / "examples" / "analyst" / "script.yaml"
    script.write_text("\n".join(script.read_text().split("Analyst/order")[:1]), encoding="utf-8")
    assert run(folder, "analyst")["status"] == "waiting"
    assert len(list(folder.glob(".roundel/work/*/orders.json"))) == 1


def test_debugging_example_is_stepped_edited_and_ended(folder: Path) -> None:
    run(folder, "debugging")
    stepped = roundel(folder, "step", "last")
    assert "Writer[2]/Writer  completed  The tea that everybody drinks at four." in stepped.stderr
    assert "paused: step at Writer[3]/Writer" in roundel(folder, "step", "last", "--round").stderr
    assert 'breakpoint cel: node == "Printer"' in roundel(folder, "resume", "last").stderr
    assert roundel(folder, "edit", "last", "Tea. At four.").returncode == 0
    ended = roundel(folder, "resume", "last")
    assert (ended.returncode, ended.stdout) == (0, "Tea. At four.\n"), ended.stderr


def test_fallback_example_is_taken_up_after_both_models_failed(folder: Path) -> None:
    failed = run(folder, "fallback", "down.yaml")
    assert (failed["status"], failed["error"]) == ("failed", "Spare: no answer after 60 seconds")
    assert failed["loops"]["Writer"]["exit_reason"] == "max_iterations_reached"
    retried = roundel(folder, "retry", "last")
    assert (retried.returncode, retried.stdout) == (0, "Steam, and then the afternoon.\n"), retried.stderr


def test_timed_loop_ends_by_its_timer(folder: Path) -> None:
    end = run(folder, "timer", "script.yaml", "--var", "SECONDS=0.2")
    assert end["loops"]["Searcher"] == {"rounds": 2, "exit_reason": "max_duration_reached", "entries": 1}


def test_python_example_gives_the_same_result_as_the_file(folder: Path) -> None:
    done = python(folder, "examples/python_functions/build.py")
    assert done.stdout == "completed after 3 rounds: Please close the door\n", done.stderr
    assert run(folder, "python_functions")["loops"]["Writer"]["rounds"] == 3


def test_subgraph_example_runs_on_its_own(folder: Path) -> None:
    example = "examples/subgraph"
    given = ("--script", f"{example}/script.yaml", "--var", "LANGUAGE=English")
    done = roundel(folder, "run", f"{example}/polish.yaml", *given, "--input", "x")
    assert done.stdout == "steam above the cup\na leaf opens like a hand\nthe afternoon waits\n", done.stderr
