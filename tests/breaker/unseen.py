"""More live series, written apart from the moving ones: other work, other signs, other languages.

They show what rules that were tuned on the moving series do to loops that they were not made for.
Every second series is long.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.breaker import unseen_code, unseen_figures, unseen_languages, unseen_signs, unseen_texts
from tests.breaker.series import Series
from tests.breaker.stock import Kind, vary

KINDS: tuple[Kind, ...] = (
    *unseen_code.KINDS,
    *unseen_figures.KINDS,
    *unseen_signs.KINDS,
    *unseen_languages.KINDS,
    *unseen_texts.KINDS,
)
VARIANTS = 12


def unseen() -> Iterator[Series]:
    return vary(KINDS, VARIANTS, long_every=2)
