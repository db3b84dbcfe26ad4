"""How a command ends when its workflow cannot be used."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

from roundel.cli import INVALID
from roundel.cli.output import tell
from roundel.workflow.diagnostics import WorkflowError

Made = TypeVar("Made")


def or_exit(make: Callable[[], Made]) -> Made:
    try:
        return make()
    except WorkflowError as error:
        tell(error.diagnostics)
        sys.exit(INVALID)
