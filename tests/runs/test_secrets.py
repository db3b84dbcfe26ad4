"""Secrets are not stored with a run, whatever their source."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import roundel
from roundel.journal.sqlite import SqliteStore

KEY = "sk-live-0123456789abcdef"
WORKFLOW = """
models:
  default: {{provider: openai, name: m, api_key: "{key}", headers: {{X-Token: "Bearer {key}"}}}}
tools:
  files: {{mcp: {{command: some-server, env: {{TOKEN: "{key}"}}}}}}
graph:
  start: A
  nodes:
    - {{id: A, type: agent, config: {{api_key: "{key}"}}}}
    - {{id: B, type: human}}
  edges: [{{from: A, to: B}}]
"""


def everything_in(place: Path) -> str:
    """The file as it is, and what is packed in it."""
    raw = b"".join(path.read_bytes() for path in place.parent.iterdir() if path.is_file())

    async def facts() -> str:
        store = SqliteStore(place)
        (row,) = await store.rows()
        found = f"{await store.facts(row.id)} {await store.pinned(row.id)} {row}"
        await store.close()
        return found

    return raw.decode("latin-1") + asyncio.run(facts())


def test_a_key_in_the_file_is_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, place = tmp_path / "flow.yaml", tmp_path / "store" / "runs.db"
    file.write_text(WORKFLOW.format(key=KEY))
    assert roundel.run(file, "go", script={"A": "hello"}, store=place).status == "waiting"
    assert KEY not in everything_in(place)
    assert roundel.resume("last", store=place).status == "waiting"  # a script needs no key


@pytest.mark.parametrize("named", ["relatively", "absolutely"])
def test_resume_reads_the_key_again_or_requires_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    file = Path("flow.yaml") if named == "relatively" else tmp_path / "flow.yaml"
    place = tmp_path / "store" / "runs.db"
    file.write_text(WORKFLOW.format(key=KEY).replace("start: A", "start: B"))
    assert roundel.run(file, "go", store=place).status == "waiting"
    assert KEY not in everything_in(place)
    assert roundel.resume("last", store=place).status == "waiting"  # it stands in the file, as it did
    file.write_text(WORKFLOW.format(key="sk-another-one-9876543210").replace("start: A", "start: B"))
    assert roundel.resume("last", store=place).status == "waiting"  # so does the one that replaced it
    file.write_text(file.read_text() + "vars: {more: 1}\n")
    with pytest.raises(roundel.StoreError, match="ROUNDEL_SECRET_1"):
        roundel.resume("last", store=place)
    monkeypatch.setenv("ROUNDEL_SECRET_1", KEY)
    assert roundel.resume("last", store=place).status == "waiting"
    assert KEY not in everything_in(place)


@pytest.mark.parametrize("way", ["variable", "environment"])
def test_key_from_a_variable_or_the_environment_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    file, place = tmp_path / "flow.yaml", tmp_path / "store" / "runs.db"
    file.write_text(WORKFLOW.format(key="${KEY}"))
    variables = {"KEY": KEY} if way == "variable" else {}
    if way == "environment":
        monkeypatch.setenv("KEY", KEY)
    script = {"A": "hello"}
    assert roundel.run(file, "go", script=script, store=place, variables=variables).status == "waiting"
    assert KEY not in everything_in(place)
    monkeypatch.setenv("KEY", KEY)
    assert roundel.resume("last", store=place).status == "waiting"


def test_ordinary_words_as_keys_are_stored(tmp_path: Path) -> None:
    file, place = tmp_path / "flow.yaml", tmp_path / "runs.db"
    file.write_text(WORKFLOW.format(key="ollama"))
    assert roundel.run(file, "go", script={"A": "hello"}, store=place).status == "waiting"
    assert roundel.resume("last", store=place).status == "waiting"


def test_a_key_in_the_replies_of_a_fork_or_a_retry_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", KEY)
    place = tmp_path / "store" / "runs.db"
    node = {
        "id": "A",
        "type": "agent",
        "config": {"api_key": "${SOME_KEY}", "provider": "openai", "name": "m"},
    }
    replies = {"A": [f"my key is {KEY}"]}

    async def story() -> None:
        async with roundel.Runs(place) as runs:
            run_id = await runs.start(
                {"graph": {"nodes": [node], "start": "A"}}, script={"A": [{"error": "x"}]}
            )
            assert (await runs.result(run_id)).status == "failed"
            fork = await runs.fork(run_id, script=replies)
            pinned = await runs.store.pinned(fork)
            assert pinned.script
            assert KEY not in pinned.script
            result = await runs.retry(run_id, script=replies)
            assert result.status == "completed"
            assert KEY not in result.output
            assert KEY not in str(await runs.store.entries(run_id))

    asyncio.run(story())
