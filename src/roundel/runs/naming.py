"""How runs are named: by their id, by a beginning of it that fits no other, or `last`."""

from __future__ import annotations

from roundel.journal.store import NoRun, Store, StoreError

LAST = "last"


class Ambiguous(StoreError):
    """More than one run has an id that begins so."""


async def find(store: Store, name: str) -> str:
    """The id of the run that is meant; NoRun or Ambiguous if it is not clear which."""
    if name == LAST:
        rows = await store.rows(1)
        if not rows:
            raise NoRun(f"there are no runs in {store.location} yet")
        return rows[0].id
    found = await store.matching(name) if name else []
    if name in found:
        return name
    if not found:
        raise NoRun(
            f"there is no run '{name}' in {store.location}; `roundel runs` lists those that are there"
        )
    if len(found) > 1:
        raise Ambiguous(f"'{name}' may be any of {', '.join(found)}; give more of the id")
    return found[0]
