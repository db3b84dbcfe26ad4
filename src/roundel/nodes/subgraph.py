"""`subgraph`: runs a whole graph as one node, declared in place or in a file.

Its output is the result of the graph: the messages of the last run of its first `end` node with output.
If no end is reached it has none, and no edge of the node fires (decision 5).
"""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import Struct

from roundel.kernel.commands import Call
from roundel.kernel.facts import Outcome
from roundel.nodes.services import Behaviour, NodeError, Services
from roundel.workflow.description import Description, Field, Variants
from roundel.workflow.document import Located
from roundel.workflow.fields import INVALID, Reader
from roundel.workflow.graph import GraphDefinition, GraphSettings, Node
from roundel.workflow.loader import WorkflowReader
from roundel.workflow.node_type import NodeType


class FromFile(Struct, frozen=True):
    """A subgraph that is given by a file."""

    path: str

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="graph_file",
            en=("Graph file", "A graph in a separate file."),
            zh=("图文件", "位于另一个文件中的图。"),
            fields={
                "path": Field(
                    en=(
                        "Path",
                        "Roundel looks beside the file that names it, beside the main file, in the "
                        "working folder, and in the folder `subgraphs` of each. The file must be inside "
                        "the main file's folder.",
                    ),
                    zh=(
                        "路径",
                        "依次在引用它的文件旁、主文件旁、工作目录，以及各处的 `subgraphs` 目录中查找；"
                        "须位于主文件所在的目录内。",
                    ),
                    widget="file",
                    see="workflow-files.md#referenced-files",
                ),
            },
        )


class Config(Struct, frozen=True, omit_defaults=True):
    """The graph of a subgraph node, wherever it was declared."""

    graph: GraphDefinition
    path: str = ""
    """The file that it was read from; empty if it is declared in place. Memories use it: a graph from a
    file has only its own (memory/namespaces.py)."""

    forms: ClassVar[dict[str, type[Struct]]] = {"config": GraphSettings, "file": FromFile}

    @staticmethod
    def __describe__() -> Description:
        return Description(
            variants=Variants(
                forms=Config.forms,
                en=("Source", "Where the graph is: inline, or in a separate file."),
                zh=("来源", "图的位置：就在此处，或在另一个文件中。"),
            ),
        )

    @classmethod
    def __read__(cls, at: Located, reader: Reader) -> Any:
        assert isinstance(reader, WorkflowReader)
        form = reader.variant(at, cls.forms, "subgraph")
        if form is None:
            return INVALID
        kind, config = form
        path = ""
        if kind is GraphSettings:
            graph = reader.read_graph(config)
        else:
            named = reader.read(config, FromFile, "the subgraph")
            if named is INVALID:
                return INVALID
            assert isinstance(config.value, dict)
            path = named.path
            graph = reader.read_graph_file(config.value["path"])
        return INVALID if graph is INVALID else cls(graph, path)


def prepare(_node: Node, _services: Services) -> Behaviour:
    # The kernel runs the nodes of the graph; the subgraph node itself is never called.
    def behave(call: Call) -> Outcome:
        raise NodeError(f"{call.address} is a graph, not called as a whole")

    return behave


EXAMPLE = """
- id: Draft
  type: subgraph
  config:
    type: config
    config:
      nodes: [{id: Writer, type: agent}]
      start: Writer
"""

NODE = NodeType(
    "subgraph",
    Config,
    "Runs a whole graph as one node.",
    prepare,
    title="Subgraph",
    zh=("子图", "把整个图作为一个节点运行。"),
    example=EXAMPLE,
    bodies=lambda config: (config.graph,),
)
