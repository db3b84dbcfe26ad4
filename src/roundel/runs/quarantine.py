"""All that the nodes of a run gave, as it stands in the run's journal: kept apart, and read by no agent.

It is the journal that is read, so nothing is written twice, and nothing can be changed afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from msgspec import Struct

from roundel.hosts.pinning import plan_of
from roundel.journal.rebuilding import played
from roundel.journal.store import Store
from roundel.kernel.events import Event
from roundel.kernel.facts import Answered, Fact, Finished, Reviewed
from roundel.kernel.state import Run
from roundel.memory.confidence import confidence_of
from roundel.workflow.message import Message


class Quarantined(Struct, frozen=True):
    """A message that a node gave."""

    address: str
    node: str
    time: float
    content: str
    metadata: dict[str, Any] = {}
    """Its metadata and its data."""
    confidence: float | None = None


async def quarantine(store: Store, run_id: str) -> list[Quarantined]:
    """In the order in which it was given; of a run that was pruned, what is left.

    What nodes with `log_output: false` gave is not shown."""
    kept = await store.kept(run_id)
    if kept is not None:
        return [_quarantined_from_event(event, _seconds(event)) for event in kept if _shows_output(event)]
    plan = plan_of(await store.pinned(run_id))
    return list(_quarantined_messages(played(Run(plan), await store.entries(run_id), run_id)))


def _quarantined_messages(steps: Iterable[tuple[Fact, list[Event]]]) -> Iterator[Quarantined]:
    messages: dict[str, tuple[Message, ...]] = {}
    """What calls gave, by address, until their node is said to be done."""
    for fact, events in steps:
        if isinstance(fact, Finished):
            messages[fact.address] = fact.outcome.messages
        elif isinstance(fact, Answered):
            messages[fact.address] = (fact.message,)
        elif isinstance(fact, Reviewed) and fact.messages is not None:
            messages[fact.address] = fact.messages
        for event in filter(_shows_output, events):
            # A node that holds graphs, or that talks with its model, has no messages of one call.
            given_messages = messages.pop(event.address or "", ())
            if given_messages:
                yield from (_quarantined(event, message, fact.time) for message in given_messages)
            else:
                yield _quarantined_from_event(event, fact.time)


def _shows_output(event: Event) -> bool:
    data = event.data
    return event.event == "node_state_change" and data["status"] == "completed" and "output" in data


def _quarantined(event: Event, message: Message, time: float) -> Quarantined:
    fields = {**(message.metadata or {}), **(message.data or {})}
    confidence = confidence_of(message)
    return Quarantined(event.address or "", event.node_id or "", time, message.text, fields, confidence)


def _quarantined_from_event(event: Event, time: float) -> Quarantined:
    """As far as the event tells."""
    message = Message(event.data["output"], data=event.data.get("data"))
    return _quarantined(event, message, time)


def _seconds(event: Event) -> float:
    return datetime.fromisoformat(event.timestamp).timestamp()
