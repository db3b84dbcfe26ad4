"""The smaller commands."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).parents[2]


def roundel(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "roundel", *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL
    )


def test_help_names_every_command(tmp_path: Path) -> None:
    done = roundel(tmp_path, "--help")
    assert done.returncode == 0
    for name in ("run", "check", "show", "new", "schema"):
        assert f"\n  {name} " in done.stdout
        own = roundel(tmp_path, name, "--help")
        assert own.returncode == 0
        assert own.stdout.startswith(f"Usage: python -m roundel {name}") or "Usage:" in own.stdout


def test_a_new_workflow_checks_out_and_runs(tmp_path: Path) -> None:
    assert roundel(tmp_path, "new", "tea").returncode == 0
    checked = roundel(tmp_path, "check", "tea.yaml", "--strict")
    assert checked.returncode == 0, checked.stderr
    done = roundel(tmp_path, "run", "tea.yaml", "--script", "tea.script.yaml", "--input", "tea")
    assert done.returncode == 0
    assert done.stdout == "Tea is a drink that has travelled further than most people.\n"


def test_new_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "tea.script.yaml").write_text("mine")
    done = roundel(tmp_path, "new", "tea.yaml")
    assert done.returncode == 2
    assert "tea.script.yaml already exists" in done.stderr
    assert not (tmp_path / "tea.yaml").exists()
    assert (tmp_path / "tea.script.yaml").read_text() == "mine"


def test_schema_accepts_the_examples_and_rejects_a_wrong_type(tmp_path: Path) -> None:
    schema = json.loads(roundel(tmp_path, "schema").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for file in ROOT.glob("examples/*/workflow.yaml"):
        errors = [error.message for error in validator.iter_errors(yaml.safe_load(file.read_text()))]
        assert not errors, file
    wrong = {"graph": {"nodes": [{"id": "A", "type": "loop_counter", "config": {"max_iterations": "many"}}]}}
    assert not validator.is_valid(wrong)


def test_fields_are_printed_in_one_or_both_languages(tmp_path: Path) -> None:
    both = json.loads(roundel(tmp_path, "schema", "--fields").stdout)
    assert both["node_types"]["literal"]["title"] == {"en": "Literal", "zh": "固定文本"}
    chinese = json.loads(roundel(tmp_path, "schema", "--fields", "--lang", "zh").stdout)
    assert chinese["node_types"]["literal"]["title"] == "固定文本"
    alone = roundel(tmp_path, "schema", "--lang", "zh")
    assert alone.returncode == 2 and "--lang selects the language of --fields" in alone.stderr


CYCLE = """
graph:
  start: A
  end: B
  nodes: [{id: A, type: agent}, {id: B, type: human}]
  edges: [{from: A, to: B}, {from: B, to: A, condition: {type: keyword, config: {none: [stop]}}}]
"""

GUARDED = """
graph: {start: A, end: End, edges: [{from: A, to: B},
        {from: B, to: A, condition: &more {cel: 'text != "stop"'}},
        {from: B, to: Guard, condition: *more}, {from: Guard, to: A}, {from: Guard, to: End}],
        nodes: [{id: A, type: agent}, {id: B, type: human}, {id: End, type: passthrough},
                {id: Guard, type: loop_counter, config: {max_iterations: 4}}]}
"""


def test_check_reports_every_file_and_its_loops(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text(GUARDED)
    (tmp_path / "odd.yaml").write_text(GUARDED + "colour: blue\n")
    (tmp_path / "bad.yaml").write_text("graph: {nodes: []}\n")
    done = roundel(tmp_path, "check", "good.yaml", "odd.yaml", "bad.yaml")
    assert done.returncode == 2
    assert "good.yaml: loop A: at most 4 rounds, by Guard" in done.stdout
    assert "good.yaml: ok" in done.stdout
    assert "odd.yaml:7:1: warning: the workflow has an unknown key 'colour'" in done.stdout
    assert "bad.yaml: not ok" in done.stdout


def test_check_reports_what_a_run_would_refuse(tmp_path: Path) -> None:
    code = "def save(text, disk): ...\ndef short(message, limit): ...\nclass Log:\n    pass\n"
    (tmp_path / "shop.py").write_text(code)
    (tmp_path / "shop.yaml").write_text(
        "tools:\n"
        "  pay: {python: 'builtins:dict'}\n"
        "  len: {python: 'builtins:len'}\n"
        "graph:\n"
        "  nodes:\n"
        "    - {id: Save, type: python, config: {function: 'shop:save'}}\n"
        "    - {id: Sell, type: agent, config: {model: 'openai:gpt-4o', tools: [pay]}}\n"
        "    - {id: Ask, type: agent, config: {model: 'openai:gpt-4o', tools: [len], approval: [buy]}}\n"
        "  edges:\n"
        "    - {from: Save, to: Sell, condition: {type: function, config: {name: 'shop:short'}}}\n"
        "    - {from: Sell, to: Ask}\n"
        "  start: Save\n"
    )
    checked = roundel(tmp_path, "check", "--json", "shop.yaml")
    assert checked.returncode == 2
    errors = [one for one in json.loads(checked.stdout)["diagnostics"] if one["severity"] == "error"]
    texts = {(one["code"], one["line"]): one["message"] for one in errors}
    assert "'save' asks for disk" in texts["cannot-run", 6]
    assert "'dict' has no signature" in texts["cannot-run", 7]
    assert "'approval' names the tool 'buy', which does not exist" in texts["cannot-run", 8]
    assert "'shop:short' cannot be called with a message" in texts["cannot-run", 10]
    # A run refuses the same for the same reasons.
    (tmp_path / "script.yaml").write_text("'*': [ok]\n")
    refused = roundel(tmp_path, "run", "--no-store", "--script", "script.yaml", "shop.yaml")
    assert refused.returncode == 2
    assert all(text in refused.stderr for text in texts.values())


def test_check_strict_fails_on_warnings(tmp_path: Path) -> None:
    (tmp_path / "odd.yaml").write_text(GUARDED + "colour: blue\n")
    assert roundel(tmp_path, "check", "odd.yaml").returncode == 0
    assert roundel(tmp_path, "check", "odd.yaml", "--strict").returncode == 2


def test_check_json_prints_one_object(tmp_path: Path) -> None:
    (tmp_path / "odd.yaml").write_text(GUARDED + "colour: blue\n")
    report = json.loads(roundel(tmp_path, "check", "odd.yaml", "--json", "--model", "openai:gpt-4o").stdout)
    (found,) = report["diagnostics"]
    assert list(found) == ["code", "severity", "file", "line", "column", "message", "hint"]
    assert (found["code"], found["line"], found["column"]) == ("unknown-key", 7, 1)
    assert report["loops"] == [
        {
            "id": "A",
            "nodes": ["A", "B", "Guard"],
            "bounded_by": [{"guard": "Guard", "limit": 4}],
            "worst_case_rounds": 4,
            "cap": 100,
            "depth": 0,
            "worst_case_total": 4,
        }
    ]


def test_a_loop_without_a_guard_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "open.yaml").write_text(CYCLE)
    done = roundel(tmp_path, "check", "open.yaml", "--strict")
    assert done.returncode == 2
    assert "open.yaml:5:11: warning: loop 'A' is bounded only by its cap of 100 rounds" in done.stdout
    assert "open.yaml: loop A: nothing but its cap of 100 rounds" in done.stdout


@pytest.mark.parametrize(
    ("form", "part"),
    [("tree", "loop A"), ("mermaid", "flowchart"), ("svg", "<svg"), ("json", '"title":"loop A"')],
)
def test_show(tmp_path: Path, form: str, part: str) -> None:
    (tmp_path / "flow.yaml").write_text(CYCLE)
    done = roundel(tmp_path, "show", "flow.yaml", "--format", form)
    assert done.returncode == 0
    assert part in done.stdout


def test_show_compact_is_smaller(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(CYCLE)
    for form in ("json", "svg"):
        normal, compact = (
            roundel(tmp_path, "show", "flow.yaml", "--format", form, *more).stdout
            for more in ((), ("--compact",))
        )
        assert height(compact) < height(normal)
    done = roundel(tmp_path, "show", "flow.yaml", "--compact")
    assert done.returncode == 2
    assert "--compact needs --format svg or --format json" in done.stderr


def height(drawing: str) -> float:
    found = re.search(r'height"?[=:]"?([0-9.]+)', drawing)
    assert found is not None
    return float(found[1])


def test_show_draws_the_sound_part_of_a_broken_file(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(CYCLE.replace("to: B", "to: C"))
    done = roundel(tmp_path, "show", "bad.yaml")
    assert done.returncode == 2
    assert "names the node 'C', which does not exist" in done.stderr
    assert "→ C" in done.stdout and "C  missing" in done.stdout
    drawn = json.loads(roundel(tmp_path, "show", "bad.yaml", "--format", "json").stdout)
    [missing] = [node for node in drawn["nodes"] if node["missing"]]
    assert (missing["id"], missing["problems"][0]["code"]) == ("C", "unknown-node")


def test_show_renders_a_graph_without_nodes(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("graph: {nodes: []}\n")
    done = roundel(tmp_path, "show", "bad.yaml")
    assert (done.returncode, done.stdout) == (2, "workflow  0 nodes, 0 edges, 0 loops\n")
    assert "no nodes" in done.stderr
