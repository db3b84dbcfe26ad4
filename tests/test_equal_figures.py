"""One run, one set of figures: of the kernel, the view, the figures of rounds, the command line, HTTP, and
telemetry."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from roundel.cli import cli
from roundel.extend import Attachment
from roundel.kernel.events import Event
from roundel.kernel.payloads import ModelCallEnded, RunFinished, RunUsage, ToolCallEnded
from roundel.runs.rounds import loop_rounds
from roundel.runs.view import ViewSnapshot
from roundel.telemetry.metrics import MetricsAggregator, MetricsSink
from roundel.workflow.limits import dollars, picodollars
from roundel.workflow.policy import Policy
from tests.conformance.test_streams import STREAMS
from tests.docs.offline import EXAMPLES, TIMED, copy_examples
from tests.runs.test_fold import kernel_name
from tests.server.api import serving
from tests.telemetry.in_memory import RecordedTelemetry, attributes_of
from tools.streams import NO_STREAM, view_of

ENDED = {name: events for name, events in STREAMS.items() if isinstance(events[-1].data, RunFinished)}
NAMES = sorted(
    name for path in EXAMPLES.glob("*/workflow.yaml") if (name := path.parent.name) not in (*NO_STREAM, TIMED)
)
"""The examples, without the one whose rounds depend on the time."""


FUNCTIONS = (
    *("shop:sales", "shop:order", "typesetting:set_in_lines"),
    *(
        f"functions:{name}"
        for name in ("measure", "ask_politely", "without_quotes", "shorten", "is_friendly")
    ),
)
"""What the operator of the server allows."""


class Counts(MetricsSink):
    """What metrics say: of calls that were answered, and of rounds."""

    def __init__(self) -> None:
        self.rounds: Counter[str] = Counter()
        self.calls = self.tokens = self.cost = self.tools = 0

    def on_round_started(self, loop: str) -> None:
        self.rounds[loop] += 1

    def on_model_call(
        self,
        workflow: str,
        model: str,
        input_tokens: int | None,
        output_tokens: int | None,
        cost: float | None,
        seconds: float | None,
    ) -> None:
        self.calls += 1
        self.tokens += (input_tokens or 0) + (output_tokens or 0)
        self.cost += picodollars(cost or 0.0)

    def on_tool_call(self, tool: str, agent: str, status: str, seconds: float | None) -> None:
        self.tools += status in ("completed", "failed")


def rounds_per_loop(view: ViewSnapshot) -> Counter[str]:
    return Counter(kernel_name(loop) for loop in view.loops for _ in loop.rounds)


def tokens_of(usage: RunUsage) -> int:
    return usage.input_tokens + usage.output_tokens


def end_of(events: list[Event]) -> RunFinished:
    data = events[-1].data
    assert isinstance(data, RunFinished)
    return data


def assert_equal_figures(events: list[Event]) -> None:
    """The kernel, the view, the figures of rounds, and metrics."""
    end, view = end_of(events), view_of(events)
    assert view.usage == end.usage
    assert rounds_per_loop(view) == Counter(
        {name: one.rounds for name, one in end.loops.items() if one.rounds}
    )
    for figures in loop_rounds(events):
        shown = [one for loop in view.loops if loop.loop == figures.loop for one in loop.rounds]
        known = {one.address: one for one in shown}
        assert set(known) == {one.address for one in figures.rounds}
        for one in figures.rounds:
            same = known[one.address]
            assert (one.score, one.tokens, one.status) == (same.score, tokens_of(same.usage), same.status)
    counts = Counts()
    metrics = MetricsAggregator(counts)
    for event in events:
        metrics.observe(event)
    assert counts.rounds == Counter(loop.loop for loop in view.loops for _ in loop.rounds)
    assert (counts.tokens, dollars(counts.cost)) == (tokens_of(end.usage), end.usage.cost_usd or 0.0)
    failed = sum(isinstance(event.data, ModelCallEnded) and event.data.status == "failed" for event in events)
    assert counts.calls + failed == end.usage.model_calls
    called = [event.data for event in events if isinstance(event.data, ToolCallEnded) and event.data.called]
    assert len(called) == end.usage.tool_calls
    calls = [one for execution in view.executions.values() for one in execution.calls]
    made = [one for one in calls if one.status in ("completed", "failed") and not one.cached]
    assert len(made) == end.usage.model_calls
    tools = [one for execution in view.executions.values() for one in execution.tools]
    assert sum(one.called for one in tools) == end.usage.tool_calls


@pytest.mark.parametrize("name", ENDED)
def test_readers_of_events_have_the_figures_of_the_kernel(name: str) -> None:
    assert_equal_figures(ENDED[name])


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_examples(tmp_path_factory.mktemp("figures"))


async def served(place: Path, watch: RecordedTelemetry) -> tuple[list[Event], dict[str, Any]]:
    """The events of an example, and what a server answers about it."""
    async with serving(policy=Policy(functions=FUNCTIONS, files=(str(place),))) as server:
        runs, client = server.context.runs, await server.client("viewer")
        attach = Attachment(middleware=[watch.telemetry])
        source, script = place / "workflow.yaml", place / "script.yaml"
        run_id = await runs.start(source, "tea", script=script, attach=attach)
        await runs.result(run_id)
        path = f"/api/v1/runs/{run_id}"
        answers = {part: (await client.get(path + part)).json() for part in ("", "/view", "/rounds")}
        return list(await runs.events(run_id)), answers


@pytest.mark.parametrize("name", NAMES)
def test_an_example_has_the_same_figures_everywhere(
    name: str, examples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, watch = examples / name, RecordedTelemetry()
    monkeypatch.syspath_prepend(str(place))  # a server imports functions from its own path
    events, answers = asyncio.run(served(place, watch))
    assert_equal_figures(events)
    end = end_of(events)
    usage = events[-1].fields()["usage"]

    row, view, rounds = answers[""], answers["/view"], answers["/rounds"]
    assert row["usage"] == usage and view["usage"] == usage
    totals = {one.loop: len(one.rounds) for one in loop_rounds(events)}
    assert {one["loop"]: one["rounds"] for one in row["results"]} == totals
    assert {one["loop"]: len(one["rounds"]) for one in rounds} == totals
    scores = [one["score"] for loop in rounds for one in loop["rounds"]]
    assert scores == [one.score for loop in loop_rounds(events) for one in loop.rounds]

    shown = [attributes_of(span) for span in watch.spans]
    chats = [one for one in shown if one.get("gen_ai.operation.name") == "chat"]
    made = [one for one in chats if one["roundel.status"] in ("completed", "failed")]
    assert len(made) == end.usage.model_calls
    assert sum(
        one.get("gen_ai.usage.input_tokens", 0) + one.get("gen_ai.usage.output_tokens", 0) for one in chats
    ) == tokens_of(end.usage)

    command = ["run", str(place / "workflow.yaml"), "--script", str(place / "script.yaml")]
    plain = CliRunner().invoke(cli, [*command, "--input", "tea"]).output
    counts = {"model": end.usage.model_calls, "tool": end.usage.tool_calls}
    for kind, count in counts.items():
        assert not count or re.search(rf" {count} {kind} calls?\b", plain), plain
    tokens = tokens_of(end.usage)
    assert not tokens or f" · {tokens:,} tokens" in plain or f" · {tokens} tokens" in plain, plain
    done = CliRunner().invoke(cli, [*command, "--input", "tea", "--json"])
    summary = json.loads(done.stdout.splitlines()[-1])["data"]
    assert summary["usage"] == usage
    assert {key: one["rounds"] for key, one in summary["loops"].items()} == totals
