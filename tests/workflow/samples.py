"""For each object of a workflow file: a small one, and a workflow around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Mapping = dict[str, Any]
A: Mapping = {"id": "A", "type": "agent"}
B: Mapping = {"id": "B", "type": "passthrough"}


def graph(**more: Any) -> Mapping:
    return {"graph": {"nodes": [A, B], "start": "A", **more}}


def node(kind: str) -> Callable[[Mapping], Mapping]:
    return lambda config: {
        "models": {"default": {"model": "openai:gpt-4o"}},
        "tools": {"mean": {"python": "statistics:mean"}},
        "graph": {"nodes": [{"id": "N", "type": kind, "config": config}], "start": "N"},
    }


def edge(**more: Any) -> Mapping:
    return graph(edges=[{"from": "A", "to": "B", **more}])


def agent(**config: Any) -> Mapping:
    return node("agent")(config)


def memory(kind: str) -> Callable[[Mapping], Mapping]:
    return lambda config: graph(memory=[{"name": "m", "type": kind, "config": config}])


def condition(kind: str) -> Callable[[Mapping], Mapping]:
    return lambda config: edge(condition={"type": kind, "config": config})


def fan_out(kind: str = "map", **more: Any) -> Mapping:
    return edge(dynamic={"type": kind, **more})


def split(kind: str) -> Callable[[Mapping], Mapping]:
    return lambda config: fan_out(split={"type": kind, "config": config})


def tooling(kind: str) -> Callable[[Mapping], Mapping]:
    return lambda config: agent(tooling=[{"type": kind, "config": config}])


def loop_agent(strategy: Mapping) -> Mapping:
    return node("loop_agent")({"strategy": strategy, "body": A})


def strategy(mode: str) -> Callable[[Mapping], Mapping]:
    return lambda rest: loop_agent({"mode": mode, **rest})


def debate(consensus: Mapping) -> Mapping:
    two = [{"id": "X", "type": "agent"}, {"id": "Y", "type": "agent"}]
    return node("debate")({"participants": two, "exit_condition": "consensus", "consensus": consensus})


OBJECTS: dict[str, tuple[Mapping, Callable[[Mapping], Mapping]]] = {
    "workflow": (graph(), lambda root: root),
    "graph": ({"nodes": [A, B], "start": "A"}, lambda one: {"graph": one}),
    "node": (A, lambda one: {"graph": {"nodes": [one], "start": "A"}}),
    "edge": ({"from": "A", "to": "B"}, lambda one: graph(edges=[one])),
    "limits": ({}, lambda one: graph(limits=one)),
    "context": ({}, lambda one: {"models": {"m": {"model": "openai:gpt-4o"}}, **graph(context=one)}),
    "retry": ({}, lambda one: {"graph": {"nodes": [{**A, "retry": one}], "start": "A"}}),
    "loop": ({}, lambda one: graph(loops={"A": one}, edges=[{"from": "A", "to": "A"}])),
    "breaker": ({}, lambda one: graph(breaker=one)),
    "patience": ({}, lambda one: graph(breaker={"patience": one})),
    "debug": ({}, lambda one: graph(debug=one)),
    "breakpoint": ({"at": "A"}, lambda one: graph(debug={"break_at": [one]})),
    "model_profile": (
        {"model": "openai:gpt-4o"},
        lambda one: {"models": {"m": one, "other": one}, **graph()},
    ),
    "price": (
        {"input": 1, "output": 2},
        lambda one: {"models": {"m": {"model": "openai:gpt-4o", "price": one}}, **graph()},
    ),
    "tool": ({"python": "statistics:mean"}, lambda one: {"tools": {"t": one}, **graph()}),
    "mcp_server": ({"command": "serve"}, lambda one: {"tools": {"t": {"mcp": one}}, **graph()}),
    "memory_settings": ({}, lambda one: {"memory": one, **graph()}),
    "middleware": ({"name": "roundel:Middleware"}, lambda one: {"middleware": [one], **graph()}),
    "memory": ({"name": "m", "type": "simple"}, lambda one: graph(memory=[one])),
    "simple_memory": ({}, memory("simple")),
    "blackboard_memory": ({}, memory("blackboard")),
    "file_memory": ({"file_sources": [{"path": "."}]}, memory("file")),
    "file_source": ({"path": "."}, lambda one: memory("file")({"file_sources": [one]})),
    "working_memory": ({}, memory("working")),
    "long_term_memory": ({}, memory("long_term")),
    "mem0_memory": ({}, memory("mem0")),
    "embedding": ({"model": "small"}, lambda one: memory("simple")({"embedding": one})),
    "condition": ({"type": "function", "config": {"name": "code_pass"}}, lambda one: edge(condition=one)),
    "keyword_condition": ({"any": "yes"}, condition("keyword")),
    "function_reference": ({"name": "code_pass"}, condition("function")),
    "expression_condition": ({"expr": "true"}, condition("expression")),
    "processor": ({"type": "regex_extract", "config": {"pattern": "a"}}, lambda one: edge(process=one)),
    "regex_extract": ({"pattern": "a"}, lambda one: edge(process={"type": "regex_extract", "config": one})),
    "dynamic": ({"type": "map"}, lambda one: edge(dynamic=one)),
    "map_settings": ({}, lambda one: fan_out(config=one)),
    "tree_settings": ({}, lambda one: fan_out("tree", config=one)),
    "split": ({"type": "message"}, lambda one: fan_out(split=one)),
    "message_split": ({}, split("message")),
    "regex_split": ({"pattern": "a"}, split("regex")),
    "json_path_split": ({}, split("json_path")),
    "model_retry": ({}, lambda one: agent(retry=one)),
    "thinking": (
        {"type": "reflection", "config": {"reflection_prompt": "Better?"}},
        lambda one: agent(thinking=one),
    ),
    "reflection": (
        {"reflection_prompt": "Better?"},
        lambda one: agent(thinking={"type": "reflection", "config": one}),
    ),
    "dynamic_tools": ({}, lambda one: agent(dynamic_tools=one)),
    "tooling": ({"type": "mcp_local", "config": {"command": "serve"}}, lambda one: agent(tooling=[one])),
    "function_tooling": ({"tools": []}, tooling("function")),
    "function_tool": ({"name": "statistics:mean"}, lambda one: tooling("function")({"tools": [one]})),
    "remote_tooling": ({"server": "https://tools.example"}, tooling("mcp_remote")),
    "local_tooling": ({"command": "serve"}, tooling("mcp_local")),
    "memory_use": ({"name": "working"}, lambda one: agent(memories=[one])),
    "consensus": ({}, lambda one: node("loop")({"exit_condition": "consensus", "consensus": one})),
    "judged_consensus": ({}, debate),
    "score": ({"regex": "(a)"}, lambda one: node("loop")({"score": one})),
    "strategy": ({"mode": "array"}, loop_agent),
    "count_strategy": ({"max": 1}, strategy("count")),
    "condition_strategy": ({"until": "true"}, strategy("condition")),
    "array_strategy": ({}, strategy("array")),
    "custom_strategy": ({"use": "roundel:LoopStrategy"}, strategy("custom")),
    "predicate": ({"cel": "true"}, lambda one: strategy("condition")({"until": one})),
    "graph_file": ({"path": "other.yaml"}, lambda one: node("subgraph")({"type": "file", "config": one})),
}
"""`approval` is missing: it has short forms only."""

NODE_TYPES: dict[str, Mapping] = {
    "literal": {"content": "x"},
    "subgraph": {"type": "config", "config": {"nodes": [A], "start": "A"}},
    "loop_agent": {"strategy": {"mode": "count", "max": 1}, "body": A},
    "debate": {"participants": [{"id": "X", "type": "agent"}, {"id": "Y", "type": "agent"}]},
    "vote": {"participants": [{"id": "X", "type": "agent"}]},
}
"""The configs of those types that need one."""

TEXTS = {
    "breakpoint.cel": "true",
    "node.id": "A",
    "node.type": "agent",
    "edge.from": "A",
    "edge.to": "B",
    "graph.start": "A",
    "graph.end": "A",
    "edge.condition": "code_pass",
    "edge.port": "exit",
    "model_profile.fallback": "other",
    "model_profile.model": "openai:gpt-4o",
    "model_profile.provider": "openai",
    "tool.python": "statistics:mean",
    "middleware.name": "roundel:Middleware",
    "workflow.middleware": "roundel:Middleware",
    "embedding.provider": "openai",
    "file_source.path": ".",
    "file_source.encoding": "utf-8",
    "function_reference.name": "code_pass",
    "expression_condition.expr": "true",
    "condition.cel": "true",
    "condition.type": "function",
    "predicate.cel": "true",
    "predicate.function": "statistics:mean",
    "condition_strategy.until": "true",
    "array_strategy.items": "data.items",
    "custom_strategy.use": "roundel:LoopStrategy",
    "strategy.mode": "array",
    "memory.type": "simple",
    "processor.type": "regex_extract",
    "dynamic.type": "map",
    "split.type": "message",
    "tooling.type": "mcp_local",
    "score.regex": "(a)",
    "memory_use.name": "working",
    "memory_use.retrieve_stage": "gen",
    "function_tool.name": "statistics:mean",
    "graph_file.path": "other.yaml",
    "regex_extract.group": "0",
    "regex_split.group": "0",
    "graph.context": "task",
    "context.profile_id": "m",
    "node_type:agent.context": "task",
    "node_type:agent.provider": "openai",
    "node_type:agent.profile_id": "default",
    "node_type:agent.fallback": "default",
    "node_type:agent.model": "openai:gpt-4o",
    "node_type:agent.tools": "mean",
    "dynamic_tools.tool_ids": "mean",
    "node_type:agent.memories": "working",
    "node_type:agent.approval": "always",
    "node_type:python.function": "statistics:mean",
    "node_type:loop.score": "data.points",
    "node_type:subgraph.type": "config",
    "breaker.factor": "2",
    "retry.max_wait_seconds": "8",
    "model_retry.max_wait_seconds": "8",
    "graph.breaker": "false",
    "loop.breaker": "false",
    "workflow.breaker": "false",
}
"""Texts for the fields that not any text will do for."""

INSTEAD: dict[str, Mapping] = {
    "model_profile.name": {},
    "model_profile.provider": {"name": "gpt-4o"},
    "tool.mcp": {},
    "mcp_server.url": {},
    "condition.cel": {},
    "breakpoint.cel": {},
    "predicate.function": {},
    "node_type:agent.provider": {"name": "gpt-4o"},
}
"""Objects to which a field can be added that excludes another."""
