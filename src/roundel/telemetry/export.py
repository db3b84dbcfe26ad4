"""What the standard variables of OpenTelemetry configure, and the flush at the end of a run.

Nothing of OpenTelemetry is imported unless the variables ask for it.

A collector that is slow or down must neither fail a run nor delay it by more than FLUSH_TIMEOUT.
Flushing is blocking code of the SDK without a reliable timeout, so a daemon thread does it. There is one
`Flusher` for all runs, so that runs that end at the same time share a flush.
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

from roundel.workflow.secrets import SecretMasker

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

    from roundel.telemetry.middleware import Telemetry

_EXTRAS = {"opentelemetry": "telemetry", "prometheus_client": "prometheus"}


class TelemetryError(Exception):
    """Telemetry is configured but not available; the text says what to do."""


def explain_missing_extra(error: ModuleNotFoundError) -> Exception:
    """An error that names the extra to install; the error itself if it is about another module."""
    extra = _EXTRAS.get((error.name or "").partition(".")[0])
    if extra is None:
        return error
    return TelemetryError(f'this needs an extra: pip install "roundel[{extra}]"')


logger = logging.getLogger("roundel.telemetry")

FLUSH_TIMEOUT = 3.0
"""How many seconds a run waits at its end for its telemetry to be sent."""
MAX_REASON_LENGTH = 300
_Waiter = tuple[asyncio.AbstractEventLoop, asyncio.Event]


class Flusher:
    """Sends pending telemetry in a thread of its own; one instance for all runs of a `Telemetry`.

    A run that ends during a flush may be too late for it, so its request makes the thread flush once
    more.
    """

    def __init__(self, *flushes: Callable[[], object], seconds: float = FLUSH_TIMEOUT) -> None:
        self._flushes = flushes
        self._seconds = seconds
        self._lock = threading.Lock()
        self._waiting: list[_Waiter] = []
        self._thread: threading.Thread | None = None
        self._timed_out = False
        """Whether a run has given up on the present flush: later runs then do not wait for it at all."""

    async def flush_pending(self) -> None:
        """Waits until everything is sent, for `seconds` at most, and not again while a flush is
        stuck."""
        # An event of the caller's loop: runs of several threads and loops may share one flusher.
        done = asyncio.Event()
        if not self._request_flush(asyncio.get_running_loop(), done):
            return
        try:
            await asyncio.wait_for(done.wait(), self._seconds)
        except TimeoutError:
            self._timed_out = True
            EXPORT_FAILURES.warn_once(f"the collector takes longer than {self._seconds:g} s")

    def _request_flush(self, loop: asyncio.AbstractEventLoop, done: asyncio.Event) -> bool:
        with self._lock:
            # Not `is not None` alone: after a fork the thread of the parent does not exist here.
            is_running = self._thread is not None and self._thread.is_alive()
            if is_running and self._timed_out:
                return False
            self._waiting.append((loop, done))
            if not is_running:
                # Not a thread of the loop's executor: the end of the program would wait for it.
                self._timed_out = False
                self._thread = threading.Thread(
                    target=self._flush_loop, name="roundel-telemetry", daemon=True
                )
                self._thread.start()
            return True

    def _flush_loop(self) -> None:
        while waiting := self._take_waiting():
            for flush in self._flushes:
                try:
                    flush()
                except Exception as error:
                    EXPORT_FAILURES.warn_once(repr(error))
            self._timed_out = False  # the collector answers again
            for loop, done in waiting:
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(done.set)

    def _take_waiting(self) -> list[_Waiter]:
        """Takes the requests for the next flush; without any, the thread ends.

        Both under the lock: a request that arrives between the check and the end of the thread would
        never be served.
        """
        with self._lock:
            waiting, self._waiting = self._waiting, []
            if not waiting:
                self._thread = None
            return waiting


def _collect_secrets() -> SecretMasker:
    """The secrets of the environment, and the headers that exporters read from it: errors may quote
    them."""
    secrets = SecretMasker()
    for name, value in os.environ.items():
        if name.startswith("OTEL_") and name.endswith("_HEADERS"):
            for pair in value.split(","):
                header = pair.partition("=")[2]
                secrets.add(header)
                secrets.add_header(unquote(header))
    return secrets


class _ExportFailureFilter(logging.Filter):
    """Replaces the log of the exporters by one warning: they repeat each failure, in several lines.

    The warning masks secrets, since an exporter may log its headers.
    """

    def __init__(self) -> None:
        super().__init__()
        self._has_warned = False

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno >= logging.WARNING:
            self.warn_once(record.getMessage())
            return False
        return True

    def warn_once(self, reason: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            shown = _collect_secrets().mask(reason)[:MAX_REASON_LENGTH]
            logger.warning("telemetry is being lost, and the run continues: %s", shown)

    def attach(self, loggers: Sequence[str]) -> None:
        for name in loggers:
            logging.getLogger(name).addFilter(self)


EXPORT_FAILURES = _ExportFailureFilter()
"""One for the whole program, like the loggers of the exporters."""


ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
EXPORTERS = ("otlp", "console", "none")
PROTOCOL = "http/protobuf"


def from_environment() -> Telemetry | None:
    """The telemetry that the variables configure, or None; raises TelemetryError if it is not
    available."""
    traces, metrics = _exporter("TRACES"), _exporter("METRICS")
    if traces == metrics == "none":
        return None
    for signal, exporter in (("TRACES", traces), ("METRICS", metrics)):
        _check_protocol(signal, exporter)
    try:
        return _build_telemetry(traces, metrics)
    except ModuleNotFoundError as error:
        raise explain_missing_extra(error) from None
    except ValueError as error:
        raise TelemetryError(f"the OTEL_ variables are invalid: {error}") from None


def _exporter(signal: str) -> str:
    """The exporter of a signal: one of EXPORTERS.

    Without a variable for the exporter, an endpoint turns it on. The SDK would default to `otlp` on
    localhost; then every run on a machine without a collector would try to connect.
    """
    if _read_variable("OTEL_SDK_DISABLED").lower() == "true":
        return "none"
    name = f"OTEL_{signal}_EXPORTER"
    chosen = _read_variable(name).lower()
    if not chosen:
        has_endpoint = _read_variable(ENDPOINT) or _read_variable(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
        return "otlp" if has_endpoint else "none"
    if chosen not in EXPORTERS:
        raise TelemetryError(f"{name} is '{chosen}'; set it to one of {', '.join(EXPORTERS)}")
    return chosen


def _check_protocol(signal: str, exporter: str) -> None:
    name = f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL"
    protocol = _read_variable(name) or _read_variable("OTEL_EXPORTER_OTLP_PROTOCOL") or PROTOCOL
    if exporter == "otlp" and protocol != PROTOCOL:
        text = (
            f"the protocol '{protocol}' is not supported; set {name} to {PROTOCOL}, and a matching endpoint"
        )
        raise TelemetryError(text)


def _read_variable(name: str) -> str:
    return os.environ.get(name, "").strip()


def _build_telemetry(traces: str, metrics: str) -> Telemetry:
    from opentelemetry.metrics import NoOpMeterProvider
    from opentelemetry.trace import NoOpTracerProvider

    from roundel.telemetry.middleware import Telemetry

    resource = _resource()
    tracers = _tracer_provider(traces, resource) if traces != "none" else None
    meters = _meter_provider(metrics, resource) if metrics != "none" else None
    return Telemetry(
        tracer_provider=tracers or NoOpTracerProvider(),
        meter_provider=meters or NoOpMeterProvider(),
        flusher=Flusher(*(provider.force_flush for provider in (tracers, meters) if provider is not None)),
    )


def _resource() -> Resource:
    from opentelemetry.sdk.resources import Resource

    named = _read_variable("OTEL_SERVICE_NAME") or "service.name=" in _read_variable(
        "OTEL_RESOURCE_ATTRIBUTES"
    )
    # Only if the user gave no name: an explicit attribute would override the variables.
    return Resource.create({} if named else {"service.name": "roundel"})


# The providers do not shut down at the end of the program, which may take long: everything is sent when
# a run is closed.


def _tracer_provider(exporter: str, resource: Resource) -> TracerProvider:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter

    from roundel.telemetry.id_generator import RunIds

    sender: SpanExporter = ConsoleSpanExporter(out=sys.stderr)
    if exporter == "otlp":
        from opentelemetry.exporter.otlp.proto.http import trace_exporter

        _filter_exporter_log(trace_exporter.__name__)
        sender = trace_exporter.OTLPSpanExporter()
    provider = TracerProvider(resource=resource, id_generator=RunIds(), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(sender))
    return provider


def _meter_provider(exporter: str, resource: Resource) -> MeterProvider:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import (
        ConsoleMetricExporter,
        MetricExporter,
        PeriodicExportingMetricReader,
    )

    sender: MetricExporter = ConsoleMetricExporter(out=sys.stderr)
    if exporter == "otlp":
        from opentelemetry.exporter.otlp.proto.http import metric_exporter

        _filter_exporter_log(metric_exporter.__name__)
        sender = metric_exporter.OTLPMetricExporter()
    reader = PeriodicExportingMetricReader(sender)
    return MeterProvider([reader], resource=resource, shutdown_on_exit=False)


def _filter_exporter_log(logger: str) -> None:
    EXPORT_FAILURES.attach([logger])
