"""`roundel serve`: the HTTP server on a store, until Ctrl-C or SIGTERM.

The first signal shuts the server down in order (server/serving.py): streams end, requests finish, calls in
flight finish or are handed back, and no status changes. A second Ctrl-C leaves at once; the runs are then as
after a crash, and the next server resumes them.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from roundel.cli import INVALID
from roundel.cli.next_step import command_line, current_step, suggest, suggest_without_store
from roundel.cli.output import echo, print_diagnostics, styled
from roundel.cli.signals import GRACE_SECONDS, interrupts
from roundel.cli.store_access import context_option, open_runs, run_to_end, store_option
from roundel.workflow.allow_list import Policy, load_policy
from roundel.workflow.diagnostics import WorkflowError
from roundel.workflow.model_profile import MODEL_VARIABLE, ModelChoiceError, choose_model

if TYPE_CHECKING:
    from roundel.server.logs import LogFormat

EXTRA = ("fastapi", "uvicorn", "starlette", "pydantic")
"""What the extra `server` brings."""


class CannotServe(click.ClickException):
    """The server cannot start as it was asked to."""

    exit_code = INVALID


@click.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Where to listen.")
@click.option(
    "--port", default=8420, show_default=True, type=click.IntRange(0, 65535), metavar="N", help="0: any."
)
@click.option(
    "--name", "names", multiple=True, metavar="NAME", help="A further name under which it is reached."
)
@store_option
@click.option(
    "--allow",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The allow-list: what workflows from the web may use.",
)
@click.option("--tls-certificate", "certificate", metavar="FILE", help="Serve with TLS: the certificate.")
@click.option("--tls-key", "key", metavar="FILE", help="The private key of the certificate.")
@click.option("--proxy-headers", is_flag=True, help="A proxy on this machine says who calls, and how.")
@click.option(
    "--max-runs",
    default=200,
    show_default=True,
    type=click.IntRange(min=1),
    metavar="N",
    help="Execute at most N runs at the same time.",
)
@click.option(
    "--max-streams",
    default=1000,
    show_default=True,
    type=click.IntRange(min=1),
    metavar="N",
    help="At most N event streams at the same time.",
)
@click.option(
    "--max-streams-per-token",
    default=100,
    show_default=True,
    type=click.IntRange(min=1),
    metavar="N",
    help="At most N event streams of one token.",
)
@click.option(
    "--max-connections",
    default=4096,
    show_default=True,
    type=click.IntRange(min=1),
    metavar="N",
    help="At most N connections at the same time.",
)
@click.option(
    "--max-connections-per-address",
    default=256,
    show_default=True,
    type=click.IntRange(min=1),
    metavar="N",
    help="At most N connections of one address, except this machine.",
)
@click.option(
    "--log-format",
    default="plain",
    show_default=True,
    type=click.Choice(["plain", "json"]),
    help="How the log is written, to standard error.",
)
@click.option(
    "--sign-in-link/--no-sign-in-link",
    default=None,
    help="Whether to print a link that signs in once; by default only on a terminal.",
)
@click.option(
    "--shutdown-seconds",
    default=10.0,
    show_default=True,
    type=click.FloatRange(0, 3600),
    metavar="N",
    help="How long calls in flight may take to finish.",
)
@context_option
@click.option("--demo", is_flag=True, help="Show runs of a demo, in memory; no key, no network.")
def serve_command(
    host: str,
    port: int,
    names: tuple[str, ...],
    place: str | None,
    allow: Path | None,
    certificate: str | None,
    key: str | None,
    proxy_headers: bool,
    max_runs: int,
    max_streams: int,
    max_streams_per_token: int,
    max_connections: int,
    max_connections_per_address: int,
    log_format: LogFormat,
    sign_in_link: bool | None,
    shutdown_seconds: float,
    context_bytes: int,
    demo: bool,
) -> None:
    """Serve the HTTP API, and execute the runs that are started with it."""
    if bool(certificate) != bool(key):
        raise click.UsageError("--tls-certificate and --tls-key belong together")
    if demo and place is not None:
        raise click.UsageError("--demo has a store of its own, in memory; leave out --store")
    _require_packages()
    from roundel.hosts.local import LocalEngine
    from roundel.journal.in_memory import InMemoryStore
    from roundel.runs.runs import Runs
    from roundel.server.context import ServerSettings
    from roundel.server.identity import token_names
    from roundel.server.logs import configure_logs
    from roundel.server.serving import REQUEST_SECONDS, BadCertificate, NotProtected, Serving, is_loopback

    suggest_without_store("serve", "--help")
    configure_logs(log_format)
    # What is not a terminal is usually a log, and any reader of a log could use the link first.
    with_code = sys.stdout.isatty() if sign_in_link is None else sign_in_link
    policy = _read_policy(allow)
    tell = _teller(log_format)
    _show_default_model(tell)
    settings = ServerSettings(
        host=host,
        port=port,
        names=names,
        policy=policy,
        max_active_runs=max_runs,
        max_streams=max_streams,
        max_streams_per_caller=max_streams_per_token,
        max_connections=max_connections,
        max_connections_per_address=max_connections_per_address,
        # Nobody waits for the results of a demo.
        shutdown_seconds=0 if demo else shutdown_seconds,
        demo=demo,
    )
    if demo and not is_loopback(host):
        raise CannotServe("the demo is for this machine alone: nobody else could sign in; leave out --host")
    interrupts.grace_seconds = shutdown_seconds + REQUEST_SECONDS + GRACE_SECONDS
    opened = Runs(InMemoryStore(), on_warnings=None) if demo else open_runs(place)

    def on_ready(url: str) -> None:
        _announce(
            url,
            tell,
            is_safe=is_loopback(host) or bool(certificate or proxy_headers),
            with_code=with_code,
            demo=demo,
        )

    async def work() -> None:
        async with opened:
            names = token_names(opened.store.documents())
            engine = LocalEngine(
                lambda: opened.store, policy=policy, token_name=names, context_bytes=context_bytes
            )
            serving = Serving(
                Runs(opened.store, engine=engine, on_warnings=None),
                settings,
                certificate=certificate,
                key=key,
                proxy_headers=proxy_headers,
            )
            try:
                with interrupts.with_action(serving.stop):
                    await serving.serve(on_ready, with_code=with_code)
            finally:
                await engine.close()

    try:
        run_to_end(work)
    except NotProtected:
        suggest("token", "create", "--role", "admin")
        raise CannotServe(
            f"{host} can be reached from other machines, and nobody has a token to sign in from there; "
            f"create one first: `{command_line('token', 'create', '--role', 'admin')}`"
        ) from None
    except BadCertificate as error:
        raise CannotServe(f"cannot use the certificate {certificate} with the key {key}: {error}") from None
    except OSError as error:
        raise CannotServe(_explain(error, host, port)) from None
    tell("the server has stopped", logging.INFO)
    _suggest_restart(demo, log_format)


def _require_packages() -> None:
    try:
        import roundel.server.serving  # noqa: F401
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRA:
            raise
        raise CannotServe(
            f"the server needs more packages ({error.name} is missing): pip install 'roundel[server]'"
        ) from None


def _read_policy(allow: Path | None) -> Policy:
    try:
        return load_policy(allow) if allow is not None else Policy()
    except WorkflowError as error:
        print_diagnostics(error.diagnostics)
        raise CannotServe("the allow-list has errors") from None


def _teller(log_format: LogFormat) -> Callable[[str, int], None]:
    """Says something to whoever started the server. In a log of JSON objects every line is one."""
    if log_format == "json":
        logger = logging.getLogger("roundel.server")
        return lambda text, level: logger.log(level, text)
    return lambda text, level: echo(styled(text, fg="yellow") if level >= logging.WARNING else text)


def _suggest_restart(demo: bool, log_format: LogFormat) -> None:
    suggest(*(("serve", "--demo") if demo else ("serve",)))
    if log_format == "json":  # the suggestion would be a line that is no JSON
        current_step().command = ""


def _show_default_model(tell: Callable[[str, int], None]) -> None:
    """Says which model agents get that name none: whoever starts a run here may use it."""
    try:
        model = choose_model()
    except ModelChoiceError as error:
        raise CannotServe(str(error)) from None
    if model:
        tell(f"agents without a model use {model} (${MODEL_VARIABLE})", logging.INFO)


def _announce(
    url: str, tell: Callable[[str, int], None], *, is_safe: bool, with_code: bool, demo: bool
) -> None:
    """Says where the server is, once it listens."""
    if not is_safe:
        tell("warning: without TLS everybody on the way can read what is sent", logging.WARNING)
    echo("open ", styled(url, bold=True), err=False)
    sign_in = "Sign in with a token, or start the server with --sign-in-link for a link that works once."
    tell("The link works once, within ten minutes." if with_code else sign_in, logging.INFO)
    what = "demo; nothing is kept" if demo else "server; its runs continue when it is started again"
    tell(f"Ctrl-C stops the {what}.", logging.INFO)


def _explain(error: OSError, host: str, port: int) -> str:
    import errno

    if error.errno == errno.EADDRINUSE:
        return f"port {port} at {host} is in use; choose another one with --port, or --port 0 for any"
    if error.errno in (errno.EACCES, errno.EPERM) and port < 1024:
        return f"port {port} is reserved for the system; choose one above 1023 with --port"
    return f"cannot listen at {host}, port {port}: {error.strerror or error}"
