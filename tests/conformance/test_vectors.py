"""Conformance vectors, run through the real command.

A vector is one YAML document: `workflow`, `input`, `script`, and what to `expect` of `roundel run --json`,
or of `roundel check --json` where it says `check: true`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

HERE = Path(__file__).parent
VECTORS = sorted(HERE.rglob("*.yaml"))


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_vector(path: Path, tmp_path: Path) -> None:
    vector = yaml.safe_load(path.read_text(encoding="utf-8"))
    done = _run(vector, tmp_path)
    expect = vector["expect"]
    if "exit_code" in expect:
        assert done.returncode == expect["exit_code"], done.stderr
    problems = (_check_problems if vector.get("check") else _run_problems)(expect, done.stdout)
    assert not problems, "\n".join(problems)


def _run(vector: dict[str, Any], folder: Path) -> subprocess.CompletedProcess[str]:
    workflow, source = folder / "workflow.yaml", vector["workflow"]
    text = source if isinstance(source, str) else json.dumps(source, ensure_ascii=False)
    workflow.write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "roundel", "check", "--json", str(workflow)]
    if not vector.get("check"):
        script = folder / "script.yaml"
        script.write_text(json.dumps(vector.get("script", {}), ensure_ascii=False), encoding="utf-8")
        command = [sys.executable, "-m", "roundel", "run", "--json", str(workflow)]
        command += ["--input", vector.get("input", "go"), "--script", str(script)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, cwd=folder, check=False
    )


def missing(want: Any, got: Any, where: str = "") -> list[str]:
    """What of `want` is not in `got`; mappings are compared key by key, the rest whole."""
    if isinstance(want, dict) and set(want) == {"contains"}:
        return [] if want["contains"] in str(got) else [f"{where}: {got!r} lacks {want['contains']!r}"]
    if isinstance(want, dict):
        if not isinstance(got, dict):
            return [f"{where}: wanted a mapping, got {got!r}"]
        return [
            line for key, value in want.items() for line in missing(value, got.get(key), f"{where}.{key}")
        ]
    return [] if want == got else [f"{where}: wanted {want!r}, got {got!r}"]


def _run_problems(expect: dict[str, Any], stdout: str) -> list[str]:
    events = [json.loads(line) for line in stdout.splitlines()]
    problems = missing(expect.get("summary", {}), events[-1]["data"], "summary")
    changes = [event for event in events if event["event"] == "node_state_change"]
    ran = [event["node_id"] for event in changes if event["data"]["status"] == "running"]
    if "order" in expect and ran != expect["order"]:
        problems.append(f"order: wanted {expect['order']}, got {ran}")
    for want in expect.get("events", []):
        if all(missing(want, event) for event in events):
            problems.append(f"no event like {want}")
    for unwanted in expect.get("no_events", []):
        if not all(missing(unwanted, event) for event in events):
            problems.append(f"an event like {unwanted}")
    numbers = [event["seq"] for event in events if "seq" in event]
    if numbers != list(range(1, len(numbers) + 1)):
        problems.append("seq has a gap, or does not start at 1")
    return problems


def _check_problems(expect: dict[str, Any], stdout: str) -> list[str]:
    report = json.loads(stdout)
    problems: list[str] = []
    for name in ("diagnostics", "loops"):
        problems += [
            f"{name}: none like {want}; found {report[name]}"
            for want in expect.get(name, [])
            if all(missing(want, found) for found in report[name])
        ]
    severities = {found["severity"] for found in report["diagnostics"]}
    if expect.get("clean") and severities:
        problems.append(f"not clean: {report['diagnostics']}")
    return problems
