"""Memory settings: the memories that a graph declares, and `memory` of the file.

A run has two built-in memories, working and long-term, which belong to its group (`group_id`) and need
no declaration. A graph may declare more under `memory`, which its agents name. This module has the
settings only; the package `memory` reads and writes entries.

The path of a declared memory is its identity in the store, within a group: memories of the same path are
one memory, whichever workflow declares them. A memory without a path belongs to its workflow and graph
by name (memory/namespaces.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

from msgspec import Meta, Struct

from roundel.workflow.description import Description, Field, Variants
from roundel.workflow.diagnostics import Report
from roundel.workflow.document import Located
from roundel.workflow.fields import INVALID, Name, Names, Positive, Reader, Seconds, SourceLocation, child
from roundel.workflow.model_profile import check_provider

WORKING, LONG_TERM = "working", "long_term"
BUILTIN_MEMORIES = (WORKING, LONG_TERM)
"""The memories that exist without a declaration."""
DIMENSIONS = "dimensions"
"""The parameter of an embedding for the size of its vectors; the only one that has an effect."""
LOCAL_PROVIDER = "local"
"""The provider of embeddings by sentence-transformers, in this process."""
AUTO = "auto"
"""A path of the dialect that means the same as none."""


class MemorySettings(Struct, frozen=True, omit_defaults=True):
    """`memory` of the file: whose memory a run shares, and what goes into working memory."""

    group_id: str = ""
    newest: Positive = 50
    hours: Annotated[float, Meta(gt=0)] = 24
    confidence: Annotated[float, Meta(ge=0, le=1)] = 0.8
    timeout: Seconds = 5

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="memory_settings",
            en=("Memory", "The group whose memory a run shares, and what enters working memory."),
            zh=("记忆设置", "运行使用哪个分组的记忆，以及哪些内容进入工作记忆。"),
            fields={
                "group_id": Field(
                    en=(
                        "Group",
                        "The group whose working and long-term memory a run reads and writes; none if not "
                        "set. "
                        "`roundel run --group` overrides it.",
                    ),
                    zh=(
                        "分组",
                        "运行读写哪个分组的工作记忆与长期记忆；不填则不使用。`roundel run --group` "
                        "会覆盖此值。",
                    ),
                    see="memory.md#the-group",
                ),
                "newest": Field(
                    en=("Size", "The maximum number of entries in working memory."),
                    zh=("容量", "工作记忆保留的记录条数。"),
                    unit="entries",
                ),
                "hours": Field(
                    en=("Lifetime", "How long working memory keeps an entry."),
                    zh=("保留时间", "工作记忆中每条记录的保留时间。"),
                    widget="duration",
                    unit="hours",
                ),
                "confidence": Field(
                    en=(
                        "Confidence",
                        "The minimum confidence of entries in working memory, from 0 to 1.",
                    ),
                    zh=("置信度", "内容进入工作记忆所需的置信度，从 0 到 1。"),
                    see="memory.md#working-memory",
                ),
                "timeout": Field(
                    en=(
                        "Time limit",
                        "How long reading or writing one memory may take before the run continues without "
                        "it.",
                    ),
                    zh=("时间限制", "读写单个记忆最长可用的时间，超时后运行将跳过它继续。"),
                    widget="duration",
                    unit="seconds",
                ),
            },
        )


class Embedding(Struct, frozen=True, omit_defaults=True):
    """The model that converts texts to vectors."""

    model: Name
    provider: str = "openai"
    base_url: str = ""
    api_key: str = ""
    params: dict[str, Any] = {}

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="embedding",
            en=("Embedding", "The model that turns texts into vectors, for searching by meaning."),
            zh=("向量模型", "把文本转换为向量、从而按语义检索的模型。"),
            fields={
                "model": Field(en=("Model", "The name of the model."), zh=("模型", "模型的名称。")),
                "provider": Field(
                    en=(
                        "Provider",
                        "A provider, or `local` for a model of sentence-transformers on this machine.",
                    ),
                    zh=("提供商", "模型提供商；`local` 表示本机上的 sentence-transformers 模型。"),
                ),
                "base_url": Field(
                    en=("Address", "The address of the model: any OpenAI-compatible server."),
                    zh=("地址", "模型的服务地址，可为任何兼容 `openai` 协议的服务器。"),
                    widget="url",
                ),
                "api_key": Field(
                    en=("API key", "The key of the provider."),
                    zh=("API 密钥", "提供商的密钥。"),
                    widget="secret",
                ),
                "params": Field(
                    en=(
                        "Parameters",
                        "`dimensions` is the size of the vectors. Any other parameter has no effect and "
                        "causes a warning.",
                    ),
                    zh=("参数", "`dimensions` 为向量的维数；其他参数无效，并给出警告。"),
                ),
            },
        )

    def __check__(self, at: Located, report: Report) -> bool:
        for name in self.params:
            if name != DIMENSIONS:
                message, hint = f"'{name}' has no effect on vectors", f"only '{DIMENSIONS}' has"
                report.warning("without-effect", message, child(at, "params", name), hint)
        size = self.params.get(DIMENSIONS, 1)
        if type(size) is not int or size < 1:
            place = child(at, "params", DIMENSIONS)
            report.error("wrong-type", f"'{DIMENSIONS}' must be a whole number of at least 1", place)
            return False
        return check_provider(self.provider, child(at, "provider"), report, (LOCAL_PROVIDER,))


def _path_fields() -> dict[str, Field]:
    """The description of the path of a memory."""
    return {
        "memory_path": Field(
            en=(
                "Path",
                "Memories with the same path are one memory in the whole store. Roundel also reads a "
                "JSON file at this path. `auto` counts as not set.",
            ),
            zh=(
                "路径",
                "路径相同的记忆在整个存储中是同一个；该路径上若有 JSON 文件，也会被读取。`auto` 等同于不填。",
            ),
            widget="file",
        ),
    }


class SimpleMemory(Struct, frozen=True, omit_defaults=True):
    memory_path: str = ""
    embedding: Embedding | None = None

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="simple_memory",
            en=("Simple", "Answers of agents, searched with the agent's input."),
            zh=("对话记忆", "智能体说过的内容，按提问检索。"),
            fields={
                **_path_fields(),
                "embedding": Field(
                    en=("Embedding", "The model for searching entries by meaning instead of by words."),
                    zh=("向量模型", "用于检索的向量模型，取代按词检索。"),
                ),
            },
        )


class BlackboardMemory(Struct, frozen=True, omit_defaults=True):
    memory_path: str = ""
    max_items: Positive = 1000

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="blackboard_memory",
            en=("Blackboard", "The latest answers of agents."),
            zh=("黑板", "智能体最近说过的内容。"),
            fields={
                **_path_fields(),
                "max_items": Field(
                    en=("Size", "The maximum number of entries. Roundel removes the oldest first."),
                    zh=("容量", "保留的记录条数，超出时先删除最旧的。"),
                    unit="entries",
                ),
            },
        )


class FileSource(Struct, frozen=True, omit_defaults=True):
    path: Name
    file_types: Names = ()
    """The endings of the names of files to read; all files if empty."""
    recursive: bool = True
    encoding: str = "utf-8"

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="file_source",
            en=("File source", "A file, or the files of a folder."),
            zh=("文件来源", "一个文件，或一个目录中的文件。"),
            fields={
                "path": Field(
                    en=("Path", "A file or a folder, beside the workflow file or in the working folder."),
                    zh=("路径", "文件或目录，位于工作流文件旁或工作目录中。"),
                    widget="file",
                    see="workflow-files.md#referenced-files",
                ),
                "file_types": Field(
                    en=("File types", "The file name endings to read, such as `.md`; all files if not set."),
                    zh=("文件类型", "文件名的后缀，例如 `.md`；不填则包括全部文件。"),
                ),
                "recursive": Field(
                    en=("Subfolders", "Whether to read subfolders."),
                    zh=("包含子目录", "是否同时读取子目录。"),
                ),
                "encoding": Field(
                    en=("Encoding", "The encoding of the files, by its name in Python."),
                    zh=("编码", "文件的编码，须为 Python 支持的编码。"),
                ),
            },
        )

    def __check__(self, at: Located, report: Report) -> bool:
        if not _is_encoding(self.encoding):
            shown = report.mask_value(self.encoding)
            message = f"'{self.path}' cannot be read: there is no encoding {shown!r:.60}"
            hint = "one that Python knows, for example utf-8 or latin-1"
            report.warning("unknown-encoding", message, child(at, "encoding"), hint)
        return True


class FileMemory(Struct, frozen=True, omit_defaults=True):
    file_sources: Annotated[tuple[FileSource, ...], Meta(extra={"wrap": True})]
    index_path: str = ""
    embedding: Embedding | None = None

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="file_memory",
            en=("Files", "Files, searched with the agent's input; Roundel never writes to them."),
            zh=("文件", "按提问检索的文件，只读。"),
            fields={
                "file_sources": Field(
                    en=("Sources", "The files to read."),
                    zh=("来源", "要读取的文件。"),
                ),
                "index_path": Field(
                    en=("Index path", "Has no effect and causes a warning: the index is in the store."),
                    zh=("索引路径", "无效，并给出警告：索引位于存储中。"),
                    widget="file",
                ),
                "embedding": Field(
                    en=("Embedding", "The model for searching passages by meaning instead of by words."),
                    zh=("向量模型", "用于检索的向量模型，取代按词检索。"),
                ),
            },
        )

    __aliases__: ClassVar[dict[str, str]] = {"memory_path": "index_path"}

    def __check__(self, at: Located, report: Report) -> bool:
        if self.index_path not in ("", AUTO):
            place = child(at, "index_path" if "index_path" in at.value else "memory_path")  # type: ignore[operator]
            report.warning("without-effect", "'index_path' has no effect: the index is in the store", place)
        return True


class WorkingMemory(Struct, frozen=True):
    """The working memory of the run's group."""

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="working_memory",
            en=("Working memory", "The working memory of the run's group, under another name."),
            zh=("工作记忆", "运行所属分组的工作记忆，可另取名称。"),
        )


class LongTermMemory(Struct, frozen=True, omit_defaults=True):
    """The long-term memory of the run's group: entries that were promoted from working memory."""

    embedding: Embedding | None = None

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="long_term_memory",
            en=("Long-term memory", "The promoted entries of the run's group."),
            zh=("长期记忆", "为运行所属分组长期保存的内容。"),
            fields={
                "embedding": Field(
                    en=("Embedding", "The model for searching passages by meaning instead of by words."),
                    zh=("向量模型", "用于检索的向量模型，取代按词检索。"),
                ),
            },
        )


class Mem0(Struct, frozen=True, omit_defaults=True):
    api_key: str = ""
    org_id: str = ""
    project_id: str = ""
    user_id: str = ""
    agent_id: str = ""

    @staticmethod
    def __describe__() -> Description:
        idle = "Accepted for compatibility; has no effect.", "仅为兼容而读取，没有作用。"
        return Description(
            name="mem0_memory",
            en=("Mem0", "An external service. Has no effect and causes a warning."),
            zh=("Mem0 服务", "独立的外部服务；在此无效，并给出警告。"),
            fields={
                "api_key": Field(en=("API key", idle[0]), zh=("API 密钥", idle[1]), widget="secret"),
                "org_id": Field(en=("Organization", idle[0]), zh=("组织", idle[1])),
                "project_id": Field(en=("Project", idle[0]), zh=("项目", idle[1])),
                "user_id": Field(en=("User", idle[0]), zh=("用户", idle[1])),
                "agent_id": Field(en=("Agent", idle[0]), zh=("智能体", idle[1])),
            },
        )


MemoryKind = SimpleMemory | BlackboardMemory | FileMemory | WorkingMemory | LongTermMemory | Mem0
MEMORY_FORMS: dict[str, type[Struct]] = {
    "simple": SimpleMemory,
    "file": FileMemory,
    "blackboard": BlackboardMemory,
    WORKING: WorkingMemory,
    LONG_TERM: LongTermMemory,
    "mem0": Mem0,
}


class MemoryDeclaration(Struct, frozen=True, omit_defaults=True):
    """A memory that the agents of a graph may name."""

    name: str
    config: Any
    at: SourceLocation = SourceLocation()

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="memory",
            en=("Memory", "A memory that the agents of a graph may name."),
            zh=("记忆", "图中的智能体可以引用的记忆。"),
            variants=Variants(
                forms=MEMORY_FORMS,
                en=("Type", "The kind of memory."),
                zh=("类型", "记忆的种类。"),
            ),
            fields={
                "name": Field(
                    en=("Name", "The name that agents use for it."),
                    zh=("名称", "智能体引用此记忆所用的名称。"),
                    kind=Name,
                    required=True,
                ),
            },
        )

    @property
    def embedding(self) -> Embedding | None:
        return getattr(self.config, "embedding", None)

    @property
    def folder(self) -> Path | None:
        """The folder of the file that declares it; None if it was declared in Python."""
        return Path(self.at.file).resolve().parent if Path(self.at.file).is_file() else None

    @classmethod
    def __read__(cls, at: Located, reader: Reader) -> Any:
        form = reader.variant(at, MEMORY_FORMS, "memory", also=("name",))
        if form is None:
            return INVALID
        kind, config_at = form
        config = reader.read_struct(config_at, kind, "'config' of the memory")
        assert isinstance(at.value, dict)
        if at.value.get("name") is None:
            reader.report.error("missing-key", "the memory has no 'name'", at)
            return INVALID
        name = reader.read(at.value["name"], Name, "'name' of the memory")
        if config is INVALID or name is INVALID:
            return INVALID
        if kind is Mem0:
            message = f"the memory '{name}' has no effect: mem0 is an external service"
            reader.report.warning("without-effect", message, child(at, "type"), "for example `type: simple`")
        return cls(name, config, SourceLocation(reader.report.file, at.line, at.column))


_TEXT_ENCODINGS: Final = frozenset(
    (
        *("charmap", "cp1006", "cp720", "cp737", "cp856", "cp874", "cp875", "idna", "iso8859_1", "koi8_t"),
        *("koi8_u", "mac_arabic", "mac_croatian", "mac_farsi", "mac_romanian", "palmos", "punycode"),
        *("raw_unicode_escape", "undefined", "unicode_escape", "utf_8_sig"),
    )
)
"""Encodings that no alias refers to."""
_NO_TEXT_ENCODINGS: Final = frozenset(
    (
        *("base64_codec", "bz2_codec", "hex_codec", "mbcs", "quopri_codec", "rot_13", "uu_codec"),
        "zlib_codec",
    )
)
"""Codecs that do not turn bytes into text, and one that exists on Windows only."""


def _is_encoding(name: str) -> bool:
    """Whether Python knows an encoding of texts by this name. Asking `codecs` would import the module of
    whatever encoding a file names."""
    from encodings import normalize_encoding
    from encodings.aliases import aliases

    if not name.isascii() or "\0" in name:
        return False
    normal = normalize_encoding(name).lower()
    module = aliases.get(normal) or aliases.get(normal.replace(".", "_"), normal)
    return module in _TEXT_ENCODINGS or (module in aliases.values() and module not in _NO_TEXT_ENCODINGS)


def builtin_memory(name: str) -> MemoryDeclaration:
    """The declaration of a built-in memory."""
    return MemoryDeclaration(name, MEMORY_FORMS[name]())


def find_path(path: str, folder: Path | None) -> Path | None:
    """Finds a path: relative to the file, else relative to the working folder; None if nothing
    exists."""
    places = [place / path for place in (folder, Path.cwd()) if place is not None]
    try:
        return next((place for place in places if place.exists()), None)
    except (OSError, ValueError):  # No file could have this name.
        return None
