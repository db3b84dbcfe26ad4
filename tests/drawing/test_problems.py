"""Workflows with errors are drawn as far as they can be read, and the errors show at what they are about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from roundel.drawing.assembly import draw
from roundel.drawing.drawing import Density, Drawing
from roundel.drawing.mermaid import mermaid
from roundel.drawing.svg import svg
from roundel.nodes.loading import draft_plan, draft_text_plan
from roundel.workflow.diagnostics import Report
from tests.drawing.drawings import assert_tidy, edge, graph, node, placed, plan_of, shown, texts
from tests.plan.shapes import complete, ladder

LOOP = """
graph:
  start: Writer
  nodes:
    - {id: Writer, type: literal, config: {content: x}}
    - {id: Reviewer, type: passthrough}
  edges:
    - {from: Writer, to: Reviewer}
    - {from: Reviewer, to: Writer}
"""


def drawn(text: str) -> Drawing:
    plan, report = draft_text_plan(text)
    assert plan is not None and not report.ok
    drawing = draw(plan, report.findings)
    assert_tidy(drawing)
    assert_everything_is_somewhere(drawing, report)
    return drawing


def assert_everything_is_somewhere(drawing: Drawing, report: Report) -> None:
    places = [drawing.problems, *(item.problems for item in drawing.nodes)]
    places += [item.problems for item in drawing.edges] + [item.problems for item in drawing.regions]
    found = {problem for problems in places for problem in problems}
    assert found >= set(report.diagnostics)


def codes(problems: Any) -> list[str]:
    return [problem.code for problem in problems]


def edge_codes(drawing: Drawing) -> dict[tuple[str, str], list[str]]:
    edges = (found for found in drawing.edges if found.kind == "edge")
    return {(found.source, found.target): codes(found.problems) for found in edges}


# What is faulty, and where it shows.


def test_edge_to_an_unknown_node_ends_at_a_placeholder() -> None:
    drawing = drawn(LOOP.replace("to: Reviewer", "to: Reviwer"))
    missing = placed(drawing, "Reviwer")
    assert missing.missing and missing.type == "missing"
    assert codes(missing.problems) == ["unknown-node"]
    assert edge_codes(drawing) == {("Writer", "Reviwer"): ["unknown-node"], ("Reviewer", "Writer"): []}


def test_a_node_of_an_unknown_type_keeps_its_edges() -> None:
    drawing = drawn(LOOP.replace("passthrough", "pasthrough"))
    reviewer = placed(drawing, "Reviewer")
    assert (reviewer.type, reviewer.caption, reviewer.missing) == ("pasthrough", "pasthrough", False)
    assert codes(reviewer.problems) == ["unknown-type"]
    assert edge_codes(drawing) == {("Writer", "Reviewer"): [], ("Reviewer", "Writer"): []}
    assert [region.entry for region in drawing.regions] == ["Writer"]


def test_a_node_with_a_bad_setting_keeps_its_type() -> None:
    drawing = drawn(LOOP.replace("content: x", "content: [x]"))
    assert (placed(drawing, "Writer").type, codes(placed(drawing, "Writer").problems)) == (
        "literal",
        ["wrong-type"],
    )
    assert codes(placed(drawing, "Reviewer").problems) == []


def test_an_edge_with_a_bad_condition_is_still_drawn() -> None:
    drawing = drawn(LOOP.replace("to: Writer}", "to: Writer, trigger: false, condition: {cel: '1 +'}}"))
    [found] = [found for found in drawing.edges if found.target == "Writer" and found.kind == "edge"]
    assert codes(found.problems) == ["bad-expression"] and not found.triggers


def test_non_terminating_loop_is_marked() -> None:
    drawing = drawn(LOOP)
    [loop] = drawing.regions
    assert codes(loop.problems) == ["no-way-out"]
    assert not any(codes(found.problems) for found in drawing.nodes)


def test_loop_whose_exit_never_fires_is_marked_with_the_exit() -> None:
    text = LOOP + "    - {from: Reviewer, to: Out, condition: false}\n"
    drawing = drawn(text.replace("  edges:", "    - {id: Out, type: passthrough}\n  edges:"))
    assert codes(drawing.regions[0].problems) == ["no-way-out"]
    assert edge_codes(drawing)["Reviewer", "Out"] == ["no-way-out"]


def test_first_of_two_nodes_with_the_same_id_has_the_edges() -> None:
    again = "    - {id: Writer, type: human}\n  edges:"
    drawing = drawn(LOOP.replace("  edges:", again))
    first, second = sorted(
        (found for found in drawing.nodes if found.id == "Writer"), key=lambda found: found.type, reverse=True
    )
    assert (first.type, codes(first.problems)) == ("literal", [])
    assert (second.type, codes(second.problems)) == ("human", ["duplicate-id"])
    assert first.key != second.key
    assert {found.source for found in drawing.edges if found.kind == "edge"} == {first.key, "Reviewer"}


def test_a_graph_without_start_has_no_mark_for_it() -> None:
    drawing = drawn(LOOP.replace("start: Writer", "description: x"))
    assert drawing.marks == () and codes(drawing.problems) == ["no-start"]


@pytest.mark.parametrize(
    "text", ["graph: {nodes: [], start: A}", "graph: {}", "nodes: []", "graph: {nodes: 5}"]
)
def test_a_graph_without_nodes_is_drawn(text: str) -> None:
    drawing = drawn(text)
    assert [found.id for found in drawing.nodes] == (["A"] if "A" in text else [])
    assert drawing.width > 0 and drawing.height > 0


def test_nodes_with_non_text_ids_are_drawn() -> None:
    drawing = drawn(
        "graph: {start: 1, nodes: [{id: 1, type: human}, {type: human}, text], edges: [{from: 1, to: 2}]}"
    )
    assert sorted((found.id, found.missing) for found in drawing.nodes) == [
        ("1", False),
        ("2", True),
        ("?", False),
        ("?", False),
    ]


def test_errors_inside_a_node_show_inside_it() -> None:
    nodes, edges = "[{id: A, type: human}, {id: B, type: hmn}]", "[{from: A, to: C}]"
    inner = f"{{type: config, config: {{start: A, nodes: {nodes}, edges: {edges}}}}}"
    drawing = drawn(LOOP.replace("type: passthrough", f"type: subgraph, config: {inner}"))
    names = {found.key: codes(found.problems) for found in drawing.nodes}
    assert names["Reviewer/A"] == [] and names["Reviewer/B"] == ["unknown-type"]
    assert names["Reviewer/C"] == ["unknown-node"]
    assert edge_codes(drawing)["Reviewer/A", "Reviewer/C"] == ["unknown-node"]
    assert names["Reviewer"] == ["unreadable-node"] and names["Writer"] == []


def test_invalid_participant_is_drawn_with_the_others() -> None:
    config = "{participants: [{id: Ada, type: human}, {id: Bo, type: robot}], max_rounds: 2}"
    drawing = drawn(LOOP.replace("type: passthrough", f"type: debate, config: {config}"))
    assert codes(placed(drawing, "Bo").problems) == ["unknown-type"]
    assert codes(placed(drawing, "Ada").problems) == []
    assert placed(drawing, "Bo").parent == placed(drawing, "Ada").parent == placed(drawing, "Reviewer").region


def test_valid_subgraph_after_an_invalid_node_is_drawn() -> None:
    inner = "{type: config, config: {start: A, nodes: [{id: A, type: human}]}}"
    text = LOOP.replace("type: literal", "type: litral")
    drawing = drawn(text.replace("type: passthrough", f"type: subgraph, config: {inner}"))
    assert codes(placed(drawing, "Reviewer").problems) == []
    assert placed(drawing, "A").key == "Reviewer/A"


def test_errors_in_the_file_of_a_subgraph_show_inside_its_node(tmp_path: Path) -> None:
    uses = "type: subgraph, config: {type: file, config: {path: inner.yaml}}"
    (tmp_path / "flow.yaml").write_text(LOOP.replace("type: passthrough", uses))
    (tmp_path / "inner.yaml").write_text(
        "graph: {start: A, nodes: [{id: A, type: hmn}, {id: B, type: human}]}"
    )
    drawing = drawn_file(tmp_path / "flow.yaml")
    names = {found.key: codes(found.problems) for found in drawing.nodes}
    assert names["Reviewer/A"] == ["unknown-type"] and names["Reviewer/B"] == []
    (tmp_path / "inner.yaml").write_text("colour: red")
    drawing = drawn_file(tmp_path / "flow.yaml")
    assert codes(placed(drawing, "Reviewer").problems)[-1] == "missing-key"
    assert drawing.problems == ()


def drawn_file(file: Path) -> Drawing:
    plan, report = draft_plan(file)
    assert plan is not None
    return draw(plan, report.findings)


def test_a_variable_without_a_value_shows_at_the_node_that_uses_it() -> None:
    text = LOOP.replace("content: x", "content: '${NOWHERE_AT_ALL}'")
    drawing = drawn(text)
    assert codes(placed(drawing, "Writer").problems) == ["unresolved-variable"]
    one_line = json.dumps(
        {"graph": {"start": "A", "nodes": [node("A", content="${NOWHERE_AT_ALL}"), node("B")]}}
    )
    found = {placed.id: codes(placed.problems) for placed in drawn(one_line).nodes}
    assert found["A"] == ["unresolved-variable"] and "unresolved-variable" not in found["B"]


# How each format marks it.


def test_every_format_marks_errors() -> None:
    plan, report = draft_text_plan(LOOP.replace("to: Reviewer", "to: Reviwer").replace("passthrough", "agnt"))
    assert plan is not None
    tree, chart, picture = (
        shown(plan, findings=report.findings),
        mermaid(plan, report.findings),
        svg(draw(plan, report.findings)),
    )
    assert "→ Reviwer  ✗ the edge's 'to' names the node 'Reviwer', which does not exist" in tree
    assert "Reviewer  agnt  ✗ node 'Reviewer' has the unknown type 'agnt'" in tree
    assert "Reviwer  missing  (end)  ✗ there is no node 'Reviwer'" in tree
    assert 'n1("Reviewer ✗<br/>agnt")' in chart and "class n1,n2 fault" in chart
    assert 'n0 -->|"✗"| n2' in chart and "linkStyle 0 stroke:#dc2626" in chart
    assert picture.count('<g class="badge">') == 2
    assert picture.count('class="edge fault"') == 1 and 'marker-end="url(#fault-head)"' in picture
    assert "missing" in texts(picture)


def test_non_terminating_loop_is_marked_in_every_format() -> None:
    plan, report = draft_text_plan(LOOP)
    assert plan is not None
    assert "nothing but its cap of 100 rounds  ✗ the loop Writer" in shown(plan, findings=report.findings)
    assert "100 rounds ✗" in mermaid(plan, report.findings) and "class loop0 fault" in mermaid(
        plan, report.findings
    )
    assert '<rect class="loop fault"' in svg(draw(plan, report.findings))


def test_warnings_do_not_change_the_picture() -> None:
    text = LOOP + "    - {from: Reviewer, to: Out, condition: {type: keyword, config: {any: [ok]}}}\n"
    plan, report = draft_text_plan(text.replace("  edges:", "    - {id: Out, type: passthrough}\n  edges:"))
    assert plan is not None and report.ok
    drawing = draw(plan, report.findings)
    assert codes(drawing.regions[0].problems) == ["only-capped"]
    assert svg(drawing) == svg(draw(plan))
    assert shown(plan, findings=report.findings) == shown(plan)


def test_oversized_graph_is_reported_not_raised() -> None:
    for described, words in ((complete(40), "too many to draw"), (ladder(400), "nested too deep")):
        drawing = draw(plan_of(described["graph"]))
        assert drawing.nodes == () and codes(drawing.problems) == ["too-large-to-draw"]
        assert words in drawing.problems[0].message


def test_secret_is_masked_before_truncation() -> None:
    secret = "sesame-open-" * 5
    plan = plan_of(graph([node("A"), node("B")], [edge("A", "B", condition={"cel": f"text == '{secret}'"})]))
    densities: tuple[Density, ...] = ("normal", "compact")
    for density in densities:
        drawing = draw(plan, mask=lambda text: text.replace(secret, "***"), density=density)
        assert "sesame" not in svg(drawing) and "***" in svg(drawing)


def test_draft_with_errors_shows_no_loop_bounds() -> None:
    """What cannot be read may be what ends the loop; a sound loop without an end keeps its bound."""
    [loop] = drawn(LOOP.replace("type: literal", "type: litteral")).regions
    assert loop.captions == ("no proof until the errors are corrected",)
    [loop] = drawn(LOOP).regions
    assert loop.captions == ("nothing but its cap of 100 rounds",)
