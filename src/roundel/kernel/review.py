"""Middleware is asked: before a node sets out, and about what it gave.

Both are commands like any other, so what was said is in the journal, and any kind of node can be asked about:
one that calls something, a person, an agent with tools, a whole loop.
"""

from __future__ import annotations

from msgspec.structs import replace

from roundel.kernel.commands import Ask, Call, Review
from roundel.kernel.execution import Execution
from roundel.kernel.facts import Outcome, Reviews
from roundel.kernel.state import Run
from roundel.workflow.message import Message

BEFORE, AFTER = 1, 2
"""When middleware is asked about a node; both may hold."""


def attend(run: Run, reviews: Reviews) -> None:
    """From now on middleware is asked about these nodes."""
    if reviews == run.reviews:
        return
    run.reviews = reviews
    run.reviewed = bytearray(
        BEFORE * (node.id in reviews.before) + AFTER * (node.id in reviews.after) for node in run.plan.sites
    )


def ask_after(run: Run, execution: Execution, outcome: Outcome) -> None:
    execution.outcomes = [outcome]
    review = execution.review
    if review is None:  # it set out when nobody was to be asked about it
        command = execution.command
        inputs = command.inputs if isinstance(command, (Call, Ask)) else ()
        ordinal = command.ordinal if isinstance(command, (Call, Ask)) else 0
        round_ = execution.activation.loop_round
        review = Review(execution.address, execution.node.site, inputs, ordinal, round_)
    execution.command = replace(review, messages=outcome.messages)
    ask(run, execution)


def review_inputs(execution: Execution, inputs: tuple[Message, ...]) -> None:
    """A node has other inputs than it set out with."""
    if execution.review is not None:
        execution.review = replace(execution.review, inputs=inputs)


def ask(run: Run, execution: Execution) -> None:
    assert execution.command is not None
    run.calls[execution.address] = execution
    run.commands.append(execution.command)
