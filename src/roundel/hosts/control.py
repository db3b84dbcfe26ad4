"""People: what they are asked, and who answers for them: the script, then the asker of this process.

Control requests: what people and other processes can ask of a run.

A request is data. It travels to the process that executes the run, through the store if that is another one
(`ControlRequest`, journal/store.py), and becomes a fact there. A stop has no place in this: it also has to
cancel the calls in flight, so the driver handles it itself.

Finds the control requests that other processes leave in a store for the runs that this one executes.

There is one poller for each store and event loop, whatever the number of runs: one query every POLL_SECONDS
serves all of them. It polls only while there are runs. With each few polls it also asks whether the claims
still hold: a run that appends nothing for a long time would not notice by itself that another process has
taken it over, and would go on calling models in vain.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from roundel.journal.store import Claim, ControlRequest, Fenced, RequestKind, Store, StoreError
from roundel.kernel.commands import Ask
from roundel.kernel.facts import Answered, Fact, Paused, Resumed, Stopped, Unlocked
from roundel.kernel.state import Run
from roundel.llm.script import Script, ScriptLine
from roundel.nodes.agent_conversation import approval_answer_problem
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


AskHandler = Callable[[Question], Awaitable[str | Message]]
"""Gets an answer from a person. EOFError leaves the question open."""


class Unanswered(Exception):
    """The asker gave no answer; the question stays open."""


class AnswerSource:
    """Answers the questions of one run. Without a script's answer and without an asker a question waits."""

    def __init__(self, plan: Plan, script: Script | None, ask_handler: AskHandler | None) -> None:
        self._plan = plan
        self._script = script
        self._ask_handler = ask_handler
        self._ask_lock = asyncio.Lock()

    @property
    def can_ask(self) -> bool:
        return self._ask_handler is not None

    def needs_person(self, ask: Ask) -> bool:
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
        assert self._ask_handler is not None
        question = make_question(self._plan, ask)
        async with self._ask_lock:  # a person answers one question at a time
            try:
                answer = await self._ask_handler(question)
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
    return {ask.address: make_question(state.plan, ask) for ask in commands if isinstance(ask, Ask)}


def make_question(plan: Plan, ask: Ask) -> Question:
    node = plan.sites[ask.site]
    about = ask.about or {"prompt": getattr(node.config, "description", "")}
    return Question(ask.address, node.id, about["prompt"], ask.inputs, about.get("tool"))


class _Request(Struct, frozen=True, omit_defaults=True):
    @property
    def kind(self) -> RequestKind:
        kind: RequestKind = self.__struct_config__.tag  # type: ignore[assignment]
        return kind


class Pause(_Request, frozen=True, tag="pause"):
    """Let the calls in flight finish, and start nothing new."""

    reason: str = ""


class Resume(_Request, frozen=True, tag="resume"):
    """Take a pause back."""


class Stop(_Request, frozen=True, tag="stop"):
    """Cancel the calls in flight and end the run."""

    reason: str = ""


class Answer(_Request, frozen=True, tag="answer"):
    """Answer a question."""

    message: Message
    address: str = ""
    """Of the question; empty if the run asks one question only."""
    exact: bool = False
    """Refuse an answer to a tool approval that is neither consent, refusal nor other arguments."""


class UnclearAnswer(StoreError):
    """The answer does not say what is to happen with the tool call."""


class Unlock(_Request, frozen=True, tag="unlock"):
    """Let a locked run continue (kernel/unlock.py)."""

    reason: str
    by: str
    checks: tuple[str, ...]
    limits: dict[str, float] = {}
    message: str | None = None
    note: str = ""
    exit: str = ""


Request = Pause | Resume | Stop | Answer | Unlock
REQUEST_TYPES: Mapping[str, type[Any]] = {
    "pause": Pause,
    "resume": Resume,
    "stop": Stop,
    "answer": Answer,
    "unlock": Unlock,
}


def to_fact(request: Request, now: float) -> Fact:
    """The fact that a request becomes."""
    if isinstance(request, Pause):
        return Paused(request.reason or "paused", now)
    if isinstance(request, Resume):
        return Resumed(now)
    if isinstance(request, Stop):
        return Stopped(request.reason or "stopped", now)
    if isinstance(request, Answer):
        return Answered(request.address, request.message, now)
    return Unlocked(
        request.reason,
        request.by,
        request.checks,
        now,
        request.limits,
        request.message,
        request.note,
        request.exit,
    )


def resolve_request(request: Request, state: Run) -> Request:
    """The request with the address of the question that it answers; StoreError if the run asks none, the
    answer does not fit it, or a run is to be unlocked that is not locked."""
    if isinstance(request, Unlock) and state.status != "suspended_locked":
        raise StoreError(f"run {state.run_id} is not locked; it is {state.status}")
    if not isinstance(request, Answer):
        return request
    question = find_question(request.address, state)
    problem = approval_answer_problem(request.message) if request.exact and question.tool is not None else ""
    if problem:
        raise UnclearAnswer(problem)
    return msgspec.structs.replace(request, address=question.address)


def find_question(address: str, state: Run) -> Question:
    """The question at an address, or the only one; StoreError if there is none, or more than one."""
    questions, run_id = open_questions(state), state.run_id
    addresses = ", ".join(sorted(questions))
    if not questions:
        raise StoreError(f"run {run_id} asks nobody; it is {state.status}")
    if address and address not in questions:
        raise StoreError(f"run {run_id} asks nobody at '{address}', but at {addresses}")
    if not address and len(questions) > 1:
        raise StoreError(f"run {run_id} asks more than one question; say which (--at): {addresses}")
    return questions[address or addresses]


def encode_request(request: Request) -> dict[str, Any]:
    """The body of a control request in a store."""
    body: dict[str, Any] = msgspec.to_builtins(request)
    del body["type"]
    return body


def decode_request(stored: ControlRequest) -> Request:
    """ValueError if this version knows no such request."""
    kind = REQUEST_TYPES.get(stored.kind)
    if kind is None:
        raise ValueError(f"this version of roundel knows no request '{stored.kind}'")
    try:
        request: Request = msgspec.convert({"type": stored.kind, **stored.body}, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"the request '{stored.kind}' cannot be read: {error}") from error
    return request


POLL_SECONDS = 0.2
CLAIM_CHECKS = 5
"""Polls between two checks of the claims."""


class ControlledRun(Protocol):
    """A run that this process executes (local_run.py)."""

    def handle_stored_request(self, request: ControlRequest) -> None:
        """Applies a request and settles it in the store; returns at once."""

    def on_lost(self, error: Exception) -> None:
        """Ends the execution, since the run cannot be controlled any more."""


class RequestPoller:
    """Created by `get_poller`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._runs: dict[Claim, ControlledRun] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, claim: Claim, run: ControlledRun) -> None:
        self._runs[claim] = run
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._poll(), name="roundel-control-requests")

    def remove(self, claim: Claim) -> None:
        self._runs.pop(claim, None)
        if not self._runs and self._task is not None:
            self._task.cancel()
            self._task = None
            _POLLERS[asyncio.get_running_loop()].pop(self._store, None)

    async def _poll(self) -> None:
        handled: set[int] = set()
        polls = 0
        while True:
            await asyncio.sleep(POLL_SECONDS)
            polls += 1
            claims = list(self._runs)
            try:
                requests = await self._store.requests(claims)
                lost = await self._store.lost(claims) if polls % CLAIM_CHECKS == 0 else []
            except Exception as error:  # whatever it is: nobody could control these runs any more
                for run in list(self._runs.values()):
                    run.on_lost(error)
                return
            for claim in lost:
                if claim in self._runs:
                    self._runs[claim].on_lost(Fenced(f"another process has taken over run {claim.run_id}"))
            by_id = {claim.run_id: run for claim, run in self._runs.items()}
            for request in requests:
                if request.number not in handled and request.run_id in by_id:
                    by_id[request.run_id].handle_stored_request(request)
            # A request is open, and found again, until the run has settled it.
            handled = {request.number for request in requests}


_POLLERS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Store, RequestPoller]] = (
    weakref.WeakKeyDictionary()
)
"""Those that have runs: a poller and its task refer to their store and loop, and would keep both alive."""


def get_poller(store: Store) -> RequestPoller:
    """The poller of a store on the running event loop."""
    pollers = _POLLERS.setdefault(asyncio.get_running_loop(), {})
    if store not in pollers:
        pollers[store] = RequestPoller(store)
    return pollers[store]
