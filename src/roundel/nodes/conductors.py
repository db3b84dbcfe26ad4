"""How loop agents go on: one conductor for each kind of strategy.

All of them test before each round. `results` has what each round gave, in order. What a round gave goes into
the next one and, after the last, out of the node; a round that gave nothing changes nothing.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from roundel.kernel.conduct import Move, Turn
from roundel.kernel.decisions import Decide, DecisionError, decide_live
from roundel.kernel.facts import Outcome
from roundel.nodes.asked import Predicate
from roundel.nodes.strategies import UNTIL_NAMES, CountStrategy, CustomStrategy, UntilStrategy
from roundel.workflow.expression import Expression, ExpressionError
from roundel.workflow.message import Message

Messages = tuple[Message, ...]


class LoopRounds:
    """What all loop agents have in common."""

    decide: Decide = staticmethod(decide_live)

    def __init__(self, carry: bool, keeps_history: bool = False) -> None:
        self.carry = carry
        self.rounds_done = 0
        self.results: list[Any] = []
        self.output: Messages = ()
        """What the last round gave that gave anything; before it, the input."""
        self.history: list[Message] | None = [] if carry or keeps_history else None
        """Everything so far, if somebody wants to see it."""

    def begin(self, inputs: Messages) -> Move | Turn:
        self.output = inputs
        if self.history is not None:
            self.history += inputs
        return self.next_round()

    def turned(self, turn: Turn, messages: Messages) -> Move | Turn:
        self.record_round(turn, messages)
        return self.next_round()

    def broken(self, turn: Turn, messages: Messages) -> Move | Turn:
        self.record_round(turn, messages)
        return self.finish("break")

    def catches(self, _turn: Turn) -> bool:
        return False

    def failed(self, _turn: Turn, error: str) -> Move | Turn:
        raise AssertionError(error)

    def told(self, _answer: Any) -> Move | Turn:
        raise AssertionError("nothing was asked")

    def unanswered(self, error: str) -> Move | Turn:
        return Move(error=error)

    def next_round(self) -> Move | Turn:
        raise NotImplementedError

    def record_round(self, turn: Turn, messages: Messages) -> None:
        self.rounds_done = turn.round
        self.results.append(messages[-1].text if messages else None)
        if messages:
            self.output = tuple(map(as_round_input, messages))
            if self.history is not None:
                self.history += self.output

    def start_round(self) -> Turn:
        return Turn(0, self.context(self.output) if self.carry else self.output, self.rounds_done + 1)

    def context(self, messages: Messages) -> Messages:
        """What a round gets, if `messages` are new in it."""
        return tuple(self.history) if self.carry and self.history is not None else messages

    @property
    def last(self) -> Message:
        return self.output[-1] if self.output else Message()

    def finish(self, reason: str, *before: Message, reached: tuple[str, int] | None = None) -> Move:
        *others, last = self.output or (Message(),)
        report = self.report()
        data = {**(last.data or {}), **report}
        messages = (*before, *map(as_output, others), Message(last.content, "assistant", data))
        return Move(outcome=Outcome(messages, report=report, reason=reason), reached=reached)

    def report(self) -> dict[str, Any]:
        return {"results": self.results, "rounds": self.rounds_done}


def as_round_input(message: Message) -> Message:
    return Message(message.content, "user", message.data, message.metadata)


def as_output(message: Message) -> Message:
    return Message(message.content, "assistant", message.data)


def system_notice(text: str, data: dict[str, Any] | None = None) -> Message:
    """Something that the loop itself has to say."""
    return Message(text, "system", data, preserve_role=True)


def needs_history(asked: Predicate | None) -> bool:
    """Whether all messages are needed for the answer, and not just the last one."""
    return asked is not None and (bool(asked.function) or "messages" in asked.expression)


class CountRounds(LoopRounds):
    independent = True
    """So many rounds were asked for: that they say the same is no sign of anything."""

    def __init__(self, strategy: CountStrategy, carry: bool) -> None:
        super().__init__(carry)
        self.max = strategy.max

    def next_round(self) -> Move | Turn:
        return self.start_round() if self.rounds_done < self.max else self.finish("count_reached")


class UntilRounds(LoopRounds):
    def __init__(self, strategy: UntilStrategy, carry: bool) -> None:
        super().__init__(carry, needs_history(strategy.until))
        self.strategy = strategy
        self.limit = strategy.max

    def next_round(self) -> Move | Turn:
        until = self.strategy.until.expression
        if not until:
            return Move(ask={"until": self.rounds_done}, inputs=tuple(self.history or ()))
        try:
            holds = self.decide(
                _evaluate_until,
                until,
                {**expression_variables(self.last, self.history), "round": self.rounds_done},
            )
        except (DecisionError, ExpressionError) as error:
            return Move(error=f"'until' failed: {error}")
        return self.told(holds)

    def told(self, answer: Any) -> Move | Turn:
        if answer:
            return self.finish("condition_met")
        return self.start_round() if self.rounds_done < self.limit else self._on_limit_reached()

    def _on_limit_reached(self) -> Move:
        limit = self.limit
        if self.strategy.on_limit == "suspend":
            self.limit += self.strategy.max
            return Move((self.start_round(),), lock=("rounds", limit))
        output = system_notice(f"The loop ended after {limit} rounds without its condition being met.")
        return self.finish("max_rounds_reached", output, reached=("rounds", limit))


class CustomRounds(LoopRounds):
    """Asks a LoopStrategy before each round; its memory is kept here, not in the strategy."""

    def __init__(self, strategy: CustomStrategy, carry: bool) -> None:
        super().__init__(carry, keeps_history=True)
        self.max = self.limit = strategy.max
        self.memory: dict[str, Any] = {}

    def next_round(self) -> Move | Turn:
        question = {"round": self.rounds_done, "memory": self.memory, "results": self.results}
        return Move(ask=question, inputs=tuple(self.history or ()))

    def told(self, answer: Any) -> Move | Turn:
        self.memory = answer["memory"]
        if not answer["go"]:
            return self.finish("strategy_ended")
        turn = self._start_custom_round(answer["inputs"])
        if self.rounds_done < self.limit:
            return turn
        limit, self.limit = self.limit, self.limit + self.max
        return Move((turn,), lock=("rounds", limit))

    def _start_custom_round(self, given_inputs: list[Any] | None) -> Turn:
        """Another round, on what the strategy gave for it, or as usual."""
        if given_inputs is None:
            return self.start_round()
        inputs = msgspec.convert(given_inputs, Messages)
        if self.history is not None:
            self.history += inputs
        return Turn(0, self.context(inputs), self.rounds_done + 1)


@lru_cache(maxsize=256)
def compile_expression(source: str, names: tuple[str, ...]) -> Expression:
    """Compiled only when it is evaluated: a replay evaluates none, and another version might refuse it."""
    return Expression(source, names)


def _evaluate_until(source: str, values: dict[str, Any]) -> bool:
    return compile_expression(source, UNTIL_NAMES).holds(values)


def expression_variables(last: Message, history: list[Message] | None) -> dict[str, Any]:
    """What an expression may speak of."""
    texts = [message.text for message in history or ()]
    return {"text": last.text, "data": last.data or {}, "messages": texts}
