"""Random workflows that try to escape the proof that loops end.

`tangle` makes few nodes with many edges, of few kinds, so that guards are wired in every way, right and
nearly right: beside edges back with the same condition or another, behind nodes that may be silent, on ports,
behind dynamic edges, in inner loops. `spiced` does the same to any other workflow. Nodes speak at random.
"""

from __future__ import annotations

from random import Random
from typing import Any

from roundel.kernel.commands import Call, Command, Consult
from roundel.kernel.events import Event
from roundel.kernel.facts import Consulted, Fact, Outcome, Verdict
from roundel.nodes import TYPES
from roundel.nodes.passthrough import Config
from roundel.plan.graph import Plan, compile_workflow
from roundel.plan.scope import Scope
from roundel.workflow.loader import from_mapping
from roundel.workflow.message import Message
from roundel.workflow.node_type import NodeType, NodeTypes
from tests.kernel.simulator import Simulator

Dict = dict[str, Any]

WORDS = ("a", "b", "a b", "")
PORTS = ("left", "right")


def _chance_of(seed: int) -> Random:
    return Random(seed * 7919 + 13)


class Moods:
    """Node types that speak by chance: some are silent at times, and some stay in their loop."""

    def __init__(self, seed: int) -> None:
        self.random = _chance_of(seed)
        self.gloom = self.random.choice((0.05, 0.3, 0.6))

    def types(self) -> NodeTypes:
        kinds = {id(kind): kind for kind in (TYPES[name] for name in TYPES)}
        mute = NodeType("mute", Config, "", self._prepare(False), ports=lambda _: PORTS, silent=True)
        shy = NodeType("shy", Config, "", self._prepare(True), guard=True, silent=True)
        return NodeTypes([*kinds.values(), mute, shy])

    def _prepare(self, stays: bool) -> Any:
        def behave(_call: Call) -> Outcome:
            if self.random.random() < self.gloom:
                return Outcome()
            message = Message(self.random.choice(WORDS), "assistant")
            stay = stays and self.random.random() < 0.7
            return Outcome((message,), None if stays else self.random.choice(PORTS), stay=stay)

        return lambda _node, _services: behave


class Gambler(Simulator):
    """Answers at random, for agents and for functions on edges."""

    def __init__(self, plan: Plan, seed: int) -> None:
        self.random = _chance_of(seed + 1)
        super().__init__(plan, {}, self.random.randrange)
        self.words = self.random.choice((WORDS, ("a",), ("b", "a b"), ("",)))

    def said(self, name: str, ordinal: int, inputs: tuple[Message, ...]) -> str:
        return self.random.choice(self.words)

    def answer(self, command: Command) -> Fact:
        if not isinstance(command, Consult):
            return super().answer(command)
        verdicts = [
            Verdict(edge, number, self.random.random() < 0.7, Message("a"))
            for edge, number in command.questions
        ]
        return Consulted(command.address, tuple(verdicts), self.now())


def plan_of(workflow: Dict, seed: int) -> Plan:
    functions = {"whim": lambda _: True}
    return compile_workflow(from_mapping(workflow, Moods(seed).types(), functions))


def rounds(plan: Plan, events: list[Event]) -> tuple[dict[Scope, int], dict[Scope, int]]:
    """For each loop that was at work the most rounds of an entry, and those of all entries together."""
    longest: dict[Scope, int] = {}
    totals: dict[Scope, int] = {}
    for event in events:
        if event.event == "loop_round":
            scope = scope_at(plan, str(event.address))
            longest[scope] = max(longest.get(scope, 0), event.data["round"])
            totals[scope] = totals.get(scope, 0) + 1
    return longest, totals


def scope_at(plan: Plan, address: str) -> Scope:
    """The loop at an address; ids must not hold any of the marks of one."""
    scope = plan.graph.root
    for part in address.split("/"):
        for name in part.split("."):
            known = scope.graph.index
            bare = name.partition("[")[0]
            index = known[bare if bare in known else bare.rpartition("#")[0]]
            if "[" in name:
                unit = next(unit for unit in scope.units if index in unit.members)
                scope = scope.inner(unit, index)
            else:
                scope = scope.graph.nodes[index].bodies[0].root
    return scope


# --- what comes by chance ---


def _node(random: Random, name: str) -> Dict:
    kinds = ["agent"] * 3 + ["passthrough"] * 3 + ["loop_counter"] * 4 + ["mute", "shy", "literal"]
    kind = random.choice(kinds)
    config: Dict = {}
    if kind == "loop_counter":
        config = {"max_iterations": random.randint(1, 5), "scope": random.choice(("run", "loop"))}
        config["reset_on_emit"] = random.random() < 0.7
    elif kind == "literal":
        config = {"content": random.choice(("a", "b", "c"))}
    return {"id": name, "type": kind, "config": config}


def _condition(random: Random) -> Any:
    one = {"type": "keyword", "config": {"any": ["a"]}}
    other = {"type": "keyword", "config": {"none": ["a"]}}
    third = {"type": "keyword", "config": {"any": ["b"]}}
    return random.choice((None, None, None, one, one, other, third, {"cel": "round < 4"}, False, "whim"))


def _spice(random: Random, edge: Dict, kinds: dict[str, str]) -> None:
    luck = random.random()
    if luck < 0.05:
        edge["trigger"] = False
    elif luck < 0.1:
        drop = {"pattern": "b", "on_no_match": "drop"}
        edge["process"] = {"type": "regex_extract", "config": drop}
    elif luck < 0.15:
        split = {"type": "regex", "config": {"pattern": "a", "on_no_match": "empty"}}
        edge["dynamic"] = {"type": "map", "split": split}
    elif luck < 0.2:
        edge["carry_data"] = False
    if kinds[edge["from"]] == "mute" and random.random() < 0.6:
        edge["port"] = random.choice(PORTS)


def _edge(random: Random, source: str, target: str, kinds: dict[str, str]) -> Dict:
    edge: Dict = {"from": source, "to": target}
    condition = _condition(random)
    if condition is not None and kinds[source] != "loop_counter":
        edge["condition"] = condition
    _spice(random, edge, kinds)
    return edge


def tangle(seed: int) -> Dict:
    random = Random(seed)
    names = [f"N{number}" for number in range(random.randint(2, 6))]
    nodes = [_node(random, name) for name in names]
    kinds = {node["id"]: node["type"] for node in nodes}
    nodes += [{"id": "Out", "type": "passthrough"}]
    ways = [(names[at - 1], name) for at, name in enumerate(names) if random.random() < 0.8]
    ways += [(random.choice(names), random.choice(names)) for _ in range(random.randint(1, 6))]
    guards = [name for name in names if kinds[name] == "loop_counter"]
    ways += [(guard, random.choice(names)) for guard in guards]
    ways += [(name, "Out") for name in {*guards, random.choice(names)}]
    edges = [_edge(random, source, target, kinds) for source, target in ways]
    edges += _copies(random, edges, guards)
    limits = {"rounds": 25, "steps": 400}
    graph = {"nodes": nodes, "edges": edges, "start": names[0], "end": "Out", "limits": limits}
    return _wrapped(random, graph)


def _copies(random: Random, edges: list[Dict], guards: list[str]) -> list[Dict]:
    """Beside some edges one more of the same kind, to a guard."""
    if not guards:
        return []
    chosen = [edge for edge in edges if random.random() < 0.5]
    return [{**edge, "to": random.choice(guards)} for edge in chosen if "dynamic" not in edge]


def _wrapped(random: Random, graph: Dict) -> Dict:
    """Now and then the whole is a subgraph, in a loop of its own."""
    if random.random() < 0.85:
        return {"graph": graph}
    body = {"id": "Body", "type": "subgraph", "config": {"type": "config", "config": graph}}
    gate = {"id": "Gate", "type": "loop_counter", "config": {"max_iterations": random.randint(1, 3)}}
    nodes = [{"id": "Top", "type": "agent"}, body, gate, {"id": "Last", "type": "passthrough"}]
    ways = (("Top", "Body"), ("Top", "Gate"), ("Top", "Top"), ("Body", "Top"), ("Gate", "Top"), ("Gate", "Last"))
    edges: list[Dict] = [{"from": source, "to": target} for source, target in ways]
    if random.random() < 0.3:
        edges[0]["dynamic"] = {"type": "map", "split": {"type": "regex", "config": {"pattern": "a"}}}
    limits = {"rounds": 25, "steps": 400}
    return {"graph": {"nodes": nodes, "edges": edges, "start": "Top", "end": "Last", "limits": limits}}


def spiced(workflow: Dict, seed: int) -> Dict:
    """The same with other conditions and kinds here and there, long runs, and no caps of its own."""
    random = Random(seed)
    graph = workflow["graph"]
    graph["limits"] = {"rounds": 40, "steps": 600}
    graph.pop("loops", None)
    for node in graph["nodes"]:
        if node["type"] == "loop_counter":
            node["config"]["max_iterations"] = random.randint(1, 8)
        elif node["type"] == "agent" and random.random() < 0.1:
            node |= {"type": random.choice(("mute", "shy")), "config": {}}
    kinds = {node["id"]: node["type"] for node in graph["nodes"]}
    for edge in graph["edges"]:
        if random.random() < 0.15:
            _spice(random, edge, kinds)
    return workflow
