"""Money, counted in whole picodollars (10⁻¹² dollars).

Binary fractions do not add up: three calls of 0.10 dollars are more than 0.30. Whole numbers do, so a limit
of 0.30 pays for three such calls. A token of the cheapest models costs some ten thousand picodollars.
"""

from __future__ import annotations

PICO = 10**12


def picodollars(dollars: float) -> int:
    return round(dollars * PICO)


def dollars(picodollars: int) -> float:
    return picodollars / PICO


def total(amounts: list[float]) -> float:
    """The sum of amounts in dollars."""
    return dollars(sum(map(picodollars, amounts)))
