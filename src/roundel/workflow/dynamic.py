"""Edges that make their target run once for each part of what they carry."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta, Struct

from roundel.workflow.document import Located
from roundel.workflow.fields import INVALID, Reader
from roundel.workflow.message import Message, json_text
from roundel.workflow.pattern import compiled, flags_of
from roundel.workflow.processor import check_extraction, group_of

Forms = dict[str, type[Struct]]
Positive = Annotated[int, Meta(ge=1)]


class MessageSplit(Struct, frozen=True):
    """Each message is one part."""

    def parts(self, message: Message) -> list[Message]:
        return [message]


class RegexSplit(Struct, frozen=True, omit_defaults=True):
    """Each match is one part."""

    pattern: str
    group: str | int | None = None
    case_sensitive: bool = True
    multiline: bool = False
    dotall: bool = False
    on_no_match: Literal["pass", "empty"] = "pass"

    @property
    def flags(self) -> int:
        return flags_of(case_sensitive=self.case_sensitive, multiline=self.multiline, dotall=self.dotall)

    def parts(self, message: Message) -> list[Message]:
        return self.made_of(message, self.texts(message))

    def texts(self, message: Message) -> list[str]:
        """What the pattern matches."""
        group = group_of(self.group)
        matches = compiled(self.pattern, self.flags).finditer(message.text)
        return [match[group] for match in matches if match[group]]

    def made_of(self, message: Message, found: list[str]) -> list[Message]:
        """The message cut into these texts."""
        if not found and self.on_no_match == "pass":
            return [message]
        return [msgspec.structs.replace(message, content=part) for part in found]


class JsonPathSplit(Struct, frozen=True, omit_defaults=True):
    """Each element of the list at a dotted path (`plan.steps`, `$.plan.steps[*]`, `0.items`) is one part."""

    json_path: str = ""

    def parts(self, message: Message) -> list[Message]:
        try:
            value = json.loads(message.text)
        except (ValueError, RecursionError):
            return [message]
        for key in self._keys():
            value = _child(value, key)
        if value is None:
            return [message]
        items = value if isinstance(value, list) else [value]
        return [msgspec.structs.replace(message, content=json_text(item)) for item in items]

    def _keys(self) -> list[str]:
        path = self.json_path.strip().removeprefix("$").removesuffix("[*]")
        return [key for key in re.split(r"[.\[\]]+", path) if key]


def _child(value: object, key: str) -> Any:
    if isinstance(value, dict):
        return value.get(key)
    if isinstance(value, list) and re.fullmatch("-?[0-9]{1,9}", key) and -len(value) <= int(key) < len(value):
        return value[int(key)]
    return None


Split = MessageSplit | RegexSplit | JsonPathSplit


class MapSettings(Struct, frozen=True, omit_defaults=True):
    max_parallel: Positive = 10


class TreeSettings(Struct, frozen=True, omit_defaults=True):
    max_parallel: Positive = 10
    group_size: Annotated[int, Meta(ge=2)] = 3


class Dynamic(Struct, frozen=True, omit_defaults=True):
    type: Literal["map", "tree"]
    split: Split = MessageSplit()
    max_parallel: int = 10
    group_size: int = 3

    splits: ClassVar[Forms] = {
        "message": MessageSplit,
        "regex": RegexSplit,
        "json_path": JsonPathSplit,
    }
    settings: ClassVar[Forms] = {"map": MapSettings, "tree": TreeSettings}

    @classmethod
    def __read__(cls, at: Located, reader: Reader) -> Any:
        form = reader.variant(at, cls.settings, "dynamic edge", also=("split",))
        if form is None:
            return INVALID
        kind, config_at = form
        settings = reader.read(config_at, kind, "the dynamic edge")
        split = cls._split(at, reader)
        if settings is INVALID or split is INVALID:
            return INVALID
        name: Literal["map", "tree"] = "tree" if kind is TreeSettings else "map"
        return cls(name, split, **msgspec.structs.asdict(settings))

    @classmethod
    def __schema__(cls, maker: Any) -> dict[str, Any]:
        split = {"anyOf": [*maker.variants(cls.splits), {"type": "null"}]}
        return {"anyOf": maker.variants(cls.settings, {"split": split})}

    @classmethod
    def _split(cls, at: Located, reader: Reader) -> Any:
        assert isinstance(at.value, dict)
        split_at = at.value.get("split")
        if split_at is None or split_at.value is None:
            return MessageSplit()
        form = reader.variant(split_at, cls.splits, "split")
        if form is None:
            return INVALID
        kind, config_at = form
        split = reader.read(config_at, kind, "the split")
        if isinstance(split, RegexSplit):
            sound = check_extraction(split, config_at, reader)
            return split if sound else INVALID
        return split
