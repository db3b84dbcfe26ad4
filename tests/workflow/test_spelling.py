"""Misspelt keys: a near miss is an error with the hint, any other unknown key a warning, never silence."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import roundel
from roundel import WorkflowError
from roundel.workflow.diagnostics import match_misspelling

WORKFLOW: dict[str, Any] = {
    "models": {"default": {"model": "openai:gpt-4o", "price": {"input": 1, "output": 2}}},
    "tools": {
        "mean": {"python": "statistics:mean", "description": "Arithmetic mean"},
        "far": {"mcp": {"url": "http://localhost:1", "headers": {"x-key": "a"}}},
    },
    "limits": {"steps": 9},
    "breaker": {"window": 3},
    "memory": {"group_id": "g"},
    "vars": {"tone": "dry"},
    "graph": {
        "start": "Writer",
        "end": "Final",
        "limits": {"rounds": 9},
        "loops": {"Writer": {"limits": {"steps": 5}}},
        "memory": [{"name": "notes", "type": "simple", "config": {"memory_path": "auto"}}],
        "nodes": [
            {
                "id": "Writer",
                "type": "agent",
                "retry": {"max_attempts": 2},
                "limits": {"steps": 3},
                "config": {
                    "params": {"temprature": 0.5},
                    "tooling": [{"type": "function", "config": {"tools": []}}],
                    "memories": [{"name": "notes"}],
                    "thinking": {"type": "reflection", "config": {"reflection_prompt": "Better?"}},
                    "retry": {"max_attempts": 2},
                    "dynamic_tools": {"tool_ids": ["mean"]},
                },
            },
            {"id": "Guard", "type": "loop_counter", "config": {"max_iterations": 3}},
            {"id": "Timer", "type": "loop_timer"},
            {"id": "Loop", "type": "loop"},
            {
                "id": "Each",
                "type": "loop_agent",
                "config": {"strategy": {"mode": "array"}, "body": {"id": "B", "type": "passthrough"}},
            },
            {
                "id": "Debate",
                "type": "debate",
                "config": {"participants": [{"id": "P", "type": "agent"}, {"id": "Q", "type": "agent"}]},
            },
            {"id": "Vote", "type": "vote", "config": {"participants": [{"id": "R", "type": "agent"}]}},
            {"id": "Code", "type": "python"},
            {"id": "Text", "type": "literal", "config": {"content": "x"}},
            {"id": "Person", "type": "human"},
            {
                "id": "Inner",
                "type": "subgraph",
                "config": {
                    "type": "config",
                    "config": {"start": "C", "nodes": [{"id": "C", "type": "human"}]},
                },
            },
            {"id": "Final", "type": "passthrough"},
        ],
        "edges": [
            {"from": "Writer", "to": "Guard"},
            {"from": "Writer", "to": "Writer", "condition": {"cel": "round < 5"}},
            {"from": "Writer", "to": "Loop"},
            {"from": "Loop", "to": "Writer", "port": "continue"},
            {"from": "Loop", "to": "Final", "port": "exit"},
            {"from": "Writer", "to": "Timer"},
            {"from": "Timer", "to": "Writer"},
            {"from": "Timer", "to": "Final"},
            {"from": "Guard", "to": "Writer"},
            {"from": "Guard", "to": "Text", "condition": {"type": "keyword", "config": {"any": ["x"]}}},
            {
                "from": "Guard",
                "to": "Final",
                "process": {"type": "regex_extract", "config": {"pattern": "x"}},
                "dynamic": {"type": "map", "split": {"type": "regex", "config": {"pattern": "x"}}},
            },
        ],
    },
}
NODES = {node["id"]: number for number, node in enumerate(WORKFLOW["graph"]["nodes"])}


def config(name: str, *path: str | int) -> tuple[str | int, ...]:
    return ("graph", "nodes", NODES[name], "config", *path)


def with_key(path: tuple[str | int, ...], key: str, value: Any = 3) -> dict[str, Any]:
    changed = copy.deepcopy(WORKFLOW)
    at: Any = changed
    for step in path:
        at = at.setdefault(step, {}) if isinstance(at, dict) else at[step]
    at[key] = value
    return changed


MISSPELT: list[tuple[tuple[str | int, ...], str, str]] = [
    ((), "middelware", "middleware"),
    ((), "versoin", "version"),
    (("graph",), "is_majority_votin", "is_majority_voting"),
    (("graph",), "logLevel", "log_level"),
    (("graph", "limits"), "step", "steps"),
    (("graph", "loops", "Writer"), "max_round", "max_rounds"),
    (("graph", "loops", "Writer", "limits"), "token", "tokens"),
    (("graph", "memory", 0, "config"), "embeding", "embedding"),
    (("graph", "nodes", 0), "contextwindow", "context_window"),
    (("graph", "nodes", 0), "time_out", "timeout"),
    (("graph", "nodes", 0, "retry"), "max_wait_second", "max_wait_seconds"),
    (("graph", "nodes", 0, "limits"), "model_call", "model_calls"),
    (config("Writer"), "max_tool_call", "max_tool_calls"),
    (config("Writer"), "maxtoolcall", "max_tool_calls"),
    (config("Writer"), "profile-Id", "profile_id"),
    (config("Writer"), "rolle", "role"),
    (config("Writer", "tooling", 0), "prefx", "prefix"),
    (config("Writer", "tooling", 0, "config"), "timout", "timeout"),
    (config("Writer", "memories", 0), "topk", "top_k"),
    (config("Writer", "retry"), "min_wait_secnds", "min_wait_seconds"),
    (config("Writer", "dynamic_tools"), "descriptiontemplat", "description_template"),
    (config("Guard"), "reset_on_emmit", "reset_on_emit"),
    (config("Timer"), "max_durations", "max_duration"),
    (config("Loop"), "exitOnScore", "exit_on_score"),
    (config("Each"), "contxt", "context"),
    (config("Each", "strategy"), "max_paralel", "max_parallel"),
    (config("Debate"), "max_roundss", "max_rounds"),
    (config("Debate", "consensus"), "stable-fro", "stable_for"),
    (config("Debate", "participants", 0), "contex_window", "context_window"),
    (config("Vote"), "treshold", "threshold"),
    (config("Code"), "funtion", "function"),
    (config("Text"), "rol", "role"),
    (config("Person"), "desciption", "description"),
    (config("Inner", "config"), "edge", "edges"),
    (config("Final"), "only_lastmessages", "only_last_message"),
    (("graph", "edges", 0), "conditon", "condition"),
    (("graph", "edges", 0), "triger", "trigger"),
    (("graph", "edges", 0), "prot", "port"),
    (("graph", "edges", 9, "condition", "config"), "case_sensitiv", "case_sensitive"),
    (("graph", "edges", 10, "process", "config"), "goup", "group"),
    (("graph", "edges", 10, "dynamic"), "confg", "config"),
    (("graph", "edges", 10, "dynamic", "config"), "max_parralel", "max_parallel"),
    (("graph", "edges", 10, "dynamic", "split", "config"), "multi_lines", "multiline"),
    (("models", "default"), "fall_bak", "fallback"),
    (("tools", "mean"), "paramters", "parameters"),
    (("tools", "far", "mcp"), "time-outs", "timeout"),
    (("limits",), "cost_us", "cost_usd"),
    (("breaker",), "treshhold", "threshold"),
    (("memory",), "confidense", "confidence"),
]


@pytest.mark.parametrize(("path", "key", "meant"), MISSPELT, ids=lambda value: str(value)[:40])
def test_a_near_miss_is_an_error_at_every_level(path: tuple[str | int, ...], key: str, meant: str) -> None:
    workflow, report = roundel.check(with_key(path, key))
    [found] = report.errors
    assert (found.code, found.hint) == ("unknown-key", f"did you mean '{meant}'?")
    assert f"has an unknown key '{key}'" in found.message
    assert workflow is None


def test_the_workflow_itself_has_no_error() -> None:
    _, report = roundel.check(WORKFLOW)
    assert report.errors == []


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ((), "author"),
        ((), "tags"),
        ((), "x-anchors"),
        (("graph",), "tags"),
        (("graph",), "title"),
        (("graph",), "notes"),  # 'nodes' is given too
        (("graph", "nodes", 0), "color"),
        (("graph", "nodes", 0), "name"),
        (("graph", "edges", 0), "label"),
        (("graph", "edges", 0), "if"),
        (("graph", "edges", 0), "form"),  # 'from' is given too
        (config("Guard"), "max_iteration"),  # 'max_iterations' is given too
        (config("Writer"), "note"),
        (("models", "default"), "models"),  # 'model' is given too
        (("tools", "far", "mcp"), "servers"),  # 'server' is another name of 'url', which is given
    ],
)
def test_any_other_unknown_key_is_a_warning(path: tuple[str | int, ...], key: str) -> None:
    _, report = roundel.check(with_key(path, key))
    assert report.errors == []
    assert [one.severity for one in report.diagnostics if f"unknown key '{key}'" in one.message] == [
        "warning"
    ]


@pytest.mark.parametrize("path", [("vars",), config("Writer", "params"), ("tools", "far", "mcp", "headers")])
def test_free_mappings_have_no_known_keys(path: tuple[str | int, ...]) -> None:
    _, report = roundel.check(with_key(path, "heders", "x"))
    assert not [one for one in report.diagnostics if one.code == "unknown-key"]


@pytest.mark.parametrize(
    "text",
    [
        "grpah: {start: A, nodes: [{id: A, type: human}]}",
        "graph: {strat: A, nodes: [{id: A, type: human}]}",
        "graph: {start: A, node: [{id: A, type: human}]}",
        "graph: {start: A, nodes: [{id: A, tpye: human}]}",
        "graph: {start: A, nodes: [{id: A, type: literal, confg: {content: x}}]}",
        "graph: {start: A, nodes: [{id: A, type: literal, config: {contnet: x}}]}",
        "graph: {start: A, nodes: [{id: A, type: human}], edges: [{form: A, to: A}]}",
        "graph: {start: A, nodes: [{id: A, type: human}], edges: "
        "[{from: A, to: A, condition: {cell: 'true'}}]}",
        "graph: {start: A, nodes: [{id: A, type: human}], edges: "
        "[{from: A, to: A, condition: {type: keyword, confg: {any: x}}}]}",
    ],
)
def test_one_misspelt_key_is_one_error(text: str, tmp_path: Any) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text(text)
    _, report = roundel.check(file)
    assert [found.code for found in report.errors] == ["unknown-key"], report.diagnostics


def test_short_form_next_to_a_long_one_is_reported() -> None:
    edges = [
        {"from": "A", "to": "A", "condition": {"type": "keyword", "config": {"any": "x"}, "cel": "true"}}
    ]
    _, report = roundel.check(
        {"graph": {"start": "A", "nodes": [{"id": "A", "type": "human"}], "edges": edges}}
    )
    [found] = [one for one in report.diagnostics if one.code == "unknown-key"]
    assert (found.severity, found.hint) == ("warning", "`cel` is given alone, without 'type' and 'config'")


@pytest.mark.parametrize(("key", "meant"), [("txt", "text"), ("tool_call", "tool_calls"), ("dealy", "delay")])
def test_the_replies_of_a_script_are_checked_too(key: str, meant: str) -> None:
    source = {"graph": {"start": "A", "nodes": [{"id": "A", "type": "agent"}]}}
    with pytest.raises(WorkflowError) as caught:
        roundel.run(source, script={"A": [{key: 1}]})
    [found] = caught.value.diagnostics
    assert (found.code, found.severity, found.hint) == ("unknown-key", "error", f"did you mean '{meant}'?")


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("max_iteration", "max_iterations", True),
        ("conditon", "condition", True),
        ("form", "from", True),  # neighbours swapped are one edit
        ("maxIterations", "max_iterations", True),  # not an edit at all
        ("MAX-ITERATIONS", "max_iterations", True),
        ("max_iterat", "max_iterations", False),
        ("id", "to", False),
        ("ot", "to", False),
        ("too", "to", True),
        ("tags", "vars", False),
        ("note", "name", False),
        ("mode", "model", True),
        ("", "id", False),
        ("x" * 101, "x" * 100, False),
        ("条件", "condition", False),
    ],
)
def test_misspellings_are_recognised(word: str, known: str, meant: bool) -> None:
    assert match_misspelling(word, [known]) == (known if meant else None)


def test_nearest_word_is_suggested_and_the_first_of_several() -> None:
    assert match_misspelling("min_waits", ["min_wait_s", "max_wait", "min_wait"]) == "min_wait_s"
    assert match_misspelling("model_cal", ["model_call", "model_cale"]) == "model_call"
