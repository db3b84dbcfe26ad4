"""A workflow with a canary in each place where a secret may stand, and all places where none may be seen."""

from __future__ import annotations

import base64
import json
import logging
import sqlite3
import traceback
import zlib
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import roundel
from roundel.cli import cli
from roundel.journal.run_journal import DICTIONARY
from roundel.nodes.loading import load
from tests.llm.wire import Reply, Wire

SOURCES = (
    *("api_key", "header", "url_password", "url_query", "agent_key"),
    *("mcp_argument", "mcp_env", "mcp_header", "mcp_url"),
    *("variable_by_name", "marked", "marked_outside", "given", "environment", "unused", "dotenv"),
)
ODD = ("marked", "variable_by_name", "mcp_argument", "marked_outside", "given", "environment", "unused")
"""They hold characters that JSON, URLs and `repr` write in another way. Not all places can hold such."""


def core(source: str) -> str:
    """What is looked for: it is written alike in JSON, in URLs and by `repr`."""
    return f"canary-{source.replace('_', '-')}-5e8d"


CANARIES = {source: core(source) + (' "ä\\' if source in ODD else "") for source in SOURCES}
BASIC = {
    f"{source} as Basic": base64.b64encode(f"ann:{CANARIES[source]}".encode()).decode()
    for source in ("url_password", "mcp_url")
}
SOUGHT = {**{source: core(source) for source in SOURCES}, **BASIC}
EVERYTHING = "; ".join(CANARIES.values())
PORT = 9
"""Nobody answers there."""


# Code of the workflow, which gives away whatever it can.


def leak() -> dict[str, Any]:
    """Looks something up."""
    return {**CANARIES, EVERYTHING: 1, **BASIC}


def crash() -> str:
    """Never works."""
    raise RuntimeError(f"no way to {EVERYTHING} and {CANARIES}")


def shout() -> roundel.Message:
    """Gives code that the next node runs."""
    code = (
        "import os, sys\n"
        "for name in ('HOUSE_SECRET', 'UNUSED_API_KEY', 'marked_outside'):\n"
        "    print(os.environ[name])\n"
        "    print(os.environ[name], file=sys.stderr)\n"
        "sys.exit(3)\n"
    )
    return roundel.Message(code, "assistant", {"found": [CANARIES], "confidence": 1}, {"note": EVERYTHING})


def fails() -> str:
    raise ValueError(f"{EVERYTHING!r} and {json.dumps(CANARIES)}")


def is_open(_message: roundel.Message) -> bool:
    raise ValueError(EVERYTHING)


class Gossip(roundel.Middleware):
    """Tells of everything; `fail` makes it fail at a moment."""

    def __init__(self, fail: str = "") -> None:
        self.fail = fail

    def _maybe(self, moment: str) -> None:
        if self.fail == moment:
            raise ValueError(EVERYTHING)

    def begin(self, *_: Any) -> None:
        self._maybe("begin")

    def before(self, visit: roundel.Visit) -> None:
        self._maybe("before")

    def after(self, visit: roundel.Visit, messages: tuple[roundel.Message, ...]) -> None:
        self._maybe("after")
        visit.tell("warning", message=EVERYTHING, data=CANARIES)

    def observe(self, event: roundel.Event) -> None:
        self._maybe("observe")

    async def close(self, run_id: str) -> None:
        self._maybe("close")


class World:
    """A folder with the workflow, and everything that was seen of its runs."""

    def __init__(
        self, folder: Path, wire: Wire, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        self.folder, self.wire, self._caplog, self._monkeypatch = folder, wire, caplog, monkeypatch
        self.file, self.store, self.record = folder / "flow.json", folder / "runs.db", folder / "record.yaml"
        self.seen: dict[str, str] = {}
        monkeypatch.chdir(folder)
        monkeypatch.setenv("ROUNDEL_CACHE", str(folder / "cache"))
        monkeypatch.setenv("HOUSE_SECRET", CANARIES["environment"])
        monkeypatch.setenv("UNUSED_API_KEY", CANARIES["unused"])
        monkeypatch.setenv("marked_outside", CANARIES["marked_outside"])
        (folder / ".env").write_text(f"DOTENV_TOKEN={CANARIES['dotenv']}\n")
        caplog.set_level(logging.DEBUG)
        caplog.set_level(logging.DEBUG, "roundel")
        self.write()

    @property
    def variables(self) -> dict[str, str]:
        return {"GIVEN_PASSWORD": CANARIES["given"]}

    def workflow(self) -> dict[str, Any]:
        url = self.wire.openai_url.replace("://", f"://ann:{CANARIES['url_password']}@")
        agent = {
            "role": "You know ${HOUSE_SECRET}.",
            "prompt": "Use ${FILE_TOKEN}, ${marked}, ${marked_outside}, ${GIVEN_PASSWORD}, ${DOTENV_TOKEN}.",
            "tools": ["leak", "crash"],
            "stream": True,
            "retry": {"enabled": False},
            "cache": True,
        }
        second = {
            "model": "openai:gpt-4o",
            "base_url": self.wire.openai_url,
            "api_key": CANARIES["agent_key"],
            "retry": {"enabled": False},
        }
        template = {"pattern": "(?s).*", "template": "{match} ${FILE_TOKEN}"}
        nodes: list[dict[str, Any]] = [
            {"id": "Note", "type": "literal", "config": {"content": "a note: ${FILE_TOKEN} ${marked}"}},
            {"id": "Agent", "type": "agent", "config": agent},
            {"id": "Second", "type": "agent", "config": second},
            {"id": "Shout", "type": "python", "config": {"function": "tests.llm.canaries:shout"}},
            {"id": "Program", "type": "python"},
            {"id": "Editor", "type": "human", "config": {"description": "Is ${FILE_TOKEN} right?"}},
            {"id": "Last", "type": "passthrough"},
        ]
        names = [node["id"] for node in nodes]
        edges: list[dict[str, Any]] = [{"from": one, "to": other} for one, other in pairwise(names)]
        edges[0]["process"] = {"type": "regex_extract", "config": template}
        edges[5]["condition"] = {"cel": "text != '${GIVEN_PIN}'"}
        return {
            "vars": {
                "FILE_TOKEN": CANARIES["variable_by_name"],
                "GIVEN_PIN": "none",
                "marked": {"value": CANARIES["marked"], "secret": True},
                "marked_outside": {"secret": True},
                "ARGUMENT_KEY": CANARIES["mcp_argument"],
            },
            "models": {
                "default": {
                    "model": "openai:gpt-4o",
                    "base_url": url,
                    "api_key": CANARIES["api_key"],
                    "headers": {"X-Gateway": f"Bearer {CANARIES['header']}"},
                },
                "other": {
                    "model": "openai:gpt-4o",
                    "base_url": f"https://host/v1?key={CANARIES['url_query']}",
                },
            },
            "tools": {
                "leak": {"python": "tests.llm.canaries:leak"},
                "crash": {"python": "tests.llm.canaries:crash"},
                "near": {
                    "mcp": {
                        "command": "python3",
                        "args": ["-c", DYING, "${ARGUMENT_KEY}"],
                        "env": {"WORD": CANARIES["mcp_env"]},
                    }
                },
                "far": {
                    "mcp": {
                        "url": f"http://ann:{CANARIES['mcp_url']}@127.0.0.1:{PORT}/mcp",
                        "headers": {"Authorization": f"Bearer {CANARIES['mcp_header']}"},
                    }
                },
            },
            "memory": {"group_id": "team"},
            "graph": {"id": "canaries", "start": ["Note"], "end": ["Last"], "nodes": nodes, "edges": edges},
        }

    def write(self, **changes: Any) -> dict[str, Any]:
        """Writes the workflow; `changes` are made to the configs of nodes, by their ids."""
        source = self.workflow()
        for node in source["graph"]["nodes"]:
            node.setdefault("config", {}).update(changes.get(node["id"], {}))
        self.file.write_text(json.dumps(source))
        return source

    def give_again(self) -> None:
        """Whoever resumes the run gives the secrets that are not stored with it."""
        for name, value in load(self.file, self.variables).secrets.items():
            self._monkeypatch.setenv(name, value)

    def cli(self, *words: str) -> Result:
        result = CliRunner().invoke(cli, [*words])
        name = f"output of {words[0]} ({len(self.seen)})"
        self.seen[name] = result.stdout + result.stderr
        if result.exc_info is not None:
            self.seen[f"traceback of {name}"] = "".join(traceback.format_exception(*result.exc_info))
        return result

    def run(self, *options: str, text: str = EVERYTHING) -> Result:
        given = f"GIVEN_PASSWORD={CANARIES['given']}"
        stored = () if "--no-store" in options else ("--store", str(self.store))
        return self.cli("run", str(self.file), "-i", text, "--var", given, *stored, *options)

    def stored(self, *words: str) -> Result:
        return self.cli(*words, "--store", str(self.store))

    def look_everywhere(self) -> None:
        """All that can be looked at of the last run."""
        for words in (["log", "last"], ["log", "last", "--json"], ["runs"], ["runs", "--json"]):
            self.stored(*words)
        self.stored("memory", "list", "--group", "team", "--json")
        self.stored("memory", "quarantine", "last", "--json")

    def sinks(self) -> Iterator[tuple[str, str]]:
        yield from self.seen.items()
        for record in self._caplog.records:
            formatted = logging.Formatter("%(message)s").format(record)
            yield f"log of {record.name}", f"{formatted} {record.args!r} {record.exc_text}"
        own = {self.file, self.folder / ".env"}
        for path in self.folder.rglob("*"):
            if path.is_file() and path not in own:
                yield f"file {path.name}", path.read_bytes().decode("utf-8", "replace")
        if self.store.exists():
            yield from rows(self.store)

    def check(self) -> None:
        """No canary is anywhere."""
        found = [
            f"{source} in {sink}: …{text[max(0, text.index(sought) - 80) :][:200]}…"
            for sink, text in self.sinks()
            for source, sought in SOUGHT.items()
            if sought in text
        ]
        assert not found, "\n".join([f"{len(found)} leaks", *found[:20]])

    def has_masks(self, *sinks: str) -> None:
        """So that a test does not pass because nothing came there."""
        masked = {sink for sink, text in self.sinks() if "***" in text}
        for wanted in sinks:
            assert any(wanted in sink for sink in masked), f"{wanted} not in {sorted(masked)}"


DYING = "import os, sys; sys.exit('cannot use ' + os.environ['WORD'] + ' nor ' + sys.argv[1])"


def rows(store: Path) -> Iterator[tuple[str, str]]:
    """All that stands in the tables of a store, unpacked."""
    with closing(sqlite3.connect(store)) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            for row in db.execute(f'SELECT * FROM "{table}"'):
                yield f"table {table}", " ".join(_unpacked(value) for value in row)


def _unpacked(value: Any) -> str:
    if not isinstance(value, bytes):
        return str(value)
    for packed, dictionary in ((value, b""), (value[1:], DICTIONARY)):
        try:
            return zlib.decompressobj(zdict=dictionary).decompress(packed).decode("utf-8", "replace")
        except zlib.error:
            continue
    return value.decode("utf-8", "replace")


TOOLS = Reply(tool_calls=(("a1", "leak", {}), ("a2", "crash", {}), ("a3", EVERYTHING, {"what": EVERYTHING})))
SAYS = Reply(text=f"I know {EVERYTHING}", thinking="")
