"""Controllers of loop agents: one class for each strategy of `loop_strategies.py`.

A controller implements `kernel.composite.Controller`. The kernel reports to it that the node starts,
that a round has ended, failed or said `break`, and that a question was answered; it returns the rounds
to start, a question for code of the user, a lock, or the outcome of the node. A controller is pure: the
same reports lead to the same actions, so a replay rebuilds it from the facts of the run and nothing of
it has to be stored.

All strategies test before each round. The output of a round is the input of the next one and, after the
last, the output of the node; a round without output changes nothing. `results` in the data of the last
message has the result of each round in order.

`LoopController` has what all strategies share.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace

from roundel.kernel.composite import CompositeAction, as_action
from roundel.kernel.facts import Decide, DecisionError, Outcome, decide_live
from roundel.kernel.payloads import Warned
from roundel.kernel.state import Iteration
from roundel.nodes.array_values import decode_json, find_array, is_unchanged_item, message_value
from roundel.nodes.loop_strategies import (
    ITEMS_NAMES,
    UNTIL_NAMES,
    ArrayStrategy,
    CountStrategy,
    CustomStrategy,
    Predicate,
    UntilStrategy,
)
from roundel.plan.graph import SEMANTICS
from roundel.workflow.expression import Expression, ExpressionError
from roundel.workflow.message import Message, json_text, notice

Messages = tuple[Message, ...]


class LoopController:
    """Runs one body, round after round: the base of the controllers of all strategies.

    `loop_agent._make_controller` creates one for each execution of a loop agent. A subclass implements
    `next_round`, which is called before each round, the first included: every strategy tests before it
    runs, so a loop can end without a round."""

    decide: Decide = staticmethod(decide_live)
    """The kernel replaces it: whatever depends on CEL or patterns has to go through it, so that a replay
    reads the stored decision (kernel/facts.py)."""
    semantics: int = SEMANTICS
    """The kernel replaces it by that of the run."""

    has_independent_rounds = False
    """Whether each round has a task of its own, so that agents remember nothing of other rounds."""

    def __init__(self, context: str, keeps_history: bool = False) -> None:
        self.carry = carry = context == "carry"
        self.task: Messages | None = () if context == "task" else None
        """The input of the loop, if each round gets it; None otherwise."""
        self.rounds_done = 0
        self.results: list[Any] = []
        self.output: Messages = ()
        """The output of the last round that produced any; the input before that. A round without output
        leaves it unchanged, so the next round gets the same input again."""
        self.history: list[Message] | None = [] if carry or keeps_history else None
        """All messages so far; None if neither a round nor the strategy reads them. Without this a loop
        of many rounds would hold every message for nothing."""

    def begin(self, inputs: Messages) -> CompositeAction | Iteration:
        self.output = inputs
        if self.task is not None:
            self.task = inputs
        if self.history is not None:
            self.history += inputs
        return self.next_round()

    def on_iteration_end(self, iteration: Iteration, messages: Messages) -> CompositeAction | Iteration:
        # A bare Iteration is the fast path: the kernel reuses the graph instance of the round that
        # ended.
        self.record_round(iteration, messages)
        return self.next_round()

    def on_break(self, iteration: Iteration, messages: Messages, reason: str) -> CompositeAction | Iteration:
        self.record_round(iteration, messages)
        return self.finish(reason or "break")

    def catches_failure(self, _iteration: Iteration) -> bool:
        return False

    def on_failure(self, _iteration: Iteration, error: str) -> CompositeAction | Iteration:
        raise AssertionError(error)

    def on_answer(self, _answer: Any) -> CompositeAction | Iteration:
        raise AssertionError("the controller asked no question")

    def on_answer_failed(self, error: str) -> CompositeAction | Iteration:
        return CompositeAction(error=error)

    def allow(self, rounds: int) -> None:
        self.limit = rounds

    def on_retry(self) -> CompositeAction | Iteration:
        return self.next_round()

    def next_round(self) -> CompositeAction | Iteration:
        """Starts a round, asks the node's behaviour whether to, or ends the loop."""
        raise NotImplementedError

    def record_round(self, iteration: Iteration, messages: Messages) -> None:
        self.rounds_done = iteration.round
        self.results.append(messages[-1].text if messages else None)
        if messages:
            self.output = tuple(map(as_round_input, messages))
            if self.history is not None:
                self.history += self.output

    def start_round(self) -> Iteration:
        inputs = self.output
        if self.task is not None and inputs is not self.task and self.results:
            inputs = (
                *self.task,
                *(Message(message.content, "assistant", message.data) for message in inputs),
            )
        return Iteration(0, self.context(inputs), self.rounds_done + 1)

    def context(self, messages: Messages) -> Messages:
        """The input of a round: `messages`, or with `context: carry` all messages so far. The caller has
        to add `messages` to the history first."""
        return tuple(self.history) if self.carry and self.history is not None else messages

    @property
    def last(self) -> Message:
        return self.output[-1] if self.output else Message()

    def finish(
        self, reason: str, *before: Message, reached: tuple[str, int] | None = None
    ) -> CompositeAction:
        """Ends the loop with the output of the last round, after the messages in `before`. The report is
        in the data of the last message, and in the event of the node's end."""
        *others, last = self.output or (Message(),)
        report = self.report()
        data = {**(last.data or {}), **report}
        messages = (*before, *map(as_output, others), Message(last.content, "assistant", data))
        return CompositeAction(outcome=Outcome(messages, report=report, reason=reason), reached=reached)

    def report(self) -> dict[str, Any]:
        """The fields about the loop itself; `_ANNOTATIONS` has to list them."""
        return {"results": self.results, "rounds": self.rounds_done}


MAX_EXCERPT = 160
"""Characters of an element that the event of its round shows."""


def as_round_input(message: Message) -> Message:
    """The output of a round in the role of the next round's input: always `user`."""
    return Message(message.content, "user", message.data, message.metadata)


def as_output(message: Message) -> Message:
    """A message in the role of the node's output. Its metadata, such as its source, is dropped."""
    return Message(message.content, "assistant", message.data)


def needs_history(predicate: Predicate | None) -> bool:
    """Whether the predicate reads all messages, and not just the last one. A textual test is enough: a
    wrong yes only costs memory."""
    return predicate is not None and (bool(predicate.function) or "messages" in predicate.expression)


class CountController(LoopController):
    """Runs a fixed number of rounds."""

    allows_repetition = True
    """The breaker does not look for dead loops: the user asked for this number of rounds, whether or not
    they produce anything new (decision 9)."""

    def __init__(self, strategy: CountStrategy, context: str) -> None:
        super().__init__(context)
        self.max = strategy.max

    def next_round(self) -> CompositeAction | Iteration:
        return self.start_round() if self.rounds_done < self.max else self.finish("count_reached")


class UntilController(LoopController):
    """Runs rounds until a predicate is true, which is tested before each round."""

    def __init__(self, strategy: UntilStrategy, context: str) -> None:
        super().__init__(context, needs_history(strategy.until))
        self.strategy = strategy
        self.limit = strategy.max

    @property
    def locks_at_limit(self) -> bool:
        """Whether its limit locks the run, and nothing else is certain to end the loop."""
        return self.strategy.on_limit == "suspend"

    def next_round(self) -> CompositeAction | Iteration:
        until = self.strategy.until.expression
        if not until:
            # The predicate is a Python function. The kernel never calls code of a user: the host does,
            # and its answer is a fact (decision 7).
            return CompositeAction(
                ask_behaviour={"until": self.rounds_done}, inputs=tuple(self.history or ())
            )
        try:
            is_met = self.decide(
                _evaluate_until,
                until,
                {**expression_variables(self.last, self.history), "round": self.rounds_done},
            )
        except (DecisionError, ExpressionError) as error:
            return CompositeAction(error=f"'until' failed: {error}")
        return self.on_answer(is_met)

    def on_answer(self, answer: Any) -> CompositeAction | Iteration:
        if answer:
            return self.finish("condition_met")
        return self.start_round() if self.rounds_done < self.limit else self._on_limit_reached()

    def _on_limit_reached(self) -> CompositeAction:
        limit = self.limit
        if self.strategy.on_limit == "suspend":
            # The round is part of the same action as the lock: it starts once the run is unlocked, and
            # by then the limit has to be the next one.
            self.limit += self.strategy.max
            return CompositeAction((self.start_round(),), lock=("rounds", limit))
        text = f"The loop ended after {limit} rounds without its condition being met."
        return self.finish("max_rounds_reached", notice(text, role="system"), reached=("rounds", limit))


class CustomController(LoopController):
    """Asks a `LoopStrategy` of the user before each round.

    The memory of the strategy is a field of the controller and travels with each question and answer.
    The strategy object itself serves many loops and runs at the same time, and does not survive a
    crash."""

    locks_at_limit = True

    def __init__(self, strategy: CustomStrategy, context: str) -> None:
        super().__init__(context, keeps_history=True)
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
        # A strategy that never ends must not run for ever: the limit always locks the run.
        limit, self.limit = self.limit, self.limit + self.max
        return CompositeAction((iteration,), lock=("rounds", limit))

    def _start_custom_round(self, given_inputs: list[Any] | None) -> Iteration:
        """The next round, with the inputs that the strategy returned, or with the usual ones."""
        if given_inputs is None:
            return self.start_round()
        inputs = msgspec.convert(given_inputs, Messages)
        if self.history is not None:
            self.history += inputs
        return Iteration(0, (*(self.task or ()), *self.context(inputs)), self.rounds_done + 1)


@lru_cache(maxsize=256)
def compile_expression(source: str, names: tuple[str, ...]) -> Expression:
    """Compiles on first evaluation, not when a controller is created: a replay evaluates no expression,
    and a later version of the library might refuse one that a stored run used."""
    return Expression(source, names)


def _evaluate_until(source: str, values: dict[str, Any]) -> bool:
    return compile_expression(source, UNTIL_NAMES).holds(values)


def expression_variables(last: Message, history: list[Message] | None) -> dict[str, Any]:
    """The variables of an expression; `messages` is empty unless the expression uses it."""
    texts = [message.text for message in history or ()]
    return {"text": last.text, "data": last.data or {}, "messages": texts}


_FENCED_JSON = re.compile(r"\s*```\w*\n(.*)```\s*", re.DOTALL)
"""For runs of version 0."""


class ArrayController(LoopController):
    """Runs a round for each element of a list, at most `max_parallel` at the same time.

    Results are in the order of the elements, whichever round ends first. Rounds start in order and the
    list is cut at a `break`, so the result never depends on timing: a `break` in round n has the effect
    that it would have if the rounds ran one after the other. Rounds of earlier elements finish, rounds
    of later ones are cancelled, and their results are dropped even if they have already ended."""

    allows_repetition = True
    """The rounds are independent cases, so equal results are no sign of a dead loop (decision 9)."""
    has_independent_rounds = True

    def __init__(self, strategy: ArrayStrategy, context: str) -> None:
        super().__init__(context, needs_history(strategy.items))
        self.strategy = strategy
        self.limit = strategy.max
        self.reason = "array_done"
        self.items: list[Any] = []
        self.started = 0
        """How many rounds have been started; always the first ones of the list."""
        self.outputs: dict[int, Messages] = {}
        """The output of each round that has ended, by its number from 1; empty if the round failed."""
        self.errors: dict[int, str] = {}
        """The errors of failed rounds, by number; only with `on_error` other than `stop`."""

    def next_round(self) -> CompositeAction | Iteration:
        """Determines the list. Called once, by `begin`; `_start_more` then starts the rounds."""
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
        shown = text if len(text) <= 80 else text[:79] + "…"
        if self.semantics >= 1:
            items = self._find_items(text)
        else:
            fenced = _FENCED_JSON.fullmatch(text)
            items = decode_json(fenced[1] if fenced else text)
        return self._iterate(items, f"the last message is not a JSON array: {shown!r}")

    def _find_items(self, text: str) -> Any:
        """The list that the text is, or else the one inside of it: models write a sentence before it, or put
        it between fences, even if they are told to answer with JSON alone."""
        whole = decode_json(text)
        if whole is not None:
            return whole
        # The place is stored: how deep a list may be depends on the version of Python.
        span = self.decide(find_array, text)
        return None if span is None else decode_json(text[span[0] : span[1]])

    def on_answer(self, answer: Any) -> CompositeAction | Iteration:
        return self._iterate(answer, "what the function of 'items' gave is not a list")

    def _iterate(self, items: Any, otherwise: str) -> CompositeAction | Iteration:
        if isinstance(items, list):
            self.items = items
            # The length is known, so a list that is too long costs nothing before a person has seen it.
            return (
                self._lock_at_limit()
                if len(items) > self.limit and self.semantics >= 1
                else self._start_more()
            )
        return self._skip_loop(otherwise, "not_an_array")

    def on_answer_failed(self, error: str) -> CompositeAction:
        return self._skip_loop(f"the function of 'items' failed: {error}", "items_failed")

    def _skip_loop(self, why: str, reason: str) -> CompositeAction:
        """Ends the loop without a round, with a message and a warning that say why. The run continues:
        an agent that gave no list is an ordinary event, which an edge can handle."""
        text, report = f"There is nothing to repeat: {why}", self.report()
        output = notice(text, {**report, "error": why}, "system")
        outcome = Outcome((output,), report=report, reason=reason)
        return CompositeAction(outcome=outcome, events=(Warned(text, "no_list"),))

    def _start_more(self) -> CompositeAction | Iteration:
        """Starts as many rounds as may run now, waits, locks the run at the limit, or gathers the
        results."""
        ended, count = len(self.outputs), len(self.items)
        end = min(count, self.limit, ended + self.strategy.max_parallel)
        if self.started < end:
            first, self.started = self.started, end
            if first + 1 == end:  # the fast path of the kernel takes a bare iteration
                return self._iteration(first)
            return CompositeAction(tuple([self._iteration(number) for number in range(first, end)]))
        if ended < self.started:
            return CompositeAction()
        # In a run of version 0 elements may be left after as many rounds as are allowed.
        return self._lock_at_limit() if ended < count else self._gather()

    def _lock_at_limit(self) -> CompositeAction:
        """Locks the run. Unlocking it releases the whole list."""
        limit, self.limit = self.limit, len(self.items)
        return replace(as_action(self._start_more()), lock=("items", limit))

    def _iteration(self, number: int) -> Iteration:
        item = self.items[number]
        message = Message(json_text(item), "user", item if isinstance(item, dict) else None)
        if self.carry and self.history is not None:
            self.history.append(message)
        # With an index the kernel counts ordinals from the element's own number, and so the same replies
        # of a script go to the same element whichever round is faster.
        parallel_index = number if self.strategy.max_parallel > 1 else None
        excerpt = message.text[:MAX_EXCERPT]
        inputs = self.context((message,))
        return Iteration(0, inputs, number + 1, parallel_index, element=excerpt, elements=len(self.items))

    def on_iteration_end(self, iteration: Iteration, messages: Messages) -> CompositeAction | Iteration:
        self._record_output(iteration, messages)
        return self._start_more()

    def on_break(self, iteration: Iteration, messages: Messages, reason: str) -> CompositeAction:
        self._record_output(iteration, messages)
        # Several rounds may break. A later one can only shorten the list again, since the rounds behind
        # the first one have been cancelled.
        last, self.reason = iteration.round, reason or "break"
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
        """Ends the loop with the results of all rounds, in the order of the elements."""
        dropped = self.errors if self.strategy.on_error == "drop" else ()
        rounds = [number for number in sorted(self.outputs) if number not in dropped]
        self.rounds_done = len(self.outputs)
        values = [self._gathered_value(number) for number in rounds]
        self.results = [
            self.outputs[number][-1].text if self._is_unchanged(number) else value
            for number, value in zip(rounds, values, strict=True)
        ]
        if self.strategy.gather:
            self.output = (Message(json_text(values)),)
        else:
            self.output = self.outputs[rounds[-1]] if rounds else ()
        return self.finish(self.reason)

    def _gathered_value(self, number: int) -> Any:
        """The value of a round in the list. A number, true, false or null that its round returned unchanged
        keeps its type: 1 is not "1"."""
        outputs, item = self.outputs[number], self.items[number - 1]
        if not outputs:
            return None
        value = message_value(outputs[-1], self.semantics)
        is_scalar = not isinstance(item, (str, dict, list))
        return item if self.semantics >= 1 and is_scalar and value == json_text(item) else value

    def _is_unchanged(self, number: int) -> bool:
        """Whether a round returned its element. `results` then has the text that the round was given: it is
        no result of the round, and the conformance vectors require it."""
        outputs = self.outputs[number]
        return bool(outputs) and is_unchanged_item(outputs[-1], self.items[number - 1])

    def report(self) -> dict[str, Any]:
        errors = [{"round": number, "error": self.errors[number]} for number in sorted(self.errors)]
        return {**super().report(), "errors": errors} if errors else super().report()


def _evaluate_items(source: str, values: dict[str, Any]) -> Any:
    return as_json_list(compile_expression(source, ITEMS_NAMES).evaluate(values))


def as_json_list(value: object) -> Any:
    """The list as plain JSON values; None if `value` is no list, TypeError if JSON cannot represent
    it."""
    if not isinstance(value, (list, tuple)):
        return None
    plain = [item.text if isinstance(item, Message) else item for item in value]
    return msgspec.json.decode(msgspec.json.encode(plain))
