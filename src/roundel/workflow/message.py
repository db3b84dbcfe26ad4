"""Messages, which flow along the edges of a workflow.

A message is text or blocks, with optional `data` for expressions and `metadata` for bookkeeping. It is
immutable: edges pass the same object to several targets, and the state of a run shares messages with its
snapshots.
"""

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
    """What kind of block it is."""
    text: str = ""
    """Its text."""
    url: str = ""
    """Where its content is."""
    media_type: str = ""
    """The media type of its content."""
    data: Any = None
    """Its content."""


class Message(Struct, frozen=True, gc=False, omit_defaults=True):
    """A message. Nodes and edges create new ones with `msgspec.structs.replace` instead of changing
    them.

    `gc=False` keeps messages out of Python's cycle collector, since runs have many. That is safe as long
    as no message can be part of a reference cycle: `data` and `metadata` are plain JSON."""

    content: str | tuple[Block, ...] = ""
    """The text, or a list of blocks."""
    role: Role = "user"
    """`user`, `assistant` or `system`."""
    data: dict[str, Any] | None = None
    """Structured fields."""
    metadata: dict[str, Any] | None = None
    """What nodes have noted about it."""
    keep: bool = False
    """Whether it stays in the queue of its target after the target has run (`keep_message` of an
    edge)."""
    preserve_role: bool = False
    """Whether its role stays as it is when it is passed on."""
    dynamic: bool = False
    """Whether it came over a `dynamic` edge, so that its target runs once for each part of it."""

    @property
    def text(self) -> str:
        """The text, or the text blocks in one text; other blocks have none."""
        content = self.content
        if isinstance(content, str):
            return content
        return "\n".join(block.text for block in content if block.type == "text")

    @property
    def source(self) -> str:
        """The id of the node that sent it; empty for the input of the run."""
        return str((self.metadata or {}).get("source", ""))

    @property
    def is_notice(self) -> bool:
        """Whether the engine wrote it."""
        return bool((self.metadata or {}).get(NOTICE))


NOTICE = "notice"
"""The key in `metadata` of a message that the engine wrote itself, such as that a limit is reached. A model
gets it in square brackets, so that nobody takes it for the words of a person or of another agent."""


def notice(text: str, data: dict[str, Any] | None = None, role: Role = "user") -> Message:
    """A message that the engine writes itself. One with the role `system` keeps it on edges."""
    return Message(text, role, data, {NOTICE: True}, preserve_role=role == "system")


def as_message(value: object, role: Role = "assistant") -> Message:
    """Converts what a Python function returned to a message: a message, a text, a mapping or any JSON
    value.

    A mapping with no other keys than those of a message is read as one. Any other mapping is data: it
    becomes `data`, for expressions, and its JSON becomes the text."""
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
    # An int is the most frequent value after text, and `str` is several times faster.
    return str(value) if value.__class__ is int else json.dumps(value, ensure_ascii=False)


def _content(value: object) -> str | tuple[Block, ...]:
    if isinstance(value, (list, tuple)):
        return msgspec.convert(value, tuple[Block, ...])
    return json_text(value)


def data_text(data: dict[str, Any]) -> str:
    """The text of a message that was given as data alone, for those who read no data: agents, people and
    conditions on the text."""
    return json.dumps(data, ensure_ascii=False)
