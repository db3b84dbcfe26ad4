"""Steers runs of a store: one that a process is at work on is told there, any other is told here."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec

from roundel.hosts.steering import DONE
from roundel.journal.run_journal import RunJournal
from roundel.journal.store import Busy, Store, StoreError, Wish
from roundel.kernel.commands import Ask
from roundel.kernel.facts import Answered, Fact, Paused, Stopped
from roundel.kernel.state import Run
from roundel.kernel.step import IllegalFact, step
from roundel.sessions.opening import open_run
from roundel.workflow.message import Message

PATIENCE = 10.0
"""Seconds that a process has to look at a wish."""


async def pause(store: Store, run_id: str, reason: str = "") -> None:
    """Lets what is at work finish, and begins nothing new."""
    if not await _wished(store, run_id, "pause", {"reason": reason}):
        await _tell(store, run_id, Paused(reason or "paused", time.time()))


async def stop(store: Store, run_id: str, reason: str = "") -> None:
    """Ends the run; what is at work is called off."""
    if not await _wished(store, run_id, "stop", {"reason": reason}):
        await _tell(store, run_id, Stopped(reason or "stopped", time.time()))


async def answer(store: Store, run_id: str, message: Message, address: str = "") -> bool:
    """Answers a question of a run; whether a process is at work on it, which goes on with it."""
    state = (await open_run(store, run_id)).state
    address = address or only_question(state, run_id)
    body = {"address": address, "message": msgspec.to_builtins(message)}
    if await _wished(store, run_id, "answer", body):
        return True
    await _tell(store, run_id, Answered(address, message, time.time()))
    return False


def questions(state: Run) -> list[str]:
    """The addresses at which people are asked."""
    return [address for address, call in state.calls.items() if isinstance(call.command, Ask)]


def only_question(state: Run, run_id: str) -> str:
    asked = questions(state)
    if len(asked) == 1:
        return asked[0]
    if not asked:
        raise StoreError(f"run {run_id} asks nobody; it is {state.status}")
    raise StoreError(f"run {run_id} asks more than one question; say which: {', '.join(sorted(asked))}")


async def _wished(store: Store, run_id: str, wish: Wish, body: dict[str, Any]) -> bool:
    """Whether a process was at work on the run, and has done it; StoreError if it could not."""
    row = await store.row(run_id)
    if not row.owner:
        return False
    number = await store.ask(run_id, wish, body)
    deadline = time.monotonic() + PATIENCE
    while not (outcome := await store.outcome(number)):
        if time.monotonic() > deadline or not (await store.row(run_id)).owner:
            raise StoreError(
                f"the process that is at work on run {run_id} did not look at it in time; try again"
            )
        await asyncio.sleep(0.05)
    if outcome != DONE:
        raise StoreError(f"run {run_id}: {outcome}")
    return True


async def _tell(store: Store, run_id: str, fact: Fact) -> None:
    """Adds a fact to a run that nobody is at work on."""
    try:
        claim = await store.claim(run_id)
    except Busy:
        raise StoreError(f"a process has just begun to work on run {run_id}; try again") from None
    journal = RunJournal(store, claim)
    opened = await open_run(store, run_id)
    state = opened.state
    try:
        step(state, fact)
        journal.add(fact)
        await journal.commit(state)
    except IllegalFact as error:
        raise StoreError(f"run {run_id} is {state.status}: {error}") from None
    finally:
        await journal.close(state)
