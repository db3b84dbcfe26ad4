"""Commands that execute runs export telemetry if the environment requests it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.telemetry.collector import Collector

HUMAN = """\
graph:
  id: asked
  nodes: [{id: A, type: agent}, {id: P, type: human}]
  edges: [{from: A, to: P}]
  start: A
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flow.yaml").write_text(HUMAN)
    (tmp_path / "script.yaml").write_text("A: {text: hi, tokens: {input: 3, output: 1}}")
    return tmp_path


def roundel(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return subprocess.run(
        [sys.executable, "-m", "roundel", *arguments],
        cwd=folder,
        env={**clean, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


RUN = ("run", "flow.yaml", "--script", "script.yaml", "--input", "x")


def test_run_answered_in_another_process_is_one_trace(folder: Path) -> None:
    with Collector() as collector:
        assert roundel(folder, *RUN, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url).returncode == 4
        answered = roundel(folder, "answer", "last", "yes", OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
        assert answered.returncode == 0, answered.stderr
    names = sorted(span.name for span in collector.spans)
    assert names == [
        "chat script",
        "invoke_agent A",
        *["invoke_workflow asked"] * 2,
        *["node P"] * 2,
    ]
    assert len({span.trace_id for span in collector.spans}) == 1
    assert "gen_ai.client.token.usage" in collector.metric_names


def test_unknown_exporter_is_rejected_before_the_run(folder: Path) -> None:
    refused = roundel(folder, *RUN, OTEL_TRACES_EXPORTER="zipkin")
    assert refused.returncode == 1
    assert "OTEL_TRACES_EXPORTER is 'zipkin'; set it to one of otlp, console, none" in refused.stderr
    assert "there are no runs" in roundel(folder, "runs").stderr


def test_opentelemetry_is_not_imported_when_disabled(folder: Path) -> None:
    code = (
        "import sys; from roundel.cli import main; sys.argv = ['roundel', *sys.argv[1:]]\n"
        "try: main()\n"
        "finally: sys.stderr.write(str([one for one in sys.modules if one.startswith('opentelemetry')]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *RUN], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.stderr.splitlines()[-1] == "[]"
