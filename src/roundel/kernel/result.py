"""What a graph gives when it has run to its end."""

from __future__ import annotations

from collections import Counter

from roundel.kernel.activation import Instance
from roundel.plan.components import reachable
from roundel.workflow.message import Message


def result(instance: Instance) -> tuple[Message, ...]:
    """What the first of its ends that has output said last."""
    if instance.plan.graph.is_majority_voting:
        return _elected(instance)
    outputs = instance.outputs
    for end in instance.plan.ends:
        if end in outputs:
            return outputs[end]
    return ()


def _elected(instance: Instance) -> tuple[Message, ...]:
    """The most common text; of equally common ones that of the first node in the file."""
    said = [instance.outputs[end] for end in instance.plan.ends if end in instance.outputs]
    texts = [messages[-1].text.strip() for messages in said]
    votes = Counter(text for text in texts if text)
    if not votes:
        return ()
    winner = max(votes, key=lambda text: votes[text])
    return said[texts.index(winner)]


def unfired(instance: Instance) -> list[str]:
    """The edges on the way to an end that could have fired and did not."""
    plan, fired = instance.plan, instance.fired
    triggers = [edge for edge in plan.edges if edge.trigger]
    ran = {*plan.start, *(edge.target for edge in triggers if fired[edge.index])}
    into: dict[int, list[int]] = {}
    for edge in triggers:
        into.setdefault(edge.target, []).append(edge.source)
    on_the_way = reachable(plan.ends, into)
    return [
        str(edge.edge)
        for edge in triggers
        if edge.source in ran and edge.target in on_the_way and not fired[edge.index]
    ]
