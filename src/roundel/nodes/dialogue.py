"""What an agent does when one model call is not enough: tools, repairs, a second thought.

Pure: it decides from the config and from what it is told. A round is one reply that asks for tools, however
many, and their results. After `max_tool_calls` rounds the model is asked once more, so there are at most
`max_tool_calls` + 1 calls: with `on_limit: answer` it is offered no tools; otherwise it is, and only if it
asks for them the node fails, or the run is locked until a person allows more rounds. A call that was made
twice in a row with the same arguments and the same result is not made a third time: the model is told that it
has the result. A reply that does not
fit `output_schema` adds at most `max_repairs` calls, and a reflection one.

What an agent says is what its model said. If that is nothing, the message is empty, and its data say so.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from roundel.kernel.facts import Outcome
from roundel.kernel.talk import Act, Errand, Shown
from roundel.nodes.approval import Decision, decision
from roundel.nodes.services import Exchange, Reply, ToolRequest, ToolResult
from roundel.plan.graph import address_label
from roundel.workflow.message import Message

if TYPE_CHECKING:
    from roundel.nodes.agent_config import Config

TOOL_ROUNDS = "tool_rounds"
REFLECTION = Message(metadata={"prompt": "reflection_prompt"})
"""Stands for the prompt of that name. The prompt itself may hold a secret, and what a dialogue notes is
stored with the run."""
SAME_CALLS = 2
"""So often in a row a tool may be called with the same arguments and give the same result."""
LONGEST_LABEL = 64
"""What a model asks for need not be the name of a tool."""


class Question(Struct, frozen=True, tag="question"):
    """A call of the model."""

    exchanges: tuple[Exchange, ...] = ()
    after: tuple[Message, ...] = ()
    offer: bool = True
    """Whether tools may be used."""
    reflects: bool = False
    call: int = 0
    related: str | None = None
    """What memory has to say, the same for all calls of one run of the agent; None before the first."""


class ToolUse(Struct, frozen=True, tag="tool_use"):
    """A call of a tool."""

    request: ToolRequest


class AgentDialogue:
    def __init__(self, config: Config) -> None:
        self.stops_repeats = False
        self._config = config
        self._exchanges: tuple[Exchange, ...] = ()
        self._after: tuple[Message, ...] = ()
        self._allowed = config.tool_rounds
        self._reply = Reply()
        self._results: list[ToolResult | None] = []
        self._rounds = 0
        self._repairs = 0
        self._calls = 0
        self._answer: Reply | None = None
        """What is reflected upon."""
        self._reflected = False
        """What was said of it did not fit, so the talk goes on behind it."""
        self._related: str | None = None
        self._beyond: Reply | None = None
        """A request for tools behind the last round, which waits for more rounds to be allowed."""
        self._call = ""
        """The last call of a tool, with its arguments."""
        self._result = ""
        self._times = 0
        """How often in a row it was made and gave this result."""

    def allow(self, rounds: int) -> None:
        """A person has raised the limit."""
        self._allowed = rounds

    def begin(self, inputs: tuple[Message, ...]) -> Act:
        return Act((self._ask(),))

    def heard(self, errand: Errand, outcome: Outcome) -> Act:
        if errand.label:
            return self._tool_done(errand, msgspec.convert(outcome.state, ToolResult))
        reply: Reply = msgspec.convert(outcome.state["reply"], Reply)
        self._related = outcome.state.get("related", self._related)
        if reply.tool_calls and errand.what.offer:
            return self._begin_round(reply) if self._rounds < self._allowed else self._limit_met(reply)
        return self._finish_or_go_on(reply, outcome.state.get("problem", ""))

    def unlocked(self) -> Act:
        """If a request has met the limit, it is carried out now, and not asked for again."""
        reply, self._beyond = self._beyond, None
        return Act() if reply is None else self._begin_round(reply)

    def result(self, outcome: Outcome) -> str:
        """What a tool gave."""
        return str(outcome.state["text"])

    def failed(self, errand: Errand, error: str) -> Act:
        if not errand.label:
            return self._give_up(error)
        request: ToolRequest = errand.what.request
        return self._tool_done(errand, ToolResult(request.id, request.name, "failed", error))

    def answered(self, errand: Errand, message: Message) -> Act:
        """A person has decided on a tool call."""
        request: ToolRequest = errand.what.request
        chosen: Decision = decision(message, request.arguments)
        if chosen.approved:
            request = msgspec.structs.replace(request, arguments=chosen.arguments)
            use = Errand(ToolUse(request), errand.label, errand.round)
            return Act((use,), events=(_shown(use, "running"),))
        result = ToolResult(request.id, request.name, "rejected", chosen.reason)
        return self._tool_done(errand, result)

    # Rounds of tools.

    def _begin_round(self, reply: Reply) -> Act:
        self._rounds += 1
        self._reply = reply
        self._results = [None] * len(reply.tool_calls)
        errands, events = [], []
        for number, (request, label) in enumerate(zip(reply.tool_calls, _labels(reply), strict=True)):
            errand = Errand(ToolUse(request), label, self._rounds, self._approval(request), request.name)
            self._results[number] = refused = self._refused(number, request)
            if refused is not None:
                events.append(_shown(errand, refused.status, refused.text))
            else:
                errands.append(errand)
                events.append(_shown(errand, "running" if errand.asks is None else "waiting"))
        most = self._config.max_calls_per_round
        reached = ("calls_per_round", most) if len(reply.tool_calls) > most else None
        if not errands:
            return self._end_round(tuple(events))
        return Act(tuple(errands), events=tuple(events), reached=reached)

    def _refused(self, number: int, request: ToolRequest) -> ToolResult | None:
        """Why a call is not made; None if it is."""
        most = self._config.max_calls_per_round
        if number >= most:
            text = f"not called: only {most} calls are allowed at once"
            return ToolResult(request.id, request.name, "refused", text)
        if (
            self.stops_repeats
            and self._times >= SAME_CALLS
            and _written(request) == self._call
            and not request.problem
        ):
            text = (
                f"not called again: {self._times} calls in a row with these arguments gave the same result. "
                f"Use it, or do something else.\n{self._result}"
            )
            return ToolResult(request.id, request.name, "repeated", text)
        return None

    def _note_calls(self) -> None:
        for request, result in zip(self._reply.tool_calls, self._results, strict=True):
            if result is None or result.polls or result.status not in ("completed", "failed"):
                continue
            call = _written(request)
            same = (call, result.text) == (self._call, self._result)
            self._times = self._times + 1 if same else 1
            self._call, self._result = call, result.text

    def _approval(self, request: ToolRequest) -> dict[str, Any] | None:
        if request.problem or not self._config.needs_approval(request.name):
            return None  # a call with a problem is not made, so there is nothing to allow
        shown = {"name": request.name, "arguments": request.arguments}
        return {"prompt": f"May the tool '{request.name}' be called?", "tool": shown}

    def _tool_done(self, errand: Errand, result: ToolResult) -> Act:
        number = _labels(self._reply).index(errand.label)
        self._results[number] = result
        events = (_shown(errand, result.status, result.text),)
        return Act(events=events) if None in self._results else self._end_round(events)

    def _end_round(self, events: tuple[Shown, ...]) -> Act:
        self._note_calls()
        results = tuple(result for result in self._results if result is not None)
        self._exchanges += (Exchange(self._reply, results),)
        if self._rounds < self._allowed or self._config.on_limit != "answer":
            return Act((self._ask(),), events=events)
        return Act((self._ask(offer=False),), events=events, reached=(TOOL_ROUNDS, self._allowed))

    def _limit_met(self, reply: Reply) -> Act:
        limit = self._allowed
        if self._config.on_limit == "suspend":
            self._beyond = reply
            self._allowed += self._config.tool_rounds  # unless a person says how many
            return Act(lock=(TOOL_ROUNDS, limit))
        error = f"the model asked for tools again after {limit} rounds of them, which is the limit"
        return Act(reached=(TOOL_ROUNDS, limit), error=error)

    # Answers.

    def _finish_or_go_on(self, reply: Reply, problem: str) -> Act:
        if self._config.has_tools and self._used_up and not _answers(reply):
            return self._finish(reply)  # there is nothing to repair, or to think about
        if problem:
            return self._repair(reply, problem)
        if self._config.thinking is not None and self._answer is None:
            self._answer = reply
            return Act((self._ask(offer=False, reflects=True),))
        return self._finish(reply)

    def _repair(self, reply: Reply, problem: str) -> Act:
        if self._repairs >= self._config.max_repairs:
            return self._give_up(f"the answer does not fit output_schema: {problem}")
        self._repairs += 1
        if self._answer is not None and not self._reflected:
            self._reflected = True
            self._after += (Message(self._answer.text, "assistant"), REFLECTION)
        wish = f"Your answer does not fit the JSON Schema: {problem}\nAnswer again, with the JSON alone."
        said = (Message(reply.text, "assistant"),) if reply.text else ()
        self._after += (*said, Message(wish))
        return Act((self._ask(offer=False),))

    def _finish(self, reply: Reply) -> Act:
        text, data = reply.text, reply.data
        if self._config.has_tools:
            answered = _answers(reply)
            data = {**(data or {}), "stop_reason": self._stop_reason(answered), "answered": answered}
            if self._rounds:
                data["tool_rounds"] = self._rounds
            text = text if answered else ""
        return Act(outcome=Outcome((Message(text, "assistant", data),)))

    @property
    def _used_up(self) -> bool:
        """Whether there may be no more rounds."""
        return self._rounds >= self._allowed

    def _stop_reason(self, answered: bool) -> str:
        if not answered:
            return "tool_limit" if self._used_up else "no_answer"
        withheld = bool(self._rounds) and self._used_up and self._config.on_limit == "answer"
        return "tool_limit" if withheld else "answered"

    def _give_up(self, error: str) -> Act:
        if self._config.on_error == "message":
            return Act(outcome=Outcome((Message(self._config.excuse(error), "assistant"),)))
        return Act(error=error)

    def _ask(self, offer: bool = True, reflects: bool = False) -> Errand:
        after = self._after
        if reflects:
            assert self._answer is not None
            after = (Message(self._answer.text, "assistant"),)
        offer = offer and self._config.has_tools and self._config.tool_rounds > 0
        question = Question(self._exchanges, after, offer, reflects, self._calls, self._related)
        self._calls += 1
        return Errand(question)


def _answers(reply: Reply) -> bool:
    return bool(reply.text.strip()) or reply.data is not None


def _written(request: ToolRequest) -> str:
    return f"{request.name}({json.dumps(request.arguments, sort_keys=True)})"


def _labels(reply: Reply) -> list[str]:
    """The names of a round's calls in addresses: the tool's, with a number from the second one on."""
    labels: list[str] = []
    for request in reply.tool_calls:
        label = address_label(request.name or "tool")[:LONGEST_LABEL]
        same = sum(1 for other in labels if other.partition("#")[0] == label)
        labels.append(f"{label}#{same + 1}" if same else label)
    return labels


def _shown(errand: Errand, status: str, result: str | None = None) -> Shown:
    request: ToolRequest = errand.what.request
    data: dict[str, Any] = {
        "name": request.name,
        "arguments": request.arguments,
        "status": status,
        "round": errand.round,
        "id": request.id,
    }
    if result is not None:
        data["result"] = result
    return "tool_call", data, errand
