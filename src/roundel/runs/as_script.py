"""A stored run as a script: what models, tools and people answered, so that the run can be repeated offline.

`ScriptRecorder` (llm/script.py) writes such a script while a run is executed. This module makes it of the
journal afterwards, of any run, and with the answers of people and the results of all tools: someone who
repeats a run that has ordered something does not want to order it again. The journal is replayed, since only
the state of the run knows which command a fact answers.

Each reply has its address, so the script fits runs in which calls end in another order. What a script cannot
have is left out:

    retries, unlocks, edits     a call that failed and was made again has its last result
    attempts inside of a call   `retry` of a node and fallbacks of a model leave no fact
    a question in vain          has its default answer, if there is one; else a script says nothing, and the
                                question is open until its time has passed again
    tools that end a loop       are called again
    Python nodes and functions  are called again: they are part of the workflow, not of the world
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

from roundel.hosts.stored_run import current_history, pinned_plan
from roundel.journal.store import Pinned, Store, StoreError
from roundel.kernel.commands import Ask, Call
from roundel.kernel.facts import Answered, Entry, Expired, Fact, Failed, Finished, Outcome
from roundel.kernel.state import Execution, Run, ToolLoop
from roundel.kernel.step import step
from roundel.nodes.agent import FAILED_CALL
from roundel.nodes.agent_conversation import call_labels
from roundel.nodes.services import UNREADABLE_ARGUMENTS, Reply, ToolRequest, ToolResult
from roundel.nodes.structured_output import parse_answer
from roundel.workflow.message import Message

Line = dict[str, Any]
_FAILURE_KEYS = frozenset({"error", "type", "node", "address", "attempts"})
"""The `data` of a message that an agent with `on_error: message` gives in place of a failure."""


async def run_as_script(store: Store, run_id: str) -> str:
    """The text of a script file with which a run of the same workflow repeats this one; StoreError if the
    run was pruned."""
    if await store.kept(run_id) is not None:
        raise StoreError(f"run {run_id} was pruned, so its replies are no longer stored")
    # In a thread: a long run takes seconds to replay, and a server has other requests meanwhile.
    return await asyncio.to_thread(_replayed, *await current_history(store, run_id))


def _replayed(pinned: Pinned, entries: list[Entry]) -> str:
    state, replies = Run(pinned_plan(pinned)), _Replies()
    for entry in entries:
        address = getattr(entry.fact, "address", "")
        execution = state.calls.get(address) if address else None
        if execution is not None:
            replies.add(execution, entry.fact)
        step(state, entry.fact, entry.decisions)
    return _written(replies.lines())


class _Replies:
    """The replies of a run by node. A later one of the same call replaces the earlier one, which was
    retried."""

    def __init__(self) -> None:
        self._found: dict[str, dict[tuple[str, int], tuple[int, Line]]] = {}
        """By address and number of the call: its ordinal, which a retry changes, and the line."""
        self._open: dict[str, tuple[Line, list[str]]] = {}
        """The last reply with tool calls of an agent, by the address of the agent, with the labels of the
        calls."""

    def lines(self) -> dict[str, list[Line]]:
        """By ordinal, so that a script is the same for the same run, and usable by order where an address
        has changed."""
        return {
            name: [line for _, (_, line) in sorted(found.items(), key=lambda one: (one[1][0], one[0]))]
            for name, found in self._found.items()
        }

    def add(self, execution: Execution, fact: Fact) -> None:
        """Adds what a fact says about the command at its address."""
        command = execution.command
        if isinstance(command, Ask):
            self._add_answer(execution, command, fact)
        elif isinstance(command, Call) and execution.node.kind.speaks:
            if isinstance(execution.owner, ToolLoop) and execution.loop_call.label:
                self._add_tool_result(execution, execution.owner, fact)
            else:
                self._add_reply(execution, command, fact)

    def _put(self, name: str, ordinal: int, address: str, call: int, line: Line) -> Line:
        line = {"at": address, **({"call": call} if call else {}), **line}
        self._found.setdefault(name, {})[address, call] = ordinal, line
        return line

    # Models.

    def _add_reply(self, execution: Execution, command: Call, fact: Fact) -> None:
        call = getattr(getattr(execution.loop_call, "what", None), "call", 0)
        place = execution.node.id, command.ordinal, execution.address, call
        if isinstance(fact, Failed):
            self._put(*place, _failure(fact.error, fact.error_type, fact.reason))
        elif isinstance(fact, Finished) and isinstance(execution.owner, ToolLoop):
            reply: Reply = msgspec.convert(fact.outcome.state["reply"], Reply)
            schema = getattr(execution.node.config, "output_schema", None)
            line = self._put(*place, _reply_line(reply, schema))
            if reply.tool_calls:
                self._open[execution.address] = line, call_labels(reply)
        elif isinstance(fact, Finished):
            self._put(*place, _outcome_line(fact.outcome))

    def _add_tool_result(self, execution: Execution, tool_loop: ToolLoop, fact: Fact) -> None:
        """Adds the result of a tool to the reply that requested it."""
        line, labels = self._open[tool_loop.execution.address]
        request: Line = line["tool_calls"][labels.index(execution.loop_call.label)]
        if isinstance(fact, Failed):
            request["error"] = fact.error or "failed"
        elif isinstance(fact, Finished) and fact.outcome.usage is not None:  # else nothing was called
            result: ToolResult = msgspec.convert(fact.outcome.state, ToolResult)
            if result.exit is None:
                completed = result.status == "completed"
                request |= {"result": result.text} if completed else {"error": result.text or "failed"}

    # People.

    def _add_answer(self, execution: Execution, ask: Ask, fact: Fact) -> None:
        node = execution.node
        name = node.id if ask.about is None else f"{node.id}/{ask.about['tool']['name']}"
        place = name, ask.ordinal, execution.address, 0
        if isinstance(fact, Answered):
            self._put(*place, _message_line(fact.message))
        elif isinstance(fact, Failed):
            self._put(*place, _failure(fact.error, fact.error_type, fact.reason))
        elif isinstance(fact, Expired):
            default = getattr(node.config, "default_answer", None)
            if ask.about is not None:
                self._put(*place, {"data": {"approve": False, "reason": "nobody decided in time"}})
            elif default is not None:
                self._put(*place, _message_line(default))


def _failure(error: str, kind: str, reason: str) -> Line:
    optional = {"type": kind, "reason": reason}
    return {"error": error or "failed", **{name: value for name, value in optional.items() if value}}


def _message_line(message: Message) -> Line:
    return {"text": message.text, **({} if message.data is None else {"data": message.data})}


def _outcome_line(outcome: Outcome) -> Line:
    """The reply of an agent that makes a single call, from what became of it."""
    message = outcome.messages[0] if outcome.messages else Message()
    usage = outcome.usage
    # With `on_error: message` a failure has become a message; the model itself reports usage.
    if (
        message.data is not None
        and message.data.keys() == _FAILURE_KEYS
        and (usage is None or not usage.model_calls or usage == FAILED_CALL)
    ):
        return _failure(message.data["error"], message.data["type"], message.data.get("reason", ""))
    tokens = {} if usage is None else _tokens(usage.input_tokens, usage.output_tokens)
    return _message_line(message) | tokens


def _reply_line(reply: Reply, schema: dict[str, Any] | None) -> Line:
    line: Line = {"text": reply.text}
    # The data of an answer with a schema are those of its text, unless the provider has sent them apart.
    if reply.data is not None and (schema is None or parse_answer(reply.text, None, schema)[0] != reply.data):
        line["data"] = reply.data
    if reply.tool_calls:
        line["tool_calls"] = [
            {"id": call.id, "name": call.name, "arguments": _arguments(call)} for call in reply.tool_calls
        ]
    return line | _tokens(reply.input_tokens, reply.output_tokens)


def _arguments(call: ToolRequest) -> Any:
    """The arguments as the model sent them: unreadable ones are text, and unreadable again."""
    if call.problem.startswith(UNREADABLE_ARGUMENTS):
        return call.problem.removeprefix(UNREADABLE_ARGUMENTS)
    return call.arguments


def _tokens(sent: int, said: int) -> Line:
    # Only where there are any: a script with tokens has costs, too.
    return {"tokens": {"input": sent, "output": said}} if sent or said else {}


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes texts of several lines as blocks, and others in quotes: YAML 1.1 and 1.2 disagree on which
    plain texts are numbers."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _represent_text(dumper: Any, text: str) -> Any:
    style = "|" if "\n" in text else None if text.isascii() and text.isidentifier() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


PART = 100
"""Lines that are written at once. The emitter in C keeps the interpreter until it is done, so that no other
thread could work meanwhile."""


def _written(lines: dict[str, list[Line]]) -> str:
    parts = (part for name, found in lines.items() for part in _parts(name, found))
    return "".join(parts) if lines else _dump({})


def _parts(name: str, lines: list[Line]) -> Iterator[str]:
    first = _dump({name: lines[:PART]})
    if first.startswith("?"):  # a long name, below which the sequence is indented
        yield _dump({name: lines})
        return
    yield first
    # A sequence in a mapping is not indented otherwise, so its parts can be written one after the other.
    for at in range(PART, len(lines), PART):
        yield _dump(lines[at : at + PART])


def _dump(part: dict[str, list[Line]] | list[Line]) -> str:
    text: str = yaml.dump(part, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=110)
    # The emitter marks the end of a document that ends with a text with empty lines.
    return text.removesuffix("...\n") if text.endswith("\n...\n") else text
