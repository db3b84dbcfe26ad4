"""One trace a run, also when it goes on in another process.

The trace id is made from the run id, and so is the id of the first part's span, to which later parts link.
Each part is a root of its own in that trace: a part that a crash cut off is never sent, and must not leave
the others without a parent. Samplers that go by the trace id decide the same for all parts, so a run is
sampled as a whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from opentelemetry.trace import Span, SpanContext, TraceFlags

wanted: ContextVar[tuple[int, int | None] | None] = ContextVar("wanted", default=None)
"""The trace id, and if it matters the span id, of the span that is being started."""


def derived(run_id: str) -> tuple[int, int]:
    """The trace id of a run, and the span id of its first part."""
    digest = hashlib.sha256(run_id.encode()).digest()
    return int.from_bytes(digest[:16]) or 1, int.from_bytes(digest[16:24]) or 1


@contextmanager
def as_part_of(run_id: str, first: bool) -> Iterator[None]:
    """The span that is started meanwhile is a part of the run, if the provider has `RunIds`."""
    trace_id, span_id = derived(run_id)
    token = wanted.set((trace_id, span_id if first else None))
    try:
        yield
    finally:
        wanted.reset(token)


def link_to_first(run_id: str, part: Span) -> None:
    """Links a later part to the first one, if they are in one trace."""
    trace_id, span_id = derived(run_id)
    if part.get_span_context().trace_id == trace_id:
        flags = TraceFlags(TraceFlags.SAMPLED)
        part.add_link(SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags))
