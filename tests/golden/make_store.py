"""Makes the store `5c60b12.db`, with the code of that commit:

    python -m tests.golden.make_store FILE

Its runs have every status, and everything that later rules could read differently: loops whose agents see
only their newest message, an array in prose, debates, votes, a fork, a run that was retried with a changed
workflow, a pruned run, a run with a snapshot. `test_golden_stores.py` says what has to become of each.
"""

from __future__ import annotations

import asyncio
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

from roundel.hosts.local import LocalEngine
from roundel.journal.sqlite import SqliteStore
from roundel.runs.runs import Runs

SEEN = "{{ messages.map(m, m.role + ' ' + m.text) }}"
"""A prompt that shows what the agent was given; an agent without a scripted reply repeats it."""


def agent(name: str, **config: Any) -> dict[str, Any]:
    return {"id": name, "type": "agent", "config": config}


def review_loop(rounds: int = 3, **writer: Any) -> dict[str, Any]:
    """A writer and a critic, left by a counter."""
    return {
        "graph": {
            "id": "review",
            "start": "Writer",
            "end": "Final",
            "nodes": [
                agent("Writer", **writer),
                agent("Critic"),
                {"id": "Guard", "type": "loop_counter", "config": {"max_iterations": rounds}},
                {"id": "Final", "type": "passthrough"},
            ],
            "edges": [
                {"from": "Writer", "to": "Critic"},
                {"from": "Critic", "to": "Writer"},
                {"from": "Critic", "to": "Guard"},
                {"from": "Guard", "to": "Writer"},
                {"from": "Guard", "to": "Final"},
            ],
        }
    }


def single(node: dict[str, Any], *after: dict[str, Any]) -> dict[str, Any]:
    """A chain of nodes."""
    nodes = (node, *after)
    edges = [{"from": one["id"], "to": other["id"]} for one, other in pairwise(nodes)]
    return {
        "graph": {
            "id": node["id"],
            "start": node["id"],
            "end": nodes[-1]["id"],
            "nodes": list(nodes),
            "edges": edges,
        }
    }


LONG_LOOP = {
    **review_loop(200, prompt="{{ text }}, round {{ round }}"),
    "breaker": {"dead_loop": False},
    "limits": {"rounds": 300},
}
CRITIC = {"Critic": ["shorter", "warmer", "calmer", "brighter", "softer"]}
DEBATE = {
    "id": "Council",
    "type": "debate",
    "config": {"participants": [agent("Ada"), agent("Bo")], "max_rounds": 2, "exit_condition": "consensus"},
}
VOTE = {"id": "Board", "type": "vote", "config": {"participants": [agent("Ada"), agent("Bo")]}}
EACH = {"id": "Each", "type": "loop_agent", "config": {"strategy": {"mode": "array"}, "body": agent("Say")}}
UNTIL = {
    "id": "Polish",
    "type": "loop_agent",
    "config": {
        "strategy": {"mode": "condition", "until": "text == 'done'", "max": 9},
        "body": agent("Editor", prompt=SEEN),
    },
}
QUESTION = {"id": "Person", "type": "human", "config": {"description": "Is it good?"}}
ECHO = agent("Echo", prompt=SEEN)


async def make(path: Path) -> dict[str, str]:
    """The ids of the runs, by name."""
    ids: dict[str, str] = {}
    store = SqliteStore(path)
    async with Runs(store) as runs:

        async def start(name: str, workflow: dict[str, Any], text: str = "tea", **options: Any) -> None:
            workflow = {**workflow, "graph": {**workflow["graph"], "id": name}}
            ids[name] = await runs.start(workflow, text, **options)
            await runs.result(ids[name])

        await start("completed", review_loop(), script=CRITIC)
        await start(
            "failed", review_loop(), script={"Critic": ["shorter", {"error": "overloaded"}, "calmer"]}
        )
        await start("paused", review_loop(prompt=SEEN), script=CRITIC, breakpoints=["Writer[2]"])
        await start("locked", review_loop(9, prompt=SEEN), script=CRITIC, limits={"model_calls": 5})
        await start(
            "waiting",
            single(DEBATE, QUESTION, ECHO),
            script={"Ada": ["tea", "I agree."], "Bo": ["milk", "I agree."]},
        )
        await start(
            "debate",
            single(DEBATE, ECHO),
            script={"Ada": ["tea", "I agree."], "Bo": ["milk", "I agree."]},
            breakpoints=["Echo"],
        )
        await start("vote", single(VOTE, ECHO), script={"Ada": ["yes"], "Bo": ["yes"]}, breakpoints=["Echo"])
        await start(
            "prose",
            single(EACH, ECHO),
            'Here you are:\n["a", "b"]',
            script={"Say": ["said"]},
            breakpoints=["Echo"],
        )
        await start("until", single(UNTIL), script={"Other": ["unused"]}, breakpoints=["Polish[2]"])
        await start("long", LONG_LOOP, script=CRITIC, breakpoints=["Writer[180]"])
        await start("stopped", review_loop(prompt=SEEN), script=CRITIC, breakpoints=["Writer[2]"])
        await runs.stop(ids["stopped"], "not needed")
        await start("pruned", review_loop(5), script=CRITIC)
        await runs.prune(ids["pruned"], keep="first,last")
        ids["forked"] = await runs.fork(ids["completed"], "Writer[2]")
        await start("revised", review_loop(), script={"Critic": ["shorter", {"error": "overloaded"}]})
        await runs.retry(ids["revised"], limits={"Guard.rounds": 2}, script=CRITIC)
        await start(
            "retried", review_loop(4, prompt=SEEN), script={"Critic": ["shorter", {"error": "overloaded"}]}
        )
        await runs.retry(
            ids["retried"],
            workflow=review_loop(5, prompt=SEEN)
            | {
                "graph": {
                    **review_loop(5, prompt=SEEN)["graph"],
                    "id": "retried",
                    "debug": {"break_at": ["Writer[3]"]},
                }
            },
            script=CRITIC,
        )
    engine = LocalEngine(lambda: store)
    async with Runs(store, engine=engine) as runs:
        slow = {"Critic": [{"text": "shorter", "delay": 60}, "warmer", "calmer"]}
        ids["running"] = await runs.start(
            {**review_loop(prompt=SEEN), "graph": {**review_loop(prompt=SEEN)["graph"], "id": "running"}},
            "tea",
            script=slow,
        )
        async for event in runs.follow(ids["running"]):
            if event.address == "Writer[1]/Critic":
                break
        await engine.release(0)
    await store.close()
    return ids


if __name__ == "__main__":
    made = asyncio.run(make(Path(sys.argv[1])))
    for name, run_id in made.items():
        print(name, run_id)
