"""Drives the kernel with no event loop: the test decides in which order calls finish."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Self

from msgspec.structs import replace

from roundel.kernel.commands import Ask, Call, Cancel, Command, EvaluateEdges, Intercept
from roundel.kernel.events import Event
from roundel.kernel.facts import (
    Answered,
    EdgeResult,
    EdgesEvaluated,
    Fact,
    Failed,
    Finished,
    Intercepted,
    InterceptPoints,
    Outcome,
    Started,
    decode_entry,
    decode_fact,
    encode_fact,
    with_decisions,
)
from roundel.kernel.payloads import EventData, LoopLeft, LoopRound, RoundFinished
from roundel.kernel.state import Run
from roundel.kernel.step import replay, step
from roundel.nodes import TYPES
from roundel.nodes.agent_conversation import ModelCall, ToolUse
from roundel.nodes.services import outcome_of
from roundel.plan.graph import Plan, compile_workflow
from roundel.workflow.loader import from_mapping
from roundel.workflow.message import Message
from tests.kernel.reference import BAD_TOOL, FAILS, Execution, wanted

Choose = Callable[[int], int]
"""From how many there are to which one is next."""

Script = dict[str, list[str]]


def plan_of(workflow: dict[str, Any], functions: Mapping[str, Callable[..., Any]] | None = None) -> Plan:
    # Random workflows say the same few words again and again, which the breaker would stop.
    return compile_workflow(from_mapping({"breaker": False, **workflow}, TYPES, functions))


class Simulator:
    """One run. It keeps the facts (as JSON lines), the events and what each execution saw."""

    def __init__(self, plan: Plan, script: Script, choose: Choose = lambda _count: 0) -> None:
        self.plan = plan
        self.script = script
        self.choose = choose
        self.state = Run(plan)
        self.journal: list[bytes] = []
        self.events: list[Event] = []
        self.executions: list[Execution] = []
        self.in_flight: list[Command] = []
        self.clock = 1_000_000.0
        self.behaviours = {
            node.site: node.kind.prepare(node.node, self) for node in plan.sites if not node.kind.speaks
        }

    # What nodes are lent.

    def function(self, name: str) -> Callable[..., Any]:
        function = self.plan.workflow.functions[name]
        assert function is not None
        return function

    async def call(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        return function(*arguments, **named)

    def now(self) -> float:
        self.clock += 0.25
        return self.clock

    def worked(self) -> float:
        return self.state.worked_at(self.now())

    def start(self, text: str, intercepts: InterceptPoints = InterceptPoints()) -> Self:  # noqa: B008 (it is frozen)
        self.apply(Started("run", (Message(text),), self.now(), intercepts))
        return self

    def resume(self, journal: Iterable[bytes]) -> Self:
        """Goes on where a journal ends."""
        self.journal = list(journal)
        self.state, self.in_flight = replay(self.plan, map(decode_entry, self.journal))
        self.clock += 0.25 * len(self.journal)
        return self

    def apply(self, fact: Fact) -> None:
        line = encode_fact(fact)
        commands, events = step(self.state, decode_fact(line))
        self.journal.append(with_decisions(line, self.state.decisions.made))
        self.events += events
        for command in commands:
            if isinstance(command, Cancel):
                self.in_flight = [other for other in self.in_flight if other.address != command.address]
            else:
                self.in_flight.append(command)

    def finish(self) -> Self:
        while self.in_flight:
            command = self.in_flight.pop(self.choose(len(self.in_flight)))
            self.apply(self.answer(command))
        return self

    def answer(self, command: Command) -> Fact:
        if isinstance(command, EvaluateEdges):
            edge_results = tuple(EdgeResult(edge, number, True) for edge, number in command.pairs)
            return EdgesEvaluated(command.address, edge_results, self.now())
        if isinstance(command, Intercept):
            return Intercepted(command.address, self.now())
        assert isinstance(command, (Call, Ask))
        node = self.plan.sites[command.site]
        if isinstance(command, Ask) and command.about is not None:
            return self._allow(command, command.about["tool"]["name"])
        if isinstance(command, Call) and isinstance(command.state, ToolUse):
            return self._use(command, command.state)
        if isinstance(command, Call) and isinstance(command.state, ModelCall):
            return self._reply(command, command.state)
        speaks = isinstance(command, Ask) or node.kind.speaks
        if not speaks and node.id in self.script and self._next(command).startswith(FAILS):
            self._keep(command, _pairs(command), self._next(command))
            return Failed(command.address, self._next(command).removeprefix(FAILS), self.now())
        if isinstance(command, Call) and node.kind.speaks and not self._next(command).strip():
            # As an agent does whose model gave no answer: its conversation decides what follows.
            self._keep(command, _pairs(command), self._next(command))
            state = {"reply": {"text": self._next(command)}, "related": ""}
            return Finished(command.address, Outcome(state=state), self.now())
        if speaks:
            text = self.reply_text(node.id, command.ordinal, command.inputs)
            outcome = Outcome((Message(text, "user" if isinstance(command, Ask) else "assistant"),))
        else:
            try:
                given = self.behaviours[node.site](command)
                outcome = given if isinstance(given, Outcome) else outcome_of(_at_once(given))
            except ValueError as error:  # what the function of a user raised
                self.executions.append(Execution(command.address, node.id, tuple(_pairs(command)), ()))
                return Failed(command.address, f"ValueError: {error}", self.now())
        self.executions.append(
            Execution(
                command.address,
                node.id,
                tuple((message.role, message.text) for message in command.inputs),
                tuple(message.text for message in outcome.messages),
            )
        )
        if outcome.messages and outcome.messages[-1].text.startswith(FAILS):
            return Failed(command.address, outcome.messages[-1].text.removeprefix(FAILS), self.now())
        if isinstance(command, Ask):
            return Answered(command.address, outcome.messages[0], self.now())
        return Finished(command.address, outcome, self.now())

    def _next(self, command: Call | Ask) -> str:
        return self.reply_text(self.plan.sites[command.site].id, command.ordinal, command.inputs)

    # Agents with tools.

    def _reply(self, call: Call, question: ModelCall) -> Fact:
        name = self.plan.sites[call.site].id
        text = self.reply_text(name, call.ordinal, call.inputs)
        results = [result.text for exchange in question.exchanges for result in exchange.results]
        self._keep(call, [*_pairs(call), *(("tool", result) for result in results)], text)
        if text.startswith(FAILS):
            return Failed(call.address, text.removeprefix(FAILS), self.now())
        calls = [{"id": f"{number}", "name": tool} for number, tool in enumerate(wanted(text))]
        outcome = Outcome(state={"reply": {"text": text, "tool_calls": calls}})
        return Finished(call.address, outcome, self.now())

    def _use(self, call: Call, use: ToolUse) -> Fact:
        request, text = use.request, f"done at {call.address}"
        if request.name == BAD_TOOL:
            text = f"broken at {call.address}"
        self._keep(call, _pairs(call), text)
        if request.name == BAD_TOOL:
            return Failed(call.address, text, self.now())
        result = {"id": request.id, "name": request.name, "status": "completed", "text": text}
        return Finished(call.address, Outcome(state=result), self.now())

    def _allow(self, ask: Ask, tool: str) -> Fact:
        text = self.reply_text(f"{self.plan.sites[ask.site].id}/{tool}", ask.ordinal, ())
        self._keep(ask, _pairs(ask), text)
        return Answered(ask.address, Message(text), self.now())

    def _keep(self, command: Call | Ask, inputs: list[tuple[str, str]], text: str) -> None:
        node = self.plan.sites[command.site]
        self.executions.append(Execution(command.address, node.id, tuple(inputs), (text,)))

    def reply_text(self, name: str, ordinal: int, inputs: tuple[Message, ...]) -> str:
        replies = self.script.get(name)
        if replies:
            return replies[min(ordinal, len(replies) - 1)]
        return inputs[-1].text if inputs else ""

    def trace(self) -> list[Execution]:
        """What happened, whatever happened first."""
        return sorted(self.executions, key=lambda execution: execution.address)


def timeless(data: EventData) -> EventData:
    """The data of an event without what depends on the clock, or on which of two rounds was quicker."""
    if isinstance(data, LoopRound):
        return replace(data, lane=0, entry=1)
    if isinstance(data, RoundFinished):
        return replace(data, seconds=0.0, work_seconds=0.0, lane=0, best=None)
    return replace(data, seconds=0.0, entry=1) if isinstance(data, LoopLeft) else data


def _pairs(command: Call | Ask) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in command.inputs]


def _at_once(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine gives that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits for something")
