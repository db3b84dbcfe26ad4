"""What a round gave, as a value in a list: its structured data if it has any, else its text.

A list of results is JSON, so what is JSON already stands in it as a value, never as text that holds JSON.

How loop agents go on: one conductor for each kind of strategy.

All of them test before each round. `results` has what each round gave, in order. What a round gave goes into
the next one and, after the last, out of the node; a round that gave nothing changes nothing.

A round for each element of a list, as many at the same time as may be.

The results stand in the order of the elements, whoever is quicker. A `break` counts as if the rounds had come
one after the other: those of earlier elements finish, those of later ones are called off.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace

from roundel.kernel.composite import CompositeAction, as_action
from roundel.kernel.facts import Decide, DecisionError, Outcome, decide_live
from roundel.kernel.state import Iteration
from roundel.nodes.loop_strategies import (
    ITEMS_NAMES,
    UNTIL_NAMES,
    ArrayStrategy,
    CountStrategy,
    CustomStrategy,
    Predicate,
    UntilStrategy,
)
from roundel.workflow.expression import Expression, ExpressionError
from roundel.workflow.message import Message, json_text

_ANNOTATIONS: tuple[tuple[frozenset[str], frozenset[str]], ...] = tuple(
    (frozenset(always), frozenset(sometimes))
    for always, sometimes in (
        (("stop_reason",), ("tool_rounds", "answered")),  # an agent with tools
        (("results", "rounds"), ("errors", "error")),  # a loop_agent
        (
            ("should_exit", "exit_reason", "current_round", "timestamp", "held"),
            ("score", "best_round", "best_score"),
        ),  # a loop
        (("debate_history", "total_rounds", "exit_reason", "held"), ()),  # a debate
        (("count", "max_iterations"), ()),  # a loop_counter
        (("elapsed", "limit"), ()),  # a loop_timer
        (("exit_code",), ()),  # the code of a message
    )
)
"""What nodes add to the data of a message about its text: the fields of each kind that are always there, and
those that may be. They do not make a text structured."""


def message_value(message: Message) -> Any:
    data, text = message.data, message.text
    container = _parse_container(text)
    if not data:
        return text if container is None else container
    if isinstance(container, dict) and container.items() <= data.items():
        return container  # the text says what the data says
    own_fields = _strip_annotations(data)
    if own_fields.keys() == {"value"} and _is_same_value(own_fields["value"], text):
        return own_fields["value"]  # an answer by a schema that is not an object
    plain = _json_copy(own_fields) if own_fields else None
    if plain is not None:
        return plain
    return text if container is None else container


def is_unchanged_item(message: Message, item: Any) -> bool:
    """Whether a round has given back what it got, and nothing else."""
    return message.data == (item if isinstance(item, dict) else None) and message.text == json_text(item)


def _strip_annotations(data: dict[str, Any]) -> dict[str, Any]:
    for always, sometimes in _ANNOTATIONS:
        if always <= data.keys():
            data = {name: value for name, value in data.items() if name not in always | sometimes}
    return data


def _json_copy(data: dict[str, Any]) -> Any:
    """Data as a journal keeps it, so that a run that is resumed says the same; None if it cannot be kept."""
    try:
        return msgspec.json.decode(msgspec.json.encode(data, enc_hook=repr))
    except (TypeError, ValueError, RecursionError):
        return None


def _parse_container(text: str) -> Any:
    """The object or array that a text is; None if it is none."""
    return _decode_json(text) if text.lstrip()[:1] in ("{", "[") else None


def _is_same_value(value: Any, text: str) -> bool:
    decoded = _decode_json(text)
    return type(decoded) is type(value) and bool(decoded == value)


def _decode_json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


Messages = tuple[Message, ...]


class LoopController:
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

    def begin(self, inputs: Messages) -> CompositeAction | Iteration:
        self.output = inputs
        if self.history is not None:
            self.history += inputs
        return self.next_round()

    def on_iteration_end(self, iteration: Iteration, messages: Messages) -> CompositeAction | Iteration:
        self.record_round(iteration, messages)
        return self.next_round()

    def on_break(self, iteration: Iteration, messages: Messages) -> CompositeAction | Iteration:
        self.record_round(iteration, messages)
        return self.finish("break")

    def catches_failure(self, _iteration: Iteration) -> bool:
        return False

    def on_failure(self, _iteration: Iteration, error: str) -> CompositeAction | Iteration:
        raise AssertionError(error)

    def on_answer(self, _answer: Any) -> CompositeAction | Iteration:
        raise AssertionError("nothing was asked")

    def on_answer_failed(self, error: str) -> CompositeAction | Iteration:
        return CompositeAction(error=error)

    def next_round(self) -> CompositeAction | Iteration:
        raise NotImplementedError

    def record_round(self, iteration: Iteration, messages: Messages) -> None:
        self.rounds_done = iteration.round
        self.results.append(messages[-1].text if messages else None)
        if messages:
            self.output = tuple(map(as_round_input, messages))
            if self.history is not None:
                self.history += self.output

    def start_round(self) -> Iteration:
        return Iteration(0, self.context(self.output) if self.carry else self.output, self.rounds_done + 1)

    def context(self, messages: Messages) -> Messages:
        """What a round gets, if `messages` are new in it."""
        return tuple(self.history) if self.carry and self.history is not None else messages

    @property
    def last(self) -> Message:
        return self.output[-1] if self.output else Message()

    def finish(
        self, reason: str, *before: Message, reached: tuple[str, int] | None = None
    ) -> CompositeAction:
        *others, last = self.output or (Message(),)
        report = self.report()
        data = {**(last.data or {}), **report}
        messages = (*before, *map(as_output, others), Message(last.content, "assistant", data))
        return CompositeAction(outcome=Outcome(messages, report=report, reason=reason), reached=reached)

    def report(self) -> dict[str, Any]:
        return {"results": self.results, "rounds": self.rounds_done}


def as_round_input(message: Message) -> Message:
    return Message(message.content, "user", message.data, message.metadata)


def as_output(message: Message) -> Message:
    return Message(message.content, "assistant", message.data)


def system_notice(text: str, data: dict[str, Any] | None = None) -> Message:
    """Something that the loop itself has to say."""
    return Message(text, "system", data, preserve_role=True)


def needs_history(predicate: Predicate | None) -> bool:
    """Whether all messages are needed for the answer, and not just the last one."""
    return predicate is not None and (bool(predicate.function) or "messages" in predicate.expression)


class CountController(LoopController):
    allows_repetition = True
    """So many rounds were asked for: that they say the same is no sign of anything."""

    def __init__(self, strategy: CountStrategy, carry: bool) -> None:
        super().__init__(carry)
        self.max = strategy.max

    def next_round(self) -> CompositeAction | Iteration:
        return self.start_round() if self.rounds_done < self.max else self.finish("count_reached")


class UntilController(LoopController):
    def __init__(self, strategy: UntilStrategy, carry: bool) -> None:
        super().__init__(carry, needs_history(strategy.until))
        self.strategy = strategy
        self.limit = strategy.max

    def next_round(self) -> CompositeAction | Iteration:
        until = self.strategy.until.expression
        if not until:
            return CompositeAction(
                ask_behaviour={"until": self.rounds_done}, inputs=tuple(self.history or ())
            )
        try:
            holds = self.decide(
                _evaluate_until,
                until,
                {**expression_variables(self.last, self.history), "round": self.rounds_done},
            )
        except (DecisionError, ExpressionError) as error:
            return CompositeAction(error=f"'until' failed: {error}")
        return self.on_answer(holds)

    def on_answer(self, answer: Any) -> CompositeAction | Iteration:
        if answer:
            return self.finish("condition_met")
        return self.start_round() if self.rounds_done < self.limit else self._on_limit_reached()

    def _on_limit_reached(self) -> CompositeAction:
        limit = self.limit
        if self.strategy.on_limit == "suspend":
            self.limit += self.strategy.max
            return CompositeAction((self.start_round(),), lock=("rounds", limit))
        output = system_notice(f"The loop ended after {limit} rounds without its condition being met.")
        return self.finish("max_rounds_reached", output, reached=("rounds", limit))


class CustomController(LoopController):
    """Asks a LoopStrategy before each round; its memory is kept here, not in the strategy."""

    def __init__(self, strategy: CustomStrategy, carry: bool) -> None:
        super().__init__(carry, keeps_history=True)
        self.max = self.limit = strategy.max
        self.memory: dict[str, Any] = {}

    def next_round(self) -> CompositeAction | Iteration:
        question = {"round": self.rounds_done, "memory": self.memory, "results": self.results}
        return CompositeAction(ask_behaviour=question, inputs=tuple(self.history or ()))

    def on_answer(self, answer: Any) -> CompositeAction | Iteration:
        self.memory = answer["memory"]
        if not answer["go"]:
            return self.finish("strategy_ended")
        iteration = self._start_custom_round(answer["inputs"])
        if self.rounds_done < self.limit:
            return iteration
        limit, self.limit = self.limit, self.limit + self.max
        return CompositeAction((iteration,), lock=("rounds", limit))

    def _start_custom_round(self, given_inputs: list[Any] | None) -> Iteration:
        """Another round, on what the strategy gave for it, or as usual."""
        if given_inputs is None:
            return self.start_round()
        inputs = msgspec.convert(given_inputs, Messages)
        if self.history is not None:
            self.history += inputs
        return Iteration(0, self.context(inputs), self.rounds_done + 1)


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


_FENCED_JSON = re.compile(r"\s*```\w*\n(.*)```\s*", re.DOTALL)


class ArrayController(LoopController):
    allows_repetition = True
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

    def next_round(self) -> CompositeAction | Iteration:
        predicate = self.strategy.items
        if predicate is None:
            return self._iterate_text(self.last.text)
        if not predicate.expression:
            return CompositeAction(ask_behaviour={"items": True}, inputs=tuple(self.history or ()))
        try:
            items = self.decide(
                _evaluate_items, predicate.expression, expression_variables(self.last, self.history)
            )
        except (DecisionError, TypeError, ValueError) as error:
            return self._skip_loop(f"'items' failed: {error}", "items_failed")
        return self._iterate(items, "what 'items' gives is not a list")

    def _iterate_text(self, text: str) -> CompositeAction | Iteration:
        fenced = _FENCED_JSON.fullmatch(text)
        try:
            items = msgspec.json.decode(fenced[1] if fenced else text)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            items = None
        shown = text if len(text) <= 80 else text[:79] + "…"
        return self._iterate(items, f"the last message is not a JSON array: {shown!r}")

    def on_answer(self, answer: Any) -> CompositeAction | Iteration:
        return self._iterate(answer, "what the function of 'items' gave is not a list")

    def _iterate(self, items: Any, otherwise: str) -> CompositeAction | Iteration:
        if isinstance(items, list):
            self.items = items
            return self._start_more()
        return self._skip_loop(otherwise, "not_an_array")

    def on_answer_failed(self, error: str) -> CompositeAction:
        return self._skip_loop(f"the function of 'items' failed: {error}", "items_failed")

    def _skip_loop(self, why: str, reason: str) -> CompositeAction:
        """No round, one message that says why, and the run goes on."""
        text, report = f"There is nothing to repeat: {why}", self.report()
        outcome = Outcome((system_notice(text, {**report, "error": why}),), report=report, reason=reason)
        return CompositeAction(outcome=outcome, events=(("warning", {"message": text}),))

    def _start_more(self) -> CompositeAction | Iteration:
        ended, count = len(self.outputs), len(self.items)
        end = min(count, self.limit, ended + self.strategy.max_parallel)
        if self.started < end:
            first, self.started = self.started, end
            if first + 1 == end:
                return self._iteration(first)
            return CompositeAction(tuple([self._iteration(number) for number in range(first, end)]))
        if ended < self.started:
            return CompositeAction()
        if ended < count:
            limit, self.limit = self.limit, count
            return replace(as_action(self._start_more()), lock=("items", limit))
        return self._gather()

    def _iteration(self, number: int) -> Iteration:
        item = self.items[number]
        message = Message(json_text(item), "user", item if isinstance(item, dict) else None)
        if self.carry and self.history is not None:
            self.history.append(message)
        parallel_index = number if self.strategy.max_parallel > 1 else None
        return Iteration(0, self.context((message,)), number + 1, parallel_index)

    def on_iteration_end(self, iteration: Iteration, messages: Messages) -> CompositeAction | Iteration:
        self._record_output(iteration, messages)
        return self._start_more()

    def on_break(self, iteration: Iteration, messages: Messages) -> CompositeAction:
        self._record_output(iteration, messages)
        last, self.reason = iteration.round, "break"
        self.items, self.started = self.items[:last], last
        self.outputs = {number: outputs for number, outputs in self.outputs.items() if number <= last}
        self.errors = {number: error for number, error in self.errors.items() if number <= last}
        return replace(as_action(self._start_more()), last=last)

    def catches_failure(self, _iteration: Iteration) -> bool:
        return self.strategy.on_error != "stop"

    def on_failure(self, iteration: Iteration, error: str) -> CompositeAction | Iteration:
        self.errors[iteration.round] = error
        self._record_output(iteration, ())
        return self._start_more()

    def _record_output(self, iteration: Iteration, messages: Messages) -> None:
        self.outputs[iteration.round] = messages
        if self.carry and self.history is not None:
            self.history += map(as_round_input, messages)

    def _gather(self) -> CompositeAction:
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
