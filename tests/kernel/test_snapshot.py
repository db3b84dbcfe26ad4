"""A run that was frozen and thawed goes on as if nothing had happened."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from functools import partial

import msgspec
import pytest

from roundel.kernel.facts import Reviews, decode_entry
from roundel.kernel.plan_index import PlanIndex
from roundel.kernel.snapshot import LONG, VERSION, SnapshotError, checksum, decode, freeze, thaw
from roundel.kernel.state import Run
from roundel.kernel.step import replay
from roundel.plan.graph import Plan
from tests.kernel import graphs, loop_agents
from tests.kernel.simulator import Script, Simulator, plan_of

NONE = Reviews()


def frozen(run: Run) -> tuple[bytes, list[str]]:
    """A snapshot as bytes, and the long texts that it refers to."""
    found = freeze(run, PlanIndex(run.plan))
    return found.encode([[number, 0] for number in range(len(found.texts))]), found.texts


def thawed(body: bytes, plan: Plan, texts: list[str]) -> Run:
    index = PlanIndex(plan)
    stored = decode(body, index)
    return thaw(stored, [texts[source[0]] for source in stored.sources if not isinstance(source, str)], index)


def frozen_at_every_step(
    make: Callable[[], Plan], script: Script, text: str, seed: int, reviews: Reviews = NONE
) -> int:
    """Runs once as it is, once with a new state, made from a snapshot, before each step, on a new plan."""
    chooser = random.Random(seed)
    choices: list[int] = []

    def choose(count: int) -> int:
        choices.append(chooser.randrange(count))
        return choices[-1]

    plain = Simulator(make(), script, choose).start(text, reviews).finish()
    again = iter(choices)
    other = Simulator(make(), script, lambda _count: next(again)).start(text, reviews)
    steps = 0
    while other.at_work:
        body, texts = frozen(other.state)
        plan = make()
        other.state = thawed(body, plan, texts)
        waiting = {call.address: call.command for call in other.state.calls.values()}
        other.at_work = [waiting[command.address] for command in other.at_work]  # type: ignore[misc]
        command = other.at_work.pop(next(again))
        other.tell(other.answer(command))
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
    body, texts = frozen(run.state)
    assert thawed(body, plan, texts).summary() == replayed.summary() == run.state.summary()


@pytest.mark.parametrize("body", [b"", b"junk", b"x\x9c\x03\x00\x00\x00\x00\x01"])
def test_what_is_no_snapshot_is_refused(body: bytes) -> None:
    with pytest.raises(SnapshotError):
        decode(body, PlanIndex(plan_of(graphs.case(1)[0])))


def test_a_snapshot_names_no_code_but_ours() -> None:
    index = PlanIndex(plan_of(graphs.case(1)[0]))
    for shapes, table in (({}, [["s", "os:system", "echo"]]), ({"os:system": []}, [])):
        written = [VERSION, index.fingerprint, shapes, table, [], checksum(())]
        body = zlib.compress(msgspec.json.encode(written))
        with pytest.raises(SnapshotError, match="not ours"):
            thaw(decode(body, index), [], index)


def changed(part: int, value: object) -> bytes:
    run = Simulator(plan_of(graphs.case(7)[0]), {}).start("go")
    written = msgspec.json.decode(zlib.decompress(frozen(run.state)[0]))
    written[part] = value
    return zlib.compress(msgspec.json.encode(written))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (changed(0, VERSION + 1), f"it has the version {VERSION + 1}, not {VERSION}"),
        (changed(1, 7), "it was made with another workflow"),
        (changed(2, {"Instance": ["plan"]}), "another version: 'Instance' has other fields now"),
        (
            changed(2, {"roundel.kernel.execution:Turn": ["body"]}),
            "'roundel.kernel.execution:Turn' has other fields",
        ),
    ],
)
def test_a_snapshot_of_another_version_is_refused(body: bytes, why: str) -> None:
    with pytest.raises(SnapshotError, match=why):
        decode(body, PlanIndex(plan_of(graphs.case(7)[0])))


def test_a_long_text_stands_once_in_a_list_and_not_in_the_snapshot() -> None:
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
