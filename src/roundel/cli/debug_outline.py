"""The outline of a workflow in the debugger: its graphs and loops as indented rows, and where a run is.

A run speaks in addresses (`Planner[1].Coder[2]/Tester`), an outline has one row for each node of the
workflow, whatever the round. `RunOutline` connects the two. The id of a node is not enough for that, since
the graphs inside nodes may use the same ids, so it also compares the nodes around it with the address.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from roundel.drawing.nesting import Group, nest
from roundel.kernel.payloads import LoopPosition
from roundel.plan.graph import GraphPlan, NodePlan, Plan
from roundel.runs.inspection import BreakpointState, RunInspection
from roundel.workflow.address import address_parts, has_separators, split_round


def address_labels(address: str) -> list[str]:
    """The loops and nodes of an address, from the outside inwards, without rounds and numbers."""
    return [split_round(part)[0] for part in address_parts(address)]


@dataclass(frozen=True, slots=True)
class OutlineRow:
    """A line of the outline: a node, or the head of a free loop. `RunOutline` creates it."""

    depth: int
    node: NodePlan
    """For a loop, its entry."""
    loop: Group | None = None


@dataclass(slots=True)
class NodePosition:
    """What a run does at a node, in all rounds together. `RunOutline.positions` creates it."""

    ready: bool = False
    running: bool = False
    asks: bool = False
    entered: bool = False
    """A node inside it is ready, running or asks."""
    blocked: bool = False
    breakpoint: bool = False
    """A breakpoint stops before every execution of it."""
    partial_breakpoint: bool = False
    """A breakpoint stops before one round or one execution."""
    rounds: str = ""
    """The current round of the loop that the node is, and its limit."""


class RunOutline:
    """The rows of a workflow, and how a run's addresses map to them. The debugger creates it once."""

    def __init__(self, plan: Plan) -> None:
        self._owners: dict[int, tuple[str, ...]] = {}
        """For each site, the labels of the nodes around it."""
        self._around: dict[int, NodePlan | None] = {}
        """For each site, the node whose graph it is in."""
        self._by_label: dict[str, list[NodePlan]] = {}
        self._note_owners(plan.graph, None)
        self.rows: list[OutlineRow] = []
        self._add_rows(nest(plan.graph), 0)
        self._loops = [row for row in self.rows if row.loop is not None]

    def _note_owners(self, graph: GraphPlan, around: NodePlan | None) -> None:
        owners = () if around is None else (*self._owners[around.site], around.label)
        for node in graph.nodes:
            self._owners[node.site], self._around[node.site] = owners, around
            self._by_label.setdefault(node.label, []).append(node)
            for body in node.bodies:
                self._note_owners(body, node)

    def _add_rows(self, group: Group, depth: int) -> None:
        for part in group.parts:
            if part.node is not None:
                self.rows.append(OutlineRow(depth, part.node))
                for body in part.bodies:
                    self._add_rows(body, depth + 1)
            elif part.inner is not None and part.inner.entry is not None:
                self.rows.append(OutlineRow(depth, part.inner.entry, part.inner))
                self._add_rows(part.inner, depth + 1)

    @property
    def nodes(self) -> list[NodePlan]:
        """The nodes in the order of the rows."""
        return [row.node for row in self.rows if row.loop is None]

    def find(self, address: str) -> NodePlan | None:
        """The node at an address; for a tool call, the agent that makes it."""
        labels = address_labels(address)
        for last in range(len(labels) - 1, -1, -1):
            around = labels[:last]
            fitting = [
                node
                for node in self._by_label.get(labels[last], ())
                if _is_subsequence(self._owners[node.site], around)
            ]
            if fitting:
                # The one that most of the address explains.
                return max(fitting, key=lambda node: len(self._owners[node.site]))
        return None

    def find_by_name(self, name: str) -> NodePlan | None:
        """The node that a person names: by id, by the beginning of an id, or by address."""
        nodes = self.nodes
        exact = [node for node in nodes if name in (node.id, node.label)]
        folded = [node for node in nodes if node.id.casefold().startswith(name.casefold())]
        if exact or len(folded) == 1:
            return (exact or folded)[0]
        return self.find(name) if has_separators(name) else None

    def positions(self, seen: RunInspection) -> Mapping[int, NodePosition]:
        """What the run does at each node, by site."""
        found = {node.site: NodePosition() for node in self.nodes}

        def at(address: str) -> NodePosition:
            node = self.find(address)
            return found[node.site] if node is not None else NodePosition()

        for blocked in seen.blocked:
            at(blocked.address).blocked = True
        for ready in seen.ready:
            at(ready.address).ready = True
        for question in seen.questions:
            at(question.address).asks = True
        for address in seen.in_flight:
            if seen.status == "running":
                at(address).running = True
            else:  # its calls were cancelled, and the next step makes them again
                at(address).ready = True
        for node in self.nodes:
            position, around = found[node.site], self._around[node.site]
            while (position.ready or position.running or position.asks) and around is not None:
                found[around.site].entered = True
                around = self._around[around.site]
        for state in seen.breakpoints:
            self._mark_breakpoint(state, found)
        for node, label in self._node_rounds(seen.loops):
            found[node.site].rounds = label
        return found

    def _mark_breakpoint(self, state: BreakpointState, found: Mapping[int, NodePosition]) -> None:
        if state.text.startswith("cel:"):
            return
        for node in self.nodes:
            if state.text in (node.id, node.label):
                found[node.site].breakpoint = True
        at = self.find(state.text)
        if at is not None and not found[at.site].breakpoint:
            found[at.site].partial_breakpoint = True

    def loop_rounds(self, positions: Iterable[LoopPosition]) -> Mapping[OutlineRow, str]:
        """The current round and the limit of each free loop that is running, by its row."""
        found: dict[OutlineRow, list[LoopPosition]] = {}
        for position in positions:
            row = self._loop_row(position)
            if row is not None:
                found.setdefault(row, []).append(position)
        return {row: self._rounds_label(several) for row, several in found.items()}

    def _node_rounds(self, positions: Iterable[LoopPosition]) -> Iterable[tuple[NodePlan, str]]:
        """The same for loops that are a single node, such as a debate."""
        found: dict[int, list[LoopPosition]] = {}
        nodes: dict[int, NodePlan] = {}
        for position in positions:
            node = self.find(position.address)
            if node is not None and self._loop_row(position) is None:
                nodes[node.site] = node
                found.setdefault(node.site, []).append(position)
        return [(nodes[site], self._rounds_label(several)) for site, several in found.items()]

    def _loop_row(self, position: LoopPosition) -> OutlineRow | None:
        """The row of a free loop; None if the position is that of a node which is a loop itself."""
        node = self.find(position.address)
        if node is None:
            return None
        labels = address_labels(position.address)
        if node.kind.loops and node.label in labels[:-1]:
            return None  # the node is the entry of a free loop around it, whose round this is not
        loops = [row for row in self._loops if row.loop is not None and node in row.loop.graph.nodes]
        exact = [row for row in loops if row.node is node]
        if exact or node.kind.loops:
            return exact[0] if exact else None
        # The run has entered the loop at another node than the one that drawings choose.
        around = [row for row in loops if row.loop is not None and node.index in row.loop.scope.members]
        return around[-1] if around else None

    def _rounds_label(self, positions: list[LoopPosition]) -> str:
        """`round 2 of ≤ 3`; several instances of a loop run at once if its graph does."""
        newest = max(positions, key=lambda position: position.round)
        limit = f" of ≤ {newest.limit}" if newest.limit is not None else ""
        several = f", {len(positions)} at once" if len(positions) > 1 else ""
        return f"round {newest.round}{limit}{several}"


def _is_subsequence(part: tuple[str, ...], whole: list[str]) -> bool:
    rest = iter(whole)
    return all(label in rest for label in part)
