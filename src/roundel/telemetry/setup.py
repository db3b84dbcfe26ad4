"""What the standard variables of OpenTelemetry ask for. Unless they do, nothing of it is imported."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from roundel.telemetry.errors import TelemetryError, missing_extra

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

    from roundel.telemetry.middleware import Telemetry

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
    from roundel.telemetry.sending import Sending

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

    from roundel.telemetry.ids import RunIds

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
    from roundel.telemetry.sending import TROUBLE

    TROUBLE.listen([logger])
