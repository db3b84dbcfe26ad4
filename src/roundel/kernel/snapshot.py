"""A run between two steps as bytes, and back: the quick way to open a run with a long journal.

The journal alone is enough to make a run anew, and is what counts; a snapshot only saves the time. So one
that cannot be read (it was made by another version, say) is no loss, and raises SnapshotError.

The state is a web of objects that point at each other and at the plan. A snapshot is a table of them:

    mutable objects    first made empty, then filled, so that they may point at each other
    frozen structs     made whole, after everything that they hold
    parts of the plan  by their names (plan_index.py)
    what conducts      conductors and dialogues are made anew by their node, then given their attributes

Only classes of this package, and the conductors of the plan's own nodes, are ever made: nothing in a snapshot
can name other code.
"""

from __future__ import annotations

import zlib
from importlib import import_module
from typing import Any

import msgspec
from msgspec import Struct

from roundel.kernel.activation import Activation, History, Instance, LoopRecord
from roundel.kernel.budget import Budget
from roundel.kernel.conduct import Stage
from roundel.kernel.decisions import Decisions
from roundel.kernel.execution import Execution, Expansion, Performance, Talk
from roundel.kernel.plan_index import PlanIndex
from roundel.kernel.state import Run, Watch
from roundel.workflow.expression import Expression

VERSION = 2
_MUTABLE: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        Activation,
        Execution,
        Expansion,
        Instance,
        LoopRecord,
        Performance,
        Run,
        Stage,
        Talk,
        Budget,
        History,
        Watch,
    )
}
_PASSING = ("commands", "decisions", "events")
"""What a run holds only while a step is made."""


class SnapshotError(Exception):
    """It cannot be made, or not be read: replay the journal."""


def freeze(run: Run, index: PlanIndex) -> bytes:
    freezer = _Freezer(index)
    try:
        freezer.add(run)
        freezer.finish()
    except RecursionError as error:
        raise SnapshotError("the state is too deep") from error
    written = [VERSION, index.fingerprint, freezer.shapes, freezer.table]
    return zlib.compress(msgspec.json.encode(written), 1)


def thaw(body: bytes, index: PlanIndex) -> Run:
    try:
        version, *rest = msgspec.json.decode(zlib.decompress(body))
        if version != VERSION:
            raise SnapshotError(f"it has the version {version}, not {VERSION}")
        fingerprint, shapes, table = rest
        if fingerprint != index.fingerprint:
            raise SnapshotError("it was made with another workflow")
        _check_shapes(shapes)
        run = _Thawer(index, table).run()
    except SnapshotError:
        raise
    except Exception as error:
        raise SnapshotError(f"it cannot be read: {type(error).__name__}: {error}") from error
    return run


class _Freezer:
    def __init__(self, index: PlanIndex) -> None:
        self._index = index
        self.table: list[Any] = []
        self.shapes: dict[str, list[str]] = {name: _fields_of(kind) for name, kind in _MUTABLE.items()}
        """The fields of each class as they are now: a later version may have others."""
        self._seen: dict[int, int] = {}
        self._alive: list[Any] = []
        """What has been given a number by its identity must not make room for another object."""
        self._unfilled: list[tuple[int, Any]] = []

    def add(self, value: Any) -> Any:
        """A value as it stands in the table."""
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if id(value) in self._seen:
            return ["o", self._seen[id(value)]]
        name = self._index.name(value)
        if name is not None:
            return ["p", *name]
        if isinstance(value, tuple):
            return ["t", *[self.add(item) for item in value]]
        if isinstance(value, (list, dict, bytearray)) or type(value).__name__ in _MUTABLE:
            return self._later(value)
        if isinstance(value, Struct):
            return self._struct(value)
        if isinstance(value, Expression):
            raise SnapshotError("an expression stands where none should")
        return self._later(value)

    def _later(self, value: Any) -> Any:
        number = self._number(value)
        self._unfilled.append((number, value))
        return ["o", number]

    def _struct(self, value: Struct) -> Any:
        kind = type(value)
        fields = [self.add(getattr(value, name)) for name in kind.__struct_fields__]
        number = self._number(value)
        name = f"{kind.__module__}:{kind.__qualname__}"
        self.shapes[name] = list(kind.__struct_fields__)
        self.table[number] = ["s", name, *fields]
        return ["o", number]

    def _number(self, value: Any) -> int:
        number = self._seen[id(value)] = len(self.table)
        self._alive.append(value)
        self.table.append(None)
        return number

    def finish(self) -> None:
        for number, value in self._unfilled:  # grows while we walk it
            self.table[number] = self._filled(value)

    def _filled(self, value: Any) -> Any:
        if isinstance(value, list):
            return ["l", *[self.add(item) for item in value]]
        if isinstance(value, dict):
            return ["d", *[[self.add(key), self.add(item)] for key, item in value.items()]]
        if isinstance(value, bytearray):
            return ["b", value.hex()]
        name = type(value).__name__
        if name in _MUTABLE:
            fields = _fields_of(type(value))
            attributes = {field: self.add(getattr(value, field)) for field in fields if hasattr(value, field)}
            if isinstance(value, (Performance, Talk)):
                attributes[_MIND[type(value)]] = self._mind(getattr(value, _MIND[type(value)]))
            return ["m", name, attributes]
        raise SnapshotError(f"an object of the class '{name}' cannot be kept")

    def _mind(self, mind: Any) -> Any:
        """What a conductor or a dialogue has noted; expressions and functions come with a new one."""
        noted = {}
        for field in _noted(mind):
            value = getattr(mind, field)
            if not isinstance(value, Expression) and not callable(value):
                noted[field] = self.add(value)
        return noted


_MIND = {Performance: "conductor", Talk: "dialogue"}


def _fields_of(kind: type[Any]) -> list[str]:
    if issubclass(kind, Struct):
        return list(kind.__struct_fields__)
    slots = [field for parent in kind.__mro__ for field in getattr(parent, "__slots__", ())]
    left_out = (*_PASSING, _MIND.get(kind, ""))
    return [field for field in slots if field not in left_out]


def _noted(mind: Any) -> list[str]:
    slots = [field for parent in type(mind).__mro__ for field in getattr(parent, "__slots__", ())]
    return [*slots, *getattr(mind, "__dict__", ())]


def _check_shapes(shapes: dict[str, list[str]]) -> None:
    for name, fields in shapes.items():
        kind = _MUTABLE.get(name)
        known = _fields_of(kind) if kind is not None else list(_struct_class(name).__struct_fields__)
        if known != fields:
            raise SnapshotError(f"it was made by another version: '{name}' has other fields now")


class _Thawer:
    def __init__(self, index: PlanIndex, table: list[Any]) -> None:
        self._index = index
        self._table = table
        self._made: list[Any] = []
        self._decisions = Decisions()

    def run(self) -> Run:
        for entry in self._table:
            self._made.append(self._empty(entry))
        if isinstance(self._made[0], Run):
            self._made[0].decisions = self._decisions
        for value, entry in zip(self._made, self._table, strict=True):
            self._fill(value, entry)
        run = self._made[0]
        if not isinstance(run, Run):
            raise SnapshotError("it holds no run")
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
            return made(*[None] * 4) if made is Execution else object.__new__(made)
        return _struct_class(rest[0])(*[self._value(field) for field in rest[1:]])

    def _fill(self, value: Any, entry: Any) -> None:
        kind, *rest = entry
        if kind == "l":
            value.extend(self._value(item) for item in rest)
        elif kind == "d":
            value.update((self._value(key), self._value(item)) for key, item in rest)
        elif kind == "m":
            mind = _MIND.get(type(value), "")
            for field, item in rest[1].items():
                if field != mind:
                    setattr(value, field, self._value(item))
            if mind:
                setattr(value, mind, self._mind(rest[1]["execution"], mind, rest[1][mind]))

    def _mind(self, execution: Any, mind: str, noted: dict[str, Any]) -> Any:
        number = execution[1]
        node = self._value(self._table[number][2]["node"])
        make = node.kind.conduct if mind == "conductor" else node.kind.talk
        made = make(node.config)
        if mind == "conductor":
            made.decide = self._decisions.take
        for field, value in noted.items():
            setattr(made, field, self._value(value))
        return made

    def _value(self, written: Any) -> Any:
        if not isinstance(written, list):
            return written
        kind, *rest = written
        if kind == "o":
            return self._made[rest[0]]
        if kind == "p":
            return self._index.part(rest)
        return tuple([self._value(item) for item in rest])


def _struct_class(name: str) -> type[Struct]:
    module, _, qualified = name.partition(":")
    if not module.startswith("roundel."):
        raise SnapshotError(f"it names '{name}', which is not ours")
    kind: Any = import_module(module)
    for part in qualified.split("."):
        kind = getattr(kind, part)
    if not (isinstance(kind, type) and issubclass(kind, Struct)):
        raise SnapshotError(f"it names '{name}', which is no data")
    return kind
