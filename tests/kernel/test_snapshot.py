"""A run restored from a snapshot continues as if it had never been interrupted."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from roundel.kernel.facts import InterceptPoints, decode_entry
from roundel.kernel.snapshot import (
    LONG,
    SNAPSHOTS,
    VERSION,
    PlanIndex,
    SnapshotError,
    StoredSnapshot,
    checksum,
    decode,
    thaw,
)
from roundel.kernel.step import replay
from roundel.nodes.loop_controllers import LoopController
from roundel.plan.graph import Plan
from tests.kernel import graphs, loop_agents
from tests.kernel.frozen import copied, frozen, thawed
from tests.kernel.simulator import Script, Simulator, plan_of

NONE = InterceptPoints()


def frozen_at_every_step(
    make: Callable[[], Plan], script: Script, text: str, seed: int, intercepts: InterceptPoints = NONE
) -> int:
    """Runs once as it is, once with a new state, made from a snapshot, before each step.

    The states take turns on two plans, so that each is restored on another plan than it was made on."""
    chooser = random.Random(seed)
    choices: list[int] = []

    def choose(count: int) -> int:
        choices.append(chooser.randrange(count))
        return choices[-1]

    plans = (make(), make())
    plain = Simulator(plans[0], script, choose).start(text, intercepts).finish()
    again = iter(choices)
    other = Simulator(plans[0], script, lambda _count: next(again)).start(text, intercepts)
    steps = 0
    while other.in_flight:
        other.state = copied(other.state, plans[steps % 2 - 1])
        waiting = {call.address: call.command for call in other.state.calls.values()}
        other.in_flight = [waiting[command.address] for command in other.in_flight]  # type: ignore[misc]
        command = other.in_flight.pop(next(again))
        other.apply(other.answer(command))
        steps += 1
    assert other.events == plain.events
    assert [*map(decode_entry, other.journal)] == [*map(decode_entry, plain.journal)]
    return steps


@pytest.mark.parametrize("block", range(2))
def test_random_graphs(block: int) -> None:
    steps = 0
    for seed in range(block * 80, block * 80 + 80):
        workflow, text, script = graphs.case(seed)
        steps += frozen_at_every_step(partial(plan_of, workflow), script, text, seed)
    assert steps > 500


def test_random_loop_agents() -> None:
    steps = 0
    for seed in range(80):
        workflow, text, script, _ = loop_agents.case(seed)
        make = partial(plan_of, workflow, loop_agents.FUNCTIONS)
        steps += frozen_at_every_step(make, script, text, seed)
    assert steps > 400


def test_a_snapshot_equals_the_replay_of_the_journal() -> None:
    workflow, text, script = graphs.case(7)
    run = Simulator(plan_of(workflow), script).start(text).finish()
    plan = plan_of(workflow)
    replayed, _ = replay(plan, map(decode_entry, run.journal))
    assert copied(run.state, plan).summary() == replayed.summary() == run.state.summary()


@pytest.mark.parametrize("body", [b"", b"junk", b"x\x9c\x03\x00\x00\x00\x00\x01"])
def test_invalid_snapshot_is_rejected(body: bytes) -> None:
    with pytest.raises(SnapshotError):
        decode(body, PlanIndex(plan_of(graphs.case(1)[0])))


def test_snapshot_references_no_foreign_code() -> None:
    index = PlanIndex(plan_of(graphs.case(1)[0]))
    cases: list[tuple[dict[str, list[str]], list[Any]]] = [
        ({}, [["s", "os:system", "echo"]]),
        ({"os:system": []}, []),
    ]
    for shapes, table in cases:
        stored = StoredSnapshot(index.fingerprint, shapes, table, [], checksum(()))
        body = zlib.compress(SNAPSHOTS.encode_versioned(stored))
        with pytest.raises(SnapshotError, match="no 'os:system' in this version"):
            thaw(decode(body, index), [], index)


def changed(**fields: Any) -> bytes:
    run = Simulator(plan_of(graphs.case(7)[0]), {}).start("go")
    stored = SNAPSHOTS.decode_versioned(zlib.decompress(frozen(run.state)[0]))
    return zlib.compress(SNAPSHOTS.encode_versioned(replace(stored, **fields)))


def of_version(version: int) -> bytes:
    _, _, encoded = zlib.decompress(changed()).partition(b" ")
    return zlib.compress(b"%d %b" % (version, encoded))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (of_version(VERSION + 1), f"a snapshot of version {VERSION + 1}: this program knows {VERSION}"),
        (of_version(VERSION - 1), f"a snapshot of version {VERSION - 1}: this program knows {VERSION}"),
        (changed(fingerprint=7), "it was made with another workflow"),
        (
            changed(shapes={"GraphInstance": ["plan"]}),
            "another version: the fields of 'GraphInstance' have changed",
        ),
        (
            changed(shapes={"state.iteration": ["body"]}),
            "the fields of 'state.iteration' have changed",
        ),
    ],
)
def test_a_snapshot_of_another_version_is_refused(body: bytes, why: str) -> None:
    with pytest.raises(SnapshotError, match=why):
        decode(body, PlanIndex(plan_of(graphs.case(7)[0])))


def test_a_controller_with_other_fields_refuses_an_older_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = {"nodes": [{"id": "A", "type": "agent"}], "start": "A", "end": "A"}
    config = {"body": body, "strategy": {"mode": "count", "max": 2}}
    workflow = {"graph": {"nodes": [{"id": "Loop", "type": "loop_agent", "config": config}], "start": "Loop"}}
    run = Simulator(plan_of(workflow), {}).start("go")
    assert copied(run.state, plan_of(workflow)).calls.keys() == run.state.calls.keys()
    before = LoopController.__init__

    def newer(self: LoopController, *arguments: Any, **named: Any) -> None:
        before(self, *arguments, **named)
        self.pace = 1  # type: ignore[attr-defined]

    written, texts = frozen(run.state)
    monkeypatch.setattr(LoopController, "__init__", newer)
    with pytest.raises(SnapshotError, match="another version: 'CountController' stores other fields"):
        thawed(written, plan_of(workflow), texts)


def test_long_text_is_stored_once_beside_the_snapshot() -> None:
    """The input of a run stands in several queues at once."""
    workflow = graphs.case(7)[0]
    text = "".join(map(str, range(LONG)))
    run = Simulator(plan_of(workflow), {}).start(text)
    body, texts = frozen(run.state)
    assert texts == [text]
    assert text not in zlib.decompress(body).decode()
    assert thawed(body, plan_of(workflow), texts).input == run.state.input
    with pytest.raises(SnapshotError, match="its texts are not the ones"):
        thawed(body, plan_of(workflow), ["another text"])
