"""The service layer: `Runs` starts, resumes, follows, controls, forks, compares and prunes runs.

The command line, the Python interface and the server are clients of `Runs`, and use nothing below it for
this. (When commands opened stores by themselves, their versions of start, follow, resume and answer
differed from those of the library in small ways.) An engine executes runs (hosts/engine.py); a store
contains them (journal/store.py). `Runs` adds what is neither: names of runs, reading, forking,
comparing, pruning.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from roundel.hosts.contexts import CONTEXT_BYTES
from roundel.hosts.control import (
    Answer,
    ChangeBreakpoints,
    EditMessage,
    LockRun,
    Pause,
    Question,
    Resume,
    RetryRun,
    RunRequest,
    StepRun,
    Stop,
    Unlock,
    open_questions,
    resolve_request,
)
from roundel.hosts.engine import (
    Attach,
    Attachment,
    Engine,
    Execute,
    Inspection,
    Result,
    RunSpec,
    resolve_attachment,
)
from roundel.hosts.local import NO_ATTACHMENT, LocalEngine
from roundel.hosts.stored_run import follow, pin, pinned_plan, read_events
from roundel.journal.store import RunRow, Store, StoreError
from roundel.kernel.events import Event
from roundel.kernel.state import Lock
from roundel.llm.script import Script, ScriptRecorder, load_script, script_from
from roundel.nodes.loading import Source, load_plan
from roundel.plan.breakpoints import parse_breakpoints
from roundel.plan.graph import SEMANTICS, Plan, compile_workflow
from roundel.plan.model_choice import needs_model
from roundel.plan.overrides import LimitValues, check_limit_name, with_limits
from roundel.runs import forking, retention
from roundel.runs.calls import CallDetails, read_call
from roundel.runs.failed_items import fork_failed_items
from roundel.runs.forking import Difference
from roundel.runs.idempotency import StartKey, start_once
from roundel.runs.inspection import BreakpointState, RunInspection, breakpoint_states, inspect_run
from roundel.runs.lookup import StoreLocation, find, resolve_store
from roundel.runs.rounds import LoopRounds, RoundTally, count_events
from roundel.runs.store_feed import ReplayPool, StoreFeed
from roundel.runs.view import ViewSnapshot
from roundel.workflow.breakpoints import BreakpointError, BreakpointSource, parse_breakpoint
from roundel.workflow.diagnostics import Diagnostic
from roundel.workflow.document import AllowPaths
from roundel.workflow.graph import RAISABLE_LIMITS, with_default_model, with_group
from roundel.workflow.message import Message
from roundel.workflow.model_profile import choose_model
from roundel.workflow.python_warnings import warn_caller

Rows = list[RunRow]
Events = list[Event]
Questions = list[Question]
ScriptSource = Script | Mapping[str, Any] | str | os.PathLike[str] | None
WarningHandler = Callable[[Sequence[Diagnostic]], object]
MAX_WARNED_RUNS = 1000
"""Runs whose warnings about the workflow are remembered for their results."""


class Runs:
    """The runs of a store, and those that this process executes.

    `async with Runs() as runs:` stops the runs that are still executed here and closes the store at the
    end; an engine and a store that the caller passed stay as they are. A run that an answer or an unlock has
    continued is not stopped but handed back to the store, and `resume` continues it. Without an engine, a
    local one executes runs. A run is named by its id, by a prefix of the id that fits no other run, or as
    `last`. StoreError if an operation fails.

    A run that was executed here continues here with the same functions, secrets and attachment: `answer`,
    `unlock`, `resume`, `retry` and `step` need them again only in another process. They are remembered until
    the run is completed or stopped.

    Each run that is executed here keeps `context_bytes` of what its model calls get, 0 for nothing.

    What a call does is stored with the name of who does it: its `by`, or that of this object.

    `on_warnings` gets the warnings of each call: about a workflow and a script when they are loaded, and of
    the run itself with its result. By default they are warnings of Python (`RoundelWarning`)."""

    def __init__(
        self,
        store: StoreLocation = None,
        *,
        engine: Engine | None = None,
        on_warnings: WarningHandler | None = warn_caller,
        by: str = "",
        context_bytes: int = CONTEXT_BYTES,
    ) -> None:
        self._place = store
        self._by = by
        self._context_bytes = context_bytes
        self._on_warnings = on_warnings
        self._warnings: dict[str, tuple[Diagnostic, ...]] = {}
        """The warnings about the workflow and the script of runs, by run."""
        self._given_engine = engine
        self._local: LocalEngine | None = None

    @cached_property
    def store(self) -> Store:
        """Opened when it is first needed: runs that are not stored need none."""
        return resolve_store(self._place)

    @property
    def engine(self) -> Engine:
        """The engine that executes runs; a local one is created with the first use."""
        if self._given_engine is not None:
            return self._given_engine
        if self._local is None:
            self._local = LocalEngine(lambda: self.store, context_bytes=self._context_bytes)
        return self._local

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """What the end of `async with` does, for programs in which that does not fit, such as a notebook."""
        # The engine first: runs that it stops still write to the store.
        try:
            if self._local is not None:
                await self._local.close()
        finally:
            # Not through the property, which would open a store only to close it.
            if "store" in self.__dict__ and self.store is not self._place:
                await self.store.close()

    # Starting and resuming.

    async def start(
        self,
        workflow: Source,
        input: str | Message = "",
        *,
        script: ScriptSource = None,
        variables: Mapping[str, Any] | None = None,
        limits: LimitValues | None = None,
        group: str | None = None,
        allow_paths: AllowPaths = (),
        stored: bool = True,
        breakpoints: Sequence[BreakpointSource] = (),
        paused: bool = False,
        started_by: str = "",
        by: str = "",
        saved_as: str = "",
        workflow_version: str = "",
        idempotency_key: str = "",
        model: str | None = None,
        attach: Attach = NO_ATTACHMENT,
    ) -> str:
        """Starts a run in this process and returns its id; `result` waits for it.

        A caller who does not know whether a start succeeded repeats it with the same `idempotency_key`: for
        24 hours it then gets the id of the first run, from any process. IdempotencyConflict if something else
        is to be started with it.

        `group` replaces the memory group of the workflow, which is also the group in the row of the run.
        `model`, as `provider:name`, answers for agents that name none; without it `$ROUNDEL_MODEL` does, as
        it is now. The run keeps the choice. ModelChoiceError if it is no model.
        `saved_as` and `workflow_version` are stored with a run whose workflow was saved under a name.
        `breakpoints` are added to those of the workflow; with `paused`, the run pauses before its first
        node. WorkflowError if the workflow is invalid, or needs something that is missing here;
        BreakpointError."""
        # The limits are part of the plan. They are passed on as well, to be stored apart: a fork of the
        # run with another workflow applies them again.
        loaded = _load_plan(workflow, variables, allow_paths)
        plan = _changed(loaded, limits, group, choose_model(model))
        replies = read_script(script)
        about_script = replies.check(plan.node_ids) if replies is not None else []
        # Those of a plan that was prepared before have been given by `prepare`.
        self._warn([*(() if isinstance(workflow, Plan) else plan.warnings), *about_script])
        messages = (input if isinstance(input, Message) else Message(input),)
        added = parse_breakpoints(plan, breakpoints)
        if not stored and (paused or added or plan.breakpoints):
            raise BreakpointError(
                "a run pauses at breakpoints, and to continue it has to be stored; give it a store, or "
                "remove the breakpoints" + (" (`debug` in the workflow)" if plan.breakpoints else "")
            )
        new = RunSpec(
            plan,
            messages,
            replies,
            dict(limits or {}),
            stored,
            breakpoints=added,
            paused=paused,
            started_by=started_by,
            by=by or self._by,
            saved_as=saved_as,
            workflow_version=workflow_version,
        )
        if not idempotency_key:
            return self._remember(await self.engine.start(new, attach), [*plan.warnings, *about_script])
        if not stored:
            raise ValueError("idempotency_key= requires a stored run")
        # The variables, too: those that are secrets are not part of what is pinned.
        text = replies.text if replies is not None else None
        options = (limits, variables, group, [str(one) for one in added], paused, *filter(None, [model]))
        # The workflow as it was given: a server that was restarted with another `$ROUNDEL_MODEL` has to
        # recognise the repeated request.
        given = pin(_changed(loaded, limits, group)).workflow
        key = StartKey(idempotency_key, started_by, (given, messages, text, options))
        run_id = await start_once(
            self.store,
            key,
            lambda run_id: self.engine.start(msgspec.structs.replace(new, run_id=run_id), attach),
        )
        return self._remember(run_id, [*plan.warnings, *about_script])

    def _warn(self, found: Sequence[Diagnostic]) -> None:
        if found and self._on_warnings is not None:
            self._on_warnings(found)

    def _remember(self, run_id: str, found: Sequence[Diagnostic]) -> str:
        """Keeps the warnings of a run for its results."""
        if found:
            self._warnings.pop(run_id, None)
            self._warnings[run_id] = tuple(dict.fromkeys(found))
            if len(self._warnings) > MAX_WARNED_RUNS:
                del self._warnings[next(iter(self._warnings))]
        return run_id

    def _with_warnings(self, result: Result) -> Result:
        """The result with the warnings about the workflow; those of the run itself are given now."""
        self._warn(result.warnings)
        about_workflow = self._warnings.get(result.run_id, ())
        return msgspec.structs.replace(result, warnings=(*about_workflow, *result.warnings))

    async def resume(
        self,
        run_id: str,
        *,
        workflow: Source | None = None,
        record: str | os.PathLike[str] | None = None,
        attach: Attach | None = None,
        by: str = "",
        **attached: Any,
    ) -> Result:
        """Resumes a run here that is paused or waiting, or whose process died, and waits until it is
        idle.

        Calls that have finished are not made again; those that were in flight are, with the same
        idempotency keys. The run has the workflow that it was started with; `workflow` provides the code
        of functions again, for one that was built in Python and was not executed here before. `ask`,
        `on_event` and `middleware` are those of an Attachment; without any of them, those of the last time
        that the run was executed here."""
        run_id = await self.find(run_id)
        execute = self._attachment(attach, record, attached, by) or True
        await self.engine.control(run_id, Resume(by=by or self._by), execute=execute, workflow=workflow)
        return await self.wait(run_id)

    def _attachment(
        self,
        attach: Attach | None,
        record: str | os.PathLike[str] | None,
        attached: Mapping[str, Any],
        by: str,
    ) -> Attach | None:
        """The attachment that was given in one of these ways; None if none was."""
        if attach is not None or (record is None and not attached):
            return attach
        return Attachment(recorder=open_recorder(record), by=by or self._by, **attached)

    async def resume_in_background(
        self, run_id: str, *, workflow: Source | None = None, attach: Attach | None = None, by: str = ""
    ) -> str:
        """Resumes a run without waiting for it: here, or in the process that is about to pause it."""
        run_id = await self.find(run_id)
        await self.engine.control(
            run_id, Resume(by=by or self._by), execute=attach or True, workflow=workflow
        )
        return run_id

    async def retry(
        self,
        run_id: str,
        *,
        failed_items: bool = False,
        record: str | os.PathLike[str] | None = None,
        attach: Attach | None = None,
        workflow: Source | None = None,
        limits: LimitValues | None = None,
        variables: Mapping[str, Any] | None = None,
        script: ScriptSource = None,
        allow_paths: AllowPaths = (),
        by: str = "",
        **attached: Any,
    ) -> Result:
        """Takes up a failed run here and waits until it is idle. The calls that failed are made again, with
        the same idempotency keys, and so are those that were cancelled or not begun because of it;
        everything that finished is kept.

        `failed_items` retries the items of lists that failed while their run went on (`on_error: null` or
        `drop`), in a new run: it keeps the items that succeeded, and runs again what follows the list. The
        `run_id` of the result is that of the new run.

        A retry may bring other limits, variables or replies, or a corrected workflow, if what the run has
        done fits it. `workflow` also provides the code of functions again, as in `resume`. `ask`,
        `on_event` and `middleware` are those of an Attachment."""
        run_id = await self.find(run_id)
        run_id = await self.retry_in_background(
            run_id,
            failed_items=failed_items,
            workflow=workflow,
            limits=limits,
            variables=variables,
            script=script,
            allow_paths=allow_paths,
            attach=self._attachment(attach, record, attached, by),
            by=by,
        )
        return await self.wait(run_id)

    async def retry_in_background(
        self,
        run_id: str,
        *,
        failed_items: bool = False,
        workflow: Source | None = None,
        limits: LimitValues | None = None,
        variables: Mapping[str, Any] | None = None,
        script: ScriptSource = None,
        script_rights: Sequence[str] | None = None,
        allow_paths: AllowPaths = (),
        attach: Attach | None = None,
        by: str = "",
    ) -> str:
        """Takes up a failed run here without waiting for it. Returns its id, or that of the new run that
        retries failed items. `script_rights` limits a script that is inherited, as in `fork`."""
        run_id, by = await self.find(run_id), by or self._by
        if failed_items:
            new = await fork_failed_items(
                self.store,
                run_id,
                workflow=workflow,
                limits=limits,
                variables=variables,
                script=read_script(script),
                script_rights=script_rights,
                allow_paths=allow_paths,
                by=by,
            )
            if new and (await self.store.row(new)).status == "completed":
                await self._show_finished(new, attach or NO_ATTACHMENT)
                return new
            if new:
                return await self.resume_in_background(new, workflow=workflow, attach=attach, by=by)
        request: RunRequest = RetryRun(by=by)
        if workflow is not None or limits or variables or script is not None:
            found: list[Diagnostic] = []
            changed, plan = await forking.revise(
                self.store,
                run_id,
                workflow=workflow,
                limits=limits,
                variables=variables,
                script=read_script(script),
                script_rights=script_rights,
                allow_paths=allow_paths,
                warnings=found,
                parts=self.engine.recall(run_id).parts,
                by=by,
            )
            self._warn(found)
            self._remember(run_id, found)
            if changed and (await self.store.row(run_id)).status == "completed":
                await self._show_finished(run_id, attach or self.engine.recall(run_id).attach)
                return run_id
            request = Resume(by=by) if changed else request
            # With the secrets among the variables, which the source alone does not contain.
            workflow = plan if workflow is not None or variables else None
        await self.engine.control(run_id, request, execute=attach or True, workflow=workflow)
        return run_id

    async def _show_finished(self, run_id: str, attach: Attach) -> None:
        """Shows a run that was completed by a change alone to the process that retried it: its events from
        the change on, or its end if it is a new run."""
        attachment = await resolve_attachment(attach, run_id, await self.inspect(run_id))
        if attachment.on_event is None:
            return
        events = await self.events(run_id)
        ends = [number for number, event in enumerate(events[:-1]) if event.event == "run_finished"]
        failed = ends[-1] if ends else len(events) - 2
        for event in events[failed + 1 :]:
            attachment.on_event(event)

    async def result(self, run_id: str) -> Result:
        """Waits until a run is idle, whichever process executes it."""
        return self._with_warnings(await self.engine.result(await self._known(run_id)))

    async def wait(self, run_id: str) -> Result:
        """Like `result`, for a run that was started or resumed here: a caller that is cancelled stops
        the run."""
        return self._with_warnings(await self.engine.wait(run_id))

    # Controlling.

    async def pause(self, run_id: str, reason: str = "", *, wait: bool = True, by: str = "") -> None:
        """Lets the calls in flight finish, and starts nothing new. Returns when they have finished: the run
        is paused, or over if nothing was left to do. With `wait=False` it returns when the request is
        accepted; a function of the run itself has to use that, since it is one of the calls.

        If the caller is cancelled while it waits, the run pauses all the same."""
        run_id = await self._known(run_id)
        # A run whose process died is `running` without an owner. To pause it would succeed, and mean
        # nothing.
        if not self.engine.knows(run_id):
            row = await self.store.row(run_id)
            if row.status == "running" and not row.owner:
                raise StoreError(
                    f"no process executes run {run_id}, so it cannot be paused; "
                    f"`roundel resume {run_id}` resumes it"
                )
        await self.engine.control(run_id, Pause(reason, by=by or self._by))
        if wait:
            await self.engine.wait_until_idle(run_id)

    async def stop(self, run_id: str, reason: str = "", *, by: str = "") -> None:
        """Cancels the calls in flight and ends the run, whichever process executes it."""
        await self.engine.control(await self._known(run_id), Stop(reason, by=by or self._by))

    def interrupt(self, run_id: str, reason: str = "interrupted") -> None:
        """Cancels the calls in flight of a run that is executed here, and leaves it so that it can be
        resumed; a run that is not stored is stopped."""
        self.engine.interrupt(run_id, reason)

    async def answer(
        self,
        run_id: str,
        answer: str | Message,
        *,
        data: dict[str, Any] | None = None,
        at: str = "",
        exact: bool = False,
        by: str = "",
        workflow: Source | None = None,
        execute: Execute = True,
    ) -> RunRow:
        """Answers a question, `at` its address if there are several, with a text and `data`. `exact` refuses
        an answer to a tool approval that is neither consent, refusal nor other arguments. Returns the row of
        the run when the answer is stored, while the run continues.

        The process that executes the run continues it; if there is none, this one does, with the attachment
        that the run had here, or with that of `execute`. With `execute=False` the answer is only stored, and
        the run continues when it is resumed: the row has the status `running` and no `owner`. A paused or
        locked run stays so. `workflow` is that of `resume`.

        If the caller is cancelled, the answer is given or not, and does not stop the run."""
        message = answer if isinstance(answer, Message) else Message(answer, "user")
        if data is not None:
            message = msgspec.structs.replace(message, data=data)
        run_id = await self.find(run_id)
        request = Answer(message, at, exact, by=by or self._by)
        await self.engine.control(run_id, request, execute=execute, workflow=workflow)
        return await self.store.row(run_id)

    async def lock(self, run_id: str, reason: str, *, by: str = "") -> None:
        """Trips the breaker: lets the calls in flight finish, and starts nothing new. The status becomes
        `suspended_locked`; `unlock` lets the run continue."""
        await self.engine.control(await self._known(run_id), LockRun(reason, by=by or self._by))

    async def unlock(
        self,
        run_id: str,
        reason: str,
        *,
        checks: Sequence[str],
        by: str = "",
        limits: Mapping[str, float] | None = None,
        message: str | None = None,
        note: str = "",
        exit: str = "",
        workflow: Source | None = None,
        execute: Execute = True,
    ) -> RunRow:
        """Unlocks a run, which then continues; `checks` names the self-checks that were made. Returns the row
        of the run. `workflow`, `execute` and a cancellation are as in `answer`. LimitError if `limits` has a
        name that is no limit."""
        for name in limits or ():
            check_limit_name(name, name, RAISABLE_LIMITS)
        request = Unlock(reason, tuple(checks), dict(limits or {}), message, note, exit, by=by or self._by)
        run_id = await self.find(run_id)
        await self.engine.control(run_id, request, execute=execute, workflow=workflow)
        return await self.store.row(run_id)

    # Debugging.

    async def step(
        self,
        run_id: str,
        *,
        round: bool = False,
        workflow: Source | None = None,
        record: str | os.PathLike[str] | None = None,
        attach: Attach | None = None,
        by: str = "",
        **attached: Any,
    ) -> Result:
        """Lets a paused run take one step here, and waits until it is idle: the first node that is ready
        runs, and the others stay held. With `round` it continues to the next round of the innermost loop,
        or to a breakpoint on the way. The other arguments are those of `resume`."""
        run_id = await self.find(run_id)
        execute = self._attachment(attach, record, attached, by) or True
        request = StepRun(round, by=by or self._by)
        await self.engine.control(run_id, request, execute=execute, workflow=workflow)
        return await self.wait(run_id)

    async def step_in_background(
        self,
        run_id: str,
        *,
        round: bool = False,
        workflow: Source | None = None,
        attach: Attach | None = None,
        by: str = "",
    ) -> str:
        """Lets a paused run take one step here, without waiting for its end."""
        run_id = await self.find(run_id)
        request = StepRun(round, by=by or self._by)
        await self.engine.control(run_id, request, execute=attach or True, workflow=workflow)
        return run_id

    async def debug(self, run_id: str) -> RunInspection:
        """Which nodes of a run are ready and why, what the others wait for, the messages in the queues, the
        guards and the breakpoints."""
        return inspect_run((await self.inspect(run_id)).state)

    async def breakpoints(self, run_id: str) -> Sequence[BreakpointState]:
        """The breakpoints of a run, with how often each was reached."""
        return breakpoint_states((await self.inspect(run_id)).state)

    async def set_breakpoints(
        self,
        run_id: str,
        *breakpoints: BreakpointSource,
        remove: Sequence[BreakpointSource] = (),
        by: str = "",
    ) -> Sequence[BreakpointState]:
        """Adds and removes breakpoints of a run, whichever process executes it, and returns what it has
        then. BreakpointError if one can never be reached, or is to be removed and not there, or if the run is
        not stored."""
        run_id = await self._known(run_id)
        inspection = await self.engine.inspect(run_id)
        if inspection.pinned is None:
            raise BreakpointError(f"run {run_id} is not stored, so it could not continue after a breakpoint")
        known = [state.text for state in breakpoint_states(inspection.state)]
        removed = tuple(map(parse_breakpoint, remove))
        for text in map(str, removed):
            if text not in known:
                listed = f"it has {', '.join(known)}" if known else "it has none"
                raise BreakpointError(f"run {run_id} has no breakpoint '{text}'; {listed}")
        added = parse_breakpoints(inspection.plan, breakpoints)
        await self.engine.control(run_id, ChangeBreakpoints(added, removed, by=by or self._by))
        return await self.breakpoints(run_id)

    async def edit(
        self,
        run_id: str,
        text: str | None = None,
        *,
        at: str = "",
        position: int | None = None,
        data: dict[str, Any] | None = None,
        version: str = "",
        by: str = "",
    ) -> RunInspection:
        """Changes the text or the data of a message that waits at a node of a paused or locked run, and
        returns the state of the run then.

        `at` is the address of the node, the first one that is ready if it is empty; `position` the number of
        the message in its queue, the last one if it is None. EditConflict if `version` is given and the
        message has another one by now."""
        run_id = await self._known(run_id)
        state = (await self.engine.inspect(run_id)).state
        seen = inspect_run(state)
        address = at or next((ready.address for ready in seen.ready if ready.messages), "")
        if not address:
            raise StoreError(
                f"no message waits at a ready node of run {run_id}, which is {seen.status}; "
                "give the address of a node"
            )
        queue = next((queue for queue in seen.queues if queue.address == address), None)
        messages = queue.messages if queue is not None else ()
        number = max(len(messages) - 1, 0) if position is None else position
        # Refuses a message that is not there; what follows belongs to the one that was found.
        resolve_request(EditMessage(address, number, text or "", data, version), state)
        known = messages[number]
        changed = known.text if text is None else text
        request = EditMessage(address, number, changed, data, version or known.version, by=by or self._by)
        await self.engine.control(run_id, request)
        return await self.debug(run_id)

    # Reading.

    async def find(self, name: str) -> str:
        """The id of the run with this name; NoRun if there is none, AmbiguousRun if there are
        several."""
        return await find(self.store, name)

    async def _known(self, name: str) -> str:
        """Like `find`, also for runs that are not stored, which only the engine knows, by their complete
        id."""
        return name if self.engine.knows(name) else await self.find(name)

    async def list(
        self,
        *,
        status: str = "",
        limit: int | None = 100,
        statuses: Sequence[str] = (),
        name: str = "",
        groups: Sequence[str] | None = None,
        text: str = "",
        before: int = 0,
        since: float = 0,
        saved_as: str = "",
    ) -> Rows:
        """The rows of runs, the newest first: those with a `status`, or any of `statuses`; of the workflow
        `name`; of any of `groups` (None: all); with a `text` in the id, the name or the input; with a smaller
        `number` than `before`, which continues a list; created after the time `since`; started from the saved
        workflow `saved_as`."""
        return await self.store.rows(
            limit,
            status,
            statuses=statuses,
            name=name,
            groups=groups,
            text=text,
            before=before,
            since=since,
            saved_as=saved_as,
        )

    async def row(self, run_id: str) -> RunRow:
        """The row of a run: its status, owner and summary, without reading its facts."""
        return await self.store.row(await self.find(run_id))

    async def inspect(self, run_id: str) -> Inspection:
        """The plan and the state of a run."""
        return await self.engine.inspect(await self._known(run_id))

    async def events(self, run_id: str, *, after: int = 0) -> Events:
        """The events of a run so far, or those with a larger `seq` than `after`. Reading the end of a long
        run takes no longer than that of a short one."""
        return await read_events(self.store, await self.find(run_id), after=after)

    async def follow(self, run_id: str, *, after: int = 0, live: bool = True) -> AsyncIterator[Event]:
        """The events of a run with a larger `seq` than `after`, and, if `live`, more as they are committed by
        any process, until the run is over.

        While the engine of this object executes the run, transient events come between them: text as it is
        written, progress, waits. Their `seq` is 0. A reader that is slow may miss some of these, and one in
        another process gets none."""
        run_id = await self.find(run_id)
        if not live:
            async for event in follow(self.store, run_id, after=after, live=False):
                yield event
            return
        with self.engine.subscribe(run_id) as own:
            events = follow(self.store, run_id, after=after, own=own)
            async with contextlib.aclosing(events):
                async for event in events:
                    yield event

    async def follow_all(
        self,
        *,
        after: int = 0,
        groups: Sequence[str] | None = None,
        live: bool = True,
        pool: ReplayPool | None = None,
    ) -> AsyncIterator[tuple[int, Events]]:
        """The events of all runs, or of those of some groups, in commit order: those of each append together,
        with its position in the store. A reader who continues after the last position that it has handled
        misses nothing, and gets nothing twice. If `live`, more come as any process commits them, without an
        end. Readers that share a `pool` use together no more memory than one."""
        with self.engine.commits() as commits:
            async for batch in StoreFeed(self.store, groups, pool, commits).follow(after, live=live):
                yield batch

    async def position(self) -> int:
        """The newest position of the store, after which `follow_all` gives only what is new."""
        return await self.store.wait_for_append(-1)

    async def plan(self, run_id: str) -> Plan:
        """The plan of a run, as it was started."""
        return pinned_plan(await self.store.pinned(await self.find(run_id)))

    async def rounds(self, run_id: str) -> Sequence[LoopRounds]:
        """The rounds of each loop as figures: score, tokens, cost, novelty, time."""
        return await asyncio.to_thread((await self._counted(run_id)).loops)

    async def view(self, run_id: str) -> ViewSnapshot:
        """What people see of a run now. A `RunFold` continues from it (`RunFold.restore`)."""
        return (await self._counted(run_id)).fold.snapshot()

    async def _counted(self, run_id: str) -> RoundTally:
        run_id = await self.find(run_id)
        tally = await self.tally(run_id)
        await count_events(self.store, run_id, tally)
        return tally

    async def tally(self, run_id: str) -> RoundTally:
        """A tally that has no events yet, for those of a run."""
        run_id = await self.find(run_id)
        row = await self.store.row(run_id)
        return RoundTally(await self._speakers(run_id), is_pruned=bool(row.pruned))

    async def call(self, run_id: str, address: str, call: int | None = None) -> CallDetails:
        """What one call of a model or a tool got and returned: the `call`-th at its address, the last one
        without a number. `complete` is False, and `why` says why, where something was not kept. Of a call
        that is in flight, only the process that makes it knows what it got. NoCall if there is none;
        StoreError if the run was pruned."""
        return await read_call(self.engine, lambda: self.store, await self._known(run_id), address, call)

    async def script(self, run_id: str) -> str:
        """What models, tools and people answered in a run, as the text of a script file, with which a run of
        the same workflow repeats it offline; StoreError if the run was pruned."""
        from roundel.runs.as_script import run_as_script

        return await run_as_script(self.store, await self.find(run_id))

    async def _speakers(self, run_id: str) -> set[str]:
        """The ids of nodes whose output is written by a model or a person."""
        plan = await self.plan(run_id)
        return {node.id for node in plan.sites if node.kind.speaks or node.kind.asks}

    async def questions(self, run_id: str) -> Questions:
        """The questions that wait for a person now."""
        return list(open_questions((await self.inspect(run_id)).state).values())

    async def locked(self, run_id: str) -> Lock:
        """Why a run is locked; StoreError if it is not."""
        run_id = await self._known(run_id)
        state = (await self.engine.inspect(run_id)).state
        if state.lock is None or state.status != "suspended_locked":
            raise StoreError(f"run {run_id} is not locked; it is {state.status}")
        return state.lock

    # Forking, comparing, pruning.

    async def fork(
        self,
        run_id: str,
        at: str = "",
        *,
        workflow: Source | None = None,
        limits: LimitValues | None = None,
        variables: Mapping[str, Any] | None = None,
        message: str | None = None,
        script: ScriptSource = None,
        script_rights: Sequence[str] | None = None,
        allow_paths: AllowPaths = (),
        started_by: str | None = None,
        by: str = "",
        saved_as: str = "",
        workflow_version: str = "",
    ) -> str:
        """Creates a run that begins where an old one reached an address, and returns its id; `resume`
        executes it.

        `workflow` replaces the run's own. For one that was built in Python it may be the same, also
        with other code; `resume` needs it again. `variables` are set in `workflow`, or in the file that
        the run was started from. The new run inherits the script of the old one, with those of its rights
        (llm/script.py) that are among `script_rights`, if these are given. `started_by` is the id of the
        token that the new run counts for; None for that of the old run. `saved_as` and `workflow_version`
        belong to `workflow`, as in `start`; without another one, the new run has those of the old run."""
        replies, found = read_script(script), list[Diagnostic]()
        made = await forking.fork(
            self.store,
            await self.find(run_id),
            at,
            workflow=workflow,
            limits=limits,
            variables=variables,
            message=message,
            script=replies,
            script_rights=script_rights,
            allow_paths=allow_paths,
            started_by=started_by,
            by=by or self._by,
            saved_as=saved_as,
            workflow_version=workflow_version,
            warnings=found,
        )
        self._warn(found)
        return self._remember(made, found)

    async def replay(
        self,
        run_id: str,
        *,
        workflow: Source | None = None,
        limits: LimitValues | None = None,
        variables: Mapping[str, Any] | None = None,
        allow_paths: AllowPaths = (),
    ) -> Difference | None:
        """Plays a run again on another workflow, or with other limits or variables, without calling a
        model or a function. Returns where it would first have differed; None if it would not have."""
        run_id = await self.find(run_id)
        found: list[Diagnostic] = []
        difference = await forking.replay(
            self.store, run_id, workflow, limits, variables, allow_paths, warnings=found
        )
        self._warn(found)
        return difference

    async def prune(self, *run_ids: str, keep: str) -> None:
        """Deletes runs that are over, except for the rounds that `keep` names, and returns the space to
        the system."""
        for run_id in run_ids:
            await retention.prune(self.store, await self.find(run_id), keep)
        await self.store.compact()


def read_script(source: ScriptSource) -> Script | None:
    """A script from a file or a mapping; a Script is returned as it is."""
    if source is None or isinstance(source, Script):
        return source
    return script_from(source) if isinstance(source, Mapping) else load_script(Path(source))[0]


def open_recorder(file: str | os.PathLike[str] | None) -> ScriptRecorder | None:
    """A recorder that writes the replies of models to a file. OSError if the file cannot be written,
    which is checked now and not when the run is over."""
    if file is None:
        return None
    recorder = ScriptRecorder(Path(file))
    recorder.check()
    return recorder


def _load_plan(
    workflow: Source,
    variables: Mapping[str, Any] | None,
    allow_paths: AllowPaths,
) -> Plan:
    if isinstance(workflow, Plan):
        if allow_paths or variables:
            what = "allow_paths=" if allow_paths else "variables="
            raise ValueError(f"{what} is for what loads the workflow: give it to prepare()")
        return workflow
    return load_plan(workflow, variables, allow_paths=allow_paths)


def _changed(plan: Plan, limits: LimitValues | None, group: str | None, model: str = "") -> Plan:
    """The plan with other limits, another memory group and a model for the agents that name none; the same
    plan if nothing of this is given."""
    changed = with_group(with_limits(plan.workflow, limits or {}), group)
    if needs_model(plan, model):
        changed = with_default_model(changed, model)
    if changed is plan.workflow and plan.semantics == SEMANTICS:
        return plan
    made = compile_workflow(changed)
    made.warnings = plan.warnings
    return made
