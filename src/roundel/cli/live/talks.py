"""What agents at work are saying, and the tools that they use."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from roundel.kernel.events import Event

KEPT = 2000
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
    saying: str = ""


class AgentActivities:
    """By the place in which an agent's rounds are: its address, behind a dot if it stands in a loop."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._now = clock
        self._talks: dict[str, _AgentState] = {}

    def tool(self, event: Event) -> None:
        data, address = event.data, event.address or ""
        agent = self._at(place_of_tool(address, data["round"]))
        if agent.round != data["round"]:
            agent.round = data["round"]
            agent.tools.clear()
        agent.saying = ""
        ended = data["status"] not in OPEN
        since = agent.tools[address].seconds if ended and address in agent.tools else self._now()
        text = str(data.get("result") or "") if ended else arguments_text(data["arguments"])
        agent.tools[address] = ToolCall(data["name"], data["round"], data["status"], text, since)

    def heard(self, event: Event) -> None:
        """A part of what a model is saying; what is said in another attempt is said anew."""
        agent, attempt = self._at(place_of_node(event.address or "")), event.data.get("attempt", 1)
        if agent.has_replied or agent.attempt != attempt:
            agent.saying, agent.has_replied, agent.attempt = "", False, attempt
        saying = agent.saying + event.data["text"]
        agent.saying = saying if len(saying) <= KEPT else saying[-KEPT // 2 :].partition(" ")[2]

    def replied(self, event: Event) -> None:
        """What is said from now on belongs to another reply."""
        agent = self._talks.get(place_of_node(event.address or ""))
        if agent is not None:
            agent.has_replied = True

    def over(self, address: str) -> int:
        """How many rounds of tools there were."""
        agent = self._talks.pop(place_of_node(address), None)
        return 0 if agent is None else agent.round

    def clear(self) -> None:
        self._talks.clear()

    def of(self, addresses: list[str]) -> dict[str, AgentActivity]:
        now = self._now()
        found = ((address, self._talks.get(place_of_node(address))) for address in addresses)
        return {address: agent.shown(now) for address, agent in found if agent is not None}

    def _at(self, place: str) -> _AgentState:
        return self._talks.setdefault(place, _AgentState())


class _AgentState:
    def __init__(self) -> None:
        self.tools: dict[str, ToolCall] = {}
        """By address, with when each began in place of how long it took."""
        self.round = 0
        self.saying = ""
        self.has_replied = False
        self.attempt = 1

    def shown(self, now: float) -> AgentActivity:
        tools = (call._replace(seconds=now - call.seconds) for call in self.tools.values())
        return AgentActivity(tuple(tools), self.saying)


def place_of_node(address: str) -> str:
    """Where the rounds of a node are that has rounds of its own: in a loop around it, behind a dot."""
    around, slash, name = address.rpartition("/")
    return f"{around}.{name}" if around.endswith("]") else around + slash + name


def place_of_tool(address: str, number: int) -> str:
    """The place of the agent that uses it: what is in front of `[2]/mean`."""
    return address.rpartition("/")[0][: -len(str(number)) - 2]


def arguments_text(arguments: Any) -> str:
    return json.dumps(arguments, ensure_ascii=False) if arguments else ""
