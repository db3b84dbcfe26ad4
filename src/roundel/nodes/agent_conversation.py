"""What a person says to a tool call: go ahead, do not, or go ahead with other arguments.

What an agent does when one model call is not enough: tools, repairs, a second thought.

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
from roundel.kernel.tool_loop import Shown, ToolLoopAction, ToolLoopCall
from roundel.nodes.services import Exchange, Reply, ToolRequest, ToolResult
from roundel.plan.graph import address_label
from roundel.workflow.message import Message

if TYPE_CHECKING:
    from roundel.nodes.agent_config import Config

YES = frozenset({"approve", "approved", "yes", "y", "ok", "true", "同意", "批准"})
NO = frozenset({"reject", "rejected", "no", "n", "false", "拒绝", "不同意"})
_DECISION_KEYS = frozenset({"approve", "arguments"})
_ANSWER_KEYS = _DECISION_KEYS | {"reason"}
REFUSAL = "a person did not allow this call"
ANSWER_HINT = "Say approve, reject, reject: why, or give other arguments as a JSON object."


class ApprovalDecision(Struct, frozen=True):
    approved: bool
    arguments: dict[str, Any] = {}
    reason: str = REFUSAL


def read_decision(message: Message, arguments: dict[str, Any]) -> ApprovalDecision:
    """A word of consent or refusal, or a JSON object: other arguments, or what is decided. Any other text is
    why the call is not made, which the model is told."""
    if message.data and _DECISION_KEYS & message.data.keys():
        return _decision_from_fields(message.data, arguments)
    text = message.text.strip()
    given = _parse_object(text)
    if given is not None:
        is_decision = given and given.keys() <= _ANSWER_KEYS and _DECISION_KEYS & given.keys()
        return _decision_from_fields(given, arguments) if is_decision else ApprovalDecision(True, given)
    word, _, rest = text.partition(":")
    if _normalize_word(word) in YES and not rest:
        return ApprovalDecision(True, arguments)
    return ApprovalDecision(False, reason=_refusal_reason(rest if _normalize_word(word) in NO else text))


def approval_answer_problem(message: Message) -> str:
    """Why an answer is neither consent nor refusal nor other arguments; empty if it is one of them.

    `decision` takes any other text for a refusal. Where the person can be asked again this is asked first: a
    slip of the hand must not decide about a call."""
    if message.data and _DECISION_KEYS & message.data.keys():
        return ""
    text = message.text.strip()
    word = text.partition(":")[0].strip().lower()
    if text.lower() in YES or word in NO:
        return ""
    if not text.startswith("{"):
        return ANSWER_HINT
    try:
        json.loads(text)
    except ValueError as error:
        return f"These arguments are not JSON: {error}. {ANSWER_HINT}"
    return ""


def _decision_from_fields(data: dict[str, Any], arguments: dict[str, Any]) -> ApprovalDecision:
    """Consent has to be said: what is neither a yes nor other arguments is a no."""
    edited = data.get("arguments", arguments)
    if not isinstance(edited, dict):
        return ApprovalDecision(
            False, reason=_refusal_reason("the arguments that were given instead are no JSON object")
        )
    approves = data.get("approve", True)
    if approves is True or (isinstance(approves, str) and _normalize_word(approves) in YES):
        return ApprovalDecision(True, edited)
    return ApprovalDecision(False, reason=_refusal_reason(str(data.get("reason") or "")))


def _normalize_word(text: str) -> str:
    return text.strip().rstrip(".!。！").lower()


def _parse_object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _refusal_reason(text: str) -> str:
    return f"{REFUSAL}: {text.strip()}" if text.strip() else REFUSAL


TOOL_ROUNDS = "tool_rounds"
REFLECTION = Message(metadata={"prompt": "reflection_prompt"})
"""Stands for the prompt of that name. The prompt itself may hold a secret, and what a dialogue notes is
stored with the run."""
MAX_REPEATED_CALLS = 2
"""So often in a row a tool may be called with the same arguments and give the same result."""
MAX_LABEL_LENGTH = 64
"""What a model asks for need not be the name of a tool."""


class ModelCall(Struct, frozen=True, tag="question"):
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


class AgentConversation:
    def __init__(self, config: Config) -> None:
        self.stops_repeats = False
        self._config = config
        self._exchanges: tuple[Exchange, ...] = ()
        self._after: tuple[Message, ...] = ()
        self._max_rounds = config.tool_rounds
        self._reply = Reply()
        self._results: list[ToolResult | None] = []
        self._rounds = 0
        self._repairs = 0
        self._calls = 0
        self._first_answer: Reply | None = None
        """What is reflected upon."""
        self._reflected = False
        """What was said of it did not fit, so the talk goes on behind it."""
        self._related: str | None = None
        self._deferred_reply: Reply | None = None
        """A request for tools behind the last round, which waits for more rounds to be allowed."""
        self._last_call = ""
        """The last call of a tool, with its arguments."""
        self._last_result = ""
        self._repeat_count = 0
        """How often in a row it was made and gave this result."""

    def allow(self, rounds: int) -> None:
        """A person has raised the limit."""
        self._max_rounds = rounds

    def begin(self, inputs: tuple[Message, ...]) -> ToolLoopAction:
        return ToolLoopAction((self._call_model(),))

    def on_result(self, loop_call: ToolLoopCall, outcome: Outcome) -> ToolLoopAction:
        if loop_call.label:
            return self._on_tool_result(loop_call, msgspec.convert(outcome.state, ToolResult))
        reply: Reply = msgspec.convert(outcome.state["reply"], Reply)
        self._related = outcome.state.get("related", self._related)
        if reply.tool_calls and loop_call.what.offer:
            return (
                self._begin_round(reply) if self._rounds < self._max_rounds else self._on_limit_reached(reply)
            )
        return self._on_answer(reply, outcome.state.get("problem", ""))

    def on_unlock(self) -> ToolLoopAction:
        """If a request has met the limit, it is carried out now, and not asked for again."""
        reply, self._deferred_reply = self._deferred_reply, None
        return ToolLoopAction() if reply is None else self._begin_round(reply)

    def result(self, outcome: Outcome) -> str:
        """What a tool gave."""
        return str(outcome.state["text"])

    def on_failure(self, loop_call: ToolLoopCall, error: str) -> ToolLoopAction:
        if not loop_call.label:
            return self._fail(error)
        request: ToolRequest = loop_call.what.request
        return self._on_tool_result(loop_call, ToolResult(request.id, request.name, "failed", error))

    def on_person_answer(self, loop_call: ToolLoopCall, message: Message) -> ToolLoopAction:
        """A person has decided on a tool call."""
        request: ToolRequest = loop_call.what.request
        approval_decision: ApprovalDecision = read_decision(message, request.arguments)
        if approval_decision.approved:
            request = msgspec.structs.replace(request, arguments=approval_decision.arguments)
            use = ToolLoopCall(ToolUse(request), loop_call.label, loop_call.round)
            return ToolLoopAction((use,), events=(_tool_event(use, "running"),))
        result = ToolResult(request.id, request.name, "rejected", approval_decision.reason)
        return self._on_tool_result(loop_call, result)

    # Rounds of tools.

    def _begin_round(self, reply: Reply) -> ToolLoopAction:
        self._rounds += 1
        self._reply = reply
        self._results = [None] * len(reply.tool_calls)
        loop_calls, events = [], []
        for number, (request, label) in enumerate(zip(reply.tool_calls, _call_labels(reply), strict=True)):
            loop_call = ToolLoopCall(
                ToolUse(request), label, self._rounds, self._approval_prompt(request), request.name
            )
            self._results[number] = refusal = self._refuse(number, request)
            if refusal is not None:
                events.append(_tool_event(loop_call, refusal.status, refusal.text))
            else:
                loop_calls.append(loop_call)
                events.append(
                    _tool_event(loop_call, "running" if loop_call.person_prompt is None else "waiting")
                )
        max_calls = self._config.max_calls_per_round
        reached = ("calls_per_round", max_calls) if len(reply.tool_calls) > max_calls else None
        if not loop_calls:
            return self._end_round(tuple(events))
        return ToolLoopAction(tuple(loop_calls), events=tuple(events), reached=reached)

    def _refuse(self, number: int, request: ToolRequest) -> ToolResult | None:
        """Why a call is not made; None if it is."""
        max_calls = self._config.max_calls_per_round
        if number >= max_calls:
            text = f"not called: only {max_calls} calls are allowed at once"
            return ToolResult(request.id, request.name, "refused", text)
        if (
            self.stops_repeats
            and self._repeat_count >= MAX_REPEATED_CALLS
            and _call_signature(request) == self._last_call
            and not request.problem
        ):
            text = (
                f"not called again: {self._repeat_count} calls in a row with these arguments gave the same "
                f"result. Use it, or do something else.\n{self._last_result}"
            )
            return ToolResult(request.id, request.name, "repeated", text)
        return None

    def _count_repeats(self) -> None:
        for request, result in zip(self._reply.tool_calls, self._results, strict=True):
            if result is None or result.polls or result.status not in ("completed", "failed"):
                continue
            call = _call_signature(request)
            same = (call, result.text) == (self._last_call, self._last_result)
            self._repeat_count = self._repeat_count + 1 if same else 1
            self._last_call, self._last_result = call, result.text

    def _approval_prompt(self, request: ToolRequest) -> dict[str, Any] | None:
        if request.problem or not self._config.needs_approval(request.name):
            return None  # a call with a problem is not made, so there is nothing to allow
        shown = {"name": request.name, "arguments": request.arguments}
        return {"prompt": f"May the tool '{request.name}' be called?", "tool": shown}

    def _on_tool_result(self, loop_call: ToolLoopCall, result: ToolResult) -> ToolLoopAction:
        number = _call_labels(self._reply).index(loop_call.label)
        self._results[number] = result
        events = (_tool_event(loop_call, result.status, result.text),)
        return ToolLoopAction(events=events) if None in self._results else self._end_round(events)

    def _end_round(self, events: tuple[Shown, ...]) -> ToolLoopAction:
        self._count_repeats()
        results = tuple(result for result in self._results if result is not None)
        self._exchanges += (Exchange(self._reply, results),)
        if self._rounds < self._max_rounds or self._config.on_limit != "answer":
            return ToolLoopAction((self._call_model(),), events=events)
        return ToolLoopAction(
            (self._call_model(offer=False),), events=events, reached=(TOOL_ROUNDS, self._max_rounds)
        )

    def _on_limit_reached(self, reply: Reply) -> ToolLoopAction:
        limit = self._max_rounds
        if self._config.on_limit == "suspend":
            self._deferred_reply = reply
            self._max_rounds += self._config.tool_rounds  # unless a person says how many
            return ToolLoopAction(lock=(TOOL_ROUNDS, limit))
        error = f"the model asked for tools again after {limit} rounds of them, which is the limit"
        return ToolLoopAction(reached=(TOOL_ROUNDS, limit), error=error)

    # Answers.

    def _on_answer(self, reply: Reply, problem: str) -> ToolLoopAction:
        if self._config.has_tools and self._is_out_of_rounds and not _has_answer(reply):
            return self._finish(reply)  # there is nothing to repair, or to think about
        if problem:
            return self._repair(reply, problem)
        if self._config.thinking is not None and self._first_answer is None:
            self._first_answer = reply
            return ToolLoopAction((self._call_model(offer=False, reflects=True),))
        return self._finish(reply)

    def _repair(self, reply: Reply, problem: str) -> ToolLoopAction:
        if self._repairs >= self._config.max_repairs:
            return self._fail(f"the answer does not fit output_schema: {problem}")
        self._repairs += 1
        if self._first_answer is not None and not self._reflected:
            self._reflected = True
            self._after += (Message(self._first_answer.text, "assistant"), REFLECTION)
        instruction = (
            f"Your answer does not fit the JSON Schema: {problem}\nAnswer again, with the JSON alone."
        )
        previous_answer = (Message(reply.text, "assistant"),) if reply.text else ()
        self._after += (*previous_answer, Message(instruction))
        return ToolLoopAction((self._call_model(offer=False),))

    def _finish(self, reply: Reply) -> ToolLoopAction:
        text, data = reply.text, reply.data
        if self._config.has_tools:
            answered = _has_answer(reply)
            data = {**(data or {}), "stop_reason": self._stop_reason(answered), "answered": answered}
            if self._rounds:
                data["tool_rounds"] = self._rounds
            text = text if answered else ""
        return ToolLoopAction(outcome=Outcome((Message(text, "assistant", data),)))

    @property
    def _is_out_of_rounds(self) -> bool:
        """Whether there may be no more rounds."""
        return self._rounds >= self._max_rounds

    def _stop_reason(self, answered: bool) -> str:
        if not answered:
            return "tool_limit" if self._is_out_of_rounds else "no_answer"
        withheld = bool(self._rounds) and self._is_out_of_rounds and self._config.on_limit == "answer"
        return "tool_limit" if withheld else "answered"

    def _fail(self, error: str) -> ToolLoopAction:
        if self._config.on_error == "message":
            return ToolLoopAction(outcome=Outcome((Message(self._config.error_answer(error), "assistant"),)))
        return ToolLoopAction(error=error)

    def _call_model(self, offer: bool = True, reflects: bool = False) -> ToolLoopCall:
        after = self._after
        if reflects:
            assert self._first_answer is not None
            after = (Message(self._first_answer.text, "assistant"),)
        offer = offer and self._config.has_tools and self._config.tool_rounds > 0
        model_call = ModelCall(self._exchanges, after, offer, reflects, self._calls, self._related)
        self._calls += 1
        return ToolLoopCall(model_call)


def _has_answer(reply: Reply) -> bool:
    return bool(reply.text.strip()) or reply.data is not None


def _call_signature(request: ToolRequest) -> str:
    return f"{request.name}({json.dumps(request.arguments, sort_keys=True)})"


def _call_labels(reply: Reply) -> list[str]:
    """The names of a round's calls in addresses: the tool's, with a number from the second one on."""
    labels: list[str] = []
    for request in reply.tool_calls:
        label = address_label(request.name or "tool")[:MAX_LABEL_LENGTH]
        same = sum(1 for other in labels if other.partition("#")[0] == label)
        labels.append(f"{label}#{same + 1}" if same else label)
    return labels


def _tool_event(loop_call: ToolLoopCall, status: str, result: str | None = None) -> Shown:
    request: ToolRequest = loop_call.what.request
    data: dict[str, Any] = {
        "name": request.name,
        "arguments": request.arguments,
        "status": status,
        "round": loop_call.round,
        "id": request.id,
    }
    if result is not None:
        data["result"] = result
    return "tool_call", data, loop_call
