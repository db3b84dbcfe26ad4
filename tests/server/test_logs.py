"""The log of a server: whose request and which run a line is about, and nothing that a client could forge."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from roundel.nodes.middleware import Middleware, Visit
from roundel.server.identity import TOKEN_PREFIX
from roundel.server.logs import JsonFormatter, LogFormat, PlainFormatter, RepeatFilter, configure_logs
from tests.server.api import Server
from tests.server.live import loop_text
from tests.server.test_admission import story
from tests.server.test_demo import ENVIRONMENT

EVIL = "x\r\n2026-01-01T00:00:00.000Z INFO  forged\x1b[2J\u2028y"
RUN = {"workflow": {"text": loop_text(2)}, "script": {"Writer": ["x"]}}


@contextlib.contextmanager
def written(log_format: LogFormat) -> Iterator[io.StringIO]:
    """What the server writes to its log."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if log_format == "json" else PlainFormatter())
    logger = logging.getLogger("roundel")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield stream
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def entries(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_access_log_says_who_did_what() -> None:
    async def work(server: Server) -> None:
        client = await server.client("viewer", name="ann")
        answer = await client.get("/api/v1/runs?limit=5&q=private")
        stranger = await server.anyone()
        await stranger.get("/api/v1/runs", headers={"authorization": "Bearer rdl_wrong"})
        first, second = entries(stream)
        assert first["level"] == "info" and first["logger"] == "roundel.access"
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first["time"])
        assert (first["method"], first["path"], first["status"]) == ("GET", "/api/v1/runs", 200)
        assert first["bytes"] == len(answer.content) and first["milliseconds"] >= 0
        assert (first["caller_name"], first["client"]) == ("ann", "127.0.0.1")
        token = client.headers["authorization"].removeprefix("Bearer ")
        assert first["caller"] == token.split("_")[1]
        assert first["request"] == answer.headers["x-request-id"]
        assert second["status"] == 401 and "caller" not in second
        assert token not in stream.getvalue() and "private" not in stream.getvalue()

    with written("json") as stream:
        story(work)


def test_credentials_never_reach_the_log() -> None:
    async def work(server: Server) -> None:
        identities = server.context.identities
        token = (await identities.create_token("x", "admin", None)).secret
        code = await identities.create_code("x")
        browser = await server.anyone()
        assert (await browser.get("/login", params={"code": code})).status_code == 303
        await browser.get("/api/v1/me")
        await browser.get(f"/api/v1/runs/{token}")
        await browser.get(f"/api/v1/me?token={token}")
        await browser.post("/api/v1/session", json={"token": token})
        assert len(entries(stream)) == 5
        secret_part = token.removeprefix(TOKEN_PREFIX).partition("_")[2]
        for secret in (token, secret_part, code, next(iter(browser.cookies.values()))):
            assert secret not in stream.getvalue()

    with written("json") as stream:
        story(work)


def test_request_id_comes_from_the_client_if_it_is_one() -> None:
    async def work(server: Server) -> None:
        client = await server.anyone()
        for good in ("a", "5f0c-11.x_Y", "a" * 64):
            answer = await client.get("/healthz", headers={"x-request-id": good})
            assert answer.headers["x-request-id"] == good
        for bad in (b"", b"a" * 65, b"a b", b'a"b', b"a=b", "é".encode()):
            answer = await client.get("/healthz", headers={b"x-request-id": bad})
            assert re.fullmatch("[0-9a-f]{16}", answer.headers["x-request-id"])
        refused = await client.get("/api/v1/me")
        assert refused.status_code == 401 and refused.headers["x-request-id"]

    story(work)


def test_checks_are_logged_only_if_they_fail() -> None:
    async def work(server: Server) -> None:
        client = await server.client("admin")
        for path in ("/healthz", "/readyz", "/metrics"):
            assert (await client.get(path)).status_code == 200
        assert entries(stream) == []
        server.context.is_ready = False
        assert (await client.get("/readyz")).status_code == 503
        assert [one["status"] for one in entries(stream) if one["logger"] == "roundel.access"] == [503]

    with written("json") as stream:
        story(work)


@pytest.mark.parametrize("log_format", ["plain", "json"])
def test_a_record_is_one_line_whatever_is_in_it(log_format: LogFormat) -> None:
    async def work(server: Server) -> None:
        client = await server.client("viewer", name=EVIL)
        await client.get(
            httpx2.URL("http://127.0.0.1:8420").copy_with(raw_path=b"/x%0d%0aforged%1b[2J%e2%80%a8")
        )

    with written(log_format) as stream:
        story(work)
        logging.getLogger("roundel").error("a run failed: %s", EVIL)
    # As every reader counts lines.
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2 and lines[0].count("forged") >= 1
    assert not [line for line in lines if line.startswith("2026-01-01") or "\x1b" in line]


def test_lines_of_a_traceback_cannot_be_taken_for_others() -> None:
    with written("plain") as stream:
        try:
            raise ValueError(EVIL)
        except ValueError:
            logging.getLogger("roundel").exception("it failed")
    first, *others = stream.getvalue().splitlines()
    assert "ERROR roundel it failed" in first
    assert len(others) > 3 and all(line.startswith("    | ") for line in others)


def test_lines_of_a_run_carry_its_id() -> None:
    async def work(server: Server) -> None:
        client = await server.client("author", name="ann")

        class Noting(Middleware):
            async def before(self, visit: Visit) -> None:
                logging.getLogger("roundel").warning("before %s", visit.node.id)

        server.context.middleware = (Noting(),)
        started = await client.post("/api/v1/runs", json=RUN, headers={"x-request-id": "mine"})
        run_id = started.json()["id"]
        await server.context.runs.result(run_id)
        found = [one for one in entries(stream) if one["message"] == "before Writer"]
        assert found and {(one["run"], one["request"], one["caller_name"]) for one in found} == {
            (run_id, "mine", "ann")
        }
        (access,) = [one for one in entries(stream) if one["logger"] == "roundel.access"]
        assert "run" not in access

    with written("json") as stream:
        story(work)


def test_repeated_messages_are_counted() -> None:
    now = 0.0
    shown = RepeatFilter(lambda: now)

    def passes(text: str) -> str | None:
        record = logging.LogRecord("x", logging.WARNING, "", 0, text, (), None)
        return record.getMessage() if shown.filter(record) else None

    assert passes("a") == "a" and passes("b") == "b"
    assert [passes("a") for _ in range(1000)] == [None] * 1000
    now += 60
    assert passes("a") == "a (1000 more since the last time)"
    assert passes("a") is None
    for number in range(10_000):
        passes(f"message {number}")
    assert len(shown._seen) <= 100


async def first_lines(folder: Path, *options: str) -> tuple[list[str], list[str]]:
    """What a server writes to a pipe until it listens, and to its log after some requests."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "roundel", "serve", "--demo", "--port", "0", *options),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=folder,
        env=ENVIRONMENT,
    )
    assert process.stdout is not None
    async with asyncio.timeout(60):
        line = (await process.stdout.readline()).decode()
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert found is not None, line
        async with httpx2.AsyncClient(base_url=found[0]) as client:
            assert (await client.get("/api/v1/me")).status_code == 401
        process.terminate()
        rest, errors = await process.communicate()
    return [line, *rest.decode().splitlines()], errors.decode().splitlines()


def test_a_log_gets_no_link_unless_somebody_asks_for_it(tmp_path: Path) -> None:
    async def tell() -> None:
        printed, log = await first_lines(tmp_path)
        assert "login" not in "".join(printed) + "".join(log) and "--sign-in-link" in "".join(log)
        (access,) = [line for line in log if "roundel.access" in line]
        assert re.search(
            r" INFO +roundel\.access GET /api/v1/me 401 \d+ms \d+B client=127\.0\.0\.1 request=", access
        )
        printed, log = await first_lines(tmp_path, "--sign-in-link", "--log-format", "json")
        assert "/login?code=" in printed[0] and "/login?code=" not in "".join(log)
        entries = [json.loads(line) for line in log]
        (found,) = [one for one in entries if one["logger"] == "roundel.access"]
        assert (found["path"], found["status"]) == ("/api/v1/me", 401)
        printed, _ = await first_lines(tmp_path, "--no-sign-in-link")
        assert "login" not in "".join(printed)

    asyncio.run(tell())


def test_logs_of_other_packages_and_of_runs_are_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    """httpx, for one, logs every address that it sends a request to; and events of runs contain everything
    that models say."""
    root, *own = [logging.getLogger(name) for name in ("", "roundel.server", "roundel.access")]
    before = root.handlers[:], [one.level for one in (root, *own)]
    try:
        configure_logs("plain")
        logging.getLogger("httpx").info("GET https://models.example/?key=1")
        logging.getLogger("roundel").info("an event of a run")
        logging.getLogger("roundel.server").info("seen")
        assert capsys.readouterr().err.count("\n") == 1
    finally:
        root.handlers[:], levels = before
        for one, level in zip((root, *own), levels, strict=True):
            one.setLevel(level)
        for name in ("uvicorn.error", "asyncio"):
            logging.getLogger(name).filters.clear()
