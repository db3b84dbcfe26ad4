"""Node types: what the engine has to know about a type, as one struct, and the registry by name.

Each built-in type is one module in `roundel/nodes/` with a `NODE`; others come from installed packages
(entry points of the group `roundel.nodes`). No other module has a list of types or tests for a type by
its name: the loader, the plan, the kernel, the proof, the forecast and the drawing ask the properties
below. So a package can add a type that takes part in all of these.

Most properties are functions of the config, because the answer depends on it (a loop has as many rounds
as its config says). Defaults say "an ordinary node": no ports, no bodies, no bound, no calls.

`NodeTypes` imports a type when it is needed. Importing all of them, with their dependencies, would cost
`roundel check` more than reading the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from roundel.workflow.functions import ModuleError, entry_points, load_entry_point

if TYPE_CHECKING:
    from roundel.workflow.context import Context


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


def _no_estimate(_config: Any, _workflow: Any, _call: Any) -> tuple[int, int]:
    return 0, 0


def _lacks_nothing(_config: Any, _workflow: Any) -> bool:
    return False


def _no_models(_config: Any, _workflow: Any) -> tuple[Any, ...]:
    return ()


def _as_given(at: Any, _nodes: Any) -> Any:
    return at


def _no_check(_config: Any, _at: Any, _reader: Any) -> None:
    return None


class Bound(Struct, frozen=True):
    """How a node bounds the loop that contains it, provided that it runs in every round. The proof of
    termination (plan/proof.py) relies on it."""

    rounds: int | None = None
    """After this many runs it sends a message that ends the loop."""
    seconds: float | None = None
    """After this time it sends that message."""
    port: str | None = None
    """The port by which the message leaves; None if the node has no ports."""


class Calls(Struct, frozen=True):
    """How many calls one run of a node makes: at most, and usually. The forecast (plan/forecast.py) uses
    it."""

    models: tuple[int, int] = (0, 0)
    tools: tuple[int, int] = (0, 0)
    spare: int = 0
    """Further model calls at worst, which something unusual causes: an empty answer, a list that is too
    long."""


class AgentView(Struct, frozen=True):
    """What the settings of an agent say about what it sees."""

    context: Context | None = None
    reads: frozenset[str] = frozenset()
    """The variables that its prompt reads."""
    recalls: bool = False
    """Whether it reads memories."""


BodyContext = Literal["apart", "loop", "fresh", "given", "speakers"]
"""What agents in the bodies of a node see:

    apart      they are in a graph of their own, such as a subgraph
    loop       they are in a loop: its input is their task
    fresh      the same, but the user has said that each round gets the output of the round before
    given      the same, but the user has said that each round gets more
    speakers   the node gives them a discussion, such as a debate
"""


def _apart(_config: Any) -> BodyContext:
    return "apart"


class NodeType(Struct, frozen=True, eq=False):
    """A node type. A module creates one as `NODE`; it is compared by identity, and stored by name
    (encoding.py)."""

    name: str
    config: type[Struct]
    summary: str
    prepare: Callable[[Any, Any], Callable[[Any], Any]]
    """Called as (node, services), it returns the behaviour: a function from a call to an outcome, or to
    an awaitable of one.

    The host calls it once for each node and run, so it is the place for work that does not depend on the
    input."""

    title: str = ""
    """Its title in forms and in the manual; its name if empty. `summary` is the text below it."""

    zh: tuple[str, str] = ("", "")
    """The title and the summary in Chinese."""

    port_titles: Mapping[str, tuple[str, str]] = {}
    """The ports that do not depend on the config, each with its title in English and in Chinese."""

    example: str = ""
    """A node of this type as YAML, for the manual."""

    aliases: tuple[str, ...] = ()
    ports: Callable[[Any], tuple[str, ...]] = _no_ports
    """The names of the output ports, from the config. A message leaves by one of them, or by none."""

    explicit_ports: Callable[[Any], tuple[str, ...]] = _no_ports
    """Further ports, from the config, that an edge takes only if it names them. An edge without a port
    takes whatever leaves by any other port. Every node has the explicit port `error` besides."""

    offers_exit: Callable[[Any], bool] = _return_none
    """Whether its model is offered the tool `exit_loop`, from the config. It needs something to end then:
    an edge with `port: exit`, or a loop agent or debate around it."""

    bodies: Callable[[Any], tuple[Any, ...]] = _no_ports
    """The graphs that this node runs inside itself (a composite node), from the config; none for an
    ordinary node."""

    controller: Callable[[Any], Any] | None = None
    """Creates a `Controller` (kernel/composite.py) from the config, which decides when which body runs,
    and on what input.

    Without one, the only body runs once on the input of the node."""

    iterations: Callable[[Any], tuple[int | None, ...]] = _no_body_runs
    """For a node with a controller: how often each body runs at most in one run of the node; None if
    unknown."""

    rounds: Callable[[Any], int | None] = _return_none
    """For a node that is a loop: how many rounds one run of it takes at most; None if unknown."""

    with_rounds: Callable[[Any, int], Any] | None = None
    """For a node that is a loop, or counts the rounds of one: called as (config, rounds), it returns the
    config with another number of rounds. None for all others."""

    conversation: Callable[[Any], Any] = _return_none
    """Creates a `Conversation` (kernel/tool_loop.py) from the config, for a node that makes several
    calls, such as an agent with tools; None for a node that makes one."""

    context: Callable[[Any], AgentView | None] = _return_none
    """What the node sees of the loop around it, from the config; None for nodes that get their queue."""

    with_context: Callable[[Any, Context], Any] | None = None
    """Called as (config, context), it returns the config with the context of the graph around the node."""

    body_context: Callable[[Any], BodyContext] = _apart
    """What agents in its bodies see, from the config."""

    follow_up: Callable[[Any], Any] = _return_none
    """Creates a `Conversation` for a node that usually makes one call, and whose outcome asks for another
    by its `state`."""

    loops: bool = False
    """Whether the node is a loop itself: its bodies run in rounds, which are counted and shown."""

    pure: bool = False
    """Whether its outcome depends on its input and state alone. It has no effects then, so the host runs
    it directly, without a commit before it."""

    function: Callable[[Any], str] = _no_function
    """The name of the Python function that it calls, from the config; empty for most types. The loader
    checks it."""

    runs_code: Callable[[Any], bool] = _return_none
    """Whether it runs code that arrives in messages, from the config. Under a policy that needs
    `python_code` (allow_list.py)."""

    endpoints: Callable[[Any, Any], tuple[Any, ...]] = _no_models
    """Called as (config, workflow): the model profiles that it calls, if these are not simply the ones under
    `models`: an agent may put an address of its own over that of a profile. A policy checks them."""

    complete: Callable[[Any, Mapping[str, Any]], Any] = _as_given
    """Called as (location of the config, locations of the nodes of the graph by id) before the config is
    read: returns the config with what it takes from these nodes."""

    examine: Callable[[Any, Any, Any], None] = _no_check
    """Called as (config, location, reader) while a file is read: checks that need the workflow around
    the node."""

    guard: bool = False
    """Whether it exists to bound a loop: it sends nothing until its limit is reached. It needs an edge
    back into its loop and one out of it; the plan checks both (plan/structure.py)."""

    bound: Callable[[Any], Bound | None] = _return_none
    """How it bounds the loop around it, from the config; None if it does not."""

    silent: bool = False
    """Whether a run of it may send no message at all. Edges from it are then not certain to fire."""

    single: Callable[[Any], bool] = _return_none
    """Whether it sends at most one message in each run, from the config."""

    asks: bool = False
    """Whether a person answers. The run waits, and the time does not count."""

    speaks: bool = False
    """Whether a model answers. It is a speaker for dead-loop detection then."""

    calls: Callable[[Any], Calls | None] = _return_none
    """How many calls of models and tools one run makes, from the config. None means one model call for a
    node that speaks, and no calls for any other."""

    reserve: Callable[[Any, Any], int] = _no_reserve
    """Called as (config, workflow): the most tokens that one model call may use, reserved before it; 0
    if unknown."""

    estimate: Callable[[Any, Any, Any], tuple[int, int]] = _no_estimate
    """Called as (config, workflow, call): the tokens of what a model call sends, estimated, and their cost in
    picodollars; 0 if unknown. They are reserved for the first call of a node. The kernel stores the result
    as a decision, so it may depend on tables of prices."""

    unpriced: Callable[[Any, Any], tuple[str, ...]] = _no_models
    """Called as (config, workflow): the models that may answer and whose price is not known, as
    `provider:name`; an empty text for a model that is not named. The check of limits on the cost
    (plan/unpriced.py) uses it."""

    carries: Callable[[Any], str] = _no_function
    """The id of another node of its loop, from the config, whose last message each call of it gets
    (`Call.carried`); empty for most types. The plan checks that the loop has it."""

    hears: Callable[[Any], int | None] = _return_none
    """If each call of it gets the latest messages of the agents and people of its loop (`Call.heard`), how
    many of them it needs at least, from the config; None for most types. The plan warns about a loop that
    has fewer."""

    lacks_model: Callable[[Any, Any], bool] = _lacks_nothing
    """Called as (config, workflow): whether it calls a model, and neither it nor the workflow names one
    (plan/model_choice.py)."""

    forgets: Callable[[Any], bool] = _return_none
    """Whether its state is reset each time the loop around it is entered."""

    state: Any = None
    """The type of its state (`Outcome.state`, `Call.state`), as msgspec describes types: int, a Struct,
    a union. A stored state is decoded as this type; None leaves it as plain JSON."""

    events: tuple[str, ...] = ()
    """The names of the events that it tells, besides those that the kernel makes itself. Whatever else its
    outcomes have becomes `custom`; so does everything of a type from a package, which must leave this
    empty."""

    stored: Mapping[str, type[Struct]] = {}
    """For a type of a package: the structs inside its config, each by a name that stays the same when the
    class is renamed or moved. A stored workflow has `package/type/name` in place of the class (stored.py).
    The config itself has the name `config`."""

    request: Any = None
    """For a node with a conversation or a controller: the type of the request that its calls carry
    instead of a state."""


ERROR_PORT = "error"
"""The port of every node by which a failure leaves, if an edge takes it (kernel/lifecycle.py)."""
EXIT_PORT = "exit"
"""The explicit port of nodes that may end the loop around them: agents with tools, and functions."""


def explicit_ports(kind: NodeType, config: Any) -> tuple[str, ...]:
    """The ports of a node that an edge takes only if it names them."""
    own = kind.explicit_ports(config)
    return own if ERROR_PORT in own else (*own, ERROR_PORT)


def all_ports(kind: NodeType, config: Any) -> tuple[str, ...]:
    """All names that an edge from the node may use as its port."""
    return tuple(dict.fromkeys((*kind.ports(config), *explicit_ports(kind, config))))


def _find_none(_name: str) -> Iterable[NodeType]:
    return ()


def _find_all_none() -> Iterable[NodeType]:
    return ()


def _checked(kind: NodeType) -> NodeType:
    if kind.events:
        raise ModuleError(
            f"the node type '{kind.name}' names {kind.events[0]!r} in `events`, which only built-in "
            "types may; remove it, and its events are `custom`"
        )
    return kind


class NodeTypes(Mapping[str, NodeType]):
    """Node types by name and alias, each imported when needed. `roundel.nodes.TYPES` is the one instance
    of the engine; tests create others.

    `find` returns the built-in types whose module a name suggests, `find_all` all of them. All are
    imported only to list them, or to be sure that a name is neither a type nor an alias before packages
    are searched: an installed package cannot replace a built-in type."""

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
            self.add(_checked(load_entry_point(points[name])))
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
