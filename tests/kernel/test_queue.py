"""Messages queue at a node in the order of the workflow, not in the order of arrival."""

from __future__ import annotations

import random

import pytest

from roundel.kernel.queue import Arrival, Key, admit, compact, retain
from roundel.plan.graph import EdgePlan
from roundel.workflow.message import Message
from tests.kernel.simulator import plan_of


def edges() -> list[EdgePlan]:
    """One that adds, one that clears, one that clears what was kept, one that clears all."""
    settings: list[dict[str, bool]] = [
        {},
        {"clear_context": True},
        {"clear_kept_context": True},
        {"clear_context": True, "clear_kept_context": True},
    ]
    nodes = [{"id": name, "type": "passthrough"} for name in "ABCDT"]
    ways = [{"from": name, "to": "T", **fields} for name, fields in zip("ABCD", settings, strict=True)]
    return list(plan_of({"graph": {"nodes": nodes, "edges": ways, "start": list("ABCD")}}).graph.edges)


def texts(queue: list[Message]) -> list[str]:
    return [message.text for message in queue]


def waiting(keys: list[Key]) -> list[Arrival]:
    adding = edges()[0]
    return [(key, adding, Message(str(key))) for key in keys]


def test_messages_are_admitted_by_round_layer_and_file_order() -> None:
    order: list[Key] = [(1, 0, 0), (1, 0, 3), (1, 2, 1), (2, 0, 0), (2, 1, 0, 1, 0, 2), (2, 1, 0, 2, 0, 0)]
    for seed in range(20):
        mixed = random.Random(seed).sample(order, len(order))
        queue = [Message("kept from before")]
        assert admit(queue, waiting(mixed), None) == []
        assert texts(queue) == ["kept from before", *map(str, order)]


@pytest.mark.parametrize(
    ("key", "comes"),
    [
        ((1, 0, 9), True),  # an earlier layer
        ((1, 1, 0), False),  # the same layer, earlier in the file: it is at work at the same time
        ((1, 1, 5), False),
        ((1, 2, 0), False),  # a later layer
        ((2, 0, 0), False),  # a later round
        ((0, 5, 0), True),  # an earlier round
        ((1, 1, 3, 1, 0, 0), False),  # inside of the node itself
    ],
)
def test_messages_from_the_same_or_a_later_layer_wait_for_the_next_round(key: Key, comes: bool) -> None:
    queue: list[Message] = []
    arrivals = waiting([key])
    late = admit(queue, list(arrivals), (1, 1, 3))
    assert (texts(queue), late) == (([str(key)], []) if comes else ([], arrivals))


@pytest.mark.parametrize("before", [None, (1, 2, 0)])
def test_compaction_drops_only_messages_that_the_loop_clears_later(before: Key | None) -> None:
    """What others clear is no reason: it may come in later than what the loop has sent."""
    ways, spared = edges(), 0
    for seed in range(400):
        chance = random.Random(seed)
        arrivals: list[Arrival] = []
        for number in range(chance.randrange(1, 8)):
            inside = (1, 1, 0) if chance.random() < 0.7 else (1, chance.choice([0, 2]), 0)
            message = Message(str(number), keep=chance.random() < 0.5) if chance.random() < 0.8 else None
            arrivals.append(((*inside, number, 0, 0), chance.choice(ways), message))
        chance.shuffle(arrivals)
        queue = [Message("before"), Message("kept before", keep=True)]
        fewer = compact(list(arrivals), (1, 1, 0))
        spared += len(arrivals) - len(fewer)
        expected, found = list(queue), list(queue)
        late = admit(expected, list(arrivals), before)
        assert (admit(found, fewer, before), found) == (late, expected), seed
    assert spared > 100


def test_compaction_keeps_the_last_message_of_a_clearing_edge() -> None:
    _, clears, _, clears_all = edges()
    for edge in (clears, clears_all):
        drafts: list[Arrival] = [((1, 1, 0, n, 0, 0), edge, Message(str(n))) for n in range(10)]
        assert [arrival[0][3] for arrival in compact(drafts, (1, 1, 0))] == [9]


def test_compaction_drops_kept_messages_before_an_edge_that_clears_them() -> None:
    adds, _, clears_kept, _ = edges()
    drafts: list[Arrival] = [((1, 1, 0, n, 0, 0), adds, Message(str(n), keep=True)) for n in range(9)]
    drafts.append(((1, 1, 0, 9, 0, 0), clears_kept, Message("last")))
    assert [arrival[0][3] for arrival in compact(drafts, (1, 1, 0))] == [9]


@pytest.mark.parametrize(
    ("window", "stays"),
    [(0, "bd"), (-1, "abcde"), (1, "bd"), (2, "bd"), (3, "bde"), (4, "bcde"), (5, "abcde"), (9, "abcde")],
)
def test_retained_messages_after_a_node_execution(window: int, stays: str) -> None:
    taken = tuple(Message(name, keep=name in "bd") for name in "abcde")
    assert texts(retain(taken, window)) == list(stays)
