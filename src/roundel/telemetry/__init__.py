"""Telemetry of runs: spans and metrics for OpenTelemetry, metrics for Prometheus.

All of it is middleware that observes events and does nothing else: it cannot change a run, and it delays
the end of one by at most a few seconds (export.py). It is off unless the standard variables configure it
(`from_environment`), or a program passes a `Telemetry` or a `Metrics` to a run. The packages that it
needs are imported then, and not before.

    conventions    the names of OpenTelemetry's conventions for generative AI, and of our own
    spans          events become spans: one trace for each run, also across processes
    metrics        events become figures, for any sink
    middleware     spans and metrics for OpenTelemetry as one middleware
    prometheus     the figures as metrics of Prometheus
    export         what the standard variables configure, and the flush at the end of a run
    id_generator   ids for a program's own TracerProvider
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from roundel.telemetry.export import TelemetryError, explain_missing_extra, from_environment

if TYPE_CHECKING:
    from roundel.telemetry.id_generator import RunIds
    from roundel.telemetry.middleware import Telemetry
    from roundel.telemetry.prometheus import Metrics

_HOMES = {
    "Metrics": "roundel.telemetry.prometheus",
    "RunIds": "roundel.telemetry.id_generator",
    "Telemetry": "roundel.telemetry.middleware",
    "from_environment": "roundel.telemetry.export",
}

__all__ = ["Metrics", "RunIds", "Telemetry", "TelemetryError", "from_environment"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'roundel.telemetry' has no attribute '{name}'")
    try:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        raise explain_missing_extra(error) from None
    globals()[name] = value  # so that the next use does not come here
    return value


def __dir__() -> list[str]:
    return __all__
