"""A Python function as a tool."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import msgspec

from roundel.llm.signature import CONTEXT, KEY, WORKSPACE, bound, description, lends, parameters
from roundel.nodes.services import ToolError, ToolSpec
from roundel.nodes.structured import misfit
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
        taken = schema if schema is not None else parameters(function)
        self.spec = ToolSpec(name, about or description(function), taken, source)
        self._lent = tuple(name for name in (KEY, WORKSPACE, CONTEXT) if lends(function, name))

    async def call(self, arguments: dict[str, Any], key: str) -> str:
        if self._given is not None:
            problem = misfit(arguments, self._given)
            if problem:
                raise ToolError(f"wrong arguments: {problem}")
            first: tuple[Any, ...] = ()
            named = arguments
        else:
            first, named = bound(self._function, arguments)
        named = {**named, **{name: self._lend(name, key) for name in self._lent}}
        return as_text(await self._caller.call(self._function, *first, **named))

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
