"""The live display of agents: their tools, their replies and their cost."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.text import Text

import roundel as public
from roundel.cli.event_lines import format_event
from roundel.cli.live_view import Display, LiveView, cost_words
from roundel.cli.output import dollars
from roundel.cli.progress import Progress, UsageTotals
from roundel.cli.prompt import ask_in_terminal
from roundel.hosts.control import Question
from roundel.hosts.engine import Result
from roundel.hosts.local_run import LocalRun
from roundel.kernel.events import Event
from roundel.llm.script import script_from
from roundel.nodes import TYPES
from roundel.nodes.agent_conversation import approval_answer_problem
from roundel.plan.graph import Plan, compile_workflow
from roundel.workflow.loader import from_mapping
from roundel.workflow.message import Message
from tests.cli.test_live import console_to, events_of, logged, picture, terminal, until
from tests.cli.test_run import roundel
from tests.llm.wire import Reply, Wire
from tests.nodes.conversations import agent, wants

__all__ = ["terminal"]

LOOPED = [
    {"from": "Analyst", "to": "Analyst"},
    {"from": "Analyst", "to": "Guard"},
    {"from": "Guard", "to": "Analyst"},
    {"from": "Guard", "to": "Out"},
]
SCRIPT = {
    "Analyst": [
        {
            "tool_calls": [
                {"name": "mean", "arguments": {"data": [1, 2, 3]}},
                {"name": "fmean", "arguments": {"data": []}},
            ]
        },
        {"tool_calls": [{"name": "mean", "arguments": {"data": [4]}}]},
        "two and four",
    ]
}


def analyst(models: dict[str, Any] | None = None, **config: Any) -> Plan:
    """An agent with tools, in a loop of two rounds."""
    nodes = [
        {"id": "Analyst", "type": "agent", "config": {"tools": ["mean", "fmean"], **config}},
        {"id": "Guard", "type": "loop_counter", "config": {"max_iterations": 2}},
        {"id": "Out", "type": "passthrough"},
    ]
    graph = {"id": "sums", "nodes": nodes, "edges": LOOPED, "start": ["Analyst"], "end": ["Out"]}
    tools = {name: {"python": f"statistics:{name}"} for name in ("mean", "fmean")}
    return compile_workflow(from_mapping({"graph": graph, "tools": tools, "models": models or {}}, TYPES))


# Progress that functions report.


def announce(place: str) -> str:
    """Goes somewhere."""
    public.progress(f"at {place}", 0.25)
    public.progress(f"in {place}", 0.5)
    return "arrived"


def told(graph: public.Graph, script: dict[str, Any]) -> tuple[Plan, list[Event]]:
    plan = compile_workflow(public.load(graph))
    return plan, events_of(plan, script)


def test_views_show_the_latest_report_of_a_node_until_it_ends() -> None:
    graph = public.Graph(start="Work", end="Work")
    graph.function("Work")(lambda text: announce("Rome"))
    plan, events = told(graph, {})
    first, second = (number for number, event in enumerate(events) if event.event == "progress")
    lines = [format_event(event) for event in events]
    assert lines[first : second + 1] == ["Work  progress  25% at Rome", "Work  progress  50% in Rome"]
    shown = [line.strip() for line in picture(plan, events[: second + 1]).splitlines()]
    assert "50% in Rome" in shown and not any("at Rome" in line for line in shown)
    assert "Rome" not in picture(plan, events)


def test_views_show_the_report_of_a_tool_beside_its_call() -> None:
    graph = agent(announce)
    plan, events = told(graph, {"A": [wants("announce", place="sea"), "done"]})
    reports = [event for event in events if event.event == "progress"]
    assert format_event(reports[0]) == "A[1]/announce  progress  25% at sea"
    shown = picture(plan, events[: events.index(reports[0]) + 1])
    assert "announce 25% at sea  round 1 · 0." in shown
    assert "arrived" in picture(plan, until(events, "A[1]/announce", "completed"))


def test_json_output_has_reports_without_a_number(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(
        "import roundel\ndef work(text):\n    roundel.progress('half of it', 0.5)\n    return text\n"
    )
    (tmp_path / "w.yaml").write_text(
        "graph: {nodes: [{id: Work, type: python, config: {function: 'work:work'}}], start: Work}\n"
    )
    done = roundel(tmp_path, "run", "w.yaml", "--json", "--no-store", "--input", "tea")
    (line,) = [json.loads(line) for line in done.stdout.splitlines() if '"progress"' in line]
    assert line["data"] == {"text": "half of it", "fraction": 0.5}
    assert (line["node_id"], line["address"], "seq" in line) == ("Work", "Work", False)


# Waits before another attempt.


def waiting_work() -> tuple[Plan, list[Event]]:
    graph = public.Graph(start="Work", end="Work")

    @graph.function("Work", retry={"max_attempts": 2, "min_wait_seconds": 0, "max_wait_seconds": 0})
    def work(text: str) -> str:
        raise ConnectionError("the line is dead")

    return told(graph, {})


def test_plain_lines_show_why_a_call_waits() -> None:
    _, events = waiting_work()
    (wait,) = [event for event in events if event.event == "call_waiting"]
    assert format_event(wait) == ("Work  waits 0.0 s, ConnectionError: the line is dead, attempt 1 of 2")
    refused = msgspec.structs.replace(
        wait, data=msgspec.structs.replace(wait.data, seconds=19.5, status=429, attempt=3, of=5)
    )
    assert format_event(refused) == "Work  waits 20 s, 429, attempt 3 of 5"


def test_display_shows_a_wait_until_it_is_over() -> None:
    _plan, events = waiting_work()
    at = next(number for number, event in enumerate(events) if event.event == "call_waiting")
    long = msgspec.structs.replace(
        events[at], data=msgspec.structs.replace(events[at].data, seconds=20.0, status=429)
    )
    now = 100.0
    progress = Progress(lambda: now)
    for event in (*events[:at], long):
        progress.apply_event(event)

    def shown() -> str:
        file = io.StringIO()
        console_to(file, False).print(Display("work", progress.snapshot()))
        return file.getvalue()

    assert "… Work  0.0 s · waits 20 s, 429, attempt 1 of 2" in shown()
    now += 12.5
    assert "waits 8 s, 429" in shown()
    now += 10  # the next attempt is made
    assert "Work  22.5 s" in shown() and "waits" not in shown()
    for event in events[at + 1 :]:
        progress.apply_event(event)
    assert not progress.snapshot().waits


def test_a_call_that_failed_for_good_waits_no_more() -> None:
    _, events = waiting_work()
    at = next(number for number, event in enumerate(events) if event.event == "call_waiting")
    long = msgspec.structs.replace(events[at], data=msgspec.structs.replace(events[at].data, seconds=20.0))
    progress = Progress()
    for event in (*events[:at], long, *until(events, "Work", "failed")[at + 1 :]):
        progress.apply_event(event)
    assert not progress.snapshot().waits


def test_json_output_has_waits_without_a_number(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(
        "graph: {nodes: [{id: Work, type: agent, retry: "
        "{max_attempts: 2, min_wait_seconds: 0, max_wait_seconds: 0}}], start: Work}\n"
    )
    (tmp_path / "s.yaml").write_text("Work: {error: down}\n")
    done = roundel(tmp_path, "run", "w.yaml", "--json", "--script", "s.yaml", "--input", "tea")
    (line,) = [json.loads(line) for line in done.stdout.splitlines() if '"call_waiting"' in line]
    assert (line["data"]["cause"], line["data"]["attempt"], line["data"]["of"]) == ("retry", 1, 2)
    assert (line["node_id"], line["address"], "seq" in line) == ("Work", "Work", False)
    stored = roundel(tmp_path, "log", "last", "--json")
    assert "call_waiting" not in stored.stdout


# Tools.


def test_log_has_a_line_per_tool_call_start_and_end() -> None:
    lines = logged(analyst(), SCRIPT)
    assert lines[1:3] == [
        'Analyst[1].Analyst[1]/mean  called  {"data": [1, 2, 3]}',
        'Analyst[1].Analyst[1]/fmean  called  {"data": []}',
    ]
    assert "Analyst[1].Analyst[1]/mean  completed  2" in lines
    assert any(line.startswith("Analyst[1].Analyst[1]/fmean  failed  ") for line in lines)
    assert "Analyst[1].Analyst[2]/mean  completed  4" in lines
    assert lines[-1].endswith("4 model calls · 3 tool calls")


def test_the_display_shows_the_tools_of_the_latest_round_below_their_agent() -> None:
    plan = analyst()
    events = events_of(plan, SCRIPT)
    in_flight = picture(plan, until(events, "Analyst[1].Analyst[1]/fmean", "running")).splitlines()
    assert in_flight[2][4:].startswith("Analyst[1]/Analyst  0.")
    assert re.fullmatch(r' {6}. mean {"data": \[1, 2, 3\]}  round 1 · 0\.\d s', in_flight[3])
    failed = picture(plan, until(events, "Analyst[1].Analyst[1]/fmean", "failed"))
    assert "✗ fmean  round 1 · failed  " in failed
    second = picture(plan, until(events, "Analyst[1].Analyst[2]/mean", "completed"))
    assert "✓ mean  round 2 · done  4" in second and "fmean" not in second
    over = picture(plan, until(events, "Analyst[1]/Analyst", "completed"))
    assert "round 2 · done" not in over and "✓ Analyst[1]/Analyst  two and four" in over
    assert "3 model calls · 3 tool calls" in over.splitlines()[0]


def test_many_concurrent_tool_calls_are_abbreviated() -> None:
    plan = analyst()
    calls = [{"name": "mean", "arguments": {"data": [number]}} for number in range(20)]
    events = events_of(plan, {"Analyst": [{"tool_calls": calls}, "done"]})
    text = picture(plan, until(events, "Analyst[1].Analyst[1]/mean#16", "running"))
    assert "and 16 more tool calls" in text, "with those that are refused"
    refused = picture(plan, until(events, "Analyst[1].Analyst[1]/mean#17", "refused"))
    assert len(refused.splitlines()) < 12


# Approvals.


def approve(keys: list[bytes], keyboard: int) -> tuple[Result, list[Event], str]:
    plan, file, events = analyst(approval="always"), io.StringIO(), list[Event]()
    view = LiveView(plan, console_to(file, True), interactive=True, scripted=True)
    pending = iter(keys)

    async def asker(question: Question) -> str:
        typed = next(pending, b"approve\n")
        asyncio.get_running_loop().call_later(0.05, os.write, keyboard, typed)
        return await ask_in_terminal(question, view)

    def observe(event: Event) -> None:
        view(event)
        events.append(event)

    host = LocalRun(plan, script=script_from(SCRIPT), ask=asker, on_event=observe)
    with view:
        result = asyncio.run(host.run((Message("go"),)))
    return result, events, Text.from_ansi(file.getvalue()).plain


def of_tools(events: list[Event], status: str) -> list[tuple[str, Any]]:
    return [
        (event.address or "", event.fields().get("result", event.fields()["arguments"]))
        for event in events
        if event.event == "tool_call" and event.fields()["status"] == status
    ]


def test_approval_prompt_shows_the_call_and_accepts_or_rejects_it(terminal: int) -> None:
    result, events, text = approve([b"y\n", b"reject: no empty lists\n"], terminal)
    assert result.status == "completed", result.error
    assert "May the tool 'mean' be called?" in text and '"data": [' in text
    assert "call it with these arguments instead" in text
    assert ("Analyst[1].Analyst[1]/mean", "2") in of_tools(events, "completed")
    (rejected,) = of_tools(events, "rejected")
    assert rejected[0].endswith("/fmean") and "no empty lists" in rejected[1]


def test_approval_may_replace_the_arguments(terminal: int) -> None:
    _, events, _ = approve([b'{"data": [10, \\\n 20]}\n'], terminal)
    assert ("Analyst[1].Analyst[1]/mean", "15") in of_tools(events, "completed")


def test_unclear_approval_is_asked_again(terminal: int) -> None:
    _, events, text = approve([b'sure\n\n{"data": 3\nok\n'], terminal)
    assert text.count("Say approve, reject, reject: why") == 3
    assert "These arguments are not JSON" in text
    assert ("Analyst[1].Analyst[1]/mean", "2") in of_tools(events, "completed")


@pytest.mark.parametrize(
    "answer", ["yes", " Approve ", "no", "reject", "No: too dear", "拒绝: 太贵", '{"a": 1}']
)
def test_clear_answers(answer: str) -> None:
    assert approval_answer_problem(Message(answer)) == ""


@pytest.mark.parametrize("answer", ["", "yes: but", "maybe", "[1]", "{", "3", "noo"])
def test_unclear_answers(answer: str) -> None:
    assert approval_answer_problem(Message(answer))


def test_log_shows_the_arguments_of_an_approval_question() -> None:
    *_, asks, _ = [line for line in logged(analyst(approval=["mean"]), SCRIPT) if "fmean" not in line]
    assert asks == "Analyst[1].Analyst[1]/mean  asks  May the tool 'mean' be called? {\"data\": [1, 2, 3]}"


# What models say, and what it costs.

TEXT = "Tea has travelled further than most people. " * 12


@pytest.fixture(scope="module")
def streaming_run() -> tuple[Plan, list[Event]]:
    """A run with a real client: a tool, then a long answer in two attempts; then a short one."""
    events: list[Event] = []
    with Wire() as wire:
        profile = {"base_url": wire.openai_url, "api_key": "k"}
        price = {"price": {"input": 1000.0, "output": 10_000.0}}
        plan = analyst({"default": profile | {"model": "openai:own"} | price}, retry={"min_wait_seconds": 0})
        call = ("c", "mean", {"data": [1]})
        wire.replies(
            Reply("Let me see.", tool_calls=(call,), input_tokens=100, output_tokens=10),
            Reply("never mind " * 40, chunk_delay=0.01, cut_after=20),
            Reply(TEXT, chunk_delay=0.005),
            Reply("short"),
        )
        result = asyncio.run(LocalRun(plan, on_event=events.append).run((Message("go"),)))
    assert result.status == "completed", result.error
    return plan, events


def streamed(events: list[Event], words: str) -> list[Event]:
    at = max(n for n, event in enumerate(events) if words in str(event.fields().get("text", "")))
    return events[: at + 1]


def test_display_shows_the_tail_of_streamed_text(streaming_run: tuple[Plan, list[Event]]) -> None:
    plan, events = streaming_run
    lines = picture(plan, streamed(events, "people."), width=60).splitlines()
    first, last = lines[4:6]
    assert first.startswith("      … ") and last.startswith("        ")
    assert all(Text(line).cell_len <= 60 for line in lines)
    said = " ".join((first + last).replace("…", "").split())
    assert said in TEXT
    assert "never mind" not in "".join(lines), "that was another attempt"
    assert "Let me see." not in "".join(lines), "that was another reply"
    assert "never mind" in picture(plan, streamed(events, "never mind"))
    over = picture(plan, until(events, "Analyst[1]/Analyst", "completed"))
    assert "… " not in over.split("✓")[0]


def test_headline_shows_the_cost_so_far(streaming_run: tuple[Plan, list[Event]]) -> None:
    plan, events = streaming_run
    first = picture(plan, until(events, "Analyst[1].Analyst[1]/mean", "running")).splitlines()[0]
    assert first.endswith("1 model call · 110 tokens · $0.20")


def test_streamed_text_is_not_logged_line_by_line(streaming_run: tuple[Plan, list[Event]]) -> None:
    plan, events = streaming_run
    file = io.StringIO()
    view = LiveView(plan, console_to(file, False), interactive=False)
    with view:
        for event in events:
            view(event)
    lines = file.getvalue().splitlines()
    assert len([line for line in lines if "people." in line]) == 1, "the answer, once"
    assert lines[-1].endswith("3 model calls · 1 tool call · 140 tokens · $0.32")


@pytest.mark.parametrize(
    ("usage", "words"),
    [
        (UsageTotals(), ""),
        (UsageTotals(3, 0, 10, 0.0, 3), "cost unknown"),
        (UsageTotals(3, 0, 10, 0.12, 0), "$0.12"),
        (UsageTotals(7, 0, 10, 0.12, 3), "at least $0.12, 3 calls without a price"),
        (UsageTotals(2, 0, 10, 1234.5, 1), "at least $1,234.50, 1 call without a price"),
        (UsageTotals(1, 0, 10, 0.0, 0), "$0.00"),
        (UsageTotals(3, 0, 10, 0.0, 3, paid=False), ""),
    ],
)
def test_unknown_cost_is_never_shown_as_zero(usage: UsageTotals, words: str) -> None:
    assert cost_words(usage) == words


def test_small_amounts_are_formatted_with_enough_digits() -> None:
    assert [dollars(0.00423), dollars(0.00001), dollars(0.5)] == ["$0.0042", "under $0.0001", "$0.50"]


def test_run_reports_usage_of_real_models(tmp_path: Path) -> None:
    with Wire() as wire:
        wire.replies(Reply("one", input_tokens=1_000_000, output_tokens=0), Reply("two"))
        (tmp_path / "flow.yaml").write_text(f"""
models:
  known: {{model: "openai:gpt-4o", base_url: "{wire.openai_url}", api_key: k}}
  own: {{model: "openai:my-own", base_url: "{wire.openai_url}", api_key: k}}
graph:
  start: A
  nodes:
    - {{id: A, type: agent, config: {{profile_id: known}}}}
    - {{id: B, type: agent, config: {{profile_id: own}}}}
  edges: [{{from: A, to: B}}]
""")
        done = roundel(tmp_path, "run", "flow.yaml", "--input", "go")
        assert (done.returncode, done.stdout) == (0, "two\n"), done.stderr
        assert re.search(
            r"2 model calls · 1,000,015 tokens · at least \$\d\.\d\d, 1 call without a price", done.stderr
        )
