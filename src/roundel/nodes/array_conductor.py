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
from roundel.nodes.conductors import (
    LoopRounds,
    Messages,
    as_round_input,
    compile_expression,
    expression_variables,
    needs_history,
    system_notice,
)
from roundel.nodes.result_value import is_unchanged_item, message_value
from roundel.nodes.strategies import ITEMS_NAMES, ArrayStrategy
from roundel.workflow.message import Message, json_text

_FENCED_JSON = re.compile(r"\s*```\w*\n(.*)```\s*", re.DOTALL)


class ArrayRounds(LoopRounds):
    independent = True
    """Its rounds have nothing to do with each other."""

    def __init__(self, strategy: ArrayStrategy, carry: bool) -> None:
        super().__init__(carry, needs_history(strategy.items))
        self.strategy = strategy
        self.limit = strategy.max
        self.reason = "array_done"
        self.items: list[Any] = []
        self.started = 0
        self.outputs: dict[int, Messages] = {}
        """What each round gave that has ended; nothing if it failed."""
        self.errors: dict[int, str] = {}

    def next_round(self) -> Move | Turn:
        asked = self.strategy.items
        if asked is None:
            return self._iterate_text(self.last.text)
        if not asked.expression:
            return Move(ask={"items": True}, inputs=tuple(self.history or ()))
        try:
            items = self.decide(
                _evaluate_items, asked.expression, expression_variables(self.last, self.history)
            )
        except (DecisionError, TypeError, ValueError) as error:
            return self._skip_loop(f"'items' failed: {error}", "items_failed")
        return self._iterate(items, "what 'items' gives is not a list")

    def _iterate_text(self, text: str) -> Move | Turn:
        fenced = _FENCED_JSON.fullmatch(text)
        try:
            items = msgspec.json.decode(fenced[1] if fenced else text)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            items = None
        shown = text if len(text) <= 80 else text[:79] + "…"
        return self._iterate(items, f"the last message is not a JSON array: {shown!r}")

    def told(self, answer: Any) -> Move | Turn:
        return self._iterate(answer, "what the function of 'items' gave is not a list")

    def _iterate(self, items: Any, otherwise: str) -> Move | Turn:
        if isinstance(items, list):
            self.items = items
            return self._start_more()
        return self._skip_loop(otherwise, "not_an_array")

    def unanswered(self, error: str) -> Move:
        return self._skip_loop(f"the function of 'items' failed: {error}", "items_failed")

    def _skip_loop(self, why: str, reason: str) -> Move:
        """No round, one message that says why, and the run goes on."""
        text, report = f"There is nothing to repeat: {why}", self.report()
        outcome = Outcome((system_notice(text, {**report, "error": why}),), report=report, reason=reason)
        return Move(outcome=outcome, events=(("warning", {"message": text}),))

    def _start_more(self) -> Move | Turn:
        ended, count = len(self.outputs), len(self.items)
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
            return replace(as_move(self._start_more()), lock=("items", limit))
        return self._gather()

    def _turn(self, number: int) -> Turn:
        item = self.items[number]
        message = Message(json_text(item), "user", item if isinstance(item, dict) else None)
        if self.carry and self.history is not None:
            self.history.append(message)
        apart = number if self.strategy.max_parallel > 1 else None
        return Turn(0, self.context((message,)), number + 1, apart)

    def turned(self, turn: Turn, messages: Messages) -> Move | Turn:
        self._record_output(turn, messages)
        return self._start_more()

    def broken(self, turn: Turn, messages: Messages) -> Move:
        self._record_output(turn, messages)
        last, self.reason = turn.round, "break"
        self.items, self.started = self.items[:last], last
        self.outputs = {number: outputs for number, outputs in self.outputs.items() if number <= last}
        self.errors = {number: error for number, error in self.errors.items() if number <= last}
        return replace(as_move(self._start_more()), last=last)

    def catches(self, _turn: Turn) -> bool:
        return self.strategy.on_error != "stop"

    def failed(self, turn: Turn, error: str) -> Move | Turn:
        self.errors[turn.round] = error
        self._record_output(turn, ())
        return self._start_more()

    def _record_output(self, turn: Turn, messages: Messages) -> None:
        self.outputs[turn.round] = messages
        if self.carry and self.history is not None:
            self.history += map(as_round_input, messages)

    def _gather(self) -> Move:
        dropped = self.errors if self.strategy.on_error == "drop" else ()
        rounds = [number for number in sorted(self.outputs) if number not in dropped]
        self.rounds_done = len(self.outputs)
        values = [
            message_value(outputs[-1]) if (outputs := self.outputs[number]) else None for number in rounds
        ]
        self.results = [
            self._result_value(number, value) for number, value in zip(rounds, values, strict=True)
        ]
        if self.strategy.gather:
            self.output = (Message(json_text(values)),)
        else:
            self.output = self.outputs[rounds[-1]] if rounds else ()
        return self.finish(self.reason)

    def _result_value(self, number: int, value: Any) -> Any:
        """An element that its round gave back stands among the results as the text that it was given as."""
        outputs = self.outputs[number]
        return (
            outputs[-1].text if outputs and is_unchanged_item(outputs[-1], self.items[number - 1]) else value
        )

    def report(self) -> dict[str, Any]:
        errors = [{"round": number, "error": self.errors[number]} for number in sorted(self.errors)]
        return {**super().report(), "errors": errors} if errors else super().report()


def _evaluate_items(source: str, values: dict[str, Any]) -> Any:
    return as_json_list(compile_expression(source, ITEMS_NAMES).evaluate(values))


def as_json_list(value: object) -> Any:
    """A list as JSON has it; None if it is no list, TypeError if JSON cannot hold what is in it."""
    if not isinstance(value, (list, tuple)):
        return None
    plain = [item.text if isinstance(item, Message) else item for item in value]
    return msgspec.json.decode(msgspec.json.encode(plain))
