"""Free loops: the events of their rounds, and the nodes and reasons that end them."""

from __future__ import annotations

from typing import Any

import pytest

from roundel.kernel.facts import Finished, Outcome
from roundel.workflow.message import Message
from tests.events import node_status
from tests.kernel.simulator import Simulator, plan_of

Dict = dict[str, Any]


def keyword(word: str) -> Dict:
    return {"condition": {"type": "keyword", "config": {"any": [word]}}}


def started(names: str, edges: list[Dict], **fields: Any) -> Simulator:
    nodes = [{"id": name, "type": "agent"} for name in names]
    graph = {"nodes": nodes, "edges": edges, "start": names[0], **fields}
    return Simulator(plan_of({"graph": graph}), {}).start("go")


def finish_call(run: Simulator, address: str, text: str, **fields: Any) -> None:
    [command] = [other for other in run.in_flight if other.address == address]
    run.in_flight.remove(command)
    run.apply(Finished(address, Outcome((Message(text, "assistant", **fields),)), run.now()))


def events_of_node(run: Simulator, name: str) -> list[tuple[str | None, Dict]]:
    return [(event.address, event.fields()) for event in run.events if event.event == name]


def in_flight(run: Simulator) -> list[str]:
    return [command.address for command in run.in_flight]


def pair() -> Simulator:
    """A asks B and C at the same time; each may go back to A, or out."""
    edges: list[Dict] = [
        {"from": "A", "to": "B"},
        {"from": "A", "to": "C"},
        {"from": "B", "to": "A"},
        {"from": "C", "to": "A"},
        {"from": "B", "to": "O", **keyword("out")},
        {"from": "C", "to": "O", **keyword("out")},
    ]
    run = started("ABCO", edges, end="O")
    finish_call(run, "A[1]/A", "well?")
    return run


@pytest.mark.parametrize("order", ["BC", "CB"])
def test_first_exit_in_file_order_gives_the_exit_reason(order: str) -> None:
    run = pair()
    for name in order:
        finish_call(run, f"A[1]/{name}", f"out, says {name}", data={"exit_reason": f"{name} is done"})
    [(address, data)] = events_of_node(run, "loop_exit")
    assert (address, data["rounds"], data["reason"], data["by"]) == ("A[1]", 1, "B is done", "B")
    [out] = run.in_flight
    assert [message.text for message in out.inputs] == ["out, says B", "out, says C"]  # type: ignore[union-attr]


@pytest.mark.parametrize("leaves", ["B", "C"])
def test_exit_edge_wins_over_a_back_edge(leaves: str) -> None:
    run = pair()
    finish_call(run, "A[1]/B", "out" if leaves == "B" else "again")
    finish_call(run, "A[1]/C", "out" if leaves == "C" else "again")
    assert events_of_node(run, "loop_exit")[0][1] == {
        "loop": "A",
        "rounds": 1,
        "reason": "exit_edge",
        "by": leaves,
        "round": 1,
        "seconds": 0.75,
    }
    assert in_flight(run) == ["O"]


def test_each_round_emits_an_event_and_is_counted() -> None:
    run = pair()
    finish_call(run, "A[1]/B", "again")
    finish_call(run, "A[1]/C", "again")
    finish_call(run, "A[2]/A", "well?")
    finish_call(run, "A[2]/C", "out")
    assert in_flight(run) == ["A[2]/B"]
    finish_call(run, "A[2]/B", "again")
    assert events_of_node(run, "loop_round") == [
        ("A[1]", {"loop": "A", "round": 1, "limit": 100}),
        ("A[2]", {"loop": "A", "round": 2, "limit": 100, "triggered_by": ("A[1]/B", "A[1]/C")}),
    ]
    assert events_of_node(run, "round_finished") == [
        ("A[1]", {"loop": "A", "round": 1, "status": "completed", "seconds": 0.75, "work_seconds": 0.75}),
        ("A[2]", {"loop": "A", "round": 2, "status": "completed", "seconds": 0.75, "work_seconds": 0.75}),
    ]
    assert events_of_node(run, "loop_exit")[0][1]["rounds"] == 2
    assert (run.state.loops["A"].rounds, run.state.loops["A"].entries) == (2, 1)


def test_loop_ends_with_no_trigger_when_its_entry_is_not_triggered() -> None:
    edges: list[Dict] = [
        {"from": "A", "to": "B"},
        {"from": "B", "to": "A", **keyword("again")},
        {"from": "B", "to": "O", **keyword("out")},
    ]
    run = started("ABO", edges, end="O")
    finish_call(run, "A[1]/A", "well?")
    finish_call(run, "A[1]/B", "nothing")
    left = {"loop": "A", "rounds": 1, "reason": "no_trigger", "round": 1, "seconds": 0.5}
    assert events_of_node(run, "loop_exit") == [("A[1]", left)]
    assert run.state.status == "completed"
    assert events_of_node(run, "end_not_reached")[0][1] == {"edges": ["B → A", "B → O"]}


def test_pending_loop_nodes_are_skipped_after_an_exit() -> None:
    edges: list[Dict] = [
        {"from": "A", "to": "B"},
        {"from": "A", "to": "O", **keyword("out")},
        {"from": "B", "to": "A"},
        {"from": "O", "to": "P"},
    ]
    run = started("ABOP", edges, end="P")
    finish_call(run, "A[1]/A", "out")
    assert in_flight(run) == ["O"]
    skipped = [
        (event.address, event.fields()["reason"]) for event in run.events if node_status(event) == "skipped"
    ]
    assert skipped == [("A[1]/B", "the loop was left")]
    finish_call(run, "O", "done")
    finish_call(run, "P", "the end")
    assert (run.state.status, run.state.summary()["nodes"]) == ("completed", {"A": 1, "O": 1, "P": 1})
