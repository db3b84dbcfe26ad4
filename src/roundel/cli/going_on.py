"""Goes on with a run of the store here, as `resume`, `answer` and `fork` do."""

from __future__ import annotations

from typing import Any

from roundel.cli.output import concealment, say
from roundel.cli.signals import interrupts
from roundel.cli.work import Work, carry_out
from roundel.hosts.local import LocalHost
from roundel.journal.store import Busy, Store, StoreError
from roundel.kernel.fact_masking import secrets_of
from roundel.sessions import control
from roundel.sessions.going_on import Answer, TakenUp, take_up


async def go_on(store: Store, run_id: str, as_json: bool, answer: Answer | None = None) -> int:
    """The exit code."""

    async def work() -> Work:
        return _work(await take_up(store, run_id), answer)

    try:
        return await carry_out(work, as_json)
    except Busy as busy:
        await _goes_on_there(store, run_id, busy)
        say(f"run {run_id} goes on, in the process that is at work on it")
        return 0


async def _goes_on_there(store: Store, run_id: str, busy: Busy) -> None:
    """A process may still be at work on a run that is about to pause."""
    cause: StoreError = busy
    try:
        if await control.resume(store, run_id):
            return
    except StoreError as error:
        cause = error
    raise StoreError(f"{busy}; `roundel log {run_id} --follow` shows how it gets on") from cause


def _work(taken: TakenUp, answer: Answer | None) -> Work:
    run = taken.run
    concealment.know(secrets_of(run.plan))

    async def host(**options: Any) -> LocalHost:
        with interrupts.synchronously():
            return await taken.host(**options)

    return Work(
        run.plan,
        host,
        lambda host: taken.go_on(host, answer),
        taken.script is not None,
        True,
        run.state,
    )
