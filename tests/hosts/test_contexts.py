"""What model calls get: split into pieces, masked, within limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from roundel.hosts.contexts import (
    HEAD,
    LAST_CALLS,
    MAX_KNOWN,
    MAX_PIECE,
    TAIL,
    Piece,
    RunContexts,
    read_context,
    read_piece,
)
from roundel.kernel.facts import CallRecord, Failed, Finished, Outcome
from roundel.nodes.services import Exchange, Reply, Request, ToolRequest, ToolResult, ToolSpec
from roundel.workflow.message import Block, Message
from roundel.workflow.secrets import SecretMasker

KEY = "sk-live-0123456789abcdef"
STORED = 1_000_000


def request(*texts: str, address: str = "A", **more: Any) -> Request:
    return Request("A", address, 0, tuple(map(Message, texts)), **more)


def finished(address: str = "A", call: CallRecord | None = None) -> Finished:
    return Finished(address, Outcome((Message("ok"),), call=call), 1.0)


def stored(limit: int = STORED, secrets: SecretMasker | None = None) -> RunContexts:
    contexts = RunContexts(secrets or SecretMasker(), limit)
    contexts.use_journal(0)
    return contexts


def call(contexts: RunContexts, asked: Request, logs: bool = True) -> tuple[str, dict[str, bytes]]:
    """Makes a call; its digest, and what is new in the store."""
    contexts.keep(asked, {}, logs)
    fact, new = contexts.record(finished(asked.address))
    assert isinstance(fact, Finished) and fact.outcome.call is not None
    return fact.outcome.call.context, new


def pieces(bodies: Mapping[str, bytes]) -> list[Piece]:
    found = [read_piece(body) for body in bodies.values()]
    return [piece for piece in found if piece is not None]


def test_a_conversation_stores_each_message_once() -> None:
    contexts = stored()
    exchange = Exchange(
        Reply("I look.", tool_calls=(ToolRequest("1", "look", {"place": "Oslo"}),)),
        (ToolResult("1", "look", "completed", "rain"),),
    )
    spec = ToolSpec("look", "Looks.")
    first, new = call(contexts, request("How is it?", system="Be brief.", tools=(spec,)))
    assert sorted(piece.kind for piece in pieces(new)) == ["message", "system", "tools"]
    second, new = call(
        contexts, request("How is it?", system="Be brief.", tools=(spec,), exchanges=(exchange,))
    )
    (piece,) = pieces(new)
    assert piece.kind == "exchange" and piece.value == {
        "text": "I look.",
        "tool_calls": [{"id": "1", "name": "look", "arguments": {"place": "Oslo"}}],
        "results": [{"id": "1", "name": "look", "status": "completed", "text": "rain"}],
    }
    assert len(new) == 2 and second in new and first != second
    context = read_context(new[second])
    assert context is not None and len(context.pieces) == 4
    again, new = call(
        contexts, request("How is it?", system="Be brief.", tools=(spec,), exchanges=(exchange,))
    )
    assert (again, new) == (second, {}), "the same call has the same digest, and stores nothing"


def test_the_fact_keeps_what_the_record_said() -> None:
    contexts = stored()
    contexts.keep(request("x"), {}, True)
    fact, _ = contexts.record(finished(call=CallRecord(1.5, response_id="r")))
    assert isinstance(fact, Finished) and fact.outcome.call is not None
    assert (fact.outcome.call.seconds, fact.outcome.call.response_id) == (1.5, "r")
    contexts.keep(request("x"), {}, True)
    failed, _ = contexts.record(Failed("A", "no luck", 1.0))
    assert isinstance(failed, Failed) and failed.call is not None
    assert failed.call.context == fact.outcome.call.context
    assert contexts.record(finished())[0] == finished(), "no model was called"
    contexts.keep(request("x"), {}, True)
    contexts.forget("A")
    assert contexts.record(finished())[0] == finished(), "the call was cancelled"


def test_neither_keys_nor_contents_of_files_are_stored() -> None:
    contexts = stored(secrets=SecretMasker([KEY]))
    picture = Message(
        (Block("text", f"Look, {KEY}"), Block("image", media_type="image/png", data="aGVsbG8="))
    )
    params = {
        "max_tokens": 50,
        "api_key": KEY,
        "extra_headers": {"X": "short"},
        "nested": {"token": "t0ken", "seed": 7},
        "stop": [f"<{KEY}>"],
    }
    asked = Request("A", "A", 0, (picture, Message(f"{KEY}!")), f"Never say {KEY}.", params)
    contexts.keep(asked, {"temperature": 0.5, "password": "hunter22"}, True)
    kept = contexts.in_flight["A"]
    everything = b"\n".join(kept.lines.values()).decode()
    for planted in (KEY, "short", "t0ken", "hunter22", "aGVsbG8="):
        assert planted not in everything
    assert kept.context.params == {
        "temperature": 0.5,
        "max_tokens": 50,
        "nested": {"seed": 7},
        "stop": ["<***>"],
    }
    blocks = next(piece.value for piece in map(read_piece, kept.lines.values()) if piece and piece.value)
    assert blocks[0] == {"type": "text", "text": "Look, ***"}
    assert blocks[1].keys() == {"type", "media_type", "bytes", "digest"} and blocks[1]["bytes"] == 8


def test_a_long_piece_keeps_its_beginning_and_its_end() -> None:
    text = "a" * HEAD + KEY + "b" * 50_000 + "c" * TAIL
    _, new = call(stored(secrets=SecretMasker([KEY])), request(text))
    (piece,) = pieces(new)
    masked = len(text) - len(KEY) + len("***")
    assert (piece.bytes, piece.cut) == (masked, masked - HEAD - TAIL)
    assert piece.text is not None and piece.text.startswith("a" * HEAD) and piece.text.endswith("c" * TAIL)
    assert "b" not in piece.text.replace("bytes", "")
    (other,) = pieces(call(stored(), request("a" * HEAD + "x" * (masked - HEAD - TAIL) + "c" * TAIL))[1])
    assert other.digest != piece.digest, "texts that differ in the middle are two pieces"
    exact = "a" * (MAX_PIECE - len(msgspec.json.encode(Piece("message", "user", text=""))) - 1)
    (whole,) = pieces(call(stored(), request(exact))[1])
    assert (whole.text, whole.cut) == (exact, 0)


def test_a_text_outside_of_ascii_is_cut_between_characters() -> None:
    (piece,) = pieces(call(stored(), request("東京" * 60_000))[1])
    assert piece.cut and piece.text is not None and set(piece.text.split("\n")[0]) == {"東", "京"}


def test_a_run_that_has_stored_enough_stores_lengths() -> None:
    contexts = stored(600)
    (first,) = pieces(call(contexts, request("a" * 300))[1])
    assert first.text == "a" * 300
    context, new = call(contexts, request("a" * 300, "b" * 400))
    (second,) = pieces({key: body for key, body in new.items() if key != context})
    assert (second.text, second.bytes, second.left_out) == (None, 400, "limit")
    assert second.digest in new


def test_of_a_node_that_is_not_logged_only_lengths_are_stored() -> None:
    contexts = stored()
    context, new = call(contexts, request("a secret plan", system="Be quiet."), logs=False)
    found = pieces({key: body for key, body in new.items() if key != context})
    assert [(piece.kind, piece.bytes, piece.left_out) for piece in found] == [
        ("system", 9, "log_output"),
        ("message", 13, "log_output"),
    ]
    assert all(not (piece.text or piece.value or piece.digest) for piece in found)
    assert call(contexts, request("another plan!", system="Be quiet."), logs=False)[0] == context


def test_nothing_is_kept_if_nothing_may_be() -> None:
    contexts = stored(0)
    contexts.keep(request("x"), {}, True)
    assert not contexts.in_flight


def test_what_cannot_be_written_does_not_fail_the_call() -> None:
    odd = Request("A", "A", 0, (Message("\ud800"), Message("fine")), params={"a": "\ud800"})
    contexts = stored()
    contexts.keep(odd, {}, True)
    found = contexts.in_flight["A"]
    kept = [read_piece(found.lines[key]) for key in found.context.messages]
    assert [piece.left_out if piece else None for piece in kept] == ["unreadable", ""]
    assert found.context.params == {}


def test_a_run_without_a_store_keeps_its_last_calls() -> None:
    contexts = RunContexts(SecretMasker())
    for number in range(LAST_CALLS + 5):
        call(contexts, request("the same", f"message {number}", address="A" if number % 2 else "B"))
    assert len(contexts.ended("A")) + len(contexts.ended("B")) == LAST_CALLS
    assert [each.number for each in contexts.ended("B")][-1] == (LAST_CALLS + 5 + 1) // 2
    texts = {piece.text for piece in map(read_piece, contexts._lines.values()) if piece is not None}
    assert "message 4" not in texts and {"message 5", "the same"} <= texts
    assert len(contexts._lines) == 2 * LAST_CALLS + 1, "what nobody refers to any more is gone"


def test_what_is_remembered_does_not_grow_with_the_run() -> None:
    contexts = stored(10 * STORED)
    for number in range(MAX_KNOWN + 100):
        call(contexts, request(f"message {number}"))
    assert len(contexts._known) == MAX_KNOWN
    assert not contexts.in_flight and not contexts._lines
