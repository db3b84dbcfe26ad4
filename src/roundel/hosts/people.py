"""People: what they are asked, and who answers for them."""

from __future__ import annotations

import asyncio

from roundel.hosts.result import Asker, Question
from roundel.kernel.commands import Ask
from roundel.llm.scripted import Line, Script
from roundel.nodes.services import NodeError
from roundel.plan.graph import Plan
from roundel.workflow.message import Message


class Unanswered(Exception):
    """Nobody answers now; the question stays open."""


class People:
    """The script answers where it has an answer; then the asker does; without one a question waits."""

    def __init__(self, plan: Plan, script: Script | None, asker: Asker | None) -> None:
        self._plan = plan
        self._script = script
        self._asker = asker
        self._asking = asyncio.Lock()

    @property
    def can_be_asked(self) -> bool:
        return self._asker is not None

    def must_answer(self, ask: Ask) -> bool:
        """Whether no script does."""
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
                return Message(await self._asker(question), "user")
            except EOFError:
                raise Unanswered from None

    def _line(self, ask: Ask) -> Line | None:
        script, node_id = self._script, self._plan.sites[ask.site].id
        if script is None:
            return None
        if ask.about is not None:
            return script.decision(node_id, ask.about["tool"]["name"], ask.ordinal)
        return script.line(node_id, ask.ordinal)


def question_of(plan: Plan, ask: Ask) -> Question:
    node = plan.sites[ask.site]
    about = ask.about or {"prompt": getattr(node.config, "description", "")}
    return Question(ask.address, node.id, about["prompt"], ask.inputs, about.get("tool"))
