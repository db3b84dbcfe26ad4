"""`agent`: a model answers, with tools if the agent has any.

An agent whose single model call is enough runs as one `Call`; if its model gives no answer, it continues as
a conversation. All others run as a conversation from the beginning. `agent_conversation.py` decides the
calls of a conversation in the kernel; this module executes each of them. So the decisions are pure and
replayed, and the effects (model, tools, memory, validation, compaction) are facts.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Any

import msgspec

from roundel.kernel.commands import Call
from roundel.kernel.facts import CallRecord, Outcome, Usage, failure_data, record_of_failure
from roundel.kernel.payloads import ContextCompacted, MemoryFailed, ToolCallStarted, Warned
from roundel.kernel.tool_loop import Conversation
from roundel.nodes.agent_config import Config, MemoryStage, examine
from roundel.nodes.agent_conversation import (
    CONTEXT,
    REFLECTION,
    AgentConversation,
    ContextCheck,
    ModelCall,
    ToolUse,
    has_answer,
)
from roundel.nodes.agent_models import agent_endpoints, find_profile, unpriced_models
from roundel.nodes.compaction import (
    SUMMARY_ROLE,
    Compacted,
    Units,
    message_tokens,
    plan_compaction,
    summary_text,
    text_tokens,
    tool_tokens,
    transcript,
)
from roundel.nodes.evaluation import evaluate
from roundel.nodes.prices import Prices, cost_of_tokens
from roundel.nodes.prompt import (
    Template,
    build_messages,
    flatten_messages,
    insert_memories,
    read_variables,
    system_message,
)
from roundel.nodes.services import (
    Behaviour,
    Model,
    NodeError,
    RecalledMemories,
    Reply,
    Request,
    Services,
    ToolRequest,
    failed_attempts,
    failure_reason,
    failure_type,
)
from roundel.nodes.structured_output import parse_answer
from roundel.workflow.expression import ExpressionError
from roundel.workflow.graph import Node, Workflow
from roundel.workflow.limits import picodollars
from roundel.workflow.message import Message
from roundel.workflow.model_profile import DEFAULT_PROFILE
from roundel.workflow.node_type import EXIT_PORT, AgentView, Calls, NodeType

TYPICAL_TOOL_ROUNDS = 2
"""Rounds of tools, with one call each, that a forecast assumes as the usual case."""
MAX_TOKENS_PARAMS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""The names that providers use for the limit on the tokens of an answer."""


FAILED_CALL = Usage(model_calls=1)
"""What a failed call counts for: nobody reports its tokens."""


def prepare(node: Node, services: Services) -> Behaviour:
    return _AgentBehaviour(node, services).behave


class _AgentBehaviour:
    """The effects of one agent: calls of its model, its tools and its memories. `prepare` creates one
    when a run is prepared, so that a missing model or tool fails the run before anything is paid for.

    It has no state of a conversation. Each `Call` carries in `state` what it needs (`ModelCall` or
    `ToolUse`), so a call can be made again after a crash by a process that knows nothing of the earlier
    ones."""

    def __init__(self, node: Node, services: Services) -> None:
        config: Config = node.config
        self._node, self._config, self._services = node, config, services
        self._model = services.model(node)
        self._tools = services.tools(node) if config.has_tools else None
        self._memory = services.memory(node) if config.reads_memories else None
        self._params = config.provider_params
        self._template = Template(config.prompt) if config.prompt else None
        self._flatten = config.input_mode == "prompt"
        self._summarizer = _summarizer(node, services)

    def behave(self, call: Call) -> Awaitable[Outcome]:
        if call.state is None:
            return self._answer_once(call)
        if isinstance(call.state, ToolUse):
            return self._call_tool(call, call.state.request)
        if isinstance(call.state, ContextCheck):
            return self._check_context(call, call.state)
        return self._run_model_call(call, call.state)

    # The fast path, for agents without tools, schema and reflection: one call, and no conversation.

    async def _answer_once(self, call: Call) -> Outcome:
        related = await self._recall_memories("gen", call)
        messages = insert_memories(await self._build_messages(call), related.text, self._flatten)
        config = self._config
        request = Request(
            self._node.id,
            call.address,
            call.ordinal,
            messages,
            config.role,
            self._params,
            speakers=self._names_speakers,
            number=call.number,
        )
        try:
            reply = await self._call_model(request)
        except Exception as error:
            # In the tool loop `AgentConversation._fail` does the same. The call was made, and vectors for
            # memory were paid for, even if the model failed: both are part of the outcome.
            if config.on_error != "message":
                raise
            kind, attempts = failure_type(error)
            reason = failure_reason(error)
            data = failure_data(str(error), kind, self._node.id, call.address, attempts, reason)
            error_answer = Message(config.error_answer(str(error)), "assistant", data)
            return Outcome(
                (error_answer,),
                usage=FAILED_CALL,
                aside=related.usage,
                events=related.events,
                call=_failed_record(error),
            )
        if not has_answer(reply):  # the kernel continues with a conversation, which calls the model once more
            state = {"reply": _stored(reply), "related": related.text}
            return _outcome(reply, related, state=state)
        answer = {**(reply.data or {}), "stop_reason": "length"} if reply.cut else reply.data
        return _outcome(reply, related, (Message(reply.text, "assistant", answer),))

    async def _build_messages(self, call: Call) -> tuple[Message, ...]:
        if self._template is None or not self._template.has_expressions:
            return build_messages(call, self._template, self._flatten)
        return await evaluate(partial(build_messages, call, self._template, self._flatten))

    async def _recall_memories(self, stage: MemoryStage, call: Call) -> RecalledMemories:
        if self._memory is None:
            return RecalledMemories()
        return await self._memory.related(stage, call.inputs[-1].text if call.inputs else "")

    async def _call_model(self, request: Request) -> Reply:
        stream = self._services.speaker(request.address) if self._config.stream else None
        return await self._model.reply(request, stream)

    # One call of a conversation (nodes/agent_conversation.py).

    async def _run_model_call(self, call: Call, model_call: ModelCall) -> Outcome:
        related, state_update = await self._recall_once(call, model_call)
        reply = await self._call_model(await self._build_request(call, model_call, related.text))
        schema = self._config.output_schema
        # The answer is validated here and not in the conversation: the result depends on a library, and
        # as part of the outcome it is a fact that a replay reads back.
        if schema is not None and not (reply.tool_calls and model_call.offer):
            data, problem = await evaluate(partial(parse_answer, reply.text, reply.data, schema))
            reply = msgspec.structs.replace(reply, data=data)
            state_update["problem"] = problem
        if reply.tool_calls and model_call.offer and self._tools is not None:
            # Before approval: a person must not be asked about a call that cannot be made.
            requests = [await self._tools.check_request(request) for request in reply.tool_calls]
            reply = msgspec.structs.replace(reply, tool_calls=tuple(requests))
        state_update["reply"] = _stored(reply)
        return _outcome(reply, related, state=state_update)

    async def _recall_once(
        self, call: Call, model_call: ModelCall
    ) -> tuple[RecalledMemories, dict[str, Any]]:
        """The recalled memories, and what the conversation has to remember of them.

        Memory is read once, before the first call, and all rounds get the same text. A reflection reads
        memory at its own stage."""
        if model_call.reflects:
            return await self._recall_memories("post_gen_thinking", call), {}
        if model_call.related is not None or self._memory is None:
            return RecalledMemories(model_call.related or ""), {}
        related = await self._recall_memories("gen", call)
        return related, {"related": related.text}

    async def _build_request(self, call: Call, model_call: ModelCall, related: str) -> Request:
        config = self._config
        specs = await self._tools.specs() if self._tools is not None and config.tool_rounds else ()
        exchanges, after = model_call.exchanges, model_call.after
        if model_call.reflects:
            # A reflection looks at the input and the first answer alone, without the history of tool
            # calls.
            assert config.thinking is not None
            messages: tuple[Message, ...] = (flatten_messages(call.inputs), *after)
            after = (Message(config.thinking.config.reflection_prompt),)
            exchanges = ()
        else:
            messages = await self._build_messages(call)
        messages = insert_memories(messages, related, self._flatten and not model_call.reflects)
        after = tuple(self._expand_prompt(message) for message in after)
        return Request(
            self._node.id,
            call.address,
            call.ordinal,
            messages,
            system_message(config, specs),
            self._params,
            exchanges,
            after,
            # Some providers refuse a history with tool calls if the request declares no tools.
            specs if model_call.offer or exchanges else (),
            model_call.offer,
            config.output_schema,
            model_call.call,
            self._names_speakers,
            number=call.number,
        )

    @property
    def _names_speakers(self) -> bool:
        """Whether the model is told who wrote which message; flattened input has headings for that."""
        return self._config.speakers == "auto" and not self._flatten

    def _expand_prompt(self, message: Message) -> Message:
        """Replaces the placeholder `REFLECTION` by the prompt, which may contain a secret and is not
        stored."""
        if message != REFLECTION:
            return message
        assert self._config.thinking is not None
        return Message(self._config.thinking.config.reflection_prompt)

    async def _check_context(self, call: Call, check: ContextCheck) -> Outcome:
        """Measures the messages of the next call, and compacts them if they are too many."""
        config, context = self._config, self._config.context
        assert context is not None
        specs = await self._tools.specs() if self._tools is not None and config.tool_rounds else ()
        system = system_message(config, specs)
        fixed = (
            (text_tokens(system) if system else 0)
            + tool_tokens(specs)
            + sum(map(message_tokens, check.after))
        )
        units: Units = (*call.inputs, *check.exchanges)
        head = call.context.head if call.context is not None else 0
        compacted = plan_compaction(units, fixed, context, head, halve=check.halve)
        if not compacted.removed or not compacted.fits:
            return Outcome(state=msgspec.to_builtins(compacted))
        reply: Reply | None = None
        usage: Usage | None = None
        record: CallRecord | None = None
        events: list[tuple[str, dict[str, Any]]] = []
        if context.strategy == "summarize":
            try:
                reply = await self._summarize(call, units[compacted.first :][: compacted.removed], compacted)
            except Exception as error:
                text = f"the summary failed, so {compacted.messages} messages were dropped: {error}"
                events.append((Warned.event, {"message": text, "code": "no_summary"}))
                usage, record = FAILED_CALL, _failed_record(error)
            else:
                usage, record = usage_of(reply), reply.call
                summary = summary_text(compacted.messages, reply.text.strip())
                after = compacted.after + text_tokens(summary)
                compacted = msgspec.structs.replace(compacted, summary=summary, after=after)
        strategy = "drop_oldest" if reply is None else "summarize"
        figures = {"before": compacted.before, "after": compacted.after, "messages": compacted.messages}
        shown = (*events, (ContextCompacted.event, {"strategy": strategy, **figures}))
        return Outcome(state=msgspec.to_builtins(compacted), usage=usage, events=shown, call=record)

    async def _summarize(self, call: Call, units: Units, compacted: Compacted) -> Reply:
        context = self._config.context
        assert context is not None
        assert self._summarizer is not None
        limit = context.max_tokens or compacted.before
        request = Request(
            f"{self._node.id}/{CONTEXT}",
            call.address,
            call.ordinal,
            (Message(transcript(units)),),
            SUMMARY_ROLE,
            {"max_tokens": max(1, limit // 4)},
            unscripted=f"{compacted.messages} messages",
            number=call.number,
        )
        reply = await self._summarizer.reply(request, None)
        if not reply.text.strip():
            raise NodeError("the model gave no answer")
        return reply

    async def _call_tool(self, call: Call, request: ToolRequest) -> Outcome:
        assert self._tools is not None
        # The key is the same if the call is repeated after a crash, so that a tool can detect the
        # repetition.
        began = self._services.elapsed()
        result, called = await self._tools.call(request, self._services.key(call.address))
        if not called:
            return Outcome(state=msgspec.to_builtins(result))
        # The result of a script takes no time; what looking for it takes would differ from run to run.
        seconds = 0.0 if request.given is not None else round(self._services.elapsed() - began, 6)
        usage, record = Usage(tool_calls=1), CallRecord(seconds)
        return Outcome(state=msgspec.to_builtins(result), usage=usage, call=record)


def _summarizer(node: Node, services: Services) -> Model | None:
    """The model that writes summaries: that of the agent, or of the profile that its context names."""
    config: Config = node.config
    context = config.context
    if context is None or context.strategy != "summarize":
        return None
    if not context.profile_id:
        return services.model(node)
    own = {
        "provider": "",
        "name": "",
        "model": "",
        "base_url": "",
        "api_key": "",
        "params": {},
        "parameters": {},
    }
    return services.model(
        msgspec.structs.replace(
            node, config=msgspec.structs.replace(config, profile_id=context.profile_id, **own)
        )
    )


def _outcome(
    reply: Reply, related: RecalledMemories, messages: tuple[Message, ...] = (), state: Any = None
) -> Outcome:
    events = (*related.events, *_warnings(reply))
    return Outcome(
        messages, state=state, usage=usage_of(reply), aside=related.usage, events=events, call=reply.call
    )


def _stored(reply: Reply) -> Any:
    """The reply as the conversation keeps it. Its record is in the outcome of the call."""
    return msgspec.to_builtins(reply if reply.call is None else msgspec.structs.replace(reply, call=None))


def usage_of(reply: Reply) -> Usage:
    """What a reply counts for in budgets and reports. A reply from the cache is free and is no call."""
    if reply.cached:
        return Usage(0, 0, 0, 0, model=reply.model, cached=True)
    priced = reply.cost_usd is not None
    return Usage(
        1,
        0,
        reply.input_tokens,
        reply.output_tokens,
        reply.cost_usd or 0,
        0 if priced else 1,
        reply.model,
        scripted=reply.scripted,
    )


def _warnings(reply: Reply) -> tuple[tuple[str, dict[str, Any]], ...]:
    shown = [(text, "retried") for text in reply.trouble]
    if reply.cut:
        shown.append(("the answer was cut off at its token limit", "truncated"))
    return tuple((Warned.event, {"message": text, "code": code}) for text, code in shown)


def _failed_record(error: Exception) -> CallRecord:
    """The record of a call that failed, of a node that goes on without an answer."""
    record = record_of_failure(failed_attempts(error)) or CallRecord(0)
    return msgspec.structs.replace(record, error=str(error), error_type=failure_type(error)[0])


def conversation(config: Config) -> Conversation | None:
    """The conversation for one execution of the node; None if a single model call is enough."""
    return AgentConversation(config) if config.uses_tool_loop else None


def calls(config: Config) -> Calls:
    """The calls of one execution, at most and usually: of the model, and of tools. They state the limits
    that `AgentConversation` enforces, so a change of one needs a change of the other."""
    rounds = config.tool_rounds if config.has_tools else 0
    repairs = config.max_repairs if config.output_schema is not None else 0
    reflections = 0 if config.thinking is None else 1
    usual = min(rounds, TYPICAL_TOOL_ROUNDS)
    most = rounds + 1 + repairs + reflections
    # One for an empty answer or a list that is too long, and a summary before each call.
    summarizes = config.context is not None and config.context.strategy == "summarize"
    spare = 1 + (most + 1 if summarizes else 0)
    tools = (rounds * config.max_calls_per_round, usual)
    return Calls((most, usual + 1 + reflections), tools, spare)


def reserve(config: Config, workflow: Workflow) -> int:
    """The tokens that a budget reserves for a call: the limit on the answer, from the agent's own
    parameters or else from its profile; 0 if there is none."""
    named = config.profile_id or ("" if config.name or config.model else DEFAULT_PROFILE)
    profile = workflow.models.get(named)
    given = (config.provider_params, profile.params if profile is not None else {})
    max_tokens = next((params[name] for params in given for name in MAX_TOKENS_PARAMS if name in params), 0)
    return max_tokens if isinstance(max_tokens, int) and max_tokens > 0 else 0


def estimate(config: Config, workflow: Workflow, call: Call) -> tuple[int, int]:
    """The tokens of what a call sends, and their cost in picodollars; the cost is 0 if no price is known.

    It contains what the kernel knows before the call: the system message, the input and the prompt. Tool
    definitions and memories are missing, so it is rather too small, and refuses no call that would fit. It
    counts texts alone, since the size of a picture says nothing about its tokens."""
    if isinstance(call.state, ContextCheck):
        return 0, 0  # it is there to make the list shorter
    try:
        template = Template(config.prompt) if config.prompt else None
        messages = build_messages(call, template, config.input_mode == "prompt")
    except ExpressionError:
        return 0, 0  # the call fails for the same reason, before it costs anything
    system = system_message(config, ())
    texts = [message.text for message in messages] + ([system] if system else [])
    tokens = sum(map(text_tokens, texts))
    profiles = agent_endpoints(config, workflow)
    price = Prices(workflow.models).known_price(*profiles[0].provider_and_name) if profiles else None
    return tokens, 0 if price is None else picodollars(cost_of_tokens(price, tokens, 0))


def view(config: Config) -> AgentView:
    """What the settings say about what the agent sees."""
    return AgentView(config.context, read_variables(config.prompt), config.reads_memories)


EXAMPLE = """
- id: Translator
  type: agent
  config:
    model: openai:gpt-4o
    role: Translate into French.
  retry: {max_attempts: 2}
"""

NODE = NodeType(
    "agent",
    Config,
    "Calls a model, with or without tools, and sends its answer.",
    prepare,
    title="Agent",
    zh=("智能体", "调用模型（可使用工具），并给出其答案。"),
    example=EXAMPLE,
    aliases=("llm",),
    speaks=True,
    events=(Warned.event, MemoryFailed.event, ContextCompacted.event, ToolCallStarted.event),
    single=lambda _config: True,
    calls=calls,
    conversation=conversation,
    follow_up=AgentConversation,
    context=view,
    with_context=lambda config, context: msgspec.structs.replace(config, context=context),
    explicit_ports=lambda config: (EXIT_PORT,) if config.has_tools else (),
    offers_exit=lambda config: config.offers_exit,
    reserve=reserve,
    estimate=estimate,
    unpriced=unpriced_models,
    lacks_model=lambda config, workflow: find_profile(config, workflow.models) is None,
    endpoints=agent_endpoints,
    examine=examine,
    request=ModelCall | ToolUse | ContextCheck,
)
