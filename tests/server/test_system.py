"""The server itself: health, metrics, what it says about itself, and how it starts."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from roundel.journal.registry import open_store
from roundel.journal.store import StoreError
from roundel.server import readiness
from roundel.server.identity import Identities
from roundel.server.serving import is_loopback
from roundel.workflow.policy import Policy
from tests.cli.stored_runs import roundel
from tests.server.api import Server, serving
from tests.server.live import ROOT, loop_text, start_server


def story(work: Callable[[Server], Any], **options: Any) -> None:
    async def tell() -> None:
        async with serving(**options) as server:
            await work(server)

    asyncio.run(tell())


def test_health_and_readiness(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(server: Server) -> None:
        anyone = await server.anyone()
        assert (await anyone.get("/healthz")).json() == {"status": "ok"}
        assert (await anyone.get("/readyz")).json() == {"status": "ok"}

        async def broken(*_given: Any, **_named: Any) -> Any:
            raise StoreError("/secret/path/runs.db is gone")

        with monkeypatch.context() as patch:
            patch.setattr(server.context.documents, "put", broken)
            patch.setattr(readiness, "PROBE_SECONDS", 0)
            server.context.probe = readiness.StoreProbe(server.context.documents)
            answer = await anyone.get("/readyz")
            assert answer.status_code == 503 and "/secret" not in answer.text
        server.context.is_ready = False
        assert (await anyone.get("/readyz")).status_code == 503
        assert (await anyone.get("/healthz")).status_code == 200

    story(work)


def test_many_who_ask_for_readiness_share_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(server: Server) -> None:
        monkeypatch.setattr(readiness, "PROBE_SECONDS", 3600)
        anyone = await server.anyone()
        answers = await asyncio.gather(*(anyone.get("/readyz") for _ in range(20)))
        assert {answer.status_code for answer in answers} == {200}
        probe = await server.context.documents.get(readiness.COLLECTION, readiness.KEY)
        assert probe is not None and probe.version == 1, "20 writes would have made 20 versions"

    story(work)


def test_metrics_are_for_admins_and_count_the_runs_of_the_server() -> None:
    async def work(server: Server) -> None:
        admin, viewer = await server.client("admin"), await server.client("viewer")
        started = await admin.post(
            "/api/v1/runs", json={"workflow": {"text": loop_text(3)}, "script": {"Writer": ["x"]}}
        )
        await server.context.runs.result(started.json()["id"])
        answer = await admin.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain")
        assert 'roundel_runs_total{status="completed",workflow="review"} 1.0' in answer.text
        # Not by the path, which contains the id of a run.
        await admin.get(f"/api/v1/runs/{started.json()['id']}")
        await admin.get("/api/v1/made-up")
        text = (await admin.get("/metrics")).text
        status = started.status_code
        assert f'roundel_requests_total{{method="POST",route="/api/v1/runs",status="{status}"}} 1.0' in text
        assert 'roundel_requests_total{method="GET",route="/api/v1/runs/{run_id}",status="200"} 1.0' in text
        assert 'roundel_requests_total{method="GET",route="(none)",status="404"} 1.0' in text
        assert 'roundel_request_seconds_count{method="POST",route="/api/v1/runs"} 1.0' in text
        for figure in ("active_runs 0.0", "max_runs 200.0", "open_streams 0.0"):
            assert f"roundel_{figure}" in text
        assert started.json()["id"] not in text
        assert (await viewer.get("/metrics")).status_code == 403
        assert (await (await server.anyone()).get("/metrics")).status_code == 401
        server.context.metrics = None
        missing = await admin.get("/metrics")
        assert missing.status_code == 404 and "roundel[prometheus]" in missing.json()["detail"]

    story(work)


def test_server_describes_itself_without_secrets(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        viewer = await server.client("viewer")
        answer = await viewer.get("/api/v1/server")
        seen = answer.json()
        assert seen["store"] == "sqlite" and str(tmp_path) not in answer.text
        assert seen["allowed"]["functions"] == ["statistics:mean"] and seen["allowed"]["files"]
        assert seen["limits"]["active_runs"] == 3 and seen["engine"] == "local"

    policy = Policy(functions=("statistics:mean",), files=(str(tmp_path),))
    story(work, store=f"sqlite:///{tmp_path}/runs.db", policy=policy, max_active_runs=3)


def test_starts_beyond_the_limit_are_refused() -> None:
    async def work(server: Server) -> None:
        author = await server.client("author")
        body = {
            "workflow": {"text": loop_text(3)},
            "script": {"Writer": [{"text": "x", "delay": 3600}]},
        }
        answers = await asyncio.gather(*(author.post("/api/v1/runs", json=body) for _ in range(6)))
        assert sorted(answer.status_code for answer in answers) == [202, 202, 429, 429, 429, 429]
        refused = next(answer for answer in answers if answer.status_code == 429)
        assert refused.headers["retry-after"]
        for answer in answers:
            if answer.status_code == 202:
                await author.post(f"{answer.headers['location']}/stop", json={})
                await server.context.runs.result(answer.json()["id"])

    story(work, max_active_runs=2)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *(("127.0.0.1", True), ("127.8.0.1", True), ("::1", True), ("localhost", True)),
        *(("0.0.0.0", False), ("::", False), ("10.0.0.1", False), ("example.org", False), ("", False)),
    ],
)
def test_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


# The commands.


def test_tokens_on_the_command_line(tmp_path: Path) -> None:
    created = roundel(tmp_path, "token", "create", "--role", "operator", "--group", "red", "--expires", "30d")
    assert created.exit_code == 0
    secret = created.stdout.strip()
    assert secret.startswith("rdl_") and "\n" not in secret
    key = secret.split("_")[1]
    roundel(tmp_path, "token", "create", "--role", "admin", "--name", "ann")
    listed = roundel(tmp_path, "token", "list")
    assert f"{key}  operator  red  operator  until 2" in listed.stdout and "ann" in listed.stdout
    as_json = roundel(tmp_path, "token", "list", "--json").stdout
    assert as_json.count("\n") == 2 and secret.rpartition("_")[2] not in as_json
    assert roundel(tmp_path, "token", "revoke", key).exit_code == 0
    assert roundel(tmp_path, "token", "revoke", key).exit_code == 2
    assert key not in roundel(tmp_path, "token", "list").stdout
    for wrong in (["--role", "root"], [], ["--role", "admin", "--expires", "soon"]):
        assert roundel(tmp_path, "token", "create", *wrong).exit_code == 2


def test_command_line_revokes_tokens_that_were_made_with_a_token(tmp_path: Path) -> None:
    async def make_another(maker: str) -> str:
        store = open_store(str(tmp_path / "runs.db"))
        try:
            made = await Identities(store.documents()).create_token(
                "made", "viewer", None, created_by=maker, made_with=maker
            )
        finally:
            await store.close()
        return made.id

    place = ("--store", str(tmp_path / "runs.db"))
    key = roundel(tmp_path, "token", "create", "--role", "admin", *place).stdout.split("_")[1]
    kept = roundel(tmp_path, "token", "create", "--role", "admin", *place).stdout.split("_")[1]
    made = asyncio.run(make_another(key))
    revoked = roundel(tmp_path, "token", "revoke", key, *place)
    assert revoked.exit_code == 0
    assert f"revoked token {made}, which was made with {key}" in revoked.stderr
    listed = roundel(tmp_path, "token", "list", *place).stdout
    assert kept in listed and made not in listed and key not in listed


def test_server_does_not_listen_to_the_world_without_a_token(tmp_path: Path) -> None:
    refused = roundel(tmp_path, "serve", "--host", "0.0.0.0", "--port", "0")
    assert refused.exit_code == 2 and "roundel token create --role admin" in refused.stderr


def test_port_in_use_is_explained(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        refused = roundel(tmp_path, "serve", "--port", port)
    assert refused.exit_code == 2 and f"port {port} at 127.0.0.1 is in use" in refused.stderr


def test_wrong_options_are_explained(tmp_path: Path) -> None:
    alone = roundel(tmp_path, "serve", "--tls-key", "key.pem")
    assert alone.exit_code == 2 and "belong together" in alone.stderr
    missing = roundel(tmp_path, "serve", "--tls-key", "key.pem", "--tls-certificate", "cert.pem")
    assert missing.exit_code == 2 and "cannot use the certificate cert.pem" in missing.stderr
    (tmp_path / "allow.yaml").write_text("function: [x]\n", encoding="utf-8")
    wrong = roundel(tmp_path, "serve", "--allow", "allow.yaml")
    assert wrong.exit_code == 2 and "function" in wrong.stderr
    memory = roundel(tmp_path, "serve", "--store", "memory:")
    assert memory.exit_code == 2


def test_missing_packages_are_named(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "sys.modules['fastapi'] = None\n"
        "from roundel.cli import main\n"
        "sys.argv = ['roundel', 'serve']\n"
        "main()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PATH": ""},
    )
    assert ended.returncode == 2 and "roundel[server]" in ended.stderr and "Traceback" not in ended.stderr


def test_printed_address_signs_a_browser_in(tmp_path: Path) -> None:
    async def work() -> None:
        server = await start_server(tmp_path / "runs.db")
        async with httpx2.AsyncClient(base_url=server.address) as browser:
            answer = await browser.get("/login", params={"code": server.code})
            assert answer.status_code == 303
            assert (await browser.get("/api/v1/me")).json()["role"] == "admin"
            # Other names are not known.
            other = await browser.get("/healthz", headers={"host": "evil.example"})
            assert other.status_code == 421
        assert await server.end() == 0

    asyncio.run(work())


def test_a_damaged_store_is_an_error_of_the_server_and_its_path_stays_secret(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "secret" / "runs.db"
    place.parent.mkdir()

    async def work(server: Server) -> None:
        admin = await server.client()
        started = await admin.post(
            "/api/v1/runs", json={"workflow": {"text": loop_text(1)}, "script": {"Writer": ["a"]}}
        )
        run_id = started.json()["id"]
        await server.context.runs.wait(run_id)
        with sqlite3.connect(place) as other:
            assert other.execute("UPDATE runs SET summary = x'ff' WHERE id = ?", (run_id,)).rowcount == 1
        answer = await admin.get(f"/api/v1/runs/{run_id}")
        assert answer.status_code == 503, answer.text
        assert answer.json()["type"] == "urn:roundel:problem:unavailable"
        assert "secret" not in answer.text and "secret" in caplog.text

    story(work, store=f"sqlite:///{place}")
