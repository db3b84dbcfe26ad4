"""Turns events into figures, for any sink: counts, and how long things took.

Figures have no addresses and no run ids, since each would make a series of its own. Durations come from
the timestamps of events. A run may be resumed here in the middle: without its beginning a duration is
unknown (None), and is left out rather than reported too short.
"""

from __future__ import annotations

from roundel.kernel.events import Event
from roundel.kernel.payloads import (
    TRANSIENT,
    BreakerTripped,
    CallWaiting,
    LimitReached,
    LoopRound,
    MemoryFailed,
    NodeCompleted,
    NodeFailed,
    NodeRunning,
    NodeSkipped,
    NodeStateChange,
    RunFinished,
    RunStateChanged,
    TokenUsage,
    ToolCallChange,
    ToolCallEnded,
    ToolCallStarted,
)
from roundel.telemetry.conventions import (
    NANOSECONDS_PER_SECOND,
    RunRegistry,
    enclosing_addresses,
    to_nanoseconds,
)


class _NodeTiming:
    """A node in flight."""

    __slots__ = ("agent", "model_since", "since")

    def __init__(self, since: int, agent: bool) -> None:
        self.since = since
        self.model_since = since
        """When its present model call began, if it is an agent. Events report only the end of a call."""
        self.agent = agent


class _RunTiming:
    """A run in flight in this process, with its open nodes and tool calls."""

    __slots__ = ("agents", "last", "last_limit", "nodes", "seq", "since", "tools", "workflow")

    def __init__(self, workflow: str, agents: frozenset[str], since: int) -> None:
        self.workflow = workflow
        self.agents = agents
        self.since = self.last = since
        self.seq = 0
        self.last_limit = ""
        """The last limit or trigger of the breaker: the reason for a lock that may follow."""
        self.nodes: dict[str, _NodeTiming] = {}
        self.tools: dict[str, int] = {}

    def find_agent(self, call: str) -> _NodeTiming | None:
        """The agent that made a tool call."""
        return next((self.nodes[place] for place in enclosing_addresses(call) if place in self.nodes), None)


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
        input_tokens: int,
        output_tokens: int,
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
            case TokenUsage() as data:
                self._tokens(run, event, data, now)
            case ToolCallStarted() | ToolCallEnded() as data:
                self._tool(run, event, data, now)
            case LoopRound(loop=loop):
                self._sink.on_round_started(loop)
            case LimitReached(what=what):
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
        run = self._runs[event.run_id] = _RunTiming(*self.runs.lookup(event), now)
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
        if status == "running":
            run.nodes[address] = _NodeTiming(now, event.node_id in run.agents)
            return
        node = run.nodes.pop(address, None)
        # A node that was skipped before it ran is not an execution; one that was cancelled in flight is.
        if node is not None or status != "skipped":
            seconds = (now - node.since) / NANOSECONDS_PER_SECOND if node is not None else None
            self._sink.on_node_ended(event.node_id or "", status, seconds, node is not None and node.agent)
        if isinstance(data, NodeFailed) and event.node_id in run.agents and data.type == "Timeout":
            self._sink.on_model_timeout(run.workflow)

    def _tokens(self, run: _RunTiming, event: Event, data: TokenUsage, now: int) -> None:
        node = run.nodes.get(event.address or "")
        seconds = None
        # `aside` is the computation of vectors for a memory, before the model call.
        if node is not None and not data.aside:
            seconds = (now - node.model_since) / NANOSECONDS_PER_SECOND
            node.agent, node.model_since = True, now
        # A reply from the cache was no call, but it still marks the end of the agent's waiting.
        if not data.cached:
            tokens = data.input_tokens, data.output_tokens
            self._sink.on_model_call(run.workflow, data.model, *tokens, data.cost, seconds)

    def _tool(self, run: _RunTiming, event: Event, data: ToolCallChange, now: int) -> None:
        status, address = data.status, event.address or ""
        agent = run.find_agent(address)
        if agent is not None:
            # The model is called again after the last tool, so the last event is the start of that call.
            agent.agent, agent.model_since = True, now
        if status == "running":
            run.tools[address] = now
        elif status != "waiting":
            since = run.tools.pop(address, None)
            seconds = (now - since) / NANOSECONDS_PER_SECOND if since is not None else None
            self._sink.on_tool_call(data.name, event.node_id or "", status, seconds)
