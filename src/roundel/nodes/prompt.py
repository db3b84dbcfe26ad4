"""Build the messages that a model gets: the system message from the settings of an agent, the others from
its input, its prompt and its memories.

The input goes to the model as it is, followed by the agent's `prompt`. A prompt may contain CEL
expressions between `{{` and `}}`. A prompt that uses `messages` places the input itself, and so replaces
it; one that uses `text` replaces what is new, and the model still gets the task and its own last answer.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from roundel.kernel.commands import Call, CallContext
from roundel.workflow.evaluation_budget import evaluation_budget
from roundel.workflow.expression import Expression, ExpressionError
from roundel.workflow.message import Message, json_text

if TYPE_CHECKING:
    from roundel.nodes.agent_config import Config
    from roundel.nodes.services import ToolSpec

PROMPT_VARIABLES = ("text", "messages", "data", "round", "task", "previous")
MAX_TEMPLATE_EXPRESSIONS = 100
"""Expressions in one prompt. They are evaluated one after the other, within one budget."""
MAX_PROMPT = 10_000_000
"""Characters of a prompt with its values: `{{ text }}` can be written many times."""
_VARIABLE = re.compile(r"(?<![\w.])[a-z]+\b")


class TemplateError(ExpressionError):
    """A prompt with too many expressions, or one that becomes too long."""


class Template:
    """A prompt, parsed once when the node is prepared; `render` evaluates its expressions for a call."""

    def __init__(self, source: str) -> None:
        parts = _split_template(source)
        if len(parts) // 2 > MAX_TEMPLATE_EXPRESSIONS:
            raise TemplateError(
                f"it has {len(parts) // 2} expressions, and {MAX_TEMPLATE_EXPRESSIONS} are allowed"
            )
        self._texts = parts[::2]
        self._expressions = [Expression(part.strip(), PROMPT_VARIABLES) for part in parts[1::2]]
        self.reads = frozenset(name for part in parts[1::2] for name in _VARIABLE.findall(part))
        """The names in its expressions, among which are all variables that it reads."""

    @property
    def has_expressions(self) -> bool:
        return bool(self._expressions)

    def render(self, call: Call) -> str:
        if not self._expressions:
            return self._texts[0]
        with evaluation_budget():
            return self._render(call)

    def _render(self, call: Call) -> str:
        values = _template_values(call)
        rendered = [self._texts[0]]
        size = len(self._texts[0])
        for expression, text in zip(self._expressions, self._texts[1:], strict=True):
            value = json_text(expression.evaluate(values))
            size += len(value) + len(text)
            if size > MAX_PROMPT:
                raise TemplateError(f"the prompt has more than {MAX_PROMPT:,} characters with its values")
            rendered += (value, text)
        return "".join(rendered)


@lru_cache(maxsize=256)
def read_variables(source: str) -> frozenset[str]:
    """The names in the expressions of a prompt; none if it cannot be read."""
    try:
        return Template(source).reads if "{{" in source else frozenset()
    except ExpressionError:
        return frozenset()


def _split_template(source: str) -> list[str]:
    """Texts and expressions in turn; the first and the last part are texts. An unclosed `{{` is text."""
    parts: list[str] = []
    # By hand: a pattern would search the rest of the text again for each `{{` that has no end, which
    # takes quadratic time.
    at = 0
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
    context = call.context or CallContext()
    return {
        "text": last.text,
        "data": last.data or {},
        "messages": shown,
        "round": call.round,
        "task": context.task,
        "previous": context.previous,
    }


def system_message(config: Config, specs: tuple[ToolSpec, ...]) -> str:
    """The role, the descriptions of dynamic tools, and the schema. The schema is sent in words even
    to providers that support schemas natively, since those may not support this one."""
    parts = [config.role]
    dynamic = config.dynamic_tools
    if dynamic is not None and specs:
        parts.append(_describe_tools(dynamic.tool_ids, dynamic.description_template, specs))
    if config.output_schema is not None:
        schema = json.dumps(config.output_schema, ensure_ascii=False)
        parts.append(f"Answer with JSON alone. It must fit this JSON Schema:\n{schema}")
    return "\n\n".join(filter(None, parts))


def _describe_tools(names: tuple[str, ...], template: str, specs: tuple[ToolSpec, ...]) -> str:
    """The lines of the system message that describe the dynamic tools."""
    lines = (
        template.replace("{toolName}", spec.name).replace("{toolDescription}", spec.description)
        for spec in specs
        if spec.source in names
    )
    return "\n".join(lines)


def build_messages(call: Call, template: Template | None, flatten: bool) -> tuple[Message, ...]:
    """The messages for the model: the input, and behind it the prompt, which replaces what it uses of the
    input."""
    inputs = call.inputs
    if template is not None and "messages" in template.reads:
        inputs = ()
    elif template is not None and "text" in template.reads:
        inputs = inputs[: len(inputs) - call.context.new] if call.context is not None else ()
    messages = (flatten_messages(inputs),) if flatten and (inputs or template is None) else inputs
    return messages if template is None else (*messages, Message(template.render(call)))


def insert_memories(messages: tuple[Message, ...], memories: str, flatten: bool) -> tuple[Message, ...]:
    """Inserts the recalled memories before the last message of a user, or with `flatten` at the head of
    its text.

    Not behind it: the last thing that the model reads should be the task."""
    if not memories:
        return messages
    users = [place for place, message in enumerate(messages) if message.role == "user"]
    place = users[-1] if users else len(messages)
    if flatten and users:
        prompt_message = Message(f"{memories}\n\n{messages[place].text}")
        return (*messages[:place], prompt_message, *messages[place + 1 :])
    return (*messages[:place], Message(memories), *messages[place:])


def flatten_messages(messages: tuple[Message, ...]) -> Message:
    """All input as one text, each part under a heading with its source and role."""
    parts = (
        f"=== INPUT FROM {message.source or 'TASK'} ({message.role}) ===\n{message.text}"
        for message in messages
    )
    return Message("\n\n".join(parts))
