"""Runs that go through a snapshot, as another process would restore them."""

from __future__ import annotations

from roundel.kernel.snapshot import PlanIndex, decode, freeze, thaw
from roundel.kernel.state import Run
from roundel.plan.graph import Plan


def frozen(run: Run) -> tuple[bytes, list[str]]:
    """A snapshot as bytes, and the long texts that it refers to."""
    found = freeze(run, PlanIndex(run.plan))
    return found.encode([[number, 0] for number in range(len(found.texts))]), found.texts


def thawed(body: bytes, plan: Plan, texts: list[str]) -> Run:
    index = PlanIndex(plan)
    stored = decode(body, index)
    return thaw(stored, [texts[source[0]] for source in stored.sources if not isinstance(source, str)], index)


def copied(run: Run, plan: Plan) -> Run:
    """The same run, restored from a snapshot."""
    body, texts = frozen(run)
    return thawed(body, plan, texts)
