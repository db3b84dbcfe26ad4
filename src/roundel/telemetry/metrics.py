"""Turns events into figures, for any sink: counts, and how long things took.

Figures have no addresses and no run ids, since each would make a series of its own. Durations of nodes and
runs come from the timestamps of events, those of calls from what the host has measured. A run may be resumed
here in the middle: without its beginning a duration is unknown (None), and is left out rather than reported
too short.
"""

from __future__ import annotations

from roundel.kernel.events import Event
from roundel.kernel.payloads import (
    TRANSIENT,
    AsideUsage,
    BreakerTripped,
    CallWaiting,
    LimitReached,
    LoopRound,
    MemoryFailed,
    ModelCallEnded,
    NodeCompleted,
    NodeFailed,
    NodeRunning,
    NodeSkipped,
    NodeStateChange,
    RunFinished,
    RunStateChanged,
    ToolCallEnded,
)
from roundel.telemetry.conventions import (
    NANOSECONDS_PER_SECOND,
    RunRegistry,
    to_nanoseconds,
)


class _NodeTiming:
    """A node in flight."""

    __slots__ = ("agent", "since")

    def __init__(self, since: int, agent: bool) -> None:
        self.since = since
        self.agent = agent


class _RunTiming:
    """A run in flight in this process, with its open nodes."""

    __slots__ = ("last", "last_limit", "nodes", "seq", "since", "workflow")

    def __init__(self, workflow: str, since: int) -> None:
        self.workflow = workflow
        self.since = self.last = since
        self.seq = 0
        self.last_limit = ""
        """The limit or trigger of the breaker that has locked the run last."""
        self.nodes: dict[str, _NodeTiming] = {}


class MetricsSink:
    """Receives the figures; one subclass for each metrics library. `seconds` is None if the beginning is
    unknown."""

    def on_run_started(self) -> None: ...

    def on_run_stopped(self, workflow: str, status: str, seconds: float) -> None: ...

    def on_node_ended(self, node: str, status: str, seconds: float | None, agent: bool) -> None: ...

    def on_model_call(
        self,
        workflow: str,
        model: str,
        input_tokens: int | None,
        output_tokens: int | None,
        cost: float | None,
        seconds: float | None,
    ) -> None: ...

    def on_call_retried(self, workflow: str, model: str) -> None: ...

    def on_model_timeout(self, workflow: str) -> None: ...

    def on_tool_call(self, tool: str, agent: str, status: str, seconds: float | None) -> None: ...

    def on_round_started(self, loop: str) -> None: ...

    def on_run_locked(self, workflow: str, what: str) -> None: ...

    def on_memory_error(self) -> None: ...


class MetricsAggregator:
    """Computes figures from the events of any number of runs, and passes them to a sink."""

    def __init__(self, sink: MetricsSink) -> None:
        self._sink = sink
        self._runs: dict[str, _RunTiming] = {}
        self.runs = RunRegistry()

    def observe(self, event: Event) -> None:
        # Transient events are not stored and have no number: they would look like a gap.
        if event.event in TRANSIENT:
            if isinstance(event.data, CallWaiting) and event.run_id in self._runs:
                self._sink.on_call_retried(self._runs[event.run_id].workflow, event.data.model)
            return
        now = to_nanoseconds(event.timestamp)
        run = self._run(event, now)
        run.seq, run.last = event.seq, now
        match event.data:
            case NodeRunning() | NodeCompleted() | NodeFailed() | NodeSkipped() as data:
                self._node(run, event, data, now)
            case ModelCallEnded() as data:
                self._model(run, data)
            case AsideUsage() as data:
                self._sink.on_model_call(run.workflow, data.model, data.input_tokens, 0, data.cost_usd, None)
            case ToolCallEnded() as data:
                self._sink.on_tool_call(data.name, event.node_id or "", data.status, data.seconds)
            case LoopRound(loop=loop):
                self._sink.on_round_started(loop)
            case LimitReached(what=what, locks=True):
                run.last_limit = what
            case BreakerTripped(trigger=trigger):
                run.last_limit = trigger
            case MemoryFailed():
                self._sink.on_memory_error()
            case RunStateChanged(status=status) | RunFinished(status=status):
                self._state(run, event.run_id, status)

    def close_run(self, run_id: str, status: str = "lost") -> None:
        """Ends a run: it is idle, or this process no longer executes it. Then its last event is its
        end."""
        run = self._runs.pop(run_id, None)
        if run is not None:
            self._sink.on_run_stopped(run.workflow, status, (run.last - run.since) / NANOSECONDS_PER_SECOND)

    def _run(self, event: Event, now: int) -> _RunTiming:
        run = self._runs.get(event.run_id)
        if run is not None and event.seq == run.seq + 1:
            return run
        # A gap: the run continued in another process in between, and what was open here has an unknown
        # end.
        self.close_run(event.run_id)
        run = self._runs[event.run_id] = _RunTiming(self.runs.lookup(event), now)
        self._sink.on_run_started()
        return run

    def _state(self, run: _RunTiming, run_id: str, status: str) -> None:
        # The event with the cause precedes the change of status.
        if status == "suspended_locked":
            self._sink.on_run_locked(run.workflow, run.last_limit)
        if status != "running":
            self.close_run(run_id, status)

    def _node(self, run: _RunTiming, event: Event, data: NodeStateChange, now: int) -> None:
        status, address = data.status, event.address or ""
        if isinstance(data, NodeRunning):
            run.nodes[address] = _NodeTiming(now, data.speaks)
            return
        node = run.nodes.pop(address, None)
        # A node that was skipped before it ran is not an execution; one that was cancelled in flight is.
        if node is not None or status != "skipped":
            seconds = (now - node.since) / NANOSECONDS_PER_SECOND if node is not None else None
            self._sink.on_node_ended(event.node_id or "", status, seconds, node is not None and node.agent)

    def _model(self, run: _RunTiming, data: ModelCallEnded) -> None:
        if data.type == "Timeout":
            self._sink.on_model_timeout(run.workflow)
        # A reply from the cache was no call.
        if data.status == "completed" and not data.cached:
            tokens = data.input_tokens, data.output_tokens
            self._sink.on_model_call(run.workflow, data.model, *tokens, data.cost_usd, data.seconds)
