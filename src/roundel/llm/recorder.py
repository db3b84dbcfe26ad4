"""Keeps what real models say as a script, so that the run can be played again without them."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import Any

from roundel.nodes.services import UNREADABLE, Model, NodeError, Reply, Request, Say, ToolRequest

WRITE_EVERY = 1.0
"""Seconds: what a killed process may lose of its record."""
SHARE = 20
"""A long record takes long to write, so it is written less often: at most this part of the time."""

_log = logging.getLogger("roundel")


class Recorder:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._said: dict[str, list[tuple[int, str, int, dict[str, Any]]]] = {}
        self._due = time.monotonic() + WRITE_EVERY
        self._clean = True
        self.problem = ""
        """Why the record is not complete, if it is not."""

    def check(self) -> None:
        """OSError if the record could not be written; what stands there is left as it is."""
        path = self._path
        if path.exists() and not path.is_file():
            raise OSError(f"the record '{path}' cannot be written: there is something that is not a file")
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(f"the record '{path}' cannot be written: it may only be read")
        part = self._part()
        try:
            part.touch()
            part.unlink()
        except OSError as error:
            raise type(error)(f"the record '{path}' cannot be written: {error.strerror}") from None

    def keep(self, request: Request, reply: Reply) -> None:
        line: dict[str, Any] = {"text": reply.text}
        if reply.data is not None:
            line["data"] = reply.data
        if reply.tool_calls:
            line["tool_calls"] = [
                {"id": call.id, "name": call.name, "arguments": _arguments(call)} for call in reply.tool_calls
            ]
        line["tokens"] = {"input": reply.input_tokens, "output": reply.output_tokens}
        self._keep(request, line)

    def keep_error(self, request: Request, error: str) -> None:
        self._keep(request, {"error": error})

    def _keep(self, request: Request, line: dict[str, Any]) -> None:
        place = {"at": request.address, **({"call": request.call} if request.call else {})}
        line = {**place, **line}
        said = self._said.setdefault(request.node_id, [])
        said.append((request.ordinal, request.address, request.call, line))
        self._clean = False
        if time.monotonic() >= self._due:
            self.write()

    def write(self) -> None:
        """The whole record; what stood there before is there until the new one is complete.

        It never raises: no run is lost because its record is."""
        if self._clean and self._path.exists():
            return
        began = time.monotonic()
        try:
            self._replace()
            self._clean, self.problem = True, ""
        except OSError as error:
            self.problem = f"the record '{self._path}' could not be written: {error.strerror or error}"
            _log.warning("%s", self.problem)
        now = time.monotonic()
        self._due = now + max(WRITE_EVERY, SHARE * (now - began))

    def _replace(self) -> None:
        import yaml

        script = {node: [line for *_, line in sorted(said, key=_order)] for node, said in self._said.items()}
        part = self._part()
        text = yaml.dump(
            script, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), allow_unicode=True, sort_keys=False
        )
        part.write_text(text, encoding="utf-8")
        part.replace(self._path)

    def _part(self) -> Path:
        return self._path.with_name(f"{self._path.name}.{os.getpid()}.part")


def _arguments(call: ToolRequest) -> Any:
    return call.problem.removeprefix(UNREADABLE) if call.problem else call.arguments


def _order(said: tuple[int, str, int, dict[str, Any]]) -> tuple[int, str, int]:
    return said[:3]


class RecordedModel:
    def __init__(self, model: Model, recorder: Recorder) -> None:
        self._model, self._recorder = model, recorder

    async def reply(self, request: Request, say: Say | None = None) -> Reply:
        try:
            reply = await self._model.reply(request, say)
        except NodeError as error:
            self._recorder.keep_error(request, str(error))
            raise
        self._recorder.keep(request, reply)
        return reply
