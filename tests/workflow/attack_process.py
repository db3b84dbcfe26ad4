"""A process that checks and forecasts hostile texts, and reports what else happened meanwhile.

`test_policy_attacks.py` starts it with a folder that texts may use. Whatever loads lazily is loaded first, by
checking harmless texts; from then on an audit hook records every file that is opened, every import, every
connection and every program.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from roundel.nodes import TYPES
from roundel.nodes.loading import draft_text_plan
from roundel.plan.forecast import forecast
from roundel.workflow.allow_list import AllowedModel, Policy
from roundel.workflow.policy import check_policy

# Not `os.listdir`, `glob` and the like alone: their events begin with these words as well.
WATCHED = (
    "open",
    "import",
    "socket.",
    "subprocess.",
    "os.",
    "shutil.",
    "ctypes.",
    "exec",
    "compile",
    "glob.",
)


def texts(harmless: bool) -> list[dict[str, Any]]:
    """Workflows that use everything that has a place in them. The hostile ones differ by names alone, so
    that they take the same ways through the program."""
    function = "statistics:mean" if harmless else "antigravity:fly"
    address = "https://models.example/v1" if harmless else "http://169.254.169.254/"
    paths = ["notes.md"] if harmless else ["/etc/passwd", "../../secret.md", "link.md", "x\0y", "/dev/zero"]
    encodings = ["utf-8"] if harmless else ["utf-8", "rot13", "idna", "cp037", "no_such_encoding"]
    variable = "OWN" if harmless else "AWS_SECRET_ACCESS_KEY"
    nodes: list[dict[str, Any]] = [
        {"id": "A", "type": "agent", "config": {"tools": ["t", "m", function], "base_url": address}},
        {"id": "B", "type": "agent", "config": {"model": "openai:gpt-4o", "prompt": "{{ text }}"}},
        {"id": "C", "type": "python", "config": {"function": function}},
        {"id": "D", "type": "python"},
        {"id": "E", "type": "loop_agent", "config": loop_agent({"mode": "custom", "use": function})},
        {"id": "F", "type": "loop_agent", "config": loop_agent(until({"function": function}))},
        {"id": "G", "type": "loop_agent", "config": loop_agent(until("round > 3"))},
        {"id": "H", "type": "subgraph", "config": {"type": "file", "config": {"path": "inner.yaml"}}},
        {"id": "I", "type": "literal", "config": {"content": "${" + variable + "}"}},
        {"id": "J", "type": "agent", "config": {"output_schema": SCHEMA}},
        {"id": "K", "type": "agent", "config": {"tooling": tooling(function)}},
        {"id": "L", "type": "loop", "config": {"score": {"regex": "(\\d+)"}}},
    ]
    if not harmless:
        nodes += [{"id": "M", "type": "os:system"}, {"id": "N", "type": "../../evil"}]
    function_on_edge = {"type": "function", "config": {"name": function}}
    edges = [
        {"from": "A", "to": "B", "condition": function},
        {"from": "B", "to": "C", "process": function_on_edge},
        {"from": "C", "to": "D", "condition": {"type": "keyword", "config": {"regex": ["a+"]}}},
        {"from": "D", "to": "I", "condition": {"cel": "size(text) > 3"}},
    ]
    memory = [
        {
            "name": f"{number}-{encoding}",
            "type": "file",
            "config": {"file_sources": [{"path": path, "encoding": encoding}]},
        }
        for number, path in enumerate(paths)
        for encoding in encodings
    ]
    memory.append({"name": "s", "type": "simple", "config": {"memory_path": paths[0]}})
    files = ["inner.yaml"] if harmless else ["/etc/passwd", "../secret.yaml", "link.yaml", "missing.yaml"]
    whole = {
        "vars": {"OWN": "mine", "Z": {"value": "of-the-text", "secret": True}},
        "models": {"m": {"model": "openai:gpt-4o", "base_url": address, "api_key": "${OPENAI_API_KEY}"}},
        "tools": {"t": {"python": function}, "m": {"mcp": {"command": "sh", "args": ["-c", "touch /tmp/x"]}}},
        "middleware": [function],
        "graph": {"start": "A", "nodes": nodes, "edges": edges, "memory": memory},
    }
    subgraphs = [
        {
            "graph": {
                "start": "S",
                "nodes": [
                    {"id": "S", "type": "subgraph", "config": {"type": "file", "config": {"path": path}}}
                ],
            }
        }
        for path in files
    ]
    plain = {
        "graph": {
            "start": "A",
            "nodes": [{"id": "A", "type": "agent"}, {"id": "B", "type": "human"}],
            "edges": EDGE,
        }
    }
    return [whole, *subgraphs, plain]


def loop_agent(strategy: dict[str, Any]) -> dict[str, Any]:
    return {"strategy": strategy, "body": {"id": "X", "type": "passthrough"}}


def until(predicate: Any) -> dict[str, Any]:
    return {"mode": "condition", "until": predicate}


def tooling(function: str) -> list[dict[str, Any]]:
    module = function.partition(":")[0]
    return [
        {"type": "mcp_remote", "config": {"server": "https://tools.example"}},
        {"type": "mcp_local", "config": {"command": "sh", "cwd": "/etc"}},
        {"type": "function", "config": {"tools": [{"name": f"{module}:All"}, {"name": function}]}},
    ]


EDGE = [{"from": "A", "to": "B"}]
SCHEMA = {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"pattern": "^a$"}}}


def examine(text: str, policy: Policy) -> list[str]:
    """Checks and forecasts a text, and returns its diagnostics."""
    plan, report = draft_text_plan(text, {"GIVEN": "x"}, policy=policy)
    if plan is not None:
        check_policy(plan.workflow, policy)
        if report.ok:
            forecast(plan)
    return [f"{one} [{one.code}]" for one in report.diagnostics]


def main(folder: str) -> None:
    list(TYPES)  # imports all node types
    keyed = AllowedModel(provider="openai", key="OPENAI_API_KEY")
    policies = [Policy(), Policy(files=(folder,), models=(keyed,), environment=("TEAM",), python_code=True)]
    for policy in policies:
        for workflow in texts(harmless=True):
            examine(json.dumps(workflow), policy)
            examine("- not\n- a: workflow\n", policy)
    hostile = [json.dumps(workflow) for workflow in texts(harmless=False)]
    hostile += ["!!python/object/apply:os.system ['id']", "a: &a [*a, *a]\nb: *a", "<<: 3", "{" * 5000]
    events: list[str] = []
    watching = True

    def record(event: str, arguments: tuple[Any, ...]) -> None:
        if watching and event.startswith(WATCHED):
            events.append(f"{event} {arguments!r:.300}")

    modules = set(sys.modules)
    sys.addaudithook(record)
    found = [examine(text, policy) for policy in policies for text in hostile]
    watching = False
    print(json.dumps({"events": events, "modules": sorted(set(sys.modules) - modules), "found": found}))


if __name__ == "__main__":
    main(str(Path(sys.argv[1]).resolve()))
