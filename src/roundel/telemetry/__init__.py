"""What runs do, for those who watch over them: spans and metrics for OpenTelemetry, metrics for Prometheus.

All of it is middleware that looks at events and does nothing else. It is off unless somebody turns it on: by
the standard variables (`from_environment`), or by giving a run a `Telemetry` or a `Metrics`. The packages
that it needs are imported then, and not before.

    spans         from events to spans; with part, node_spans, agent_spans, round_spans and notes
    traces        one trace a run, also when it goes on elsewhere
    tally         from events to figures, whoever keeps them
    measures      the figures as metrics of OpenTelemetry
    prometheus    the figures as metrics of Prometheus
    middleware    spans and measures as one middleware
    setup         what the standard variables ask for
    sending       what is sent at the end of a run, in bounded time
    conventions   the names of OpenTelemetry's conventions for generative AI
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
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
