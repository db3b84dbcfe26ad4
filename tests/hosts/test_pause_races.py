"""A pause and an answer at the same moment: whatever was acknowledged counts."""

from __future__ import annotations

import asyncio
from pathlib import Path

from roundel.hosts.control import Answer, Pause, Resume
from roundel.hosts.local import LocalEngine
from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import Busy
from roundel.kernel.facts import Answered, Finished, Paused
from roundel.runs.runs import Runs
from roundel.workflow.message import Message

ASK = """
graph:
  nodes:
    - {id: Ask, type: human, config: {description: Shall we?, timeout: 50}}
    - {id: Work, type: agent, config: {role: Work.}}
  edges: [{from: Ask, to: Work}]
  start: Ask
  end: Work
"""


async def start(folder: Path) -> tuple[Runs, str]:
    """A run that waits for an answer, in this process."""
    store = SqliteStore(folder / "runs.db", sync="off")
    file = folder / "ask.yaml"
    file.write_text(ASK, encoding="utf-8")
    runs = Runs(store, engine=LocalEngine(lambda: store))
    run_id = await runs.start(str(file), "go", script={"Work": ["done"]})
    position = 0
    while (await store.row(run_id)).status != "waiting":
        position = await store.wait_for_append(position)
    return runs, run_id


def test_pause_counts_for_the_call_that_an_answer_at_the_same_moment_leads_to(tmp_path: Path) -> None:
    async def work() -> None:
        runs, run_id = await start(tmp_path)
        # Both requests are in the queue before the run looks at either.
        answered = asyncio.create_task(runs.engine.control(run_id, Answer(Message("yes", "user"))))
        paused = asyncio.create_task(runs.pause(run_id, "lunch"))
        await asyncio.gather(answered, paused)
        row, facts = await runs.store.row(run_id), await runs.store.entries(run_id)
        assert row.status == "paused", "the call was not in flight yet"
        assert not any(isinstance(entry.fact, Finished) for entry in facts)
        kinds = [type(entry.fact) for entry in facts]
        assert kinds.index(Answered) < kinds.index(Paused)
        result = await runs.resume(run_id)
        assert (result.status, result.output) == ("completed", "done")
        await runs.close()

    asyncio.run(work())


def test_pause_and_resume_at_the_same_moment_make_the_call(tmp_path: Path) -> None:
    async def work() -> None:
        runs, run_id = await start(tmp_path)
        requests = (Answer(Message("yes", "user")), Pause("lunch"), Resume())
        tasks = [
            asyncio.create_task(runs.engine.control(run_id, request, execute=True)) for request in requests
        ]
        await asyncio.gather(*tasks)
        assert (await runs.wait(run_id)).output == "done"
        await runs.close()

    asyncio.run(work())


def test_host_that_looked_before_the_pause_does_not_end_it(tmp_path: Path) -> None:
    async def work() -> None:
        runs, run_id = await start(tmp_path)
        await runs.pause(run_id, "lunch")
        assert not await runs.engine.control(run_id, Resume(if_interrupted=True), execute=True)
        assert (await runs.store.row(run_id)).status == "paused"
        await runs.close()

    asyncio.run(work())


def test_host_that_looked_before_an_answer_leaves_the_run_to_its_owner(tmp_path: Path) -> None:
    async def work() -> None:
        runs, run_id = await start(tmp_path)
        try:
            await runs.engine.control(run_id, Resume(if_interrupted=True), execute=True)
        except Busy:
            pass
        else:
            raise AssertionError("the run is executed already")
        await runs.close()

    asyncio.run(work())
