"""OpenAI's Chat Completions, which most other providers and local servers speak as well."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.llm.wire.reply import Json, Reply, argument_pieces, argument_text, event, words

FRAME = {"model", "messages", "tools", "tool_choice", "stream", "stream_options"}


def serves(path: str) -> bool:
    return path.endswith("/chat/completions")


def streams(path: str, body: Json) -> bool:
    return bool(body.get("stream"))


def whole(reply: Reply, model: str) -> Json:
    message: Json = {"role": "assistant", "content": reply.text or None, "refusal": reply.refusal or None}
    if reply.thinking:
        message["reasoning_content"] = reply.thinking
    if reply.tool_calls:
        message["tool_calls"] = [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": call[1], "arguments": argument_text(call)},
            }
            for call_id, call in zip(call_ids(reply), reply.tool_calls, strict=True)
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(reply)}
    return _envelope("chat.completion", model) | {"choices": [choice], "usage": _usage(reply)}


def events(reply: Reply, model: str, body: Json) -> Iterator[bytes]:
    """A usage chunk comes only to those who ask for it, after the choice has finished."""
    envelope = _envelope("chat.completion.chunk", model)
    requests_seen = (body.get("stream_options") or {}).get("include_usage")
    none_yet = {"usage": None} if requests_seen else {}
    for delta in _deltas(reply):
        yield event(envelope | {"choices": [_choice(delta, None)]} | none_yet)
    yield event(envelope | {"choices": [_choice({}, _finish(reply))]} | none_yet)
    if requests_seen:
        yield event(envelope | {"choices": [], "usage": _usage(reply)})
    yield event("[DONE]")


def _deltas(reply: Reply) -> Iterator[Json]:
    yield {"role": "assistant", "content": "" if reply.text else None}
    for word in words(reply.thinking):
        yield {"reasoning_content": word}
    for word in words(reply.text):
        yield {"content": word}
    for word in words(reply.refusal):
        yield {"refusal": word}
    for index, (call_id, call) in enumerate(zip(call_ids(reply), reply.tool_calls, strict=True)):
        opened = {"id": call_id, "type": "function", "function": {"name": call[1], "arguments": ""}}
        yield {"tool_calls": [{"index": index} | opened]}
        for piece in argument_pieces(call):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def failure(status: int, message: str, retry_after: float | None) -> Json:
    kinds = {401: "invalid_request_error", 429: "requests", 404: "invalid_request_error"}
    codes = {401: "invalid_api_key", 429: "rate_limit_exceeded"}
    kind = kinds.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": codes.get(status)}}


def call_ids(reply: Reply) -> list[str]:
    return [call[0] or f"call_{at}" for at, call in enumerate(reply.tool_calls)]


def _finish(reply: Reply) -> str:
    return reply.finish or ("tool_calls" if reply.tool_calls else "stop")


def _usage(reply: Reply) -> Json:
    return {
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": reply.input_tokens + reply.output_tokens,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def _envelope(kind: str, model: str) -> Json:
    return {"id": "chatcmpl-wire", "object": kind, "created": 1_700_000_000, "model": model}


def _choice(delta: Json, finish: str | None) -> Json:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}


def model_of(path: str, body: Json) -> str:
    return str(body.get("model", ""))


def messages(body: Json) -> list[Json]:
    return list(body.get("messages", []))


def system(body: Json) -> str:
    return "\n".join(text_of(m["content"]) for m in messages(body) if m["role"] in ("system", "developer"))


def tool_calls(body: Json) -> list[tuple[str, str]]:
    calls = [call for message in messages(body) for call in message.get("tool_calls") or []]
    return [(call["id"], call["function"]["name"]) for call in calls]


def tool_results(body: Json) -> list[tuple[str, str]]:
    return [(m["tool_call_id"], text_of(m["content"])) for m in messages(body) if m["role"] == "tool"]


def tool_names(body: Json) -> list[str]:
    return [tool["function"]["name"] for tool in body.get("tools") or []]


def parameters(body: Json) -> Json:
    return {key: value for key, value in body.items() if key not in FRAME}


def text_of(content: Any) -> str:
    """Content is a string or a list of blocks; of the blocks, the text."""
    if isinstance(content, list):
        return "".join(block.get("text", "") for block in content)
    return content or ""
