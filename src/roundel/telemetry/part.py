"""A part of a run, from where it begins or goes on to where it comes to rest, and what is open in it."""

from __future__ import annotations

from typing import Any

from opentelemetry.trace import Span, Status, StatusCode, Tracer, set_span_in_context

from roundel.telemetry.addresses import around
from roundel.telemetry.conventions import ERROR_TYPE, STATUS

LONGEST_REASON = 1000


class Open:
    """A span that has begun, and those inside of it."""

    __slots__ = (
        "address",
        "agent",
        "cost",
        "inside",
        "kind",
        "last",
        "name",
        "parent",
        "read",
        "span",
        "used",
        "written",
    )

    def __init__(
        self, kind: str, name: str, address: str, span: Span, start: int, parent: Open | None
    ) -> None:
        self.kind = kind
        """`run`, `node`, `round` or `tool`."""
        self.name = name
        self.address = address
        self.span = span
        self.parent = parent
        self.inside: dict[str, Open] = {}
        self.last = start
        """When something last happened in it."""
        self.used = self.agent = False
        self.read = self.written = 0
        self.cost = 0  # in picodollars

    def touch(self, now: int) -> None:
        place: Open | None = self
        while place is not None and place.last < now:
            place.last = now
            place = place.parent

    def fail(self, reason: str, kind: str = "failed") -> None:
        self.span.set_attribute(ERROR_TYPE, kind)
        self.span.set_status(Status(StatusCode.ERROR, reason[:LONGEST_REASON]))


class Part:
    def __init__(
        self, tracer: Tracer, root: Span, start: int, seq: int, content: bool, agents: frozenset[str]
    ) -> None:
        self._tracer = tracer
        self._open: dict[str, Open] = {}
        self.root = Open("run", "", "", root, start, None)
        self.since = start
        self.seq = seq
        """The number of the last event that was seen."""
        self.agents = agents
        self.content = content
        """Whether to record what was said."""

    def get(self, address: str) -> Open | None:
        return self._open.get(address)

    def nearest(self, address: str | None) -> Open:
        """What is at an address, or else the nearest around it."""
        if not address:
            return self.root
        return self._open.get(address) or self.holder(address)

    def holder(self, address: str) -> Open:
        """The nearest around an address."""
        for place in around(address):
            found = self._open.get(place)
            if found is not None and found.kind != "tool":  # `mean#2` is not inside of `mean`
                return found
        return self.root

    def begin(
        self, kind: str, name: str, address: str, title: str, start: int, attributes: dict[str, Any]
    ) -> Open:
        parent = self.holder(address)
        context = set_span_in_context(parent.span)
        span = self._tracer.start_span(title, context, attributes=attributes, start_time=start)
        begun = Open(kind, name, address, span, start, parent)
        self._open[address] = parent.inside[address] = begun
        parent.used = True
        parent.touch(start)
        return begun

    def end(self, ended: Open, now: int, status: str = "") -> None:
        """Ends a span, and first whatever is still open inside of it."""
        for one in list(ended.inside.values()):
            self.end(one, now, status)
        if status:
            ended.span.set_attribute(STATUS, status)
        ended.span.end(now)
        if ended.parent is not None:
            ended.parent.touch(now)
            ended.parent.inside.pop(ended.address, None)
            self._open.pop(ended.address, None)

    def end_rounds(self, holder: Open, loop: str, idle: bool) -> None:
        """Ends the rounds of a loop, each when something last happened in it; with `idle` only those in which
        nothing is at work any more."""
        rounds = [one for one in holder.inside.values() if one.kind == "round" and one.name == loop]
        for one in rounds:
            if not idle or (one.used and not one.inside):
                self.end(one, one.last)
