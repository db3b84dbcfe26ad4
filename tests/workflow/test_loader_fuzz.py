"""Workflows with random damage: the loader only reports diagnostics, and what it accepts runs.

Valid workflows are changed as values (values replaced, keys renamed, parts deleted, doubled and swapped), by
misspelling their keys, and as text (pieces cut, doubled, replaced and put in). Each case has a deadline: one
that hangs fails, and says which it was.
"""

from __future__ import annotations

import asyncio
import copy
import faulthandler
import functools
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, assume, event, example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

import roundel
from roundel import Workflow, WorkflowError
from roundel.nodes import TYPES
from roundel.workflow.diagnostics import Report, match_misspelling
from roundel.workflow.document import read_text
from roundel.workflow.graph import Limits, Node, Retry
from roundel.workflow.loader import examine_text
from roundel.workflow.schema import workflow_schema
from tests.test_broken import FILES, expectations

SMALL = Limits(rounds=5, steps=60)
ENDS = ("completed", "failed", "suspended_locked", "waiting")
SCHEMA = workflow_schema(TYPES)
VALIDATOR = Draft202012Validator(SCHEMA)
DEADLINE = 60
"""Seconds for one case; thousands of them take a few milliseconds each."""

# --- valid workflows ---------------------------------------------------------------------------------

REVIEW: dict[str, Any] = {
    "version": "0.4.0",
    "vars": {"TONE": "dry", "ROUNDS": 3, "WORDS": ["ACCEPT", "DONE"]},
    "limits": {
        "rounds": 50,
        "model_calls": 100,
        "tool_calls": 0,
        "tokens": 10000,
        "input_tokens": 9000,
        "output_tokens": 9000,
        "tokens_per_call": 5000,
        "cost_usd": 1.5,
        "unpriced": "allow",
        "seconds": 60,
    },
    "breaker": {"dead_loop": False, "factor": 5, "seconds": 60},
    "graph": {
        "id": "review",
        "description": "A writer and a reviewer.",
        "initial_instruction": "What about?",
        "log_level": "INFO",
        "start": "Writer",
        "end": ["Final", "Editor"],
        "limits": {"rounds": 5, "steps": 60},
        "loops": {"Writer": {"max_rounds": 4, "limits": {"steps": 50}}},
        "memory": [{"name": "notes", "type": "simple", "config": {"memory_path": "auto"}}],
        "nodes": [
            {
                "id": "Writer",
                "type": "agent",
                "description": "writes",
                "context_window": 2,
                "timeout": 5,
                "retry": {"max_attempts": 2, "min_wait_seconds": 0, "max_wait_seconds": 0},
                "limits": {"model_calls": 9},
                "log_output": False,
                "config": {
                    "provider": "openai",
                    "name": "small",
                    "role": "Be ${TONE}.",
                    "prompt": "Go on.",
                    "input_mode": "prompt",
                    "params": {"temperature": 0.5},
                    "maxToolCalls": 2,
                    "tooling": [{"type": "function", "config": {"tools": []}, "prefix": "x"}],
                    "memories": [{"name": "notes", "top_k": 1, "similarity_threshold": 0.5}],
                },
            },
            {
                "id": "Reviewer",
                "type": "llm",
                "context_window": -1,
                "config": {"model": "m", "on_error": "message"},
            },
            {"id": "Editor", "type": "human", "config": {"description": "Good?"}},
            {
                "id": "Guard",
                "type": "loop_counter",
                "config": {
                    "max_iterations": "${ROUNDS}",
                    "reset_on_emit": True,
                    "message": "enough",
                    "scope": "loop",
                },
            },
            {"id": "Final", "type": "passthrough", "config": {"only_last_message": False}},
        ],
        "edges": [
            {"from": "Writer", "to": "Reviewer", "description": "read it", "keep_message": True},
            {
                "from": "Reviewer",
                "to": "Writer",
                "condition": {"type": "keyword", "config": {"none": "${WORDS}", "case_sensitive": False}},
                "clear_context": True,
            },
            {"from": "Reviewer", "to": "Guard", "carry_data": False},
            {"from": "Guard", "to": "Writer"},
            {"from": "Guard", "to": "Final"},
            {
                "from": "Reviewer",
                "to": "Editor",
                "condition": {
                    "type": "keyword",
                    "config": {"begins": ["ACCEPT"], "regex": ["^DONE", "\\d{3}"]},
                },
            },
            {"from": "Editor", "to": "Final", "clear_kept_context": True},
            {"from": "Writer", "to": "Final", "trigger": False},
        ],
    },
}

PARTS: dict[str, Any] = {
    "graph": {
        "start": ["Plan"],
        "end": "Done",
        "limits": {"rounds": 5, "steps": 60},
        "nodes": [
            {
                "id": "Plan",
                "type": "literal",
                "config": {"content": '{"steps": ["- a", "- b"]}', "role": "assistant"},
            },
            {"id": "Split", "type": "agent"},
            {"id": "Sum", "type": "passthrough"},
            {
                "id": "Clean",
                "type": "python",
                "config": {"function": "textwrap:dedent", "ports": ["left", "right"], "timeout_seconds": 5},
            },
            {
                "id": "Inner",
                "type": "subgraph",
                "config": {
                    "type": "config",
                    "config": {
                        "start": "Tick",
                        "end": "Tock",
                        "nodes": [
                            {"id": "Tick", "type": "passthrough"},
                            {
                                "id": "Watch",
                                "type": "loop_timer",
                                "config": {"max_duration": 1, "passthrough": True},
                            },
                            {"id": "Tock", "type": "literal", "config": {"content": "over"}},
                        ],
                        "edges": [
                            {"from": "Tick", "to": "Tick", "condition": {"cel": "round < 3"}},
                            {"from": "Tick", "to": "Watch"},
                            {"from": "Watch", "to": "Tick", "condition": False},
                            {"from": "Watch", "to": "Tock"},
                            {"from": "Tick", "to": "Tock", "condition": {"cel": "round >= 3"}},
                        ],
                    },
                },
            },
            {"id": "Done", "type": "passthrough"},
        ],
        "edges": [
            {
                "from": "Plan",
                "to": "Split",
                "dynamic": {
                    "type": "map",
                    "split": {"type": "json_path", "config": {"json_path": "$.steps[*]"}},
                    "config": {"max_parallel": 2},
                },
            },
            {
                "from": "Split",
                "to": "Sum",
                "dynamic": {
                    "type": "tree",
                    "split": {
                        "type": "regex",
                        "config": {"pattern": "(o)(k)", "group": 1, "on_no_match": "pass"},
                    },
                    "config": {"group_size": 2, "max_parallel": 3},
                },
            },
            {
                "from": "Sum",
                "to": "Clean",
                "process": {
                    "type": "regex_extract",
                    "config": {
                        "pattern": "(?P<x>o)",
                        "group": "x",
                        "multiple": True,
                        "template": "<{match}>",
                    },
                },
            },
            {
                "from": "Clean",
                "to": "Inner",
                "process": {"type": "function", "config": {"name": "uppercase_payload"}},
            },
            {"from": "Clean", "to": "Done", "port": "left"},
            {"from": "Clean", "to": "Done", "port": "right", "condition": "code_pass"},
            {
                "from": "Inner",
                "to": "Done",
                "condition": {"type": "expression", "config": {"expr": "size(text) > 0"}},
            },
            {"from": "Inner", "to": "Plan", "trigger": False, "condition": "always_false"},
        ],
    },
}

VOTE: dict[str, Any] = {
    "graph": {
        "is_majority_voting": True,
        "limits": {"rounds": 5, "steps": 60},
        "nodes": [{"id": name, "type": "agent", "config": {"role": "Vote."}} for name in ("A", "B", "C")],
    }
}

FAMILY: dict[str, Any] = {
    "graph": {
        "start": "Draft",
        "end": "Out",
        "limits": {"rounds": 5, "steps": 60},
        "nodes": [
            {"id": "Draft", "type": "agent"},
            {
                "id": "Decide",
                "type": "loop",
                "config": {"max_rounds": 3, "exit_on_score": 90, "score": "data.score", "keep": "best"},
            },
            {
                "id": "Each",
                "type": "loop_agent",
                "config": {
                    "strategy": {"mode": "array", "items": "[text, text]", "max": 5, "on_error": "null"},
                    "body": {"id": "Step", "type": "agent"},
                },
            },
            {
                "id": "Until",
                "type": "loop_agent",
                "config": {
                    "strategy": {"mode": "condition", "until": "round > 2", "max": 4},
                    "body": {
                        "start": "In",
                        "nodes": [
                            {"id": "In", "type": "passthrough"},
                            {"id": "Stop", "type": "break"},
                            {"id": "Next", "type": "continue"},
                        ],
                        "edges": [
                            {"from": "In", "to": "Stop", "condition": {"cel": "round > 1"}},
                            {"from": "In", "to": "Next", "condition": {"cel": "round < 2"}},
                        ],
                    },
                },
            },
            {"id": "Out", "type": "passthrough"},
        ],
        "edges": [
            {"from": "Draft", "to": "Decide"},
            {"from": "Decide", "to": "Draft", "port": "continue"},
            {"from": "Decide", "to": "Each", "port": "exit"},
            {"from": "Each", "to": "Until"},
            {"from": "Until", "to": "Out"},
        ],
    }
}

SAMPLES = [REVIEW, PARTS, VOTE, FAMILY]
DAMAGED = [REVIEW, PARTS, VOTE]


@pytest.fixture(scope="module", autouse=True)
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Runs leave their files in the working folder."""
    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("fuzz"))
    yield
    os.chdir(before)


def test_the_samples_use_the_node_types_and_every_field_of_an_edge() -> None:
    found = [place for sample in SAMPLES for place in _places(sample)]
    types = {holder["type"] for holder, key in found if key == "id" and "type" in holder}
    plain = {"agent", "human", "passthrough", "literal", "python", "subgraph", "break", "continue"}
    assert plain | {"loop", "loop_agent", "loop_counter", "loop_timer"} <= types
    fields = {key for holder, key in found if isinstance(holder, dict) and "from" in holder}
    assert fields == set(SCHEMA["$defs"]["edge"]["properties"])


@pytest.mark.parametrize("sample", SAMPLES)
def test_the_samples_are_valid_and_run(sample: dict[str, Any]) -> None:
    workflow, report = roundel.check(sample)
    assert workflow is not None and report.ok
    assert {found.code for found in report.diagnostics} <= {"without-effect", "no-model"}
    assert run(workflow) == "completed"


# --- what is asked of every input --------------------------------------------------------------------


def in_time(test: Callable[..., None]) -> Callable[..., None]:
    """The same test of one case, which fails if it does not end.

    Python code, and patterns, are interrupted by a signal. Other native code cannot be: there the process
    ends, and shows where it was."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise AssertionError(f"no end after {DEADLINE} seconds")

    @functools.wraps(test)
    def timed(**case: Any) -> None:
        before = signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, DEADLINE)
        faulthandler.dump_traceback_later(2 * DEADLINE, exit=True)
        try:
            test(**case)
        finally:
            faulthandler.cancel_dump_traceback_later()
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    return timed


def run(workflow: Workflow) -> str:
    """How a run of the workflow ends, with every model and person saying the same."""
    nodes = tuple(_soon_given_up(node) for node in workflow.graph.nodes)
    graph = msgspec.structs.replace(workflow.graph, nodes=nodes, limits=SMALL)
    work = roundel.run_async(msgspec.structs.replace(workflow, graph=graph), "go", script={"*": ["ok"]})
    try:
        return asyncio.run(asyncio.wait_for(work, 20)).status
    except WorkflowError as error:
        if any(found.code != "cannot-run" for found in error.diagnostics):
            raise
        return "failed"  # the function of a python node is only looked for when the run begins


def _soon_given_up(node: Node) -> Node:
    return msgspec.structs.replace(node, retry=node.retry and Retry(min(node.retry.max_attempts, 3), 0, 0))


def assert_sound(workflow: Workflow | None, report: Report, lines: int | None = None) -> bool:
    """Whether the workflow was accepted; then it runs."""
    for found in report.diagnostics:
        assert found.message and found.code
        assert "Located(" not in found.message
        assert lines is None or (0 <= found.line <= lines and found.column >= 0)
        json.dumps(msgspec.to_builtins(found))
    accepted = workflow is not None and report.ok
    event("accepted" if accepted else f"refused: {report.errors[0].code}")
    if workflow is not None and accepted:
        assert run(workflow) in ENDS
    return accepted


# --- damaged values ----------------------------------------------------------------------------------

Place = tuple[Any, Any]
"""A mapping or list, and a key or index in it."""

# Text that reads as a number, as true or as false is taken for one (variables of the environment are
# text), but the schema, which is for editors, would rather see the number itself. So there is none here.
TEXTS = st.text("aZ_-é $\n\t'\"[{(*.:/\\😀\ud800", max_size=6)
NUMBERS = (0, 1, -1, 2, -2, 10**20, 0.0, 0.5, -0.5, 1e308)
NAMES = ("Writer", "Done", "Guard", "loop_counter", "subgraph", "agent", "keyword", "regex", "config", "map")
WORDS = ("", " ", "*", "code_fail", "os:", "a.b:c", "text == 'ok'", "data.x", "(", "[[a]", "²", "yes")
PLACEHOLDERS = ("${TONE}", "${NOPE}", "$${TONE}", "${WORDS}")
NESTED: tuple[Any, ...] = (
    [],
    {},
    [[]],
    [None],
    {"": None},
    {"type": "x"},
    {"cel": "round > 1"},
    ["Writer", "Writer"],
)
INTERESTING: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, False, *NUMBERS, *NAMES, *WORDS, *PLACEHOLDERS, *NESTED]
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)


def _places(value: Any) -> list[Place]:
    if isinstance(value, dict):
        items: list[tuple[Any, Any]] = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    else:
        return []
    return [place for key, item in items for place in [(value, key), *_places(item)]]


DAMAGES = ["replace", "replace", "delete", "double", "rename", "swap", "move", "all"]


@st.composite
def damaged(draw: st.DrawFn) -> dict[str, Any]:
    root: dict[str, Any] = copy.deepcopy(draw(st.sampled_from(DAMAGED)))
    for _ in range(draw(st.integers(1, 3))):
        places = _places(root)
        if not places:
            break
        holder, key = draw(st.sampled_from(places))
        others = st.sampled_from(places)
        how = draw(st.sampled_from(DAMAGES))
        if how == "replace":
            holder[key] = copy.deepcopy(draw(INTERESTING | JSON_VALUES))
        elif how == "delete":
            del holder[key]
        elif how == "double":
            _put(holder, copy.deepcopy(holder[key]), draw(TEXTS))
        elif how == "rename" and isinstance(holder, dict):
            _, name = draw(others)
            holder[name if isinstance(name, str) else draw(TEXTS)] = holder.pop(key)
        elif how == "swap":
            other, name = draw(others)
            _exchange(holder, key, other, name)
        elif how == "move":
            other, name = draw(others)
            holder[key] = copy.deepcopy(other[name])
        elif how == "all":
            _replace_all(root, holder[key], draw(INTERESTING | TEXTS))
    return root


def _replace_all(root: Any, old: Any, new: Any) -> None:
    """What is the same everywhere, such as the id of a node, stays the same."""
    if isinstance(old, str):
        for holder, key in _places(root):
            if holder[key] == old:
                holder[key] = copy.deepcopy(new)


def _put(holder: Any, value: Any, name: str) -> None:
    if isinstance(holder, list):
        holder.append(value)
    else:
        holder[name] = value


def _exchange(first: Any, key: Any, second: Any, name: Any) -> None:
    one, two = copy.deepcopy(first[key]), copy.deepcopy(second[name])
    first[key] = two
    second[name] = one


def changed(sample: dict[str, Any], *path: Any) -> dict[str, Any]:
    """A sample with another value, the last argument, at a place."""
    root = copy.deepcopy(sample)
    holder: Any = root
    *outer, key, value = path
    for step in outer:
        holder = holder[step]
    holder[key] = value
    return root


@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
@given(damaged())
@example({})
@example({"graph": None})
@example({"nodes": [], "graph": {}})
@example(changed(REVIEW, "vars", "ROUNDS", "\ud800"))
@example(changed(VOTE, "graph", "edges", None))
@example(changed(VOTE, "graph", "nodes", {"id": "A", "type": "human"}))
@example(changed(PARTS, "graph", "nodes", 0, "config", "content", "[" * 100_000))
@example(changed(PARTS, "graph", "edges", 0, "dynamic", "split", "config", "json_path", "steps.--1.²"))
@example(changed(PARTS, "graph", "edges", 1, "dynamic", "split", "config", "group", 3))
@example(changed(PARTS, "graph", "edges", 2, "process", "config", "group", "²"))
@example(changed(PARTS, "graph", "edges", 2, "process", "config", {"pattern": "[[o]", "dotall": True}))
@in_time
def test_damaged_values_are_diagnosed_or_run(value: dict[str, Any]) -> None:
    workflow, report = roundel.check(value)
    accepted = assert_sound(workflow, report)
    unknown = any(found.code == "unknown-key" for found in report.diagnostics)
    if accepted and not unknown:
        fault = best_match(VALIDATOR.iter_errors(value))
        assert fault is None, f"{fault.json_path}: {fault.message}"


# --- misspelt keys -----------------------------------------------------------------------------------

FREE = {"vars", "params", "loops", "models", "tools", "headers", "env"}
"""What holds names of the author's own."""


def _known_keys(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return set().union(*map(_known_keys, schema))
    if not isinstance(schema, dict):
        return set()
    own = set(schema["properties"]) if isinstance(schema.get("properties"), dict) else set()
    return own.union(*map(_known_keys, schema.values()))


EVERY_KEY = _known_keys(SCHEMA)


def _keys(value: Any, name: str = "") -> list[tuple[dict[str, Any], str]]:
    """Every key with a meaning, and the mapping that it is in."""
    if isinstance(value, list):
        return [found for item in value for found in _keys(item)]
    if not isinstance(value, dict):
        return []
    own = [] if name in FREE else [(value, key) for key in value]
    return own + [found for key, item in value.items() for found in _keys(item, key)]


LETTERS = "aeinrst_-xXé好"


@st.composite
def misspelt(draw: st.DrawFn) -> tuple[dict[str, Any], str, str]:
    """A workflow with a key that is a few edits away from what it was; the key, and what it is now."""
    root: dict[str, Any] = copy.deepcopy(draw(st.sampled_from(SAMPLES)))
    holder, key = draw(st.sampled_from(_keys(root)))
    word = key
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(word)))
        letter = draw(st.sampled_from(LETTERS))
        before, after = word[:at], word[at:]
        word = draw(
            st.sampled_from(
                (
                    before + letter + after,
                    before + letter + after[1:],
                    before + after[1:],
                    before + after[1::-1],
                )
            )
        )
    assume(word not in EVERY_KEY)
    items = [(word if name == key else name, value) for name, value in holder.items()]
    holder.clear()
    holder.update(items)
    return root, key, word


@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
@given(misspelt())
@in_time
def test_misspelt_key_is_always_reported(case: tuple[dict[str, Any], str, str]) -> None:
    value, key, word = case
    workflow, report = roundel.check(value)
    assert_sound(workflow, report)
    if match_misspelling(word, [key]) is not None:
        assert report.errors, f"'{word}' for '{key}' is not an error"
    else:
        assert report.errors or any(f"'{word}'" in found.message for found in report.diagnostics)


# --- damaged text ------------------------------------------------------------------------------------

TEXTS_OF = [yaml.safe_dump(sample, sort_keys=False, allow_unicode=True) for sample in DAMAGED]
MARKS = (
    "\t",
    "\n",
    "  ",
    ": ",
    "- ",
    "[",
    "]",
    "{",
    "}",
    '"',
    "'",
    "#",
    "? ",
    "|\n",
    ">\n",
    ",",
    "\\",
    "@",
    "`",
)
FEATURES = ("&a ", "*a", "!!str ", "---\n", "...\n", "<<: *a\n", "%YAML 1.2\n", "${", "${TONE}")
CHARACTERS = ("\ufeff", "\0", "\x85", "\u2028", "\r", "😀")
SCALARS = ("null", "true", "-1", "1e999", ".nan", "0x10", "~", "type: agent\n", "from: Writer\n")
PIECES = st.sampled_from([*MARKS, *FEATURES, *CHARACTERS, *SCALARS])


@st.composite
def damaged_text(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(TEXTS_OF))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        size = draw(st.integers(1, 30))
        how = draw(st.sampled_from(["cut", "flip", "insert", "double", "end"]))
        if how == "cut":
            text = text[:start] + text[start + size :]
        elif how == "flip":
            text = text[:start] + draw(PIECES) + text[start + 1 :]
        elif how == "insert":
            text = text[:start] + draw(PIECES) + text[start:]
        elif how == "double":
            text = text[: start + size] + text[start:]
        else:
            text = text[:start]
    return text


@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
@given(damaged_text())
@in_time
def test_damaged_text_is_diagnosed_or_runs(text: str) -> None:
    workflow, report = examine_text(text, TYPES)
    # A value that is missing at the very end may stand in the line after it.
    lines = text.replace("\r\n", "\n").replace("\r", "\n").count("\n") + 2
    assert (workflow is None) == (not report.ok)
    if workflow is not None:
        _, structure = roundel.check(workflow)
        report.extend(structure)
    assert_sound(workflow, report, lines)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda data: data.decode("utf-8", "replace")))
@in_time
def test_arbitrary_text_is_diagnosed(text: str) -> None:
    workflow, report = examine_text(text, TYPES)
    assert workflow is None and not report.ok


# --- the schema --------------------------------------------------------------------------------------


@pytest.mark.parametrize("sample", SAMPLES)
def test_the_schema_accepts_the_samples(sample: dict[str, Any]) -> None:
    assert [error.message for error in VALIDATOR.iter_errors(sample)] == []


def test_the_schema_is_a_valid_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_schema_rejects_broken_files_of_the_wrong_shape() -> None:
    form = {"wrong-type", "missing-key", "unknown-type"}
    readable, wrong, missed = 0, 0, []
    for path in FILES:
        root = read_text(path.read_text(encoding="utf-8"), Report())
        if root is None:
            continue
        refused = not VALIDATOR.is_valid(root.plain())
        readable, wrong = readable + 1, wrong + refused
        own = [expected for expected in expectations(path) if expected.file == path.name]
        if own and {expected.code for expected in own} <= form and not refused:
            missed.append(path.name)
    # JSON has no word for what is not a number, and a placeholder may stand for anything.
    assert missed == ["type-not-a-number.yaml", "vars-wrong-type.yaml"]
    # The rest: names that lead nowhere, loops without a way out, bad patterns.
    assert wrong >= 0.5 * readable > 50
