"""Python functions as tools: what they are lent, and what a model reads of what they gave."""

from __future__ import annotations

import asyncio
import functools
import threading
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.llm.python_tool import PythonTool, to_text
from roundel.nodes import TYPES
from roundel.nodes.services import NodeError, ToolError
from roundel.workflow.loader import from_mapping
from tests.nodes.conversations import agent, run_conversation, wants


class Caller:
    """A host that calls functions where it stands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def workspace(self) -> Path:
        return self.folder

    async def call(self, function: Any, *arguments: Any, **named: Any) -> Any:
        answer = function(*arguments, **named)
        return await answer if asyncio.iscoroutine(answer) else answer


def call(function: Any, arguments: dict[str, Any], folder: Path = Path(), **given: Any) -> str:
    tool = PythonTool("tool", function, Caller(folder), **given)
    result = asyncio.run(tool.call(arguments, "the key"))
    assert isinstance(result, str)
    return result


def test_injected_parameters(tmp_path: Path) -> None:
    def injected(word: str, idempotency_key: str, workspace: Path, _context: dict[str, Any]) -> Any:
        return [word, idempotency_key, workspace.name, sorted(_context)]

    given = call(injected, {"word": "x"}, tmp_path)
    assert given == f'["x","the key","{tmp_path.name}",["idempotency_key","python_workspace_root"]]'


def test_model_cannot_override_injected_parameters() -> None:
    def keyed(idempotency_key: str, **others: Any) -> Any:
        return [idempotency_key, others]

    assert call(keyed, {"idempotency_key": "mine", "a": 1}) == '["the key",{"a":1}]'


def test_parameters_may_have_any_name() -> None:
    def odd(function: str, self: str, arguments: str, named: str) -> str:
        return function + self + arguments + named

    story = run_conversation(
        agent(odd), {"A": [wants("odd", function="a", self="b", arguments="c", named="d"), "done"]}
    )
    assert story.results() == ["abcd"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        ("", ""),
        (None, "null"),
        (2.5, "2.5"),
        ({"a": [1, True]}, '{"a":[1,true]}'),
        (date(2026, 11, 15), '"2026-11-15"'),
        (Path("a/b"), '"a/b"'),
        ({1}, "[1]"),
        (roundel.Message("hello"), "hello"),
        (complex(1, 2), '"(1+2j)"'),
    ],
)
def test_tool_results_are_rendered_as_text(value: Any, text: str) -> None:
    assert to_text(value) == text


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}


def test_custom_schema_is_shown_and_enforced() -> None:
    def double(n: Any) -> Any:
        """Doubles."""
        return 2 * n

    tool = PythonTool("double", double, Caller(Path()), about="Twice as much", schema=SCHEMA)
    assert (tool.spec.description, tool.spec.parameters) == ("Twice as much", SCHEMA)
    assert call(double, {"n": 2}, schema=SCHEMA) == "4"
    with pytest.raises(ToolError, match="wrong arguments: at n: 0 is less than the minimum of 1"):
        call(double, {"n": 0}, schema=SCHEMA)


def test_schema_allows_functions_without_a_signature() -> None:
    with pytest.raises(NodeError, match="give its 'parameters'"):
        PythonTool("dict", dict, Caller(Path()))
    assert call(dict, {"n": 2}, schema=SCHEMA) == '{"n":2}'


@pytest.mark.parametrize("schema", [{"type": "thing"}, {"properties": {"a": {"$ref": "#/$defs/A"}}}])
def test_invalid_schema_is_rejected(schema: dict[str, Any]) -> None:
    with pytest.raises(NodeError, match="'parameters' of the tool 'tool' is no JSON Schema"):
        call(len, {}, schema=schema)


# In a run.


def test_idempotency_key_is_run_and_address() -> None:
    keys: list[str] = []

    def pay(idempotency_key: str) -> str:
        keys.append(idempotency_key)
        return "paid"

    story = run_conversation(agent(pay), {"A": [wants("pay", "pay"), wants("pay"), "done"]})
    run = story.result.run_id
    assert sorted(keys) == [f"{run}:A[1]/pay", f"{run}:A[1]/pay#2", f"{run}:A[2]/pay"]


def test_idempotency_key_is_stable_across_retries() -> None:
    keys: list[str] = []
    over = threading.Event()

    def pay(idempotency_key: str) -> str:
        keys.append(idempotency_key)
        if len(keys) < 3:
            over.wait(5)  # the node's time is up before
        return "paid"

    retry = {"max_attempts": 3, "min_wait_seconds": 0, "max_wait_seconds": 0}
    node = {"id": "A", "type": "agent", "config": {"tools": ["pay"]}, "timeout": 0.1, "retry": retry}
    mapping = {"graph": {"nodes": [node], "start": "A", "end": "A"}}
    story = run_conversation(from_mapping(mapping, TYPES, {"pay": pay}), {"A": [wants("pay"), "done"]})
    over.set()
    assert keys == [f"{story.result.run_id}:A[1]/pay"] * 3
    assert story.results() == ["paid"]


def test_workspace_belongs_to_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def keep(text: str, workspace: Path) -> str:
        (workspace / "kept.txt").write_text(text)
        return "kept"

    story = run_conversation(agent(keep), {"A": [wants("keep", text="tea"), "done"]})
    kept = tmp_path / ".roundel" / "work" / story.result.run_id / "kept.txt"
    assert kept.read_text() == "tea"


def test_coroutine_in_a_partial_is_awaited() -> None:
    async def add(one: int, other: int) -> int:
        await asyncio.sleep(0)
        return one + other

    assert call(functools.partial(add, 1), {"other": 2}) == "3"
