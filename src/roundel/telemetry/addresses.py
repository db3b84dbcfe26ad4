"""What is around an address, from the inside out."""

from __future__ import annotations

from collections.abc import Iterator

_SEPARATORS = "/.[#"
"""Names in addresses hold none of these; they are escaped there."""


def around(address: str) -> Iterator[str]:
    """Every place that may hold what is at an address, the nearest first.

    `Writer[3].Analyst[2]/mean` is in round 2 of the node `Writer[3]/Analyst`, in round 3 of the loop Writer:
    where the address of a node has a slash, its rounds have a dot."""
    while True:
        cut = max(map(address.rfind, _SEPARATORS))
        if cut < 0:
            return
        cut_at, address = address[cut], address[:cut]
        yield address
        if cut_at == "[":
            loop, dot, name = address.rpartition(".")
            if dot and "/" not in name:
                yield f"{loop}/{name}"
