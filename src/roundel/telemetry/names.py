"""Names as labels of metrics. There is a series for each, so there must not be any number of them."""

from __future__ import annotations

from collections import OrderedDict

MOST_NAMES = 200
MOST_RUNS = 1000
OTHER = "(other)"


class Names:
    """Lets the first names through, and calls all further ones the same: a model may ask for tools that it
    makes up, and a server may run any workflow."""

    def __init__(self, most: int = MOST_NAMES) -> None:
        self._known: set[str] = set()
        self._most = most

    def __call__(self, name: str) -> str:
        if name not in self._known:
            if len(self._known) >= self._most:
                return OTHER
            self._known.add(name)
        return name


class Workflows:
    """Which workflow a run is of, for the runs that were seen lately. Only its first event says so."""

    def __init__(self) -> None:
        self._names: OrderedDict[str, str] = OrderedDict()

    def note(self, run_id: str, workflow: str) -> None:
        self._names[run_id] = workflow
        if len(self._names) > MOST_RUNS:
            self._names.popitem(last=False)

    def of(self, run_id: str) -> str:
        """Empty if nobody knows: the run has begun elsewhere."""
        return self._names.get(run_id, "")
