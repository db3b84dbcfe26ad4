"""The loop agent: one body, again and again."""

from __future__ import annotations

import asyncio
import json
import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel import LoopMode, Message
from roundel.kernel.composite import as_action
from roundel.kernel.payloads import LimitReached, LoopLeft, NodeCompleted
from roundel.nodes.loop_controllers import ArrayController
from roundel.nodes.loop_strategies import ArrayStrategy
from tests.events import node_status

STEP = {"id": "Step", "type": "agent", "config": {}}
ECHO = {"id": "Step", "type": "passthrough", "config": {}}


def loop(strategy: Any, body: Any = STEP, name: str = "Loop", **config: Any) -> roundel.Graph:
    if isinstance(strategy, LoopMode):
        strategy = strategy.strategy
    graph = roundel.Graph(start=name, end=name)
    return graph.node(name, "loop_agent", strategy=strategy, body=body, **config)


class Watched:
    """A run, and what it told."""

    def __init__(self, graph: Any, text: str = "go", **more: Any) -> None:
        self.events: list[roundel.Event] = []
        self.result = roundel.run(
            graph, text, script=more.pop("script", {}), on_event=self.events.append, **more
        )

    def named(self, name: str) -> list[roundel.Event]:
        return [event for event in self.events if event.event == name]

    @property
    def ran(self) -> list[str]:
        return [str(event.address) for event in self.events if node_status(event) == "running"]

    @property
    def rounds(self) -> int:
        return int(self.result.loops["Loop"]["rounds"])

    @property
    def reason(self) -> str:
        return str(self.result.loops["Loop"]["exit_reason"])

    @property
    def results(self) -> Any:
        assert self.result.data is not None
        return self.result.data["results"]


# Count


@pytest.mark.parametrize(("given", "rounds"), [(-3, 0), (0, 0), (1, 1), (2, 2), (7, 7), (1500, 1500)])
def test_count_strategy_runs_exactly_that_many_rounds(given: int, rounds: int) -> None:
    watched = Watched(loop(LoopMode.count(given)), script={"Step": [f"text {n}" for n in range(1, 2000)]})
    assert watched.result.status == "completed"
    assert (watched.rounds, watched.reason) == (rounds, "count_reached")
    assert watched.result.nodes == {"Loop": 1, **({"Step": rounds} if rounds else {})}
    assert watched.result.output == (f"text {rounds}" if rounds else "go")
    assert watched.results == [f"text {n}" for n in range(1, rounds + 1)]


def test_each_round_receives_the_previous_result() -> None:
    def add(text: str) -> str:
        return text + "+"

    watched = Watched(roundel.LoopAgent("Loop", add, LoopMode.count(3)), "a")
    assert (watched.result.output, watched.results) == ("a+++", ["a+", "a++", "a+++"])


def test_loop_agent_emits_round_and_exit_events() -> None:
    watched = Watched(loop(LoopMode.count(2)), script={"Step": ["one", "two"]})
    calls = [event.address for event in watched.events if event.event == "model_call"]
    assert calls == [*["Loop[1]/Step"] * 2, *["Loop[2]/Step"] * 2]
    others = [event for event in watched.events if event.event != "model_call"]
    reported = [(event.event, event.address) for event in others[2:-1]]
    assert reported == [
        ("loop_round", "Loop[1]"),
        ("node_state_change", "Loop[1]/Step"),
        ("node_state_change", "Loop[1]/Step"),
        ("round_finished", "Loop[1]"),
        ("loop_round", "Loop[2]"),
        ("node_state_change", "Loop[2]/Step"),
        ("node_state_change", "Loop[2]/Step"),
        ("round_finished", "Loop[2]"),
        ("loop_exit", "Loop[2]"),
        ("node_state_change", "Loop"),
    ]
    left = watched.events[-3].data
    assert isinstance(left, LoopLeft)
    assert (left.loop, left.rounds, left.round, left.reason) == ("Loop", 2, 2, "count_reached")
    done = watched.events[-2].data
    assert isinstance(done, NodeCompleted) and done.report is not None
    assert (done.output, done.report["results"], done.report["rounds"]) == ("two", ["one", "two"], 2)


def test_zero_rounds_pass_the_input_through() -> None:
    graph = roundel.Graph(start="In", end="Out").node("In", "literal", content="x", role="assistant")
    graph.node("Loop", "loop_agent", strategy={"mode": "count", "max": 0}, body=STEP)
    graph.node("Out", "passthrough").edge("In", "Loop").edge("Loop", "Out")
    watched = Watched(graph)
    assert (watched.result.output, watched.ran) == ("x", ["In", "Loop", "Out"])


def test_loop_triggered_without_a_message_triggers_its_targets() -> None:
    graph = roundel.Graph(start="In", end="Out").node("In", "literal", content="x")
    graph.node("Loop", "loop_agent", strategy={"mode": "count", "max": 0}, body=STEP)
    graph.node("Out", "passthrough").edge("In", "Loop", carry_data=False).edge("Loop", "Out")
    assert Watched(graph).result.nodes == {"In": 1, "Loop": 1, "Out": 1}


# Condition


@pytest.mark.parametrize(
    ("until", "rounds"),
    [
        ("text.contains('three')", 3),
        ("text == 'go'", 0),
        ("messages.exists(m, m == 'two')", 2),
        ("size(messages) >= 3", 2),
        ("messages[0] != 'go'", 5),
        ("has(data.score) && data.score >= 20", 2),
        ("round == 4", 4),
        ("round >= 0", 0),
        (True, 0),
        ({"cel": "round == 1"}, 1),
    ],
)
def test_condition_strategy_runs_until_the_condition_holds(until: Any, rounds: int) -> None:
    words = ["one", "two", "three", "four", "five"]
    script = {"Step": [{"text": word, "data": {"score": 10 * n}} for n, word in enumerate(words, 1)]}
    strategy = {"mode": "condition", "until": until, "max": 5}
    watched = Watched(loop(strategy), script=script)
    assert watched.rounds == rounds
    assert watched.result.output == (words[rounds - 1] if rounds else "go")
    assert watched.reason == ("condition_met" if rounds < 5 else "max_rounds_reached")


def test_a_function_sees_all_messages() -> None:
    seen: list[list[str]] = []

    def enough(messages: tuple[Message, ...]) -> bool:
        seen.append([message.text for message in messages])
        return len(messages) > 2

    watched = Watched(loop(LoopMode.condition(enough)), script={"Step": ["a", "b", "c"]})
    assert (watched.rounds, watched.result.output) == (2, "b")
    assert seen == [["go"], ["go", "a"], ["go", "a", "b"]]


class Enough:
    async def __call__(self, messages: tuple[Message, ...]) -> bool:
        await asyncio.sleep(0)
        return messages[-1].text == "b"


async def says_b(messages: tuple[Message, ...]) -> bool:
    return messages[-1].text == "b"


@pytest.mark.parametrize(
    "predicate",
    [says_b, Enough(), partial(says_b), lambda m: [] if m[-1].text != "b" else [1]],
)
def test_a_function_may_be_a_coroutine_or_anything_that_can_be_called(predicate: Any) -> None:
    watched = Watched(loop(LoopMode.condition(predicate)), script={"Step": ["a", "b", "c"]})
    assert watched.rounds == 2


def test_a_predicate_that_raises_fails_the_loop() -> None:
    def broken(messages: tuple[Message, ...]) -> bool:
        raise KeyError("mood")

    watched = Watched(loop(LoopMode.condition(broken)))
    assert (watched.result.status, watched.result.error) == ("failed", "Loop: KeyError: 'mood'")


def test_an_expression_that_fails_fails_the_loop() -> None:
    watched = Watched(loop(LoopMode.condition("data.score > 5")))
    assert watched.result.status == "failed"
    assert watched.result.error is not None
    assert watched.result.error.startswith("Loop: 'until' failed: `data.score > 5` needs 'score'")
    assert watched.ran == ["Loop"]


@pytest.mark.parametrize(("cap", "rounds"), [(1, 1), (2, 2), (3, 3), (4, 3)])
def test_at_its_cap_a_condition_ends_the_loop_with_a_notice(cap: int, rounds: int) -> None:
    """It holds after three rounds: with a cap of three that is in time."""
    graph = loop(LoopMode.condition("text == 'three'", max=cap))
    graph.node("Out", "passthrough", only_last_message=False).edge("Loop", "Out")
    watched = Watched(graph, script={"Step": ["one", "two", "three", "four"]})
    assert watched.rounds == rounds
    limited = watched.named("limit_reached")
    assert watched.result.output == ["one", "two", "three"][rounds - 1]
    if rounds < 3:
        assert limited[0].fields() == {"what": "rounds", "limit": cap, "address": "Loop"}
        assert limited[0].address == "Loop"
        assert watched.reason == "max_rounds_reached"
    else:
        assert not limited


def test_limit_notice_precedes_the_output_once_as_system_message() -> None:
    seen: list[tuple[str, str, bool]] = []
    graph = loop(LoopMode.condition("false", max=2))

    @graph.function("Out")
    def look(messages: tuple[Message, ...]) -> str:
        seen.extend((message.role, message.text, message.is_notice) for message in messages)
        return "done"

    graph.edge("Loop", "Out")
    Watched(graph, script={"Step": ["one", "two"]})
    notice = "The loop ended after 2 rounds without its condition being met."
    assert seen == [("system", notice, True), ("user", "two", False)]


def test_on_limit_suspend_locks_the_run_and_keeps_the_rounds() -> None:
    watched = Watched(loop(LoopMode.condition("false", max=2, on_limit="suspend")))
    assert (watched.result.status, watched.rounds) == ("suspended_locked", 2)
    assert watched.named("limit_reached")[0].data == LimitReached("rounds", 2, "Loop", locks=True)
    assert watched.named("run_state_change")[0].fields()["reason"] == "limit of 2 rounds at Loop"
    assert not watched.named("loop_exit")


# Array

ELEMENTS = '["red", {"g": 1, "名": "绿"}, null, [1, [2]], 3, 1.5, true, "", "蓝 🙂"]'


def test_text_elements_are_text_and_others_json() -> None:
    watched = Watched(loop(LoopMode.array(), ECHO), ELEMENTS)
    texts = ["red", '{"g": 1, "名": "绿"}', "null", "[1, [2]]", "3", "1.5", "true", "", "蓝 🙂"]
    assert watched.results == texts
    values = ["red", {"g": 1, "名": "绿"}, None, [1, [2]], 3, 1.5, True, "", "蓝 🙂"]
    assert json.loads(watched.result.output) == values
    assert "蓝 🙂" in watched.result.output
    assert (watched.rounds, watched.reason) == (9, "array_done")


def test_an_object_is_the_data_of_its_round() -> None:
    def double(data: dict[str, int]) -> dict[str, Any]:
        return {"n": data.get("n", 0) * 2}

    agent = roundel.LoopAgent("Loop", double, LoopMode.array(gather=False))
    assert roundel.run(agent, '[{"n": 4}, {"n": 5}]').data == {
        "n": 10,
        "results": [{"n": 8}, {"n": 10}],
        "rounds": 2,
    }


@pytest.mark.parametrize("text", ["[1, 2]", " [1, 2]\n", "```json\n[1, 2]\n```", "```\n[1, 2]```\n"])
def test_accepted_list_formats(text: str) -> None:
    assert Watched(loop(LoopMode.array(), ECHO), text).results == ["1", "2"]


def test_empty_list_runs_no_round_and_returns_an_empty_list() -> None:
    watched = Watched(loop(LoopMode.array(), ECHO), "[]")
    assert (watched.rounds, watched.result.output, watched.results) == (0, "[]", [])
    assert not watched.named("warning")


NONE = [
    "three apples",
    "",
    "null",
    '{"a": 1}',
    '"text"',
    "3",
    "[1, 2",
    "[1] and more",
    "[NaN]",
    "[" * 5000,
    '["\\ud800"]',
]


@pytest.mark.parametrize("text", NONE)
def test_non_list_input_is_a_warning_and_the_run_continues(text: str) -> None:
    graph = loop(LoopMode.array(), ECHO).node("After", "passthrough").edge("Loop", "After")
    watched = Watched(graph, text)
    assert (watched.result.status, watched.rounds, watched.reason) == ("completed", 0, "not_an_array")
    [warning] = watched.named("warning")
    assert warning.fields()["message"] == watched.result.output
    assert watched.result.output.startswith(
        "There is nothing to repeat: the last message is not a JSON array: "
    )
    assert watched.ran == ["Loop", "After"]
    assert len(watched.result.output) < 200


@pytest.mark.parametrize(("count", "status"), [(2, "completed"), (3, "completed"), (4, "suspended_locked")])
@pytest.mark.parametrize("width", [1, 2, 5])
def test_list_above_the_cap_locks_the_run(count: int, status: str, width: int) -> None:
    strategy = LoopMode.array(max=3, max_parallel=width)
    watched = Watched(loop(strategy, ECHO), json.dumps(list(range(count))))
    assert (watched.result.status, watched.rounds) == (status, count if count <= 3 else 0)
    limits = [event.fields() for event in watched.named("limit_reached")]
    locked = {"what": "items", "limit": 3, "address": "Loop", "locks": True}
    assert limits == ([locked] if count > 3 else [])


@pytest.mark.parametrize(
    ("items", "results"),
    [
        ("data.names", ["Ann", "Bo"]),
        ("data.names.map(n, n + '!')", ["Ann!", "Bo!"]),
        ("[text, 'x']", ["go", "x"]),
        ("messages", ["go"]),
        ("[]", []),
        ("[timestamp('2026-11-15T20:00:00Z'), 2u]", ["2026-11-15T20:00:00Z", "2"]),
    ],
)
def test_elements_by_an_expression(items: str, results: list[str]) -> None:
    watched = Watched(loop(LoopMode.array(items), ECHO), Message("go", data={"names": ["Ann", "Bo"]}))  # type: ignore[arg-type]
    assert watched.results == results


def test_items_expression_that_is_not_a_list_is_reported() -> None:
    watched = Watched(loop(LoopMode.array("text"), ECHO))
    assert watched.result.output == "There is nothing to repeat: what 'items' gives is not a list"


def said_once(watched: Watched, why: str) -> None:
    """No round, one message and one warning that say why, and the run goes on."""
    assert (watched.result.status, watched.rounds, watched.reason) == ("completed", 0, "items_failed")
    assert watched.ran == ["Loop", "After"]
    assert watched.result.output == f"There is nothing to repeat: {why}"
    assert watched.result.data == {"results": [], "rounds": 0, "error": why}
    assert [event.fields()["message"] for event in watched.named("warning")] == [watched.result.output]
    assert not [event for event in watched.events if node_status(event) == "failed"]


def after(strategy: LoopMode, **config: Any) -> roundel.Graph:
    return loop(strategy, ECHO, **config).node("After", "passthrough").edge("Loop", "After")


def test_elements_by_an_expression_that_fails() -> None:
    graph = after(LoopMode.array("data.names"))
    why = "'items' failed: `data.names` needs 'names', which is missing; test `has(…names)` first"
    said_once(Watched(graph), why)


async def breaks(messages: tuple[Message, ...]) -> list[str]:
    raise ValueError("no list today")


@pytest.mark.parametrize(
    ("converter", "error"),
    [
        (lambda messages: 1 / 0, "ZeroDivisionError: division by zero"),
        (breaks, "ValueError: no list today"),
        (
            lambda messages: [object()],
            "the list for the loop cannot be written as JSON: Encoding objects of type object is unsupported",
        ),
    ],
)
def test_raising_converter_is_a_warning_and_the_run_continues(converter: Any, error: str) -> None:
    said_once(Watched(after(LoopMode.array(converter))), f"the function of 'items' failed: {error}")


def test_converter_is_retried_like_its_node() -> None:
    calls: list[int] = []

    def words(messages: tuple[Message, ...]) -> list[str]:
        calls.append(len(calls))
        if len(calls) < 3:
            raise ValueError("not yet")
        return ["a", "b"]

    graph = after(
        LoopMode.array(words), retry={"max_attempts": 3, "min_wait_seconds": 0, "max_wait_seconds": 0}
    )
    watched = Watched(graph)
    assert (len(calls), watched.rounds, watched.reason) == (3, 2, "array_done")


def test_raising_converter_is_not_called_again_on_resume(tmp_path: Path) -> None:
    calls: list[int] = []

    def words(messages: tuple[Message, ...]) -> list[str]:
        calls.append(1)
        raise ValueError("never")

    graph = loop(LoopMode.array(words), ECHO).node("Person", "human").edge("Loop", "Person")
    store = tmp_path / "runs.db"
    first = roundel.run(graph, "go", store=store)
    again = roundel.resume(first.run_id, store=store, workflow=graph)
    assert (first.status, again.status, len(calls)) == ("waiting", "waiting", 1)
    assert again.loops == first.loops


def test_a_predicate_or_strategy_that_raises_still_fails_the_loop() -> None:
    def raises(given: Any) -> bool:
        raise ValueError("broken")

    for strategy in (LoopMode.condition(raises), LoopMode.custom(raises)):
        watched = Watched(after(strategy))
        assert (watched.result.status, watched.result.error) == ("failed", "Loop: ValueError: broken")


async def slowly(messages: tuple[Message, ...]) -> list[str]:
    return messages[-1].text.split()


@pytest.mark.parametrize(
    ("converter", "results"),
    [
        (lambda messages: messages[-1].text.split(), ["a", "b"]),
        (lambda messages: (1, {"k": None}, Message("m")), ["1", '{"k": null}', "m"]),
        (slowly, ["a", "b"]),
        (lambda messages: [], []),
    ],
)
def test_elements_by_a_function(converter: Any, results: list[str]) -> None:
    assert Watched(loop(LoopMode.array(converter), ECHO), "a b").results == results


@pytest.mark.parametrize("answer", [None, "text", {"a": 1}, 5])
def test_items_function_that_returns_no_list_is_reported(answer: Any) -> None:
    watched = Watched(loop(LoopMode.array(lambda messages: answer), ECHO))
    assert (
        watched.result.output == "There is nothing to repeat: what the function of 'items' gave is not a list"
    )
    assert watched.rounds == 0


@pytest.mark.parametrize("width", [1, 2, 3, 7, 20])
def test_max_parallel_is_respected_and_results_keep_element_order(width: int) -> None:
    in_flight = 0
    most = 0
    pause = random.Random(width)

    async def step(text: str) -> str:
        nonlocal in_flight, most
        in_flight += 1
        most = max(most, in_flight)
        await asyncio.sleep(pause.random() / 200)
        in_flight -= 1
        return f"<{text}>"

    agent = roundel.LoopAgent("Loop", step, LoopMode.array(max_parallel=width))
    watched = Watched(agent, json.dumps(list(range(12))))
    assert watched.results == [f"<{number}>" for number in range(12)]
    assert most == min(width, 12)


def test_scripted_replies_follow_element_order() -> None:
    lines = [{"text": f"reply {n}", "delay": (5 - n) / 200} for n in range(1, 6)]
    graph = roundel.Graph(start="A", end="B").node("A", "agent").node("B", "agent").edge("A", "B")
    watched = Watched(loop(LoopMode.array(max_parallel=5), graph), "[1, 2, 3, 4, 5]", script={"B": lines})
    assert watched.results == [f"reply {n}" for n in range(1, 6)]


ERRORS = {"Step": ["one", {"error": "no credit"}, "three"]}


@pytest.mark.parametrize("width", [1, 3])
def test_on_error_stops_the_run_or_gives_null_or_drops_the_element(width: int) -> None:
    def run(on_error: Any) -> Watched:
        return Watched(
            loop(LoopMode.array(on_error=on_error, max_parallel=width)), "[1, 2, 3]", script=ERRORS
        )

    stopped, null, drop = run("stop"), run("null"), run("drop")
    assert (stopped.result.status, stopped.result.error) == ("failed", "Loop[2]/Step: no credit")
    assert (null.results, null.result.output) == (["one", None, "three"], '["one", null, "three"]')
    assert (drop.results, drop.rounds) == (["one", "three"], 3)
    for caught in (null, drop):
        assert caught.result.data is not None
        assert caught.result.data["errors"] == [{"round": 2, "error": "no credit"}]
        failed = [event.address for event in caught.events if node_status(event) == "failed"]
        assert failed == ["Loop[2]/Step"]


@pytest.mark.parametrize(
    ("on_error", "output"),
    [("null", ""), ("drop", "two")],
    ids=["the last one failed", "the last one is gone"],
)
def test_without_gather_the_last_result_goes_out_with_its_data(on_error: Any, output: str) -> None:
    lines = ["one", {"text": "two", "data": {"n": 2}}, {"error": "no"}]
    strategy = LoopMode.array(gather=False, on_error=on_error)
    watched = Watched(loop(strategy), "[1, 2, 3]", script={"Step": lines})
    assert watched.result.output == output
    assert watched.result.data is not None
    assert watched.result.data.get("n") == (2 if on_error == "drop" else None)


@pytest.mark.parametrize("text", ["[]", "[1]"])
def test_without_gather_no_result_is_an_empty_message(text: str) -> None:
    strategy = LoopMode.array(gather=False, on_error="drop")
    watched = Watched(loop(strategy), text, script={"Step": {"error": "no"}})
    assert (watched.result.output, watched.results) == ("", [])


# Custom


class Halving(roundel.LoopStrategy):
    """Goes on with half of the number, as long as that is whole."""

    def init(self, state: dict[str, Any]) -> None:
        state["left"] = int(state["messages"][-1].text)
        state["seen"] = []

    def dispatch(self, state: dict[str, Any]) -> Any:
        state["seen"].append(state["left"])
        if state["left"] % 2:
            return False
        state["left"] //= 2
        return str(state["left"])


@pytest.mark.parametrize("strategy", [Halving, Halving()])
def test_custom_strategy_keeps_its_state(strategy: Any) -> None:
    watched = Watched(roundel.LoopAgent("Loop", echo, strategy), "40")
    assert (watched.results, watched.reason) == (["20", "10", "5"], "strategy_ended")


def echo(text: str) -> str:
    return text


def test_strategy_receives_round_messages_and_results() -> None:
    reported: list[Any] = []

    def dispatch(state: dict[str, Any]) -> Any:
        reported.append((state["round"], [message.text for message in state["messages"]], state["results"]))
        state["messages"] = state["results"] = "not ours to change"
        return state["round"] < 2

    watched = Watched(loop(LoopMode.custom(dispatch)), script={"Step": ["a", "b"]})
    assert reported == [(0, ["go"], []), (1, ["go", "a"], ["a"]), (2, ["go", "a", "b"], ["a", "b"])]
    assert watched.results == ["a", "b"]


@pytest.mark.parametrize(
    ("verdict", "seen"),
    [
        (True, [("user", "go", None)]),
        ("text", [("user", "text", None)]),
        (Message("m", data={"n": 1}), [("user", "m", {"n": 1})]),
        ({"content": "c", "data": {"n": 1}}, [("user", "c", {"n": 1})]),
        (["a", "b"], [("user", "a", None), ("user", "b", None)]),
    ],
)
def test_strategy_output_is_the_input_of_the_round(verdict: Any, seen: list[Any]) -> None:
    got: list[Any] = []

    def step(messages: tuple[Message, ...]) -> str:
        got.extend((message.role, message.text, message.data) for message in messages)
        return "done"

    def dispatch(state: dict[str, Any]) -> Any:
        return verdict if state["round"] == 0 else None

    roundel.run(roundel.LoopAgent("Loop", step, dispatch), "go")
    assert got == seen


def test_carried_context_is_kept_with_strategy_output() -> None:
    got: list[list[str]] = []

    def step(messages: tuple[Message, ...]) -> str:
        got.append([message.text for message in messages])
        return f"done {len(got)}"

    def dispatch(state: dict[str, Any]) -> Any:
        return f"hint {state['round']}" if state["round"] < 2 else False

    roundel.run(roundel.LoopAgent("Loop", step, dispatch, context="carry"), "go")
    assert got == [["go", "hint 0"], ["go", "hint 0", "done 1", "hint 1"]]


@pytest.mark.parametrize(
    ("dispatch", "error"),
    [
        (lambda state: 1, "dispatch gave 1; it must give true or false, or the next round's input"),
        (lambda state: object(), "dispatch gave an object of the class 'object'"),
        (
            lambda state: state.update(x={1, 2}.union) or True,
            "what the strategy keeps cannot be written as JSON",
        ),
        (lambda state: state["nothing"], "KeyError: 'nothing'"),
    ],
)
def test_invalid_strategy_result_fails_the_loop(dispatch: Any, error: str) -> None:
    watched = Watched(loop(LoopMode.custom(dispatch)))
    assert watched.result.status == "failed"
    assert error in str(watched.result.error)


def test_strategy_reaching_its_cap_locks_the_run() -> None:
    watched = Watched(loop(LoopMode.custom(lambda state: True, max=3)))
    assert (watched.result.status, watched.rounds) == ("suspended_locked", 3)


def test_failed_attempt_does_not_change_the_state() -> None:
    tries = 0

    def dispatch(state: dict[str, Any]) -> Any:
        nonlocal tries
        state.setdefault("seen", []).append(state["round"])
        tries += 1
        if tries == 2:
            raise OSError("not now")
        return state["seen"] == [0] or json.dumps(state["seen"]) == "[0, 1]"

    graph = loop(
        LoopMode.custom(dispatch), retry={"max_attempts": 2, "min_wait_seconds": 0, "max_wait_seconds": 0}
    )
    assert Watched(graph).rounds == 2


# Context


def test_fresh_context_passes_only_the_previous_result() -> None:
    assert contexts("fresh", LoopMode.count(3), "go") == [["go"], ["1"], ["2"]]


def test_carry_context_passes_all_messages() -> None:
    assert contexts("carry", LoopMode.count(3), "go") == [["go"], ["go", "1"], ["go", "1", "2"]]
    assert contexts("carry", LoopMode.array(), '["a", "b"]') == [
        ['["a", "b"]', "a"],
        ['["a", "b"]', "a", "1", "b"],
    ]


def contexts(context: Any, mode: LoopMode, text: str) -> list[list[str]]:
    got: list[list[str]] = []

    def step(messages: tuple[Message, ...]) -> str:
        assert {message.role for message in messages} == {"user"}
        got.append([message.text for message in messages])
        return str(len(got))

    roundel.run(roundel.LoopAgent("Loop", step, mode, context=context), text)
    return got


# Bodies


def test_round_without_result_repeats_the_previous_input() -> None:
    got: list[str] = []

    def step(text: str, round: int) -> str | None:
        got.append(text)
        return None if round == 2 else f"{text}{round}"

    watched = Watched(roundel.LoopAgent("Loop", step, LoopMode.count(4)), "x")
    assert got == ["x", "x1", "x1", "x13"]
    assert (watched.results, watched.result.output) == (["x1", None, "x13", "x134"], "x134")


def test_body_without_any_result() -> None:
    watched = Watched(roundel.LoopAgent("Loop", lambda text: None, LoopMode.count(2)), "x")
    assert (watched.results, watched.result.output) == ([None, None], "x")
    assert (
        Watched(roundel.LoopAgent("Loop", lambda text: None, LoopMode.array()), "[1]").result.output
        == "[null]"
    )


def test_body_nodes_can_use_the_round() -> None:
    def step(round: int, address: str) -> str:
        return f"{address} in {round}"

    graph = roundel.Graph(start="A", end=["Odd", "Even"]).node("A", "passthrough")
    graph.node("Odd", "python", function=step).node("Even", "python", function=step)
    graph.edge("A", "Odd", condition={"cel": "round % 2 == 1"})
    graph.edge("A", "Even", condition={"cel": "round % 2 == 0"})
    watched = Watched(loop(LoopMode.count(2), graph))
    assert watched.results == ["Loop[1]/Odd in 1", "Loop[2]/Even in 2"]


def counted(count: int) -> roundel.Graph:
    graph = roundel.Graph(start="W", end="Done").node("W", "agent").node("Done", "passthrough")
    graph.node("Gate", "loop_counter", max_iterations=count, reset_on_emit=False)
    return graph.edge("W", "W").edge("W", "Gate").edge("Gate", "W").edge("Gate", "Done")


def test_free_cycle_in_the_body_restarts_its_count_each_round() -> None:
    watched = Watched(loop(LoopMode.count(3), counted(2)))
    assert watched.result.nodes == {"Loop": 1, "W": 6, "Gate": 6, "Done": 3}
    assert watched.result.loops["W"] == {"rounds": 6, "exit_reason": "max_iterations_reached", "entries": 3}
    assert "Loop[3].W[2]/Gate" in watched.ran
    assert "Loop[3]/Done" in watched.ran


def test_free_cycle_in_the_body_reaching_its_cap_locks_the_run() -> None:
    graph = roundel.Graph(start="W", end="Done", limits={"rounds": 3}).node("W", "agent")
    graph.node("Done", "passthrough").edge("W", "W")
    graph.edge("W", "Done", condition={"type": "keyword", "config": {"any": ["done"]}})
    watched = Watched(loop(LoopMode.count(2), graph))
    assert (watched.result.status, watched.result.nodes["W"]) == ("suspended_locked", 3)


def test_human_body_is_asked_in_each_round() -> None:
    body = {"id": "Ask", "type": "human", "config": {"description": "well?"}}
    graph = loop(LoopMode.condition("text == 'yes'"), body)
    assert Watched(graph, script={"Ask": ["no", "perhaps", "yes"]}).rounds == 3
    waiting = Watched(graph, script=None)
    assert waiting.result.status == "waiting"
    assert [event.address for event in waiting.named("human_input_required")] == ["Loop[1]/Ask"]


def test_human_body_is_asked_about_elements_concurrently() -> None:
    requests_seen: list[str] = []

    async def ask(question: roundel.Question) -> str:
        requests_seen.append(question.address)
        return question.inputs[-1].text.upper()

    body = {"id": "Ask", "type": "human", "config": {}}
    watched = Watched(loop(LoopMode.array(max_parallel=3), body), '["a", "b", "c"]', script=None, ask=ask)
    assert watched.results == ["A", "B", "C"]
    assert sorted(requests_seen) == ["Loop[1]/Ask", "Loop[2]/Ask", "Loop[3]/Ask"]


def test_a_subgraph_in_the_body() -> None:
    body = roundel.Graph(start="Sub", end="Sub").node("Sub", "subgraph", graph=counted(1))
    watched = Watched(loop(LoopMode.count(2), body))
    assert "Loop[2]/Sub/W[1]/W" in watched.ran
    assert "Loop[2]/Sub/Done" in watched.ran


def test_a_body_that_does_not_reach_its_end() -> None:
    body = roundel.Graph(start="A", end="B").node("A", "agent").node("B", "passthrough")
    body.edge("A", "B", condition={"type": "keyword", "config": {"any": ["go"]}})
    watched = Watched(loop(LoopMode.count(3), body), script={"A": ["go", "stop", "go on"]})
    assert watched.results == ["go", None, "go on"]
    assert [event.address for event in watched.named("end_not_reached")] == ["Loop"]


def test_a_failure_inside_fails_the_run_with_its_address() -> None:
    watched = Watched(loop(LoopMode.count(3)), script={"Step": ["fine", {"error": "no"}]})
    assert (watched.result.status, watched.result.error) == ("failed", "Loop[2]/Step: no")


# Loops in loops


def inner(mode: LoopMode, body: Any = STEP, name: str = "Inner") -> roundel.Graph:
    return loop(mode, body, name)


def test_nested_loops_have_their_own_counts_and_addresses() -> None:
    watched = Watched(loop(LoopMode.count(3), inner(LoopMode.count(2)), "Outer"))
    assert watched.result.nodes == {"Outer": 1, "Inner": 3, "Step": 6}
    assert watched.result.loops["Inner"] == {"rounds": 6, "exit_reason": "count_reached", "entries": 3}
    assert [address for address in watched.ran if address.startswith("Outer[2]")] == [
        "Outer[2]/Inner",
        "Outer[2].Inner[1]/Step",
        "Outer[2].Inner[2]/Step",
    ]


def test_strategy_object_can_be_shared_by_nested_loops() -> None:
    strategy = Counting(2)
    graph = roundel.LoopAgent("Outer", roundel.LoopAgent("Inner", echo, strategy), strategy)
    assert roundel.run(graph, "x").nodes == {"Outer": 1, "Inner": 2, "echo": 4}


def test_strategy_object_can_be_shared_by_concurrent_loops() -> None:
    strategy = Counting(2)
    loops = [roundel.LoopAgent(name, roundel.Agent(f"{name} step"), strategy) for name in ("One", "Two")]
    graph = roundel.Graph(start=["One", "Two"], end=["One", "Two"]).add(loops[0]).add(loops[1])
    result = roundel.run(graph, "x", script={"One step": {"text": "y", "delay": 0.01}})
    assert result.nodes == {"One": 1, "Two": 1, "One step": 2, "Two step": 2}


class Counting(roundel.LoopStrategy):
    def __init__(self, most: int) -> None:
        self.most = most

    def init(self, state: dict[str, Any]) -> None:
        state["count"] = 0

    def dispatch(self, state: dict[str, Any]) -> bool:
        state["count"] += 1
        return bool(state["count"] <= self.most)


@pytest.mark.parametrize(
    "strategy", [LoopMode.count(2), LoopMode.custom(Counting(2)), LoopMode.condition("round == 2")]
)
def test_reentered_loop_agent_starts_over(strategy: LoopMode) -> None:
    graph = roundel.Graph(start="A", end="Out").node("A", "passthrough").node("Out", "passthrough")
    graph.node("Loop", "loop_agent", strategy=strategy.strategy, body=STEP)
    graph.node("Gate", "loop_counter", max_iterations=3)
    graph.edge("A", "Loop").edge("Loop", "A").edge("Loop", "Gate").edge("Gate", "A").edge("Gate", "Out")
    watched = Watched(graph, script={"Step": [f"text {n}" for n in range(1, 9)]})
    assert watched.result.nodes["Step"] == 6
    assert watched.result.loops["Loop"]["entries"] == 3
    assert "A[3].Loop[2]/Step" in watched.ran
    found = [event.data.report for event in watched.events if isinstance(event.data, NodeCompleted)]
    reports = [report["results"] for report in found if report is not None and "results" in report]
    assert reports[1] == ["text 3", "text 4"]


def test_elements_keep_their_types_unless_the_run_began_under_version_0() -> None:
    for semantics, gathered in ((0, '["1", "2.5", "null", "true", "3"]'), (1, '[1, 2.5, null, true, "3"]')):
        controller = ArrayController(ArrayStrategy(), "fresh")
        controller.semantics = semantics
        action = as_action(controller.begin((Message('[1, 2.5, null, true, "3"]'),)))
        while action.outcome is None:
            [iteration] = action.iterations
            action = as_action(controller.on_iteration_end(iteration, iteration.inputs))
        assert action.outcome.messages[-1].text == gathered


def test_a_list_of_lists() -> None:
    watched = Watched(loop(LoopMode.array(), inner(LoopMode.array(), ECHO)), "[[1, 2], [], [3]]")
    assert watched.results == [[1, 2], [], [3]]
    assert watched.result.output == "[[1, 2], [], [3]]"


def test_lists_stay_lists_however_deep() -> None:
    body: Any = ECHO
    for number in range(3):
        body = {
            "id": f"L{number}",
            "type": "loop_agent",
            "config": {"strategy": {"mode": "array"}, "body": body},
        }
    graph = roundel.Graph(start="In", end="Loop").node("In", "passthrough").edge("In", "Loop")
    graph.node("Loop", "loop_agent", strategy={"mode": "array"}, body=body)
    watched = Watched(graph, '[[[["a", "b"], []], [["c"]]], []]')
    assert json.loads(watched.result.output) == watched.results == [[[["a", "b"], []], [["c"]]], []]


# What a round gave, as a value


def gathered(function: Any, items: str = '["x"]', **strategy: Any) -> Any:
    agent = roundel.LoopAgent("Loop", function, LoopMode.array(**strategy))
    watched = Watched(agent, items)
    assert watched.result.completed
    assert json.loads(watched.result.output) == watched.results
    return watched.results


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ({"n": 1}, {"n": 1}),
        ({"results": [1], "rounds": 2}, {"results": [1], "rounds": 2}),
        ({"text": "words", "data": {"score": 3}}, {"score": 3}),
        ({"text": "words", "data": {"count": 3}}, {"count": 3}),
        ({"text": '{"a": 1}', "data": {"score": 3}}, {"score": 3}),
        ({"text": '{"a": 1}', "data": {"a": 1, "b": 2}}, {"a": 1}),
        ({"text": "words", "data": {}}, "words"),
        ({"text": "[1, [2]]", "data": {"value": [1, [2]]}}, [1, [2]]),
        ({"text": "5", "data": {"value": 5}}, 5),
        ({"text": "5", "data": {"value": True}}, {"value": True}),
        ({"text": "", "data": {"a": None}}, {"a": None}),
        ({"text": "words", "data": {"thing": 1 + 2j, "n": 1}}, {"thing": "(1+2j)", "n": 1}),
        ({"text": "words", "data": {"n": float("nan")}}, {"n": None}),
        ('{"a": [1, 2]}', {"a": [1, 2]}),
        ("[1, 2]", [1, 2]),
        ("[1, 2] and more", "[1, 2] and more"),
        ("{braces}", "{braces}"),
        ("3", "3"),
        ("null", "null"),
        (7, "7"),
        (None, None),
    ],
)
def test_a_structured_result_is_a_value_and_a_text_is_text(given: Any, value: Any) -> None:
    assert gathered(lambda text: given) == [value]


def test_engine_metadata_does_not_make_a_text_structured() -> None:
    def look() -> str:
        """Looks."""
        return "seen"

    asks = {"tool_calls": [{"name": "look", "arguments": {}}]}
    helper = roundel.Graph(start="A", end="A").node("A", "agent", tools=[look])
    decider = roundel.Graph(start="A", end="Gate").node("A", "agent").node("Gate", "loop").edge("A", "Gate")
    counter = (
        roundel.Graph(start="A", end="End").node("A", "agent").node("C", "loop_counter", max_iterations=1)
    )
    counter.node("End", "passthrough").edge("A", "C").edge("C", "A").edge("C", "End")
    program = roundel.Graph(start="A", end="P").node("A", "agent").node("P", "python").edge("A", "P")
    pairs = {"participants": [STEP, {**STEP, "id": "Other"}], "max_rounds": 1}
    conversation = roundel.Graph(start="D", end="D").node("D", "debate", **pairs)
    for body, script, value in (
        (helper, {"A": [asks, "words"]}, "words"),
        (decider, {"A": "words"}, "words"),
        (decider, {"A": {"text": "words", "data": {"tone": "dry"}}}, {"tone": "dry"}),
        (counter, {"A": "words"}, "Loop limit reached (1)"),
        (program, {"A": "print('words')"}, "words\n"),
        (inner(LoopMode.count(2)), {"Step": "words"}, "words"),
        (conversation, {"Step": "words", "Other": "more words"}, "Step: words\nOther: more words"),
        (inner(LoopMode.count(2)), {"Step": {"text": "words", "data": {"n": 1}}}, {"n": 1}),
    ):
        watched = Watched(loop(LoopMode.array(), body), '["x"]', script=script)
        assert (watched.result.status, watched.results) == ("completed", [value])
        assert json.loads(watched.result.output) == [value]


def test_structured_agent_answers_are_values() -> None:
    schema = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
    body = {"id": "Step", "type": "agent", "config": {"output_schema": schema}}
    lines = ['{"place": "Oslo"}', 'Here:\n```json\n{"place": "Rome"}\n```']
    watched = Watched(loop(LoopMode.array(), body), "[1, 2]", script={"Step": lines})
    assert watched.results == [{"place": "Oslo"}, {"place": "Rome"}]
    assert json.loads(watched.result.output) == watched.results


def test_conditions_after_the_loop_can_read_values() -> None:
    graph = loop(LoopMode.array(), STEP).node("Good", "passthrough").node("Bad", "passthrough")
    graph.edge("Loop", "Good", condition={"cel": "data.results.all(r, r.score > 50)"})
    graph.edge("Loop", "Bad", condition={"cel": "data.results.exists(r, r.score <= 50)"})
    lines = [{"text": "x", "data": {"score": 60}}, {"text": "x", "data": {"score": 70}}]
    assert "Good" in Watched(graph, "[1, 2]", script={"Step": lines}).result.nodes


def test_inner_failure_is_caught_by_the_loop_with_on_error() -> None:
    graph = loop(LoopMode.array(on_error="null"), inner(LoopMode.count(2)))
    watched = Watched(graph, "[1, 2]", script={"Step": ["a", {"error": "no"}, "c", "d"]})
    assert watched.results == [None, "d"]


def test_failing_inner_expression_is_caught() -> None:
    graph = loop(LoopMode.array(on_error="null"), inner(LoopMode.condition("data.n > 0"), ECHO))
    watched = Watched(graph, '[{"n": 1}, "x", {"n": 2}]')
    assert watched.results == [{"n": 1}, None, {"n": 2}]


def test_loop_agent_after_a_map_runs_per_part() -> None:
    graph = roundel.Graph(start="In", end="Out").node("In", "passthrough")
    graph.node("Loop", "loop_agent", strategy={"mode": "count", "max": 1}, body=STEP)
    graph.node("Out", "passthrough", only_last_message=False).edge("Loop", "Out")
    split = {"type": "regex", "config": {"pattern": r"\w+"}}
    graph.edge("In", "Loop", dynamic={"type": "map", "split": split, "config": {"max_parallel": 3}})
    lines = [{"text": f"reply {n}", "delay": (4 - n) / 100} for n in range(1, 4)]
    watched = Watched(graph, "a b c", script={"Step": lines})
    replies = {
        event.address: event.fields()["output"] for event in watched.events if event.fields().get("output")
    }
    assert [replies[f"Loop#{n}[1]/Step"] for n in range(1, 4)] == ["reply 1", "reply 2", "reply 3"]
    assert watched.result.nodes["Step"] == 3


def test_parts_in_parallel_rounds_continue_their_numbering() -> None:
    """The map is met twice in the round: its second time goes on where the first one ended."""
    body = (
        roundel.Graph(start="In", end="Out").node("In", "literal", content="a b").node("Out", "passthrough")
    )
    body.node("Part", "loop_agent", strategy={"mode": "count", "max": 1}, body=STEP)
    body.node("Gate", "loop_counter", max_iterations=2)
    split = {"type": "regex", "config": {"pattern": r"\w+"}}
    body.edge("In", "Part", dynamic={"type": "map", "split": split, "config": {"max_parallel": 2}})
    body.edge("Part", "In").edge("In", "Gate").edge("Gate", "In").edge("Gate", "Out")
    lines = [f"reply {n}" for n in range(9)]
    watched = Watched(loop(LoopMode.array(max_parallel=2), body), "[1]", script={"Step": lines})
    replies = {
        str(event.address): event.fields()["output"]
        for event in watched.events
        if event.node_id == "Step" and "output" in event.fields()
    }
    assert sorted(replies.values()) == ["reply 0", "reply 1", "reply 2", "reply 3"]
    assert list(map(replies.get, sorted(map(str, replies)))) == sorted(replies.values())


def test_memory_of_long_loops_stays_bounded() -> None:
    import gc
    import tracemalloc

    async def step(message: Message) -> Message:
        return message

    sizes = []
    for rounds in (5, 500, 5000):  # the first imports all that the others use
        plan = roundel.prepare(
            roundel.LoopAgent("Loop", step, LoopMode.condition(f"round == {rounds}", max=9999))
        )
        gc.collect()  # what other tests have left must not be counted as ours
        tracemalloc.start()
        assert roundel.run(plan, "x").nodes["step"] == rounds
        sizes.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # What grows is the list of results, a pointer each, which is copied a few times in the end.
    assert sizes[2] - sizes[1] < 4500 * 64


# Files

FILE = """
graph:
  start: Loop
  end: Loop
  nodes:
    - id: Loop
      type: loop_agent
      config:
        strategy: {strategy}
        body: {id: Step, type: agent}
"""


def written(folder: Path, strategy: str) -> Path:
    path = folder / "loop.yaml"
    path.write_text(FILE.replace("{strategy}", strategy), encoding="utf-8")
    return path


@pytest.mark.parametrize("word", ["null", '"null"'])
def test_on_error_null_accepts_every_spelling_of_null(tmp_path: Path, word: str) -> None:
    file = written(tmp_path, f"{{mode: array, on_error: {word}}}")
    assert Watched(file, "[1, 2, 3]", script=ERRORS).results == ["one", None, "three"]


CODE = """
import roundel


class Thrice:
    def init(self, state):
        state["left"] = 3

    def dispatch(self, state):
        state["left"] -= 1
        return state["left"] >= 0


def once(state):
    return state["round"] == 0


def says_two(messages):
    return messages[-1].text == "two"


def words(messages):
    return messages[-1].text.split()


class Half:
    def dispatch(self, state):
        return False


THREE = 3
"""


@pytest.mark.parametrize(
    ("strategy", "rounds"),
    [
        ('{mode: custom, use: "mine:Thrice"}', 3),
        ('{mode: custom, use: "mine:once"}', 1),
        ('{mode: condition, until: {function: "mine:says_two"}}', 2),
        ('{mode: array, items: {function: "mine:words"}}', 4),
    ],
)
def test_strategy_from_a_module_next_to_the_file(tmp_path: Path, strategy: str, rounds: int) -> None:
    (tmp_path / "mine.py").write_text(CODE)
    watched = Watched(
        written(tmp_path, strategy), "a b c d", script={"Step": ["one", "two", "three", "four"]}
    )
    assert watched.rounds == rounds


def test_invalid_strategy_class_is_rejected_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CODE)
    with pytest.raises(roundel.WorkflowError) as caught:
        Watched(written(tmp_path, '{mode: custom, use: "mine:Half"}'))
    [found] = caught.value.diagnostics
    assert (found.code, found.line) == ("cannot-run", 6)
    message = "an object of the class 'Half' is not a loop strategy: it has no method 'init'"
    assert message in found.message


@pytest.mark.parametrize(
    ("use", "message", "hint"),
    [
        ("mine:Thrcie", "module 'mine' has no function 'Thrcie'", "did you mean 'Thrice'?"),
        ("mine:nope", "module 'mine' has no function 'nope'", "it has Half, THREE, Thrice, once"),
        ("mine:THREE", "module 'mine' has no function 'THREE'", ""),
        ("textwrap:dedents", "module 'textwrap' has no function 'dedents'", "did you mean 'dedent'?"),
        (
            "mime:Thrice",
            "there is no module 'mime', which the strategy 'mime:Thrice'",
            "did you mean 'mine'?",
        ),
        ("nomod:nope", "there is no module 'nomod'", "beside the workflow file, or on the import path"),
        ("a b:" + "x" * 300, "there is no module 'a b'", "beside the workflow file"),
    ],
)
def test_check_reports_missing_strategy_code(tmp_path: Path, use: str, message: str, hint: str) -> None:
    (tmp_path / "mine.py").write_text(CODE)
    _, report = roundel.check(written(tmp_path, f'{{mode: custom, use: "{use}"}}'))
    [found] = report.errors
    assert (found.code, found.line) == ("unknown-function", 9)
    assert message in found.message
    assert hint in found.hint


@pytest.mark.parametrize(
    "code",
    [
        "globals()['late'] = lambda state: False\n",
        "def __getattr__(name):\n    return lambda state: False\n",
        "def make():\n    global late\n    late = lambda state: False\nmake()\n",
        "try:\n    from nowhere import late\nexcept ImportError:\n    late = lambda state: False\n",
    ],
)
def test_check_finds_names_defined_at_import_time(tmp_path: Path, code: str) -> None:
    (tmp_path / "mine.py").write_text(code)
    _, report = roundel.check(written(tmp_path, '{mode: custom, use: "mine:late"}'))
    assert report.errors == []


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("from string import *\n", "module 'mine' has no function 'late'"),
        ("def (:\n", "cannot import 'mine': SyntaxError: invalid syntax (mine.py, line 1)"),
    ],
)
def test_check_reports_strategy_code_that_fails_on_import(tmp_path: Path, code: str, message: str) -> None:
    (tmp_path / "mine.py").write_text(code)
    _, report = roundel.check(written(tmp_path, '{mode: custom, use: "mine:late"}'))
    [found] = report.errors
    assert (found.code, found.line, found.message) == ("unknown-function", 9, message)


def test_a_strategy_by_its_registered_name(tmp_path: Path) -> None:
    roundel.function("tests.halving")(Halving)
    file = written(tmp_path, "{mode: custom, use: tests.halving}")
    assert Watched(file, "12").results == ["6", "3"]


def test_array_catches_a_raising_condition_after_a_subgraph() -> None:
    inner = roundel.Graph(start="In", end="In").node("In", "passthrough")
    body = roundel.Graph("Each one", start="Sub", end="After").node("Sub", "subgraph", graph=inner)
    body.node("After", "passthrough").edge("Sub", "After", condition={"cel": "int(text) > 0"})
    graph = roundel.Graph(start="Each", end="Each")
    strategy = {"mode": "array", "on_error": "null"}
    graph.node("Each", "loop_agent", strategy=strategy, body=body)
    result = roundel.run(graph, '["1", "oops", "3"]')
    assert result.status == "completed"
    assert (result.data or {})["results"] == ["1", None, "3"]
