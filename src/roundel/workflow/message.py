"""What flows along the edges of a workflow."""

from __future__ import annotations

import json
from typing import Any, Literal

import msgspec
from msgspec import Struct

Role = Literal["user", "assistant", "system", "tool"]
BlockType = Literal["text", "image", "audio", "video", "file", "data"]


class Block(Struct, frozen=True, omit_defaults=True):
    """One typed part of a message that is more than plain text."""

    type: BlockType
    text: str = ""
    url: str = ""
    media_type: str = ""
    data: Any = None


class Message(Struct, frozen=True, gc=False, omit_defaults=True):
    """A message is never changed: whoever wants another one makes another one."""

    content: str | tuple[Block, ...] = ""
    role: Role = "user"
    data: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    keep: bool = False
    preserve_role: bool = False
    dynamic: bool = False
    """It came over a `dynamic` edge, so its target runs once for each part of it."""

    @property
    def text(self) -> str:
        content = self.content
        if isinstance(content, str):
            return content
        return "\n".join(block.text for block in content if block.type == "text")

    @property
    def source(self) -> str:
        """The node that sent it; empty for the run's own input."""
        return str((self.metadata or {}).get("source", ""))


def as_message(value: object, role: Role = "assistant") -> Message:
    """A message from what a Python function gave: a message, a text, a mapping or any JSON value."""
    if isinstance(value, Message):
        return value
    if isinstance(value, str):
        return Message(value, role)
    if isinstance(value, dict) and value and set(value) <= {"content", "text", "data", "metadata"}:
        content = value.get("content", value.get("text", ""))
        return Message(_content(content), role, value.get("data"), value.get("metadata"))
    return Message(json_text(value), role, value if isinstance(value, dict) else None)


def json_text(value: object) -> str:
    """Text as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    return str(value) if value.__class__ is int else json.dumps(value, ensure_ascii=False)


def _content(value: object) -> str | tuple[Block, ...]:
    if isinstance(value, (list, tuple)):
        return msgspec.convert(value, tuple[Block, ...])
    return json_text(value)
