"""The dashboard and the alerts name metrics that a server exports, and a backup is private."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from roundel.journal.sqlite import SqliteStore
from roundel.kernel.events import Event
from roundel.runs.runs import Runs
from roundel.server.context import ServerContext, ServerSettings
from roundel.server.measured import watch_server
from roundel.telemetry import Metrics
from tests.docs.manual import DOCS
from tests.events import payload

NAME = re.compile(r"\broundel_[a-z_]+")


def exported(folder: Path) -> set[str]:
    store = SqliteStore(folder / "runs.db")
    context = ServerContext(Runs(store), store.documents(), ServerSettings())
    metrics = Metrics()
    watch_server(metrics, context)
    metrics.on_request("GET", "/healthz", 200, 0.1)
    now = "2026-11-15T20:00:00.000Z"
    used = {"input_tokens": 1, "output_tokens": 2, "model": "openai:gpt-4o", "cost_usd": 0.25}
    events: tuple[tuple[str, dict[str, Any]], ...] = (
        ("node_state_change", {"status": "running"}),
        ("model_call", {"status": "completed", "seconds": 1.5, **used}),
        ("run_state_change", {"status": "suspended_locked"}),
    )
    for number, (name, data) in enumerate(events, 1):
        metrics.observe(Event(number, name, now, "5b1c8e0f2a7d", "A", "A", payload(name, **data)))
    families = text_string_to_metric_families(metrics.exposition().decode())
    counted = {f"{family.name}_total" for family in families if family.type == "counter"}
    families = text_string_to_metric_families(metrics.exposition().decode())
    return counted | {sample.name for family in families for sample in family.samples}


def test_the_dashboard_and_the_alerts_name_metrics_that_exist(tmp_path: Path) -> None:
    known = exported(tmp_path)
    dashboard = json.loads((DOCS / "dashboard.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    named = {name for query in queries for name in NAME.findall(query)}
    assert len(named) > 8
    alerts = (DOCS / "operate.md").read_text().partition("| alert on |")[2]
    named |= set(NAME.findall(alerts))
    assert named <= known, named - known


def test_a_backup_is_private(tmp_path: Path) -> None:
    (command,) = re.findall(r"^\$ (.*\.backup\(.*)$", (DOCS / "operate.md").read_text(), re.MULTILINE)
    (tmp_path / ".roundel").mkdir()
    subprocess.run(["sh", "-c", f"umask 022; {command}"], cwd=tmp_path, check=True)
    assert (tmp_path / "backup.db").stat().st_mode & 0o777 == 0o600
