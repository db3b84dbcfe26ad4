"""Replies that are kept, by choice, so that the same request is paid for once."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

import msgspec

from roundel.nodes.services import Model, Reply, Request, Say

_encoder = msgspec.json.Encoder(order="sorted")
_decoder = msgspec.json.Decoder(Reply)


class CachedModel:
    def __init__(self, model: Model, label: str, folder: Path) -> None:
        self._model, self._label, self._folder = model, label, folder

    async def reply(self, request: Request, say: Say | None = None) -> Reply:
        path = self._folder / f"{self._digest(request)}.json"
        kept = _read(path)
        if kept is not None:
            return kept
        reply = await self._model.reply(request, say)
        _write(path, reply)
        return reply

    def _digest(self, request: Request) -> str:
        """Of all that the model is sent, and nothing else."""
        sent = (
            self._label,
            request.system,
            request.messages,
            request.params,
            request.exchanges,
            request.after,
            request.tools,
            request.may_call,
            request.schema,
        )
        return hashlib.sha256(_encoder.encode(sent)).hexdigest()


def _read(path: Path) -> Reply | None:
    try:
        kept = _decoder.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError):
        return None  # not there, or half written: ask again
    return msgspec.structs.replace(kept, cached=True)


def _write(path: Path, reply: Reply) -> None:
    """Whole or not at all; a cache that cannot be written is no reason to fail."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_bytes(_encoder.encode(reply))
        part.replace(path)
