"""OpenAI's Responses: a list of items in place of one message, and an event for each step of each item."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.llm.wire import openai
from tests.llm.wire.openai import call_ids, text_of
from tests.llm.wire.reply import SIGNATURE, Json, Reply, argument_pieces, argument_text, event, words

streams, model_of, failure = openai.streams, openai.model_of, openai.failure

FRAME = {"model", "input", "instructions", "tools", "tool_choice", "stream"}
Said = Callable[..., bytes]


def serves(path: str) -> bool:
    return path.endswith("/responses")


def whole(reply: Reply, model: str) -> Json:
    status = "incomplete" if reply.finish else "completed"
    details = {"reason": reply.finish} if reply.finish else None
    done = {"status": status, "incomplete_details": details, "usage": _usage(reply)}
    return _envelope(model) | done | {"output": _items(reply)}


def events(reply: Reply, model: str, body: Json) -> Iterator[bytes]:
    count = iter(range(1_000_000))

    def stream_event(kind: str, **fields: object) -> bytes:
        return event({"type": kind, "sequence_number": next(count)} | fields, kind)

    answer = whole(reply, model)
    yield stream_event("response.created", response=_envelope(model))
    yield stream_event("response.in_progress", response=_envelope(model))
    for at, item in enumerate(answer["output"]):
        yield stream_event("response.output_item.added", output_index=at, item=item | _opened(item))
        yield from _inside(stream_event, reply, at, item)
        yield stream_event("response.output_item.done", output_index=at, item=item)
    yield stream_event(f"response.{answer['status']}", response=answer)


def _inside(stream_event: Said, reply: Reply, at: int, item: Json) -> Iterator[bytes]:
    where: Json = {"output_index": at, "item_id": item["id"]}
    if item["type"] == "message" and reply.refusal:
        where |= {"content_index": 0}
        part = item["content"][0]
        yield stream_event("response.content_part.added", **where, part=part | {"refusal": ""})
        for word in words(reply.refusal):
            yield stream_event("response.refusal.delta", **where, delta=word)
        yield stream_event("response.refusal.done", **where, refusal=reply.refusal)
        yield stream_event("response.content_part.done", **where, part=part)
    elif item["type"] == "message":
        where |= {"content_index": 0}
        part = item["content"][0]
        yield stream_event("response.content_part.added", **where, part=part | {"text": ""})
        for word in words(reply.text):
            yield stream_event("response.output_text.delta", **where, delta=word, logprobs=[])
        yield stream_event("response.output_text.done", **where, text=reply.text, logprobs=[])
        yield stream_event("response.content_part.done", **where, part=part)
    elif item["type"] == "reasoning":
        where |= {"summary_index": 0}
        part = item["summary"][0]
        yield stream_event("response.reasoning_summary_part.added", **where, part=part | {"text": ""})
        for word in words(reply.thinking):
            yield stream_event("response.reasoning_summary_text.delta", **where, delta=word)
        yield stream_event("response.reasoning_summary_text.done", **where, text=reply.thinking)
        yield stream_event("response.reasoning_summary_part.done", **where, part=part)
    else:
        for piece in argument_pieces((None, "", item["arguments"])):
            yield stream_event("response.function_call_arguments.delta", **where, delta=piece)
        done = {"name": item["name"], "arguments": item["arguments"]}
        yield stream_event("response.function_call_arguments.done", **where, **done)


def _items(reply: Reply) -> list[Json]:
    items: list[Json] = []
    if reply.thinking:
        summary = [{"type": "summary_text", "text": reply.thinking}]
        items.append(
            {"type": "reasoning", "id": "rs_wire", "summary": summary, "encrypted_content": SIGNATURE}
        )
    if reply.refusal:
        refused = [{"type": "refusal", "refusal": reply.refusal}]
        said = {"type": "message", "id": "msg_wire", "role": "assistant", "status": "completed"}
        items.append(said | {"content": refused})
    if reply.text:
        content = [{"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}]
        stream_event = {"type": "message", "id": "msg_wire", "role": "assistant"}
        items.append(stream_event | {"status": "completed", "content": content})
    for at, (call_id, call) in enumerate(zip(call_ids(reply), reply.tool_calls, strict=True)):
        named = {"type": "function_call", "id": f"fc_{at}", "call_id": call_id, "name": call[1]}
        items.append(named | {"arguments": argument_text(call), "status": "completed"})
    return items


def _opened(item: Json) -> Json:
    """What of an item is not there yet when it is announced."""
    opened: dict[str, Json] = {
        "message": {"content": [], "status": "in_progress"},
        "reasoning": {"summary": [], "encrypted_content": None},
        "function_call": {"arguments": "", "status": "in_progress"},
    }
    return opened[item["type"]]


def _usage(reply: Reply) -> Json:
    return {
        "input_tokens": reply.input_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": reply.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": reply.input_tokens + reply.output_tokens,
    }


def _envelope(model: str) -> Json:
    return {
        "id": "resp_wire",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": [],
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": None,
    }


def messages(body: Json) -> list[Json]:
    items = body.get("input", [])
    return [{"role": "user", "content": items}] if isinstance(items, str) else list(items)


def system(body: Json) -> str:
    stream_event = [text_of(m["content"]) for m in messages(body) if m.get("role") in ("system", "developer")]
    return "\n".join([*filter(None, [body.get("instructions")]), *stream_event])


def tool_calls(body: Json) -> list[tuple[str, str]]:
    return [(m["call_id"], m["name"]) for m in messages(body) if m.get("type") == "function_call"]


def tool_results(body: Json) -> list[tuple[str, str]]:
    given = [m for m in messages(body) if m.get("type") == "function_call_output"]
    return [(m["call_id"], text_of(m["output"])) for m in given]


def tool_names(body: Json) -> list[str]:
    return [tool["name"] for tool in body.get("tools") or []]


def parameters(body: Json) -> Json:
    return {key: value for key, value in body.items() if key not in FRAME}
