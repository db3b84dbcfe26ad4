"""The workflow itself: graphs of nodes and edges, as a file or a builder gives them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct, field

from roundel.workflow.attachment import ALWAYS_THERE, Attachment, MemorySettings
from roundel.workflow.breaker import Breaker
from roundel.workflow.condition import Condition
from roundel.workflow.condition_text import written_as
from roundel.workflow.diagnostics import Report, did_you_mean
from roundel.workflow.document import Located
from roundel.workflow.dynamic import Dynamic
from roundel.workflow.fields import INVALID, Place, Reader, child, misspells, without_effect
from roundel.workflow.file_access import FileAccess
from roundel.workflow.functions import Finder, Kind
from roundel.workflow.imports import ModuleError
from roundel.workflow.middleware import MiddlewareUse
from roundel.workflow.node_type import NodeType, NodeTypes
from roundel.workflow.processor import Processor
from roundel.workflow.profile import Profile
from roundel.workflow.tool_source import ToolSource

Name = Annotated[str, Meta(min_length=1)]
Names = Annotated[tuple[str, ...], Meta(extra={"wrap": True})]
Positive = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0)]
DEFAULT_CAP = 100
BUDGETED = ("steps", "model_calls", "tool_calls", "tokens", "cost_usd", "seconds")


class Limits(Struct, frozen=True, omit_defaults=True):
    rounds: Positive | None = None
    steps: Positive | None = None
    model_calls: Annotated[int, Meta(ge=0)] | None = None
    tool_calls: Annotated[int, Meta(ge=0)] | None = None
    tokens: Annotated[int, Meta(ge=0)] | None = None
    cost_usd: Annotated[float, Meta(ge=0)] | None = None
    seconds: Seconds | None = None

    @property
    def budget(self) -> dict[str, float]:
        """What may be spent; rounds are counted by each loop for itself."""
        return {name: limit for name in BUDGETED if (limit := getattr(self, name)) is not None}


class Retry(Struct, frozen=True, omit_defaults=True):
    """How often a node that failed is tried again, and how long to wait in between."""

    max_attempts: Positive = 3
    min_wait_seconds: Annotated[float, Meta(ge=0)] = 1
    max_wait_seconds: Annotated[float, Meta(ge=0)] = 6

    def __check__(self, at: Located, report: Report) -> bool:
        if self.max_wait_seconds < self.min_wait_seconds:
            report.error("bad-retry", "max_wait_seconds is less than min_wait_seconds", at)
            return False
        return True


class Loop(Struct, frozen=True, omit_defaults=True):
    max_rounds: Positive | None = None
    limits: Limits | None = None
    breaker: Breaker | None = None

    def __check__(self, at: Located, report: Report) -> bool:
        if self.limits is not None and self.limits.rounds and self.max_rounds:
            message = "the rounds of a loop are limited twice, by 'max_rounds' and by 'limits'"
            report.error("two-limits", message, at, "keep one of the two")
            return False
        return True

    @property
    def cap(self) -> int | None:
        return self.max_rounds or (self.limits.rounds if self.limits is not None else None)


class Edge(Struct, frozen=True, omit_defaults=True):
    source: Name = field(name="from")
    target: Name = field(name="to")
    trigger: bool = True
    condition: Condition | None = None
    port: str | None = None
    carry_data: bool = True
    keep_message: bool = False
    clear_context: bool = False
    clear_kept_context: bool = False
    process: Processor | None = None
    dynamic: Dynamic | None = None
    description: str = ""
    at: Place = Place()

    __hints__: ClassVar[dict[str, str]] = {
        "source": "the node that an edge comes from is its `from`",
        "target": "the node that an edge leads to is its `to`",
    }

    def __str__(self) -> str:
        return f"{self.source} → {self.target}" + (f" ({self.port})" if self.port else "")


class Envelope(Struct, frozen=True, omit_defaults=True):
    """What every node has, whatever its type."""

    id: Name
    type: str
    config: Any = None
    description: str = ""
    context_window: Annotated[int, Meta(ge=-1)] = 0
    limits: Limits | None = None
    retry: Retry | None = None
    timeout: Seconds | None = None
    log_output: bool = True
    input: Any = None
    output: Any = None

    __hints__: ClassVar[dict[str, str]] = {"dynamic": "`dynamic` belongs on the edge that leads to the node"}

    def __check__(self, at: Located, report: Report) -> bool:
        without_effect(self, ("input", "output"), at, report)
        return True


class Node(Struct, frozen=True, omit_defaults=True):
    id: str
    type: str
    config: Any
    kind: NodeType
    description: str = ""
    context_window: int = 0
    limits: Limits | None = None
    retry: Retry | None = None
    timeout: float | None = None
    log_output: bool = True
    at: Place = Place()

    @classmethod
    def __read__(cls, at: Located, reader: Reader) -> Any:
        assert isinstance(reader, GraphReader)
        first = len(reader.drafts)
        with reader.report.about(at):
            made = cls._read(at, reader)
        reader.drafts[first:] = [reader.draft_node(at, made, reader.drafts[first:])]
        return made

    @classmethod
    def _read(cls, at: Located, reader: GraphReader) -> Any:
        what = _node_name(at)
        envelope = reader.read_struct(at, Envelope, what)
        kind = reader.node_type(at, what)
        if kind is None or misspells(at, "config", Envelope):
            return INVALID
        config_at = _config(at)
        if not isinstance(config_at.value, dict):
            what = f"'config' of {what}"
        config = reader.read(config_at, kind.config, what)
        if envelope is INVALID or config is INVALID:
            return INVALID
        reader.check_node(at, kind, envelope, config)
        reader.names.append(("node", envelope.id, at))
        return cls(
            envelope.id,
            kind.name,
            config,
            kind,
            envelope.description,
            envelope.context_window,
            envelope.limits,
            envelope.retry,
            envelope.timeout,
            envelope.log_output,
            Place(reader.report.file, at.line, at.column),
        )


def _node_name(at: Located) -> str:
    value = at.value
    name = value["id"].value if isinstance(value, dict) and "id" in value else None
    return f"node '{name}'" if name and not isinstance(name, (dict, list)) else "a node"


def _config(at: Located) -> Located:
    assert isinstance(at.value, dict)
    config = at.value.get("config")
    return Located({}, at.line, at.column, {}) if config is None or config.value is None else config


class Settings(Struct, frozen=True, omit_defaults=True):
    """A graph without its nodes and edges."""

    nodes: Any = None
    edges: Any = None
    start: Names = ()
    end: Names = ()
    id: str = ""
    description: str = ""
    initial_instruction: str = ""
    organization: str = ""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = "DEBUG"
    is_majority_voting: bool = False
    memory: tuple[Attachment, ...] = ()
    limits: Limits = Limits()
    loops: dict[str, Loop] = {}
    breaker: Breaker | None = None
    args: Any = None
    vars: Any = None


class Graph(Struct, frozen=True, omit_defaults=True):
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...] = ()
    start: tuple[str, ...] = ()
    end: tuple[str, ...] = ()
    id: str = ""
    description: str = ""
    initial_instruction: str = ""
    log_level: str = "DEBUG"
    is_majority_voting: bool = False
    memory: tuple[Attachment, ...] = ()
    limits: Limits = Limits()
    loops: dict[str, Loop] = {}
    breaker: Breaker | None = None
    vars: dict[str, Any] = {}
    """The variables that its expressions know."""
    at: Place = Place()

    def node(self, name: str) -> Node:
        return next(node for node in self.nodes if node.id == name)


class Workflow(Struct, frozen=True):
    graph: Graph
    version: str = ""
    vars: dict[str, Any] = {}
    models: dict[str, Profile] = {}
    tools: dict[str, ToolSource] = {}
    limits: Limits = Limits()
    breaker: Breaker | None = None
    memory: MemorySettings = MemorySettings()
    middleware: tuple[MiddlewareUse, ...] = ()
    functions: dict[str, Callable[..., Any] | None] = {}
    """Python functions that belong to this workflow alone, by name (for graphs built in Python); None for one
    whose code is missing, as in a stored run."""
    file: str = ""
    access: FileAccess = FileAccess()
    """Which files it may name."""
    variables: dict[str, Any] = {}
    """Those that it was read with, in place of its own."""
    secrets: dict[str, str] = {}
    """The secret values in it, by the names under which they can be given again (secret_finder.py)."""

    @property
    def name(self) -> str:
        return name_of(self.graph, self.file)


def name_of(graph: Graph, file: str) -> str:
    """What a workflow is called: by its id, else by its file."""
    return graph.id or (Path(file).stem if file else "workflow")


class GraphReader(Reader):
    """A reader that knows the node types, and where functions are."""

    finder: Finder
    folder: Path | None = None
    """Where the file is, if there is one."""
    access: FileAccess = FileAccess()
    """Which files it may name."""

    def __init__(self, report: Report, types: NodeTypes) -> None:
        super().__init__(report)
        self.types = types
        self.models: dict[str, Profile] = {}
        self.tools: dict[str, ToolSource] = {}
        self.memories: tuple[str, ...] = ALWAYS_THERE
        """The names of memories that an agent may use here."""
        self.names: list[tuple[str, str, Located]] = []
        """Names of the workflow that are shown: of what, the name, and where it stands."""
        self.drafts: list[Node | Graph] = []
        """What has been read of the node or graph that is being read: each node and graph directly inside it,
        or what stands in for it. Then that node or graph itself takes their place."""

    def draft_node(self, at: Located, made: Any, inside: list[Node | Graph]) -> Node:
        """The node, or what stands in for it (drafts.py) if it could not be read."""
        raise NotImplementedError

    def check_node(self, at: Located, kind: NodeType, envelope: Envelope, config: Any) -> None:
        if kind.asks or kind.bodies(config):
            without_effect(envelope, ("timeout", "retry"), at, self.report)
        name = kind.function(config)
        if name:
            self.check_function("function", name, child(at, "config", "function"))
        kind.examine(config, at, self)

    def check_function(self, kind: Kind, name: str, at: Located) -> None:
        """Reports a function that is not there, or whose module cannot be imported."""
        if self.finder.known(kind, name):
            self.check_import(kind, name, at)
            return
        guess = did_you_mean(name, self.finder.names(kind))
        instead = written_as(name) if kind == "condition" and not guess else ""
        if instead:
            message = f"the condition '{name}' is the name of a function, and there is none of that name"
            self.report.error("bare-condition", message, at, instead)
            return
        form = "module:Class" if kind == "middleware" else "module:function"
        hint = guess or f"register it with @roundel.{kind}('{name}'), or write {form}"
        what = f"{kind} function" if kind in ("condition", "processor") else kind
        self.report.error("unknown-function", f"there is no {what} '{name}'", at, hint)

    def check_import(self, kind: Kind, name: str, at: Located) -> bool:
        """Whether a function that is there can be had; this runs its module."""
        try:
            self.finder.find(kind, name)
        except LookupError as error:
            self.report.error("unknown-function", str(error.args[0]), at)
            return False
        return True

    def node_type(self, at: Located, what: str) -> NodeType | None:
        place = at.value.get("type") if isinstance(at.value, dict) else None
        name = place.value if place is not None else None
        if place is None or not isinstance(name, str):
            return None
        try:
            return self.types[name]
        except ModuleError as error:
            self.report.error("unknown-type", f"{what} has a type that cannot be loaded: {error}", place)
            return None
        except KeyError:
            hint = did_you_mean(name, self.types) or f"known are {', '.join(sorted(self.types))}"
            self.report.error("unknown-type", f"{what} has the unknown type '{name}'", place, hint)
            return None
