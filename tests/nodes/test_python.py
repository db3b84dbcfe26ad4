"""Python nodes: functions, and code that arrives as a message."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import roundel


def code_node(**config: Any) -> roundel.Graph:
    return roundel.Graph(start="Code", end="Code").node("Code", "python", **config)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_first_fenced_block_is_run() -> None:
    message = "Here you are:\n```python\n  print(6 * 7)\n```\nand not\n```\nprint('this')\n```"
    result = roundel.run(code_node(), message)
    assert (result.output, result.data) == ("42\n", {"exit_code": 0})


def test_a_message_without_a_fence_is_code() -> None:
    assert roundel.run(code_node(), "print('héllo 世界')").output == "héllo 世界\n"


def test_failing_code_is_reported_and_the_run_continues() -> None:
    result = roundel.run(code_node(), "print('so far')\nraise SystemExit('broken')")
    assert result.status == "completed"
    assert result.output.startswith("==CODE EXECUTION FAILED==\nbroken")
    assert "so far" in result.output
    assert result.data == {"exit_code": 1}


def test_code_timeout_kills_the_process_group() -> None:
    late = 'import time, pathlib; time.sleep(1.5); pathlib.Path("late.txt").touch()'
    code = f"import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', '{late}'])\ntime.sleep(60)"
    result = roundel.run(code_node(timeout_seconds=0.7), code)
    assert "no end after 0.7 seconds" in result.output
    import time

    time.sleep(1.5)
    assert not list(Path().rglob("late.txt"))


def test_environment_arguments_and_folder() -> None:
    code = "import os, sys; print(os.environ['MOOD'], sys.argv[1]); open('kept.txt', 'w').write('x')"
    result = roundel.run(code_node(env={"MOOD": "calm"}, args=["seven"]), code)
    assert result.output == "calm seven\n"
    kept = list(Path(".roundel/work").glob("*/kept.txt"))
    assert len(kept) == 1, "what the code writes is kept in the run's own folder"


def test_missing_interpreter_fails_the_node() -> None:
    result = roundel.run(code_node(interpreter="/no/such/python"), "print(1)")
    assert result.status == "failed"
    assert "cannot start '/no/such/python'" in str(result.error)


def test_function_receives_the_parameters_it_names() -> None:
    graph = roundel.Graph(start="A", end="B")

    @graph.function("A")
    def first(text: str, messages: tuple[roundel.Message, ...], round: int) -> dict[str, Any]:
        return {"content": text * 2, "data": {"count": len(messages), "round": round}}

    @graph.function("B")
    async def second(anything: roundel.Message) -> str:
        return f"{anything.text} {anything.data} from {anything.source}"

    graph.edge("A", "B")
    assert roundel.run(graph, "ab").output == "abab {'count': 1, 'round': 0} from A"


def test_function_receives_the_workspace_of_the_run() -> None:
    graph = roundel.Graph(start="Save", end="Read").edge("Save", "Read")

    @graph.function("Save")
    def save(text: str, workspace: Path) -> str:
        (workspace / "note.txt").write_text(text)
        return "saved"

    @graph.function("Read")
    async def read(workspace: Path) -> str:
        return (workspace / "note.txt").read_text()

    assert roundel.run(graph, "tea").output == "tea"


@pytest.mark.parametrize(
    ("given", "output", "runs"),
    [
        ("text", "text", 1),
        ({"score": 3}, '{"score": 3}', 1),
        (7, "7", 1),
        (["one", "two"], "two", 1),
        (None, "", 0),
        (roundel.Message("whole"), "whole", 1),
    ],
)
def test_accepted_function_results(given: Any, output: str, runs: int) -> None:
    graph = roundel.Graph(start="A", end="B").node("B", "passthrough").edge("A", "B")

    @graph.function("A")
    async def give() -> Any:
        return given

    result = roundel.run(graph)
    assert (result.output, result.nodes.get("B", 0)) == (output, runs)


def test_function_from_a_file_next_to_the_workflow(tmp_path: Path) -> None:
    Path("tricks.py").write_text("def double(text):\n    return text + text\n")
    file = Path("flow.yaml")
    file.write_text(
        "graph:\n  start: A\n  end: A\n  nodes:\n"
        "    - {id: A, type: python, config: {function: 'tricks:double'}}\n  edges: []\n"
    )
    assert roundel.run(file, "ab").output == "abab"
    assert "tricks" not in sys.modules


def test_function_with_unknown_parameters_is_rejected_before_the_run() -> None:
    graph = roundel.Graph(start="A", end="A")

    @graph.function("A")
    def greedy(text: str, weather: str) -> str:
        return text + weather

    with pytest.raises(roundel.WorkflowError, match="asks for weather"):
        roundel.run(graph)
    _, report = roundel.check(graph)
    (found,) = report.errors
    assert (found.code, "'greedy' asks for weather" in found.message) == ("cannot-run", True)


class Untold:
    """An object that is not annotated gets what functions got before annotations counted."""

    def __call__(self, draft):  # type: ignore[no-untyped-def]
        return type(draft).__name__


def as_text(draft: str) -> str:
    return type(draft).__name__


def as_optional_text(draft: str | None) -> str:
    return type(draft).__name__


def as_message(draft: roundel.Message) -> str:
    return type(draft).__name__


def as_either(draft: roundel.Message | str) -> str:
    return type(draft).__name__


async def as_text_later(draft: str) -> str:
    return type(draft).__name__


def as_anything(draft: Any) -> str:
    return type(draft).__name__


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (as_text, "str"),
        (as_optional_text, "str"),
        (as_text_later, "str"),
        (as_message, "Message"),
        (as_either, "Message"),
        (as_anything, "Message"),
        (Untold(), "Message"),
    ],
)
def test_a_single_parameter_gets_text_or_message_by_its_annotation(function: Any, kind: str) -> None:
    assert roundel.run(code_node(function=function), "tea").output == kind


@pytest.mark.parametrize("annotation", [int, dict[str, Any], list[roundel.Message], "Unknown"])
def test_another_annotation_of_a_single_parameter_is_an_error(annotation: Any) -> None:
    def measure(draft):  # type: ignore[no-untyped-def]
        return draft

    measure.__annotations__["draft"] = annotation
    with pytest.raises(roundel.WorkflowError, match=r"'measure' wants 'draft' to be .*annotate it with str"):
        roundel.run(code_node(function=measure), "tea")


def test_save_and_run_writes_the_files_of_a_message() -> None:
    graph = roundel.Graph(start="A", end="B").node("A", "agent").node("B", "passthrough")
    graph.edge("A", "B", process={"type": "function", "config": {"name": "code_save_and_run"}})
    main = "import util\nprint(util.GREETING)"
    message = f"util.py\n```python\nGREETING = 'hello'\n```\nmain.py\n```python\n{main}\n```"
    result = roundel.run(graph, message, script={})
    assert result.output == f"{message}\n\nhello\n"
    broken = roundel.run(graph, "main.py\n```\nboom()\n```", script={})
    assert "==CODE EXECUTION FAILED==" in broken.output


def test_save_and_run_rejects_paths_outside_the_run_folder() -> None:
    graph = roundel.Graph(start="A", end="B").node("A", "agent").node("B", "passthrough")
    graph.edge("A", "B", process={"type": "function", "config": {"name": "code_save_and_run"}})
    result = roundel.run(graph, "../../../evil.py\n```\nx\n```", script={})
    assert result.status == "failed"
    assert "leads out of" in str(result.error)


def test_unhashable_callable_is_accepted() -> None:
    class Shout:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, text: str) -> str:
            return text.upper()

    graph = roundel.Graph(start="A", end="A").node("A", "python", function=Shout())
    assert roundel.run(graph, "ab").output == "AB"
