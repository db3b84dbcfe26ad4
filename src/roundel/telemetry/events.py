"""What is around an address, from the inside out.

When an event happened, as OpenTelemetry counts time.

The names of things: of workflows, agents, tools.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from roundel.kernel.events import Event
from roundel.workflow.graph import Node

_SEPARATORS = "/.[#"
"""Names in addresses hold none of these; they are escaped there."""


def enclosing_addresses(address: str) -> Iterator[str]:
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


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
NANOSECONDS_PER_SECOND = 1_000_000_000


@lru_cache(maxsize=16)  # events of one step share a timestamp
def to_nanoseconds(timestamp: str) -> int:
    """Since 1970, from the timestamp of an event."""
    return (datetime.fromisoformat(timestamp) - _EPOCH) // _MICROSECOND * 1000


MAX_NAMES = 200
MAX_RUNS = 1000
OTHER = "(other)"


class LabelLimiter:
    """Names as labels of metrics. There is a series for each, so all beyond the first ones are called the
    same: a model may ask for tools that it makes up, and a server may run any workflow."""

    def __init__(self, max_names: int = MAX_NAMES) -> None:
        self._known: set[str] = set()
        self._max_names = max_names

    def __call__(self, name: str) -> str:
        if name not in self._known:
            if len(self._known) >= self._max_names:
                return OTHER
            self._known.add(name)
        return name


class RunRegistry:
    """What is known of the runs that were seen lately: their workflow, and which nodes are agents."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, tuple[str, frozenset[str]]] = OrderedDict()

    def register(self, run_id: str, workflow: str, agents: Iterable[str] = ()) -> None:
        self._runs[run_id] = workflow, frozenset(agents)
        if len(self._runs) > MAX_RUNS:
            self._runs.popitem(last=False)

    def lookup(self, event: Event) -> tuple[str, frozenset[str]]:
        """Of the run that an event tells of; nothing if it began elsewhere, and nobody has said."""
        if event.event == "run_started" and event.run_id not in self._runs:
            self.register(event.run_id, event.data.get("workflow", ""))
        return self._runs.get(event.run_id, ("", frozenset()))


def agent_ids(nodes: Iterable[Node]) -> list[str]:
    return [node.id for node in nodes if node.kind.speaks]
