"""Scripts: which line answers, and what a line may say."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.llm.script import MAX_PIECES, ScriptedModel, load_script, script_from
from roundel.nodes.services import Request
from tests.events import node_status
from tests.nodes.conversations import agent, look, run_conversation, wants


def test_lines_are_used_in_order_and_the_last_repeats() -> None:
    script = script_from({"A": ["one", 2, {"text": "three"}], "*": "any"})
    replies = [script.line("A", ordinal) for ordinal in range(4)]
    assert [line.text for line in replies if line] == ["one", "2", "three", "three"]
    other = script.line("B", 7)
    assert other is not None and other.text == "any"


def test_line_may_target_one_address() -> None:
    late, later = {"text": "late", "at": "W[2]/A"}, {"text": "later", "at": "W[2]/A", "call": 1}
    script = script_from({"A": [late, later, "else"]})
    calls = [("W[2]/A", 0), ("W[2]/A", 1), ("W[1]/A", 0)]
    replies = [script.line("A", 2, address, call) for address, call in calls]
    assert [line.text for line in replies if line] == ["late", "later", "else"]


def test_lines_with_addresses_are_used_in_any_order() -> None:
    """An agent in two rounds; the lines stand in no order at all."""
    graph = agent(look)
    graph.node("Gate", "loop_counter", max_iterations=2).node("Out", "passthrough")
    graph.edge("A", "A", condition={"cel": "round < 2"}).edge("A", "Gate").edge("Gate", "A").edge(
        "Gate", "Out"
    )
    script = {
        "A": [
            {"at": "A[2]/A", "call": 1, "text": "second"},
            {"at": "A[1]/A", "call": 1, "text": "first"},
            {"at": "A[2]/A", **wants("look", place="b")},
            {"at": "A[1]/A", **wants("look", place="a")},
        ]
    }
    story = run_conversation(graph, script)
    assert story.results() == ["seen a", "seen b"]
    outputs = [
        event.fields()["output"] for event in story.named("node_state_change") if "output" in event.fields()
    ]
    assert outputs[:2] == ["first", "second"]


def test_tool_calls_get_ids_unless_given() -> None:
    line = {"tool_calls": [{"name": "look", "id": "mine"}, {"name": "look"}]}
    story = run_conversation(agent(look), {"A": [line, wants("look"), "done"]})
    ids = [
        event.fields()["id"] for event in story.named("tool_call") if event.fields()["status"] == "running"
    ]
    assert ids == ["mine", "call_1_2", "call_2_1"]


def test_approval_decisions_have_their_own_script_lines() -> None:
    script = script_from({"A": "said", "A/look": ["yes", "no"], "*": "any"})
    replies = [script.decision("A", "look", ordinal) for ordinal in range(3)]
    assert [line.text for line in replies if line] == ["yes", "no", "no"]
    assert script.decision("A", "peek", 0) is None, "a star consents to nothing"


@pytest.mark.parametrize(
    ("name", "warned"), [("A", False), ("A/look", False), ("*", False), ("B", True), ("B/look", True)]
)
def test_unknown_node_name_is_a_warning(name: str, warned: bool) -> None:
    assert bool(script_from({name: "x"}).check(["A", "C/D"])) is warned


def test_node_id_may_contain_a_slash() -> None:
    assert script_from({"C/D": "x", "C/D/look": "yes"}).check(["C/D"]) == []


@pytest.mark.parametrize(
    "line",
    [
        {"tool_calls": {"name": "look"}},
        {"tool_calls": [{"arguments": {}}]},
        {"tool_calls": ["look"]},
        {"call": "first"},
        {"tokens": {"input": -1}},
        {"data": [1]},
        {"stream": "yes"},
        {"delay": -1},
    ],
)
def test_invalid_line_is_rejected(line: Any, tmp_path: Path) -> None:
    with pytest.raises(roundel.WorkflowError):
        script_from({"A": [line]})


def test_script_file_errors_have_a_location(tmp_path: Path) -> None:
    file = tmp_path / "script.yaml"
    file.write_text("A:\n  - text: hello\n    tool_cals: []\n")
    with pytest.raises(roundel.WorkflowError) as caught:
        load_script(file)
    (found,) = caught.value.diagnostics
    assert (found.code, found.severity, found.line) == ("unknown-key", "error", 3)
    assert "tool_calls" in found.hint
    file.write_text(
        "A:\n  - text: hello\n    mood: good\n  - content: tea\n"
        "B:\n  - tokens: {prompt_tokens: 3}\n    tool_calls: [{name: look, args: {}}]\n"
    )
    with pytest.raises(roundel.WorkflowError) as caught:
        load_script(file)
    assert [(found.severity, found.line, found.hint) for found in caught.value.diagnostics] == [
        ("error", 3, caught.value.diagnostics[0].hint),
        ("error", 4, "did you mean 'text'?"),
        ("error", 6, "did you mean 'input'?"),
        ("error", 7, "did you mean 'arguments'?"),
    ]
    assert caught.value.diagnostics[0].hint.startswith("known keys: at, call, data, delay, error")
    with pytest.raises(roundel.WorkflowError, match="a reply of 'A' has an unknown key 'mood'"):
        roundel.run(roundel.Agent("A"), script={"A": {"text": "hello", "mood": "good"}})


# Replies that stream.


def spoken(story: Any) -> list[tuple[str, int, int]]:
    pieces = (event.fields() for event in story.named("token_stream"))
    return [(data["text"], data["attempt"], data["offset"]) for data in pieces]


def test_streamed_reply_arrives_in_pieces_and_then_as_a_whole() -> None:
    text = "  Tea is picked\nbefore the sun is up. "
    begun = time.monotonic()
    story = run_conversation(agent(), {"A": {"text": text, "stream": True, "delay": 0.05}})
    assert time.monotonic() - begun >= 0.05
    pieces = spoken(story)
    assert [piece for piece, *_ in pieces][:4] == ["  ", "Tea ", "is ", "picked\n"]
    assert "".join(piece for piece, *_ in pieces) == text == story.result.output
    lengths = [len(piece) for piece, *_ in pieces]
    assert [(attempt, offset) for _, attempt, offset in pieces] == [
        (1, sum(lengths[:number])) for number in range(len(pieces))
    ]
    names = [event.event for event in story.events]
    assert names.index("token_stream") > names.index("node_state_change")
    (done,) = [event for event in story.events if node_status(event) == "completed"][:1]
    assert done.seq and story.events.index(done) > max(
        number for number, name in enumerate(names) if name == "token_stream"
    )


@pytest.mark.parametrize("text", ["word " * 5000, "茶" * 5000, " " * 5000, "x"])
def test_streamed_reply_has_a_bounded_number_of_pieces(text: str) -> None:
    # Blanks are no answer, so there is a second one, which does not stream.
    pieces = spoken(run_conversation(agent(), {"A": [{"text": text, "stream": True}, "answer"]}))
    assert "".join(piece for piece, *_ in pieces) == text
    assert 1 <= len(pieces) <= MAX_PIECES
    assert len(pieces) == 1 or len({len(piece) for piece, *_ in pieces[:-1]}) == 1


def test_nothing_is_streamed_without_text_or_to_an_agent_that_does_not_stream() -> None:
    line = {"text": "Tea is good.", "stream": True}
    assert not spoken(run_conversation(agent(stream=False), {"A": line}))
    assert not spoken(run_conversation(agent(), {"A": {"data": {"score": 1}, "stream": True}}))
    assert not spoken(run_conversation(agent(), {"A": {**line, "stream": False}}))


def test_streamed_reply_with_an_error_breaks_off() -> None:
    story = run_conversation(agent(), {"A": {"text": "Tea is.", "stream": True, "error": "connection lost"}})
    # The end may be held back, as it could be the beginning of a secret. No secret begins with a dot.
    assert [piece for piece, *_ in spoken(story)] == ["Tea ", "is."]
    assert story.result.error == "A: connection lost"


def test_streamed_reply_may_request_tools() -> None:
    asks = {"text": "I look.", "stream": True, **wants("look")}
    story = run_conversation(agent(look), {"A": [asks, {"text": "Seen it.", "stream": True}]})
    assert [(piece, offset) for piece, _, offset in spoken(story)] == [
        ("I ", 0),
        ("look.", 2),
        ("Seen ", 0),
        ("it.", 5),
    ]


def test_secrets_are_masked_in_streamed_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEA_API_KEY", "sk-tea-0123456789abcdef")
    graph = agent(role="Use ${TEA_API_KEY}.")
    text = "The key is sk-tea-0123456789abcdef, keep it."
    story = run_conversation(graph, {"A": {"text": text, "stream": True}})
    shown = "".join(piece for piece, *_ in spoken(story))
    assert shown.startswith("The key is ") and "keep" in shown
    assert "0123456789" not in shown + story.result.output


def test_cancelled_reply_stops_in_the_middle() -> None:
    pieces: list[str] = []

    async def begin() -> None:
        line = {"A": {"text": "word " * 100, "stream": True, "delay": 5}}
        model, request = ScriptedModel(script_from(line)), Request("A", "A", 0, ())

        def say(text: str, _attempt: int, _offset: int) -> None:
            pieces.append(text)
            task.cancel()

        task = asyncio.ensure_future(model.reply(request, say))
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(begin())
    assert pieces == ["word "]


def test_streamed_replies_are_not_stored(tmp_path: Path) -> None:
    store = str(tmp_path / "runs.db")
    seen: list[roundel.Event] = []
    script = {"A": {"text": "Tea is good.", "stream": True}}
    result = roundel.run(agent(), "go", script=script, store=store, on_event=seen.append)
    assert {event.seq for event in seen if event.event == "token_stream"} == {0}

    async def stored() -> list[roundel.Event]:
        async with roundel.Runs(store) as runs:
            return list(await runs.events(result.run_id))

    numbered = asyncio.run(stored())
    assert [event.seq for event in numbered] == list(range(1, len(numbered) + 1))
    assert [event.event for event in numbered] == [event.event for event in seen if event.seq]
