"""What a model is shown of an agent's input.

The input goes to the model as it is, followed by the agent's `prompt`. A prompt may hold CEL expressions
between `{{` and `}}`. One that names `text` or `messages` says where the input belongs, and so replaces it.
"""

from __future__ import annotations

import re
from typing import Any

from roundel.kernel.commands import Call
from roundel.workflow.expression import Expression
from roundel.workflow.message import Message, json_text

PROMPT_VARIABLES = ("text", "messages", "data", "round")
_INPUT = re.compile(r"(?<![\w.])(text|messages)\b")


class Template:
    def __init__(self, source: str) -> None:
        parts = _split_template(source)
        self._texts = parts[::2]
        self._expressions = [Expression(part.strip(), PROMPT_VARIABLES) for part in parts[1::2]]
        self.includes_input = any(_INPUT.search(expression.source) for expression in self._expressions)

    def render(self, call: Call) -> str:
        if not self._expressions:
            return self._texts[0]
        values = _template_values(call)
        rendered = [self._texts[0]]
        for expression, text in zip(self._expressions, self._texts[1:], strict=True):
            rendered += (json_text(expression.evaluate(values)), text)
        return "".join(rendered)


def _split_template(source: str) -> list[str]:
    """Texts, and between them what stands in `{{ }}`."""
    parts: list[str] = []
    at = 0  # by hand: a pattern would look for the end of every `{{` anew, if there is none
    while (start := source.find("{{", at)) >= 0 and (end := source.find("}}", start + 2)) >= 0:
        parts += (source[at:start], source[start + 2 : end])
        at = end + 2
    return [*parts, source[at:]]


def _template_values(call: Call) -> dict[str, Any]:
    last = call.inputs[-1] if call.inputs else Message()
    shown = [
        {"text": message.text, "role": message.role, "source": message.source, "data": message.data or {}}
        for message in call.inputs
    ]
    return {"text": last.text, "data": last.data or {}, "messages": shown, "round": call.round}


def build_messages(call: Call, template: Template | None, flatten: bool) -> tuple[Message, ...]:
    """The messages that the model gets."""
    messages = (flatten_messages(call.inputs),) if flatten else call.inputs
    if template is None:
        return messages
    prompt_message = Message(template.render(call))
    return (prompt_message,) if template.includes_input else (*messages, prompt_message)


def insert_memories(messages: tuple[Message, ...], memories: str, flatten: bool) -> tuple[Message, ...]:
    """With what memory has to say: before the last thing that a user said, or at its head."""
    if not memories:
        return messages
    users = [place for place, message in enumerate(messages) if message.role == "user"]
    place = users[-1] if users else len(messages)
    if flatten and users:
        prompt_message = Message(f"{memories}\n\n{messages[place].text}")
        return (*messages[:place], prompt_message, *messages[place + 1 :])
    return (*messages[:place], Message(memories), *messages[place:])


def flatten_messages(messages: tuple[Message, ...]) -> Message:
    """All input as one text, each part under a heading that says where it comes from."""
    parts = (
        f"=== INPUT FROM {message.source or 'TASK'} ({message.role}) ===\n{message.text}"
        for message in messages
    )
    return Message("\n\n".join(parts))
