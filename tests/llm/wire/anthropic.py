"""Anthropic's Messages: an answer is a list of blocks, and a stream opens and closes each of them."""

from __future__ import annotations

from collections.abc import Iterator

from tests.llm.wire import openai
from tests.llm.wire.openai import text_of
from tests.llm.wire.reply import SIGNATURE, Json, Reply, argument_object, argument_pieces, event, words

streams, model_of = openai.streams, openai.model_of

FRAME = {"model", "messages", "system", "tools", "tool_choice", "stream"}
KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def serves(path: str) -> bool:
    return path == "/v1/messages"


def whole(reply: Reply, model: str) -> Json:
    sent_events = {"content": _blocks(reply), "stop_reason": _finish(reply)} | _stop_details(reply)
    return _envelope(model) | sent_events | {"usage": _usage(reply.input_tokens, reply.output_tokens)}


def events(reply: Reply, model: str, body: Json) -> Iterator[bytes]:
    yield _said("message_start", message=_envelope(model) | {"usage": _usage(reply.input_tokens, 1)})
    for index, block in enumerate(_blocks(reply)):
        yield _said("content_block_start", index=index, content_block=block | _opened(block))
        for delta in _deltas(reply, index, block):
            yield _said("content_block_delta", index=index, delta=delta)
        yield _said("content_block_stop", index=index)
    ended = {"stop_reason": _finish(reply), "stop_sequence": None} | _stop_details(reply)
    yield _said("message_delta", delta=ended, usage=_usage(reply.input_tokens, reply.output_tokens))
    yield _said("message_stop")


def _stop_details(reply: Reply) -> Json:
    if not reply.refusal:
        return {}
    return {"stop_details": {"type": "refusal", "category": None, "explanation": reply.refusal}}


def _deltas(reply: Reply, index: int, block: Json) -> Iterator[Json]:
    if block["type"] == "thinking":
        for word in words(reply.thinking):
            yield {"type": "thinking_delta", "thinking": word}
        yield {"type": "signature_delta", "signature": SIGNATURE}
    elif block["type"] == "text":
        for word in words(reply.text):
            yield {"type": "text_delta", "text": word}
    else:
        first = bool(reply.thinking) + bool(reply.text)
        yield {"type": "input_json_delta", "partial_json": ""}
        for piece in argument_pieces(reply.tool_calls[index - first]):
            yield {"type": "input_json_delta", "partial_json": piece}


def _blocks(reply: Reply) -> list[Json]:
    blocks: list[Json] = []
    if reply.thinking:
        blocks.append({"type": "thinking", "thinking": reply.thinking, "signature": SIGNATURE})
    if reply.text:
        blocks.append({"type": "text", "text": reply.text})
    for at, call in enumerate(reply.tool_calls):
        called = {"type": "tool_use", "id": call[0] or f"toolu_{at}", "name": call[1]}
        blocks.append(called | {"input": argument_object(call)})
    return blocks


def _opened(block: Json) -> Json:
    """What of a block is not there yet when it is opened."""
    opened: dict[str, Json] = {
        "thinking": {"thinking": "", "signature": ""},
        "text": {"text": ""},
        "tool_use": {"input": {}},
    }
    return opened[block["type"]]


def failure(status: int, message: str, retry_after: float | None) -> Json:
    error = {"type": KINDS.get(status, "api_error"), "message": message}
    return {"type": "error", "error": error, "request_id": "req_wire"}


def _finish(reply: Reply) -> str:
    if reply.refusal:
        return "refusal"
    return reply.finish or ("tool_use" if reply.tool_calls else "end_turn")


def _usage(input_tokens: int, output_tokens: int) -> Json:
    return {"input_tokens": input_tokens, "output_tokens": output_tokens}


def _envelope(model: str) -> Json:
    sent_events = {"id": "msg_wire", "type": "message", "role": "assistant", "model": model}
    return sent_events | {"content": [], "stop_reason": None, "stop_sequence": None}


def _said(kind: str, **fields: object) -> bytes:
    return event({"type": kind} | fields, kind)


def messages(body: Json) -> list[Json]:
    return list(body.get("messages", []))


def system(body: Json) -> str:
    return text_of(body.get("system"))


def tool_calls(body: Json) -> list[tuple[str, str]]:
    return [(block["id"], block["name"]) for block in _sent(body) if block["type"] == "tool_use"]


def tool_results(body: Json) -> list[tuple[str, str]]:
    given = [block for block in _sent(body) if block["type"] == "tool_result"]
    return [(block["tool_use_id"], text_of(block.get("content"))) for block in given]


def _sent(body: Json) -> list[Json]:
    """The blocks of all messages; a message of one string has none."""
    contents = [message["content"] for message in messages(body)]
    return [block for content in contents if isinstance(content, list) for block in content]


def tool_names(body: Json) -> list[str]:
    return [tool["name"] for tool in body.get("tools") or []]


def parameters(body: Json) -> Json:
    return {key: value for key, value in body.items() if key not in FRAME}
