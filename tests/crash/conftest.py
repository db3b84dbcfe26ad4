"""Counts how often processes were killed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conftest import KILLS


@pytest.fixture
def count_kills(record_property: Callable[[str, object], None]) -> Callable[[int], None]:
    return lambda number: record_property(KILLS, number)
