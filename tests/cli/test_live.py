"""The live display of a run in a terminal, and the plain lines in a log."""

from __future__ import annotations

import asyncio
import io
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from roundel.cli.event_lines import format_event
from roundel.cli.live_view import Display, LiveView, Summary, clock, duration
from roundel.cli.progress import Progress
from roundel.cli.prompt import ask_in_terminal
from roundel.hosts.control import Question
from roundel.hosts.engine import Result
from roundel.hosts.local_run import LocalRun
from roundel.kernel.events import Event
from roundel.kernel.payloads import NodeRunning
from roundel.llm.script import script_from
from roundel.nodes import TYPES
from roundel.plan.graph import Plan, compile_workflow
from roundel.runs.fold import RunFold
from roundel.workflow.loader import from_mapping
from roundel.workflow.message import Message
from tests.events import event_of, node_status, payload

REVIEW = {
    "id": "review",
    "nodes": [
        {"id": "Writer", "type": "agent", "config": {"provider": "openai", "name": "m"}},
        {"id": "Reviewer", "type": "agent", "config": {"provider": "openai", "name": "m"}},
        {"id": "Loop Guard", "type": "loop_counter", "config": {"max_iterations": 3}},
        {"id": "Final Output", "type": "passthrough"},
    ],
    "edges": [
        {"from": "Writer", "to": "Reviewer"},
        {"from": "Reviewer", "to": "Writer", "condition": {"cel": "text != 'ACCEPT'"}},
        {"from": "Reviewer", "to": "Loop Guard", "condition": {"cel": "text != 'ACCEPT'"}},
        {"from": "Reviewer", "to": "Final Output", "condition": {"cel": "text == 'ACCEPT'"}},
        {"from": "Loop Guard", "to": "Writer"},
        {"from": "Loop Guard", "to": "Final Output"},
    ],
    "start": ["Writer"],
    "end": ["Final Output"],
}
ASKING = {
    "id": "asking",
    "nodes": [
        {"id": "Draft", "type": "literal", "config": {"content": "a draft"}},
        {"id": "Me", "type": "human", "config": {"description": "Good enough?"}},
    ],
    "edges": [{"from": "Draft", "to": "Me"}],
    "start": ["Draft"],
}
SCRIPT = {
    "Writer": [{"text": "first draft", "tokens": {"input": 1000, "output": 234}}, "second draft"],
    "Reviewer": ["more colour please"],
}


def plan_of(graph: dict[str, Any]) -> Plan:
    return compile_workflow(from_mapping({"graph": graph, "breaker": False}, TYPES))


def console_to(file: io.StringIO, terminal: bool, width: int = 80, height: int = 24) -> Console:
    return Console(file=file, force_terminal=terminal, width=width, height=height)


def run(
    plan: Plan,
    on_event: Callable[[Event], object],
    script: dict[str, Any] | None = None,
    asker: Callable[[Question], Awaitable[str]] | None = None,
) -> Result:
    host = LocalRun(plan, script=script_from(script or SCRIPT), on_event=on_event, ask=asker)
    return asyncio.run(host.run((Message("go"),)))


def events_of(plan: Plan, script: dict[str, Any] | None = None) -> list[Event]:
    events: list[Event] = []
    run(plan, events.append, script)
    return events


def picture(plan: Plan, events: list[Event], width: int = 80, height: int = 24) -> str:
    """The display after these events."""
    progress = Progress()
    for event in events:
        progress.apply_event(event)
    file = io.StringIO()
    console_to(file, False, width, height).print(Display("review", progress.snapshot()))
    return file.getvalue()


def until(events: list[Event], address: str, status: str) -> list[Event]:
    at = next(
        number
        for number, event in enumerate(events)
        if event.address == address and event.event != "model_call" and event.fields().get("status") == status
    )
    return events[: at + 1]


def logged(plan: Plan, script: dict[str, Any] | None = None) -> list[str]:
    file = io.StringIO()
    view = LiveView(plan, console_to(file, False), interactive=False, scripted=True)
    with view:
        run(plan, view, script)
    return file.getvalue().splitlines()


# Plain lines.


def test_log_has_a_line_per_round_and_finished_node() -> None:
    *lines, ending = logged(plan_of(REVIEW), SCRIPT | {"Reviewer": ["more colour please", "ACCEPT"]})
    assert lines == [
        "Writer[1]  round 1 of 3 · Loop Guard",
        "Writer[1]/Writer  completed  first draft",
        "Writer[1]/Reviewer  completed  more colour please",
        "Writer[1]/Loop Guard  completed",
        "Writer[2]  round 2 of 3 · Loop Guard",
        "Writer[2]/Writer  completed  second draft",
        "Writer[2]/Reviewer  completed  ACCEPT",
        "Writer[2]  left after 2 rounds  exit_edge",
        "Final Output  completed  ACCEPT",
    ]
    assert ending.startswith("completed in 0.") and ending.endswith("4 model calls · 1,234 tokens")


def test_log_strips_control_codes_from_model_output() -> None:
    lines = logged(plan_of(REVIEW), {"Writer": "\x1b[31mred\x07\nnext\u202e", "Reviewer": "word " * 80})
    assert all(line.isprintable() for line in lines)
    assert lines[1] == "Writer[1]/Writer  completed  �[31mred� next�"
    assert lines[2].endswith("…") and len(lines[2]) < 140


def test_log_reports_failures_questions_and_unreached_ends() -> None:
    assert "Writer[1]/Writer  failed  rate limit" in logged(
        plan_of(REVIEW), {"Writer": {"error": "rate limit"}}
    )
    *_, asks, waiting = logged(plan_of(ASKING))
    assert asks == "Me  asks  Good enough?"
    assert waiting.startswith("waiting for Me after 0.")
    answered = logged(plan_of(ASKING), {"Me": "yes"})
    assert "Me  answered  yes" in answered
    closed = REVIEW | {"edges": [{"from": "Writer", "to": "Final Output", "condition": False}]}
    assert "no end was reached; these did not fire: Writer → Final Output" in logged(plan_of(closed))


FALLBACK: dict[str, Any] = {
    "id": "fallback",
    "nodes": [
        {
            "id": "Team",
            "type": "subgraph",
            "config": {
                "type": "config",
                "config": {
                    "nodes": [
                        {"id": "Inner", "type": "subgraph", "config": {"type": "config", "config": REVIEW}},
                        {"id": "Ask", "type": "human"},
                    ],
                    "edges": [],
                    "start": ["Inner", "Ask"],
                },
            },
        },
        {"id": "Spare", "type": "agent", "config": {"provider": "openai", "name": "m"}},
    ],
    "edges": [{"from": "Team", "to": "Spare", "port": "error"}],
    "start": ["Team"],
}
DOWN: dict[str, Any] = {"Writer": {"error": "the line is dead"}, "Spare": "plan B"}


def test_log_tells_handled_failures_from_others() -> None:
    lines = logged(plan_of(FALLBACK), DOWN)
    assert "Team/Inner/Writer[1]/Writer  failed  the line is dead" in lines
    assert "Team  failed (handled)  the line is dead" in lines
    assert lines[-1].startswith("completed in")


def test_display_tells_handled_failures_from_others_and_forgets_what_was_cancelled() -> None:
    plan = plan_of(FALLBACK)
    events = until(events_of(plan, DOWN), "Spare", "running")
    shown = picture(plan, events)
    assert "! Team  handled: the line is dead" in shown
    assert "✗ Team/Inner/Writer[1]/Writer  the line is dead" in shown
    assert "Team/Ask" not in shown
    progress = Progress()
    for event in events:
        progress.apply_event(event)
    snapshot = progress.snapshot()
    assert list(snapshot.active) == ["Spare"]
    assert snapshot.awaiting_answer == set()


def test_retried_nodes_are_not_counted_again() -> None:
    plan = plan_of(REVIEW)
    events = events_of(plan, {"Writer": {"error": "the line is dead"}})
    running = next(event for event in events if node_status(event) == "running")
    retried = [
        Event(
            len(events) + 1,
            "run_state_change",
            running.timestamp,
            "r",
            None,
            None,
            payload("run_state_change", status="running"),
        ),
        Event(
            len(events) + 2,
            running.event,
            running.timestamp,
            "r",
            "Writer",
            running.address,
            NodeRunning(retried=True),
        ),
    ]
    progress = Progress()
    for event in (*events, *retried):
        progress.apply_event(event)
    snapshot = progress.snapshot()
    assert (snapshot.runs, snapshot.status) == ({"Writer": 1}, "running")
    assert list(snapshot.active) == [running.address]
    assert format_event(retried[1]) == "Writer[1]/Writer  retried"


def test_the_view_of_a_resumed_run_begins_with_its_events_so_far() -> None:
    plan = plan_of(REVIEW)
    events = events_of(plan)
    before = until(events, "Writer[2]/Reviewer", "running")
    fold = RunFold()
    for event in before:
        fold.apply(event)
    now = 100.0
    progress = Progress(lambda: now, before=fold.snapshot(), worked=40)
    shown = progress.snapshot()
    assert shown.seconds == 40 and shown.usage.model_calls == 3
    assert [(loop.loop, loop.number) for loop in shown.loops.values()] == [("Writer", 2)]
    assert shown.active == {"Writer[2]/Reviewer": 0}, "the call is made again"
    now += 5
    assert progress.snapshot().active == {"Writer[2]/Reviewer": 5}
    whole = Progress(lambda: now)
    for event in events:
        whole.apply_event(event)
    for event in events[len(before) :]:
        progress.apply_event(event)
    resumed, followed = progress.snapshot(), whole.snapshot()
    assert (resumed.view, resumed.runs, resumed.rounds) == (followed.view, followed.runs, followed.rounds)


def test_lines_say_who_answered_and_what_was_changed() -> None:
    def line(**data: Any) -> str | None:
        given = {"text": "{}", "via": "person", **data}
        return format_event(event_of("human_input_received", 1, "A", "A[1]/order", **given))

    changes = [{"path": "/grams", "before": 5000, "after": 3000}, {"path": "/tea", "after": "oolong"}]
    assert line(text="fine", by="ann", decision="answered") == "A[1]/order  answered by ann  fine"
    assert line(by="ann", decision="approved") == "A[1]/order  approved by ann"
    assert line(decision="rejected", reason="too much") == "A[1]/order  rejected  too much"
    assert line(by="ann", decision="changed", changes=changes) == (
        'A[1]/order  changed by ann  /grams 5000 → 3000, /tea none → "oolong"'
    )


RETRIED = {"status": "running", "retried": True}


def test_log_reports_the_limit_that_was_reached() -> None:
    capped = REVIEW | {"loops": {"Writer": {"max_rounds": 2}}}
    lines = logged(plan_of(capped))
    assert "Writer[2]  limit reached  2 rounds" in lines
    assert lines[-1].startswith("suspended_locked: limit of 2 rounds at Writer[2] after")


# The display.


def test_display_shows_rounds_running_nodes_and_outputs() -> None:
    plan = plan_of(REVIEW)
    lines = picture(plan, until(events_of(plan), "Writer[2]/Reviewer", "running")).splitlines()
    assert lines[0][2:].startswith("review  running · 0:00 · 3 model calls")
    assert lines[1] == "  Writer  ●●○  round 2 of 3 · Loop Guard"
    assert lines[2][4:].startswith("Writer[2]/Reviewer  0.")
    assert lines[3:] == [
        "  ✓ Writer[1]/Writer  first draft",
        "  ✓ Writer[1]/Reviewer  more colour please",
        "  ✓ Writer[2]/Writer  second draft",
    ]


def test_nested_loops_are_indented_even_inside_subgraphs() -> None:
    outer = {
        "id": "outer",
        "nodes": [
            {"id": "Start", "type": "passthrough"},
            {"id": "Inner [1]/x", "type": "subgraph", "config": {"type": "config", "config": REVIEW}},
            {"id": "Stop", "type": "loop_counter", "config": {"max_iterations": 2}},
            {"id": "End", "type": "passthrough"},
        ],
        "edges": [
            {"from": "Start", "to": "Inner [1]/x"},
            {"from": "Inner [1]/x", "to": "Start"},
            {"from": "Inner [1]/x", "to": "Stop"},
            {"from": "Stop", "to": "Start"},
            {"from": "Stop", "to": "End"},
        ],
        "start": ["Start"],
    }
    plan = plan_of(outer)
    events = until(events_of(plan), "Start[2]/Inner %5B1%5D%2Fx/Writer[3]/Writer", "running")
    lines = picture(plan, events).splitlines()
    assert lines[1] == "  Start  ●●  round 2 of 2 · Stop"
    assert lines[2] == "    Writer  ●●●  round 3 of 3 · Loop Guard"
    assert "Start[2]/Inner %5B1%5D%2Fx/Writer[3]/Writer" in lines[3]


def test_a_free_cycle_inside_another_is_indented_with_its_own_bound() -> None:
    nodes = [{"id": name, "type": "passthrough"} for name in ("A", "B", "C", "D")]
    guards = [
        {"id": "Often", "type": "loop_counter", "config": {"max_iterations": 4}},
        {"id": "Seldom", "type": "loop_counter", "config": {"max_iterations": 2}},
    ]
    ways = ["AB", "BC", "CB", "C Often", "Often B", "Often D", "DA", "D Seldom", "Seldom A", "Seldom End"]
    edges = [dict(zip(("from", "to"), way.split() if " " in way else way, strict=True)) for way in ways]
    end = {"id": "End", "type": "passthrough"}
    plan = plan_of({"id": "n", "nodes": [*nodes, *guards, end], "edges": edges, "start": ["A"]})
    lines = picture(plan, until(events_of(plan), "A[2].B[3]/C", "running")).splitlines()
    assert lines[1] == "  A  ●●  round 2 of 2 · Seldom"
    assert lines[2] == "    B  ●●●○  round 3 of 4 · Often"


def test_a_loop_without_a_counter_shows_its_cap() -> None:
    timed = REVIEW | {
        "nodes": [
            *REVIEW["nodes"][:2],
            {"id": "Loop Guard", "type": "loop_timer", "config": {"max_duration": 5}},
            REVIEW["nodes"][3],
        ],
        "limits": {"rounds": 40},
    }
    plan = plan_of(timed)
    text = picture(plan, until(events_of(plan), "Writer[20]/Writer", "running"))
    assert "Writer  ━━━━━━──────  round 20 of 40 (cap) · Loop Guard: 5 seconds" in text


@pytest.mark.parametrize(("width", "height"), [(20, 5), (33, 8), (80, 24)])
def test_the_display_fits_narrow_terminals_and_wide_characters(width: int, height: int) -> None:
    plan = plan_of(REVIEW)
    script = {"Writer": "请写得更短一些，并且更有诗意" * 5, "Reviewer": "🙂" * 60}
    text = picture(plan, until(events_of(plan, script), "Writer[3]/Writer", "running"), width, height)
    assert len(text.splitlines()) <= max(6, height - 1)
    assert all(Text(line).cell_len <= width for line in text.splitlines())


def test_a_terminal_gets_a_display_and_then_the_tables() -> None:
    plan, file = plan_of(REVIEW), io.StringIO()
    view = LiveView(plan, console_to(file, True), interactive=True)
    with view:
        run(plan, view, {"Writer": {"text": "a draft", "delay": 0.1}, "Reviewer": "no"})
    last_frame = file.getvalue().rindex("review")
    assert "\x1b[2K" in file.getvalue()[last_frame : file.getvalue().rindex("node")], "the display was wiped"
    text = Text.from_ansi(file.getvalue()).plain
    assert "●○○  round 1 of 3 · Loop Guard" in text
    tables = text[text.rindex("node ") :]
    for row in (r"Writer 3", r"Reviewer 3", "Loop Guard 3", "Final Output 1"):
        assert row in " ".join(tables.split())
    assert "Writer 3 Loop Guard (max_iterations_reached)" in " ".join(tables.split())
    assert "✓ completed in 0." in tables and "6 model calls" in tables


def test_tables_are_stacked_on_narrow_terminals() -> None:
    plan, file = plan_of(REVIEW), io.StringIO()
    progress = Progress()
    for event in events_of(plan):
        progress.apply_event(event)
    console_to(file, False, width=44).print(Summary(progress.snapshot()))
    lines = [line.split() for line in file.getvalue().splitlines()]
    assert lines[0] == ["node", "times", "run"]
    assert ["loop", "rounds", "left", "by"] in lines


def test_suspended_display_does_not_refresh() -> None:
    file = io.StringIO()
    view = LiveView(plan_of(REVIEW), console_to(file, True), interactive=True)
    with view:
        with view.suspend():
            before = file.tell()
            time.sleep(0.3)
            assert file.tell() == before
        time.sleep(0.3)
        assert file.tell() > before


def test_without_colour_the_display_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    plan, file = plan_of(REVIEW), io.StringIO()
    view = LiveView(plan, console_to(file, True), interactive=True)
    with view:
        run(plan, view)
    assert "\x1b[3" not in file.getvalue() and "\x1b[9" not in file.getvalue()


def test_durations_are_formatted_for_people() -> None:
    assert [clock(7.9), clock(754), clock(3723)] == ["0:07", "12:34", "1:02:03"]
    assert [duration(1.25), duration(192), duration(3900)] == ["1.2 s", "3 min 12 s", "1 h 5 min"]


# Asking.


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A terminal as standard input; what is written to the number given is typed."""
    pty = pytest.importorskip("pty")
    keyboard, screen = pty.openpty()
    with os.fdopen(screen, encoding="utf-8") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        yield keyboard
    os.close(keyboard)


def ask(keys: bytes, keyboard: int) -> tuple[Result, str]:
    plan, file = plan_of(ASKING), io.StringIO()
    view = LiveView(plan, console_to(file, True), interactive=True)

    async def asker(question: Question) -> str:
        typing = asyncio.get_running_loop().call_later(0.1, os.write, keyboard, keys)
        try:
            return await ask_in_terminal(question, view)
        finally:
            typing.cancel()

    with view:
        result = run(plan, view, asker=asker)
    return result, Text.from_ansi(file.getvalue()).plain


def test_prompt_shows_input_and_question_and_reads_the_answer(terminal: int) -> None:
    result, text = ask("够好了\n".encode(), terminal)
    assert result.status == "completed" and result.output == "够好了"
    assert "a draft" in text and "Good enough?" in text
    assert text.rindex("✓ completed") > text.rindex("Good enough?")


def test_trailing_backslash_continues_the_answer_on_the_next_line(terminal: int) -> None:
    result, text = ask(b"not yet:\\\nshorter\n", terminal)
    assert result.output == "not yet:\nshorter"
    assert "… " in text


def test_end_of_input_leaves_the_question_open(terminal: int) -> None:
    result, _ = ask(b"\x04", terminal)
    assert (result.status, result.error) == ("waiting", None)


async def readers(many: int) -> None:
    """Until so many threads read what is typed."""
    for _ in range(6000):
        if sum(thread.name == "roundel-answer" for thread in threading.enumerate()) == many:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"there are not {many} of them")


def test_cancelled_prompt_releases_the_terminal_to_the_next_one(terminal: int) -> None:
    view = LiveView(plan_of(ASKING), console_to(io.StringIO(), True), interactive=True)
    question = Question("Me", "Me", "", ())

    async def twice() -> str:
        first = asyncio.create_task(ask_in_terminal(question, view))
        await readers(1)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await readers(0)
        os.write(terminal, b"for the second\n")
        return await ask_in_terminal(question, view)

    assert asyncio.run(twice()) == "for the second"


# Loops that are nodes.

COUNCIL = {
    "id": "Council",
    "type": "debate",
    "config": {
        "participants": [{"id": "Ada", "type": "agent"}, {"id": "Bo", "type": "agent"}],
        "max_rounds": 5,
    },
}


def again(body: dict[str, Any], most: int = 4, name: str = "Again") -> dict[str, Any]:
    config = {"strategy": {"mode": "count", "max": most}, "body": body}
    return {"id": name, "type": "loop_agent", "config": config}


def alone(node: dict[str, Any]) -> dict[str, Any]:
    return {"id": "alone", "nodes": [node], "start": [node["id"]]}


def test_the_rounds_of_a_debate_and_of_a_loop_agent_have_bounds() -> None:
    lines = logged(plan_of(alone(COUNCIL)), {"*": "well"})
    assert "Council[2]  round 2 of 5" in lines
    lines = logged(plan_of(alone(again({"id": "Step", "type": "agent"}))), {"*": "well"})
    assert "Again[2]  round 2 of 4" in lines


def test_loops_inside_nodes_that_are_loops_have_bounds() -> None:
    lines = logged(plan_of(alone(again(again(COUNCIL, 3, "Inner")))), {"*": "well"})
    assert "Again[2].Inner[3]  round 3 of 3" in lines
    assert "Again[4].Inner[3].Council[5]  round 5 of 5" in lines
    lines = logged(plan_of(alone(again({k: v for k, v in REVIEW.items() if k != "id"}))), SCRIPT)
    assert "Again[4].Writer[2]  round 2 of 3 · Loop Guard" in lines
    sub = {"id": "Sub", "type": "subgraph", "config": {"type": "config", "config": alone(COUNCIL)}}
    assert "Sub/Council[5]  round 5 of 5" in logged(plan_of(alone(sub)), {"*": "well"})
    speaker = {**sub, "config": {"type": "config", "config": alone(again({"id": "Step", "type": "agent"}))}}
    config = {"participants": [{"id": "Ada", "type": "agent"}, speaker], "max_rounds": 2}
    debate = {"id": "Talk", "type": "debate", "config": config}
    assert "Talk[2]/Sub/Again[4]  round 4 of 4" in logged(plan_of(alone(debate)), {"*": "well"})


def test_a_loop_agent_in_a_free_loop_is_shown_until_it_ends() -> None:
    step = again({"id": "Step", "type": "agent"})
    nodes = [step, {"id": "Stop", "type": "loop_counter", "config": {"max_iterations": 2}}]
    nodes.append({"id": "Out", "type": "passthrough"})
    ways = ("Again Again", "Again Stop", "Stop Again", "Stop Out")
    edges = [dict(zip(("from", "to"), way.split(), strict=True)) for way in ways]
    plan = plan_of({"id": "both", "nodes": nodes, "edges": edges, "start": ["Again"], "end": ["Out"]})
    events = events_of(plan, {"*": "well"})
    shown = picture(plan, until(events, "Again[2].Again[3]/Step", "running")).splitlines()
    assert shown[1] == "  Again  ●●  round 2 of 2 · Stop"
    assert shown[2] == "    Again  ●●●○  round 3 of 4"
    left = picture(plan, until(events, "Again[2]/Again", "completed"))
    assert "round 2 of 2" in left
    assert "of 4" not in left
