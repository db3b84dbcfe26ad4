"""Secrets that a text contains itself, in place of references to them.

A server stores each version of a text, and shows it to all who may read workflows. A key that was written
into a text would stay there after it was noticed, so a server does not save such a text. Only the places
count that say of themselves that they are secret: `api_key`, headers, variables by their names or by
`secret: true`, variables that one of these refers to, and URLs with a password. What looks like a key in a
prompt is not searched for (secrets.py says why).

The text is read as it is, without variables, since a reference is what it should have. A text with errors is
searched as well, since drafts are saved, too; one that cannot be parsed is searched line by line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from roundel.workflow.diagnostics import Diagnostic, Report
from roundel.workflow.document import Located, read_text
from roundel.workflow.secrets import MIN_SECRET_LENGTH, find_url_secrets

_KEYS: Final = ("api_key", "apikey")
"""Names of keys, in lower case and with `_` for `-`: a draft may have a misspelt one."""
_HEADERS: Final = ("headers", "extra_headers")
_CREDENTIALS: Final = frozenset({"authorization", "proxy-authorization", "cookie"})
"""Headers of which every value is secret, as of those whose names say so."""
_VARIABLES: Final = ("vars", "env")
_SCHEMAS: Final = ("output_schema", "schema", "json_schema")
"""Keys of JSON Schemas, in which names are those of properties."""
_PLAIN_HEADERS: Final = frozenset(
    (
        *("accept", "accept-encoding", "accept-language", "anthropic-beta", "anthropic-version"),
        *("cache-control", "content-type", "http-referer", "openai-beta", "origin", "referer"),
        *("user-agent", "x-title"),
    )
)
_SCHEMES: Final = ("negotiate", "aws4-hmac-sha256")
_SECRET_WORDS: Final = frozenset({"key", "apikey", "token", "secret", "password"})
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_REFERENCE: Final = re.compile(r"(?<!\$)\$\{((?!\d)\w+)\}")
"""As in variables.py. `${KEY:-abc}` is none, and contains what another tool would take for a default."""
_ENTRY: Final = re.compile(
    r"""([A-Za-z_][\w-]{0,99})["']?[ \t]*:[ \t]*["']?([^\s"',{}\[\]#&*|>][^\s"',}\]]*)"""
)
"""A key and the beginning of its value, in JSON or YAML. `${` does not begin with a brace."""
_AUTHORIZATION: Final = re.compile(
    r"""(Authorization)["']?[ \t]*:[ \t]*["']?((?:Bearer|Basic|Token)[ \t]+[^\s"'${}]{8,100})""",
    re.IGNORECASE,
)
_HINT: Final = (
    "write ${NAME} and set the variable in the environment, or let the operator list the model with its key"
)


def is_secret_word(name: str) -> bool:
    """Whether a name has KEY, TOKEN, SECRET or PASSWORD as a word: `DB_PASSWORD`, `apiKey`, and neither
    `MAX_TOKENS` nor `KEYWORDS`. Narrower than `is_secret_name`, which only decides what is masked."""
    return any(word.lower() in _SECRET_WORDS for word in _WORD.findall(name))


def find_written_secrets(text: str, name: str = "<text>") -> list[Diagnostic]:
    """An error for each secret in a text. No error quotes one."""
    report = Report(name)
    root = read_text(text, Report(name))
    for what, at in _scan_lines(text) if root is None else _scan(root):
        report.error("written-secret", f"{what} is written out, and versions of a text are kept", at, _HINT)
    return report.diagnostics


def _scan(root: Located) -> Iterator[tuple[str, Located]]:
    """The secrets of a document, each with what it is. Each value is visited once: aliases repeat them."""
    pending, seen = [root], set[int]()
    found: dict[int, _Place] = {}
    variables: dict[str, Located] = {}
    referred: set[str] = set()
    while pending:
        at = pending.pop()
        if id(at) in seen:
            continue
        seen.add(id(at))
        value = at.value
        if isinstance(value, str):
            if any(secret.values and _is_literal(secret.values[0]) for secret in find_url_secrets(value)):
                found.setdefault(id(at), _Place("the password of a URL", at))
        elif isinstance(value, list):
            pending += value
        elif isinstance(value, dict):
            for key, item in value.items():
                if key in _VARIABLES and isinstance(item.value, dict):
                    variables |= item.value
                for place in _scan_entry(key, item):
                    referred |= place.references
                    if place.has_secret:
                        found.setdefault(id(place.at), place)
            pending += (item for key, item in value.items() if key not in _SCHEMAS)
    for place in _scan_referred(variables, referred):
        found.setdefault(id(place.at), place)
    for place in sorted(found.values(), key=lambda one: (one.at.line, one.at.column)):
        yield place.what, place.at


class _Place(Struct, frozen=True):
    """A value in a place for secrets."""

    what: str
    at: Located
    is_credential: bool = True
    """It is a secret in any case. Otherwise it may be: `X-Team: red`."""

    @property
    def has_secret(self) -> bool:
        return _is_literal(self.at.value) if self.is_credential else _has_long_word(self.at.value)

    @property
    def references(self) -> set[str]:
        """The variables that are secret because they are used here."""
        return set(_REFERENCE.findall(str(self.at.value))) if self.is_credential else set()


def _scan_entry(key: str, at: Located) -> Iterator[_Place]:
    value = at.value
    if key.lower().replace("-", "_") in _KEYS:
        # As a variable, it may have the form `{value: …}`. Any other mapping is a description of a field.
        inner = value.get("value") if isinstance(value, dict) else at
        yield from (_Place(f"'{key:.100}'", one) for one in ([] if inner is None else _scalars(inner)))
    elif not isinstance(value, dict):
        return
    elif key in _HEADERS:
        for name, held in value.items():
            if name.lower() not in _PLAIN_HEADERS:
                is_credential = name.lower() in _CREDENTIALS or is_secret_word(name)
                yield _Place(f"the header '{name:.100}'", held, is_credential)
    elif key in _VARIABLES:
        for name, held in value.items():
            yield from _scan_variable(name, held)


def _scan_variable(name: str, at: Located) -> Iterator[_Place]:
    value = at.value
    mark = value.get("secret") if isinstance(value, dict) else None
    if isinstance(value, dict) and mark is not None and mark.value not in (False, None):
        if "value" in value:
            yield from (_Place(f"the secret variable '{name:.100}'", one) for one in _scalars(value["value"]))
        return
    pending, seen = [(at, is_secret_word(name))], set[int]()
    while pending:
        one, is_secret = pending.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one.value, dict):
            pending += ((item, is_secret or is_secret_word(key)) for key, item in one.value.items())
        elif isinstance(one.value, list):
            pending += ((item, is_secret) for item in one.value)
        elif is_secret and isinstance(one.value, str):
            yield _Place(f"the variable '{name:.100}'", one)


def _scan_referred(variables: dict[str, Located], names: set[str]) -> Iterator[_Place]:
    """The secrets in variables of these names, and in those that they refer to."""
    pending, known = sorted(names), set(names)
    for name in pending:  # grows
        for one in _scalars(variables[name]) if name in variables else ():
            place = _Place(f"the variable '{name:.100}'", one)
            if place.has_secret:
                yield place
            pending += sorted(place.references - known)
            known |= place.references


def _scalars(at: Located) -> Iterator[Located]:
    pending, seen = [at], set[int]()
    while pending:
        one = pending.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one.value, dict):
            pending += one.value.values()
        elif isinstance(one.value, list):
            pending += one.value
        else:
            yield one


def _scan_lines(text: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """The same for a text that cannot be parsed, as far as names and values stand on one line."""
    for number, line in enumerate(text.splitlines(), 1):
        for found in _ENTRY.finditer(line):
            name, value = found.groups()
            # A word alone may be part of a sentence: `The key: patience`.
            named = name.lower() in _KEYS or (is_secret_word(name) and name.lower() not in _SECRET_WORDS)
            if named and "${" not in value:
                yield f"'{name}'", (number, found.start(2) + 1)
        for found in _AUTHORIZATION.finditer(line):
            yield f"the header '{found[1]}'", (number, found.start(2) + 1)


def _is_literal(value: object) -> bool:
    """Whether a value is more than references. A few characters beside one are not the secret: `Bearer`."""
    if value is None or isinstance(value, (bool, dict, list)):
        return False
    text = str(value)
    return _has_long_word(text) if _REFERENCE.search(text) else bool(text.strip())


def _has_long_word(value: object) -> bool:
    """Whether a value has a word besides references that may be a secret."""
    text = _REFERENCE.sub(" ", value) if isinstance(value, str) else ""
    return any(len(word) >= MIN_SECRET_LENGTH and word.lower() not in _SCHEMES for word in text.split())
