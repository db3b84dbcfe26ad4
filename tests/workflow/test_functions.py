"""Modules that cannot be imported: a diagnostic with the place of the reference and the cause."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel import WorkflowError

BROKEN = {
    "syntax": ("def f(:\n", "SyntaxError: invalid syntax (mine.py, line 1)"),
    "import": ("import no_such_module_at_all\n", "No module named 'no_such_module_at_all' (mine.py, line 1)"),
    "raises": ("x = 1\nx / 0\n", "ZeroDivisionError: division by zero (mine.py, line 2)"),
    "exits": ("import sys\nsys.exit('no')\n", "SystemExit: no (mine.py, line 2)"),
    "exits in silence": ("raise SystemExit\n", "SystemExit (mine.py, line 1)"),
    "recursion": ("def g():\n    g()\ng()\n", "RecursionError: maximum recursion depth exceeded"),
    "itself": ("from mine import f\n", "(mine.py, line 1)"),
    "stops": ("next(iter([]))\n", "StopIteration (mine.py, line 1)"),
    "cancels": ("import asyncio\nraise asyncio.CancelledError\n", "CancelledError (mine.py, line 2)"),
    "unprintable": (
        "class E(Exception):\n    def __str__(self):\n        raise ValueError\nraise E\n",
        "E (mine.py, line 4)",
    ),
    "many lines": ("raise ValueError('a\\n  b')\n", "ValueError: a b (mine.py, line 1)"),
    "hides": ("def __getattr__(name):\n    raise RuntimeError(name)\n", "RuntimeError: f (mine.py, line 2)"),
    "binary": ("\x00\n", "null bytes"),
}
NODES = "graph:\n  start: A\n  nodes:\n    - {id: A, type: agent%s}\n    - {id: B, type: passthrough}\n"
EDGE = "  edges:\n    - from: A\n      to: B\n      %s\n"
PLACES = {
    "tool": ("tools:\n  t:\n    python: mine:f\n" + NODES % "", 3),
    "condition": (NODES % "" + EDGE % "condition: mine:f", 9),
    "condition, written out": (
        NODES % "" + EDGE % "condition: {type: function,\n        config: {name: 'mine:f'}}",
        10,
    ),
    "processor": (NODES % "" + EDGE % "process: {type: function, config: {name: 'mine:f'}}", 9),
    "python node": (NODES % "" + "    - {id: C, type: python, config:\n       {function: 'mine:f'}}\n", 7),
    "middleware": ("middleware:\n  - mine:f\n" + NODES % "", 2),
    "strategy": (
        NODES % ""
        + "    - {id: C, type: loop_agent, config: {strategy: {mode: custom,\n"
        + "       use: 'mine:f'}, body: {id: D, type: human}}}\n",
        7,
    ),
    "until": (
        NODES % ""
        + "    - {id: C, type: loop_agent, config: {strategy: {mode: condition, until:\n"
        + "       {function: 'mine:f'}}, body: {id: D, type: human}}}\n",
        7,
    ),
    "tool of an agent": (NODES % ", config:\n       {tools: ['mine:f']}", 5),
}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(folder: Path, code: str, text: str) -> Path:
    (folder / "mine.py").write_text(code)
    file = folder / "flow.yaml"
    file.write_text(text)
    return file


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("fault", BROKEN)
def test_unimportable_module_is_a_diagnostic(place: str, fault: str, tmp_path: Path) -> None:
    (code, cause), (text, line) = BROKEN[fault], PLACES[place]
    file = written(tmp_path, code, text)
    _, report = roundel.check(file)
    [found] = report.errors
    assert (found.code, found.file, found.line) == ("unknown-function", str(file), line)
    assert found.message.startswith("cannot import 'mine': ")
    assert cause in found.message
    with pytest.raises(WorkflowError) as caught:
        roundel.run(file, script={"*": "x"})
    assert caught.value.diagnostics == (found,)


def test_keyboard_interrupt_during_import_is_raised(tmp_path: Path) -> None:
    file = written(tmp_path, "raise KeyboardInterrupt\n", PLACES["tool"][0])
    with pytest.raises(KeyboardInterrupt):
        roundel.check(file)


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "roundel", *arguments],
        capture_output=True,
        encoding="utf-8",
        cwd=folder,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "200"},
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("fault", ["syntax", "exits", "recursion"])
def test_the_command_line_shows_no_traceback(fault: str, tmp_path: Path) -> None:
    written(tmp_path, BROKEN[fault][0], PLACES["tool"][0])
    (tmp_path / "script.yaml").write_text("'*': x\n")
    checked = command(tmp_path, "check", "flow.yaml")
    assert checked.returncode == 2 and checked.stderr.startswith("next: ")
    assert "flow.yaml:3:13: error: cannot import 'mine': " in checked.stdout
    ran = command(tmp_path, "run", "flow.yaml", "--script", "script.yaml")
    assert ran.returncode == 2 and ran.stdout == ""
    assert "flow.yaml:3:13: error: cannot import 'mine': " in ran.stderr
    assert "Traceback" not in checked.stdout + ran.stderr


PRINTS = "print('hello from the module')\n\n\ndef f(text: str = '') -> str:\n    return text\n"


def test_module_output_goes_to_stderr(tmp_path: Path) -> None:
    written(tmp_path, PRINTS, PLACES["tool"][0].replace("type: agent", "type: agent, config: {tools: [t]}"))
    (tmp_path / "script.yaml").write_text("'*': x\n")
    checked = command(tmp_path, "check", "flow.yaml", "--json")
    assert checked.returncode == 0, checked.stderr
    assert json.loads(checked.stdout)["loops"] == []
    assert checked.stderr.splitlines()[0] == "hello from the module"
    ran = command(tmp_path, "run", "flow.yaml", "--script", "script.yaml", "--json", "--no-store")
    assert ran.returncode == 0, ran.stderr
    assert all(json.loads(line)["event"] for line in ran.stdout.splitlines())


def test_package_that_exits_on_import_is_a_diagnostic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "lib" / "leaving"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit(3)\n")
    (package / "inner.py").write_text("def f(): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path / "lib"))
    source: Any = {"tools": {"t": {"python": "leaving.inner:f"}}, "graph": {"start": "A"}}
    source["graph"]["nodes"] = [{"id": "A", "type": "agent"}]
    _, report = roundel.check(source)
    [found] = report.errors
    assert found.message == "cannot import 'leaving.inner': SystemExit: 3 (__init__.py, line 1)"
