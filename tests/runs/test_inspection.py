"""What a debugger shows of a run: ready and blocked nodes, queues, guards and breakpoints."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import roundel
from roundel.hosts.engine import Attachment
from roundel.hosts.local import LocalEngine
from roundel.journal.in_memory import InMemoryStore
from roundel.runs.inspection import RunInspection
from tests.events import node_status
from tests.runs import debug_workflows
from tests.runs.debug_workflows import (
    APPROVAL,
    BACK,
    CHECKS,
    DEBATE,
    END,
    FUNCTIONS,
    GATE,
    HUMAN,
    NESTED,
    OUT,
    PARALLEL,
    RESEARCH,
    SHAPES,
    TOOLS,
    Bench,
    agent,
    begin,
    each,
    flow,
    function,
    gate,
    run_story,
    says,
)

Runs = roundel.Runs
BRANCHES = says(*"ABCD", "Join")
LOOPS = says("Outer", "Inner", "Critic")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    fresh = Bench()
    monkeypatch.setattr(debug_workflows, "bench", fresh)
    return fresh


def inspect(story: Callable[[Runs], Awaitable[None]]) -> None:
    run_story("memory:", story)


def ready(seen: RunInspection) -> list[tuple[str, str]]:
    return [(node.address, node.why) for node in seen.ready]


def blocked(seen: RunInspection) -> dict[str, tuple[tuple[str, ...], bool]]:
    """What each node waits for, and whether it would run then."""
    return {node.address: (node.waits_for, node.is_triggered) for node in seen.blocked}


def queues(seen: RunInspection) -> list[tuple[str, list[tuple[str, str]]]]:
    for queue in seen.queues:
        assert [message.position for message in queue.messages] == list(range(len(queue.messages)))
    return [
        (queue.address, [(message.source, message.text) for message in queue.messages])
        for queue in seen.queues
    ]


def guards(seen: RunInspection) -> dict[tuple[str, str], tuple[float, float]]:
    """How much of each limit is used, by kind and name."""
    shares = [guard.share for guard in seen.guards]
    assert shares == sorted(shares, reverse=True), "the nearest one comes first"
    return {(guard.kind, guard.name): (guard.used, guard.limit) for guard in seen.guards}


# Ready nodes, blocked nodes, queues.


def test_parallel_branches_are_ready_in_the_order_of_the_file_and_their_join_waits_for_the_rest() -> None:
    async def story(runs: Runs) -> None:
        run_id = await begin(runs, PARALLEL, BRANCHES, paused=True)
        seen = await runs.debug(run_id)
        assert (seen.status, seen.reason, seen.stopped_at) == ("paused", "paused", "A")
        assert (seen.run_id, seen.workflow, seen.seq) == (run_id, "flow", len(await runs.events(run_id)))
        assert ready(seen) == [("A", "it has the input of its graph")]
        branches = dict.fromkeys("BCD", (("A",), False))
        assert blocked(seen) == {**branches, "Join": (("B", "C", "D"), False)}
        assert queues(seen) == [("A", [("", "go")])]
        await runs.step(run_id)
        seen = await runs.debug(run_id)
        assert ready(seen) == [(name, "it has messages from 'A'") for name in "BCD"]
        assert blocked(seen) == {"Join": (("B", "C", "D"), False)}
        assert queues(seen) == [(name, [("A", "A 0")]) for name in "BCD"]
        await runs.step(run_id)
        seen = await runs.debug(run_id)
        assert [node.address for node in seen.ready] == ["C", "D"]
        assert blocked(seen) == {"Join": (("C", "D"), True)}
        assert queues(seen) == [("C", [("A", "A 0")]), ("D", [("A", "A 0")]), ("Join", [("B", "B 0")])]
        await runs.step(run_id)
        await runs.step(run_id)
        seen = await runs.debug(run_id)
        assert ready(seen) == [("Join", "it has messages from 'B' and 'C' and 'D'")]
        assert queues(seen) == [("Join", [("B", "B 0"), ("C", "C 0"), ("D", "D 0")])]
        assert seen.ready[0].messages == seen.queues[0].messages
        assert blocked(seen) == {}

    inspect(story)


def test_the_messages_of_a_queue_are_in_the_order_of_layers_whatever_came_first(bench: Bench) -> None:
    """C finishes before B."""
    workflow = flow(
        [*map(function, "ABC"), {"id": "Join", "type": "passthrough"}],
        [("A", "B"), ("A", "C"), ("B", "Join"), ("C", "Join")],
        "Join",
    )

    async def story(runs: Runs) -> None:
        bench.close("B")
        done = asyncio.Event()

        def on_event(event: roundel.Event) -> None:
            if event.address == "C" and node_status(event) == "completed":
                done.set()

        run_id = await runs.start(workflow, "go", breakpoints=["Join"], attach=Attachment(on_event=on_event))
        await done.wait()
        seen = await runs.debug(run_id)
        assert (seen.status, seen.in_flight, ready(seen)) == ("running", ("B",), [])
        assert queues(seen) == [("Join", [("C", "go++")])]
        assert blocked(seen) == {"Join": (("B",), True)}
        bench.open()
        await runs.result(run_id)
        assert queues(await runs.debug(run_id)) == [("Join", [("B", "go++"), ("C", "go++")])]

    inspect(story)


def test_the_reason_of_an_entry_is_its_round() -> None:
    async def story(runs: Runs) -> None:
        run_id = await begin(runs, NESTED, LOOPS, breakpoints=["Outer", "Inner"])
        reasons = []
        while (seen := await runs.debug(run_id)).status == "paused":
            reasons += ready(seen)
            await runs.resume(run_id)
        assert reasons == [
            ("Outer[1]/Outer", "round 1 of 'Outer' begins, with the input"),
            ("Outer[1].Inner[1]/Inner", "round 1 of 'Inner' begins, with messages from 'Outer'"),
            ("Outer[1].Inner[2]/Inner", "round 2 of 'Inner' begins, with messages from 'InnerGate'"),
            ("Outer[2]/Outer", "round 2 of 'Outer' begins, with messages from 'OuterGate'"),
            ("Outer[2].Inner[1]/Inner", "round 1 of 'Inner' begins, with messages from 'Outer'"),
            ("Outer[2].Inner[2]/Inner", "round 2 of 'Inner' begins, with messages from 'InnerGate'"),
        ]

    inspect(story)


def test_nested_loops_show_their_rounds_and_what_waits_around_them() -> None:
    async def story(runs: Runs) -> None:
        run_id = await begin(runs, NESTED, LOOPS, breakpoints=["Outer[2].Inner[1]/Critic"])
        seen = await runs.debug(run_id)
        assert [(loop.address, loop.loop, loop.round, loop.limit, loop.by) for loop in seen.loops] == [
            ("Outer[2]", "Outer", 2, 2, "OuterGate"),
            ("Outer[2].Inner[1]", "Inner", 1, 2, "InnerGate"),
        ]
        assert blocked(seen) == {
            "End": (("Outer",), False),
            "Outer[2]/OuterGate": (("Inner",), False),
            "Outer[2].Inner[1]/InnerGate": (("Critic",), False),
        }
        assert queues(seen) == [("Outer[2].Inner[1]/Critic", [("Inner", "Inner 2")])]

    inspect(story)


def test_parallel_rounds_are_shown_in_their_order() -> None:
    shape = SHAPES["parallel loop agent"]

    async def story(runs: Runs) -> None:
        run_id = await begin(runs, shape.flow, shape.script, breakpoints=["Each[1]"])
        await runs.step(run_id)
        seen = await runs.debug(run_id)
        assert [node.address for node in seen.ready] == ["Each[1]/Y", "Each[2]/X"]
        await runs.step(run_id)
        seen = await runs.debug(run_id)
        assert [node.address for node in seen.ready] == ["Each[2]/X", "Each[3]/X"]
        assert queues(seen) == [("Each[2]/X", [("", "b")]), ("Each[3]/X", [("", "c")])]
        assert blocked(seen) == {
            "Last": (("Each",), False),
            "Each[2]/Y": (("X",), False),
            "Each[3]/Y": (("X",), False),
        }
        assert [(loop.address, loop.round, loop.limit) for loop in seen.loops] == [("Each[3]", 3, 10)]
        await runs.step(run_id)
        seen = await runs.debug(run_id)
        assert queues(seen) == [("Each[2]/Y", [("X", "X 1")]), ("Each[3]/X", [("", "c")])]

    inspect(story)


def test_a_debate_shows_what_the_next_speaker_has_heard() -> None:
    async def story(runs: Runs) -> None:
        run_id = await begin(runs, DEBATE, says("Ann", "Ben", "Last"), breakpoints=["Talk[2]/Ben"])
        seen = await runs.debug(run_id)
        heard = [("", "go"), ("Ann", "Ann 0"), ("Ben", "Ben 0"), ("Ann", "Ann 1")]
        assert queues(seen) == [("Talk[2]/Ben", heard)]
        assert [(loop.address, loop.limit) for loop in seen.loops] == [("Talk[2]", 2)]
        assert guards(seen) == {("rounds", "Talk"): (2, 2)}

    inspect(story)


def test_a_round_of_tools_shows_its_calls_and_what_waits_for_the_agent() -> None:
    async def story(runs: Runs) -> None:
        run_id = await begin(runs, TOOLS, {"T": RESEARCH, **says("Last")}, breakpoints=["T[1]", "T[2]"])
        [node] = (await runs.debug(run_id)).ready
        assert (node.address, node.node_id, node.type) == ("T[1]", "T", "agent")
        assert node.calls == ("look", "look#2")
        assert (node.why, node.breakpoints) == ("the model of 'T' requested tools", ("T[1]",))
        await runs.resume(run_id)
        seen = await runs.debug(run_id)
        assert blocked(seen) == {"Last": (("T",), False)}
        assert guards(seen) == {("tool_rounds", "T"): (2, 3)}
        assert seen.queues == ()

    inspect(story)


def test_open_questions_are_shown_beside_what_is_ready() -> None:
    async def story(runs: Runs) -> None:
        run_id = await begin(runs, HUMAN, says("W", "Last"))
        seen = await runs.debug(run_id)
        assert (seen.status, seen.reason, seen.ready, seen.in_flight) == ("waiting", "", (), ())
        assert [(question.address, question.prompt) for question in seen.questions] == [("H", "Is it good?")]
        assert blocked(seen) == {"Last": (("H",), False)}
        run_id = await begin(runs, APPROVAL, {"T": RESEARCH, **says("Last")})
        seen = await runs.debug(run_id)
        assert [question.tool for question in seen.questions] == [
            {"name": "look", "arguments": {"word": word}} for word in "ab"
        ]
        assert guards(seen) == {("tool_rounds", "T"): (1, 3)}

    inspect(story)


def test_an_ordinary_pause_shows_what_may_be_entered_next(bench: Bench) -> None:
    """It holds back more than nodes: the beginning of a loop, of a round, and of parts of a list."""
    entered = flow(
        [function("A"), function("W"), gate("Gate", 3), END],
        [("A", "W"), ("W", "Gate"), ("Gate", "W", BACK), ("Gate", "End", OUT)],
        "End",
    )
    listed = each(1)
    listed["graph"]["nodes"][1]["config"]["body"] = function("Body")

    async def paused_after(runs: Runs, workflow: Any, word: str, script: Any = None) -> str:
        bench.close(word)
        run_id = await runs.start(workflow, "go", script=script)
        await bench.has_started.wait()
        await runs.pause(run_id, "lunch", wait=False)
        bench.open()
        await runs.result(run_id)
        return run_id

    async def story(runs: Runs) -> None:
        run_id = await paused_after(runs, entered, "A")
        seen = await runs.debug(run_id)
        assert (seen.reason, seen.stopped_at) == ("lunch", "")
        assert ready(seen) == [("W[1]", "the loop of 'W', 'Gate' may be entered")]
        assert queues(seen) == [("W", [("A", "go+")])]
        assert blocked(seen) == {"End": (("W",), False)}
        after = await runs.edit(run_id, "edited", at="W")
        assert queues(after) == [("W", [("A", "edited")])]
        await runs.step(run_id)
        assert queues(await runs.debug(run_id)) == [("W[1]/Gate", [("W", "edited+")])]

        script = {"List": '["a", "b", "c"]', **says("Last")}
        run_id = await paused_after(runs, listed, "Each[2]/Body", script)
        seen = await runs.debug(run_id)
        assert ready(seen) == [("Each", "its next rounds may start")]
        assert [(loop.address, loop.round, loop.limit) for loop in seen.loops] == [("Each[2]", 2, 10)]
        assert blocked(seen) == {"Last": (("Each",), False)}
        await runs.step(run_id)
        seen = await runs.debug(run_id)
        assert [call for call in bench.calls if "Body" in call] == [f"Each[{one}]/Body" for one in (1, 2, 3)]
        assert ready(seen) == [("Last", "it has messages from 'Each'")]

    inspect(story)


def test_an_interrupted_run_shows_the_calls_that_are_made_again(bench: Bench) -> None:
    async def story(runs: Runs) -> None:
        bench.close("W[1]/B", "W[1]/C")
        run_id = await runs.start(FUNCTIONS, "go")
        await bench.has_started.wait()
        assert (await runs.debug(run_id)).in_flight == ("W[1]/B", "W[1]/C")
        runs.interrupt(run_id)
        await runs.result(run_id)
        seen = await runs.debug(run_id)
        assert (seen.status, seen.reason, seen.ready) == ("paused", "interrupted", ())
        assert seen.in_flight == ("W[1]/B", "W[1]/C")
        assert blocked(seen) == {"End": (("W",), False), "W[1]/Gate": (("B", "C"), False)}

    inspect(story)


def test_a_run_that_is_over_shows_nothing_that_could_happen() -> None:
    async def story(runs: Runs) -> None:
        run_id = await begin(runs, PARALLEL, BRANCHES)
        seen = await runs.debug(run_id)
        assert seen.status == "completed"
        assert (seen.ready, seen.blocked, seen.queues, seen.loops, seen.questions) == ((), (), (), (), ())

    inspect(story)


def test_variables_are_shown_without_secrets() -> None:
    workflow = copy.deepcopy(PARALLEL)
    workflow["vars"] = {"TOPIC": "tea", "KEY": {"value": "sesame-0815", "secret": True}}
    workflow["graph"]["nodes"][0]["config"]["role"] = "Write about ${TOPIC} with ${KEY}."

    async def story(runs: Runs) -> None:
        run_id = await begin(runs, workflow, BRANCHES, paused=True)
        seen = await runs.debug(run_id)
        assert seen.variables["TOPIC"] == "tea"
        assert "sesame-0815" not in repr(seen)

    inspect(story)


def test_the_version_of_a_message_changes_with_its_text_and_its_data_only() -> None:
    async def story(runs: Runs) -> None:
        run_id = await begin(runs, PARALLEL, BRANCHES, breakpoints=["Join"])
        versions = [(await runs.debug(run_id)).queues[0].messages[0].version]
        edits: list[tuple[str | None, Any]] = [
            ("x", None),
            (None, {"score": 1}),
            (None, {"score": 2}),
            ("B 0", {}),
        ]
        for text, data in edits:
            await runs.edit(run_id, text, position=0, data=data)
            versions.append((await runs.debug(run_id)).queues[0].messages[0].version)
        assert len(set(versions)) == 5
        await runs.edit(run_id, "x", position=1)
        assert (await runs.debug(run_id)).queues[0].messages[0].version == versions[-1]
        events = len(await runs.events(run_id))
        await runs.edit(run_id, "x", position=1)
        assert len(await runs.events(run_id)) == events, "nothing has changed"

    inspect(story)


# Guards.


class Clock:
    """The time, which passes only when somebody says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def at_clock(story: Callable[[Runs, Clock], Awaitable[None]]) -> None:
    async def main() -> None:
        clock, store = Clock(), InMemoryStore()
        await story(Runs(store, engine=LocalEngine(lambda: store, clock=clock)), clock)

    asyncio.run(main())


def guarded(clock: Clock, **settings: Any) -> roundel.Graph:
    """A writer, and a function that takes two seconds, with a counter and a timer."""
    limits = {"model_calls": 20, "tokens": 1000}
    graph = roundel.Graph("guarded", start="Writer", end="End", limits=limits, **settings)
    graph.node("Writer", "agent", limits={"output_tokens": 100})

    @graph.function("Slow")
    async def slow(text: str) -> str:
        clock.now += 2
        return text

    graph.node("Counter", "loop_counter", max_iterations=4).node("Timer", "loop_timer", max_duration=100)
    graph.node("End", "passthrough")
    for source, target in (
        ("Writer", "Slow"),
        ("Slow", "Writer"),
        ("Slow", "Counter"),
        ("Slow", "Timer"),
        ("Counter", "Writer"),
        ("Counter", "End"),
        ("Timer", "Writer"),
        ("Timer", "End"),
    ):
        graph.edge(source, target)
    return graph


def drafts(*texts: str) -> dict[str, Any]:
    return {"Writer": [{"text": text, "tokens": {"input": 10, "output": 5}} for text in texts]}


FRESH = ("tea is picked at dawn", "nobody drinks coffee here", "milk comes from the village", "and sugar too")


def test_guards_show_how_much_of_each_limit_is_used() -> None:
    async def story(runs: Runs, clock: Clock) -> None:
        graph = guarded(clock, loops={"Writer": {"max_rounds": 7}})
        run_id = await begin(runs, graph, drafts(*FRESH), breakpoints=["Writer[3]"])
        clock.now += 5000  # nobody works meanwhile
        seen = await runs.debug(run_id)
        assert guards(seen) == {
            ("rounds", "Counter"): (2, 4),  # it has counted two rounds
            ("rounds", "Writer"): (3, 7),  # the third one begins
            ("model_calls", "guarded"): (2, 20),
            ("tokens", "guarded"): (2 * (10 + 5), 1000),
            ("tokens", "breaker"): (2 * (10 + 5), 21_600),  # three times the worst case of the forecast
            ("output_tokens", "Writer"): (2 * 5, 100),
            ("novelty", "Writer"): (1.0, 0.1),  # no word of the second draft is in the first
            ("seconds", "Timer"): (2.0, 100),  # since it ran first, at the end of the first round
            ("seconds", "breaker"): (4.0, 700),  # 600 beside the time of the timer
        }
        assert [(guard.kind, guard.name) for guard in seen.guards][:2] == [
            ("rounds", "Counter"),
            ("rounds", "Writer"),
        ]
        addresses = {guard.name: guard.address for guard in seen.guards if guard.address}
        assert addresses == {
            "Counter": "Writer[3]/Counter",
            "Timer": "Writer[3]/Timer",
            "Writer": "Writer[3]",
        }
        await runs.step(run_id, workflow=graph)
        assert guards(await runs.debug(run_id))["model_calls", "guarded"] == (3, 20)
        await runs.step(run_id, workflow=graph)
        seen = await runs.debug(run_id)
        assert guards(seen)["seconds", "breaker"] == (6.0, 700)
        assert guards(seen)["rounds", "Counter"] == (2, 4), "it counts when it runs"
        await runs.step(run_id, workflow=graph)
        assert guards(await runs.debug(run_id))["rounds", "Counter"] == (3, 4)

    at_clock(story)


def test_novelty_falls_when_a_speaker_repeats_itself() -> None:
    async def story(runs: Runs, clock: Clock) -> None:
        run_id = await begin(
            runs, guarded(clock), drafts("tea is good", "tea is good"), breakpoints=["Writer[3]"]
        )
        seen = await runs.debug(run_id)
        assert guards(seen)["novelty", "Writer"] == (0.0, 0.1)
        nearest = seen.guards[0]
        assert (nearest.kind, nearest.share) == ("novelty", 1.0)

    at_clock(story)


def test_a_loop_node_shows_the_round_that_counts_for_it() -> None:
    ahead = {"W": [{"text": "draft", "data": {"iteration": 4}}, "draft two", "draft three", "draft four"]}
    workflow = copy.deepcopy(GATE)
    workflow["graph"]["nodes"][1]["config"]["max_rounds"] = 9

    async def story(runs: Runs) -> None:
        run_id = await begin(runs, GATE, says("W"), breakpoints=["Gate"])
        seen = [guards(await runs.debug(run_id))["rounds", "Gate"]]
        await runs.resume(run_id)
        seen.append(guards(await runs.debug(run_id))["rounds", "Gate"])
        assert seen == [(1, 3), (2, 3)]
        # A message has said that this is round 4, so the next one is round 5.
        run_id = await begin(runs, workflow, ahead, breakpoints=["W[2]/Gate"])
        found = guards(await runs.debug(run_id))
        assert (found["rounds", "Gate"], found["rounds", "W"]) == ((5, 9), (2, 100))

    inspect(story)


def test_a_raised_limit_is_the_one_that_is_shown() -> None:
    capped = flow(
        [agent("W"), agent("C"), END],
        [("W", "C"), ("C", "W"), ("C", "End", {"condition": {"cel": "text == 'never'"}})],
        "End",
        loops={"W": {"max_rounds": 2}},
    )

    async def story(runs: Runs) -> None:
        run_id = await begin(runs, PARALLEL, BRANCHES, limits={"model_calls": 2})
        seen = await runs.debug(run_id)
        assert (seen.status, ready(seen)[0][0]) == ("suspended_locked", "C")
        assert guards(seen) == {("model_calls", "flow"): (2, 2)}
        await runs.unlock(run_id, "go on", checks=CHECKS, limits={"model_calls": 8}, execute=False)
        assert guards(await runs.debug(run_id)) == {("model_calls", "flow"): (2, 8)}
        run_id = await begin(runs, capped, says("W", "C"))
        assert (await runs.row(run_id)).status == "suspended_locked"
        assert guards(await runs.debug(run_id))["rounds", "W"] == (2, 2)
        await runs.unlock(run_id, "go on", checks=CHECKS, limits={"rounds": 5}, execute=False)
        seen = await runs.debug(run_id)
        assert [(loop.address, loop.limit) for loop in seen.loops] == [("W[3]", 5)]
        assert guards(seen)["rounds", "W"] == (3, 5)

    inspect(story)


# Breakpoints.


def test_breakpoints_are_shown_with_their_hits_in_the_order_in_which_they_were_set() -> None:
    workflow = {**NESTED, "debug": {"break_at": ["OuterGate"]}}

    async def story(runs: Runs) -> None:
        run_id = await begin(runs, workflow, LOOPS, breakpoints=["Inner[2]", "OuterGate"])
        await runs.set_breakpoints(run_id, "cel: round == 2 && node == 'Inner'")
        reached = []
        while (seen := await runs.debug(run_id)).status == "paused":
            reached.append((seen.stopped_at, seen.breakpoint, seen.ready[0].breakpoints))
            await runs.resume(run_id)
        both = ("Inner[2]", "cel: round == 2 && node == 'Inner'")
        assert reached == [
            ("Outer[1].Inner[2]/Inner", "Inner[2]", ("Inner[2]",)),
            ("Outer[1]/OuterGate", "OuterGate", ("OuterGate",)),
            ("Outer[2].Inner[2]/Inner", "Inner[2]", both),
            ("Outer[2]/OuterGate", "OuterGate", ("OuterGate",)),
        ]
        states = await runs.breakpoints(run_id)
        assert [(state.text, state.hits, state.problem) for state in states] == [
            ("OuterGate", 2, ""),
            ("Inner[2]", 2, ""),
            ("cel: round == 2 && node == 'Inner'", 1, ""),
        ]
        assert seen.breakpoints == tuple(states)

    inspect(story)


def test_a_condition_that_fails_is_shown_with_its_problem() -> None:
    async def story(runs: Runs) -> None:
        run_id = await begin(runs, PARALLEL, BRANCHES, breakpoints=["cel: data.score > 3", "Join"])
        seen = await runs.debug(run_id)
        failing, join = seen.breakpoints
        assert (failing.text, failing.hits, join.hits, join.problem) == ("cel: data.score > 3", 0, 1, "")
        assert "score" in failing.problem
        warnings = [event.address for event in await runs.events(run_id) if event.event == "warning"]
        assert warnings == ["A"], "once, although it fails at every node"

    inspect(story)
