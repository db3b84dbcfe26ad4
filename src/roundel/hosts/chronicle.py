"""Tells a run what happened, keeps it if there is a journal, and shows what follows once it is safe."""

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


class Chronicle:
    def __init__(self, state: Run, secrets: Secrets) -> None:
        self.state = state
        self._secrets = secrets
        self.journal: RunJournal | None = None
        self.observers: tuple[Callable[[Event], object], ...] = ()
        self.unsafe = False
        """Something happened that is not in the journal yet."""
        self.damage: BaseException | None = None
        """What a step raised in its middle: the state is half changed until `rebuild` or `give_up`."""
        self._unshown: list[Event] = []

    def tell(self, fact: Fact) -> list[Command]:
        """What is to be done now. The fact is masked first, so nothing that follows holds a secret."""
        journal = self.journal
        if journal is None:
            commands, self._unshown = self._step(masked_fact(fact, self._secrets))
            self._show()
            return commands
        try:
            fact = journal.add(fact, self._secrets)
        except ValueError as error:
            fact = journal.add(_without(fact, error), self._secrets)
        try:
            commands = self.take(fact)
        except BaseException:
            journal.take_back()
            raise
        journal.add_decisions(self.state.decisions.made)
        return commands

    def take(self, fact: Fact, decisions: Sequence[Any] | None = None) -> list[Command]:
        """The same for a fact that is in the journal already, with its decisions."""
        commands, events = self._step(fact, decisions)
        self._unshown += events
        self.unsafe = True
        return commands

    def _step(self, fact: Fact, decisions: Sequence[Any] | None = None) -> tuple[list[Command], list[Event]]:
        try:
            return step(self.state, fact, decisions)
        except IllegalFact:
            raise  # nothing has changed
        except BaseException as error:
            self.damage = error
            raise

    async def rebuild(self) -> None:
        """Replaces a damaged state by the one that the journal makes, without the fact that damaged it."""
        assert self.journal is not None
        self.state = await self.journal.rebuild(self.state.plan)
        self.damage = None

    def give_up(self, error: str) -> None:
        """Ends a damaged run that has no journal."""
        self._unshown = abandon(self.state, error)
        self.damage = None
        self._show()

    async def commit(self, quiet: bool) -> None:
        """What has happened is safe, and only then seen. `quiet`: the run has nothing at work."""
        assert self.journal is not None
        await self.journal.commit(self.state, quiet=quiet)
        self.unsafe = False
        self._show()

    def _show(self) -> None:
        events, self._unshown = self._unshown, []
        for observe in self.observers:
            for event in events:
                observe(event)

    def publish(self, event: str, address: str, data: dict[str, Any], now: float) -> None:
        """Shows a transient event: no fact, no number, and nothing follows from it."""
        execution = self.state.calls.get(address)
        if execution is None or not execution.node.logs:
            return
        node_id = execution.node.id
        for observe in self.observers:
            observe(Event(0, event, stamp(now), self.state.run_id, node_id, address, data))


ABOUT_CALLS = (Finished, Answered, Consulted, Reviewed)
"""Facts that say what came of a call. If the run cannot take one, the call has failed."""


def _without(fact: Fact, error: ValueError) -> Failed:
    """What is told in place of a fact that cannot be kept; raises the error if it is not about a node."""
    if isinstance(fact, Failed):  # its text is no Unicode, or what middleware had to tell is no JSON
        return Failed(fact.address, fact.error.encode(errors="backslashreplace").decode(), fact.time)
    if not isinstance(fact, ABOUT_CALLS):
        raise error
    return Failed(fact.address, f"what it gave cannot be kept: {error}", fact.time)
