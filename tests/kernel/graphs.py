"""Random workflows for property tests: small, dense with loops, and sure to end.

A workflow is drawn in three steps: a skeleton in which most nodes can be reached (rings inside rings with
several ways out, or a loose web), then extra edges of every kind, then the settings of nodes and edges.
Conditions and scripted replies share a few words, so that branches really vary. Cases that shrink lose
their settings first and their loops last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

T = TypeVar("T")
Dict = dict[str, Any]

WORDS = ("stop", "again", "ship", "hold")
PATTERNS = ("st.p", "^again", "hold$", r"\bship\b")
IDLE = ("more colour", "nothing", "好")  # none of the words
PHRASES = (
    *IDLE,
    *("again", "ship", "hold", "stop", "again ship", "stop hold", "Again and again", "STOP", "ship it\nstop"),
)
LAST = ("stop again ship hold", "stop ship", "hold again", *PHRASES)
TEXTS = (*IDLE * 3, *PHRASES)
TOOLS = ("look", "ask", "bad")
SIZES = (4, 2, 3, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10)

# No "/", ".", "[" or "]": an address joins ids with them.
IDS = (
    *("A", "B", "C", "D", "E", "Writer", "Reviewer", "Loop Guard", "Final Output", "a", "node_x", "node_"),
    *("my node_x", "node_node_1", "1", "no", "true", "null", "start", "end", "two  spaces", "it's", "a: b"),
    *("审稿人", "循环 守卫", "Редактор", "مراجع", "עורך", "작가", "é", "ß", "🙂", 'say "hi"', "#tag", "-"),
)

PLAIN: Dict = {}
FLAGS: tuple[Dict, ...] = (
    *(PLAIN,) * 14,
    *({"keep_message": True},) * 3,
    {"clear_context": True},
    {"clear_context": True, "keep_message": True},
    {"clear_kept_context": True},
    {"clear_kept_context": True, "keep_message": True},
    {"clear_context": True, "clear_kept_context": True},
    {"carry_data": False},
    {"carry_data": False, "clear_context": True},
)
WINDOWS = (0, 0, 0, 0, -1, -1, 1, 2, 3)


Dice = Callable[[int], int]  # a number from 0 up to, but not including, the one given


def texts() -> SearchStrategy[str]:
    """Inputs for a run."""
    return st.sampled_from(TEXTS)


@st.composite
def scripts(draw: DrawFn, workflow: Dict) -> dict[str, list[str]]:
    """Replies for most agents of `workflow`; those left out echo what they are given."""
    return _make_script(lambda sides: draw(_die(sides)), workflow)


@st.composite
def workflows(draw: DrawFn) -> Dict:
    """The dict of a workflow file with 2 to 10 nodes."""
    return _make_workflow(lambda sides: draw(_die(sides)))


def case(seed: int) -> tuple[Dict, str, dict[str, list[str]]]:
    """A workflow, an input and a script for long runs without Hypothesis: faster, and nothing shrinks."""
    dice = Random(seed).randrange
    workflow = _make_workflow(dice)
    return workflow, _pick(dice, *TEXTS), _make_script(dice, workflow)


def case_with_tools(seed: int) -> tuple[Dict, str, dict[str, list[str]]]:
    """The same, and most agents have tools: some fail, some a person has to allow."""
    dice = Random(seed).randrange
    workflow = _make_workflow(dice)
    for node in workflow["graph"]["nodes"]:
        if node["type"] == "agent" and not _chance(dice, 25):
            node["config"] = {**node["config"], **_tool_use(dice)}
    script = _make_script(dice, workflow)
    for name, replies in script.items():
        script[name] = [reply for first in replies for reply in (*_requests(dice), first)]
    for node in workflow["graph"]["nodes"]:
        script[f"{node['id']}/ask"] = [_pick(dice, "yes", "no: not now") for _ in range(4)]
    tools = {name: {"python": "statistics:mean"} for name in TOOLS}
    return {**workflow, "tools": tools}, _pick(dice, *TEXTS), script


def case_with_failures(seed: int, tools: bool = False) -> tuple[Dict, str, dict[str, list[str]]]:
    """The same, with error edges, and nodes of all types that fail: those with such an edge rather often."""
    workflow, text, script = case_with_tools(seed) if tools else case(seed)
    dice = Random(seed + 1).randrange
    graph = workflow["graph"]
    names = [node["id"] for node in graph["nodes"]]
    risky = [name for name in names if _chance(dice, 40)]
    for name in risky:
        for _ in range(1 + dice(2)):
            target = name if _chance(dice, 25) else _pick(dice, *names)
            edge: Dict = {"from": name, "to": target, "port": "error", **_pick(dice, *FLAGS)}
            if _chance(dice, 40):
                edge["condition"] = _keyword_condition(dice)
            if _chance(dice, 15):
                edge["trigger"] = False
            graph["edges"].insert(dice(len(graph["edges"]) + 1), edge)
    for name in names:
        agent = name in script or _type_of(graph, name) == "agent"
        if name in risky or _chance(dice, 2):
            replies = script.get(name, [""]) if agent else [""] * (1 + dice(3))
            script[name] = [reply for first in replies for reply in _with_failures(dice, first)]
    return workflow, text, script


def _type_of(graph: Dict, name: str) -> str:
    return next(str(node["type"]) for node in graph["nodes"] if node["id"] == name)


def _with_failures(dice: Dice, reply: str) -> list[str]:
    failures = [f"!{_pick(dice, *PHRASES)}" for _ in range(_pick(dice, 0, 0, 1, 1, 2))]
    return [*failures, reply] if _chance(dice, 80) else failures or [reply]


def _tool_use(dice: Dice) -> Dict:
    config: Dict = {"tools": list(TOOLS), "approval": ["ask"], "max_tool_calls": _pick(dice, 2, 0, 1, 3)}
    if _chance(dice, 40):
        config["max_calls_per_round"] = _pick(dice, 2, 1)
    if _chance(dice, 15):
        config["on_limit"] = _pick(dice, "error", "suspend")
    return config


def _requests(dice: Dice) -> list[str]:
    return ["?" + " ".join(_pick(dice, *TOOLS) for _ in range(1 + dice(3))) for _ in range(dice(3))]


def _make_workflow(dice: Dice) -> Dict:
    sketch = _Sketch(dice, _sample(dice, IDS, _pick(dice, *SIZES)))
    shape = _pick(dice, *(_rings,) * 5, _guarded_rings, _web)
    root = shape(sketch)
    _attach_spare_nodes(sketch)
    _add_extra_edges(sketch)
    _limit_growth(sketch)
    return {"graph": _finish(sketch, root)}


def _make_script(dice: Dice, workflow: Dict) -> dict[str, list[str]]:
    agents = [node["id"] for node in workflow["graph"]["nodes"] if node["type"] == "agent"]
    return {agent: _replies(dice) for agent in agents if not _chance(dice, 12)}


def _replies(dice: Dice) -> list[str]:
    """Idle talk more often than not, and at last something that ends many loops."""
    first = [_pick(dice, *IDLE * 4, *PHRASES) for _ in range(_pick(dice, 2, 0, 1, 3, 4, 5))]
    return [*first, _pick(dice, *LAST)]


# --- drawing ---


@cache
def _die(sides: int) -> SearchStrategy[int]:
    return st.integers(0, sides - 1)


def _chance(dice: Dice, percent: int) -> bool:
    return dice(100) >= 100 - percent


def _pick(dice: Dice, *choices: T) -> T:
    return choices[dice(len(choices))]


def _sample(dice: Dice, items: Sequence[T], count: int) -> list[T]:
    left = list(items)
    return [left.pop(dice(len(left))) for _ in range(min(count, len(left)))]


def _shuffled(dice: Dice, items: Sequence[T]) -> list[T]:
    return _sample(dice, items, len(items))


def _keyword(**config: Any) -> Dict:
    return {"type": "keyword", "config": config}


def _keyword_condition(dice: Dice) -> Dict:
    word, other, pattern = _pick(dice, *WORDS), _pick(dice, *WORDS), _pick(dice, *PATTERNS)
    return _pick(
        dice,
        *(_keyword(any=[word]), _keyword(none=[word])) * 3,
        _keyword(any=[word], none=[other]),
        _keyword(any=[word, other]),
        _keyword(regex=[pattern]),
        _keyword(any=[word], regex=[pattern], none=[other]),
        _keyword(any=[word.upper()], case_sensitive=False),
        _keyword(none=[word.upper()], regex=[pattern], case_sensitive=False),
        _keyword(any=[word], none=[other[:2]], word=True),
        _keyword(begins=[word]),
        _keyword(begins=[word], negate=True),
        _keyword(only=[word.upper()], none=[other], case_sensitive=False, negate=True),
    )


def _any_condition(dice: Dice) -> Any:
    """A condition of any kind, or None for an edge that has none."""
    return _pick(dice, None, _keyword_condition(dice), True, False)


def _some_condition(dice: Dice, percent: int) -> Any:
    """None for most edges, if `percent` is small."""
    return _keyword_condition(dice) if _chance(dice, percent) else None


# --- the sketch ---


@dataclass
class _Sketch:
    dice: Dice
    spare: list[str]
    nodes: list[Dict] = field(default_factory=list)
    edges: list[Dict] = field(default_factory=list)

    @property
    def ids(self) -> list[str]:
        return [node["id"] for node in self.nodes]

    def node(self, make: Callable[[Dice], Dict]) -> str:
        node = {"id": self.spare.pop(), **make(self.dice)}
        window = _pick(self.dice, *WINDOWS)
        if window != 0:
            node["context_window"] = window
        elif node["type"] == "agent" and _chance(self.dice, 40):
            node["config"] = {
                **node["config"],
                "context": _pick(self.dice, "message", "task", "history", "history"),
            }
        self.nodes.append(node)
        return str(node["id"])

    def edge(self, source: str, target: str, condition: Any = None, *, trigger: bool = True) -> None:
        """Add an edge; one that repeats another, and so replaces it, only now and then."""
        repeats = any((edge["from"], edge["to"]) == (source, target) for edge in self.edges)
        if repeats and not _chance(self.dice, 20):
            return
        edge: Dict = {"from": source, "to": target, **_pick(self.dice, *FLAGS)}
        if condition is not None:
            edge["condition"] = condition
        if not trigger:
            edge["trigger"] = False
        self.edges.append(edge)


def _agent(_dice: Dice) -> Dict:
    return {"type": "agent", "config": {"provider": "openai", "name": "m"}}


def _passthrough(dice: Dice) -> Dict:
    return {"type": "passthrough", "config": _pick(dice, {}, {"only_last_message": False})}


def _literal(dice: Dice) -> Dict:
    config = {"content": _pick(dice, *PHRASES)}
    if _chance(dice, 40):
        config["role"] = _pick(dice, "assistant", "user")
    return {"type": "literal", "config": config}


def _counter(dice: Dice) -> Dict:
    config: Dict = {"max_iterations": _pick(dice, 2, 3, 4, 1)}
    if _chance(dice, 40):
        config["reset_on_emit"] = _pick(dice, False, True)
    if _chance(dice, 60):
        config["scope"] = _pick(dice, "loop", "run")
    if _chance(dice, 40):
        config["message"] = _pick(dice, *PHRASES)
    return {"type": "loop_counter", "config": config}


def _speaker(dice: Dice) -> Dict:
    """A node that always says something."""
    return _pick(dice, *(_agent,) * 7, *(_passthrough,) * 3, _literal)(dice)


def _any_node(dice: Dice) -> Dict:
    return _pick(dice, *(_speaker,) * 5, _counter)(dice)


# --- skeletons: each returns the node where a run should start ---

Way = tuple[str, Any]  # a node, and the condition for going on from there


@dataclass
class _Ring:
    """A loop, perhaps not closed yet: where it is entered, and the ways that go on from it."""

    entry: str
    members: list[str]
    ways: list[Way]


def _rings(sketch: _Sketch) -> str:
    """One or two nests of rings, one behind the other, with exits to nodes behind all of them."""
    dice = sketch.dice
    behind = [sketch.node(_speaker)]
    if len(sketch.spare) > 3 and _chance(dice, 50):
        behind.append(sketch.node(_any_node))
    before = sketch.node(_speaker) if len(sketch.spare) > 1 and _chance(dice, 40) else None
    ring = _ring(sketch, depth=2, behind=behind)
    if before is not None:
        _enter(sketch, [(before, None)], ring)
    ways = ring.ways
    if sketch.spare and _chance(dice, 30):
        second = _ring(sketch, depth=1, behind=behind)
        _enter(sketch, ways, second)
        ways = second.ways
    _connect(sketch, ways, behind[0])
    return before or ring.entry


def _ring(sketch: _Sketch, depth: int, behind: list[str]) -> _Ring:
    """A ring of a few places: nodes, rings, and forks of these."""
    dice = sketch.dice
    ring = _alone(sketch)
    for _ in range(_pick(dice, 1, 2, 3, 0)):
        if not sketch.spare:
            break
        place = _place(sketch, depth, behind)
        _enter(sketch, ring.ways, place)
        members, ways = ring.members + place.members, place.ways
        if sketch.spare and _chance(dice, 30):
            beside = _place(sketch, depth, behind)
            _enter(sketch, ring.ways, beside)
            _let_talk(sketch, place, beside)
            members, ways = members + beside.members, ways + beside.ways
        ring = _Ring(ring.entry, members, ways)
    return _close(sketch, ring, behind)


def _place(sketch: _Sketch, depth: int, behind: list[str]) -> _Ring:
    if depth > 0 and len(sketch.spare) > 1 and _chance(sketch.dice, 50):
        return _ring(sketch, depth - 1, behind)
    return _alone(sketch)


def _alone(sketch: _Sketch) -> _Ring:
    node = sketch.node(_speaker)
    return _Ring(node, [node], [(node, _some_condition(sketch.dice, 8))])


def _let_talk(sketch: _Sketch, one: _Ring, other: _Ring) -> None:
    """Data between two places that run side by side, often in both directions."""
    dice = sketch.dice
    if _chance(dice, 60):
        sketch.edge(_pick(dice, *one.members), _pick(dice, *other.members), trigger=False)
    if _chance(dice, 60):
        sketch.edge(_pick(dice, *other.members), _pick(dice, *one.members), trigger=False)


def _close(sketch: _Sketch, ring: _Ring, behind: list[str]) -> _Ring:
    """Lead the ways of the ring back to its entry, until a word is said, which ends it.

    It may have a guard, and a way out that leaves all rings around it too.
    """
    dice, word = sketch.dice, _pick(sketch.dice, *WORDS)
    for node, condition in ring.ways:
        again = _any_condition(dice) if _chance(dice, 8) else _unless(condition, word)
        sketch.edge(node, ring.entry, again)
    last = _pick(dice, *ring.ways)[0]
    ways: list[Way] = [(last, _keyword_condition(dice) if _chance(dice, 8) else _keyword(any=[word]))]
    if sketch.spare and _chance(dice, 45):
        ways.append((_add_guard(sketch, ring, last, word), None))
    if _chance(dice, 30):
        sketch.edge(_pick(dice, *ring.members), _pick(dice, *behind), _keyword(any=[_pick(dice, *WORDS)]))
    if _chance(dice, 15):
        sketch.edge(_pick(dice, *ring.members), ring.entry, trigger=False)
    while sketch.spare and _chance(dice, 40):
        _add_side_node(sketch, ring.members)
    return _Ring(ring.entry, ring.members, ways)


def _add_side_node(sketch: _Sketch, members: list[str]) -> None:
    """A node that some of the members trigger, and that gives them data; now and then also another one."""
    dice, others = sketch.dice, sketch.ids
    side = sketch.node(_any_node)
    for _ in range(_pick(dice, 1, 1, 2)):
        sketch.edge(_pick(dice, *members), side, _some_condition(dice, 60))
    for _ in range(_pick(dice, 1, 1, 2)):
        sketch.edge(side, _pick(dice, *members), _some_condition(dice, 20), trigger=False)
    if _chance(dice, 15):
        sketch.edge(side, _pick(dice, *others, side), trigger=False)


def _unless(condition: Any, word: str) -> Any:
    """As `condition`, but not when `word` is said."""
    if condition is None:
        return _keyword(none=[word])
    if condition["config"].get("none"):
        return condition
    return _keyword(**condition["config"], none=[word])


def _add_guard(sketch: _Sketch, ring: _Ring, last: str, word: str) -> str:
    guard = sketch.node(_counter)
    ring.members.append(guard)
    sketch.edge(last, guard, _keyword(none=[word]))
    if not _chance(sketch.dice, 10):  # a mistake in the wiring: the counter stands outside the loop
        sketch.edge(guard, ring.entry)
    return guard


def _enter(sketch: _Sketch, ways: list[Way], ring: _Ring) -> None:
    """Lead to the entry of a ring; or here or there into it, as a word decides."""
    dice = sketch.dice
    if len(ring.members) == 1 or not _chance(dice, 25):
        _connect(sketch, ways, ring.entry)
        return
    word, other = _pick(dice, *WORDS), _pick(dice, *ring.members[1:])
    for node, condition in ways:
        sketch.edge(node, ring.entry, _unless(condition, word))
        sketch.edge(node, other, _keyword(any=[word]))


def _connect(sketch: _Sketch, ways: list[Way], target: str) -> None:
    for node, condition in ways:
        sketch.edge(node, target, condition)


def _guarded_rings(sketch: _Sketch) -> str:
    """A loop with a counter inside a loop, which may have one too; each also ends by a word."""
    if len(sketch.spare) < 5:
        return _rings(sketch)
    dice, inner, outer = sketch.dice, _pick(sketch.dice, *WORDS), _pick(sketch.dice, *WORDS)
    end, entry, body, check = (sketch.node(make) for make in (_speaker, _speaker, _agent, _agent))
    gate = sketch.node(_counter)
    _connect(sketch, [(entry, None)], body)
    _connect(sketch, [(body, _keyword(none=[inner])), (gate, None)], body)
    _connect(sketch, [(body, _keyword(none=[inner]))], gate)
    _connect(sketch, [(body, _keyword(any=[inner])), (gate, None)], check)
    _connect(sketch, [(check, _keyword(none=[outer]))], entry)
    _connect(sketch, [(check, _keyword(any=[outer]))], end)
    if sketch.spare and _chance(dice, 60):
        guard = _add_guard(sketch, _Ring(entry, [], []), check, outer)
        sketch.edge(guard, end)
    return entry


def _web(sketch: _Sketch) -> str:
    """A tree, and edges back and across."""
    dice, root = sketch.dice, sketch.node(_speaker)
    while sketch.spare:
        source = _pick(dice, *sketch.ids)
        sketch.edge(source, sketch.node(_any_node), _some_condition(dice, 30))
    for _ in range(dice(5)):
        sketch.edge(_pick(dice, *sketch.ids), _pick(dice, *sketch.ids), _some_condition(dice, 80))
    return root


# --- what comes on top of a skeleton ---


def _attach_spare_nodes(sketch: _Sketch) -> None:
    """Many stand beside an edge, as a second way to its target; others are side nodes or loose ends."""
    dice = sketch.dice
    while sketch.spare:
        looping = _looping(sketch)
        if looping and _chance(dice, 50):
            _add_side_node(sketch, looping)
            continue
        beside, others = _pick(dice, *sketch.edges), sketch.ids
        node = sketch.node(_any_node)
        if _chance(dice, 20):
            sketch.edge(beside["from"], node, _keyword(any=[_pick(dice, *WORDS)]))
        else:
            sketch.edge(beside["from"], node, beside.get("condition"))
            sketch.edge(node, beside["to"], _some_condition(dice, 30))
        if _chance(dice, 30):
            sketch.edge(_pick(dice, *others), node, _some_condition(dice, 30), trigger=False)


def _add_extra_edges(sketch: _Sketch) -> None:
    """Data between any two nodes, and a few more triggers."""
    dice, ids = sketch.dice, sketch.ids
    for _ in range(dice(5)):
        sketch.edge(_pick(dice, *ids), _pick(dice, *ids), _some_condition(dice, 30), trigger=False)
    for _ in range(_pick(dice, 0, 0, 0, 1, 2)):
        sketch.edge(_pick(dice, *ids), _pick(dice, *ids), _keyword(any=[_pick(dice, *WORDS)]))
    if _chance(dice, 10):
        node = _pick(dice, *ids)
        sketch.edge(node, node, _any_condition(dice), trigger=_chance(dice, 60))


def _hands_on_all(node: Dict) -> bool:
    return node["config"].get("only_last_message") is False


def _limit_growth(sketch: _Sketch) -> None:
    """Keep nodes that hand on all they get from feeding themselves or one another without end.

    Such a node, remembering what it said and hearing it again, would double its messages in each round.
    One of them may have a short memory; two have none; more there are not.
    """
    everything = [node for node in sketch.nodes if _hands_on_all(node)]
    for node in everything[2:]:
        node["config"] = {}
    everything = everything[:2]
    ids = {node["id"] for node in everything}
    among = [edge for edge in sketch.edges if edge["from"] in ids and edge["to"] in ids]
    for edge in among:
        edge.pop("keep_message", None)
    for node in everything:
        if among or len(everything) > 1:
            node.pop("context_window", None)
        elif node.get("context_window") == -1:
            node["context_window"] = 2
    if len(everything) > 1:
        for edge in among:
            if edge["from"] == edge["to"]:
                edge["carry_data"] = False


def _finish(sketch: _Sketch, root: str) -> Dict:
    dice = sketch.dice
    graph: Dict = {
        "nodes": _shuffled(dice, sketch.nodes),
        "edges": _shuffled(dice, sketch.edges),
        "start": _starts(sketch, root),
        "end": _ends(sketch),
        "limits": {"rounds": 3 + dice(6)},
    }
    loops = {node: {"max_rounds": 1 + dice(8)} for node in _looping(sketch) if _chance(dice, 6)}
    if loops:
        graph["loops"] = loops
    return graph


def _starts(sketch: _Sketch, root: str) -> str | list[str]:
    dice = sketch.dice
    if not _chance(dice, 15):
        return [root] if _chance(dice, 50) else root
    more = _sample(dice, sketch.ids, 1 + dice(2))
    return list(dict.fromkeys([root, *more]))


def _ends(sketch: _Sketch) -> str | list[str]:
    sources = {edge["from"] for edge in sketch.edges}
    sinks = [node for node in sketch.ids if node not in sources]
    if not sinks or _chance(sketch.dice, 25):
        sinks = _sample(sketch.dice, sketch.ids, 1 + sketch.dice(3))
    return sinks[0] if len(sinks) == 1 and _chance(sketch.dice, 50) else sinks


def _looping(sketch: _Sketch) -> list[str]:
    """The nodes that lie on a cycle of triggering edges."""
    trigger = {(edge["from"], edge["to"]): edge.get("trigger", True) for edge in sketch.edges}
    ways = {ends for ends, does in trigger.items() if does}
    for middle in sketch.ids:
        ways |= {(a, d) for a, b in ways if b == middle for c, d in ways if c == middle}
    return [node for node in sketch.ids if (node, node) in ways]
