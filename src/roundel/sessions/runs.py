"""The runs of a store, for programs: what the commands of the command line do."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from roundel.hosts.result import Asker, Question, Result
from roundel.journal.store import RunRow
from roundel.kernel.events import Event
from roundel.llm.scripted import Script, load_script, script_from
from roundel.nodes.middleware import Middleware
from roundel.sessions import control, forking, retention
from roundel.sessions.going_on import resume_async
from roundel.sessions.naming import find
from roundel.sessions.opening import events_of
from roundel.sessions.place import OpenStore
from roundel.sessions.rerun import Difference
from roundel.sources import Source
from roundel.workflow.file_access import AllowPaths
from roundel.workflow.message import Message

Rows = list[RunRow]
Events = list[Event]
Questions = list[Question]


class Runs(OpenStore):
    """`async with Runs() as runs:`; StoreError if something cannot be done.

    A run is named by its id, by a beginning of it that fits no other, or as `last`."""

    async def list(self, *, status: str = "", limit: int = 100) -> Rows:
        """The newest first."""
        return await self._store.rows(limit, status)

    async def row(self, run_id: str) -> RunRow:
        return await self._store.row(await self._id(run_id))

    async def events(self, run_id: str, *, after: int = 0) -> Events:
        """The events of a run so far, or those with a larger `seq` than `after`. Reading the end of a long
        run takes no longer than that of a short one."""
        return await events_of(self._store, await self._id(run_id), after=after)

    async def questions(self, run_id: str) -> Questions:
        """What people are asked now."""
        return await control.asked(self._store, await self._id(run_id))

    async def pause(self, run_id: str, reason: str = "") -> None:
        await control.pause(self._store, await self._id(run_id), reason)

    async def stop(self, run_id: str, reason: str = "") -> None:
        await control.stop(self._store, await self._id(run_id), reason)

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
    ) -> None:
        """Lets a locked run go on with `resume`; `checks` names the self-checks that were made."""
        found = await self._id(run_id)
        await control.unlock(self._store, found, reason, checks, by, limits, message, note, exit)

    async def answer(self, run_id: str, answer: str | Message, *, at: str = "") -> RunRow:
        """Answers a question, `at` its address if there are several.

        A process that is at work on the run goes on with it. If nobody is, the run is as it stands then:
        over, if nothing is left to do, and otherwise `resume` goes on with it."""
        message = answer if isinstance(answer, Message) else Message(answer, "user")
        run_id = await self._id(run_id)
        await control.answer(self._store, run_id, message, at)
        return await self._store.row(run_id)

    async def resume(
        self,
        run_id: str,
        *,
        workflow: Source | None = None,
        ask: Asker | None = None,
        on_event: Callable[[Event], object] | None = None,
        record: str | os.PathLike[str] | None = None,
        middleware: Sequence[Middleware] = (),
    ) -> Result:
        """Goes on with a run here, to its end or until it waits."""
        return await resume_async(
            run_id,
            store=self._store,
            workflow=workflow,
            ask=ask,
            on_event=on_event,
            record=record,
            middleware=middleware,
        )

    async def fork(
        self,
        run_id: str,
        at: str = "",
        *,
        workflow: Source | None = None,
        limits: Mapping[str, float] | None = None,
        message: str | None = None,
        script: Script | Mapping[str, Any] | str | os.PathLike[str] | None = None,
        allow_paths: AllowPaths = (),
    ) -> str:
        """The id of a new run; `resume` goes on with it."""
        replies = _script(script)
        run_id = await self._id(run_id)
        return await forking.fork(
            self._store,
            run_id,
            at,
            workflow=workflow,
            limits=limits,
            message=message,
            script=replies,
            allow_paths=allow_paths,
        )

    async def replay(
        self,
        run_id: str,
        *,
        workflow: Source | None = None,
        limits: Mapping[str, float] | None = None,
        allow_paths: AllowPaths = (),
    ) -> Difference | None:
        """Where the run would first have gone another way; None if it would not."""
        return await forking.replay(self._store, await self._id(run_id), workflow, limits, allow_paths)

    async def prune(self, *run_ids: str, keep: str) -> None:
        """Keeps some rounds of runs that are over, or nothing, and makes the file smaller."""
        for run_id in run_ids:
            await retention.prune(self._store, await self._id(run_id), keep)
        await self._store.compact()

    async def _id(self, name: str) -> str:
        return await find(self._store, name)


def _script(source: Script | Mapping[str, Any] | str | os.PathLike[str] | None) -> Script | None:
    if source is None or isinstance(source, Script):
        return source
    return script_from(source) if isinstance(source, Mapping) else load_script(source)[0]
