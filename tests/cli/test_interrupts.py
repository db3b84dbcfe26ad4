"""Ctrl-C, SIGTERM and SIGHUP: the calls in flight are cancelled, and the run goes on later as if nothing had
happened."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli import stored_runs
from tests.cli.stored_runs import Process, open_gate, roundel, runs
from tests.cli.terminal import CTRL_C, CTRL_D, Terminal
from tests.events import timeless

CODE = '''
import asyncio
import time
from pathlib import Path


def begin(key):
    with Path("begun").open("a") as begun:
        begun.write(key.rpartition(":")[2] + "\\n")


def blocking(idempotency_key: str) -> str:
    """Blocks its thread until the gate is open."""
    begin(idempotency_key)
    while not Path("open").exists():
        time.sleep(0.01)
    return "done"


async def waiting(idempotency_key: str) -> str:
    begin(idempotency_key)
    while not Path("open").exists():
        await asyncio.sleep(0.01)
    return "done"


async def in_executor(idempotency_key: str) -> str:
    return await asyncio.to_thread(blocking, idempotency_key)


async def failing(address: str) -> str:
    begin(address)
    if not Path("open").exists():
        raise ValueError("not yet")
    return "done"


async def stubborn(idempotency_key: str) -> str:
    """Takes its time to end, or never ends."""
    begin(idempotency_key)
    while not Path("open").exists():
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            Path("cancelled").touch()
            while not Path("released").exists():
                try:
                    await asyncio.sleep(0.01)
                except asyncio.CancelledError:
                    pass
            raise
    return "done"


def node(address: str, text: str) -> str:
    blocking(address)
    return f"{text} by {address}"


async def quick(text: str) -> str:
    return f"{text}, quickly"
'''
TOOLS = {name: {"python": f"deeds:{name}"} for name in ("blocking", "waiting", "in_executor", "stubborn")}


def calls_of(tool: str, many: int = 1) -> dict[str, Any]:
    return {"tool_calls": [{"name": tool} for _ in range(many)]}


def tool_flow(tool: str, many: int = 1) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """An agent in a loop that calls a tool in its second round; another node has finished before."""
    nodes = [
        {"id": "Before", "type": "python", "config": {"function": "deeds:quick"}},
        {"id": "Agent", "type": "agent", "config": {"tools": [tool]}},
        {"id": "Guard", "type": "loop_counter", "config": {"max_iterations": 2}},
        {"id": "End", "type": "passthrough"},
    ]
    edges = [
        ("Before", "Agent"),
        ("Agent", "Agent"),
        ("Agent", "Guard"),
        ("Guard", "Agent"),
        ("Guard", "End"),
    ]
    flow = {
        "tools": TOOLS,
        "graph": {
            "nodes": nodes,
            "edges": [{"from": source, "to": target} for source, target in edges],
            "start": "Before",
            "end": "End",
        },
    }
    script = {"Agent": ["one", calls_of(tool, many), "two"]}
    return flow, script, [f"Agent[2]/Agent/call 1/{tool}" for _ in range(many)]


def graph(nodes: list[dict[str, Any]], edges: list[tuple[str, str]], **more: Any) -> dict[str, Any]:
    return {
        "tools": TOOLS,
        "graph": {
            "nodes": nodes,
            "edges": [{"from": source, "to": target} for source, target in edges],
            "start": nodes[0]["id"],
            "end": nodes[-1]["id"],
            **more,
        },
    }


def python(name: str, function: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "python", "config": {"function": f"deeds:{function}"}, **more}


BODY = {"nodes": [python("Work", "node")], "edges": [], "start": "Work", "end": "Work"}
EACH = {
    "id": "Each",
    "type": "loop_agent",
    "config": {"strategy": {"mode": "array", "items": "[1, 2, 3]", "max_parallel": 2}, "body": BODY},
}
INNER = {"nodes": [EACH], "edges": [], "start": "Each", "end": "Each"}
OUTER = {"id": "Outer", "type": "subgraph", "config": {"type": "config", "config": INNER}}
PAUSE = {"max_attempts": 3, "min_wait_seconds": 3600, "max_wait_seconds": 3600}

Case = tuple[dict[str, Any], dict[str, Any], int]
CASES: dict[str, Case] = {
    "a function in a thread": (graph([python("A", "node"), python("B", "quick")], [("A", "B")]), {}, 1),
    "a blocking tool": (*tool_flow("blocking")[:2], 1),
    "an asynchronous tool": (*tool_flow("waiting")[:2], 1),
    "a tool in the executor of the event loop": (*tool_flow("in_executor")[:2], 1),
    "several tools of one round": (*tool_flow("waiting", 3)[:2], 3),
    "parallel rounds of a loop agent in a subgraph": (
        graph([python("A", "quick"), OUTER], [("A", "Outer")]),
        {},
        2,
    ),
    "parallel nodes": (
        graph(
            [
                python("A", "quick"),
                python("B", "node"),
                python("C", "node"),
                {"id": "D", "type": "passthrough"},
            ],
            [("A", "B"), ("A", "C"), ("B", "D"), ("C", "D")],
        ),
        {},
        2,
    ),
    "a pause between two attempts": (graph([python("A", "failing", retry=PAUSE)], []), {}, 1),
}


def prepare(folder: Path, flow: dict[str, Any], script: dict[str, Any]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "flow.yaml").write_text(json.dumps(flow))
    (folder / "script.yaml").write_text(json.dumps(script))
    (folder / "deeds.py").write_text(CODE)
    return folder


CHECKED = ("--reason", "x", "--cause-understood", "--cost-accepted", "--workflow-reviewed")
RUN = ("run", "flow.yaml", "--script", "script.yaml", "--input", "tea")


def until(seen: Callable[[], object], process: subprocess.Popen[Any]) -> None:
    """Waits for something to be seen; if the process ends before, it never will be."""
    while not seen():
        assert process.poll() is None or seen(), "the process has ended"
        time.sleep(0.01)


def has_started(folder: Path) -> list[str]:
    file = folder / "begun"
    return file.read_text().splitlines() if file.exists() else []


def in_flight(folder: Path, *command: str, many: int = 1) -> Process:
    """A command whose run has so many calls in flight."""
    process = Process(folder, *(command or RUN))
    until(lambda: len(has_started(folder)) >= many, process.popen)
    return process


def interrupted(process: Process, number: signal.Signals = signal.SIGINT) -> None:
    process.popen.send_signal(number)
    assert process.end() == 130, process.complaints
    assert "Traceback" not in process.complaints


def trace(folder: Path) -> list[tuple[Any, ...]]:
    """What happened, by address; pauses aside."""
    events = [json.loads(line) for line in roundel(folder, "log", "last", "--json").stdout.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    told = [
        (event.get("address") or "", number, event["event"], timeless(event["data"]))
        for number, event in enumerate(events)
        if event["event"] != "run_state_change"
    ]
    return [(address, event, data) for address, _, event, data in sorted(told, key=lambda one: one[:2])]


@pytest.mark.parametrize("name", CASES)
def test_an_interrupted_run_is_resumed_to_the_same_end(tmp_path: Path, name: str) -> None:
    number = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[list(CASES).index(name) % 3]
    flow, script, many = CASES[name]
    plain, folder = prepare(tmp_path / "plain", flow, script), prepare(tmp_path / "interrupted", flow, script)
    open_gate(plain)
    assert roundel(plain, *RUN).exit_code == 0
    with in_flight(folder, many=many) as process:
        interrupted(process, number)
    *_, changed, summary = process.events
    assert (changed["event"], timeless(changed["data"])) == (
        "run_state_change",
        {"status": "paused", "reason": "interrupted", "cause": "pause"},
    )
    assert (summary["event"], summary["data"]["status"]) == ("run_summary", "paused")
    (row,) = runs(folder)
    assert (row["status"], row["owner"]) == ("paused", None)
    assert process.complaints.splitlines()[-1].endswith(f"roundel resume {row['run_id']}")
    cancelled = has_started(folder)
    open_gate(folder)
    with Process(folder, "resume", "last") as again:
        assert again.end() == 0, again.complaints
    assert again.events[0]["seq"] == process.events[-2]["seq"] + 1
    made = has_started(folder)
    assert set(cancelled) <= set(made[len(cancelled) :]), "the same calls, under the same keys"
    assert sorted(set(made)) == sorted(has_started(plain)), "nothing that had finished was repeated"
    assert trace(folder) == trace(plain)


def test_interrupted_model_call_is_repeated_on_resume(tmp_path: Path) -> None:
    flow = graph([{"id": "A", "type": "agent"}, {"id": "B", "type": "agent"}], [("A", "B")])
    prepare(tmp_path, flow, {"A": ["a"], "B": [{"text": "b", "delay": 3600}]})
    (tmp_path / "quick.yaml").write_text("A: [not asked]\nB: [b]\n")
    with Process(tmp_path, *RUN) as process:
        process.until_running("B")
        interrupted(process)
    forked = roundel(tmp_path, "fork", "last", "--script", "quick.yaml")
    assert (forked.exit_code, forked.stdout) == (0, "b\n"), forked.output
    changes = [data for *place, data in trace(tmp_path) if place == ["A", "node_state_change"]]
    assert [(data["status"], data.get("output")) for data in changes] == [
        ("running", None),
        ("completed", "a"),
    ]


@pytest.mark.parametrize("store", ["stored", "not stored"])
def test_an_endless_loop_of_quick_nodes_is_interrupted(tmp_path: Path, store: str) -> None:
    nodes = [{"id": "A", "type": "passthrough"}, {"id": "B", "type": "passthrough"}]
    nodes.append({"id": "Out", "type": "passthrough"})
    flow = graph(nodes, [("A", "B"), ("B", "A")], limits={"rounds": 10**8})
    flow["graph"]["edges"].append({"from": "B", "to": "Out", "condition": {"cel": "text == 'z'"}})
    prepare(tmp_path, flow, {})
    with Process(tmp_path, *RUN, *(["--no-store"] if store == "not stored" else [])) as process:
        process.until_running("B")
        interrupted(process)
    last = process.events[-1]
    if store == "stored":
        assert (last["event"], last["data"]["status"]) == ("run_summary", "paused")
        with Process(tmp_path, "resume", "last") as again:
            again.until_running("B")
            interrupted(again)
        assert again.events[0]["seq"] == process.events[-2]["seq"] + 1
    else:
        assert (last["event"], last["data"]["status"]) == ("run_finished", "stopped")


def test_without_a_store_an_interrupted_run_is_stopped(tmp_path: Path) -> None:
    prepare(tmp_path, *tool_flow("blocking")[:2])
    with in_flight(tmp_path, *RUN, "--no-store") as process:
        interrupted(process)
    assert (process.events[-1]["event"], process.events[-1]["data"]["status"]) == ("run_finished", "stopped")
    assert process.complaints.splitlines()[-1].endswith(" ".join(("roundel", *RUN, "--json")))
    assert not (tmp_path / ".roundel" / "runs.db").exists()


@pytest.mark.parametrize("command", ["resume", "answer", "unlock", "fork"])
def test_interrupting_any_executing_command_pauses_the_run(tmp_path: Path, command: str) -> None:
    nodes = [{"id": "Ask", "type": "human"}, python("B", "node"), python("C", "quick")]
    limits = {"limits": {"steps": 1}} if command == "unlock" else {}
    prepare(tmp_path, graph(nodes, [("Ask", "B"), ("B", "C")], **limits), {})
    roundel(tmp_path, *RUN)
    arguments = {
        "resume": ["resume", "last"],
        "answer": ["answer", "last", "yes"],
        "fork": ["fork", "last"],
        "unlock": ["unlock", "last", *CHECKED, "--limit", "steps=9"],
    }[command]
    if command in ("resume", "fork"):
        assert roundel(tmp_path, "answer", "last", "yes", "--no-run").exit_code == 0
    elif command == "unlock":
        assert roundel(tmp_path, "answer", "last", "yes").exit_code == 3
    with in_flight(tmp_path, *arguments) as process:
        interrupted(process)
    assert runs(tmp_path)[0]["status"] == "paused"
    open_gate(tmp_path)
    done = roundel(tmp_path, "resume", "last")
    assert (done.exit_code, done.stdout) == (0, "yes by B, quickly\n"), done.output
    assert has_started(tmp_path) == ["B", "B"]


# Before there is a run, and when there is nobody who reads.


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", ["run", "resume"])
def test_interrupt_during_imports_leaves_the_run_unchanged(
    tmp_path: Path, command: str, number: signal.Signals
) -> None:
    slow = "from pathlib import Path\nimport time\n"
    slow += "def quick(text):\n    return text\n"
    ask = {"id": "Ask", "type": "human"}
    prepare(tmp_path, graph([ask, python("B", "quick")], [("Ask", "B")]), {})
    if command == "resume":
        assert roundel(tmp_path, *RUN).exit_code == 4
    blocked = "Path('importing').touch()\nwhile not Path('open').exists():\n    time.sleep(0.01)\n"
    (tmp_path / "deeds.py").write_text(slow + blocked)
    arguments = RUN if command == "run" else ("resume", "last")
    with Process(tmp_path, *arguments) as process:
        until((tmp_path / "importing").exists, process.popen)
        interrupted(process, number)
    open_gate(tmp_path)
    if command == "run":
        assert not (tmp_path / ".roundel" / "runs.db").exists() or not runs(tmp_path)
        assert process.complaints.splitlines()[-1].endswith(" ".join(("roundel", *RUN, "--json")))
    else:
        (row,) = runs(tmp_path)
        assert (row["status"], row["owner"]) == ("waiting", None)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_closed_output_pipe_pauses_the_run(tmp_path: Path, stream: str) -> None:
    """As in `roundel run … | head -n 2`."""
    flow = graph([python("A", "quick"), python("B", "node"), python("C", "quick")], [("A", "B"), ("B", "C")])
    prepare(tmp_path, flow, {})
    command = [sys.executable, "-m", "roundel", *RUN, *(["--json"] if stream == "stdout" else [])]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True) as process:
        read, other = process.stdout, process.stderr
        if stream == "stderr":
            read, other = other, read
        assert read is not None and other is not None
        assert read.readline()
        until(lambda: has_started(tmp_path), process)
        read.close()
        open_gate(tmp_path)
        said = other.read()
        assert process.wait(timeout=60) == 130
    assert "Traceback" not in said
    (row,) = runs(tmp_path)
    assert (row["status"], row["owner"]) == ("paused", None)
    if stream == "stdout":
        assert said.splitlines()[-1].endswith(f"roundel resume {row['run_id']}")
    done = roundel(tmp_path, "resume", "last")
    assert (done.exit_code, done.stdout) == (0, "tea, quickly by B, quickly\n")
    assert has_started(tmp_path) == ["B"], "it had finished, and is not repeated"


def test_interrupt_with_closed_stdout_pauses_the_run(tmp_path: Path) -> None:
    prepare(tmp_path, *tool_flow("blocking")[:2])
    with in_flight(tmp_path) as process:
        assert process.popen.stdout is not None
        process.popen.stdout.close()
        process.popen.send_signal(signal.SIGINT)
        assert process.popen.wait(timeout=60) == 130
    assert "Traceback" not in process.complaints and "Exception" not in process.complaints
    assert runs(tmp_path)[0]["status"] == "paused"


# More than one signal, and other signals.


def test_second_ctrl_c_exits_immediately(tmp_path: Path) -> None:
    """The tool does not end when it is cancelled. The run is as after a crash."""
    prepare(tmp_path, *tool_flow("stubborn")[:2])
    with in_flight(tmp_path) as process:
        process.popen.send_signal(signal.SIGINT)
        until((tmp_path / "cancelled").exists, process.popen)
        process.popen.send_signal(signal.SIGINT)
        assert process.end() == 130
    (row,) = runs(tmp_path)
    assert (row["status"], row["owner"]) == ("running", None)
    assert process.complaints.splitlines()[-2] == "exited at once"
    assert process.complaints.splitlines()[-1].endswith(f"roundel resume {row['run_id']}")
    open_gate(tmp_path)
    assert roundel(tmp_path, "resume", "last").exit_code == 0
    assert len(set(has_started(tmp_path))) == 1 and len(has_started(tmp_path)) == 2


@pytest.mark.parametrize("numbers", [(signal.SIGTERM, signal.SIGTERM), (signal.SIGHUP, signal.SIGTERM)])
def test_repeated_sigterm_and_sighup_have_no_effect(
    tmp_path: Path, numbers: tuple[signal.Signals, signal.Signals]
) -> None:
    """As when a service is stopped or a terminal is closed: the run is left in good order."""
    prepare(tmp_path, *tool_flow("stubborn")[:2])
    with in_flight(tmp_path) as process:
        process.popen.send_signal(numbers[0])
        until((tmp_path / "cancelled").exists, process.popen)
        process.popen.send_signal(numbers[1])
        (tmp_path / "released").touch()
        assert process.end() == 130
    assert process.events[-1]["data"]["status"] == "paused"
    assert runs(tmp_path)[0]["status"] == "paused"


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_two_signals_in_quick_succession_leave_a_resumable_run(
    tmp_path: Path, second: signal.Signals
) -> None:
    prepare(tmp_path, *tool_flow("waiting")[:2])
    with in_flight(tmp_path) as process:
        process.popen.send_signal(signal.SIGINT)
        process.popen.send_signal(second)
        process.popen.wait(timeout=60)
        assert process.popen.returncode == 130, process.complaints
    assert "Traceback" not in process.complaints
    (row,) = runs(tmp_path)
    assert row["status"] in (("paused",) if second == signal.SIGTERM else ("paused", "running"))
    assert row["owner"] is None
    open_gate(tmp_path)
    assert roundel(tmp_path, "resume", "last").exit_code == 0


def test_calls_that_outlast_the_grace_period_are_abandoned(tmp_path: Path) -> None:
    prepare(tmp_path, *tool_flow("stubborn")[:2])
    code = "import roundel.cli as cli, roundel.cli.signals as signals\n"
    code += "signals.interrupts.grace_seconds = 0.1; cli.main()"
    command = [sys.executable, "-c", code, *RUN]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: has_started(tmp_path), process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 130
        assert process.stderr is not None
        assert "roundel resume" in process.stderr.read().splitlines()[-1]
    open_gate(tmp_path)
    assert roundel(tmp_path, "resume", "last").exit_code == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_signal_ignored_at_startup_stays_ignored(tmp_path: Path, number: signal.Signals) -> None:
    """As by nohup, or in a background job of a script."""
    prepare(tmp_path, *tool_flow("blocking")[:2])
    code = f"import os, signal, sys; signal.signal({number:d}, signal.SIG_IGN); "
    code += "os.execv(sys.argv[1], sys.argv[1:])"
    command = [sys.executable, "-c", code, sys.executable, "-m", "roundel", *RUN, "--json"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        until(lambda: has_started(tmp_path), process)
        process.send_signal(number)
        open_gate(tmp_path)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert json.loads(out.splitlines()[-1])["data"]["status"] == "completed"


def test_sigterm_pauses_the_run_when_sigint_is_ignored(tmp_path: Path) -> None:
    prepare(tmp_path, *tool_flow("blocking")[:2])
    command = f"{sys.executable} -m roundel {' '.join(RUN)} & echo $! > pid; wait $!; echo $? > code"
    with subprocess.Popen(["sh", "-c", command], cwd=tmp_path) as shell:
        until(lambda: has_started(tmp_path), shell)
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGINT)
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGTERM)
        assert shell.wait(timeout=60) == 0
    assert (tmp_path / "code").read_text() == "130\n"
    assert runs(tmp_path)[0]["status"] == "paused"


# In a terminal.


def test_ctrl_c_in_the_live_view_pauses_the_run(tmp_path: Path) -> None:
    prepare(tmp_path, *tool_flow("blocking")[:2])
    with Terminal(tmp_path, *RUN) as terminal:
        until(lambda: has_started(tmp_path), terminal.popen)
        terminal.until("Agent[2]/Agent")
        terminal.type(CTRL_C)
        assert terminal.end() == 130, terminal.seen
        assert terminal.is_restored
    run_id = runs(tmp_path)[0]["run_id"]
    assert "Traceback" not in terminal.seen
    assert terminal.lines[-1].endswith(f"roundel resume {run_id}")
    assert runs(tmp_path)[0]["status"] == "paused"


def test_closing_the_terminal_pauses_the_run(tmp_path: Path) -> None:
    prepare(tmp_path, *tool_flow("blocking")[:2])
    with Terminal(tmp_path, *RUN) as terminal:
        until(lambda: has_started(tmp_path), terminal.popen)
        terminal.hang_up()
        assert terminal.popen.wait(timeout=60) == 130
    (row,) = runs(tmp_path)
    assert (row["status"], row["owner"]) == ("paused", None)


def approval() -> tuple[dict[str, Any], dict[str, Any]]:
    config = {"tools": ["waiting"], "approval": "always"}
    script = {"A": [calls_of("waiting"), "used it"]}
    return graph([{"id": "A", "type": "agent", "config": config}], []), script


def human() -> tuple[dict[str, Any], dict[str, Any]]:
    config = {"description": "Well?"}
    return graph([{"id": "H", "type": "human", "config": config}, python("B", "quick")], [("H", "B")]), {}


PROMPTS = {"a question": (human, "yes, quickly\n"), "an approval": (approval, "used it\n")}


@pytest.mark.parametrize(
    "keys", [CTRL_C, CTRL_D, b"half a line" + CTRL_C], ids=["ctrl-c", "ctrl-d", "typing"]
)
@pytest.mark.parametrize("what", PROMPTS)
def test_interrupt_at_a_prompt_leaves_the_question_open(tmp_path: Path, what: str, keys: bytes) -> None:
    make, output = PROMPTS[what]
    prepare(tmp_path, *make())
    open_gate(tmp_path)
    with Terminal(tmp_path, *RUN) as terminal:
        terminal.until("> ")
        terminal.type(keys)
        assert terminal.end() == (4 if keys == CTRL_D else 130), terminal.seen
        assert terminal.is_restored
    (row,) = runs(tmp_path)
    assert "Traceback" not in terminal.seen
    assert (row["status"], row["owner"]) == ("waiting", None)
    assert terminal.lines[-1].endswith(f"roundel answer {row['run_id']}")
    answered = roundel(tmp_path, "answer", "last", "yes")
    assert (answered.exit_code, answered.stdout) == (0, output), answered.output


def test_ctrl_d_leaves_a_question_open_and_other_branches_continue(tmp_path: Path) -> None:
    """Ctrl-D is no answer to one question; what does not depend on it is done."""
    flow = graph([{"id": "H", "type": "human"}, python("B", "node"), python("C", "quick")], [("B", "C")])
    flow["graph"]["start"] = ["H", "B"]
    prepare(tmp_path, flow, {})
    with Terminal(tmp_path, *RUN) as terminal:
        terminal.until("> ")
        until(lambda: has_started(tmp_path), terminal.popen)
        terminal.type(CTRL_D)
        open_gate(tmp_path)
        assert terminal.end() == 4, terminal.seen
    events = [json.loads(line) for line in roundel(tmp_path, "log", "last", "--json").stdout.splitlines()]
    assert ("C", "completed") in [(event.get("node_id"), event["data"].get("status")) for event in events]
    assert runs(tmp_path)[0]["status"] == "waiting"


def test_interrupt_with_an_open_question_and_a_call_in_flight_pauses_the_run(tmp_path: Path) -> None:
    flow = graph(
        [{"id": "H", "type": "human"}, python("B", "node"), python("C", "quick")], [("B", "C"), ("H", "C")]
    )
    flow["graph"]["start"] = ["H", "B"]
    prepare(tmp_path, flow, {})
    with Terminal(tmp_path, *RUN) as terminal:
        terminal.until("> ")
        until(lambda: has_started(tmp_path), terminal.popen)
        terminal.type(CTRL_C)
        assert terminal.end() == 130, terminal.seen
    assert runs(tmp_path)[0]["status"] == "paused"
    assert roundel(tmp_path, "answer", "last", "yes").exit_code == 0
    open_gate(tmp_path)
    assert roundel(tmp_path, "resume", "last").exit_code == 0
    assert has_started(tmp_path) == ["B", "B"]


def test_ctrl_c_at_the_input_prompt_creates_no_run(tmp_path: Path) -> None:
    prepare(tmp_path, *human())
    for keys, code in ((CTRL_C, 130), (CTRL_D, 1)):
        with Terminal(tmp_path, "run", "flow.yaml") as terminal:
            terminal.until("input")
            terminal.type(keys)
            assert terminal.end() == code, terminal.seen
        assert "Traceback" not in terminal.seen
    assert not (tmp_path / ".roundel" / "runs.db").exists()


@pytest.mark.parametrize("answers", [[], ["because"], ["because", "y", "y"]], ids=["reason", "first", "last"])
@pytest.mark.parametrize("keys", [CTRL_C, CTRL_D], ids=["ctrl-c", "ctrl-d"])
def test_interrupt_at_an_unlock_prompt_leaves_the_run_locked(
    tmp_path: Path, answers: list[str], keys: bytes
) -> None:
    nodes = [python("A", "quick"), python("B", "quick")]
    prepare(tmp_path, graph(nodes, [("A", "B")], limits={"steps": 1}), {})
    assert roundel(tmp_path, *RUN).exit_code == 3
    prompts = ["Why", "understand", "accept", "reviewed"]
    with Terminal(tmp_path, "unlock", "last") as terminal:
        for prompt, answer in zip(prompts, answers, strict=False):
            terminal.until(prompt)
            terminal.type(answer.encode() + b"\n")
        terminal.until(prompts[len(answers)])
        terminal.type(keys)
        assert terminal.end() == (130 if keys == CTRL_C else 1), terminal.seen
    assert "Traceback" not in terminal.seen
    (row,) = runs(tmp_path)
    assert (row["status"], row["owner"]) == ("suspended_locked", None)
    assert terminal.lines[-1].endswith(f"roundel unlock {row['run_id']}")


def test_ctrl_c_in_the_demo(tmp_path: Path) -> None:
    with Terminal(tmp_path, "demo") as terminal:
        terminal.until("Writer[1]/Writer")
        terminal.type(CTRL_C)
        assert terminal.end() == 130, terminal.seen
        assert terminal.is_restored
    assert "Traceback" not in terminal.seen


def test_interrupting_log_follow_does_not_interrupt_the_run(tmp_path: Path) -> None:
    stored_runs.prepare(tmp_path, opened=False)
    with stored_runs.has_started(tmp_path) as process:
        with Process(tmp_path, "log", "last", "--follow") as looker:
            looker.until_running("Gate")
            interrupted(looker)
        open_gate(tmp_path)
        assert process.end() == 4
