"""Layered drawing: the order of items in their ranks, then where they stand from left to right.

Items in neighbouring ranks are joined by links; a longer way is a chain of links through items of no
width. The order is found by sweeps that put each item at the mean of those it is linked to, keeping the
order with the fewest crossings. The places come from the same wish, solved exactly for one rank at a time:
the nearest places to the wished ones, in least squares, that keep the order and the distances.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass

ORDER_SWEEPS = 16
PLACE_SWEEPS = 400
EFFORT = 60_000
"""How many items are placed at most before it has to be good enough."""
STILL = 0.02


@dataclass(slots=True, eq=False)
class Item:
    rank: int
    left: float = 0
    """How far it reaches to the left of its x."""
    right: float = 0
    height: float = 0
    margin: float = 7
    solid: bool = False
    """A part; otherwise a bend or a label, which gives way."""
    x: float = 0
    slot: int = 0
    """Its number in its rank."""


@dataclass(slots=True, eq=False)
class Link:
    upper: Item
    lower: Item
    weight: float = 1
    above: float = 0
    """Where it starts, from the upper item's x."""
    below: float = 0


Ranks = list[list[Item]]
Links = list[Link]
Neighbours = dict[Item, list[tuple[Item, float, float, float]]]
"""Item, weight, from the neighbour's x, from its own."""


def arrange(ranks: Ranks, links: Links) -> None:
    """Orders the items of each rank in place."""
    up, down = _neighbours(links)
    _number(ranks)
    best, fewest = [list(rank) for rank in ranks], _crossings(ranks, links)
    for sweep in range(ORDER_SWEEPS if fewest else 0):
        near = up if sweep % 2 == 0 else down
        for rank in ranks if sweep % 2 == 0 else reversed(ranks):
            rank.sort(key=lambda item: _mean_slot(item, near))
            _number([rank])
        crossings = _crossings(ranks, links)
        if crossings < fewest:
            best, fewest = [list(rank) for rank in ranks], crossings
    ranks[:] = best
    _number(ranks)


def place(ranks: Ranks, links: Links) -> None:
    """Gives each item its x; the leftmost item begins at 0."""
    up, down = _neighbours(links)
    for rank in ranks:
        _spread(rank, [0.0] * len(rank), [1.0] * len(rank))
    items = sum(len(rank) for rank in ranks)
    for sweep in range(min(PLACE_SWEEPS, 20 + EFFORT // max(1, items))):
        downwards = sweep % 2 == 0
        # First the whole shape, from one side at a time; then the fine balance between both sides.
        sides = (up, down) if sweep >= 12 else (up,) if downwards else (down,)
        moved = max(_settle(rank, sides) for rank in (ranks if downwards else reversed(ranks)))
        if moved < STILL and sweep > 12:
            break
    _straighten(ranks, down)
    edge = min((item.x - item.left for rank in ranks for item in rank), default=0)
    for rank in ranks:
        for item in rank:
            item.x -= edge


def _settle(rank: list[Item], sides: tuple[Neighbours, ...]) -> float:
    """Moves the items of a rank to where they wish to be; how far that took them at most."""
    before = [item.x for item in rank]
    wished = [_wish(item, sides) for item in rank]
    _spread(rank, [wish for wish, _ in wished], [weight for _, weight in wished])
    return max((abs(item.x - x) for item, x in zip(rank, before, strict=True)), default=0)


def _straighten(ranks: Ranks, down: Neighbours) -> None:
    """What is nearly above what it leads to goes straight down to it, if there is room."""
    for rank in reversed(ranks):
        wishes = [item.x if item.solid else _wish(item, (down,))[0] for item in rank]
        _spread(rank, wishes, [1000.0 if item.solid else 1.0 for item in rank])


def _number(ranks: Ranks) -> None:
    for rank in ranks:
        for slot, item in enumerate(rank):
            item.slot = slot


def _neighbours(links: Links) -> tuple[Neighbours, Neighbours]:
    up: Neighbours = {}
    down: Neighbours = {}
    for link in links:
        up.setdefault(link.lower, []).append((link.upper, link.weight, link.above, link.below))
        down.setdefault(link.upper, []).append((link.lower, link.weight, link.below, link.above))
    return up, down


def _mean_slot(item: Item, near: Neighbours) -> float:
    """Links at different places of one wide item count as next to each other, not as one."""
    found = near.get(item)
    if not found:
        return item.slot
    slots = (other.slot + theirs / (other.left + other.right + 1) for other, _, theirs, _ in found)
    return sum(slots) / len(found)


def _crossings(ranks: Ranks, links: Links) -> int:
    between: list[list[tuple[int, float, int, float]]] = [[] for _ in ranks]
    for link in links:
        between[link.upper.rank].append((link.upper.slot, link.above, link.lower.slot, link.below))
    count = 0
    for group in between:
        seen: list[tuple[int, float]] = []
        for *_, slot, offset in sorted(group):
            count += len(seen) - bisect_right(seen, (slot, offset))
            insort(seen, (slot, offset))
    return count


def _wish(item: Item, sides: tuple[Neighbours, ...]) -> tuple[float, float]:
    found = [neighbour for side in sides for neighbour in side.get(item, ())]
    total = sum(weight for _, weight, _, _ in found)
    if not total:
        return item.x, 0.1
    wished = sum(weight * (other.x + theirs - own) for other, weight, theirs, own in found)
    return wished / total, total


def _spread(rank: list[Item], wishes: list[float], weights: list[float]) -> None:
    """Isotonic regression, by pooling neighbours that want to be too close."""
    shifts, at = [], 0.0
    for number, item in enumerate(rank):
        if number:
            before = rank[number - 1]
            at += before.right + before.margin + item.margin + item.left
        shifts.append(at)
    pools: list[tuple[float, float, int]] = []  # (mean, weight, how many)
    for wish, weight, shift in zip(wishes, weights, shifts, strict=True):
        mean, total, count = wish - shift, weight, 1
        while pools and pools[-1][0] > mean:
            other, heavy, more = pools.pop()
            mean = (mean * total + other * heavy) / (total + heavy)
            total, count = total + heavy, count + more
        pools.append((mean, total, count))
    places = [mean for mean, _, count in pools for _ in range(count)]
    for item, place_, shift in zip(rank, places, shifts, strict=True):
        item.x = place_ + shift
