"""What is certain of an edge or a node before it runs, whatever is said."""

from __future__ import annotations

from roundel.plan.graph import EdgePlan, NodePlan


def sure(edge: EdgePlan) -> bool:
    """Whether the edge triggers its target for certain, whatever its source says."""
    return (
        edge.trigger
        and edge.test is None
        and edge.process is None
        and edge.port is None
        and not edge.consults
    )


def never(edge: EdgePlan) -> bool:
    """Whether the edge cannot fire, whatever its source says."""
    return edge.edge.condition is not None and edge.edge.condition.never


def always_speaks(node: NodePlan) -> bool:
    """Whether each run of the node gives a message, and for all its edges."""
    return not (node.kind.silent or node.kind.guard or node.bodies or node.expands)


def may_jump(node: NodePlan) -> bool:
    """Whether it may end the round of a loop agent around it: `break`, `continue`, or code that says so."""
    return node.kind.silent and not node.kind.guard


def one_message(node: NodePlan) -> bool:
    """Whether no run of the node gives more than one message."""
    return bool(node.kind.single(node.config)) and not node.expands
