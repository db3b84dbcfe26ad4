"""Whatever stands in messages, names and files, none of it steers the terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

CANARY = (
    "\x1b[38;5;201mred\x1b[0m "  # CSI: a colour that no command uses
    "\x1b[2J\x1b[H "  # CSI: clears the screen
    "\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\ "  # OSC 8: a link
    "\x1b]52;c;ZXZpbA==\x07 "  # OSC 52: the clipboard
    "\x9b31m \x9d0;title\x9c \x85 "  # C1
    "a\rb c\x08d e\x0bf g\x0ch \x00 \x7f "  # carriage return, backspace and others
    "\u202egnp.exe\u202c \u2066hidden\u2069 \u200f \u2028 "  # directions of writing, separators of lines
    "[red]markup[/red] [link=https://evil.example]x[/link] :smile:"
)
NAME = "N\x1b[38;5;201m\x9b\u202e[red]de"
"""Of a node."""
TYPED = CANARY.replace("\x00", "")
"""As an argument of a command."""
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
OURS = re.compile(
    r"\x1b\[[0-9;]*m"  # colours
    r"|\x1b\[\?25[lh]"  # the cursor is hidden and shown
    r"|\x1b\[\d*[AK]|\x1b\[2K|\r(?=\x1b|\n|$)|\r\n"  # the display is drawn over
)
FLOW = {
    "graph": {
        "id": NAME,
        "initial_instruction": CANARY,
        "start": NAME,
        "nodes": [
            {"id": NAME, "type": "agent", "config": {"tools": ["shout"]}},
            {"id": "Critic", "type": "agent"},
            {"id": "Guard", "type": "loop_counter", "config": {"max_iterations": 2}},
            {"id": "Person", "type": "human", "config": {"description": CANARY}},
            {"id": "End", "type": "passthrough"},
        ],
        "edges": [
            {"from": NAME, "to": "Critic"},
            {
                "from": "Critic",
                "to": NAME,
                "condition": {"type": "keyword", "config": {"none": ["never " + CANARY]}},
            },
            {"from": "Critic", "to": "Guard"},
            {"from": "Guard", "to": NAME},
            {"from": "Guard", "to": "Person"},
            {"from": "Person", "to": "End"},
        ],
        "limits": {"rounds": 50},
    },
    "breaker": False,
    "tools": {"shout": {"python": "shouting:shout"}},
}
TOOL = {"tool_calls": [{"name": "shout", "arguments": {"text": CANARY}}]}
SCRIPT = {NAME: [TOOL, CANARY], "Critic": [CANARY + " once", CANARY + " twice"]}
SHOUTING = f"def shout(text: str) -> str:\n    return {CANARY!r} + text\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flow.json").write_text(json.dumps(FLOW))
    (tmp_path / "script.json").write_text(json.dumps(SCRIPT))
    (tmp_path / "fails.json").write_text(json.dumps({NAME: {"error": CANARY}}))
    (tmp_path / "shouting.py").write_text(SHOUTING)
    bad = {"graph": {"start": NAME, "nodes": [{"id": NAME, "type": CANARY}]}}
    (tmp_path / "bad\x1b[31m.json").write_text(json.dumps(bad))
    return tmp_path


def in_terminal(folder: Path, *arguments: str, typed: str = "") -> str:
    """What a command writes to a terminal, on both of its streams."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "200", "LINES": "50"}
    process = subprocess.Popen(
        [sys.executable, "-m", "roundel", *arguments],
        cwd=folder,
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=environment,
    )
    os.close(follower)
    os.write(leader, typed.encode())
    seen, until = b"", time.monotonic() + 60
    while time.monotonic() < until:
        if select.select([leader], [], [], 0.1)[0]:
            try:
                part = os.read(leader, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            seen += part
        elif process.poll() is not None:
            break
    assert process.wait(timeout=20) is not None
    os.close(leader)
    return seen.decode("utf-8", "replace")


def is_safe(screen: str) -> bool:
    assert "\x1b[38;5;201m" not in screen
    rest = OURS.sub("", screen)
    found = UNSAFE.search(rest)
    assert found is None, f"{found[0]!r} in {rest[max(0, found.start() - 80) : found.end() + 80]!r}"
    assert "evil.example]x[/link]" in rest or "link=" not in rest, "markup is shown, not obeyed"
    assert "\N{SMILING FACE WITH OPEN MOUTH AND SMILING EYES}" not in rest, "nor are names of emoji"
    return True


def plain(folder: Path, *arguments: str, input: str = "") -> subprocess.CompletedProcess[str]:
    """Without a terminal."""
    command = [sys.executable, "-m", "roundel", *arguments]
    return subprocess.run(command, cwd=folder, input=input, capture_output=True, text=True, check=False)


RUN = ("run", "flow.json", "--script", "script.json")


def test_run_commands_escape_terminal_control_codes(folder: Path) -> None:
    assert is_safe(in_terminal(folder, *RUN, "--input", TYPED, typed="fine\n"))
    assert is_safe(in_terminal(folder, *RUN, "--input", TYPED, "--limit", "steps=3"))
    for command in (
        ("unlock", "last", "--reason", TYPED),
        ("log", "last"),
        ("runs",),
        ("plot", "last"),
        ("memory", "quarantine", "last"),
        ("replay", "last", "--limit", "steps=1"),
        ("prune", "last", "--keep", "nothing"),
        ("log", "last", "--round", TYPED),
        ("answer", "last", TYPED),
        ("pause", TYPED),
        ("resume", "last"),
    ):
        assert is_safe(in_terminal(folder, *command, typed="n\nn\nn\n")), command
    waiting = plain(folder, *RUN, "--input", TYPED)
    assert waiting.returncode == 4, waiting.stderr
    assert is_safe(waiting.stderr) and is_safe(waiting.stdout)
    shown = plain(folder, "answer", "last")
    assert is_safe(shown.stdout) and is_safe(shown.stderr)
    done = in_terminal(folder, "answer", "last", TYPED)
    assert is_safe(done) and "\N{REPLACEMENT CHARACTER}[38;5;201mred" in done, "the result is shown, too"
    for command in (("log", "last"), ("runs",), ("plot", "last"), ("fork", "last", "--at", TYPED)):
        assert is_safe(in_terminal(folder, *command)), command
    assert is_safe(in_terminal(folder, "run", "flow.json", "--script", "fails.json", "--input", "x"))
    assert is_safe(in_terminal(folder, "log", "last"))


def test_file_commands_escape_terminal_control_codes(folder: Path) -> None:
    for command in (
        ("check", "flow.json"),
        ("check", "bad\x1b[31m.json"),
        ("check", "missing\x1b]52;c;eA==\x07.yaml"),
        ("show", "flow.json"),
        ("show", "flow.json", "--format", "mermaid"),
        ("show", "flow.json", "--format", "svg"),
        ("forecast", "flow.json"),
        ("run", "bad\x1b[31m.json"),
        ("run", "flow.json", "--limit", "\x1b[31m=3"),
        ("\x1b[31mred",),
        ("run", "flow.json", "--script", "gone\x1b[31m.json"),
        ("memory", "list", "--group", TYPED),
        ("new", "bad\x1b[31m"),
        ("runs", "--store", "nowhere\x1b[31m/runs.db"),
        ("log", "last", "--store", "nowhere\x1b[31m/runs.db"),
    ):
        assert is_safe(in_terminal(folder, *command, typed="\n")), command


def test_result_is_written_to_a_pipe_unchanged(folder: Path) -> None:
    flow = {"graph": {"start": "A", "nodes": [{"id": "A", "type": "agent"}]}}
    (folder / "one.json").write_text(json.dumps(flow))
    (folder / "one.script.json").write_text(json.dumps({"A": CANARY}))
    arguments = ("run", "one.json", "--script", "one.script.json", "--input", "x")
    command = [sys.executable, "-m", "roundel", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=True)
    assert done.stdout.decode() == CANARY + "\n", "it is data for another program"
    assert is_safe(done.stderr.decode())
    assert is_safe(in_terminal(folder, *arguments))


def test_json_preserves_text_without_raw_control_codes(folder: Path) -> None:
    done = plain(folder, *RUN, "--input", TYPED, "--json")
    assert UNSAFE.search(done.stdout.replace("\n", "")) is None
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[0]["data"]["input"] == TYPED
    assert UNSAFE.search(plain(folder, "log", "last", "--json").stdout.replace("\n", "")) is None


@pytest.mark.parametrize(
    "command", [("show", "flow.json", "--format", "svg"), ("plot", "last", "--format", "svg")]
)
def test_drawing_is_well_formed_xml(folder: Path, command: tuple[str, ...]) -> None:
    assert plain(folder, *RUN, "--input", TYPED).returncode == 4
    drawn = plain(folder, *command, "--format", "svg")
    assert drawn.returncode == 0, drawn.stderr
    ET.fromstring(drawn.stdout)
    assert UNSAFE.search(drawn.stdout) is None
