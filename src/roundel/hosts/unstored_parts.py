"""What a run needs to be executed, and a store does not contain: the code of functions that were given in
Python, and secrets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from roundel.nodes.loading import Source
from roundel.plan.graph import Plan
from roundel.workflow.encoding import missing_secret
from roundel.workflow.graph import Workflow


class UnstoredParts(Struct, frozen=True):
    """The parts of one run, as the process knows them that has executed it."""

    functions: Mapping[str, Callable[..., Any]] = {}
    """Functions that were given in Python, by name."""
    secrets: Mapping[str, str] = {}
    """By name. The environment wins over them: a key may have been changed there."""
    given: Mapping[str, str] = {}
    """Secrets that were given as variables of the run. As at its start, they win over the environment."""

    def complete(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The values of secrets: those of an environment, and those that are known besides."""
        return {**self.secrets, **environment, **self.given}


NO_PARTS = UnstoredParts()


def unstored_parts(workflow: Workflow, given: Mapping[str, str]) -> UnstoredParts:
    """The parts of a workflow that is about to be executed, with the secrets that were given for this run."""
    functions = {name: code for name, code in workflow.functions.items() if code is not None}
    return UnstoredParts(functions, _known_secrets(workflow), given)


def given_secrets(source: Source | None) -> dict[str, str]:
    """The secrets that were given as variables when a workflow was loaded. Of a source that is not loaded
    yet, none are known."""
    workflow = source.workflow if isinstance(source, Plan) else source
    if not isinstance(workflow, Workflow):
        return {}
    return {name: value for name, value in _known_secrets(workflow).items() if name in workflow.variables}


def _known_secrets(workflow: Workflow) -> dict[str, str]:
    """Without those that were missing when the workflow was decoded."""
    return {name: value for name, value in workflow.secrets.items() if value != missing_secret(name)}
