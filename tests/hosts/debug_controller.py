"""Somebody who debugs a run without asking who else does: each request is applied, or refused with a text."""

from __future__ import annotations

import random
from collections import Counter

import roundel
from roundel.hosts.control import EditConflict
from roundel.journal.store import StoreError
from roundel.workflow.breakpoints import BreakpointError
from tests.runs.debug_workflows import EDIT

REQUESTS = ("step", "step", "round", "resume", "set", "remove", "edit", "edit")


class Controller:
    """Sends random requests to a run until it is over."""

    def __init__(self, runs: roundel.Runs, run_id: str, seed: int) -> None:
        self._runs, self._run_id, self._chance = runs, run_id, random.Random(seed)
        self.applied: Counter[str] = Counter()
        """How many requests of each kind were applied."""
        self.refused: list[str] = []

    async def work(self) -> None:
        while (await self._runs.row(self._run_id)).status != "completed":
            kind = self._chance.choice(REQUESTS)
            try:
                self.applied[kind] += await self._send(kind)
            except (StoreError, BreakpointError) as error:
                conflict = "conflict: " if isinstance(error, EditConflict) else ""
                self.refused.append(f"{kind}: {conflict}{error}")

    async def _send(self, kind: str) -> bool:
        """Whether there was anything to request."""
        runs, run_id = self._runs, self._run_id
        if kind in ("step", "round"):
            await runs.step_in_background(run_id, round=kind == "round")
            await runs.result(run_id)
        elif kind == "resume":
            await runs.resume_in_background(run_id)
            await runs.result(run_id)
        elif kind == "set":
            await runs.set_breakpoints(run_id, "W", "cel: true")
        elif kind == "remove":
            await runs.set_breakpoints(run_id, remove=["W"])
        else:
            queues = [queue for queue in (await runs.debug(run_id)).queues if queue.node_id != "End"]
            if not queues:
                return False
            queue = self._chance.choice(queues)
            message = self._chance.choice(queue.messages)
            # Functions get the text alone, so the run ends as if nobody had edited anything.
            await runs.edit(
                run_id,
                at=queue.address,
                position=message.position,
                data={EDIT: self._chance.random()},
                version=message.version,
            )
        return True
