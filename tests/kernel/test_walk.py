"""Messages on edges, and what a node finds in its queue."""

from __future__ import annotations

from typing import Any

import pytest

import roundel

Seen = list[tuple[str, str]]


class Watched:
    """A graph that ends in a node which notes its input each time it runs."""

    def __init__(self, **settings: Any) -> None:
        self.graph = roundel.Graph(**settings)
        self.seen: list[Seen] = []

    def watch(self, name: str = "Watch", **fields: Any) -> None:
        def note(messages: tuple[roundel.Message, ...]) -> str:
            self.seen.append([(message.role, message.text) for message in messages])
            return f"run {len(self.seen)}"

        self.graph.node(name, "python", function=note, **fields)


def test_delivered_message_has_the_user_role_and_its_source() -> None:
    graph = roundel.Graph(start="A", end="B").node("A", "agent")

    @graph.function("B")
    def look(message: roundel.Message) -> str:
        return f"{message.role} {message.source} {message.metadata}"

    graph.edge("A", "B")
    assert roundel.run(graph, "x", script={}).output == "user A {'source': 'A'}"


def test_a_literal_keeps_its_role_even_through_a_passthrough() -> None:
    watched = Watched(start="A")
    watched.graph.node("A", "literal", content="x", role="assistant").node("P", "passthrough")
    watched.watch()
    watched.graph.edge("A", "P").edge("P", "Watch")
    roundel.run(watched.graph)
    assert watched.seen == [[("assistant", "x")]]


def test_self_edge_delivers_with_the_assistant_role() -> None:
    watched = Watched(start="Watch", limits={"rounds": 3})
    watched.watch()
    stop = {"type": "keyword", "config": {"none": ["run 3"]}}
    watched.graph.edge("Watch", "Watch", condition=stop)
    roundel.run(watched.graph, "go")
    assert watched.seen == [[("user", "go")], [("assistant", "run 1")], [("assistant", "run 2")]]


def test_edge_without_data_triggers_with_no_input() -> None:
    watched = Watched(start="A")
    watched.graph.node("A", "literal", content="x")
    watched.watch()
    watched.graph.edge("A", "Watch", carry_data=False)
    roundel.run(watched.graph)
    assert watched.seen == [[]]


def test_target_waits_for_data_of_an_edge_without_trigger() -> None:
    watched = Watched(start=["Data", "Go"])
    watched.graph.node("Data", "agent").node("Go", "literal", content="go")
    watched.watch()
    watched.graph.edge("Data", "Watch", trigger=False).edge("Go", "Watch")
    roundel.run(watched.graph, script={"Data": [{"text": "late", "delay": 0.05}]})
    assert watched.seen == [[("user", "late"), ("user", "go")]]


def test_data_edge_does_not_trigger_its_target() -> None:
    watched = Watched(start="Data", end="Data")
    watched.graph.node("Data", "literal", content="x")
    watched.watch()
    watched.graph.edge("Data", "Watch", trigger=False)
    assert roundel.run(watched.graph).nodes == {"Data": 1}


def test_clearing_follows_file_order_regardless_of_completion_order() -> None:
    watched = Watched(start=["Plain", "Kept", "Soft", "After"])
    script = {"Plain": [{"text": "plain", "delay": 0.06}], "Kept": [{"text": "kept", "delay": 0.03}]}
    for name in ("Plain", "Kept", "Soft", "After"):
        watched.graph.node(name, "agent")
    watched.watch()
    watched.graph.edge("Plain", "Watch").edge("Kept", "Watch", keep_message=True)
    watched.graph.edge("Soft", "Watch", clear_context=True).edge("After", "Watch")
    roundel.run(watched.graph, "x", script={**script, "Soft": ["soft"], "After": ["after"]})
    assert [text for _, text in watched.seen[0]] == ["kept", "soft", "after"]


def test_clear_kept_context_drops_kept_messages() -> None:
    watched = Watched(start=["Kept", "Hard"])
    watched.graph.node("Kept", "literal", content="kept").node("Hard", "literal", content="hard")
    watched.watch()
    watched.graph.edge("Kept", "Watch", keep_message=True)
    watched.graph.edge("Hard", "Watch", clear_context=True, clear_kept_context=True)
    roundel.run(watched.graph)
    assert watched.seen == [[("user", "hard")]]


def loop_with_window(window: int, keep: bool) -> list[list[str]]:
    watched = Watched(start="A", end="Out")
    watched.graph.node("A", "agent").node("Gate", "loop_counter", max_iterations=4).node("Out", "passthrough")
    watched.watch(context_window=window)
    watched.graph.edge("A", "Watch", keep_message=keep).edge("Watch", "A").edge("Watch", "Gate")
    watched.graph.edge("Gate", "A").edge("Gate", "Out")
    roundel.run(watched.graph, script={"A": ["a1", "a2", "a3", "a4"]})
    return [[text for _, text in seen] for seen in watched.seen]


def test_zero_window_keeps_nothing() -> None:
    assert loop_with_window(0, keep=False) == [["a1"], ["a2"], ["a3"], ["a4"]]


def test_zero_window_keeps_messages_marked_keep() -> None:
    assert loop_with_window(0, keep=True)[3] == ["a1", "a2", "a3", "a4"]


def test_unlimited_window_keeps_everything() -> None:
    assert loop_with_window(-1, keep=False)[2] == ["a1", "run 1", "a2", "run 2", "a3"]


def test_window_is_counted_before_the_own_output_is_added() -> None:
    assert loop_with_window(1, keep=False)[2] == ["a2", "run 2", "a3"]
    assert loop_with_window(2, keep=False)[3] == ["run 2", "a3", "run 3", "a4"]


def test_messages_marked_keep_count_against_the_window() -> None:
    assert loop_with_window(1, keep=True)[2] == ["a1", "a2", "run 2", "a3"]


def test_ports_select_edges_and_edges_without_a_port_always_fire() -> None:
    graph = roundel.Graph(start="A", end="Left")
    graph.function("A", ports=["left", "right"])(lambda: roundel.to("left", "x"))
    for name in ("Left", "Right", "Any"):
        graph.node(name, "passthrough")
    graph.edge("A", "Left", port="left").edge("A", "Right", port="right").edge("A", "Any")
    assert roundel.run(graph).nodes == {"A": 1, "Left": 1, "Any": 1}


@pytest.mark.parametrize(
    ("config", "text", "expected"),
    [
        ({"pattern": r"\d+"}, "a 12 b 34", "12"),
        ({"pattern": r"\d+", "multiple": True}, "a 12 b 34", "12\n34"),
        ({"pattern": r"(?P<n>\d)(\d)", "group": "n"}, "12", "1"),
        ({"pattern": r"(\d)(\d)", "group": 2}, "12", "2"),
        ({"pattern": r"(\d)(\d)", "group": "2"}, "12", "2"),
        ({"pattern": "B", "case_sensitive": False}, "abc", "b"),
        ({"pattern": "a.c", "dotall": True}, "a\nc", "a\nc"),
        ({"pattern": "^b$", "multiline": True}, "a\nb", "b"),
        ({"pattern": r"\d+", "template": "<{match}>", "multiple": True}, "1 2", "<1>\n<2>"),
        ({"pattern": "z"}, "abc", "abc"),
        ({"pattern": "z", "on_no_match": "default", "default_value": "none"}, "abc", "none"),
        ({"pattern": "z", "on_no_match": "default"}, "abc", ""),
        ({"pattern": "(z)?a", "group": 1}, "a", "a"),
    ],
)
def test_regex_extract(config: dict[str, Any], text: str, expected: str) -> None:
    graph = roundel.Graph(start="A", end="B").node("A", "passthrough").node("B", "passthrough")
    graph.edge("A", "B", process={"type": "regex_extract", "config": config})
    assert roundel.run(graph, text).output == expected


def test_a_dropped_message_triggers_nothing() -> None:
    graph = roundel.Graph(start="A", end="B").node("A", "passthrough").node("B", "passthrough")
    graph.edge("A", "B", process={"type": "regex_extract", "config": {"pattern": "z", "on_no_match": "drop"}})
    assert roundel.run(graph, "abc").nodes == {"A": 1}


@pytest.mark.parametrize(
    ("given", "expected", "data"),
    [
        ("new", "new", {"n": 1}),
        ({"content": "new"}, "new", {"n": 1}),
        ({"data": {"n": 2}}, "old", {"n": 2}),
        ({"content": {"a": 1}, "metadata": {"k": "v"}}, '{"a": 1}', {"n": 1}),
        (5, "5", {"n": 1}),
        (roundel.Message("whole"), "whole", None),
    ],
)
@pytest.mark.parametrize("pure", [False, True], ids=["by the host", "in the step"])
def test_function_processors(pure: bool, given: Any, expected: str, data: Any) -> None:
    graph = roundel.Graph(start="A", end="B").node("B", "passthrough")
    graph.function("A")(lambda: {"content": "old", "data": {"n": 1}})
    process: Any = lambda message: given  # noqa: E731
    if pure:
        roundel.processor("gives", pure=True)(process)
        process = {"type": "function", "config": {"name": "gives"}}
    graph.edge("A", "B", process=process)
    result = roundel.run(graph)
    assert (result.output, result.data) == (expected, data)


@pytest.mark.parametrize("given", [None, {"drop": True}])
def test_function_processors_may_drop(given: Any) -> None:
    graph = roundel.Graph(start="A", end="B").node("A", "passthrough").node("B", "passthrough")
    graph.edge("A", "B", process=lambda message: given)
    assert roundel.run(graph).nodes == {"A": 1}


def test_processor_is_not_called_when_its_condition_fails() -> None:
    asked: list[str] = []

    def note(message: roundel.Message) -> str:
        asked.append(message.text)
        return message.text

    graph = roundel.Graph(start="A", end="B").node("A", "passthrough").node("B", "passthrough")
    graph.edge("A", "B", condition={"type": "keyword", "config": {"any": ["z"]}}, process=note)
    roundel.run(graph, "abc")
    assert asked == []


@pytest.mark.parametrize(
    ("source", "fires"),
    [
        ("text == 'go'", True),
        ("data.score >= 90", True),
        ("data.score >= 90 && round < 5", True),
        ("has(data.other) && data.other > 1", False),
        ("run.input.contains('g') && run.id != ''", True),
        ("vars.LIMIT == 3", True),
        ("round == 0", True),
    ],
)
def test_expressions(source: str, fires: bool) -> None:
    graph = roundel.Graph(start="A", end="B").node("B", "passthrough")
    graph.function("A")(lambda text: {"content": text, "data": {"score": 92}})
    graph.edge("A", "B", condition={"cel": source})
    workflow = graph.workflow(vars={"LIMIT": 3})
    assert ("B" in roundel.run(workflow, "go").nodes) is fires


def test_failing_expression_fails_the_run() -> None:
    graph = roundel.Graph(start="A", end="B").node("A", "passthrough").node("B", "passthrough")
    graph.edge("A", "B", condition={"cel": "data.score > 1"})
    result = roundel.run(graph)
    assert result.status == "failed"
    assert "A → B" in str(result.error)
    assert "has(" in str(result.error)


def test_expressions_can_use_the_round_of_a_loop() -> None:
    graph = roundel.Graph(start="A", end="Out").node("A", "literal", content="x").node("Out", "passthrough")
    graph.edge("A", "A", condition={"cel": "round < 4"}).edge("A", "Out", condition={"cel": "round >= 4"})
    assert roundel.run(graph).loops["A"]["rounds"] == 4
