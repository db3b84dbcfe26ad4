"""Secrets: which values are secret, and the masker that keeps them out of everything stored or shown.

These values are secret: those of `api_key`, `headers` and `env`, credentials in URLs, and variables whose
name says so (`is_secret_name`) or that are marked `secret: true`. secret_finder.py collects those of a
workflow. The secrets of the environment belong to every run: tools and client libraries see them, whether or
not the workflow refers to them.

The masker replaces a value by `***` wherever it stands in a text: as it is, escaped in JSON or by Python's
`repr`, quoted in a URL, or as the base64 of HTTP Basic authentication. It searches only for values of at
least `MIN_SECRET_LENGTH` characters. A shorter one would be found in ordinary words, so it is hidden only in
its own field.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote, quote_plus, unquote, urlsplit

import msgspec
from msgspec import Struct

MASK: Final = "***"
MIN_SECRET_LENGTH: Final = 8
"""Characters that a value needs to be searched for in text."""
MIN_USER_TOKEN_LENGTH: Final = 16
"""A URL may hold a token in the place of a user (`https://TOKEN@host`); a shorter one is a user's name."""

_SECRET_NAME = re.compile("KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s\"'<>`]+")
_NO_PASSWORD: Final = ("", "x-oauth-basic")
_IDENTIFIER = re.compile("[a-z][a-z_]*")
_PROTECTED_WORDS: Final = (
    *("answered", "assistant", "completed", "continue", "input_tokens", "max_duration_reached"),
    *("max_iterations_reached", "output_tokens", "rejected", "repeated", "suspended_locked", "tool_calls"),
    *("tool_limit", "token_usage"),
)
"""Words of the engine's own format that a fact may hold. To mask one would break the run: an MCP server may
have `ROLE: assistant` in its `env`."""


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name is secret."""
    return _SECRET_NAME.search(name) is not None


class SecretMasker:
    """The masker of one run, or of one command: knows secret values, and takes them out of text and data.

    `names` are those of nodes, tools and models: they are shown everywhere, and a run needs them, so a value
    that is part of one is not searched for."""

    def __init__(self, values: Iterable[str] = (), *, names: Iterable[str] = ()) -> None:
        self.known = False
        """Whether there are any secrets at all; a plain attribute, since it is read with every fact."""
        self._values: dict[str, None] = {}
        self._urls: dict[str, str] = {}
        """Parts of URLs that hold a credential, however short, and what is shown instead."""
        self._names = tuple(names)
        self._needles: tuple[tuple[str, str], ...] | None = None
        """What is searched for and what is shown instead, the longest first; None until it is needed."""
        self._json_needles: tuple[bytes, ...] = ()
        """The same as it stands in JSON."""
        self.add(*values)

    def add(self, *values: str | None) -> None:
        for value in values:
            if value and value not in self._values:
                self._values[value] = None
                self._needles = None
                self.known = True

    def add_header(self, value: str) -> None:
        """The value of a header: `Bearer KEY` hides KEY alone as well."""
        self.add(value, *find_header_secrets(value))

    def add_urls(self, text: str) -> None:
        """The credentials of all URLs in a text."""
        for secret in find_url_secrets(text):
            self.add(*secret.values)
            self._urls[secret.place] = secret.shown
            self._needles = None
            self.known = True

    def __bool__(self) -> bool:
        return bool(self._get_needles())

    def mask(self, text: str) -> str:
        """The text without secrets; the same object if it holds none."""
        found = [pair for pair in self._get_needles() if pair[0] in text]
        if len(found) == 1:
            return text.replace(*found[0])
        return _replace_all(text, found) if found else text

    def mask_value(self, value: Any, keep: frozenset[str] = frozenset()) -> Any:
        """Structs, mappings, lists and texts without secrets; the same object if there are none.

        `keep` names the fields of structs that are left as they are."""
        if isinstance(value, str):
            return self.mask(value)
        if isinstance(value, Struct):
            return self._mask_struct(value, keep)
        if isinstance(value, dict):
            return self._mask_mapping(value, keep)
        if isinstance(value, (list, tuple)):
            made = [self.mask_value(item, keep) for item in value]
            changed = any(new is not old for new, old in zip(made, value, strict=True))
            return type(value)(made) if changed else value
        if isinstance(value, int) and not isinstance(value, bool):
            return (
                MASK if len(text := str(value)) >= MIN_SECRET_LENGTH and text in self._all_values() else value
            )
        return value

    def _mask_struct(self, value: Struct, keep: frozenset[str]) -> Struct:
        changes = {}
        for name in value.__struct_fields__:
            inner = getattr(value, name)
            # Numbers of a struct count something; only those in free data may be a secret.
            if name not in keep and not isinstance(inner, (int, float)):
                made = self.mask_value(inner, keep)
                if made is not inner:
                    changes[name] = made
        return msgspec.structs.replace(value, **changes) if changes else value

    def _mask_mapping(self, value: dict[Any, Any], keep: frozenset[str]) -> dict[Any, Any]:
        made = {self._mask_key(key): self.mask_value(item, keep) for key, item in value.items()}
        same = len(made) == len(value) and all(
            new is old and made[new] is value[old] for new, old in zip(made, value, strict=True)
        )
        return value if same else made

    def _mask_key(self, key: Any) -> Any:
        # Names of fields stand as keys, and are found again by them.
        return key if not isinstance(key, str) or _IDENTIFIER.fullmatch(key) else self.mask(key)

    def found_in(self, line: bytes) -> bool:
        """Whether a secret may stand in this JSON: a quick look before anything is taken apart."""
        self._get_needles()
        for needle in self._json_needles:  # noqa: SIM110 — twice as fast as `any`, and done for each fact of a run
            if needle in line:
                return True
        return False

    def complete(self, text: str) -> int:
        """How much of a text that goes on can be masked now: behind that, a secret may have begun."""
        needles = [needle for needle, _ in self._get_needles()]
        begun = 0
        for needle in needles:
            for length in range(min(len(needle) - 1, len(text)), begun, -1):
                if text.endswith(needle[:length]):
                    begun = length
                    break
        end = len(text) - begun
        while (start := self._find_secret_across(needles, text, end)) is not None:
            end = start  # never inside of a secret that is there already
        return end

    @staticmethod
    def _find_secret_across(needles: list[str], text: str, end: int) -> int | None:
        """Where a secret begins that the end would cut in two."""
        for needle in needles:
            start = text.find(needle, max(0, end - len(needle) + 1), end + len(needle) - 1)
            if 0 <= start < end:
                return start
        return None

    def _all_values(self) -> Mapping[str, None]:
        return {**self._values, **_ENVIRONMENT.values}

    def _get_needles(self) -> tuple[tuple[str, str], ...]:
        if self._needles is None:
            _ENVIRONMENT.read()
            found = {**_ENVIRONMENT.urls, **self._urls}
            for value in self._all_values():
                if self._is_searchable(value):
                    found.update((form, MASK) for form in _written_forms(value))
            self._needles = tuple(sorted(found.items(), key=lambda pair: (-len(pair[0]), pair[0])))
            self._json_needles = tuple(_encode_json(needle) for needle, _ in self._needles)
        return self._needles

    def _is_searchable(self, value: str) -> bool:
        if len(value) < MIN_SECRET_LENGTH or not value.strip("*"):
            return False
        return not any(value in word for word in _PROTECTED_WORDS) and not any(
            value in name for name in self._names
        )


def _replace_all(text: str, needles: Iterable[tuple[str, str]]) -> str:
    """The text with all of these replaced. Where two overlap, both are hidden; inside of one, only that one
    counts."""
    places = []
    for needle, shown in needles:
        start = text.find(needle)
        while start >= 0:
            places.append((start, -len(needle), shown))
            start = text.find(needle, start + 1)
    parts: list[str] = []
    end, pending = 0, ""
    for start, length, shown in sorted(places):
        if start >= end:
            parts += (pending, text[end:start])
            end, pending = start - length, shown
        elif start - length > end:
            end, pending = start - length, MASK
    return "".join((*parts, pending, text[end:]))


class StreamMasker:
    """Masks a text that comes in pieces: holds back what may be the beginning of a secret."""

    def __init__(self, secrets: SecretMasker) -> None:
        self._secrets = secrets
        self._pending = ""

    def feed(self, text: str) -> str:
        """What may be shown now."""
        text = self._pending + text
        end = self._secrets.complete(text)
        self._pending = text[end:]
        return self._secrets.mask(text[:end])


@lru_cache(maxsize=256)
def _written_forms(value: str) -> frozenset[str]:
    """The ways in which a value is written in texts; worked out once for many short runs."""
    plain = {value}
    if "\n" in value:  # such as a private key, of which errors quote a line
        plain.update(line for part in value.splitlines() if len(line := part.strip()) >= MIN_SECRET_LENGTH)
    plain.update(_basic_password(value))
    forms = set(plain)
    for text in plain:
        escaped = {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1]}
        forms |= escaped
        forms.update(json.dumps(form)[1:-1] for form in escaped if "\\" in form)  # JSON inside of JSON
        encoded = text.encode("utf-8", "surrogatepass")
        forms |= {quote(encoded), quote(encoded, safe=""), quote_plus(encoded)}
    return frozenset(forms)


def _basic_password(value: str) -> tuple[str, ...]:
    """The password, if the value is what HTTP Basic authentication sends."""
    try:
        user, colon, password = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return ()
    sound = colon and len(password) >= MIN_SECRET_LENGTH and f"{user}{password}".isprintable()
    return (password,) if sound else ()


def _encode_json(needle: str) -> bytes:
    try:
        return msgspec.json.encode(needle)[1:-1]
    except UnicodeEncodeError:  # half of a surrogate pair: no JSON holds it
        return b"\x00"


# Where secrets stand.


def find_header_secrets(value: str) -> list[str]:
    """The words of a header's value that are secret on their own: KEY of `Bearer KEY`."""
    words = value.split()
    return [word for word in words if len(word) >= MIN_SECRET_LENGTH] if len(words) > 1 else []


class UrlSecret(Struct, frozen=True):
    """A credential in a URL."""

    values: tuple[str, ...]
    """What is secret wherever it stands."""
    place: str
    """The piece of the URL that holds it."""
    shown: str
    """That piece without it."""


def find_url_secrets(text: str) -> Iterator[UrlSecret]:
    """The credentials of all URLs in a text."""
    if "://" not in text:
        return
    for found in _URL.finditer(text):
        try:
            parts = urlsplit(found[0])
        except ValueError:  # a bracket that is never closed
            continue
        user_info, at, _ = parts.netloc.rpartition("@")
        if at and user_info:
            yield _user_secret(user_info)
        for pair in parts.query.split("&"):
            name, _, value = pair.partition("=")
            if value and is_secret_name(unquote(name)):
                for sign in "?&":
                    yield UrlSecret((value, unquote(value)), f"{sign}{pair}", f"{sign}{name}={MASK}")


def _user_secret(user_info: str) -> UrlSecret:
    user, _, password = user_info.partition(":")
    place = f"://{user_info}@"
    if password not in _NO_PASSWORD:
        plain = f"{unquote(user)}:{unquote(password)}"
        basic = base64.b64encode(plain.encode("utf-8", "surrogatepass")).decode()
        return UrlSecret((password, unquote(password), basic), place, f"://{user}:{MASK}@")
    tokens = (user, unquote(user)) if len(user) >= MIN_USER_TOKEN_LENGTH or password else ()
    return UrlSecret(tokens, place, f"://{MASK}@")


def read_environment_secrets() -> dict[str, str]:
    """The variables of the environment that are secret by their names."""
    return {name: value for name, value in os.environ.items() if value and is_secret_name(name)}


class _EnvironmentSecrets:
    """The secrets of the environment. It is read again only when it has changed: many short runs share it.
    To decode all of its entries takes longer than some runs; to compare the raw ones takes a microsecond."""

    def __init__(self) -> None:
        self._raw: dict[Any, Any] | None = None
        self.values: dict[str, None] = {}
        self.urls: dict[str, str] = {}

    def read(self) -> None:
        raw = getattr(os.environ, "_data", None) or dict(os.environ)
        if raw == self._raw:
            return
        found = [secret for value in os.environ.values() for secret in find_url_secrets(value)]
        values = (
            *read_environment_secrets().values(),
            *(value for secret in found for value in secret.values),
        )
        self.values = dict.fromkeys(values)
        self.urls = {secret.place: secret.shown for secret in found}
        self._raw = dict(raw)


_ENVIRONMENT = _EnvironmentSecrets()
