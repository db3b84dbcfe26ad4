"""Participants of debates and votes: nodes of any type, each run as a graph of its own."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from roundel.kernel.commands import Call
from roundel.kernel.composite import CompositeAction
from roundel.kernel.facts import Decide, Outcome, decide_live
from roundel.kernel.state import Iteration
from roundel.nodes.services import Behaviour, NodeError, Services
from roundel.plan.graph import SEMANTICS
from roundel.workflow.description import Description, Short
from roundel.workflow.diagnostics import Report
from roundel.workflow.document import Located
from roundel.workflow.fields import INVALID, Reader, SourceLocation, child
from roundel.workflow.graph import GraphDefinition, Node, NodeReader


class ParticipantController:
    """The base of the controllers of `debate` and `vote`. They start iterations and nothing else: a
    failed body fails the node, and there is no code of a user to ask."""

    has_independent_rounds = False
    decide: Decide = staticmethod(decide_live)
    """The kernel replaces it by one that stores the decision with the fact (kernel/facts.py)."""
    semantics: int = SEMANTICS
    """The kernel replaces it by that of the run."""

    def catches_failure(self, _iteration: Iteration) -> bool:
        return False

    def on_failure(self, _iteration: Iteration, error: str) -> CompositeAction:
        raise AssertionError(error)

    def on_answer(self, _answer: Any) -> CompositeAction:
        raise AssertionError("the controller asked no question")

    def on_answer_failed(self, error: str) -> CompositeAction:
        raise AssertionError(error)

    def allow(self, rounds: int) -> None:
        raise AssertionError(f"the controller locks no run, so nobody allows {rounds} rounds")

    def on_retry(self) -> CompositeAction:
        raise AssertionError("the decisions of the controller do not fail")


def prepare_composite(node: Node, _services: Services) -> Behaviour:
    """A behaviour for nodes that the kernel runs by their bodies. It is required by `NodeType`, and
    calling it is an error."""

    def behave(call: Call) -> Outcome:
        raise NodeError(f"{call.address} is a {node.type}, not called as a whole")

    return behave


class Participant(Struct, frozen=True):
    """One node that takes part in a debate or a vote, as a graph of that node alone.

    It is a graph because the kernel runs bodies as graphs; that also gives it a place for errors and an
    address of its own."""

    graph: GraphDefinition

    @staticmethod
    def __describe__() -> Description:
        return Description(
            refers=("node",),
            short=(
                Short(
                    kind=str,
                    en=("Node of the graph", "The id of a node of the graph, a copy of which takes part."),
                    zh=("图中的节点", "图中某个节点的 id，其副本参与其中。"),
                ),
            ),
        )

    @property
    def id(self) -> str:
        return self.graph.nodes[0].id

    @classmethod
    def __read__(cls, at: Located, reader: Reader) -> Any:
        if isinstance(at.value, dict) and "nodes" in at.value and "type" not in at.value:
            message = "a participant must be a node, not a graph"
            reader.report.error("wrong-type", message, at, "put the graph into a node of the type subgraph")
            return INVALID
        if isinstance(at.value, str):
            return cls._read_named(at.value, at, reader)
        node = reader.read(at, Node, "the participant")
        return INVALID if node is INVALID else cls._of(node, at, reader)

    @classmethod
    def _read_named(cls, name: str, at: Located, reader: Reader) -> Any:
        """A participant that is a node of the graph around it: a copy of that node takes part."""
        assert isinstance(reader, NodeReader)
        place = reader.siblings.get(name)
        if place is None:
            hint = reader.report.suggest(name, reader.siblings)
            hint = hint or "name a node of this graph, or write the node here"
            reader.report.error("unknown-node", f"there is no node '{name}' to take part", at, hint)
            return INVALID
        around, report = reader.participating, reader.report
        if name in around:
            report.error("circular-participant", f"'{name}' cannot take part in itself", at)
            return INVALID
        # The graph reads the node as well, and reports everything else that is wrong with it.
        reader.report, reader.participating = Report(report.file, report.secrets), (*around, name)
        try:
            node = reader.read(place, Node, "the participant")
            circular = [found for found in reader.report.errors if found.code == "circular-participant"]
        finally:
            reader.report, reader.participating = report, around
        for found in circular:
            report.add(found)
        return INVALID if node is INVALID else cls._of(node, place, reader)

    @classmethod
    def _of(cls, node: Node, at: Located, reader: Reader) -> Participant:
        place = SourceLocation(reader.report.file, at.line, at.column)
        return cls(GraphDefinition((node,), start=(node.id,), end=(node.id,), at=place))


def check_participants(
    participants: tuple[Participant, ...], least: int, what: str, at: Located, report: Report
) -> bool:
    """Whether there are enough participants, and all ids are different: the id is the name of the
    speaker, and part of the address."""
    place = child(at, "participants")
    if len(participants) < least:
        count = f"{least} participants" if least > 1 else "a participant"
        message = f"{what} needs at least {count}, and has {len(participants) or 'none'}"
        report.error("few-participants", message, place, "list nodes under 'participants'")
    seen: dict[str, Located] = {}
    items = place.value if isinstance(place.value, list) else []
    for participant, item in zip(participants, items, strict=True):
        if participant.id in seen:
            first = seen[participant.id]
            message = f"there is already a participant '{participant.id}', in line {first.line}"
            report.error("duplicate-id", message, item, "give each participant an id of its own")
        seen.setdefault(participant.id, item)
    return len(participants) >= least and len(seen) == len(participants)
