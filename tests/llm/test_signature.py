"""The parameters of a function as a JSON Schema, and the conversion of a model's arguments."""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

import jsonschema
import msgspec
import pytest

from roundel.llm.python_tool import bind_arguments, description, parameters
from roundel.nodes.services import NodeError, ToolError

if TYPE_CHECKING:
    from decimal import Decimal as OnlyForTypeCheckers


@dataclass
class Point:
    x: float
    y: float = 0


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Options(TypedDict, total=False):
    deep: bool


def plot(
    points: list[Point],
    colour: Colour = Colour.RED,
    size: Annotated[int, msgspec.Meta(ge=1)] = 3,
    title: str | None = None,
    mode: Literal["fast", "good"] = "fast",
    options: Options | None = None,
    *,
    target: Path = Path("out.svg"),
) -> str:
    """Draws points
    on a plane.

    More about it.

    Args:
        points: Where they are,
            in any order.
        size (int): How large; at least 1
        title: What stands above: a few words.

    Returns:
        size: is not what is meant here
    """
    return f"{points} {colour} {size} {title} {mode} {options} {target}"


def test_schema_reflects_the_signature_and_docstring() -> None:
    schema = parameters(plot)
    assert description(plot) == "Draws points on a plane."
    assert schema["required"] == ["points"]
    assert schema["additionalProperties"] is False
    taken = schema["properties"]
    assert taken["points"] == {
        "type": "array",
        "items": {"$ref": "#/$defs/Point"},
        "description": "Where they are, in any order.",
    }
    assert taken["size"] == {
        "type": "integer",
        "minimum": 1,
        "default": 3,
        "description": "How large; at least 1",
    }
    assert taken["title"] == {
        "anyOf": [{"type": "string"}, {"type": "null"}],
        "description": "What stands above: a few words.",
    }
    assert taken["mode"] == {"enum": ["fast", "good"], "default": "fast"}
    assert taken["target"] == {"type": "string", "default": "out.svg"}
    assert set(schema["$defs"]) == {"Colour", "Options", "Point"}


def test_schema_is_valid_and_its_references_resolve() -> None:
    schema = parameters(plot)
    jsonschema.Draft202012Validator.check_schema(schema)
    check = jsonschema.Draft202012Validator(schema)
    assert check.is_valid({"points": [{"x": 1}], "colour": "blue"})
    assert not check.is_valid({"points": [{"y": 1}]})
    assert not check.is_valid({"points": [], "colour": "green"})


def test_arguments_are_converted_to_the_annotated_types() -> None:
    given = {"points": [{"x": 1, "y": 2}], "colour": "blue", "size": "4", "target": "a/b.svg"}
    first, named = bind_arguments(plot, given)
    assert first == ()
    assert named == {
        "points": [Point(1, 2)],
        "colour": Colour.BLUE,
        "size": 4,
        "target": Path("a/b.svg"),
    }


def fields(place: str, depth: int = 1) -> None:
    """Digs.

    :param str place: where to dig,
        in words
    :param depth: how deep
    :returns: nothing
    """


def test_fields_of_a_docstring_are_read_too() -> None:
    taken = parameters(fields)["properties"]
    assert taken["place"]["description"] == "where to dig, in words"
    assert taken["depth"] == {"type": "integer", "default": 1, "description": "how deep"}


@pytest.mark.parametrize(
    ("function", "arguments", "expected"),
    [
        (plot, {}, "'points' is missing; it takes points, colour, size, title, mode, options, target"),
        (
            fields,
            {"place": "x", "width": 1, "hue": 2},
            "there is no 'width'; there is no 'hue'; it takes place, depth",
        ),
        (fields, {"depth": 1, "x": 1}, "'place' is missing; there is no 'x'; it takes place, depth"),
        (fields, {"place": "x", "depth": "deep"}, "'depth': Expected `int`, got `str`"),
        (plot, {"points": [{"y": 1}]}, "'points': Object missing required field `x` - at `$[0]`"),
        (plot, {"points": [], "colour": "green"}, "'colour': Invalid enum value 'green'"),
        (plot, {"points": [], "target": 7}, "'target': Expected `str`, got `int`"),
    ],
)
def test_mismatching_arguments_are_reported(
    function: Callable[..., Any], arguments: dict[str, Any], expected: str
) -> None:
    with pytest.raises(ToolError) as caught:
        bind_arguments(function, arguments)
    assert str(caught.value).startswith(f"wrong arguments: {expected}")


def positional(a: int, b: int = 2, /, c: int = 3, *more: int, d: int = 4, **others: Any) -> list[Any]:
    return [a, b, c, more, d, others]


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        ({"a": 1}, [1, 2, 3, (), 4, {}]),
        ({"b": 9, "a": 1}, [1, 9, 3, (), 4, {}]),
        ({"a": 1, "c": 5, "d": 6, "e": 7}, [1, 2, 5, (), 6, {"e": 7}]),
        ({"a": 1, "others": 8, "more": 9}, [1, 2, 3, (), 4, {"others": 8, "more": 9}]),
    ],
)
def test_parameters_of_every_kind(arguments: dict[str, Any], given: list[Any]) -> None:
    first, named = bind_arguments(positional, arguments)
    assert positional(*first, **named) == given
    schema = parameters(positional)
    assert (list(schema["properties"]), schema["required"]) == (["a", "b", "c", "d"], ["a"])
    assert schema["additionalProperties"] is True


def test_function_written_in_c_is_supported() -> None:
    assert parameters(math.sqrt)["required"] == ["x"]
    first, named = bind_arguments(math.sqrt, {"x": 4})
    assert math.sqrt(*first, **named) == 2


def test_function_without_a_signature_is_rejected() -> None:
    with pytest.raises(NodeError, match="the function 'max' has no signature; give its 'parameters'"):
        parameters(max)


def injected(idempotency_key: str, workspace: Path, _context: dict[str, Any], word: str) -> None:
    """Is lent things."""


def test_injected_parameters_are_not_in_the_schema() -> None:
    assert list(parameters(injected)["properties"]) == ["word"]
    assert bind_arguments(injected, {"word": "x"}) == ((), {"word": "x"})


@dataclass
class Sum:
    """Adds up. Like all that can change and be compared, it has no hash."""

    start: int

    def __call__(self, more: int) -> int:
        return self.start + more

    def method(self, more: int) -> int:
        """Adds."""
        return self.start + more


@pytest.mark.parametrize(
    "function", [Sum(1), Sum(1).method, functools.partial(lambda start, more: start + more, 1)]
)
def test_objects_methods_and_partial_functions(function: Callable[..., Any]) -> None:
    assert list(parameters(function)["properties"]) == ["more"]
    first, named = bind_arguments(function, {"more": 2})
    assert function(*first, **named) == 3


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        return function(*arguments, **named)

    return call


def test_decorated_function_has_the_schema_of_the_wrapped_one() -> None:
    assert parameters(wrapped(plot)) == parameters(plot)
    assert bind_arguments(wrapped(plot), {"points": [{"x": 1}]})[1] == {"points": [Point(1)]}


def odd(amount: OnlyForTypeCheckers) -> None:
    """Names a type that is not there at run time."""


class Handle:
    pass


def opaque(handle: Handle, number: int = 1, default: Any = ...) -> None:
    """Names a type that has no JSON form."""


def test_unknown_types_accept_anything() -> None:
    assert parameters(odd)["properties"]["amount"] == {}
    assert bind_arguments(odd, {"amount": 3}) == ((), {"amount": 3})
    assert parameters(opaque)["properties"]["handle"] == {}
    assert bind_arguments(opaque, {"handle": {"a": 1}, "number": "2"})[1] == {"handle": {"a": 1}, "number": 2}
