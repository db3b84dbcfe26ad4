"""Secrets that a text contains itself, in place of references to them.

A server stores each version of a text, and shows it to all who may read workflows. A key that was written
into a text would stay there after it was noticed, so a server does not save such a text. Only the places
count that say of themselves that they are secret: `api_key`, headers, variables by their names or by
`secret: true`, and URLs with a password. What looks like a key in a prompt is not searched for (secrets.py
says why).

The text is read as it is, without variables, since a reference is what it should have. A text with errors is
searched as well, since drafts are saved, too; one that cannot be parsed is searched line by line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from roundel.workflow.diagnostics import Diagnostic, Report
from roundel.workflow.document import Located, read_text
from roundel.workflow.secrets import MIN_SECRET_LENGTH, find_url_secrets

_KEYS: Final = ("api_key", "apiKey")
_HEADERS: Final = ("headers", "extra_headers")
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
_REFERENCE: Final = re.compile(r"\$\{[^{}]*\}")
_ENTRY: Final = re.compile(
    r"""([A-Za-z_][\w-]{0,99})["']?[ \t]*:[ \t]*["']?([^\s"',{}\[\]#&*|>][^\s"',}\]]*)"""
)
"""A key and the beginning of its value, in JSON or YAML. `${` does not begin with a brace."""
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
    while pending:
        at = pending.pop()
        if id(at) in seen:
            continue
        seen.add(id(at))
        value = at.value
        if isinstance(value, str):
            if any(secret.values and _is_literal(secret.values[0]) for secret in find_url_secrets(value)):
                yield "the password of a URL", at
        elif isinstance(value, list):
            pending += value
        elif isinstance(value, dict):
            for key, item in value.items():
                yield from _scan_entry(key, item)
            pending += (item for key, item in value.items() if key not in _SCHEMAS)


def _scan_entry(key: str, at: Located) -> Iterator[tuple[str, Located]]:
    if key in _KEYS:
        if _is_literal(at.value):
            yield f"'{key}'", at
    elif key in _HEADERS and isinstance(at.value, dict):
        for name, held in at.value.items():
            if name.lower() not in _PLAIN_HEADERS and _has_long_word(held.value):
                yield f"the header '{name:.100}'", held
    elif key in _VARIABLES and isinstance(at.value, dict):
        for name, held in at.value.items():
            yield from _scan_variable(name, held)


def _scan_variable(name: str, at: Located) -> Iterator[tuple[str, Located]]:
    value = at.value
    marked = isinstance(value, dict) and "secret" in value and value["secret"].value is True
    held = value.get("value", at) if isinstance(value, dict) else at
    if marked and _is_literal(held.value):
        yield f"the secret variable '{name:.100}'", held
    elif (
        name not in _KEYS and is_secret_word(name) and isinstance(held.value, str) and _is_literal(held.value)
    ):
        yield f"the variable '{name:.100}'", held


def _scan_lines(text: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """The same for a text that cannot be parsed, as far as names and values stand on one line."""
    for number, line in enumerate(text.splitlines(), 1):
        for found in _ENTRY.finditer(line):
            name, value = found.groups()
            # A word alone may be part of a sentence: `The key: patience`.
            named = name in _KEYS or (is_secret_word(name) and name.lower() not in _SECRET_WORDS)
            if named and "${" not in value:
                yield f"'{name}'", (number, found.start(2) + 1)


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
