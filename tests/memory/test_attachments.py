"""The memories of a graph: outputs of agents, their latest outputs, and files."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.journal.sqlite_memory import SqliteMemoryStore
from roundel.memory import files, run_memory
from roundel.nodes.loading import check as check_workflow
from roundel.nodes.services import Request
from tests.memory.memory_runs import agents, run_reply, stored_entries, texts, troubles


def reminded(requests: list[Request]) -> list[str]:
    """What the last one who was asked was reminded of."""
    lines = requests[-1].messages[0].text.splitlines() if len(requests[-1].messages) > 1 else []
    return [line.partition("] ")[2] for line in lines if line.startswith("[")]


def simple(path: str = "", **use: Any) -> dict[str, Any]:
    memory = {"name": "notes", "type": "simple", "config": {"memory_path": path}}
    return agents({"name": "notes", **use}, memory=[memory])


def board(path: str = "", **use: Any) -> dict[str, Any]:
    memory = {"name": "board", "type": "blackboard", "config": {"memory_path": path}}
    return agents({"name": "board", **use}, memory=[memory])


def file_workflow(*sources: Any, **use: Any) -> dict[str, Any]:
    memory = {"name": "docs", "type": "file", "config": {"file_sources": list(sources)}}
    return agents({"name": "docs", **use}, memory=[memory])


# simple


def test_simple_memory_is_found_by_output_and_input(store: Path, requests: list[Request]) -> None:
    run_reply(simple(), "peaches and honey", store, "how does oolong taste?")
    run_reply(simple(), "smoke", store, "how does lapsang taste?")
    run_reply(simple(), "?", store, "tell me of oolong")
    assert reminded(requests) == ["peaches and honey"]
    run_reply(simple(), "??", store, "honey!")
    assert reminded(requests) == ["peaches and honey"]
    run_reply(simple(), "???", store, "bread")
    assert reminded(requests) == []
    assert [entry.about for entry in stored_entries(store, "", "notes")][-1] == {
        "input": "how does oolong taste?"
    }


def test_top_k_and_threshold(store: Path, requests: list[Request]) -> None:
    for text in ("green tea", "black tea", "white tea", "green black tea"):
        run_reply(simple(), text, store, "-")
    run_reply(simple(top_k=2, write=False), "", store, "green black tea")
    assert reminded(requests) == ["green black tea", "black tea"]
    run_reply(simple(top_k=9, similarity_threshold=0.6, write=False), "", store, "green black tea")
    assert reminded(requests) == ["green black tea", "black tea", "green tea"]
    run_reply(simple(similarity_threshold=1.0, write=False), "", store, "green black milk")
    assert reminded(requests) == []


def test_simple_memory_keeps_the_newest_entries(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    monkeypatch.setattr(run_memory, "MAX_SIMPLE_ENTRIES", 3)
    for number in range(5):
        run_reply(simple(), f"text {number}", store)
    run_reply(simple(), "text 2", store)
    assert texts(store, "") == ["text 2", "text 4", "text 3"]


# blackboard


def test_blackboard_returns_the_last_entries_in_order(store: Path, requests: list[Request]) -> None:
    for number in range(5):
        run_reply(board(), f"text {number}", store)
    run_reply(board(top_k=2, write=False), "", store, "nothing to do with it")
    assert reminded(requests) == ["text 3", "text 4"]


# What others have written


def write(path: str, value: Any) -> None:
    Path(path).write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")


ITEMS = [
    {"content_summary": "short", "output_snapshot": {"text": "oolong tastes of peaches"}, "id": "1"},
    {"content_summary": "lapsang tastes of smoke", "input_snapshot": {"text": "tell me of lapsang"}},
    {"output_snapshot": "assam is strong", "embedding": [0.1]},
    {"other": 1},
    "a plain text on darjeeling",
    7,
]


def test_json_file_at_the_path_is_imported(store: Path, requests: list[Request]) -> None:
    write("notes.json", ITEMS)
    before = Path("notes.json").read_bytes()
    for question, found in (
        ("oolong?", ["oolong tastes of peaches"]),
        ("lapsang?", ["lapsang tastes of smoke"]),
        ("assam?", ["assam is strong"]),
        ("darjeeling?", ["a plain text on darjeeling"]),
    ):
        run_reply(simple("notes.json"), f"said of {question}", store, question)
        assert reminded(requests) == found
    run_reply(simple("notes.json"), "-", store, "oolong")
    assert sorted(reminded(requests)) == ["oolong tastes of peaches", "said of oolong?"]
    assert Path("notes.json").read_bytes() == before
    assert len(texts(store, "", "notes.json")) == 5


def test_json_file_is_imported_into_a_blackboard(store: Path, requests: list[Request]) -> None:
    write("board.json", {"items": ITEMS[:3]})
    run_reply(board("board.json"), "fresh", store)
    assert reminded(requests) == ["oolong tastes of peaches", "lapsang tastes of smoke", "assam is strong"]
    run_reply(board("board.json", top_k=2), "fresher", store)
    assert reminded(requests) == ["assam is strong", "fresh"]


@pytest.mark.parametrize("content", ["{", "7", '{"a": 1}', "\x00", '"text"', "[" * 100_000])
@pytest.mark.parametrize("make", [simple, board])
def test_unreadable_json_file_is_reported(
    store: Path, requests: list[Request], make: Any, content: str
) -> None:
    run_reply(make("notes.json"), "tea is green", store)
    write("notes.json", content)
    (trouble,) = troubles(run_reply(make("notes.json"), "x", store, "green tea"))
    assert trouble["error"].startswith("notes.json cannot be read: ")
    assert reminded(requests) == ["tea is green"]


# Files


def test_file_passages_are_found_by_the_question(store: Path, requests: list[Request]) -> None:
    Path("docs/inner").mkdir(parents=True)
    write(
        "docs/tea.md",
        "Oolong is half black, half green.\n\n" + "Much is said of tea. " * 40 + "\n\nKettles sing.",
    )
    write("docs/inner/milk.MD", "Milk is white.")
    write("docs/code.py", "oolong = 1")
    events = run_reply(file_workflow({"path": "docs", "file_types": ".md"}), "x", store, "what is oolong")
    assert troubles(events) == []
    assert reminded(requests)[0] == "Oolong is half black, half green."
    run_reply(file_workflow({"path": "docs", "file_types": [".md"]}), "x", store, "white kettles")
    assert "Milk is white." in reminded(requests)
    assert "Kettles sing." in requests[-1].messages[0].text
    run_reply(file_workflow({"path": "docs", "file_types": [".md"], "recursive": False}), "x", store, "white")
    assert reminded(requests) == []
    run_reply(file_workflow({"path": "docs/code.py"}), "x", store, "oolong")
    assert reminded(requests) == ["oolong = 1"]


def test_only_changed_files_are_indexed_again(store: Path, requests: list[Request]) -> None:
    Path("docs").mkdir()
    write("docs/a.txt", "the tea is green")
    write("docs/b.txt", "the tea is black")
    flow = file_workflow({"path": "docs"})

    def ask() -> list[str]:
        run_reply(flow, "x", store, "how is the tea")
        return sorted(reminded(requests))

    assert ask() == ["the tea is black", "the tea is green"]
    first = {entry.about["file"]: entry.id for entry in stored_entries(store, "")}
    write("docs/a.txt", "the tea is white")
    assert ask() == ["the tea is black", "the tea is white"]
    second = {entry.about["file"]: entry.id for entry in stored_entries(store, "")}
    changed = [Path(file).name for file in first if first[file] != second[file]]
    assert changed == ["a.txt"]
    Path("docs/b.txt").unlink()
    assert ask() == ["the tea is white"]
    write("docs/c.txt", "the tea is white")
    assert ask() == ["the tea is white"]
    assert len(stored_entries(store, "")) == 2


def test_changed_file_is_indexed_again_within_a_run(store: Path, requests: list[Request]) -> None:
    Path("notes.txt").write_text("the first line", encoding="utf-8")
    graph = roundel.Graph(
        start="A",
        end="A",
        memory=[{"name": "docs", "type": "file", "config": {"file_sources": [{"path": "notes.txt"}]}}],
    )
    graph.node("Change", "python", function=_change).node("A", "agent", memories=["docs"])
    graph.node("B", "agent", memories=["docs"]).edge("A", "Change").edge("Change", "B")
    roundel.run(graph, "which line?", script={"A": ["which line?"]})
    assert [_block(request) for request in requests] == ["the first line", "the second and last line"]


def _block(request: Request) -> str:
    return request.messages[0].text.splitlines()[2].partition("] ")[2]


def _change() -> str:
    Path("notes.txt").write_text("the second and last line", encoding="utf-8")
    return "which line?"


def test_concurrent_agents_read_each_file_once(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are, none of them loses its time over what another one is reading."""
    Path("docs").mkdir()
    for name in ("a", "b", "c"):
        write(f"docs/{name}.txt", f"tea from {name}")
    plain, read = files.read_content, list[str]()

    def content(path: Path) -> bytes:
        read.append(path.name)
        return plain(path)

    monkeypatch.setattr(files, "read_content", content)
    flow = file_workflow({"path": "docs"})
    flow["graph"]["nodes"] = [{**flow["graph"]["nodes"][0], "id": name} for name in ("A", "B", "C")]
    flow["graph"] |= {"start": ["A", "B", "C"], "end": ["A", "B", "C"]}
    assert troubles(run_reply(flow, "x", store, "tea", script={"B": ["y"], "C": ["z"]})) == []
    assert sorted(read) == ["a.txt", "b.txt", "c.txt"]


def test_file_memory_is_shared_by_all_groups(store: Path, requests: list[Request]) -> None:
    write("a.txt", "the tea is green")
    for group in ("one", "two"):
        run_reply(file_workflow({"path": "a.txt"}), "x", store, "tea", group=group)
        assert reminded(requests) == ["the tea is green"]
    assert len(stored_entries(store, "")) == 1
    assert texts(store, "one", "docs") == []


def test_unreadable_files_are_reported_and_the_others_indexed(store: Path, requests: list[Request]) -> None:
    Path("docs").mkdir()
    write("docs/good.txt", "the tea is green")
    Path("docs/bad.txt").write_bytes(b"\xff\xfe tea")
    Path("docs/big.txt").write_bytes(b"tea " * 2_000_000)
    os.mkfifo("docs/pipe.txt")
    events = run_reply(file_workflow({"path": "docs"}, {"path": "gone"}), "x", store, "tea")
    reported = sorted(data["error"].partition(":")[0] for data in troubles(events))
    assert reported == ["'gone' does not exist", "bad.txt cannot be read", "big.txt cannot be read"]
    assert {data["store"] for data in troubles(events)} == {"docs"}
    assert reminded(requests) == ["the tea is green"]
    klingon = file_workflow(
        {"path": "docs/good.txt", "encoding": "klingon"}, {"path": ".", "encoding": "utf-16"}
    )
    (trouble, *_) = troubles(run_reply(klingon, "x", store, "tea"))
    assert "klingon" in trouble["error"]
    _, report = check_workflow(klingon)
    assert [found.code for found in report.diagnostics] == ["unknown-encoding"]


def test_lone_surrogate_in_a_file_does_not_fail(store: Path, requests: list[Request]) -> None:
    """What cuts texts by the units of UTF-16 leaves such halves in JSON."""
    Path("notes.json").write_text(json.dumps(["tea \ud83d"]), encoding="utf-8")
    assert troubles(run_reply(simple("notes.json"), "x", store, "tea")) == []
    assert reminded(requests) == ["tea ?"]
    Path("notes.txt").write_text("milk \\ud83d", encoding="utf-8")
    escaped = {"path": "notes.txt", "encoding": "unicode_escape"}
    assert troubles(run_reply(file_workflow(escaped), "x", store, "milk")) == []
    assert reminded(requests) == ["milk ?"]


def test_relative_path_has_an_index_per_resolved_folder(
    store: Path, tmp_path: Path, requests: list[Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs at once would otherwise read what the other one has indexed."""
    flow = tmp_path / "flows" / "flow.json"
    flow.parent.mkdir()
    flow.write_text(json.dumps(file_workflow({"path": "handbook"})), encoding="utf-8")
    for name in ("here", "there"):
        (tmp_path / name / "handbook").mkdir(parents=True)
        (tmp_path / name / "handbook" / "a.txt").write_text(f"tea from {name}", encoding="utf-8")
        monkeypatch.chdir(tmp_path / name)
        run_reply(flow, "x", store, "tea")
        assert reminded(requests) == [f"tea from {name}"]
    indexed = {entry.text: entry.shelf for entry in stored_entries(store, "")}
    assert len(set(indexed.values())) == 2
    assert set(indexed) == {"tea from here", "tea from there"}


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names of files are text there")
def test_undecodable_file_name_does_not_prevent_indexing(store: Path, requests: list[Request]) -> None:
    Path("docs").mkdir()
    for name, data in ((b"\xfc.txt", b"black tea"), (b"\xfd.txt", b"white tea"), (b"\xfe.txt", b"\xfe tea")):
        Path(os.fsdecode(b"docs/" + name)).write_bytes(data)
    (trouble,) = troubles(run_reply(file_workflow({"path": "docs"}), "x", store, "tea"))
    assert trouble["error"].startswith("\\xfe.txt cannot be read")
    assert sorted(reminded(requests)) == ["black tea", "white tea"]
    assert len({entry.about["file"] for entry in stored_entries(store, "")}) == 2


def test_files_are_resolved_next_to_the_workflow(
    store: Path, tmp_path: Path, requests: list[Request]
) -> None:
    folder = tmp_path / "flows"
    folder.mkdir()
    (folder / "handbook.txt").write_text("the tea is green", encoding="utf-8")
    (folder / "flow.yaml").write_text(
        json.dumps(file_workflow({"path": "handbook.txt"}, {"path": "none.txt"})), encoding="utf-8"
    )
    workflow, report = check_workflow(folder / "flow.yaml")
    assert workflow is not None
    assert [(found.code, found.message) for found in report.diagnostics] == [
        ("missing-source", "the memory 'docs' reads 'none.txt', which does not exist")
    ]
    assert len(troubles(run_reply(folder / "flow.yaml", "x", store, "tea"))) == 1
    assert reminded(requests) == ["the tea is green"]


def test_mem0_is_a_warning_and_does_nothing(store: Path, requests: list[Request]) -> None:
    flow = agents("m", memory=[{"name": "m", "type": "mem0", "config": {"api_key": "k", "user_id": "u"}}])
    _, report = check_workflow(flow)
    assert [found.code for found in report.diagnostics] == ["without-effect"]
    assert troubles(run_reply(flow, "x", store)) == []
    assert stored_entries(store, "") == []


def test_interrupted_indexing_resumes(
    store: Path, requests: list[Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("docs").mkdir()
    for name in ("a", "b", "c"):
        write(f"docs/{name}.txt", f"tea from {name}. " * 60)
    monkeypatch.setattr(files, "WRITE_BATCH", 1)
    plain, written = SqliteMemoryStore.remember, 0

    async def remember(self: SqliteMemoryStore, *given: Any, **named: Any) -> list[int]:
        nonlocal written
        written += 1
        if written == 2:
            raise RuntimeError("interrupted")
        return await plain(self, *given, **named)

    monkeypatch.setattr(SqliteMemoryStore, "remember", remember)
    (trouble,) = troubles(run_reply(file_workflow({"path": "docs"}), "x", store, "tea"))
    assert trouble["error"] == "interrupted"
    first = stored_entries(store, "")
    assert troubles(run_reply(file_workflow({"path": "docs"}), "x", store, "tea")) == []
    assert written == 4
    assert {Path(entry.about["file"]).name for entry in stored_entries(store, "")} == {
        "a.txt",
        "b.txt",
        "c.txt",
    }
    assert {entry.id for entry in first} <= {entry.id for entry in stored_entries(store, "")}


def test_secrets_in_files_are_neither_stored_nor_shown_to_a_model(
    store: Path, requests: list[Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOUSE_TOKEN", "blue-heron-0123456789")
    Path("notes.txt").write_text("the gate opens with blue-heron-0123456789", encoding="utf-8")
    run_reply(file_workflow({"path": "notes.txt"}), "yes", store, "how does the gate open?")
    assert any("the gate opens with ***" in message.text for message in requests[0].messages)
    raw = b"".join(path.read_bytes() for path in store.parent.glob(f"{store.name}*"))
    assert b"gate opens" in raw
    assert b"heron" not in raw
