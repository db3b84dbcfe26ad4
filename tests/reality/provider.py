"""The provider: personas behind the interfaces of OpenAI, Anthropic and Google, on loopback.

`tests.llm.wire` speaks the protocols, with and without streams. This adds who answers, a record of what
everybody was sent, and faults by the number of the request: `{2: "429"}` refuses the second request.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping
from typing import Literal, NamedTuple, Self

import pytest

from tests.llm.wire import Recorded, Reply, Wire, anthropic, google, openai, responses
from tests.reality.personas import reply_to
from tests.reality.request import Prompt, Turn, read

Fault = Literal["400", "429", "500", "timeout", "cut", "garbage", "empty", "refusal", "filter", "length"]
REFUSAL = "I'm sorry, but I can't help with that."
MODEL = "openai:gpt-4o"
FINISH = {
    openai: ("content_filter", "length"),
    responses: ("content_filter", "max_output_tokens"),
    anthropic: ("refusal", "max_tokens"),
    google: ("SAFETY", "MAX_TOKENS"),
}
"""What each protocol calls an answer that was filtered, and one that was cut off."""
NEVER = 3600.0
"""Seconds. The client gives up before, or the provider is closed."""


class Seen(NamedTuple):
    """A request, or what a person said in between (`heard`)."""

    number: int
    """From 1; 0 for a person."""
    prompt: Prompt
    answer: str
    agent: str = ""
    """The header `x-agent`, or the person; empty if only the role tells who it is."""
    calls: tuple[str, ...] = ()
    fault: str = ""


class Provider:
    """A provider for a test: `with Provider() as provider`, then `provider.set_environment(monkeypatch)`."""

    def __init__(
        self, *, chatty: bool = False, faults: Mapping[int, Fault] | None = None, context: int = 10**9
    ) -> None:
        self.chatty, self.faults, self.context = chatty, dict(faults or {}), context
        self.wire = Wire()
        self.record: list[Seen] = []
        self._lock = threading.Lock()
        self._count = 0

    def __enter__(self) -> Self:
        self.wire.__enter__()
        self.wire.replies(self._reply)
        return self

    def __exit__(self, *error: object) -> None:
        self.wire.__exit__(*error)  # type: ignore[arg-type]

    def set_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """All that a user has to set: addresses and keys."""
        for name, url in (("OPENAI", self.wire.openai_url), ("ANTHROPIC", self.wire.anthropic_url)):
            monkeypatch.setenv(f"{name}_BASE_URL", url)
            monkeypatch.setenv(f"{name}_API_KEY", "x")
        monkeypatch.setenv("ROUNDEL_MODEL", MODEL)

    def heard(self, person: str, text: str) -> None:
        """Records what a person said to the agents."""
        with self._lock:
            self.record.append(Seen(0, Prompt((Turn("user", ""),)), text, person))

    def _reply(self, request: Recorded) -> Reply:
        prompt = read(request)
        with self._lock:
            self._count += 1
            number = self._count
            fault: str = request.headers.get("x-fault", "") or self.faults.get(number, "")
            size = sum(len(turn.text) // 4 + 1 for turn in prompt.turns)
            if size > self.context:
                fault, reply = "context", _too_long(self.context, size)
            else:
                reply = _with_fault(reply_to(prompt, self.chatty), fault, request.dialect)
            used = dataclasses.replace(reply, input_tokens=size, output_tokens=len(reply.text) // 4 + 1)
            calls = tuple(call[1] for call in reply.tool_calls)
            agent = request.headers.get("x-agent", "")
            self.record.append(Seen(number, prompt, reply.text, agent, calls, fault))
        return used


def _too_long(limit: int, size: int) -> Reply:
    message = f"This model's maximum context length is {limit} tokens. However, you requested {size} tokens."
    error = {"message": message, "type": "invalid_request_error", "code": "context_length_exceeded"}
    return Reply(status=400, error_body={"error": error})


def _with_fault(reply: Reply, fault: str, dialect: object) -> Reply:
    half = reply.text[: len(reply.text) // 2]
    filtered, cut_off = next(words for protocol, words in FINISH.items() if protocol is dialect)
    broken = {
        "": reply,
        "400": Reply(status=400),
        "429": Reply(status=429, retry_after=0),
        "500": Reply(status=500),
        "timeout": Reply(delay=NEVER),
        "cut": dataclasses.replace(reply, cut_after=1),
        "garbage": Reply(raw=b"<html>502 Bad Gateway</html>"),
        "empty": Reply(""),
        "refusal": Reply(refusal=REFUSAL) if dialect is openai else Reply(REFUSAL),
        "filter": Reply("", finish=filtered),
        "length": Reply(half, finish=cut_off),
    }
    return broken[fault]
