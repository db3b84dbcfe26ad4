"""A span for each round of a loop. No event says that one is over: it ends with what happened last in it."""

from __future__ import annotations

from typing import Any

from roundel.kernel.events import Event
from roundel.telemetry.conventions import ADDRESS, LOOP, ROUND, RUN_ID
from roundel.telemetry.notes import note
from roundel.telemetry.part import Part


def on_round_started(part: Part, event: Event, now: int) -> None:
    address, loop = event.address or "", event.data.get("loop", "")
    same = part.get(address)
    if same is not None:
        part.end(same, same.last)
    part.end_rounds(part.holder(address), loop, idle=True)
    number = event.data.get("round", 0)
    attributes: dict[str, Any] = {RUN_ID: event.run_id, LOOP: loop, ROUND: number, ADDRESS: address}
    part.begin("round", loop, address, f"round {loop}", now, attributes)


def on_loop_exit(part: Part, event: Event, now: int) -> None:
    """A loop of edges is left in its last round, any other at its node."""
    note(part, event, now)
    place = part.nearest(event.address)
    holder = place.parent if place.kind == "round" and place.parent is not None else place
    part.end_rounds(holder, event.data.get("loop", ""), idle=False)
