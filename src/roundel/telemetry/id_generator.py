"""Ids for a program's own TracerProvider, so that each run is one trace (see spans.py)."""

from __future__ import annotations

from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

from roundel.telemetry.spans import pending_span_ids


class RunIds(RandomIdGenerator):
    """An id generator for `TracerProvider(id_generator=RunIds())`; spans that are not of runs have
    random ids.

    The API of OpenTelemetry gives no way to choose the ids of a span, so they are passed in a context
    variable.
    """

    def generate_trace_id(self) -> int:
        ids = pending_span_ids.get()
        return super().generate_trace_id() if ids is None else ids[0]

    def generate_span_id(self) -> int:
        ids = pending_span_ids.get()
        return super().generate_span_id() if ids is None or ids[1] is None else ids[1]
