"""Goes on with a run of the store here, as `resume`, `answer` and `fork` do."""

from __future__ import annotations

from roundel.cli.output import say
from roundel.cli.work import Work, carry_out
from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import Busy, StoreError
from roundel.llm.recorder import Recorder
from roundel.sessions import control
from roundel.sessions.going_on import TakenUp, take_up


async def go_on(store: SqliteStore, run_id: str, as_json: bool, recorder: Recorder | None = None) -> int:
    """The exit code."""
    try:
        taken = await take_up(store, run_id)
    except Busy as busy:
        await _goes_on_there(store, run_id, busy)
        say(f"run {run_id} goes on, in the process that is at work on it")
        return 0
    return await carry_out(_work(taken, recorder), as_json)


async def _goes_on_there(store: SqliteStore, run_id: str, busy: Busy) -> None:
    """A process may still be at work on a run that is about to pause."""
    try:
        if await control.resume(store, run_id):
            return
    except StoreError:
        pass
    raise StoreError(f"{busy}; `roundel log {run_id} --follow` shows how it gets on")


def _work(taken: TakenUp, recorder: Recorder | None) -> Work:
    run = taken.run
    return Work(
        run.plan,
        lambda **watching: taken.host(record=recorder, **watching),
        taken.go_on,
        run.script is not None,
        True,
        run.state,
    )
