"""Requests that every provider accepts.

Roundel has one conversation model, and providers have several. Some take one system text at the beginning
and nothing else; some refuse empty messages, conversations that begin or end with the assistant, or two
messages of the assistant in a row. A request that satisfies the strictest of them is accepted by all, so
`provider_request` rewrites each request once, above the cache, the retries and the fallbacks: the digest of
the cache, the packages of third parties and all built-in providers see the same conversation.

What is added here (brackets, names, "Continue.") exists in the request only. Templates, scripts and
records see the messages as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from roundel.nodes.services import Exchange, Model, Reply, Request, StreamCallback
from roundel.workflow.message import Block, Message

CONTINUE = Message("Continue.")
"""What follows if the newest message is the agent's own."""
BEGIN = Message("Begin.")
"""The whole conversation of an agent that has a role and no input."""
LEFT_OUT = Message("[Earlier messages are left out.]")
"""What comes before an assistant that seems to speak first."""
EMPTY_RESULT = "[The result is empty.]"
"""The result of a tool that returned nothing."""
SPEAKER = "speaker"
"""The key in `metadata` of a message whose text begins with the name of its speaker. Providers that have a
field for the name get it there as well."""
MAX_SPEAKER_NAME = 64
"""Characters of a name in the field of OpenAI."""
_UNSAFE_IN_NAME = re.compile(r"[^a-zA-Z0-9_-]+")


class ProviderRequests:
    """Passes each request to a model in the form that every provider accepts. `Models` creates it."""

    def __init__(self, model: Model) -> None:
        self._model = model

    async def reply(self, request: Request, say: StreamCallback | None = None) -> Reply:
        return await self._model.reply(provider_request(request), say)


def provider_request(request: Request) -> Request:
    """The request in the form that every provider accepts."""
    speakers = _speakers(request)
    messages = _turns(request.messages, speakers)
    after = _turns(request.after, speakers)
    exchanges = tuple(_exchange(exchange) for exchange in request.exchanges)
    if messages and messages[0].role == "assistant":
        messages.insert(0, LEFT_OUT)
    # The answer to a conversation that ended with the assistant was an answer to CONTINUE, so a later call
    # of the same tool loop has it at the same place.
    next_is_assistant = bool(exchanges) or not after or after[0].role == "assistant"
    if messages and messages[-1].role == "assistant" and next_is_assistant:
        messages.append(CONTINUE)
    if after and after[-1].role == "assistant":
        after.append(CONTINUE)
    if not messages and (exchanges or not after or after[0].role == "assistant"):
        messages.append(BEGIN)
    return replace(
        request,
        system=_system_text(request),
        messages=tuple(messages),
        exchanges=exchanges,
        after=tuple(after),
    )


def _system_text(request: Request) -> str:
    later = (message.text for message in _conversation(request) if _is_system(message))
    return "\n\n".join(text for text in (request.system, *later) if text.strip())


def _conversation(request: Request) -> Iterable[Message]:
    return (*request.messages, *request.after)


def _is_system(message: Message) -> bool:
    return message.role == "system" and not message.is_notice


def _speakers(request: Request) -> frozenset[str]:
    """The sources whose names the model has to see; empty if at most one other than the agent speaks."""
    if not request.speakers:
        return frozenset()
    sources = {message.source for message in _conversation(request) if _is_user(message)} - {""}
    return frozenset(sources) if len(sources - {request.node_id}) > 1 else frozenset()


def _is_user(message: Message) -> bool:
    return message.role not in ("assistant", "system") and not message.is_notice


def _turns(messages: Sequence[Message], speakers: frozenset[str]) -> list[Message]:
    """The messages of the user and the assistant: none empty, no two of the assistant in a row."""
    turns: list[Message] = []
    for message in messages:
        turn = _turn(message, speakers)
        if turn is None:
            continue
        if turn.role == "assistant" and turns and turns[-1].role == "assistant":
            turns[-1] = Message(f"{turns[-1].text}\n\n{turn.text}", "assistant")
        else:
            turns.append(turn)
    return turns


def _turn(message: Message, speakers: frozenset[str]) -> Message | None:
    """One message as the provider gets it; None for system texts and for messages without content."""
    if _is_system(message):
        return None
    if message.is_notice or message.role == "assistant":
        text = message.text
        if not text.strip():
            return None
        return Message(text, "assistant") if not message.is_notice else Message(_in_brackets(text))
    content = _content(message)
    if not content:
        return None
    if message.source not in speakers:
        return Message(content)
    return Message(_with_name(content, message.source), metadata={SPEAKER: message.source})


def _in_brackets(text: str) -> str:
    text = text.strip()
    return text if text.startswith("[") and text.endswith("]") else f"[{text}]"


def _content(message: Message) -> str | tuple[Block, ...]:
    """The content without empty parts; empty if nothing is left."""
    if isinstance(message.content, str):
        return message.content if message.content.strip() else ""
    return tuple(block for block in message.content if block.type != "text" or block.text.strip())


def _with_name(content: str | tuple[Block, ...], name: str) -> str | tuple[Block, ...]:
    prefix = f"{name}: "
    if isinstance(content, str):
        return content if content.startswith(prefix) else prefix + content
    place = next((place for place, block in enumerate(content) if block.type == "text"), None)
    if place is None:
        return (Block("text", f"{name}:"), *content)
    named = replace(content[place], text=str(_with_name(content[place].text, name)))
    return (*content[:place], named, *content[place + 1 :])


def _exchange(exchange: Exchange) -> Exchange:
    reply = exchange.reply
    results = tuple(
        result if result.text.strip() else replace(result, text=EMPTY_RESULT) for result in exchange.results
    )
    return Exchange(reply if reply.text.strip() else replace(reply, text=""), results)


def speaker_name(message: Message) -> str:
    """The name of the speaker for the field `name` of OpenAI, which takes letters, digits, `_` and `-`;
    empty if the message has none, or none that can be written so."""
    name = _UNSAFE_IN_NAME.sub("_", str((message.metadata or {}).get(SPEAKER, ""))).strip("_")
    return name[:MAX_SPEAKER_NAME]
