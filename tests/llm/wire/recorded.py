"""A request as a server saw it, with the questions that tests ask of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from tests.llm.wire import anthropic, google, openai, responses
from tests.llm.wire.reply import Json, Reply


class Dialect(Protocol):
    """What each protocol's module offers: how to answer, and how to read a request."""

    def serves(self, path: str) -> bool: ...
    def streams(self, path: str, body: Json) -> bool: ...
    def whole(self, reply: Reply, model: str) -> Json: ...
    def events(self, reply: Reply, model: str, body: Json) -> Iterator[bytes]: ...
    def failure(self, status: int, message: str, retry_after: float | None) -> Json: ...
    def model_of(self, path: str, body: Json) -> str: ...
    def messages(self, body: Json) -> list[Json]: ...
    def system(self, body: Json) -> str: ...
    def tool_calls(self, body: Json) -> list[tuple[str, str]]: ...
    def tool_results(self, body: Json) -> list[tuple[str, str]]: ...
    def tool_names(self, body: Json) -> list[str]: ...
    def parameters(self, body: Json) -> Json: ...


DIALECTS: dict[str, tuple[Dialect, ...]] = {
    "openai": (openai, responses),
    "anthropic": (anthropic,),
    "google": (google,),
}


@dataclass(frozen=True, slots=True)
class Recorded:
    provider: str  # empty if the path belongs to none
    method: str
    path: str  # as the provider would see it, without our prefix
    query: str
    headers: dict[str, str]
    body: Json
    time: float  # by time.monotonic()

    @property
    def served(self) -> bool:
        spoken = DIALECTS.get(self.provider, ())
        return self.method == "POST" and any(dialect.serves(self.path) for dialect in spoken)

    @property
    def dialect(self) -> Dialect:
        """The one that the path asks for; on an unknown path, the provider's first, to say so."""
        spoken = DIALECTS.get(self.provider, (openai,))
        return next((dialect for dialect in spoken if dialect.serves(self.path)), spoken[0])

    @property
    def model(self) -> str:
        return self.dialect.model_of(self.path, self.body)

    @property
    def streams(self) -> bool:
        return self.dialect.streams(self.path, self.body)

    @property
    def key(self) -> str:
        """The key that came with the request, wherever the provider wants it."""
        names = ("x-api-key", "x-goog-api-key", "authorization")
        sent = next((self.headers[name] for name in names if name in self.headers), "")
        return sent.removeprefix("Bearer ")

    def messages(self) -> list[Json]:
        """The messages, in the provider's own shape."""
        return self.dialect.messages(self.body)

    def system(self) -> str:
        return self.dialect.system(self.body)

    def tool_calls(self) -> list[tuple[str, str]]:
        """Id and name of every call in the history, in order; the name is the id where there is none."""
        return self.dialect.tool_calls(self.body)

    def tool_results(self) -> list[tuple[str, str]]:
        """Id and text of every result, in the order sent."""
        return self.dialect.tool_results(self.body)

    def tool_names(self) -> list[str]:
        """The tools on offer."""
        return self.dialect.tool_names(self.body)

    def parameters(self) -> Json:
        """The body without what every request has: the conversation, the tools, the model, the stream."""
        return self.dialect.parameters(self.body)
