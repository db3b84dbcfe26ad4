"""The data of a drawing matches the manual, and has the properties that renderers rely on."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Struct

from roundel.drawing.assembly import draw
from roundel.drawing.drawing import Contents, Drawing, DrawnEdge, DrawnNode, Label, Mark, Rect, Region
from tests.docs.manual import DOCS, code, rows, sections
from tests.drawing.drawings import council, edge, graph, held, keyword, node, placed, plan_of

STRUCTS: tuple[type[Struct], ...] = (Drawing, DrawnNode, Contents, Region, DrawnEdge, Label, Mark, Rect)


def review() -> Drawing:
    nodes = [node("Writer"), node("Reviewer"), node("Guard", "loop_counter", max_iterations=3), node("Final")]
    edges = [
        edge("Writer", "Reviewer"),
        edge("Reviewer", "Writer", **keyword(none=["ACCEPT"])),
        edge("Reviewer", "Guard", **keyword(none=["ACCEPT"])),
        edge("Guard", "Writer"),
        edge("Guard", "Final"),
        edge("Writer", "Final", trigger=False),
    ]
    return draw(plan_of(graph(nodes, edges)))


@pytest.mark.parametrize("kind", STRUCTS)
def test_the_manual_lists_every_field(kind: type[Struct]) -> None:
    section = sections(DOCS / "drawing.md")[kind.__name__]
    assert [name for cells in rows(section) for name in code(cells[0])] == list(kind.__struct_fields__)


def test_a_loop_is_a_region_with_its_bound_and_its_entry() -> None:
    drawing = review()
    [loop] = drawing.regions
    assert (loop.key, loop.kind, loop.repeats, loop.entry) == ("Writer[]", "loop", True, "Writer")
    assert (loop.title, loop.captions) == ("loop Writer", ("at most 3 rounds, by Guard",))
    inside = {found.key for found in drawing.nodes if found.parent == loop.key}
    assert inside == {"Writer", "Reviewer", "Guard"}
    assert placed(drawing, "Guard").guard and placed(drawing, "Guard").caption == "loop_counter, 3 times"


def test_edges_are_classified_relative_to_the_loop() -> None:
    found = {(drawn.source, drawn.target): drawn for drawn in review().edges}
    assert {ends for ends, drawn in found.items() if drawn.back} == {
        ("Reviewer", "Writer"),
        ("Guard", "Writer"),
    }
    assert {ends for ends, drawn in found.items() if drawn.leaves} == {
        ("Guard", "Final"),
        ("Writer", "Final"),
    }
    assert [ends for ends, drawn in found.items() if not drawn.triggers] == [("Writer", "Final")]
    assert found["#start", "Writer"].kind == "start"
    label = found["Reviewer", "Writer"].label
    assert label is not None and label.lines == ("none: ACCEPT",)


def test_a_route_begins_at_its_source_and_ends_at_its_target() -> None:
    drawing = review()
    boxes = {found.key: found.box for found in drawing.nodes} | {mark.key: mark.box for mark in drawing.marks}
    for drawn in drawing.edges:
        for key, (x, y) in ((drawn.source, drawn.route[0][0]), (drawn.target, drawn.route[-1][-1])):
            box = boxes[key]
            assert box.x - 0.2 <= x <= box.right + 0.2 and box.y - 0.2 <= y <= box.bottom + 0.2
        assert len(drawn.route[0]) == 1
        assert {len(piece) for piece in drawn.route} <= {1, 3}


def test_a_node_with_graphs_inside_is_a_node_and_a_region() -> None:
    inner = graph([council("Council")], [])
    drawing = draw(plan_of(graph([held("Team", inner), node("Out")], [edge("Team", "Out")])))
    team, people = drawing.regions
    assert (team.key, team.repeats, team.depth) == ("Team/", False, 0)
    assert (people.key, people.parent, people.repeats, people.depth) == ("Team/Council/", "Team/", True, 1)
    assert placed(drawing, "Team").region == "Team/" and placed(drawing, "Team").box == team.box
    assert (
        placed(drawing, "Ada").key == "Team/Council/Ada" and placed(drawing, "Ada").parent == "Team/Council/"
    )


def test_the_data_encodes_to_json_and_back() -> None:
    drawing = review()
    assert msgspec.json.decode(msgspec.json.encode(drawing), type=Drawing) == drawing


def test_compact_is_smaller_and_has_labels_of_one_line() -> None:
    long = edge("A", "B", **keyword(any=["a condition with rather many words", "and another one"]))
    plan = plan_of(graph([node("A"), node("B")], [long]))
    normal, compact = draw(plan), draw(plan, density="compact")
    assert compact.width < normal.width and compact.height < normal.height
    counts = [
        [len(drawn.label.lines) for drawn in drawing.edges if drawn.label] for drawing in (normal, compact)
    ]
    assert counts == [[2], [1]]
    assert compact.edges[1].text == "any: a condition with rather many words, and another one"


def test_label_of_a_negated_condition() -> None:
    edges = [edge("A", "B", **keyword(begins=["OK"], negate=True))]
    edges += [edge("A", "C", **keyword(any=["x"], only=["y"], negate=True))]
    drawn = draw(plan_of(graph([node("A"), node("B"), node("C")], edges)))
    assert [one.text for one in drawn.edges if one.text] == ["not begins: OK", "not (any: x; only: y)"]
