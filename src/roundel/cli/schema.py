"""`roundel schema`: the JSON Schema of workflow files."""

from __future__ import annotations

import json

import click

from roundel.cli.next_step import suggest_plainly
from roundel.cli.output import say
from roundel.nodes import TYPES
from roundel.workflow.schema import workflow_schema


@click.command("schema")
def command() -> None:
    """Print the JSON Schema of workflow files, for editors."""
    suggest_plainly("check", "--help")
    say(json.dumps(workflow_schema(TYPES), indent=2, ensure_ascii=False), err=False)
