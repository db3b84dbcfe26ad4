"""Runs what we ship as a user would: from the file as it is, with a key and an input, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

import roundel
from roundel.nodes.loading import Source
from roundel.plan.graph import Plan, compile_workflow
from roundel.workflow.model_profile import DEFAULT_PROFILE, Profile
from tests.docs.manual import PAGES, Block, blocks
from tests.docs.offline import EXAMPLES
from tests.docs.test_docs import Reader
from tests.reality.audit import Cast
from tests.reality.personas import SEES_NOTHING
from tests.reality.provider import MODEL, Provider
from tests.reality.world import find

MOST_PAUSES = 20
"""A workflow with breakpoints is resumed this often."""


class Started(NamedTuple):
    """What a user would run."""

    source: Source
    input: str


class Played(NamedTuple):
    result: roundel.Result
    cast: Cast
    """Without what only the list of things that ship can say."""


def with_model(source: Source, variables: Mapping[str, Any]) -> Source:
    """The workflow with a default model. It can go as soon as every file that ships names its model, or
    `$ROUNDEL_MODEL` does."""
    workflow = roundel.load(source, variables)
    if DEFAULT_PROFILE in workflow.models:
        return source
    models = {**workflow.models, DEFAULT_PROFILE: Profile(model=MODEL)}
    return msgspec.structs.replace(workflow, models=models)


def play(
    started: Started,
    provider: Provider,
    folder: Path,
    *,
    accepts: str = "OK",
    variables: Mapping[str, Any] | None = None,
) -> Played:
    """Runs it to its end. A person says what the work in front of them lacks, or the word that accepts it."""

    async def ask(question: roundel.Question) -> str:
        work = find("\n".join(message.text for message in question.inputs))
        lacks = work.missing[0].note if work and work.missing else ""
        answer = "yes" if question.tool else lacks or (accepts if work else SEES_NOTHING)
        provider.heard(question.node_id, answer)
        return answer

    with chdir(folder):
        source = with_model(started.source, variables or {})
        plan = compile_workflow(roundel.load(source, variables))
        store = folder / "runs.db"
        given: Any = {} if source is not started.source else {"variables": variables}
        result = roundel.run(source, started.input, ask=ask, store=store, **given)
        for _ in range(MOST_PAUSES):
            if result.status != "paused":
                break
            result = roundel.resume(result.run_id, store=store, ask=ask, workflow=source)
    return Played(result, Cast(roles_of(plan), started.input, notices=notices_of(plan)))


def roles_of(plan: Plan) -> dict[str, str]:
    return {node.id: node.config.role or "" for node in plan.sites if node.kind.name == "agent"}


def notices_of(plan: Plan) -> list[str]:
    guards = (node.config for node in plan.sites if node.kind.name in ("loop_counter", "loop_timer"))
    return [config.message for config in guards if config.message]


# The manual.


def manual_loops() -> dict[str, tuple[Path, Block]]:
    """Every workflow of the manual that has a loop with an agent in it, by page and file. Files that Roundel
    refuses are there to show that it does."""
    found = {}
    for page in PAGES:
        for block in blocks(page):
            name = _python_name(block) if block.kind == "python" else _yaml_name(page, block)
            if name:
                found[f"{page.stem}/{name}"] = (page, block)
    return found


def _python_name(block: Block) -> str:
    """A loop that is built in Python and run with a script, which stands for models."""
    if "script=" not in block.text or not re.search(r"LoopAgent\(|\"loop(_counter|_timer)?\"", block.text):
        return ""
    named = re.search(r"(?:LoopAgent|Graph)\(\s*\"(\w+)\"", block.text)
    return block.file or (named[1] if named else "")


def _yaml_name(page: Path, block: Block) -> str:
    if block.kind != "yaml" or not block.file or "\ngraph:" not in block.text:
        return ""
    # A page may use functions that are not there yet, so only the form counts here.
    repeats = re.search(r"type: (loop|debate|loop_\w+)\b", block.text) or _has_cycle(block.text)
    return block.file if repeats and "type: agent" in block.text and not _is_refused(page, block) else ""


def _has_cycle(text: str) -> bool:
    """Whether some node can be reached from itself."""
    pairs = set(re.findall(r"from: ([\w ]+?),? *(?:\n +)?to: ([\w ]+)", text))
    while True:
        more = {(a, d) for a, b in pairs for c, d in pairs if b == c} - pairs
        if not more:
            return any(a == b for a, b in pairs)
        pairs |= more


def _is_refused(page: Path, block: Block) -> bool:
    """Whether the page shows that `roundel check` finds an error in it."""
    shown = page.read_text(encoding="utf-8")
    return bool(re.search(rf"^{re.escape(block.file)}:[\d:]+ error", shown, re.MULTILINE))


def write_page(page: Path, folder: Path) -> None:
    """All files of a page."""
    reader = Reader(folder)
    for block in blocks(page):
        if block.file:
            reader.try_out(block)


def manual_workflow(page: Path, block: Block, input: str) -> Callable[[Path], Started]:
    def start(folder: Path) -> Started:
        write_page(page, folder)
        if block.kind == "python":
            return started_by(block.text, folder)
        (folder / block.file).write_text(block.text, encoding="utf-8")  # another block may have its name
        return Started(folder / block.file, input)

    return start


class _Captured(Exception):
    def __init__(self, started: Started) -> None:
        self.started = started


def started_by(program: str, folder: Path) -> Started:
    """What a program runs first with a script, which a user would leave out."""

    def run(source: Source, input: str = "", **options: Any) -> None:
        if "script" in options:
            raise _Captured(Started(source, input))

    with pytest.MonkeyPatch.context() as patch, chdir(folder):
        patch.setattr(roundel, "run", run)
        patch.syspath_prepend(str(folder))
        try:
            exec(compile(program, "<manual>", "exec"), {"__name__": "__main__"})
        except _Captured as captured:
            return captured.started
    raise AssertionError("the program runs nothing with a script")


# Files.


def file(text: str, input: str, name: str = "workflow.yaml") -> Callable[[Path], Started]:
    def start(folder: Path) -> Started:
        (folder / name).write_text(text, encoding="utf-8")
        return Started(folder / name, input)

    return start


def example(name: str) -> Callable[[Path], Started]:
    """An example, with the input of the command at its head."""

    def start(folder: Path) -> Started:
        text = (EXAMPLES / name / "workflow.yaml").read_text(encoding="utf-8")
        given = re.search(r'--input "([^"]*)"', text)
        assert given is not None
        return Started(EXAMPLES / name / "workflow.yaml", given[1])

    return start


def example_names() -> Iterator[str]:
    return (path.parent.name for path in sorted(EXAMPLES.glob("*/workflow.yaml")))


def page_block(page: Path, kind: str, number: int = 0) -> Block:
    return [block for block in blocks(page) if block.kind == kind][number]
