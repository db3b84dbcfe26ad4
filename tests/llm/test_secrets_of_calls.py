"""No secret of a run is in what is kept of its calls: not in the file, in an answer, or in what a command
prints."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from roundel.cli import cli
from roundel.journal.chunk_rows import unpack_piece
from roundel.runs.runs import Runs
from tests.llm.wire import Reply, Wire
from tests.server.api import serving

KEYS = {
    "api_key": "sk-apikey-0123456789abcdef",
    "header": "hdr-9876543210-fedcba",
    "variable": "blue-heron-4711",
    "environment": "env-5555-4444-3333",
    "parameter": "prm-2222-1111-0000",
}
SAID = " ".join(KEYS.values())


def workflow(wire: Wire) -> dict[str, Any]:
    """An agent with a secret of each kind. All of them are in what the model gets, and the model, the tool
    and the person repeat them."""
    profile = {
        "model": "openai:gpt-4o",
        "base_url": wire.openai_url,
        "api_key": KEYS["api_key"],
        "headers": {"X-Team": f"Team {KEYS['header']}"},
        "params": {"user": KEYS["parameter"], "extra_headers": {"X-Note": KEYS["parameter"]}},
    }
    config = {
        "role": f"Never say ${{planted}}, {KEYS['api_key']} or {KEYS['environment']}.",
        "prompt": f"{{{{text}}}} ${{planted}} {KEYS['header']}",
        "tools": ["look"],
        "approval": ["look"],
        "output_schema": {"type": "object", "description": f"not {KEYS['header']}", "required": ["a"]},
        "retry": {"min_wait_seconds": 0, "max_wait_seconds": 0},
    }
    return {
        "vars": {
            "planted": {"value": KEYS["variable"], "secret": True},
            "parameter": {"value": KEYS["parameter"], "secret": True},
        },
        "models": {"default": profile},
        "tools": {"look": {"python": "tests.llm.tools:look"}},
        "graph": {
            "start": "A",
            "end": "A",
            "nodes": [{"id": "A", "type": "agent", "config": config}],
            "edges": [],
        },
    }


def kept_in(place: Path) -> str:
    """All files of the store as they are, and what is packed in the pieces."""
    raw = b"".join(path.read_bytes() for path in place.parent.iterdir() if path.is_file())
    with sqlite3.connect(place) as database:
        bodies = [unpack_piece(body) for (body,) in database.execute("SELECT body FROM texts")]
    database.close()
    assert len(bodies) > 5
    return (raw + b"\n".join(bodies)).decode("latin-1")


def leaked(text: str) -> list[str]:
    return [kind for kind, key in KEYS.items() if key in text]


def test_no_secret_is_in_what_is_kept_of_a_call(
    wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED_TOKEN", KEYS["environment"])
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "store" / "runs.db"
    wire.replies(
        Reply(text=f"I look. {SAID}", tool_calls=(("a1", "look", {"place": f"Oslo {SAID}"}),)),
        Reply(text=f"no JSON: {SAID}"),
        Reply(text='{"a": "fine"}'),
    )
    (tmp_path / "flow.yaml").write_text(yaml.safe_dump(workflow(wire)))

    async def run() -> str:
        async with Runs(place, on_warnings=None) as runs:
            run_id = await runs.start(tmp_path / "flow.yaml", f"Is it {SAID}?")
            assert (await runs.result(run_id)).status == "waiting"
            await runs.answer(run_id, f'{{"place": "Bergen {SAID}"}}')
            result = await runs.result(run_id)
            assert result.status == "completed", result.error
            return run_id

    run_id = asyncio.run(run())
    sent = "".join(str(request.body) for request in wire.requests)
    assert KEYS["variable"] in sent, "the model got it, so there was something to hide"
    assert not leaked(kept_in(place))
    calls = [("A", 1), ("A", 2), ("A", 3), ("A[1]/look", 1)]

    async def read() -> list[str]:
        found = []
        async with serving(str(place)) as server:
            viewer = await server.client("viewer")
            for address, number in calls:
                path = f"/api/v1/runs/{run_id}/calls/{address}"
                answer = await viewer.get(path, params={"call": number})
                found.append(answer.text)
                shown = answer.json()
                assert shown["complete"], shown["why"]
                parts = [
                    shown[name] for name in ("system", "tools", "schema", "reply", "arguments", "result")
                ]
                for name in ("messages", "exchanges", "after"):
                    parts += shown[name]
                for part in filter(None, parts):
                    page = await viewer.get(path, params={"call": number, "piece": part["piece"]})
                    assert page.status_code == 200
                    found.append(page.text)
        return found

    answers = asyncio.run(read())
    assert any("***" in answer for answer in answers) and not leaked("".join(answers))
    monkeypatch.delenv("PLANTED_TOKEN")  # what a command masks by itself must not be what hides it
    for address, number in calls:
        for form in ([], ["--json"]):
            words = ["log", run_id, "--call", address, "--call-number", str(number), "--store", str(place)]
            printed = CliRunner().invoke(cli, [*words, *form])
            assert printed.exit_code == 0, printed.output
            assert "***" in printed.output and not leaked(printed.output)
