"""Limits that are given for one run, in place of those of the workflow (`roundel run --limit`, `limits=`).

A plain name is a limit of the whole graph. `X.NAME` is a limit of one loop or node, wherever in the workflow
it is: X is the entry of a free loop, or the id of a node. If it is both, X is the loop, and X.X the node, as
in the summary of a run.

    X.rounds         a free loop: its cap
                     a loop_agent, debate, loop or loop_counter: its own number of rounds
                     any other node with graphs inside: the cap of their loops
    X.tokens, …      the limits of the loop, or of the node

The names of loops are those of the survey (loops.py), which is why this belongs to the plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from roundel.plan.graph import NodePlan, Plan, compile_workflow
from roundel.plan.loops import survey
from roundel.workflow.diagnostics import did_you_mean
from roundel.workflow.fields import SourceLocation
from roundel.workflow.graph import LIMIT_NAMES, GraphDefinition, Limits, LoopSettings, Node, Workflow
from roundel.workflow.limits import suggest_limit
from roundel.workflow.node_type import NodeType

LimitValue = float | str
"""A number; `lock` or `allow` for `unpriced`."""
LimitValues = Mapping[str, LimitValue]
"""Limits by `NAME` or `X.NAME`."""
MOST_LISTED = 20
"""The number of loops and nodes that an error lists."""


class LimitError(ValueError):
    """A limit does not exist, or has an invalid value."""


def check_limit_name(key: str, name: str, known: Sequence[str] = LIMIT_NAMES) -> None:
    """LimitError if there is no such limit. `key` is the name as it was given, maybe with a loop or node."""
    if name not in known:
        raise LimitError(f"there is no limit '{key}'; {suggest_limit(name, known)}")


def with_limits(workflow: Workflow, limits: LimitValues, *, inherited: bool = False) -> Workflow:
    """Returns the workflow with limits that replace its own; LimitError.

    Limits of the whole run are set on the graph, not on the file: the limits of the graph come first, so
    these win in any case.

    `inherited`: the limits come from another run, whose workflow may have been another one. Those of loops
    and nodes that this workflow does not have are left out."""
    of_parts: dict[str, dict[str, LimitValue]] = {}
    of_graph: dict[str, LimitValue] = {}
    for key, value in limits.items():
        part, _, name = key.rpartition(".")
        check_limit_name(key, name)
        if isinstance(value, float) and not math.isfinite(value):
            raise LimitError(f"the limit '{key}' has to be a number, not {value}")
        (of_parts.setdefault(part, {}) if part else of_graph)[name] = value
    if of_graph:
        graph_limits = _changed_limits(workflow.graph.limits, of_graph)
        workflow = replace(workflow, graph=replace(workflow.graph, limits=graph_limits))
    if not of_parts:
        return workflow
    changes = _Changes()
    parts = _find_parts(compile_workflow(workflow))
    for name, values in of_parts.items():
        found = parts.get(name, [])
        if len(found) == 1:
            found[0].change(changes, values, name, inherited)
        elif not inherited:
            raise LimitError(_not_found(name, len(found), parts))
    return replace(workflow, graph=changes.apply(workflow.graph))


def _not_found(name: str, count: int, parts: Mapping[str, Any]) -> str:
    if count:
        return f"the workflow has {count} loops or nodes named '{name}'; set the limit of one in the file"
    hint = did_you_mean(name, parts)
    if not hint:
        listed = ", ".join(sorted(parts)[:MOST_LISTED])
        hint = f"there are {listed}" + (f" and {len(parts) - MOST_LISTED} more" * (len(parts) > MOST_LISTED))
    return f"the workflow has no loop or node '{name}'; {hint}"


def _changed_limits(limits: Limits | None, values: LimitValues) -> Limits:
    before = msgspec.structs.asdict(limits or Limits())
    try:
        return msgspec.convert(before | dict(values), Limits)
    except msgspec.ValidationError:
        raise LimitError(
            "a limit is a number: of rounds, steps, seconds and tokens per call at least 1, else 0 or more; "
            "'unpriced' is 'lock' or 'allow'"
        ) from None


class _Changes:
    """Collects changes of nodes and loops, and rebuilds the graphs that contain them. Nodes are recognised
    by identity, since the same id may occur in several graphs."""

    def __init__(self) -> None:
        self.nodes: dict[int, Callable[[Node], Node]] = {}
        self.loops: dict[int, LoopSettings] = {}
        """The settings of loops, by the identity of their entry node."""

    def apply(self, value: Any) -> Any:
        """The value with all changes inside it; the same object if there are none."""
        if isinstance(value, (NodeType, SourceLocation)):
            return value
        if isinstance(value, Struct):
            fields = {name: getattr(value, name) for name in value.__struct_fields__}
            changed = {name: new for name, old in fields.items() if (new := self.apply(old)) is not old}
            if isinstance(value, GraphDefinition):
                own = {node.id: self.loops[id(node)] for node in value.nodes if id(node) in self.loops}
                changed |= {"loops": {**value.loops, **own}} if own else {}
            made = replace(value, **changed) if changed else value
            change = self.nodes.get(id(value))
            return change(made) if change is not None and isinstance(made, Node) else made
        if isinstance(value, (tuple, list)):
            items = [self.apply(item) for item in value]
            same = all(new is old for new, old in zip(items, value, strict=True))
            return value if same else type(value)(items)
        if isinstance(value, dict):
            entries = {key: self.apply(item) for key, item in value.items()}
            return value if all(entries[key] is value[key] for key in value) else entries
        return value


class _LoopPart(Struct, frozen=True):
    """A free loop that limits can be set for."""

    entry: Node
    settings: LoopSettings

    def change(self, changes: _Changes, values: LimitValues, _name: str, _inherited: bool) -> None:
        limits = _changed_limits(self.settings.limits, values)
        # The cap has two spellings, of which only one may be set.
        cap = limits.rounds if "rounds" in values else self.settings.max_rounds
        if "rounds" in values:
            limits = replace(limits, rounds=None)
        kept = limits if limits != Limits() else None
        changes.loops[id(self.entry)] = replace(self.settings, max_rounds=cap, limits=kept)


class _NodePart(Struct, frozen=True):
    """A node that limits can be set for."""

    node: Node

    def change(self, changes: _Changes, values: LimitValues, name: str, inherited: bool) -> None:
        node, with_rounds = self.node, self.node.kind.with_rounds
        own = dict(values)
        checked = _changed_limits(None, values)
        if "rounds" in own and with_rounds is None and not node.kind.bodies(node.config):
            if not inherited:
                raise LimitError(f"'{name}' has no rounds: it is neither a loop nor does it contain one")
            del own["rounds"]
        rounds = checked.rounds if with_rounds is not None else None
        if rounds is not None:
            del own["rounds"]
        limits = _changed_limits(node.limits, own) if own else node.limits

        def change(made: Node) -> Node:
            config = made.config
            if rounds is not None and with_rounds is not None:
                config = with_rounds(config, rounds)
            return replace(made, config=config, limits=limits)

        changes.nodes[id(node)] = change


def _find_parts(plan: Plan) -> dict[str, list[_LoopPart | _NodePart]]:
    """All loops and nodes by the names that limits use."""
    found: dict[str, list[_LoopPart | _NodePart]] = {}
    for graph in plan.graph.family:
        surveyed = survey(graph)
        entries = {loop.entry.index for loop in surveyed.found}
        entries |= {loop.entry.index for loop in surveyed.unanalysed}
        for node in graph.nodes:
            for name, part in _parts_of(node, node.index in entries, graph.graph):
                found.setdefault(name, []).append(part)
    return found


def _parts_of(
    node: NodePlan, is_entry: bool, graph: GraphDefinition
) -> Iterator[tuple[str, _LoopPart | _NodePart]]:
    if is_entry:
        yield node.id, _LoopPart(node.node, graph.loops.get(node.id, LoopSettings()))
        yield f"{node.id}.{node.id}", _NodePart(node.node)
    else:
        yield node.id, _NodePart(node.node)
