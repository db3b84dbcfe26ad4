"""The words in a drawing, kept short."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size

from roundel.cli.output import printable
from roundel.drawing.nesting import Group
from roundel.plan.graph import GraphPlan, NodePlan, Plan
from roundel.plan.proof import Limit, bounds, told
from roundel.workflow.condition import Condition, Keyword
from roundel.workflow.graph import Edge

LONGEST = 40


def one_line(text: str, most: int = 1000) -> str:
    """Text from a file or a model as one line that cannot steer a terminal."""
    return printable(" ".join(text[:most].split()))


def cut(text: str, width: int = LONGEST) -> str:
    """At most so many columns; Chinese, Japanese and Korean characters take two."""
    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"


def edge_words(edge: Edge) -> str:
    """When an edge is taken and what it does; empty for a plain one."""
    words = [f"port {one_line(edge.port)}"] if edge.port else []
    if edge.condition is not None:
        words.append(condition_words(edge.condition))
    if edge.dynamic is not None:
        words.append(f"{edge.dynamic.type}, {edge.dynamic.max_parallel} at a time")
    if edge.process is not None:
        words.append("extract" if edge.process.regex else f"via {one_line(edge.process.function or '')}")
    return " · ".join(cut(word) for word in words)


def condition_words(condition: Condition) -> str:
    if condition.never:
        return "never"
    if condition.keyword is not None:
        return one_line(_keywords(condition.keyword))
    return one_line(condition.function or condition.expression or "")


def _keywords(keyword: Keyword) -> str:
    kinds = (("none", keyword.none), ("any", keyword.any), ("regex", keyword.regex))
    return "; ".join(f"{name}: {', '.join(words)}" for name, words in kinds if words)


def node_words(node: NodePlan) -> str:
    """A node's type, and its limit if it guards a loop."""
    limit = limit_words(node)
    return f"{node.kind.name}, {limit}" if limit else node.kind.name


def limit_words(node: NodePlan) -> str:
    config = node.config
    for name, unit in (("max_iterations", "times"), ("max_rounds", "rounds")):
        if node.kind.guard and hasattr(config, name):
            return f"{getattr(config, name)} {unit}"
    if node.kind.guard and hasattr(config, "max_duration"):
        return f"{config.max_duration:g} {config.duration_unit}"
    return ""


def loop_bounds(loop: Group) -> str:
    """What bounds a loop each time that it is entered."""
    return one_line(told(*bounds(loop.scope), loop.scope.cap))


def own_bounds(node: NodePlan) -> str:
    """The same of a node that is a loop itself; empty for any other."""
    if not node.kind.loops:
        return ""
    most = node.kind.rounds(node.config)
    return "no bound" if most is None else one_line(told((Limit(node.id, most),), most, most))


def graph_title(plan: Plan) -> str:
    return one_line(plan.workflow.graph.id) or "workflow"


def counts(graph: Group) -> str:
    """How much there is to see, with what is inside nodes."""
    groups = list(graph.graphs())
    nodes = [node for group in groups for node in group.graph.nodes]
    edges = sum(len(group.graph.edges) for group in groups)
    loops = sum(1 for group in groups for _ in group.loops()) + sum(node.kind.loops for node in nodes)
    counted = ((len(nodes), "node"), (edges, "edge"), (loops, "loop"))
    return ", ".join(f"{count} {word}{'' if count == 1 else 's'}" for count, word in counted)


def frame_words(node: NodePlan) -> tuple[str, ...]:
    """What is said of a node with graphs inside, beside its id."""
    voting = (voting_words(body) for body in node.bodies)
    return tuple(filter(None, (node_words(node), own_bounds(node), *voting)))


def voting_words(graph: GraphPlan) -> str:
    if not graph.graph.is_majority_voting:
        return ""
    return f"majority voting: the most common answer of {len(graph.nodes)} nodes wins"
