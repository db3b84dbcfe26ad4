"""Requests that every provider accepts, read from the bodies that four interfaces received."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from msgspec import convert
from msgspec.structs import replace

from roundel.llm.models import Models
from roundel.llm.provider_messages import provider_request
from roundel.llm.resource_pool import current_pool
from roundel.nodes.agent import NODE as AGENT
from roundel.nodes.agent_config import Config
from roundel.nodes.services import Exchange, Request, ToolRequest, ToolResult, ToolSpec
from roundel.nodes.services import Reply as ModelReply
from roundel.workflow.graph import Node
from roundel.workflow.message import Block, Message, notice
from roundel.workflow.model_profile import Profile
from roundel.workflow.secrets import SecretMasker
from tests.llm.story import LOOK, asking, profile, run_story, workflow
from tests.llm.wire import Recorded, Reply, Wire
from tests.llm.wire.audit import conversation, problems, texts

INTERFACES = ("openai", "responses", "anthropic", "google")
every_interface = pytest.mark.parametrize("interface", INTERFACES)
DOT = base64.b64encode(b"\x89PNG a dot").decode()
IMAGE = Block("image", media_type="image/png", data=DOT)
TASK = Message("a text about tea")


def said(text: str, source: str = "", **fields: Any) -> Message:
    return Message(text, metadata={"source": source} if source else None, **fields)


def own(text: str) -> Message:
    return Message(text, "assistant", metadata={"source": "A"})


def request_of(*messages: Message, **fields: Any) -> Request:
    return Request("A", "A", 0, messages, **fields)


def look(id: str, result: str = "Oslo is quiet", text: str = "") -> Exchange:
    call = ToolRequest(id, "look", {"place": "Oslo"})
    return Exchange(ModelReply(text, tool_calls=(call,)), (ToolResult(id, "look", "completed", result),))


TOOLS = (ToolSpec("look", "Looks at a place."),)
AGAIN = Message("Your answer does not fit the JSON Schema.")

AWKWARD = {
    "nothing": request_of(),
    "only a system text": request_of(system="Be brief."),
    "system texts everywhere": request_of(
        TASK, Message("Never guess.", "system"), said("When?"), Message(" ", "system"), system="Be brief."
    ),
    "empty messages": request_of(Message(""), TASK, Message(" \n"), Message("", "assistant")),
    "only empty messages": request_of(Message(""), Message("", "assistant"), Message((Block("text"),))),
    "a self-edge": request_of(TASK, own("A draft.")),
    "two assistants in a row": request_of(TASK, own("A draft."), own("Another."), said("Shorter.", "Critic")),
    "the assistant first": request_of(own("A draft."), said("Shorter.", "Critic")),
    "the assistant alone": request_of(own("A draft.")),
    "an empty message between two assistants": request_of(TASK, own("A draft."), Message(""), own("B.")),
    "notices": request_of(
        TASK, notice("Loop limit reached (3)", role="system"), notice("2 of 3 voted yes"), system="Be brief."
    ),
    "a notice alone": request_of(notice("Loop limit reached (3)")),
    "several speakers": request_of(TASK, said("Shorter.", "Critic"), said("Longer.", "Fan"), own("Hm.")),
    "tools": request_of(TASK, exchanges=(look("a1"), look("a2", text="Once more.")), tools=TOOLS),
    "tools after a self-edge": request_of(TASK, own("A draft."), exchanges=(look("a1"),), tools=TOOLS),
    "tools without any input": request_of(exchanges=(look("a1"),), tools=TOOLS, system="Look."),
    "a tool that returned nothing": request_of(
        TASK, exchanges=(look("a1", result="", text="  "),), tools=TOOLS
    ),
    "a repair": request_of(TASK, after=(own("{}"), AGAIN)),
    "a repair of an empty answer": request_of(TASK, after=(Message("", "assistant"), AGAIN)),
    "two repairs": request_of(TASK, after=(own("{}"), AGAIN, own("[]"), AGAIN)),
    "a repair after tools": request_of(TASK, exchanges=(look("a1"),), after=(own("{}"), AGAIN), tools=TOOLS),
    "a repair after a self-edge": request_of(TASK, own("A draft."), after=(own("{}"), AGAIN)),
    "a reflection": request_of(TASK, own("A draft."), after=(Message("Is it good?"),)),
    "a reflection that was not asked": request_of(TASK, after=(own("A draft."),)),
    "blocks": request_of(
        Message((Block("text", " "), IMAGE, Block("text", "What is this?")), metadata={"source": "Eye"}),
        Message((IMAGE,), metadata={"source": "Camera"}),
        Message((Block("text", ""), Block("text", "\n"))),
    ),
    "an answer in blocks": request_of(TASK, Message((IMAGE,), "assistant"), said("Well?")),
}


def sent(wire: Wire, interface: str, request: Request) -> Recorded:
    """Asks a model for an answer through everything that an agent's request passes; what the provider
    received."""
    wire.replies(Reply(text="Good."))
    fields = profile(wire, "openai" if interface == "responses" else interface)
    if interface == "responses":
        fields["params"] = {"protocol": "responses"}

    async def ask() -> None:
        lease = current_pool().lease()
        models = Models({"default": convert(fields, Profile)}, SecretMasker(), lease, lambda *_: None)
        model = models.for_node(Node("A", "agent", Config(), AGENT))
        assert (await model.reply(request)).text == "Good."
        await lease.release()

    asyncio.run(ask())
    return wire.requests[-1]


@every_interface
@pytest.mark.parametrize("name", AWKWARD)
def test_every_provider_accepts_every_conversation(wire: Wire, interface: str, name: str) -> None:
    assert problems(sent(wire, interface, AWKWARD[name])) == []


@every_interface
def test_system_texts_come_first_in_one_message(wire: Wire, interface: str) -> None:
    request = sent(wire, interface, AWKWARD["system texts everywhere"])
    assert conversation(request)[0] == ["Be brief.\n\nNever guess."]
    assert "|".join(text for _, text in texts(request)) == "a text about tea|When?"


@every_interface
def test_sentences_of_the_engine_are_in_brackets(wire: Wire, interface: str) -> None:
    request = sent(wire, interface, AWKWARD["notices"])
    assert conversation(request)[0] == ["Be brief."]
    shown = "|".join(text for _, text in texts(request))
    assert shown == "a text about tea|[Loop limit reached (3)]|[2 of 3 voted yes]"


@every_interface
def test_no_request_ends_with_the_assistant(wire: Wire, interface: str) -> None:
    request = sent(wire, interface, AWKWARD["a self-edge"])
    assert texts(request) == [("user", "a text about tea"), ("assistant", "A draft."), ("user", "Continue.")]


def test_later_calls_have_the_same_beginning() -> None:
    """What the model saw before it called a tool, it sees again with the result."""
    first = provider_request(AWKWARD["a self-edge"])
    assert provider_request(AWKWARD["tools after a self-edge"]).messages == first.messages
    assert provider_request(AWKWARD["a repair after a self-edge"]).messages == first.messages


def test_a_conversation_that_begins_with_the_assistant_says_so() -> None:
    written = provider_request(AWKWARD["the assistant first"])
    assert [message.text for message in written.messages] == [
        "[Earlier messages are left out.]",
        "A draft.",
        "Shorter.",
    ]


def test_an_agent_without_input_is_asked_to_begin() -> None:
    assert provider_request(AWKWARD["only a system text"]).messages == (Message("Begin."),)


def test_messages_of_the_assistant_are_joined() -> None:
    written = provider_request(AWKWARD["two assistants in a row"]).messages
    assert [(message.role, message.text) for message in written] == [
        ("user", "a text about tea"),
        ("assistant", "A draft.\n\nAnother."),
        ("user", "Shorter."),
    ]


# Who said what.


@every_interface
def test_several_speakers_have_names(wire: Wire, interface: str) -> None:
    request = sent(wire, interface, AWKWARD["several speakers"])
    shown = "|".join(text for role, text in texts(request) if role == "user")
    assert shown == "a text about tea|Critic: Shorter.|Fan: Longer.|Continue."


def test_openai_gets_the_names_in_their_field(wire: Wire) -> None:
    voices = (said("One.", "The first, of two"), said("Two.", "评论家"), said("Three.", "x" * 80))
    request = sent(wire, "openai", request_of(TASK, *voices, notice("Enough.")))
    shown = [(message.get("name"), message["content"]) for message in request.messages()]
    assert shown == [
        (None, "a text about tea"),
        ("The_first_of_two", "The first, of two: One."),
        (None, "评论家: Two."),
        ("x" * 64, f"{'x' * 80}: Three."),
        (None, "[Enough.]"),
    ]


def test_names_come_before_the_first_text_of_blocks() -> None:
    eye, camera = provider_request(AWKWARD["blocks"]).messages
    assert eye.content == (IMAGE, Block("text", "Eye: What is this?"))
    assert camera.content == (Block("text", "Camera:"), IMAGE)


@pytest.mark.parametrize(
    "request_",
    [
        request_of(TASK, said("Shorter.", "Critic")),
        request_of(TASK, said("Shorter.", "Critic"), said("Once more.", "A")),
        request_of(TASK, said("Shorter.", "Critic"), own("A draft."), notice("Loop limit reached (3)")),
        replace(AWKWARD["several speakers"], speakers=False),
    ],
    ids=["one speaker", "the agent itself", "a notice", "turned off"],
)
def test_names_are_left_out_where_nobody_can_be_confused(request_: Request) -> None:
    assert not any(": " in message.text for message in provider_request(request_).messages)


def test_a_text_that_already_has_its_name_gets_no_other() -> None:
    written = provider_request(request_of(said("Critic: Shorter.", "Critic"), said("Longer.", "Fan")))
    assert [message.text for message in written.messages] == ["Critic: Shorter.", "Fan: Longer."]


# In a run.


def loop_of_three(wire: Wire, **config: Any) -> dict[str, Any]:
    source = asking(wire, **config)
    voices = [
        {"id": name, "type": "literal", "config": {"content": text}}
        for name, text in (("Critic", "Shorter."), ("Fan", "Longer."))
    ]
    source["graph"]["nodes"] += voices
    source["graph"] |= {
        "start": ["Critic", "Fan"],
        "edges": [{"from": name, "to": "A"} for name in ("Critic", "Fan")],
    }
    return source


def test_a_script_and_the_echo_see_messages_as_they_are(wire: Wire) -> None:
    assert run_story(loop_of_three(wire), script={}).result.output == "Longer."


def test_a_template_sees_messages_as_they_are(wire: Wire) -> None:
    wire.replies(Reply(text="Good."))
    run_story(loop_of_three(wire, prompt="{{ messages[0].text }} {{ text }}"))
    assert texts(wire.requests[0]) == [("user", "Shorter. Longer.")]


def test_one_text_with_headings_has_no_other_names(wire: Wire) -> None:
    wire.replies(Reply(text="Good."))
    run_story(loop_of_three(wire, input_mode="prompt"))
    ((_, text),) = texts(wire.requests[0])
    assert text.startswith("=== INPUT FROM Critic (user) ===\nShorter.")


@every_interface
def test_an_agent_with_tools_schema_and_reflection(wire: Wire, interface: str) -> None:
    """Every call of the longest conversation that an agent can have."""
    wire.replies(LOOK, LOOK, Reply(text="not JSON"), Reply(text='{"ok": true}'), Reply(text='{"ok": true}'))
    fields = profile(wire, "openai" if interface == "responses" else interface)
    if interface == "responses":
        fields["params"] = {"protocol": "responses"}
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    reflection = {"type": "reflection", "config": {"reflection_prompt": "Is it good?"}}
    source = workflow({"default": fields}, "look", role="Look.", output_schema=schema, thinking=reflection)
    assert run_story(source).result.data == {
        "ok": True,
        "stop_reason": "answered",
        "answered": True,
        "tool_rounds": 2,
    }
    assert [problems(request) for request in wire.requests] == [[]] * 5


def test_white_space_beside_signed_thoughts_is_not_sent_back(wire: Wire) -> None:
    wire.replies(Reply(thinking="Where?", text="\n\n", tool_calls=LOOK.tool_calls), Reply(text="Quiet."))
    assert run_story(asking(wire, "anthropic", "look")).result.output == "Quiet."
    assert problems(wire.requests[1]) == []
    assert "Where?" in str(wire.requests[1].messages())
