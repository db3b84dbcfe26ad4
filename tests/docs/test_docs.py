"""The manual is run, page by page, each in a folder of its own.

- A yaml, python or toml block that begins with `# file: NAME` is written to that file. A pyproject.toml
  counts as installed: its entry points are there for what follows.
- Any other python block is run, and must not fail; one that awaits at the top level is run as in a notebook.
- In a console block each line that begins with `$ ` is run; what it prints must be what stands below it.
  `…` stands for anything, alone on a line also for several lines. Run ids and times are not compared.
- The line `next: …` with which commands end is compared only where a page shows it.
- A json block with an `event` in it must be an event that a command of the page printed, but for its `seq`.
- A block below a comment `<!-- $ COMMAND -->` must be what that command prints.
- The folder holds the examples, with no delays in their scripts.
"""

from __future__ import annotations

import ast
import getpass
import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from roundel.workflow.diagnostics import Report
from roundel.workflow.document import read_text
from tests.docs.manual import DOCS, PAGES, ROOT, Block, anchors, blocks, examples, without_blocks
from tests.docs.offline import copy_examples

NEXT = "next: "
NOTEBOOK = """
import ast, asyncio, pathlib, sys
text = pathlib.Path(sys.argv[1]).read_text()
asyncio.run(eval(compile(text, sys.argv[1], "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), {}))
"""
PAGES_TO_RUN = [ROOT / "README.md", *(page for page in PAGES if page.name != "server.md")]
"""The page about the server needs one that runs: test_server_page.py."""
PAGES_WITH_LINKS = [*sorted(ROOT.glob("*.md")), *PAGES, *sorted(DOCS.glob("decisions/*.md"))]
_RUN_ID = re.compile(r"\b[0-9a-f]{12}\b")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


class Reader:
    """Somebody who tries everything on a page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events: list[dict[str, Any]] = []

    def try_out(self, block: Block) -> None:
        if block.command:
            assert block.text == _without_next(self.run(block.command)), (
                f"line {block.line} is not what it prints"
            )
        elif block.file:
            self._write(block)
        elif block.kind == "console":
            for example in examples(block.text):
                self._compare(example.command, example.output, self.run(example.command))
        elif block.kind == "python":
            self._run_python(block)
        elif block.kind == "json":
            self._find_event(block)

    def run(self, command: str) -> str:
        done = subprocess.run(
            command,
            shell=True,
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        for line in done.stdout.splitlines():
            if line.startswith(('{"seq":', '{"event":')):
                self.events.append(_sample(line))
        return done.stdout

    def _environment(self) -> dict[str, str]:
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        # Whoever reads has installed what the page tells them to install.
        return os.environ | {
            "PATH": programs,
            # The source beside these tests, whatever is installed.
            "PYTHONPATH": os.pathsep.join((str(self.folder), str(ROOT / "src"))),
            "NO_COLOR": "1",
            "COLUMNS": "100",
        }

    def _write(self, block: Block) -> None:
        path = self.folder / block.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")
        if path.name == "pyproject.toml":
            self._install(tomllib.loads(block.text)["project"])

    def _install(self, project: dict[str, Any]) -> None:
        info = self.folder / f"{project['name']}-{project['version']}.dist-info"
        info.mkdir()
        info.joinpath("METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
        groups = (
            [f"[{group}]", *(f"{name} = {target}" for name, target in points.items())]
            for group, points in project["entry-points"].items()
        )
        info.joinpath("entry_points.txt").write_text("\n".join(line for group in groups for line in group))

    def _compare(self, command: str, expected: str, printed: str) -> None:
        pattern = "".join(map(_line_pattern, _lines(expected).splitlines()))
        if NEXT not in expected:
            printed = _without_next(printed)
        if not re.fullmatch(pattern, _lines(printed)):
            pytest.fail(f"$ {command}\nshould print\n{expected}\nbut prints\n{printed}")

    def _run_python(self, block: Block) -> None:
        program = self.folder / f"block_at_line_{block.line}.py"
        program.write_text(block.text, encoding="utf-8")
        command = [sys.executable, *(["-c", NOTEBOOK] if _is_notebook(block.text) else []), str(program)]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"the block at line {block.line}:\n{done.stderr}"

    def _find_event(self, block: Block) -> None:
        sample = _sample(block.text)
        if "event" in sample:
            assert sample in self.events, f"no command of the page printed the event at line {block.line}"


def _is_notebook(text: str) -> bool:
    """Whether a program awaits at the top level."""
    code = compile(text, "block", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    return bool(code.co_flags & inspect.CO_COROUTINE)


def _without_next(printed: str) -> str:
    return "".join(line for line in printed.splitlines(keepends=True) if not line.startswith(NEXT))


def _plain(text: str) -> str:
    """Without what is different each time."""
    text = _TIME.sub("2026-11-15T20:00:00.000Z", _RUN_ID.sub("5b1c8e0f2a7d", text))
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE).rstrip("\n")


DURATIONS = {"seconds", "waited", "work_seconds"}


def _sample(text: str) -> dict[str, Any]:
    """An event without its number, which shifts with every event before it, without how long things took,
    and who has acted."""
    event: dict[str, Any] = json.loads(_plain(text))
    event.pop("seq", None)
    data = event.get("data", {})
    known = {**data, **dict.fromkeys(DURATIONS & data.keys(), 0)}
    if known.get("by") == getpass.getuser():  # a command of the page has acted in the name of who reads it
        known["by"] = "ada"
    return {**event, "data": known}


def _lines(text: str) -> str:
    return f"{_plain(text)}\n".lstrip("\n")


def _line_pattern(line: str) -> str:
    return "(?:.*\n)*" if line == "…" else re.escape(line).replace("…", ".*") + "\n"


@pytest.mark.parametrize("page", PAGES_TO_RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_code_on_a_page_work(page: Path, tmp_path: Path) -> None:
    copy_examples(tmp_path)
    reader = Reader(tmp_path)
    for block in blocks(page):
        reader.try_out(block)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_fragments_can_be_parsed(page: Path) -> None:
    for block in blocks(page):
        if block.kind == "yaml":
            report = Report(f"{page.name}, the block at line {block.line}")
            read_text(block.text, report)
            assert not report.diagnostics, "\n".join(map(str, report.diagnostics))


@pytest.mark.parametrize("page", PAGES_WITH_LINKS, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", without_blocks(page)):
        if target.startswith(("http://", "https://")):
            continue
        assert_resolves(target, page)


def test_links_of_field_descriptions_resolve() -> None:
    found = 0
    for module in (ROOT / "src").rglob("*.py"):
        for target in re.findall(r'\bsee="([^"]+)"', module.read_text(encoding="utf-8")):
            assert_resolves(target, DOCS / "README.md")
            found += 1
    assert found


def assert_resolves(target: str, page: Path) -> None:
    path, _, anchor = target.partition("#")
    other = (page.parent / path).resolve() if path else page
    assert other.exists(), f"{target} leads nowhere"
    assert not anchor or anchor in anchors(other), f"{target}: there is no such heading"


def test_the_index_names_every_page() -> None:
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    missing = [page.name for page in PAGES if page.name != "README.md" and f"]({page.name})" not in index]
    assert not missing


def test_drawing_in_the_docs_is_up_to_date(tmp_path: Path) -> None:
    drawn = Reader(ROOT).run("roundel show examples/review_loop/workflow.yaml --format svg")
    kept = (DOCS / "review-loop.svg").read_text(encoding="utf-8")
    assert _without_next(drawn) == kept, "draw it again: roundel show … --format svg > docs/review-loop.svg"
