"""With the cache enabled, an answered request is not sent again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.llm.story import KEY, LOOK, asking, every_provider, every_way, profile, run_story, workflow
from tests.llm.wire import Reply, Wire

NOTHING = {
    "model_calls": 0,
    "tool_calls": 0,
    "input_tokens": 0,
    "output_tokens": 0,
    "cost_usd": 0,
    "unpriced_calls": 0,
}


@every_provider
@every_way
def test_second_run_is_served_from_the_cache(wire: Wire, provider: str, stream: bool) -> None:
    wire.replies(Reply(text="Quiet."), Reply(text="Loud."))
    source = asking(wire, provider, cache=True, stream=stream)
    assert run_story(source).result.usage["model_calls"] == 1
    story = run_story(source)
    assert (story.result.output, len(wire.requests)) == ("Quiet.", 1)
    assert story.result.usage == {**NOTHING, "cached_calls": 1}
    usage = story.of("model_call")[-1]
    model = profile(wire, provider)["model"]
    known = {"input_tokens": 0, "output_tokens": 0, "model": model, "cost_usd": 0, "cached": True}
    assert known.items() <= usage.items()


@every_provider
def test_tool_rounds_with_signed_thinking_are_cached(wire: Wire, provider: str) -> None:
    wire.replies(Reply(thinking="Where?", tool_calls=LOOK.tool_calls), Reply(text="Quiet."))
    source = asking(wire, provider, "look", cache=True)
    run_story(source)
    story = run_story(source)
    assert (story.result.output, len(wire.requests)) == ("Quiet.", 2)
    assert story.result.usage == {**NOTHING, "tool_calls": 1, "cached_calls": 2}


def test_profile_enables_the_cache_and_an_agent_may_disable_it(wire: Wire) -> None:
    wire.replies(Reply(text="Quiet."))
    models = {"default": profile(wire, cache=True)}
    for _ in range(2):
        run_story(workflow(models))
    assert len(wire.requests) == 1
    run_story(workflow(models, cache=False))
    assert len(wire.requests) == 2


def test_nothing_is_cached_by_default(wire: Wire, tmp_path: Path) -> None:
    wire.replies(Reply(text="Quiet."))
    for _ in range(2):
        run_story(asking(wire))
    assert len(wire.requests) == 2
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("models", "config"),
    [
        ({}, {"role": "Be loud."}),
        ({}, {"params": {"temperature": 1}}),
        ({}, {"prompt": "Louder."}),
        ({"params": {"temperature": 1}}, {}),
        ({"model": "openai:gpt-4o-mini"}, {}),
    ],
    ids=str,
)
def test_different_request_misses_the_cache(
    wire: Wire, models: dict[str, Any], config: dict[str, Any]
) -> None:
    wire.replies(Reply(text="Quiet."), Reply(text="Loud."))
    run_story(asking(wire, cache=True))
    story = run_story(workflow({"default": profile(wire, **models)}, cache=True, **config))
    assert (story.result.output, len(wire.requests)) == ("Loud.", 2)


def test_the_same_name_on_another_server_is_another_model(wire: Wire) -> None:
    wire.replies(Reply(text="Quiet."))
    run_story(asking(wire, cache=True))
    with Wire() as other:
        other.replies(Reply(text="Loud."))
        assert run_story(asking(other, cache=True)).result.output == "Loud."


def test_retry_warnings_are_not_repeated_from_the_cache(wire: Wire) -> None:
    wire.replies(Reply(status=500), Reply(text="Quiet."))
    source = asking(wire, cache=True)
    assert len(run_story(source).warnings) == 1
    assert run_story(source).warnings == []


def test_fallback_reply_is_not_cached(wire: Wire) -> None:
    wire.replies(Reply(status=401), Reply(text="Quiet."), Reply(text="My own words."))
    models = {"default": profile(wire, fallback="second"), "second": profile(wire, "anthropic")}
    assert run_story(workflow(models, cache=True)).result.output == "Quiet."
    assert run_story(workflow(models, cache=True)).result.output == "My own words."


def test_failure_is_not_cached(wire: Wire) -> None:
    wire.replies(Reply(status=400), Reply(text="Quiet."))
    source = asking(wire, cache=True)
    assert run_story(source).result.status == "failed"
    assert run_story(source).result.output == "Quiet."


def test_corrupt_cache_file_is_rewritten(wire: Wire, tmp_path: Path) -> None:
    wire.replies(Reply(text="Quiet."))
    source = asking(wire, cache=True)
    run_story(source)
    (kept,) = (tmp_path / "cache").iterdir()
    whole = kept.read_bytes()
    assert KEY.encode() not in whole
    kept.write_bytes(whole[:20])
    assert run_story(source).result.output == "Quiet."
    assert (len(wire.requests), kept.read_bytes()) == (2, whole)


def test_unwritable_cache_is_a_warning(wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("ROUNDEL_CACHE", str(tmp_path / "file" / "cache"))
    wire.replies(Reply(text="Quiet."))
    story = run_story(asking(wire, cache=True))
    assert story.result.output == "Quiet."
    (warning,) = story.of("warning")
    assert warning["message"].startswith("the reply could not be put into the cache: ")
