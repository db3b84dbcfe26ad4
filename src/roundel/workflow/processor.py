"""Edge processors: what an edge does to a message on its way, by a pattern or by a Python function.

As with conditions (condition.py), the kernel applies patterns and built-in functions itself, and the
host calls functions of users (docs/decisions/0007). In both cases `apply_result` turns what a function
returned into the message that is delivered, so that the two ways cannot differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice
from typing import Any, ClassVar, Literal, Protocol

import msgspec
from msgspec import Struct

from roundel.workflow.condition import FunctionRef
from roundel.workflow.description import Description, Field, Variants
from roundel.workflow.document import Located
from roundel.workflow.fields import INVALID, Reader, child
from roundel.workflow.functions import get_builtin, make_lazy, wrap_errors
from roundel.workflow.message import Message, json_text
from roundel.workflow.pattern import build_flags, check_pattern, compile_pattern

MessageProcessor = Callable[[Message], Message | None]
MAX_EXTRACTED = 10_000_000
"""Characters of an extraction. A template is written once for each match, so that a text of a megabyte and a
template of a kilobyte would otherwise make a gigabyte; and in a loop, each round could double the text."""


class ExtractionError(ValueError):
    """An extraction whose result would be too large."""


def pattern_fields() -> dict[str, Field]:
    """The descriptions of the keys that extraction and splitting by a pattern share (see fan_out.py)."""
    return {
        "pattern": Field(
            en=("Pattern", "A regular expression in Python syntax."),
            zh=("正则表达式", "正则表达式，采用 Python 语法。"),
            widget="pattern",
            see="workflow-files.md#patterns",
        ),
        "group": Field(
            en=("Group", "The number or name of the group to extract; the whole match if not set."),
            zh=("分组", "要提取的分组的编号或名称；不填则为整个匹配。"),
        ),
        "case_sensitive": Field(
            en=("Case-sensitive", "Whether case matters."),
            zh=("区分大小写", "是否区分大写与小写字母。"),
        ),
        "multiline": Field(
            en=("Multiline", "Whether `^` and `$` match at each line."),
            zh=("多行", "`^` 与 `$` 是否匹配每一行的首尾。"),
        ),
        "dotall": Field(
            en=("Dot matches all", "Whether `.` also matches line breaks."),
            zh=("点号匹配换行", "`.` 是否也匹配换行符。"),
        ),
    }


class RegexExtract(Struct, frozen=True, omit_defaults=True):
    """Replaces the text of a message by what a pattern finds in it. `data` and `metadata` stay."""

    pattern: str
    group: str | int | None = None
    case_sensitive: bool = True
    multiline: bool = False
    dotall: bool = False
    multiple: bool = False
    template: str = ""
    on_no_match: Literal["pass", "default", "drop"] = "pass"
    default_value: str = ""

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="regex_extract",
            en=("Extract by a pattern", "Replaces the text with the match of a pattern."),
            zh=("正则提取", "以正则表达式匹配到的内容替换文本。"),
            fields={
                **pattern_fields(),
                "multiple": Field(
                    en=(
                        "All matches",
                        "Whether to extract every match, one per line, instead of only the first.",
                    ),
                    zh=("全部匹配", "提取所有匹配，每行一个，而不只是第一个。"),
                ),
                "template": Field(
                    en=("Template", "The text for each match. Roundel replaces `{match}` with the match."),
                    zh=("模板", "每个匹配的输出格式，其中 `{match}` 代表匹配内容。"),
                    widget="textarea",
                ),
                "on_no_match": Field(
                    en=("Without a match", "What happens to a message without a match."),
                    zh=("无匹配时", "没有匹配到内容时如何处理消息。"),
                    choices={
                        "pass": ("Leave it unchanged", "保持原样"),
                        "default": ("Replace its text with the default", "替换为默认文本"),
                        "drop": ("Drop it", "丢弃"),
                    },
                ),
                "default_value": Field(
                    en=(
                        "Default text",
                        "The text for a message without a match, with `on_no_match: default`.",
                    ),
                    zh=("默认文本", "`on_no_match: default` 时，用于无匹配消息的文本。"),
                ),
            },
        )

    @property
    def flags(self) -> int:
        return build_flags(case_sensitive=self.case_sensitive, multiline=self.multiline, dotall=self.dotall)

    def process(self) -> MessageProcessor:
        """Compiles the extraction. A group that took no part in a match does not count as found."""
        pattern, group = compile_pattern(self.pattern, self.flags), parse_group(self.group)

        def extract(message: Message) -> Message | None:
            found = (match[group] for match in pattern.finditer(message.text))
            parts = list(islice((part for part in found if part is not None), None if self.multiple else 1))
            if not parts:
                return self._handle_no_match(message)
            # `replace`, not `format`: a template is text of a user, and may contain other braces.
            if self.template:
                self._check_size(parts)
                parts = [self.template.replace("{match}", part) for part in parts]
            return msgspec.structs.replace(message, content="\n".join(parts))

        return extract

    def _check_size(self, parts: list[str]) -> None:
        """ExtractionError if the template makes too much of these matches. Computed before anything is
        written, since the memory is what has to be protected."""
        copies = self.template.count("{match}")
        frame = len(self.template) - copies * len("{match}") + 1
        size = len(parts) * frame + copies * sum(map(len, parts))
        if size > MAX_EXTRACTED:
            raise ExtractionError(
                f"the template makes {size:,} characters of {len(parts):,} matches; {MAX_EXTRACTED:,} are "
                "allowed; shorten the template, or match less of the text"
            )

    def _handle_no_match(self, message: Message) -> Message | None:
        if self.on_no_match == "drop":
            return None
        if self.on_no_match == "default":
            return msgspec.structs.replace(message, content=self.default_value)
        return message


class Processor(Struct, frozen=True, omit_defaults=True):
    """What an edge does to a message: exactly one of the fields is set."""

    regex: RegexExtract | None = None
    function: str | None = None

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="processor",
            en=("Processor", "Changes a message on an edge."),
            zh=("处理器", "消息沿边传递时的处理方式。"),
            variants=Variants(
                forms=Processor.forms,
                en=("Type", "How to change the message."),
                zh=("类型", "修改消息的方式。"),
            ),
        )

    __uses__: ClassVar[dict[str, str]] = {"function": "processor"}

    forms: ClassVar[dict[str, type[Struct]]] = {"regex_extract": RegexExtract, "function": FunctionRef}

    @classmethod
    def __read__(cls, at: Located, reader: Reader) -> Any:
        form = reader.variant(at, cls.forms, "processor")
        if form is None:
            return INVALID
        kind, config_at = form
        config = reader.read(config_at, kind, "the processor")
        if config is INVALID:
            return INVALID
        if isinstance(config, FunctionRef):
            return cls(function=config.name)
        sound = check_extraction(config, config_at, reader)
        return cls(regex=config) if sound else INVALID


def parse_group(group: str | int | None) -> str | int:
    """A group as `re` expects it. A number may be written as text (from a variable); without a group it
    is the whole match. At most nine digits, since converting a long number takes quadratic time."""
    if group is None or group == "":
        return 0
    return int(group) if isinstance(group, str) and re.fullmatch("[0-9]{1,9}", group) else group


class GroupExtraction(Protocol):
    """A config with a pattern and a group of it: `RegexExtract`, or `RegexSplit` in fan_out.py."""

    @property
    def pattern(self) -> str: ...
    @property
    def group(self) -> str | int | None: ...
    @property
    def flags(self) -> int: ...


def check_extraction(config: GroupExtraction, at: Located, reader: Reader) -> bool:
    """Checks the pattern and that it has the group, while a file is read. Reports an error otherwise."""
    pattern = check_pattern(config.pattern, child(at, "pattern"), reader, config.flags)
    group = parse_group(config.group)
    if pattern is None:
        return False
    known = group in pattern.groupindex if isinstance(group, str) else 0 <= group <= pattern.groups
    if not known:
        names = ", ".join([*pattern.groupindex, *(str(n) for n in range(1, pattern.groups + 1))]) or "none"
        message, hint = f"the pattern has no group {group!r}", f"its groups are: {names}"
        reader.report.error("bad-pattern", message, child(at, "group"), hint)
    return known


def apply_result(message: Message, result: object) -> Message | None:
    """Applies what a processor function returned to the message that it got.

    None, or a mapping with a true `drop`, drops the message. A mapping may change `content`, `data` and
    `metadata`; metadata is merged, since the engine's own entries (such as the source) have to survive.
    Any other value becomes the text."""
    if result is None or isinstance(result, Message):
        return result
    if not isinstance(result, dict):
        return msgspec.structs.replace(message, content=json_text(result))
    if result.get("drop"):
        return None
    metadata = {**(message.metadata or {}), **(result.get("metadata") or {})}
    return msgspec.structs.replace(
        message,
        content=json_text(result["content"]) if "content" in result else message.content,
        data=result.get("data", message.data),
        metadata=metadata or None,
    )


def compile_processor(processor: Processor | None) -> MessageProcessor | None:
    """Compiles a processor for the kernel; None means none. A function must be a built-in one: the host
    calls all others."""
    if processor is None:
        return None
    if processor.regex is not None:
        return make_lazy(processor.regex.process)
    known = get_builtin("processor", processor.function or "")
    assert known is not None, processor.function
    function = wrap_errors(known)
    return lambda message: apply_result(message, function(message))
