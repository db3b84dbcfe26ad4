"""Decide how the model calls, tool calls and repairs of one agent follow each other.

`AgentConversation` implements `kernel.tool_loop.Conversation` for agents that may need more than one
model call: agents with tools, with an `output_schema` or with `thinking`. It is pure: it decides from
its config and from the results that the kernel reports, so a replay takes the same decisions. Every call
is a step of its own with an address of its own, and its result is a fact: after a crash only calls
without a result are repeated.

Limits, which `agent.calls` declares to the forecast and the proof:

- A round is one reply that requests tools, however many, and their results. After `max_tool_calls`
  rounds the model is called once more, so there are at most `max_tool_calls` + 1 calls. With `on_limit:
  answer` this last call offers no tools. With `error` or `suspend` it offers them, and only if the model
  requests them again the node fails, or the run is locked until a person allows more rounds: an agent
  that is done by then is not punished for having used all its rounds.
- A round makes at most `max_calls_per_round` calls; the rest is refused, and the results explain it to
  the model.
- A reply that does not fit `output_schema` adds at most `max_repairs` calls, a reflection adds one.
- A reply with neither text nor a request is no answer. The model is called once more, unless it was the
  last call after the rounds of tools.
- With `context: {max_tokens: …}` each call of the model is preceded by a call at `…/context`, which measures
  the list of messages and compacts it (compaction.py). A provider that refuses the list as too long has it
  halved and is called once more.
- A call that was made twice in a row with the same arguments and the same result is not made a third
  time; its result tells the model that it has the result already. This is off where the breaker's
  detection of dead loops is off.

A tool may end the loop around the agent: the built-in `exit_loop`, or a function that returns
`roundel.break_loop`. The node then ends with its round, without another call of the model.

The message of an agent is what its model said. If the model said nothing, the message is empty and its
data has `answered: false`: a text of the engine would look like an answer to the nodes that follow.

The second part of the module interprets what a person says about a tool call: approve, refuse, or
approve with other arguments.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from roundel.kernel.calls import RequestedTool
from roundel.kernel.facts import Outcome
from roundel.kernel.payloads import Purpose, ToolCallEnded, Warned
from roundel.kernel.tool_loop import Shown, ToolLoopAction, ToolLoopCall
from roundel.nodes.compaction import Compacted, apply_compaction
from roundel.nodes.services import Exchange, LoopExit, Reply, ToolRequest, ToolResult
from roundel.workflow.address import address_label
from roundel.workflow.fields import format_duration
from roundel.workflow.functions import EXIT_LOOP
from roundel.workflow.message import Message
from roundel.workflow.node_type import EXIT_PORT

if TYPE_CHECKING:
    from roundel.nodes.agent_config import Config

TOOL_ROUNDS = "tool_rounds"
"""The name of the limit on rounds, in events and in the lock of the run."""
REFLECTION = Message(metadata={"prompt": "reflection_prompt"})
"""A placeholder for the reflection prompt. The prompt may contain a secret, and the calls of a
conversation are stored with the run; `agent.py` replaces the placeholder when it builds the request."""
MAX_REPEATED_CALLS = 2
"""How many calls in a row with equal arguments and equal results are made before the next is refused."""
NO_ANSWER = "the model gave no answer, also when it was called once more"
CONTEXT = "context"
"""The last part of the address of a check of the context."""
CONTEXT_OVERFLOW = "ContextOverflow"
"""The kind of failure of a request that is too long for the model."""
MAX_LABEL_LENGTH = 64
"""Characters of a label in an address. A model can request any name, of any length."""


class ModelCall(Struct, frozen=True, tag="question"):
    """One call of the model. It is the state of a kernel `Call`, so it must be storable as JSON."""

    exchanges: tuple[Exchange, ...] = ()
    after: tuple[Message, ...] = ()
    offer: bool = True
    """Whether the model may request tools."""
    reflects: bool = False
    """Whether the model is asked to look at its first answer, without the history of tool calls."""
    call: int = 0
    """The number of this call within one execution of the node, from 0. Scripts and records use it."""
    related: str | None = None
    """What was recalled from memory before the first call. All calls of one execution get the same text;
    None means that memory has not been read yet."""


class ToolUse(Struct, frozen=True, tag="tool_use"):
    """One call of a tool, as the state of a kernel `Call`."""

    request: ToolRequest


class ContextCheck(Struct, frozen=True, tag="context"):
    """Measures the messages before a call of the model, and compacts them if they are too many."""

    exchanges: tuple[Exchange, ...] = ()
    after: tuple[Message, ...] = ()
    halve: bool = False
    """A provider has refused the list as too long."""


class AgentConversation:
    """Decides the next calls of one execution of an agent. The kernel creates it through
    `agent.conversation` and reports to it each result, failure and answer of a person (protocol:
    `kernel.tool_loop.Conversation`).

    It does no I/O and reads no clock, because a replay creates it again and reports the same facts in
    the same order. Everything that depends on the outside (schema validation, whether a tool exists)
    therefore arrives in the outcome of a call."""

    def __init__(self, config: Config) -> None:
        self.stops_repeats = False
        """The kernel sets it before `begin`, from the settings of the breaker around the node."""
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
        """The answer that the model reflects upon; None before the reflection."""
        self._reflected = False
        """Whether `_after` contains the first answer and the reflection: the reflected answer did not
        fit the schema, so the repair has to show the model what came before it."""
        self._related: str | None = None
        self._deferred_reply: Reply | None = None
        """A reply that requested tools at the limit. The run is locked until a person allows more
        rounds."""
        self._last_call = ""
        """The last tool call, with its arguments, as `_call_signature` writes it."""
        self._last_result = ""
        self._repeat_count = 0
        """How many times in a row `_last_call` was made and returned `_last_result`."""
        self._asked_again = False
        """Whether the model gave an empty answer and was called once more."""
        self._inputs: tuple[Message, ...] = ()
        """The input, as far as it is left; only if it is compacted."""
        self._next_call: ToolLoopCall | None = None
        """The call that follows a check of the context."""
        self._halved = False
        """Whether the messages were halved after a provider had refused them."""

    @property
    def rounds(self) -> int:
        """How many rounds of tools have begun."""
        return self._rounds

    @property
    def max_rounds(self) -> int:
        return self._max_rounds

    def allow(self, rounds: int) -> None:
        """Sets the limit on rounds that a person gave when unlocking the run."""
        self._max_rounds = rounds

    def begin(self, inputs: tuple[Message, ...]) -> ToolLoopAction:
        if self._compacts:
            self._inputs = inputs
        return ToolLoopAction((self._call_model(),))

    def on_result(self, loop_call: ToolLoopCall, outcome: Outcome) -> ToolLoopAction:
        if loop_call.aside:
            return self._on_context_checked(msgspec.convert(outcome.state, Compacted))
        if loop_call.label:  # only tool calls have a label; a call of the model is made at the node's address
            return self._on_tool_result(loop_call, msgspec.convert(outcome.state, ToolResult))
        reply: Reply = msgspec.convert(outcome.state["reply"], Reply)
        self._related = outcome.state.get("related", self._related)
        # A model that was not offered tools may request them all the same; the request is then ignored.
        if reply.tool_calls and loop_call.what.offer:
            return (
                self._begin_round(reply) if self._rounds < self._max_rounds else self._on_limit_reached(reply)
            )
        return self._on_answer(reply, outcome.state.get("problem", ""), loop_call.what)

    def on_unlock(self) -> ToolLoopAction:
        """Starts the round that met the limit. The model is not called again for it: its reply is a
        fact, and a second one could differ."""
        reply, self._deferred_reply = self._deferred_reply, None
        return ToolLoopAction() if reply is None else self._begin_round(reply)

    def tool(self, loop_call: ToolLoopCall) -> RequestedTool:
        request: ToolRequest = loop_call.what.request
        return RequestedTool(request.name, request.arguments, request.id)

    def result(self, outcome: Outcome) -> str:
        """The text of a tool's result, by which the breaker sees whether a loop produces anything
        new."""
        return str(outcome.state["text"])

    def on_failure(self, loop_call: ToolLoopCall, error: str, error_type: str = "") -> ToolLoopAction:
        if not loop_call.label:
            overflows = error_type == CONTEXT_OVERFLOW and isinstance(loop_call.what, ModelCall)
            if overflows and self._compacts and not self._halved:
                self._halved = True
                self._next_call = loop_call
                return ToolLoopAction((self._check_context(loop_call.what, halve=True),))
            return self._fail(error, error_type)
        # A tool that fails does not fail the agent: the model gets the error and can react to it.
        request: ToolRequest = loop_call.what.request
        return self._on_tool_result(loop_call, ToolResult(request.id, request.name, "failed", error))

    def on_person_answer(self, loop_call: ToolLoopCall, message: Message) -> ToolLoopAction:
        """Makes or refuses the tool call that a person decided about."""
        request: ToolRequest = loop_call.what.request
        approval_decision: ApprovalDecision = read_decision(message, request.arguments)
        if approval_decision.approved:
            asked, given = request.arguments, approval_decision.arguments
            request = msgspec.structs.replace(request, arguments=given)
            # Without a prompt for a person this is an ordinary call, at the address where the person was
            # asked.
            use = msgspec.structs.replace(loop_call, what=ToolUse(request), person_prompt=None, timeout=None)
            if asked == given:
                return ToolLoopAction((use,), decision="approved")
            return ToolLoopAction((use,), decision="changed", changed=(asked, given))
        result = ToolResult(request.id, request.name, "rejected", approval_decision.reason)
        action = self._on_tool_result(loop_call, result)
        return msgspec.structs.replace(action, decision="rejected", decision_reason=approval_decision.reason)

    def on_expiry(self, loop_call: ToolLoopCall) -> ToolLoopAction:
        """Rejects the tool call that nobody decided about in time."""
        request: ToolRequest = loop_call.what.request
        assert loop_call.timeout is not None
        text = f"nobody allowed this call within {format_duration(loop_call.timeout)}"
        return self._on_tool_result(loop_call, ToolResult(request.id, request.name, "rejected", text))

    # Rounds of tools.

    def _begin_round(self, reply: Reply) -> ToolLoopAction:
        """Starts all calls of a reply at once; the round ends when each of them has a result."""
        self._rounds += 1
        self._reply = reply
        self._results = [None] * len(reply.tool_calls)
        loop_calls, events = [], []
        for number, (request, label) in enumerate(zip(reply.tool_calls, call_labels(reply), strict=True)):
            loop_call = ToolLoopCall(
                ToolUse(request),
                label,
                self._rounds,
                self._approval_prompt(request),
                request.name,
                self._config.approval_timeout,
            )
            self._results[number] = refusal = self._refuse(number, request)
            if refusal is not None:
                events.append(_ended(loop_call, refusal))
            else:
                loop_calls.append(loop_call)
        max_calls = self._config.max_calls_per_round
        reached = ("calls_per_round", max_calls) if len(reply.tool_calls) > max_calls else None
        if not loop_calls:  # every call was refused, so no result will arrive to end the round
            return self._end_round(tuple(events))
        return ToolLoopAction(tuple(loop_calls), events=tuple(events), reached=reached)

    def _refuse(self, number: int, request: ToolRequest) -> ToolResult | None:
        """The result of a call that is not made; None if the call is to be made.

        Providers require a result for every requested call, so a refused call gets one that tells the
        model why. A call with a problem is not counted as a repetition: its result explains the
        problem."""
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
        """Counts equal calls with equal results in a row, over the round that ends.

        In the order of the requests, not in that of the results: which tool is faster must not matter.
        Tools that are declared as polling may repeat, and calls that were not made say nothing."""
        for request, result in zip(self._reply.tool_calls, self._results, strict=True):
            if result is None or result.polls or result.status not in ("completed", "failed"):
                continue
            call = _call_signature(request)
            same = (call, result.text) == (self._last_call, self._last_result)
            self._repeat_count = self._repeat_count + 1 if same else 1
            self._last_call, self._last_result = call, result.text

    def _approval_prompt(self, request: ToolRequest) -> dict[str, Any] | None:
        if request.problem or not self._config.needs_approval(request.name):
            return None  # a call with a problem is never made, so no person has to decide about it
        shown = {"name": request.name, "arguments": request.arguments}
        return {"prompt": f"May the tool '{request.name}' be called?", "tool": shown}

    def _on_tool_result(self, loop_call: ToolLoopCall, result: ToolResult) -> ToolLoopAction:
        # Results arrive in any order. The label is unique in its round, so it identifies the request.
        number = call_labels(self._reply).index(loop_call.label)
        self._results[number] = result
        events = (_ended(loop_call, result),)
        return ToolLoopAction(events=events) if None in self._results else self._end_round(events)

    def _end_round(self, events: tuple[Shown, ...]) -> ToolLoopAction:
        self._count_repeats()
        results = tuple(result for result in self._results if result is not None)
        exits = [result.exit for result in results if result.exit is not None]
        if exits:
            return ToolLoopAction(outcome=self._leave(exits[0]), events=events)
        self._exchanges += (Exchange(self._reply, results),)
        if self._rounds < self._max_rounds or self._config.on_limit != "answer":
            return ToolLoopAction((self._call_model(),), events=events)
        return ToolLoopAction(
            (self._call_model("final", offer=False),), events=events, reached=(TOOL_ROUNDS, self._max_rounds)
        )

    def _leave(self, exit: LoopExit) -> Outcome:
        """Ends the node because a tool ends the loop around it. If several do, the first in the order of
        the requests counts. The round is completed before: the model requested all of its calls, and
        which tool is faster must not matter."""
        *others, last = exit.messages or (Message(self._reply.text),)
        reason = exit.reason.strip() or EXIT_LOOP
        data = {
            **(last.data or {}),
            "stop_reason": EXIT_LOOP,
            "exit_reason": reason,
            "answered": bool(last.text.strip()) or last.data is not None,
            "tool_rounds": self._rounds,
        }
        messages = (*others, Message(last.content, "assistant", data, last.metadata))
        return Outcome(messages, EXIT_PORT, jump="break", reason=reason)

    def _on_limit_reached(self, reply: Reply) -> ToolLoopAction:
        """The model requested tools after the last round; only with `on_limit` `error` or `suspend`,
        since `answer` offers no tools in the last call."""
        limit = self._max_rounds
        if self._config.on_limit == "suspend":
            self._deferred_reply = reply
            # A plain unlock grants as many rounds again; `allow` overrides it if a person gives a
            # number.
            self._max_rounds += self._config.tool_rounds
            return ToolLoopAction(lock=(TOOL_ROUNDS, limit))
        error = f"the model asked for tools again after {limit} rounds of them, which is the limit"
        return ToolLoopAction(reached=(TOOL_ROUNDS, limit), error=error, error_type="ToolLimit")

    # Answers.

    def _on_answer(self, reply: Reply, problem: str, asked: ModelCall) -> ToolLoopAction:
        """Repairs, reflects on or accepts a reply without tool calls; `problem` is why the schema
        rejects it."""
        if not has_answer(reply):
            # An empty reply leaves nothing to repair or to reflect on. The message reports `answered: false`.
            if self._asked_again or (self._config.has_tools and self._is_out_of_rounds):
                return self._finish(reply)
            self._asked_again = True
            purpose: Purpose = "reflection" if asked.reflects else "answer"
            return ToolLoopAction((self._call_model(purpose, offer=asked.offer),))
        if problem:
            return self._repair(reply, problem)
        if self._config.thinking is not None and self._first_answer is None:
            self._first_answer = reply
            return ToolLoopAction((self._call_model("reflection", offer=False),))
        return self._finish(reply)

    def _repair(self, reply: Reply, problem: str) -> ToolLoopAction:
        if self._repairs >= self._config.max_repairs:
            return self._fail(f"the answer does not fit output_schema: {problem}", "Validation")
        self._repairs += 1
        if self._first_answer is not None and not self._reflected:
            # The reflecting call was built on its own, without `_after`. A repair is a call of the
            # normal kind, so the first answer and the reflection now have to be part of its history.
            self._reflected = True
            self._after += (Message(self._first_answer.text, "assistant"), REFLECTION)
        instruction = (
            f"Your answer does not fit the JSON Schema: {problem}\nAnswer again, with the JSON alone."
        )
        previous_answer = (Message(reply.text, "assistant"),) if reply.text else ()
        self._after += (*previous_answer, Message(instruction))
        return ToolLoopAction((self._call_model("repair", offer=False),))

    def _finish(self, reply: Reply) -> ToolLoopAction:
        """Ends the node with what the model said, never with a text of ours: edges and later nodes could
        not tell the two apart. Why an agent with tools stopped is in the data of the message."""
        text, data, answered = reply.text, reply.data, has_answer(reply)
        if self._config.has_tools:
            data = {**(data or {}), "stop_reason": self._stop_reason(answered), "answered": answered}
            if self._rounds:
                data["tool_rounds"] = self._rounds
        elif not answered:
            data = {"answered": False}
        if reply.cut:
            data = {**(data or {}), "stop_reason": "length"}
        events: tuple[Shown, ...] = () if answered else ((Warned(NO_ANSWER, "no_answer"), None),)
        message = Message(text if answered else "", "assistant", data)
        return ToolLoopAction(outcome=Outcome((message,)), events=events)

    @property
    def _is_out_of_rounds(self) -> bool:
        """Whether no more rounds are allowed."""
        return self._rounds >= self._max_rounds

    def _stop_reason(self, answered: bool) -> str:
        """`tool_limit` also for an answer that the model gave because tools were withheld."""
        if not answered:
            return "tool_limit" if self._is_out_of_rounds else "no_answer"
        withheld = bool(self._rounds) and self._is_out_of_rounds and self._config.on_limit == "answer"
        return "tool_limit" if withheld else "answered"

    def _fail(self, error: str, error_type: str = "") -> ToolLoopAction:
        answer = self._config.error_answer(error) if self._config.on_error == "message" else None
        return ToolLoopAction(error=error, error_type=error_type, error_answer=answer)

    def _call_model(self, purpose: Purpose = "answer", offer: bool = True) -> ToolLoopCall:
        after, reflects = self._after, purpose == "reflection"
        if reflects:
            assert self._first_answer is not None
            after = (Message(self._first_answer.text, "assistant"),)
        offer = offer and self._config.has_tools and self._config.tool_rounds > 0
        model_call = ModelCall(self._exchanges, after, offer, reflects, self._calls, self._related)
        self._calls += 1
        context = self._config.context
        loop_call = ToolLoopCall(model_call, purpose=purpose)
        if context is None or context.max_tokens is None or reflects:
            return loop_call
        self._next_call = loop_call
        return self._check_context(model_call)

    # Compaction.

    @property
    def _compacts(self) -> bool:
        return self._config.context is not None and self._config.context.compacts

    def _check_context(self, model_call: ModelCall, halve: bool = False) -> ToolLoopCall:
        check = ContextCheck(self._exchanges, model_call.after, halve)
        assert self._config.context is not None
        # Only a summary calls the model, and needs room in the budgets.
        calls_model = self._config.context.strategy == "summarize"
        return ToolLoopCall(check, aside=CONTEXT, calls_model=calls_model, purpose="summary")

    def _on_context_checked(self, compacted: Compacted) -> ToolLoopAction:
        """Makes the call that waited for the check, with the messages that are left."""
        loop_call, self._next_call = self._next_call, None
        assert loop_call is not None
        if not compacted.fits:
            assert self._config.context is not None
            limit = self._config.context.max_tokens
            error = f"{compacted.after} tokens must stay, and max_tokens is {limit}"
            return self._fail(
                f"{error}: the input does not fit; set `context: {{max_tokens: …}}` higher", CONTEXT_OVERFLOW
            )
        inputs = None
        if compacted.removed:
            self._inputs, self._exchanges = apply_compaction(compacted, self._inputs, self._exchanges)
            inputs = self._inputs
            model_call = msgspec.structs.replace(loop_call.what, exchanges=self._exchanges)
            loop_call = msgspec.structs.replace(loop_call, what=model_call)
        return ToolLoopAction((loop_call,), inputs=inputs)


def has_answer(reply: Reply) -> bool:
    return bool(reply.text.strip()) or reply.data is not None


def _call_signature(request: ToolRequest) -> str:
    """The call as text, equal for arguments that differ only in the order of their keys."""
    return f"{request.name}({json.dumps(request.arguments, sort_keys=True)})"


def call_labels(reply: Reply) -> list[str]:
    """The names of a round's calls in addresses: `search`, `search#2`, `search#3`.

    They depend on the reply alone, so a replay gives each call the same address and idempotency key."""
    labels: list[str] = []
    counts: dict[str, int] = {}
    for request in reply.tool_calls:
        label = address_label(request.name or "tool")[:MAX_LABEL_LENGTH]
        counts[label] = count = counts.get(label, 0) + 1
        labels.append(f"{label}#{count}" if count > 1 else label)
    return labels


def _ended(loop_call: ToolLoopCall, result: ToolResult) -> Shown:
    request: ToolRequest = loop_call.what.request
    status, text = result.status, result.text
    data = ToolCallEnded(request.name, request.arguments, status, loop_call.round, request.id, text)
    return data, loop_call


# Approval of tool calls by a person.

YES = frozenset({"approve", "approved", "yes", "y", "ok", "true", "同意", "批准"})
NO = frozenset({"reject", "rejected", "no", "n", "false", "拒绝", "不同意"})
_DECISION_KEYS = frozenset({"approve", "arguments"})
_ANSWER_KEYS = _DECISION_KEYS | {"reason"}
REFUSAL = "a person did not allow this call"
ANSWER_HINT = "Say approve, reject, reject: why, or give other arguments as a JSON object."


class ApprovalDecision(Struct, frozen=True):
    """What a person decided about one tool call. `read_decision` creates it from the answer."""

    approved: bool
    arguments: dict[str, Any] = {}
    reason: str = REFUSAL
    """Why the call is refused; the model gets this text as the result of the call."""


def read_decision(message: Message, arguments: dict[str, Any]) -> ApprovalDecision:
    """Interprets an answer as approval, refusal, or approval with other arguments.

    An answer is a word (`yes`, `reject: too expensive`), structured data with `approve` or `arguments`,
    or a JSON object in the text. Any text that is none of these refuses the call and becomes the reason:
    the function always decides, because a kernel step cannot ask again. Use `approval_answer_problem`
    first where the person can still correct the answer."""
    if message.data and _DECISION_KEYS & message.data.keys():
        return _decision_from_fields(message.data, arguments)
    text = message.text.strip()
    given = _parse_object(text)
    if given is not None:
        # A tool may itself have a parameter called `approve` or `arguments`. The object counts as a
        # decision only if it has no other key than those of a decision; otherwise it replaces the
        # arguments.
        is_decision = given and given.keys() <= _ANSWER_KEYS and _DECISION_KEYS & given.keys()
        return _decision_from_fields(given, arguments) if is_decision else ApprovalDecision(True, given)
    approves, reason = _read_word(text) or (False, text)
    return (
        ApprovalDecision(True, arguments)
        if approves
        else ApprovalDecision(False, reason=_refusal_reason(reason))
    )


def approval_answer_problem(message: Message) -> str:
    """Says why an answer is unclear; empty if it approves, refuses or gives other arguments.

    `read_decision` treats unclear text as a refusal. Interactive callers check with this function first
    and ask the person again: a typing error must not decide about a call."""
    if message.data and _DECISION_KEYS & message.data.keys():
        return ""
    text = message.text.strip()
    if _parse_object(text) is not None or _read_word(text) is not None:
        return ""
    if not text.startswith("{"):
        return ANSWER_HINT
    try:
        json.loads(text)
    except ValueError as error:
        return f"These arguments are not JSON: {error}. {ANSWER_HINT}"
    return ""


def _read_word(text: str) -> tuple[bool, str] | None:
    """Whether a text approves or refuses, with the reason behind a colon; None if it does neither."""
    word, _, rest = text.partition(":")
    word = word.strip().rstrip(".!。！").lower()
    if word in YES and not rest.strip():
        return True, ""
    return (False, rest) if word in NO else None


def _decision_from_fields(data: dict[str, Any], arguments: dict[str, Any]) -> ApprovalDecision:
    """Approves only on an explicit yes, or on other arguments without `approve`; everything else
    refuses."""
    edited = data.get("arguments", arguments)
    if not isinstance(edited, dict):
        return ApprovalDecision(
            False, reason=_refusal_reason("the arguments that were given instead are no JSON object")
        )
    approves = data.get("approve", True)
    if approves is True or (isinstance(approves, str) and _read_word(approves) == (True, "")):
        return ApprovalDecision(True, edited)
    return ApprovalDecision(False, reason=_refusal_reason(str(data.get("reason") or "")))


def _parse_object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _refusal_reason(text: str) -> str:
    return f"{REFUSAL}: {text.strip()}" if text.strip() else REFUSAL
