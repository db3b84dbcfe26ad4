"""How loop agents go on: one conductor for each kind of strategy.

All of them test before each round. `results` has what each round gave, in order.
"""

from __future__ import annotations

import json
from typing import Any

from roundel.kernel.conduct import Move, Turn
from roundel.kernel.facts import Outcome
from roundel.nodes.strategies import ITEMS_NAMES, UNTIL_NAMES, Array, Asked, Count, Custom, Until
from roundel.workflow.expression import Expression
from roundel.workflow.message import Message, json_text


class Rounds:
    """What all loop agents have in common; on its own it never goes on."""

    def __init__(self, carry: bool) -> None:
        self.carry = carry
        self.done = 0
        self.results: list[str | None] = []
        self.said: tuple[Message, ...] = ()
        self.messages: list[Message] = []
        """Everything so far, for bodies and tests that want to see it."""

    def begin(self, inputs: tuple[Message, ...]) -> Move:
        self.said = inputs
        self.messages.extend(inputs)
        return self.go_on()

    def turned(self, turn: Turn, messages: tuple[Message, ...]) -> Move:
        self._note(turn, messages)
        return self.go_on()

    def broken(self, turn: Turn, messages: tuple[Message, ...]) -> Move:
        self._note(turn, messages)
        return self.finish("break")

    def catches(self, _turn: Turn) -> bool:
        return False

    def failed(self, _turn: Turn, error: str) -> Move:
        raise AssertionError(error)

    def told(self, _answer: Any) -> Move:
        raise AssertionError("nothing was asked")

    def go_on(self) -> Move:
        raise NotImplementedError

    def _note(self, turn: Turn, messages: tuple[Message, ...]) -> None:
        self.done = turn.round
        self.results.append(messages[-1].text if messages else None)
        if messages:
            self.said = tuple(_handed_on(message) for message in messages)
            self.messages.extend(self.said)

    def another(self) -> Move:
        inputs = tuple(self.messages) if self.carry else self.said
        return Move((Turn(0, inputs, self.done + 1),))

    def finish(self, reason: str, *before: Message, events: Any = ()) -> Move:
        messages = [*before, *(Message(m.content, "assistant", m.data) for m in self.said)]
        messages = messages or [Message("", "assistant")]
        last = messages[-1]
        data = {**(last.data or {}), "results": self.results, "rounds": self.done}
        messages[-1] = Message(last.content, last.role, data)
        report = {"results": self.results, "rounds": self.done}
        return Move(outcome=Outcome(tuple(messages), report=report, reason=reason), events=events)


def _handed_on(message: Message) -> Message:
    return Message(message.content, "user", message.data, message.metadata)


class CountRounds(Rounds):
    def __init__(self, strategy: Count, carry: bool) -> None:
        super().__init__(carry)
        self.max = strategy.max

    def go_on(self) -> Move:
        return self.another() if self.done < self.max else self.finish("count_reached")


class UntilRounds(Rounds):
    def __init__(self, strategy: Until, carry: bool) -> None:
        super().__init__(carry)
        self.strategy = strategy
        self.limit = strategy.max
        self.test = expression_of(strategy.until, UNTIL_NAMES)

    def go_on(self) -> Move:
        if self.test is None:
            return Move(ask={"until": self.done}, inputs=tuple(self.messages))
        return self.told(self.test.holds(self._values()))

    def told(self, answer: Any) -> Move:
        if answer:
            return self.finish("condition_met")
        return self.another() if self.done < self.limit else self._limited()

    def _limited(self) -> Move:
        limit = self.limit
        if self.strategy.on_limit == "suspend":
            self.limit += self.strategy.max
            return Move(self.another().turns, lock=("rounds", limit))
        notice = Message(f"The loop ended after {limit} rounds without its condition being met.", "system")
        event = ("limit_reached", {"what": "rounds", "limit": limit})
        return self.finish("max_rounds_reached", notice, events=(event,))

    def _values(self) -> dict[str, Any]:
        last = self.messages[-1] if self.messages else Message()
        return {
            "text": last.text,
            "data": last.data or {},
            "round": self.done,
            "messages": [message.text for message in self.messages],
        }


class ArrayRounds(Rounds):
    def __init__(self, strategy: Array, carry: bool) -> None:
        super().__init__(carry)
        self.strategy = strategy
        self.limit = strategy.max
        self.items: list[Any] = []
        self.given: dict[int, str | None] = {}
        self.dropped: set[int] = set()
        self.started = 0
        self.ended = 0

    def go_on(self) -> Move:
        asked = self.strategy.items
        if asked is None:
            return self._with(_parsed(self.messages))
        test = expression_of(asked, ITEMS_NAMES)
        if test is None:
            return Move(ask={"items": True}, inputs=tuple(self.messages))
        last = self.messages[-1] if self.messages else Message()
        texts = [message.text for message in self.messages]
        return self._with(test.evaluate({"text": last.text, "data": last.data or {}, "messages": texts}))

    def told(self, answer: Any) -> Move:
        return self._with(answer)

    def _with(self, items: Any) -> Move:
        if not isinstance(items, list):
            text = f"The input is not a JSON array, so there is nothing to repeat over: {_excerpt(self.messages)}"
            outcome = Outcome(
                (Message(text, "system", {"results": [], "rounds": 0}),),
                report={"results": [], "rounds": 0},
                reason="not_an_array",
            )
            return Move(outcome=outcome, events=(("warning", {"message": text}),))
        self.items = items
        return self._more()

    def _more(self) -> Move:
        width = self.strategy.max_parallel
        end = min(len(self.items), self.limit, self.ended + width)
        turns = tuple(self._turn(number) for number in range(self.started, end))
        self.started = max(self.started, end)
        if turns or self.ended < self.started:
            return Move(turns)
        if self.ended < len(self.items):
            limit, self.limit = self.limit, len(self.items)
            return Move(self._more().turns, lock=("items", limit))
        return self._gathered("array_done")

    def _turn(self, number: int) -> Turn:
        item = self.items[number]
        message = Message(json_text(item), "user", item if isinstance(item, dict) else None)
        apart = number if self.strategy.max_parallel > 1 else None
        return Turn(0, (message,), number + 1, apart)

    def turned(self, turn: Turn, messages: tuple[Message, ...]) -> Move:
        self._keep(turn, messages[-1].text if messages else None)
        return self._more()

    def broken(self, turn: Turn, messages: tuple[Message, ...]) -> Move:
        self._keep(turn, messages[-1].text if messages else None)
        return self._gathered("break")

    def catches(self, _turn: Turn) -> bool:
        return self.strategy.on_error != "stop"

    def failed(self, turn: Turn, _error: str) -> Move:
        if self.strategy.on_error == "drop":
            self.dropped.add(turn.round)
        self._keep(turn, None)
        return self._more()

    def _keep(self, turn: Turn, text: str | None) -> None:
        self.given[turn.round] = text
        self.ended += 1

    def _gathered(self, reason: str) -> Move:
        self.done = self.started
        rounds = sorted(self.given)
        self.results = [self.given[number] for number in rounds if number not in self.dropped]
        if self.strategy.gather or not self.results:
            self.said = (Message(json_text(self.results)),)
        else:
            self.said = (Message(self.results[-1] or ""),)
        return self.finish(reason)


class CustomRounds(Rounds):
    """Asks a LoopStrategy before each round; its memory is kept here, not in the strategy."""

    def __init__(self, strategy: Custom, carry: bool) -> None:
        super().__init__(carry)
        self.limit = strategy.max
        self.memory: dict[str, Any] = {}

    def go_on(self) -> Move:
        question = {"dispatch": self.done, "memory": self.memory, "results": self.results}
        return Move(ask=question, inputs=tuple(self.messages))

    def told(self, answer: Any) -> Move:
        self.memory = answer["memory"]
        if not answer["go"]:
            return self.finish("strategy_ended")
        if answer["inputs"] is not None:
            self.said = tuple(Message(text) for text in answer["inputs"])
        if self.done < self.limit:
            return self.another()
        limit, self.limit = self.limit, self.limit * 2
        return Move(self.another().turns, lock=("rounds", limit))


def expression_of(asked: Asked, names: tuple[str, ...]) -> Expression | None:
    return Expression(asked.expression, names) if asked.expression else None


def _parsed(messages: list[Message]) -> Any:
    try:
        return json.loads(messages[-1].text) if messages else None
    except ValueError:
        return None


def _excerpt(messages: list[Message]) -> str:
    text = messages[-1].text if messages else ""
    return repr(text if len(text) <= 80 else text[:77] + "…")
