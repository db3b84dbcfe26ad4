"""What a run has used so far, counted from its events; at its end the run says so itself.

What agents at work are saying, and the tools that they use.

How a run stands that goes on: its loops and nodes at work, read from its state instead of its events.

What is known of a run, folded from its events.

The run's thread writes it, the display's thread reads copies of it: an event costs a lock and a few
dictionary entries, and whatever takes longer is left to whoever draws.
"""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, NamedTuple

from roundel.kernel.commands import Ask
from roundel.kernel.events import Event
from roundel.kernel.state import Activation, Execution, Run, ToolLoop
from roundel.plan.graph import Plan
from roundel.workflow.limits import dollars, picodollars


@dataclass(frozen=True, slots=True)
class UsageTotals:
    model_calls: int = 0
    tool_calls: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    """Of the calls whose price is known."""
    unpriced_calls: int = 0
    paid: bool = True
    """Whether models are asked that cost something; a script does not."""

    @property
    def priced(self) -> bool:
        """Whether the price of any call is known."""
        return self.paid and self.unpriced_calls < self.model_calls


class Spending:
    def __init__(self, paid: bool) -> None:
        self._paid = paid
        self._used: Counter[str] = Counter()
        self._cost = 0  # in picodollars
        self._counted: Counter[str] = Counter()
        """The model calls that were counted already of each node at work."""

    def usage(self) -> UsageTotals:
        used = self._used
        tokens = used["input_tokens"] + used["output_tokens"]
        cost = dollars(self._cost)
        return UsageTotals(
            used["model_calls"], used["tool_calls"], tokens, cost, used["unpriced_calls"], self._paid
        )

    def tokens(self, event: Event) -> None:
        data = event.data
        for name in ("input_tokens", "output_tokens"):
            self._used[name] += data.get(name, 0)
        self._count(event.address or "", 1)
        cost = data.get("cost_usd")
        self._cost += picodollars(cost or 0)
        self._used["unpriced_calls"] += cost is None

    def tool(self, event: Event) -> None:
        self._used["tool_calls"] += event.data["status"] in ("completed", "failed")

    def count_agent_calls(self, address: str, rounds: int) -> None:
        """An agent is done. Calls that told of no tokens are counted now: one, and one for each round."""
        missing = rounds + 1 - self._counted[address]
        if missing > 0:
            self._count(address, missing)
            self._used["unpriced_calls"] += missing
        del self._counted[address]

    def settle(self, usage: Mapping[str, Any]) -> None:
        """The run's own figures; the events seen here may have begun in the middle."""
        for name in ("model_calls", "tool_calls", "input_tokens", "output_tokens", "unpriced_calls"):
            self._used[name] = usage.get(name, self._used[name])
        self._cost = picodollars(usage.get("cost_usd", dollars(self._cost)) or 0)

    def _count(self, address: str, calls: int) -> None:
        self._used["model_calls"] += calls
        self._counted[address] += calls


MAX_PARTIAL_TEXT = 2000
"""Characters of what an agent is saying; more is never shown."""
OPEN = ("running", "waiting")


class ToolCall(NamedTuple):
    name: str
    round: int
    status: str
    """running, waiting for a person, completed, failed, refused or rejected."""
    text: str
    """What it gave; as long as it has not, its arguments."""
    seconds: float


class AgentActivity(NamedTuple):
    """The latest of one agent."""

    tools: tuple[ToolCall, ...] = ()
    """Those of its latest round, in the order of the requests."""
    partial_text: str = ""


class AgentActivities:
    """By the place in which an agent's rounds are: its address, behind a dot if it stands in a loop."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._now = clock
        self._agents: dict[str, _AgentState] = {}

    def tool(self, event: Event) -> None:
        data, address = event.data, event.address or ""
        agent = self._at(agent_place_of_tool(address, data["round"]))
        if agent.round != data["round"]:
            agent.round = data["round"]
            agent.tools.clear()
        agent.partial_text = ""
        ended = data["status"] not in OPEN
        since = agent.tools[address].seconds if ended and address in agent.tools else self._now()
        text = str(data.get("result") or "") if ended else arguments_text(data["arguments"])
        agent.tools[address] = ToolCall(data["name"], data["round"], data["status"], text, since)

    def on_tokens(self, event: Event) -> None:
        """A part of what a model is saying; what is said in another attempt is said anew."""
        agent, attempt = self._at(place_of_node(event.address or "")), event.data.get("attempt", 1)
        if agent.has_replied or agent.attempt != attempt:
            agent.partial_text, agent.has_replied, agent.attempt = "", False, attempt
        partial_text = agent.partial_text + event.data["text"]
        agent.partial_text = (
            partial_text
            if len(partial_text) <= MAX_PARTIAL_TEXT
            else partial_text[-MAX_PARTIAL_TEXT // 2 :].partition(" ")[2]
        )

    def on_reply(self, event: Event) -> None:
        """What is said from now on belongs to another reply."""
        agent = self._agents.get(place_of_node(event.address or ""))
        if agent is not None:
            agent.has_replied = True

    def on_node_done(self, address: str) -> int:
        """How many rounds of tools there were."""
        agent = self._agents.pop(place_of_node(address), None)
        return 0 if agent is None else agent.round

    def clear(self) -> None:
        self._agents.clear()

    def activities_at(self, addresses: list[str]) -> dict[str, AgentActivity]:
        now = self._now()
        found = ((address, self._agents.get(place_of_node(address))) for address in addresses)
        return {address: agent.shown(now) for address, agent in found if agent is not None}

    def _at(self, place: str) -> _AgentState:
        return self._agents.setdefault(place, _AgentState())


class _AgentState:
    def __init__(self) -> None:
        self.tools: dict[str, ToolCall] = {}
        """By address, with when each began in place of how long it took."""
        self.round = 0
        self.partial_text = ""
        self.has_replied = False
        self.attempt = 1

    def shown(self, now: float) -> AgentActivity:
        tools = (call._replace(seconds=now - call.seconds) for call in self.tools.values())
        return AgentActivity(tuple(tools), self.partial_text)


def place_of_node(address: str) -> str:
    """Where the rounds of a node are that has rounds of its own: in a loop around it, behind a dot."""
    around, slash, name = address.rpartition("/")
    return f"{around}.{name}" if around.endswith("]") else around + slash + name


def agent_place_of_tool(address: str, number: int) -> str:
    """The place of the agent that uses it: what is in front of `[2]/mean`."""
    return address.rpartition("/")[0][: -len(str(number)) - 2]


def arguments_text(arguments: Any) -> str:
    return json.dumps(arguments, ensure_ascii=False) if arguments else ""


class ActiveRound(NamedTuple):
    """A loop at work."""

    loop: str
    address: str
    number: int


class Activity(NamedTuple):
    loops: list[ActiveRound]
    active: list[str]
    awaiting_answer: list[str]


def read_activity(run: Run) -> Activity:
    active = [around.address for call in run.calls.values() for around in _around(call)]
    awaiting_answer = [address for address, call in run.calls.items() if isinstance(call.command, Ask)]
    loops = {loop.address: loop for call in run.calls.values() for loop in _loops(call)}
    # A loop inside another has the longer address, and is shown below it.
    return Activity(sorted(loops.values(), key=lambda loop: len(loop.address)), active, awaiting_answer)


def _around(call: Execution) -> Iterator[Execution]:
    """The node, and those whose graphs it is in, from the inside out."""
    node: Execution | None = call.owner.execution if isinstance(call.owner, ToolLoop) else call
    while node is not None:
        yield node
        node = node.activation.instance.caller or _enclosing_composite(node)


def _enclosing_composite(node: Execution) -> Execution | None:
    composite_run = node.activation.instance.composite_run
    return None if composite_run is None else composite_run.execution


def _loops(call: Execution) -> Iterator[ActiveRound]:
    for node in _around(call):
        activation: Activation | None = node.activation
        while activation is not None and activation.parent is not None:
            yield ActiveRound(activation.name, activation.address, activation.round)
            activation = activation.parent
        instance = node.activation.instance
        composite_run, iteration = instance.composite_run, instance.iteration
        if composite_run is not None and iteration is not None and composite_run.execution.node.kind.loops:
            yield ActiveRound(
                composite_run.execution.node.id, f"{composite_run.stem}{iteration.round}]", iteration.round
            )


RECENT = 8


class FinishedNode(NamedTuple):
    """A node that has finished."""

    address: str
    text: str
    failed: bool


@dataclass(frozen=True, slots=True)
class ProgressSnapshot:
    status: str
    reason: str
    seconds: float
    loops: dict[str, ActiveRound]
    """By their addresses without the round; those that are left are gone."""
    active: dict[str, float]
    """Addresses, and for how many seconds."""
    awaiting_answer: set[str]
    """Those at work that wait for a person."""
    agents: dict[str, AgentActivity]
    """What those at work say, and the tools that they use, by address."""
    recent: list[FinishedNode]
    runs: dict[str, int]
    rounds: dict[str, dict[str, Any]]
    """For each loop `rounds`, `exit_reason`, and `by`, the node whose edge left it."""
    usage: UsageTotals
    notes: list[str]


class Progress:
    def __init__(
        self, plan: Plan, clock: Callable[[], float] = time.monotonic, *, scripted: bool = False
    ) -> None:
        self._now = clock
        self._lock = Lock()
        self._speaking = frozenset(node.id for node in plan.sites if node.kind.speaks)
        self._started = clock()
        self._ended: float | None = None
        self._status, self._reason = "running", ""
        self._loops: dict[str, ActiveRound] = {}
        self._active: dict[str, float] = {}
        self._awaiting_answer: set[str] = set()
        self._recent: deque[FinishedNode] = deque(maxlen=RECENT)
        self._runs: dict[str, int] = {}
        self._rounds: dict[str, dict[str, Any]] = {}
        self._agents = AgentActivities(clock)
        self._spending = Spending(paid=not scripted)
        self._left: dict[str, str] = {}
        self._notes: list[str] = []
        self._handlers: dict[str, Callable[[Event], None]] = {
            "run_started": self._begun,
            "node_state_change": self._node,
            "loop_round": self._round,
            "loop_exit": self._exit,
            "human_input_required": self._ask,
            "human_input_received": self._answer,
            "tool_call": self._tool,
            "token_stream": self._agents.on_tokens,
            "token_usage": self._tokens,
            "end_not_reached": self._no_end,
            "run_state_change": self._state,
            "run_finished": self._finished,
        }

    def apply_event(self, event: Event) -> None:
        handler = self._handlers.get(event.event)
        if handler is not None:
            with self._lock:
                handler(event)

    def load_state(self, run: Run) -> None:
        """A run goes on, of which no events were seen."""
        summary, activity, now = run.summary(), read_activity(run), self._now()
        with self._lock:
            self._runs = summary["nodes"]
            self._rounds = {name: dict(figures) for name, figures in summary["loops"].items()}
            self._loops = {_place(loop.address, loop.number): loop for loop in activity.loops}
            self._active = dict.fromkeys(activity.active, now)
            self._awaiting_answer = set(activity.awaiting_answer)
            if run.status == "waiting":
                self._status, self._reason = "waiting", "for " + ", ".join(sorted(activity.awaiting_answer))
            self._spending.settle(summary["usage"])

    def settle(self, usage: Mapping[str, Any]) -> None:
        """The run has come to rest and says what it used."""
        with self._lock:
            self._spending.settle(usage)

    def snapshot(self) -> ProgressSnapshot:
        now = self._now()
        with self._lock:
            return ProgressSnapshot(
                self._status,
                self._reason,
                (self._ended or now) - self._started,
                dict(self._loops),
                {address: now - since for address, since in self._active.items()},
                set(self._awaiting_answer),
                self._agents.activities_at(list(self._active)),
                list(self._recent),
                dict(self._runs),
                {name: {**figures, "by": self._left.get(name, "")} for name, figures in self._rounds.items()},
                self._spending.usage(),
                list(self._notes),
            )

    def _begun(self, event: Event) -> None:
        self._started = self._now()

    def _node(self, event: Event) -> None:
        data, address = event.data, event.address or ""
        status = data.get("status")
        if status == "running":
            self._active[address] = self._now()
            name = event.node_id or address
            self._runs[name] = self._runs.get(name, 0) + 1
            return
        if status == "skipped":
            return
        self._active.pop(address, None)
        rounds = self._agents.on_node_done(address)
        if status == "failed":
            self._recent.append(FinishedNode(address, data.get("error", ""), True))
            return
        if event.node_id in self._speaking:
            self._spending.count_agent_calls(address, rounds)
        if "output" in data:
            self._recent.append(FinishedNode(address, data["output"], False))

    def _round(self, event: Event) -> None:
        name, number, address = event.data["loop"], event.data["round"], event.address or ""
        self._loops[_place(address, number)] = ActiveRound(name, address, number)
        figures = self._rounds.setdefault(name, {"rounds": 0, "exit_reason": ""})
        figures["rounds"] += 1

    def _exit(self, event: Event) -> None:
        data, address = event.data, event.address or ""
        place = _place(address, data["rounds"]) if address.endswith("]") else place_of_node(address)
        for known in [known for known in self._loops if known == place or known.startswith(f"{place}[")]:
            del self._loops[known]  # what is inside may have been called off without a word
        self._rounds.setdefault(data["loop"], {"rounds": data["rounds"]})["exit_reason"] = data["reason"]
        self._left[data["loop"]] = data.get("by", "")

    def _ask(self, event: Event) -> None:
        self._awaiting_answer.add(event.address or "")

    def _answer(self, event: Event) -> None:
        self._awaiting_answer.discard(event.address or "")

    def _tool(self, event: Event) -> None:
        self._agents.tool(event)
        self._spending.tool(event)

    def _tokens(self, event: Event) -> None:
        self._agents.on_reply(event)
        self._spending.tokens(event)

    def _no_end(self, event: Event) -> None:
        edges = ", ".join(event.data.get("edges", ()))
        where = f"{event.address}: " if event.address else ""
        self._notes.append(f"{where}no end was reached" + (f"; these did not fire: {edges}" if edges else ""))

    def _state(self, event: Event) -> None:
        self._status, self._reason = event.data["status"], event.data.get("reason", "")

    def _finished(self, event: Event) -> None:
        data = event.data
        self._status, self._reason, self._ended = data["status"], "", self._now()
        self._loops.clear()
        self._active.clear()
        self._agents.clear()
        # The run's own figures; the events seen here may have begun in the middle.
        self._runs, self._rounds = data.get("nodes", self._runs), data.get("loops", self._rounds)
        self._spending.settle(data.get("usage", {}))


def _place(address: str, number: int) -> str:
    return address[: -len(str(number)) - 2]
