"""A stored run is read on another machine: without its files, its environment and its code, and with
libraries that would decide otherwise (other_machine.py)."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.journal.store import Store
from roundel.kernel.unlock import CHECKS
from roundel.runs.lookup import resolve_store
from tests.runs.other_machine import read
from tests.runs.test_decisions import CASES, edge, graph

CODE = """
import roundel

class Stamp(roundel.Middleware):
    def __init__(self, word):
        self.word = word
    def after(self, visit, messages):
        return [f"{message.text} {self.word}" for message in messages]

def is_short(message):
    return len(message.text) < 60

def shout(message):
    return message.text.upper()

def count(text):
    return {"words": len(text.split())}
"""
FLOW = """
vars: {subject: "${SUBJECT}", tone: plain}
models: {default: {provider: openai, name: m, api_key: "${SERVICE_KEY}"}}
middleware: [{name: "code:Stamp", config: {word: "${WORD}"}}]
memory: {group_id: "${GROUP}"}
graph:
  start: Writer
  end: Count
  initial_instruction: "about ${subject}"
  nodes:
    - {id: Writer, type: agent, config: {role: "Write about ${subject}, ${tone}."}}
    - {id: Inner, type: subgraph, config: {type: file, config: {path: inner.yaml}}}
    - {id: Count, type: python, config: {function: "code:count"}}
  edges:
    - from: Writer
      to: Inner
      condition: "code:is_short"
      process: {type: function, config: {name: "code:shout"}}
    - {from: Inner, to: Count}
"""
INNER = """
graph:
  start: Critic
  end: Done
  nodes:
    - {id: Critic, type: agent}
    - {id: Guard, type: loop_counter, config: {max_iterations: 3}}
    - {id: Done, type: passthrough}
  edges:
    - {from: Critic, to: Critic, condition: {cel: "round < 9"}}
    - {from: Critic, to: Guard}
    - {from: Guard, to: Critic}
    - {from: Guard, to: Done}
"""
SECRET = "sk-0123456789abcdef"
Runs = Callable[[Store, Path], Any]


async def from_a_file(store: Store, home: Path) -> None:
    """Variables, environment, .env, a subgraph file, functions on edges, middleware and memory."""
    script = {"Writer": "a text about tea", "Critic": ["one", "two", "three"]}
    result = await roundel.run_async(home / "flow.yaml", "go", script=script, store=store)
    assert (result.status, result.output) == ("completed", '{"words": 7} indeed'), result.error


async def from_python(store: Store, _home: Path) -> None:
    """Functions that belong to the workflow alone, a pure one, and middleware that is no part of it."""

    class Louder(roundel.Middleware):
        def after(self, _visit: Any, messages: Any) -> Any:
            return [f"{message.text}!" for message in messages]

    roundel.condition("is_even", pure=True)(lambda message: len(message.text) % 2 == 0)
    made = roundel.Graph(start="A", end="B")
    made.node("A", "python", function=lambda text: text + "?").node("B", "passthrough")
    made.edge("A", "B", condition="is_even", process=lambda message: message.text.title())
    result = await roundel.run_async(made, "teas", store=store, middleware=[Louder()])
    assert (result.status, result.output) == ("completed", "Teas?!!"), result.error


async def locked_and_unlocked(store: Store, _home: Path) -> None:
    for case in ("dead loop", "pattern"):
        workflow, script = CASES[case]
        locked = await roundel.run_async(workflow, "go", script=script, store=store, limits={"steps": 3})
        assert locked.status == "suspended_locked"
        runs = roundel.Runs(store)
        await runs.unlock(locked.run_id, "looked into it", checks=CHECKS, limits={"steps": 9}, execute=False)
        await runs.resume(locked.run_id)
        await runs.fork(
            locked.run_id, "A[1]/B" if case == "dead loop" else "Writer[1]/Critic", message="another word"
        )
        await runs.resume("last")


async def asked_and_paused(store: Store, _home: Path) -> None:
    human = {"id": "Ask", "type": "human", "config": {"description": "Well?"}}
    asking = graph([human, {"id": "End", "type": "passthrough"}], [edge("Ask", "End")])
    runs = roundel.Runs(store)
    for how in ("waiting", "answered", "paused", "stopped"):
        run_id = (await roundel.run_async(asking, "go", store=store)).run_id
        if how == "answered":
            await runs.answer(run_id, "yes", execute=False)
            await runs.resume(run_id)
        elif how == "paused":
            await runs.pause(run_id, "lunch")
        elif how == "stopped":
            await runs.stop(run_id, "enough")


async def of_each_kind(store: Store, _home: Path) -> None:
    for workflow, script in CASES.values():
        await roundel.run_async(workflow, "go", script=script, store=store)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    for name, text in (("code.py", CODE), ("flow.yaml", FLOW), ("inner.yaml", INNER)):
        (folder / name).write_text(text)
    (folder / ".env").write_text("WORD=indeed\n")
    for name, value in (("SUBJECT", "tea"), ("SERVICE_KEY", SECRET), ("GROUP", "friends")):
        monkeypatch.setenv(name, value)
    return folder


@pytest.mark.parametrize(
    "made", [from_a_file, from_python, locked_and_unlocked, asked_and_paused, of_each_kind]
)
def test_a_run_is_the_same_on_another_machine(made: Runs, home: Path, tmp_path: Path) -> None:
    async def story() -> Any:
        store = resolve_store(home / "runs.db")
        await made(store, home)
        await store.close()
        return await read(home / "runs.db")

    here = asyncio.run(story())
    assert here and SECRET not in json.dumps(here)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.move(home / "runs.db", elsewhere / "runs.db")
    shutil.rmtree(home)
    there = read_elsewhere(elsewhere)
    assert there["runs"] == here
    assert set(there["differences"].values()) == {"None"}


def read_elsewhere(folder: Path) -> Any:
    program = [sys.executable, "-m", "tests.runs.other_machine", str(folder / "runs.db")]
    root = Path(__file__).parents[2]
    done = subprocess.run(
        program, cwd=folder, env={"PYTHONPATH": str(root)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert [path.name for path in folder.iterdir()] == ["runs.db"]  # reading leaves nothing behind
    return json.loads(done.stdout)
