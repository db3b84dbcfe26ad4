"""The log of one run: applies facts to its state, adds them to its journal, and publishes what follows.

Every fact of a run passes through here, once, in this order:

    mask      secrets are removed, so that neither the state nor anything derived from it holds one
    journal   the fact is encoded, and decoded again: the state sees exactly what a resumed run would see
    step      the kernel changes the state and returns commands and events
    publish   observers see the events; for a stored run only after the commit, since an event that a
              crash could take back must not be seen by anybody

A run without a journal skips the second point and publishes at once. Committing is the only operation that
waits for anything, and the driver decides when it happens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from roundel.journal.run_journal import RunJournal
from roundel.kernel.commands import Command
from roundel.kernel.events import Event, stamp
from roundel.kernel.fact_masking import masked_fact
from roundel.kernel.facts import Answered, Consulted, Fact, Failed, Finished, Reviewed
from roundel.kernel.state import Run
from roundel.kernel.step import IllegalFact, abandon, step
from roundel.workflow.secrets import Secrets

Observer = Callable[[Event], object]

CALL_RESULTS = (Finished, Answered, Consulted, Reviewed)
"""Facts that report the result of a call. If the run cannot take one, the call has failed."""


class RunLog:
    def __init__(self, state: Run, secrets: Secrets) -> None:
        self.state = state
        self.journal: RunJournal | None = None
        self.observers: tuple[Observer, ...] = ()
        self.uncommitted = False
        """The state is ahead of the journal. Stays False without a journal."""
        self.damage: BaseException | None = None
        """What a step raised half-way: the state is unusable until `rebuild` or `abandon`."""
        self._secrets = secrets
        self._unpublished: list[Event] = []

    @property
    def full(self) -> bool:
        """So many facts are uncommitted that they should be committed although nothing depends on it."""
        return self.journal is not None and self.journal.full

    def record(self, fact: Fact) -> list[Command]:
        """Applies a fact and returns what is to be done now. IllegalFact if the run cannot take it."""
        journal = self.journal
        if journal is None:
            if self._secrets.known:
                fact = masked_fact(fact, self._secrets)
            try:
                commands, events = step(self.state, fact)
            except IllegalFact:
                raise  # nothing has changed
            except BaseException as error:
                self.damage = error
                raise
            for observe in self.observers:
                for event in events:
                    observe(event)
            return commands
        try:
            fact = journal.add(fact, self._secrets)
        except ValueError as error:
            fact = journal.add(_unencodable(fact, error), self._secrets)
        try:
            commands = self.apply(fact)
        except BaseException:
            journal.take_back()
            raise
        journal.add_decisions(self.state.decisions.made)
        return commands

    def apply(self, fact: Fact, decisions: Sequence[Any] | None = None) -> list[Command]:
        """The same for a fact that the journal already holds, with the decisions that were stored."""
        try:
            commands, events = step(self.state, fact, decisions)
        except IllegalFact:
            raise
        except BaseException as error:
            self.damage = error
            raise
        self._unpublished += events
        self.uncommitted = True
        return commands

    async def commit(self, alone: bool) -> None:
        """Writes the journal, then publishes. `alone`: the run has no call in flight, so that blocking the
        event loop for the length of a disk write holds up nothing of its own."""
        assert self.journal is not None
        await self.journal.commit(self.state, quiet=alone)
        self.uncommitted = False
        self._publish()

    async def rebuild(self) -> None:
        """Replaces a damaged state by the one that the journal makes, without the fact that damaged it."""
        assert self.journal is not None
        self.state = await self.journal.rebuild(self.state.plan)
        self.damage = None

    def abandon(self, error: str) -> None:
        """Ends a damaged run that has no journal as failed."""
        self._unpublished = abandon(self.state, error)
        self.damage = None
        self._publish()

    def _publish(self) -> None:
        events, self._unpublished = self._unpublished, []
        for observe in self.observers:
            for event in events:
                observe(event)

    def publish_transient(self, event: str, address: str, data: dict[str, Any], now: float) -> None:
        """Shows an event that is no part of the run: it has no number and is not stored."""
        execution = self.state.calls.get(address)
        if execution is None or not execution.node.logs:
            return
        node_id = execution.node.id
        for observe in self.observers:
            observe(Event(0, event, stamp(now), self.state.run_id, node_id, address, data))


def _unencodable(fact: Fact, error: ValueError) -> Failed:
    """What is recorded in place of a fact that cannot be encoded; raises the error if it is about no call."""
    if isinstance(fact, Failed):  # its text is not valid Unicode, or an event of middleware is not JSON
        return Failed(fact.address, fact.error.encode(errors="backslashreplace").decode(), fact.time)
    if not isinstance(fact, CALL_RESULTS):
        raise error
    return Failed(fact.address, f"its result cannot be stored: {error}", fact.time)
