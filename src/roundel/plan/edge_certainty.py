"""What is certain about an edge or a node before the run, whatever the nodes say.

The proof and the checks are built from these few predicates. Each answers True only if it is certain:
True is a claim, False means that nothing is known.

A run of a node ends in one of several *ways*: ordinarily, or by an explicit port (`error`, `timeout`,
`exit`), which only edges take that name it. The edges of one way fire together, as far as their
conditions allow, and exclude those of all other ways. So a claim about a node must be true for each of
its ways, and a claim about an edge is one about the runs that end its way. Any node may fail, also a
guard, but that is a way only if an error edge may handle the failure: otherwise the run ends.

Conditions that count rounds: `round < n` on an edge bounds a loop that cannot repeat without the edge.
On an edge, `round` is that of the innermost loop around its source, as the loop was entered; so it
bounds only a loop that contains the source directly, not one around that.

Conditions by keywords are the only ones that are compared with each other. Each is read as tests of the
text of which one has to hit, and tests of which none may (`tests_of`). Two edges exclude each other if a hit
that one asks for is one that the other forbids (`are_exclusive`). And of two edges with the same keywords,
one of them with `negate`, each message takes exactly one (`negation_of`).

`last_round` does not evaluate an expression. It reads it as far as it is plain: a comparison of `round`
with a number, also in parentheses and as a part of a conjunction. The other conjuncts can only make the
edge fire less often, and what cannot be read with certainty is ignored: a wrong proof is worse than a
missing one.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from roundel.plan.graph import EdgePlan, NodePlan
from roundel.workflow.condition import Condition, Keyword, strip_marks
from roundel.workflow.node_type import ERROR_PORT, EXIT_PORT

Way = str | None
"""How a run of a node ends: by this explicit port; None if ordinarily."""


def way_of(edge: EdgePlan) -> Way:
    """The way that a run of its source must end for the edge to fire."""
    return edge.port if edge.explicit else None


def possible_ways(node: NodePlan) -> set[Way]:
    """The ways in which a run of the node may end without ending the whole run."""
    found: set[Way] = {way_of(edge) for edge in node.edges if not edge.explicit or _may_be_taken(edge)}
    # A type may also use the name for a port of its own, and then needs no edge to leave by it.
    own = {ERROR_PORT} if ERROR_PORT in node.kind.ports(node.config) else set()
    return found | own | {None}


def _may_be_taken(edge: EdgePlan) -> bool:
    """Whether a run of its source may end by the explicit port of the edge because of the edge."""
    # A failure that no triggering edge takes ends the run.
    return edge.port != ERROR_PORT or (edge.trigger and not never(edge))


def handling_edges(node: NodePlan) -> list[EdgePlan]:
    """The edges of which at least one fires in each run of the node that ends by `error`, whatever their
    conditions: if none does, the whole run ends. Empty if there is no such certainty."""
    if ERROR_PORT in node.kind.ports(node.config):
        return []
    return [edge for edge in node.edges if edge.port == ERROR_PORT and _may_be_taken(edge)]


def takes_everything(edge: EdgePlan) -> bool:
    """Whether the edge triggers its target for every message of its port."""
    return edge.trigger and edge.test is None and edge.process is None and not edge.has_host_functions


def always_fires(edge: EdgePlan) -> bool:
    """Whether the edge triggers its target for every message with which a run of its source ends
    ordinarily."""
    return edge.port is None and takes_everything(edge)


def is_certain(edge: EdgePlan, source: NodePlan) -> bool:
    """Whether the edge triggers its target in each run of its source that ends its way."""
    if edge.explicit:  # nothing leaves by an explicit port without a message
        return takes_everything(edge)
    return always_fires(edge) and always_speaks(source)


def never(edge: EdgePlan) -> bool:
    """Whether the edge can never fire: `condition: false`."""
    return edge.edge.condition is not None and edge.edge.condition.never


def always_speaks(node: NodePlan) -> bool:
    """Whether each run of the node that ends ordinarily sends a message that is open to all its edges of
    that way.

    Excluded: silent nodes and guards; composite nodes and subgraphs, whose graph may end without output;
    and nodes with dynamic input, which may have no parts.
    """
    return not (node.kind.silent or node.kind.guard or node.bodies or node.has_dynamic_input)


def may_jump(node: NodePlan) -> bool:
    """Whether the node may end the round of a loop agent around it: `break`, `continue`, or code, also
    that of a tool."""
    return (node.kind.silent and not node.kind.guard) or EXIT_PORT in node.explicit_ports


def gives_one_message(node: NodePlan) -> bool:
    """Whether no run of the node sends more than one message."""
    return bool(node.kind.single(node.config)) and not node.has_dynamic_input


_COMPARISON = re.compile(r"round\s*(<=?)\s*(-?\d{1,15})|(-?\d{1,15})\s*(>=?)\s*round")
_STRING = re.compile(r"\"[^\"]*\"|'[^']*'")
_HARD_TO_READ = ("\\", "//", '"""', "'''")
"""Escapes, comments and long strings: with them, `_STRING` may find strings wrongly."""


def last_round(edge: EdgePlan) -> int | None:
    """The last round in which the edge can fire, by its condition; None if that does not bound it."""
    condition = edge.edge.condition
    return None if condition is None or condition.expression is None else _last(condition.expression)


@lru_cache(maxsize=1024)
def _last(expression: str) -> int | None:
    if any(mark in expression for mark in _HARD_TO_READ):
        return None
    # Strings are blanked out: what looks like an operator inside them is none. Their length stays, for
    # positions.
    text = _STRING.sub(lambda found: "_" * len(found[0]), expression)
    return None if '"' in text or "'" in text else _of_conjunction(text)


def _of_conjunction(text: str) -> int | None:
    """The smallest bound of the conjuncts: all of them must be true for the edge to fire."""
    text = text.strip()
    parts = _conjuncts(text)
    if len(parts) != 1:
        found = [last for part in parts if (last := _of_conjunction(part)) is not None]
        return min(found, default=None)
    if text.startswith("(") and _closing(text) == len(text) - 1:
        return _of_conjunction(text[1:-1])
    return _of_comparison(text)


def _of_comparison(text: str) -> int | None:
    found = _COMPARISON.fullmatch(text)
    if found is None:
        return None
    operator, number = found[1] or found[4], int(found[2] or found[3])
    return number if operator.endswith("=") else number - 1


def _conjuncts(text: str) -> list[str]:
    """The parts between the outermost `&&`; empty if an operator that binds less tightly (`||`, `?`) is
    there."""
    parts, begin, depth = [], 0, 0
    for at, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0 and (character == "?" or text.startswith("||", at)):
            return []
        if depth == 0 and text.startswith("&&", at):
            parts.append(text[begin:at])
            begin = at + 2
    return [*parts, text[begin:]]


def _closing(text: str) -> int:
    """The index of the bracket that closes the one at the beginning; -1 if there is none."""
    depth = 0
    for at, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0:
            return at
    return -1


KeywordTest = tuple[str, bool, bool, str]
"""One test of a text: `any`, `begins`, `only` or `regex`; whether the case counts; whether only whole words
do; and the word."""
Tests = frozenset[KeywordTest]


class KeywordTests(Struct, frozen=True):
    """What is certain about a message that meets a condition by keywords."""

    asks: Tests = frozenset()
    """At least one of these hits, if there are any."""
    forbids: Tests = frozenset()
    """None of these hits."""


@lru_cache(maxsize=1024)
def tests_of(keyword: Keyword) -> KeywordTests:
    """A condition by keywords as tests."""
    case, word = keyword.case_sensitive, keyword.word
    wanted = frozenset(
        [("any", case, word, text) for text in keyword.any]
        + [("begins", case, False, text) for text in keyword.begins]
        + [("only", case, False, text) for text in keyword.only]
        + [("regex", case, False, text) for text in keyword.regex]
    )
    unwanted = frozenset(("any", case, word, text) for text in keyword.none)
    if not keyword.negate:
        return KeywordTests(wanted, unwanted)
    # Negated it means: a hit of `none`, or no other hit. Nothing is certain if both are possible.
    return KeywordTests() if wanted and unwanted else KeywordTests(unwanted, wanted)


def are_exclusive(one: Condition | None, other: Condition | None) -> bool:
    """Whether no message can meet both conditions: one asks for what the other forbids."""
    if one is None or other is None or one.keyword is None or other.keyword is None:
        return False
    first, second = one.keyword, other.keyword
    if negation_of(one) == other:
        return True
    return _clash(tests_of(first), tests_of(second)) or _clash(tests_of(second), tests_of(first))


def _clash(first: KeywordTests, second: KeywordTests) -> bool:
    return bool(first.asks) and all(not second.forbids.isdisjoint(_implied(test)) for test in first.asks)


def _implied(test: KeywordTest) -> list[KeywordTest]:
    """A test, and others that hit whenever it does."""
    kind, case, _, text = test
    found = [test]
    if kind == "only":
        found.append(("begins", case, False, text))
    # Not as a whole word: "_ACCEPT_" begins with ACCEPT, but `_` belongs to the word.
    if kind in ("begins", "only") and text and strip_marks(text) == text:
        found.append(("any", case, False, text))
    return found


def negation_of(condition: Condition | None) -> Condition | None:
    """The condition that exactly the other messages meet; None if it is not by keywords."""
    if condition is None or condition.keyword is None:
        return None
    return Condition(keyword=replace(condition.keyword, negate=not condition.keyword.negate))
