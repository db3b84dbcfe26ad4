"""How the effort of reading a text grows with the text."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from roundel.nodes.loading import draft_text_plan

HEAD = "graph:\n  start: A\n"
NODES = "  nodes:\n    - {id: A, type: passthrough}\n"


def unknown_keys(count: int) -> str:
    return HEAD + "".join(f"  key{number}: 1\n" for number in range(count)) + NODES


def unknown_keys_of_a_condition(count: int) -> str:
    keys = "".join(f"        key{number}: 1\n" for number in range(count))
    return f"{HEAD}{NODES}  edges:\n    - from: A\n      to: A\n      condition:\n{keys}"


def misspelt_keys(count: int) -> str:
    return HEAD + "".join(f"  description{number}: 1\n" for number in range(count)) + NODES


def unknown_tools(count: int) -> str:
    names = ", ".join(f"tool{number}" for number in range(count))
    return f"{HEAD}{NODES}    - {{id: B, type: agent, config: {{tools: [{names}]}}}}\n"


def unknown_nodes(count: int) -> str:
    nodes = "".join(f"    - {{id: N{number}, type: passthrough}}\n" for number in range(count // 4))
    edges = "".join(f"    - {{from: A, to: M{number}}}\n" for number in range(count // 4))
    return f"{HEAD}{NODES}{nodes}  edges:\n{edges}"


def many_ends(count: int) -> str:
    return (
        HEAD
        + NODES
        + "".join(f"    - {{id: N{number}, type: passthrough}}\n" for number in range(count // 4))
    )


def seconds(text: str) -> float:
    """Processor time of this thread, so that the load of the machine does not count."""
    began = time.thread_time()
    draft_text_plan(text)
    return time.thread_time() - began


SHAPES = [unknown_keys, unknown_keys_of_a_condition, misspelt_keys, unknown_tools, unknown_nodes, many_ends]


@pytest.mark.parametrize("shape", SHAPES)
def test_effort_is_linear_in_the_text(shape: Callable[[int], str]) -> None:
    """Eight times the text may take 24 times as long; quadratic effort would be 64 times."""
    seconds(shape(100))  # imports what it needs
    small = min(seconds(shape(2_000)) for _ in range(3))
    assert seconds(shape(16_000)) < 24 * small + 0.2


def test_more_unknown_keys_than_are_compared_are_an_error() -> None:
    """They may be misspelt, and a misspelt key is an error."""
    plan, report = draft_text_plan(unknown_keys(300))
    assert plan is not None and not report.ok
    [error] = report.errors
    assert (error.code, error.message) == ("unknown-key", "the graph has 200 more unknown keys")
    _, report = draft_text_plan(unknown_keys(100))
    assert report.ok
