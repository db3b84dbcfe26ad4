"""A workflow with the memory of another group than its file says."""

from __future__ import annotations

from msgspec.structs import replace

from roundel.workflow.graph import Workflow


def grouped(workflow: Workflow, group: str | None) -> Workflow:
    """None leaves it as it is; an empty name is no group."""
    if group is None or group == workflow.memory.group_id:
        return workflow
    if not isinstance(group, str):
        raise TypeError(f"a group is a text, not {group!r:.60}")
    return replace(workflow, memory=replace(workflow.memory, group_id=group))
