"""The messages that wait at a node: how they arrive, what a run of the node takes, what stays.

Nodes that run at the same time may finish in any order, but what a node sees must not depend on it.
So a message does not go into its target's queue at once: it waits beside it with a key, (round, layer,
place in the file, and so on inwards for nested loops), and when the target runs, whatever was sent
before its own layer is put into the queue in the order of the keys. An edge that is its target's only way in
needs none of this.
"""

from __future__ import annotations

from operator import itemgetter

from roundel.plan.graph import EdgePlan
from roundel.workflow.message import Message

Key = tuple[int, ...]
Arrival = tuple[Key, EdgePlan, Message | None]
_key = itemgetter(0)


def arrive(queue: list[Message], edge: EdgePlan, message: Message | None) -> None:
    if edge.clear:
        queue[:] = [waiting for waiting in queue if waiting.keep]
    if edge.clear_kept:
        queue[:] = [waiting for waiting in queue if not waiting.keep]
    if message is not None:
        queue.append(message)


def admit(queue: list[Message], arrivals: list[Arrival], before: Key | None) -> list[Arrival]:
    """Lets in what was sent `before` (None: all of it); gives back what has to wait for the next time."""
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


def compact(arrivals: list[Arrival], base: Key) -> list[Arrival]:
    """Without what a later arrival of the same loop (its keys begin with `base`) will clear anyway.

    A loop may send drafts to a node that runs only once it is over; with an edge that clears the context
    only the last of them counts, and the others need not wait there for all of ten thousand rounds.
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
    """Whether what happened at one place was over before another: an earlier round, or an earlier layer.

    A key goes (round, layer, place in the file) inwards from the whole graph. Two units of one layer are
    at work at the same time, so their places in the file say nothing.
    """
    for number, (one, other) in enumerate(zip(key, than, strict=False)):
        if one != other:
            return number % 3 != 2 and one < other
    return False


def retain(taken: tuple[Message, ...], window: int) -> list[Message]:
    """What stays in the queue after a run that took all of it."""
    if window == 0:
        return [message for message in taken if message.keep]
    if window < 0:
        return list(taken)
    room = max(0, window - sum(message.keep for message in taken))
    others = [number for number, message in enumerate(taken) if not message.keep]
    newest = set(others[-room:] if room else ())
    return [message for number, message in enumerate(taken) if message.keep or number in newest]
