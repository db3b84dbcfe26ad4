"""Encodes a workflow as JSON and decodes it again, without its files, its environment and its code.

A run is pinned to the workflow with which it was started: the loaded one, in which variables and
environment values are resolved (docs/decisions/0019). A host or a viewer that reads the run later
decodes that, and needs neither the loader (whose rules may have become stricter) nor anything that the
loader read. Three things are not stored as they are:

    functions    by name; a host finds their code, or gets it again, when it resumes the run
    node types   by name
    secrets      by the names of the environment variables that hold them when the run is resumed

Rejected: to store the texts of the files. A reader would load them again with the rules of its own
version, and a secret of a few characters cannot be found in a text. Rejected: to store the compiled
plan, which is larger, changes with every optimisation, and follows from the workflow.

Lists, texts, numbers, booleans and None are encoded as themselves. Everything else is an object with one
key, so that plain data of users (dicts in `config` or `vars`) can never be mistaken for a tag:

    {"s": [tag, {field: value}]}        a struct, by its tag, without the fields that have their default
    {"t": [...]}                        a tuple
    {"d": [[key, value], ...]}          a dict
    {"n": name}                         a node type
    {"p": path}                         a path
    {"x": [text, [name], text, ...]}    a text with secrets: text and names alternate

Omitting defaults keeps a stored workflow at 2 to 5 KB, but makes the defaults of config structs part of
the format; so are tags and field names. stored.py says how classes move and defaults change all the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo

from roundel.workflow.graph import Workflow
from roundel.workflow.node_type import NodeType, NodeTypes
from roundel.workflow.secrets import MIN_SECRET_LENGTH, is_secret_name
from roundel.workflow.stored import StoredStructs, UnknownStructError, defaults_before

_SECRET_FIELDS = frozenset(("api_key", "headers", "env", "base_url", "url", "server"))
"""Fields whose values are expected to contain secrets: there, short secrets are replaced too."""
_NOT_ENCODED = frozenset(("functions", "secrets"))
Environment = Mapping[str, str]
"""Secret values by reference name."""


class EncodingError(ValueError):
    """The workflow cannot be encoded, or was encoded by a version that describes workflows
    differently."""


def encode_workflow(workflow: Workflow) -> str:
    """Encodes a workflow as JSON text. Raises EncodingError for a config with values that JSON cannot
    represent.

    The node types stand beside the workflow, so that the decoder can import them first: it creates no
    structs but theirs and those of Roundel."""
    encoder = _Encoder(workflow.secrets)
    encoded = {
        "functions": list(workflow.functions),
        "workflow": encoder.struct(workflow, _NOT_ENCODED),
        "types": sorted(encoder.types),
    }
    return json.dumps(encoded, separators=(",", ":"))


def decode_workflow(text: str, types: NodeTypes, environment: Environment | None = None) -> Workflow:
    """Decodes a workflow, with None for the code of its functions. Raises EncodingError if that is not
    possible.

    A secret that the environment lacks becomes the text `${secret:NAME}`; without an environment, all of
    them do. That text is recorded as the value of the secret, so encoding the workflow again restores
    the reference."""
    try:
        encoded = json.loads(text)
        secrets = {
            name: (environment or {}).get(name, missing_secret(name)) for name in referenced_secrets(text)
        }
        decoder = _Decoder(types, secrets, encoded["types"])
        workflow = decoder.value(encoded["workflow"])
        if not isinstance(workflow, Workflow):
            raise EncodingError("it contains no workflow")
        functions = dict.fromkeys(encoded["functions"])
    except EncodingError:
        raise
    except Exception as error:
        # The text comes from a store, perhaps of another version: whatever goes wrong in it is an
        # EncodingError, which callers turn into a message about this run.
        raise EncodingError(f"it cannot be read: {type(error).__name__}: {error}") from error
    return msgspec.structs.replace(workflow, functions=functions, secrets=secrets)


def missing_secret(name: str) -> str:
    """What a decoded workflow has in place of a secret that its environment lacks."""
    return f"${{secret:{name}}}"


def referenced_secrets(text: str) -> list[str]:
    """The names of the secrets that an encoded workflow refers to, found without decoding it."""
    return sorted(set(_iter_secret_names(json.loads(text)["workflow"])))


def _iter_secret_names(value: Any) -> Iterable[str]:
    if isinstance(value, dict):
        if "x" in value:
            yield from (name for (name,) in value["x"][1::2])
        for inner in value.values():
            yield from _iter_secret_names(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _iter_secret_names(inner)


class _Encoder:
    """Encodes one workflow, and collects the names of its node types."""

    def __init__(self, secrets: Environment) -> None:
        self.types: set[str] = set()
        self._structs = StoredStructs()
        names = {value: name for name, value in secrets.items() if value}
        self._names = names
        # Outside their own fields, short secrets are left alone: they would be found inside ordinary
        # words. `_any` finds all of them, `_long` only those that are long enough to be searched for.
        self._any = _alternation(names)
        self._long = _alternation(value for value in names if len(value) >= MIN_SECRET_LENGTH)

    def value(self, value: Any, in_secret_field: bool = False) -> Any:
        """Encodes a value. `in_secret_field`: a secret is expected here, so short ones are replaced too.

        It applies to everything inside: a header is a value of the mapping `headers`."""
        # A number is never replaced, also if it equals a secret that was given as a number: the field
        # needs a number.
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, str):
            return self._text(value, self._any if in_secret_field else self._long)
        if isinstance(value, list):
            return [self.value(item, in_secret_field) for item in value]
        if isinstance(value, tuple):
            return {"t": [self.value(item, in_secret_field) for item in value]}
        if isinstance(value, Mapping):
            return {
                "d": [
                    [self.value(key), self.value(item, in_secret_field or _is_secret_field(key))]
                    for key, item in value.items()
                ]
            }
        if isinstance(value, NodeType):
            return {"n": value.name}
        if isinstance(value, Path):
            return {"p": str(value)}
        if isinstance(value, Struct):
            return self.struct(value)
        raise EncodingError(f"{value!r:.60} ({type(value).__name__}) cannot be stored as JSON")

    def struct(self, value: Struct, excluded: frozenset[str] = frozenset()) -> Any:
        kind = type(value)
        stored = {field.name: getattr(value, field.name) for field in _fields(kind)}
        for inner in stored.values():
            if isinstance(
                inner, NodeType
            ):  # before the config beside it, which may be a struct of its package
                self.types.add(inner.name)
                self._structs.add(inner)
        try:
            tag = self._structs.tag(kind)
        except UnknownStructError as error:
            raise EncodingError(str(error)) from None
        before = defaults_before(tag)
        fields = {
            field.name: self.value(stored[field.name], field.name in _SECRET_FIELDS)
            for field in _fields(kind)
            if field.name not in excluded and not _is_default(field, stored[field.name], before)
        }
        return {"s": [tag, fields]}

    def _text(self, text: str, pattern: re.Pattern[str] | None) -> Any:
        """Splits a text at its secrets. The pattern has no groups, so `split` gives one piece more than
        `findall`."""
        if pattern is None or not pattern.search(text):
            return text
        names = [[self._names[found]] for found in pattern.findall(text)]
        parts = zip_longest(pattern.split(text), names)
        return {"x": list(chain.from_iterable(parts))[:-1]}


def _alternation(values: Iterable[str]) -> re.Pattern[str] | None:
    # An alternation takes the first branch that matches: a secret that begins with another one has to
    # come first.
    longest_first = sorted(values, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first))) if longest_first else None


def _is_secret_field(key: Any) -> bool:
    return isinstance(key, str) and (key in _SECRET_FIELDS or is_secret_name(key))


class _Decoder:
    """Decodes one workflow. Node types are resolved first: `_structs` follows from them."""

    def __init__(self, types: NodeTypes, secrets: Environment, used: Iterable[str]) -> None:
        self._secrets = secrets
        self._types = {name: _node_type(types, name) for name in used}
        self._structs = StoredStructs(self._types.values())

    def value(self, encoded: Any) -> Any:
        if isinstance(encoded, list):
            return [self.value(item) for item in encoded]
        if not isinstance(encoded, dict):
            return encoded
        ((tag, body),) = encoded.items()
        return _DECODERS[tag](self, body)

    def _struct(self, body: Any) -> Any:
        name, fields = body
        try:
            kind = self._structs.struct(name)
        except UnknownStructError as error:
            raise EncodingError(str(error)) from None
        # Checked by hand: msgspec would raise a TypeError whose text means nothing to a user.
        unknown = fields.keys() - {field.name for field in _fields(kind)}
        if unknown:
            raise EncodingError(f"'{name}' has no field '{min(unknown)}' in this version")
        before = defaults_before(self._structs.tag(kind))
        return kind(**{**before, **{field: self.value(inner) for field, inner in fields.items()}})

    def _tuple(self, body: Any) -> Any:
        return tuple([self.value(item) for item in body])

    def _dict(self, body: Any) -> Any:
        return {self.value(key): self.value(item) for key, item in body}

    def _type(self, name: str) -> NodeType:
        return self._types[name]

    def _path(self, body: str) -> Path:
        return Path(body)

    def _text(self, body: Any) -> str:
        names = (name for (name,) in body[1::2])
        values = (self._secrets[name] for name in names)
        return "".join(chain.from_iterable(zip_longest(body[::2], values, fillvalue="")))


def _node_type(types: NodeTypes, name: str) -> NodeType:
    try:
        return types[name]
    except LookupError:
        raise EncodingError(f"it uses the node type '{name}', which is not installed here") from None


_DECODERS: dict[str, Callable[[_Decoder, Any], Any]] = {
    "s": _Decoder._struct,
    "t": _Decoder._tuple,
    "d": _Decoder._dict,
    "n": _Decoder._type,
    "p": _Decoder._path,
    "x": _Decoder._text,
}


@lru_cache(maxsize=512)
def _fields(kind: type[Struct]) -> tuple[FieldInfo, ...]:
    return msgspec.structs.fields(kind)


def _is_default(field: FieldInfo, value: Any, before: Mapping[str, Any]) -> bool:
    if field.name in before:
        default = before[field.name]
    elif field.default is not NODEFAULT:
        default = field.default
    elif field.default_factory is not NODEFAULT:
        default = field.default_factory()
    else:
        return False
    # 1, 1.0 and True are equal, but not the same JSON.
    if type(value) is not type(default):
        return False
    # Not `==` for structs: a SourceLocation equals every other one, and would always count as the
    # default.
    if isinstance(value, Struct):
        return msgspec.structs.astuple(value) == msgspec.structs.astuple(default)
    return bool(value == default)
