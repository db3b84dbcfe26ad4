"""`roundel token`: creates, lists and revokes the tokens with which programs and people use a server.

It works on the store, so that it needs neither a server that runs nor the packages of one. A server that runs
on the same store notices at once.
"""

from __future__ import annotations

import re
import time
from typing import Any

import click

from roundel.cli.next_step import suggest
from roundel.cli.output import echo, print_json, styled
from roundel.cli.store_access import NotFound, store_option, with_runs
from roundel.kernel.events import stamp
from roundel.runs.runs import Runs
from roundel.server.identity import ROLES, Identities, IssuedToken, Role, TokenRecord

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
MAX_SECONDS = 10 * 366 * 86400.0
PAGE = 200
BY = "command line"
"""Who has created or revoked a token, for the audit log."""


@click.group("token")
def token_command() -> None:
    """Create, list and revoke the tokens of a server."""


def _parse_duration(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | None:
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,9})([smhdw])", text)
    seconds = int(found[1]) * _UNITS[found[2]] if found is not None else 0
    if not 0 < seconds <= MAX_SECONDS:
        raise click.BadParameter("give a time such as 30d, 12h or 45m, of at most ten years")
    return float(seconds)


@token_command.command("create")
@click.option("--role", required=True, type=click.Choice(ROLES), help="What it may do.")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="A group that it sees; without: all.")
@click.option("--name", default="", metavar="TEXT", help="Whose it is; for lists and the audit log.")
@click.option(
    "--expires", "seconds", metavar="TIME", callback=_parse_duration, help="For how long: 30d, 12h, 45m."
)
@store_option
def create(role: Role, groups: tuple[str, ...], name: str, seconds: float | None, place: str | None) -> None:
    """Create a token and print it. It is shown once: the store has only a digest."""

    async def work(runs: Runs) -> IssuedToken:
        documents = runs.store.documents()
        expires = None if seconds is None else time.time() + seconds
        entry = {"time": time.time(), "who": None, "action": "token.create", "subject": name or role}
        await documents.append("audit", {**entry, "role": role, "groups": groups or None, "by": BY})
        identities = Identities(documents)
        return await identities.create_token(name or role, role, groups or None, expires, BY)

    issued = with_runs(place, work, creates=True)
    suggest("token", "list")
    echo(f"token {issued.id} for the header `Authorization: Bearer TOKEN`; it is not shown again:")
    echo(issued.secret, err=False)


@token_command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print each token as a line of JSON.")
@store_option
def list_tokens(as_json: bool, place: str | None) -> None:
    """List the tokens that are valid, without their secrets."""

    async def work(runs: Runs) -> list[tuple[str, TokenRecord]]:
        identities = Identities(runs.store.documents())
        found: list[tuple[str, TokenRecord]] = []
        while page := await identities.tokens(after=found[-1][0] if found else "", limit=PAGE):
            found += page
        return found

    tokens = with_runs(place, work)
    suggest("token", "create", "--help")
    for key, record in tokens:
        if as_json:
            print_json(_as_data(key, record))
            continue
        groups = "all groups" if record.groups is None else ", ".join(record.groups)
        until = "" if record.expires is None else f"  until {stamp(record.expires)[:16]}"
        parts = (styled(key, bold=True), f"  {record.role}  {groups}  {record.name}", styled(until, dim=True))
        echo(*parts, err=False)
    if not tokens:
        echo("there are no tokens")


def _as_data(key: str, record: TokenRecord) -> dict[str, Any]:
    return {
        "id": key,
        "name": record.name,
        "role": record.role,
        "groups": None if record.groups is None else list(record.groups),
        "created": stamp(record.created),
        "expires": None if record.expires is None else stamp(record.expires),
        "created_by": record.created_by,
    }


@token_command.command("revoke")
@click.argument("token", metavar="ID")
@store_option
def revoke(token: str, place: str | None) -> None:
    """Revoke a token and the tokens made with it. Their sessions in browsers end as well."""

    async def work(runs: Runs) -> bool:
        documents = runs.store.documents()

        async def note(key: str, record: TokenRecord) -> None:
            entry = {"time": time.time(), "who": None, "action": "token.revoke", "subject": key, "by": BY}
            made_with = {"made_with": token} if key != token else {}
            groups = None if record.groups is None else list(record.groups)
            await documents.append("audit", {**entry, "groups": groups, **made_with})
            revoked.append(key)

        return await Identities(documents).revoke(token, note)

    revoked: list[str] = []
    found = with_runs(place, work)
    suggest("token", "list")
    if not found:
        raise NotFound(f"there is no token '{token}'; `roundel token list` lists them by id")
    for key in revoked:
        echo(f"revoked token {key}" if key == token else f"revoked token {key}, which was made with {token}")
