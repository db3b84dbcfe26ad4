"""Replies that are kept, by choice, so that the same request is paid for once."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path
from typing import Any

import msgspec

from roundel.nodes.services import Exchange, Model, Reply, Request, Say
from roundel.workflow.message import Message
from roundel.workflow.profile import Profile
from roundel.workflow.secrets import Secrets

_encoder = msgspec.json.Encoder(order="sorted")
_decoder = msgspec.json.Decoder(Reply)


class CachedModel:
    def __init__(self, model: Model, profile: Profile, folder: Path, secrets: Secrets) -> None:
        self._model, self._folder, self._secrets = model, folder, secrets
        self._label = ":".join(profile.named)
        self._model_key = (self._label, profile.base_url, profile.params)

    async def reply(self, request: Request, say: Say | None = None) -> Reply:
        path = self._folder / f"{self._digest(request)}.json"
        stored = _read_reply(path)
        if stored is not None:
            return stored
        reply = await self._model.reply(request, say)
        if reply.model == self._label:  # what a model behind it said is no answer of its own
            try:
                _write_reply(path, self._secrets.masked(msgspec.structs.replace(reply, trouble=())))
            except OSError as error:  # no reason to fail, but the next time costs as much again
                warning = f"the reply could not be put into the cache: {error}"
                return msgspec.structs.replace(reply, trouble=(*reply.trouble, warning))
        return reply

    def _digest(self, request: Request) -> str:
        """Of all that the model is sent, and nothing else."""
        sent = (
            self._model_key,
            request.system,
            [_message_key(message) for message in request.messages],
            request.params,
            [_exchange_key(exchange) for exchange in request.exchanges],
            [_message_key(message) for message in request.after],
            request.tools,
            request.may_call,
            request.schema,
        )
        return hashlib.sha256(_encoder.encode(sent)).hexdigest()


def _message_key(message: Message) -> tuple[Any, ...]:
    return message.role, message.content


def _exchange_key(exchange: Exchange) -> tuple[Any, ...]:
    reply = exchange.reply
    return reply.text, reply.tool_calls, reply.raw, exchange.results


def _read_reply(path: Path) -> Reply | None:
    try:
        stored = _decoder.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError):
        return None  # not there, or half written: ask again
    return msgspec.structs.replace(stored, cached=True)


def _write_reply(path: Path, reply: Reply) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}.part")
    part.write_bytes(_encoder.encode(reply))
    part.replace(path)
