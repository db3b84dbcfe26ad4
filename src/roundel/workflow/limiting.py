"""A workflow with other limits than its file gives."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from roundel.workflow.graph import BUDGETED, Limits, Workflow

LIMITS = ("rounds", *BUDGETED)


def limited(workflow: Workflow, limits: Mapping[str, float]) -> Workflow:
    """ValueError if a limit is not known, or not one."""
    if not limits:
        return workflow
    unknown = set(limits) - set(LIMITS)
    if unknown:
        raise ValueError(f"there is no limit '{min(unknown)}'; known are {', '.join(LIMITS)}")
    try:
        graph_limits = msgspec.convert(msgspec.structs.asdict(workflow.graph.limits) | dict(limits), Limits)
    except msgspec.ValidationError:
        raise ValueError(
            "a limit is a number: of rounds, steps and seconds at least 1, else 0 or more"
        ) from None
    graph = msgspec.structs.replace(workflow.graph, limits=graph_limits)
    return msgspec.structs.replace(workflow, graph=graph)
