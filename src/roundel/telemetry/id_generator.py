"""Ids for a program's own TracerProvider, so that each run is one trace."""

from __future__ import annotations

from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

from roundel.telemetry.spans import pending_span_ids


class RunIds(RandomIdGenerator):
    """For `TracerProvider(id_generator=RunIds())`. All spans but those of runs have random ids."""

    def generate_trace_id(self) -> int:
        ids = pending_span_ids.get()
        return super().generate_trace_id() if ids is None else ids[0]

    def generate_span_id(self) -> int:
        ids = pending_span_ids.get()
        return super().generate_span_id() if ids is None or ids[1] is None else ids[1]
