"""Runs the story repeatedly, each time killed at another point, in processes forked from a warm one.

Reads cases as JSON lines: a folder, and the kills that its run is to meet, one for each process that works on
it, until one is left alone and ends it. What the processes saw and did is in files of the folder. With
`interrupted` the processes are commands of the command line, and are interrupted instead.
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
from roundel.api import resume_async
from roundel.cli import execution, main
from roundel.hosts import local
from roundel.hosts.engine import Attachment
from roundel.hosts.local_run import LocalRun
from roundel.journal.sqlite import SqliteStore
from roundel.kernel.events import encode_event
from roundel.kernel.facts import Finished, Intercepted
from roundel.llm.script import ScriptedModel, load_script
from roundel.nodes.services import Reply, Request, StreamCallback
from tests.crash import kills

STORIES = Path(__file__).parent
STORY = STORIES / "story"
ANYWHEN = "some time"
"""In place of a place: killed from outside, after so many milliseconds."""
scripts = {name: load_script(STORIES / name / "script.yaml")[0] for name in ("story", "failing", "debugged")}
say_nothing = ScriptedModel.reply
# Some stories are killed many times in a row before they get any further, which would lock other runs.
local.MAX_CRASHES = 1_000_000


async def reply(self: ScriptedModel, request: Request, say: StreamCallback | None = None) -> Reply:
    """A model that is paid for."""
    kills.append("calls", f"{request.address} {request.call}")
    await asyncio.sleep(kills.pace)
    return await say_nothing(self, request, say)


def show(event: roundel.Event) -> None:
    if not event.seq:  # transient: whether there is one depends on the time
        return
    kills.append("shown", encode_event(event).decode())
    kills.reach("event")


async def attempt(story: str, width: int) -> tuple[str, str]:
    """Begins the run, or goes on with it, unless it is over: its status and its output."""
    store = SqliteStore("runs.db", sync="normal")
    if story == "debugged":
        return await debug(store)
    rows = await store.rows()
    if not rows:
        result = await roundel.run_async(
            STORIES / story / "workflow.yaml",
            "go",
            script=scripts[story],
            store=store,
            on_event=show,
            variables={"WIDTH": width} if story == "story" else {},
        )
    elif rows[0].summary is not None and rows[0].status == "completed":
        return rows[0].status, rows[0].summary["output"]
    elif rows[0].status == "failed":
        result = await retry(store, rows[0].id)
    else:
        await note_kept(store, rows[0].id)
        result = await resume_async(rows[0].id, store=store, on_event=show)
    while result.status == "failed":
        result = await retry(store, result.run_id)
    return result.status, result.output


async def retry(store: SqliteStore, run_id: str) -> roundel.Result:
    await note_kept(store, run_id)
    async with roundel.Runs(store) as runs:
        return await runs.retry(run_id, on_event=show)


async def debug(store: SqliteStore) -> tuple[str, str]:
    """Somebody debugs the run. What he does depends only on what he sees of it, so that each process goes on
    where the one before it was killed."""
    async with roundel.Runs(store) as runs:
        rows = await store.rows()
        if not rows:
            source = STORIES / "debugged" / "workflow.yaml"
            attach = Attachment(on_event=show)
            script = scripts["debugged"]
            run_id = await runs.start(source, "go", script=script, paused=True, attach=attach)
            await runs.result(run_id)
        else:
            run_id = rows[0].id
        while True:
            row = await runs.row(run_id)
            if row.status == "completed":
                assert row.summary is not None
                return row.status, row.summary["output"]
            await take_debug_action(runs, store, run_id)


async def take_debug_action(runs: roundel.Runs, store: SqliteStore, run_id: str) -> None:
    seen = await runs.debug(run_id)
    address = seen.ready[0].address if seen.ready else ""
    known = {state.text for state in seen.breakpoints}
    stamped = next((node for node in seen.ready if node.node_id == "Stamp"), None)
    edits = stamped is not None and not stamped.messages[-1].text.endswith(", edited")
    if address == "Writer[1]/Writer" and not {"Gate", "Writer[2]"} <= known:
        await runs.set_breakpoints(run_id, "Gate", "Writer[2]")
    elif address == "Writer[2]/Writer" and "Gate" in known:
        await runs.set_breakpoints(run_id, remove=["Gate"])
    elif stamped is not None and edits and seen.status == "paused":
        await runs.edit(run_id, f"{stamped.messages[-1].text}, edited", at=stamped.address)
    else:
        await note_kept(store, run_id)
        # A run that is not paused was killed. It goes on in one way or the other, unless it has to be paused
        # for the edit first.
        killed = seen.status != "paused" and not edits and len(kills.lines("resumed")) % 2 == 0
        if killed or not (address or seen.in_flight) or address == "Writer[2]/Reader":
            await runs.resume(run_id, on_event=show)
        else:
            await runs.step(run_id, round=address == "Writer[1]/Gate", on_event=show)


async def note_kept(store: SqliteStore, run_id: str) -> None:
    """What is known of a run before it goes on."""
    facts = await store.facts(run_id)
    kept = [fact.address for fact in facts if isinstance(fact, Finished)]
    reviewed = [fact.address for fact in facts if isinstance(fact, Intercepted)]
    made = {name: len(kills.lines(name)) for name in ("calls", "attempts", "stamps", "reviews")}
    kills.append("resumed", json.dumps({"kept": kept, "reviewed": reviewed, "made": made}))


def prepare(case: dict[str, Any], place: str, number: int, sent: signal.Signals) -> None:
    os.chdir(case["folder"])
    kills.arm(place, number, sent)
    kills.pace = case.get("pace", 0.0)
    kills.watch_commits()
    ScriptedModel.reply = reply  # type: ignore[method-assign]


def process(case: dict[str, Any], place: str, number: int) -> None:
    prepare(case, place, number, signal.SIGKILL)
    status, output = asyncio.run(attempt(case["story"], case["width"]))
    counted = {name: kills.count(name) for name in ("event", "before commit", "before effect")}
    told = {"status": status, "output": output, "counted": counted}
    Path("result.json").write_text(json.dumps(told), encoding="utf-8")


async def has_started() -> bool:
    """Whether there is a run already."""
    store = SqliteStore("runs.db", sync="normal")
    rows = await store.rows()
    if rows:
        await note_kept(store, rows[0].id)
    await store.close()
    return bool(rows)


def command(case: dict[str, Any], place: str, number: int) -> None:
    """Ends the process, with the command's exit code."""
    os.chdir(case["folder"])
    continues = asyncio.run(has_started())
    prepare(case, place, number, signal.SIGINT)

    def print_json(event: Any) -> None:
        if isinstance(event, roundel.Event):  # and no summary
            show(event)

    execution.print_json = print_json  # type: ignore[attr-defined,assignment]
    run = [str(STORY / "workflow.yaml"), "--script", str(STORY / "script.yaml"), "--input", "go"]
    begin = ["run", *run, "--var", f"WIDTH={case['width']}"]
    sys.argv = ["roundel", *(["resume", "last"] if continues else begin)]
    sys.argv += ["--json", "--store", "sqlite:///runs.db?sync=normal"]
    main()


def interrupted(case: dict[str, Any]) -> None:
    for place, number in [*case["kills"], ("", 0)]:
        child = os.fork()
        if not child:
            try:
                command(case, place, number)
            except SystemExit as end:
                os._exit(int(end.code or 0))
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if code == 130:
            kills.append(f"{case['folder']}/killed", f"{place} {number}")
        elif code:
            sys.exit(f"{case}: the process failed with {code}")
        else:
            break
    last = json.loads(kills.lines(f"{case['folder']}/shown")[-1])
    Path(case["folder"], "result.json").write_text(json.dumps(last["data"]), encoding="utf-8")


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
    # Imports all that a run needs.
    LocalRun(roundel.prepare(STORY / "workflow.yaml"), script=scripts["story"])
    gc.freeze()  # what is there now need not be looked at, nor copied, in each process
    for line in sys.stdin:
        one = json.loads(line)
        (interrupted if one.get("interrupted") else carry_out)(one)
