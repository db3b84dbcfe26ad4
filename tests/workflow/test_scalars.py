"""Plain scalars: which are numbers, truths and nothing, and which are text."""

from __future__ import annotations

import math

import pytest

from tests.workflow.parsing import problems, read


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[(word, None) for word in ("~", "null", "Null", "NULL")],
        *[(word, True) for word in ("true", "True", "TRUE")],
        *[(word, False) for word in ("false", "False", "FALSE")],
        *[(word, word) for word in ("yes", "no", "on", "off", "Yes", "NO", "y", "n", "nUll", "tRue")],
        ("12", 12),
        ("-7", -7),
        ("+7", 7),
        ("010", 10),
        ("0o17", 15),
        ("0xfF", 255),
        ("-0x1", "-0x1"),
        ("0o8", "0o8"),
        ("1_000", "1_000"),
        ("12:30:00", "12:30:00"),
        ("2026-01-31", "2026-01-31"),
        ("2026-01-31T10:00:00Z", "2026-01-31T10:00:00Z"),
        ("0.5", 0.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("-1e3", -1000.0),
        ("1.5E+2", 150.0),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        (".", "."),
        ("1.2.3", "1.2.3"),
        ("+", "+"),
        ("٣", "٣"),
        ("'12'", "12"),
        ('"true"', "true"),
        ("''", ""),
        ("plain text", "plain text"),
    ],
)
def test_plain_scalars_follow_the_core_schema_of_yaml_1_2(text: str, value: object) -> None:
    found = read(f"key: {text}")["key"]
    assert found == value and type(found) is type(value)


def test_not_a_number_is_a_float() -> None:
    assert math.isnan(read("key: .nan")["key"])


def test_nothing_after_a_key_is_null_and_a_block_is_text() -> None:
    assert read("a:\nb: |\n  1\n  2\nc: >\n  x\n  y\n") == {"a": None, "b": "1\n2\n", "c": "x y\n"}


def test_integers_may_be_long_but_not_absurd() -> None:
    assert read("9" * 4000) == int("9" * 4000)
    for text in ("9" * 4001, "-" + "9" * 5000, "0x" + "f" * 4000):
        assert problems(f"a: {text}\nb: {text}") == [("number-too-long", 1, 4), ("number-too-long", 2, 4)]
