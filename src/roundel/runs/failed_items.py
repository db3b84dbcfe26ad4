"""Retry the failed items of lists: a fork that keeps the items that succeeded.

A list with `on_error: null` or `drop` goes on without the items that failed, so its run completes. Retrying
them makes a new run: the old one has told its result to others, and stays as it is.

The new run plays the old one again (`Rerun`), with one difference: where a call failed an item, it is in
flight again (`CallRetried`). So the list cannot end, and nothing that depends on it follows. What does not
depend on it is played as it was.

How far the play goes into the list depends on `max_parallel`: if items run one after the other, it stops at
the first one that failed. The results of later items are not lost. The new run inherits them (`Inherited`),
and uses them when it gets to their calls. That holds for everything in an item, also for the finished calls
of an item that failed; only what followed a list with failed items, inside an item of an outer list, runs
again.

Rejected: to start the items that failed after all others, which would change the order of rounds, and would
lose the finished calls inside of them; and to start them all at once, whatever `max_parallel` says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from roundel.hosts.stored_run import (
    changed_plan,
    current_history,
    is_same_definition,
    new_run_id,
    pinned_plan,
    plan_to_resume,
)
from roundel.journal.store import Pinned, Store, StoreError
from roundel.kernel.events import RunStatus, is_over
from roundel.kernel.facts import CallResult, EdgesEvaluated, Entry, Inherited, InheritedResult
from roundel.kernel.retry import command_form
from roundel.kernel.state import Run
from roundel.llm.script import Script
from roundel.nodes.loading import Source
from roundel.plan.graph import Plan
from roundel.plan.overrides import LimitValues
from roundel.runs.forking import (
    ItemFailure,
    PastFact,
    PastRun,
    Rerun,
    append_fact,
    create_fork,
    forked_start,
    lists_around,
    pin_changes,
    without_stop,
)
from roundel.workflow.document import AllowPaths


async def fork_failed_items(
    store: Store,
    run_id: str,
    *,
    workflow: Source | None = None,
    limits: LimitValues | None = None,
    variables: Mapping[str, Any] | None = None,
    script: Script | None = None,
    script_rights: Sequence[str] | None = None,
    allow_paths: AllowPaths = (),
    by: str = "",
) -> str:
    """Creates a new run in which the failed items of lists are in flight, and returns its id. `resume`
    executes it, unless the changes alone complete it. Returns an empty text if no item failed, but the run
    did: then a retry of the run is what is needed. StoreError if there is nothing to retry."""
    status = (await store.row(run_id)).status
    if not is_over(status):
        raise StoreError(f"run {run_id} is {status}; its failed items can be retried when it is over")
    pinned, entries = await current_history(store, run_id)
    # In a thread: a long run takes seconds, and a server has other requests meanwhile.
    fork = await asyncio.to_thread(
        _play,
        run_id,
        status,
        pinned,
        entries,
        workflow,
        limits,
        variables,
        script,
        script_rights,
        allow_paths,
        by,
    )
    if fork is None:
        return ""
    await create_fork(store, run_id, *fork)
    return fork[3].run_id


def _play(
    run_id: str,
    status: RunStatus,
    pinned: Pinned,
    entries: list[Entry],
    workflow: Source | None,
    limits: LimitValues | None,
    variables: Mapping[str, Any] | None,
    script: Script | None,
    script_rights: Sequence[str] | None,
    allow_paths: AllowPaths,
    by: str,
) -> tuple[str, Plan, Pinned, Run, list[Entry]] | None:
    """What `create_fork` stores: where the fork begins, what it executes, and its history."""
    entries = without_stop(entries)
    before = pinned_plan(pinned)
    given = workflow is not None or bool(limits) or bool(variables)
    plan = changed_plan(pinned, workflow, limits, variables, allow_paths) if given else before
    changed = given and not is_same_definition(pinned, plan.workflow)
    past: list[PastRun] = []

    def history(run: PastRun) -> list[PastFact]:
        past.append(run)
        return run.history_with_retries()

    begins = forked_start(new_run_id(), run_id, "", {**pinned.limits, **(limits or {})}, by)
    if workflow is not None:
        begins |= {"saved_as": "", "workflow_version": ""}
    rerun = Rerun(before, entries, plan, begins, history=history)
    failures = past[0].item_failures
    if not failures:
        if status == "failed":
            return None
        raise StoreError(f"no item of a list failed in run {run_id}; it is {status}")
    rerun.play()
    state = rerun.state
    if state.over and (state.status != "completed" or PastRun(plan, rerun.entries).item_failures):
        raise StoreError(_describe_useless(run_id, failures, changed))
    results = _inherited(past[0], before, rerun, changed)
    if results and not state.over:
        append_fact(state, rerun.entries, Inherited(results, rerun.entries[-1].fact.time))
    new_pinned = pin_changes(pinned, plan if given else None, limits, script, script_rights)
    # Fails if something is missing here that the new run needs: otherwise it would stay behind, unexecuted.
    needed = plan_to_resume(new_pinned, workflow).workflow.functions
    missing = [name for name, code in needed.items() if code is None]
    if missing:
        raise StoreError(
            f"the function '{missing[0]}' was given in Python, and its code is not stored with the run; "
            "retry the items in Python with the same workflow: runs.retry(run, failed_items=True, workflow=…)"
        )
    return failures[0].address, plan, new_pinned, state, rerun.entries


def _describe_useless(run_id: str, failures: list[ItemFailure], changed: bool) -> str:
    first = failures[0]
    what = "with these changes too" if changed else "no call failed in them that could be made again"
    return (
        f"the failed items of run {run_id} would fail again, {what}: {first.address}: {first.error}; "
        f"correct the workflow, and retry with it (--workflow FILE)"
    )


class _ListsWithFailures:
    """Which results of a run do not depend on the failed items of its lists, so that its fork can use them
    when it gets there."""

    def __init__(self, past: PastRun, fork: Run) -> None:
        self._in_flight = {one.stem for address in fork.calls for one, _ in lists_around(fork, address)}
        """The lists that the fork is in. Others with failures follow one of these, so they run again."""
        self._inside: dict[str, set[str]] = {}
        """The lists with failed items inside each item of an outer list, both by address."""
        for failure in past.item_failures:
            for outer, inner in pairwise(failure.items):
                self._inside.setdefault(outer.address, set()).add(inner.node)
        self._ends = past.list_ends

    def is_independent(self, past: PastFact) -> bool:
        """Whether a result belongs to an item without failures inside, or was requested before the lists
        with failures inside its item had ended."""
        if not past.items or past.items[0].stem not in self._in_flight:
            return False
        for item in past.items:
            lists = self._inside.get(item.address)
            if lists is None:
                return True
            if any(past.issued >= self._ends.get(node, past.issued + 1) for node in lists):
                return False
        return True


def _inherited(past: PastRun, plan: Plan, rerun: Rerun, changed: bool) -> tuple[InheritedResult, ...]:
    """The results that the new run will use when it gets to their calls."""
    lists = _ListsWithFailures(past, rerun.state)
    run = Run(plan)
    return tuple(
        InheritedResult(command_form(run, one.requested), one.fact)
        for one in rerun.unused
        if one.requested is not None
        and isinstance(one.fact, CallResult)
        # The edges of a changed workflow may have other numbers, so their functions are called again.
        and not (changed and isinstance(one.fact, EdgesEvaluated))
        and lists.is_independent(one)
    )
