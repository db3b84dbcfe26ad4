"""Keeps what real models say as a script, so that the run can be played again without them."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import Any

from roundel.nodes.services import (
    UNREADABLE,
    Model,
    NodeError,
    Reply,
    Request,
    Say,
    Toolbox,
    ToolRequest,
    ToolResult,
    ToolSpec,
)
from roundel.workflow.secrets import Secrets

WRITE_INTERVAL = 1.0
"""Seconds: what a killed process may lose of its record."""
MAX_WRITE_SHARE = 20
"""A long record takes long to write, so it is written less often: at most this part of the time."""

_OUTCOME_KEYS = {"result", "error"}
_log = logging.getLogger("roundel")


class ScriptRecorder:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._replies: dict[str, list[tuple[int, str, int, dict[str, Any]]]] = {}
        self._due = time.monotonic() + WRITE_INTERVAL
        self._is_saved = True
        self.problem = ""
        """Why the record is not complete, if it is not."""

    def check(self) -> None:
        """OSError if the record could not be written; what stands there is left as it is."""
        path = self._path
        if path.exists() and not path.is_file():
            raise OSError(f"the record '{path}' cannot be written: there is something that is not a file")
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(f"the record '{path}' cannot be written: it may only be read")
        part = self._temporary_path()
        try:
            part.touch()
            part.unlink()
        except OSError as error:
            raise type(error)(f"the record '{path}' cannot be written: {error.strerror}") from None

    def record_reply(self, request: Request, reply: Reply) -> None:
        line: dict[str, Any] = {"text": reply.text}
        if reply.data is not None:
            line["data"] = reply.data
        if reply.tool_calls:
            line["tool_calls"] = [
                {"id": call.id, "name": call.name, "arguments": _recorded_arguments(call)}
                for call in reply.tool_calls
            ]
        line["tokens"] = {"input": reply.input_tokens, "output": reply.output_tokens}
        self._record(request, line)

    def record_error(self, request: Request, error: str) -> None:
        self._record(request, {"error": error})

    def record_tool_result(self, node_id: str, result: ToolResult) -> None:
        """What came of a call that only a server can answer, which a run by this record does not start."""
        for *_, line in reversed(self._replies.get(node_id, [])):
            for call in line.get("tool_calls", ()):
                if (call["id"], call["name"]) == (result.id, result.name) and not call.keys() & _OUTCOME_KEYS:
                    completed = result.status == "completed"
                    call.update({"result": result.text} if completed else {"error": result.text or "failed"})
                    self._is_saved = False
                    return

    def _record(self, request: Request, line: dict[str, Any]) -> None:
        place = {"at": request.address, **({"call": request.call} if request.call else {})}
        line = {**place, **line}
        replies = self._replies.setdefault(request.node_id, [])
        replies.append((request.ordinal, request.address, request.call, line))
        self._is_saved = False
        if time.monotonic() >= self._due:
            self.write()

    def write(self) -> None:
        """The whole record; what stood there before is there until the new one is complete.

        It never raises: no run is lost because its record is."""
        if self._is_saved and self._path.exists():
            return
        began = time.monotonic()
        try:
            self._replace()
            self._is_saved, self.problem = True, ""
        except OSError as error:
            self.problem = f"the record '{self._path}' could not be written: {error.strerror or error}"
            _log.warning("%s", self.problem)
        now = time.monotonic()
        self._due = now + max(WRITE_INTERVAL, MAX_WRITE_SHARE * (now - began))

    def _replace(self) -> None:
        import yaml

        script = {
            node: [line for *_, line in sorted(replies, key=_sort_key)]
            for node, replies in self._replies.items()
        }
        part = self._temporary_path()
        text = yaml.dump(
            script, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), allow_unicode=True, sort_keys=False
        )
        part.write_text(text, encoding="utf-8")
        part.replace(self._path)

    def _temporary_path(self) -> Path:
        return self._path.with_name(f"{self._path.name}.{os.getpid()}.part")


def _recorded_arguments(call: ToolRequest) -> Any:
    return call.problem.removeprefix(UNREADABLE) if call.problem else call.arguments


def _sort_key(replies: tuple[int, str, int, dict[str, Any]]) -> tuple[int, str, int]:
    return replies[:3]


class RecordedModel:
    def __init__(self, model: Model, recorder: ScriptRecorder, secrets: Secrets) -> None:
        self._model, self._recorder, self._secrets = model, recorder, secrets

    async def reply(self, request: Request, say: Say | None = None) -> Reply:
        try:
            reply = await self._model.reply(request, say)
        except NodeError as error:
            self._recorder.record_error(request, self._secrets.mask(str(error)))
            raise
        self._recorder.record_reply(request, self._secrets.masked(reply))
        return reply


class RecordedTools:
    """The tools of one agent, whose calls of servers are kept: a script answers for these too."""

    def __init__(self, tools: Toolbox, recorder: ScriptRecorder, node_id: str) -> None:
        self._tools, self._recorder, self._node_id = tools, recorder, node_id

    async def specs(self) -> tuple[ToolSpec, ...]:
        return await self._tools.specs()

    async def check_request(self, request: ToolRequest) -> ToolRequest:
        return await self._tools.check_request(request)

    async def call(self, request: ToolRequest, key: str) -> tuple[ToolResult, bool]:
        result, called = await self._tools.call(request, key)
        if called and self._tools.is_remote(request.name):
            self._recorder.record_tool_result(self._node_id, result)
        return result, called

    def is_remote(self, name: str) -> bool:
        return self._tools.is_remote(name)
