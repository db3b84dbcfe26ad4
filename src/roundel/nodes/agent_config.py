"""What an agent may be told, and whether it makes sense in its workflow."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct

from roundel.nodes.model_retry import ModelRetry
from roundel.nodes.prompt import Template
from roundel.nodes.structured import schema_problem
from roundel.workflow.diagnostics import Report, did_you_mean
from roundel.workflow.document import Located
from roundel.workflow.expression import ExpressionError
from roundel.workflow.fields import INVALID, Reader, child, without_effect
from roundel.workflow.graph import GraphReader
from roundel.workflow.profile import check_model
from roundel.workflow.tool_source import EVERY_FUNCTION, FunctionTooling, Tooling

Names = Annotated[tuple[str, ...], Meta(extra={"wrap": True})]
DEFAULT_TEMPLATE = "{toolName}: {toolDescription}"
MAX_TOOL_CALLS = 10
Stage = Literal["pre_gen_thinking", "gen", "post_gen_thinking", "finished"]
LOOP_LIMITS = ("tool_loop_limit", "max_tool_calls", "maxToolCalls")
"""What `max_tool_calls` is called among the parameters, the dialect's name first; none is the provider's."""


class MemoryUse(Struct, frozen=True, omit_defaults=True):
    """A memory that the agent reads before the model is asked, and writes when the agent is done."""

    name: str
    retrieve_stage: Annotated[tuple[Stage, ...], Meta(extra={"wrap": True})] = ()
    top_k: Annotated[int, Meta(ge=1)] = 3
    similarity_threshold: float = -1.0
    read: bool = True
    write: bool = True

    @classmethod
    def __read__(cls, at: Located, reader: Reader) -> Any:
        if isinstance(at.value, str):
            return cls(at.value)
        return reader.read_struct(at, cls, "an item of 'memories'")

    @classmethod
    def __schema__(cls, maker: Any) -> dict[str, Any]:
        return {"anyOf": [{"type": "string"}, maker.struct(cls)]}

    def is_read(self, stage: Stage) -> bool:
        return self.read and (not self.retrieve_stage or stage in self.retrieve_stage)


class Reflection(Struct, frozen=True, omit_defaults=True):
    reflection_prompt: str


class Thinking(Struct, frozen=True, omit_defaults=True):
    """A second call that looks at the first answer; what it says is the answer."""

    type: Literal["reflection"]
    config: Reflection


class DynamicTools(Struct, frozen=True, omit_defaults=True):
    tool_ids: Names = ()
    description_template: str = DEFAULT_TEMPLATE
    """How each is described in the system message: `{toolName}`, `{toolDescription}`."""

    __aliases__: ClassVar[dict[str, str]] = {
        "toolIds": "tool_ids",
        "descriptionTemplate": "description_template",
    }


class Approval(Struct, frozen=True, omit_defaults=True):
    """Which tools a person must allow: all, none, or those that are named."""

    every: bool = False
    names: tuple[str, ...] = ()

    @classmethod
    def __read__(cls, at: Located, reader: Reader) -> Any:
        if at.value in ("always", "never"):
            return cls(every=at.value == "always")
        if not isinstance(at.value, list):
            shown = reader.report.hidden(at.value)
            message = f"'approval' must be always, never or a list of tools, not {shown!r:.60}"
            reader.report.error("wrong-type", message, at)
            return INVALID
        names = reader.read(at, tuple[str, ...], "'approval'")
        return INVALID if names is INVALID else cls(names=names)

    @classmethod
    def __schema__(cls, _maker: Any) -> dict[str, Any]:
        words = {"enum": ["always", "never"]}
        return {"anyOf": [words, {"type": "array", "items": {"type": "string"}}]}


class Config(Struct, frozen=True, omit_defaults=True):
    provider: str = ""
    name: str = ""
    model: str = ""
    profile_id: str = ""
    role: str = ""
    prompt: str = ""
    base_url: str = ""
    api_key: str = ""
    params: dict[str, Any] = {}
    parameters: dict[str, Any] = {}
    fallback: Names = ()
    cache: bool | None = None
    stream: bool = True
    input_mode: Literal["messages", "prompt"] = "messages"
    tooling: Annotated[tuple[Tooling, ...], Meta(extra={"wrap": True})] = ()
    tools: Names = ()
    dynamic_tools: DynamicTools | None = None
    max_tool_calls: int = MAX_TOOL_CALLS
    max_calls_per_round: Annotated[int, Meta(ge=1)] = 16
    on_limit: Literal["answer", "error", "suspend"] = "answer"
    on_error: Literal["fail", "message"] = "fail"
    approval: Approval | None = None
    output_schema: dict[str, Any] | None = None
    max_repairs: Annotated[int, Meta(ge=0)] = 2
    thinking: Thinking | None = None
    retry: ModelRetry | None = None
    memories: Annotated[tuple[MemoryUse, ...], Meta(extra={"wrap": True})] = ()
    skills: Any = None

    __aliases__: ClassVar[dict[str, str]] = {
        "profileId": "profile_id",
        "maxToolCalls": "max_tool_calls",
        "dynamicTools": "dynamic_tools",
    }

    def __check__(self, at: Located, report: Report) -> bool:
        without_effect(self, ("skills",), at, report)
        self._warn_of_stages(at, report)
        given = at.value if isinstance(at.value, dict) else {}
        if type(self.tool_rounds) is not int or self.tool_rounds < 0:
            report.error("negative-limit", "Max tool calls must be non-negative", _limit_at(at))
            return False
        problem = schema_problem(self.output_schema) if self.output_schema is not None else ""
        if problem:
            report.error(
                "bad-schema", f"'output_schema' is no JSON Schema: {problem}", given["output_schema"]
            )
            return False
        return check_model(self.model, self.provider, self.name, at, report) and self._check_prompt(
            at, report
        )

    def _check_prompt(self, at: Located, report: Report) -> bool:
        try:
            Template(self.prompt)
        except ExpressionError as error:
            report.error("bad-expression", f"in 'prompt': {error}", child(at, "prompt"))
            return False
        return True

    def _warn_of_stages(self, at: Located, report: Report) -> None:
        """Of those at which no model is asked."""
        asked = {"gen"} if self.thinking is None else {"gen", "post_gen_thinking"}
        for stage in dict.fromkeys(stage for use in self.memories for stage in use.retrieve_stage):
            if stage not in asked:
                hint = f"the model is asked at {' and '.join(sorted(asked))}"
                message = f"'retrieve_stage: {stage}' has no effect: no model is asked then"
                report.warning("without-effect", message, _place(at, stage, "memories"), hint)

    @property
    def reads_memories(self) -> bool:
        return any(use.is_read("gen") or use.is_read("post_gen_thinking") for use in self.memories)

    @property
    def tool_rounds(self) -> int:
        """How many rounds of tools there may be."""
        if self.max_tool_calls != MAX_TOOL_CALLS:
            return self.max_tool_calls
        among = {**self.params, **self.parameters}
        given: int = next((among[name] for name in LOOP_LIMITS if name in among), self.max_tool_calls)
        return given

    @property
    def sent(self) -> dict[str, Any]:
        """The parameters that are the provider's."""
        given = {**self.params, **self.parameters}
        return {name: value for name, value in given.items() if name not in LOOP_LIMITS}

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names under `tools` that it offers, each once."""
        dynamic = self.dynamic_tools.tool_ids if self.dynamic_tools else ()
        return tuple(dict.fromkeys((*self.tools, *dynamic)))

    @property
    def has_tools(self) -> bool:
        return bool(self.tool_names or self.tooling)

    @property
    def talks(self) -> bool:
        """Whether one call of the model may not be enough."""
        return self.has_tools or self.thinking is not None or self.output_schema is not None

    def needs_approval(self, tool: str) -> bool:
        approval = self.approval
        return approval is not None and (approval.every or tool in approval.names)

    def excuse(self, error: str) -> str:
        """What is said instead of an answer, if the workflow wants that."""
        return f"Error calling model {self.name or self.model}: {error}"


def _limit_at(at: Located) -> Located:
    """Where the rounds of tools are limited."""
    for part in (at, child(at, "params"), child(at, "parameters")):
        given = part.value if isinstance(part.value, dict) else {}
        for name in LOOP_LIMITS:
            if name in given:
                return given[name]
    return at


def examine(config: Config, at: Located, reader: GraphReader) -> None:
    """Whether the profiles, tools and memories that an agent names are there."""
    where = child(at, "config")
    asked = (child(where, "profile_id"), child(where, "profileId"))
    names_one = any(place is not where and place.value is not None for place in asked)
    for name in (*((config.profile_id,) if names_one else ()), *config.fallback):
        if name not in reader.models:
            place = _place(where, name, "profile_id", "profileId", "fallback")
            hint = did_you_mean(name, reader.models) or "profiles stand under `models`, beside `graph`"
            message = f"there is no model profile '{name}'"
            if not name.strip():
                message, hint = "the node names a model profile by an empty text", "name one, or leave it out"
            reader.report.error("unknown-profile", message, place, hint)
    for name in config.tool_names:
        if name in reader.tools:
            continue
        place = _place(where, name, "tools", "dynamic_tools", "dynamicTools")
        if reader.finder.known("tool", name):
            reader.check_import("tool", name, place)
        else:
            known = [*reader.tools, *reader.finder.names("tool")]
            hint = did_you_mean(name, known) or "tools stand under `tools`, beside `graph`"
            reader.report.error("unknown-tool", f"there is no tool '{name}'", place, hint)
    for use in config.memories:
        if use.name not in reader.memories:
            hint = did_you_mean(use.name, reader.memories) or "memories stand under `memory` of the graph"
            place = _place(where, use.name, "memories")
            reader.report.error("unknown-memory", f"there is no memory '{use.name}'", place, hint)
    for tooling in config.tooling:
        if isinstance(tooling.config, FunctionTooling):
            _examine_functions(tooling.config, where, reader)


def _place(at: Located, name: str, *keys: str) -> Located:
    """Where a name stands behind one of the keys."""
    places = (_found(child(at, key), name) for key in keys if child(at, key) is not at)
    return next((place for place in places if place is not None), at)


def _found(at: Located, name: str) -> Located | None:
    value = at.value
    if value == name:
        return at
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return next((found for item in inner if (found := _found(item, name)) is not None), None)


def _examine_functions(tooling: FunctionTooling, at: Located, reader: GraphReader) -> None:
    for name in (tool.name for tool in tooling.tools):
        reason = _lack(name, reader)
        if reason is None:
            continue
        hint = "put it into functions/function_calling beside the file or its folder, or register it"
        message = f"the tool '{name}' is not here, so the agent is not offered it"
        if reason:
            message, hint = f"the tool '{name}' is not offered to the agent: {reason}", ""
        reader.report.warning("missing-tool", message, _place(at, name, "tooling"), hint)


def _lack(name: str, reader: GraphReader) -> str | None:
    """Why a function of the dialect is not offered: empty if it is not there; None if it is offered."""
    finder = reader.finder
    try:
        if name.endswith(EVERY_FUNCTION):
            return None if finder.module(name.removesuffix(EVERY_FUNCTION)) is not None else ""
        if not finder.known("tool", name):
            return ""
        finder.find("tool", name)
    except LookupError as error:
        return str(error.args[0])
    return None
