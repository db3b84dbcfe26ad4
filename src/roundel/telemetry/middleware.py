"""Spans and metrics for OpenTelemetry, as middleware."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.metadata import version

from opentelemetry.metrics import MeterProvider, get_meter
from opentelemetry.trace import TracerProvider, get_tracer

from roundel.kernel.events import Event
from roundel.nodes.middleware import Middleware
from roundel.telemetry.conventions import CAPTURE_CONTENT, CAPTURES
from roundel.telemetry.measures import Measures
from roundel.telemetry.names import agents_among
from roundel.telemetry.sending import Sending
from roundel.telemetry.spans import Spans
from roundel.telemetry.tally import Tally
from roundel.workflow.graph import Node


class Telemetry(Middleware):
    """One for any number of runs. Without providers, those that the program has set are used.

    What is said is recorded only with `capture_content`; None: as the standard variable says."""

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        capture_content: bool | None = None,
        sending: Sending | None = None,
    ) -> None:
        content = _wanted() if capture_content is None else capture_content
        release = version("roundel")
        self._spans = Spans(get_tracer("roundel", release, tracer_provider), content)
        self._tally = Tally(Measures(get_meter("roundel", release, meter_provider)))
        self._sending = sending

    def begin(self, run_id: str, workflow: str, nodes: Sequence[Node]) -> None:
        agents = agents_among(nodes)
        self._spans.known.note(run_id, workflow, agents)
        self._tally.known.note(run_id, workflow, agents)

    def observe(self, event: Event) -> None:
        self._spans.observe(event)
        self._tally.observe(event)

    async def close(self, run_id: str) -> None:
        try:
            self._spans.let_go(run_id)
        finally:  # a span processor of the program may be broken, and is not to leave runs behind here
            self._tally.let_go(run_id)
            if self._sending is not None:
                await self._sending.finish()


def _wanted() -> bool:
    return os.environ.get(CAPTURE_CONTENT, "").strip().lower() in CAPTURES
