"""The labels of nodes, edges and regions in a drawing.

A workflow is masked when it is loaded, but conditions and prompts keep their secrets, since a run needs
them. So the caller passes a function that masks. It gets whole texts, before anything is cut or wrapped:
half a secret would not be found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from roundel.drawing.text import truncate, visible
from roundel.plan.graph import GraphPlan, NodePlan, Plan
from roundel.plan.proof import Limit, bounds, describe_bound
from roundel.workflow.condition import Condition, Keyword
from roundel.workflow.diagnostics import Diagnostic
from roundel.workflow.graph import Edge
from roundel.workflow.graph_reader import is_placeholder

if TYPE_CHECKING:
    from roundel.drawing.nesting import Group

Mask = Callable[[str], str]
LONGEST_TEXT = 1000
"""The characters of a text that are used; a drawing shows far fewer."""


class Labels:
    """The texts of one drawing, for every format, so that all formats say the same. `draw`, `mermaid`
    and `tree` create it."""

    def __init__(self, mask: Mask = str, *, draft: bool = False) -> None:
        self._mask, self._draft = mask, draft

    def line(self, text: str) -> str:
        """Any text of the workflow as one line that is safe to show."""
        # Masked before it is cut: a secret that crosses the cut would not be found.
        return visible(" ".join(self._mask(text)[:LONGEST_TEXT].split()))

    def safe(self, text: str) -> str:
        """The full text with its spaces, for keys, which are compared and not read."""
        return visible(self._mask(text))

    def title(self, plan: Plan) -> str:
        return self.line(plan.workflow.graph.id) or "workflow"

    # Nodes.

    def node(self, node: NodePlan) -> str:
        """A node's type, and its limit if it guards a loop."""
        limit = _limit(node)
        name = self.line(node.kind.name)
        return f"{name}, {limit}" if limit else name

    def collapsed(self, node: NodePlan, nodes: int) -> str:
        """The same for a node whose graphs are not drawn, and how many nodes those have."""
        return f"{self.line(node.kind.name)}, {nodes} {'node' if nodes == 1 else 'nodes'}"

    def own_bound(self, node: NodePlan) -> str:
        """What bounds a node that is a loop itself; empty for any other."""
        if not node.kind.loops or is_placeholder(node.node):
            return ""
        most = node.kind.rounds(node.config)
        return "no bound" if most is None else self.line(describe_bound((Limit(node.id, most),), most, most))

    def container(self, node: NodePlan) -> tuple[str, ...]:
        """The captions of a node with graphs inside."""
        voting = (self.voting(body) for body in node.bodies)
        return tuple(filter(None, (self.node(node), self.own_bound(node), *voting)))

    def voting(self, graph: GraphPlan) -> str:
        if not graph.graph.is_majority_voting:
            return ""
        return f"majority voting: the most common answer of {len(graph.nodes)} nodes wins"

    # Edges and loops.

    def edge(self, edge: Edge) -> str:
        """The condition of an edge and what it does; empty for a plain edge."""
        return " · ".join(truncate(word) for word in self._edge(edge))

    def edge_in_full(self, edge: Edge) -> str:
        return " · ".join(self._edge(edge))

    def _edge(self, edge: Edge) -> list[str]:
        words = [f"port {self.line(edge.port)}"] if edge.port else []
        if edge.condition is not None:
            words.append(self.condition(edge.condition))
        if edge.dynamic is not None:
            words.append(f"{edge.dynamic.type}, {edge.dynamic.max_parallel} at a time")
        if edge.process is not None:
            function = self.line(edge.process.function or "")
            words.append("extract" if edge.process.regex else f"via {function}")
        return words

    def condition(self, condition: Condition) -> str:
        if condition.never:
            return "never"
        if condition.keyword is not None:
            return self.line(_keywords(condition.keyword))
        return self.line(condition.function or condition.expression or "")

    def loop(self, loop: Group) -> str:
        """The bound of a loop for each entry.

        A draft has no proof: a node or an edge that could not be read may be the one that ends the loop,
        or the one that continues it.
        """
        if self._draft:
            return "no proof until the errors are corrected"
        return self.line(describe_bound(*bounds(loop.scope), loop.scope.cap))

    def counts(self, graph: Group) -> str:
        """The number of nodes, edges and loops, including those inside nodes."""
        groups = list(graph.graphs())
        nodes = [node for group in groups for node in group.graph.nodes]
        edges = sum(len(group.graph.edges) for group in groups)
        loops = sum(1 for group in groups for _ in group.loops()) + sum(node.kind.loops for node in nodes)
        counted = ((len(nodes), "node"), (edges, "edge"), (loops, "loop"))
        return ", ".join(f"{count} {word}{'' if count == 1 else 's'}" for count, word in counted)

    def problems(self, found: Sequence[Diagnostic]) -> str:
        """The first error at one place, and how many more there are; empty without errors."""
        errors = [diagnostic for diagnostic in found if diagnostic.severity == "error"]
        if not errors:
            return ""
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        return f"{self.line(errors[0].message)}{more}"


def _keywords(keyword: Keyword) -> str:
    kinds = ("none", "any", "begins", "only", "regex")
    lists = [(name, words) for name in kinds if (words := getattr(keyword, name))]
    text = "; ".join(f"{name}: {', '.join(words)}" for name, words in lists)
    if not keyword.negate:
        return text
    return f"not {text}" if len(lists) == 1 else f"not ({text})"


def _limit(node: NodePlan) -> str:
    config = node.config
    for name, unit in (("max_iterations", "times"), ("max_rounds", "rounds")):
        if node.kind.guard and hasattr(config, name):
            return f"{getattr(config, name)} {unit}"
    if node.kind.guard and hasattr(config, "max_duration"):
        return f"{config.max_duration:g} {config.duration_unit}"
    return ""
