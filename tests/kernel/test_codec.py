"""Encoded values decode to the same value, in the current version and after upgrades."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from roundel.kernel.codec import Codec, CodecError, typed
from roundel.kernel.commands import COMMANDS, Call, Command, decode_command, encode_command
from roundel.kernel.events import EVENTS, Event, decode_event, encode_event
from roundel.kernel.facts import (
    DECISIONS,
    FACTS,
    VERSION,
    Decisions,
    Entry,
    Fact,
    Waited,
    decode_entry,
    decode_fact,
    encode_entry,
    encode_fact,
)
from roundel.kernel.payloads import TRANSIENT, EventData
from roundel.nodes.agent_conversation import ModelCall, ToolUse
from roundel.nodes.services import ToolRequest
from tests.events import event_of
from tests.kernel.generated import JSON, TEXT, values_of
from tests.kernel.simulator import plan_of

# Nothing is lost.


@pytest.mark.parametrize("kind", get_args(Fact))
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_facts_round_trip(kind: Any, data: st.DataObject) -> None:
    fact = data.draw(values_of(kind))
    assert decode_fact(encode_fact(fact)) == fact
    decided = tuple(data.draw(st.lists(JSON, max_size=3)))
    assert decode_entry(encode_entry(Entry(fact, decided))) == Entry(fact, decided)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.one_of(JSON, TEXT.map(lambda text: {"error": text})), max_size=4))
def test_decisions_round_trip(decided: list[Any]) -> None:
    line = DECISIONS.encode(tuple(decided))
    assert list(DECISIONS.decode(line)) == decided
    assert b"\t" not in line and b"\n" not in line, "a tab ends the fact, and a newline the entry"


@pytest.mark.parametrize("kind", get_args(Command))
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_commands_round_trip(kind: Any, data: st.DataObject) -> None:
    command = data.draw(values_of(kind))
    assert COMMANDS.decode_versioned(encode_command(command)) == command


@settings(max_examples=80, deadline=None)
@given(
    values=st.tuples(*[values_of(kind) for kind in (int, str, str)]),
    data=st.one_of(*map(values_of, get_args(EventData))),
)
def test_events_round_trip(values: tuple[int, str, str], data: EventData) -> None:
    seq, timestamp, run_id = values
    event = Event(seq, data.event, timestamp, run_id, "A", None, data)
    assert decode_event(encode_event(event)) == event


@pytest.mark.parametrize("name", TRANSIENT)
def test_transient_event_round_trips_without_sequence_number(name: str) -> None:
    event = event_of(name, 0, "A", "A", text="word")
    assert b"seq" not in encode_event(event)
    assert decode_event(encode_event(event)) == event


def test_every_decision_of_a_step_is_json() -> None:
    """An exception among them is what a mapping stands for."""
    decisions = Decisions()
    decisions.begin(None)
    assert decisions.record_or_replay(lambda: [True, 0.25, None, "text"]) == [True, 0.25, None, "text"]
    with pytest.raises(ZeroDivisionError):
        decisions.record_or_replay(lambda: 1 / 0)
    made = decisions.made
    assert list(DECISIONS.decode(DECISIONS.encode(made))) == made


# Older versions.


class Tea(Struct, frozen=True):
    """Version 1 had `sort`, version 2 had `minutes`."""

    kind: str
    seconds: float


def renamed(fields: dict[str, Any]) -> dict[str, Any]:
    kind = fields.pop("sort")
    return {"kind": kind, **fields}


def in_seconds(fields: dict[str, Any]) -> dict[str, Any]:
    return {"kind": fields["kind"], "seconds": 60 * fields["minutes"]}


TEAS: Codec[Tea] = Codec("a tea", Tea, version=3, upgrades={1: renamed, 2: in_seconds})


def test_an_older_version_is_upgraded_step_by_step() -> None:
    tea = Tea("green", 120.0)
    assert TEAS.decode(b'{"sort":"green","minutes":2}', 1) == tea
    assert TEAS.decode(b'{"kind":"green","minutes":2}', 2) == tea
    assert TEAS.decode(TEAS.encode(tea), 3) == TEAS.decode(TEAS.encode(tea)) == tea
    assert TEAS.decode_versioned(b'1 {"sort":"green","minutes":2}') == tea
    assert TEAS.decode_versioned(TEAS.encode_versioned(tea)) == tea


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'4 {"kind":"green","seconds":1}', "a tea of version 4: this program knows 1 to 3"),
        (b'0 {"kind":"green","seconds":1}', "a tea of version 0: this program knows 1 to 3"),
        (b'{"kind":"green","seconds":1}', "a tea has no version as a prefix"),
        (b'3 {"kind":"green"}', "a tea cannot be decoded: Object missing required field `seconds`"),
        (b'2 {"kind":"green"}', "a tea cannot be decoded: 'minutes'"),
        (b'3 {"kind":', "a tea cannot be decoded: Input data was truncated"),
        (b'3 {"kind":"\xff","seconds":1}', "a tea cannot be decoded"),
    ],
)
def test_undecodable_input_is_reported_with_its_cause(body: bytes, why: str) -> None:
    with pytest.raises(CodecError) as refused:
        TEAS.decode_versioned(body)
    assert str(refused.value).startswith(why)


def test_codec_requires_an_upgrade_for_each_readable_version() -> None:
    with pytest.raises(ValueError, match="the codec of a tea lacks an upgrade"):
        Codec("a tea", Tea, version=3, upgrades={2: in_seconds})
    only_newest: Codec[Tea] = Codec("a tea", Tea, version=3, oldest=3)
    with pytest.raises(CodecError, match="a tea of version 2: this program knows 3"):
        only_newest.decode_versioned(b'2 {"kind":"green","minutes":2}')


def test_facts_and_decisions_share_the_version_of_their_line() -> None:
    assert FACTS.version == DECISIONS.version == VERSION
    assert decode_entry(encode_fact(Waited(1.0)), 1) == Entry(Waited(1.0), None)
    assert (EVENTS.version, COMMANDS.version) == (3, 1)


# Types that JSON does not have.


@pytest.mark.parametrize(
    "carried", [ModelCall(offer=False, call=2), ToolUse(ToolRequest("1", "add", {"n": 1}))]
)
def test_carried_state_of_a_command_keeps_its_type(carried: Any) -> None:
    agent = {"id": "A", "type": "agent", "config": {"output_schema": {"type": "object"}}}
    plan = plan_of({"graph": {"nodes": [agent], "start": "A"}})
    assert plan.sites[0].has_tool_loop
    call = Call("A", 0, (), carried, 0, 0)
    assert decode_command(encode_command(call), plan) == call


def test_state_of_the_wrong_type_is_rejected() -> None:
    assert typed(None, {"a": 1}) == {"a": 1}
    assert typed(Tea, None) is None
    assert typed(Tea, {"kind": "green", "seconds": 2}) == Tea("green", 2.0)
    assert typed(Tea, tea := Tea("green", 2.0)) is tea
    with pytest.raises(CodecError, match="the state does not fit its type: Object missing"):
        typed(Tea, {"kind": "green"})
    with pytest.raises(CodecError, match="the state does not fit its type"):
        typed(int, object())
