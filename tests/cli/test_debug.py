"""The debugger: line by line, in a terminal, and with two people at one run."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest
from click.testing import Result
from rich.cells import cell_len

from roundel.cli.console import SafeConsole
from roundel.cli.debug_outline import RunOutline, address_labels
from roundel.cli.debug_panes import PANES
from roundel.cli.debug_session import DebugSession
from roundel.cli.debug_view import DebugFrame, DebugViewState
from roundel.nodes.loading import load
from roundel.plan.graph import compile_workflow
from roundel.runs.runs import Runs
from tests.cli.stored_runs import has_started, open_gate, roundel, runs
from tests.cli.stored_runs import prepare as prepare_gate
from tests.cli.terminal import CTRL_C, CTRL_D, Terminal

EXAMPLES = Path(__file__).parents[2] / "examples"
FLOW = """
graph:
  id: tea
  start: Writer
  end: Final
  nodes:
    - {id: Writer, type: agent}
    - {id: Reviewer, type: agent}
    - {id: Guard, type: loop_counter, config: {max_iterations: 3}}
    - {id: Final, type: passthrough}
  edges:
    - {from: Writer, to: Reviewer}
    - {from: Writer, to: Final, trigger: false, clear_context: true}
    - {from: Reviewer, to: Final, condition: {cel: 'text == "ACCEPT"'}, carry_data: false}
    - {from: Reviewer, to: Writer, condition: {cel: 'text != "ACCEPT"'}}
    - {from: Reviewer, to: Guard, condition: {cel: 'text != "ACCEPT"'}}
    - {from: Guard, to: Writer}
    - {from: Guard, to: Final, carry_data: false}
"""
SCRIPT = """
Writer: [Tea is a hot drink., Tea is a cold drink.]
Reviewer: [Too plain., ACCEPT]
"""
ASK = """
graph:
  id: ask
  start: Editor
  nodes:
    - {id: Editor, type: human, config: {description: "OK, or what to change?"}}
    - {id: Final, type: passthrough}
  edges: [{from: Editor, to: Final}]
"""
ARGUMENTS = ("debug", "flow.yaml", "--script", "script.yaml", "--input", "hi")
UP, DOWN, TAB, ENTER, ESCAPE = b"\x1b[A", b"\x1b[B", b"\t", b"\r", b"\x1b"
SMALL = (80, 24)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flow.yaml").write_text(FLOW)
    (tmp_path / "script.yaml").write_text(SCRIPT)
    return tmp_path


def debug(folder: Path, *commands: str, arguments: tuple[str, ...] = ARGUMENTS) -> Result:
    """A session in plain mode, since the standard input of these tests is no terminal."""
    result = roundel(folder, *arguments, input="".join(f"{command}\n" for command in commands))
    assert "Traceback" not in result.output
    assert "\x1b" not in result.stdout
    return result


# Line by line.


def test_a_session_steps_breaks_and_compares_rounds(folder: Path) -> None:
    done = debug(folder, "s", "round", "b Reviewer", "c", "state", "select Writer", "diff", "q")
    assert done.exit_code == 4, done.output
    lines = done.stdout.splitlines()
    (run_id,) = (row["run_id"] for row in runs(folder))
    assert lines[0] == f"tea  {run_id}  ‖ paused"
    assert lines[1] == "▶ next Writer[1]/Writer: round 1 of 'Writer' begins, with the input"
    assert lines[2:7] == [
        "  loop Writer  round 1 of ≤ 3",
        "    Writer  (ready, selected)",
        "    Reviewer",
        "    Guard",
        "  Final",
    ]
    assert "Writer[1]/Writer  completed  Tea is a hot drink." in lines
    assert "paused: step at Writer[2]/Writer" in lines, "the next round"
    assert "breakpoints: Reviewer" in lines
    assert "paused: breakpoint Reviewer at Writer[2]/Reviewer" in lines
    assert "    Reviewer  (ready, breakpoint, has run 1×, selected)" in lines
    assert lines[-4:] == [
        "selected Writer",
        "Writer[1]/Writer → Writer[2]/Writer",
        "+1 -1 words",
        "Tea is a -[hot] +[cold] drink.",
    ]
    assert done.stderr.endswith(f"run {run_id} is paused\nnext: roundel debug {run_id}\n")


def test_the_end_of_input_quits_and_the_run_can_be_debugged_again(folder: Path) -> None:
    assert debug(folder, "step").exit_code == 4
    again = debug(folder, "ready", "c", arguments=("debug", "last"))
    assert "▶ 1 Writer[1]/Reviewer  agent" in again.stdout
    assert "· Final waits for Writer" in again.stdout
    assert (again.exit_code, "run completed" in again.stdout) == (0, True)
    assert "next: roundel log" in again.stderr


def test_a_waiting_message_is_edited(folder: Path) -> None:
    done = debug(
        folder, "step", "queue", "e A better draft.", "queue", "e 0 7 cups", "queue", "e 4 no such", "c"
    )
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("   ")] == [
        *lines[3:6],
        "   Tea is a hot drink.",
        "   A better draft.",
        "   7 cups",
    ]
    assert lines.count("edited message 0 at Writer[1]/Reviewer") == 2
    assert "error: no message 4 waits at the selected node; `queue` lists them" in lines


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("stpe", "error: unknown command 'stpe'; did you mean 'step'?"),
        ("b Writter", "error: no breakpoint can be at 'Writter'"),
        ("b cel: round >", "error: "),
        ("remove Writer", "has no breakpoint 'Writer'; it has none"),
        ("select Nobody", "error: the workflow has no node 'Nobody'"),
        ("answer yes", "error: no question is open"),
        ("pause", "error: "),
    ],
)
def test_an_error_is_one_line_and_the_session_continues(folder: Path, command: str, error: str) -> None:
    done = debug(folder, command, "step")
    assert error in done.stdout
    assert "Writer[1]/Writer  completed" in done.stdout


def test_a_question_is_answered(tmp_path: Path) -> None:
    (tmp_path / "ask.yaml").write_text(ASK)
    done = debug(tmp_path, "step", "ready", "answer shorter", "c", arguments=("debug", "ask.yaml"))
    assert "? Editor asks: OK, or what to change?" in done.stdout
    assert (done.exit_code, "result shorter" in done.stdout) == (0, True), done.output


def test_an_answer_to_a_tool_has_to_be_clear(tmp_path: Path) -> None:
    example = EXAMPLES / "analyst"
    text = (example / "script.yaml").read_text()
    (tmp_path / "script.yaml").write_text(text[: text.index("Analyst/order")])
    arguments = ("debug", str(example / "workflow.yaml"), "--script", "script.yaml", "--input", "hi")
    done = debug(tmp_path, "c", "ready", "answer maybe", "answer approve", arguments=arguments)
    assert 'order {"tea": "oolong", "grams": 5000}' in done.stdout
    assert "error: Say approve" in done.stdout
    assert done.exit_code == 0, done.output


def test_a_locked_run_says_how_to_unlock_it(folder: Path) -> None:
    done = debug(folder, "c", "unlock", "step", arguments=(*ARGUMENTS, "--limit", "rounds=1"))
    (run_id,) = (row["run_id"] for row in runs(folder))
    assert "locked: limit of 1 rounds" in done.stdout
    assert f"roundel unlock {run_id}" in done.stdout
    assert "error: run" in done.stdout and "is locked" in done.stdout
    assert (done.exit_code, f"next: roundel unlock {run_id}" in done.stderr) == (3, True)


def test_a_run_that_is_over_can_only_be_read(folder: Path) -> None:
    roundel(folder, "run", *ARGUMENTS[1:])
    done = debug(folder, "step", "b Writer", "guards", "events", "diff", arguments=("debug", "last"))
    assert done.stdout.count("error: the run is completed, so you can only view it") == 2
    assert "Writer[2]/Reviewer completed ACCEPT" in done.stdout
    assert "result Tea is a cold drink." in done.stdout
    assert done.exit_code == 0


def test_json_is_the_state_of_the_run(folder: Path) -> None:
    done = debug(folder, arguments=(*ARGUMENTS, "--break", "Reviewer", "--json"))
    seen = json.loads(done.stdout)
    assert (seen["status"], done.exit_code) == ("paused", 4)
    assert [ready["address"] for ready in seen["ready"]] == ["Writer[1]/Writer"]
    assert [state["text"] for state in seen["breakpoints"]] == ["Reviewer"]
    again = debug(folder, arguments=("debug", "last", "--break", "Final", "--json"))
    assert [state["text"] for state in json.loads(again.stdout)["breakpoints"]] == ["Reviewer", "Final"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("debug", "missing.yaml"), "missing.yaml"),
        (("debug", "flow.yaml", "--break", "Nobody"), "no breakpoint can be at 'Nobody'"),
        (("debug", "last", "--input", "hi"), "--input is for a run that is started here"),
        (("debug", "last", "--break", "Nobody"), "no breakpoint can be at 'Nobody'"),
        (("debug", "nobody"), "nobody"),
    ],
)
def test_bad_usage_has_exit_code_2(folder: Path, arguments: tuple[str, ...], error: str) -> None:
    debug(folder)
    done = debug(folder, arguments=arguments)
    assert (done.exit_code, error in done.stderr) == (2, True), done.output


def test_what_models_say_controls_nothing(folder: Path) -> None:
    (folder / "flow.yaml").write_text(f"vars: {{API_TOKEN: sk-verysecret-12345}}\n{FLOW}")
    (folder / "script.yaml").write_text('Writer: ["\\e[2Jsk-verysecret-12345\\e]0;x\\a"]\n')
    done = debug(folder, "s", "queue", "events", "select Writer", "diff")
    assert "sk-verysecret" not in done.stdout
    assert "�[2J" in done.stdout


# The outline.


def test_addresses_lead_to_rows_even_if_ids_repeat() -> None:
    workflow = load(EXAMPLES / "subgraph" / "workflow.yaml")
    outline = RunOutline(compile_workflow(workflow))
    writer = outline.find("Draft/Writer[2]/Writer")
    assert writer is not None and writer.id == "Writer"
    draft = outline.find("Draft")
    assert draft is not None and draft.id == "Draft"
    assert outline.find("Nobody") is None
    assert address_labels("Outer[2].Inner[5]/Node#1.2") == ["Outer", "Inner", "Node"]


# Frames.


def frames(folder: Path, workflow: Path, script: Path, sizes: list[tuple[int, int]]) -> list[list[str]]:
    """Frames after each of some steps, in all sizes and with all panes."""

    async def work() -> list[list[str]]:
        drawn = []
        async with Runs(folder / "frames.db") as opened:
            run_id = await opened.start(workflow, "hi", script=script, paused=True)
            await opened.result(run_id)
            session = DebugSession(opened, run_id)
            await session.open()
            for _ in range(6):
                for width, height in sizes:
                    for pane in (*PANES, "help"):
                        state = DebugViewState(session.first_ready, pane=pane if pane != "help" else "queue")
                        state.overlay = "help" if pane == "help" else ""
                        console = SafeConsole(width=width, height=height)
                        frame = DebugFrame(session, state, console).lines(width, height)
                        assert len(frame) == height
                        assert {line.cell_len for line in frame} == {width}
                        drawn.append([line.plain for line in frame])
                if session.picture.seen.status != "paused":
                    break
                await session.step()
                await session.refresh()
        return drawn

    return asyncio.run(work())


@pytest.mark.parametrize("example", ["nested_loops", "debate", "batch", "analyst", "subgraph", "fan_out"])
def test_frames_have_the_size_of_the_terminal(
    tmp_path: Path, example: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roundel.cli.debug_session.set_current_run", str)
    monkeypatch.setattr("roundel.cli.debug_session.command_line", lambda *words: " ".join(words))
    place = EXAMPLES / example
    drawn = frames(
        tmp_path, place / "workflow.yaml", place / "script.yaml", [SMALL, (120, 40), (30, 8), (5, 3)]
    )
    assert any("▶" in line for frame in drawn for line in frame)


def test_long_and_wide_texts_stay_in_their_panes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roundel.cli.debug_session.set_current_run", str)
    monkeypatch.setattr("roundel.cli.debug_session.command_line", lambda *words: " ".join(words))
    long = "N" + "x" * 299
    (tmp_path / "flow.yaml").write_text(FLOW.replace("Reviewer", long).replace("id: tea", "id: " + "茶" * 90))
    (tmp_path / "script.yaml").write_text(f'Writer: [{"茶是一种饮料。" * 200}]\n{long}: ["a\\tb\\e[1m"]\n')
    drawn = frames(tmp_path, tmp_path / "flow.yaml", tmp_path / "script.yaml", [SMALL, (121, 41)])
    assert any("茶是一种饮料。" in line for frame in drawn for line in frame)
    assert any("xxx…" in line for frame in drawn for line in frame)


# In a terminal.


def terminal(folder: Path, *arguments: str, size: tuple[int, int] = SMALL) -> Terminal:
    return Terminal(folder, *(arguments or ARGUMENTS), size=size)


def row(lines: list[str], text: str) -> str:
    """The part of the outline with a text."""
    return next(line for line in lines if text in line.partition("│")[0]).partition("│")[0].rstrip()


def test_a_whole_session_in_a_small_terminal(folder: Path) -> None:
    with terminal(folder) as screen:
        lines = screen.until_shown("▶ next Writer[1]/Writer", "q quit")
        assert lines[0].startswith("tea  ") and "‖ paused" in lines[0]
        assert "[queue]  diff   ready   events   guards" in lines[2]
        assert row(lines, "round 1 of ≤ 3") == "    ↺ Writer  round 1 of ≤ 3"
        assert row(lines, ">▶") == ">▶    Writer"
        screen.type(b"s")
        lines = screen.until_shown("▶ next Writer[1]/Reviewer", "1 model call")
        assert row(lines, "×1") == " ✓    Writer                   ×1"
        assert any("│    Tea is a hot drink." in line for line in lines), "its queue"
        assert any("0/3 rounds Guard" in line for line in lines)
        screen.type(b"r")
        lines = screen.until_shown("▶ next Writer[2]/Writer", "round 2 of ≤ 3")
        screen.type(DOWN)
        screen.until_shown(">✓    Reviewer")
        screen.type(b"b")
        lines = screen.until_shown("breakpoint Reviewer set", ">✓●   Reviewer")
        screen.type(b"c")
        lines = screen.until_shown("paused: breakpoint Reviewer", ">▶●   Reviewer")
        screen.type(b"e")
        screen.until_shown("edit message 0: Tea is a cold drink.", "Esc cancels")
        screen.type(b"\x15Another draft.\r")
        lines = screen.until_shown("edited", "│    Another draft.")
        screen.type(UP)
        screen.until_shown(">✓    Writer")
        screen.type(TAB)
        lines = screen.until_shown("[diff]", "+1 -1 words", "Writer[1]/Writer → Writer[2]/Writer")
        screen.type(b"?")
        screen.until_shown("step to the next round of the innermost loop")
        screen.type(ESCAPE)
        screen.until_shown("[diff]")
        screen.type(b"q")
        assert screen.end() == 4
        assert screen.is_restored and not screen.screen.is_alternate
        assert screen.screen.mistakes == []
        (run_id,) = (found["run_id"] for found in runs(folder))
        assert screen.lines[-1].endswith(f"roundel debug {run_id}")
    assert all(cell_len(line) <= 80 for line in lines)


def test_the_screen_follows_the_size_of_the_window(folder: Path) -> None:
    with terminal(folder) as screen:
        screen.until_shown("q quit")
        screen.resize(120, 40)
        screen.until_shown("q quit", "PgUp PgDn", "─ events ")
        screen.resize(60, 15)
        screen.until_shown("q quit", "[queue]")
        screen.type(b"q")
        assert screen.end() == 4


def test_ctrl_c_cancels_calls_and_a_second_one_leaves(folder: Path) -> None:
    (folder / "script.yaml").write_text("Writer: [{text: never, delay: 1000}]\n")
    with terminal(folder) as screen:
        screen.until_shown("q quit")
        screen.type(b"s")
        screen.until_shown("» running", ">»    Writer", "Ctrl-C interrupt")
        screen.type(b"b")
        screen.until_shown("breakpoint Writer set", ">»●   Writer")
        screen.type(b"s")
        screen.until_shown("the previous action is still running")
        screen.type(CTRL_C)
        screen.until_shown("paused: interrupted", "were cancelled", ">▶●   Writer")
        screen.type(b"s")
        screen.until_shown("Ctrl-C interrupt")
        screen.type(CTRL_C)
        screen.until_shown("paused: interrupted", "were cancelled")
        screen.type(CTRL_C)
        assert screen.end() == 130
        assert screen.is_restored
    assert runs(folder)[0]["status"] == "paused"


def test_quitting_leaves_a_run_paused_that_is_executed_here(folder: Path) -> None:
    (folder / "script.yaml").write_text("Writer: [{text: never, delay: 1000}]\n")
    with terminal(folder) as screen:
        screen.until_shown("q quit")
        screen.type(b"c")
        screen.until_shown("Ctrl-C interrupt")
        screen.type(b"q")
        assert screen.end() == 4
    assert runs(folder)[0]["status"] == "paused"


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_restores_the_terminal(folder: Path, end: int) -> None:
    with terminal(folder) as screen:
        screen.until_shown("q quit")
        os.kill(screen.popen.pid, end)
        assert screen.end() == 130
        assert screen.is_restored and not screen.screen.is_alternate
    assert runs(folder)[0]["status"] == "paused"


def test_a_closed_window_leaves_the_run_paused(folder: Path) -> None:
    with terminal(folder) as screen:
        screen.until_shown("q quit")
        screen.hang_up()
        screen.popen.wait(timeout=60)
    assert runs(folder)[0]["status"] == "paused"


def test_what_somebody_else_does_appears(folder: Path) -> None:
    with terminal(folder) as screen:
        screen.until_shown("▶ next Writer[1]/Writer")
        assert roundel(folder, "step", "last").exit_code == 4
        screen.until_shown("▶ next Writer[1]/Reviewer", "somebody else: paused: step at Writer[1]/Reviewer")
        roundel(folder, "break", "last", "Final")
        screen.until_shown("somebody else: breakpoints: Final", "● Final")
        screen.type(b"e")
        screen.until_shown("edit message 0:")
        roundel(folder, "edit", "last", "theirs")
        screen.type(b" mine\r")
        screen.until_shown("was changed meanwhile", "│    theirs")
        screen.type(CTRL_D)
        assert screen.end() == 4


def test_errors_and_cancelled_prompts_leave_the_run_alone(folder: Path) -> None:
    with terminal(folder) as screen:
        screen.until_shown("q quit")
        screen.type(b"BWritter\r")
        screen.until_shown("no breakpoint can be at 'Writter'")
        screen.type(b"Bcel: round > 1\r")
        screen.until_shown("breakpoint cel: round > 1 set")
        screen.type(b"a")
        screen.until_shown("no question is open")
        screen.type(b"p")
        screen.until_shown("the run is not running")
        screen.type(b"u")
        screen.until_shown("the run is not locked")
        screen.type(b"e")
        screen.until_shown("edit message 0: hi")
        screen.type(ESCAPE)
        screen.until_shown("cancelled")
        screen.type(b"\x1b[200~sssq\x1b[201~")
        screen.type(b"c")
        screen.until_shown("paused: breakpoint cel: round > 1", "▶ next Writer[2]/Writer")
        screen.type(b"q")
        assert screen.end() == 4


def test_a_long_message_is_edited_in_an_editor(folder: Path) -> None:
    (folder / "script.yaml").write_text('Writer: ["first line\\nsecond line"]\n')
    editor = folder / "editor.sh"
    editor.write_text('#!/bin/sh\nsed -i "s/second/another/" "$1"\n')
    editor.chmod(0o755)
    with Terminal(folder, *ARGUMENTS, size=SMALL, EDITOR=str(editor), VISUAL="") as screen:
        screen.until_shown("q quit")
        screen.type(b"s")
        screen.until_shown("│    second line")
        screen.type(b"e")
        screen.until_shown("│    another line", "edited")
        screen.type(b"q")
        assert screen.end() == 4
        assert screen.is_restored


def test_a_question_is_answered_on_the_screen(tmp_path: Path) -> None:
    (tmp_path / "ask.yaml").write_text(ASK)
    with terminal(tmp_path, "debug", "ask.yaml", "--input", "hi") as screen:
        screen.until_shown("q quit")
        screen.type(b"c")
        screen.until_shown("? Editor asks: OK, or what to change?", ">?  Editor")
        screen.type(b"a")
        screen.until_shown("answer Editor:")
        screen.type(b"shorter\r")
        screen.until_shown("✓ completed", "result shorter")
        screen.type(b"s")
        screen.until_shown("you can only view it")
        screen.type(b"q")
        assert screen.end() == 0


def test_a_run_of_another_process_is_watched_and_paused(tmp_path: Path) -> None:
    prepare_gate(tmp_path, opened=False)
    with has_started(tmp_path) as process, terminal(tmp_path, "debug", "last") as screen:
        screen.until_shown(f"running in process {process.popen.pid}, p pauses it", "»    Gate")
        screen.type(b"s")
        screen.until_shown("pauses it, and then")
        screen.type(b"p")
        screen.until_shown("pausing; the calls in flight finish first")
        open_gate(tmp_path)
        assert process.end() == 4
        screen.until_shown("‖ paused", "▶ next Writer[1]/Editor")
        screen.type(b"q")
        assert screen.end() == 4


def test_a_lock_is_explained_on_the_screen(folder: Path) -> None:
    roundel(folder, "run", *ARGUMENTS[1:], "--limit", "rounds=1")
    with terminal(folder, "debug", "last") as screen:
        screen.until_shown("▲ locked", "u says how to unlock it")
        screen.type(b"u")
        screen.until_shown("unlock it with", "limit of 1 rounds, at Writer[1]")
        screen.type(b"q")
        screen.until_shown("[queue]")
        screen.type(b"q")
        assert screen.end() == 3


def test_without_colours_differences_have_marks(folder: Path) -> None:
    debug(folder, "round", "step")
    with Terminal(folder, "debug", "last", size=SMALL, NO_COLOR="1") as screen:
        screen.until_shown("q quit")
        screen.type(UP + TAB)
        screen.until_shown("Tea is a -[hot] +[cold] drink.")
        screen.type(b"q")
        assert screen.end() == 4


def test_plain_mode_in_a_terminal_has_a_prompt(folder: Path) -> None:
    with terminal(folder, *ARGUMENTS, "--plain") as screen:
        screen.until("debug> ")
        screen.type(b"step\n")
        screen.until("completed", "debug> ")
        screen.type(CTRL_C)
        assert screen.end() == 130
        assert "interrupted" in screen.seen
