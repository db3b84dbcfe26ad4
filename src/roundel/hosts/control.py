"""Control of a run from outside: questions to people, control requests, and the poller that finds them.

*Questions.* `AnswerSource` answers the questions of a run: from its script, else by the ask handler of
this process. Without either, a question stays open until a control request answers it.

*Control requests* are data. A request travels to the process that executes the run, through the store if
that is another process (`ControlRequest`, journal/store.py), and becomes a fact there (`to_fact`). A
stop is different: it also has to cancel the calls in flight, so the driver handles it itself.

*The poller* finds the requests that other processes leave in a store for the runs that this process
executes. There is one poller for each store and event loop, whatever the number of runs: one query every
POLL_SECONDS serves all of them. It polls only while there are runs. Every CLAIM_CHECKS polls it also
checks whether the claims are still valid: a run that appends nothing for a long time would not notice by
itself that another process has taken it over, and would continue to call models in vain.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from roundel.journal.store import Claim, ControlRequest, Fenced, RequestKind, Store, StoreError
from roundel.kernel.commands import Ask, subject_of
from roundel.kernel.debugging import EditRefused, find_waiting
from roundel.kernel.facts import (
    Answered,
    AnsweredVia,
    BreakpointsChanged,
    Fact,
    Locked,
    Paused,
    Resumed,
    Retried,
    Stepped,
    Stopped,
    Unlocked,
    WaitingEdited,
)
from roundel.kernel.state import CRASHES, Run
from roundel.llm.script import Script, ScriptLine
from roundel.nodes.agent_conversation import approval_answer_problem
from roundel.nodes.services import NodeError
from roundel.plan.graph import Plan
from roundel.workflow.breakpoints import Breakpoint
from roundel.workflow.message import Message


class Question(Struct, frozen=True):
    """A question to a person. Created by `make_question` from the kernel's Ask."""

    address: str
    """Its address in the run, such as `Writer[3]`."""
    node_id: str
    """The id of the node that asks."""
    prompt: str
    """The question."""
    inputs: tuple[Message, ...]
    """The messages that the node has received."""
    tool: dict[str, Any] | None = None
    """The name and arguments of a tool call that a person has to approve."""
    deadline: float | None = None
    """The time before which it has to be answered; None if there is none."""
    default: Any = None
    """The answer of a human node if there is none by then; None if the node has none."""


AskHandler = Callable[[Question], Awaitable[str | Message]]
"""Gets an answer from a person. If it raises EOFError, the question stays open."""


class Unanswered(Exception):
    """The ask handler got no answer; the question stays open."""


class AnswerSource:
    """Answers the questions of one run. Created by LocalRun. Without a line in the script and without an
    ask handler, a question waits. `by` is the person behind the handler."""

    def __init__(
        self, plan: Plan, script: Script | None, ask_handler: AskHandler | None, by: str = ""
    ) -> None:
        self._plan, self._by = plan, by
        self._script = script
        self._ask_handler = ask_handler
        self._ask_lock = asyncio.Lock()

    @property
    def can_ask(self) -> bool:
        return self._ask_handler is not None

    def needs_person(self, ask: Ask) -> bool:
        """Whether a person has to answer, since no script does."""
        return self._line(ask) is None

    async def answer(self, ask: Ask) -> tuple[Message, str, AnsweredVia]:
        """The answer of the script, else of a person, and who gave it, as in `Answered`. Unanswered if the
        person gives none."""
        line = self._line(ask)
        if line is None:
            return await self._ask(ask), self._by, "person"
        if line.delay:
            await asyncio.sleep(line.delay)
        if line.error:
            raise NodeError(line.error, line.type)
        return Message(line.text, "user", line.data), "", "script"

    async def _ask(self, ask: Ask) -> Message:
        assert self._ask_handler is not None
        question = make_question(self._plan, ask)
        async with self._ask_lock:  # parallel branches may ask; a person answers one question at a time
            try:
                answer = await self._ask_handler(question)
            except EOFError:
                raise Unanswered from None
        return answer if isinstance(answer, Message) else Message(answer, "user")

    def _line(self, ask: Ask) -> ScriptLine | None:
        """The line of the script for a question: by address, else by node and ordinal; for a tool approval
        by tool, too."""
        script, node_id = self._script, self._plan.sites[ask.site].id
        if script is None:
            return None
        if ask.about is not None:
            return script.decision(node_id, ask.about["tool"]["name"], ask.ordinal, ask.address)
        return script.line(node_id, ask.ordinal, ask.address)


def open_questions(state: Run) -> dict[str, Question]:
    """The questions that a run asks now, by address."""
    commands = (call.command for call in state.calls.values())
    return {ask.address: make_question(state.plan, ask) for ask in commands if isinstance(ask, Ask)}


def make_question(plan: Plan, ask: Ask) -> Question:
    """A question for people: that of a tool approval, or the description of a human node."""
    node, about = plan.sites[ask.site], subject_of(ask, plan)
    tool = about.get("tool")
    default = getattr(node.config, "default", None) if tool is None else None
    return Question(ask.address, node.id, about["prompt"], ask.inputs, tool, ask.deadline, default)


class _Request(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What all requests have in common. The tag of a class is its `kind` in the store."""

    by: str = ""
    """Who makes the request: the name of a user or of a token; empty if that is not known."""

    @property
    def kind(self) -> RequestKind:
        kind: RequestKind = self.__struct_config__.tag  # type: ignore[assignment]
        return kind


class Pause(_Request, frozen=True, tag="pause"):
    """Lets the calls in flight finish, and starts nothing new."""

    reason: str = ""


class Resume(_Request, frozen=True, tag="resume"):
    """Ends a pause."""

    if_interrupted: bool = False
    """Only if nobody executes the run and nobody has paused it: for a host that resumes runs by itself, and
    may have looked at the run before somebody paused it."""


class RetryRun(_Request, frozen=True, tag="retry"):
    """Takes up a failed run: what failed runs again, and everything that finished is kept."""


class Stop(_Request, frozen=True, tag="stop"):
    """Cancels the calls in flight and ends the run."""

    reason: str = ""


class Answer(_Request, frozen=True, tag="answer"):
    """Answers a question."""

    message: Message
    address: str = ""
    """The address of the question; may be empty if the run asks only one."""
    exact: bool = False
    """Refuse an answer to a tool approval that is neither consent, refusal nor other arguments."""


class UnclearAnswer(StoreError):
    """The answer to a tool approval is neither consent, refusal nor other arguments."""


class EditConflict(StoreError):
    """The message to edit is not the one that the person saw."""


class LockRun(_Request, frozen=True, tag="lock"):
    """Trips the breaker: lets the calls in flight finish, and starts nothing new until an unlock."""

    reason: str
    crashes: int = 0
    """How many processes in a row died while they executed the run; 0 if a person locks it."""


class Unlock(_Request, frozen=True, tag="unlock"):
    """Unlocks a run that has met a limit (kernel/unlock.py)."""

    reason: str
    checks: tuple[str, ...]
    limits: dict[str, float] = {}
    message: str | None = None
    note: str = ""
    exit: str = ""


class StepRun(_Request, frozen=True, tag="step"):
    """Lets a paused run take one step (kernel/debugging.py): one node, or to the next round."""

    round: bool = False


class ChangeBreakpoints(_Request, frozen=True, tag="breakpoints"):
    """Sets and removes breakpoints."""

    add: tuple[Breakpoint, ...] = ()
    remove: tuple[Breakpoint, ...] = ()


class EditMessage(_Request, frozen=True, tag="edit"):
    """Changes a message that waits at a node of a paused or locked run."""

    address: str
    position: int
    text: str
    data: dict[str, Any] | None = None
    version: str = ""


RunRequest = (
    Pause | Resume | RetryRun | Stop | Answer | LockRun | Unlock | StepRun | ChangeBreakpoints | EditMessage
)
REQUEST_TYPES: Mapping[str, type[Any]] = {
    "pause": Pause,
    "resume": Resume,
    "retry": RetryRun,
    "stop": Stop,
    "answer": Answer,
    "lock": LockRun,
    "unlock": Unlock,
    "step": StepRun,
    "breakpoints": ChangeBreakpoints,
    "edit": EditMessage,
}


def to_fact(request: RunRequest, now: float) -> Fact:
    """The fact that a request becomes. The times of control facts are those of the applying process: the
    clock of the requester may belong to another machine."""
    if isinstance(request, Pause):
        return Paused(request.reason or "paused", now, by=request.by)
    if isinstance(request, Resume):
        return Resumed(now, request.by)
    if isinstance(request, RetryRun):
        return Retried(now, request.by)
    if isinstance(request, Stop):
        return Stopped(request.reason or "stopped", now, request.by)
    if isinstance(request, Answer):
        return Answered(request.address, request.message, now, request.by)
    if isinstance(request, LockRun):
        return Locked(request.reason, request.by, now, crashes=request.crashes)
    if isinstance(request, StepRun):
        return Stepped(now, request.round, request.by)
    if isinstance(request, ChangeBreakpoints):
        return BreakpointsChanged(now, request.add, request.remove, request.by)
    if isinstance(request, EditMessage):
        return WaitingEdited(
            request.address, request.position, request.text, now, request.data, request.version, request.by
        )
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


def resolve_request(request: RunRequest, state: Run) -> RunRequest:
    """Checks a request against the state of its run, and adds the address of the question to an answer.

    StoreError if the run asks no such question, the answer does not fit, a run is to be unlocked that is
    not locked, or to be locked that is locked or over. The kernel refuses such facts, too; here the text can
    say what to do instead."""
    if isinstance(request, RetryRun) and state.status != "failed":
        raise StoreError(f"run {state.run_id} has not failed, so it cannot be retried; it is {state.status}")
    if isinstance(request, Unlock) and state.status != "suspended_locked":
        raise StoreError(f"run {state.run_id} is not locked; it is {state.status}")
    if isinstance(request, LockRun):
        if not request.reason.strip():
            raise StoreError("to lock a run takes a reason")
        if state.over:
            raise StoreError(f"run {state.run_id} is over: it is {state.status}")
        if state.lock is not None:
            raise StoreError(f"run {state.run_id} is locked already: {state.lock}")
    if isinstance(request, StepRun) and state.status != "paused":
        raise StoreError(_step_problem(state))
    if isinstance(request, ChangeBreakpoints) and state.over:
        raise StoreError(f"run {state.run_id} is over: it is {state.status}; it cannot reach a breakpoint")
    if isinstance(request, EditMessage):
        _check_edit(request, state)
    if not isinstance(request, Answer):
        return request
    question = find_question(request.address, state)
    problem = approval_answer_problem(request.message) if request.exact and question.tool is not None else ""
    if problem:
        raise UnclearAnswer(problem)
    return msgspec.structs.replace(request, address=question.address)


def _step_problem(state: Run) -> str:
    """Why a run that is not paused cannot take a step, and what to do instead."""
    run_id = state.run_id
    if state.status == "waiting":
        asked = ", ".join(sorted(open_questions(state)))
        return (
            f"nothing of run {run_id} is ready: it waits for an answer at {asked}; "
            f"`roundel answer {run_id}` gives it"
        )
    if state.status == "running":
        return f"run {run_id} is running; `roundel pause {run_id}` pauses it, and then it can take steps"
    return explain_not_resumable(state)


def explain_not_resumable(state: Run) -> str:
    """Why a run that is over or locked does not continue, and what to do instead."""
    run_id = state.run_id
    if state.status == "failed":
        return f"run {run_id} has failed; `roundel retry {run_id}` runs again what failed, and keeps the rest"
    if state.over:
        return (
            f"run {run_id} is over: it is {state.status}; `roundel fork {run_id} --at ADDRESS` starts a new "
            "one from any point of it"
        )
    if state.lock is not None and state.lock.what == CRASHES:
        addresses = ", ".join(state.lock.evidence["in_flight"]) or "nothing"
        return (
            f"run {run_id} is locked: {state.lock.limit:g} processes in a row died while they executed it, "
            f"with {addresses} in flight; repair the cause, and `roundel unlock {run_id}` tries again"
        )
    return f"run {run_id} is locked; `roundel unlock {run_id}` unlocks it"


def _check_edit(request: EditMessage, state: Run) -> None:
    if state.status not in ("paused", "suspended_locked"):
        raise StoreError(
            f"the messages of run {state.run_id} can be edited while it is paused or locked; "
            f"it is {state.status}"
        )
    try:
        find_waiting(state, request.address, request.position, request.version)
    except EditRefused as error:
        raise (EditConflict if error.conflict else StoreError)(str(error)) from error


def find_question(address: str, state: Run) -> Question:
    """The question at an address, or the only one; StoreError if there is none, or more than one."""
    questions, run_id = open_questions(state), state.run_id
    addresses = ", ".join(sorted(questions))
    if not questions:
        raise StoreError(f"run {run_id} has no open question; it is {state.status}")
    if address and address not in questions:
        raise StoreError(f"run {run_id} has no open question at '{address}'; open questions: {addresses}")
    if not address and len(questions) > 1:
        raise StoreError(f"run {run_id} has several open questions; select one (--at): {addresses}")
    return questions[address or addresses]


def encode_request(request: RunRequest) -> dict[str, Any]:
    """The body of a control request in a store."""
    body: dict[str, Any] = msgspec.to_builtins(request)
    del body["type"]
    return body


def decode_request(stored: ControlRequest) -> RunRequest:
    """ValueError if this version knows no such request."""
    kind = REQUEST_TYPES.get(stored.kind)
    if kind is None:
        raise ValueError(f"this version of roundel knows no request '{stored.kind}'")
    try:
        request: RunRequest = msgspec.convert({"type": stored.kind, **stored.body}, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"the request '{stored.kind}' cannot be read: {error}") from error
    return request


POLL_SECONDS = 0.2
CLAIM_CHECKS = 5
"""The claims are checked with every fifth poll, which is once a second."""


class ControlledRun(Protocol):
    """What the poller needs of a run that this process executes; LocalRun implements it."""

    def handle_stored_request(self, request: ControlRequest) -> None:
        """Begins to apply a request and to settle it in the store; returns at once, so that one slow run
        does not delay the requests of the others."""

    def on_lost(self, error: Exception) -> None:
        """Ends the execution, since the run cannot be controlled any more."""


class RequestPoller:
    """Polls a store for the requests to all runs of one event loop. Created by `get_poller`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._runs: dict[Claim, ControlledRun] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, claim: Claim, run: ControlledRun) -> None:
        """Polls for a run from now on. A task that has ended, since the store failed, is started
        again."""
        self._runs[claim] = run
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._poll(), name="roundel-control-requests")

    def remove(self, claim: Claim) -> None:
        """Stops polling for a run; the last one ends the task and forgets the poller."""
        self._runs.pop(claim, None)
        if not self._runs and self._task is not None:
            self._task.cancel()
            self._task = None
            _POLLERS[asyncio.get_running_loop()].pop(self._store, None)

    async def _poll(self) -> None:
        """Delivers each open request once. A failure of the store ends all runs: without control, nobody
        could stop them."""
        handled: set[int] = set()
        polls = 0
        while True:
            await asyncio.sleep(POLL_SECONDS)
            polls += 1
            claims = list(self._runs)  # runs may be added and removed during the awaits below
            try:
                requests = await self._store.requests(claims)
                lost = await self._store.lost(claims) if polls % CLAIM_CHECKS == 0 else []
            except Exception as error:
                for run in list(self._runs.values()):
                    run.on_lost(error)
                return
            for claim in lost:
                if claim in self._runs:  # it may have ended during the query
                    self._runs[claim].on_lost(Fenced(f"another process has taken over run {claim.run_id}"))
            by_id = {claim.run_id: run for claim, run in self._runs.items()}
            for request in requests:
                if request.number not in handled and request.run_id in by_id:
                    by_id[request.run_id].handle_stored_request(request)
            # A request stays open, and is found again, until the run has settled it. Only the numbers of
            # the last poll are remembered, so that the set does not grow; a settled number never comes
            # back.
            handled = {request.number for request in requests}


_POLLERS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Store, RequestPoller]] = (
    weakref.WeakKeyDictionary()
)
"""The pollers that have runs, by event loop. One without runs is removed: a poller and its task refer to
their store and loop, and would keep both alive."""


def get_poller(store: Store) -> RequestPoller:
    """The poller of a store on the running event loop."""
    pollers = _POLLERS.setdefault(asyncio.get_running_loop(), {})
    if store not in pollers:
        pollers[store] = RequestPoller(store)
    return pollers[store]
