"""Reads every run of a store like a machine whose libraries decide differently, and prints the result.

It runs as a process of its own, in a folder of its own, with an empty environment: whatever a run needed to
happen (its files, its variables, its keys, its code) is not there. What decides anything raises.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import unicodedata
import zlib
from pathlib import Path
from typing import Any, NoReturn

import roundel.workflow.expression
import roundel.workflow.functions
import roundel.workflow.loader
from roundel.hosts.stored_run import open_run, read_events
from roundel.journal.sqlite import SqliteStore
from roundel.kernel import dead_loop, token_surge
from roundel.kernel.events import encode_event
from roundel.nodes import consensus, score, vote
from roundel.runs.forking import replay
from roundel.runs.memory import quarantine
from roundel.workflow import condition, pattern


def decides(*_arguments: Any, **_named: Any) -> NoReturn:
    raise AssertionError("a stored run was decided again")


def break_libraries() -> None:
    for module in (zlib,):
        module.compress = decides  # type: ignore[attr-defined]
        module.compressobj = decides  # type: ignore[attr-defined]
    for name in ("compile", "match", "search", "fullmatch", "sub", "split", "findall", "finditer"):
        setattr(re, name, decides)
    for name in ("category", "name", "normalize", "bidirectional"):
        setattr(unicodedata, name, decides)
    places: list[tuple[Any, tuple[str, ...]]] = [
        (roundel.workflow.expression, ("_load_cel", "_compile")),
        (roundel.workflow.loader, ("examine", "examine_mapping", "read_dotenv", "read_file")),
        (
            roundel.workflow.functions,
            ("import_by_name", "import_file", "load_entry_point", "entry_points", "find_module_spec"),
        ),
        (pattern, ("Pattern", "compile_pattern")),
        (condition, ("contains_word",)),
        (token_surge, ("expected_usage", "expected_calls")),
        (dead_loop, ("judge", "judge_round", "judge_rounds", "repetitions")),
        (consensus, ("is_agreement", "read_ballot")),
        (vote, ("read_ballot",)),
        (score, ("Expression", "compile_pattern")),
    ]
    for module, names in places:
        for name in names:
            assert hasattr(module, name), (module, name)
            setattr(module, name, decides)


async def read(place: Path) -> dict[str, Any]:
    store, found = SqliteStore(place), {}
    for row in await store.rows():
        run = await open_run(store, row.id)
        found[row.id] = {
            "events": [json.loads(encode_event(event)) for event in await read_events(store, row.id)],
            "status": [row.status, run.state.status],
            "summary": run.state.summary(),
            "given": [one.content for one in await quarantine(store, row.id)],
        }
    await store.close()
    return found


async def replayed(place: Path) -> dict[str, str]:
    """Where each run would go another way; here with the libraries at work."""
    store = SqliteStore(place)
    found = {row.id: str(await replay(store, row.id, warnings=[])) for row in await store.rows()}
    await store.close()
    return found


if __name__ == "__main__":
    differences = asyncio.run(replayed(Path(sys.argv[1])))
    break_libraries()
    print(json.dumps({"runs": asyncio.run(read(Path(sys.argv[1]))), "differences": differences}))
