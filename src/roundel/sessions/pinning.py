"""What a run was started with, as it is stored, and the plan that is made of it again.

Reading a run needs what is stored and nothing else: no file, no environment, no code. Going on with it also
needs its secrets, from the environment or from `.env` beside the workflow file, and the code of its
functions, which is found by their names or given again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from roundel.journal.store import Pinned, StoreError
from roundel.kernel.step import SEMANTICS
from roundel.llm.scripted import Script
from roundel.nodes import TYPES
from roundel.plan.graph import Plan, compile_workflow
from roundel.sessions.secrecy import keys_of
from roundel.sources import Source, load
from roundel.workflow.dotenv import read_dotenv
from roundel.workflow.encoding import EncodingError, decode_workflow, encode_workflow, secrets_in
from roundel.workflow.file_access import AllowPaths, allowed_folders
from roundel.workflow.graph import Workflow
from roundel.workflow.grouping import grouped
from roundel.workflow.limiting import limited


def pin(plan: Plan, script: Script | None = None, limits: Mapping[str, float] | None = None) -> Pinned:
    """What is stored with a run, without secrets; StoreError if its workflow holds what cannot be stored."""
    plan._encoded = plan._encoded or _encoded(plan.workflow)
    return Pinned(plan._encoded, SEMANTICS, dict(limits or {}), script.text if script is not None else "")


def _encoded(workflow: Workflow) -> str:
    if workflow.file:  # whoever goes on may be in another folder, and finds its functions beside it
        workflow = replace(workflow, file=str(Path(workflow.file).resolve()))
    try:
        return encode_workflow(_with_secrets(workflow))
    except EncodingError as error:
        raise StoreError(f"the run cannot be stored, since its workflow cannot: {error}") from error


def _with_secrets(workflow: Workflow) -> Workflow:
    if workflow.secrets:
        return workflow
    return replace(
        workflow, secrets={f"ROUNDEL_SECRET_{n}": key for n, key in enumerate(keys_of(workflow), 1)}
    )


def pinned_workflow(pinned: Pinned, environment: Mapping[str, str] | None = None) -> Workflow:
    """The workflow of a run, with its secrets from the environment; StoreError if it cannot be read here."""
    if pinned.semantics != SEMANTICS:
        raise StoreError(
            f"the run follows version {pinned.semantics} of the semantics, and this version of roundel knows "
            f"{SEMANTICS}; read it with the version that wrote it"
        )
    try:
        return decode_workflow(pinned.workflow, TYPES, environment)
    except EncodingError as error:
        raise StoreError(
            f"another development version of roundel stored this run's workflow: {error}; read it with that "
            "version, or start the run again"
        ) from error


def plan_of(pinned: Pinned) -> Plan:
    """The plan of a run, to read it."""
    return compile_workflow(pinned_workflow(pinned))


def plan_to_go_on(pinned: Pinned, source: Source | None = None) -> Plan:
    """The plan of a run, to go on with it: with its secrets, and with the functions of `source`, which is the
    workflow that it was started with. StoreError if a secret is missing that a model might need."""
    folder = _folder(pinned_workflow(pinned))
    environment = {**(read_dotenv(folder / ".env") if folder else {}), **os.environ}
    lacking = [name for name in secrets_in(pinned.workflow) if name not in environment]
    if lacking and not pinned.script:
        raise StoreError(
            "secrets are not stored with a run, and the environment lacks some of this one's: set "
            f"{', '.join(lacking)}"
        )
    workflow = pinned_workflow(pinned, environment)
    if source is not None:
        given = load(source, workflow.variables, allow_paths=workflow.access.allowed).functions
        functions = {name: given.get(name) for name in workflow.functions}
        workflow = replace(workflow, functions=functions)
    return compile_workflow(workflow)


def _folder(workflow: Workflow) -> Path | None:
    return Path(workflow.file).parent if workflow.file else None


def plan_of_another(
    pinned: Pinned,
    source: Source | None,
    limits: Mapping[str, float] | None,
    allow_paths: AllowPaths = (),
) -> Plan:
    """The plan for a run like this one, but of another workflow or with other limits; WorkflowError.

    It has the variables, the limits and the memory of the run, and may read what the run may read."""
    bounds = _numbers({**pinned.limits, **(limits or {})})
    if source is None:
        return compile_workflow(limited(pinned_workflow(pinned), bounds))
    before = pinned_workflow(pinned, os.environ)
    allowed = (*before.access.allowed, *allowed_folders(allow_paths))
    loaded = load(source, before.variables, allow_paths=allowed)
    return compile_workflow(grouped(limited(loaded, bounds), before.memory.group_id))


def _numbers(limits: Mapping[str, float]) -> dict[str, float]:
    """JSON may have made 2.0 of 2, which counts nothing."""
    return {name: int(limit) if limit == int(limit) else limit for name, limit in limits.items()}
