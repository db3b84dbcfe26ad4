"""Compaction: shortens a list of messages that has become too long for a model.

A list consists of units: messages, and rounds of tools, which are removed as a whole since a provider refuses
a call without its result. The task stays, the first `keep_first` units and the last `keep_last`; of the
others the oldest go, until the list fits. With `summarize`, more is removed, and a summary of it takes its
place.

The size of a list is an estimate that every process computes alike: a quarter of its bytes. It includes the
system message and the definitions of tools, which only the host knows; so the host decides, and its decision
is part of the fact of the call at `…/context` (agent_conversation.py).
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from roundel.nodes.services import Exchange, ToolSpec
from roundel.workflow.context import Context
from roundel.workflow.message import Message

Units = tuple[Message | Exchange, ...]
MESSAGE_TOKENS = 4
"""What a message counts besides its text."""
BYTES_PER_TOKEN = 4
SUMMARY_ROLE = (
    "Summarize the conversation that follows, so that it can be continued from the summary alone. Keep the "
    "facts, figures, names, decisions and open points; leave out greetings and repetitions. Answer with the "
    "summary alone."
)
"""The system message of the call that writes a summary."""


class Compacted(Struct, frozen=True, omit_defaults=True):
    """What became of a list; the result of the call at `…/context`."""

    before: int
    after: int
    removed: int = 0
    """How many units were removed."""
    first: int = 0
    """The place of the first of them."""
    messages: int = 0
    """How many messages they were."""
    summary: str | None = None
    """What takes their place."""
    fits: bool = True
    """False if what must stay is still too long."""


def text_tokens(text: str) -> int:
    """The tokens of a message with this text."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN) + MESSAGE_TOKENS


def message_tokens(message: Message) -> int:
    if isinstance(message.content, str):
        return text_tokens(message.content)
    return text_tokens(msgspec.json.encode(message.content).decode())


def tool_tokens(tools: tuple[ToolSpec, ...]) -> int:
    return sum(
        text_tokens(msgspec.json.encode((tool.name, tool.description, tool.parameters)).decode())
        for tool in tools
    )


def unit_tokens(unit: Message | Exchange) -> int:
    if isinstance(unit, Message):
        return message_tokens(unit)
    calls = msgspec.json.encode([(call.name, call.arguments) for call in unit.reply.tool_calls]).decode()
    return text_tokens(unit.reply.text + calls) + sum(text_tokens(result.text) for result in unit.results)


def count_messages(units: Units) -> int:
    return sum(1 if isinstance(unit, Message) else 1 + len(unit.results) for unit in units)


def plan_compaction(
    units: Units, fixed: int, context: Context, head: int, *, halve: bool = False
) -> Compacted:
    """Which units have to go. `fixed` is the size of what is sent besides them, `head` the number of units
    that are the task. With `halve`, a provider has refused the list, and half of it has to go."""
    sizes = [unit_tokens(unit) for unit in units]
    before = fixed + sum(sizes)
    limit = context.max_tokens
    if not halve and (limit is None or before <= limit):
        return Compacted(before, before)
    target = before // 2
    if not halve and limit is not None:
        target = limit * 3 // 4 if context.strategy == "summarize" else limit
    first = min(max(head, context.keep_first), len(units))
    removed, left = _remove(sizes, first, len(units) - context.keep_last, before, target)
    if left > (target if halve or limit is None else limit):
        # What usually stays is too long: now only the task and the newest message are sure to stay.
        first = min(head, len(units))
        removed, left = _remove(sizes, first, len(units) - 1, before, before // 2)
    fits = left < before if limit is None or halve else left <= limit
    gone = units[first : first + removed]
    return Compacted(before, left, removed, first, count_messages(gone), fits=fits)


def _remove(sizes: list[int], first: int, end: int, before: int, target: int) -> tuple[int, int]:
    """How many units have to go, from `first` on and before `end`, and how large the list is then."""
    removed, left = 0, before
    while left > target and first + removed < end:
        left -= sizes[first + removed]
        removed += 1
    return removed, left


def apply_compaction(
    compacted: Compacted, messages: tuple[Message, ...], exchanges: tuple[Exchange, ...]
) -> tuple[tuple[Message, ...], tuple[Exchange, ...]]:
    """The list without what was removed, and with the summary in its place."""
    first, end = compacted.first, compacted.first + compacted.removed
    count = len(messages)
    summary = () if compacted.summary is None else (Message(compacted.summary),)
    kept = (*messages[: min(first, count)], *summary, *messages[min(end, count) :])
    return kept, exchanges[: max(0, first - count)] + exchanges[max(0, end - count) :]


def summary_text(messages: int, summary: str) -> str:
    return f"Summary of {messages} earlier messages:\n{summary}"


def transcript(units: Units) -> str:
    """What is to be summarized, as text: a model that gets it as a conversation would continue it."""
    parts: list[str] = []
    for unit in units:
        if isinstance(unit, Message):
            parts.append(f"{unit.source or unit.role}: {unit.text}")
            continue
        said = [unit.reply.text] if unit.reply.text else []
        calls = [f"calls {call.name}({_compact_json(call.arguments)})" for call in unit.reply.tool_calls]
        parts.append("assistant: " + "\n".join([*said, *calls]))
        parts += [f"{result.name}: {result.text}" for result in unit.results]
    return "\n\n".join(parts)


def _compact_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
