"""Names for the parts of a plan, so that a snapshot of a run can speak of them and need not hold them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any
from zlib import crc32

from msgspec import Struct

from roundel.plan.graph import EdgePlan, GraphPlan, NodePlan, Plan
from roundel.plan.scope import Scope, Unit

Name = list[Any]
"""What kind of part it is, and where it is found."""


class PlanIndex:
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
        self._names.pop(id(None), None)
        self._scopes: set[int] = set()

    @cached_property
    def fingerprint(self) -> int:
        """The same for plans in which the same names stand for the same parts."""
        nodes = [(node.id, node.kind.name, len(node.bodies)) for node in self.plan.sites]
        graphs = [
            (place, [node.id for node in graph.nodes], [str(edge.edge) for edge in graph.edges])
            for place, graph in self._graphs.items()
        ]
        return crc32(repr((nodes, graphs)).encode("utf-8", "surrogatepass"))

    def name(self, part: Any) -> Name | None:
        """None if it is no part of the plan."""
        found = self._names.get(id(part))
        if found is None and isinstance(part, (Scope, Unit)):
            self._add_scopes()  # those that were compiled since the last look
            found = self._names.get(id(part))
        return found

    def part(self, name: Name) -> Any:
        """KeyError, IndexError or AttributeError if there is none of this name."""
        kind, *rest = name
        return _FINDERS[kind](self, *rest)

    def _add_settings(self, value: Any, name: Name) -> None:
        """A config and whatever stands in it."""
        if not isinstance(value, (Struct, tuple, list, dict)) or value in ((), [], {}):
            return  # there is only one empty tuple
        self._names.setdefault(id(value), name)
        for key, inner in _inside(value):
            self._add_settings(inner, [*name, key])

    def _add_scopes(self) -> None:
        for (site, number), graph in self._graphs.items():
            pending: list[tuple[Scope, Name]] = [(graph.root, [site, number])]
            for scope, path in pending:  # grows while we walk it
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


def _inside(value: Any) -> Iterator[tuple[Any, Any]]:
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
