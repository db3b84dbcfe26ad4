"""What each model call of a run got: kept beside the run, for people who ask why a model said what it did.

A request is split where it reaches the model of its node (`KeepingModel`): the system text, each message,
each round of tools, the declarations of tools and the schema are one *piece* each. The id of a piece is a
digest of it, so a conversation of n calls stores each message once. A *context* is the list of these ids with
the settings of the call, and is stored in the same way; its id is in the fact of the call
(`CallRecord.context`).

    keep     a request reaches a model: masked, split, and in flight
    record   the fact of the call is recorded: it gets the id, and new pieces go to the journal with it

Nothing of this is read back by a replay: a lost piece loses a view and never a run.

*Secrets.* Pieces are masked with the masker that masks the facts. Settings whose names say that they contain
credentials are left out, and so are the contents of pictures and files.

*Limits.* Of a piece of more than MAX_PIECE bytes only the beginning and the end are stored. A run stores
`limit` bytes of pieces; of those after it, only the length and a digest are. Of nodes with
`log_output: false` only lengths are. With a limit of 0 nothing is kept at all.

*Runs without a store* keep the contexts of the calls in flight and of the last LAST_CALLS ones, with the
facts of these calls, as long as the engine knows the run.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from roundel.kernel.facts import CallRecord, Fact, Failed, Finished
from roundel.nodes.services import Exchange, Model, Reply, Request, StreamCallback
from roundel.workflow.message import Block, Message
from roundel.workflow.secrets import SecretMasker, is_secret_name

CONTEXT_BYTES = 64_000_000
"""The bytes of pieces that a run stores, unless its host says otherwise."""
MAX_PIECE = 256_000
HEAD, TAIL = 192_000, 32_000
"""What is stored of the text of a larger piece, in bytes."""
LAST_CALLS = 50
"""The calls whose contexts a run without a store keeps."""
MAX_KNOWN = 1_000
"""The pieces of which a run remembers that they are stored. Those of the last context always are among them;
one that is stored again costs time and changes nothing."""
MAX_ADDRESSES = 1_000
"""The addresses of which a run without a store remembers how many calls were made there."""
UNMASKED = frozenset({"kind", "role"})

PieceKind = Literal["system", "message", "exchange", "tools", "schema"]
LeftOut = Literal["", "limit", "log_output", "unreadable"]


class Piece(Struct, frozen=True, omit_defaults=True):
    """A part of what a model got. `split` creates it."""

    kind: PieceKind
    role: str = ""
    source: str = ""
    """The node that sent the message."""
    text: str | None = None
    value: Any = None
    """What is no text: the parts of a message, the calls and results of a round, tools, a schema."""
    bytes: int = 0
    """The length of the whole, of a piece that is not complete."""
    digest: str = ""
    """The digest of the whole, of a piece that is not complete."""
    cut: int = 0
    """How many bytes are missing in the middle of the text."""
    left_out: LeftOut = ""
    """Why there is neither text nor value: the run kept enough already, its node must not be logged, or it
    cannot be written as JSON."""

    @property
    def shown(self) -> str:
        """The piece as a text."""
        if self.text is not None or self.left_out:
            return self.text or ""
        return msgspec.json.format(msgspec.json.encode(self.value), indent=2).decode()


class ContextPieces(Struct, frozen=True, omit_defaults=True):
    """What one call got, as the ids of its pieces. Models get them in the order of these fields."""

    system: str = ""
    messages: tuple[str, ...] = ()
    exchanges: tuple[str, ...] = ()
    """The rounds of tools so far."""
    after: tuple[str, ...] = ()
    """Messages behind them: earlier answers, and instructions to repair or reflect."""
    tools: str = ""
    schema: str = ""
    params: dict[str, Any] = {}
    may_call: bool = True
    """Whether the model may use the tools."""
    speakers: bool = True
    """Whether it is told who said what, where several nodes speak to it."""

    @property
    def pieces(self) -> list[str]:
        """The ids of all pieces, each once."""
        ids = (self.system, self.tools, self.schema, *self.messages, *self.exchanges, *self.after)
        return list(dict.fromkeys(filter(None, ids)))


class KeptContext(NamedTuple):
    """The context of a call, with everything that it consists of."""

    id: str
    context: ContextPieces
    lines: Mapping[str, bytes]
    """The context and its pieces as JSON, by id."""


class EndedCall(NamedTuple):
    """A call of a run without a store."""

    number: int
    """Its number among the calls at its address, from 1."""
    fact: Finished | Failed
    kept: KeptContext


_encoder = msgspec.json.Encoder(enc_hook=repr)
_read_piece = msgspec.json.Decoder(Piece).decode
_read_context = msgspec.json.Decoder(ContextPieces).decode


UNREADABLE = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)
"""What encoding raises."""


def _id(line: bytes) -> str:
    return blake2b(line, digest_size=16).hexdigest()


def read_piece(line: bytes | None) -> Piece | None:
    """A piece; None if it is missing or damaged."""
    try:
        return None if line is None else _read_piece(line)
    except msgspec.MsgspecError:
        return None


def read_context(line: bytes | None) -> ContextPieces | None:
    """A context; None if it is missing or damaged."""
    try:
        return None if line is None else _read_context(line)
    except msgspec.MsgspecError:
        return None


class Splitter:
    """Splits requests into pieces, without secrets. Created by RunContexts."""

    def __init__(self, secrets: SecretMasker) -> None:
        self._secrets = secrets

    def split(
        self, request: Request, params: Mapping[str, Any], logs: bool
    ) -> tuple[ContextPieces, dict[str, bytes]]:
        """The context of a request, and its pieces as lines of JSON, by id. Without `logs` they have only
        lengths."""
        lines: dict[str, bytes] = {}

        def add(piece: Piece) -> str:
            line = self._line(piece)
            if not logs:
                line = _encoder.encode(replace(_emptied(piece, line, "log_output"), digest=""))
            key = _id(line)
            lines[key] = line
            return key

        context = ContextPieces(
            add(Piece("system", text=request.system)) if request.system else "",
            tuple(add(_message(message)) for message in request.messages),
            tuple(add(_exchange(exchange)) for exchange in request.exchanges),
            tuple(add(_message(message)) for message in request.after),
            add(Piece("tools", value=[_tool(tool) for tool in request.tools])) if request.tools else "",
            add(Piece("schema", value=request.schema)) if request.schema is not None else "",
            self._settings({**params, **request.params}),
            request.may_call,
            request.speakers,
        )
        return context, lines

    def _settings(self, params: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = self._secrets.mask_value(without_credentials(params))
        try:
            _encoder.encode(found)
        except UNREADABLE:
            return {}
        return found

    def _line(self, piece: Piece) -> bytes:
        try:
            line = _encoder.encode(piece)
            # As with facts: the encoded line is searched in one pass, and masked only if something was found.
            if self._secrets.found_in(line):
                line = _encoder.encode(self._secrets.mask_value(piece, UNMASKED))
        except UNREADABLE:
            # Half of a surrogate pair, say. The call itself decides whether that is an error.
            return _encoder.encode(Piece(piece.kind, piece.role, left_out="unreadable"))
        return line


def _message(message: Message) -> Piece:
    content = message.content
    if isinstance(content, str):
        return Piece("message", message.role, message.source, content)
    return Piece("message", message.role, message.source, value=[_part(block) for block in content])


def _part(block: Block) -> dict[str, Any]:
    """A block without the content of a picture or a file."""
    found: dict[str, Any] = {"type": block.type}
    if block.type == "text":
        return found | {"text": block.text}
    if block.type == "data":
        return found | {"data": block.data}
    if block.url and not block.url.startswith("data:"):
        found["url"] = block.url
    content = block.url[len("data:") :] if "url" not in found and block.url else block.data
    if content is not None:
        raw = content if isinstance(content, bytes) else str(content).encode("utf-8", "surrogatepass")
        found |= {"bytes": len(raw), "digest": _id(raw)}
    return found | ({"media_type": block.media_type} if block.media_type else {})


def _exchange(exchange: Exchange) -> Piece:
    reply = exchange.reply
    calls = [
        {"id": call.id, "name": call.name, "arguments": call.arguments}
        | ({"problem": call.problem} if call.problem else {})
        for call in reply.tool_calls
    ]
    results = [
        {"id": one.id, "name": one.name, "status": one.status, "text": one.text} for one in exchange.results
    ]
    return Piece("exchange", value={"text": reply.text, "tool_calls": calls, "results": results})


def _tool(spec: Any) -> dict[str, Any]:
    return {"name": spec.name, "description": spec.description, "parameters": spec.parameters}


def without_credentials(params: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a model without those that may contain a key: headers, and texts with the name of a
    secret. `max_tokens` stays, since it is a number."""
    return {
        name: without_credentials(value) if isinstance(value, dict) else value
        for name, value in params.items()
        if "header" not in name.lower() and not (isinstance(value, str) and is_secret_name(name))
    }


def _emptied(piece: Piece, line: bytes, why: LeftOut) -> Piece:
    """A piece of which only the length and the digest are known."""
    return Piece(piece.kind, piece.role, piece.source, bytes=_length(piece), digest=_id(line), left_out=why)


def _length(piece: Piece) -> int:
    """The bytes of the text, or of the value as JSON."""
    if piece.text is not None:
        return len(piece.text.encode("utf-8", "surrogatepass"))
    return len(_encoder.encode(piece.value))


def _cut(line: bytes) -> bytes:
    """A large piece with the beginning and the end of its text."""
    piece = _read_piece(line)
    whole = (piece.text if piece.text is not None else piece.shown).encode()
    if len(whole) <= HEAD + TAIL:  # escaped, it is longer
        return line
    head, tail = (part.decode(errors="ignore") for part in (whole[:HEAD], whole[-TAIL:]))
    missing = len(whole) - HEAD - TAIL
    text = f"{head}\n[… {missing:,} bytes are not stored …]\n{tail}"
    kept = Piece(piece.kind, piece.role, piece.source, text, None, len(whole), _id(line), missing)
    return _encoder.encode(kept)


class RunContexts:
    """The contexts of one run, while this process executes it. Created by LocalRun."""

    def __init__(self, secrets: SecretMasker, limit: int = CONTEXT_BYTES) -> None:
        self.limit = limit
        self._is_stored = False
        """Whether new pieces are handed to a journal; else the last ones stay here."""
        self._used = 0
        """The bytes of pieces that the run has stored."""
        self.in_flight: dict[str, KeptContext] = {}
        """By address."""
        self._splitter = Splitter(secrets)
        self._known: dict[str, None] = {}
        """The ids of what is stored, the one that was used last at the end."""
        self._last: deque[EndedCall] = deque()
        self._lines: dict[str, bytes] = {}
        """What the last calls of a run without a store got, each piece once."""
        self._uses: Counter[str] = Counter()
        """How many of these calls each of them belongs to."""
        self._numbers: dict[str, int] = {}
        """How many calls were made at an address, without a store."""

    def use_journal(self, used: int) -> None:
        """New pieces are stored from now on; the run has stored so many bytes of them."""
        self._is_stored, self._used = True, used

    def keep(self, request: Request, params: Mapping[str, Any], logs: bool) -> None:
        """A request reaches a model."""
        if not self.limit:
            return
        context, found = self._splitter.split(request, params, logs)
        lines = {
            key: self._lines.get(key) or (line if len(line) <= MAX_PIECE else _cut(line))
            for key, line in found.items()
        }
        line = _encoder.encode(context)
        context_id = _id(line)
        lines[context_id] = line
        self.in_flight[request.address] = KeptContext(context_id, context, lines)

    def forget(self, address: str) -> None:
        """The call at an address was cancelled."""
        self.in_flight.pop(address, None)

    def record(self, fact: Finished | Failed) -> tuple[Fact, dict[str, bytes]]:
        """The fact of a call with the id of what the call got, and what has to be stored with it."""
        kept = self.in_flight.pop(fact.address, None)
        if kept is None:
            return fact, {}
        if isinstance(fact, Finished):
            call = replace(fact.outcome.call or CallRecord(0), context=kept.id)
            fact = replace(fact, outcome=replace(fact.outcome, call=call))
        else:
            fact = replace(fact, call=replace(fact.call or CallRecord(0), context=kept.id))
        if self._is_stored:
            return fact, self._new(kept)
        self._remember(fact, kept)
        return fact, {}

    def _new(self, kept: KeptContext) -> dict[str, bytes]:
        """What is not stored yet."""
        known, new = self._known, {}
        for key, line in kept.lines.items():
            if key in known:
                del known[key]
            else:
                is_full = key != kept.id and self._used + len(line) > self.limit
                new[key] = _without_text(key, line) if is_full else line
                self._used += len(new[key])
            known[key] = None
        while len(known) > max(MAX_KNOWN, 2 * len(kept.lines)):
            del known[next(iter(known))]
        return new

    # Without a store.

    def _remember(self, fact: Finished | Failed, kept: KeptContext) -> None:
        number = self._numbers.pop(fact.address, 0) + 1
        self._numbers[fact.address] = number
        if len(self._numbers) > MAX_ADDRESSES:
            del self._numbers[next(iter(self._numbers))]
        self._last.append(EndedCall(number, fact, kept))
        self._lines.update(kept.lines)
        self._uses.update(kept.lines.keys())
        if len(self._last) > LAST_CALLS:
            for key in self._last.popleft().kept.lines:
                self._uses[key] -= 1
                if not self._uses[key]:
                    del self._uses[key], self._lines[key]

    def ended(self, address: str) -> Sequence[EndedCall]:
        """The last calls at an address, of a run without a store."""
        return [call for call in self._last if call.fact.address == address]


def _without_text(key: str, line: bytes) -> bytes:
    """What is stored of a piece of a run that has stored enough."""
    piece = _read_piece(line)
    if piece.left_out:
        return line
    length = piece.bytes or _length(piece)
    emptied = Piece(piece.kind, piece.role, piece.source, bytes=length, digest=key, left_out="limit")
    return _encoder.encode(emptied)


class KeepingModel:
    """The model of a node, for a run that keeps what its models get. Created by NodeServices."""

    def __init__(self, model: Model, contexts: RunContexts, params: Mapping[str, Any], logs: bool) -> None:
        self._model, self._contexts, self._params, self._logs = model, contexts, params, logs

    async def reply(self, request: Request, say: StreamCallback | None = None) -> Reply:
        self._contexts.keep(request, self._params, self._logs)
        return await self._model.reply(request, say)
