"""Values of any type that a struct may declare, made by Hypothesis."""

from __future__ import annotations

import types
import typing
from typing import Any, Literal

import msgspec
from hypothesis import strategies as st
from msgspec import UNSET, Struct, UnsetType

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
"""No lone surrogates: JSON has none."""
INTEGERS = st.integers(-(2**53), 2**53)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    int: INTEGERS,
    float: FLOATS,
    bool: st.booleans(),
    type(None): st.none(),
}
JSON = st.recursive(
    st.one_of(*SCALARS.values()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    if kind is Any:
        return JSON
    if kind in SCALARS:
        return SCALARS[kind]
    if kind is UnsetType:
        return st.just(UNSET)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (typing.Union, types.UnionType):
        return st.one_of(*map(values_of, arguments))
    if origin is typing.Annotated:
        return values_of(arguments[0])
    if origin is dict:
        return st.dictionaries(*map(values_of, arguments), max_size=3)
    if origin is list:
        return st.lists(values_of(arguments[0]), max_size=3)
    if origin is tuple and arguments[-1] is Ellipsis:
        return st.lists(values_of(arguments[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values_of, arguments))
    if isinstance(kind, type) and issubclass(kind, Struct):
        fields = {field.name: values_of(field.type) for field in msgspec.structs.fields(kind)}
        return st.builds(kind, **fields)
    raise TypeError(f"no values are known of {kind}")
