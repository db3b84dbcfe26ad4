"""Facts as rows."""

from __future__ import annotations

import random
from typing import Any

import pytest

from roundel.journal import run_journal
from roundel.journal.run_journal import pack, unpack
from roundel.kernel import facts
from roundel.kernel.codec import Codec
from roundel.kernel.facts import Entry, Fact, Failed, Finished, Outcome, Waited, encode_entry, encode_fact
from roundel.workflow.message import Message
from tests.journal.stores import STARTED

FACTS: list[Fact] = [
    STARTED,
    Finished("A", Outcome((Message('a "text"\nof two lines, 好 \x00', "assistant", {"n": [1, None]}),)), 2.5),
    Waited(3.25),
]
DECISIONS: list[tuple[Any, ...]] = [(), (True, "a\ttab and\na line", None, [0.25, 1.0], {"error": "no"}), ()]


def test_packed_entries_round_trip() -> None:
    entries = [Entry(fact, decided) for fact, decided in zip(FACTS, DECISIONS, strict=True)]
    assert unpack(pack(map(encode_entry, entries))) == entries
    assert unpack(pack([])) == []


def test_repetitive_facts_compress_and_noise_is_stored_plain() -> None:
    same: list[Fact] = [Failed("A", "word " * 20, float(number)) for number in range(100)]
    body = pack(map(encode_fact, same))
    assert len(body) < sum(len(encode_fact(fact)) for fact in same) / 10
    assert unpack(body) == [Entry(fact) for fact in same]
    noise = random.Random(1).randbytes(400)
    assert pack([noise]) == run_journal.PLAIN + noise


def test_older_version_is_upgraded_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def second(fields: dict[str, Any]) -> dict[str, Any]:
        return {**fields, "type": "pause" if fields["type"] == "halt" else fields["type"]}

    def third(fields: dict[str, Any]) -> dict[str, Any]:
        return {**fields, "type": "waited" if fields["type"] == "pause" else fields["type"]}

    upgrades = {1: second, 2: third}
    monkeypatch.setattr(facts, "FACTS", Codec("a fact", Fact, version=3, upgrades=upgrades))
    written = pack([b'{"type":"halt","time":4.0}', encode_fact(Waited(5.0))])
    assert unpack(written, 1) == [Entry(Waited(4.0), None), Entry(Waited(5.0), None)]
    assert unpack(pack([b'{"type":"pause","time":4.0}']), 2) == [Entry(Waited(4.0))]
    assert unpack(pack([encode_fact(Waited(6.0))]), 3) == [Entry(Waited(6.0))]


def test_a_newer_version_is_refused() -> None:
    with pytest.raises(ValueError, match="a fact of version 9: this program knows 1 to 2"):
        unpack(pack([encode_fact(Waited(1.0))]), 9)


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_truncated_chunk_is_detected(cut: int) -> None:
    body = pack([encode_fact(Waited(float(number))) for number in range(100)])
    with pytest.raises(ValueError, match="the facts are damaged"):
        unpack(body[:-cut])
