"""Scripts: replies that replace every model and every person, so that a run is offline and repeatable.

A script gives each node its replies in order; the last one repeats. Which reply a call gets depends on
how often its node has run before, never on which call was faster. An unknown key of a reply is an error: a
reply without the tokens or the delay that were meant would rehearse something else.

A scripted run starts no MCP server (decision 13). What else a script may cause is its rights: a caller of a
server may give one, and must not drive tools with it (decision 53).

`ScriptRecorder` writes such a script from a run with real models, so that the run can be repeated
without them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args

import msgspec
from msgspec import Meta, Struct

from roundel.kernel.facts import Attempt, CallRecord
from roundel.nodes.services import (
    UNREADABLE_ARGUMENTS,
    Model,
    NodeError,
    Reply,
    Request,
    ScriptedResult,
    StreamCallback,
    Toolbox,
    ToolRequest,
    ToolResult,
    ToolSpec,
)
from roundel.workflow.diagnostics import Diagnostic, Report, WorkflowError
from roundel.workflow.document import Located, read_file, read_text
from roundel.workflow.fields import INVALID, Reader, child, locate_or_report
from roundel.workflow.message import json_text
from roundel.workflow.secret_finder import SecretFinder
from roundel.workflow.secrets import SecretMasker

if TYPE_CHECKING:
    from roundel.nodes.agent_models import ScriptedPrice

EVERY_NODE = "*"
"""The key of replies for all nodes that have none of their own."""
TokenCount = Annotated[int, Meta(ge=0)]
ScriptRight = Literal["tools", "approvals"]
ALL_RIGHTS: tuple[ScriptRight, ...] = get_args(ScriptRight)
"""What a script may do besides replying: call Python tools, where it gives no result, and approve calls."""


class Tokens(Struct, frozen=True, omit_defaults=True):
    input: TokenCount = 0
    output: TokenCount = 0

    __strict__: ClassVar[bool] = True
    __hints__: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("input_tokens", "prompt", "prompt_tokens"), "did you mean 'input'?"),
        **dict.fromkeys(("output_tokens", "completion", "completion_tokens"), "did you mean 'output'?"),
    }


class ScriptedCall(Struct, frozen=True, omit_defaults=True):
    """A tool call that a scripted reply requests."""

    name: str
    arguments: Any = None
    id: str = ""
    result: Any = None
    """The result of the call. With it, the tool is not called."""
    error: str = ""
    """The error of the call. With it, the tool is not called."""

    __strict__: ClassVar[bool] = True
    __hints__: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("args", "input", "parameters"), "did you mean 'arguments'?"),
        **dict.fromkeys(("tool", "function"), "did you mean 'name'?"),
        "output": "did you mean 'result'?",
    }

    def __check__(self, at: Located, report: Report) -> bool:
        if self.error and self.result is not None:
            message = f"the call of the tool '{self.name}' has both a 'result' and an 'error'"
            report.error("two-results", message, child(at, "error"), "keep one of the two")
            return False
        return True

    def request(self, number: str) -> ToolRequest:
        arguments = {} if self.arguments is None else self.arguments
        if isinstance(arguments, dict):
            return ToolRequest(self.id or number, self.name, arguments, given=self._scripted_result())
        problem = f"{UNREADABLE_ARGUMENTS}{json_text(arguments):.200}"
        return ToolRequest(self.id or number, self.name, {}, problem)

    def _scripted_result(self) -> ScriptedResult | None:
        if self.error:
            return ScriptedResult(self.error, failed=True)
        return None if self.result is None else ScriptedResult(json_text(self.result))


class ScriptLine(Struct, frozen=True, omit_defaults=True):
    """One scripted reply: of a model, or of a person."""

    text: str = ""
    data: dict[str, Any] | None = None
    tokens: Tokens = Tokens()
    delay: Annotated[float, Meta(ge=0)] = 0
    """How many seconds the reply takes."""
    stream: bool = False
    """Whether the text is published in pieces during that time, as a model that streams does. Without
    effect for the reply of a person."""
    error: str = ""
    type: str = ""
    """The kind of failure that the `error` is, for error edges."""
    reason: str = ""
    """Why the call must fail again (`NodeError.reason`)."""
    tool_calls: tuple[ScriptedCall, ...] = ()
    at: str = ""
    """The address that the reply belongs to, in a record of a run; without it replies are used in
    order."""
    call: int = 0
    """The number of the call at that address."""

    __strict__: ClassVar[bool] = True
    __hints__: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("content", "reply", "message", "answer", "output"), "did you mean 'text'?"),
        **dict.fromkeys(("tools", "calls", "tool"), "did you mean 'tool_calls'?"),
        **dict.fromkeys(("usage", "input_tokens", "output_tokens"), "write `tokens: {input: …, output: …}`"),
        **dict.fromkeys(("seconds", "wait", "sleep"), "did you mean 'delay'?"),
    }


class Script:
    """The replies of a script by node. `load_script` and `script_from` create it.

    A reply with an address is used for exactly that call. All others are used by the ordinal of the
    call, and the last one repeats."""

    def __init__(
        self,
        lines: Mapping[str, tuple[ScriptLine, ...]],
        keys: Mapping[str, Located],
        report: Report,
        rights: Sequence[str] = ALL_RIGHTS,
    ) -> None:
        self._lines = lines
        self._keys = keys
        self._report = report
        """What was found when it was read: warnings alone."""
        self.rights = tuple(rights)
        """Those of ALL_RIGHTS that it has. They are not part of its text."""
        self._by_address = {
            (name, line.at, line.call): line for name, given in lines.items() for line in given if line.at
        }

    @property
    def text(self) -> str:
        """The text of a script file with the same content."""
        return msgspec.json.encode(self._lines).decode()

    def line(
        self, node_id: str, ordinal: int, address: str = "", call: int = 0, optional: bool = False
    ) -> ScriptLine | None:
        """The reply to a call; None if there is none. Replies for every node answer no optional calls."""
        by_address = self._by_address.get((node_id, address, call))
        if by_address is not None:
            return by_address
        lines = self._lines.get(node_id) or (None if optional else self._lines.get(EVERY_NODE))
        return lines[min(ordinal, len(lines) - 1)] if lines else None

    @property
    def has_tokens(self) -> bool:
        """Whether some reply has tokens, so that it may have a cost."""
        return any(line.tokens != Tokens() for given in self._lines.values() for line in given)

    def without_delays(self) -> Script:
        """A copy without delays."""
        lines = {
            name: tuple(msgspec.structs.replace(line, delay=0) for line in given)
            for name, given in self._lines.items()
        }
        return Script(lines, self._keys, self._report, self.rights)

    def with_rights(self, rights: Sequence[str]) -> Script:
        """A copy with other rights."""
        return Script(self._lines, self._keys, self._report, rights)

    def decision(self, node_id: str, tool: str, ordinal: int, address: str = "") -> ScriptLine | None:
        """The decision of a person about a tool call of an agent; its key is `agent/tool`. None if there is
        none, or the script may not approve calls."""
        if "approvals" not in self.rights:
            return None
        by_address = self._by_address.get((f"{node_id}/{tool}", address, 0))
        if by_address is not None:
            return by_address
        lines = self._lines.get(f"{node_id}/{tool}")
        return lines[min(ordinal, len(lines) - 1)] if lines else None

    def check(self, node_ids: Iterable[str]) -> list[Diagnostic]:
        """The warnings about a script: those of reading it, and one for each name that is not that of a
        node."""
        report, known = Report(self._report.file, self._report.secrets), set(node_ids)
        report.extend(self._report)
        for name, at in self._keys.items():
            agent = name.rpartition("/")[0]  # `agent/tool` has the decisions about calls of the tool
            if name != EVERY_NODE and name not in known and agent not in known:
                hint = report.suggest(name, known)
                report.warning("unknown-node", f"the script names '{name}', which is not a node", at, hint)
        return report.diagnostics


def load_script(source: str | os.PathLike[str]) -> tuple[Script, Report]:
    """Loads a script from a file; WorkflowError with all errors at once."""
    report = Report(str(source), SecretFinder())
    return _parse_script(read_file(Path(source), report), report)


def script_from(value: Mapping[str, Any] | str) -> Script:
    """A script from a mapping, or from the text of a script file."""
    report = Report("<script>", SecretFinder())
    root = read_text(value, report) if isinstance(value, str) else locate_or_report(value, report)
    return _parse_script(root, report)[0]


def _parse_script(root: Located | None, report: Report) -> tuple[Script, Report]:
    lines: dict[str, tuple[ScriptLine, ...]] = {}
    keys: dict[str, Located] = {}
    if root is not None and isinstance(root.value, dict):
        for name, at in root.value.items():
            line, column = (root.keys or {}).get(name, (at.line, at.column))
            keys[name] = Located(name, line, column)
            lines[name] = _lines(name, at, report)
    elif root is not None and root.value is not None:
        report.error("wrong-type", "a script must be a mapping from node ids to replies", root)
    if not report.ok:
        raise WorkflowError(report.diagnostics)
    return Script(lines, keys, report), report


def _lines(name: str, at: Located, report: Report) -> tuple[ScriptLine, ...]:
    items = at.value if isinstance(at.value, list) else [at]
    if not items:
        report.error("empty-script", f"the script gives '{name}' no reply", at, "give one, or leave it out")
    return tuple(_line(name, item, report) for item in items)


def _line(name: str, at: Located, report: Report) -> ScriptLine:
    if at.value is None:
        return ScriptLine()
    if not isinstance(at.value, dict):
        try:
            return ScriptLine(json_text(at.plain()))
        except TypeError as error:
            report.error("wrong-type", f"a reply of '{name}' cannot be written as text: {error}", at)
            return ScriptLine()
    line = Reader(report).read_struct(at, ScriptLine, f"a reply of '{name}'")
    return ScriptLine() if line is INVALID else line


AT_ONCE = CallRecord(0, stop="stop")
"""The record of a reply without a line in the script."""


class ScriptedModel:
    """A model that replies from a script. Without a reply for its node it repeats the
    last message.

    `price` gives the replies the name of the agent's model, and the cost of their tokens."""

    def __init__(self, script: Script, price: ScriptedPrice | None = None) -> None:
        self._script = script
        self._price = price

    async def reply(self, request: Request, say: StreamCallback | None = None) -> Reply:
        optional = request.unscripted is not None
        line = self._script.line(request.node_id, request.ordinal, request.address, request.call, optional)
        if line is None:
            echo = request.messages[-1].text if request.messages else ""
            text = echo if request.unscripted is None else request.unscripted
            return self._priced(Reply(text, call=AT_ONCE))
        if line.stream and line.text and say is not None:
            await _stream(line, say)
        elif line.delay:
            await asyncio.sleep(line.delay)
        if line.error:
            tried = (Attempt(error=line.error, seconds=line.delay),)
            raise NodeError(line.error, line.type or "ModelError", reason=line.reason, tried=tried)
        calls = tuple(
            call.request(f"call_{request.ordinal + 1}_{number}")
            for number, call in enumerate(line.tool_calls, 1)
        )
        record = CallRecord(line.delay, stop="tool_calls" if calls else "stop")
        reply = Reply(line.text, line.data, line.tokens.input, line.tokens.output, calls, call=record)
        return self._priced(reply)

    def _priced(self, reply: Reply) -> Reply:
        price = self._price
        if price is None:
            return reply
        cost = price.cost(reply.input_tokens, reply.output_tokens)
        return msgspec.structs.replace(reply, model=price.model, cost_usd=cost, scripted=True)


MAX_PIECES = 100
"""Pieces of one streamed reply. More would cost more than a person can see."""
_WORD = re.compile(r"\s+|\S{1,20}\s*")
"""A word with the space behind it. Text without spaces, such as Chinese, is cut all the same."""


async def _stream(line: ScriptLine, say: StreamCallback) -> None:
    """Says the text of a line in pieces; the last one when the delay is over."""
    words = _WORD.findall(line.text)
    size = -(-len(words) // MAX_PIECES)
    pieces = ["".join(words[first : first + size]) for first in range(0, len(words), size)]
    loop, offset = asyncio.get_running_loop(), 0
    begun = loop.time()
    for number, piece in enumerate(pieces, 1):
        # By the clock, so that sleeps that take longer than asked do not add up.
        await asyncio.sleep(max(0, begun + line.delay * number / len(pieces) - loop.time()))
        say(piece, 1, offset)
        offset += len(piece)


WRITE_INTERVAL = 1.0
"""Seconds between two writes: a killed process loses at most the replies of this time."""
MAX_WRITE_SHARE = 20
"""The whole record is written each time. A write that takes t seconds is followed by a pause of at least
20 t, so that writing takes at most a twentieth of the time however long the record is."""

_OUTCOME_KEYS = {"result", "error"}
_log = logging.getLogger("roundel")


class ScriptRecorder:
    """Writes what models and servers answered as a script, so that the run can be repeated offline.

    Each reply has its address, so replies of calls that ran at the same time find their way back
    whatever the order. The file is replaced as a whole: it is a valid script at each moment."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._replies: dict[str, list[tuple[int, str, int, dict[str, Any]]]] = {}
        self._due = time.monotonic() + WRITE_INTERVAL
        self._is_saved = True
        self.problem = ""
        """Why the record is incomplete; empty if it is complete."""

    def check(self) -> None:
        """Raises OSError if the record cannot be written, before the run spends anything. An existing
        file is not changed."""
        path = self._path
        if path.exists() and not path.is_file():
            raise OSError(f"the record '{path}' cannot be written: there is something that is not a file")
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(f"the record '{path}' cannot be written: it may only be read")
        part = self._temporary_path()
        try:
            part.touch()
            part.unlink()
        except OSError as error:
            raise type(error)(f"the record '{path}' cannot be written: {error.strerror}") from None

    def record_reply(self, request: Request, reply: Reply) -> None:
        line: dict[str, Any] = {"text": reply.text}
        if reply.data is not None:
            line["data"] = reply.data
        if reply.tool_calls:
            line["tool_calls"] = [
                {"id": call.id, "name": call.name, "arguments": _recorded_arguments(call)}
                for call in reply.tool_calls
            ]
        line["tokens"] = {"input": reply.input_tokens, "output": reply.output_tokens}
        self._record(request, line)

    def record_error(self, request: Request, text: str, error: NodeError) -> None:
        """Records a failed call; `text` is that of the error without secrets."""
        kind = error.type if error.type != "ModelError" else ""  # which a script has by default
        given = {"error": text, "type": kind, "reason": error.reason}
        self._record(request, {name: value for name, value in given.items() if value})

    def record_tool_result(self, node_id: str, result: ToolResult) -> None:
        """Adds the result of a call of a server's tool to the reply that requested it: a scripted run
        starts no server.

        The newest request with this id and without a result gets it."""
        for *_, line in reversed(self._replies.get(node_id, [])):
            for call in line.get("tool_calls", ()):
                if (call["id"], call["name"]) == (result.id, result.name) and not call.keys() & _OUTCOME_KEYS:
                    completed = result.status == "completed"
                    call.update({"result": result.text} if completed else {"error": result.text or "failed"})
                    self._is_saved = False
                    return

    def _record(self, request: Request, line: dict[str, Any]) -> None:
        place = {"at": request.address, **({"call": request.call} if request.call else {})}
        line = {**place, **line}
        replies = self._replies.setdefault(request.node_id, [])
        replies.append((request.ordinal, request.address, request.call, line))
        self._is_saved = False
        if time.monotonic() >= self._due:
            self.write()

    def write(self) -> None:
        """Writes the whole record; the old file stays until the new one is complete.

        It never raises: a run must not fail because of its record."""
        if self._is_saved and self._path.exists():
            return
        began = time.monotonic()
        try:
            self._replace()
            self._is_saved, self.problem = True, ""
        except OSError as error:
            self.problem = f"the record '{self._path}' could not be written: {error.strerror or error}"
            _log.warning("%s", self.problem)
        now = time.monotonic()
        self._due = now + max(WRITE_INTERVAL, MAX_WRITE_SHARE * (now - began))

    def _replace(self) -> None:
        import yaml

        script = {
            node: [line for *_, line in sorted(replies, key=_sort_key)]
            for node, replies in self._replies.items()
        }
        part = self._temporary_path()
        text = yaml.dump(
            script, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), allow_unicode=True, sort_keys=False
        )
        part.write_text(text, encoding="utf-8")
        part.replace(self._path)

    def _temporary_path(self) -> Path:
        return self._path.with_name(f"{self._path.name}.{os.getpid()}.part")


def _recorded_arguments(call: ToolRequest) -> Any:
    """The arguments as the model sent them: unreadable ones are recorded as text, and are unreadable
    again in a replay of the script."""
    return call.problem.removeprefix(UNREADABLE_ARGUMENTS) if call.problem else call.arguments


# Replies arrive in the order in which calls ended. Sorted by ordinal, a record is the same for the same
# run, and still usable by order where an address has changed.
def _sort_key(replies: tuple[int, str, int, dict[str, Any]]) -> tuple[int, str, int]:
    return replies[:3]


class RecordedModel:
    """A model whose replies and errors are recorded, with secrets masked."""

    def __init__(self, model: Model, recorder: ScriptRecorder, secrets: SecretMasker) -> None:
        self._model, self._recorder, self._secrets = model, recorder, secrets

    async def reply(self, request: Request, say: StreamCallback | None = None) -> Reply:
        try:
            reply = await self._model.reply(request, say)
        except NodeError as error:
            self._recorder.record_error(request, self._secrets.mask(str(error)), error)
            raise
        self._recorder.record_reply(request, self._secrets.mask_value(reply))
        return reply


class RecordedTools:
    """The tools of one agent; the results of calls to servers are recorded. Python tools are called
    again in a scripted run, so their results are not."""

    def __init__(self, tools: Toolbox, recorder: ScriptRecorder, node_id: str) -> None:
        self._tools, self._recorder, self._node_id = tools, recorder, node_id

    async def specs(self) -> tuple[ToolSpec, ...]:
        return await self._tools.specs()

    async def check_request(self, request: ToolRequest) -> ToolRequest:
        return await self._tools.check_request(request)

    async def call(self, request: ToolRequest, key: str) -> tuple[ToolResult, bool]:
        result, called = await self._tools.call(request, key)
        if called and self._tools.is_remote(request.name):
            self._recorder.record_tool_result(self._node_id, result)
        return result, called

    def is_remote(self, name: str) -> bool:
        return self._tools.is_remote(name)
