"""The page about the server is run against a real one, in a process of its own on a free port.

`$ roundel serve` starts it in the background; what it prints first must be what stands below it. In all
other blocks the port of the page is replaced by that of the server.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

from tests.docs.manual import DOCS, Block, blocks
from tests.docs.offline import copy_examples
from tests.docs.test_docs import Reader

ADDRESS = "127.0.0.1:8420"
_PRINTED = re.compile(r"http://(127\.0\.0\.1:\d+)/")


class ServerReader(Reader):
    """Somebody who tries everything on the page, and starts the server where it says so."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.server: subprocess.Popen[str] | None = None
        self._address = ADDRESS

    def try_out(self, block: Block) -> None:
        super().try_out(block._replace(text=self._here(block.text)) if block.kind == "python" else block)

    def run(self, command: str) -> str:
        if shlex.split(command)[:2] == ["roundel", "serve"]:
            return self._start(command)
        return super().run(self._here(command)).replace(self._address, ADDRESS)

    def _here(self, text: str) -> str:
        return text.replace(ADDRESS, self._address)

    def _start(self, command: str) -> str:
        assert self.server is None, "the page starts one server"
        self.server = subprocess.Popen(
            # The page shows what a terminal shows.
            [sys.executable, "-m", *shlex.split(command), "--sign-in-link", "--port", "0"],
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.server.stdout is not None
        printed = "".join(self.server.stdout.readline() for _ in range(3))
        found = _PRINTED.search(printed)
        assert found is not None, printed
        self._address = found[1]
        return printed.replace(self._address, ADDRESS)

    def stop(self) -> int:
        assert self.server is not None
        self.server.send_signal(signal.SIGINT)
        self.server.communicate(timeout=60)
        return self.server.returncode


def test_everything_on_the_page_works(tmp_path: Path) -> None:
    copy_examples(tmp_path)
    reader = ServerReader(tmp_path)
    try:
        for block in blocks(DOCS / "server.md"):
            reader.try_out(block)
        assert reader.stop() in (0, 130)
    finally:
        if reader.server is not None and reader.server.poll() is None:
            os.kill(reader.server.pid, signal.SIGKILL)
            reader.server.communicate()
