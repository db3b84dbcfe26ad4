"""The output edge: everything that commands write to people and machines goes through this module.

Messages, names and error texts come from models, files and other people. What they hold must not steer the
terminal: `say`, `console` and `print_result` replace its control codes, `print_json` escapes them.

Secrets are masked before they come here, in facts, diagnostics and errors. Here they are masked once more: in
drawings of a workflow, in suggested commands that repeat `--var`, and in tracebacks.
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

from roundel.drawing.labels import escape_controls, visible
from roundel.workflow.diagnostics import Diagnostic, Report
from roundel.workflow.secrets import MASK, SecretMasker, is_secret_name

if TYPE_CHECKING:
    from rich.console import Console

_COLOURS = {"error": "red", "warning": "yellow"}


class SecretMasking:
    """The secrets that this command must not show; the group of all commands starts it anew for each."""

    def __init__(self) -> None:
        self.secrets = SecretMasker()
        self._arguments: list[str] = []

    def start(self, arguments: Sequence[str]) -> None:
        """Arguments may hold secrets: variables, and credentials in URLs."""
        self._arguments = list(arguments)
        self.set_secrets(SecretMasker())

    def set_secrets(self, secrets: SecretMasker) -> None:
        """Those of the workflow that the command is about."""
        self.secrets = secrets
        for word in self._arguments:
            name, sign, value = word.removeprefix("--var=").partition("=")
            if sign and is_secret_name(name):
                secrets.add(value)
            secrets.add_urls(word)


secret_masking = SecretMasking()


class Styled(NamedTuple):
    """Text with the style in which `say` writes it."""

    text: str
    style: dict[str, Any]


def styled(text: str, **style: Any) -> Styled:
    """`style` is that of click.style: `fg="red"`, `bold=True`."""
    return Styled(text, style)


def printable(text: str) -> str:
    """The text, on as many lines, with no secret, and nothing that steers a terminal or breaks XML."""
    return visible(secret_masking.secrets.mask(text))


def one_line(text: str, most: int = 1000) -> str:
    """The same as one line: its first characters, with single spaces."""
    return printable(" ".join(text[:most].split()))


ALLOW_PATH_WITHOUT_WORKFLOW = (
    "--allow-path is about the files of --workflow; a run keeps those that it was started with"
)
allow_option = click.option(
    "--allow-path",
    "allowed",
    multiple=True,
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    help="Let the workflow name files in this folder, and not only in its own.",
)


def print_diagnostics(diagnostics: Iterable[Diagnostic], err: bool = True) -> None:
    """Writes diagnostics, one a line with its code, and a hint below it."""
    for found in diagnostics:
        place = ":".join(str(part) for part in (found.file, found.line, found.column) if part)
        label = styled(found.severity, fg=_COLOURS[found.severity], bold=True)
        code = styled(f"[{found.code}]", dim=True)
        echo(f"{place}: " if place else "", label, f": {found.message} ", code, err=err)
        if found.hint:
            echo(styled(f"    {found.hint}", dim=True), err=err)


def echo(*parts: str | Styled, err: bool = True) -> None:
    """Writes the parts as one line, printable whatever they hold."""
    texts = (
        click.style(printable(part.text), **part.style) if isinstance(part, Styled) else printable(part)
        for part in parts
    )
    click.echo("".join(texts), err=err, color=None if "NO_COLOR" not in os.environ else False)


def print_result(text: str) -> None:
    """The result of a run on standard output: printable in a terminal, elsewhere just as it is.

    Not by click.echo, which would take out of a pipe what looks like a colour."""
    out = sys.stdout
    out.write((printable(text) if out.isatty() else secret_masking.secrets.mask(text)) + "\n")
    out.flush()


def pluralize(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def dollars(amount: float) -> str:
    """`$1.50`, `$0.12`, `$0.0042`: small sums are told as exactly as they need."""
    if 0 < amount < 0.0001:
        return "under $0.0001"
    return f"${amount:,.4f}" if 0 < amount < 0.01 else f"${amount:,.2f}"


def print_json(value: Any) -> None:
    """One line of JSON on standard output, at once. What JSON need not escape, but a terminal obeys (C1 and
    the like), is escaped, too: it stands in strings only."""
    out = sys.stdout.buffer
    line = _encode_masked(value).decode()
    out.write(escape_controls(line).encode() + b"\n")
    out.flush()


_NEVER_MASKED = frozenset({"address", "event", "node_id", "run_id", "timestamp"})


def _encode_masked(value: Any) -> bytes:
    line = msgspec.json.encode(value, enc_hook=repr)
    secrets = secret_masking.secrets
    if not secrets.found_in(line):
        return line
    return msgspec.json.encode(
        secrets.mask_value(value, _NEVER_MASKED), enc_hook=lambda other: secrets.mask(repr(other))
    )


def print_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """For an error that nobody has foreseen, in place of Python's own hook."""
    sys.stderr.write(secret_masking.secrets.mask("".join(traceback.format_exception(kind, error, trace))))


def console(stderr: bool = True) -> Console:
    from roundel.cli.console import SafeConsole

    return SafeConsole(stderr=stderr)


def parse_assignments(pairs: Iterable[str], option: str) -> Mapping[str, str]:
    """`NAME=VALUE` options as a mapping."""
    values = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            shown = MASK if is_secret_name(pair) else pair  # such as API_TOKEN:VALUE
            raise click.UsageError(f"{option} takes NAME=VALUE, not '{shown}'")
        values[name] = value
    return values


def parse_variables(pairs: Iterable[str]) -> dict[str, Any]:
    """`--var` options; a value is read as YAML, so that `3` is a number."""
    from roundel.workflow.document import read_text

    read = {}
    for name, text in parse_assignments(pairs, "--var").items():
        found = read_text(text, Report())
        scalar = found is not None and not isinstance(found.value, (dict, list))
        read[name] = found.value if found is not None and scalar else text
    return read
