"""Invalid workflow files: the diagnostics of each, their locations, and the exit code.

Every file in `broken/` begins with comments that say what is expected of `check`:

    # expect: 7 unknown-type "'loop_countr'" hint "did you mean 'loop_counter'?"
    # warn: 9 unknown-key "'source'"

An `expect` is an error with its line, its code, a piece of its message and a piece of its hint; the
errors of a file are exactly these, in this order. A `warn` is a warning that has to be among the others.
`other.yaml:7` stands for a line of another file. JSON has no comments: what is expected of those files
stands below, and files that no editor should touch are made here.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import roundel
from roundel import Diagnostic, WorkflowError

FOLDER = Path(__file__).parent / "broken"
FILES = sorted(path for path in FOLDER.iterdir() if path.is_file())
_EXPECTATION = re.compile(
    r"# (?P<kind>expect|warn): (?:(?P<file>\S+):)?(?P<line>\d+) (?P<code>\S+)"
    r'(?: (?P<message>"(?:\\.|[^"\\])*"))?(?: hint (?P<hint>"(?:\\.|[^"\\])*"))?'
)

JSON_FILES = {
    "json-bad-escape.json": ['5 syntax "this escape is not known" hint "a backslash"'],
    "json-comment.json": ['3 syntax "missing before this" hint "the bracket of line 1 is still open"'],
    "json-duplicate-key.json": ["4 duplicate-key \"the key 'id' is already on line 4\""],
    "json-list-at-the-root.json": ['1 wrong-type "the workflow must be a mapping, not a list"'],
    "json-missing-colon.json": ['3 syntax "missing before this" hint "the bracket of line 2 is still open"'],
    "json-missing-comma.json": ['4 syntax "a comma or a closing bracket is missing before this"'],
    "json-not-a-number.json": ["4 wrong-type \"'timeout' of node 'Writer' must be a number above 0\""],
    "json-text-at-the-root.json": ["1 wrong-type \"the workflow must be a mapping, not 'Writer'\""],
    "json-truncated.json": ['5 syntax "a bracket is opened and never closed"'],
    "json-two-values.json": ['2 syntax "there is more text after the end"'],
    "json-unclosed-text.json": ['4 syntax "missing before this"'],
    "json-wrong-types.json": [
        "6 wrong-type \"'context_window' of node 'Writer' must be a whole number of at least -1\"",
        "7 wrong-type \"'id' of node '7' must be text\" hint \"put it in quotes\"",
        "8 wrong-type \"'max_iterations' of node 'Guard' must be a whole number of at least 1, not false\"",
        "10 wrong-type \"'edges' of the graph must be a list, not a mapping\"",
    ],
}


class Expected(NamedTuple):
    severity: str
    file: str
    line: int
    code: str
    message: str
    hint: str

    def fits(self, found: Diagnostic) -> bool:
        same = (found.severity, Path(found.file).name, found.line, found.code) == self[:4]
        return same and self.message in found.message and self.hint in found.hint


def expectations(path: Path) -> list[Expected]:
    if path.suffix == ".json":
        lines = [f"# expect: {text}" for text in JSON_FILES[path.name]]
    else:
        lines = path.read_text(encoding="utf-8").split("\n")
    return [_expected(line, path.name) for line in lines if line.startswith(("# expect:", "# warn:"))]


def _expected(line: str, name: str) -> Expected:
    match = _EXPECTATION.fullmatch(line)
    assert match is not None, line
    severity = "error" if match["kind"] == "expect" else "warning"
    message, hint = (json.loads(match[part] or '""') for part in ("message", "hint"))
    return Expected(severity, match["file"] or name, int(match["line"]), match["code"], message, hint)


# What a message may never show: Python's way of telling, and our own insides.
_INSIDES = re.compile(r"Traceback|Located\(|\bobject at 0x|<class |msgspec|NoneType|\n")
# The name of a thing in quotes, an expression, a variable, a loop; or the one thing that can be meant.
_NAMED = re.compile(
    r"'[^']+'|`|\$\{|→"
    r"|\b(workflow|graph|file|edge|node|condition|pattern|expression|vars|tool calls|\w+_\w+)\b"
)
_ABOUT_TEXT = ("syntax", "alias-bomb", "too-deep", "several-documents", "encoding", "control-character")


def assert_readable(found: Diagnostic) -> None:
    assert not _INSIDES.search(f"{found.message} {found.hint}"), found
    assert found.code in _ABOUT_TEXT or _NAMED.search(found.message), found


def test_every_broken_file_states_its_expected_diagnostics() -> None:
    assert len(FILES) >= 100
    assert [path.name for path in FILES if not expectations(path)] == []
    assert set(JSON_FILES) == {path.name for path in FILES if path.suffix == ".json"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_broken_file_is_rejected_with_all_its_errors(path: Path) -> None:
    _, report = roundel.check(path)
    shown = "\n".join(map(str, report.diagnostics))
    wanted = expectations(path)
    errors = [expected for expected in wanted if expected.severity == "error"]
    assert len(report.errors) == len(errors), shown
    for expected, found in zip(errors, report.errors, strict=True):
        assert expected.fits(found), f"{expected}\n{shown}"
    for expected in wanted:
        assert any(expected.fits(found) for found in report.diagnostics), f"{expected}\n{shown}"
    for found in report.diagnostics:
        assert_readable(found)
        assert found.line > 0 or found.code == "empty-file", found
    lines = [found.line for found in report.errors if Path(found.file).name == path.name]
    assert lines == sorted(lines)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_broken_file_is_not_loaded(path: Path) -> None:
    with pytest.raises(WorkflowError) as caught:
        roundel.load(path)
    assert caught.value.diagnostics
    assert {found.severity for found in caught.value.diagnostics} == {"error"}


# Files that no editor should touch

VALID = b"graph:\n  start: Writer\n  nodes:\n    - {id: Writer, type: agent}\n"


@pytest.mark.parametrize(
    ("data", "line", "code", "message"),
    [
        (b"", 0, "empty-file", "the file is empty"),
        (b"\n \n\n", 0, "empty-file", "the file is empty"),
        (b"\xef\xbb\xbf", 0, "empty-file", "the file is empty"),
        (b"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00>\x00", 1, "encoding", ""),
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", 1, "encoding", "0x89 is not valid UTF-8"),
        (VALID.decode().encode("utf-16"), 1, "encoding", "the file is UTF-16 or UTF-32 text"),
        (VALID.decode().encode("utf-16-be"), 1, "encoding", "the file is UTF-16 or UTF-32 text"),
        (VALID.decode().encode("utf-32"), 1, "encoding", "the file is UTF-16 or UTF-32 text"),
        (VALID + b"# caf\xe9\n", 5, "encoding", "the byte 0xE9 is not valid UTF-8"),
        (VALID.replace(b"Writer, type", b"Wri\xc3er, type"), 4, "encoding", "the byte 0xC3 is not valid"),
        (VALID.replace(b"Writer, type", b"Wri\x00er, type"), 4, "control-character", "U+0000"),
        (VALID.replace(b"start: W", b"start: \x1bW"), 2, "control-character", "U+001B"),
        (VALID + b"#" + b"x" * (5 * 1024 * 1024), 0, "file-too-large", "larger than 5 MB"),
        (VALID.replace(b"\n", b"\r\n") + b"\tid: x\r\n", 5, "syntax", "a tab is used for indentation"),
    ],
    ids=lambda value: f"{len(value)}-bytes" if isinstance(value, bytes) else None,
)
def test_undecodable_file_is_rejected(
    tmp_path: Path, data: bytes, line: int, code: str, message: str
) -> None:
    path = tmp_path / "flow.yaml"
    path.write_bytes(data)
    workflow, report = roundel.check(path)
    assert workflow is None
    [found] = report.errors
    assert (found.file, found.line, found.code) == (str(path), line, code)
    assert message in found.message
    assert_readable(found)


def test_paths_that_are_not_files_are_rejected(tmp_path: Path) -> None:
    codes = {}
    for name in ("", "none.yaml", "x" * 5000, "none/none.yaml"):
        [found] = roundel.check(tmp_path / name)[1].errors
        codes[name[:9]] = found.code
        assert_readable(found)
    assert codes == {
        "": "file-unreadable",
        "none.yaml": "file-not-found",
        "xxxxxxxxx": "file-unreadable",
        "none/none": "file-not-found",
    }


# Several files


def _subgraph(*paths: str) -> str:
    nodes = [
        {"id": path, "type": "subgraph", "config": {"type": "file", "config": {"path": path}}}
        for path in paths
    ]
    return json.dumps({"graph": {"start": list(paths), "nodes": nodes}})


def test_nesting_of_subgraph_files_is_limited(tmp_path: Path) -> None:
    for number in range(200):
        (tmp_path / f"{number}.yaml").write_text(_subgraph(f"{number + 1}.yaml"))
    _, report = roundel.check(tmp_path / "0.yaml")
    assert [(found.code, found.line) for found in report.errors] == [("too-many-files", 1)]
    assert "'33.yaml'" in report.errors[0].message


def test_exponential_subgraph_files_are_rejected(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number}.yaml").write_text(_subgraph(f"{number + 1}.yaml", f"./{number + 1}.yaml"))
    (tmp_path / "30.yaml").write_bytes(VALID)
    _, report = roundel.check(tmp_path / "0.yaml")
    assert {found.code for found in report.errors} == {"too-many-files"}


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def f(:\n", "cannot import 'beside': SyntaxError"),
        ("1 / 0\n", "cannot import 'beside': ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit('no')\n", "cannot import 'beside': SystemExit: no"),
        ("import no_such_module_at_all\n", "cannot import 'beside': No module named 'no_such_module_at_all'"),
        ("f = 5\n", "module 'beside' has no function 'f'"),
    ],
)
@pytest.mark.parametrize("key", ["condition", "process"])
def test_unimportable_module_is_an_error(tmp_path: Path, key: str, code: str, message: str) -> None:
    (tmp_path / "beside.py").write_text(code)
    use = json.dumps({"type": "function", "config": {"name": "beside:f"}})
    edge = f"  edges:\n    - {{from: Writer, to: Writer, {key}: {use}}}\n"
    path = tmp_path / "flow.yaml"
    path.write_bytes(VALID + edge.encode())
    workflow, report = roundel.check(path)
    assert workflow is None
    [found] = report.errors
    assert (found.code, found.line) == ("unknown-function", 6)
    assert message in found.message


# Workflows and scripts given in Python


def test_recursive_mapping_is_rejected() -> None:
    endless: dict[str, Any] = {}
    endless["graph"] = endless
    workflow, report = roundel.check(endless)
    assert workflow is None
    assert [(found.code, found.file) for found in report.errors] == [("too-deep", "<python>")]


@pytest.mark.parametrize("value", [b"bytes", {"a", "set"}, object(), 1j, lambda: None])
def test_python_values_that_are_not_yaml_are_rejected(value: object) -> None:
    node = {"id": "Writer", "type": "agent", "config": {"role": value}}
    workflow, report = roundel.check({"graph": {"start": "Writer", "nodes": [node]}})
    assert workflow is None
    assert [found.code for found in report.errors] == ["wrong-type"]
    assert "'role' of node 'Writer' must be text" in report.errors[0].message


@pytest.mark.parametrize(
    ("script", "code", "message"),
    [
        ({"Writer": []}, "empty-script", "the script gives 'Writer' no reply"),
        ({"Writer": [{"text": 5}]}, "wrong-type", "'text' of a reply of 'Writer' must be text, not 5"),
        ({"Writer": {"data": "x"}}, "wrong-type", "'data' of a reply of 'Writer' must be a mapping"),
        (
            {"Writer": [{"tokens": {"input": -1}}]},
            "wrong-type",
            "must be a whole number of at least 0, not -1",
        ),
        ({"Writer": [{"delay": "soon"}]}, "wrong-type", "'delay' of a reply of 'Writer'"),
        ({"Writer": [{"delay": float("inf")}]}, "wrong-type", "'delay' of a reply of 'Writer'"),
        ({"Writer": [{"tool_calls": {"name": "mean"}}]}, "wrong-type", "'tool_calls' of a reply of 'Writer'"),
        ({"Writer": [b"bytes"]}, "wrong-type", "a reply of 'Writer' cannot be written as text"),
    ],
)
def test_invalid_script_is_rejected_before_the_run(script: Any, code: str, message: str) -> None:
    workflow = {"graph": {"start": "Writer", "nodes": [{"id": "Writer", "type": "agent"}]}}
    events: list[object] = []
    with pytest.raises(WorkflowError) as caught:
        roundel.run(workflow, script=script, on_event=events.append)
    assert events == []
    [found] = caught.value.diagnostics
    assert (found.code, found.file) == (code, "<script>")
    assert message in found.message
    assert_readable(found)


def test_recursive_script_is_rejected() -> None:
    script: dict[str, Any] = {}
    script["Writer"] = [script]
    workflow = {"graph": {"start": "Writer", "nodes": [{"id": "Writer", "type": "agent"}]}}
    with pytest.raises(WorkflowError, match="contains itself"):
        roundel.run(workflow, script=script)


# The command line

Roundel = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def command(tmp_path: Path) -> Roundel:
    """Runs `roundel` in a folder with a workflow `flow.yaml` of an agent and a person."""
    text = VALID + b"    - {id: Person, type: human}\n  edges:\n    - {from: Writer, to: Person}\n"
    (tmp_path / "flow.yaml").write_bytes(text)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "roundel", *arguments],
            capture_output=True,
            encoding="utf-8",
            cwd=tmp_path,
            env={**os.environ, "NO_COLOR": "1", "COLUMNS": "200"},
            stdin=subprocess.DEVNULL,
            timeout=60,
            check=False,
        )

    return run


def assert_refused(done: subprocess.CompletedProcess[str], *pieces: str) -> None:
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    for piece in pieces:
        assert piece in done.stderr


@pytest.mark.parametrize(
    "name",
    [
        "many-errors.yaml",
        "subgraph-circular.yaml",
        "loop-without-way-out.yaml",
        "json-wrong-types.json",
        "yaml-tabs.yaml",
    ],
)
def test_check_prints_one_json_object(command: Roundel, name: str) -> None:
    done = command("check", str(FOLDER / name), "--json")
    assert done.returncode == 2
    assert re.fullmatch(r"next: .* check .*\n", done.stderr)
    [line] = done.stdout.splitlines()
    printed = json.loads(line)
    assert set(printed) >= {"diagnostics", "loops"}
    keys = ["code", "severity", "file", "line", "column", "message", "hint"]
    assert all(list(found) == keys for found in printed["diagnostics"])
    errors = [Diagnostic(**found) for found in printed["diagnostics"] if found["severity"] == "error"]
    wanted = [expected for expected in expectations(FOLDER / name) if expected.severity == "error"]
    assert len(errors) == len(wanted)
    assert all(expected.fits(found) for expected, found in zip(wanted, errors, strict=True))


def test_check_prints_location_problem_and_hint(command: Roundel) -> None:
    path = FOLDER / "unknown-processor-type.yaml"
    done = command("check", str(path))
    assert done.returncode == 2
    assert f"{path}:11:15: error: unknown processor type 'regex_extrct' [unknown-type]" in done.stdout
    assert "did you mean 'regex_extract'?" in done.stdout
    assert re.fullmatch(r"next: .* check .*\n", done.stderr)


def test_check_of_several_files_reports_on_all_of_them(command: Roundel) -> None:
    files = ("flow.yaml", "none.yaml", str(FOLDER / "yaml-tag.yaml"), ".")
    done = command("check", *files, "--json", "--model", "openai:gpt-4o")
    assert done.returncode == 2
    found = [(Path(each["file"]).name, each["code"]) for each in json.loads(done.stdout)["diagnostics"]]
    assert found == [
        ("none.yaml", "file-not-found"),
        ("yaml-tag.yaml", "tag"),
        ("yaml-tag.yaml", "wrong-type"),
        ("", "file-unreadable"),
    ]


def test_warnings_fail_only_with_strict(command: Roundel, tmp_path: Path) -> None:
    (tmp_path / "odd.yaml").write_bytes(VALID + b"  colour: x\n")
    assert command("check", "odd.yaml").returncode == 0
    strict = command("check", "odd.yaml", "--strict")
    assert strict.returncode == 2
    assert "known keys: args, breaker" in strict.stdout


def test_show_draws_the_valid_part_and_reports_errors(command: Roundel) -> None:
    path = FOLDER / "many-errors.yaml"
    errors = [expected for expected in expectations(path) if expected.severity == "error"]
    done = command("show", str(path))
    assert done.returncode == 2
    assert done.stderr.count(": error: ") == len(errors)
    assert "Writer  agent  ✗ 'context_window' of node 'Writer' must be a whole number" in done.stdout
    assert "Wrter  missing  (start, end)  ✗ there is no node 'Wrter'" in done.stdout


@pytest.mark.parametrize(
    "name", ["missing-graph.yaml", "yaml-list-at-the-root.yaml", "yaml-only-comments.yaml"]
)
def test_show_rejects_files_without_a_graph(command: Roundel, name: str) -> None:
    assert_refused(command("show", str(FOLDER / name)), ": error: ")


@pytest.mark.parametrize("arguments", [("run", "--json"), ("run",)])
def test_no_command_runs_a_broken_file(command: Roundel, arguments: tuple[str, ...]) -> None:
    path = FOLDER / "many-errors.yaml"
    errors = [expected for expected in expectations(path) if expected.severity == "error"]
    done = command(*arguments, str(path))
    assert_refused(done)
    assert done.stderr.count(": error: ") == len(errors)


@pytest.mark.parametrize("name", ["none.yaml", ".", "flow.yaml/x", ""])
def test_run_rejects_paths_that_are_not_files(command: Roundel, name: str) -> None:
    assert_refused(command("run", name, "--json"), "error: ")


@pytest.mark.parametrize(
    ("script", "pieces"),
    [
        ("[a, b]", ["1:1: error: a script must be a mapping from node ids to replies"]),
        ("just text", ["1:1: error: a script must be a mapping"]),
        ("Writer: []", ["1:9: error: the script gives 'Writer' no reply"]),
        ("Writer:\n  - text: [a]\n", ["2:11: error: 'text' of a reply of 'Writer' must be text, not a list"]),
        ("Writer: [a\n", ["1:9: error: a bracket is opened and never closed"]),
        ("Writer: a\nWriter: b\n", ["2:1: error: the key 'Writer' is already on line 1"]),
        ("", ["error: the file is empty"]),
        (None, ["script.yaml: error: there is no such file"]),
    ],
)
def test_a_bad_script_file(command: Roundel, tmp_path: Path, script: str | None, pieces: list[str]) -> None:
    if script is not None:
        (tmp_path / "script.yaml").write_text(script)
    assert_refused(command("run", "flow.yaml", "--json", "--script", "script.yaml"), *pieces)


def test_script_for_an_unknown_node_is_a_warning(command: Roundel, tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text("Writr: [a]\nPerson: [{text: b}]\n'*': [ok]\n")
    done = command("run", "flow.yaml", "--json", "--script", "script.yaml", "--input", "x")
    assert done.returncode == 0
    assert "script.yaml:1:1: warning: the script names 'Writr', which is not a node" in done.stderr
    assert "did you mean 'Writer'?" in done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["event"] == "run_finished"


def test_an_unknown_key_of_a_scripted_reply_is_an_error(command: Roundel, tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text("Person: [{mood: b}]\n'*': [ok]\n")
    done = command("run", "flow.yaml", "--script", "script.yaml", "--input", "x")
    assert (done.returncode, done.stdout) == (2, "")
    assert "script.yaml:1:11: error: a reply of 'Person' has an unknown key 'mood'" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "piece"),
    [
        (["run"], "Missing argument 'FILE'"),
        (["check"], "Missing argument 'FILE...'"),
        (["run", "flow.yaml", "other.yaml"], "unexpected extra argument"),
        (["run", "flow.yaml", "--input"], "'--input' requires an argument"),
        (["run", "flow.yaml", "--limit", "rounds"], "--limit takes NAME=N or X.NAME=N, not 'rounds'"),
        (["run", "flow.yaml", "--limit", "=3"], "--limit takes NAME=N or X.NAME=N, not '=3'"),
        (["run", "flow.yaml", "--limit", "rounds=0"], "--limit rounds takes a whole number above 0"),
        (["run", "flow.yaml", "--limit", "rounds=-1"], "--limit rounds takes a whole number above 0"),
        (["run", "flow.yaml", "--limit", "steps=many"], "--limit steps takes a whole number above 0"),
        (["run", "flow.yaml", "--limit", "steps="], "--limit steps takes a whole number above 0"),
        (["run", "flow.yaml", "--limit", "laps=3"], "'laps'"),
        (["run", "flow.yaml", "--var", "TONE"], "--var takes NAME=VALUE, not 'TONE'"),
        (["check", "flow.yaml", "--var", "=dry"], "--var takes NAME=VALUE, not '=dry'"),
        (["check", "flow.yaml", "--strct"], "--strict"),
        (["chek", "flow.yaml"], "did you mean 'check'?"),
        (["frobnicate"], "No such command 'frobnicate'"),
        (["show", "flow.yaml", "--format", "png"], "'png' is not one of"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_bad_usage(command: Roundel, arguments: list[str], piece: str) -> None:
    assert_refused(command(*arguments), "Usage: " if "--input" not in arguments else "", piece)


@pytest.mark.parametrize(
    ("script", "arguments", "status", "code"),
    [
        ("'*': [ok]", [], "completed", 0),
        ("Writer: [{error: no}]", [], "failed", 1),
        ("'*': [ok]", ["--limit", "steps=1"], "suspended_locked", 3),
        ("Writer: [ok]", [], "waiting", 4),
    ],
)
def test_exit_codes_reflect_the_run_status(
    command: Roundel, tmp_path: Path, script: str, arguments: list[str], status: str, code: int
) -> None:
    (tmp_path / "script.yaml").write_text(script)
    done = command("run", "flow.yaml", "--json", "--script", "script.yaml", *arguments)
    assert done.returncode == code
    assert json.loads(done.stdout.splitlines()[-1])["data"]["status"] == status


def test_agent_without_a_model_is_rejected_before_the_run(command: Roundel) -> None:
    assert_refused(command("run", "flow.yaml", "--json"), "flow.yaml:4:7: error: agent 'Writer' has no model")
