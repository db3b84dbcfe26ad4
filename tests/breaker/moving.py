"""Live series: loops that make progress, of 75 kinds, while most of what they say stays the same.

The texts are made from templates and depend on nothing but the kind and its seed. Every third series is long.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.breaker import moving_code, moving_figures, moving_plans, moving_talks, moving_texts
from tests.breaker.series import Series
from tests.breaker.stock import Kind, vary

KINDS: tuple[Kind, ...] = (
    *moving_code.KINDS,
    *moving_figures.KINDS,
    *moving_texts.KINDS,
    *moving_talks.KINDS,
    *moving_plans.KINDS,
)
VARIANTS = 15


def moving() -> Iterator[Series]:
    return vary(KINDS, VARIANTS, long_every=3)
