"""`roundel new`: writes a starter workflow that runs at once, with a script that replaces the models."""

from __future__ import annotations

from pathlib import Path

import click

from roundel.cli.next_step import suggest_without_store
from roundel.cli.output import echo

WORKFLOW = """\
# A writer and a reviewer iterate until the reviewer accepts, for three rounds at most.
# Run it offline: roundel run {name}.yaml --script {name}.script.yaml --input "a short text about tea"
version: 0.1.0
graph:
  id: {name}
  start: Writer
  end: Final
  nodes:
    - id: Writer
      type: agent
      config:
        provider: openai
        name: gpt-4o
        role: Write a short text. Revise it after each criticism.
    - id: Reviewer
      type: agent
      config:
        provider: openai
        name: gpt-4o
        role: Criticise the text in one sentence, or begin with ACCEPT.
    - id: Loop Guard # emits nothing twice; the third time it emits a message, which ends the loop
      type: loop_counter
      config: {{max_iterations: 3}}
    - id: Final
      type: passthrough
  edges:
    - {{from: Writer, to: Reviewer}}
    - {{from: Writer, to: Final, trigger: false, clear_context: true}} # the newest draft, for later
    - from: Reviewer
      to: Final
      carry_data: false
      condition: {{type: keyword, config: {{begins: [ACCEPT]}}}}
    - from: Reviewer
      to: Writer
      condition: {{type: keyword, config: {{begins: [ACCEPT], negate: true}}}}
    - from: Reviewer
      to: Loop Guard
      condition: {{type: keyword, config: {{begins: [ACCEPT], negate: true}}}}
    - {{from: Loop Guard, to: Writer}}
    - {{from: Loop Guard, to: Final, carry_data: false}}
"""

SCRIPT = """\
# The replies of each node, in order; the last one repeats.
Writer:
  - Tea is a drink.
  - Tea is a drink that has travelled further than most people.
Reviewer:
  - Too plain. Give the reader a picture.
  - ACCEPT
"""


@click.command("new")
@click.argument("name")
def new_command(name: str) -> None:
    """Write a starter workflow, NAME.yaml, and a script to run it with offline."""
    name = name.removesuffix(".yaml").removesuffix(".yml")
    stem = Path(name).name
    if not stem:
        raise click.UsageError("the name is empty")
    files = {Path(f"{name}.yaml"): WORKFLOW.format(name=stem), Path(f"{name}.script.yaml"): SCRIPT}
    # Both are checked before either is written, so that a refused command changes nothing.
    for path in files:
        if path.exists():
            raise click.UsageError(f"{path} already exists; choose another name")
    try:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"cannot write: {error}") from None
    echo(f"wrote {' and '.join(map(str, files))}")
    suggest_without_store(
        "run", f"{name}.yaml", "--script", f"{name}.script.yaml", "--input", "a short text about tea"
    )
