"""More live series, written apart from the moving ones: other work, other signs, other languages.

Whoever tunes the rule on the moving series can measure with these what it does to loops it was not made for.
Every second series is long.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.breaker import unseen_code, unseen_figures, unseen_languages, unseen_signs, unseen_texts
from tests.breaker.series import Series
from tests.breaker.stock import Kind

KINDS: tuple[Kind, ...] = (
    *unseen_code.KINDS,
    *unseen_figures.KINDS,
    *unseen_signs.KINDS,
    *unseen_languages.KINDS,
    *unseen_texts.KINDS,
)
VARIANTS = 12
SHORT, LONG = (6, 12), (15, 25)


def unseen() -> Iterator[Series]:
    for kind in KINDS:
        for number in range(VARIANTS):
            chance = random.Random(f"{kind.__name__} {number}")
            rounds = chance.randint(*(LONG if number % 2 == 0 else SHORT))
            yield kind(chance, rounds)._replace(name=str(number))
