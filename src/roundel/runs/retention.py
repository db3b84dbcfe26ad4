"""Pruning: how much of a run that is over stays in the store, all of it or some of its rounds; and how long
the audit log and the versions of saved workflows stay.

A pruned run is a list of events. Its facts are deleted, so it can be read, but neither resumed nor
forked nor replayed. Facts could not be thinned out: each depends on those before it.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import TypeVar

from msgspec import Struct

from roundel.hosts.stored_run import read_events
from roundel.journal.documents import LATER, DocumentStore
from roundel.journal.store import Store, StoreError, StoreFailure
from roundel.kernel.events import Event, is_over
from roundel.kernel.payloads import NodeCompleted
from roundel.workflow.address import innermost_round

T = TypeVar("T")
KEEP_NOTHING = "nothing"
_EVERY = re.compile(r"every:([1-9]\d*)")
# What a reader needs to understand the rounds that are left.
ALWAYS_KEPT = ("run_started", "run_state_change", "run_finished", "loop_exit", "limit_reached", "warning")


async def prune(store: Store, run_id: str, keep: str) -> None:
    """Deletes a run except for the rounds that `keep` names (`first`, `last`, `best`, `every:3`, several
    with commas) and everything that happened outside of loops; `nothing` deletes the run. A run that was
    pruned before stays as it is: what is missing cannot be chosen again."""
    await with_room(store, lambda: _prune(store, run_id, keep))


async def with_room(store: Store, work: Callable[[], Awaitable[T]]) -> T:
    """Does some work on the way to deleting runs. If the store fails, since the disk may be full, it repeats
    the work with the room that was set aside, and sets room aside again."""
    try:
        return await work()
    except StoreFailure:
        if not await store.use_room():
            raise
    done = await work()
    with contextlib.suppress(StoreFailure):  # there may be no room for that yet
        await store.compact()
        await store.set_room_aside()
    return done


async def _prune(store: Store, run_id: str, keep: str) -> None:
    row = await store.row(run_id)
    if not is_over(row.status):
        raise StoreError(f"run {run_id} is {row.status}; only finished runs can be pruned")
    if keep == KEEP_NOTHING:
        await store.delete(run_id)
        return
    policy = parse_policy(keep)
    if policy == ["all"] or row.pruned:
        return
    events = await read_events(store, run_id)
    await store.prune(run_id, list(select_events(events, policy)), ",".join(policy))


def parse_policy(keep: str) -> list[str]:
    """The words of a policy; StoreError if one is unknown. `all` includes every other word."""
    words = [word.strip() for word in keep.split(",") if word.strip()]
    for word in words:
        if word not in ("all", "first", "last", "best") and not _EVERY.fullmatch(word):
            raise StoreError(
                f"'{word}' is not a selection of rounds; use all, first, last, best, every:N, nothing"
            )
    if not words:
        raise StoreError("name the rounds to keep: all, first, last, best, every:N, or nothing")
    return ["all"] if "all" in words else words


def select_events(events: list[Event], policy: list[str]) -> Iterable[Event]:
    """The events that stay. Nested rounds are judged by the innermost one, since the pattern is
    greedy."""
    wanted = _wanted_rounds(events, policy)
    for event in events:
        place = innermost_round(event.address or "")
        if not place[0] or event.event in ALWAYS_KEPT or place in wanted:
            yield event


AUDIT, WORKFLOWS = "audit", "workflows"
"""The log and the collection of a server, which are pruned without one."""
BY = "command line"


class VersionPolicy(Struct, frozen=True):
    """Which versions of each saved workflow stay, besides its newest."""

    keep: int = 1
    """This number of the newest ones."""
    until: float = LATER
    """Those that were saved at this time or later."""


async def prune_audit_log(documents: DocumentStore, until: float) -> int:
    """Deletes the entries of the audit log that are older than a time; returns how many. The log says so."""
    await _audit(documents, "audit.prune", until=until)
    return await documents.trim(AUDIT, until)


async def prune_versions(documents: DocumentStore, policy: VersionPolicy) -> int:
    """Deletes old versions of saved workflows; returns how many."""
    until = policy.until if policy.until != LATER else None
    await _audit(documents, "workflow.prune", keep=policy.keep, until=until)
    return await documents.trim_versions(WORKFLOWS, keep=policy.keep, until=policy.until)


async def _audit(documents: DocumentStore, action: str, **details: object) -> None:
    entry = {"time": time.time(), "who": None, "action": action, "subject": "", "by": BY}
    await documents.append(AUDIT, {**entry, **details})


def _wanted_rounds(events: list[Event], policy: list[str]) -> set[tuple[str, int]]:
    """The rounds that stay, each as the address of its loop and its number. The loop's address contains
    the outer round, so an inner loop is judged anew in each of them."""
    rounds: dict[str, dict[int, None]] = {}
    scores: dict[tuple[str, int], float] = {}
    for event in events:
        loop, number = innermost_round(event.address or "")
        if not loop:
            continue
        rounds.setdefault(loop, {})[number] = None
        score = event.data.score if isinstance(event.data, NodeCompleted) else None
        if isinstance(score, (int, float)) and not isinstance(score, bool):
            scores[loop, number] = float(score)
    return {
        (loop, number)
        for loop, numbers in rounds.items()
        for number in _choose_rounds(loop, numbers, scores, policy)
    }


def _choose_rounds(
    loop: str, numbers: Collection[int], scores: dict[tuple[str, int], float], policy: list[str]
) -> Iterable[int]:
    """The rounds of one loop that any word of the policy names."""
    for word in policy:
        if word == "first":
            yield min(numbers)
        elif word == "last":
            yield max(numbers)
        elif word == "best":
            # Without scores the last round counts as the best.
            yield max(numbers, key=lambda number: (scores.get((loop, number), float("-inf")), number))
        else:
            step = int(word.partition(":")[2])
            yield from (number for number in numbers if number % step == 0)
