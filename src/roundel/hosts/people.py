"""People: what they are asked, and who answers for them: the script, then the asker of this process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from roundel.kernel.commands import Ask
from roundel.kernel.state import Run
from roundel.llm.scripted import Script, ScriptLine
from roundel.nodes.services import NodeError
from roundel.plan.graph import Plan
from roundel.workflow.message import Message


class Question(Struct, frozen=True):
    """What a person is asked."""

    address: str
    node_id: str
    prompt: str
    inputs: tuple[Message, ...]
    tool: dict[str, Any] | None = None
    """The name and arguments of a tool call that a person has to approve."""


Asker = Callable[[Question], Awaitable[str | Message]]
"""Gets an answer from a person. EOFError leaves the question open."""


class Unanswered(Exception):
    """The asker gave no answer; the question stays open."""


class People:
    """Answers the questions of one run. Without a script's answer and without an asker a question waits."""

    def __init__(self, plan: Plan, script: Script | None, asker: Asker | None) -> None:
        self._plan = plan
        self._script = script
        self._asker = asker
        self._asking = asyncio.Lock()

    @property
    def can_ask(self) -> bool:
        return self._asker is not None

    def must_answer(self, ask: Ask) -> bool:
        """Whether a person has to answer, since no script does."""
        return self._line(ask) is None

    async def answer(self, ask: Ask) -> Message:
        line = self._line(ask)
        if line is None:
            return await self._ask(ask)
        if line.delay:
            await asyncio.sleep(line.delay)
        if line.error:
            raise NodeError(line.error)
        return Message(line.text, "user", line.data)

    async def _ask(self, ask: Ask) -> Message:
        assert self._asker is not None
        question = question_of(self._plan, ask)
        async with self._asking:  # a person answers one question at a time
            try:
                answer = await self._asker(question)
            except EOFError:
                raise Unanswered from None
        return answer if isinstance(answer, Message) else Message(answer, "user")

    def _line(self, ask: Ask) -> ScriptLine | None:
        script, node_id = self._script, self._plan.sites[ask.site].id
        if script is None:
            return None
        if ask.about is not None:
            return script.decision(node_id, ask.about["tool"]["name"], ask.ordinal)
        return script.line(node_id, ask.ordinal)


def open_questions(state: Run) -> dict[str, Question]:
    """What a run asks now, by address."""
    commands = (call.command for call in state.calls.values())
    return {ask.address: question_of(state.plan, ask) for ask in commands if isinstance(ask, Ask)}


def question_of(plan: Plan, ask: Ask) -> Question:
    node = plan.sites[ask.site]
    about = ask.about or {"prompt": getattr(node.config, "description", "")}
    return Question(ask.address, node.id, about["prompt"], ask.inputs, about.get("tool"))
