"""Why telemetry that was asked for cannot be had."""

from __future__ import annotations

_EXTRAS = {"opentelemetry": "telemetry", "prometheus_client": "prometheus"}


class TelemetryError(Exception):
    """Telemetry was asked for and cannot be had; the text says what to do."""


def missing_extra(error: ModuleNotFoundError) -> Exception:
    """What to install; the error itself if it is about something else."""
    extra = _EXTRAS.get((error.name or "").partition(".")[0])
    if extra is None:
        return error
    return TelemetryError(f'this needs an extra: pip install "roundel[{extra}]"')
