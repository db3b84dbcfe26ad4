"""From events to figures, whoever keeps them: what is counted, and how long things took.

Figures have no addresses and no run ids, since there would be a series for each.
"""

from __future__ import annotations

from roundel.kernel.events import TRANSIENT, Event
from roundel.telemetry.events import SECOND, Known, around, nanoseconds


class _Node:
    __slots__ = ("agent", "asked", "since")

    def __init__(self, since: int, agent: bool) -> None:
        self.since = since
        self.asked = since
        """Since when its model is at work, if it is an agent."""
        self.agent = agent


class _Run:
    __slots__ = ("agents", "last", "met", "nodes", "seq", "since", "tools", "workflow")

    def __init__(self, workflow: str, agents: frozenset[str], since: int) -> None:
        self.workflow = workflow
        self.agents = agents
        self.since = self.last = since
        self.seq = 0
        self.met = ""
        """What was met last: a limit, or what trips the breaker."""
        self.nodes: dict[str, _Node] = {}
        self.tools: dict[str, int] = {}

    def agent_of(self, call: str) -> _Node | None:
        """Who made a call of a tool."""
        return next((self.nodes[place] for place in around(call) if place in self.nodes), None)


class Figures:
    """Who keeps the figures. `seconds` is None where the beginning was not seen."""

    def run_began(self) -> None: ...

    def run_rested(self, workflow: str, status: str, seconds: float) -> None: ...

    def node_ended(self, node: str, status: str, seconds: float | None, agent: bool) -> None: ...

    def model_called(
        self, model: str, read: int, written: int, cost: float | None, seconds: float | None
    ) -> None: ...

    def tool_called(self, tool: str, agent: str, status: str, seconds: float | None) -> None: ...

    def round_began(self, loop: str) -> None: ...

    def locked(self, what: str) -> None: ...

    def memory_failed(self) -> None: ...


class Tally:
    """Tells figures to those who keep them, from the events of any number of runs."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures
        self._runs: dict[str, _Run] = {}
        self.known = Known()

    def observe(self, event: Event) -> None:
        if event.event in TRANSIENT:
            return
        now = nanoseconds(event.timestamp)
        run = self._run(event, now)
        run.seq, run.last = event.seq, now
        match event.event:
            case "node_state_change":
                self._node(run, event, now)
            case "token_usage":
                self._tokens(run, event, now)
            case "tool_call":
                self._tool(run, event, now)
            case "loop_round":
                self._figures.round_began(event.data.get("loop", ""))
            case "limit_reached" | "breaker_tripped":
                run.met = event.data.get("what") or event.data.get("trigger", "")
            case "memory_error":
                self._figures.memory_failed()
            case "run_state_change" | "run_finished":
                self._state(run, event)

    def let_go(self, run_id: str, status: str = "lost") -> None:
        run = self._runs.pop(run_id, None)
        if run is not None:
            self._figures.run_rested(run.workflow, status, (run.last - run.since) / SECOND)

    def _run(self, event: Event, now: int) -> _Run:
        run = self._runs.get(event.run_id)
        if run is not None and event.seq == run.seq + 1:
            return run
        self.let_go(event.run_id)
        run = self._runs[event.run_id] = _Run(*self.known.hear(event), now)
        self._figures.run_began()
        return run

    def _state(self, run: _Run, event: Event) -> None:
        status = event.data.get("status", "")
        if status == "suspended_locked":
            self._figures.locked(run.met)
        if status != "running":
            self.let_go(event.run_id, status)

    def _node(self, run: _Run, event: Event, now: int) -> None:
        status, address = event.data.get("status", ""), event.address or ""
        if status == "running":
            run.nodes[address] = _Node(now, event.node_id in run.agents)
            return
        node = run.nodes.pop(address, None)
        if node is not None or status != "skipped":
            seconds = (now - node.since) / SECOND if node is not None else None
            self._figures.node_ended(event.node_id or "", status, seconds, node is not None and node.agent)

    def _tokens(self, run: _Run, event: Event, now: int) -> None:
        data, node = event.data, run.nodes.get(event.address or "")
        seconds = None
        if node is not None and not data.get("aside"):
            seconds = (now - node.asked) / SECOND
            node.agent, node.asked = True, now
        if not data.get("cached"):
            read, written = data.get("input_tokens", 0), data.get("output_tokens", 0)
            cost = data.get("cost_usd")
            self._figures.model_called(data.get("model", ""), read, written, cost, seconds)

    def _tool(self, run: _Run, event: Event, now: int) -> None:
        status, address = event.data.get("status", ""), event.address or ""
        agent = run.agent_of(address)
        if agent is not None:
            agent.agent, agent.asked = True, now  # it is asked again when all its tools are back
        if status == "running":
            run.tools[address] = now
        elif status != "waiting":
            since = run.tools.pop(address, None)
            seconds = (now - since) / SECOND if since is not None else None
            self._figures.tool_called(event.data.get("name", ""), event.node_id or "", status, seconds)
