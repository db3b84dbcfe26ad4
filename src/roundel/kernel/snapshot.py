"""Snapshots: a run between two steps as bytes, and back, to open a run with a long journal quickly.

The journal alone is enough to rebuild a run, and is what counts; a snapshot only saves time
(docs/decisions/0021). So a snapshot that cannot be read, because another version wrote it for example,
is no loss: it raises SnapshotError, and the caller replays the journal from the start.

The state is a graph of objects that point at each other and at the plan. A snapshot is a table of them:

    mutable objects    created empty first and filled afterwards, so that they can point at each other
    frozen structs     created complete, after everything that they contain
    parts of the plan  by name (PlanIndex), so that a snapshot need not contain the plan
    controllers        and conversations: created anew by their node, then given their attributes
    node states        as JSON, of the type that their node type declares
    long texts         by number: each occurs once in a list beside the table

Structs have the tags of workflow/stored.py, and mutable objects those of `_MUTABLE`. Only these classes, and
the controllers and conversations of the plan's own nodes, are ever instantiated: nothing in a snapshot can
name other code. This is why it is not a pickle.

*Long texts.* A loop that sees its whole history contains every message of it, in queues, histories and
outputs. The journal already has nearly all of these texts, and so have earlier snapshots. Therefore a
snapshot contains none of them: `freeze` returns them as a list, the journal supplies for each the place
where it is stored (its source: a fact, or its digest), and `thaw` gets them back. A checksum over all
texts detects a source that has changed.

Values in the table are JSON: plain ones stand for themselves, all others are lists with a tag.

    ["o", n]       the object with the number n           ["x", n]      the long text with the number n
    ["p", …]       a part of the plan, by name            ["t", …]      a tuple
    ["j", s, …]    the state of a node, as JSON           ["n", …]      the states of a graph's nodes

Entries of the table: "l" list, "d" dict, "b" bytearray, "s" frozen struct, "m" mutable object.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import Any
from zlib import crc32

import msgspec
from msgspec import Struct

from roundel.kernel.budget import Budget
from roundel.kernel.codec import Codec, CodecError, typed
from roundel.kernel.commands import Call
from roundel.kernel.composite import BodyRun
from roundel.kernel.dead_loop import LoopHistory
from roundel.kernel.facts import Decisions, Entry
from roundel.kernel.state import (
    Activation,
    CompositeRun,
    DebugState,
    Execution,
    Expansion,
    Failure,
    GraphInstance,
    GuardStats,
    LoopEntry,
    LoopSummary,
    OpenRound,
    Run,
    ToolLoop,
)
from roundel.plan.graph import EdgePlan, GraphPlan, NodePlan, Plan
from roundel.plan.scope import Scope, Unit
from roundel.workflow.expression import Expression
from roundel.workflow.stored import OLD_NAMES, StoredStructs, UnknownStructError

Name = list[Any]
"""The name of a part of a plan: its kind, and the path to it."""


class PlanIndex:
    """Names for the parts of a plan, and the parts of a plan by name.

    Parts are found by identity: the state refers to the very objects of the plan. The plan is alive as
    long as the index, so no `id` can be taken by another object.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._names: dict[int, Name] = {id(plan): ["plan"]}
        self._graphs: dict[tuple[int, int], GraphPlan] = {(-1, 0): plan.graph}
        for node in plan.sites:
            self._names[id(node)] = ["node", node.site]
            self._add_settings(node.config, ["config", node.site])
            for number, body in enumerate(node.bodies):
                self._graphs[node.site, number] = body
        for (site, number), graph in self._graphs.items():
            self._names[id(graph)] = ["graph", site, number]
            for edge in graph.edges:
                self._names[id(edge)] = ["edge", site, number, edge.index]
                self._names[id(edge.edge.dynamic)] = ["dynamic", site, number, edge.index]
        # Edges without `dynamic` have registered None above.
        self._names.pop(id(None), None)
        # Scopes are compiled when a loop is first entered, so they are named on demand (`_add_scopes`).
        self._scopes: set[int] = set()

    @cached_property
    def fingerprint(self) -> int:
        """Equal for plans in which the same names stand for the same parts."""
        nodes = [(node.id, node.kind.name, len(node.bodies)) for node in self.plan.sites]
        graphs = [
            (place, [node.id for node in graph.nodes], [str(edge.edge) for edge in graph.edges])
            for place, graph in self._graphs.items()
        ]
        return crc32(repr((nodes, graphs)).encode("utf-8", "surrogatepass"))

    def name(self, part: Any) -> Name | None:
        """The name of a part; None if the object is no part of the plan."""
        found = self._names.get(id(part))
        if found is None and isinstance(part, (Scope, Unit)):
            self._add_scopes()  # scopes may have been compiled since the last call
            found = self._names.get(id(part))
        return found

    def part(self, name: Name) -> Any:
        """The part with a name; KeyError, IndexError or AttributeError if there is none."""
        kind, *rest = name
        return _FINDERS[kind](self, *rest)

    def _add_settings(self, value: Any, name: Name) -> None:
        """Names a config and everything in it: controllers and states may refer to parts of their
        config."""
        if not isinstance(value, (Struct, tuple, list, dict)) or value in ((), [], {}):
            return  # Python has a single empty tuple, whose identity says nothing
        self._names.setdefault(id(value), name)
        for key, inner in _children(value):
            self._add_settings(inner, [*name, key])

    def _add_scopes(self) -> None:
        for (site, number), graph in self._graphs.items():
            pending: list[tuple[Scope, Name]] = [(graph.root, [site, number])]
            for scope, path in pending:  # grows during the iteration
                if id(scope) not in self._scopes:
                    self._scopes.add(id(scope))
                    self._names[id(scope)] = ["scope", *path]
                    for unit in scope.units:
                        self._names[id(unit)] = ["unit", unit.index, *path]
                pending.extend((inner, [*path, list(key)]) for key, inner in scope.inners())

    def _graph(self, site: int, number: int) -> GraphPlan:
        return self._graphs[site, number]

    def _edge(self, site: int, number: int, index: int) -> EdgePlan:
        return self._graphs[site, number].edges[index]

    def _scope(self, site: int, number: int, *path: list[int]) -> Scope:
        scope = self._graphs[site, number].root
        for unit, entry in path:
            scope = scope.inner(scope.units[unit], entry)
        return scope

    def _unit(self, index: int, *path: Any) -> Unit:
        return self._scope(*path).units[index]

    def _node(self, site: int) -> NodePlan:
        return self.plan.sites[site]

    def _config(self, site: int, *path: Any) -> Any:
        value = self.plan.sites[site].config
        for key in path:
            value = getattr(value, key) if isinstance(value, Struct) else value[key]
        return value

    def _dynamic(self, site: int, number: int, index: int) -> Any:
        return self._edge(site, number, index).edge.dynamic

    def _plan(self) -> Plan:
        return self.plan


def _children(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, Struct):
        return iter([(name, getattr(value, name)) for name in value.__struct_fields__])
    return iter(value.items()) if isinstance(value, dict) else enumerate(value)


_FINDERS: dict[str, Any] = {
    "plan": PlanIndex._plan,
    "node": PlanIndex._node,
    "graph": PlanIndex._graph,
    "edge": PlanIndex._edge,
    "scope": PlanIndex._scope,
    "unit": PlanIndex._unit,
    "config": PlanIndex._config,
    "dynamic": PlanIndex._dynamic,
}


_STRUCTS = StoredStructs()
"""The structs that a snapshot may contain. States of nodes of other packages are JSON."""
VERSION = 7
LONG = 256
"""Texts of at least this many characters are stored beside the table."""
TextSource = list[int] | str
"""The place of a long text: the number of a fact and the number of the text in it, or a digest."""
_MUTABLE: dict[str, type[Any]] = {
    "Activation": Activation,
    "Execution": Execution,
    "Expansion": Expansion,
    "Failure": Failure,
    "GraphInstance": GraphInstance,
    "LoopEntry": LoopEntry,
    "LoopSummary": LoopSummary,
    "OpenRound": OpenRound,
    "CompositeRun": CompositeRun,
    "Run": Run,
    "BodyRun": BodyRun,
    "ToolLoop": ToolLoop,
    "Budget": Budget,
    "LoopHistory": LoopHistory,
    "GuardStats": GuardStats,
    "DebugState": DebugState,
}
"""The mutable classes, by tags: they stay as they are when a class is renamed."""
_MUTABLE_TAGS = {kind: tag for tag, kind in _MUTABLE.items()}
_TRANSIENT_FIELDS = ("commands", "decisions", "events")
"""Fields of a run that are only used during a step."""


_ADDED_FIELDS: dict[tuple[str, str], Callable[[], Any]] = {}
"""Fields that snapshots of this version by earlier programs lack, with what creates their values; a frozen
struct has its own default. Only for fields that decide nothing, or nothing in a run of an earlier program:
otherwise a run that is restored would differ from one that is replayed."""


_REMOVED_FIELDS: set[tuple[str, str]] = set()
"""Fields of such snapshots that nothing reads any more."""


class SnapshotError(Exception):
    """A snapshot cannot be created or read; the caller replays the journal instead."""


class StoredSnapshot(Struct, frozen=True, array_like=True):
    """A decoded snapshot, before its long texts have been fetched from their sources."""

    fingerprint: int
    shapes: dict[str, list[str]]
    table: list[Any]
    sources: list[TextSource]
    checksum: str


SNAPSHOTS: Codec[StoredSnapshot] = Codec("a snapshot", StoredSnapshot, version=VERSION, oldest=VERSION)


class FrozenState(Struct, frozen=True):
    """A copy of the state, independent of the run.

    A journal freezes the run before it awaits anything, and encodes the copy later, while the run
    continues.
    """

    fingerprint: int
    shapes: dict[str, list[str]]
    table: list[Any]
    texts: list[str]
    """The distinct long texts."""

    def encode(self, sources: Sequence[TextSource]) -> bytes:
        """Encodes it; `sources` has the place of each of the `texts`, in the same order."""
        stored = StoredSnapshot(
            self.fingerprint, self.shapes, self.table, list(sources), checksum(self.texts)
        )
        return zlib.compress(SNAPSHOTS.encode_versioned(stored), 1)


def freeze(run: Run, index: PlanIndex) -> FrozenState:
    """Copies the state of a run; SnapshotError if it contains something that cannot be stored."""
    freezer = _Freezer(index)
    try:
        freezer.add(run)
        freezer.finish()
    except RecursionError as error:
        raise SnapshotError("the state is too deep") from error
    return FrozenState(index.fingerprint, freezer.shapes, freezer.table, list(freezer.texts))


def decode(body: bytes, index: PlanIndex) -> StoredSnapshot:
    """Decodes a snapshot; SnapshotError if it is damaged, or of another version or workflow."""
    try:
        stored = SNAPSHOTS.decode_versioned(zlib.decompress(body))
    except (zlib.error, CodecError) as error:
        raise SnapshotError(f"it cannot be read: {error}") from error
    if stored.fingerprint != index.fingerprint:
        raise SnapshotError("it was made with another workflow")
    _check_shapes(stored.shapes)
    return stored


def thaw(stored: StoredSnapshot, texts: Sequence[str], index: PlanIndex) -> Run:
    """Rebuilds the run; `texts` are the contents of the snapshot's sources, in their order."""
    if checksum(texts) != stored.checksum:
        raise SnapshotError("its texts are not the ones that it was made with")
    try:
        return _Thawer(index, stored.table, texts).run()
    except SnapshotError:
        raise
    # A snapshot is data from outside. Whatever is wrong with it, the answer is a replay, not a crash.
    except Exception as error:
        raise SnapshotError(f"it cannot be read: {type(error).__name__}: {error}") from error


def texts_in(entry: Entry) -> list[str]:
    """The long texts of one journal entry, in the order to which sources refer."""
    found: list[str] = []
    _collect(msgspec.to_builtins(entry.fact), found)
    _collect(entry.decisions, found)
    return found


def _collect(value: Any, found: list[str]) -> None:
    if isinstance(value, str):
        if len(value) >= LONG:
            found.append(value)
    elif isinstance(value, dict):
        for item in value.values():
            _collect(item, found)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _collect(item, found)


def digest_of(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def checksum(texts: Iterable[str]) -> str:
    """A digest over a sequence of texts."""
    whole = blake2b(digest_size=8)
    for text in texts:
        whole.update(text.encode("utf-8", "surrogatepass") + b"\xff")  # 0xff never occurs in UTF-8
    return whole.hexdigest()


class _Freezer:
    """Writes the table.

    Mutable objects get a number first and are filled later, in `finish`, so that cycles end and the
    recursion stays shallow. Frozen structs cannot be part of a cycle and are written at once.
    """

    def __init__(self, index: PlanIndex) -> None:
        self._index = index
        self.table: list[Any] = []
        self.texts: dict[str, int] = {}
        """The long texts and their numbers."""
        self.shapes = dict(_SHAPES)
        """The fields of each class in this version; `_check_shapes` compares them when the snapshot is
        read."""
        self._seen: dict[int, int] = {}
        self._alive: list[Any] = []
        """Keeps numbered objects alive: a temporary that is freed could pass its `id` on to another
        object."""
        self._unfilled: list[tuple[int, Any]] = []

    def add(self, value: Any) -> Any:
        """The table form of a value."""
        if isinstance(value, str):
            return value if len(value) < LONG else ["x", self.texts.setdefault(value, len(self.texts))]
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if id(value) in self._seen:
            return ["o", self._seen[id(value)]]
        name = self._index.name(value)
        if name is not None:
            return ["p", *name]
        if isinstance(value, tuple):
            return ["t", *[self.add(item) for item in value]]
        if isinstance(value, (list, dict, bytearray)) or _is_mutable(value):
            return self._add_mutable(value)
        if isinstance(value, Struct):
            return self._struct(value)
        if isinstance(value, Expression):
            raise SnapshotError("the state contains an expression, which cannot be stored")
        return self._add_mutable(value)

    def _add_mutable(self, value: Any) -> Any:
        number = self._number(value)
        self._unfilled.append((number, value))
        return ["o", number]

    def _struct(self, value: Struct) -> Any:
        kind = type(value)
        fields = [self._field(value, name) for name in kind.__struct_fields__]
        number = self._number(value)
        try:
            tag = _STRUCTS.tag(kind)
        except UnknownStructError as error:
            raise SnapshotError(str(error)) from None
        self.shapes[tag] = list(kind.__struct_fields__)
        self.table[number] = ["s", tag, *fields]
        return ["o", number]

    def _field(self, value: Struct, name: str) -> Any:
        if name == "state" and isinstance(value, Call):
            return self._state(self._index.plan.sites[value.site], value.state)
        return self.add(getattr(value, name))

    def _state(self, node: NodePlan, state: Any) -> Any:
        """The state of a node: as JSON if its type is declared, since that may be a class of another
        package.

        The calls of a tool loop or a composite node carry requests, which are structs of this package.
        """
        declared = None if node.has_tool_loop or node.bodies else node.kind.state
        if declared is None or state is None or isinstance(state, (bool, int, float, str)):
            return self.add(state)
        return ["j", node.site, self._plain(msgspec.to_builtins(state))]

    def _plain(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return ["l", *map(self._plain, value)]
        if isinstance(value, dict):
            return ["d", *[[self.add(key), self._plain(item)] for key, item in value.items()]]
        return self.add(value)

    def _memory(self, instance: GraphInstance) -> Any:
        nodes = instance.plan.nodes
        return ["n", *[[index, self._state(nodes[index], state)] for index, state in instance.memory.items()]]

    def _number(self, value: Any) -> int:
        number = self._seen[id(value)] = len(self.table)
        self._alive.append(value)
        self.table.append(None)
        return number

    def finish(self) -> None:
        for number, value in self._unfilled:  # grows during the iteration
            self.table[number] = self._filled(value)

    def _filled(self, value: Any) -> Any:
        if isinstance(value, list):
            return ["l", *[self.add(item) for item in value]]
        if isinstance(value, dict):
            return ["d", *[[self.add(key), self.add(item)] for key, item in value.items()]]
        if isinstance(value, bytearray):
            return ["b", value.hex()]
        tag = _MUTABLE_TAGS.get(type(value))
        if tag is None:
            raise SnapshotError(f"an object of the class '{type(value).__name__}' cannot be stored")
        return ["m", tag, self._attributes(value, tag)]

    def _attributes(self, value: Any, name: str) -> dict[str, Any]:
        # `hasattr`: a closed BodyRun, for example, has no `root` any more.
        fields = [field for field in _SHAPES[name] if field != "memory" and hasattr(value, field)]
        attributes = {field: self.add(getattr(value, field)) for field in fields}
        if isinstance(value, GraphInstance):
            attributes["memory"] = self._memory(value)
        elif isinstance(value, (CompositeRun, ToolLoop)):
            controller_field = getattr(value, _CONTROLLER_FIELDS[type(value)])
            attributes[_CONTROLLER_FIELDS[type(value)]] = {
                field: self.add(getattr(controller_field, field)) for field in _saved_fields(controller_field)
            }
        return attributes


_REQUIRED_FIELDS: dict[type[Any], int] = {Execution: 4, Failure: 1}
"""How many arguments the mutable structs need; others are made without calling their class."""
_CONTROLLER_FIELDS = {CompositeRun: "controller", ToolLoop: "conversation"}


def _fields_of(kind: type[Any]) -> list[str]:
    """The stored fields of a class of the kernel."""
    if issubclass(kind, Struct):
        return list(kind.__struct_fields__)
    slots = [field for parent in kind.__mro__ for field in getattr(parent, "__slots__", ())]
    left_out = (*_TRANSIENT_FIELDS, _CONTROLLER_FIELDS.get(kind, ""))
    return [field for field in slots if field not in left_out]


_SHAPES = {name: _fields_of(kind) for name, kind in _MUTABLE.items()}


def _is_mutable(value: Any) -> bool:
    return type(value) in _MUTABLE_TAGS


def _saved_fields(controller_field: Any) -> list[str]:
    """The stored attributes of a controller or conversation.

    Expressions and functions are left out: the new object, created from the same config, has its own.
    """
    slots = [field for parent in type(controller_field).__mro__ for field in getattr(parent, "__slots__", ())]
    fields = [*slots, *getattr(controller_field, "__dict__", ())]
    values = ((field, getattr(controller_field, field)) for field in fields)
    return [name for name, value in values if not isinstance(value, Expression) and not callable(value)]


def _check_shapes(shapes: dict[str, list[str]]) -> None:
    for stored, fields in shapes.items():
        name = OLD_NAMES.get(stored, stored)
        known = _SHAPES[name] if name in _SHAPES else list(_struct_class(name).__struct_fields__)
        expected = [field for field in known if field in fields or (name, field) not in _ADDED_FIELDS]
        if expected != [field for field in fields if (name, field) not in _REMOVED_FIELDS]:
            raise SnapshotError(f"it was made by another version: the fields of '{name}' have changed")


class _Thawer:
    """Reads the table in two passes: creates all objects, then fills the mutable ones.

    The first pass can create frozen structs complete, because the freezer gives everything that they
    contain a smaller number. Mutable objects inside them are still empty then.
    """

    def __init__(self, index: PlanIndex, table: list[Any], texts: Sequence[str]) -> None:
        self._index = index
        self._table = table
        self._texts = texts
        self._made: list[Any] = []
        self._decisions = Decisions()

    def run(self) -> Run:
        for entry in self._table:
            self._made.append(self._empty(entry))
        # Before the second pass, in which restored controllers get `decide` of this object.
        if isinstance(self._made[0], Run):
            self._made[0].decisions = self._decisions
        for value, entry in zip(self._made, self._table, strict=True):
            self._fill(value, entry)
        run = self._made[0]
        if not isinstance(run, Run):
            raise SnapshotError("it contains no run")
        run.commands, run.events = [], []
        return run

    def _empty(self, entry: Any) -> Any:
        kind, *rest = entry
        if kind == "l":
            return []
        if kind == "d":
            return {}
        if kind == "b":
            return bytearray.fromhex(rest[0])
        if kind == "m":
            made = _MUTABLE[rest[0]]
            return (
                made(*[None] * _REQUIRED_FIELDS[made]) if made in _REQUIRED_FIELDS else object.__new__(made)
            )
        return _struct_class(rest[0])(*[self._value(field) for field in rest[1:]])

    def _fill(self, value: Any, entry: Any) -> None:
        kind, *rest = entry
        if kind == "l":
            value.extend(self._value(item) for item in rest)
        elif kind == "d":
            value.update((self._value(key), self._value(item)) for key, item in rest)
        elif kind == "m":
            controller_field = _CONTROLLER_FIELDS.get(type(value), "")
            for field, item in rest[1].items():
                if field != controller_field and (rest[0], field) not in _REMOVED_FIELDS:
                    setattr(value, field, self._value(item))
            for (name, field), make in _ADDED_FIELDS.items():
                if name == rest[0] and field not in rest[1]:
                    setattr(value, field, make())
            if controller_field:
                setattr(
                    value,
                    controller_field,
                    self._restore_controller(
                        rest[1]["execution"], controller_field, rest[1][controller_field]
                    ),
                )

    def _restore_controller(self, execution: Any, controller_field: str, saved: dict[str, Any]) -> Any:
        """Creates a controller or conversation from its node's config, and restores its attributes.

        `execution` may not be filled yet, so the node is read from its entry in the table.
        """
        number = execution[1]
        node = self._value(self._table[number][2]["node"])
        if controller_field == "controller":
            made = node.kind.controller(node.config)
        else:
            made = node.kind.conversation(node.config) or node.kind.follow_up(node.config)
        if controller_field == "controller":
            made.decide = self._decisions.record_or_replay
            made.semantics = self._index.plan.semantics
        if set(saved) != set(_saved_fields(made)):
            raise SnapshotError(
                f"it was made by another version: '{type(made).__name__}' stores other fields"
            )
        for field, value in saved.items():
            setattr(made, field, self._value(value))
        return made

    def _value(self, written: Any) -> Any:
        if not isinstance(written, list):
            return written
        kind, *rest = written
        if kind == "o":
            return self._made[rest[0]]
        if kind == "x":
            return self._texts[rest[0]]
        if kind == "p":
            return self._index.part(rest)
        if kind == "n":
            return {index: self._value(state) for index, state in rest}
        if kind == "j":
            return typed(self._index.plan.sites[rest[0]].kind.state, self._plain(rest[1]))
        return tuple([self._value(item) for item in rest])

    def _plain(self, written: Any) -> Any:
        """The JSON of a node state."""
        if not isinstance(written, list) or written[0] == "x":
            return self._value(written)
        kind, *rest = written
        if kind == "l":
            return [self._plain(item) for item in rest]
        return {self._value(key): self._plain(item) for key, item in rest}


def _struct_class(name: str) -> type[Struct]:
    try:
        return _STRUCTS.struct(name)
    except UnknownStructError as error:
        raise SnapshotError(str(error)) from None
