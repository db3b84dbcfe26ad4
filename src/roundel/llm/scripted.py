"""A script stands in for every model and every person, so that a run is offline and repeatable.

A script gives each node its replies in order; the last one repeats. Which reply a call gets depends
on how often its node has run before, never on who asked first.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from roundel.nodes.services import UNREADABLE, GivenResult, NodeError, Reply, Request, Say, ToolRequest
from roundel.workflow.diagnostics import Report, WorkflowError, did_you_mean
from roundel.workflow.document import Located, read_file, read_text
from roundel.workflow.fields import INVALID, Reader, child, located
from roundel.workflow.message import json_text
from roundel.workflow.secret_finder import SecretFinder

EVERY_NODE = "*"
TokenCount = Annotated[int, Meta(ge=0)]


class Tokens(Struct, frozen=True, omit_defaults=True):
    input: TokenCount = 0
    output: TokenCount = 0


class ScriptedCall(Struct, frozen=True, omit_defaults=True):
    """A tool that a scripted reply asks for."""

    name: str
    arguments: Any = None
    id: str = ""
    result: Any = None
    """What the call gives: the tool is not called."""
    error: str = ""
    """Why the call fails: the tool is not called."""

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
        problem = f"{UNREADABLE}{json_text(arguments):.200}"
        return ToolRequest(self.id or number, self.name, {}, problem)

    def _scripted_result(self) -> GivenResult | None:
        if self.error:
            return GivenResult(self.error, failed=True)
        return None if self.result is None else GivenResult(json_text(self.result))


class ScriptLine(Struct, frozen=True, omit_defaults=True):
    """One scripted reply."""

    text: str = ""
    data: dict[str, Any] | None = None
    tokens: Tokens = Tokens()
    delay: Annotated[float, Meta(ge=0)] = 0
    error: str = ""
    tool_calls: tuple[ScriptedCall, ...] = ()
    at: str = ""
    """The address that it answers for, in a record of a run; without it replies go by their order."""
    call: int = 0
    """Which of the calls at that address."""


class Script:
    def __init__(self, lines: Mapping[str, tuple[ScriptLine, ...]], keys: Mapping[str, Located]) -> None:
        self._lines = lines
        self._keys = keys
        self._by_address = {
            (name, line.at, line.call): line for name, given in lines.items() for line in given if line.at
        }

    @property
    def text(self) -> str:
        """A script file that says the same."""
        return msgspec.json.encode(self._lines).decode()

    def line(self, node_id: str, ordinal: int, address: str = "", call: int = 0) -> ScriptLine | None:
        by_address = self._by_address.get((node_id, address, call))
        if by_address is not None:
            return by_address
        lines = self._lines.get(node_id) or self._lines.get(EVERY_NODE)
        return lines[min(ordinal, len(lines) - 1)] if lines else None

    def without_delays(self) -> Script:
        """The same without delays."""
        lines = {
            name: tuple(msgspec.structs.replace(line, delay=0) for line in given)
            for name, given in self._lines.items()
        }
        return Script(lines, self._keys)

    def decision(self, node_id: str, tool: str, ordinal: int) -> ScriptLine | None:
        """What a person says to a call of an agent's tool, given under `agent/tool`."""
        lines = self._lines.get(f"{node_id}/{tool}")
        return lines[min(ordinal, len(lines) - 1)] if lines else None

    def check(self, node_ids: Iterable[str], report: Report) -> None:
        """Warns of names that are no node's."""
        known = set(node_ids)
        for name, at in self._keys.items():
            agent = name.rpartition("/")[0]  # `agent/tool` is what a person says to a call of the tool
            if name != EVERY_NODE and name not in known and agent not in known:
                hint = did_you_mean(name, known)
                report.warning("unknown-node", f"the script names '{name}', which is not a node", at, hint)


def load_script(source: str | os.PathLike[str]) -> tuple[Script, Report]:
    """The script of a file; WorkflowError with everything that is wrong with it."""
    report = Report(str(source), SecretFinder())
    return _parse_script(read_file(Path(source), report), report)


def script_from(value: Mapping[str, Any] | str) -> Script:
    """A script given as a mapping, or as the text of a script file."""
    report = Report("<script>", SecretFinder())
    root = read_text(value, report) if isinstance(value, str) else located(value, report)
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
    return Script(lines, keys), report


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


class ScriptedModel:
    """The model of one agent, played from a script."""

    def __init__(self, script: Script) -> None:
        self._script = script

    async def reply(self, request: Request, say: Say | None = None) -> Reply:
        line = self._script.line(request.node_id, request.ordinal, request.address, request.call)
        if line is None:
            return Reply(request.messages[-1].text if request.messages else "")
        if line.delay:
            await asyncio.sleep(line.delay)
        if line.error:
            raise NodeError(line.error)
        calls = tuple(
            call.request(f"call_{request.ordinal + 1}_{number}")
            for number, call in enumerate(line.tool_calls, 1)
        )
        return Reply(line.text, line.data, line.tokens.input, line.tokens.output, calls)
