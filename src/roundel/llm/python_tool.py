"""Python functions as tools: their JSON Schema, and calls with the arguments of a model.

The schema comes from the annotations and the docstring of a function. Arguments are checked and
converted before the call, and an error in them is a `ToolError` that names the parameter, so that the
model can correct its call.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path, PurePath
from typing import Any, Protocol

import msgspec

from roundel.kernel.facts import Outcome
from roundel.nodes.evaluation import evaluate
from roundel.nodes.services import LoopExit, NodeError, ToolError, ToolSpec
from roundel.nodes.structured_output import schema_error, validation_error
from roundel.workflow.message import Message

CONTEXT, KEY, WORKSPACE = "_context", "idempotency_key", "workspace"
INJECTED_PARAMETERS = (CONTEXT, KEY, WORKSPACE)
"""Parameters that the host provides; they are not part of the schema that a model gets."""
BoundArguments = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional arguments, and keyword arguments."""
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_SECTION = re.compile(r"^(?:Args|Arguments|Parameters):\s*$(.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
_ITEM = re.compile(
    r"^(?P<indent> +)\*{0,2}(?P<name>\w+)(?: *\([^)\n]*\))?:(?P<words>.*(?:\n(?P=indent) +.*)*)", re.MULTILINE
)
_FIELD = re.compile(r"^ *:param +(?:[^:\n]+ +)?(?P<name>\w+):(?P<words>.*(?:\n +(?!:).*)*)", re.MULTILINE)


def description(function: Callable[..., Any]) -> str:
    """The first paragraph of the docstring of a function, as one line."""
    text = inspect.getdoc(function) or ""
    return " ".join(text.split("\n\n", maxsplit=1)[0].split())


def parameters(function: Callable[..., Any]) -> dict[str, Any]:
    """The JSON Schema of the parameters of a function, from its signature and docstring; NodeError if it
    has no signature."""
    properties: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    required, anything = [], False
    docs = _parameter_docs(function)
    for name, parameter in _model_parameters(function).items():
        if parameter.kind is parameter.VAR_KEYWORD:
            anything = True
        elif parameter.kind not in _VARIADIC:
            schema, more = _schema(parameter)
            definitions.update(more)
            properties[name] = {**schema, "description": docs[name]} if name in docs else schema
            if parameter.default is parameter.empty:
                required.append(name)
    schema = {"type": "object", "properties": properties, "additionalProperties": anything}
    if required:
        schema["required"] = required
    if definitions:
        schema["$defs"] = definitions
    return schema


def bind_arguments(function: Callable[..., Any], arguments: Mapping[str, Any]) -> BoundArguments:
    """Converts arguments to the annotated types; ToolError says what does not fit, for the model to
    correct.

    Conversion is lenient: "3" is accepted for an int."""
    accepted = _model_parameters(function)
    single = {name: parameter for name, parameter in accepted.items() if parameter.kind not in _VARIADIC}
    _check_arguments(
        single, arguments, any(parameter.kind is parameter.VAR_KEYWORD for parameter in accepted.values())
    )
    named = {
        name: _convert(name, value, _hint(single[name])) if name in single else value
        for name, value in arguments.items()
    }
    return _positional_arguments(single, named), named


def has_signature(function: Callable[..., Any]) -> bool:
    """Whether the signature is known; some functions that are written in C have none."""
    try:
        inspect.signature(function)
    except (TypeError, ValueError):
        return False
    return True


def has_parameter(function: Callable[..., Any], name: str) -> bool:
    return has_signature(function) and name in inspect.signature(function).parameters


def _model_parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    if not has_signature(function):
        name = getattr(function, "__name__", repr(function))
        message = f"the function '{name}' has no signature; give its 'parameters' as a JSON Schema"
        raise NodeError(message)
    try:
        signature = inspect.signature(function, eval_str=True)
    except Exception:  # an annotation names a type that does not exist at run time: accept any value
        signature = inspect.signature(function)
    return {
        name: parameter for name, parameter in signature.parameters.items() if name not in INJECTED_PARAMETERS
    }


def _check_arguments(
    single: Mapping[str, inspect.Parameter], arguments: Mapping[str, Any], takes_others: bool
) -> None:
    problems = [
        f"'{name}' is missing"
        for name, parameter in single.items()
        if parameter.default is parameter.empty and name not in arguments
    ]
    if not takes_others:
        problems += [f"there is no '{name}'" for name in arguments if name not in single]
    if problems:
        wanted = ", ".join(single) or "nothing"
        raise ToolError(f"wrong arguments: {'; '.join(problems)}; it takes {wanted}")


def _positional_arguments(
    accepted: Mapping[str, inspect.Parameter], named: dict[str, Any]
) -> tuple[Any, ...]:
    """Removes from `named` the arguments of positional-only parameters, and returns them in order.
    Trailing ones that are not given are left to their defaults."""
    places = [name for name, parameter in accepted.items() if parameter.kind is parameter.POSITIONAL_ONLY]
    while places and places[-1] not in named:
        places.pop()
    return tuple(named.pop(name, accepted[name].default) for name in places)


def _hint(parameter: inspect.Parameter) -> Any:
    hint = parameter.annotation
    return Any if hint is parameter.empty or isinstance(hint, str) else hint


def _schema(parameter: inspect.Parameter) -> tuple[dict[str, Any], dict[str, Any]]:
    """The schema of one parameter, and the definitions that it refers to."""
    try:
        (schema,), definitions = msgspec.json.schema_components(
            [_hint(parameter)], schema_hook=_schema_hook, ref_template="#/$defs/{name}"
        )
    except Exception:  # a type that has no JSON form
        schema, definitions = {}, {}
    default = parameter.default
    if default is parameter.empty or default is None:
        return schema, definitions
    try:
        return {**schema, "default": msgspec.to_builtins(default, enc_hook=_default_hook)}, definitions
    except (NotImplementedError, TypeError, ValueError):
        # The default has no JSON form. The parameter is optional all the same.
        return schema, definitions


def _schema_hook(kind: type) -> dict[str, Any]:
    if issubclass(kind, PurePath):
        return {"type": "string"}
    raise NotImplementedError


def _default_hook(value: Any) -> Any:
    if isinstance(value, PurePath):
        return str(value)
    raise NotImplementedError


def _convert(name: str, value: Any, hint: Any) -> Any:
    try:
        return msgspec.convert(value, hint, strict=False, dec_hook=_value_hook)
    except msgspec.ValidationError as error:
        raise ToolError(f"wrong arguments: '{name}': {error}") from None
    except (TypeError, NotImplementedError):
        return value  # a type that msgspec does not support: the function gets the value as it is


def _value_hook(kind: type, value: Any) -> Any:
    if not issubclass(kind, PurePath):
        raise NotImplementedError
    if not isinstance(value, str):
        raise ValueError(f"Expected `str`, got `{type(value).__name__}`")
    return kind(value)


def _parameter_docs(function: Callable[..., Any]) -> dict[str, str]:
    """The descriptions of parameters in a docstring, in a section `Args:` or in fields `:param
    name:`."""
    text = inspect.getdoc(function) or ""
    section = _SECTION.search(text)
    items = [*_ITEM.finditer(section[1] if section else ""), *_FIELD.finditer(text)]
    return {item["name"]: " ".join(item["words"].split()) for item in items}


class ToolHost(Protocol):
    """What a tool needs of the host."""

    def workspace(self) -> Path: ...
    async def call(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any: ...


class PythonTool:
    """A Python function as a tool. `Tools` creates it for each agent that offers the function.

    If the workflow gives `parameters`, arguments are validated against that schema, and the function may
    be one whose signature says nothing."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        caller: ToolHost,
        *,
        about: str = "",
        schema: dict[str, Any] | None = None,
        source: str = "",
    ) -> None:
        self._function = function
        self._host = caller
        self._schema = schema
        problem = schema_error(schema) if schema is not None else ""
        if problem:
            raise NodeError(f"'parameters' of the tool '{name}' is no JSON Schema: {problem}")
        accepted = schema if schema is not None else parameters(function)
        self.spec = ToolSpec(name, about or description(function), accepted, source)
        self._injected = tuple(name for name in (KEY, WORKSPACE, CONTEXT) if has_parameter(function, name))

    async def call(self, arguments: dict[str, Any], key: str) -> str | LoopExit:
        first, named = await evaluate(partial(self._bind, arguments))
        injected = {name: self._inject(name, key) for name in self._injected}
        # As a partial: passed as keywords, a parameter called `function` would collide with that of
        # `call`.
        value = await self._host.call(partial(self._function, *first, **{**named, **injected}))
        if not isinstance(value, Outcome):
            return to_text(value)
        if value.jump != "break":
            raise ToolError("a tool may return a value or roundel.break_loop(…), but no other outcome")
        return LoopExit(value.messages, value.reason)

    def _bind(self, arguments: dict[str, Any]) -> BoundArguments:
        problem = validation_error(arguments, self._schema) if self._schema is not None else ""
        if problem:
            raise ToolError(f"wrong arguments: {problem}")
        return bind_arguments(self._function, arguments) if has_signature(self._function) else ((), arguments)

    def _inject(self, name: str, key: str) -> Any:
        if name == KEY:
            return key
        folder = self._host.workspace()
        return folder if name == WORKSPACE else {"python_workspace_root": folder, "idempotency_key": key}


def to_text(value: Any) -> str:
    """The return value of a function as text for a model: text as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, Message):
        return value.text
    return msgspec.json.encode(value, enc_hook=str).decode()
