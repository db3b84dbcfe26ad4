"""Random workflows of nested loop agents, each with a second, simple interpretation.

A generated piece is a pair: what a file says, and a function that plays it, one step after the other with
ordinary recursion. The engine has to see and say the same, in whatever order its calls finish.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

from tests.kernel.reference import ASKS, BAD_TOOL, FAILS, Execution, wanted
from tests.kernel.simulator import Script

Said = tuple[str, str]
"""A role and a text."""

WORDS = ("red", "green", "stop here", "blue", "蓝色")
TOOLS = ("look", BAD_TOOL)
REQUESTS = tuple(ASKS + names for names in ("look", "look bad look", "bad", "bad look", "look look", "look"))
LISTS = ('["a", "b"]', "[]", '["x", {"k": 1}, null, [2]]', "[1, 2, 3, 4, 5]", '{"no": "list"}', "[")


class Failure(Exception):
    """A node failed; nothing has handled it yet."""

    def __init__(self, address: str, error: str) -> None:
        super().__init__(address)
        self.error = error


class Locked(Exception):
    pass


class Jump(Exception):
    def __init__(self, kind: str, text: str) -> None:
        super().__init__(kind)
        self.kind = kind
        self.text = text


class Counts:
    """The calls of each node so far; an element among others counts for itself, from its own number on."""

    def __init__(self, base: Counts | None = None, number: int = 0) -> None:
        self.own: dict[str, int] = {}
        self.base = base
        self.number = number

    def __getitem__(self, name: str) -> int:
        if name in self.own:
            return self.own[name]
        return self.base[name] + self.number if self.base is not None else 0

    def add(self, name: str, count: int = 1) -> None:
        self.own[name] = self[name] + count

    def copy(self) -> Counts:
        other = Counts(self.base, self.number)
        other.own = dict(self.own)
        return other


@dataclass
class Seen:
    """The task of a loop, and what each of its agents said last."""

    task: list[Said]
    own: dict[str, str | None] = field(default_factory=dict)

    def by(self, name: str, queue: list[Said]) -> list[Said]:
        own = self.own.get(name)
        twice = texts_of(self.task) if name not in self.own else [own]
        new = [said for said in queue if said[1] == "" or said[1] not in twice]
        return [*self.task, *([("assistant", own)] if own is not None else []), *new]

    def note(self, name: str, text: str) -> None:
        self.own[name] = text if text.strip() else self.own.get(name)


@dataclass(frozen=True)
class Place:
    """Where something is played: what addresses begin with, and how many calls each node has made."""

    counts: Counts
    prefix: str = ""
    stem: str = ""
    executions: list[Execution] = field(default_factory=list)
    runs: dict[str, int] = field(default_factory=dict)
    script: Script = field(default_factory=dict)
    seen: Seen | None = None
    """What agents see of the loop around; None outside of loops, and where a loop says what they get."""

    def run(self, name: str) -> None:
        self.runs[name] = self.runs.get(name, 0) + 1

    def say(self, name: str, inputs: list[Said], seen: list[Said]) -> str:
        """One call of an agent's model, which sees more than the agent's inputs if it has used tools."""
        replies, ordinal = self.script.get(name), self.counts[name]
        self.counts.add(name)
        text = replies[min(ordinal, len(replies) - 1)] if replies else (inputs[-1][1] if inputs else "")
        self.record(self.prefix + name, name, seen, [text])
        if text.startswith(FAILS):
            raise Failure(self.prefix + name, text.removeprefix(FAILS))
        return text

    def record(self, address: str, name: str, inputs: list[Said], outputs: list[str]) -> None:
        self.executions.append(Execution(address, name, tuple(inputs), tuple(outputs)))

    def inside(self, prefix: str, stem: str, counts: Counts | None = None, seen: Seen | None = None) -> Place:
        counts = self.counts if counts is None else counts
        return replace(self, prefix=prefix, stem=stem, counts=counts, seen=seen)


Play = Callable[[Place, list[Said]], list[Said]]


class Piece(NamedTuple):
    """A node, or a graph, and what it means."""

    written: dict[str, Any]
    play: Play


def sent(messages: list[Said]) -> list[Said]:
    """Along an edge: notices stay what they are."""
    return [(role if role == "system" else "user", text) for role, text in messages]


def user(texts: list[str]) -> list[Said]:
    return [("user", text) for text in texts]


def texts_of(messages: list[Said]) -> list[str]:
    return [text for _, text in messages]


def reply_text(texts: list[str]) -> list[Said]:
    return [("assistant", text) for text in texts]


@dataclass
class Maker:
    dice: Random
    names: int = 0
    agents: list[str] = field(default_factory=list)
    tool_users: list[str] = field(default_factory=list)
    calm: set[str] = field(default_factory=set)
    """Agents that never fail."""
    at_once: int = 0
    """How many loops are around whose rounds run at the same time."""
    caught: int = 0
    """How many loops are around that go on when a round fails."""
    tools: bool = False
    """Whether agents may have tools."""
    handled: bool = False
    """Whether nodes may have edges for failures."""
    rough: bool = False
    """Whether anything may end what runs beside it. What a workflow means then depends on who is quicker."""

    def name(self, kind: str) -> str:
        self.names += 1
        return f"{kind}{self.names}"

    def pick(self, *choices: Any) -> Any:
        return self.dice.choice(choices)

    # Nodes.

    def speaker(self, calm: bool = False) -> Piece:
        """An agent or a person."""
        kind = self.pick("agent", "agent", "agent", "human")
        name = self.name("Agent" if kind == "agent" else "Person")
        self.agents.append(name)
        if calm or kind == "human":
            self.calm.add(name)

        def play(place: Place, inputs: list[Said]) -> list[Said]:
            place.run(name)
            if kind == "human":
                return reply_text([place.say(name, inputs, inputs)])
            inputs = place.seen.by(name, inputs) if place.seen is not None else inputs
            text = place.say(name, inputs, inputs)
            if not text.strip():  # no answer: asked once more
                text = place.say(name, inputs, inputs)
            if place.seen is not None:
                place.seen.note(name, text)
            return reply_text([text if text.strip() else ""])

        if kind == "agent" and self.tools and self.pick(True, True, False):
            return self.tool_user(name)
        return Piece({"id": name, "type": kind, "config": {}}, play)

    def tool_user(self, name: str) -> Piece:
        """An agent with tools, of which one always fails."""
        self.tool_users.append(name)
        limit, width = self.pick(0, 1, 2, 3), self.pick(1, 2, 16)

        def play(place: Place, inputs: list[Said]) -> list[Said]:
            place.run(name)
            inputs = place.seen.by(name, inputs) if place.seen is not None else inputs
            seen, number, again = list(inputs), 0, False
            while True:
                text = place.say(name, inputs, seen)
                tools = wanted(text)
                if tools and number < limit:
                    number += 1
                    at = f"{place.stem}{name}[{number}]/"
                    seen += [("tool", used) for used in use(place, inputs, tools, at)]
                elif text.strip() or again or number >= limit:
                    break
                else:
                    again = True
            if place.seen is not None:
                place.seen.note(name, text)
            return reply_text([text if text.strip() else ""])  # no answer is an empty message

        def use(place: Place, inputs: list[Said], tools: list[str], at: str) -> list[str]:
            events_of_node = []
            for number, tool in enumerate(tools):
                same = tools[:number].count(tool)
                address = at + tool + (f"#{same + 1}" if same else "")
                events_of_node.append(f"{'broken' if tool == BAD_TOOL else 'done'} at {address}")
                if number < width:
                    place.record(address, name, inputs, events_of_node[-1:])
                else:
                    events_of_node[-1] = f"not called: only {width} calls are allowed at once"
            return events_of_node

        config = {"tools": list(TOOLS), "max_tool_calls": limit, "max_calls_per_round": width}
        return Piece({"id": name, "type": "agent", "config": config}, play)

    def node(self, depth: int, jumps: bool) -> Piece:
        if depth <= 0:
            return self.speaker()
        return self.subgraph(depth, jumps) if self.pick(*range(4)) == 0 else self.loop(depth)

    def subgraph(self, depth: int, jumps: bool) -> Piece:
        name, inner = self.name("Sub"), self.graph(depth - 1, jumps)

        def play(place: Place, inputs: list[Said]) -> list[Said]:
            place.run(name)
            prefix = f"{place.prefix}{name}/"
            return inner.play(place.inside(prefix, prefix), inputs)

        return Piece(
            {"id": name, "type": "subgraph", "config": {"type": "config", "config": inner.written}}, play
        )

    # Graphs.

    def graph(self, depth: int, jumps: bool) -> Piece:
        shapes = [self.chain, self.chain, self.fork, self.cycle, self.leaving, self.leaving]
        shapes += [self.rescue, self.retry] * 4 if self.handled else []
        shapes += [self.fork] * 6 if self.rough else []
        return self.dice.choice(shapes)(depth, jumps)

    def chain(self, depth: int, jumps: bool) -> Piece:
        pieces = [self.node(depth - self.pick(0, 1), jumps) for _ in range(self.pick(1, 2))]
        names = [piece.written["id"] for piece in pieces]

        def play(place: Place, inputs: list[Said]) -> list[Said]:
            messages: list[Said] = []
            for piece in pieces:
                messages = piece.play(place, inputs)
                if not messages:
                    break
                inputs = sent(messages)
            return messages

        edges = [{"from": one, "to": other} for one, other in pairwise(names)]
        nodes = [piece.written for piece in pieces]
        return Piece({"nodes": nodes, "edges": edges, "start": names[0], "end": names[-1]}, play)

    def fork(self, depth: int, jumps: bool) -> Piece:
        first, one, other = (self.speaker(calm=True) for _ in range(3))
        if self.rough and depth > 0:
            one, other = self.loop(depth), self.node(depth - 1, jumps)
        join = self.name("Join")

        def play(place: Place, inputs: list[Said]) -> list[Said]:
            start = sent(first.play(place, inputs))
            both = sent(one.play(place, start) + other.play(place, start))
            place.run(join)
            place.record(place.prefix + join, join, both, texts_of(both))
            return both

        nodes = [first.written, one.written, other.written]
        nodes.append({"id": join, "type": "passthrough", "config": {"only_last_message": False}})
        a, b, c = (node["id"] for node in nodes[:3])
        edges = [{"from": x, "to": y} for x, y in ((a, b), (a, c), (b, join), (c, join))]
        return Piece({"nodes": nodes, "edges": edges, "start": a, "end": join}, play)

    def cycle(self, _depth: int, _jumps: bool) -> Piece:
        """A free cycle with a counter, which each round of the loop around it begins anew."""
        again, gate, done, count = self.speaker(), self.name("Gate"), self.name("Done"), self.pick(1, 2, 3)
        name, message = again.written["id"], f"Loop limit reached ({count})"
        counter = {"max_iterations": count, "reset_on_emit": self.pick(True, False)}

        def play(place: Place, inputs: list[Said]) -> list[Said]:
            for number in range(1, count + 1):
                at = f"{place.stem}{name}[{number}]/"
                inputs = again.play(place.inside(at, f"{at[:-1]}."), inputs)
                place.run(gate)
                place.record(at + gate, gate, sent(inputs), [message] if number == count else [])
            place.run(done)
            place.record(place.prefix + done, done, user([message]), [message])
            return reply_text([message])

        nodes = [again.written, {"id": gate, "type": "loop_counter", "config": counter}]
        nodes.append({"id": done, "type": "passthrough", "config": {}})
        pairs = ((name, name), (name, gate), (gate, name), (gate, done))
        edges = [{"from": x, "to": y} for x, y in pairs]
        return Piece({"nodes": nodes, "edges": edges, "start": name, "end": done}, play)

    def leaving(self, depth: int, jumps: bool) -> Piece:
        """If the first node says stop, `break` or `continue` follows, or nothing."""
        first, second = self.speaker(), self.node(depth - 1, jumps)
        kind, jump = self.pick("", *(["break", "continue"] if jumps else [])), self.name("Jump")

        def play(place: Place, inputs: list[Said]) -> list[Said]:
            messages = sent(first.play(place, inputs))
            text = messages[-1][1]
            if "stop" not in text:
                return second.play(place, messages)
            if not kind:
                return []
            place.run(jump)
            place.record(place.prefix + jump, jump, messages, [text])
            raise Jump(kind, text)

        start, end = first.written["id"], second.written["id"]
        stops, goes = ({"type": "keyword", "config": {key: ["stop"]}} for key in ("any", "none"))
        nodes = [first.written, second.written]
        edges = [{"from": start, "to": end, "condition": goes}]
        if kind:
            nodes.append({"id": jump, "type": kind})
            edges.append({"from": start, "to": jump, "condition": stops})
        return Piece({"nodes": nodes, "edges": edges, "start": start, "end": end}, play)

    def fallible(self, depth: int, jumps: bool) -> Piece:
        """A node whose failure may be handled. It must not depend on who is quicker, as in `loop`."""
        self.caught += 1
        piece = self.node(depth, jumps)
        self.caught -= 1
        return piece

    def rescue(self, depth: int, jumps: bool) -> Piece:
        """If the first node fails, or something inside it, another speaks in its place; for some errors."""
        first, other, done = self.fallible(depth - 1, jumps), self.speaker(calm=True), self.name("Done")
        word = self.pick(None, None, "no")

        def play(place: Place, inputs: list[Said]) -> list[Said]:
            try:
                messages = sent(first.play(place, inputs))
            except Failure as failure:
                if word is not None and word not in failure.error:
                    raise
                messages = sent(other.play(place, user([failure.error])))
            if messages:
                place.run(done)
                place.record(place.prefix + done, done, messages, [messages[-1][1]])
            return messages[-1:]

        start, handler = first.written["id"], other.written["id"]
        error: dict[str, Any] = {"from": start, "to": handler, "port": "error"}
        if word is not None:
            error["condition"] = {"type": "keyword", "config": {"any": [word]}}
        nodes = [first.written, other.written, {"id": done, "type": "passthrough", "config": {}}]
        edges = [{"from": start, "to": done}, error, {"from": handler, "to": done}]
        return Piece({"nodes": nodes, "edges": edges, "start": start, "end": done}, play)

    def retry(self, depth: int, jumps: bool) -> Piece:
        """A free cycle that tries again what failed, until a counter has counted enough failures."""
        again, gate, done = self.fallible(depth - 1, jumps), self.name("Gate"), self.name("Done")
        name, count = again.written["id"], self.pick(1, 2, 3)

        def play(place: Place, inputs: list[Said]) -> list[Said]:
            messages: list[Said] = []
            for number in range(1, count + 1):
                at = f"{place.stem}{name}[{number}]/"
                try:
                    messages = sent(again.play(place.inside(at, f"{at[:-1]}."), inputs))
                    break
                except Failure as failure:
                    messages = user([f"Loop limit reached ({count})"]) if number == count else []
                    place.run(gate)
                    place.record(at + gate, gate, user([failure.error]), texts_of(messages))
                    inputs = reply_text([failure.error])
            if messages:
                place.run(done)
                place.record(place.prefix + done, done, messages, [messages[-1][1]])
            return messages[-1:]

        nodes = [again.written, {"id": gate, "type": "loop_counter", "config": {"max_iterations": count}}]
        nodes.append({"id": done, "type": "passthrough", "config": {}})
        failures = [{"from": name, "to": to, "port": "error"} for to in (name, gate)]
        edges = [{"from": x, "to": y} for x, y in ((name, done), (gate, name), (gate, done))]
        return Piece({"nodes": nodes, "edges": [*failures, *edges], "start": name, "end": done}, play)

    # Loop agents.

    def loop(self, depth: int) -> Piece:
        name = self.name("Loop")
        mode = self.pick("count", "count", "until", "asked", "array", "array", "custom")
        strategy = self.strategy(mode)
        width = strategy.get("max_parallel", 1)
        carry = width == 1 and self.pick(True, False, False)
        sees = not carry and self.pick(True, False)
        # What is called off among rounds at the same time depends on who is quicker: no jump out of there,
        # and no failure that ends just some of them.
        catches = strategy.get("on_error", "stop") != "stop"
        if width > 1 and self.caught and not catches and not self.rough:
            strategy["on_error"], catches = "null", True
        self.at_once, self.caught = self.at_once + (width > 1), self.caught + catches
        body = self.body(depth - 1, jumps=self.rough or not self.at_once)
        self.at_once, self.caught = self.at_once - (width > 1), self.caught - catches
        config: dict[str, Any] = {"strategy": strategy, "body": body.written}
        if carry or not sees:
            config["context"] = "carry" if carry else "fresh"

        def play(place: Place, inputs: list[Said]) -> list[Said]:
            place.run(name)
            return Loop(name, strategy, body.play, carry, place, inputs, sees).played()

        return Piece({"id": name, "type": "loop_agent", "config": config}, play)

    def body(self, depth: int, jumps: bool) -> Piece:
        return self.node(depth, jumps) if self.pick(True, False) else self.graph(depth, jumps)

    def strategy(self, mode: str) -> dict[str, Any]:
        limit = self.pick(1, 2, 3)
        if mode == "count":
            return {"mode": "count", "max": self.pick(-1, 0, 1, 2, 3)}
        if mode == "until":
            ends = {"max": limit, "on_limit": self.pick("finish", "finish", "finish", "suspend")}
            return {"mode": "condition", "until": "text.contains('stop') || round >= 2", **ends}
        if mode == "asked":
            return {"mode": "condition", "until": {"function": "enough"}, "max": limit}
        if mode == "custom":
            return {"mode": "custom", "use": "Alternating", "max": self.pick(1, 9, 9)}
        return {
            "mode": "array",
            **self.pick({}, {"items": "messages"}, {"items": {"function": "letters"}}),
            "max": self.pick(3, 9, 9, 9),
            "max_parallel": self.pick(1, 1, 2, 3),
            "on_error": self.pick("stop", "null", "null", "drop"),
            "gather": self.pick(True, False),
        }


def enough(messages: Any) -> bool:
    return any("stop" in message.text for message in messages)


NO_LETTERS = "blue"


def letters(messages: Any) -> list[str]:
    if messages[-1].text == NO_LETTERS:
        raise ValueError("no letters")
    return list(messages[-1].text[:4])


class Alternating:
    """Three rounds, the second on a word of its own."""

    def init(self, state: dict[str, Any]) -> None:
        state["calls"] = 0

    def dispatch(self, state: dict[str, Any]) -> Any:
        state["calls"] += 1
        return {1: True, 2: f"again after {state['results']}", 3: True}.get(state["calls"], False)


FUNCTIONS: dict[str, Any] = {"enough": enough, "letters": letters, "Alternating": Alternating}


def listed(text: str) -> Any:
    """The JSON array that a text is or has in it: on lines of its own; else behind a colon or with something
    besides numbers."""
    with suppress(ValueError):
        return json.loads(text)
    alone, inside, at = [], [], 0
    while at < len(text):
        try:
            value, end = json.JSONDecoder().raw_decode(text, at) if text[at] in "[{" else (None, at + 1)
        except json.JSONDecodeError as error:
            if error.pos >= len(text) or error.msg.startswith("Unterminated"):
                break
            value, end = None, max(error.pos, at + 1)
        if isinstance(value, list):
            before = text[:at].rpartition("\n")[2].strip(" `*")
            after = text[end:].partition("\n")[0].strip(" `*.,;")
            words = not all(isinstance(item, (int, float)) for item in value)
            if not before and not after:
                alone.append(value)
            elif before.endswith(":") or (words and text[at - 1] in " `*"):
                inside.append(value)
        at = end
    best = [items for items in alone if len(items) != 1 or not isinstance(items[0], (int, float))]
    return next(iter([*best, *inside, *alone]), None)


def result(item: Any, text: str) -> Any:
    """What a round has made of an element; a number, true, false or null that it left as it is stays one."""
    kept = not isinstance(item, str) and text == json.dumps(item, ensure_ascii=False)
    return item if kept else structured(text)


def structured(text: str) -> Any:
    """The object or the list that a text is; else the text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, (dict, list)) else text


@dataclass
class Loop:
    """A loop agent, played round by round."""

    name: str
    strategy: dict[str, Any]
    body: Play
    carry: bool
    place: Place
    inputs: list[Said]
    sees: bool = False
    """Whether agents see the task, because the loop does not say what they get."""
    results: list[str | None] = field(default_factory=list)

    def played(self) -> list[Said]:
        self.last = self.inputs
        self.history = list(self.inputs)
        self.seen = Seen(self.inputs)
        if self.strategy["mode"] == "array":
            return self.over_list()
        done, notice = 0, []
        try:
            while self.continues(done):
                given = self.given(done)
                if done >= self.strategy["max"]:
                    raise Locked
                done += 1
                self.note(self.round(done, given, self.place.counts))
        except Jump as jump:
            self.note([jump.text])
        except StopIteration:
            text = f"The loop ended after {done} rounds without its condition being met."
            notice = [("system", text)]
        return notice + reply_text(texts_of(self.last) or [""])

    def continues(self, done: int) -> bool:
        mode: str = self.strategy["mode"]
        limit: int = self.strategy["max"]
        if mode == "count":
            return done < limit
        if mode == "custom":
            self.asked()
            return done < 3
        if isinstance(self.strategy["until"], dict):
            self.asked()
            holds = any("stop" in text for _, text in self.history)
        else:
            holds = (bool(self.last) and "stop" in self.last[-1][1]) or done >= 2
        if not holds and done >= limit:
            raise Locked if self.strategy.get("on_limit") == "suspend" else StopIteration
        return not holds

    def asked(self) -> None:
        self.place.record(self.place.prefix + self.name, self.name, list(self.history), [])

    def given(self, done: int) -> list[Said]:
        if self.strategy["mode"] == "custom" and done == 1:
            own = user([f"again after {self.results}"])
            self.history += own
            return list(self.history) if self.carry else own
        if self.carry:
            return list(self.history)
        return self.last

    def round(self, number: int, inputs: list[Said], counts: Counts) -> list[str]:
        at = f"{self.place.stem}{self.name}[{number}]"
        try:
            seen = self.seen if self.strategy["mode"] != "array" else Seen(inputs[-1:])
            place = self.place.inside(at + "/", at + ".", counts, seen if self.sees else None)
            return texts_of(self.body(place, inputs))
        except Jump as jump:
            if jump.kind == "break":
                raise
            return [jump.text]

    def note(self, texts: list[str]) -> None:
        self.results.append(texts[-1] if texts else None)
        if texts:
            self.last = user(texts)
            self.history += self.last

    # Arrays.

    def over_list(self) -> list[Said]:
        text = self.last[-1][1] if self.last else ""
        items = self.items(text)
        if isinstance(items, str):
            return [("system", f"There is nothing to repeat: {items}")]
        given: list[tuple[Any, list[str]]] = []
        base = self.place.counts.copy()
        if len(items) > self.strategy["max"]:
            raise Locked
        for number, item in enumerate(items):
            try:
                texts = self.element(number, item, base)
            except Failure:
                if self.strategy["on_error"] == "stop":
                    raise
                if self.strategy["on_error"] == "drop":
                    continue
                texts = []
            except Jump as jump:
                given.append((item, [jump.text]))
                break
            given.append((item, texts))
        return self.gathered(given)

    def items(self, text: str) -> list[Any] | str:
        """The list, or why there is none."""
        source = self.strategy.get("items")
        if source == "messages":
            return texts_of(self.history)
        if source is not None:
            self.asked()
            if text == NO_LETTERS:
                return "the function of 'items' failed: ValueError: no letters"
            return list(text[:4])
        items = listed(text)
        shown = text if len(text) <= 80 else text[:79] + "…"
        return items if isinstance(items, list) else f"the last message is not a JSON array: {shown!r}"

    def element(self, number: int, item: Any, base: Counts) -> list[str]:
        text = item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)
        self.history.append(("user", text))
        inputs = list(self.history) if self.carry else user([text])
        if self.strategy["max_parallel"] == 1:
            texts = self.round(number + 1, inputs, self.place.counts)
            self.history += user(texts)
            return texts
        counts = Counts(base, number)
        try:
            return self.round(number + 1, inputs, counts)
        finally:
            for name, count in counts.own.items():
                self.place.counts.add(name, count - base[name] - number)

    def gathered(self, given: list[tuple[Any, list[str]]]) -> list[Said]:
        results = [result(item, texts[-1]) if texts else None for item, texts in given]
        if self.strategy["gather"]:
            return reply_text([json.dumps(results, ensure_ascii=False)])
        return reply_text((given[-1][1] if given else []) or [""])


def case(seed: int, tools: bool = False, handled: bool = False) -> tuple[dict[str, Any], str, Script, Play]:
    """A workflow, an input, a script, and what it means; most agents have tools, if there are to be any, and
    many failures are handled, if they are to be."""
    return _case(Maker(Random(seed), tools=tools, handled=handled))


def rough_case(seed: int) -> tuple[dict[str, Any], str, Script]:
    """The same with jumps and failures beside each other, for rules that hold whatever a workflow means."""
    maker = Maker(Random(seed), tools=seed % 3 == 0, handled=seed % 2 == 0, rough=True)
    workflow, text, script, _ = _case(maker)
    return workflow, text, script


def _case(maker: Maker) -> tuple[dict[str, Any], str, Script, Play]:
    tools, handled = maker.tools, maker.handled
    whole = maker.graph(4, False) if handled or maker.rough else maker.chain(3, False)
    script = {name: _replies(maker, name) for name in maker.agents if maker.pick(True, True, True, False)}
    offered = {name: {"python": "statistics:mean"} for name in TOOLS} if tools else {}
    return {"graph": whole.written, "tools": offered}, maker.pick(*WORDS, *LISTS), script, whole.play


def _replies(maker: Maker, name: str) -> list[str]:
    failures = [FAILS + "no"] * 5 + [FAILS + "never"] * 2 if maker.handled else [FAILS + "no"]
    fails = () if name in maker.calm else tuple(failures)
    asks = REQUESTS * 2 if name in maker.tool_users else ()
    return [maker.pick(*WORDS, *LISTS, *fails, *asks) for _ in range(maker.pick(1, 2, 4, 6))]


def played(play: Play, text: str, script: Script) -> tuple[str, str, dict[str, int], list[Execution]]:
    """The status, the output, how often each node ran, and every execution."""
    place = Place(Counts(), script=script)
    try:
        messages = play(place, [("user", text)])
    except (Failure, Locked) as end:
        return ("failed" if isinstance(end, Failure) else "suspended_locked"), "", {}, []
    return "completed", messages[-1][1] if messages else "", place.runs, place.executions
