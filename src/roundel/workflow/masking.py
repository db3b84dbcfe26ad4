"""Masks what a run repeats of its workflow: texts that go from the file into messages, events and snapshots.

Most of a workflow is used and never repeated: a model gets its prompt with the real values. But a literal's
text is a message, a question is shown, and what a pure node, an edge or a debate says goes into the state of
the run. Nobody could use a secret there without seeing it, so it is masked when the workflow is read. Then a
run is the same whether its state was kept in memory or read from a store.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from roundel.workflow.fields import Place
from roundel.workflow.graph import Edge, Graph, Node
from roundel.workflow.processor import RegexExtract
from roundel.workflow.secrets import Secrets


def without_secrets(graph: Graph, secrets: Secrets) -> Graph:
    """The graph with what it says of its own masked; the same object if there is nothing to mask."""
    nodes = tuple(_node(node, secrets) for node in graph.nodes)
    edges = tuple(_edge(edge, secrets) for edge in graph.edges)
    changed = any(
        new is not old for new, old in zip((*nodes, *edges), (*graph.nodes, *graph.edges), strict=True)
    )
    return msgspec.structs.replace(graph, nodes=nodes, edges=edges) if changed else graph


def _node(node: Node, secrets: Secrets) -> Node:
    kind = node.kind
    repeats = kind.pure or kind.asks or kind.conduct is not None
    if not repeats and not kind.bodies(node.config):
        return node
    config = _config(node.config, secrets, repeats)
    return node if config is node.config else msgspec.structs.replace(node, config=config)


def _edge(edge: Edge, secrets: Secrets) -> Edge:
    process = edge.process
    if process is None or process.regex is None:
        return edge
    made = _extract(process.regex, secrets)
    if made is process.regex:
        return edge
    return msgspec.structs.replace(edge, process=msgspec.structs.replace(process, regex=made))


def _extract(extract: RegexExtract, secrets: Secrets) -> RegexExtract:
    """The pattern holds no secret: the loader refuses one that does."""
    template, default = secrets.mask(extract.template), secrets.mask(extract.default_value)
    if template is extract.template and default is extract.default_value:
        return extract
    return msgspec.structs.replace(extract, template=template, default_value=default)


def _config(value: Any, secrets: Secrets, repeats: bool) -> Any:
    """A config, with the graphs in it; its own texts only if the node repeats them."""
    if isinstance(value, Graph):
        return without_secrets(value, secrets)
    if isinstance(value, Node):
        return _node(value, secrets)
    if isinstance(value, str):
        return secrets.mask(value) if repeats else value
    if isinstance(value, Struct) and not isinstance(value, Place):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        made = {name: _config(inner, secrets, repeats) for name, inner in fields.items()}
        changes = {name: inner for name, inner in made.items() if inner is not fields[name]}
        return msgspec.structs.replace(value, **changes) if changes else value
    if isinstance(value, tuple):
        items = tuple(_config(item, secrets, repeats) for item in value)
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return secrets.masked(value) if repeats else value
