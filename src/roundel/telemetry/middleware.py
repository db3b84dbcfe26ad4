"""Spans and metrics for OpenTelemetry, as middleware."""

from __future__ import annotations

import os
from importlib.metadata import version

from opentelemetry.metrics import MeterProvider, get_meter
from opentelemetry.trace import TracerProvider, get_tracer

from roundel.kernel.events import Event
from roundel.telemetry.conventions import CAPTURE_CONTENT, CAPTURES
from roundel.telemetry.measures import Measures
from roundel.telemetry.sending import Sending
from roundel.telemetry.spans import Spans
from roundel.telemetry.tally import Tally
from roundel.telemetry.watcher import Watcher


class Telemetry(Watcher):
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

    def see(self, event: Event) -> None:
        self._spans.observe(event)
        self._tally.observe(event)

    def let_go(self, run_id: str) -> None:
        self._spans.let_go(run_id)
        self._tally.let_go(run_id)

    async def close(self) -> None:
        await super().close()
        if self._sending is not None:
            await self._sending.finish()


def _wanted() -> bool:
    return os.environ.get(CAPTURE_CONTENT, "").strip().lower() in CAPTURES
