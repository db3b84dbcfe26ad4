"""What a node type is. Each is one module in `roundel/nodes/`, or comes from an installed package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from roundel.workflow.functions import entry_points, load_entry_point


def _return_none(_config: Any) -> Any:
    return None


def _no_function(_config: Any) -> str:
    return ""


def _no_body_runs(_config: Any) -> tuple[int | None, ...]:
    return ()


def _no_ports(_config: Any) -> tuple[str, ...]:
    return ()


def _no_reserve(_config: Any, _workflow: Any) -> int:
    return 0


def _no_check(_config: Any, _at: Any, _reader: Any) -> None:
    return None


class Bound(Struct, frozen=True):
    """How a node bounds the loop that it runs in, if it runs in each of its rounds."""

    rounds: int | None = None
    """After so many runs it gives a message that ends the loop."""
    seconds: float | None = None
    """After so much time it does."""
    port: str | None = None
    """That message leaves by this port; None if the node has no ports."""


class Calls(Struct, frozen=True):
    """How many calls one run of a node takes: at worst, and as a rule."""

    models: tuple[int, int] = (0, 0)
    tools: tuple[int, int] = (0, 0)


class NodeType(Struct, frozen=True, eq=False):
    name: str
    config: type[Struct]
    summary: str
    prepare: Callable[[Any, Any], Callable[[Any], Any]]
    """(node, services) to a behaviour: a call to an outcome, or to an awaitable of one.

    It is called once a run for each node, so whatever can be worked out beforehand is."""

    title: str = ""
    """What forms and the manual call it; without one, its name. `summary` is the text that goes with it."""

    zh: tuple[str, str] = ("", "")
    """The title and the summary in Chinese."""

    port_titles: Mapping[str, tuple[str, str]] = {}
    """The ports that do not depend on the config: for each, what leaves by it, in English and in Chinese."""

    example: str = ""
    """A node of this type as YAML, for the manual."""

    aliases: tuple[str, ...] = ()
    ports: Callable[[Any], tuple[str, ...]] = _no_ports
    """The named ways out, from the config."""

    bodies: Callable[[Any], tuple[Any, ...]] = _no_ports
    """The graphs that this node runs inside itself, from the config; none for an ordinary node."""

    controller: Callable[[Any], Any] | None = None
    """Makes a conductor (kernel/composite.py) from the config, which says when which body runs on what.

    Without one, the one body runs once on what the node got."""

    iterations: Callable[[Any], tuple[int | None, ...]] = _no_body_runs
    """How often each body runs at most in one run of a node that conducts; None where nobody knows."""

    rounds: Callable[[Any], int | None] = _return_none
    """For a loop of its own: how many rounds one run of it takes at most."""

    conversation: Callable[[Any], Any] = _return_none
    """Makes a dialogue (kernel/tool_loop.py) from the config, for a node that takes several calls; None for
    one that is done with one."""

    loops: bool = False
    """It is a loop of its own: its bodies run in rounds that are counted and shown."""

    pure: bool = False
    """It decides from its input and state alone: no effect, nothing that needs a record before going on."""

    function: Callable[[Any], str] = _no_function
    """The name of the Python function that it calls, from the config; empty for most."""

    examine: Callable[[Any, Any, Any], None] = _no_check
    """(config, place, reader): checks that need the workflow around the node."""

    guard: bool = False
    """It bounds a loop: silent until its limit, so it needs an edge into its loop and one out of it."""

    bound: Callable[[Any], Bound | None] = _return_none
    """How it bounds its loop, from the config."""

    silent: bool = False
    """It may give no message at all."""

    single: Callable[[Any], bool] = _return_none
    """Whether it gives at most one message each time that it runs, from the config."""

    asks: bool = False
    """A person answers."""

    speaks: bool = False
    """A model answers."""

    calls: Callable[[Any], Calls | None] = _return_none
    """How many calls of models and tools one run takes, from the config; None is one call of a model for a
    node that speaks, and none for any other."""

    reserve: Callable[[Any, Any], int] = _no_reserve
    """(config, workflow): the tokens that a model call of it may take at most; 0 if nobody knows."""

    forgets: Callable[[Any], bool] = _return_none
    """Whether its state starts anew each time the loop around it is entered."""

    state: Any = None
    """The type of its state (`Outcome.state`, `Call.state`), as msgspec knows types: int, a Struct, a union.
    A state that was stored is decoded as this type; None leaves it as JSON gives it."""

    request: Any = None
    """The same for a node that talks or conducts: the type of what its calls carry in place of a state."""


def _find_none(_name: str) -> Iterable[NodeType]:
    return ()


def _find_all_none() -> Iterable[NodeType]:
    return ()


class NodeTypes(Mapping[str, NodeType]):
    """Node types by name: the built-in ones, and those of installed packages, each imported when needed.

    `find` gives the built-in types that a name leads to, `find_all` all of them. They are all imported to
    list them, and to be sure that a name is none of theirs."""

    def __init__(
        self,
        builtin: Iterable[NodeType] = (),
        find: Callable[[str], Iterable[NodeType]] = _find_none,
        find_all: Callable[[], Iterable[NodeType]] = _find_all_none,
    ) -> None:
        self._types: dict[str, NodeType] = {}
        self._find, self._find_all = find, find_all
        self._complete = False
        for kind in builtin:
            self.add(kind)

    def add(self, kind: NodeType) -> None:
        for name in (kind.name, *kind.aliases):
            self._types[name] = kind

    def __getitem__(self, name: str) -> NodeType:
        if name not in self._types:
            for kind in self._find(name):
                self.add(kind)
        if name not in self._types:
            self._import_all()
        if name not in self._types:
            points = entry_points("roundel.nodes")
            if name not in points:
                raise KeyError(name)
            self.add(load_entry_point(points[name]))
        return self._types[name]

    def __iter__(self) -> Iterator[str]:
        self._import_all()
        yield from sorted(self._types)
        yield from (name for name in entry_points("roundel.nodes") if name not in self._types)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _import_all(self) -> None:
        if not self._complete:
            for kind in self._find_all():
                self.add(kind)
            self._complete = True
