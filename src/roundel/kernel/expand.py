"""Nodes that run once for each part of what a dynamic edge brought.

`map` runs the node on each part; the outputs stand in the order of the parts. `tree` runs it on groups
of parts, then on groups of what those gave, until one message is left.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from roundel.kernel.decisions import DecisionError
from roundel.kernel.execution import Execution, Expansion
from roundel.kernel.facts import Outcome
from roundel.kernel.state import Run
from roundel.kernel.walk import EdgeError
from roundel.plan.graph import EdgePlan
from roundel.workflow.dynamic import RegexSplit, Split
from roundel.workflow.message import Message
from roundel.workflow.pattern import PatternError

MAX_LAYERS = 100
Part = tuple[int, str, tuple[Message, ...]]
"""Its number, its address, its input."""


class ExpansionError(Exception):
    """A tree that does not come together."""


def expand(run: Run, execution: Execution, inputs: tuple[Message, ...]) -> Expansion:
    edge = _edge(execution)
    dynamic = edge.edge.dynamic
    assert dynamic is not None
    shared = tuple(message for message in inputs if not message.dynamic)
    try:
        parts = [
            msgspec.structs.replace(part, dynamic=False)
            for message in inputs
            if message.dynamic
            for part in _parts(run, dynamic.split, message)
        ]
    except (DecisionError, PatternError) as error:
        raise EdgeError(execution, f"the split on {edge.edge} failed: {error}") from error
    # A guard counts its parts one after the other.
    width = 1 if execution.node.kind.guard else dynamic.max_parallel
    expansion = Expansion(execution, dynamic, shared, width)
    _group(expansion, parts)
    return expansion


def _parts(run: Run, split: Split, message: Message) -> list[Message]:
    """The parts of a message; where a pattern cuts it, that is a decision."""
    if not isinstance(split, RegexSplit):
        return split.parts(message)
    texts = run.decisions.take(split.texts, message)
    return split.made_of(message, texts)


def _edge(execution: Execution) -> EdgePlan:
    """The dynamic edge that leads to it; if there are several, their settings are the same."""
    plan = execution.activation.instance.plan
    target = execution.node.index
    return next(edge for edge in plan.edges if edge.target == target and edge.dynamic)


def _group(expansion: Expansion, parts: list[Message]) -> None:
    size = expansion.dynamic.group_size if expansion.dynamic.type == "tree" else 1
    first = expansion.shared if expansion.layer == 0 else ()
    expansion.layer += 1
    expansion.groups = [(*first, *parts[at : at + size]) for at in range(0, len(parts), size)]
    expansion.outcomes = [None] * len(expansion.groups)
    expansion.started = 0


def due(expansion: Expansion) -> Iterator[Part]:
    """The parts that may start now."""
    at_work = expansion.outcomes[: expansion.started].count(None)
    while expansion.started < len(expansion.groups) and at_work < expansion.width:
        number = expansion.started
        expansion.started += 1
        at_work += 1
        yield number, _address(expansion, number), expansion.groups[number]


def _address(expansion: Expansion, number: int) -> str:
    layer = f"{expansion.layer}." if expansion.dynamic.type == "tree" else ""
    return f"{expansion.execution.address}#{layer}{number + 1}"


def gather(expansion: Expansion, number: int, outcome: Outcome) -> list[Outcome] | None:
    """Keeps a part's outcome; gives what the node as a whole gave, once nothing is left to do."""
    expansion.outcomes[number] = outcome
    return collected(expansion)


def collected(expansion: Expansion) -> list[Outcome] | None:
    if None in expansion.outcomes:
        return None
    outcomes = [outcome for outcome in expansion.outcomes if outcome is not None]
    if expansion.dynamic.type == "map":
        return outcomes
    messages = [message for outcome in outcomes for message in outcome.messages]
    if len(messages) <= 1 or len(outcomes) == 1:
        return outcomes
    if expansion.layer >= MAX_LAYERS:
        raise ExpansionError(
            f"the tree did not come together in {MAX_LAYERS} layers; {len(messages)} messages are left"
        )
    _group(expansion, [msgspec.structs.replace(message, role="user") for message in messages])
    return None
