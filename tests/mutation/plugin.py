"""A pytest plugin: notes which tests execute which lines, or runs those that execute a changed line.

`MUTATION_NOTE` names a file to write the notes to. `MUTATION_NOTES` names one to read, and `MUTATION_LINE`
the module and the lines that were changed; the quickest tests come first, and those that took longer than
`MUTATION_LONGEST` seconds are left out. Random examples are fewer, the same each time, and not shrunk.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from coverage import Coverage
from hypothesis import HealthCheck, Phase, settings
from msgspec import Struct

PHASES = (Phase.explicit, Phase.generate)
EXAMPLES = 60


class Notes(Struct):
    """What was noted of all tests while nothing was mutated."""

    seconds: dict[str, float] = {}
    """By test; all of them passed."""
    names: list[str] = []
    """Of tests; an empty one stands for imports."""
    lines: dict[str, dict[str, list[int]]] = {}
    """By module and line, who executes it in the process of the tests: places in `names`."""


class Noting:
    def __init__(self, into: Path) -> None:
        self._into = into
        self._notes = Notes()
        self._coverage = Coverage(data_file=None, source_pkgs=["roundel.kernel", "roundel.plan"])
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._coverage.switch_context(item.nodeid)
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        noted = self._notes.seconds
        noted[report.nodeid] = noted.get(report.nodeid, 0.0) + report.duration

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        data = self._coverage.get_data()
        names: dict[str, int] = {}
        for file in data.measured_files():
            path = "roundel/" + file.rpartition("/roundel/")[2]
            contexts = data.contexts_by_lineno(file)
            self._notes.lines[path] = {
                str(line): [names.setdefault(test, len(names)) for test in tests]
                for line, tests in contexts.items()
            }
        self._notes.names = list(names)
        self._into.write_bytes(msgspec.json.encode(self._notes))


class Selecting:
    """Leaves out the tests that cannot notice. Those that start processes of their own may."""

    def __init__(self, notes: Notes, path: str, lines: range, longest: float) -> None:
        self._longest = longest
        self._seconds = notes.seconds
        noted = notes.lines.get(path, {})
        self._touched = {notes.names[place] for line in lines for place in noted.get(str(line), ())}
        self._everything = "" in self._touched

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        chosen = [item for item in items if self._may_notice(item.nodeid)]
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = sorted(chosen, key=self._order)

    def _may_notice(self, test: str) -> bool:
        if self._seconds.get(test, 0.0) > self._longest:
            return False
        apart = test.startswith("tests/conformance/")
        return apart or self._everything or test in self._touched or test not in self._seconds

    def _order(self, item: pytest.Item) -> float:
        return self._seconds.get(item.nodeid, 0.0)


def pytest_configure(config: pytest.Config) -> None:
    if into := os.environ.get("MUTATION_NOTE"):
        config.pluginmanager.register(Noting(Path(into)))
    elif source := os.environ.get("MUTATION_NOTES"):
        path, first, last = os.environ["MUTATION_LINE"].split(":")
        notes = msgspec.json.decode(Path(source).read_bytes(), type=Notes)
        longest = float(os.environ["MUTATION_LONGEST"])
        config.pluginmanager.register(Selecting(notes, path, range(int(first), int(last) + 1), longest))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        test: Any = getattr(item, "obj", None)
        own = getattr(test, "_hypothesis_internal_use_settings", None)
        if own is not None:
            test._hypothesis_internal_use_settings = settings(
                own,
                max_examples=min(own.max_examples, EXAMPLES),
                derandomize=True,
                database=None,
                phases=PHASES,
                suppress_health_check=list(HealthCheck),
            )
