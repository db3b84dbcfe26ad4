"""Steers runs of a store: one that a process is at work on is told there, any other is told here."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from roundel.hosts.people import question_of
from roundel.hosts.result import Question
from roundel.hosts.steering import DONE
from roundel.journal.run_journal import RunJournal
from roundel.journal.store import Busy, RequestKind, Store, StoreError
from roundel.kernel.commands import Ask
from roundel.kernel.fact_masking import masked_fact
from roundel.kernel.facts import Answered, Fact, Paused, Stopped, Unlocked
from roundel.kernel.state import Lock, Run
from roundel.kernel.step import IllegalFact, step
from roundel.sessions.opening import open_run
from roundel.sessions.pinning import secrets_at_hand
from roundel.workflow.message import Message

PATIENCE = 10.0
"""Seconds that a process has to look at a wish."""


async def pause(store: Store, run_id: str, reason: str = "") -> None:
    """Lets what is at work finish, and begins nothing new."""
    if await _wished(store, run_id, "pause", {"reason": reason}):
        return
    if (await store.row(run_id)).status == "running":
        raise StoreError(
            f"nobody is at work on run {run_id}, so there is nothing to pause; "
            f"`roundel resume {run_id}` goes on with it"
        )
    await _tell(store, run_id, Paused(reason or "paused", time.time()))


async def resume(store: Store, run_id: str) -> bool:
    """Whether a process is at work on the run that was to pause, and now does not.

    If nobody is at work on it, whoever wants it to go on has to take it up (going_on.py)."""
    return await _wished(store, run_id, "resume", {})


async def stop(store: Store, run_id: str, reason: str = "") -> None:
    """Ends the run; what is at work is called off."""
    if not await _wished(store, run_id, "stop", {"reason": reason}):
        await _tell(store, run_id, Stopped(reason or "stopped", time.time()))


async def answer(store: Store, run_id: str, message: Message, address: str = "") -> bool:
    """Answers a question of a run; whether a process is at work on it, which goes on with it."""
    address = (await question_at(store, run_id, address)).address
    body = {"address": address, "message": msgspec.to_builtins(message)}
    if await _wished(store, run_id, "answer", body):
        return True
    await _tell(store, run_id, Answered(address, message, time.time()))
    return False


async def unlock(
    store: Store,
    run_id: str,
    reason: str,
    checks: Sequence[str],
    by: str,
    limits: Mapping[str, float] | None = None,
    message: str | None = None,
    note: str = "",
    exit: str = "",
) -> None:
    """Lets a locked run go on; StoreError if it may not be unlocked like this."""
    given = dict(limits or {})
    fact = Unlocked(reason, by, tuple(checks), time.time(), given, message, note, exit)
    await _tell(store, run_id, fact)


async def locked(store: Store, run_id: str) -> Lock:
    """Why a run is locked."""
    state = (await open_run(store, run_id)).state
    if state.lock is None or state.status != "suspended_locked":
        raise StoreError(f"run {run_id} is not locked; it is {state.status}")
    return state.lock


async def asked(store: Store, run_id: str) -> list[Question]:
    """What people are asked now."""
    run = await open_run(store, run_id)
    return [question_of(run.plan, command) for command in _asks(run.state)]


def _asks(state: Run) -> list[Ask]:
    commands = (call.command for call in state.calls.values())
    return [command for command in commands if isinstance(command, Ask)]


async def question_at(store: Store, run_id: str, address: str = "") -> Question:
    """The question that is meant; StoreError if there is none, or more than one."""
    run = await open_run(store, run_id)
    questions = {ask.address: question_of(run.plan, ask) for ask in _asks(run.state)}
    addresses = ", ".join(sorted(questions))
    if not questions:
        raise StoreError(f"run {run_id} asks nobody; it is {run.state.status}")
    if address and address not in questions:
        raise StoreError(f"run {run_id} asks nobody at '{address}', but at {addresses}")
    if not address and len(questions) > 1:
        raise StoreError(f"run {run_id} asks more than one question; say which (--at): {addresses}")
    return questions[address or addresses]


async def _masked(store: Store, run_id: str, body: dict[str, Any]) -> dict[str, Any]:
    """A control request without the secrets of its run."""
    if not any(body.values()):
        return body
    secrets = secrets_at_hand(await store.pinned(run_id))
    address = {"address": body["address"]} if "address" in body else {}
    return {**secrets.masked(body), **address}


async def _wished(store: Store, run_id: str, kind: RequestKind, body: dict[str, Any]) -> bool:
    """Whether a process was at work on the run, and has done it; StoreError if it could not."""
    row = await store.row(run_id)
    if not row.owner:
        return False
    number = await store.request(run_id, kind, await _masked(store, run_id, body))
    try:
        outcome = await _outcome(store, run_id, number)
    except BaseException:
        await store.withdraw(number)
        raise
    if not outcome:
        if await store.withdraw(number):
            return False  # it was done with the run before it looked
        outcome = await store.outcome(number)
    if outcome != DONE:
        raise StoreError(f"run {run_id}: {outcome}")
    return True


async def _outcome(store: Store, run_id: str, number: int) -> str:
    """What became of a wish; empty if nobody is at work on the run any more."""
    deadline = time.monotonic() + PATIENCE
    while not (outcome := await store.outcome(number)):
        if not (await store.row(run_id)).owner:
            return ""
        if time.monotonic() > deadline:
            raise StoreError(
                f"the process that is at work on run {run_id} did not look at it in time; try again"
            )
        await asyncio.sleep(0.05)
    return outcome


async def _tell(store: Store, run_id: str, fact: Fact) -> None:
    """Adds a fact to a run that nobody is at work on."""
    try:
        claim = await store.claim(run_id)
    except Busy:
        raise StoreError(f"a process has just begun to work on run {run_id}; try again") from None
    journal = RunJournal(store, claim)
    try:
        state = (await open_run(store, run_id)).state
        fact = masked_fact(fact, secrets_at_hand(await store.pinned(run_id)))
        try:
            step(state, fact)
        except IllegalFact as error:
            raise StoreError(f"run {run_id} is {state.status}: {error}") from error
        journal.add(fact)
        journal.add_decisions(state.decisions.made)
        await journal.commit(state)
    finally:
        await journal.close()
