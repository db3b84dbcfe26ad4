"""What worker processes do with texts: check, draw, forecast and verify them, and read scripts.

A job is data, and so is its answer: it crosses a pipe (worker.py). The answer of a job whose result is sent
to the client is encoded here, since encoding takes time in proportion to it, too; the server forwards the
bytes. Nothing here imports FastAPI, imports code of users, starts a process, or calls a model. Jobs that try
parts of a workflow are in trials.py.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec
from msgspec import Struct

from roundel.drawing.assembly import draw
from roundel.drawing.drawing import Density, Drawing
from roundel.drawing.svg import Scheme, svg
from roundel.hosts.stored_run import pinned_plan
from roundel.journal.store import Pinned
from roundel.llm.script import script_from
from roundel.nodes.agent_models import pricing
from roundel.nodes.loading import check_models, draft_text_plan
from roundel.nodes.loop import Config as LoopConfig
from roundel.plan.forecast import Forecast, forecast
from roundel.plan.graph import Plan, compile_workflow
from roundel.plan.overrides import with_limits
from roundel.plan.proof import Proof, prove
from roundel.workflow.diagnostics import Diagnostic, Report
from roundel.workflow.limits import NO_TIME_LIMIT
from roundel.workflow.policy import Policy
from roundel.workflow.written_secrets import find_written_secrets

MAX_DESCRIPTION = 2_000
"""Characters of the description of a saved workflow."""


class NoPicture(ValueError):
    """A text cannot be drawn; the message says why."""


class Job(Struct, frozen=True, kw_only=True, tag=True):
    """Work for a worker process."""

    def perform(self, policy: Policy) -> bytes:
        """The encoded result. Whatever it raises crosses the pipe as data (worker.py)."""
        raise NotImplementedError


class TextJob(Job, frozen=True, kw_only=True):
    """A job about the text of a workflow."""

    text: str
    variables: dict[str, Any] = {}
    name: str = "<text>"
    """The name of the text in diagnostics."""
    model: str = ""
    """The model of agents that name none. A run chooses it when it starts."""

    def read(self, policy: Policy) -> tuple[Plan | None, Report]:
        """The plan of the text, or its draft, and the report."""
        return draft_text_plan(self.text, dict(self.variables), self.name, policy=policy, model=self.model)


# Checking and drawing.


class VariableView(Struct, frozen=True):
    """A variable of a workflow, for the form that starts it."""

    name: str
    """The name of the variable."""
    value: Any
    """Its value, if it is no secret."""
    secret: bool
    """Whether it is secret; then its value is null."""


class CheckResult(Struct, frozen=True):
    """What is known about a text."""

    ok: bool
    """It has no errors, and can be run."""
    draft: bool
    """It has errors, and is drawn as far as it can be read."""
    workflow: str
    """The name that runs of it have."""
    diagnostics: tuple[Diagnostic, ...]
    """Errors and warnings."""
    loops: tuple[Proof, ...]
    """What bounds each loop; empty for a draft."""
    variables: tuple[VariableView, ...]
    """The variables of the workflow."""
    drawing: Drawing | None
    """Everything in the text; null if it has no graph."""
    collapsed_drawing: Drawing | None = None
    """The same with the nodes of `collapsed` as single cards; null if there are none of them."""


class Check(TextJob, frozen=True, kw_only=True):
    """Diagnostics, proofs and the drawing of a text."""

    density: Density = "normal"
    collapsed: tuple[str, ...] = ()
    scripted: tuple[str, ...] = ()
    """Names of workflows that have a script, so that their agents need no model."""

    def perform(self, policy: Policy) -> bytes:
        plan, report = self.read(policy)
        if plan is not None and plan.workflow.name not in self.scripted:
            check_models(plan, report)
        masker = report.secrets.masker if report.secrets is not None else None
        proofs = tuple(prove(plan)) if plan is not None and not plan.draft else ()
        drawing = _drawn(plan, report, self.density) if plan is not None else None
        result = CheckResult(
            ok=report.ok and plan is not None and not plan.draft,
            draft=plan is None or plan.draft or not report.ok,
            workflow=plan.workflow.name if plan is not None else "",
            diagnostics=tuple(report.diagnostics),
            loops=masker.mask_value(proofs) if masker is not None else proofs,
            variables=_variables(plan, report),
            drawing=drawing,
            collapsed_drawing=self._collapsed(plan, report) if plan is not None and self.collapsed else None,
        )
        return msgspec.json.encode(result, enc_hook=str)

    def _collapsed(self, plan: Plan, report: Report) -> Drawing | None:
        drawing = _drawn(plan, report, self.density, self.collapsed)
        return drawing if any(node.inside is not None for node in drawing.nodes) else None


class Picture(TextJob, frozen=True, kw_only=True):
    """The drawing of a text as SVG."""

    density: Density = "normal"
    collapsed: tuple[str, ...] = ()
    scheme: Scheme = "auto"

    def perform(self, policy: Policy) -> bytes:
        plan, report = self.read(policy)
        if plan is None:
            raise NoPicture("the text has no graph that could be drawn")
        drawing = _drawn(plan, report, self.density, self.collapsed)
        for problem in drawing.problems:
            if problem.code == "too-large-to-draw":
                raise NoPicture(problem.message)
        return svg(drawing, self.scheme).encode()


def _drawn(plan: Plan, report: Report, density: Density, collapsed: Collection[str] = ()) -> Drawing:
    masker = report.secrets.masker if report.secrets is not None else None
    mask = masker.mask if masker is not None else str
    return draw(plan, report.findings, mask=mask, density=density, collapsed=collapsed)


def _variables(plan: Plan | None, report: Report) -> tuple[VariableView, ...]:
    finder = report.secrets
    if plan is None or finder is None:
        return ()
    return tuple(
        VariableView(name, None, secret=True)
        if finder.is_secret(name)
        else VariableView(name, finder.masker.mask_value(value), secret=False)
        for name, value in plan.workflow.vars.items()
    )


# Forecasts.


class ForecastResult(Struct, frozen=True):
    """What a run of a text may take."""

    diagnostics: tuple[Diagnostic, ...]
    """Errors and warnings."""
    forecast: Forecast | None
    """None if the text has errors."""
    loops: tuple[Proof, ...]
    """What bounds each loop."""


class ForecastText(TextJob, frozen=True, kw_only=True):
    """What a run of a text takes; LimitError."""

    limits: dict[str, Any] = {}

    def perform(self, policy: Policy) -> bytes:
        plan, report = self.read(policy)
        diagnostics = tuple(report.diagnostics)
        if plan is None or plan.draft or not report.ok:
            return msgspec.json.encode(ForecastResult(diagnostics, None, ()))
        if self.limits:
            plan = compile_workflow(with_limits(plan.workflow, self.limits))
        found = forecast(plan, pricing(plan.workflow.models)), tuple(prove(plan))
        if report.secrets is not None:
            found = report.secrets.masker.mask_value(found)
        return msgspec.json.encode(ForecastResult(diagnostics, *found))


# Texts that are about to be saved or started.


class Verdict(Struct, frozen=True):
    """What has to be known about a text before it is saved or compiled in the server."""

    is_sound: bool
    """It has no errors, and can be run."""
    diagnostics: tuple[Diagnostic, ...]
    """Errors and warnings, without secrets."""
    errors: int
    """The number of errors, of which the diagnostics may show only some."""
    description: str
    """The beginning of the description in the text, without secrets."""
    secrets: tuple[Diagnostic, ...] = ()
    """The secrets that are written in the text, if they were asked for."""


class Verify(TextJob, frozen=True, kw_only=True):
    """Reads a text as the server will, which compiles only what has passed."""

    find_secrets: bool = False
    """Whether to search the text for secrets, which must not be saved."""

    def perform(self, policy: Policy) -> bytes:
        plan, report = self.read(policy)
        description = plan.workflow.graph.description if plan is not None else ""
        if report.secrets is not None:
            description = report.secrets.masker.mask(description)
        verdict = Verdict(
            is_sound=plan is not None and not plan.draft and report.ok,
            diagnostics=tuple(report.diagnostics),
            errors=report.counts[0],
            description=description[:MAX_DESCRIPTION],
            secrets=tuple(find_written_secrets(self.text, self.name)) if self.find_secrets else (),
        )
        return msgspec.json.encode(verdict)


class ReadScript(Job, frozen=True, kw_only=True):
    """Reads a script; WorkflowError with its errors. The result is empty."""

    script: Any

    def perform(self, policy: Policy) -> bytes:
        script_from(self.script)
        return b""


# Plans of runs.


class LoopRule(Struct, frozen=True, kw_only=True):
    """How a `loop` node decides whether there is another round."""

    node: str
    """The id of the node."""
    max_rounds: int
    """The most rounds."""
    exit_on_score: float | None
    """The score that ends the loop; null if none does."""
    patience: int | None
    """So many rounds in a row without a gain end the loop; null if they do not."""
    min_delta: float
    """What counts as a gain."""
    keep: str
    """Which output it keeps: `last` or `best`."""


class RunPlan(Struct, frozen=True, kw_only=True):
    """What a run executes, as it was started: the same for its whole life."""

    workflow: str
    """The name of the workflow."""
    drawing: Drawing
    """Where everything is."""
    loops: tuple[Proof, ...]
    """What bounds each loop."""
    forecast: Forecast
    """What a run takes, at worst and usually."""
    decisions: tuple[LoopRule, ...]
    """How each `loop` node decides."""
    speakers: tuple[str, ...]
    """The ids of nodes whose output is written by a model or a person."""
    limits: dict[str, Any]
    """The limits of the whole run."""
    novelty: float | None
    """Messages that are less new than this are repetitions, and trip the breaker; null if they do not."""
    window: int
    """So many of them."""
    token_factor: float | None
    """The breaker trips at so many times the tokens of the forecast; null if it does not."""
    time_limit: float | None
    """The seconds of work after which the breaker trips; null if it does not."""


class DrawRun(Job, frozen=True, kw_only=True):
    """What a run executes, from what is stored with it; StoreError."""

    pinned: Pinned
    density: Density

    def perform(self, policy: Policy) -> bytes:
        plan = pinned_plan(self.pinned)
        breaker = plan.breaker
        loops = [(node.id, node.config) for node in plan.sites if isinstance(node.config, LoopConfig)]
        found = RunPlan(
            workflow=plan.workflow.name,
            drawing=draw(plan, density=self.density),
            loops=tuple(prove(plan)),
            forecast=forecast(plan, pricing(plan.workflow.models)),
            decisions=tuple(
                LoopRule(
                    node=name,
                    max_rounds=config.max_rounds,
                    exit_on_score=config.exit_on_score if (config.exit_on_score or 0) > 0 else None,
                    patience=config.patience,
                    min_delta=config.min_delta,
                    keep=config.keep,
                )
                for name, config in loops
            ),
            speakers=tuple(sorted({node.id for node in plan.sites if node.kind.speaks or node.kind.asks})),
            limits=msgspec.to_builtins(plan.limits),
            novelty=breaker.threshold if breaker.detects_dead_loops else None,
            window=breaker.window,
            token_factor=breaker.factor if breaker.enabled and breaker.token_surge else None,
            time_limit=plan.time_limit if plan.time_limit < NO_TIME_LIMIT else None,
        )
        return msgspec.json.encode(found, enc_hook=str)
