"""The wire itself: the real client libraries take its answers for a provider's."""

from __future__ import annotations

import asyncio
import json
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeAlias
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from openai import AsyncOpenAI
from pydantic_ai.exceptions import AgentRunError, ModelAPIError, ModelHTTPError, UnexpectedModelBehavior
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from tests.llm.wire import Recorded, Reply, Wire
from tests.llm.wire.reply import SIGNATURE

with warnings.catch_warnings():
    # A docstring of google-genai warns whenever it is compiled: on the first import, or where Python
    # keeps no bytecode, on every one.
    warnings.filterwarnings("ignore", r".*invalid escape sequence")
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

KEY = "sk-of-a-test"
ASK = ModelRequest(parts=[UserPromptPart("How is the weather?")], instructions="Be brief.")
# With a bound this low, Anthropic's model asks for an answer in one piece unless told to stream.
SETTINGS = ModelSettings(max_tokens=64)
PLACE = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
TOOLS = [ToolDefinition(name=name, parameters_json_schema=PLACE) for name in ("weather", "clock")]
OFFER = ModelRequestParameters(function_tools=TOOLS)
CALLS = Reply(
    tool_calls=(("a1", "weather", {"place": "Oslo"}), ("a2", "clock", {"place": "Bergen, Norway"})),
    input_tokens=21,
    output_tokens=34,
)

AnyModel: TypeAlias = Model[Any]
Call: TypeAlias = Callable[[AnyModel, list[ModelMessage]], Awaitable[ModelResponse]]
Talk: TypeAlias = Callable[..., ModelResponse]


def chat(wire: Wire) -> AnyModel:
    return OpenAIChatModel("gpt-4o", provider=OpenAIProvider(base_url=wire.openai_url, api_key=KEY))


def responses(wire: Wire) -> AnyModel:
    return OpenAIResponsesModel("gpt-5", provider=OpenAIProvider(base_url=wire.openai_url, api_key=KEY))


def anthropic(wire: Wire) -> AnyModel:
    provider = AnthropicProvider(base_url=wire.anthropic_url, api_key=KEY)
    return AnthropicModel("claude-sonnet-5", provider=provider)


def google(wire: Wire) -> AnyModel:
    return GoogleModel("gemini-2.5-flash", provider=GoogleProvider(base_url=wire.google_url, api_key=KEY))


async def in_one_piece(model: AnyModel, messages: list[ModelMessage]) -> ModelResponse:
    return await model.request(messages, SETTINGS, OFFER)


async def streamed(model: AnyModel, messages: list[ModelMessage]) -> ModelResponse:
    async with model.request_stream(messages, SETTINGS, OFFER) as stream:
        async for _ in stream:
            pass
        return stream.get()


@pytest.fixture
def wire() -> Iterator[Wire]:
    with Wire() as wire:
        yield wire


@pytest.fixture(params=[in_one_piece, streamed])
def conversation(request: pytest.FixtureRequest, wire: Wire) -> Talk:
    call: Call = request.param

    def conversation(make: Callable[[Wire], AnyModel], *messages: ModelMessage) -> ModelResponse:
        async def session() -> ModelResponse:
            async with make(wire) as model:
                return await call(model, list(messages) or [ASK])

        answer = asyncio.run(session())
        assert wire.requests[-1].streams == (call is streamed)
        return answer

    return conversation


every_model = pytest.mark.parametrize("make", [chat, responses, anthropic, google])
Make: TypeAlias = Callable[[Wire], AnyModel]


@every_model
def test_a_text_arrives_with_its_usage(wire: Wire, conversation: Talk, make: Make) -> None:
    wire.replies(Reply(text="Rain,  then\nsun. ", input_tokens=21, output_tokens=34))
    answer = conversation(make)
    assert [part.content for part in answer.parts if isinstance(part, TextPart)] == ["Rain,  then\nsun. "]
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (21, 34)
    assert answer.finish_reason == "stop"


@every_model
def test_the_request_is_recorded(wire: Wire, conversation: Talk, make: Make) -> None:
    wire.replies(Reply(text="Rain."))
    conversation(make)
    (requests_seen,) = wire.requests
    assert requests_seen.provider == {"chat": "openai", "responses": "openai"}.get(
        make.__name__, make.__name__
    )
    assert requests_seen.key == KEY
    assert requests_seen.model == make(wire).model_name
    assert requests_seen.system() == "Be brief."
    assert "How is the weather?" in json.dumps(requests_seen.messages())
    assert requests_seen.tool_names() == ["weather", "clock"]
    assert requests_seen.tool_calls() == requests_seen.tool_results() == []
    assert time.monotonic() - 10 < requests_seen.time <= time.monotonic()


@every_model
def test_settings_become_request_parameters(wire: Wire, conversation: Talk, make: Make) -> None:
    wire.replies(Reply(text="Rain."))
    conversation(make)
    expected: dict[str, dict[str, object]] = {
        "chat": {"max_completion_tokens": 64},
        "responses": {"max_output_tokens": 64, "include": ["reasoning.encrypted_content"]},
        "anthropic": {"max_tokens": 64},
        "google": {"maxOutputTokens": 64, "responseModalities": ["TEXT"]},
    }
    assert wire.requests[0].parameters() == expected[make.__name__]


@every_model
def test_parallel_calls_arrive_and_their_results_go_back(wire: Wire, conversation: Talk, make: Make) -> None:
    wire.replies(CALLS, Reply(text="Rain at noon."))
    answer = conversation(make)
    calls = [part for part in answer.parts if isinstance(part, ToolCallPart)]
    assert [(call.tool_call_id, call.tool_name, call.args_as_dict()) for call in calls] == list(
        CALLS.tool_calls
    )
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (21, 34)

    results = [ToolReturnPart("weather", "rain", "a1"), ToolReturnPart("clock", "noon", "a2")]
    conversation(make, ASK, answer, ModelRequest(parts=results))
    requests_seen = wire.requests[-1]
    assert requests_seen.tool_calls() == [("a1", "weather"), ("a2", "clock")]
    assert requests_seen.tool_results() == [("a1", "rain"), ("a2", "noon")]


@pytest.mark.parametrize("make", [responses, anthropic, google])
def test_signed_thinking_is_received_and_sent_back(wire: Wire, conversation: Talk, make: Make) -> None:
    wire.replies(Reply(thinking="Is it raining?", text="Rain."))
    answer = conversation(make)
    (thought,) = (part for part in answer.parts if isinstance(part, ThinkingPart))
    assert thought.content == "Is it raining?"
    assert SIGNATURE in (thought.signature, (thought.provider_details or {}).get("thought_signature"))
    if make is not google:  # Gemini's signature goes back with the part that follows the thought.
        conversation(make, ASK, answer, ASK)
        assert SIGNATURE in json.dumps(wire.requests[-1].messages())


def test_gemini_signs_the_first_call_after_a_thought(wire: Wire, conversation: Talk) -> None:
    wire.replies(Reply(thinking="Where?", tool_calls=CALLS.tool_calls))
    calls = [part for part in conversation(google).parts if isinstance(part, ToolCallPart)]
    assert [part.provider_details for part in calls] == [{"thought_signature": SIGNATURE}, None]


def test_gemini_may_omit_call_ids(wire: Wire, conversation: Talk) -> None:
    wire.replies(
        Reply(tool_calls=((None, "weather", {"place": "Oslo"}), (None, "weather", {"place": "Bergen"})))
    )
    calls = [part for part in conversation(google).parts if isinstance(part, ToolCallPart)]
    assert [part.tool_name for part in calls] == ["weather", "weather"]
    assert len({part.tool_call_id for part in calls}) == 2


@pytest.mark.parametrize("make", [chat, responses])
def test_broken_arguments_arrive_broken(wire: Wire, conversation: Talk, make: Make) -> None:
    wire.replies(Reply(tool_calls=(("a1", "weather", '{"place": "Os'),)))
    (call,) = (part for part in conversation(make).parts if isinstance(part, ToolCallPart))
    assert call.args == '{"place": "Os'


@every_model
@pytest.mark.parametrize("status", [429, 500, 503])
def test_an_error_raises_with_its_status(wire: Wire, conversation: Talk, make: Make, status: int) -> None:
    wire.replies(Reply(status=status, retry_after=0.01))
    with pytest.raises(ModelHTTPError) as raised:
        conversation(make)
    assert raised.value.status_code == status
    assert (raised.value.headers or {})["retry-after"] == "0.01"


@every_model
def test_a_refused_key_is_echoed(wire: Wire, conversation: Talk, make: Make) -> None:
    wire.replies(Reply(status=401))
    with pytest.raises(ModelHTTPError, match=KEY):
        conversation(make)
    assert len(wire.requests) == 1


@every_model
def test_interrupted_stream_raises_after_the_received_text(wire: Wire, make: Make) -> None:
    wire.replies(Reply(text="one two three four five six seven eight", cut_after=7))

    async def listen() -> str:
        async with make(wire) as model, model.request_stream([ASK], SETTINGS, OFFER) as stream:
            with pytest.raises(ModelAPIError):
                async for _ in stream:
                    pass
            return "".join(part.content for part in stream.get().parts if isinstance(part, TextPart))

    assert asyncio.run(listen()).startswith("one two three")


@every_model
def test_truncated_answer_raises(wire: Wire, make: Make) -> None:
    wire.replies(Reply(text="never seen", cut_after=0))

    async def listen() -> None:
        async with make(wire) as model:
            await in_one_piece(model, [ASK])

    with pytest.raises(ModelAPIError):
        asyncio.run(listen())


@every_model
def test_invalid_json_body_raises(wire: Wire, conversation: Talk, make: Make) -> None:
    wire.replies(Reply(raw=b'{"choices": [nonsense'))
    with pytest.raises((ModelAPIError, UnexpectedModelBehavior)):
        conversation(make)


def test_an_error_may_have_any_body(wire: Wire, conversation: Talk) -> None:
    wire.replies(Reply(status=400, error_body="<html>Bad gateway</html>"))
    with pytest.raises(ModelHTTPError, match="Bad gateway"):
        conversation(chat)


@pytest.mark.parametrize(
    ("make", "word"),
    [(chat, "length"), (responses, "max_output_tokens"), (anthropic, "max_tokens"), (google, "MAX_TOKENS")],
)
def test_the_finish_reason_can_be_chosen(wire: Wire, conversation: Talk, make: Make, word: str) -> None:
    wire.replies(Reply(text="It never", finish=word))
    assert conversation(make).finish_reason == "length"


def test_replies_are_sent_in_order_and_the_last_repeats(wire: Wire, conversation: Talk) -> None:
    def counted(request: Recorded) -> Reply:
        return Reply(text=f"{len(wire.requests)} of {request.provider}")

    wire.replies(Reply(text="first"), counted)
    assert [conversation(make).text for make in (chat, anthropic, google)] == [
        "first",
        "2 of anthropic",
        "3 of google",
    ]
    wire.replies(Reply(text="anew"))
    assert conversation(chat).text == "anew"


def test_two_hundred_streams_at_once(wire: Wire) -> None:
    wire.replies(Reply(text="one two three", delay=2.0))

    async def crowd() -> list[ModelResponse]:
        async with chat(wire) as model:
            return await asyncio.gather(*(streamed(model, [ASK]) for _ in range(200)))

    assert {answer.text for answer in asyncio.run(crowd())} == {"one two three"}
    assert len(wire.requests) == 200
    assert wire.peak > 90


def test_delays_are_applied(wire: Wire, conversation: Talk) -> None:
    wire.replies(Reply(text="one two three", delay=0.1, chunk_delay=0.05))
    began = time.monotonic()
    conversation(anthropic)
    events = 0.05 * 7 if wire.requests[0].streams else 0.0
    assert time.monotonic() - began >= 0.1 + events


@pytest.mark.parametrize("reply", [Reply(text="late", delay=60), Reply(text="a b c", chunk_delay=60)])
def test_client_disconnect_is_detected(wire: Wire, reply: Reply) -> None:
    wire.replies(reply)

    async def leave() -> None:
        async with chat(wire) as model:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await streamed(model, [ASK])

    asyncio.run(leave())
    deadline = time.monotonic() + 5
    while not wire.hung_up and time.monotonic() < deadline:
        time.sleep(0.01)
    assert wire.hung_up == wire.requests


@pytest.mark.parametrize("wanted", [True, False])
def test_usage_is_streamed_on_request(wire: Wire, wanted: bool) -> None:
    wire.replies(Reply(text="Rain.", input_tokens=3))

    async def usages() -> list[int]:
        async with AsyncOpenAI(base_url=wire.openai_url, api_key=KEY) as client:
            stream = await client.chat.completions.create(
                model="gpt-4o",
                messages=[{"role": "user", "content": "?"}],
                stream=True,
                stream_options={"include_usage": wanted},
            )
            return [chunk.usage.prompt_tokens async for chunk in stream if chunk.usage]

    assert asyncio.run(usages()) == ([3] if wanted else [])


def test_unknown_path_is_recorded_and_returns_404(wire: Wire) -> None:
    for url in (f"{wire.openai_url}/embeddings", wire.anthropic_url.replace("anthropic", "nobody")):
        with pytest.raises(HTTPError) as raised:
            urlopen(Request(url, data=b'{"input": "x"}', method="POST"))
        assert raised.value.code == 404
        raised.value.close()
    assert [(requests_seen.provider, requests_seen.path) for requests_seen in wire.requests] == [
        ("openai", "/v1/embeddings"),
        ("", "/nobody"),
    ]


def test_missing_reply_fails_the_test_at_the_end() -> None:
    async def ask(wire: Wire) -> None:
        async with google(wire) as model:
            with pytest.raises(AgentRunError):
                await in_one_piece(model, [ASK])

    with pytest.raises(AssertionError, match="no reply is queued"), Wire() as wire:
        asyncio.run(ask(wire))
