"""A provider's reply as a test specifies it, independent of any provider's format."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
# An id (None: the provider makes one up, or gives none if that is its habit), a name, and arguments:
# a string goes out as it is, so that a model may be seen to write broken JSON.
ToolCall: TypeAlias = tuple[str | None, str, Json | str]

SIGNATURE = "c2lnbmVkIGJ5IHRoZSBwcm92aWRlcg=="  # base64, as Gemini's have to be


@dataclass(frozen=True, slots=True)
class Reply:
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    thinking: str = ""
    input_tokens: int = 10
    output_tokens: int = 5
    # The provider's own word, in place of the one that would follow from the rest.
    finish: str | None = None
    # In place of a text, in the field that OpenAI's chat completions have for it.
    refusal: str = ""
    # Anything but 200 is an error in the provider's shape, or with this body. A 401 echoes the key.
    status: int = 200
    error_body: Json | str | None = None
    # Seconds, as the header says it.
    retry_after: float | None = None
    # Seconds before the answer, and between the events of a stream.
    delay: float = 0.0
    chunk_delay: float = 0.0
    # Hang up after so many events of a stream; an answer in one piece stops half-way.
    cut_after: int | None = None
    # The body as it is, whatever was asked, and its type, in place of the one that would fit.
    raw: bytes | None = None
    content_type: str = ""


def words(text: str) -> list[str]:
    """The pieces in which a text is streamed."""
    return re.findall(r"\s*\S+|\s+$", text)


def argument_text(call: ToolCall) -> str:
    arguments = call[2]
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def argument_pieces(call: ToolCall, size: int = 8) -> list[str]:
    """The pieces in which arguments are streamed: cut without regard to JSON, as providers do."""
    text = argument_text(call)
    return [text[at : at + size] for at in range(0, len(text), size)]


def argument_object(call: ToolCall) -> Any:
    """Arguments for a wire that carries them parsed; what does not parse stays a string."""
    try:
        return json.loads(argument_text(call))
    except ValueError:
        return call[2]


def event(data: Json | str, name: str | None = None) -> bytes:
    """One server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data)
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {text}\n\n".encode()
