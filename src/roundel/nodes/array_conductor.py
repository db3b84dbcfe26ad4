"""A round for each element of a list, as many at the same time as may be.

The results stand in the order of the elements, whoever is quicker. A `break` counts as if the rounds had come
one after the other: those of earlier elements finish, those of later ones are called off.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec.structs import replace

from roundel.kernel.conduct import Move, Turn, as_move
from roundel.kernel.decisions import DecisionError
from roundel.kernel.facts import Outcome
from roundel.nodes.conductors import Messages, Rounds, compiled, handed_on, known, notice, wants_all
from roundel.nodes.result_value import is_element, value_of
from roundel.nodes.strategies import ITEMS_NAMES, Array
from roundel.workflow.message import Message, json_text

_FENCED = re.compile(r"\s*```\w*\n(.*)```\s*", re.DOTALL)


class ArrayRounds(Rounds):
    independent = True
    """Its rounds have nothing to do with each other."""

    def __init__(self, strategy: Array, carry: bool) -> None:
        super().__init__(carry, wants_all(strategy.items))
        self.strategy = strategy
        self.limit = strategy.max
        self.reason = "array_done"
        self.items: list[Any] = []
        self.started = 0
        self.given: dict[int, Messages] = {}
        """What each round gave that has ended; nothing if it failed."""
        self.errors: dict[int, str] = {}

    def go_on(self) -> Move | Turn:
        asked = self.strategy.items
        if asked is None:
            return self._through_text(self.last.text)
        if not asked.expression:
            return Move(ask={"items": True}, inputs=tuple(self.history or ()))
        try:
            items = self.decide(_evaluated, asked.expression, known(self.last, self.history))
        except (DecisionError, TypeError, ValueError) as error:
            return self._nothing(f"'items' failed: {error}", "items_failed")
        return self._through(items, "what 'items' gives is not a list")

    def _through_text(self, text: str) -> Move | Turn:
        fenced = _FENCED.fullmatch(text)
        try:
            items = msgspec.json.decode(fenced[1] if fenced else text)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            items = None
        shown = text if len(text) <= 80 else text[:79] + "…"
        return self._through(items, f"the last message is not a JSON array: {shown!r}")

    def told(self, answer: Any) -> Move | Turn:
        return self._through(answer, "what the function of 'items' gave is not a list")

    def _through(self, items: Any, otherwise: str) -> Move | Turn:
        if isinstance(items, list):
            self.items = items
            return self._more()
        return self._nothing(otherwise, "not_an_array")

    def unanswered(self, error: str) -> Move:
        return self._nothing(f"the function of 'items' failed: {error}", "items_failed")

    def _nothing(self, why: str, reason: str) -> Move:
        """No round, one message that says why, and the run goes on."""
        text, report = f"There is nothing to repeat: {why}", self.report()
        outcome = Outcome((notice(text, {**report, "error": why}),), report=report, reason=reason)
        return Move(outcome=outcome, events=(("warning", {"message": text}),))

    def _more(self) -> Move | Turn:
        ended, count = len(self.given), len(self.items)
        end = min(count, self.limit, ended + self.strategy.max_parallel)
        if self.started < end:
            first, self.started = self.started, end
            if first + 1 == end:
                return self._turn(first)
            return Move(tuple([self._turn(number) for number in range(first, end)]))
        if ended < self.started:
            return Move()
        if ended < count:
            limit, self.limit = self.limit, count
            return replace(as_move(self._more()), lock=("items", limit))
        return self._gathered()

    def _turn(self, number: int) -> Turn:
        item = self.items[number]
        message = Message(json_text(item), "user", item if isinstance(item, dict) else None)
        if self.carry and self.history is not None:
            self.history.append(message)
        apart = number if self.strategy.max_parallel > 1 else None
        return Turn(0, self.context((message,)), number + 1, apart)

    def turned(self, turn: Turn, messages: Messages) -> Move | Turn:
        self._keep(turn, messages)
        return self._more()

    def broken(self, turn: Turn, messages: Messages) -> Move:
        self._keep(turn, messages)
        last, self.reason = turn.round, "break"
        self.items, self.started = self.items[:last], last
        self.given = {number: given for number, given in self.given.items() if number <= last}
        self.errors = {number: error for number, error in self.errors.items() if number <= last}
        return replace(as_move(self._more()), last=last)

    def catches(self, _turn: Turn) -> bool:
        return self.strategy.on_error != "stop"

    def failed(self, turn: Turn, error: str) -> Move | Turn:
        self.errors[turn.round] = error
        self._keep(turn, ())
        return self._more()

    def _keep(self, turn: Turn, messages: Messages) -> None:
        self.given[turn.round] = messages
        if self.carry and self.history is not None:
            self.history += map(handed_on, messages)

    def _gathered(self) -> Move:
        dropped = self.errors if self.strategy.on_error == "drop" else ()
        rounds = [number for number in sorted(self.given) if number not in dropped]
        self.done = len(self.given)
        values = [value_of(given[-1]) if (given := self.given[number]) else None for number in rounds]
        self.results = [self._as_it_was(number, value) for number, value in zip(rounds, values, strict=True)]
        if self.strategy.gather:
            self.said = (Message(json_text(values)),)
        else:
            self.said = self.given[rounds[-1]] if rounds else ()
        return self.finish(self.reason)

    def _as_it_was(self, number: int, value: Any) -> Any:
        """An element that its round gave back stands among the results as the text that it was given as."""
        given = self.given[number]
        return given[-1].text if given and is_element(given[-1], self.items[number - 1]) else value

    def report(self) -> dict[str, Any]:
        errors = [{"round": number, "error": self.errors[number]} for number in sorted(self.errors)]
        return {**super().report(), "errors": errors} if errors else super().report()


def _evaluated(source: str, values: dict[str, Any]) -> Any:
    return listed(compiled(source, ITEMS_NAMES).evaluate(values))


def listed(value: object) -> Any:
    """A list as JSON has it; None if it is no list, TypeError if JSON cannot hold what is in it."""
    if not isinstance(value, (list, tuple)):
        return None
    plain = [item.text if isinstance(item, Message) else item for item in value]
    return msgspec.json.decode(msgspec.json.encode(plain))
