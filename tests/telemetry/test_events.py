"""The addresses that enclose an address."""

from __future__ import annotations

import pytest

from roundel.workflow.address import enclosing_addresses


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("Final", []),
        ("Writer[3]/Reviewer", ["Writer[3]", "Writer"]),
        ("Draft/Writer[2]/Critic", ["Draft/Writer[2]", "Draft/Writer", "Draft"]),
        ("Council[1]#2/Ada", ["Council[1]#2", "Council[1]", "Council"]),
        ("Analyst[2]/mean#2", ["Analyst[2]/mean", "Analyst[2]", "Analyst"]),
        ("Writer[3].Analyst[2]/mean", ["Writer[3].Analyst[2]", "Writer[3].Analyst", "Writer[3]/Analyst"]),
        ("A[1].B[2]/C", ["A[1].B[2]", "A[1].B", "A[1]/B", "A[1]", "A"]),
        ("Summariser#1.2", ["Summariser#1", "Summariser"]),
    ],
)
def test_enclosing_addresses_start_with_the_nearest(address: str, expected: list[str]) -> None:
    found = list(enclosing_addresses(address))
    assert found[: len(expected)] == expected
