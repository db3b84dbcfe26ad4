"""Why telemetry that was asked for cannot be had.

What is still to be sent when a run comes to rest.

A collector that is away neither fails a run nor holds it up.

What the standard variables of OpenTelemetry ask for. Unless they do, nothing of it is imported.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

from roundel.workflow.secrets import Secrets

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

    from roundel.telemetry.middleware import Telemetry

_EXTRAS = {"opentelemetry": "telemetry", "prometheus_client": "prometheus"}


class TelemetryError(Exception):
    """Telemetry was asked for and cannot be had; the text says what to do."""


def missing_extra(error: ModuleNotFoundError) -> Exception:
    """What to install; the error itself if it is about something else."""
    extra = _EXTRAS.get((error.name or "").partition(".")[0])
    if extra is None:
        return error
    return TelemetryError(f'this needs an extra: pip install "roundel[{extra}]"')


logger = logging.getLogger("roundel.telemetry")

SECONDS = 3.0
"""How long a run waits at its end."""
LONGEST_REASON = 300
_Waiting = tuple[asyncio.AbstractEventLoop, asyncio.Event]


class Sending:
    """One for all runs. What ends while something is being sent may be too late for it, and is sent next."""

    def __init__(self, *flushes: Callable[[], object], seconds: float = SECONDS) -> None:
        self._flushes = flushes
        self._seconds = seconds
        self._lock = threading.Lock()
        self._waiting: list[_Waiting] = []
        self._thread: threading.Thread | None = None
        self._late = False
        """Whether somebody has given up on what is being sent now."""

    async def finish(self) -> None:
        """Waits until everything is sent, but not for long, and not twice for the same collector."""
        done = asyncio.Event()
        if not self._ask(asyncio.get_running_loop(), done):
            return
        try:
            await asyncio.wait_for(done.wait(), self._seconds)
        except TimeoutError:
            self._late = True
            TROUBLE.tell(f"the collector takes longer than {self._seconds:g} s")

    def _ask(self, loop: asyncio.AbstractEventLoop, done: asyncio.Event) -> bool:
        with self._lock:
            # A process that was forked has none of its parent's threads.
            at_work = self._thread is not None and self._thread.is_alive()
            if at_work and self._late:
                return False
            self._waiting.append((loop, done))
            if not at_work:
                # Not one of the loop's own threads: the end of the program would wait for those.
                self._late = False
                self._thread = threading.Thread(target=self._work, name="roundel-telemetry", daemon=True)
                self._thread.start()
            return True

    def _work(self) -> None:
        while waiting := self._taken():
            for flush in self._flushes:
                try:
                    flush()
                except Exception as error:
                    TROUBLE.tell(repr(error))
            self._late = False
            for loop, done in waiting:
                with contextlib.suppress(RuntimeError):  # nobody waits any more
                    loop.call_soon_threadsafe(done.set)

    def _taken(self) -> list[_Waiting]:
        """Those for whom everything is to be sent now; if there are none, the thread ends."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
            if not waiting:
                self._thread = None
            return waiting


def _secrets() -> Secrets:
    """Those of the environment, and the headers that exporters take from it."""
    secrets = Secrets()
    for name, value in os.environ.items():
        if name.startswith("OTEL_") and name.endswith("_HEADERS"):
            for pair in value.split(","):
                header = pair.partition("=")[2]
                secrets.add(header)
                secrets.add_header(unquote(header))
    return secrets


class _Trouble(logging.Filter):
    """Says once what the exporters would say again and again, each in several lines."""

    def __init__(self) -> None:
        super().__init__()
        self._told = False

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno >= logging.WARNING:
            self.tell(record.getMessage())
            return False
        return True

    def tell(self, reason: str) -> None:
        if not self._told:
            self._told = True
            shown = _secrets().mask(reason)[:LONGEST_REASON]
            logger.warning("telemetry is being lost, and the run goes on: %s", shown)

    def listen(self, loggers: Sequence[str]) -> None:
        for name in loggers:
            logging.getLogger(name).addFilter(self)


TROUBLE = _Trouble()
"""One for the whole program, as the loggers of exporters are."""


ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
EXPORTERS = ("otlp", "console", "none")
PROTOCOL = "http/protobuf"


def from_environment() -> Telemetry | None:
    """Telemetry as the variables say; None if they ask for none. TelemetryError if it cannot be had."""
    traces, metrics = _exporter("TRACES"), _exporter("METRICS")
    if traces == metrics == "none":
        return None
    for signal, exporter in (("TRACES", traces), ("METRICS", metrics)):
        _check_protocol(signal, exporter)
    try:
        return _made(traces, metrics)
    except ModuleNotFoundError as error:
        raise missing_extra(error) from None
    except ValueError as error:
        raise TelemetryError(f"the variables of OpenTelemetry cannot be followed: {error}") from None


def _exporter(signal: str) -> str:
    """Where a signal goes: one of EXPORTERS."""
    if _value("OTEL_SDK_DISABLED").lower() == "true":
        return "none"
    name = f"OTEL_{signal}_EXPORTER"
    wanted = _value(name).lower()
    if not wanted:
        asked = _value(ENDPOINT) or _value(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
        return "otlp" if asked else "none"
    if wanted not in EXPORTERS:
        raise TelemetryError(f"{name} is '{wanted}'; known are {', '.join(EXPORTERS)}")
    return wanted


def _check_protocol(signal: str, exporter: str) -> None:
    name = f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL"
    protocol = _value(name) or _value("OTEL_EXPORTER_OTLP_PROTOCOL") or PROTOCOL
    if exporter == "otlp" and protocol != PROTOCOL:
        text = (
            f"the protocol '{protocol}' is not spoken here; set {name} to {PROTOCOL}, and the endpoint for it"
        )
        raise TelemetryError(text)


def _value(name: str) -> str:
    return os.environ.get(name, "").strip()


def _made(traces: str, metrics: str) -> Telemetry:
    from opentelemetry.metrics import NoOpMeterProvider
    from opentelemetry.trace import NoOpTracerProvider

    from roundel.telemetry.middleware import Telemetry

    resource = _resource()
    tracers = _tracers(traces, resource) if traces != "none" else None
    meters = _meters(metrics, resource) if metrics != "none" else None
    return Telemetry(
        tracer_provider=tracers or NoOpTracerProvider(),
        meter_provider=meters or NoOpMeterProvider(),
        sending=Sending(*(provider.force_flush for provider in (tracers, meters) if provider is not None)),
    )


def _resource() -> Resource:
    from opentelemetry.sdk.resources import Resource

    named = _value("OTEL_SERVICE_NAME") or "service.name=" in _value("OTEL_RESOURCE_ATTRIBUTES")
    return Resource.create({} if named else {"service.name": "roundel"})


# The providers do not shut down when the program ends, which may take long: all is sent when a run is closed.


def _tracers(exporter: str, resource: Resource) -> TracerProvider:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter

    from roundel.telemetry.id_generator import RunIds

    sender: SpanExporter = ConsoleSpanExporter(out=sys.stderr)
    if exporter == "otlp":
        from opentelemetry.exporter.otlp.proto.http import trace_exporter

        _listen(trace_exporter.__name__)
        sender = trace_exporter.OTLPSpanExporter()
    provider = TracerProvider(resource=resource, id_generator=RunIds(), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(sender))
    return provider


def _meters(exporter: str, resource: Resource) -> MeterProvider:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import (
        ConsoleMetricExporter,
        MetricExporter,
        PeriodicExportingMetricReader,
    )

    sender: MetricExporter = ConsoleMetricExporter(out=sys.stderr)
    if exporter == "otlp":
        from opentelemetry.exporter.otlp.proto.http import metric_exporter

        _listen(metric_exporter.__name__)
        sender = metric_exporter.OTLPMetricExporter()
    reader = PeriodicExportingMetricReader(sender)
    return MeterProvider([reader], resource=resource, shutdown_on_exit=False)


def _listen(logger: str) -> None:

    TROUBLE.listen([logger])
