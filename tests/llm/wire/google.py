"""Google's Gemini API: the model and the request for a stream are in the path, and a call needs no id."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from tests.llm.wire.reply import SIGNATURE, Json, Reply, argument_object, event, words

FRAME = {"contents", "systemInstruction", "tools", "toolConfig", "generationConfig"}
PATH = re.compile(r"/v1(beta|alpha)?/models/(?P<model>[^/:]+):(?P<verb>g|streamG)enerateContent")
KINDS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def serves(path: str) -> bool:
    return PATH.fullmatch(path) is not None


def streams(path: str, body: Json) -> bool:
    return ":stream" in path


def whole(reply: Reply, model: str) -> Json:
    return _response(reply, model, _parts(reply, [reply.text], [reply.thinking]), _finish(reply))


def events(reply: Reply, model: str, body: Json) -> Iterator[bytes]:
    """Each event is a response; calls come whole, and the last event says why it ended."""
    for part in _parts(reply, words(reply.text), words(reply.thinking)):
        yield event(_response(reply, model, [part], None))
    yield event(_response(reply, model, [{"text": ""}], _finish(reply)))


def _parts(reply: Reply, texts: list[str], thoughts: list[str]) -> list[Json]:
    """A signature comes with the last thought, and with the first call that follows from it."""
    parts: list[Json] = [{"text": thought, "thought": True} for thought in thoughts if thought]
    if parts:
        parts[-1]["thoughtSignature"] = SIGNATURE
    parts += [{"text": text} for text in texts if text]
    if not _malformed(reply):
        calls = [_call(at, reply) for at in range(len(reply.tool_calls))]
        if calls and reply.thinking:
            calls[0]["thoughtSignature"] = SIGNATURE
        parts += calls
    return parts


def _call(at: int, reply: Reply) -> Json:
    call = reply.tool_calls[at]
    named = {"id": call[0]} if call[0] else {}
    return {"functionCall": named | {"name": call[1], "args": argument_object(call)}}


def _malformed(reply: Reply) -> bool:
    """Arguments travel as an object; of a call that is none, Gemini says so and keeps the call."""
    return any(not isinstance(argument_object(call), dict) for call in reply.tool_calls)


def _finish(reply: Reply) -> str:
    return reply.finish or ("MALFORMED_FUNCTION_CALL" if _malformed(reply) else "STOP")


def _response(reply: Reply, model: str, parts: list[Json], finish: str | None) -> Json:
    candidate: Json = {"index": 0, "content": {"role": "model", "parts": parts}}
    if finish:
        candidate["finishReason"] = finish
    usage = {
        "promptTokenCount": reply.input_tokens,
        "candidatesTokenCount": reply.output_tokens,
        "totalTokenCount": reply.input_tokens + reply.output_tokens,
    }
    named = {"modelVersion": model, "responseId": "wire"}
    return {"candidates": [candidate], "usageMetadata": usage} | named


def failure(status: int, message: str, retry_after: float | None) -> Json:
    error: Json = {"code": status, "message": message, "status": KINDS.get(status, "INTERNAL")}
    if retry_after is not None:
        kind = "type.googleapis.com/google.rpc.RetryInfo"
        error["details"] = [{"@type": kind, "retryDelay": f"{retry_after:g}s"}]
    return {"error": error}


def model_of(path: str, body: Json) -> str:
    found = PATH.fullmatch(path)
    return found["model"] if found else ""


def messages(body: Json) -> list[Json]:
    return list(body.get("contents", []))


def system(body: Json) -> str:
    parts = (body.get("systemInstruction") or {}).get("parts", [])
    return "\n".join(part.get("text", "") for part in parts)


def tool_calls(body: Json) -> list[tuple[str, str]]:
    return [(call.get("id") or call["name"], call["name"]) for call in _sent(body, "functionCall")]


def tool_results(body: Json) -> list[tuple[str, str]]:
    given = _sent(body, "functionResponse")
    return [(result.get("id") or result["name"], _result(result["response"])) for result in given]


def _result(response: Json) -> str:
    """A result has to be an object; one that only wraps a string counts as that string."""
    values = list(response.values())
    if len(values) == 1 and isinstance(values[0], str):
        return values[0]
    return json.dumps(response)


def _sent(body: Json, kind: str) -> list[Json]:
    parts = [part for message in messages(body) for part in message.get("parts", [])]
    return [part[kind] for part in parts if kind in part]


def tool_names(body: Json) -> list[str]:
    declared = [one for tool in body.get("tools") or [] for one in tool.get("functionDeclarations", [])]
    return [one["name"] for one in declared]


def parameters(body: Json) -> Json:
    """Those of `generationConfig` count as top-level: that is only where Gemini keeps them."""
    rest = {key: value for key, value in body.items() if key not in FRAME}
    return dict(body.get("generationConfig") or {}) | rest
