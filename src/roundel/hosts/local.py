"""Runs a workflow in this process, on asyncio.

The host does what the kernel commands and tells it what happened. A call that is alone is awaited in
place; calls that do not depend on each other run as tasks of their own. Functions that are not
coroutines run in threads, so that none of them holds up the rest.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from roundel.hosts.lent import Lent
from roundel.hosts.log import event_logger
from roundel.hosts.result import Asker, Question, Result, result_of
from roundel.hosts.retry import persistent
from roundel.kernel.commands import Ask, Call, Cancel, Command, Consult
from roundel.kernel.events import Event
from roundel.kernel.facts import (
    Answered,
    Consulted,
    Fact,
    Failed,
    Finished,
    Outcome,
    Started,
    Stopped,
    Streamed,
    Verdict,
    Waited,
)
from roundel.kernel.state import Run
from roundel.kernel.step import step
from roundel.kernel.walk import delivered
from roundel.llm.recorder import Recorder
from roundel.llm.scripted import Line, Script
from roundel.nodes.services import Behaviour, NodeError, outcome_of
from roundel.plan.graph import EdgePlan, NodePlan, Plan
from roundel.workflow.diagnostics import Report, WorkflowError
from roundel.workflow.graph import Retry
from roundel.workflow.message import Message
from roundel.workflow.processor import processed

STEPS_BETWEEN_TURNS = 200
"""How many calls are awaited in place before others on the event loop get their turn."""


class LocalHost:
    """One run. `asker` answers for people; without one, unanswered questions leave the run waiting."""

    def __init__(
        self,
        plan: Plan,
        *,
        script: Script | None = None,
        asker: Asker | None = None,
        on_event: Callable[[Event], object] | None = None,
        folder: Path | None = None,
        run_id: str | None = None,
        record: Recorder | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.plan = plan
        self.state = Run(plan)
        self.run_id = run_id or os.urandom(6).hex()
        self.now = clock
        self._asker = asker
        observers = (on_event, event_logger(plan.graph.graph.log_level))
        self._observers = tuple(observer for observer in observers if observer is not None)
        self._lent = Lent(
            plan,
            self.run_id,
            clock,
            script=script,
            folder=folder or Path(".roundel", "work"),
            record=record,
            say=self._say,
        )
        self._behaviours = self._prepared(plan)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._asked: set[str] = set()
        """The questions that people have not answered yet."""
        self._facts: deque[Fact] = deque()
        self._arrived = asyncio.Event()
        self._asking = asyncio.Lock()

    # The run.

    async def run(self, messages: tuple[Message, ...]) -> Result:
        try:
            await self._drive(self._step(Started(self.run_id, messages, self.now())))
        except asyncio.CancelledError:
            await self._stop()
            if self.state.status == "stopped":
                raise
        finally:
            await self._cancel_tasks()
            await self._lent.close()
        return self.result()

    def result(self) -> Result:
        return result_of(self.state)

    async def _drive(self, commands: list[Command]) -> None:
        tasks, facts, behaviours, now = self._tasks, self._facts, self._behaviours, self.now
        tell, alone = self._step, 0
        fact: Fact | None
        while True:
            if len(commands) == 1 and not tasks and not facts and commands[0].__class__ is Call:
                # The same as _perform, without a coroutine for each call.
                call: Call = commands[0]
                alone += 1
                if not alone % STEPS_BETWEEN_TURNS:
                    await asyncio.sleep(0)
                try:
                    outcome: Any = behaviours[call.site](call)
                    if outcome.__class__ is not Outcome:
                        outcome = await outcome
                        if outcome.__class__ is not Outcome:
                            outcome = outcome_of(outcome)
                    fact = Finished(call.address, outcome, now())
                except BaseException as error:
                    fact = self._failure(call.address, error)
            else:
                for command in commands:
                    self._begin(command)
                fact = await self._next_fact()
                if fact is None:
                    return
            commands = tell(fact)

    async def _next_fact(self) -> Fact | None:
        """What happens next; None if nothing will."""
        if not self._facts:
            if self.state.over or not (self._tasks or self._asked):
                return None
            if self._tasks.keys() <= self._asked:  # only people are at work
                if self.state.status == "running":
                    return Waited(self.now())
                if not self._tasks:
                    return None
            self._arrived.clear()
            await self._arrived.wait()
        return self._facts.popleft()

    def _step(self, fact: Fact) -> list[Command]:
        commands, events = step(self.state, fact)
        for observe in self._observers:
            for event in events:
                observe(event)
        return commands

    def _say(self, address: str, text: str, attempt: int) -> None:
        """A model is speaking. Nothing follows from it, so it needs no turn of its own."""
        if address in self.state.calls:
            self._step(Streamed(address, text, attempt, self.now()))

    def _begin(self, command: Command) -> None:
        if isinstance(command, Cancel):
            self._asked.discard(command.address)
            task = self._tasks.pop(command.address, None)
            if task is not None:
                task.cancel()
            # It may have finished in the same turn; nobody waits for what it gave any more.
            late = [fact for fact in self._facts if getattr(fact, "address", None) == command.address]
            for fact in late:
                self._facts.remove(fact)
            return
        if isinstance(command, Ask) and not self._can_ask(command):
            return
        self._tasks[command.address] = asyncio.create_task(self._report(command))

    async def _report(self, command: Call | Ask | Consult) -> None:
        address = command.address
        try:
            fact = await self._carry_out(command)
        except BaseException as error:
            fact = self._failure(address, error)
        self._tasks.pop(address, None)
        self._asked.discard(address)
        self._facts.append(fact)
        self._arrived.set()

    async def _carry_out(self, command: Call | Ask | Consult) -> Fact:
        if isinstance(command, Ask):
            return await self._answer(command)
        return await (self._consult(command) if isinstance(command, Consult) else self._perform(command))

    async def _perform(self, call: Call) -> Fact:
        outcome = self._behaviours[call.site](call)
        if not isinstance(outcome, Outcome):
            outcome = outcome_of(await outcome)
        return Finished(call.address, outcome, self.now())

    def _failure(self, address: str, error: BaseException) -> Failed:
        """A node that raised has failed; whatever is meant for the whole run goes on up."""
        task = asyncio.current_task()
        stopping = isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling()
        if stopping or isinstance(error, (KeyboardInterrupt, GeneratorExit)):
            raise error
        return Failed(address, self._lent.secrets.scrub(_told(error)), self.now())

    # People.

    def _can_ask(self, ask: Ask) -> bool:
        """Whether the script or a person answers; a question that people have to answer is noted."""
        if self._line(ask) is not None:
            return True
        self._asked.add(ask.address)
        return self._asker is not None

    def _line(self, ask: Ask) -> Line | None:
        script, node_id = self._lent.script, self.plan.sites[ask.site].id
        if script is None:
            return None
        if ask.about is not None:
            return script.decision(node_id, ask.about["tool"]["name"], ask.ordinal)
        return script.line(node_id, ask.ordinal)

    async def _answer(self, ask: Ask) -> Fact:
        line = self._line(ask)
        if line is None:
            return await self._ask_somebody(ask)
        if line.delay:
            await asyncio.sleep(line.delay)
        if line.error:
            raise NodeError(line.error)
        return Answered(ask.address, Message(line.text, "user", line.data), self.now())

    async def _ask_somebody(self, ask: Ask) -> Fact:
        assert self._asker is not None
        node = self.plan.sites[ask.site]
        about = ask.about or {"prompt": getattr(node.config, "description", "")}
        question = Question(ask.address, node.id, about["prompt"], ask.inputs, about.get("tool"))
        async with self._asking:  # a person answers one question at a time
            text = await self._asker(question)
        return Answered(ask.address, Message(text, "user"), self.now())

    # Functions on edges.

    async def _consult(self, consult: Consult) -> Fact:
        node = self.plan.sites[consult.site]
        edges = {edge.index: edge for edge in node.edges}
        verdicts = []
        for index, number in consult.questions:
            edge = edges[index]
            try:
                verdicts.append(await self._verdict(edge, number, consult.messages[number]))
            except Exception as error:
                raise NodeError(f"a function on {edge.edge} failed: {_told(error)}") from error
        return Consulted(consult.address, tuple(verdicts), self.now())

    async def _verdict(self, edge: EdgePlan, number: int, message: Message) -> Verdict:
        if edge.asks_condition is not None and not await self._call(edge.asks_condition, message):
            return Verdict(edge.index, number, False)
        if edge.asks_processor is None or not edge.carry:
            return Verdict(edge.index, number, True)
        carried = delivered(edge, message)
        result = processed(carried, await self._call(edge.asks_processor, carried))
        return Verdict(edge.index, number, True, result)

    async def _call(self, function: Callable[..., Any], message: Message) -> Any:
        arguments: tuple[Any, ...] = (message,)
        if "workspace" in inspect.signature(function).parameters:
            arguments = (message, self._lent.workspace())
        return await self._lent.call(function, *arguments)

    # Beginnings and ends.

    def _prepared(self, plan: Plan) -> list[Behaviour]:
        """What each node does; WorkflowError with everything that the run would lack."""
        behaviours, report = [], Report()
        for node in plan.sites:
            try:
                behaviours.append(self._behaviour(node))
            except (NodeError, LookupError) as error:
                text = str(error.args[0] if error.args else error)
                report.add(node.node.at.diagnostic("error", "cannot-run", text))
        if not report.ok:
            raise WorkflowError(report.diagnostics)
        return behaviours

    def _behaviour(self, node: NodePlan) -> Behaviour:
        behave: Behaviour = node.kind.prepare(node.node, self._lent)
        envelope = node.node
        if envelope.timeout is None and envelope.retry is None:
            return behave
        return persistent(behave, envelope.timeout, envelope.retry or Retry(max_attempts=1))

    async def _stop(self) -> None:
        await self._cancel_tasks()
        if not self.state.over and self.state.status != "new":
            self._step(Stopped("stopped", self.now()))

    async def _cancel_tasks(self) -> None:
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _told(error: BaseException) -> str:
    if isinstance(error, NodeError):
        return str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
