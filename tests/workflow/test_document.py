"""Files and texts: which can be read, how fast, and that nothing breaks the reader."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from roundel.workflow.diagnostics import Report
from roundel.workflow.document import MAX_BYTES, Located, read_file, read_text
from tests.workflow.parsing import PARSERS, parsed_by, problems, read


def file_problems(path: Path) -> list[tuple[str, int, int]]:
    report = Report()
    assert read_file(path, report) is None
    assert {found.file for found in report.diagnostics} == {str(path)}
    return [(found.code, found.line, found.column) for found in report.diagnostics]


def test_diagnostics_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "flow.yaml"
    path.write_bytes(b"a: 1\r\na: 2\r\n")
    report = Report()
    root = read_file(path, report)
    assert root is not None and root.plain() == {"a": 1}
    assert [(found.file, found.line) for found in report.errors] == [(str(path), 2)]


def test_existing_file_name_of_the_report_is_kept(tmp_path: Path) -> None:
    report = Report("flow.yaml")
    read_file(tmp_path / "missing.yaml", report)
    assert [found.file for found in report.errors] == ["flow.yaml"]


def test_file_size_is_limited_to_five_megabytes(tmp_path: Path) -> None:
    path = tmp_path / "flow.yaml"
    head = b"a: 1\n#"
    path.write_bytes(head + b"x" * (MAX_BYTES - len(head)))
    root = read_file(path, Report())
    assert root is not None and root.plain() == {"a": 1}
    path.write_bytes(head + b"x" * (MAX_BYTES - len(head) + 1))
    assert file_problems(path) == [("file-too-large", 0, 0)]


def test_a_text_is_bounded_like_a_file() -> None:
    assert problems("#" * (MAX_BYTES + 1)) == [("file-too-large", 0, 0)]


def test_endless_file_is_rejected() -> None:
    endless = Path("/dev/zero")
    if not endless.exists():
        pytest.skip("this system has no /dev/zero")
    assert file_problems(endless) == [("file-too-large", 0, 0)]


def test_unreadable_paths_are_reported_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a: 1")
    report = Report()
    for path in (tmp_path / "none.yaml", tmp_path / "file" / "x", tmp_path, Path("nul\0.yaml")):
        assert read_file(path, report) is None
    messages = [found.message for found in report.errors]
    assert messages[:2] == ["there is no such file", "this is a directory, not a file"]
    assert "null byte" in messages[2]


def test_a_missing_permission_is_named(tmp_path: Path) -> None:
    class Locked(type(tmp_path)):  # type: ignore[misc]
        def open(self, *_: Any, **__: Any) -> Any:
            raise PermissionError(13, "Permission denied")

    report = Report()
    assert read_file(Locked(tmp_path / "flow.yaml"), report) is None
    assert [found.message for found in report.errors] == ["you do not have permission to read the file"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_wide_encodings_are_distinguished_from_damage(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "flow.yaml"
    path.write_text("version: 1\ngraph: {id: x}\n", encoding=encoding)
    report = Report()
    assert read_file(path, report) is None
    assert [(found.code, found.hint) for found in report.errors] == [("encoding", "save the file as UTF-8")]


def test_utf_8_is_read_with_and_without_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "flow.yaml"
    for encoding in ("utf-8", "utf-8-sig"):
        path.write_text("名: 价值 😀\n", encoding=encoding)
        root = read_file(path, Report())
        assert root is not None and root.plain() == {"名": "价值 😀"}


def test_the_first_bad_byte_is_located_by_characters(tmp_path: Path) -> None:
    path = tmp_path / "flow.yaml"
    path.write_bytes("é: 1\r\nü: é".encode() + b"\xe9\n")
    assert file_problems(path) == [("encoding", 2, 5)]


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_endings_and_the_byte_order_mark_change_nothing(ending: str, mark: str) -> None:
    text = mark + ending.join(["# a comment", "a: 1", "b: |", "  x", "  y", "a: 2", ""])
    report = Report()
    root = read_text(text, report)
    assert root is not None and root.plain() == {"a": 1, "b": "x\ny\n"}
    assert [(found.code, found.line, found.column) for found in report.errors] == [("duplicate-key", 6, 1)]


# Time


def test_the_parser_is_imported_when_the_first_text_is_read() -> None:
    check = "import sys, roundel.workflow.document; sys.exit('yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def typical(nodes: int) -> str:
    node = (
        "  - id: N{0}\n    type: agent\n    config:\n      role: |\n        Write.\n      x: {{heat: 1.5}}\n"
    )
    return "nodes:\n" + "".join(node.format(number) for number in range(nodes))


@pytest.mark.parametrize(
    "text",
    [
        typical(11_000),
        json.dumps([{"id": f"N{number}", "config": {"role": "x" * 40}} for number in range(14_000)]),
        "a: " + "word " * 200_000,
        json.dumps("\n" * 500_000),
        "[" + "a, " * 330_000 + "]",
        "a: 1\n" * 200_000,
        "\n" * 1_000_000 + "a: 1",
        "a: {<<: [" + "".join(f"{{k{number}: 1}}, " for number in range(70_000)) + "]}",
        "a: [" + "9" * 1_000_000 + ", 1." + "9" * 1_000_000 + ", 0x" + "f" * 1_000_000 + "]",
    ],
    ids=["yaml", "json", "words", "escapes", "items", "duplicates", "lines", "merges", "digits"],
)
def test_a_megabyte_can_be_read(text: str) -> None:
    assert read_text(text, Report()) is not None


# Properties

WORKFLOW = """\
version: 0.4.0
vars: &vars
  NAME: "${USER}"
  LIMITS: {rounds: 3, cost_usd: 0.5}
graph:
  id: review   # a comment
  start: [Writer]
  nodes:
    - id: Writer
      type: agent
      config: {name: model, "role": 'It''s a writer', params: {heat: 1e-1}}
    - id: Guard
      type: loop_counter
      config: &guard
        max_iterations: 3
        message: |
          Enough of "this".
    - {id: Copy, type: loop_counter, config: {<<: *guard, scope: loop}}
  edges:
    - from: Writer
      to: Guard
      condition: {type: keyword, config: {any: [no, "\\u00e9"], regex: ["^a: b$"]}}
    - {from: Guard, to: Writer, trigger: false, note: *vars}
"""
NASTY = [
    "\t", "\n", "\r\n", "  ", ": ", "- ", "? ", "#", "&a ", "*a", "*guard", "<<: ", "!x ", "|", ">", "---\n",
    "...\n", "%", "@", "`", "'", '"', "{", "}", "[", "]", ",", "\\", "\\ud83d", "\x00", "\x85", "\u2028",
    "\ufeff", "\ud800", "😀", "${", "}", "0x", "1e999", ".nan", "9" * 5000, "[" * 300, "~",
]  # fmt: skip


def sound(root: Located | None, report: Report) -> None:
    """What must hold of every reading: a tree or a reason, and all of it can be used."""
    assert root is not None or report.errors
    for found in report.diagnostics:
        assert found.line >= 0 and found.column >= 0 and "\n" not in str(found)
    if root is not None:
        json.dumps(root.plain(), ensure_ascii=False).encode()


@given(st.text(), st.sampled_from(PARSERS))
@settings(deadline=None, max_examples=300)
def test_no_text_breaks_the_reader(text: str, parser: Any) -> None:
    report = Report()
    with parsed_by(parser):
        sound(read_text(text, report), report)


@given(
    st.text(alphabet=" \n\t:-?#&*!|>'\"%@`{}[],\\<~0ax$\r\x85\u2028", max_size=60), st.sampled_from(PARSERS)
)
@settings(deadline=None, max_examples=500)
@example("? ", PARSERS[0])
def test_random_yaml_punctuation_does_not_break_the_reader(text: str, parser: Any) -> None:
    report = Report()
    with parsed_by(parser):
        sound(read_text(text, report), report)


@given(st.binary() | st.text().map(lambda text: text.encode("utf-16")))
@settings(deadline=None)
def test_no_bytes_break_the_reader(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    path.write_bytes(data)
    report = Report()
    sound(read_file(path, report), report)


@given(st.randoms(use_true_random=False), st.integers(1, 6), st.sampled_from(PARSERS))
@settings(deadline=None, max_examples=400)
def test_no_damage_to_a_workflow_breaks_the_reader(chance: random.Random, times: int, parser: Any) -> None:
    text = WORKFLOW
    for _ in range(times):
        start, end = sorted(chance.randrange(len(text) + 1) for _ in range(2))
        end = min(end, start + 20)
        middle = chance.choice([chance.choice(NASTY), text[start:end] * 2, ""])
        text = text[:start] + middle + text[end:]
    report = Report()
    with parsed_by(parser):
        sound(read_text(text, report), report)


def test_the_workflow_without_damage_is_sound() -> None:
    graph = read(WORKFLOW)["graph"]
    assert graph["nodes"][2]["config"] == {
        "max_iterations": 3,
        "message": 'Enough of "this".\n',
        "scope": "loop",
    }
