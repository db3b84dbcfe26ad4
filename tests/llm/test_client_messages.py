"""The messages that a model receives: roles, prompts, several content types, media."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from roundel.workflow.message import Block, Message
from tests.llm.story import asking, every_provider, run_story
from tests.llm.wire import Reply, Wire

DOT = base64.b64encode(b"\x89PNG a dot").decode()
PAPER = base64.b64encode(b"%PDF-1.4 a paper").decode()


def seen(wire: Wire, number: int = -1) -> list[tuple[str, str]]:
    """Role and text of each message, in no provider's words."""
    shown = []
    for message in wire.requests[number].messages():
        content: Any = message.get("parts", message.get("content"))
        parts = [{"text": content}] if isinstance(content, str) else content
        role = "assistant" if message["role"] == "model" else message["role"]
        shown.append((role, "|".join(part.get("text", "?") for part in parts)))
    return [one for one in shown if one[0] != "system"]


def nodes_before_agent(wire: Wire, provider: str, *before: dict[str, Any], **config: Any) -> dict[str, Any]:
    """Nodes, one after the other, that all speak to the agent at the end."""
    source = asking(wire, provider, **config)
    names = [node["id"] for node in before]
    source["graph"]["nodes"] = [*before, *source["graph"]["nodes"]]
    source["graph"]["start"] = names
    source["graph"]["edges"] = [{"from": name, "to": "A"} for name in names]
    return source


def literal(name: str, content: str, **config: Any) -> dict[str, Any]:
    return {"id": name, "type": "literal", "config": {"content": content, **config}}


@every_provider
def test_output_of_other_agents_is_user_input(wire: Wire, provider: str) -> None:
    wire.replies(Reply(text="A draft."), Reply(text="A verdict."))
    source = asking(wire, provider, role="You review.")
    nodes = source["graph"]["nodes"]
    nodes.insert(0, {"id": "Writer", "type": "agent", "config": {"role": "You write."}})
    source["graph"] |= {"start": ["Writer"], "edges": [{"from": "Writer", "to": "A"}]}
    assert run_story(source, "Tea").result.output == "A verdict."
    assert [request.system() for request in wire.requests] == ["You write.", "You review."]
    assert seen(wire, 0) == [("user", "Tea")]
    assert seen(wire, 1) == [("user", "A draft.")]


@every_provider
def test_a_prompt_follows_the_input(wire: Wire, provider: str) -> None:
    wire.replies(Reply(text="Quiet."))
    run_story(asking(wire, provider, prompt="Say it in round {{ round }}."), "Tea")
    assert "|".join(text for _, text in seen(wire)) == "Tea|Say it in round 0."


@every_provider
def test_a_prompt_that_names_the_input_replaces_it(wire: Wire, provider: str) -> None:
    wire.replies(Reply(text="Quiet."))
    run_story(asking(wire, provider, prompt="Of {{ text }}, {{ messages.size() }} part: {{ data }}"), "Tea")
    assert seen(wire) == [("user", "Of Tea, 1 part: {}")]


@every_provider
def test_all_input_as_one_text(wire: Wire, provider: str) -> None:
    wire.replies(Reply(text="Quiet."))
    run_story(
        nodes_before_agent(
            wire, provider, literal("One", "first"), literal("Two", "second"), input_mode="prompt"
        )
    )
    assert seen(wire) == [
        ("user", "=== INPUT FROM One (user) ===\nfirst\n\n=== INPUT FROM Two (user) ===\nsecond")
    ]


@every_provider
def test_several_messages_are_sent_as_user_input(wire: Wire, provider: str) -> None:
    wire.replies(Reply(text="Quiet."))
    run_story(nodes_before_agent(wire, provider, literal("One", "first"), literal("Two", "second")))
    assert "|".join(text for _, text in seen(wire)) == "One: first|Two: second"
    assert {role for role, _ in seen(wire)} == {"user"}


@every_provider
def test_messages_keep_their_roles(wire: Wire, provider: str) -> None:
    wire.replies(Reply(text="Quiet."))
    source = asking(wire, provider, role="Be brief.")
    source["graph"]["nodes"] += [
        {"id": f"P{number}", "type": "python", "config": {"function": f"tests.llm.tools:{name}"}}
        for number, name in enumerate(("ask_first", "answer_first", "ask_then", "rule"))
    ]
    source["graph"]["start"] = ["P0", "P1", "P2", "P3"]
    source["graph"]["edges"] = [{"from": f"P{number}", "to": "A"} for number in range(4)]
    run_story(source)
    assert seen(wire) == [("user", "P0: Where?"), ("assistant", "In Oslo."), ("user", "P2: When?")]
    assert wire.requests[0].system().replace("\n", "") == "Be brief.Never guess."


def told_of(wire: Wire, provider: str, *blocks: Block) -> str:
    wire.replies(Reply(text="Seen."))
    story = run_story(asking(wire, provider), Message(blocks))
    assert story.result.output == "Seen.", story.result.error
    return json.dumps(wire.requests[-1].messages())


@every_provider
@pytest.mark.parametrize(
    "block",
    [
        Block("image", media_type="image/png", data=DOT),
        Block("image", url=f"data:image/png;base64,{DOT}"),
    ],
    ids=["data", "data-url"],
)
def test_an_image_by_its_bytes(wire: Wire, provider: str, block: Block) -> None:
    sent = told_of(wire, provider, Block("text", "What is this?"), block)
    assert "What is this?" in sent and DOT in sent and "image/png" in sent


@every_provider
def test_a_file_by_its_bytes(wire: Wire, provider: str) -> None:
    sent = told_of(wire, provider, Block("file", media_type="application/pdf", data=PAPER))
    assert PAPER in sent and "application/pdf" in sent


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_an_image_by_its_address(wire: Wire, provider: str) -> None:
    url = "https://example.org/dot.png"
    assert url in told_of(wire, provider, Block("text", "What is this?"), Block("image", url=url))


def test_a_file_by_its_address(wire: Wire) -> None:
    url = "https://example.org/paper.pdf"
    assert url in told_of(wire, "anthropic", Block("file", url=url))


def test_data_is_shown_as_json(wire: Wire) -> None:
    assert '{\\"score\\": 3}' in told_of(wire, "openai", Block("data", data={"score": 3}))


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (Block("image"), "a block of the type image has no url"),
        (Block("image", data=DOT), "a block of the type image has no url"),
        (Block("image", media_type="image/png", data="no base64!"), "the data of a block of the type image"),
        (Block("image", url="data:nonsense"), "the data of a block of the type image"),
    ],
    ids=str,
)
def test_missing_media_fail_the_node(wire: Wire, block: Block, words: str) -> None:
    story = run_story(asking(wire), Message((block,)))
    assert words in story.error
    assert not wire.requests


def test_prompt_and_media(wire: Wire) -> None:
    wire.replies(Reply(text="Seen."))
    run_story(
        asking(wire, prompt="What is this?"), Message((Block("image", media_type="image/png", data=DOT),))
    )
    assert DOT in json.dumps(wire.requests[0].messages())
    assert "What is this?" in json.dumps(wire.requests[0].messages())


def test_dynamic_tools_are_described_in_the_system_message(wire: Wire) -> None:
    wire.replies(Reply(text="Quiet."))
    tools = {"toolIds": ["look"], "descriptionTemplate": "- {toolName} ({toolDescription})"}
    source = asking(wire, role="You look.", dynamicTools=tools)
    source["tools"] = {"look": {"python": "tests.llm.tools:look"}}
    run_story(source)
    assert wire.requests[0].system() == "You look.\n\n- look (Looks at a place.)"
    assert wire.requests[0].tool_names() == ["look"]
