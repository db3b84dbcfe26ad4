"""Every field that takes an expression or a pattern is bounded: hostile ones end, in a check and in a run.

The fields come from the descriptions, so that a new one needs a workflow here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import roundel
from roundel.kernel.commands import Call
from roundel.nodes.loading import check_plan
from roundel.nodes.prompt import MAX_TEMPLATE_EXPRESSIONS, Template, TemplateError
from roundel.workflow.fan_out import MAX_PARTS
from roundel.workflow.message import Message
from roundel.workflow.policy import Policy
from roundel.workflow.processor import MAX_EXTRACTED, ExtractionError, RegexExtract
from tests.deadline import Deadline
from tests.workflow.test_descriptions import ALL, FIELDS

Workflow = dict[str, Any]
LETTERS = "a" * 60 + "!"
NUMBERS = list(range(2000))

EXPRESSIONS = [
    "size(data.x.map(a, data.x)) > 0",
    "data.x.map(a, data.x.map(b, data.x.map(c, c))).size() > 0",
    "data.x.all(a, data.x.all(b, data.x.all(c, data.x.all(d, a + b + c + d >= 0))))",
    "data.x.exists(a, data.x.filter(b, data.x.exists(c, c < 0)).size() > 0)",
    "data.x.map(a, text + text + text + text).map(b, b + b + b + b).map(c, c + c).size() > 0",
    "text.matches('^(\\\\w+\\\\s?)*$')",
    "text.matches('(a|a)*b') || text.matches('(a*)*b')",
    "(" * 300 + "1" + ")" * 300 + " > 0",
    " + ".join(["data.x"] * 500) + " == []",
]
PATTERNS = [
    r"^(\w+\s?)*$",
    r"^(a+)+$",
    r"(a|a)*b",
    r"^(a|aa)+$",
    r"(.*)*x",
    r"(((a{1,100}){1,100}){1,100}){1,100}b",
]


def graph(*nodes: dict[str, Any], edges: list[dict[str, Any]] | None = None, **more: Any) -> Workflow:
    """A graph from `A`, which passes the input on, to `B`."""
    ends = [{"id": "A", "type": "passthrough"}, {"id": "B", "type": "passthrough"}]
    return {"graph": {"start": "A", "end": "B", "nodes": [*ends, *nodes], "edges": edges or [AB], **more}}


AB: dict[str, Any] = {"from": "A", "to": "B"}


def edge(**settings: Any) -> Workflow:
    return graph(edges=[{**AB, **settings}])


def between(kind: str, **config: Any) -> Workflow:
    edges = [{"from": "A", "to": "N"}, {"from": "N", "to": "B"}]
    return graph({"id": "N", "type": kind, "config": config}, edges=edges)


def loop_agent(**strategy: Any) -> Workflow:
    body = {"id": "X", "type": "passthrough"}
    return between("loop_agent", strategy={"max": 3, **strategy}, body=body)


def score(value: Any) -> Workflow:
    """A loop node outside of a loop decides once."""
    return between("loop", score=value, exit_on_score=1)


OF_EXPRESSIONS: dict[str, Callable[[str], Workflow]] = {
    "breakpoint.cel": lambda cel: graph(debug={"break_at": [{"cel": cel}]}),
    "condition.cel": lambda cel: edge(condition={"cel": cel}),
    "expression_condition.expr": lambda cel: edge(condition={"type": "expression", "config": {"expr": cel}}),
    "condition_strategy.until": lambda cel: loop_agent(mode="condition", until=cel),
    "array_strategy.items": lambda cel: loop_agent(mode="array", items=cel),
    "predicate.cel": lambda cel: loop_agent(mode="condition", until={"cel": cel}),
    "predicate": lambda cel: loop_agent(mode="condition", until=cel),
    "score": score,
    "prompt": lambda cel: between("agent", prompt="{{ " + cel + " }}"),
}
OF_PATTERNS: dict[str, Callable[[str], Workflow]] = {
    "keyword_condition.regex": lambda regex: edge(
        condition={"type": "keyword", "config": {"regex": [regex]}}
    ),
    "regex_extract.pattern": lambda regex: edge(
        process={"type": "regex_extract", "config": {"pattern": regex}}
    ),
    "regex_split.pattern": lambda regex: edge(
        dynamic={"type": "map", "split": {"type": "regex", "config": {"pattern": regex}}}
    ),
    "score.regex": lambda regex: score({"regex": f"({regex.replace('(', '(?:')})"}),
    "schema": lambda regex: schema({"type": "string", "pattern": regex}),
    "schema keys": lambda regex: schema(
        {"type": "object", "patternProperties": {regex: {}}, "required": ["x"]}
    ),
    "schema others": lambda regex: schema(
        {"type": "object", "patternProperties": {regex: {}}, "additionalProperties": False}
    ),
}


def schema(inner: dict[str, Any]) -> Workflow:
    return between("agent", output_schema={"type": "object", "properties": {"a": inner}}, max_repairs=0)


def run(workflow: Workflow) -> str:
    """Checks a workflow under a policy, and runs it if it is sound; how that ended."""
    plan, report = check_plan(workflow, policy=Policy())
    if plan is None or not report.ok:
        return "refused"
    message = Message(LETTERS, data={"x": NUMBERS})
    key = "schema" in str(workflow) and "patternProperties" in str(workflow)
    answer = {"a": {LETTERS: 1} if key else LETTERS}
    result = roundel.run(plan, message, script={"N": [{"text": "yes", "data": answer}]}, store="memory:")
    return result.status


within = Deadline(run)


def test_every_described_field_has_a_workflow() -> None:
    described = {f"{name}.{field['key']}": field["widget"] for name, field in FIELDS}
    assert {name for name, widget in described.items() if widget == "expression"} <= set(OF_EXPRESSIONS)
    assert {name for name, widget in described.items() if widget == "pattern"} <= set(OF_PATTERNS)
    shorts = {
        name for name, about in ALL.items() for short in about["short"] if short["widget"] == "expression"
    }
    assert shorts <= set(OF_EXPRESSIONS)


@pytest.mark.parametrize("name", OF_EXPRESSIONS)
def test_fields_with_an_expression_work(name: str) -> None:
    cel = "data.x" if name == "array_strategy.items" else "1" if name == "score" else "true"
    assert within(OF_EXPRESSIONS[name](cel)) in ("completed", "paused", "suspended_locked")


@pytest.mark.parametrize("name", OF_PATTERNS)
def test_fields_with_a_pattern_work(name: str) -> None:
    assert within(OF_PATTERNS[name]("^a+")) in ("completed", "failed")


@pytest.mark.parametrize("cel", EXPRESSIONS, ids=lambda cel: cel[:40])
@pytest.mark.parametrize("name", OF_EXPRESSIONS)
def test_an_expensive_expression_ends(name: str, cel: str) -> None:
    assert within(OF_EXPRESSIONS[name](cel)) in STATUSES


@pytest.mark.parametrize("regex", PATTERNS)
@pytest.mark.parametrize("name", OF_PATTERNS)
def test_an_expensive_pattern_ends(name: str, regex: str) -> None:
    assert within(OF_PATTERNS[name](regex)) in STATUSES


STATUSES = ("refused", "completed", "failed", "paused", "suspended_locked")


@pytest.mark.parametrize(
    "definitions",
    [
        {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)} | {"d40": {}},
        {"d0": {"$ref": "#/$defs/d0"}},
        {"d0": {"anyOf": [{"$ref": "#/$defs/d0"}, {"$ref": "#/$defs/d0"}]}},
    ],
    ids=["doubling", "itself", "twice itself"],
)
def test_a_schema_that_refers_to_itself_ends(definitions: dict[str, Any]) -> None:
    whole = {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": definitions}
    assert within(between("agent", output_schema=whole, max_repairs=0)) == "failed"


MULTIPLIED = [
    {"pattern": ".", "multiple": True, "template": "y" * 200_000},
    {"pattern": ".", "multiple": True, "template": "{match}" * 200_000},
    {"pattern": ".+", "template": "{match}" * 200_000},
    {"pattern": "", "multiple": True, "template": "y" * 200_000},
]


@pytest.mark.parametrize(
    "config", MULTIPLIED, ids=lambda config: f"{config['pattern']}-{config['template'][:3]}"
)
def test_a_template_cannot_multiply_a_text_without_end(config: dict[str, Any]) -> None:
    """The size is computed first: nothing of it is ever in memory."""
    process = {"type": "regex_extract", "config": config}
    plan, report = check_plan(edge(process=process), policy=Policy())
    assert report.ok and plan is not None
    result = roundel.run(plan, "x" * 100, script={}, store="memory:")
    assert result.status == "failed" and "characters of" in str(result.error)
    extract = RegexExtract(pattern=".", multiple=True, template="y" * (MAX_EXTRACTED // 10 - 1)).process()
    whole = extract(Message("x" * 10))
    assert whole is not None and len(whole.text) == MAX_EXTRACTED - 1
    with pytest.raises(ExtractionError, match="shorten the template"):
        extract(Message("x" * 11))


@pytest.mark.parametrize(
    ("split", "text"),
    [
        ({"type": "regex", "config": {"pattern": "x"}}, "x"),
        ({"type": "json_path"}, "1,"),
    ],
    ids=["regex", "json"],
)
def test_a_message_has_a_bounded_number_of_parts(split: dict[str, Any], text: str) -> None:
    whole = text * (MAX_PARTS + 1)
    given = f"[{whole[:-1]}]" if split["type"] == "json_path" else whole
    plan, report = check_plan(edge(dynamic={"type": "map", "split": split}), policy=Policy())
    assert report.ok and plan is not None, report.errors
    result = roundel.run(plan, given, script={}, store="memory:")
    assert result.status == "failed" and "100,000 parts" in str(result.error)


def test_a_text_does_not_double_for_ever_in_a_loop() -> None:
    double = {"type": "regex_extract", "config": {"pattern": ".+", "dotall": True, "template": "{match}" * 2}}
    edges = [
        {"from": "A", "to": "A", "process": double, "condition": {"cel": "round < 100"}},
        {"from": "A", "to": "B", "condition": {"cel": "round >= 100"}},
    ]
    workflow = {**graph(edges=edges), "breaker": False, "limits": {"rounds": 200}}
    assert within(workflow) == "failed"


def test_a_prompt_has_a_bounded_size() -> None:
    copies = "{{ text }}" * MAX_TEMPLATE_EXPRESSIONS
    with pytest.raises(TemplateError, match="characters"):
        Template(copies).render(Call("N", 0, (Message("x" * 1_000_000),), None, 0, 1))
    _, report = check_plan(between("agent", prompt=copies + "{{ text }}"), policy=Policy())
    assert [one.code for one in report.errors] == ["bad-expression"], report.errors
