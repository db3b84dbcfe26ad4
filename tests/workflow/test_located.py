"""Values from Python, and what places are."""

from __future__ import annotations

from typing import Any

import pytest

from roundel.workflow.document import line_and_column, locate


def test_python_value_has_no_location() -> None:
    thing = object()
    root = locate({"a": (1, [2.5, None]), 3: {"b": thing}})
    assert root.plain() == {"a": [1, [2.5, None]], "3": {"b": thing}}
    assert (root.line, root.column, root.keys) == (0, 0, {})


def test_recursive_python_value_is_rejected() -> None:
    knot: list[Any] = []
    knot.append(knot)
    with pytest.raises(ValueError, match="contains itself"):
        locate(knot)


def test_lines_and_columns_count_from_one() -> None:
    text = "ab\n\nc"
    places = [(1, 1), (1, 2), (1, 3), (2, 1), (3, 1), (3, 2)]
    assert [line_and_column(text, index) for index in range(len(text) + 1)] == places
