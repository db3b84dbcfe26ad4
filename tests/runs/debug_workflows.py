"""Workflows of every shape, for stories about stepping through runs; and tools that report their calls."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import roundel

Flow = dict[str, Any]
Script = dict[str, Any]
CHECKS = ("cause_understood", "cost_accepted", "workflow_reviewed")
END = {"id": "End", "type": "passthrough"}
BACK, OUT = {"port": "continue"}, {"port": "exit"}
Edge = tuple[str, str] | tuple[str, str, Flow]


def agent(name: str, **config: Any) -> Flow:
    return {"id": name, "type": "agent", "config": config}


def gate(name: str, rounds: int, **config: Any) -> Flow:
    return {"id": name, "type": "loop", "config": {"max_rounds": rounds, **config}}


def human(name: str, **config: Any) -> Flow:
    return {"id": name, "type": "human", "config": {"description": "Is it good?", **config}}


def function(name: str) -> Flow:
    return {"id": name, "type": "python", "config": {"function": "tests.runs.debug_workflows:work"}}


def flow(nodes: Iterable[Flow], edges: Iterable[Edge], end: str | list[str], **settings: Any) -> Flow:
    """A workflow that starts with its first node."""
    listed = list(nodes)
    joined = [{"from": source, "to": target, **dict(*more)} for source, target, *more in edges]
    graph = {"id": "flow", "nodes": listed, "edges": joined, "start": listed[0]["id"], "end": end}
    tools = {name: {"python": f"tests.runs.debug_workflows:{name}"} for name in ("look",)}
    return {"breaker": False, "tools": tools, "graph": {**graph, **settings}}


def says(*names: str) -> Script:
    return {name: [f"{name} {number}" for number in range(30)] for name in names}


def asks(*words: str) -> Flow:
    """A reply that requests tools."""
    return {"tool_calls": [{"name": "look", "arguments": {"word": word}} for word in words]}


class Bench:
    """What the tools and functions of this process have done, and how long they take."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        """The keys of tools, the addresses of functions."""
        self.gates: dict[str, asyncio.Event] = {}
        """A call with this word or address lasts until its gate is open."""
        self.has_started = asyncio.Event()
        """A call waits at its gate."""

    async def call(self, key: str, word: str) -> None:
        self.calls.append(key)
        if word in self.gates:
            self.has_started.set()
            await self.gates[word].wait()

    def close(self, *words: str) -> None:
        self.has_started = asyncio.Event()
        self.gates = {word: asyncio.Event() for word in words}

    def open(self) -> None:
        for one in self.gates.values():
            one.set()


bench = Bench()


async def look(word: str, idempotency_key: str) -> str:
    """Looks at a word."""
    await bench.call(idempotency_key, word)
    return f"saw {word}"


async def work(text: str, address: str) -> str:
    await bench.call(address, address)
    return f"{text}+"


class Watch(roundel.Middleware):
    """Sees every call that is begun."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    async def before(self, visit: roundel.Visit) -> None:
        self.keys.append(visit.key.partition(":")[2])

    @property
    def twice(self) -> list[str]:
        return [key for key, count in Counter(self.keys).items() if count > 1]


# The workflows.

NESTED = flow(
    [agent("Outer"), agent("Inner"), agent("Critic"), gate("InnerGate", 2), gate("OuterGate", 2), END],
    [
        ("Outer", "Inner"),
        ("Inner", "Critic"),
        ("Critic", "InnerGate"),
        ("InnerGate", "Inner", BACK),
        ("InnerGate", "OuterGate", OUT),
        ("OuterGate", "Outer", BACK),
        ("OuterGate", "End", OUT),
    ],
    "End",
)
PARALLEL = flow(
    map(agent, ("A", "B", "C", "D", "Join")),
    [("A", "B"), ("A", "C"), ("A", "D"), ("B", "Join"), ("C", "Join"), ("D", "Join")],
    "Join",
)
PART = {"id": "part", "nodes": [agent("X"), agent("Y")], "edges": [{"from": "X", "to": "Y"}]} | {
    "start": "X",
    "end": "Y",
}
SUBGRAPH = flow(
    [agent("A"), {"id": "Part", "type": "subgraph", "config": {"type": "config", "config": PART}}, END],
    [("A", "Part"), ("Part", "End")],
    "End",
)


def each(width: int) -> Flow:
    """A list that is worked through, several elements at a time."""
    config = {"strategy": {"mode": "array", "max": 10, "max_parallel": width}, "body": PART}
    nodes = [agent("List"), {"id": "Each", "type": "loop_agent", "config": config}, agent("Last")]
    return flow(nodes, [("List", "Each"), ("Each", "Last")], "Last")


SPEAKERS = [agent("Ann"), agent("Ben")]
DEBATE = flow(
    [{"id": "Talk", "type": "debate", "config": {"participants": SPEAKERS, "max_rounds": 2}}, agent("Last")],
    [("Talk", "Last")],
    "Last",
)
VOTE = flow(
    [{"id": "Vote", "type": "vote", "config": {"participants": SPEAKERS}}, agent("Yes"), agent("No")],
    [("Vote", "Yes", {"port": "approved"}), ("Vote", "No", {"port": "rejected"})],
    ["Yes", "No"],
)
SPLIT = {
    "dynamic": {
        "type": "map",
        "split": {"type": "json_path", "config": {"json_path": "parts"}},
        "config": {"max_parallel": 2},
    }
}
MAP = flow(map(agent, ("List", "Expert", "Last")), [("List", "Expert", SPLIT), ("Expert", "Last")], "Last")
MAP_SUBGRAPH = flow(
    [agent("List"), SUBGRAPH["graph"]["nodes"][1], agent("Last")],
    [("List", "Part", SPLIT), ("Part", "Last")],
    "Last",
)
GATE = flow(
    [agent("W"), gate("Gate", 3), END], [("W", "Gate"), ("Gate", "W", BACK), ("Gate", "End", OUT)], "End"
)
HUMAN = flow([agent("W"), human("H"), agent("Last")], [("W", "H"), ("H", "Last")], "Last")
TOOLS = flow([agent("T", tools=["look"], max_tool_calls=3), agent("Last")], [("T", "Last")], "Last")
APPROVAL = flow(
    [agent("T", tools=["look"], max_tool_calls=3, approval="always"), agent("Last")], [("T", "Last")], "Last"
)
FUNCTIONS = flow(
    [*map(function, ("W", "B", "C")), gate("Gate", 3), END],
    [("W", "B"), ("W", "C"), ("B", "Gate"), ("C", "Gate"), ("Gate", "W", BACK), ("Gate", "End", OUT)],
    "End",
)
"""A loop of functions, two of which run at the same time."""
RESEARCH = [asks("a", "b"), asks("c"), "done"]
LISTED = {"List": ['["a", "b", "c"]']}


class Shape(NamedTuple):
    flow: Flow
    script: Script
    steps: str
    """The places at which single steps stop, in order."""
    rounds: str
    """The places at which steps to the next round stop."""


SHAPES: dict[str, Shape] = {
    "nested loops": Shape(
        NESTED,
        says("Outer", "Inner", "Critic"),
        " ".join(
            f"Outer[{outer}]/Outer "
            + " ".join(
                f"Outer[{outer}].Inner[{inner}]/{name}"
                for inner in (1, 2)
                for name in ("Inner", "Critic", "InnerGate")
            )
            + f" Outer[{outer}]/OuterGate"
            for outer in (1, 2)
        )
        + " End",
        "Outer[1]/Outer Outer[2]/Outer End",
    ),
    "parallel branches": Shape(PARALLEL, says(*"ABCD", "Join"), "A B C D Join", "A"),
    "subgraph": Shape(SUBGRAPH, says("A", "X", "Y"), "A Part Part/X Part/Y End", "A"),
    "loop agent": Shape(
        each(1),
        {**says("X", "Y", "Last"), **LISTED},
        "List Each Each[1]/X Each[1]/Y Each[2]/X Each[2]/Y Each[3]/X Each[3]/Y Last",
        "List Each[1]/X Each[2]/X Each[3]/X Last",
    ),
    "parallel loop agent": Shape(
        each(2),
        {**says("X", "Y", "Last"), **LISTED},
        "List Each Each[1]/X Each[1]/Y Each[2]/X Each[2]/Y Each[3]/X Each[3]/Y Last",
        "List Each[1]/X Each[3]/X Last",
    ),
    "debate": Shape(
        DEBATE,
        says("Ann", "Ben", "Last"),
        "Talk Talk[1]/Ann Talk[1]/Ben Talk[2]/Ann Talk[2]/Ben Last",
        "Talk Talk[1]/Ann Talk[2]/Ann Last",
    ),
    "vote": Shape(
        VOTE, {"Ann": "approve", "Ben": "approve", **says("Yes", "No")}, "Vote Vote/Ann Vote/Ben Yes", "Vote"
    ),
    "dynamic edge": Shape(
        MAP, {"List": '{"parts": ["a", "b", "c"]}', **says("Expert", "Last")}, "List Expert Last", "List"
    ),
    "dynamic edge to a subgraph": Shape(
        MAP_SUBGRAPH,
        {"List": '{"parts": ["a", "b", "c"]}', **says("X", "Y", "Last")},
        "List Part Part#1/X Part#1/Y Part#2/X Part#2/Y Part#3/X Part#3/Y Last",
        "List",
    ),
    "gate": Shape(
        GATE,
        says("W"),
        "W[1]/W W[1]/Gate W[2]/W W[2]/Gate W[3]/W W[3]/Gate End",
        "W[1]/W W[2]/W W[3]/W End",
    ),
    "scripted person": Shape(HUMAN, says("W", "H", "Last"), "W H Last", "W"),
    "tools": Shape(TOOLS, {"T": RESEARCH, **says("Last")}, "T T[1] T[2] Last", "T T[1] T[2] Last"),
    "tools with approval": Shape(
        APPROVAL,
        {"T": RESEARCH, "T/look": "yes", **says("Last")},
        "T T[1] T[2] Last",
        "T T[1] T[2] Last",
    ),
    "functions": Shape(
        FUNCTIONS,
        {},
        " ".join(f"W[{number}]/{name}" for number in (1, 2, 3) for name in ("W", "B", "C", "Gate")) + " End",
        "W[1]/W W[2]/W W[3]/W End",
    ),
}


# Stories and traces.

Story = Callable[[roundel.Runs], Awaitable[None]]


def run_story(place: str | Path, story: Story) -> None:
    async def main() -> None:
        async with roundel.Runs(place) as runs:
            await story(runs)

    asyncio.run(main())


async def begin(runs: roundel.Runs, workflow: Any, script: Script | None = None, **options: Any) -> str:
    """Starts a run, waits until it is paused or over, and returns its id."""
    run_id = await runs.start(workflow, "go", script=script, **options)
    await runs.result(run_id)
    return run_id


async def ready(runs: roundel.Runs, run_id: str) -> list[str]:
    """The addresses that are ready, in the order of steps."""
    return [node.address for node in (await runs.debug(run_id)).ready]


async def walk(runs: roundel.Runs, run_id: str, go: Callable[[], Awaitable[roundel.Result]]) -> list[str]:
    """The places at which a run stops until it is over, the one where it is included."""
    places = []
    status = (await runs.row(run_id)).status
    while status == "paused":
        places.append((await ready(runs, run_id))[0])
        assert len(places) < 100
        status = (await go()).status
    assert status == "completed"
    return places


EDIT = "edit"
"""A key in the data of messages that edits may change without changing what happens."""
_TIMES = ("timestamp", "deadline", "duration", "seconds", "work_seconds", "waited")
_IGNORED = (*_TIMES, "by", "via", "lane", "entry", "total", EDIT)


def _comparable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _comparable(item) for key, item in value.items() if key not in _IGNORED}
    return [_comparable(item) for item in value] if isinstance(value, (list, tuple)) else value


def by_place(events: Iterable[roundel.Event]) -> dict[str | None, list[Any]]:
    """What happened at each address, in order, and the end; without pauses and edits, and without times."""
    places: dict[str | None, list[Any]] = {}
    for event in events:
        if (event.address is not None and event.event != "message_edited") or event.event == "run_finished":
            places.setdefault(event.address, []).append(
                (event.event, event.node_id, _comparable(event.fields()))
            )
    return places


async def assert_same_trace(runs: roundel.Runs, run_id: str, other: str) -> None:
    """Debugging has changed nothing."""
    events, expected = await runs.events(run_id), await runs.events(other)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert by_place(events) == by_place(expected)
