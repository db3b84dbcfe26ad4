"""`subgraph`: runs a whole graph as one node, given in place or by a file."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from roundel.kernel.commands import Call
from roundel.kernel.facts import Outcome
from roundel.nodes.services import Behaviour, NodeError, Services
from roundel.workflow.document import Located
from roundel.workflow.fields import INVALID, Reader
from roundel.workflow.graph import Graph, Node
from roundel.workflow.loader import WorkflowReader
from roundel.workflow.node_type import NodeType


class Inline(Struct, frozen=True):
    """The graph stands in the file itself."""


class FromFile(Struct, frozen=True):
    path: str


class Config(Struct, frozen=True, omit_defaults=True):
    graph: Graph
    path: str = ""

    @classmethod
    def __read__(cls, at: Located, reader: Reader) -> Any:
        assert isinstance(reader, WorkflowReader)
        form = reader.variant(at, {"config": Inline, "file": FromFile}, "subgraph")
        if form is None:
            return INVALID
        kind, config = form
        path = ""
        if kind is Inline:
            graph = reader.read_graph(config)
        else:
            named = reader.read(config, FromFile, "the subgraph")
            if named is INVALID:
                return INVALID
            assert isinstance(config.value, dict)
            path = named.path
            graph = reader.read_graph_file(config.value["path"])
        return INVALID if graph is INVALID else cls(graph, path)

    @classmethod
    def __schema__(cls, maker: Any) -> dict[str, Any]:
        inline = {
            "type": "object",
            "properties": {"type": {"const": "config"}, "config": {"$ref": "#/$defs/graph"}},
            "required": ["type", "config"],
        }
        return {"anyOf": [inline, *maker.variants({"file": FromFile})]}


def prepare(_node: Node, _services: Services) -> Behaviour:
    def behave(call: Call) -> Outcome:
        raise NodeError(f"{call.address} is a graph, not called as a whole")

    return behave


NODE = NodeType(
    "subgraph", Config, "Runs a whole graph as one node.", prepare, bodies=lambda config: (config.graph,)
)
