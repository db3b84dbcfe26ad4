"""Strict JSON: all that it may hold, and where each value of it stands."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from roundel.workflow.diagnostics import Report
from roundel.workflow.document import Located, read_text
from tests.workflow.parsing import problems, read

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def test_json_is_read_with_all_its_escapes() -> None:
    text = r'{"a\/b": "\/ \" \\ \b\f\n\r\t \u00e9 \ud83d\ude00", "c": [1, -0.5, 1E5, true, null]}'
    assert read(text) == {"a/b": '/ " \\ \b\f\n\r\t é 😀', "c": [1, -0.5, 1e5, True, None]}


def test_tabs_are_white_space_in_json() -> None:
    assert read('\t{\n\t"a"\t:\t[\t1,\n\t\t2]\n\t,"b"\n:\t{\t}}\t\n') == {"a": [1, 2], "b": {}}


def test_columns_are_correct_in_one_long_json_line() -> None:
    text = json.dumps({"pad": "x" * 100_000, "k" * 5000: 1, "list": [1] * 1000, "last": {"id": 1, "x": 2}})
    broken = text.replace('"x": 2', '"id": 2')
    assert read(text) == json.loads(text)
    assert problems(broken) == [("duplicate-key", 1, broken.rindex('"id"') + 1)]


def test_json_strings_may_contain_characters_forbidden_in_yaml() -> None:
    assert read('{"a": "\x7f\x85\u2028", "<<": 1}') == {"a": "\x7f\x85\u2028", "<<": 1}


def test_text_that_is_nearly_json_is_yaml() -> None:
    assert read('{"a": 1, b: no, }  # flow style') == {"a": 1, "b": "no"}
    assert read('{"a": NaN}') == {"a": "NaN"}


@given(json_values, st.booleans(), st.sampled_from([None, 1, "\t"]))
@settings(deadline=None, max_examples=300)
@example({"\x7f": "\U0001f600"}, True, None)
def test_json_round_trips(value: Any, ascii_only: bool, indent: int | str | None) -> None:
    assert read(json.dumps(value, ensure_ascii=ascii_only, indent=indent)) == value


@given(json_values, st.sampled_from([None, 0, 3]))
@settings(deadline=None)
def test_locations_of_json_values_are_exact(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    lines = text.split("\n")

    def check(node: Located) -> None:
        here = lines[node.line - 1][node.column - 1 :]
        if isinstance(node.value, dict):
            assert here.startswith("{") and node.keys is not None and list(node.keys) == list(node.value)
            for key, (line, column) in node.keys.items():
                assert lines[line - 1].startswith(json.dumps(key), column - 1)
                check(node.value[key])
        elif isinstance(node.value, list):
            assert here.startswith("[")
            for item in node.value:
                check(item)
        else:
            assert here.startswith(json.dumps(node.value))

    root = read_text(text, Report())
    assert root is not None
    check(root)
