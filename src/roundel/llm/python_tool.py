"""A Python function as a tool."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import msgspec

from roundel.llm.signature import (
    CONTEXT,
    KEY,
    WORKSPACE,
    BoundArguments,
    bind_arguments,
    description,
    has_parameter,
    has_signature,
    parameters,
)
from roundel.nodes.services import NodeError, ToolError, ToolSpec
from roundel.nodes.structured import misfit, schema_problem
from roundel.workflow.message import Message


class ToolHost(Protocol):
    """What a tool needs of the host."""

    def workspace(self) -> Path: ...
    async def call(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any: ...


class PythonTool:
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
        problem = schema_problem(schema) if schema is not None else ""
        if problem:
            raise NodeError(f"'parameters' of the tool '{name}' is no JSON Schema: {problem}")
        accepted = schema if schema is not None else parameters(function)
        self.spec = ToolSpec(name, about or description(function), accepted, source)
        self._injected = tuple(name for name in (KEY, WORKSPACE, CONTEXT) if has_parameter(function, name))

    async def call(self, arguments: dict[str, Any], key: str) -> str:
        first, named = self._bind(arguments)
        injected = {name: self._inject(name, key) for name in self._injected}
        # In one piece, since a function may have parameters of any name.
        return to_text(await self._host.call(partial(self._function, *first, **{**named, **injected})))

    def _bind(self, arguments: dict[str, Any]) -> BoundArguments:
        problem = misfit(arguments, self._schema) if self._schema is not None else ""
        if problem:
            raise ToolError(f"wrong arguments: {problem}")
        return bind_arguments(self._function, arguments) if has_signature(self._function) else ((), arguments)

    def _inject(self, name: str, key: str) -> Any:
        if name == KEY:
            return key
        folder = self._host.workspace()
        return folder if name == WORKSPACE else {"python_workspace_root": folder, "idempotency_key": key}


def to_text(value: Any) -> str:
    """What a function gave, for a model to read."""
    if isinstance(value, str):
        return value
    if isinstance(value, Message):
        return value.text
    return msgspec.json.encode(value, enc_hook=str).decode()
