"""The figures as metrics of Prometheus: one set for all runs of a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from roundel.kernel.events import Event
from roundel.nodes.middleware import Middleware
from roundel.telemetry.conventions import LabelLimiter
from roundel.telemetry.metrics import MetricsAggregator, MetricsSink
from roundel.workflow.graph import Node

BUCKETS = (0.01, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
SCRIPT = "script"
"""The label for scripted models."""
UNNAMED = "(unnamed)"
"""The label of all workflows without a name."""
REQUEST_BUCKETS = (0.005, 0.025, 0.1, 0.5, 1, 2.5, 10)


class Metrics(Middleware):
    """Middleware for any number of runs, which a server creates; `exposition` is the answer to a scrape.

    It has a registry of its own by default, so that two servers in one process do not register a name
    twice.
    """

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._metrics = MetricsAggregator(_PrometheusMetrics(self.registry))
        self._figures = _Figures()
        self.registry.register(self._figures)
        self._requests: tuple[Counter, Histogram] | None = None

    def begin(self, run_id: str, workflow: str, nodes: Sequence[Node]) -> None:
        self._metrics.runs.register(run_id, workflow)

    def observe(self, event: Event) -> None:
        self._metrics.observe(event)

    async def close(self, run_id: str) -> None:
        self._metrics.close_run(run_id)

    def watch(self, name: str, text: str, read: Callable[[], float], *, counts: bool = False) -> None:
        """Adds a figure of the program, such as the length of a queue, as `roundel_NAME`: a gauge, or a
        counter if it only `counts` up. `read` is called with each scrape, and must not block."""
        self._figures.add(name, text, read, counts)

    def on_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Counts a request to a server. `route` is the pattern of the path, and not the path itself, which
        would be a series of its own."""
        if self._requests is None:
            labels = ("method", "route", "status")
            self._requests = (
                Counter("roundel_requests", "Requests.", labels, registry=self.registry),
                Histogram(
                    "roundel_request_seconds",
                    "Duration of requests, for a stream until it ends.",
                    labels[:2],
                    registry=self.registry,
                    buckets=REQUEST_BUCKETS,
                ),
            )
        self._requests[0].labels(method, route, status).inc()
        self._requests[1].labels(method, route).observe(seconds)

    def exposition(self) -> bytes:
        """All metrics as text; serve it with `content_type`."""
        return generate_latest(self.registry)


class _Figures(Collector):
    """Figures that the program reads when it is scraped."""

    def __init__(self) -> None:
        self._figures: dict[str, tuple[str, Callable[[], float], bool]] = {}

    def add(self, name: str, text: str, read: Callable[[], float], counts: bool) -> None:
        self._figures[name] = (text, read, counts)

    def collect(self) -> Iterator[Metric]:
        for name, (text, read, counts) in self._figures.items():
            family = CounterMetricFamily if counts else GaugeMetricFamily
            yield family(f"roundel_{name}", text, value=read())


class _PrometheusMetrics(MetricsSink):
    """The sink for Prometheus. The names of metrics and labels are an interface for dashboards."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"roundel_{name}", text, labels, registry=registry)

        def seconds(name: str, text: str, *labels: str) -> Histogram:
            return Histogram(f"roundel_{name}_seconds", text, labels, registry=registry, buckets=BUCKETS)

        self._active_runs = Gauge("roundel_runs_in_flight", "Runs that are in flight now.", registry=registry)
        self._runs = counter("runs", "Runs that became idle.", "workflow", "status")
        self._run_seconds = seconds("run", "From the start or resume of a run until it is idle.", "workflow")
        self._nodes = counter("nodes", "Executions of nodes.", "node", "status")
        self._node_seconds = seconds("node", "Duration of node executions.", "node")
        self._models = counter("model_calls", "Model calls whose tokens are known.", "model", "workflow")
        self._model_seconds = seconds("model_call", "Duration of model calls.", "model")
        self._tokens = counter(
            "tokens", "Input and output tokens of models.", "model", "direction", "workflow"
        )
        self._cost = counter("cost_usd", "The cost of model calls with a known price.", "model", "workflow")
        self._retries = counter("retries", "Calls that failed and are made again.", "model", "workflow")
        self._timeouts = counter("model_timeouts", "Agents that failed by a time-out.", "workflow")
        self._tools = counter("tool_calls", "Tool calls.", "tool", "status")
        self._tool_seconds = seconds("tool_call", "Duration of tool calls.", "tool")
        self._rounds = counter("rounds", "Rounds of loops.", "loop")
        self._locks = counter("locks", "Locks of runs.", "what", "workflow")
        self._failures = counter("memory_errors", "Memory errors.")
        # One limiter for each label, so that invented tools do not use up the names of nodes.
        self._names = {label: LabelLimiter() for label in ("workflow", "node", "model", "tool", "loop")}

    def on_run_started(self) -> None:
        self._active_runs.inc()

    def on_run_stopped(self, workflow: str, status: str, seconds: float) -> None:
        workflow = self._workflow(workflow)
        self._active_runs.dec()
        self._runs.labels(workflow, status).inc()
        self._run_seconds.labels(workflow).observe(seconds)

    def on_node_ended(self, node: str, status: str, seconds: float | None, agent: bool) -> None:
        node = self._names["node"](node)
        self._nodes.labels(node, status).inc()
        if seconds is not None:
            self._node_seconds.labels(node).observe(seconds)

    def _workflow(self, name: str) -> str:
        return self._names["workflow"](name or UNNAMED)

    def on_model_call(
        self,
        workflow: str,
        model: str,
        input_tokens: int | None,
        output_tokens: int | None,
        cost: float | None,
        seconds: float | None,
    ) -> None:
        workflow, model = self._workflow(workflow), self._names["model"](model or SCRIPT)
        self._models.labels(model, workflow).inc()
        for kind, tokens in (("input", input_tokens), ("output", output_tokens)):
            if tokens is not None:
                self._tokens.labels(model, kind, workflow).inc(tokens)
        if cost is not None:
            self._cost.labels(model, workflow).inc(cost)
        if seconds is not None:
            self._model_seconds.labels(model).observe(seconds)

    def on_tool_call(self, tool: str, agent: str, status: str, seconds: float | None) -> None:
        tool = self._names["tool"](tool)
        self._tools.labels(tool, status).inc()
        if seconds is not None:
            self._tool_seconds.labels(tool).observe(seconds)

    def on_round_started(self, loop: str) -> None:
        self._rounds.labels(self._names["loop"](loop)).inc()

    def on_call_retried(self, workflow: str, model: str) -> None:
        # A node that is no agent is retried without a model.
        self._retries.labels(self._names["model"](model) if model else "", self._workflow(workflow)).inc()

    def on_model_timeout(self, workflow: str) -> None:
        self._timeouts.labels(self._workflow(workflow)).inc()

    def on_run_locked(self, workflow: str, what: str) -> None:
        self._locks.labels(what, self._workflow(workflow)).inc()

    def on_memory_error(self) -> None:
        self._failures.inc()
