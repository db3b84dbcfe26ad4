"""Random workflows that try to escape the proof that loops end.

`woven` wires a guard as it should be, by way of other nodes, and then spoils it a little: a condition, a
port, a node that may be silent, a dynamic edge, one edge more. `tangle` has few nodes and many edges of all
kinds. `spiced` spoils any other workflow. `fallible` adds edges with the port `error`, and nodes that leave
by an explicit port of their own. All nodes speak at random, and those with an error edge fail at random.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

from roundel.kernel.commands import Ask, Call, Command, EvaluateEdges
from roundel.kernel.events import Event
from roundel.kernel.facts import EdgeResult, EdgesEvaluated, Fact, Failed, Outcome
from roundel.nodes import TYPES
from roundel.nodes.passthrough import Config
from roundel.plan.graph import Plan, compile_workflow
from roundel.plan.scope import Scope
from roundel.workflow.loader import from_mapping
from roundel.workflow.message import Message
from roundel.workflow.node_type import NodeType, NodeTypes
from tests.kernel.graphs import LAST, TEXTS
from tests.kernel.simulator import Simulator

Dict = dict[str, Any]

WORDS = ("a", "b", "a b", "")
PORTS = ("left", "right")


def _chance_of(seed: int) -> Random:
    return Random(seed * 7919 + 13)


class Moods:
    """Node types that speak by chance: forks have ports, a mute may be silent, a shy one may stay, and a
    quitter may leave by the port `exit` if it has such an edge."""

    def __init__(self, seed: int) -> None:
        self.random = _chance_of(seed)
        self.gloom = self.random.choice((0.05, 0.3, 0.6))

    def types(self) -> NodeTypes:
        kinds = {id(kind): kind for kind in (TYPES[name] for name in TYPES)}
        fork = NodeType(
            "fork", Config, "", self._prepare(False, 0), ports=lambda _: PORTS, single=lambda _: True
        )
        mute = NodeType(
            "mute", Config, "", self._prepare(False, self.gloom), ports=lambda _: PORTS, silent=True
        )
        shy = NodeType("shy", Config, "", self._prepare(True, 0), guard=True)
        quitter = NodeType("quitter", Config, "", self._prepare_quitter, explicit_ports=lambda _: ("exit",))
        return NodeTypes([*kinds.values(), fork, mute, shy, quitter])

    def _prepare_quitter(self, node: Any, run: Any) -> Any:
        leaves = any(
            edge.port == "exit" for site in run.plan.sites if site.node is node for edge in site.edges
        )

        def behave(_call: Call) -> Outcome:
            port = "exit" if leaves and self.random.random() < 0.4 else None
            return Outcome((Message(self.random.choice(WORDS), "assistant"),), port)

        return behave

    def _prepare(self, stays: bool, gloom: float) -> Any:
        def behave(_call: Call) -> Outcome:
            if self.random.random() < gloom:
                return Outcome()
            message = Message(self.random.choice(WORDS), "assistant")
            stay = stays and self.random.random() < 0.7
            return Outcome((message,), None if stays else self.random.choice(PORTS), stay=stay)

        return lambda _node, _services: behave


class Gambler(Simulator):
    """Answers at random, for agents and for functions on edges; and lets nodes fail that have an error edge,
    now and then others too."""

    def __init__(self, plan: Plan, seed: int, *, fallible: bool = True) -> None:
        self.random = _chance_of(seed + 1)
        self.fallible = fallible and any(node.has_error_edges for node in plan.sites)
        self.bad_luck = self.random.choice((0.1, 0.4, 0.8)) if self.fallible else 0
        super().__init__(plan, {}, self.random.randrange)
        self.words = self.random.choice((WORDS, ("a",), ("b", "a b"), ("",), TEXTS, LAST))

    def reply_text(self, name: str, ordinal: int, inputs: tuple[Message, ...]) -> str:
        return self.random.choice(self.words)

    def answer(self, command: Command) -> Fact:
        if not isinstance(command, EvaluateEdges):
            fails = self.fallible and self.random.random() < self._risk(command)
            if fails:
                return Failed(command.address, self.random.choice(self.words), self.now())
            return super().answer(command)
        edge_results = [
            EdgeResult(edge, number, self.random.random() < 0.7, Message("a"))
            for edge, number in command.pairs
        ]
        return EdgesEvaluated(command.address, tuple(edge_results), self.now())

    def _risk(self, command: Command) -> float:
        if not isinstance(command, (Call, Ask)):
            return 0
        return self.bad_luck if self.plan.sites[command.site].has_error_edges else 0.01


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
            longest[scope] = max(longest.get(scope, 0), event.fields()["round"])
            totals[scope] = totals.get(scope, 0) + 1
    return longest, totals


def scope_at(plan: Plan, address: str) -> Scope:
    """The loop at an address; ids must not hold a dot."""
    scope = plan.graph.root
    for part in address.split("/"):
        for name in part.split("."):
            known = {node.label: node.index for node in scope.graph.nodes}
            index = known[name.partition("[")[0].partition("#")[0]]
            if "[" in name:
                unit = next(unit for unit in scope.units if index in unit.members)
                scope = scope.inner(unit, index)
            else:
                scope = scope.graph.nodes[index].bodies[0].root
    return scope


# --- what comes by chance ---

LIMITS = {"rounds": 25, "steps": 400}
TALKERS = ("agent", "passthrough", "fork")
ALL = (*TALKERS, *TALKERS, "loop_counter", "loop_counter", "mute", "shy", "literal", "subgraph")


def _node(random: Random, name: str, *kinds: str) -> Dict:
    kind = random.choice(kinds)
    config: Dict = {}
    if kind == "loop_counter":
        config = {"max_iterations": random.randint(1, 5), "scope": random.choice(("run", "loop"))}
        config["reset_on_emit"] = random.random() < 0.7
    elif kind == "literal":
        config = {"content": random.choice(("a", "b", "c"))}
    elif kind == "subgraph":
        config = {"type": "config", "config": _moody_graph()}
    return {"id": name, "type": kind, "config": config}


def _kinds(nodes: list[Dict]) -> dict[str, str]:
    return {node["id"]: node["type"] for node in nodes}


def _moody_graph() -> Dict:
    """It gives nothing if its agent does not say a."""
    nodes = [{"id": "Ask", "type": "agent"}, {"id": "Tell", "type": "passthrough"}]
    edge = {"from": "Ask", "to": "Tell", "condition": _keyword(any=["a"])}
    return {"nodes": nodes, "edges": [edge], "start": "Ask", "end": "Tell"}


def _keyword(**config: Any) -> Dict:
    return {"type": "keyword", "config": config}


CONDITIONS = (
    *(_keyword(any=["a"]), _keyword(any=["a"]), _keyword(none=["a"]), _keyword(any=["b"])),
    *({"cel": "round < 4"}, False, "whim", _keyword(any=["a"], negate=True)),
)


def _edge(random: Random, source: str, target: str) -> Dict:
    edge: Dict = {"from": source, "to": target}
    if random.random() < 0.5:
        edge["condition"] = random.choice(CONDITIONS)
    return edge


def _spoil(random: Random, edge: Dict, kinds: dict[str, str]) -> None:
    how = random.randrange(6)
    if how == 0:
        edge["trigger"] = False
    elif how == 1:
        edge["process"] = {"type": "regex_extract", "config": {"pattern": "b", "on_no_match": "drop"}}
    elif how == 2:
        split = {"type": "regex", "config": {"pattern": "a", "on_no_match": "empty"}}
        edge["dynamic"] = {"type": "map", "split": split}
    elif how == 3:
        edge["carry_data"] = False
    elif how == 4 and kinds[edge["from"]] in ("fork", "mute"):
        edge["port"] = random.choice(PORTS)
    else:
        edge["condition"] = random.choice(CONDITIONS)


def _workflow(random: Random, nodes: list[Dict], edges: list[Dict], spoilt: int) -> Dict:
    kinds = _kinds(nodes)
    for edge in random.sample(edges, min(spoilt, len(edges))):
        _spoil(random, edge, kinds)
    start = nodes[0]["id"]
    graph = {"nodes": nodes, "edges": edges, "start": start, "end": "Out", "limits": LIMITS}
    return _wrapped(random, graph)


def woven(seed: int) -> Dict:
    random = Random(seed)
    ring = [f"N{number}" for number in range(random.randint(1, 4))]
    nodes = [_node(random, name, *TALKERS) for name in ring]
    edges = [{"from": one, "to": other} for one, other in pairwise(ring)]
    for source in {ring[-1], random.choice(ring)}:
        back = _edge(random, source, ring[0])
        edges += [back, *_thread(random, nodes, back)]
    nodes += [_node(random, "Guard", "loop_counter"), {"id": "Out", "type": "passthrough"}]
    for edge in edges:
        if _kinds(nodes)[edge["from"]] in ("fork", "mute") and random.random() < 0.3:
            edge["port"] = random.choice(PORTS)
    edges += [{"from": "Guard", "to": random.choice(ring)}, {"from": "Guard", "to": "Out"}]
    names = [node["id"] for node in nodes[:-1]]
    for _ in range(random.choice((0, 0, 1, 2))):
        edges.append(_edge(random, random.choice(names), random.choice((*names, "Out"))))
    return _workflow(random, nodes, edges, random.choice((0, 1, 1, 2)))


def _thread(random: Random, nodes: list[Dict], back: Dict) -> list[Dict]:
    """From beside an edge back to the guard, perhaps by way of a new node."""
    if random.random() < 0.5:
        return [{**back, "to": "Guard"}]
    via = _node(random, f"V{len(nodes)}", *ALL)
    nodes.append(via)
    return [{**back, "to": via["id"]}, {"from": via["id"], "to": "Guard"}]


def tangle(seed: int) -> Dict:
    random = Random(seed)
    names = [f"N{number}" for number in range(random.randint(2, 6))]
    nodes = [_node(random, name, *ALL) for name in names]
    guards = [node["id"] for node in nodes if node["type"] == "loop_counter"]
    ways = [(names[at - 1], name) for at, name in enumerate(names) if random.random() < 0.8]
    ways += [(random.choice(names), random.choice(names)) for _ in range(random.randint(1, 6))]
    edges = [_edge(random, source, target) for source, target in ways]
    if guards:
        edges += [{**edge, "to": random.choice(guards)} for edge in edges if random.random() < 0.5]
    edges += [{"from": guard, "to": target} for guard in guards for target in (random.choice(names), "Out")]
    nodes.append({"id": "Out", "type": "passthrough"})
    return _workflow(random, nodes, edges, random.randrange(4))


def _wrapped(random: Random, graph: Dict) -> Dict:
    """Now and then the whole is a subgraph, in a loop of its own."""
    if random.random() < 0.9:
        return {"graph": graph}
    body = {"id": "Body", "type": "subgraph", "config": {"type": "config", "config": graph}}
    nodes = [{"id": "Top", "type": "agent"}, body, _node(random, "Gate", "loop_counter")]
    ways = ("Top Body", "Top Gate", "Top Top", "Body Top", "Gate Top", "Gate Last")
    edges: list[Dict] = [{"from": way.split()[0], "to": way.split()[1]} for way in ways]
    if random.random() < 0.3:
        edges[0]["dynamic"] = {"type": "map", "split": {"type": "regex", "config": {"pattern": "a"}}}
    nodes.append({"id": "Last", "type": "passthrough"})
    return {"graph": {"nodes": nodes, "edges": edges, "start": "Top", "end": "Last", "limits": LIMITS}}


def spiced(workflow: Dict, seed: int) -> Dict:
    """The same with other kinds and edges here and there, long runs, and no caps of its own."""
    random = Random(seed)
    graph = workflow["graph"]
    graph["limits"] = {"rounds": 40, "steps": 400}
    graph.pop("loops", None)
    for node in graph["nodes"]:
        node.pop("context_window", None)
        # In long runs a node that hands on everything would double it again and again.
        node["config"].pop("only_last_message", None)
        if node["type"] == "loop_counter":
            node["config"]["max_iterations"] = random.randint(1, 8)
        elif node["type"] == "agent" and random.random() < 0.1:
            node |= {"type": random.choice(("mute", "shy", "fork")), "config": {}}
    kinds = _kinds(graph["nodes"])
    for edge in graph["edges"]:
        edge.pop("keep_message", None)
        if random.random() < 0.06:
            _spoil(random, edge, kinds)
    return workflow


def fallible(workflow: Dict, seed: int) -> Dict:
    """The same with error edges: some beside others that lead to a guard, some out, some anywhere."""
    random = Random(seed * 31 + 7)
    pending = [workflow["graph"]]
    for graph in pending:  # grows during the iteration
        pending += [node["config"]["config"] for node in graph["nodes"] if node["type"] == "subgraph"]
        _add_error_edges(random, graph)
        _turn_into_error_edges(random, graph)
    return workflow


def _turn_into_error_edges(random: Random, graph: Dict) -> None:
    """Now and then a node has an edge back, and one to a guard beside it, only for failures."""
    for node in graph["nodes"]:
        edges = [edge for edge in graph["edges"] if edge["from"] == node["id"] and "port" not in edge]
        if len(edges) > 1 and node["type"] != "loop_counter" and random.random() < 0.2:
            for edge in edges:
                edge["port"] = "error"


def _add_error_edges(random: Random, graph: Dict) -> None:
    names = [node["id"] for node in graph["nodes"]]
    guards = [node["id"] for node in graph["nodes"] if node["type"] == "loop_counter"]
    end = graph.get("end", [])
    ends = [end] if isinstance(end, str) else end
    for node in graph["nodes"]:
        if node["id"] in ends or random.random() < 0.6:
            continue
        port = "error"
        if node["type"] == "agent" and random.random() < 0.2:
            node |= {"type": "quitter", "config": {}}
            port = random.choice(("exit", "exit", "error"))
        for _ in range(random.choice((1, 1, 1, 2))):
            anywhere = random.choice(names)
            target = random.choice((node["id"], anywhere, anywhere, ends[0] if ends else anywhere))
            edge = {**_edge(random, node["id"], target), "port": port}
            graph["edges"].append(edge)
            if guards and random.random() < 0.6:
                graph["edges"].append({**edge, "to": random.choice(guards)})
            if random.random() < 0.1:
                _spoil_error_edge(random, edge)


def _spoil_error_edge(random: Random, edge: Dict) -> None:
    how = random.randrange(3)
    if how == 0:
        edge["trigger"] = False
    elif how == 1:
        edge["process"] = {"type": "regex_extract", "config": {"pattern": "b", "on_no_match": "drop"}}
    else:
        edge["condition"] = random.choice(CONDITIONS)
