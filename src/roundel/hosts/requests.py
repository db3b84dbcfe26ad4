"""Control requests: what people and other processes can ask of a run.

A request is data. It travels to the process that executes the run, through the store if that is another one
(`ControlRequest`, journal/store.py), and becomes a fact there. A stop has no place in this: it also has to
cancel the calls in flight, so the driver handles it itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from roundel.hosts.people import Question, open_questions
from roundel.journal.store import ControlRequest, RequestKind, StoreError
from roundel.kernel.facts import Answered, Fact, Paused, Resumed, Stopped, Unlocked
from roundel.kernel.state import Run
from roundel.nodes.approval import approval_answer_problem
from roundel.workflow.message import Message


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
KINDS: Mapping[str, type[Any]] = {
    "pause": Pause,
    "resume": Resume,
    "stop": Stop,
    "answer": Answer,
    "unlock": Unlock,
}


def fact_of(request: Request, now: float) -> Fact:
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


def resolve(request: Request, state: Run) -> Request:
    """The request with the address of the question that it answers; StoreError if the run asks none, the
    answer does not fit it, or a run is to be unlocked that is not locked."""
    if isinstance(request, Unlock) and state.status != "suspended_locked":
        raise StoreError(f"run {state.run_id} is not locked; it is {state.status}")
    if not isinstance(request, Answer):
        return request
    question = question_at(request.address, state)
    problem = approval_answer_problem(request.message) if request.exact and question.tool is not None else ""
    if problem:
        raise UnclearAnswer(problem)
    return msgspec.structs.replace(request, address=question.address)


def question_at(address: str, state: Run) -> Question:
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
    kind = KINDS.get(stored.kind)
    if kind is None:
        raise ValueError(f"this version of roundel knows no request '{stored.kind}'")
    try:
        request: Request = msgspec.convert({"type": stored.kind, **stored.body}, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"the request '{stored.kind}' cannot be read: {error}") from error
    return request
