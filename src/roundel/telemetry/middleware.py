"""Spans and metrics for OpenTelemetry, as one middleware."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from opentelemetry.metrics import Histogram, Meter, MeterProvider, get_meter
from opentelemetry.trace import TracerProvider, get_tracer

from roundel.kernel.events import Event
from roundel.nodes.middleware import Middleware
from roundel.telemetry.conventions import (
    AGENT,
    AGENT_BUCKETS,
    CALL_BUCKETS,
    CAPTURE_CONTENT,
    CAPTURE_VALUES,
    ERROR_TYPE,
    LOOP,
    OPERATION,
    OTHER,
    PROVIDER,
    REQUEST_MODEL,
    STATUS,
    TOKEN_BUCKETS,
    TOKEN_TYPE,
    TOOL,
    WORKFLOW,
    WORKFLOW_BUCKETS,
    LabelLimiter,
    model_attributes,
)
from roundel.telemetry.export import Flusher
from roundel.telemetry.metrics import MetricsAggregator, MetricsSink
from roundel.telemetry.spans import SpanRecorder
from roundel.workflow.graph import Node

WHAT = "roundel.what"


class OtelMetrics(MetricsSink):
    """The figures as metrics of OpenTelemetry; `Telemetry` creates it."""

    def __init__(self, meter: Meter) -> None:
        self._tokens = _histogram(meter, "gen_ai.client.token.usage", "{token}", TOKEN_BUCKETS)
        self._calls = _histogram(meter, "gen_ai.client.operation.duration", "s", CALL_BUCKETS)
        self._agents = _histogram(meter, "gen_ai.invoke_agent.duration", "s", AGENT_BUCKETS)
        self._tools = _histogram(meter, "gen_ai.execute_tool.duration", "s", CALL_BUCKETS)
        self._workflows = _histogram(meter, "gen_ai.workflow.duration", "s", WORKFLOW_BUCKETS)
        self._runs = meter.create_counter("roundel.runs", "{run}", "Runs that became idle, by status.")
        self._rounds = meter.create_counter("roundel.rounds", "{round}", "Rounds of loops.")
        self._locks = meter.create_counter("roundel.locks", "{lock}", "Runs that were locked, by cause.")
        self._tool_calls = meter.create_counter("roundel.tool_calls", "{call}", "Tool calls, by status.")
        self._cost = meter.create_counter(
            "roundel.cost_usd", "{USD}", "The cost of model calls with a known price."
        )
        self._retries = meter.create_counter("roundel.retries", "{call}", "Calls that are made again.")
        self._timeouts = meter.create_counter("roundel.model_timeouts", "{call}", "Agents that timed out.")
        self._failures = meter.create_counter("roundel.memory_errors", "{error}", "Memory errors.")
        self._workflow_names, self._node_names = LabelLimiter(), LabelLimiter()
        self._tool_names, self._loop_names, self._model_names = LabelLimiter(), LabelLimiter(), LabelLimiter()

    def on_run_stopped(self, workflow: str, status: str, seconds: float) -> None:
        named = self._workflow(workflow)
        self._runs.add(1, {**named, STATUS: status})
        self._workflows.record(seconds, {**named, **_error(status, "failed", "lost")})

    def on_node_ended(self, node: str, status: str, seconds: float | None, agent: bool) -> None:
        if agent and seconds is not None and status != "skipped":
            self._agents.record(seconds, {AGENT: self._node_names(node), **_error(status, "failed")})

    def on_model_call(
        self,
        workflow: str,
        model: str,
        input_tokens: int | None,
        output_tokens: int | None,
        cost: float | None,
        seconds: float | None,
    ) -> None:
        named = {**self._model(model), **self._workflow(workflow)}
        attributes = {OPERATION: "chat", **named}
        for kind, tokens in (("input", input_tokens), ("output", output_tokens)):
            if tokens is not None:
                self._tokens.record(tokens, {**attributes, TOKEN_TYPE: kind})
        if seconds is not None:
            self._calls.record(seconds, attributes)
        if cost is not None:
            self._cost.add(cost, named)

    def _workflow(self, name: str) -> Mapping[str, Any]:
        return {WORKFLOW: self._workflow_names(name)} if name else {}

    def _model(self, model: str) -> Mapping[str, Any]:
        # Provider and model are limited together: the pair is one series.
        if self._model_names(model) == OTHER:
            return {PROVIDER: OTHER, REQUEST_MODEL: OTHER}
        return model_attributes(model)

    def on_tool_call(self, tool: str, agent: str, status: str, seconds: float | None) -> None:
        name = {TOOL: self._tool_names(tool)}
        self._tool_calls.add(1, {**name, STATUS: status})
        if seconds is not None:
            who = {AGENT: self._node_names(agent)}
            self._tools.record(seconds, {**name, **who, **_error(status, "failed")})

    def on_round_started(self, loop: str) -> None:
        self._rounds.add(1, {LOOP: self._loop_names(loop)})

    def on_call_retried(self, workflow: str, model: str) -> None:
        named = self._model(model) if model else {}
        self._retries.add(1, {**named, **self._workflow(workflow)})

    def on_model_timeout(self, workflow: str) -> None:
        self._timeouts.add(1, self._workflow(workflow))

    def on_run_locked(self, workflow: str, what: str) -> None:
        self._locks.add(1, {WHAT: what, **self._workflow(workflow)})

    def on_memory_error(self) -> None:
        self._failures.add(1)


def _histogram(meter: Meter, name: str, unit: str, buckets: Sequence[float]) -> Histogram:
    return meter.create_histogram(name, unit, explicit_bucket_boundaries_advisory=buckets)


def _error(status: str, *errors: str) -> Mapping[str, Any]:
    return {ERROR_TYPE: status} if status in errors else {}


class Telemetry(Middleware):
    """Middleware that records spans and metrics; `from_environment` or a program creates it, for any
    number of runs.

    Without providers it uses the global ones of the program. Texts of messages, arguments and results
    are recorded only with `capture_content`; None means that the standard variable decides.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        capture_content: bool | None = None,
        flusher: Flusher | None = None,
    ) -> None:
        content = _captures_content() if capture_content is None else capture_content
        release = version("roundel")
        self._spans = SpanRecorder(get_tracer("roundel", release, tracer_provider), content)
        self._metrics = MetricsAggregator(OtelMetrics(get_meter("roundel", release, meter_provider)))
        self._flusher = flusher

    def begin(self, run_id: str, workflow: str, nodes: Sequence[Node]) -> None:
        # Events do not name the workflow of a resumed run.
        self._spans.runs.register(run_id, workflow)
        self._metrics.runs.register(run_id, workflow)

    def observe(self, event: Event) -> None:
        """Called for each event. Providers of `from_environment` send in threads of their own."""
        self._spans.observe(event)
        self._metrics.observe(event)

    async def close(self, run_id: str) -> None:
        """Ends the open spans of a run, and waits a short time until they are sent."""
        try:
            self._spans.close_run(run_id)
        finally:  # a broken span processor of the program must not leave runs open here
            self._metrics.close_run(run_id)
            if self._flusher is not None:
                await self._flusher.flush_pending()


def _captures_content() -> bool:
    return os.environ.get(CAPTURE_CONTENT, "").strip().lower() in CAPTURE_VALUES
