"""Runs that pause at breakpoints, take steps and have their messages edited, on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.cli import stored_runs
from tests.cli.stored_runs import Process, has_started, open_gate, prepare, roundel, runs
from tests.cli.test_safe_output import CANARY, is_safe
from tests.events import timeless

FLOW = """
graph:
  id: essay
  start: Writer
  end: Final
  nodes:
    - {id: Writer, type: agent}
    - {id: Critic, type: agent}
    - {id: Guard, type: loop_counter, config: {max_iterations: 3}}
    - {id: Final, type: passthrough}
  edges:
    - {from: Writer, to: Critic}
    - {from: Writer, to: Final, trigger: false, clear_context: true}
    - {from: Critic, to: Writer}
    - {from: Critic, to: Guard}
    - {from: Guard, to: Writer}
    - {from: Guard, to: Final, carry_data: false}
"""
SCRIPT = """
Writer: [draft one, draft two, draft three]
Critic:
  - {text: too short, data: {score: 40}}
  - {text: too long, data: {score: 60}}
  - {text: fine, data: {score: 90}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flow.yaml").write_text(FLOW)
    (tmp_path / "script.yaml").write_text(SCRIPT)
    return tmp_path


def run(folder: Path, *more: str) -> Result:
    return roundel(folder, "run", "flow.yaml", "--script", "script.yaml", "--input", "tea", *more)


def newest(folder: Path) -> str:
    run_id: str = runs(folder)[0]["run_id"]
    return run_id


def events(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def queues(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The waiting messages of the newest run, by address."""
    listed = json.loads(roundel(folder, "edit", "last", "--json").stdout)
    return {queue["address"]: queue["messages"] for queue in listed}


def breakpoints(folder: Path) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(roundel(folder, "break", "last", "--json").stdout)
    return listed


# Pausing and stepping.


def test_a_breakpoint_pauses_the_run_and_the_output_says_where(folder: Path) -> None:
    paused = run(folder, "--break", "Critic")
    assert (paused.exit_code, paused.stdout) == (4, "")
    *_, outcome, ready, following = paused.stderr.splitlines()
    assert outcome.startswith("paused: breakpoint Critic at Writer[1]/Critic after ")
    assert ready == "ready: Writer[1]/Critic (breakpoint Critic): it has messages from 'Writer'"
    assert following == f"next: roundel step {newest(folder)}"
    log = roundel(folder, "log", "last")
    assert log.stdout.splitlines()[-1].endswith("paused  breakpoint Critic at Writer[1]/Critic")
    assert log.stderr == f"next: roundel step {newest(folder)}\n"
    assert roundel(folder, "runs").stderr.endswith(f"next: roundel step {newest(folder)}\n")


def test_a_step_runs_one_node_and_the_last_one_ends_the_run(folder: Path) -> None:
    run(folder, "--break", "Writer[3]/Critic")
    steps = [roundel(folder, "step", "last") for _ in range(3)]
    assert [[line for line in step.stderr.splitlines() if "  completed" in line] for step in steps] == [
        ["Writer[3]/Critic  completed  fine"],
        ["Writer[3]/Guard  completed  Loop limit reached (3)"],
        ["Final  completed  draft three"],
    ]
    assert [step.exit_code for step in steps] == [4, 4, 0]
    assert steps[-1].stdout == "draft three\n"
    assert steps[-1].stderr.endswith(f"next: roundel log {newest(folder)}\n")
    shown = roundel(folder, "log", "last").stdout
    assert "paused  step at Writer[3]/Guard\n" in shown
    assert "running  step\n" in shown


def test_a_step_to_the_next_round_stops_at_a_breakpoint_on_the_way(folder: Path) -> None:
    run(folder, "--paused")
    second = roundel(folder, "step", "last", "--round")
    assert second.exit_code == 4
    assert "paused: step at Writer[2]/Writer after" in second.stderr
    assert roundel(folder, "break", "last", "Guard").exit_code == 0
    on_the_way = roundel(folder, "step", "last", "--round")
    assert "paused: breakpoint Guard at Writer[2]/Guard after" in on_the_way.stderr
    assert "paused: step at Writer[3]/Writer" in roundel(folder, "step", "last", "--round").stderr
    assert "breakpoint Guard at Writer[3]/Guard" in roundel(folder, "resume", "last").stderr
    # The loop ends, so the step ends before the first node after it.
    assert "paused: step at Final after" in roundel(folder, "step", "last", "--round").stderr
    assert roundel(folder, "step", "last", "--round").exit_code == 0


def test_a_run_that_is_started_paused_has_run_no_node(folder: Path) -> None:
    paused = run(folder, "--paused", "--break", "Final")
    assert paused.exit_code == 4
    assert "completed" not in paused.stderr
    assert "paused at Writer[1]/Writer after" in paused.stderr
    assert "ready: Writer[1]/Writer: round 1 of 'Writer' begins, with the input\n" in paused.stderr
    assert roundel(folder, "log", "last").stdout.splitlines()[-1].endswith("  paused  at Writer[1]/Writer")
    resumed = roundel(folder, "resume", "last")
    assert resumed.exit_code == 4
    assert "breakpoint Final at Final" in resumed.stderr
    assert roundel(folder, "resume", "last").stdout == "draft three\n"


def test_all_ready_nodes_are_listed_in_the_order_of_steps(folder: Path) -> None:
    (folder / "flow.yaml").write_text(
        """
graph:
  start: [B, A]
  end: C
  nodes: [{id: B, type: agent}, {id: A, type: agent}, {id: C, type: passthrough}]
  edges: [{from: A, to: C}, {from: B, to: C}]
"""
    )
    (folder / "script.yaml").write_text('"*": hello')
    paused = run(folder, "--break", "B")
    assert paused.stderr.splitlines()[-3:-1] == [
        "ready: B (breakpoint B): it has the input of its graph",
        "       A: it has the input of its graph",
    ]
    assert "B  completed  hello" in roundel(folder, "step", "last").stderr


def test_json_has_the_place_of_the_pause(folder: Path) -> None:
    condition = 'cel: round == 2 && node == "Writer"'
    paused = run(folder, "--break", condition, "--json")
    assert paused.exit_code == 4
    *_, changed, summary = events(paused)
    place = {"reason": "breakpoint", "address": "Writer[2]/Writer", "breakpoint": condition}
    assert changed["event"] == "run_state_change"
    assert timeless(changed["data"]) == {"status": "paused", "cause": "breakpoint", **place}
    assert (summary["event"], summary["data"]["pause"]) == ("run_summary", place)
    assert "ready:" not in paused.stderr
    stepped = roundel(folder, "step", "last", "--json")
    assert stepped.exit_code == 4
    first, *_, last = events(stepped)
    assert first["seq"] == changed["seq"] + 1
    changed_to = {name: first["data"][name] for name in ("status", "reason", "cause")}
    assert changed_to == {"status": "running", "reason": "step", "cause": "step"}
    assert last["data"]["pause"] == {"reason": "step", "address": "Writer[2]/Critic"}


def test_breakpoints_of_the_file_apply_to_every_run(folder: Path) -> None:
    (folder / "flow.yaml").write_text("debug: {break_at: ['Writer[2]', {cel: 'node == \"Final\"'}]}" + FLOW)
    assert "breakpoint Writer[2] at Writer[2]/Writer" in run(folder).stderr
    assert 'breakpoint cel: node == "Final" at Final' in roundel(folder, "resume", "last").stderr
    assert [state["hits"] for state in breakpoints(folder)] == [1, 1]
    refused = run(folder, "--no-store")
    assert refused.exit_code == 2
    assert "it has to be stored" in refused.stderr and "`debug` in the workflow" in refused.stderr


def test_a_step_to_a_question_leads_to_the_answer(tmp_path: Path) -> None:
    prepare(tmp_path)
    stored_runs.run(tmp_path, "--break", "Editor")
    asked = roundel(tmp_path, "step", "last")
    assert asked.exit_code == 4
    assert asked.stderr.endswith(
        f"open question: Writer[1]/Editor\nnext: roundel answer {newest(tmp_path)}\n"
    )
    again = roundel(tmp_path, "step", "last")
    assert again.exit_code == 1
    assert "nothing is ready: the run waits for an answer" in again.stderr
    assert again.stderr.endswith(f"next: roundel answer {newest(tmp_path)}\n")
    answered = roundel(tmp_path, "answer", "last", "OK")
    assert answered.exit_code == 0
    assert answered.stderr == f"answered\nnext: roundel step {newest(tmp_path)}\n"
    ended = roundel(tmp_path, "step", "last")
    assert (ended.exit_code, ended.stdout) == (0, "first draft\n")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--break", "Critc"], "the workflow has no such node; did you mean 'Critic'?"),
        (["--break", "Critic[2]"], "the workflow has no such loop; known loops: Writer"),
        (["--break", "Writer[0]"], "rounds count from 1"),
        (["--break", "Nowhere[1]/Critic"], "no breakpoint can be at 'Nowhere'"),
        (["--break", "cel: round >"], "cannot read `round >`"),
        (["--break", "cel: score > 3"], "uses the name 'score', which is not known here"),
        (["--break", "{cell: 'round > 3'}"], "is no breakpoint"),
        (["--break", ""], "is no breakpoint"),
        (["--break", "Critic", "--no-store"], "a run that pauses has to be stored; leave out --no-store"),
        (["--paused", "--no-store"], "a run that pauses has to be stored; leave out --no-store"),
    ],
)
def test_wrong_breakpoint_of_a_run_is_bad_usage(folder: Path, words: list[str], expected: str) -> None:
    refused = run(folder, *words)
    assert refused.exit_code == 2
    assert expected in refused.stderr
    assert refused.stderr.endswith("next: roundel run --help\n")
    assert not (folder / ".roundel").exists(), "nothing was started"


# Steps that are refused.


def test_a_finished_run_takes_no_step(folder: Path) -> None:
    assert run(folder).exit_code == 0
    for words in (["step", "last"], ["step", "last", "--round"]):
        refused = roundel(folder, *words)
        assert refused.exit_code == 1
        assert f"Error: run {newest(folder)} is over: it is completed" in refused.stderr
    changed = roundel(folder, "break", "last", "Critic")
    assert changed.exit_code == 1
    assert "is completed" in changed.stderr


def test_a_waiting_run_takes_no_step(tmp_path: Path) -> None:
    prepare(tmp_path)
    assert stored_runs.run(tmp_path).exit_code == 4
    refused = roundel(tmp_path, "step", "last")
    assert refused.exit_code == 1
    assert "waits for an answer at Writer[1]/Editor" in refused.stderr
    assert refused.stderr.endswith(f"next: roundel answer {newest(tmp_path)}\n")


def test_a_locked_run_takes_no_step(folder: Path) -> None:
    assert run(folder, "--limit", "steps=2").exit_code == 3
    refused = roundel(folder, "step", "last")
    assert refused.exit_code == 1
    assert f"is locked; `roundel unlock {newest(folder)}` unlocks it\n" in refused.stderr
    assert refused.stderr.endswith(f"next: roundel unlock {newest(folder)}\n")


def test_a_running_run_takes_no_step_but_gets_a_breakpoint(tmp_path: Path) -> None:
    prepare(tmp_path, opened=False)
    with has_started(tmp_path) as process:
        refused = roundel(tmp_path, "step", "last")
        assert refused.exit_code == 1
        assert f"is running; `roundel pause {newest(tmp_path)}` pauses it" in refused.stderr
        assert refused.stderr.endswith(f"next: roundel log {newest(tmp_path)} --follow\n")
        changed = roundel(tmp_path, "break", "last", "Editor")
        assert (changed.exit_code, changed.stdout) == (0, "Editor  (reached 0 times)\n")
        open_gate(tmp_path)
        assert process.end() == 4, process.complaints
    assert process.events[-1]["data"]["pause"]["address"] == "Writer[1]/Editor"
    assert [state["hits"] for state in breakpoints(tmp_path)] == [1]


def test_a_step_of_a_run_whose_process_died_repeats_its_call(tmp_path: Path) -> None:
    prepare(tmp_path, opened=False)
    with has_started(tmp_path) as process:
        process.popen.kill()
        process.end()
    open_gate(tmp_path)
    with Process(tmp_path, "step", "last") as stepped:
        assert stepped.end() == 4, stepped.complaints
    assert stepped.events[-1]["data"]["pause"] == {"reason": "step", "address": "Writer[1]/Editor"}
    assert stored_runs.calls(tmp_path) == 2


@pytest.mark.parametrize("words", [["step"], ["break"], ["break", "Critic"], ["edit"], ["edit", "text"]])
def test_unknown_run_is_bad_usage(folder: Path, words: list[str]) -> None:
    name, *more = words
    nowhere = roundel(folder, name, "last", *more)
    assert nowhere.exit_code == 2
    assert "there is no store" in nowhere.stderr
    run(folder, "--paused")
    unknown = roundel(folder, name, "ffffffffffff", *more)
    assert unknown.exit_code == 2
    assert "there is no run 'ffffffffffff'" in unknown.stderr
    assert unknown.stderr.endswith("next: roundel runs\n")


# Breakpoints of a stored run.


def test_breakpoints_are_set_listed_and_removed(folder: Path) -> None:
    run(folder, "--break", "Critic")
    added = roundel(folder, "break", "last", "Writer[3]", "{cel: round > 1}", "--remove", "Critic")
    assert (added.exit_code, added.stdout) == (
        0,
        "Writer[3]  (reached 0 times)\ncel: round > 1  (reached 0 times)\n",
    )
    assert added.stderr == f"next: roundel step {newest(folder)}\n"
    assert roundel(folder, "break", "last").stdout == added.stdout
    roundel(folder, "break", "last", "Writer[3]")  # it is there already
    assert [state["text"] for state in breakpoints(folder)] == ["Writer[3]", "cel: round > 1"]
    assert "breakpoint cel: round > 1 at Writer[2]/Writer" in roundel(folder, "resume", "last").stderr
    assert "cel: round > 1  (reached once)" in roundel(folder, "break", "last").stdout
    unchanged = roundel(folder, "break", "last", "--remove", "Guard")
    assert unchanged.exit_code == 2
    assert "has no breakpoint 'Guard'; it has Writer[3], cel: round > 1" in unchanged.stderr
    assert roundel(folder, "break", "last", "--clear").stdout == "no breakpoints\n"
    assert roundel(folder, "break", "last", "--clear", "--json").stdout == "[]\n"
    assert roundel(folder, "resume", "last").exit_code == 0


def test_clear_and_a_new_breakpoint_in_one_command(folder: Path) -> None:
    run(folder, "--paused", "--break", "Critic", "--break", "Guard")
    assert roundel(folder, "break", "last", "Final", "--clear").stdout == "Final  (reached 0 times)\n"
    assert "breakpoint Final at Final" in roundel(folder, "resume", "last").stderr


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("Critc", "did you mean 'Critic'?"),
        ("cel: rund > 1", "uses the name 'rund'"),
        ("cel: round >", "cannot read `round >`"),
        ("cel:", "is no breakpoint"),
    ],
)
def test_wrong_breakpoint_of_a_stored_run_changes_nothing(folder: Path, place: str, expected: str) -> None:
    run(folder, "--paused")
    refused = roundel(folder, "break", "last", "Critic", place)
    assert refused.exit_code == 2
    assert expected in refused.stderr
    assert breakpoints(folder) == []


def test_a_condition_that_fails_is_reported_once(folder: Path) -> None:
    ended = run(folder, "--break", "cel: data.score > 50")
    assert "ready: Writer[2]/Guard (breakpoint cel: data.score > 50)" in ended.stderr
    assert ended.stderr.count("counts as false where it fails") == 1
    (state,) = breakpoints(folder)
    assert state["hits"] == 1
    assert "needs 'score', which is missing" in state["problem"]
    assert "(reached once; `data.score > 50` needs 'score'" in roundel(folder, "break", "last").stdout


def test_a_breakpoint_on_a_ready_node_does_not_stop_it_again(folder: Path) -> None:
    run(folder, "--paused")
    roundel(folder, "break", "last", "Writer")
    assert "breakpoint Writer at Writer[2]/Writer" in roundel(folder, "resume", "last").stderr


# Editing.


def test_an_edited_message_is_what_the_node_receives(folder: Path) -> None:
    run(folder, "--break", "Final")
    edited = roundel(folder, "edit", "last", "a better draft", "--data", '{"by": "ada"}')
    assert edited.exit_code == 0
    assert edited.stderr == f"edited\nnext: roundel step {newest(folder)}\n"
    assert ' from Writer: a better draft  {"by": "ada"}\n' in edited.stdout
    log = roundel(folder, "log", "last").stdout.splitlines()
    assert log[-1].endswith('Final  edited message 0  a better draft  {"by": "ada"}')
    ended = roundel(folder, "resume", "last", "--json")
    assert events(ended)[-1]["data"]["output"] == "a better draft"
    assert events(ended)[-1]["data"]["data"] == {"by": "ada"}


def test_the_text_or_the_data_of_a_message_is_edited_alone(folder: Path) -> None:
    run(folder, "--break", "Writer[2]")
    address = "Writer[2]/Writer"
    assert roundel(folder, "edit", "last", "--data", '{"score": 99}').exit_code == 0
    assert [queues(folder)[address][-1][key] for key in ("text", "data")] == ["too short", {"score": 99}]
    assert roundel(folder, "edit", "last", "-", input="two\nlines\n").exit_code == 0
    assert [queues(folder)[address][-1][key] for key in ("text", "data")] == ["two\nlines", {"score": 99}]


def test_waiting_messages_are_listed_by_node(folder: Path) -> None:
    run(folder, "--break", "Critic")
    listed = roundel(folder, "edit", "last")
    assert (listed.exit_code, listed.stderr) == (0, f"next: roundel step {newest(folder)}\n")
    (draft,) = queues(folder)["Final"]
    assert draft["text"] == "draft one"
    line = f"  0 {draft['version']} from Writer: draft one\n"
    assert listed.stdout == f"Writer[1]/Critic\n{line}Final\n{line}"
    elsewhere = roundel(folder, "edit", "last", "other draft", "--at", "Final", "--position", "0")
    assert elsewhere.exit_code == 0
    assert queues(folder)["Final"][0]["text"] == "other draft"
    assert queues(folder)["Writer[1]/Critic"][0]["text"] == "draft one", "the copy at another node stays"


def test_of_two_people_who_edit_the_second_is_told(folder: Path) -> None:
    run(folder, "--break", "Critic")
    (seen,) = queues(folder)["Writer[1]/Critic"]
    first = roundel(folder, "edit", "last", "by ada", "--version", seen["version"])
    assert first.exit_code == 0
    second = roundel(folder, "edit", "last", "by bo", "--version", seen["version"])
    assert second.exit_code == 1
    assert "message 0 at 'Writer[1]/Critic' was changed meanwhile; it is now: by ada" in second.stderr
    assert queues(folder)["Writer[1]/Critic"][0]["text"] == "by ada"


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (["--position", "1"], 1, "the messages at 'Writer[1]/Critic' have the numbers 0 to 0, not 1"),
        (["--position", "-1"], 2, "-1 is not in the range"),
        (["--position", "first"], 2, "'first' is not a valid integer"),
        (["--at", "Nowhere"], 1, "messages wait at Final, Writer[1]/Critic"),
        (["--data", "[1]"], 2, "--data takes a JSON object"),
        (["--data", "{"], 2, "this is not JSON"),
    ],
)
def test_wrong_edit_changes_nothing(folder: Path, words: list[str], code: int, expected: str) -> None:
    run(folder, "--break", "Critic")
    before = queues(folder)
    refused = roundel(folder, "edit", "last", "new", *words)
    assert refused.exit_code == code
    assert expected in refused.stderr
    assert queues(folder) == before
    assert "edited" not in refused.stderr


def test_messages_of_a_finished_or_waiting_run_stay_as_they_are(tmp_path: Path) -> None:
    prepare(tmp_path)
    stored_runs.run(tmp_path)
    waiting = roundel(tmp_path, "edit", "last", "new", "--at", "Final")
    assert waiting.exit_code == 1
    assert "can be edited while it is paused or locked; it is waiting" in waiting.stderr
    assert roundel(tmp_path, "answer", "last", "OK").exit_code == 0
    over = roundel(tmp_path, "edit", "last", "new", "--at", "Final")
    assert over.exit_code == 1
    assert "it is completed" in over.stderr
    assert roundel(tmp_path, "edit", "last").stdout == "no message waits\n"


def test_a_message_of_a_locked_run_is_edited(folder: Path) -> None:
    assert run(folder, "--limit", "steps=1").exit_code == 3
    assert roundel(folder, "edit", "last", "a new draft").exit_code == 0
    assert queues(folder)["Writer[1]/Critic"][0]["text"] == "a new draft"


# What is shown and stored.


def test_texts_cannot_control_the_terminal(folder: Path) -> None:
    canary = CANARY.replace("\x00", "")
    (folder / "script.yaml").write_text(json.dumps({"Writer": canary, "Critic": canary}))
    is_safe(run(folder, "--break", "Critic").stderr)
    condition = f"cel: text != {json.dumps(canary)}"
    for words in (
        ["edit", "last"],
        ["edit", "last", canary + " edited", "--data", json.dumps({"key": canary})],
        ["edit", "last", "x", "--version", canary],
        ["edit", "last", "x", "--at", canary],
        ["break", "last", condition],
        ["break", "last"],
        ["break", "last", canary],
        ["break", "last", "--remove", canary],
        ["step", "last"],
        ["step", canary],
        ["log", "last"],
    ):
        done = roundel(folder, *words)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        assert is_safe(done.stdout) and is_safe(done.stderr), words
    assert queues(folder)["Final"][0]["text"] == canary, "the message itself has every character"


def test_a_long_message_is_cut_in_lists_only(folder: Path) -> None:
    run(folder, "--break", "Critic")
    long = "word " * 100
    listed = roundel(folder, "edit", "last", long)
    assert max(map(len, listed.stdout.splitlines())) < 140
    assert "word…\n" in listed.stdout
    assert queues(folder)["Writer[1]/Critic"][0]["text"] == long


SECRET = "blue-heron-4711"


@pytest.fixture
def secretive(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workflow that knows a secret."""
    monkeypatch.setenv("LEDGER_TOKEN", SECRET)
    (folder / "flow.yaml").write_text("vars: {LEDGER_TOKEN: {secret: true}}" + FLOW)
    return folder


def is_stored(folder: Path, text: str) -> bool:
    return any(text.encode() in file.read_bytes() for file in (folder / ".roundel").glob("runs.db*"))


def test_secrets_are_masked_in_edits_and_breakpoints(secretive: Path) -> None:
    run(secretive, "--break", "Critic")
    outputs = [
        roundel(secretive, "edit", "last", f"the key is {SECRET}", "--data", json.dumps({"key": SECRET})),
        roundel(secretive, "break", "last", f'cel: text != "{SECRET}"'),
        roundel(secretive, "break", "last", "--json"),
        roundel(secretive, "edit", "last", "--json"),
        roundel(secretive, "log", "last", "--json"),
        roundel(secretive, "step", "last", "--json"),
    ]
    assert [output.exit_code for output in outputs] == [0, 0, 0, 0, 0, 4], outputs
    for output in outputs:
        assert SECRET not in output.output
    assert "the key is ***" in outputs[0].output
    assert [state["text"] for state in breakpoints(secretive)] == ["Critic", 'cel: text != "***"']
    assert not is_stored(secretive, SECRET)


def test_secrets_are_masked_in_breakpoints_of_a_new_run(secretive: Path) -> None:
    paused = run(secretive, "--break", f'cel: text != "{SECRET}"')
    assert paused.exit_code == 4
    assert SECRET not in paused.output
    assert [state["text"] for state in breakpoints(secretive)] == ['cel: text != "***"']
    assert not is_stored(secretive, SECRET)
    refused = run(secretive, "--break", SECRET)
    assert refused.exit_code == 2
    assert SECRET not in refused.output
