"""What is known of a run, folded from its events.

The run's thread writes it, the display's thread reads copies of it: an event costs a lock and a few
dictionary entries, and whatever takes longer is left to whoever draws.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, NamedTuple

from roundel.cli.live.spending import Spending, Usage
from roundel.cli.live.standing import Round, standing
from roundel.cli.live.talks import AgentActivities, AgentActivity, place_of_node
from roundel.kernel.events import Event
from roundel.kernel.state import Run
from roundel.plan.graph import Plan

RECENT = 8


class Said(NamedTuple):
    """A node that has finished."""

    address: str
    text: str
    failed: bool


@dataclass(frozen=True, slots=True)
class Snapshot:
    status: str
    reason: str
    seconds: float
    loops: dict[str, Round]
    """By their addresses without the round; those that are left are gone."""
    at_work: dict[str, float]
    """Addresses, and for how many seconds."""
    asked: set[str]
    """Those at work that wait for a person."""
    talks: dict[str, AgentActivity]
    """What those at work say, and the tools that they use, by address."""
    recent: list[Said]
    runs: dict[str, int]
    rounds: dict[str, dict[str, Any]]
    """For each loop `rounds`, `exit_reason`, and `by`, the node whose edge left it."""
    usage: Usage
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
        self._loops: dict[str, Round] = {}
        self._at_work: dict[str, float] = {}
        self._asked: set[str] = set()
        self._recent: deque[Said] = deque(maxlen=RECENT)
        self._runs: dict[str, int] = {}
        self._rounds: dict[str, dict[str, Any]] = {}
        self._talks = AgentActivities(clock)
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
            "token_stream": self._talks.heard,
            "token_usage": self._tokens,
            "end_not_reached": self._no_end,
            "run_state_change": self._state,
            "run_finished": self._finished,
        }

    def take(self, event: Event) -> None:
        handler = self._handlers.get(event.event)
        if handler is not None:
            with self._lock:
                handler(event)

    def take_up(self, run: Run) -> None:
        """A run goes on, of which no events were seen."""
        summary, stands, now = run.summary(), standing(run), self._now()
        with self._lock:
            self._runs = summary["nodes"]
            self._rounds = {name: dict(figures) for name, figures in summary["loops"].items()}
            self._loops = {_place(loop.address, loop.number): loop for loop in stands.loops}
            self._at_work = dict.fromkeys(stands.at_work, now)
            self._asked = set(stands.asked)
            if run.status == "waiting":
                self._status, self._reason = "waiting", "for " + ", ".join(sorted(stands.asked))
            self._spending.settle(summary["usage"])

    def settle(self, usage: Mapping[str, Any]) -> None:
        """The run has come to rest and says what it used."""
        with self._lock:
            self._spending.settle(usage)

    def snapshot(self) -> Snapshot:
        now = self._now()
        with self._lock:
            return Snapshot(
                self._status,
                self._reason,
                (self._ended or now) - self._started,
                dict(self._loops),
                {address: now - since for address, since in self._at_work.items()},
                set(self._asked),
                self._talks.of(list(self._at_work)),
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
            self._at_work[address] = self._now()
            name = event.node_id or address
            self._runs[name] = self._runs.get(name, 0) + 1
            return
        if status == "skipped":
            return
        self._at_work.pop(address, None)
        rounds = self._talks.over(address)
        if status == "failed":
            self._recent.append(Said(address, data.get("error", ""), True))
            return
        if event.node_id in self._speaking:
            self._spending.spoken(address, rounds)
        if "output" in data:
            self._recent.append(Said(address, data["output"], False))

    def _round(self, event: Event) -> None:
        name, number, address = event.data["loop"], event.data["round"], event.address or ""
        self._loops[_place(address, number)] = Round(name, address, number)
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
        self._asked.add(event.address or "")

    def _answer(self, event: Event) -> None:
        self._asked.discard(event.address or "")

    def _tool(self, event: Event) -> None:
        self._talks.tool(event)
        self._spending.tool(event)

    def _tokens(self, event: Event) -> None:
        self._talks.replied(event)
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
        self._at_work.clear()
        self._talks.clear()
        # The run's own figures; the events seen here may have begun in the middle.
        self._runs, self._rounds = data.get("nodes", self._runs), data.get("loops", self._rounds)
        self._spending.settle(data.get("usage", {}))


def _place(address: str, number: int) -> str:
    return address[: -len(str(number)) - 2]
