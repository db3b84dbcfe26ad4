"""A second, slow implementation of the rules, for comparison with the engine.

Nothing here is shared with the engine: no code, no plan, no cleverness. One node runs at a time, layer
by layer, and everything that depends on order is sorted by an explicit key. It knows the node types
`passthrough`, `literal`, `loop_counter` and `agent`; an agent says what a script tells it to say. A reply
that begins with a question mark asks for the tools that it names, if the agent has any; one that begins
with an exclamation mark is a failure. A script makes nodes of other types fail in the same way, and says
nothing else of them.

The one idea worth knowing first is the *place* of an execution: for each scope around it, from the whole
graph inwards, the round of that scope, the layer of the unit there, and the unit's position in the file.
Places sort into the one true order of a run, and comparing two of them tells whether one execution may
see what the other has sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

DEFAULT_CAP = 100
FAILS = "!"
"""A reply that begins with it is the text of an error."""
ASKS = "?"
"""A reply that begins with it asks for tools."""
ERROR = "error"
"""The port of failures."""
BAD_TOOL = "bad"
"""The tool that always fails."""


def wanted(text: str) -> list[str]:
    """The tools that a reply asks for."""
    return text.removeprefix(ASKS).split() if text.startswith(ASKS) else []


Step = tuple[int, int, int]  # round, layer, position in the file
Place = tuple[Step, ...]
Links = dict[str, set[str]]


@dataclass(frozen=True)
class Execution:
    """One run of one node: where, what it took as (role, text), and the texts it gave."""

    address: str
    node: str
    inputs: tuple[tuple[str, str], ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class LoopEvent:
    """A round begins or ends, or a loop is left. The fields that an event does not have are empty."""

    event: str  # loop_round | round_finished | loop_exit
    address: str  # of the round; of the last one if the loop is left
    loop: str
    round: int
    entry: int = 0  # loop_round, loop_exit: which entry of the loop, from 1
    triggered_by: tuple[str, ...] = ()  # loop_round: whose edges began it
    model_calls: int = 0  # round_finished, loop_exit: how often a model was asked inside
    by: str = ""  # loop_exit: whose edge left the loop


@dataclass
class Trace:
    """What a run did. `loops` maps the id of a loop to its rounds, summed over all entries."""

    status: str  # completed | failed | suspended_locked
    output: str
    executions: list[Execution]
    runs: dict[str, int]
    loops: dict[str, int]
    model_calls: int = 0  # how often a model was asked, whether it answered or failed
    loop_events: list[LoopEvent] = field(default_factory=list)


def interpret(workflow: dict[str, Any], text: str, script: dict[str, list[str]]) -> Trace:
    """Run `workflow` on the input `text`; `script` has the replies of each agent, by node id."""
    run = _Run(workflow["graph"], script)
    try:
        run.start(text)
    except _Stopped as stopped:
        return run.trace(stopped.status, "")
    return run.trace("completed", run.result())


# --- the file ---


@dataclass(frozen=True)
class _Message:
    role: str
    text: str
    preserve: bool = False  # the role survives delivery
    keep: bool = False
    source: str = ""


@dataclass(frozen=True)
class _Edge:
    index: int
    source: str
    target: str
    port: str | None
    trigger: bool
    condition: Any
    carry_data: bool
    keep_message: bool
    clear_context: bool
    clear_kept_context: bool


def _read_edges(graph: dict[str, Any]) -> list[_Edge]:
    """The edges in file order; of two with the same ends and port only the later is left, where it stands."""
    last: dict[tuple[str, str, str | None], _Edge] = {}
    for index, raw in enumerate(graph.get("edges", [])):
        last[raw["from"], raw["to"], raw.get("port")] = _Edge(
            index=index,
            source=raw["from"],
            target=raw["to"],
            port=raw.get("port"),
            trigger=raw.get("trigger", True),
            condition=raw.get("condition"),
            carry_data=raw.get("carry_data", True),
            keep_message=raw.get("keep_message", False),
            clear_context=raw.get("clear_context", False),
            clear_kept_context=raw.get("clear_kept_context", False),
        )
    return sorted(last.values(), key=lambda edge: edge.index)


def _as_list(value: Any) -> list[str]:
    if value is None:
        return []
    return [value] if isinstance(value, str) else list(value)


def _holds(condition: Any, text: str) -> bool:
    if condition is None or isinstance(condition, bool):
        return condition is not False
    if condition["type"] != "keyword":
        raise ValueError(f"not a condition of the reference: {condition!r}")
    return _keyword_holds(condition["config"], text)


def _keyword_holds(config: dict[str, Any], text: str) -> bool:
    return _keyword_matches(config, text) is not config.get("negate", False)


def _keyword_matches(config: dict[str, Any], text: str) -> bool:
    exact = config.get("case_sensitive", True)
    required, forbidden = _as_list(config.get("any")), _as_list(config.get("none"))
    patterns = _as_list(config.get("regex"))

    def reply_text(word: str) -> bool:
        if word == "":
            return False
        if config.get("word", False):
            pattern = rf"(?<!\w){re.escape(word)}(?!\w)"
            return re.search(pattern, text, 0 if exact else re.IGNORECASE) is not None
        return word in text if exact else word.lower() in text.lower()

    if any(reply_text(word) for word in forbidden):
        return False
    if any(reply_text(word) for word in required):
        return True
    bare = re.sub(r"""^[\s"'`*_#>~-]+|[\s"'`*_#>~.!-]+$""", "", text)
    for key, end in (("begins", r"(?!\w)"), ("only", r"\Z")):
        for word in _as_list(config.get(key)):
            if re.match(re.escape(word) + end, bare, 0 if exact else re.IGNORECASE):
                return True
    if any(re.search(pattern, text, 0 if exact else re.IGNORECASE) for pattern in patterns):
        return True
    return not any(config.get(key) for key in ("any", "begins", "only", "regex"))


# --- scopes: units and layers ---


@dataclass(frozen=True)
class _Unit:
    """What a scope runs as one thing: a node, or a whole inner loop. It stands where its first node does."""

    first: str
    members: frozenset[str]
    loop: bool


@dataclass(frozen=True)
class _Plan:
    """One scope: the whole graph (no entry), or a loop that was entered at one of its nodes."""

    nodes: frozenset[str]
    layers: tuple[tuple[_Unit, ...], ...]


def _links(pairs: Iterable[tuple[str, str]]) -> Links:
    links: Links = {}
    for source, target in pairs:
        links.setdefault(source, set()).add(target)
    return links


def _reach(links: Links, start: str) -> set[str]:
    """All that can be reached from `start` in one step or more."""
    found: set[str] = set()
    ahead = list(links.get(start, ()))
    while ahead:
        node = ahead.pop()
        if node not in found:
            found.add(node)
            ahead.extend(links.get(node, ()))
    return found


def _make_plan(
    order: list[str], all_edges: list[_Edge], nodes: frozenset[str], entry: str | None, fixed: set[str]
) -> _Plan:
    """`fixed` are the nodes of `start` and `end`, which are never side nodes."""
    edges = [e for e in all_edges if e.source in nodes and e.target in nodes and e.target != entry]
    ordered = [node for node in order if node in nodes]
    units = _join_side_nodes(_make_units(ordered, edges), ordered, all_edges, fixed)
    layer = _make_layers(units, edges)
    rows = (tuple(unit for unit in units if layer[unit.first] == row) for row in range(len(units)))
    return _Plan(nodes, tuple(rows))


def _make_units(nodes: list[str], edges: list[_Edge]) -> list[_Unit]:
    """The strongly connected parts over triggering edges, in file order."""
    links = _links((edge.source, edge.target) for edge in edges if edge.trigger)
    reach = {node: _reach(links, node) for node in nodes}
    units: dict[frozenset[str], _Unit] = {}
    for node in nodes:
        circle = frozenset(other for other in reach[node] if node in reach[other])
        members = circle | {node}
        units.setdefault(members, _Unit(node, members, loop=node in circle))
    return list(units.values())


def _join_side_nodes(
    units: list[_Unit], order: list[str], edges: list[_Edge], fixed: set[str]
) -> list[_Unit]:
    """The same with the side nodes of each loop in it, in file order of what is first now."""
    joined: dict[str, frozenset[str]] = {}
    for unit in (unit for unit in units if unit.loop):
        others = {other.first for other in units if not other.loop} - fixed
        joined[unit.first] = unit.members | _side_nodes(unit.members, others, edges)
    inside = {node for members in joined.values() for node in members}
    found = [unit for unit in units if not unit.loop and unit.first not in inside]
    found += [_Unit(min(members, key=order.index), members, loop=True) for members in joined.values()]
    return sorted(found, key=lambda unit: order.index(unit.first))


def _side_nodes(loop: frozenset[str], others: set[str], edges: list[_Edge]) -> set[str]:
    """All that may be side nodes, less one that is none, until none is left that is none."""
    sides = set(others)
    while wrong := next((node for node in sorted(sides) if not _is_side(node, sides, loop, edges)), None):
        sides.discard(wrong)
    exits = [e for e in edges if e.trigger and e.source in loop and e.target not in loop | sides]
    return sides if any(e.port != ERROR for e in exits) else set()


def _is_side(node: str, sides: set[str], loop: frozenset[str], edges: list[_Edge]) -> bool:
    into = [edge for edge in edges if edge.target == node and edge.trigger]
    out = [edge for edge in edges if edge.source == node and (edge.trigger or edge.target != node)]
    data = _links((edge.source, edge.target) for edge in edges if edge.source in sides)
    return (
        bool(into and out)
        and all(edge.source in loop for edge in into)
        and all(not edge.trigger and edge.target in loop | sides for edge in out)
        and bool(_reach(data, node) & loop)
    )


def _make_layers(units: list[_Unit], edges: list[_Edge]) -> dict[str, int]:
    """The longest way to each unit: over triggering edges, and over data edges that lie on no cycle."""
    home = {node: unit.first for unit in units for node in unit.members}
    between = [(home[edge.source], home[edge.target], edge.trigger) for edge in edges]
    links = _links((source, target) for source, target, _ in between)
    layer = {unit.first: 0 for unit in units}
    for _ in units:  # a longest way has fewer steps than there are units
        for source, target, trigger in between:
            if source != target and (trigger or source not in _reach(links, target)):
                layer[target] = max(layer[target], layer[source] + 1)
    return layer


def _may_see(reader: Place, sender: Place) -> bool:
    """Where the two part, the sender must be of an earlier round, or of an earlier layer of the same one."""
    for theirs, ours in zip(sender, reader, strict=False):
        if theirs != ours:
            return theirs[:2] < ours[:2]
    return False


# --- queues ---


@dataclass(frozen=True)
class _Delivery:
    """A message on its way: sorted by place, then message, then edge, it tells how queues are filled."""

    place: Place
    number: int  # of the message among the outputs of its sender
    edge: _Edge
    message: _Message

    @property
    def key(self) -> tuple[Place, int, int]:
        return (self.place, self.number, self.edge.index)


def _apply(queue: list[_Message], edge: _Edge, message: _Message) -> list[_Message]:
    if edge.clear_context:
        queue = [old for old in queue if old.keep]
    if edge.clear_kept_context:
        queue = [old for old in queue if not old.keep]
    if not edge.carry_data:
        return queue
    own = "assistant" if edge.source == edge.target else "user"
    role = message.role if message.preserve else own
    return [*queue, replace(message, role=role, keep=edge.keep_message, source=edge.source)]


def _retained(inputs: list[_Message], window: int) -> list[_Message]:
    """What stays in the queue after a run; kept messages always do, and use up the window."""
    if window == -1:
        return list(inputs)
    room = max(0, window - sum(message.keep for message in inputs))
    passing = [index for index, message in enumerate(inputs) if not message.keep]
    newest = set(passing[len(passing) - room :] if room < len(passing) else passing)
    return [message for index, message in enumerate(inputs) if message.keep or index in newest]


def _remembered(output: _Message) -> _Message:
    """A node's own output as it stands in its own queue afterwards."""
    return replace(output, role="assistant", keep=False, preserve=False)


# --- what agents see ---


@dataclass
class _Entry:
    """One entry of a loop: its task, and what each agent said last, and got and said in all of its runs."""

    task: list[_Message] = field(default_factory=list)
    own: dict[str, list[_Message]] = field(default_factory=dict)
    past: dict[str, list[_Message]] = field(default_factory=dict)


def _composed(policy: str, entry: _Entry, node: str, queue: list[_Message]) -> list[_Message]:
    """The task, what the agent said (or all that it got and said), and what is new to it."""
    if policy == "message":
        return queue
    own, past = entry.own.get(node, []), entry.past.get(node)
    said_or_got = own if policy == "task" else past or []
    twice = {message.text for message in (entry.task if past is None else own)}
    new = [message for message in queue if message.text == "" or message.text not in twice]
    seen = {(message.source, message.text) for message in [*entry.task, *said_or_got]}
    new = [message for message in new if not (message.keep and (message.source, message.text) in seen)]
    return [*entry.task, *said_or_got, *new]


# --- running ---


class _Stopped(Exception):
    """The run cannot go on."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.status = status


class _Failed(Exception):
    """A node failed after it said this; `error` is what is told of it."""

    def __init__(self, text: str, error: str) -> None:
        super().__init__(error)
        self.text, self.error = text, error


class _Run:
    def __init__(self, graph: dict[str, Any], script: dict[str, list[str]]) -> None:
        self.graph = graph
        self.script = script
        self.nodes: dict[str, dict[str, Any]] = {node["id"]: node for node in graph["nodes"]}
        self.order = list(self.nodes)
        self.fixed = {*_as_list(graph.get("start")), *_as_list(graph.get("end"))}
        self.edges = _read_edges(graph)
        self.queues: dict[str, list[_Message]] = {node: [] for node in self.nodes}
        self.waiting: dict[str, list[_Delivery]] = {node: [] for node in self.nodes}
        self.marks: set[str] = set()
        self.counts: dict[str, int] = dict.fromkeys(self.nodes, 0)
        self.reply_text: dict[str, list[str]] = {node: [] for node in self.nodes}
        self.runs: dict[str, int] = {}
        self.calls: dict[str, int] = {}
        self.asked: dict[str, int] = {}
        self.here: tuple[str, str] = ("", "")
        self.entries: list[_Entry] = []  # the loops around, the innermost last
        self.entry_of_loop: str | None = None  # the node whose queue is the task of the innermost
        self.seen: list[_Message] = []  # what tools gave, as the model sees it in its next call
        self.loops: dict[str, int] = {}
        self.entered: dict[str, int] = {}
        self.triggers: dict[str, set[str]] = {}  # the executions whose edges have marked a node
        self.sent: list[tuple[Place, str, set[str]]] = []  # where, who, and which nodes it triggered
        self.loop_events: list[LoopEvent] = []
        self.model_calls = 0
        self.executions: list[Execution] = []
        self.actions: dict[str, Callable[[str, list[_Message]], list[_Message]]] = {
            "passthrough": self.passthrough,
            "literal": self.literal,
            "loop_counter": self.loop_counter,
            "agent": self.agent,
        }

    def start(self, text: str) -> None:
        for node in dict.fromkeys(_as_list(self.graph.get("start"))):
            self.queues[node].append(_Message("user", text))
            self.marks.add(node)
        plan = _make_plan(self.order, self.edges, frozenset(self.nodes), None, self.fixed)
        self.run_scope(plan, (), "", 1)

    def result(self) -> str:
        for node in _as_list(self.graph.get("end")):
            if self.reply_text[node]:
                return self.reply_text[node][-1]
        return ""

    def trace(self, status: str, output: str) -> Trace:
        return Trace(
            status, output, self.executions, self.runs, self.loops, self.model_calls, self.loop_events
        )

    # Each of these returns the targets of the triggering edges that fired.

    def run_scope(self, plan: _Plan, around: Place, path: str, number: int) -> set[str]:
        """The whole graph, or one round of a loop. What it returns lies outside: the exits."""
        for layer, units in enumerate(plan.layers):
            fired: set[str] = set()
            for unit in units:
                step = (number, layer, self.order.index(unit.first))
                fired |= self.run_unit(unit, (*around, step), path)
            exits = fired - plan.nodes
            if exits:
                return exits
        return set()

    def run_unit(self, unit: _Unit, place: Place, path: str) -> set[str]:
        marked = unit.members & self.marks
        if not marked:
            return set()
        if len(marked) > 1:
            raise _Stopped("failed")
        (entry,) = marked
        return self.run_loop(unit, entry, place, path) if unit.loop else self.run_node(entry, place, path)

    def run_loop(self, unit: _Unit, entry: str, place: Place, path: str) -> set[str]:
        plan = _make_plan(self.order, self.edges, unit.members, entry, self.fixed)
        self.reset_counters(plan)
        self.entries.append(_Entry())
        self.entered[entry] = self.entered.get(entry, 0) + 1
        exits = self.run_rounds(plan, entry, place, path)
        self.entries.pop()
        if exits:
            self.marks -= unit.members
            for member in unit.members:
                self.triggers.pop(member, None)
        return exits

    def run_rounds(self, plan: _Plan, entry: str, place: Place, path: str) -> set[str]:
        number, calls, which, here, since = 0, self.model_calls, self.entered[entry], "", 0
        exits: set[str] = set()
        while entry in self.marks and not exits:
            number += 1
            if number > self.cap(entry):
                raise _Stopped("suspended_locked")
            self.loops[entry] = self.loops.get(entry, 0) + 1
            own = f"{_label(entry)}[{number}]"
            here = f"{path}.{own}" if path else own
            if number == 1:
                self.entry_of_loop = entry
            before, since = self.model_calls, len(self.sent)
            began = LoopEvent("loop_round", here, entry, number, which, self.take_triggers(entry))
            self.loop_events.append(began)
            exits = self.run_scope(plan, place, here, number)
            used = self.model_calls - before
            self.loop_events.append(LoopEvent("round_finished", here, entry, number, model_calls=used))
        leavers = [(where, node) for where, node, fired in self.sent[since:] if fired - plan.nodes]
        by = min(leavers)[1] if exits else ""
        used = self.model_calls - calls
        left = LoopEvent("loop_exit", here, entry, number, which, model_calls=used, by=by)
        self.loop_events.append(left)
        return exits

    def take_triggers(self, node: str) -> tuple[str, ...]:
        return tuple(sorted(self.triggers.pop(node, ())))

    def reset_counters(self, plan: _Plan) -> None:
        """Entering a loop resets the counters right in it, not those of its inner loops."""
        for unit in (unit for units in plan.layers for unit in units if not unit.loop):
            if self.config(unit.first).get("scope") == "loop":
                self.counts[unit.first] = 0

    def run_node(self, node: str, place: Place, path: str) -> set[str]:
        self.marks.discard(node)
        self.triggers.pop(node, None)
        queue = self.take(node, place)
        if self.entry_of_loop == node:
            self.entries[-1].task, self.entry_of_loop = queue, None
        inputs = self.compose(node, queue)
        label = _label(node)
        address = f"{path}/{label}" if path else label
        self.here, self.seen = (address, f"{path}.{label}[" if path else f"{label}["), []
        self.runs[node] = self.runs.get(node, 0) + 1
        try:
            outputs = self.actions[self.nodes[node]["type"]](node, inputs)
        except _Failed as failure:
            self.record(address, node, inputs + self.seen, [_Message("assistant", failure.text)])
            self.remember(node, queue, [])
            return self.handle(node, place, failure.error)
        self.reply_text[node] += [message.text for message in outputs]
        self.record(address, node, inputs + self.seen, outputs)
        self.remember(node, queue, outputs)
        self.learn(node, inputs, outputs)
        return self.deliver(node, place, outputs, None)

    def compose(self, node: str, queue: list[_Message]) -> list[_Message]:
        if self.policy(node) == "message" or not self.entries:
            return queue
        return _composed(self.policy(node), self.entries[-1], node, queue)

    def learn(self, node: str, inputs: list[_Message], outputs: list[_Message]) -> None:
        if not self.entries or self.policy(node) == "message":
            return
        entry = self.entries[-1]
        said = [_Message("assistant", one.text, source=node) for one in outputs if one.text.strip()]
        entry.past[node] = [*inputs[len(entry.task) :], *said]
        entry.own[node] = said or entry.own.get(node, [])

    def policy(self, node: str) -> str:
        """What the file says of an agent, else what follows from its edges."""
        if self.nodes[node]["type"] != "agent":
            return "message"
        if "context" in self.config(node):
            return str(self.config(node)["context"])
        into = [edge for edge in self.edges if edge.target == node]
        keeps = any(edge.keep_message or edge.source == node for edge in into)
        return "message" if keeps or "context_window" in self.nodes[node] else "task"

    def handle(self, node: str, place: Place, text: str) -> set[str]:
        """A failure on the edges for failures; if none of them triggers anything, the run fails."""
        fired = self.deliver(node, place, [_Message("assistant", text)], ERROR)
        if not fired:
            raise _Stopped("failed")
        return fired

    # What a run of a node consists of.

    def take(self, node: str, place: Place) -> list[_Message]:
        """The whole queue, with all deliveries applied that this execution may see."""
        queue, later = self.queues[node], []
        for delivery in sorted(self.waiting[node], key=lambda delivery: delivery.key):
            if _may_see(place, delivery.place):
                queue = _apply(queue, delivery.edge, delivery.message)
                if delivery.edge.clear_context and self.entries:
                    self.entries[-1].own.pop(node, None)
                    self.entries[-1].past.pop(node, None)
            else:
                later.append(delivery)
        self.waiting[node] = later
        return queue

    def record(self, address: str, node: str, inputs: list[_Message], outputs: list[_Message]) -> None:
        taken = tuple((message.role, message.text) for message in inputs)
        given = tuple(message.text for message in outputs)
        self.executions.append(Execution(address, node, taken, given))

    def remember(self, node: str, inputs: list[_Message], outputs: list[_Message]) -> None:
        window = self.nodes[node].get("context_window", 0)
        self.queues[node] = _retained(inputs, window)
        if window != 0:
            self.queues[node] += [_remembered(output) for output in outputs]

    def deliver(self, node: str, place: Place, outputs: list[_Message], port: str | None) -> set[str]:
        fired: set[str] = set()
        for number, message in enumerate(outputs):
            for edge in self.edges:
                if edge.source == node and edge.port == port and _holds(edge.condition, message.text):
                    self.waiting[edge.target].append(_Delivery(place, number, edge, message))
                    if edge.trigger:
                        fired.add(edge.target)
        self.marks |= fired
        for target in fired:
            self.triggers.setdefault(target, set()).add(self.here[0])
        self.sent.append((place, node, fired))
        return fired

    # What the types of nodes do.

    def passthrough(self, node: str, inputs: list[_Message]) -> list[_Message]:
        self.may_fail(node)
        if not inputs:
            return [_Message("user", "")]
        return inputs[-1:] if self.config(node).get("only_last_message", True) else list(inputs)

    def literal(self, node: str, _inputs: list[_Message]) -> list[_Message]:
        self.may_fail(node)
        config = self.config(node)
        return [_Message(config.get("role", "user"), config["content"], preserve=True)]

    def loop_counter(self, node: str, _inputs: list[_Message]) -> list[_Message]:
        self.may_fail(node)
        config = self.config(node)
        limit = config.get("max_iterations", 10)
        self.counts[node] += 1
        if self.counts[node] < limit:
            return []
        if config.get("reset_on_emit", True):
            self.counts[node] = 0
        return [_Message("assistant", config.get("message") or f"Loop limit reached ({limit})")]

    def agent(self, node: str, inputs: list[_Message]) -> list[_Message]:
        config = self.config(node)
        limit = config.get("max_tool_calls", 10) if config.get("tools") else 0
        rounds, again = 0, False
        while True:
            self.model_calls += 1
            text = self.reply(node, inputs)
            address, stem = self.here
            if wanted(text) and rounds < limit:
                rounds += 1
                self.record(address, node, inputs + self.seen, [_Message("assistant", text)])
                self.seen += self.tools(node, inputs, wanted(text), f"{stem}{rounds}]/")
            elif wanted(text) and rounds and config.get("on_limit", "answer") != "answer":
                if config["on_limit"] == "suspend":
                    raise _Stopped("suspended_locked")
                error = f"the model asked for tools again after {limit} rounds of them, which is the limit"
                raise _Failed(text, error)
            elif text.strip() or again or (config.get("tools") and rounds >= limit):
                return [_Message("assistant", text if text.strip() else "")]
            else:  # no answer: asked once more
                self.record(address, node, inputs + self.seen, [_Message("assistant", text)])
                again = True

    def may_fail(self, node: str) -> None:
        if node in self.script:
            self.reply(node, [])

    def reply(self, node: str, inputs: list[_Message]) -> str:
        replies, number = self.script.get(node), self.calls.get(node, 0)
        self.calls[node] = number + 1
        text = replies[min(number, len(replies) - 1)] if replies else inputs[-1].text if inputs else ""
        if text.startswith(FAILS):
            raise _Failed(text, text.removeprefix(FAILS))
        return text

    def tools(self, node: str, inputs: list[_Message], names: list[str], at: str) -> list[_Message]:
        """One round of tools; what the model is told of each, in the order in which it asked."""
        events_of_node, width = [], self.config(node).get("max_calls_per_round", 16)
        for number, name in enumerate(names):
            same = names[:number].count(name)
            address = f"{at}{_label(name)}" + (f"#{same + 1}" if same else "")
            if number >= width:
                text = f"not called: only {width} calls are allowed at once"
            else:
                text = self.tool(node, inputs, name, address)
            events_of_node.append(_Message("tool", text))
        return events_of_node

    def tool(self, node: str, inputs: list[_Message], name: str, address: str) -> str:
        if name in self.config(node).get("approval", ()):
            key = f"{node}/{name}"
            answers, number = self.script[key], self.asked.get(key, 0)
            self.asked[key] = number + 1
            answer = answers[min(number, len(answers) - 1)]
            self.record(address, node, inputs, [_Message("user", answer)])
            if answer != "yes":
                return f"a person did not allow this call: {answer.removeprefix('no: ')}"
        text = f"{'broken' if name == BAD_TOOL else 'done'} at {address}"
        self.record(address, node, inputs, [_Message("tool", text)])
        return text

    # Settings.

    def config(self, node: str) -> dict[str, Any]:
        return self.nodes[node].get("config") or {}

    def cap(self, entry: str) -> int:
        general: int = self.graph.get("limits", {}).get("rounds", DEFAULT_CAP)
        special: int = self.graph.get("loops", {}).get(entry, {}).get("max_rounds", general)
        return special


def _label(name: str) -> str:
    """An id in an address: what means something there is written as %XX."""
    return re.sub(r"[/\[\]#%]", lambda found: f"%{ord(found[0]):02X}", name)
