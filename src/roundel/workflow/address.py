"""Addresses: where in a run something happens. The only Python module that knows their separators.

    address  := step* node                     Team#2/Writer[3].Each[4]/Say
    round    := step* label part? number       Writer[3].Each[4]
    call     := node number "/" label          Analyst[2]/order, the call `order` of tool round 2
    step     := label part? "/"                inside of a node: a subgraph, or a vote
              | label part? number repeat? (before a node "/", before another round ".")
    node     := label part?
    part     := "#" N ("." N)?                 a part of a dynamic edge, with the layer of a `tree`
    number   := "[" N "]"                      a round
    repeat   := "#" N                          the second or a later run of a body in that round
    label    := an id, in which `/ [ ] # %` are written as %XX (`address_label`)

A text is an id and a label for people. What it means is a `path`, the steps around a node, outermost first,
since the text alone does not tell a round of a loop from a round of a node that repeats by itself.
`plan/address.py` finds the path of a text that somebody typed. web/src/live/address.ts has the same format.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct


class PathStep(Struct, frozen=True, gc=False, omit_defaults=True):
    """A step inwards: a round of a loop, or the inside of a node. Exactly one of `loop` and `node` is set."""

    loop: str | None = None
    """The entry of a loop of edges."""
    node: str | None = None
    """A node with a graph inside, which has rounds if it repeats it."""
    round: int = 0
    """The number of the round."""
    part: str = ""
    """`2` or `2.1`, for a part of a dynamic edge."""
    repeat: int = 0
    """From 2: which run of a body in this round."""


Path = tuple[PathStep, ...]


class CallPlace(Struct, frozen=True, gc=False, omit_defaults=True):
    """A call of the agent at a place, in one of its rounds of tools. Round 0 is beside them."""

    round: int
    """The round of tools, from 1."""
    label: str
    """The last part of its address."""


class Segment(NamedTuple):
    """A label of an address with its numbers. Nothing is known of the plan."""

    text: str
    label: str
    part: str
    round: int | None
    repeat: int


class AddressError(ValueError):
    """A text is not an address, or one of no place of a plan."""


_MEANINGFUL = re.compile(r"[/\[\]#%]")
_SEGMENT = re.compile(
    r"(?P<text>(?P<label>[^/\[\]#]+)(?:#(?P<part>[0-9]+(?:\.[0-9]+)?))?"
    r"(?:\[(?P<round>[0-9]+)\](?:#(?P<repeat>[0-9]+))?(?=[./]|$)|(?=/|$)))[./]?"
)
_ROUND = re.compile(r"\[[0-9]+\]")
_ROUND_NUMBER = re.compile(r"\[\d*\]?")
_PART = re.compile(r"#([0-9.]+)$")
_SEPARATORS = re.compile(r"/|(?<=\])\.")
"""Between the parts of an address. A full stop is one only behind a round."""
_NUMBERS = re.compile(r"#[0-9]+(?:\.[0-9]+(?=/|$))?")
"""The number of a part of a dynamic edge, or of a further run of a body in the same round."""
_LAST_NUMBER = re.compile(r"#[0-9]+(?:\.[0-9]+)?$")
MAX_DIGITS = 18
_LAST_ROUND = re.compile(r"(.+)\[([0-9]+)\]")
_CUTS = "/.[#"
"""Labels contain none of these but the full stop, since they are escaped."""


@lru_cache(maxsize=4096)
def address_label(name: str) -> str:
    """A name in the form that addresses use: different names stay different, and none can look like a
    path."""
    return _MEANINGFUL.sub(lambda found: f"%{ord(found[0]):02X}", name)


def text(path: Path, label: str = "", part: str = "", call: CallPlace | None = None) -> str:
    """The address of the node with a label, or of a part or call of it; without a label, what the path ends
    with: a round, or the node that is around."""
    written = _written(path)
    if not label:
        return written
    node = f"{label}#{part}" if part else label
    if call is None or not call.round:
        address = f"{written}/{node}" if written else node
        return address if call is None else f"{address}/{call.label}"
    # Rounds of tools are written like those of a loop: `Writer[3].Analyst[2]/order`.
    joint = "." if path and path[-1].round else "/" if path else ""
    around = f"{written}{joint}{node}[{call.round}]"
    return f"{around}/{call.label}" if call.label else around


def round_address(path: Path) -> str:
    """The address of the round that a path ends with."""
    return _written(path)


def loop_of(address: str) -> str:
    """What the addresses of all rounds of an entry of a loop begin with: `Writer[3].Coder` for
    `Writer[3].Coder[2]`."""
    return address.rpartition("[")[0]


def node_key(path: Path, node_id: str) -> str:
    """The node in a drawing: its id, after those of the nodes around it."""
    around = [address_label(step.node) for step in path if step.node is not None]
    return "/".join([*around, address_label(node_id)])


def _written(path: Path) -> str:
    found, joint = "", ""
    for step in path:
        part = f"#{step.part}" if step.part else ""
        number = f"[{step.round}]" if step.round else ""
        repeat = f"#{step.repeat}" if step.repeat else ""
        joint = (joint if number else "/") if found else ""
        found += f"{joint}{address_label(step.loop or step.node or '')}{part}{number}{repeat}"
        joint = "." if number else "/"
    return found


def segments(address: str) -> list[Segment]:
    """The parts of an address, from the outside inwards; AddressError if it is none."""
    found, at = [], 0
    while at < len(address):
        match = _SEGMENT.match(address, at)
        if match is None:
            raise AddressError(f"'{address}' is not an address: {address[at:]!r} is no node or round")
        number, repeat = match["round"], match["repeat"]
        found.append(
            Segment(
                match["text"],
                match["label"],
                match["part"] or "",
                None if number is None else int(number),
                int(repeat or 0),
            )
        )
        at = match.end()
    return found


def is_inside(address: str, around: str) -> bool:
    """Whether an address is another one, or inside it: `Writer[3]/Critic` is in `Writer[3]`, in `Writer`, and
    not in `Writer[30]` or `Write`."""
    return address == around or (address.startswith(around) and address[len(around)] in "/.[#")


def innermost_round(address: str) -> tuple[str, int]:
    """The innermost round that an address is in: what the addresses of its loop begin with, and its number.
    An address of a round is in that round."""
    before, bracket, rest = address.rpartition("[")
    return (before + bracket, int(rest.partition("]")[0])) if bracket else ("", 0)


def round_in(stem: str, address: str) -> int:
    """The round of a loop that an address is in, by what the addresses of the loop begin with; 0 if it is
    outside of the loop."""
    return int(address[len(stem) :].partition("]")[0]) if address.startswith(stem) else 0


def rounds_around(address: str) -> list[str]:
    """The addresses of the rounds that an address is in, or is, from the outermost on."""
    return [address[: found.end()] for found in _ROUND.finditer(address)]


def is_in_round(address: str) -> bool:
    return "[" in address


def loop_path(address: str) -> str:
    """The address of a round without the numbers of rounds: the same for all rounds and entries of a loop."""
    return _ROUND_NUMBER.sub("[", address)


def without_rounds(address: str) -> str:
    """An address as it is the same in every round."""
    return _ROUND.sub("", address)


def agent_of_tool(address: str) -> str:
    """The address of the agent whose tool call has an address: `Writer[3]/Analyst` for
    `Writer[3].Analyst[2]/order`."""
    around = address.rpartition("/")[0].rpartition("[")[0]
    outer, dot, node = around.rpartition(".")
    return f"{outer}/{node}" if dot and outer.endswith("]") and "/" not in node else around


def part_of(address: str) -> str:
    """The part of a dynamic edge at the end of the address of a node."""
    found = _PART.search(address)
    return found[1] if found else ""


def has_separators(text: str) -> bool:
    """Whether a text that somebody typed can only be an address, and not the id of a node."""
    return "/" in text or "[" in text


def is_round(address: str) -> bool:
    """Whether it is the address of a round."""
    return address.endswith("]")


def is_below(address: str, node: str) -> bool:
    """Whether an address is inside a node; that of one of its rounds is not."""
    return address.startswith(f"{node}/")


def address_parts(address: str) -> list[str]:
    """The loops, with their rounds, and the nodes of an address, from the outside inwards, without numbers of
    parts. Unlike `segments` it takes any text, such as the beginning of an address that somebody typed."""
    return _SEPARATORS.split(_NUMBERS.sub("", address))


def split_round(part: str) -> tuple[str, int | None]:
    """A part of an address without the number of its round, and that number; None if it has none."""
    found = _LAST_ROUND.fullmatch(part)
    # A person may have written any number of digits; no round has as many as these.
    return (found[1], int(found[2][:MAX_DIGITS])) if found else (part, None)


def last_number(address: str) -> str:
    """The number of a part, or of a further run, at the end of an address, as it is written."""
    found = _LAST_NUMBER.search(address)
    return found[0] if found else ""


def enclosing_addresses(address: str) -> Iterator[str]:
    """Every address that may contain an address, the nearest first.

    `Writer[3].Analyst[2]/mean` is in round 2 of the node `Writer[3]/Analyst`, in round 3 of the loop
    Writer. A node in a loop has a slash in its address, but its rounds have a dot, so both forms are
    tried.
    """
    while True:
        cut = max(map(address.rfind, _CUTS))
        if cut < 0:
            return
        cut_at, address = address[cut], address[:cut]
        yield address
        if cut_at == "[":
            loop, dot, name = address.rpartition(".")
            if dot and "/" not in name:
                yield f"{loop}/{name}"
