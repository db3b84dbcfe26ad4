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
    Bound,
    bound,
    description,
    is_known,
    lends,
    parameters,
)
from roundel.nodes.services import NodeError, ToolError, ToolSpec
from roundel.nodes.structured import misfit, schema_problem
from roundel.workflow.message import Message


class Caller(Protocol):
    """What a tool needs of the host."""

    def workspace(self) -> Path: ...
    async def call(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any: ...


class PythonTool:
    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        caller: Caller,
        *,
        about: str = "",
        schema: dict[str, Any] | None = None,
        source: str = "",
    ) -> None:
        self._function = function
        self._caller = caller
        self._given = schema
        problem = schema_problem(schema) if schema is not None else ""
        if problem:
            raise NodeError(f"'parameters' of the tool '{name}' is no JSON Schema: {problem}")
        taken = schema if schema is not None else parameters(function)
        self.spec = ToolSpec(name, about or description(function), taken, source)
        self._lent = tuple(name for name in (KEY, WORKSPACE, CONTEXT) if lends(function, name))

    async def call(self, arguments: dict[str, Any], key: str) -> str:
        first, named = self._bound(arguments)
        lent = {name: self._lend(name, key) for name in self._lent}
        # In one piece, since a function may have parameters of any name.
        return as_text(await self._caller.call(partial(self._function, *first, **{**named, **lent})))

    def _bound(self, arguments: dict[str, Any]) -> Bound:
        problem = misfit(arguments, self._given) if self._given is not None else ""
        if problem:
            raise ToolError(f"wrong arguments: {problem}")
        return bound(self._function, arguments) if is_known(self._function) else ((), arguments)

    def _lend(self, name: str, key: str) -> Any:
        if name == KEY:
            return key
        folder = self._caller.workspace()
        return folder if name == WORKSPACE else {"python_workspace_root": folder, "idempotency_key": key}


def as_text(value: Any) -> str:
    """What a function gave, for a model to read."""
    if isinstance(value, str):
        return value
    if isinstance(value, Message):
        return value.text
    return msgspec.json.encode(value, enc_hook=str).decode()
