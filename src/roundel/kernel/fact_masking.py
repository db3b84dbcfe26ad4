"""Facts without secrets. A host masks a fact before it tells the kernel.

So the state of a run, its events, its decisions and its snapshots hold no secret either, and a run that is
resumed from its journal knows just what it would have known without the interruption.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from roundel.kernel.facts import Fact, encode_fact
from roundel.plan.graph import Plan
from roundel.workflow.fields import Place
from roundel.workflow.node_type import NodeType
from roundel.workflow.secrets import Secrets

KEPT = frozenset(
    {"address", "checks", "exit", "jump", "limits", "media_type", "port", "reviews", "role", "run_id", "type"}
)
"""Fields that name parts of the workflow, or words of the format: what they hold is found again by it."""


def secrets_of(plan: Plan) -> Secrets:
    """The masker for a run of a plan."""
    workflow = plan.workflow
    names = (*(node.id for node in plan.sites), *workflow.tools, *workflow.models)
    secrets = Secrets(workflow.secrets.values(), names=names)
    if workflow.secrets:
        for text in _urls((workflow.models, workflow.tools, workflow.graph)):
            secrets.add_urls(text)
    return secrets


def _urls(value: Any) -> Iterator[str]:
    """The texts of a workflow that hold a URL: a short password is hidden there and nowhere else."""
    if isinstance(value, str):
        if "://" in value:
            yield value
    elif isinstance(value, Struct):
        for name in () if isinstance(value, (NodeType, Place)) else value.__struct_fields__:
            yield from _urls(getattr(value, name))
    elif isinstance(value, (dict, list, tuple)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _urls(inner)


def masked_fact(fact: Fact, secrets: Secrets) -> Fact:
    """The fact without secrets; the same object if it holds none."""
    if not secrets:
        return fact
    try:
        if not secrets.found_in(encode_fact(fact)):
            return fact
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        pass  # no JSON: a run that is not stored takes it as it is
    masked: Fact = secrets.masked(fact, KEPT)
    return masked
