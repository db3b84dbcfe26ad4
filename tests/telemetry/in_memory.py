"""Telemetry recorded in memory, and functions to inspect it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import roundel
from roundel.telemetry import RunIds, Telemetry


class RecordedTelemetry:
    """A telemetry, and all that it has given."""

    def __init__(self, **options: Any) -> None:
        self._exporter, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        tracers = TracerProvider(id_generator=RunIds(), shutdown_on_exit=False)
        tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        meters = MeterProvider([self._reader], shutdown_on_exit=False)
        self.meter = meters.get_meter("test")
        self.telemetry = Telemetry(tracer_provider=tracers, meter_provider=meters, **options)

    def run(self, workflow: Any, input: str = "tea", **options: Any) -> roundel.Result:
        return roundel.run(workflow, input, middleware=[self.telemetry], **options)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()

    def all(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.all(name)
        return span

    def at(self, address: str) -> ReadableSpan:
        """The span of a node, a round or a tool."""
        (span,) = (span for span in self._places if attributes_of(span).get("roundel.address") == address)
        return span

    def chats(self, address: str) -> list[ReadableSpan]:
        """The spans of the model calls of an agent."""
        calls = (span for span in self.spans if span not in self._places)
        return [span for span in calls if attributes_of(span).get("roundel.address") == address]

    @property
    def _places(self) -> list[ReadableSpan]:
        return [span for span in self.spans if attributes_of(span).get("gen_ai.operation.name") != "chat"]

    def parents_by_address(self) -> dict[str, str]:
        """What each span is in, by address; the run has none."""
        names = {
            context(span).span_id: str(attributes_of(span).get("roundel.address", "")) for span in self.spans
        }
        return {
            names[context(span).span_id]: names[span.parent.span_id]
            for span in self._places
            if span.parent is not None
        }

    def metric(self, name: str) -> dict[tuple[Any, ...], Any]:
        """Its points, by the values of their attributes in the order of their names."""
        data = self._reader.get_metrics_data()
        assert data is not None
        found = (
            metric
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        )
        (wanted,) = (metric for metric in found if metric.name == name)
        return {_key(point.attributes or {}): point for point in wanted.data.data_points}

    def counts(self, name: str) -> dict[tuple[Any, ...], Any]:
        return {key: point.value for key, point in self.metric(name).items()}

    @property
    def text(self) -> str:
        """Everything that was recorded."""
        return "\n".join(span.to_json() for span in self.spans)


def attributes_of(span: ReadableSpan) -> Mapping[str, Any]:
    return span.attributes or {}


def context(span: ReadableSpan) -> Any:
    assert span.context is not None
    return span.context


def span_events(span: ReadableSpan) -> dict[str, Mapping[str, Any]]:
    """The attributes of its events, by name."""
    return {event.name: event.attributes or {} for event in span.events}


def _key(attributes: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(attributes[name] for name in sorted(attributes))


def agents(*names: str, **settings: Any) -> dict[str, Any]:
    """A workflow of agents, each after the one before it."""
    nodes = [{"id": name, "type": "agent"} for name in names]
    edges = [{"from": one, "to": other} for one, other in pairwise(names)]
    return {"graph": {"id": "chain", "nodes": nodes, "edges": edges, "start": names[0], **settings}}


def reply(text: str, read: int = 10, written: int = 5) -> dict[str, Any]:
    return {"text": text, "tokens": {"input": read, "output": written}}


CIRCLE: dict[str, Any] = {
    "graph": {
        "id": "circle",
        "nodes": [{"id": "Talker", "type": "agent"}, {"id": "Out", "type": "passthrough"}],
        "edges": [
            {"from": "Talker", "to": "Talker"},
            {"from": "Talker", "to": "Out", "condition": {"type": "keyword", "config": {"any": ["DONE"]}}},
        ],
        "start": "Talker",
        "end": "Out",
    }
}
"""Says something again and again, until it says DONE."""
