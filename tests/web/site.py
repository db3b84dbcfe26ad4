"""A server with runs in every state, and a browser that looks at it: what the tests of the page share.

    with Site(tmp_path) as site:
        run = site.start("polish")
        with site.browser() as browser:
            page = site.page(browser)
            page.goto(f"{site.address}/runs/{run}")

`roundel serve` is a process of its own, with the page that `make page` has built, and the browser is the
Chromium of the system. `python -m tests.web.look` takes pictures of pages.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.web.browser import find_browser
from tests.web.samples import SAMPLES, Sample
from tests.web.tools import GATES

ROOT = Path(__file__).parents[2]
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--force-color-profile=srgb")


class Site:
    """A server on a store of its own. Leaving it stops the server."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._folder, self._options = folder, options
        self._store = f"sqlite:///{folder / 'runs.db'}?sync=normal"
        self._process: subprocess.Popen[str] | None = None
        self.address = self._code = ""
        self._port = 0
        self._client: httpx2.Client | None = None

    def __enter__(self) -> Site:
        self._folder.mkdir(parents=True, exist_ok=True)
        allowed = self._folder / "allow.yaml"
        allowed.write_text("functions: ['tests.web.tools:*']\nfiles: []\n")
        (self._folder / GATES).mkdir(exist_ok=True)
        self.serve()
        created = self._roundel("token", "create", "--role", "admin", "--name", "tests")
        self.token = created.stdout.strip()
        headers = {"authorization": f"Bearer {self.token}"}
        self._client = httpx2.Client(base_url=f"{self.address}/api/v1", headers=headers, timeout=30)
        return self

    def __exit__(self, *_error: object) -> None:
        if self._client is not None:
            self._client.close()
        self.end()

    def _environment(self) -> dict[str, str]:
        # The operator has a model for agents that name none, so that no check warns of them. Scripts answer
        # in its place, and its price is not known.
        model = {"ROUNDEL_MODEL": "openai:stand-in"}
        return {**os.environ, **model, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}

    def _roundel(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "roundel", *arguments, "--store", self._store],
            check=True,
            capture_output=True,
            text=True,
            cwd=self._folder,
            env=self._environment(),
        )

    def serve(self) -> None:
        """Starts the server; again at the same port."""
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "roundel", "serve", "--store", self._store),
                *(
                    "--sign-in-link",
                    "--port",
                    str(self._port),
                    "--allow",
                    "allow.yaml",
                    "--shutdown-seconds",
                    "1",
                ),
                *self._options,
            ],
            stdout=subprocess.PIPE,
            text=True,
            cwd=self._folder,
            env=self._environment(),
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found = re.search(r"(http://\S+?:(\d+))/login\?code=(\S+)", line)
        assert found is not None, f"it printed {line!r}"
        self.address, self._port, self._code = found[1], int(found[2]), found[3]

    def end(self, sent: signal.Signals = signal.SIGTERM) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            process.send_signal(sent)
            process.wait()
        if process is not None and process.stdout is not None:
            process.stdout.close()

    # Runs, over the API.

    def call(self, method: str, path: str, body: Any = None) -> Any:
        assert self._client is not None
        answer = self._client.request(method, path, json=body)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def start(self, sample: str | Sample, **changes: Any) -> str:
        """Starts a run of a sample, and returns its id."""
        one = SAMPLES[sample] if isinstance(sample, str) else sample
        body = {
            "workflow": {"text": one.text},
            "input": one.input,
            "script": one.script,
            **one.more,
            **changes,
        }
        started: str = self.call("POST", "/runs", body)["id"]
        for answer in one.answers:
            self.wait(started, "waiting")
            self.call("POST", f"/runs/{started}/answer", {"text": answer})
        return started

    def open_gate(self, gate: str) -> None:
        """Lets the runs go on that hold at this gate (`held_polish` and `held_nested` in samples.py)."""
        (self._folder / GATES / gate).touch()

    def save(self, name: str, text: str, **headers: str) -> None:
        """Saves a new workflow, or with the header `if-match` a new version of one."""
        assert self._client is not None
        condition = headers or {"if-none-match": "*"}
        answer = self._client.put(f"/workflows/{name}", json={"text": text}, headers=condition)
        assert answer.is_success, answer.text

    def token_for(self, role: str) -> str:
        """A new token with this role."""
        return str(self.call("POST", "/tokens", {"name": role, "role": role})["secret"])

    def events(self, run_id: str, name: str = "") -> list[dict[str, Any]]:
        """The stored events of a run, or those with this name."""
        assert self._client is not None
        accept = {"accept": "application/jsonl"}
        answer = self._client.get(f"/runs/{run_id}/events", params={"follow": "false"}, headers=accept)
        assert answer.is_success, answer.text
        found = [msgspec.json.decode(line) for line in answer.text.splitlines() if line]
        return [event for event in found if name in ("", event["event"])]

    def status(self, run_id: str) -> str:
        return str(self.call("GET", f"/runs/{run_id}")["status"])

    def wait(self, run_id: str, *statuses: str) -> None:
        """Waits until a run has one of these statuses."""
        wanted = statuses or ("completed", "failed", "stopped", "waiting", "paused", "suspended_locked")
        for _ in range(600):
            if self.status(run_id) in wanted:
                return
            time.sleep(0.05)
        raise AssertionError(f"run {run_id} is {self.status(run_id)}, and not {' or '.join(wanted)}")

    # Browsers.

    @staticmethod
    @contextlib.contextmanager
    def browser() -> Iterator[Browser]:
        """A browser. The tests that need one are skipped where there is none."""
        place = find_browser()
        if place is None:
            pytest.skip("no Chromium was found: install it, or set ROUNDEL_CHROMIUM")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=place, args=list(FLAGS))
            try:
                yield browser
            finally:
                browser.close()

    def context(self, browser: Browser, *, token: str = "", **options: Any) -> BrowserContext:
        """A browser that is signed in: as an administrator, unless there is a token."""
        settings: dict[str, Any] = {
            "viewport": {"width": 1440, "height": 900},
            "locale": "en-GB",
            "timezone_id": "Europe/Vienna",
            **options,
        }
        context = browser.new_context(base_url=self.address, **settings)
        context.set_default_timeout(30_000)
        origin = {"origin": self.address}
        answer = context.request.post("/api/v1/session", data={"token": token or self.token}, headers=origin)
        assert answer.ok, answer.text()
        return context

    def page(self, browser: Browser, **options: Any) -> Page:
        """A page of a browser that is signed in."""
        return self.context(browser, **options).new_page()
