"""What agents may remember by: the entries under `memory` of a graph, and `memory` of the file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from roundel.workflow.diagnostics import Report
from roundel.workflow.document import Located
from roundel.workflow.fields import INVALID, Place, Reader, child
from roundel.workflow.providers import check_provider

Name = Annotated[str, Meta(min_length=1)]
Names = Annotated[tuple[str, ...], Meta(extra={"wrap": True})]
Positive = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0)]
WORKING, LONG_TERM = "working", "long_term"
ALWAYS_THERE = (WORKING, LONG_TERM)
"""The names of memories that need not be declared."""
DIMENSIONS = "dimensions"
"""The parameter of an embedding that says how long its vectors are."""
LOCAL = "local"
"""The provider of embeddings by a model of sentence-transformers, in this process."""
AUTO = "auto"
"""As a path it says as much as none."""


class MemorySettings(Struct, frozen=True, omit_defaults=True):
    """`memory` of the file: whose memory a run has part in, and what working memory takes."""

    group_id: str = ""
    newest: Positive = 50
    hours: Annotated[float, Meta(gt=0)] = 24
    confidence: Annotated[float, Meta(ge=0, le=1)] = 0.8
    timeout: Seconds = 5


class Embedding(Struct, frozen=True, omit_defaults=True):
    """The model that makes vectors of texts."""

    model: Name
    provider: str = "openai"
    base_url: str = ""
    api_key: str = ""
    params: dict[str, Any] = {}

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
        return check_provider(self.provider, child(at, "provider"), report, (LOCAL,))


class Simple(Struct, frozen=True, omit_defaults=True):
    memory_path: str = ""
    embedding: Embedding | None = None


class Blackboard(Struct, frozen=True, omit_defaults=True):
    memory_path: str = ""
    max_items: Positive = 1000


class FileSource(Struct, frozen=True, omit_defaults=True):
    path: Name
    file_types: Names = ()
    """How the names of the files end; all files if it is empty."""
    recursive: bool = True
    encoding: str = "utf-8"

    def __check__(self, at: Located, report: Report) -> bool:
        if not _is_encoding(self.encoding):
            shown = report.hidden(self.encoding)
            message = f"'{self.path}' cannot be read: there is no encoding {shown!r:.60}"
            hint = "one that Python knows, for example utf-8 or latin-1"
            report.warning("unknown-encoding", message, child(at, "encoding"), hint)
        return True


class Files(Struct, frozen=True, omit_defaults=True):
    file_sources: Annotated[tuple[FileSource, ...], Meta(extra={"wrap": True})]
    index_path: str = ""
    embedding: Embedding | None = None

    __aliases__: ClassVar[dict[str, str]] = {"memory_path": "index_path"}

    def __check__(self, at: Located, report: Report) -> bool:
        if self.index_path not in ("", AUTO):
            place = child(at, "index_path" if "index_path" in at.value else "memory_path")  # type: ignore[operator]
            report.warning("without-effect", "'index_path' has no effect: the index is in the store", place)
        return True


class Working(Struct, frozen=True):
    """That of the run's group."""


class LongTerm(Struct, frozen=True, omit_defaults=True):
    """What was promoted for the run's group."""

    embedding: Embedding | None = None


class Mem0(Struct, frozen=True, omit_defaults=True):
    api_key: str = ""
    org_id: str = ""
    project_id: str = ""
    user_id: str = ""
    agent_id: str = ""


Kind = Simple | Blackboard | Files | Working | LongTerm | Mem0
FORMS: dict[str, type[Struct]] = {
    "simple": Simple,
    "file": Files,
    "blackboard": Blackboard,
    WORKING: Working,
    LONG_TERM: LongTerm,
    "mem0": Mem0,
}


class Attachment(Struct, frozen=True, omit_defaults=True):
    """A memory that the agents of a graph may name."""

    name: str
    config: Any
    at: Place = Place()

    @property
    def embedding(self) -> Embedding | None:
        return getattr(self.config, "embedding", None)

    @property
    def folder(self) -> Path | None:
        """That of the file it stands in."""
        return Path(self.at.file).resolve().parent if Path(self.at.file).is_file() else None

    @classmethod
    def __read__(cls, at: Located, reader: Reader) -> Any:
        form = reader.variant(at, FORMS, "memory", also=("name",))
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
            message = f"the memory '{name}' has no effect: mem0 is a service of its own"
            reader.report.warning("without-effect", message, child(at, "type"), "for example `type: simple`")
        return cls(name, config, Place(reader.report.file, at.line, at.column))

    @classmethod
    def __schema__(cls, maker: Any) -> dict[str, Any]:
        forms = maker.variants(FORMS, {"name": {"type": "string", "minLength": 1}})
        return {"anyOf": [{**form, "required": [*form["required"], "name"]} for form in forms]}


def _is_encoding(name: str) -> bool:
    try:
        b"a".decode(name)
    except UnicodeError:  # known, but not of this text
        return True
    except (LookupError, ValueError):
        return False
    return True


def built_in(name: str) -> Attachment:
    """One that is there without being declared."""
    return Attachment(name, FORMS[name]())


def find_path(path: str, folder: Path | None) -> Path | None:
    """What a path means: beside the file, else in the working folder; None if there is nothing."""
    places = [place / path for place in (folder, Path.cwd()) if place is not None]
    try:
        return next((place for place in places if place.exists()), None)
    except (OSError, ValueError):  # no name that a file could have
        return None
