"""What one call of a model or a tool got and returned: `read_call`.

The fact of a call says how it went and names its context (hosts/contexts.py), whose pieces are stored beside
the facts. The facts are searched for those at the address of the call, in small pages: no index leads to
them. A fork has the facts of the run that it was forked from, and finds their pieces there.

The calls of an execution are numbered from 1 in the order in which they ended, failed ones included; the one
in flight is the last. Only the process that makes it knows what it got.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from roundel.hosts.contexts import (
    ContextPieces,
    LeftOut,
    Piece,
    RunContexts,
    read_context,
    read_piece,
)
from roundel.hosts.engine import Engine
from roundel.hosts.stored_run import pinned_plan
from roundel.journal.store import NoRun, Store, StoreError
from roundel.kernel.commands import Ask, Call
from roundel.kernel.events import is_over
from roundel.kernel.facts import (
    Answered,
    Attempt,
    CallRecord,
    Expired,
    Fact,
    Failed,
    Finished,
    Revised,
    Usage,
    decode_entry,
)
from roundel.kernel.state import Execution
from roundel.nodes.agent import FAILED_CALL
from roundel.nodes.agent_conversation import CONTEXT, ToolUse, call_labels, read_decision
from roundel.nodes.services import Reply, ToolRequest
from roundel.plan.address import Place, parse
from roundel.plan.graph import Plan
from roundel.workflow.address import AddressError, Path, text

PAGE = 32
"""Facts that are read at once."""
PIECES = 64
"""Pieces that are read at once."""
MAX_ANCESTORS = 100
"""How many forks of forks are followed to the run that has a piece."""
PAGE_CHARACTERS = 64_000
"""The characters of a page of a text."""
PART_CHARACTERS = 16_000
ANSWER_CHARACTERS = 512_000
"""How much of one text, and of all texts together, a shortened answer has."""
MAX_PARTS = 2_000
"""How many messages and rounds of tools a shortened answer lists."""

NOT_KEPT = "what this call got was not kept"
NOT_STORED = "it is not stored any more"
AT_ITS_EDGE = "the call is about to begin, or has just ended"
ELSEWHERE = "the call is in flight in another process"
WHY: dict[LeftOut, str] = {
    "limit": "the run had kept as much as it may (--context-bytes), so only the length is stored",
    "log_output": "the node has `log_output: false`, so only lengths are stored",
    "unreadable": "it is no valid text",
}


class NoCall(StoreError):
    """There is no such call in the run."""


PartKind = Literal[
    "system", "message", "exchange", "tools", "schema", "reply", "arguments", "approved", "result", "missing"
]


class CallPart(Struct, frozen=True, omit_defaults=True):
    """A part of what a call got or returned."""

    piece: str
    """Its name, with which its text can be read in pages."""
    kind: PartKind
    """What it is; `missing` if it is not stored any more."""
    role: str = ""
    """`user`, `assistant` or `system`, for a message."""
    source: str = ""
    """The id of the node that sent the message."""
    text: str = ""
    """Its text."""
    value: Any = None
    """What is no text: the blocks of a message, the calls and results of a round of tools, arguments, a
    schema."""
    bytes: int = 0
    """Its length, if it is not complete."""
    cut: int = 0
    """How many bytes are missing in the middle."""
    more: bool = False
    """The answer has only the beginning of the text, or nothing of it; `?piece=` reads all of it."""
    why: str = ""
    """Why it is not complete."""

    @property
    def shown(self) -> str:
        """The part as a text."""
        if self.text or self.value is None:
            return self.text
        return msgspec.json.format(msgspec.json.encode(self.value, enc_hook=repr), indent=2).decode()


class TextPage(Struct, frozen=True):
    """A page of the text of a part."""

    piece: str
    """The name of the part."""
    offset: int
    """Where the page begins, in characters."""
    text: str
    """The page."""
    length: int
    """The characters of the whole text."""
    next: int | None
    """The offset of the next page; null on the last one."""


class CallDetails(Struct, frozen=True, kw_only=True):
    """One call of a model or a tool: what it got, and how it went."""

    run_id: str
    """The id of the run."""
    address: str
    """The address of the call."""
    node_id: str
    """The id of the node that made it."""
    path: Path
    """What is around the node, as in events."""
    part: str = ""
    """The part of a dynamic edge."""
    kind: Literal["model", "tool"]
    """What was called."""
    call: int
    """Its number among the calls at its address, from 1."""
    calls: int
    """How many calls there are at the address."""
    state: Literal["in_flight", "ended"]
    """Whether it has ended."""
    complete: bool
    """Whether all that it got is here."""
    why: str = ""
    """Why not."""
    # A call of a model.
    model: str = ""
    """The model that answered, as `provider:name`."""
    params: dict[str, Any] = {}
    """The settings that the model got, without keys and headers."""
    may_call: bool = True
    """Whether the model might use the tools."""
    speakers: bool = True
    """Whether the model was told who said what, where several nodes spoke to it."""
    system: CallPart | None = None
    """The system text."""
    messages: tuple[CallPart, ...] = ()
    """The messages, the oldest first."""
    exchanges: tuple[CallPart, ...] = ()
    """The rounds of tools behind them: what the model said, its calls and their results."""
    after: tuple[CallPart, ...] = ()
    """The messages behind those: earlier answers, and instructions to repair or reflect."""
    tools: CallPart | None = None
    """The declarations of the tools."""
    schema: CallPart | None = None
    """The JSON Schema of the answer."""
    omitted: int = 0
    """How many messages and rounds in the middle are not listed."""
    reply: CallPart | None = None
    """What the model answered: its text, and in `value` its `data` and `tool_calls`."""
    usage: Usage | None = None
    """What the call used."""
    stop: str = ""
    """Why the model stopped."""
    # A call of a tool.
    tool: str = ""
    """The name of the tool."""
    status: str = ""
    """How the call of the tool ended, as in `tool_call`; `waiting` for a person, or `running`."""
    arguments: CallPart | None = None
    """The arguments that the model asked for."""
    approved: CallPart | None = None
    """The arguments that a person allowed, if one was asked."""
    by: str = ""
    """Who decided about the call."""
    result: CallPart | None = None
    """What the tool returned."""
    # Both.
    attempts: tuple[Attempt, ...] = ()
    """The failed attempts before the last one."""
    seconds: float | None = None
    """The time inside the provider or the tool; null if it is not known."""
    first_token: float | None = None
    """Seconds until the first part of a streamed answer."""
    error: str = ""
    """Why it failed."""
    error_type: str = ""
    """The kind of the failure."""

    @property
    def parts(self) -> Iterator[CallPart]:
        """All parts, those that matter most first."""
        single = (
            self.reply,
            self.arguments,
            self.approved,
            self.result,
            self.system,
            self.schema,
            self.tools,
        )
        yield from (part for part in single if part is not None)
        yield from reversed((*self.messages, *self.exchanges, *self.after))


# Reading.


class _Source(NamedTuple):
    """Where the parts of a call are found."""

    run_id: str
    store: Store | None
    """None for a run that is not stored."""
    contexts: RunContexts | None
    """Of the process that executes the run, if it is this one."""
    plan: Plan
    calls: Mapping[str, Execution]
    """The calls in flight, by address."""
    is_current: bool = True
    """Whether this is the plan of the last retry with changes, if there was one."""


class _OtherPlan(Exception):
    """The run was retried with changes, so its plan is another one."""


async def read_call(
    engine: Engine, store: Callable[[], Store], run_id: str, address: str, call: int | None
) -> CallDetails:
    """A call of a run, by its address and number; None for the last one. NoCall; StoreError if the run was
    pruned."""
    contexts = engine.contexts(run_id)
    row = await store().row(run_id, excerpt=True) if contexts is None else None
    if row is not None and row.pruned:
        raise StoreError(
            f"run {run_id} was pruned to its rounds '{row.pruned}', and what its calls got was deleted"
        )
    if row is not None and is_over(row.status):
        # Nothing is in flight, so the run need not be replayed.
        plan = await asyncio.to_thread(pinned_plan, await store().pinned(run_id))
        with contextlib.suppress(NoCall, _OtherPlan):
            return await _read(_Source(run_id, store(), None, plan, {}, False), address, call)
    seen = await engine.inspect(run_id)
    is_stored = seen.pinned is not None
    source = _Source(run_id, store() if is_stored else None, contexts, seen.plan, seen.state.calls)
    return await _read(source, address, call)


async def _read(source: _Source, address: str, call: int | None) -> CallDetails:
    place = _place(source, address)
    if place.call is not None and place.call.label != CONTEXT:
        return await _tool_call(source, address, place, call)
    return await _model_call(source, address, place, call)


def _place(source: _Source, address: str) -> Place:
    try:
        place = parse(address, source.plan)
    except AddressError as error:
        raise NoCall(f"run {source.run_id} has no call at '{address}': {error}") from None
    if place.is_round or (place.call is not None and not place.call.label):
        raise NoCall(f"'{address}' is a round; give the address of a node or of a tool call in it")
    return place


async def _facts_at(source: _Source, *addresses: str) -> dict[str, list[Fact]]:
    """The facts at these addresses that count: those before a retry with changes are in its fact."""
    found: dict[str, list[Fact]] = {address: [] for address in addresses}
    store, first = source.store, 0
    if store is None:
        return found
    there = (await store.row(source.run_id, excerpt=True)).facts
    while first < there:
        page = range(first, min(first + PAGE, there))
        entries = await store.entries_at(source.run_id, page)
        for number in page:
            fact = entries[number].fact
            if isinstance(fact, Revised):
                if not source.is_current:
                    raise _OtherPlan
                found = await asyncio.to_thread(_in_revision, fact, addresses)
            elif (at := getattr(fact, "address", None)) in found:
                found[at].append(fact)
        first = page.stop
        await asyncio.sleep(0)  # a store in memory would not let others run
    return found


def _in_revision(revised: Revised, addresses: Iterable[str]) -> dict[str, list[Fact]]:
    found: dict[str, list[Fact]] = {address: [] for address in addresses}
    written = [msgspec.json.encode(address).decode() for address in addresses]
    for line in revised.entries:
        if any(each in line for each in written):
            fact = decode_entry(line.encode()).fact
            at = getattr(fact, "address", None)
            if at in found:
                found[at].append(fact)
    return found


class _Ended(NamedTuple):
    """A call that has ended, as far as this process knows of it."""

    number: int
    fact: Finished | Failed


async def _model_call(source: _Source, address: str, place: Place, call: int | None) -> CallDetails:
    contexts = source.contexts
    if source.store is None:
        kept = contexts.ended(address) if contexts is not None else ()
        ended = [_Ended(each.number, each.fact) for each in kept]
    else:
        facts = (await _facts_at(source, address))[address]
        made = [
            fact for fact in facts if isinstance(fact, (Finished, Failed)) and _is_model_call(fact, place)
        ]
        ended = [_Ended(number, fact) for number, fact in enumerate(made, 1)]
    last = ended[-1].number if ended else 0
    execution = source.calls.get(address)
    kept_now = contexts.in_flight.get(address) if contexts is not None else None
    # A call that has just ended here is in flight in what is committed.
    is_in_flight = kept_now is not None or (
        execution is not None and isinstance(execution.command, Call) and place.node.kind.speaks
    )
    calls = last + is_in_flight
    if not calls:
        raise NoCall(f"'{address}' of run {source.run_id} has called no model")
    number = calls if call is None else call
    details = CallDetails(
        run_id=source.run_id,
        address=address,
        node_id=place.node.id,
        path=place.path,
        part=place.part,
        kind="model",
        call=number,
        calls=calls,
        state="in_flight",
        complete=False,
        why=NOT_KEPT,
    )
    if is_in_flight and number == calls:
        if kept_now is not None:
            return await asyncio.to_thread(_with_context, details, kept_now.context, kept_now.lines)
        if contexts is None:
            return replace(details, why=ELSEWHERE)
        return replace(details, why=AT_ITS_EDGE if contexts.limit else NOT_KEPT)
    fact = next((each.fact for each in ended if each.number == number), None)
    if fact is None:
        there = "one call" if calls == 1 else f"{calls} calls"
        raise NoCall(f"'{address}' of run {source.run_id} has {there}, and none with the number {number}")
    details = _with_fact(details, fact, place)
    context_id = _record(fact).context
    if not context_id:
        return details
    if source.store is None:
        assert contexts is not None
        lines: Mapping[str, bytes] = next(
            each.kept.lines for each in contexts.ended(address) if each.number == number
        )
    else:
        lines = await _stored_lines(source.store, source.run_id, context_id)
    return await asyncio.to_thread(_complete, details, context_id, lines)


def _is_model_call(fact: Finished | Failed, place: Place) -> bool:
    """Whether a fact is the end of a model call. Facts of earlier versions name no context."""
    used = isinstance(fact, Failed) or fact.outcome.usage is not None
    return bool(_record(fact).context) or (place.node.kind.speaks and used)


def _record(fact: Finished | Failed) -> CallRecord:
    record = fact.outcome.call if isinstance(fact, Finished) else fact.call
    return record or CallRecord(0)


def _complete(details: CallDetails, context_id: str, lines: Mapping[str, bytes]) -> CallDetails:
    context = read_context(lines.get(context_id))
    return replace(details, why=NOT_STORED) if context is None else _with_context(details, context, lines)


async def _stored_lines(store: Store, run_id: str, context_id: str) -> dict[str, bytes]:
    """A context and its pieces, from a run or from those that it was forked from."""
    lines: dict[str, bytes] = {}
    wanted = [context_id]
    for _ in range(MAX_ANCESTORS):
        while wanted:
            found: dict[str, bytes] = {}
            for first in range(0, len(wanted), PIECES):
                found |= await store.pieces(run_id, wanted[first : first + PIECES])
            lines |= found
            context = read_context(lines.get(context_id)) if context_id in found else None
            missing = [key for key in wanted if key not in lines]
            wanted = [*missing, *(context.pieces if context is not None else ())]
            if context is None:
                break
        try:
            run_id = (await store.row(run_id, excerpt=True)).parent
        except NoRun:  # the run that this one was forked from was deleted
            run_id = ""
        if not wanted or not run_id:
            break
    return lines


def _with_context(details: CallDetails, context: ContextPieces, lines: Mapping[str, bytes]) -> CallDetails:
    def part(key: str) -> CallPart:
        return _part(key, read_piece(lines.get(key)))

    def optional(key: str) -> CallPart | None:
        return part(key) if key else None

    details = replace(
        details,
        params=context.params,
        may_call=context.may_call,
        speakers=context.speakers,
        system=optional(context.system),
        messages=tuple(map(part, context.messages)),
        exchanges=tuple(map(part, context.exchanges)),
        after=tuple(map(part, context.after)),
        tools=optional(context.tools),
        schema=optional(context.schema),
    )
    why = next((each.why for each in details.parts if each.why), "")
    return replace(details, complete=not why, why=why)


def _part(key: str, piece: Piece | None) -> CallPart:
    if piece is None:
        return CallPart(key, "missing", why=NOT_STORED)
    why = WHY.get(piece.left_out, "")
    if piece.cut:
        why = f"{piece.cut:,} bytes in the middle of a long text are not stored"
    return CallPart(
        key,
        piece.kind,
        piece.role,
        piece.source,
        piece.text or "",
        piece.value,
        piece.bytes,
        piece.cut,
        why=why,
    )


def _with_fact(details: CallDetails, fact: Finished | Failed, place: Place) -> CallDetails:
    """The details with how the call went."""
    record = _record(fact)
    details = replace(
        details,
        state="ended",
        attempts=record.attempts,
        seconds=record.seconds if (fact.call if isinstance(fact, Failed) else fact.outcome.call) else None,
        first_token=record.first_token,
        stop=record.stop,
    )
    if isinstance(fact, Failed):
        return replace(details, error=fact.error, error_type=fact.error_type)
    outcome = fact.outcome
    usage = outcome.usage or Usage()
    details = replace(details, usage=outcome.usage, model=usage.model)
    last = outcome.messages[-1] if outcome.messages else None
    if usage == FAILED_CALL and last is not None and last.data is not None and "error" in last.data:
        error, kind = str(last.data["error"]), str(last.data["type"])
        return replace(details, error=error, error_type=kind)  # `on_error: message`
    reply = _reply_of(fact)
    value = {
        name: given
        for name, given in (("data", reply.data), ("tool_calls", msgspec.to_builtins(reply.tool_calls)))
        if given
    }
    return replace(
        details, reply=_visible(CallPart("reply", "reply", text=reply.text, value=value or None), place)
    )


def _reply_of(fact: Finished) -> Reply:
    """What the model said, as far as the fact of the call has it."""
    state, messages = fact.outcome.state, fact.outcome.messages
    if isinstance(state, dict) and "reply" in state:
        return msgspec.convert(state["reply"], Reply)
    if isinstance(state, dict) and state.get("summary"):
        return Reply(str(state["summary"]))
    return Reply(messages[-1].text, messages[-1].data) if messages else Reply()


def _visible(part: CallPart, place: Place) -> CallPart:
    """A part of a fact, for a node that may be logged; else only its length."""
    if place.node.logs_output:
        return part
    length = len(part.shown.encode("utf-8", "surrogatepass"))
    return CallPart(part.piece, part.kind, bytes=length, why=WHY["log_output"])


# Calls of tools.


async def _tool_call(source: _Source, address: str, place: Place, call: int | None) -> CallDetails:
    assert place.call is not None
    label, owner = place.call.label, text(place.path, place.node.label, place.part)
    if source.store is None:
        raise NoCall(f"run {source.run_id} is not stored, so only its model calls are known")
    facts = await _facts_at(source, address, owner)
    request = _requested(facts[owner], place.call.round, label)
    execution = source.calls.get(address)
    if request is None and execution is None:
        raise NoCall(f"run {source.run_id} has no tool call at '{address}'")
    if call not in (None, 1):
        raise NoCall(f"the tool call at '{address}' is made once; it has no call {call}")
    details = CallDetails(
        run_id=source.run_id,
        address=address,
        node_id=place.node.id,
        path=place.path,
        part=place.part,
        kind="tool",
        call=1,
        calls=1,
        state="ended" if execution is None else "in_flight",
        complete=True,
    )
    if execution is not None:
        details = replace(details, status="waiting" if isinstance(execution.command, Ask) else "running")
    command = execution.command if execution is not None else None
    if request is None and isinstance(command, Call) and isinstance(command.state, ToolUse):
        request = command.state.request
    if request is not None:
        asked = CallPart("arguments", "arguments", value=request.arguments)
        details = replace(details, tool=request.name, arguments=_visible(asked, place))
    for fact in facts[address]:
        details = _with_tool_fact(details, fact, request, place)
    if details.state == "ended" and not details.status:
        return replace(details, complete=False, why="the engine did not make this call; the events say why")
    if not place.node.logs_output:
        return replace(details, complete=False, why=WHY["log_output"])
    return details


def _requested(facts: Sequence[Fact], round: int, label: str) -> ToolRequest | None:
    """The tool call with a label that a model asked for in one of its rounds of tools."""
    replies = [
        msgspec.convert(fact.outcome.state["reply"], Reply)
        for fact in facts
        if isinstance(fact, Finished)
        and isinstance(fact.outcome.state, dict)
        and "reply" in fact.outcome.state
    ]
    rounds = [reply for reply in replies if reply.tool_calls]
    if not 0 < round <= len(rounds):
        return None
    found = dict(zip(call_labels(rounds[round - 1]), rounds[round - 1].tool_calls, strict=True))
    return found.get(label)


def _with_tool_fact(
    details: CallDetails, fact: Fact, request: ToolRequest | None, place: Place
) -> CallDetails:
    if isinstance(fact, Answered) and request is not None:
        decision = read_decision(fact.message, request.arguments)
        details = replace(details, by=fact.by)
        if not decision.approved:
            refused = CallPart("result", "result", text=decision.reason)
            return replace(details, status="rejected", result=_visible(refused, place))
        allowed = CallPart("approved", "approved", value=decision.arguments)
        return replace(details, approved=_visible(allowed, place))
    if isinstance(fact, Expired):
        return replace(details, status="rejected")
    if isinstance(fact, Failed):
        return replace(
            details,
            status="failed",
            error=fact.error,
            error_type=fact.error_type,
            attempts=_record(fact).attempts,
        )
    if isinstance(fact, Finished) and isinstance(fact.outcome.state, dict):
        record, result = _record(fact), fact.outcome.state
        shown = CallPart("result", "result", text=str(result.get("text", "")))
        return replace(
            details,
            status=str(result.get("status", "")),
            result=_visible(shown, place),
            usage=fact.outcome.usage,
            seconds=record.seconds if fact.outcome.call is not None else None,
            attempts=record.attempts,
        )
    return details


# Bounded answers.


def shortened(details: CallDetails) -> CallDetails:
    """The details with so much of each text that an answer stays small. Of what is left out, the newest
    messages come first."""
    left = ANSWER_CHARACTERS
    lists, omitted = _bounded_lists(details)
    details = replace(details, **lists, omitted=omitted)
    short: dict[int, CallPart] = {}
    for part in details.parts:
        length = min(left, PART_CHARACTERS)
        whole = part.text if part.value is None else part.shown
        size = len(whole) if part.value is None or not part.text else len(part.text) + _size(part.value)
        if size <= length:
            left -= size
            continue
        excerpt = part.shown[:length]
        left -= len(excerpt)
        length = part.bytes or len(part.shown.encode("utf-8", "surrogatepass"))
        short[id(part)] = replace(part, text=excerpt, value=None, more=True, bytes=length)

    def bounded(part: CallPart | None) -> CallPart | None:
        return None if part is None else short.get(id(part), part)

    changes: dict[str, Any] = {name: bounded(getattr(details, name)) for name in _SINGLE}
    changes |= {name: tuple(map(bounded, getattr(details, name))) for name in _LISTS}
    return replace(details, **changes)


_SINGLE = ("reply", "arguments", "approved", "result", "system", "schema", "tools")
_LISTS = ("messages", "exchanges", "after")


def _size(value: Any) -> int:
    return len(msgspec.json.encode(value, enc_hook=repr))


def _bounded_lists(details: CallDetails) -> tuple[dict[str, tuple[CallPart, ...]], int]:
    """The lists of parts without those in the middle, if they are very many."""
    lists = {name: getattr(details, name) for name in _LISTS}
    omitted = 0
    for name, parts in lists.items():
        if len(parts) > MAX_PARTS:
            omitted += len(parts) - MAX_PARTS
            lists[name] = (*parts[: MAX_PARTS // 2], *parts[-MAX_PARTS // 2 :])
    return lists, omitted


def page_of(details: CallDetails, piece: str, offset: int) -> TextPage:
    """A page of the text of a part; NoCall if the call has no such part."""
    part = next((each for each in details.parts if each.piece == piece), None)
    if part is None:
        raise NoCall(f"call {details.call} at '{details.address}' has no piece '{piece}'")
    shown = part.shown
    if offset > len(shown):
        raise NoCall(f"the text of '{piece}' has {len(shown)} characters")
    end = offset + PAGE_CHARACTERS
    return TextPage(piece, offset, shown[offset:end], len(shown), end if end < len(shown) else None)
