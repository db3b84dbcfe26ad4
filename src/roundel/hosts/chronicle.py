"""Tells a run what happened, keeps it if there is a journal, and shows what follows once it is safe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from roundel.journal.run_journal import RunJournal
from roundel.kernel.commands import Command
from roundel.kernel.events import Event
from roundel.kernel.facts import Answered, Consulted, Fact, Failed, Finished, Reviewed, Streamed
from roundel.kernel.state import Run
from roundel.kernel.step import step


class Chronicle:
    def __init__(self, state: Run) -> None:
        self.state = state
        self.journal: RunJournal | None = None
        self.observers: tuple[Callable[[Event], object], ...] = ()
        self.unsafe = False
        """Something happened that is not in the journal yet."""
        self._unshown: list[Event] = []

    def tell(self, fact: Fact) -> list[Command]:
        """What is to be done now."""
        journal = self.journal
        if journal is None:
            commands, events = step(self.state, fact)
            for observe in self.observers:
                for event in events:
                    observe(event)
            return commands
        try:
            fact = journal.add(fact)
        except ValueError as error:
            fact = journal.add(_without(fact, error))
        try:
            commands = self.take(fact)
        except BaseException:
            journal.take_back()
            raise
        journal.add_decisions(self.state.decisions.made)
        return commands

    def take(self, fact: Fact, decisions: Sequence[Any] | None = None) -> list[Command]:
        """The same for a fact that is in the journal already, with its decisions."""
        commands, events = step(self.state, fact, decisions)
        self._unshown += events
        self.unsafe = True
        return commands

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

    def say(self, address: str, text: str, attempt: int, now: float) -> None:
        """A model is speaking. Nothing follows from it, so it needs no turn of its own: it is seen at once,
        and the whole of it is kept when it is over."""
        if address not in self.state.calls:
            return
        unsafe = self.unsafe
        self.tell(Streamed(address, text, attempt, now))
        if not unsafe and self.journal is not None:
            self.unsafe = False
            self._show()


def _without(fact: Fact, error: ValueError) -> Failed:
    """What is told in place of a fact that cannot be kept; raises the error if it is not about a node."""
    if isinstance(fact, Failed):  # its text is no Unicode, or what middleware had to tell is no JSON
        return Failed(fact.address, fact.error.encode(errors="backslashreplace").decode(), fact.time)
    if not isinstance(fact, (Finished, Answered, Consulted, Reviewed)):
        raise error
    return Failed(fact.address, f"what it gave cannot be kept: {error}", fact.time)
