"""What the type of a config says about its keys: their values, bounds, defaults and descriptions.

A description has two sources. The struct says what is certain: the keys, their types, bounds and defaults.
Its `__describe__` (description.py) says what a person needs: titles, texts, widgets and units. A struct of
another package that has no `__describe__` is described from its names and docstrings, so its form is plain
but complete.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping
from functools import lru_cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from roundel.workflow.description import Description, Field
from roundel.workflow.fields import Place

Shape = Literal["single", "list", "map"]
ValueType = Literal["text", "integer", "number", "boolean", "object", "any"]
_VALUE_TYPES: dict[Any, ValueType] = {str: "text", int: "integer", float: "number", bool: "boolean"}
_BOUND_NAMES = {"ge": "minimum", "gt": "exclusive_minimum", "le": "maximum", "lt": "exclusive_maximum"}


class Value(Struct, frozen=True):
    """What a type says about the values that a key may have."""

    type: ValueType
    shape: Shape = "single"
    lone: bool = False
    """A list of one item may be written without the list."""
    kind: Any = None
    """The type of one value: without its list, mapping, None and bounds."""
    choices: tuple[str, ...] = ()
    bounds: dict[str, float] = {}
    optional: bool = False


def value_of(kind: Any) -> Value:
    """Takes a type apart."""
    base, meta = bare(kind)
    options = [option for option in _options(base) if option is not NoneType]
    optional = len(options) < len(_options(base))
    if len(options) != 1:
        first = value_of(options[0])
        plain = all(option in _VALUE_TYPES for option in options)
        return msgspec.structs.replace(first, optional=optional) if plain else Value("any", optional=optional)
    inner, own = bare(options[0])
    meta = own or meta
    origin = get_origin(inner)
    if origin in (tuple, list, dict):
        item = value_of(get_args(inner)[1 if origin is dict else 0])
        if item.shape != "single":
            return Value("any", "list" if origin is not dict else "map", kind=Any, optional=optional)
        lone = bool(meta is not None and (meta.extra or {}).get("wrap"))
        shape: Shape = "map" if origin is dict else "list"
        return msgspec.structs.replace(item, shape=shape, lone=lone, optional=optional)
    if origin is Literal:
        return Value("text", kind=inner, choices=tuple(map(str, get_args(inner))), optional=optional)
    if inner in _VALUE_TYPES:
        return Value(_VALUE_TYPES[inner], kind=inner, bounds=bounds_of(meta), optional=optional)
    return Value("any" if inner is Any else "object", kind=inner, optional=optional)


def bare(kind: Any) -> tuple[Any, Meta | None]:
    """A type without its annotations, and what they say about it."""
    if get_origin(kind) is Annotated:
        base, *notes = get_args(kind)
        return base, next((note for note in notes if isinstance(note, Meta)), None)
    return kind, None


def _options(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def bounds_of(meta: Meta | None) -> dict[str, float]:
    found = {} if meta is None else {word: getattr(meta, name) for name, word in _BOUND_NAMES.items()}
    return {word: bound for word, bound in found.items() if bound is not None}


# Descriptions, given or derived


@lru_cache(maxsize=512)
def description_of(kind: Any) -> Description:
    """What a type says of itself; for one that says nothing, what its names and docstrings say.

    It holds every key, so that its users need not ask where a text comes from."""
    given = kind.__describe__() if hasattr(kind, "__describe__") else Description()
    if given.complete or given.refers or given.variants or not is_struct(kind):
        return given
    fields = dict(given.fields)
    for info in key_fields(kind):
        if info.encode_name not in fields:
            fields[info.encode_name] = _derived(kind, info)
    en = given.en if given.en[0] else (titled(kind.__name__), _first_line(kind.__doc__))
    zh = given.zh if given.zh[0] else en
    return msgspec.structs.replace(given, fields=fields, en=en, zh=zh)


def is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def key_fields(kind: type[Struct]) -> list[msgspec.structs.FieldInfo]:
    """The fields of a struct that are keys in a file."""
    return [info for info in msgspec.structs.fields(kind) if info.type is not Place]


def infos_of(kind: Any) -> dict[str, msgspec.structs.FieldInfo]:
    """The fields of a struct by their keys; none for any other type."""
    return {info.encode_name: info for info in key_fields(kind)} if is_struct(kind) else {}


def _derived(kind: type[Struct], info: msgspec.structs.FieldInfo) -> Field:
    meta = bare(info.type)[1]
    title = (meta.title if meta is not None else None) or titled(info.encode_name)
    text = (meta.description if meta is not None else None) or _docstrings(kind).get(info.name, "")
    return Field(en=(title, text), zh=(title, text))


def titled(name: str) -> str:
    """`max_rounds` as "Max rounds"."""
    words = name.replace("_", " ").strip()
    return words[:1].upper() + words[1:]


@lru_cache(maxsize=256)
def _docstrings(kind: type) -> Mapping[str, str]:
    """The strings below the fields of a class, as far as its source can be read."""
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    except (OSError, TypeError, SyntaxError):
        return {}
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        named = isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if named and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            found[field.target.id] = inspect.cleandoc(str(below.value.value))  # type: ignore[attr-defined]
    return found


def _first_line(doc: str | None) -> str:
    return inspect.cleandoc(doc).partition("\n\n")[0].replace("\n", " ") if doc else ""


def needs(kind: Any) -> bool:
    """Whether a config has a key that must be given."""
    about = description_of(kind)
    if about.variants is not None:
        return True
    infos = infos_of(kind)
    return any(is_required(field, infos.get(name)) for name, field in about.fields.items())


def object_name(kind: Any, about: Description) -> str:
    return about.name or f"{kind.__module__}.{kind.__qualname__}"


def is_required(field: Field, info: msgspec.structs.FieldInfo | None) -> bool:
    if field.required is not None:
        return field.required
    return info is not None and info.required


def default_of(info: msgspec.structs.FieldInfo | None) -> Any:
    """The default of a key as JSON; None if leaving it out is the only way to write the default."""
    if info is None or info.required:
        return None
    default: Any = info.default
    if isinstance(default, UnsetType) or default is msgspec.NODEFAULT:
        default = info.default_factory() if info.default_factory is not msgspec.NODEFAULT else None
    if isinstance(default, Struct) or default is UNSET:
        return None
    return msgspec.json.decode(msgspec.json.encode(default))
