"""Arguments that several commands take, and how a shell completes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class WorkflowFile(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.5
    """The path of a workflow or a script; completed to files that may be one, and to folders on the way."""

    name = "file"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from roundel.cli.completion import files

        return files(incomplete)


class RunName(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.5
    """The name of a run; completed to the ids of the newest runs of the store."""

    name = "run"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from roundel.cli.completion import runs

        return runs(incomplete, ctx.params.get("place"))


file_argument = click.argument("file", type=WorkflowFile())
run_argument = click.argument("run", type=RunName())
