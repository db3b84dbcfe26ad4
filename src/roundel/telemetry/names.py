"""The names of things: of workflows, agents, tools."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from roundel.kernel.events import Event
from roundel.workflow.graph import Node

MOST_NAMES = 200
MOST_RUNS = 1000
OTHER = "(other)"


class Names:
    """Names as labels of metrics. There is a series for each, so all beyond the first ones are called the
    same: a model may ask for tools that it makes up, and a server may run any workflow."""

    def __init__(self, most: int = MOST_NAMES) -> None:
        self._known: set[str] = set()
        self._most = most

    def __call__(self, name: str) -> str:
        if name not in self._known:
            if len(self._known) >= self._most:
                return OTHER
            self._known.add(name)
        return name


class Known:
    """What is known of the runs that were seen lately: their workflow, and which nodes are agents."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, tuple[str, frozenset[str]]] = OrderedDict()

    def note(self, run_id: str, workflow: str, agents: Iterable[str] = ()) -> None:
        self._runs[run_id] = workflow, frozenset(agents)
        if len(self._runs) > MOST_RUNS:
            self._runs.popitem(last=False)

    def hear(self, event: Event) -> tuple[str, frozenset[str]]:
        """Of the run that an event tells of; nothing if it began elsewhere, and nobody has said."""
        if event.event == "run_started" and event.run_id not in self._runs:
            self.note(event.run_id, event.data.get("workflow", ""))
        return self._runs.get(event.run_id, ("", frozenset()))


def agents_among(nodes: Iterable[Node]) -> list[str]:
    return [node.id for node in nodes if node.kind.speaks]
