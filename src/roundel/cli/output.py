"""The output edge: everything that commands write to people and machines goes through this module.

Messages, names and error texts come from models, files and other people. They must not control the
terminal: an escape sequence can rename a window, hide a line or fake a prompt. `echo`, `console` and
`print_result` replace control codes, `print_json` escapes them. This happens at the edge and not where
texts are made, so that a new text cannot be forgotten, and so that events and stored data keep every
character.

Secrets are masked earlier, in facts, diagnostics and errors (docs/decisions/0020-secrets.md). They are
masked once more here, for texts that do not pass through facts: drawings of a workflow, suggested
commands that repeat `--var`, and tracebacks.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from roundel.cli.standard_output import standard_output
from roundel.drawing.text import escape_controls, visible
from roundel.workflow.diagnostics import Diagnostic, Report
from roundel.workflow.secrets import MASK, SecretMasker, is_secret_name

if TYPE_CHECKING:
    from rich.console import Console

_COLOURS = {"error": "red", "warning": "yellow"}


class SecretMasking:
    """The secrets that the current command must not show.

    One instance per process, `secret_masking`; `Commands.main` resets it for each command, and each
    command adds the secrets of its workflow as soon as it has read it.
    """

    def __init__(self) -> None:
        self.secrets = SecretMasker()
        self._arguments: list[str] = []

    def start(self, arguments: Sequence[str]) -> None:
        """Starts a command; its arguments may contain secrets: variables, and credentials in URLs."""
        self._arguments = list(arguments)
        self.set_secrets(SecretMasker())

    def set_secrets(self, secrets: SecretMasker) -> None:
        """Uses the secrets of a workflow, and adds those of the arguments, which a new masker does not
        know."""
        self.secrets = secrets
        for word in self._arguments:
            name, sign, value = word.removeprefix("--var=").partition("=")
            if sign and is_secret_name(name):
                secrets.add(value)
            secrets.add_urls(word)


secret_masking = SecretMasking()


class Styled(NamedTuple):
    """Text with a style for `echo`; `styled` creates it."""

    text: str
    style: dict[str, Any]


def styled(text: str, **style: Any) -> Styled:
    """Text for `echo` with the arguments of `click.style`: `fg="red"`, `bold=True`.

    The style is applied after the text was made printable, so that only our own codes reach the
    terminal.
    """
    return Styled(text, style)


def printable(text: str) -> str:
    """The text without secrets, and without characters that control a terminal or are invalid in XML.

    It has as many lines as before.
    """
    return visible(secret_masking.secrets.mask(text))


def one_line(text: str, most: int = 1000) -> str:
    """The first characters of a text as one printable line, with single spaces."""
    return printable(" ".join(text[:most].split()))


ALLOW_PATH_WITHOUT_WORKFLOW = (
    "--allow-path applies to the files of --workflow, which is missing; "
    "without it, the run uses the files that it was started with"
)
allow_option = click.option(
    "--allow-path",
    "allowed",
    multiple=True,
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    help="Allow the workflow to name files in this folder, in addition to its own folder.",
)


def print_diagnostics(diagnostics: Iterable[Diagnostic], err: bool = True) -> None:
    """Writes each diagnostic as a line with its code, and its hint below."""
    for found in diagnostics:
        place = ":".join(str(part) for part in (found.file, found.line, found.column) if part)
        label = styled(found.severity, fg=_COLOURS[found.severity], bold=True)
        code = styled(f"[{found.code}]", dim=True)
        echo(f"{place}: " if place else "", label, f": {found.message} ", code, err=err)
        if found.hint:
            echo(styled(f"    {found.hint}", dim=True), err=err)


def print_warnings(found: Iterable[Diagnostic]) -> None:
    """Writes the warnings about a workflow or a script. Those of a run are among its events, which are shown
    as they happen."""
    print_diagnostics(one for one in found if one.code != "run-warning")


def echo(*parts: str | Styled, err: bool = True) -> None:
    """Writes the parts as one line, whatever characters they contain; to standard error unless `err` is
    false."""
    texts = (
        click.style(printable(part.text), **part.style) if isinstance(part, Styled) else printable(part)
        for part in parts
    )
    colour = None if "NO_COLOR" not in os.environ else False
    click.echo("".join(texts), None if err else standard_output(), err=err, color=colour)


def print_result(text: str) -> None:
    """Writes the result of a run to standard output: printable in a terminal, unchanged elsewhere.

    Not with click.echo, which removes everything that looks like a colour code if the output is a pipe.
    """
    out = standard_output()
    out.write((printable(text) if out.isatty() else secret_masking.secrets.mask(text)) + "\n")
    out.flush()


def pluralize(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def dollars(amount: float) -> str:
    """`$1.50`, `$0.12`, `$0.0042`: small amounts have more digits, so that none appears as zero."""
    if 0 < amount < 0.0001:
        return "under $0.0001"
    return f"${amount:,.4f}" if 0 < amount < 0.01 else f"${amount:,.2f}"


def print_json(value: Any) -> None:
    """Writes one line of JSON to standard output, and flushes it, so that a reader can follow a run.

    JSON need not escape C1 control codes, but a terminal obeys them, so they are escaped as well. They
    occur only inside strings, where an escape is always valid.
    """
    out = standard_output().buffer
    line = _encode_masked(value).decode()
    out.write(escape_controls(line).encode() + b"\n")
    out.flush()


_NEVER_MASKED = frozenset({"address", "event", "node_id", "run_id", "timestamp"})
"""Keys that programs join on; a secret that happens to be part of a node id must not change them."""


def _encode_masked(value: Any) -> bytes:
    line = msgspec.json.encode(value, enc_hook=repr)
    secrets = secret_masking.secrets
    # A search of the encoded line is much cheaper than a walk through the value, and secrets are rare.
    if not secrets.found_in(line):
        return line
    return msgspec.json.encode(
        secrets.mask_value(value, _NEVER_MASKED), enc_hook=lambda other: secrets.mask(repr(other))
    )


def print_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Prints an unexpected error without secrets; `main` installs it as `sys.excepthook`."""
    sys.stderr.write(secret_masking.secrets.mask("".join(traceback.format_exception(kind, error, trace))))


def console(stderr: bool = True) -> Console:
    from roundel.cli.console import SafeConsole

    return SafeConsole(stderr=True) if stderr else SafeConsole(file=standard_output())


def parse_assignments(pairs: Iterable[str], option: str) -> Mapping[str, str]:
    """`NAME=VALUE` options as a mapping; of several with one name the last applies."""
    values = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            shown = MASK if is_secret_name(pair) else pair  # such as API_TOKEN:VALUE
            raise click.UsageError(f"{option} takes NAME=VALUE, not '{shown}'")
        values[name] = value
    return values


def parse_variables(pairs: Iterable[str]) -> dict[str, Any]:
    """`--var` options; values are read as YAML scalars, as in the file, so that `3` is a number.

    A value that is not a scalar, such as `[a]`, stays text: variables are scalars.
    """
    from roundel.workflow.document import read_text

    read = {}
    for name, text in parse_assignments(pairs, "--var").items():
        found = read_text(text, Report())
        scalar = found is not None and not isinstance(found.value, (dict, list))
        read[name] = found.value if found is not None and scalar else text
    return read
