"""The messages that wait at a node: how they arrive, what a run of the node takes, what is retained.

Nodes that run in parallel can finish in any order, but what a node sees must not depend on it. So a
message does not enter its target's queue at once: it waits beside it with a key, (round, layer, place in
the file), repeated inwards for nested loops. When the target runs, all messages from earlier rounds and
layers are admitted in the order of their keys, and clears happen in that order too
(docs/decisions/0004). An edge that is the only way to its target needs none of this: there the order of
arrival is the order of the plan, and the tuple per message is saved.
"""

from __future__ import annotations

from operator import itemgetter

from roundel.plan.graph import EdgePlan
from roundel.workflow.message import Message

Key = tuple[int, ...]
Arrival = tuple[Key, EdgePlan, Message | None]
Delivery = tuple[EdgePlan, int, Message | None, bool]
"""What an edge carries: the edge, the loops that it leaves, the message, and whether the edge fires."""
_key = itemgetter(0)


def arrive(queue: list[Message], edge: EdgePlan, message: Message | None) -> None:
    """Applies one message to a queue: clears first, as its edge demands, then appends."""
    if edge.clear:
        queue[:] = [waiting for waiting in queue if waiting.keep]
    if edge.clear_kept:
        queue[:] = [waiting for waiting in queue if not waiting.keep]
    if message is not None:
        queue.append(message)


def admit(queue: list[Message], arrivals: list[Arrival], before: Key | None) -> list[Arrival]:
    """Admits what was sent `before` (None: everything); returns what has to wait for the next run."""
    if len(arrivals) > 1:
        arrivals.sort(key=_key)
    late = []
    for arrival in arrivals:
        key, edge, message = arrival
        if before is None or _earlier(key, before):
            arrive(queue, edge, message)
        else:
            late.append(arrival)
    return late


def peek(queue: list[Message], arrivals: list[Arrival], before: Key | None) -> list[Message]:
    """The messages that a node would take, without taking them."""
    waiting = list(queue)
    admit(waiting, list(arrivals), before)
    return waiting


def compact(arrivals: list[Arrival], base: Key) -> list[Arrival]:
    """Drops arrivals that a later arrival of the same loop (its keys begin with `base`) clears anyway.

    A loop may send drafts to a node that runs only after it. With an edge that clears the context only
    the last draft counts, and the others need not wait there for ten thousand rounds.
    """
    left: list[Arrival] = []
    clear = clear_kept = False
    arrivals.sort(key=_key)
    for key, edge, message in reversed(arrivals):
        inside = key[: len(base)] == base
        if inside and message is not None and (clear_kept if message.keep else clear):
            message = None
        subsumed = (clear or not edge.clear) and (clear_kept or not edge.clear_kept)
        if message is not None or not inside or not subsumed:
            left.append((key, edge, message))
        clear, clear_kept = clear or (inside and edge.clear), clear_kept or (inside and edge.clear_kept)
    return left[::-1]


def _earlier(key: Key, than: Key) -> bool:
    """Whether one position is over before another begins: an earlier round or an earlier layer.

    A key is (round, layer, place in the file), repeated inwards from the whole graph. Two units of one
    layer run in parallel, so their places in the file do not order them.
    """
    for number, (one, other) in enumerate(zip(key, than, strict=False)):
        if one != other:
            return number % 3 != 2 and one < other
    return False


def retain(taken: tuple[Message, ...], window: int) -> list[Message]:
    """The messages that stay in the queue after a run that took all of them.

    Messages with `keep` always stay, and count against the window.
    """
    if window == 0:
        return [message for message in taken if message.keep]
    if window < 0:
        return list(taken)
    room = max(0, window - sum(message.keep for message in taken))
    others = [number for number, message in enumerate(taken) if not message.keep]
    newest = set(others[-room:] if room else ())
    return [message for number, message in enumerate(taken) if message.keep or number in newest]
