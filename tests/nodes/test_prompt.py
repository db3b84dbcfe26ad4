"""How the input of an agent is presented to the model."""

from __future__ import annotations

from typing import Any

import pytest

import roundel
from roundel.kernel.commands import Call
from roundel.nodes.prompt import Template, build_messages, flatten_messages
from roundel.workflow.expression import ExpressionError
from tests.deadline import Deadline
from tests.nodes.conversations import run_conversation

DRAFT = roundel.Message("a draft", data={"score": 7, "text": "hidden"}, metadata={"source": "Writer"})
NOTE = roundel.Message("shorter", "assistant", metadata={"source": "Critic"})


def call(*messages: roundel.Message, round: int = 0) -> Call:
    return Call("A", 0, messages, None, 0, round)


def shown(prompt: str, *messages: roundel.Message, flatten: bool = False) -> list[str]:
    made = build_messages(call(*messages), Template(prompt), flatten)
    return [message.text for message in made]


def test_prompt_follows_the_input() -> None:
    assert shown("Now answer.", DRAFT) == ["a draft", "Now answer."]


def test_prompt_that_uses_the_input_replaces_it() -> None:
    assert shown("Shorten this: {{text}}", NOTE, DRAFT) == ["Shorten this: a draft"]
    listed = '{{messages.map(m, m.source + ": " + m.text)}}'
    assert shown(listed, DRAFT, NOTE) == ['["Writer: a draft", "Critic: shorter"]']


def test_prompt_that_uses_only_data_does_not_replace_the_input() -> None:
    assert shown("It has {{data.score}} points.", DRAFT) == ["a draft", "It has 7 points."]
    assert shown("It says {{data.text}}.", DRAFT) == ["a draft", "It says hidden."]


def test_prompt_can_use_the_round() -> None:
    template = Template("This is round {{round}} of {{ round + 1 }}.")
    assert template.render(call(DRAFT, round=3)) == "This is round 3 of 4."


def test_values_are_rendered_as_json_except_text() -> None:
    assert Template("{{data}}|{{[1, 2]}}|{{true}}|{{null}}").render(call(NOTE)) == "{}|[1, 2]|true|null"


def test_literal_braces_are_kept() -> None:
    assert Template('{"a": {"b": 1}} {{"{{"}}').render(call()) == '{"a": {"b": 1}} {{'


def test_without_input_the_text_is_empty() -> None:
    assert Template("[{{text}}]").render(call()) == "[]"


@pytest.mark.parametrize("prompt", ["{{ txt }}", "{{ text + }}", "{{}}"])
def test_invalid_prompt_is_rejected_before_the_run(prompt: str) -> None:
    with pytest.raises(ExpressionError):
        Template(prompt)
    graph = roundel.Graph(start="A", end="A").node("A", "agent", prompt=prompt)
    with pytest.raises(roundel.WorkflowError) as caught:
        graph.workflow()
    (found,) = caught.value.diagnostics
    assert found.code == "bad-expression"
    assert found.message.startswith("in 'prompt': ")


def test_missing_field_in_a_prompt_fails_the_node() -> None:
    graph = roundel.Graph(start="A", end="A").node("A", "agent", prompt="{{data.score}}")
    result = run_conversation(graph, {"A": "x"}).result
    assert result.status == "failed"
    assert "score" in str(result.error)


def test_all_input_may_be_one_text() -> None:
    assert shown("And?", DRAFT, NOTE, flatten=True) == [flatten_messages((DRAFT, NOTE)).text, "And?"]
    assert flatten_messages((DRAFT, NOTE)).text == (
        "=== INPUT FROM Writer (user) ===\na draft\n\n=== INPUT FROM Critic (assistant) ===\nshorter"
    )


def test_a_script_echoes_what_the_model_would_see(tmp_path: Any) -> None:
    graph = roundel.Graph(start="A", end="A").node("A", "agent", prompt="Say {{text}} twice.")
    assert run_conversation(graph, {}, "tea").result.output == "Say tea twice."


def rendered(prompt: str) -> str:
    return Template(prompt).render(call(DRAFT))


def test_unclosed_braces_are_text_and_parsed_in_linear_time() -> None:
    within = Deadline(rendered)
    assert within("{{" * 500_000) == "{{" * 500_000
    assert within("{{data.score}} of {{ 10 }} }} {{") == "7 of 10 }} {{"
    assert within("a {{\n'}' + \"{\"\n}} b") == "a }{ b"
