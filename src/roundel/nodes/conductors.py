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
from roundel.nodes.asked import Asked
from roundel.nodes.strategies import UNTIL_NAMES, Count, Custom, Until
from roundel.workflow.expression import Expression, ExpressionError
from roundel.workflow.message import Message

Messages = tuple[Message, ...]


class Rounds:
    """What all loop agents have in common."""

    decide: Decide = staticmethod(decide_live)

    def __init__(self, carry: bool, remembers: bool = False) -> None:
        self.carry = carry
        self.done = 0
        self.results: list[Any] = []
        self.said: Messages = ()
        """What the last round gave that gave anything; before it, the input."""
        self.history: list[Message] | None = [] if carry or remembers else None
        """Everything so far, if somebody wants to see it."""

    def begin(self, inputs: Messages) -> Move | Turn:
        self.said = inputs
        if self.history is not None:
            self.history += inputs
        return self.go_on()

    def turned(self, turn: Turn, messages: Messages) -> Move | Turn:
        self.note(turn, messages)
        return self.go_on()

    def broken(self, turn: Turn, messages: Messages) -> Move | Turn:
        self.note(turn, messages)
        return self.finish("break")

    def catches(self, _turn: Turn) -> bool:
        return False

    def failed(self, _turn: Turn, error: str) -> Move | Turn:
        raise AssertionError(error)

    def told(self, _answer: Any) -> Move | Turn:
        raise AssertionError("nothing was asked")

    def unanswered(self, error: str) -> Move | Turn:
        return Move(error=error)

    def go_on(self) -> Move | Turn:
        raise NotImplementedError

    def note(self, turn: Turn, messages: Messages) -> None:
        self.done = turn.round
        self.results.append(messages[-1].text if messages else None)
        if messages:
            self.said = tuple(map(handed_on, messages))
            if self.history is not None:
                self.history += self.said

    def another(self) -> Turn:
        return Turn(0, self.context(self.said) if self.carry else self.said, self.done + 1)

    def context(self, messages: Messages) -> Messages:
        """What a round gets, if `messages` are new in it."""
        return tuple(self.history) if self.carry and self.history is not None else messages

    @property
    def last(self) -> Message:
        return self.said[-1] if self.said else Message()

    def finish(self, reason: str, *before: Message, reached: tuple[str, int] | None = None) -> Move:
        *others, last = self.said or (Message(),)
        report = self.report()
        data = {**(last.data or {}), **report}
        messages = (*before, *map(given_out, others), Message(last.content, "assistant", data))
        return Move(outcome=Outcome(messages, report=report, reason=reason), reached=reached)

    def report(self) -> dict[str, Any]:
        return {"results": self.results, "rounds": self.done}


def handed_on(message: Message) -> Message:
    return Message(message.content, "user", message.data, message.metadata)


def given_out(message: Message) -> Message:
    return Message(message.content, "assistant", message.data)


def notice(text: str, data: dict[str, Any] | None = None) -> Message:
    """Something that the loop itself has to say."""
    return Message(text, "system", data, preserve_role=True)


def wants_all(asked: Asked | None) -> bool:
    """Whether all messages are needed for the answer, and not just the last one."""
    return asked is not None and (bool(asked.function) or "messages" in asked.expression)


class CountRounds(Rounds):
    independent = True
    """So many rounds were asked for: that they say the same is no sign of anything."""

    def __init__(self, strategy: Count, carry: bool) -> None:
        super().__init__(carry)
        self.max = strategy.max

    def go_on(self) -> Move | Turn:
        return self.another() if self.done < self.max else self.finish("count_reached")


class UntilRounds(Rounds):
    def __init__(self, strategy: Until, carry: bool) -> None:
        super().__init__(carry, wants_all(strategy.until))
        self.strategy = strategy
        self.limit = strategy.max

    def go_on(self) -> Move | Turn:
        until = self.strategy.until.expression
        if not until:
            return Move(ask={"until": self.done}, inputs=tuple(self.history or ()))
        try:
            holds = self.decide(_holds, until, {**known(self.last, self.history), "round": self.done})
        except (DecisionError, ExpressionError) as error:
            return Move(error=f"'until' failed: {error}")
        return self.told(holds)

    def told(self, answer: Any) -> Move | Turn:
        if answer:
            return self.finish("condition_met")
        return self.another() if self.done < self.limit else self._limited()

    def _limited(self) -> Move:
        limit = self.limit
        if self.strategy.on_limit == "suspend":
            self.limit += self.strategy.max
            return Move((self.another(),), lock=("rounds", limit))
        said = notice(f"The loop ended after {limit} rounds without its condition being met.")
        return self.finish("max_rounds_reached", said, reached=("rounds", limit))


class CustomRounds(Rounds):
    """Asks a LoopStrategy before each round; its memory is kept here, not in the strategy."""

    def __init__(self, strategy: Custom, carry: bool) -> None:
        super().__init__(carry, remembers=True)
        self.max = self.limit = strategy.max
        self.memory: dict[str, Any] = {}

    def go_on(self) -> Move | Turn:
        question = {"round": self.done, "memory": self.memory, "results": self.results}
        return Move(ask=question, inputs=tuple(self.history or ()))

    def told(self, answer: Any) -> Move | Turn:
        self.memory = answer["memory"]
        if not answer["go"]:
            return self.finish("strategy_ended")
        turn = self._on(answer["inputs"])
        if self.done < self.limit:
            return turn
        limit, self.limit = self.limit, self.limit + self.max
        return Move((turn,), lock=("rounds", limit))

    def _on(self, given: list[Any] | None) -> Turn:
        """Another round, on what the strategy gave for it, or as usual."""
        if given is None:
            return self.another()
        inputs = msgspec.convert(given, Messages)
        if self.history is not None:
            self.history += inputs
        return Turn(0, self.context(inputs), self.done + 1)


@lru_cache(maxsize=256)
def compiled(source: str, names: tuple[str, ...]) -> Expression:
    """Compiled only when it is evaluated: a replay evaluates none, and another version might refuse it."""
    return Expression(source, names)


def _holds(source: str, values: dict[str, Any]) -> bool:
    return compiled(source, UNTIL_NAMES).holds(values)


def known(last: Message, history: list[Message] | None) -> dict[str, Any]:
    """What an expression may speak of."""
    texts = [message.text for message in history or ()]
    return {"text": last.text, "data": last.data or {}, "messages": texts}
