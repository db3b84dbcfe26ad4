"""The invented series are what they claim to be: deterministic, varied, and plainly live or dead."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from tests.breaker.moving import KINDS as MOVING
from tests.breaker.moving import moving
from tests.breaker.repetition import repetitions
from tests.breaker.series import Series
from tests.breaker.unseen import KINDS as UNSEEN
from tests.breaker.unseen import unseen


def _plain(text: str) -> str:
    """Without letter case, white space and end marks, which are no progress."""
    return "".join(text.casefold().split()).rstrip(".!?…。！？")


def _news(series: Series) -> list[bool]:
    """Whether a speaker or a tool said something in this round that it had never said before."""
    seen: set[tuple[str, str]] = set()
    news = []
    for number, messages in enumerate(series.rounds):
        said = {(speaker, _plain(text)) for speaker, text in messages}
        said |= {("tool", _plain(result)) for result in series.results[number : number + 1]}
        news.append(bool(said - seen))
        seen |= said
    return news


def test_moving_series_are_many_and_a_third_of_them_is_long() -> None:
    everything = list(moving())
    kinds = Counter(series.kind for series in everything)
    assert len(everything) >= 500 and len(kinds) >= 30 and min(kinds.values()) >= 15
    lengths = [len(series.rounds) for series in everything]
    assert all(6 <= length <= 12 or 15 <= length <= 25 for length in lengths)
    assert sum(length >= 15 for length in lengths) * 3 == len(lengths)
    assert {len(messages) for series in everything for messages in series.rounds} == {1, 2, 3}
    assert all(len(series.results) in {0, len(series.rounds)} for series in everything)


def test_unseen_series_are_many_and_half_of_them_are_long() -> None:
    everything = list(unseen())
    kinds = Counter(series.kind for series in everything)
    assert len(everything) >= 300 and len(kinds) >= 25 and set(kinds.values()) == {12}
    lengths = [len(series.rounds) for series in everything]
    assert all(6 <= length <= 12 or 15 <= length <= 25 for length in lengths)
    assert sum(length >= 15 for length in lengths) * 2 == len(lengths)
    assert {len(messages) for series in everything for messages in series.rounds} == {1, 2, 3}
    assert all(len(series.results) in {0, len(series.rounds)} for series in everything)


def test_unseen_kinds_are_no_moving_ones() -> None:
    names = [kind.__name__ for kind in (*UNSEEN, *MOVING)]
    assert len(set(names)) == len(names)
    assert {series.kind for series in unseen()} == {kind.__name__ for kind in UNSEEN}


def test_invented_series_are_the_same_each_time_and_differ_from_each_other() -> None:
    for make in (moving, unseen, repetitions):
        everything = list(make())
        assert everything == list(make())
        assert len({repr((series.rounds, series.results)) for series in everything}) == len(everything)


def test_live_series_say_something_new_at_least_every_second_round() -> None:
    for series in (*moving(), *unseen()):
        assert all(one or other for one, other in pairwise(_news(series))), (series.kind, series.name)


def test_repetitions_are_many_and_begin_after_zero_to_three_live_rounds() -> None:
    everything = list(repetitions())
    kinds = Counter(series.kind for series in everything)
    assert len(everything) >= 180 and len(kinds) >= 12 and min(kinds.values()) >= 15
    assert {series.first for series in everything if series.kind == "the same text"} == {2, 3, 4, 5}
    assert {series.first for series in everything if series.kind == "three in turn"} == {4, 5, 6, 7}


def test_repetitions_say_nothing_new_from_their_first_repetition_on() -> None:
    bare = {"the same text", "two in turn", "three in turn", "letter case", "white space", "end mark"}
    for series in repetitions():
        news = _news(series)
        assert all(news[: series.first - 1]), (series.kind, series.name)
        if series.kind in bare:
            assert not any(news[series.first - 1 :]), (series.kind, series.name)
