"""Dynamic edges, which make their target run once for each part of a message.

An edge with `dynamic` cuts each message into parts by its `split`. With `map` the target runs on each
part; with `tree` it runs on groups of parts, then on groups of the results, until one message is left.
This module describes the settings and cuts messages; kernel/walk.py schedules the runs.

Splitting by a pattern depends on the regex library, so its result is recorded as a decision and not
computed again in a replay. For this reason `RegexSplit` separates finding the texts (`texts`, the
decision) from building the messages (`split_into`). The other splits always have the same result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import islice
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta, Struct

from roundel.workflow.description import Description, Field, Variants
from roundel.workflow.document import Located
from roundel.workflow.fields import INVALID, Positive, Reader
from roundel.workflow.message import Message, json_text
from roundel.workflow.pattern import build_flags, compile_pattern
from roundel.workflow.processor import check_extraction, parse_group, pattern_fields

Forms = dict[str, type[Struct]]
MAX_PARTS = 100_000
"""Parts of one message. Each takes hundreds of times the memory of a character, so that a text of a few
megabytes could otherwise take all of it."""


class SplitError(ValueError):
    """A message has too many parts."""


class MessageSplit(Struct, frozen=True):
    """Splits into whole messages: each message is one part. The default."""

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="message_split",
            en=("By message", "Each message is one part."),
            zh=("按消息", "每条消息为一个部分。"),
        )

    def parts(self, message: Message) -> list[Message]:
        return [message]


def _bounded(parts: Iterable[Any]) -> list[Any]:
    """The parts as a list; SplitError if there are more than MAX_PARTS."""
    found = list(islice(parts, MAX_PARTS + 1))
    if len(found) > MAX_PARTS:
        raise SplitError(f"it makes more than {MAX_PARTS:,} parts; split into larger ones")
    return found


class RegexSplit(Struct, frozen=True, omit_defaults=True):
    """Splits by a pattern: each match is one part. Empty matches do not count."""

    pattern: str
    group: str | int | None = None
    case_sensitive: bool = True
    multiline: bool = False
    dotall: bool = False
    on_no_match: Literal["pass", "empty"] = "pass"

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="regex_split",
            en=("By a pattern", "Each match of a pattern is one part."),
            zh=("按正则表达式", "正则表达式的每个匹配为一个部分。"),
            fields={
                **pattern_fields(),
                "on_no_match": Field(
                    en=("Without a match", "What happens to a message without a match."),
                    zh=("无匹配时", "没有匹配到内容时如何处理消息。"),
                    choices={
                        "pass": ("The whole message is one part", "整条消息为一个部分"),
                        "empty": ("There are no parts", "没有任何部分"),
                    },
                ),
            },
        )

    @property
    def flags(self) -> int:
        return build_flags(case_sensitive=self.case_sensitive, multiline=self.multiline, dotall=self.dotall)

    def parts(self, message: Message) -> list[Message]:
        return self.split_into(message, self.texts(message))

    def texts(self, message: Message) -> list[str]:
        """The texts that the pattern matches. Raises PatternError if the search takes too long, SplitError
        if there are too many."""
        group = parse_group(self.group)
        matches = compile_pattern(self.pattern, self.flags).finditer(message.text)
        return _bounded(match[group] for match in matches if match[group])

    def split_into(self, message: Message, found: list[str]) -> list[Message]:
        """Creates a message for each of these texts; without any, as `on_no_match` says."""
        if not found and self.on_no_match == "pass":
            return [message]
        return [msgspec.structs.replace(message, content=part) for part in found]


class JsonPathSplit(Struct, frozen=True, omit_defaults=True):
    """Splits JSON: each element of the list at a path is one part. Paths are `plan.steps`,
    `$.plan.steps[*]`, `0.items`.

    A text that is not JSON, or a path that leads nowhere, leaves the whole message as one part. A value
    that is not a list is one part."""

    json_path: str = ""

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="json_path_split",
            en=("By JSON", "The text is JSON, and each element of a list in it is one part."),
            zh=("按 JSON", "文本为 JSON，其中一个列表的每个元素为一个部分。"),
            fields={
                "json_path": Field(
                    en=(
                        "Path",
                        "Where the list is: `items`, `plan.steps`, `$.plan.steps[*]`, `0.items`; the whole "
                        "text if not set.",
                    ),
                    zh=(
                        "路径",
                        "列表的位置，如 `items`、`plan.steps`、`$.plan.steps[*]`、`0.items`；"
                        "不填则为整个文本。",
                    ),
                ),
            },
        )

    def parts(self, message: Message) -> list[Message]:
        try:
            value = json.loads(message.text)
        except (ValueError, RecursionError):  # The text comes from a model: it may be anything.
            return [message]
        for key in self._keys():
            value = _get_item(value, key)
        if value is None:
            return [message]
        items = _bounded(value) if isinstance(value, list) else [value]
        return [msgspec.structs.replace(message, content=json_text(item)) for item in items]

    def _keys(self) -> list[str]:
        path = self.json_path.strip().removeprefix("$").removesuffix("[*]")
        return [key for key in re.split(r"[.\[\]]+", path) if key]


def _get_item(value: object, key: str) -> Any:
    """The item at one step of a path; None if there is none. Negative indexes count from the end."""
    if isinstance(value, dict):
        return value.get(key)
    if isinstance(value, list) and re.fullmatch("-?[0-9]{1,9}", key) and -len(value) <= int(key) < len(value):
        return value[int(key)]
    return None


Split = MessageSplit | RegexSplit | JsonPathSplit
SPLITS: Forms = {"message": MessageSplit, "regex": RegexSplit, "json_path": JsonPathSplit}


class SplitVariants:
    """Describes `split` for the schema and for forms: a type and its settings. Never instantiated."""

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="split",
            en=("Split", "How to split a message into parts."),
            zh=("拆分", "如何把消息拆成多个部分。"),
            variants=Variants(forms=SPLITS, en=("Type", "What makes a part."), zh=("类型", "按什么拆分。")),
        )


def _max_parallel() -> Field:
    return Field(
        en=("In parallel", "The maximum number of parts that run at the same time."),
        zh=("并行数", "同时运行的部分数量。"),
    )


class MapSettings(Struct, frozen=True, omit_defaults=True):
    """The config of a dynamic edge of the type `map`."""

    max_parallel: Positive = 10

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="map_settings",
            en=("Map", "The target runs on each part; its outputs keep the order of the parts."),
            zh=("映射", "目标节点对每个部分各运行一次，输出按部分的顺序排列。"),
            fields={"max_parallel": _max_parallel()},
        )


class TreeSettings(Struct, frozen=True, omit_defaults=True):
    """The config of a dynamic edge of the type `tree`. A group has at least two messages: groups of one
    never get fewer."""

    max_parallel: Positive = 10
    group_size: Annotated[int, Meta(ge=2)] = 3

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="tree_settings",
            en=(
                "Tree",
                "The target runs on groups of parts, then on groups of the results, until one message is "
                "left.",
            ),
            zh=("归并", "目标节点先处理成组的部分，再处理成组的结果，直到只剩一条消息。"),
            fields={
                "max_parallel": _max_parallel(),
                "group_size": Field(
                    en=("Group size", "The number of messages in a group."),
                    zh=("每组数量", "多少条消息为一组。"),
                    unit="messages",
                ),
            },
        )


class FanOut(Struct, frozen=True, omit_defaults=True):
    """The settings of a dynamic edge, flattened from `{type, config, split}` of the file. All dynamic
    edges to a node must have equal ones (graph_reader.py)."""

    type: Literal["map", "tree"]
    split: Split = MessageSplit()
    max_parallel: int = 10
    group_size: int = 3

    splits: ClassVar[Forms] = SPLITS
    settings: ClassVar[Forms] = {"map": MapSettings, "tree": TreeSettings}

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="dynamic",
            en=("Fan-out", "Makes the target of an edge run once for each part of the message."),
            zh=("动态展开", "使边的目标节点对消息的每个部分各运行一次。"),
            variants=Variants(
                forms=FanOut.settings,
                en=("Type", "What the target does with the parts."),
                zh=("类型", "目标节点如何处理各个部分。"),
            ),
            fields={
                "split": Field(
                    en=("Split", "How to split a message into parts; each message is one part if not set."),
                    zh=("拆分", "如何把消息拆成多个部分；不填则每条消息为一个部分。"),
                    kind=SplitVariants,
                ),
            },
        )

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
