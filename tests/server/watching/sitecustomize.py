"""Watches the worker processes of the server of `attack_process.py`, which puts this folder on PYTHONPATH.

While the file $WATCH_FLAG exists, every file that a worker opens, every import, every connection and every
program is a line of $WATCH_LOG.
"""

from __future__ import annotations

import os
import sys
from typing import Any

FLAG, LOG = os.environ.get("WATCH_FLAG", ""), os.environ.get("WATCH_LOG", "")
WATCHED = tuple(os.environ.get("WATCH_EVENTS", "").split())

if LOG and "roundel.server.worker" in sys.orig_argv:
    log = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def record(event: str, arguments: tuple[Any, ...]) -> None:
        if event.startswith(WATCHED) and os.access(FLAG, os.F_OK):
            os.write(log, f"{event} {arguments!r:.300}\n".encode(errors="replace"))

    sys.addaudithook(record)
