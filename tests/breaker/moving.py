"""Live series: loops that make progress, of 75 kinds, while most of what they say stays the same.

The texts are made from templates and depend on nothing but the kind and its seed. Every third series is long.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.breaker import moving_code, moving_figures, moving_plans, moving_talks, moving_texts
from tests.breaker.series import Series
from tests.breaker.stock import Kind

KINDS: tuple[Kind, ...] = (
    *moving_code.KINDS,
    *moving_figures.KINDS,
    *moving_texts.KINDS,
    *moving_talks.KINDS,
    *moving_plans.KINDS,
)
VARIANTS = 15
SHORT, LONG = (6, 12), (15, 25)


def moving() -> Iterator[Series]:
    for kind in KINDS:
        for number in range(VARIANTS):
            chance = random.Random(f"{kind.__name__} {number}")
            rounds = chance.randint(*(LONG if number % 3 == 0 else SHORT))
            yield kind(chance, rounds)._replace(name=str(number))
