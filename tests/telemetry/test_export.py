"""The standard OpenTelemetry variables, and what a process exports under them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from roundel.telemetry import TelemetryError, from_environment
from roundel.telemetry.spans import derive_ids
from tests.telemetry.collector import Collector

PROGRAM = """
import sys
import roundel
from roundel.telemetry import from_environment

graph = {"id": "tea", "nodes": [{"id": "Ann", "type": "agent"}], "edges": [], "start": "Ann"}
telemetry = from_environment()
middleware = [telemetry] if telemetry is not None else []
script = {"Ann": {"text": "hello", "tokens": {"input": 3, "output": 2}}}
result = roundel.run({"graph": graph}, "tea", script=script, middleware=middleware)
print(result.run_id, result.status, "opentelemetry" in sys.modules)
"""


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)


def program(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(PROGRAM)
    return subprocess.run(
        [sys.executable, "program.py"],
        cwd=folder,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )


def nobody() -> str:
    """An address at which nobody is."""
    with socket.socket() as there:
        there.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{there.getsockname()[1]}"


def test_telemetry_is_off_and_not_imported_by_default(tmp_path: Path) -> None:
    done = program(tmp_path)
    assert done.stdout.split()[1:] == ["completed", "False"]
    assert done.stderr == ""
    command = "import sys; from roundel.cli import main; print('opentelemetry' in sys.modules)"
    started = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert started.stdout == "False\n"


@pytest.mark.parametrize(
    "variables",
    [
        {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"},
        {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"},
        {
            "OTEL_TRACES_EXPORTER": "none",
            "OTEL_METRICS_EXPORTER": "none",
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318",
        },
        {"OTEL_EXPORTER_OTLP_ENDPOINT": " "},
        {"OTEL_SERVICE_NAME": "tea"},
    ],
)
def test_variables_can_disable_telemetry(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert from_environment() is None


def test_short_program_exports_everything(tmp_path: Path) -> None:
    with Collector() as collector:
        done = program(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
    run_id, status, _ = done.stdout.split()
    assert (status, done.stderr) == ("completed", "")
    assert sorted(span.name for span in collector.spans) == [
        "chat script",
        "invoke_agent Ann",
        "invoke_workflow tea",
    ]
    trace_id, span_id = derive_ids(run_id)
    assert {span.trace_id for span in collector.spans} == {trace_id.to_bytes(16)}
    (root,) = (span for span in collector.spans if not span.parent_span_id)
    assert root.span_id == span_id.to_bytes(8)
    assert collector.services == {"roundel"}
    assert {"gen_ai.client.token.usage", "roundel.runs"} <= collector.metric_names


def test_single_signal_can_be_exported(tmp_path: Path) -> None:
    with Collector() as collector:
        named = {"OTEL_SERVICE_NAME": "kitchen"}
        program(tmp_path, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"{collector.url}/v1/traces", **named)
        assert (len(list(collector.spans)), collector.metric_names) == (3, set())
        assert collector.services == {"kitchen"}
        program(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, OTEL_TRACES_EXPORTER="none")
        assert len(list(collector.spans)) == 3
        assert "roundel.runs" in collector.metric_names


def test_console_exporter_writes_to_stderr(tmp_path: Path) -> None:
    done = program(tmp_path, OTEL_TRACES_EXPORTER="console", OTEL_METRICS_EXPORTER="console")
    assert len(done.stdout.splitlines()) == 1
    assert '"name": "invoke_agent Ann"' in done.stderr
    assert "roundel.runs" in done.stderr


def test_an_unreachable_collector_is_logged_once_and_the_run_completes(tmp_path: Path) -> None:
    done = program(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=nobody())
    assert done.stdout.split()[1] == "completed"
    (line,) = done.stderr.splitlines()
    assert line.startswith("telemetry is being lost, and the run continues: ")


def test_a_hanging_collector_does_not_block_the_run(tmp_path: Path) -> None:
    with Collector(status=0) as collector:
        done = program(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
        assert not list(collector.spans)
    assert done.stdout.split()[1] == "completed"
    assert "takes longer than" in done.stderr


def test_a_collector_error_is_logged_with_its_response(tmp_path: Path) -> None:
    with Collector(status=404) as collector:
        done = program(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
    assert done.stdout.split()[1] == "completed"
    assert "404" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("missing", ["opentelemetry", "opentelemetry.sdk", "opentelemetry.exporter"])
def test_a_missing_extra_is_explained(tmp_path: Path, missing: str) -> None:
    (tmp_path / "program.py").write_text(f"import sys; sys.modules[{missing!r}] = None\n{PROGRAM}")
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env=os.environ | {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    *_, last = done.stderr.splitlines()
    told = 'roundel.telemetry.export.TelemetryError: this needs an extra: pip install "roundel[telemetry]"'
    assert last == told


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        (
            "OTEL_TRACES_EXPORTER",
            "zipkin",
            "OTEL_TRACES_EXPORTER is 'zipkin'; set it to one of otlp, console, none",
        ),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "the protocol 'grpc' is not supported"),
    ],
)
def test_unsupported_settings_are_errors(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, told: str
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318")
    monkeypatch.setenv(name, value)
    with pytest.raises(TelemetryError, match=told):
        from_environment()


@pytest.mark.parametrize(
    ("name", "value"),
    [("OTEL_BSP_MAX_QUEUE_SIZE", "-1"), ("OTEL_SPAN_EVENT_COUNT_LIMIT", "many")],
)
def test_an_invalid_number_is_reported(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    monkeypatch.setenv(name, value)
    with pytest.raises(TelemetryError, match="OTEL_ variables are invalid"):
        from_environment()
