"""Checks breakpoints against a plan, and collects those of a workflow.

A breakpoint that names a node or loop which the workflow does not have would never be reached, and its
user would wait for a pause that does not come. So it is an error, with a suggestion.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from roundel.plan.graph import Plan
from roundel.plan.loops import survey
from roundel.workflow.address import address_label, address_parts, last_number, split_round
from roundel.workflow.breakpoints import Breakpoint, BreakpointError, BreakpointSource, parse_breakpoint
from roundel.workflow.diagnostics import Report, did_you_mean

_MOST_SUGGESTED = 20
"""How many unknown names are compared with all names of the workflow."""
_MOST_LISTED = 20


def check_breakpoints(plan: Plan, report: Report) -> None:
    """Reports the breakpoints of a workflow file that no run can reach."""
    names = _Names(plan)
    for breakpoint in plan.breakpoints:
        problem = breakpoint_problem(plan, breakpoint, names)
        if problem:
            report.add(breakpoint.location.diagnostic("error", "unknown-breakpoint", problem))


def parse_breakpoints(plan: Plan, sources: Iterable[BreakpointSource]) -> tuple[Breakpoint, ...]:
    """Breakpoints that are given for a run of a plan, each once; BreakpointError if one is invalid."""
    parsed, names = dict.fromkeys(map(parse_breakpoint, sources)), _Names(plan)
    for breakpoint in parsed:
        problem = breakpoint_problem(plan, breakpoint, names)
        if problem:
            raise BreakpointError(problem)
    return tuple(parsed)


class _Names:
    """The names that breakpoints of a plan may have, which are the same for all of them."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.unknown = 0
        """How many names were unknown."""

    @cached_property
    def nodes(self) -> set[str]:
        return {name for node in self._plan.sites for name in (node.id, node.label)}

    @cached_property
    def loops(self) -> set[str]:
        return _loop_labels(self._plan)


def breakpoint_problem(plan: Plan, breakpoint: Breakpoint, names: _Names | None = None) -> str:
    """Why no run of the plan can reach a breakpoint; empty if one can."""
    names = names or _Names(plan)
    at, nodes = breakpoint.at, names.nodes
    if not at or at in nodes:
        return ""
    loops = names.loops
    for part in address_parts(at):
        name, number = split_round(part)
        if number is not None and name not in loops:
            return _unknown("loop", name, loops, names)
        if number == 0:
            return f"the breakpoint '{at}' is never reached: rounds count from 1"
        if number is None and part not in nodes:
            return _unknown("node", part, nodes, names)
    left_out = last_number(at)
    if left_out:
        return (
            f"the breakpoint '{at}' is never reached: a run stops before all parts of a node together, and "
            f"before the nodes inside of one part; leave out '{left_out}', or name a node inside"
        )
    return ""


def _loop_labels(plan: Plan) -> set[str]:
    """The names of loops in addresses: entries of free loops, composite nodes, and agents with tools."""
    labels = {node.label for node in plan.sites if node.kind.loops or node.has_tool_loop}
    for graph in plan.graph.family:
        surveyed = survey(graph)
        labels |= {loop.entry.label for loop in surveyed.found}
        labels |= {loop.entry.label for loop in surveyed.unanalysed}
    return labels


def _unknown(what: str, name: str, known: set[str], names: _Names) -> str:
    names.unknown += 1
    hint = ""
    if names.unknown <= _MOST_SUGGESTED:
        hint = did_you_mean(name, known) or did_you_mean(address_label(name), known)
    if not hint:
        listed = ", ".join(sorted(known)[:_MOST_LISTED]) or "none"
        hint = f"known {what}s: {listed}"
    return f"no breakpoint can be at '{name}', since the workflow has no such {what}; {hint}"
