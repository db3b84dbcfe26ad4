"""The view of a run: hand it to a host as `on_event`, and run inside it as a context."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.live import Live

from roundel.cli.live.bounds import Bounds
from roundel.cli.live.display import Display
from roundel.cli.live.lines import line_of
from roundel.cli.live.progress import Progress
from roundel.cli.live.summary import Summary
from roundel.cli.live.words import ending
from roundel.cli.output import one_line, printable
from roundel.kernel.events import Event
from roundel.kernel.state import Run
from roundel.plan.graph import Plan

PER_SECOND = 12


class LiveView:
    """Interactive: a display that is drawn over again by a thread of its own, and tables at the end.
    Otherwise: plain lines as things happen."""

    def __init__(
        self,
        plan: Plan,
        console: Console,
        interactive: bool,
        *,
        scripted: bool = False,
        goes_on: Run | None = None,
    ) -> None:
        self.console = console
        self.interactive = interactive
        self.run_id = ""
        """Under which name the run is kept; empty if it is not."""
        self._title = one_line(plan.workflow.graph.id) or "workflow"
        self._progress = Progress(plan, scripted=scripted)
        self._bounds = Bounds(plan)
        self._live: Live | None = None
        if goes_on is not None:
            self._progress.take_up(goes_on)

    def __call__(self, event: Event) -> None:
        self._progress.take(event)
        if not self.interactive:
            line = line_of(event, self._bounds)
            if line is not None:
                self.console.file.write(printable(line) + "\n")

    def __enter__(self) -> LiveView:
        if self.interactive:
            self._show()
        elif self.run_id:
            self.console.file.write(f"run {self.run_id}\n")
            self.console.file.flush()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._hide()
        run = self._progress.snapshot()
        if self.interactive:
            self.console.print(Summary(run, self.run_id))
            return
        for line in (*run.notes, ending(run)):
            self.console.file.write(one_line(line) + "\n")
        self.console.file.flush()

    def settle(self, usage: Mapping[str, Any]) -> None:
        """What the run says that it used, once it has come to rest."""
        self._progress.settle(usage)

    @contextmanager
    def suspend(self) -> Iterator[None]:
        """Leaves the terminal to someone else for a while; events are taken all the same."""
        shown = self._live is not None
        self._hide()
        yield
        # Not after an error: then the run is over, and the display would only be in the way.
        if shown:
            self._show()

    def _show(self) -> None:
        self._live = Live(
            console=self.console,
            get_renderable=self._picture,
            refresh_per_second=PER_SECOND,
            transient=True,
            # What nodes print to a terminal comes out above the display; what goes to a file stays out of it.
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=sys.stderr.isatty(),
        )
        self._live.start()

    def _hide(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _picture(self) -> Display:
        return Display(self._title, self._progress.snapshot(), self._bounds, self.run_id)
