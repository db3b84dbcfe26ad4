"""`roundel run --record` stores the replies of real models as a script that can be replayed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml

import roundel
from tests.cli.test_run import roundel as command
from tests.llm.wire import Reply, Wire

FLOW = """
models:
  default: {model: "openai:gpt-4o", base_url: "%s", api_key: k}
graph:
  start: Writer
  end: Critic
  nodes:
    - {id: Writer, type: agent, config: {tools: [shout]}}
    - {id: Critic, type: agent}
  edges: [{from: Writer, to: Critic}]
tools: {shout: {python: "shouting:shout"}}
"""
SHOUTING = "def shout(text: str) -> str:\n    return text.upper()\n"
REPLIES = (Reply(tool_calls=(("c1", "shout", {"text": "tea"}),)), Reply("a draft"), Reply("好茶"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shouting.py").write_text(SHOUTING)
    return tmp_path


def flow(folder: Path, wire: Wire) -> Path:
    file = folder / "flow.yaml"
    file.write_text(FLOW % wire.openai_url)
    wire.replies(*REPLIES)
    return file


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return command(folder, "run", "flow.yaml", "--input", "tea", *options)


def test_recorded_replies_replay_as_a_script(folder: Path) -> None:
    with Wire() as wire:
        flow(folder, wire)
        first = run(folder, "--record", "said.yaml")
    assert (first.returncode, first.stdout) == (0, "好茶\n"), first.stderr
    said = yaml.safe_load((folder / "said.yaml").read_text(encoding="utf-8"))
    assert [line["at"] for line in said["Writer"]] == ["Writer", "Writer"]
    assert said["Critic"][0]["text"] == "好茶"
    again = run(folder, "--script", "said.yaml")
    assert (again.returncode, again.stdout) == (0, "好茶\n"), again.stderr
    assert not list(folder.glob("*.part"))


def test_python_api_records_replies(folder: Path) -> None:
    kept = folder / "said.yaml"
    with Wire() as wire:
        assert roundel.run(flow(folder, wire), "tea", record=kept).output == "好茶"
    assert roundel.run(folder / "flow.yaml", "tea", script=kept).output == "好茶"
    with pytest.raises(ValueError, match="with script= no model is called"):
        roundel.run(folder / "flow.yaml", "tea", script=kept, record=kept)
    with pytest.raises(OSError, match=r"nowhere/said\.yaml' cannot be written: No such file"):
        roundel.run(folder / "flow.yaml", "tea", record=folder / "nowhere" / "said.yaml")


def test_failed_run_still_writes_its_record(folder: Path) -> None:
    with Wire() as wire:
        flow(folder, wire)
        wire.replies(*REPLIES[:2], Reply(status=400))
        done = run(folder, "--record", "said.yaml", "--json")
    assert done.returncode == 1
    said = yaml.safe_load((folder / "said.yaml").read_text())
    assert said["Writer"][1]["text"] == "a draft"
    assert "400" in said["Critic"][0]["error"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--record", "said.yaml", "--script", "said.yaml"], "with --script no model is called"),
        (["--record", "nowhere/said.yaml"], "the record 'nowhere/said.yaml' cannot be written: No such"),
        (["--record", "."], "not a file"),
        (["--record", os.devnull], "not a file"),
    ],
)
def test_invalid_record_option_is_rejected_before_any_model_call(
    folder: Path, options: list[str], said: str
) -> None:
    (folder / "said.yaml").write_text("Writer: kept\n")
    with Wire() as wire:
        flow(folder, wire)
        done = run(folder, *options)
        assert not wire.requests
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr and "Traceback" not in done.stderr
    assert (folder / "said.yaml").read_text() == "Writer: kept\n"


def test_unwritable_record_does_not_lose_the_result(folder: Path) -> None:
    (folder / "shouting.py").write_text(
        "import pathlib\n\n\ndef shout(text: str) -> str:\n    kept = pathlib.Path('said.yaml')\n"
        "    kept.unlink(missing_ok=True)\n    kept.mkdir()\n    return text\n"
    )
    with Wire() as wire:
        flow(folder, wire)
        done = run(folder, "--record", "said.yaml")
    assert (done.returncode, done.stdout) == (0, "好茶\n"), done.stderr
    assert "the record 'said.yaml' could not be written" in done.stderr
