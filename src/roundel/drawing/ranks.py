"""Layered drawing: the order of items in their ranks, then their x.

Items in neighbouring ranks are joined by links; a longer connector is a chain of links through items
without width.

The order comes from sweeps that put each item at the mean position of its neighbours (the barycentre
heuristic of Sugiyama's method). The best order seen, with the fewest crossings, is used, since sweeps do
not improve steadily. An exact minimum of crossings is NP-hard, and a few sweeps come close.

The x minimise the weighted squares of how far links move sideways, while items keep their order and
distances. For one rank this has an exact solution (isotonic regression), so sweeps down and up solve
rank after rank until nothing moves. Nearly all the time of a layout is spent in these sweeps. Hence a
rank is solved again only after one of its neighbours has moved, and everything that stays the same
between sweeps (distances, weights, offsets) is computed once.

Everything here is deterministic: sorts are stable, and no set or dictionary order decides, so that equal
graphs have equal drawings.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass
from math import inf

ORDER_SWEEPS = 16
SHAPE_SWEEPS = 12
"""Sweeps that look at one side only: the whole shape comes first, then the balance between both
sides."""
PLACE_SWEEPS = 200
EFFORT = 60_000
"""The number of items that `_balance` may place, in addition to two sweeps over all: a bound on the
time."""
FULL_EFFORT = 20_000
"""The number of items in a drawing up to which it gets all sweeps."""
KINK = 6
"""A line that moves sideways by fewer pixels than this, only to balance its ends, is made straight."""
STILL = 0.05
"""A rank that moves less than this many pixels does not disturb its neighbours."""


@dataclass(slots=True, eq=False)
class RankItem:
    """Something in a rank: a part, a label, or a point of a line. layout.py creates it."""

    rank: int
    left: float = 0
    """How far it extends to the left of its x."""
    right: float = 0
    height: float = 0
    margin: float = 7
    solid: bool = False
    """Whether it is a part; otherwise it is a bend or a label, which gives way."""
    x: float = 0
    slot: int = 0
    """Its number in its rank."""


@dataclass(slots=True, eq=False)
class Link:
    """A line between items of neighbouring ranks; layout.py creates it."""

    upper: RankItem
    lower: RankItem
    weight: float = 1
    above: float = 0
    """Where it starts, relative to the upper item's x."""
    below: float = 0


Ranks = list[list[RankItem]]
Links = list[Link]
Neighbours = dict[RankItem, list[tuple[RankItem, float]]]
"""The items that an item is linked to, and where the link meets each, as a share of its width."""
Pulls = dict[RankItem, tuple[float, list[tuple[RankItem, float, float]]]]
"""The sum of the weights of an item's links; and for each the neighbour, the weight, and the distance
between the two x at which the link is straight."""


def effort_for(items: int) -> float:
    """The share of the sweeps that a drawing of this many items gets, so that larger ones take no longer
    than one of FULL_EFFORT."""
    return min(1.0, FULL_EFFORT / max(1, items))


def arrange(ranks: Ranks, links: Links, effort: float = 1.0) -> None:
    """Orders the items of each rank in place."""
    up, down = _neighbours(links)
    _number(ranks)
    best, fewest = [list(rank) for rank in ranks], _crossings(ranks, links)
    for sweep in range(max(2, round(ORDER_SWEEPS * effort)) if fewest else 0):
        # Down the ranks by the items above, then up by the items below, alternately.
        near = up if sweep % 2 == 0 else down
        for rank in ranks if sweep % 2 == 0 else reversed(ranks):
            if len(rank) > 1:
                means = {item: _mean_slot(item, near) for item in rank}
                rank.sort(key=means.__getitem__)
                _number([rank])
        crossings = _crossings(ranks, links)
        if crossings < fewest:
            best, fewest = [list(rank) for rank in ranks], crossings
        if not fewest:
            break
    ranks[:] = best
    _number(ranks)


def _number(ranks: Ranks) -> None:
    for rank in ranks:
        for slot, item in enumerate(rank):
            item.slot = slot


def _neighbours(links: Links) -> tuple[Neighbours, Neighbours]:
    up: Neighbours = {}
    down: Neighbours = {}
    for link in links:
        upper, lower = link.upper, link.lower
        up.setdefault(lower, []).append((upper, link.above / (upper.left + upper.right + 1)))
        down.setdefault(upper, []).append((lower, link.below / (lower.left + lower.right + 1)))
    return up, down


def _mean_slot(item: RankItem, near: Neighbours) -> float:
    """The mean position of the neighbours. The share separates links at different places of one wide
    item."""
    found = near.get(item)
    if not found:
        return item.slot
    return sum(other.slot + share for other, share in found) / len(found)


def _crossings(ranks: Ranks, links: Links) -> int:
    """The number of crossings: pairs of links between two ranks whose ends are in opposite order.

    Counted as inversions by binary search. To compare all pairs would be quadratic, in each of 16
    sweeps.
    """
    between: list[list[tuple[int, float, int, float]]] = [[] for _ in ranks]
    for link in links:
        between[link.upper.rank].append((link.upper.slot, link.above, link.lower.slot, link.below))
    count = 0
    for group in between:
        if len(group) < 2:
            continue
        seen: list[tuple[int, float]] = []
        for *_, slot, offset in sorted(group):
            count += len(seen) - bisect_right(seen, (slot, offset))
            insort(seen, (slot, offset))
    return count


def place(ranks: Ranks, links: Links, effort: float = 1.0) -> None:
    """Gives each item its x; the leftmost item begins at 0."""
    up, down = _pulls(links)
    solvers = [_Rank(rank) for rank in ranks]
    for solver in solvers:
        solver.spread([0.0] * len(solver.items), [1.0] * len(solver.items))
    # First the shape, by one side at a time; then the balance of both sides, from a good start.
    _shape(solvers, up, down, effort)
    _balance(solvers, _merge_pulls(up, down), effort)
    _straighten(solvers, down)
    _snap(ranks, links)
    edge = min((item.x - item.left for rank in ranks for item in rank), default=0)
    for rank in ranks:
        for item in rank:
            item.x -= edge


def _pulls(links: Links) -> tuple[Pulls, Pulls]:
    up: dict[RankItem, list[tuple[RankItem, float, float]]] = {}
    down: dict[RankItem, list[tuple[RankItem, float, float]]] = {}
    for link in links:
        shift = link.above - link.below
        up.setdefault(link.lower, []).append((link.upper, link.weight, shift))
        down.setdefault(link.upper, []).append((link.lower, link.weight, -shift))
    return _with_totals(up), _with_totals(down)


def _with_totals(found: dict[RankItem, list[tuple[RankItem, float, float]]]) -> Pulls:
    return {item: (sum(weight for _, weight, _ in near), near) for item, near in found.items()}


def _merge_pulls(one: Pulls, other: Pulls) -> Pulls:
    both = {item: [*one.get(item, (0, []))[1], *other.get(item, (0, []))[1]] for item in {**one, **other}}
    return _with_totals(both)


def _shape(solvers: list[_Rank], up: Pulls, down: Pulls, effort: float) -> None:
    for sweep in range(max(4, round(SHAPE_SWEEPS * effort))):
        moved = 0.0
        for solver in solvers if sweep % 2 == 0 else reversed(solvers):
            moved = max(moved, solver.settle(up if sweep % 2 == 0 else down))
        if moved < STILL:
            break


def _balance(solvers: list[_Rank], both: Pulls, effort: float) -> None:
    items = sum(len(solver.items) for solver in solvers)
    last = len(solvers) - 1
    stale = [True] * len(solvers)
    left = EFFORT * effort + 2 * items
    for sweep in range(PLACE_SWEEPS):
        moved = False
        for number in range(last + 1) if sweep % 2 == 0 else range(last, -1, -1):
            if not stale[number]:
                continue
            left -= len(solvers[number].items)
            if solvers[number].settle(both) >= STILL:
                moved = True
                stale[max(0, number - 1)] = stale[min(last, number + 1)] = True
            # Last, since the first and the last rank are their own neighbour in the line above: the rank
            # is now solved for the present x of its neighbours.
            stale[number] = False
        if not moved or left < 0:
            break


def _straighten(solvers: list[_Rank], down: Pulls) -> None:
    """Moves bends and labels straight above the item that they lead to, as far as there is space.

    The weights practically fix the parts.
    """
    for solver in reversed(solvers):
        wanted = [item.x if item.solid else _target_x(item, down)[0] for item in solver.items]
        solver.spread(wanted, [1000.0 if item.solid else 1.0 for item in solver.items])


def _snap(ranks: Ranks, links: Links) -> None:
    """Removes small kinks from long lines: items of a line that are nearly below each other get one
    x."""
    below = {link.upper: link.lower for link in links if not link.upper.solid and not link.lower.solid}
    inner = set(below.values())
    for first in below:  # in the order of the links: an aligned line leaves less space for the next one
        if first in inner:
            continue
        run, item = [first], below.get(first)
        while item is not None:
            if abs(item.x - run[-1].x) > KINK:
                _align(ranks, run)
                run = []
            run.append(item)
            item = below.get(item)
        _align(ranks, run)


def _align(ranks: Ranks, run: list[RankItem]) -> None:
    """Gives the items one x, if their neighbours leave space for it."""
    least, most = -inf, inf
    for item in run:
        rank = ranks[item.rank]
        if item.slot > 0:
            before = rank[item.slot - 1]
            least = max(least, before.x + before.right + before.margin + item.margin + item.left)
        if item.slot + 1 < len(rank):
            after = rank[item.slot + 1]
            most = min(most, after.x - after.left - after.margin - item.margin - item.right)
    if least <= most:
        x = min(most, max(least, sum(item.x for item in run) / len(run)))
        for item in run:
            item.x = x


def _target_x(item: RankItem, pulls: Pulls) -> tuple[float, float]:
    """Where the links of an item would be straight on average, and how strongly they pull."""
    found = pulls.get(item)
    if found is None:
        return item.x, 0.1  # without links it stays, but gives way to all others
    total, near = found
    if len(near) == 1:
        other, _, shift = near[0]
        return other.x + shift, total
    at = 0.0
    for other, weight, shift in near:
        at += weight * (other.x + shift)
    return at / total, total


class _Rank:
    """Solves one rank, whose order is fixed; `place` creates it."""

    def __init__(self, items: list[RankItem]) -> None:
        self.items = items
        self.shifts: list[float] = []
        """The distance of each item from the first one, if all are as close as possible."""
        at = 0.0
        for number, item in enumerate(items):
            if number:
                before = items[number - 1]
                at += before.right + before.margin + item.margin + item.left
            self.shifts.append(at)

    def settle(self, pulls: Pulls) -> float:
        """Moves the items to where their links pull them, and returns the largest move."""
        items = self.items
        if len(items) == 1:
            item = items[0]
            before, item.x = item.x, _target_x(item, pulls)[0]
            return abs(item.x - before)
        wanted, weights = [], []
        for item in items:
            at, weight = _target_x(item, pulls)
            wanted.append(at)
            weights.append(weight)
        return self.spread(wanted, weights)

    def spread(self, wanted: list[float], weights: list[float]) -> float:
        """Puts the items as near to `wanted` as order and distances allow; returns the largest move.

        Minus the least distances (`shifts`), the constraint is only that x does not decrease: isotonic
        regression. Pooling adjacent violators solves it exactly in linear time.
        """
        pools: list[tuple[float, float, int]] = []  # (mean, weight, how many)
        for at, weight, shift in zip(wanted, weights, self.shifts, strict=True):
            mean, total, count = at - shift, weight, 1
            while pools and pools[-1][0] > mean:
                other, heavy, more = pools.pop()
                mean = (mean * total + other * heavy) / (total + heavy)
                total, count = total + heavy, count + more
            pools.append((mean, total, count))
        means = [mean for mean, _, count in pools for _ in range(count)]
        moved = 0.0
        for item, mean, shift in zip(self.items, means, self.shifts, strict=True):
            x = mean + shift
            moved = max(moved, abs(item.x - x))
            item.x = x
        return moved
