"""Keeps what real models say as a script, so that the run can be played again without them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from roundel.nodes.services import Model, Reply, Request, Say

WRITE_EVERY = 1.0
"""Seconds: what a killed process may lose of its record."""


class Recorder:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._said: dict[str, list[tuple[int, str, int, dict[str, Any]]]] = {}
        self._written = time.monotonic()
        self._clean = True

    def keep(self, request: Request, reply: Reply) -> None:
        line: dict[str, Any] = {"at": request.address}
        if request.call:
            line["call"] = request.call
        line["text"] = reply.text
        if reply.data is not None:
            line["data"] = reply.data
        if reply.tool_calls:
            line["tool_calls"] = [
                {"id": call.id, "name": call.name, "arguments": call.arguments} for call in reply.tool_calls
            ]
        line["tokens"] = {"input": reply.input_tokens, "output": reply.output_tokens}
        said = self._said.setdefault(request.node_id, [])
        said.append((request.ordinal, request.address, request.call, line))
        self._clean = False
        if time.monotonic() - self._written >= WRITE_EVERY:
            self.write()

    def write(self) -> None:
        """The whole record; what stood there before is there until the new one is complete."""
        self._written = time.monotonic()
        if self._clean and self._path.exists():
            return
        import yaml

        script = {node: [line for *_, line in sorted(said, key=_order)] for node, said in self._said.items()}
        part = self._path.with_name(f"{self._path.name}.{os.getpid()}.part")
        part.write_text(yaml.safe_dump(script, allow_unicode=True, sort_keys=False), encoding="utf-8")
        part.replace(self._path)
        self._clean = True


def _order(said: tuple[int, str, int, dict[str, Any]]) -> tuple[int, str, int]:
    return said[:3]


class RecordedModel:
    def __init__(self, model: Model, recorder: Recorder) -> None:
        self._model, self._recorder = model, recorder

    async def reply(self, request: Request, say: Say | None = None) -> Reply:
        reply = await self._model.reply(request, say)
        self._recorder.keep(request, reply)
        return reply
