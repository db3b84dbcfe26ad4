"""Descriptions of config classes for people: titles, texts and widgets, in English and in Chinese.

A struct that a workflow file can contain has a static method `__describe__`, beside its fields, which
returns a `Description`. What the type of a field already says (its default, its bounds, its choices,
whether it is a list) is not repeated there: schema.py reads it from the struct. The JSON Schema, the
forms of web editors and the tables of the manual are all made from the two together.

It is a method, and not metadata in the annotations, because most runs need none of these texts. A method
costs the import of its module nothing but its constants; metadata would be evaluated whenever msgspec
looks at a type, which loading a workflow does. Files of texts for each language were rejected too: far
from the types, they go stale (docs/decisions/0027).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from msgspec import Struct

Widget = Literal[
    "text",  # one line
    "textarea",  # several lines
    "number",
    "duration",  # a number with a unit of time
    "money",  # a number with a currency
    "switch",  # true or false
    "select",  # one of the choices
    "expression",  # CEL
    "pattern",  # a regular expression
    "function",  # the name of a Python function, or module:function
    "node",  # the id of a node of the same graph
    "port",  # a port of the edge's source
    "model",  # the name of a model profile
    "tool",  # the name of a tool
    "memory",  # the name of a memory
    "file",  # a path
    "url",
    "secret",  # shown masked
    "condition",  # an edge condition, which has short forms of its own
    "object",  # a form of its own: one of the described objects
    "graph",  # nodes and edges: the canvas
    "json",  # any value
]
Unit = Literal[
    "seconds",
    "hours",
    "rounds",
    "runs",
    "calls",
    "tokens",
    "attempts",
    "messages",
    "entries",
    "usd",
    "usd_per_million_tokens",
    "elements",
]
UNITS: Final[Mapping[Unit, tuple[str, str]]] = {
    "seconds": ("seconds", "秒"),
    "hours": ("hours", "小时"),
    "rounds": ("rounds", "轮"),
    "runs": ("runs of nodes", "次节点运行"),
    "calls": ("calls", "次调用"),
    "tokens": ("tokens", "token"),
    "attempts": ("attempts", "次尝试"),
    "messages": ("messages", "条消息"),
    "entries": ("entries", "条记录"),
    "usd": ("US dollars", "美元"),
    "usd_per_million_tokens": ("US dollars per million tokens", "美元／百万 token"),
    "elements": ("elements", "个元素"),
}

TitleAndText = tuple[str, str]
"""A title and a text in one language. In choices and units: the title in English and in Chinese."""


class Field(Struct, frozen=True, kw_only=True):
    """The description of one key: what a form shows for it."""

    en: TitleAndText
    zh: TitleAndText
    widget: Widget | None = None
    """The widget for the value, or for each item of a list or mapping; None uses the one that the type
    suggests."""
    unit: Unit | None = None
    choices: Mapping[str, TitleAndText] = {}
    """The title of each value of a Literal, in English and in Chinese."""
    required: bool | None = None
    """None follows the struct. Set where the struct has a default only so that its own check reports the
    missing key."""
    kind: Any = None
    """The type of the value, for a key that is not a field of the struct, or whose field is declared as
    Any."""
    see: str = ""
    """Where the manual says more: `page.md#heading`."""


class Short(Struct, frozen=True, kw_only=True):
    """A short form: a value that may be written in place of the whole mapping."""

    kind: Any
    """The type of the value: bool, str, a Literal, a tuple."""
    en: TitleAndText
    zh: TitleAndText
    widget: Widget | None = None
    key: str = ""
    """The key that it stands for, if it stands for a single one."""
    choices: Mapping[str, TitleAndText] = {}


class Variants(Struct, frozen=True, kw_only=True):
    """Alternatives: a mapping whose keys depend on the value of one of them."""

    key: str = "type"
    forms: Mapping[str, Any]
    """The struct for each value of the selecting key."""
    config: str = "config"
    """The key that contains the struct; empty if its keys stand beside `key`."""
    en: TitleAndText
    zh: TitleAndText
    """The titles and texts of `key`."""


class Description(Struct, frozen=True, kw_only=True):
    """The description of a mapping. The order of `fields` is the order of the form, and of the table in
    the manual."""

    name: str = ""
    """The name by which other descriptions refer to it. The config of a node type needs none."""
    en: TitleAndText = ("", "")
    zh: TitleAndText = ("", "")
    fields: Mapping[str, Field] = {}
    variants: Variants | None = None
    short: tuple[Short, ...] = ()
    refers: tuple[str, ...] = ()
    """For a type that is an alternative of other described objects: their names. Everything else is
    empty then."""
    complete: bool = False
    """Whether `fields` are all keys of the file. Those of the struct differ, and `__read__` computes
    them."""
    alone: tuple[str, ...] = ()
    """Keys that exclude all others: each is a short form of its own."""
