"""A simulator whose model calls cost something, and workflows that spend."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from roundel.kernel.commands import Call, Command
from roundel.kernel.facts import Fact, Finished, Unlocked, Usage
from roundel.kernel.step import step
from roundel.kernel.unlock import CHECKS
from roundel.nodes.agent_conversation import ToolUse
from roundel.plan.graph import Plan
from tests.kernel.frozen import copied
from tests.kernel.simulator import Choose, Script, Simulator

Dict = dict[str, Any]
Sizes = Callable[[str, int], int]
"""The tokens of a call: from the node and which of its calls it is."""
CENT = 0.01


def constant(size: int) -> Sizes:
    return lambda _node, _ordinal: size


class Spender(Simulator):
    def __init__(
        self, plan: Plan, script: Script, sizes: Sizes | None = None, choose: Choose = lambda _count: 0
    ) -> None:
        super().__init__(plan, script, choose)
        self.sizes = sizes or constant(100)
        self.max_in_flight = 0

    def answer(self, command: Command) -> Fact:
        models = [other for other in (command, *self.in_flight) if self._is_model(other)]
        self.max_in_flight = max(self.max_in_flight, len(models))
        fact = super().answer(command)
        if not isinstance(fact, Finished) or not isinstance(command, Call):
            return fact
        if isinstance(command.state, ToolUse):
            return _with(fact, Usage(tool_calls=1))
        if self._is_model(command):
            node = self.plan.sites[command.site].id
            tokens = self.sizes(node, command.ordinal)
            return _with(fact, self.usage(node, tokens))
        return fact

    def usage(self, node: str, tokens: int) -> Usage:
        """What a model call of a node used; a third of its tokens is the answer."""
        return Usage(1, 0, tokens - tokens // 3, tokens // 3, CENT)

    def _is_model(self, command: Command) -> bool:
        if not isinstance(command, Call) or isinstance(command.state, ToolUse):
            return False
        return self.plan.sites[command.site].kind.speaks

    @property
    def tokens(self) -> float:
        return self.state.usage["input_tokens"] + self.state.usage["output_tokens"]

    @property
    def locks(self) -> list[Dict]:
        names = ("limit_reached", "breaker_tripped")
        return [{"event": event.event, **event.fields()} for event in self.events if event.event in names]

    def unlock(self, **given: Any) -> Spender:
        """Unlocks it as another process would: from its snapshot, or from its facts."""
        self.apply(unlocked(self.now(), **given))
        return self

    def thawed(self, plan: Plan) -> Spender:
        """The same run in another process, from a snapshot."""
        other = type(self)(plan, self.script, self.sizes, self.choose)
        other.state = copied(self.state, plan)
        return self._hand_over(other)

    def replayed(self, plan: Plan) -> Spender:
        """The same run in another process, from its facts."""
        other = type(self)(plan, self.script, self.sizes, self.choose)
        other.resume(self.journal)
        return self._hand_over(other)

    def _hand_over(self, other: Spender) -> Spender:
        other.journal, other.events = list(self.journal), list(self.events)
        other.executions, other.clock = list(self.executions), self.clock
        return other


class UnpricedSpender(Spender):
    """A spender of whose models those in `unpriced` have no known price. Models have the names of nodes."""

    unpriced: tuple[str, ...] = ()
    scripted = False

    def usage(self, node: str, tokens: int) -> Usage:
        unknown = node in self.unpriced
        used = super().usage(node, tokens)
        return msgspec.structs.replace(
            used,
            cost_usd=0 if unknown else CENT,
            unpriced_calls=int(unknown),
            model=f"house:{node}",
            scripted=self.scripted,
        )


def unlocked(time: float, **given: Any) -> Unlocked:
    reason, by = given.pop("reason", "looked into it"), given.pop("by", "ada")
    return Unlocked(reason, by, given.pop("checks", CHECKS), time, **given)


def _with(fact: Finished, usage: Usage) -> Finished:
    return msgspec.structs.replace(fact, outcome=msgspec.structs.replace(fact.outcome, usage=usage))


def can(state: Any, fact: Fact) -> str:
    """Why a fact is refused; empty if it is not."""
    try:
        step(state, fact)
    except Exception as error:
        return str(error)
    return ""


def ring(rounds: int = 50, **graph: Any) -> Dict:
    """A writes, B reviews, until a guard has counted to `rounds`."""
    return {
        "graph": {
            "nodes": [
                {"id": "A", "type": "agent"},
                {"id": "B", "type": "agent"},
                {"id": "Guard", "type": "loop_counter", "config": {"max_iterations": rounds}},
                {"id": "Out", "type": "passthrough"},
            ],
            "edges": [
                {"from": "A", "to": "B"},
                {"from": "B", "to": "A"},
                {"from": "B", "to": "Guard"},
                {"from": "Guard", "to": "A"},
                {"from": "Guard", "to": "Out"},
            ],
            "start": "A",
            "end": "Out",
            **graph,
        }
    }


def wide(width: int, **graph: Any) -> Dict:
    """So many agents at the same time."""
    names = [f"N{number}" for number in range(width)]
    return {
        "graph": {
            "nodes": [
                {"id": "In", "type": "passthrough"},
                *({"id": name, "type": "agent"} for name in names),
                {"id": "Out", "type": "passthrough"},
            ],
            "edges": [
                *({"from": "In", "to": name} for name in names),
                *({"from": name, "to": "Out"} for name in names),
            ],
            "start": "In",
            "end": "Out",
            **graph,
        }
    }


def random_spending(seed: int, most: int) -> tuple[Dict, Sizes, int]:
    """A workflow of fan-outs, loops, loop agents and dynamic edges; sizes up to `most`; a number for limits.

    It goes on long enough to meet any limit up to that number of tokens.
    """
    dice = Random(seed)
    nodes: list[Dict] = [{"id": "In", "type": "passthrough"}]
    edges: list[Dict] = []
    last = "In"
    for stage in range(dice.randint(1, 3)):
        name = f"S{stage}"
        kind = dice.choice(("fan", "loop", "agent", "array", "dynamic", "subgraph"))
        if kind == "fan":
            join = f"{name}J"
            for branch in range(dice.randint(2, 4)):
                nodes.append({"id": f"{name}F{branch}", "type": "agent"})
                edges += [{"from": last, "to": f"{name}F{branch}"}, {"from": f"{name}F{branch}", "to": join}]
            nodes.append({"id": join, "type": "passthrough"})
            last = join
        elif kind == "loop":
            inner = ring(dice.randint(2, 5))["graph"]
            nodes += [{**node, "id": f"{name}{node['id']}"} for node in inner["nodes"]]
            edges.append({"from": last, "to": f"{name}A"})
            edges += [{"from": f"{name}{e['from']}", "to": f"{name}{e['to']}"} for e in inner["edges"]]
            last = f"{name}Out"
        elif kind == "agent":
            config = {"body": {"id": f"{name}W", "type": "agent"}, "strategy": {"mode": "count", "max": 3}}
            nodes.append({"id": name, "type": "loop_agent", "config": config})
            edges.append({"from": last, "to": name})
            last = name
        elif kind == "array":
            strategy = {"mode": "array", "items": "[1, 2, 3, 4, 5]", "max_parallel": dice.randint(1, 3)}
            config = {"body": {"id": f"{name}W", "type": "agent"}, "strategy": strategy}
            nodes.append({"id": name, "type": "loop_agent", "config": config})
            edges.append({"from": last, "to": name})
            last = name
        elif kind == "dynamic":
            nodes += [
                {"id": f"{name}L", "type": "literal", "config": {"content": "a\nb\nc\nd"}},
                {"id": name, "type": "agent"},
            ]
            split = {"type": "regex", "config": {"pattern": "[a-z]"}}
            dynamic = {"type": "map", "split": split, "config": {"max_parallel": dice.randint(1, 4)}}
            edges += [{"from": last, "to": f"{name}L"}, {"from": f"{name}L", "to": name, "dynamic": dynamic}]
            last = name
        else:
            body = wide(dice.randint(2, 3))["graph"]
            body["limits"] = {"tokens": dice.randint(1, 6) * most}
            nodes.append({"id": name, "type": "subgraph", "config": {"type": "config", "config": body}})
            edges.append({"from": last, "to": name})
            last = name
    for node in nodes:
        if node["type"] == "agent" and dice.random() < 0.2:
            node["limits"] = {"tokens": dice.randint(1, 4) * most}
    nodes.append({"id": "Out", "type": "passthrough"})
    edges.append({"from": last, "to": "Out"})
    fixed: dict[tuple[str, int], int] = {}

    def size(node: str, ordinal: int) -> int:
        key = (node, ordinal)
        if key not in fixed:
            fixed[key] = Random(f"{seed} {node} {ordinal}").randint(1, most)
        return fixed[key]

    graph = {"nodes": nodes, "edges": edges, "start": "In", "end": "Out"}
    return {"graph": graph}, size, dice.randint(0, 12) * most + dice.randint(0, most)
