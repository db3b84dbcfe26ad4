"""The model of agents that name none is chosen once, when a run starts, and stays with the run.

The provider is a server on loopback, which records the model and the key of each request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.runs.idempotency import IdempotencyConflict
from roundel.runs.runs import Runs
from roundel.workflow.model_profile import ModelChoiceError
from tests.llm.wire import Reply, Wire

GRAPH = """
graph:
  id: tea
  start: Writer
  end: Critic
  nodes:
    - {id: Writer, type: agent}
    - {id: Editor, type: human}
    - {id: Critic, type: agent, config: {retry: {enabled: false}}}
  edges: [{from: Writer, to: Editor}, {from: Editor, to: Critic}]
"""


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    with Wire() as wire:
        wire.replies(Reply("a text"))
        monkeypatch.setenv("OPENAI_BASE_URL", wire.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
        yield wire


@pytest.fixture
def flow(tmp_path: Path) -> Path:
    file = tmp_path / "tea.yaml"
    file.write_text(GRAPH)
    return file


def using(place: Path, story: Callable[[Runs], Awaitable[None]]) -> None:
    async def main() -> None:
        async with Runs(place) as runs:
            await story(runs)

    asyncio.run(main())


async def waiting_run(runs: Runs, flow: Any, **options: Any) -> str:
    """A run that waits for a person, after its first call of a model."""
    run_id = await runs.start(flow, "go", **options)
    assert (await runs.result(run_id)).status == "waiting"
    return run_id


async def finish(runs: Runs, run_id: str) -> roundel.Result:
    await runs.answer(run_id, "fine", execute=False)
    return await runs.resume(run_id)


async def shown_model(runs: Runs, run_id: str) -> Any:
    return (await runs.events(run_id))[0].fields().get("model")


def test_the_file_wins_over_the_option_and_the_option_over_the_environment(
    wire: Wire, flow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROUNDEL_MODEL", "openai:of-the-environment")
    both = flow.with_name("default.yaml")
    both.write_text("models: {default: {model: 'openai:of-the-file'}}\n" + GRAPH)
    shown: list[roundel.Event] = []
    for file, model in ((both, "openai:of-the-option"), (flow, "openai:of-the-option"), (flow, None)):
        roundel.run(file, "go", model=model, on_event=shown.append)
    assert [one.model for one in wire.requests] == ["of-the-file", "of-the-option", "of-the-environment"]
    # Only what was chosen for the run is shown; a profile of the file is part of the file.
    started = [event.fields().get("model") for event in shown if event.event == "run_started"]
    assert started == [None, "openai:of-the-option", "openai:of-the-environment"]


def test_a_run_keeps_its_model_whatever_the_environment_says_later(
    wire: Wire, flow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROUNDEL_MODEL", "openai:first")

    async def story(runs: Runs) -> None:
        run_id = await waiting_run(runs, flow)
        monkeypatch.setenv("ROUNDEL_MODEL", "openai:second")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-rotated")
        assert (await finish(runs, run_id)).status == "completed"
        fork = await runs.fork(run_id, "Critic")
        monkeypatch.delenv("ROUNDEL_MODEL")
        assert (await runs.resume(fork)).status == "completed"
        assert await shown_model(runs, run_id) == await shown_model(runs, fork) == "openai:first"

    using(tmp_path / "runs.db", story)
    assert [one.model for one in wire.requests] == ["first"] * 3
    # The key is not part of the run: each call has that of its environment.
    assert [one.key for one in wire.requests] == ["sk-of-the-environment", "sk-rotated", "sk-rotated"]


def test_a_fork_with_another_file_and_a_retry_with_a_corrected_one_keep_the_model(
    wire: Wire, flow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = flow.with_name("other.yaml")
    other.write_text(GRAPH.replace("retry: {enabled: false}", "retry: {enabled: false}, role: Be kind."))

    async def story(runs: Runs) -> None:
        run_id = await waiting_run(runs, flow, model="openai:first")
        monkeypatch.setenv("ROUNDEL_MODEL", "openai:second")
        fork = await runs.fork(run_id, workflow=other)
        assert (await finish(runs, fork)).status == "completed"
        assert await shown_model(runs, fork) == "openai:first"
        wire.replies(Reply(status=400), Reply("better"))
        assert (await finish(runs, run_id)).status == "failed"
        assert (await runs.retry(run_id, workflow=other)).output == "better"
        assert await shown_model(runs, run_id) == "openai:first"

    using(tmp_path / "runs.db", story)
    assert [one.model for one in wire.requests] == ["first"] * 4
    assert wire.requests[-1].system() == "Be kind."


def test_a_fork_with_a_file_that_names_its_models_needs_no_choice(
    wire: Wire, flow: Path, tmp_path: Path
) -> None:
    named = flow.with_name("named.yaml")
    named.write_text("models: {default: {model: 'openai:of-the-file'}}\n" + GRAPH)

    async def story(runs: Runs) -> None:
        fork = await runs.fork(await waiting_run(runs, flow, model="openai:first"), workflow=named)
        assert (await finish(runs, fork)).status == "completed"
        assert await shown_model(runs, fork) is None

    using(tmp_path / "runs.db", story)
    assert [one.model for one in wire.requests] == ["first", "of-the-file"]


def test_the_file_of_a_run_with_a_chosen_model_still_provides_its_secrets(
    wire: Wire, flow: Path, tmp_path: Path
) -> None:
    """Secrets that a file contains itself are read from it again, if it defines the same workflow."""
    flow.write_text(
        GRAPH.replace("type: agent}", "type: agent, config: {api_key: sk-inside-the-file-0123456789}}")
    )

    async def story(runs: Runs) -> None:
        run_id = await waiting_run(runs, flow, model="openai:first")
        assert (await finish(runs, run_id)).status == "completed"

    using(tmp_path / "runs.db", story)
    assert [one.key for one in wire.requests] == ["sk-inside-the-file-0123456789", "sk-of-the-environment"]


def test_a_repeated_start_finds_its_run_after_the_environment_has_changed(
    wire: Wire, flow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(runs: Runs) -> None:
        monkeypatch.setenv("ROUNDEL_MODEL", "openai:first")
        first = await waiting_run(runs, flow, idempotency_key="k")
        monkeypatch.setenv("ROUNDEL_MODEL", "openai:second")
        assert await runs.start(flow, "go", idempotency_key="k") == first
        with pytest.raises(IdempotencyConflict):
            await runs.start(flow, "go", idempotency_key="k", model="openai:second")

    using(tmp_path / "runs.db", story)
    assert [one.model for one in wire.requests] == ["first"]


def test_a_run_without_a_model_is_refused_before_it_is_stored(flow: Path, tmp_path: Path) -> None:
    async def story(runs: Runs) -> None:
        with pytest.raises(roundel.WorkflowError) as caught:
            await runs.start(flow, "go")
        (found,) = caught.value.diagnostics
        assert (found.code, found.line) == ("cannot-run", 7)
        assert found.message == "agents 'Writer' and 'Critic' have no model"
        with pytest.raises(ModelChoiceError, match="model takes PROVIDER:NAME, not 'gpt-4o'"):
            await runs.start(flow, "go", model="gpt-4o")
        assert await runs.list() == []

    using(tmp_path / "runs.db", story)


def test_a_prepared_workflow_takes_the_model_of_each_run(wire: Wire, flow: Path) -> None:
    prepared = roundel.prepare(flow)
    for model in ("openai:first", "openai:second"):
        roundel.run(prepared, "go", model=model)
    assert [one.model for one in wire.requests] == ["first", "second"]


def test_a_scripted_run_counts_the_price_of_the_chosen_model(flow: Path) -> None:
    script = {"Writer": {"text": "a", "tokens": {"input": 1_000_000, "output": 0}}}
    assert roundel.run(flow, "go", script=script).usage["cost_usd"] is None
    assert roundel.run(flow, "go", script=script, model="openai:gpt-4o").usage["cost_usd"] == 2.5
