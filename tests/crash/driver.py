"""Runs the story again and again, each time killed somewhere, in processes that are forked from a warm one.

Reads cases as JSON lines: a folder, and the kills that its run is to meet, one for each process that works on
it, until one is left alone and ends it. What the processes saw and did is in files of the folder.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import roundel
from roundel.hosts.local import LocalHost
from roundel.journal.sqlite import SqliteStore
from roundel.kernel.events import encode_event
from roundel.kernel.facts import Finished, Reviewed
from roundel.llm.scripted import ScriptedModel, load_script
from roundel.nodes.services import Reply, Request, Say
from roundel.sessions.going_on import resume_async
from tests.crash import kills

STORY = Path(__file__).with_name("story")
ANYWHEN = "some time"
"""In place of a place: killed from outside, after so many milliseconds."""
script = load_script(STORY / "script.yaml")[0]
say_nothing = ScriptedModel.reply


async def reply(self: ScriptedModel, request: Request, say: Say | None = None) -> Reply:
    """A model that is paid for."""
    kills.append("calls", f"{request.address} {request.call}")
    await asyncio.sleep(kills.pace)
    return await say_nothing(self, request, say)


def show(event: roundel.Event) -> None:
    kills.append("shown", encode_event(event).decode())
    kills.reach("event")


async def attempt(width: int) -> tuple[str, str]:
    """Begins the run, or goes on with it, unless it is over: its status and its output."""
    store = SqliteStore("runs.db", sync="normal")
    rows = await store.rows()
    if not rows:
        result = await roundel.run_async(
            STORY / "workflow.yaml",
            "go",
            script=script,
            store=store,
            on_event=show,
            variables={"WIDTH": width},
        )
        return result.status, result.output
    if rows[0].summary is not None and rows[0].status == "completed":
        return rows[0].status, rows[0].summary["output"]
    facts = await store.facts(rows[0].id)
    kept = [fact.address for fact in facts if isinstance(fact, Finished)]
    reviewed = [fact.address for fact in facts if isinstance(fact, Reviewed)]
    made = {name: len(kills.lines(name)) for name in ("calls", "attempts", "stamps", "reviews")}
    kills.append("resumed", json.dumps({"kept": kept, "reviewed": reviewed, "made": made}))
    result = await resume_async(rows[0].id, store=store, on_event=show)
    return result.status, result.output


def process(case: dict[str, Any], place: str, number: int) -> None:
    os.chdir(case["folder"])
    kills.arm(place, number)
    kills.pace = case.get("pace", 0.0)
    kills.watch_commits()
    ScriptedModel.reply = reply  # type: ignore[method-assign]
    status, output = asyncio.run(attempt(case["width"]))
    counted = {name: kills.count(name) for name in ("event", "before commit", "before effect")}
    told = {"status": status, "output": output, "counted": counted}
    Path("result.json").write_text(json.dumps(told), encoding="utf-8")


def carry_out(case: dict[str, Any]) -> None:
    for place, number in [*case["kills"], ("", 0)]:
        child = os.fork()
        if not child:
            code = 1
            try:
                process(case, place, number)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        if place == ANYWHEN:
            time.sleep(number / 1000)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status)
        if killed:
            kills.append(f"{case['folder']}/killed", f"{place} {number}")
        elif os.WEXITSTATUS(status):
            sys.exit(f"{case}: the process failed")
        else:
            return


if __name__ == "__main__":
    LocalHost(roundel.prepare(STORY / "workflow.yaml"), script=script)  # imports all that a run needs
    gc.freeze()  # what is there now need not be looked at, nor copied, in each process
    for line in sys.stdin:
        carry_out(json.loads(line))
