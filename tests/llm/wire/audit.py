"""What the strictest providers demand of a conversation, checked on the bodies that were really sent.

`problems` reads a request of any of the four interfaces as turns, a role with its parts, and lists every
rule that the turns break.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from tests.llm.wire.recorded import Recorded
from tests.llm.wire.reply import Json

Part = tuple[str, str]
"""What a part is (text, call, result, media), and its text or id."""
Turn = tuple[str, list[Part]]


def problems(request: Recorded) -> list[str]:
    system, turns = conversation(request)
    found = [] if len(system) <= 1 else [f"{len(system)} system texts: {system}"]
    found += [f"an empty system text: {text!r}" for text in system if not text.strip()]
    if not turns:
        return [*found, "no message at all"]
    if turns[0][0] != "user":
        found.append("it begins with the assistant")
    if turns[-1][0] == "assistant":
        found.append("it ends with the assistant")
    repeatable = () if request.provider in ("anthropic", "google") else ("user",)
    for (role, _), (following, _) in pairwise(turns):
        if role == following and role not in repeatable:
            found.append(f"two messages of the {role} in a row")
    for role, parts in turns:
        if not parts:
            found.append(f"a message of the {role} without content")
        found += [
            f"an empty part of the {role}" for kind, text in parts if kind == "text" and not text.strip()
        ]
        found += [f"an empty {kind}" for kind, text in parts if kind == "result" and not text.strip()]
    calls = [one for one, _ in request.tool_calls()]
    results = [one for one, _ in request.tool_results()]
    if calls != results:
        found.append(f"calls {calls} with results {results}")
    return found


def conversation(request: Recorded) -> tuple[list[str], list[Turn]]:
    """The system texts, and the turns of user and assistant."""
    if request.provider == "anthropic":
        return _anthropic(request.body)
    if request.provider == "google":
        return _google(request.body)
    return _openai(request.messages(), request.body)


def texts(request: Recorded) -> list[tuple[str, str]]:
    """Role and text of each turn, its parts joined by a bar."""
    _, turns = conversation(request)
    return [(role, "|".join(text for kind, text in parts if kind == "text")) for role, parts in turns]


def _anthropic(body: Json) -> tuple[list[str], list[Turn]]:
    system = body.get("system")
    blocks = system if isinstance(system, list) else [{"text": system}] if system is not None else []
    kinds = {"tool_use": "call", "tool_result": "result"}
    turns = []
    for message in body["messages"]:
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        turns.append((message["role"], [_part(part, kinds, part["type"]) for part in parts]))
    return [block["text"] for block in blocks], turns


def _google(body: Json) -> tuple[list[str], list[Turn]]:
    system = [part["text"] for part in (body.get("systemInstruction") or {}).get("parts", [])]
    turns = []
    for message in body.get("contents", []):
        role = "assistant" if message["role"] == "model" else message["role"]
        parts = []
        for part in message["parts"]:
            kind = next(iter(part.keys() - {"thought", "thoughtSignature"}))
            name = {"functionCall": "call", "functionResponse": "result", "text": "text"}.get(kind, "media")
            parts.append((name, part["text"] if name == "text" else str(part[kind])))
        turns.append((role, parts))
    return system, turns


def _openai(messages: list[Json], body: Json) -> tuple[list[str], list[Turn]]:
    """Chat completions and responses. Results of tools are turns of the user, as the others have it."""
    system = [body["instructions"]] if body.get("instructions") else []
    turns: list[Turn] = []
    for message in messages:
        kind = message.get("type")
        if kind == "function_call":
            _join(turns, "assistant", [("call", message["call_id"])])
        elif kind == "function_call_output":
            _join(turns, "user", [("result", str(message["output"]))])
        elif message["role"] in ("system", "developer"):
            assert not turns, "a system text after the beginning"
            system.append(message["content"])
        elif message["role"] == "tool":
            _join(turns, "user", [("result", message["content"])])
        else:
            parts = _openai_parts(message.get("content"))
            parts += [("call", call["id"]) for call in message.get("tool_calls") or ()]
            turns.append((message["role"], parts))
    return system, turns


def _join(turns: list[Turn], role: str, parts: list[Part]) -> None:
    """Calls and results of one round are items of their own, which belong together."""
    kind = parts[0][0]
    if turns and turns[-1][0] == role and (kind == "call" or turns[-1][1][-1][0] == "result"):
        turns[-1][1].extend(parts)
    else:
        turns.append((role, parts))


def _openai_parts(content: Any) -> list[Part]:
    if content is None:
        return []
    if isinstance(content, str):
        return [("text", content)]
    return [_part(part, {}, "text" if part["type"].endswith("text") else part["type"]) for part in content]


def _part(part: Json, kinds: dict[str, str], kind: str) -> Part:
    if kind == "text":
        return "text", part["text"]
    if kind == "tool_result":
        content = part.get("content")
        text = content if isinstance(content, str) else "".join(one["text"] for one in content or ())
        return "result", text
    return kinds.get(kind, "media"), str(part)
