"""`roundel schema`: the JSON Schema of workflow files, or the description of all their fields."""

from __future__ import annotations

import json

import click

from roundel.cli.next_step import suggest_plainly
from roundel.cli.output import say
from roundel.nodes import TYPES


@click.command("schema")
@click.option(
    "--fields",
    is_flag=True,
    help="Print the title, text, widget and default of every field, for forms, in place of the schema.",
)
@click.option(
    "--lang",
    type=click.Choice(["en", "zh"]),
    help="With --fields: the texts in one language alone, not both.",
)
def schema_command(fields: bool, lang: str | None) -> None:
    """Print the JSON Schema of workflow files, for editors."""
    if lang and not fields:
        raise click.UsageError("--lang chooses the language of --fields; give both, or leave it out")
    suggest_plainly("check", "--help")
    say(json.dumps(_fields(lang) if fields else _schema(), indent=2, ensure_ascii=False), err=False)


def _schema() -> object:
    from roundel.workflow.schema import workflow_schema

    return workflow_schema(TYPES)


def _fields(lang: str | None) -> object:
    from roundel.workflow.catalog import describe, in_language

    described = describe(TYPES)
    return in_language(described, "zh" if lang == "zh" else "en") if lang else described
