"""Answers of millions of characters, and schemas that ask for much: reading them has a bound.

Without the bounds, these texts take between minutes and years, so that the test would not end.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roundel.nodes.agreement import MAX_READ, is_agreement
from roundel.nodes.array_values import find_array
from roundel.nodes.consensus import read_ballot
from roundel.nodes.evaluation import evaluate
from roundel.nodes.structured_output import (
    MAX_ERRORS,
    JsonScanner,
    json_objects,
    parse_json,
    validation_error,
)
from roundel.workflow.evaluation_budget import LONG_TEXT, current_budget, note_work

LONG = 3_000_000


@pytest.mark.parametrize("piece", ["\n", '"', "'a", "not ", "agree ", "I agree if ", "a - ", "不", "/"])
def test_an_agreement_is_searched_at_the_end_of_a_long_text(piece: str) -> None:
    filler = piece * (LONG // len(piece))
    assert is_agreement(f"{filler}\n. Well. I agree.")
    assert not is_agreement(f"I agree.\n{filler}.")


def test_the_text_that_is_read_begins_with_a_word() -> None:
    filler = "x " * MAX_READ
    assert not is_agreement("disagreed" + filler[: MAX_READ - 6])
    assert is_agreement(filler + " agreed")


@pytest.mark.parametrize(
    ("text", "choice"),
    [("Yes. {}", "approve"), ("{}\nVote: no", "reject"), ("Vote: no. {}", "reject"), ("{}\nNo.", "reject")],
)
def test_a_ballot_of_any_length_is_found_at_its_ends(text: str, choice: str) -> None:
    assert read_ballot(text.format("the plan is here to stay " * (LONG // 25))).choice == choice
    assert read_ballot(text.format("the plan is here to stay " * 10)).choice == choice


def test_a_score_of_a_long_ballot_is_found_at_its_ends() -> None:
    filler = "well " * (LONG // 5)
    assert read_ballot(f"{filler} Score: 8", "score_1_10").score == 8


def test_objects_that_end_with_a_mistake_are_decoded_a_bounded_number_of_times() -> None:
    nested = '{"a":' * 900 + "[" + "1," * (LONG // 2) + "x"
    assert list(json_objects(nested + "}" * 9)) == []


@pytest.mark.parametrize("mistake", ["{x ", '{"x ', "{1}"])
def test_mistakes_behind_a_long_text_do_not_count_its_lines(mistake: str) -> None:
    found = list(json_objects("\n" * LONG + mistake * 900 + '{"score": 7}'))
    assert found == [{"score": 7}]


def test_a_scanner_forgets_what_it_has_passed() -> None:
    text = "\n" * LONG + "{x"
    scanner = JsonScanner(text, json.JSONDecoder())
    with pytest.raises(json.JSONDecodeError) as caught:
        scanner.decode(LONG)
    assert (caught.value.doc, scanner.mistake_at(caught.value)) == ("{x", LONG + 1)


@given(st.text('[]{}"1,:x \n`', max_size=40), st.integers(0, 300_000))
@settings(deadline=None, max_examples=100)
def test_what_stands_before_does_not_change_what_is_found(text: str, blanks: int) -> None:
    assert list(json_objects("\n" * blanks + text)) == list(json_objects(text))
    place = find_array(text)
    assert find_array("\n" * blanks + text) == (place and [at + blanks for at in place])


def test_a_fence_without_an_end_is_no_block() -> None:
    with pytest.raises(ValueError, match="Expecting value"):
        parse_json("```" + "\n" * LONG)
    with pytest.raises(ValueError, match="Expecting value"):
        parse_json("```json" + " " * LONG)
    assert parse_json("```" + "\n" * LONG + "[1]\n```") == [1]


@given(st.text("`json\n 1", max_size=25))
def test_blocks_are_those_of_the_pattern(text: str) -> None:
    found = re.search(r"```(?:json)?\s*\n(.*?)```", text, re.DOTALL)

    def value(parse: Any) -> Any:
        try:
            return parse()
        except ValueError:
            return "no JSON"

    assert value(lambda: parse_json(text)) == value(lambda: json.loads(found[1] if found else text))


def test_validation_has_a_budget_for_all_keywords() -> None:
    endless = {"items": {"items": {"enum": [[number] for number in range(2000)]}}}
    problem = validation_error([[[2000 + number] for number in range(1000)]] * 1000, endless)
    assert problem == "it cannot be compared with the schema: that takes more than 2 seconds"


def test_validation_stops_after_some_errors_which_are_short() -> None:
    problem = validation_error(["x" * 10_000] * (MAX_ERRORS * 1000), {"items": {"type": "integer"}})
    assert problem.count("xxx … xxx") == 5 and len(problem) < 6000
    assert problem.endswith("x' is not of type 'integer'")


@given(
    st.lists(
        st.recursive(
            st.sampled_from([None, True, False, 0, 1, 1.0, 0.0, "", "1"]),
            lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner),
            max_leaves=4,
        ),
        max_size=4,
    )
)
def test_unique_items_are_those_of_the_standard(items: list[Any]) -> None:
    schema = {"uniqueItems": True}
    standard = jsonschema.Draft202012Validator(schema)
    assert (validation_error(items, schema) == "") == standard.is_valid(items)


def test_many_unique_items_are_compared_in_one_pass() -> None:
    items: list[Any] = [{"a": [number]} for number in range(100_000)]
    assert validation_error(items, {"uniqueItems": True}) == ""
    assert "non-unique" in validation_error([*items, {"a": [0]}], {"uniqueItems": True})


def test_what_takes_long_is_evaluated_in_a_thread() -> None:
    places: list[str] = []

    def work(characters: int) -> str:
        places.append(threading.current_thread().name)
        note_work(characters)
        return "done"

    async def story() -> None:
        assert await evaluate(lambda: work(LONG_TEXT)) == "done"
        assert len(places) == 1
        assert await evaluate(lambda: work(LONG_TEXT + 1)) == "done"
        assert places[2].startswith("roundel-evaluation") and places[1] == places[0] != places[2]
        assert current_budget.get() is None

    asyncio.run(story())
