"""Which files a workflow may name: those in its folder, and in folders that were allowed."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest
from click.testing import Result

import roundel
from roundel.journal.sqlite import SqliteStore
from tests.cli.stored_runs import roundel as command

INNER = """
graph:
  start: Inner
  end: Inner
  nodes: [{id: Inner, type: literal, config: {content: found}}]
"""
ASKS = "graph: {start: Ask, end: Ask, nodes: [{id: Ask, type: human}]}\n"


def outer(path: str) -> str:
    return f"""
graph:
  start: Sub
  end: Out
  nodes:
    - id: Sub
      type: subgraph
      config: {{type: file, config: {{path: {json.dumps(path)}}}}}
    - {{id: Out, type: passthrough}}
  edges: [{{from: Sub, to: Out}}]
"""


@pytest.fixture
def flows(tmp_path: Path) -> Path:
    """A folder for workflows, with a file inside and one outside of it."""
    folder = tmp_path / "flows"
    (folder / "parts").mkdir(parents=True)
    (tmp_path / "library/deep").mkdir(parents=True)
    (folder / "parts/inner.yaml").write_text(INNER)
    (tmp_path / "library/inner.yaml").write_text(INNER)
    (tmp_path / "library/deep/inner.yaml").write_text(INNER)
    (folder / "file_link.yaml").symlink_to(tmp_path / "library/inner.yaml")
    (folder / "folder_link").symlink_to(tmp_path / "library/deep")
    (folder / "inside_link.yaml").symlink_to("parts/inner.yaml")
    return folder


def checked(folder: Path, path: str, *options: str) -> Result:
    (folder / "outer.yaml").write_text(outer(path))
    return command(folder.parent, "check", "flows/outer.yaml", *options)


@pytest.mark.parametrize("path", ["parts/inner.yaml", "inside_link.yaml", "parts/../parts/inner.yaml"])
def test_files_inside_the_folder_are_allowed(flows: Path, path: str) -> None:
    assert checked(flows, path).exit_code == 0


OUTSIDE = {
    "a folder above": "../library/inner.yaml",
    "a link": "file_link.yaml",
    "a link to a folder": "folder_link/inner.yaml",
    "above what a link leads to": "folder_link/../inner.yaml",
    "in and out again": "parts/../../library/inner.yaml",
    "the working folder": "library/inner.yaml",
}


@pytest.mark.parametrize("path", OUTSIDE.values(), ids=OUTSIDE)
@pytest.mark.parametrize("call", ["check", "run", "show", "forecast"])
def test_files_outside_are_refused_unless_allowed(flows: Path, path: str, call: str) -> None:
    (flows / "outer.yaml").write_text(outer(path))
    more = ("-i", "go", "--no-store") if call == "run" else ()
    done = command(flows.parent, call, "flows/outer.yaml", *more)
    assert done.exit_code == 2
    told = done.stdout + done.stderr
    assert f"flows/outer.yaml:8:43: error: the subgraph file '{path}' cannot be used" in told
    assert "[outside-folder]" in told
    assert "--allow-path" in told
    allowed = command(flows.parent, call, "flows/outer.yaml", *more, "--allow-path", "library")
    assert allowed.exit_code == 0, allowed.output
    elsewhere = command(flows.parent, call, "flows/outer.yaml", *more, "--allow-path", "flows/parts")
    assert elsewhere.exit_code == 2


def test_absolute_path_is_checked_by_its_target(flows: Path) -> None:
    assert checked(flows, str(flows / "parts/inner.yaml")).exit_code == 0
    path = str(flows.parent / "library/inner.yaml")
    refused = checked(flows, path)
    assert refused.exit_code == 2
    assert f"--allow-path {flows.parent}/library" in refused.stdout
    assert checked(flows, path, "--allow-path", "flows/parts", "--allow-path", "library").exit_code == 0


def test_link_is_checked_by_its_target(flows: Path) -> None:
    assert checked(flows, "file_link.yaml", "--allow-path", "flows").exit_code == 2
    (flows.parent / "alias").symlink_to("library")
    assert checked(flows, "file_link.yaml", "--allow-path", "alias").exit_code == 0


@pytest.mark.parametrize("path", ["loop.yaml", "a\0b", "x" * 5000])
def test_unresolvable_names_are_rejected(flows: Path, path: str) -> None:
    (flows / "loop.yaml").symlink_to("loop.yaml")
    done = checked(flows, path)
    assert done.exit_code == 2
    assert "[no-file]" in done.stdout


def test_nested_files_are_checked_against_the_folder_of_the_first(flows: Path) -> None:
    """A file in a folder of the workflow may name one beside that folder."""
    (flows / "beside.yaml").write_text(INNER)
    (flows / "parts/middle.yaml").write_text(outer("../beside.yaml"))
    assert checked(flows, "parts/middle.yaml").exit_code == 0
    (flows.parent / "library/middle.yaml").write_text(outer("../secret.yaml"))
    (flows.parent / "secret.yaml").write_text(INNER)
    refused = checked(flows, "../library/middle.yaml", "--allow-path", "library")
    assert refused.exit_code == 2
    assert "library/middle.yaml:8:43: error" in refused.stdout


def test_missing_folder_cannot_be_allowed(flows: Path) -> None:
    for name in ("nowhere", "flows/parts/inner.yaml"):
        done = checked(flows, "parts/inner.yaml", "--allow-path", name)
        assert done.exit_code == 2
        assert "--allow-path" in done.stderr


def test_allowed_paths_in_python(flows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (flows / "outer.yaml").write_text(outer("../library/inner.yaml"))
    library = flows.parent / "library"
    for refused in (roundel.load, roundel.prepare, roundel.run):
        with pytest.raises(roundel.WorkflowError, match="outside the workflow's folder"):
            refused(flows / "outer.yaml")
    assert not roundel.check(flows / "outer.yaml")[1].ok
    assert roundel.check(flows / "outer.yaml", allow_paths=[library])[1].ok
    for allowed in (library, str(library), [library], (flows, str(library))):
        assert roundel.load(flows / "outer.yaml", allow_paths=allowed).name == "outer"
        assert roundel.run(flows / "outer.yaml", allow_paths=allowed).output == "found"
    plan = roundel.prepare(flows / "outer.yaml", allow_paths=library)
    assert roundel.run(plan).output == "found"
    with pytest.raises(ValueError, match="give it to prepare"):
        roundel.run(plan, allow_paths=library)
    monkeypatch.chdir(flows)
    path = {"path": "../library/inner.yaml"}
    node = {"id": "Sub", "type": "subgraph", "config": {"type": "file", "config": path}}
    mapping = {"graph": {"start": "Sub", "end": "Sub", "nodes": [node]}}
    with pytest.raises(roundel.WorkflowError, match="outside the workflow's folder"):
        roundel.run(mapping)
    assert roundel.run(mapping, allow_paths=library).output == "found"


# Runs that go on later.


def test_a_resumed_run_keeps_its_files(flows: Path) -> None:
    (flows.parent / "library/inner.yaml").write_text(ASKS)
    (flows / "outer.yaml").write_text(outer("../library/inner.yaml"))
    run = ("run", "flows/outer.yaml", "-i", "go", "--allow-path", "library")
    assert command(flows.parent, *run).exit_code == 4
    shutil.rmtree(flows.parent / "library")
    assert command(flows.parent, "replay", "last").exit_code == 0
    forked = command(flows.parent, "fork", "last", "--no-run")
    assert forked.exit_code == 0, forked.output
    for name in (forked.stdout.strip(), "last"):
        assert command(flows.parent, "log", name).exit_code == 0
    done = command(flows.parent, "answer", forked.stdout.strip(), "an answer")
    assert (done.exit_code, done.stdout) == (0, "an answer\n")


def test_file_added_after_the_start_is_not_used_on_resume(flows: Path) -> None:
    """The folder beside the workflow is looked at first, and had no such file then."""
    (flows / "subgraphs").mkdir()
    (flows / "subgraphs/asks.yaml").write_text(ASKS)
    (flows / "outer.yaml").write_text(outer("asks.yaml"))
    assert command(flows.parent, "run", "flows/outer.yaml", "-i", "go").exit_code == 4
    (flows / "asks.yaml").write_text(INNER)
    done = command(flows.parent, "answer", "last", "an answer")
    assert (done.exit_code, done.stdout) == (0, "an answer\n")


def test_another_workflow_of_a_run_may_need_another_folder(flows: Path) -> None:
    assert checked(flows, "parts/inner.yaml").exit_code == 0
    assert command(flows.parent, "run", "flows/outer.yaml", "-i", "go").exit_code == 0
    (flows / "other.yaml").write_text(outer("../library/inner.yaml"))
    for call in (("replay", "last"), ("fork", "last", "--at", "Sub", "--no-run")):
        refused = command(flows.parent, *call, "--workflow", "flows/other.yaml")
        assert (refused.exit_code, "outside-folder" in refused.stderr) == (2, True), refused.output
        done = command(flows.parent, *call, "--workflow", "flows/other.yaml", "--allow-path", "library")
        assert done.exit_code == 0, done.output
        alone = command(flows.parent, *call, "--allow-path", "library")
        assert (alone.exit_code, "--workflow" in alone.stderr) == (2, True)


def test_workflow_from_python_resumes_with_its_own_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not with that of its subgraph, which is the only one that stands in a file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "asks.yaml").write_text(ASKS)
    sub = {"id": "Sub", "type": "subgraph", "config": {"type": "file", "config": {"path": "asks.yaml"}}}
    last = {"id": "Out", "type": "literal", "config": {"content": "the end"}}
    graph = {"start": "Sub", "end": "Out", "nodes": [sub, last], "edges": [{"from": "Sub", "to": "Out"}]}

    async def story() -> None:
        store = SqliteStore(tmp_path / "runs.db")
        assert (await roundel.run_async({"graph": graph}, "go", store=store)).status == "waiting"
        (tmp_path / "asks.yaml").unlink()
        async with roundel.Runs(store) as runs:
            await runs.answer("last", "an answer", execute=False)
            assert (await runs.resume("last")).output == "the end"
        await store.close()

    asyncio.run(story())


# Memories.

REMEMBERS = """
graph:
  start: Reader
  end: Reader
  memory:
    - name: notes
      type: {kind}
      config: {config}
  nodes:
    - {{id: Reader, type: agent, config: {{memories: [{{name: notes}}]}}}}
"""


def remembering(flows: Path, path: str, kind: str = "file") -> None:
    config = {"file_sources": [{"path": path}]} if kind == "file" else {"memory_path": path}
    text = REMEMBERS.format(kind=kind, config=json.dumps(config))
    (flows / "outer.yaml").write_text(text)


def memory_errors(flows: Path, *options: str) -> list[str]:
    (flows / "script.yaml").write_text("Reader: [ok]\n")
    run = ("run", "flows/outer.yaml", "-i", "tea", "--script", "flows/script.yaml", "--no-store", "--json")
    done = command(flows.parent, *run, *options)
    assert done.exit_code == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    return [event["data"]["error"] for event in events if event["event"] == "memory_error"]


@pytest.mark.parametrize("kind", ["file", "simple", "blackboard"])
def test_memory_files_outside_are_rejected_unless_allowed(flows: Path, kind: str) -> None:
    (flows.parent / "library/notes.json").write_text('["tea is green"]')
    (flows / "notes.json").write_text('["tea is green"]')
    remembering(flows, "notes.json", kind)
    assert memory_errors(flows) == []
    for path in ("../library/notes.json", str(flows.parent / "library/notes.json")):
        remembering(flows, path, kind)
        refused = command(flows.parent, "check", "flows/outer.yaml")
        assert refused.exit_code == 2
        assert f"the memory 'notes' cannot read '{path}': it leads to" in refused.stdout
        assert "flows/outer.yaml:8:" in refused.stdout
        assert "--allow-path" in refused.stdout
        assert memory_errors(flows, "--allow-path", "library") == []


def test_files_of_memories_may_be_in_the_working_folder(flows: Path) -> None:
    """As published files have it, whose paths start where the program is started."""
    (flows.parent / "library/notes.txt").write_text("tea is green")
    remembering(flows, "library")
    assert command(flows.parent, "check", "flows/outer.yaml").exit_code == 0
    assert memory_errors(flows) == []


def test_link_in_a_memory_folder_is_checked_by_its_target(flows: Path) -> None:
    """Found when the folder is read; what else is there is read all the same."""
    (flows.parent / "secret.txt").write_text("coffee")
    (flows / "notes").mkdir()
    (flows / "notes/plain.txt").write_text("tea")
    (flows / "notes/link.txt").symlink_to(flows.parent / "secret.txt")
    remembering(flows, "notes")
    (told,) = memory_errors(flows)
    assert "link.txt cannot be read: it leads to" in told
    assert memory_errors(flows, "--allow-path", ".") == []


def test_allowed_folders_are_stored_with_the_run(flows: Path) -> None:
    (flows.parent / "library/notes.txt").write_text("tea is green")
    remembering(flows, "../library/notes.txt")
    text = (flows / "outer.yaml").read_text()
    text = text.replace("start: Reader", "start: Ask").replace(
        "  nodes:\n", "  nodes:\n    - {id: Ask, type: human}\n"
    )
    (flows / "outer.yaml").write_text(text + "  edges: [{from: Ask, to: Reader}]\n")
    (flows / "script.yaml").write_text("Reader: [ok]\n")
    run = ("run", "flows/outer.yaml", "-i", "tea", "--script", "flows/script.yaml", "--allow-path", "library")
    assert command(flows.parent, *run).exit_code == 4
    done = command(flows.parent, "answer", "last", "tea", "--json")
    assert done.exit_code == 0, done.stderr
    assert "memory_error" not in done.stdout
