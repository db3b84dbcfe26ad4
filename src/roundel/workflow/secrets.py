"""Secrets: which values are secret, and the masker that removes them from everything that is stored or
shown.

These values are secret: those of `api_key`, `headers` and `env`, credentials in URLs, and variables
whose name says so (`is_secret_name`) or that are marked `secret: true`. secret_finder.py collects those
of a workflow. The secrets of the environment belong to every run: tools and client libraries see them,
whether or not the workflow refers to them.

Where masking happens (docs/decisions/0020): a host masks each fact before it passes the fact to the
kernel. State, events, snapshots and spans follow from facts, so they need no masking of their own, and a
resumed run sees the same values as the interrupted one. What does not pass through facts is masked where
it leaves the process: token streams, logs, tracebacks, output of commands.

The masker replaces a value by `***` wherever it occurs in a text: as it is, escaped in JSON or by
Python's `repr`, quoted in a URL, or as the base64 of HTTP Basic authentication. It searches only for
values of at least `MIN_SECRET_LENGTH` characters. A shorter one would be found in ordinary words, so it
is hidden only in its own field.

Rejected: patterns for what looks like a key. They miss passwords, and remove texts that only look like a
key.

Cost: every fact of a run is searched, so this is a hot path. `SecretMasker.known` and `found_in` let
most facts pass after a look at their JSON: 0.2 µs without secrets, 1 µs with one, 2 µs with five, for a
message of 500 characters.
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
"""The shortest value that is searched for in texts. A PIN of four digits occurs in half of all texts."""
MIN_USER_TOKEN_LENGTH: Final = 16
"""A URL may have a token in place of the user (`https://TOKEN@host`). Anything shorter is taken for a
user name."""

_SECRET_NAME = re.compile("KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s\"'<>`]+")
# With these passwords, the user part of a URL is the token.
_NO_PASSWORD: Final = ("", "x-oauth-basic")
_IDENTIFIER = re.compile("[a-z][a-z_]*")
_PLACEHOLDER = re.compile(r"\$\{\w+\}")
_PROTECTED_WORDS: Final = (
    *("answered", "assistant", "completed", "continue", "input_tokens", "max_duration_reached"),
    *("max_iterations_reached", "output_tokens", "rejected", "repeated", "suspended_locked", "tool_calls"),
    *("tool_limit", "token_usage"),
)
"""Words of the engine's own format that occur as values in facts. Masking one would break the run, and
it happens: an MCP server may have `ROLE: assistant` in its `env`."""


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name is secret. It errs on the safe side: KEYBOARD contains KEY, and is
    masked too."""
    return _SECRET_NAME.search(name) is not None


class SecretMasker:
    """Knows secret values, and removes them from text and data. There is one for each run, one for each
    command of the command line, and one for each file that is loaded.

    `names` are those of nodes, tools and models. They are shown everywhere, and a run cannot work
    without them, so a value that is part of a name is not searched for."""

    def __init__(self, values: Iterable[str] = (), *, names: Iterable[str] = ()) -> None:
        self.known = False
        """Whether any secrets were added. A plain attribute, not a property, since it is read for every
        fact."""
        self._values: dict[str, None] = {}
        self._urls: dict[str, str] = {}
        """Parts of URLs that contain a credential, and what is shown instead. Found in their place, so
        any length will do."""
        self._names = tuple(names)
        self._needles: tuple[tuple[str, str], ...] | None = None
        """What is searched for, and what is shown instead; the longest first. None after a value was
        added, until the next search: secrets are added one by one while a file is read."""
        self._json_needles: tuple[bytes, ...] = ()
        """The same, escaped and encoded as in JSON, for `found_in`."""
        self.add(*values)

    def add(self, *values: str | None) -> None:
        for value in values:
            # A placeholder without a value stands for a secret, but the error about it has to name it.
            if value and value not in self._values and not _PLACEHOLDER.fullmatch(value):
                self._values[value] = None
                self._needles = None
                self.known = True

    def add_header(self, value: str) -> None:
        """Adds the value of a header: for `Bearer KEY`, KEY alone is secret as well."""
        self.add(value, *find_header_secrets(value))

    def add_urls(self, text: str) -> None:
        """Adds the credentials of all URLs in a text."""
        for secret in find_url_secrets(text):
            self.add(*secret.values)
            self._urls[secret.place] = secret.shown
            self._needles = None
            self.known = True

    def __bool__(self) -> bool:
        return bool(self._get_needles())

    def mask(self, text: str) -> str:
        """Masks a text. Returns the same object if it contains no secret."""
        # One search for each needle with `in` is faster than one regular expression over all of them,
        # since most texts contain none.
        found = [pair for pair in self._get_needles() if pair[0] in text]
        if len(found) == 1:
            return text.replace(*found[0])
        return _replace_all(text, found) if found else text

    def mask_value(self, value: Any, keep: frozenset[str] = frozenset()) -> Any:
        """Masks all texts in structs, mappings and lists. Returns the same object if there are none to
        mask, so that callers can test for a change by identity, and nothing is copied in the usual case.

        `keep` names fields of structs that stay unchanged."""
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
            # Numbers in fields of our structs count something; only numbers in free data may be a
            # secret.
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
        # Keys in lower case are names of fields, by which values are looked up again; masking them would
        # lose the values.
        return key if not isinstance(key, str) or _IDENTIFIER.fullmatch(key) else self.mask(key)

    def found_in(self, line: bytes) -> bool:
        """Whether JSON may contain a secret: a quick test of the encoded bytes, before anything is
        decoded. May be true without reason; is false only if there is none."""
        self._get_needles()
        # A loop is twice as fast as `any` with a generator, and this runs for each fact.
        for needle in self._json_needles:  # noqa: SIM110
            if needle in line:
                return True
        return False

    def complete(self, text: str) -> int:
        """The length of the prefix of an unfinished text that can be masked and shown now. The rest may
        be the beginning of a secret, of which more is to come."""
        needles = [needle for needle, _ in self._get_needles()]
        begun = 0
        for needle in needles:
            for length in range(min(len(needle) - 1, len(text)), begun, -1):
                if text.endswith(needle[:length]):
                    begun = length
                    break
        end = len(text) - begun
        while (start := self._find_secret_across(needles, text, end)) is not None:
            # Cutting through a complete secret would show both of its halves. Moving the cut to its
            # start may cut another secret that overlaps it, so this repeats.
            end = start
        return end

    @staticmethod
    def _find_secret_across(needles: list[str], text: str, end: int) -> int | None:
        """The start of a secret that a cut at `end` would divide; None if there is none."""
        for needle in needles:
            start = text.find(needle, max(0, end - len(needle) + 1), end + len(needle) - 1)
            if 0 <= start < end:
                return start
        return None

    def _all_values(self) -> Mapping[str, None]:
        return {**self._values, **_ENVIRONMENT.values}

    def _get_needles(self) -> tuple[tuple[str, str], ...]:
        if self._needles is None:
            # The environment is read when needles are built, not at each search: a variable that is set
            # during a run is not found until a secret is added.
            _ENVIRONMENT.read()
            found = {**_ENVIRONMENT.urls, **self._urls}
            for value in self._all_values():
                if self._is_searchable(value):
                    found.update((form, MASK) for form in _written_forms(value))
            self._needles = tuple(sorted(found.items(), key=lambda pair: (-len(pair[0]), pair[0])))
            self._json_needles = tuple(_encode_json(needle) for needle, _ in self._needles)
        return self._needles

    def _is_searchable(self, value: str) -> bool:
        # A value of stars alone would match the mask itself.
        if len(value) < MIN_SECRET_LENGTH or not value.strip("*"):
            return False
        return not any(value in word for word in _PROTECTED_WORDS) and not any(
            value in name for name in self._names
        )


def _replace_all(text: str, needles: Iterable[tuple[str, str]]) -> str:
    """Replaces all of these in one pass. Where two overlap, one mask hides both; a secret inside a
    longer one is hidden with it.

    Replacing one after the other would be wrong: the first replacement may cut a piece out of another
    secret, and the rest of that would be shown."""
    places = []
    for needle, shown in needles:
        start = text.find(needle)
        while start >= 0:
            # The negative length sorts the longest of those with the same start first.
            places.append((start, -len(needle), shown))
            start = text.find(needle, start + 1)
    parts: list[str] = []
    # `end` is where the current mask ends in the text, `pending` its replacement, which an overlap may
    # still change.
    end, pending = 0, ""
    for start, length, shown in sorted(places):
        if start >= end:
            parts += (pending, text[end:start])
            end, pending = start - length, shown
        elif start - length > end:
            end, pending = start - length, MASK
    return "".join((*parts, pending, text[end:]))


class StreamMasker:
    """Masks a text that arrives in pieces, such as the tokens of a model. It delays what may be the
    beginning of a secret until the next piece decides.

    The delayed rest is never flushed: the complete message follows the stream, masked as a whole."""

    def __init__(self, secrets: SecretMasker) -> None:
        self._secrets = secrets
        self._pending = ""

    def feed(self, text: str) -> str:
        """Adds a piece, and returns the masked text that can be shown now."""
        text = self._pending + text
        end = self._secrets.complete(text)
        self._pending = text[end:]
        return self._secrets.mask(text[:end])


@lru_cache(maxsize=256)
def _written_forms(value: str) -> frozenset[str]:
    """All forms in which a value may occur in a text: escaped, quoted, encoded.

    Cached, because the secrets of the environment are the same for many short runs."""
    plain = {value}
    if "\n" in value:  # A private key, for example: errors quote single lines of it.
        plain.update(line for part in value.splitlines() if len(line := part.strip()) >= MIN_SECRET_LENGTH)
    plain.update(_basic_password(value))
    forms = set(plain)
    for text in plain:
        escaped = {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1]}
        forms |= escaped
        forms.update(json.dumps(form)[1:-1] for form in escaped if "\\" in form)  # JSON in JSON
        encoded = text.encode("utf-8", "surrogatepass")
        forms |= {quote(encoded), quote(encoded, safe=""), quote_plus(encoded)}
    return frozenset(forms)


def _basic_password(value: str) -> tuple[str, ...]:
    """The password, if the value is the base64 that HTTP Basic authentication sends: a header has `Basic
    dXNlcjpw…`, and an error message of the server may repeat the password in plain text."""
    try:
        user, colon, password = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return ()
    sound = colon and len(password) >= MIN_SECRET_LENGTH and f"{user}{password}".isprintable()
    return (password,) if sound else ()


def _encode_json(needle: str) -> bytes:
    try:
        return msgspec.json.encode(needle)[1:-1]
    except UnicodeEncodeError:
        # A lone surrogate cannot be encoded. No JSON contains a raw NUL, so this never matches.
        return b"\x00"


# Places that contain secrets


def find_header_secrets(value: str) -> list[str]:
    """The words of a header that are secret on their own: KEY in `Bearer KEY`."""
    words = value.split()
    return [word for word in words if len(word) >= MIN_SECRET_LENGTH] if len(words) > 1 else []


class UrlSecret(Struct, frozen=True):
    """A credential in a URL."""

    values: tuple[str, ...]
    """The values that are secret wherever they occur, as written and decoded."""
    place: str
    """The piece of the URL that contains it."""
    shown: str
    """The same piece, masked."""


def find_url_secrets(text: str) -> Iterator[UrlSecret]:
    """The credentials of all URLs in a text: user and password, and parameters of the query with secret
    names."""
    if "://" not in text:
        return
    for found in _URL.finditer(text):
        try:
            parts = urlsplit(found[0])
        except ValueError:  # An unclosed bracket, as of an IPv6 address.
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
    """The secrets of the environment, shared by all maskers of the process.

    They are collected again only when the environment has changed. Decoding all entries takes longer
    than some runs; comparing the raw ones takes a microsecond."""

    def __init__(self) -> None:
        self._raw: dict[Any, Any] | None = None
        self.values: dict[str, None] = {}
        self.urls: dict[str, str] = {}

    def read(self) -> None:
        # `_data` is private: the undecoded entries. Without it, this only becomes slower.
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
