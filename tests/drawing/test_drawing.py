"""What `roundel show` draws: a tree, Mermaid, and an SVG that lays itself out."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roundel.drawing.assembly import draw
from roundel.drawing.drawing import Density
from roundel.drawing.mermaid import mermaid, quoted
from roundel.drawing.text import fit, text_width, wrap
from tests.drawing.drawings import (
    assert_tidy,
    assert_unbroken,
    council,
    edge,
    graph,
    keyword,
    node,
    picture,
    plan_of,
    repeated,
    shown,
    texts,
)

DENSITIES: tuple[Density, ...] = ("normal", "compact")
NASTY = (
    "<b>",
    'a"b',
    "a&b",
    "x]]>y",
    "[end]",
    "1. list",
    "🙂 happy",
    "评论员",
    "tab\tand\nline",
    "\x1b[31mred",
)


def review_loop() -> dict[str, Any]:
    return graph(
        [
            node("Writer"),
            node("Reviewer"),
            node("Loop Guard", "loop_counter", max_iterations=3),
            node("Final Output"),
        ],
        [
            edge("Writer", "Reviewer"),
            edge("Reviewer", "Final Output", **keyword(any=["ACCEPT"])),
            edge("Reviewer", "Writer", **keyword(none=["ACCEPT"])),
            edge("Reviewer", "Loop Guard", **keyword(none=["ACCEPT"])),
            edge("Loop Guard", "Writer"),
            edge("Loop Guard", "Final Output"),
        ],
        id="review",
        end=["Final Output"],
    )


def nested_loops() -> dict[str, Any]:
    return graph(
        [node("Plan"), node("Draft"), node("Critic"), node("Editor"), node("Out")],
        [
            edge("Plan", "Draft"),
            edge("Draft", "Critic"),
            edge("Critic", "Draft", **keyword(any=["again"])),
            edge("Critic", "Editor", **keyword(none=["again"])),
            edge("Plan", "Editor", trigger=False),
            edge("Editor", "Plan", condition={"cel": "data.score < 90 && round < 5 && text.size() > 100000"}),
            edge("Editor", "Out"),
        ],
    )


def with_subgraph() -> dict[str, Any]:
    inner = {"id": "B", "type": "subgraph", "config": {"type": "config", "config": review_loop()}}
    return graph([node("A"), inner, node("C")], [edge("A", "B"), edge("B", "C"), edge("A", "C")])


def voting() -> dict[str, Any]:
    return {"id": "vote", "nodes": [node("甲"), node("乙"), node("丙")], "is_majority_voting": True}


def chain_of(names: tuple[str, ...]) -> dict[str, Any]:
    edges = [edge(a, b, **keyword(any=[a])) for a, b in pairwise(names)]
    return graph([node(name) for name in names], [*edges, edge(names[-1], names[0])], id="<&>")


# The tree.


def test_tree_shows_loops_bounds_and_edge_kinds() -> None:
    expected = """\
review  4 nodes, 6 edges, 1 loop
├── loop Writer: Writer, Reviewer, Loop Guard  at most 3 rounds, by Loop Guard
│   ├── ▶ Writer  literal  (start)
│   │   └── → Reviewer
│   ├── Reviewer  literal
│   │   ├── ⇥ Final Output [any: ACCEPT]
│   │   ├── ↺ Writer [none: ACCEPT]
│   │   └── → Loop Guard [none: ACCEPT]
│   └── Loop Guard  loop_counter, 3 times
│       ├── ↺ Writer
│       └── ⇥ Final Output
└── Final Output  literal  (end)
"""
    assert [line.rstrip() for line in shown(plan_of(review_loop())).splitlines()] == expected.splitlines()


def test_loops_nest_and_long_conditions_are_cut() -> None:
    text = shown(plan_of(nested_loops()))
    assert "├── loop Plan: Plan, Draft, Critic, Editor" in text
    assert "│   ├── loop Draft: Draft, Critic" in text
    assert "⇢ Editor [does not trigger]" in text
    assert "↺ Plan [data.score < 90 && round < 5 && text.si…]" in text


def test_tree_shows_the_cap_when_it_is_the_lower_bound() -> None:
    described = review_loop() | {"loops": {"Writer": {"max_rounds": 2}}}
    assert "at most 2 rounds, by its cap" in shown(plan_of(described))
    assert "loop Plan: Plan, Draft, Critic, Editor  at most 1 round" in shown(plan_of(nested_loops()))
    assert "loop Draft: Draft, Critic  nothing but its cap of 100 rounds" in shown(plan_of(nested_loops()))


def test_tree_shows_subgraphs_as_branches_and_notes_votes() -> None:
    text = shown(plan_of(with_subgraph()))
    assert "├── B  subgraph" in text
    assert "│   ├── loop Writer: Writer, Reviewer, Loop Guard" in text
    assert "majority voting: the most common answer of 3 nodes wins" in shown(plan_of(voting()))


def test_an_edge_out_of_an_inner_loop_to_the_outer_entry_shows_both() -> None:
    edges = [edge("A", "B"), edge("B", "C"), edge("C", "B"), edge("C", "A"), edge("A", "Z")]
    text = shown(plan_of(graph([node("A"), node("B"), node("C"), node("Z")], edges)))
    assert "⇥↺ A" in text and "↺ B" in text


# Mermaid.


def test_mermaid_draws_loops_as_blocks_and_back_edges_apart() -> None:
    text = mermaid(plan_of(review_loop()))
    assert text.startswith("flowchart TD\n")
    assert 'subgraph loop0["loop Writer · at most 3 rounds, by Loop Guard"]' in text
    assert 'n2{{"Loop Guard<br/>loop_counter, 3 times"}}' in text
    assert 'n1 -->|"any: ACCEPT"| n3' in text
    assert 'n1 -->|"↺ none: ACCEPT"| n0' in text
    assert "linkStyle 2,4 " in text
    assert 'n3["Final Output ■<br/>literal"]' in text and "class n3 last" in text


def test_mermaid_draws_data_edges_dotted_and_subgraphs_as_blocks() -> None:
    assert "n0 -.-> n3" in mermaid(plan_of(nested_loops()))
    text = mermaid(plan_of(with_subgraph()))
    assert 'subgraph n1["B · subgraph"]' in text
    assert "n0 --> n1" in text
    assert text.count("subgraph ") == text.count("\n    end") + text.count("\n        end")


def test_mermaid_escapes_special_characters_in_ids() -> None:
    text = mermaid(plan_of(chain_of(NASTY)))
    labels = re.findall(r'"(.*?)"', text)
    assert 'n0["▶ #60;b#62;' in text and 'n1["a#34;b' in text
    assert "评论员" in text and "🙂 happy" in text
    assert "\x1b" not in text
    for label in labels:
        bare = re.sub(r"#\d+;|<br/>|↺", "", label)
        assert not set(bare) & set('"<>&[]{}|`;#\n\\'), label


@given(st.text(max_size=30))
def test_quoted_label_decodes_to_the_same_text(text: str) -> None:
    label = quoted(text)
    assert label[0] == label[-1] == '"'
    told = re.sub(r"#(\d+);", lambda match: chr(int(match[1])), label[1:-1])
    assert told.replace("\N{ZERO WIDTH SPACE}", "") == text.replace("\N{ZERO WIDTH SPACE}", "")
    assert '"' not in label[1:-1]


def bounded_retry() -> dict[str, Any]:
    nodes = [node("Try"), node("Guard", "loop_counter", max_iterations=3), node("Alert"), node("End")]
    failures = [("Try", "Try"), ("Try", "Guard"), ("Guard", "Alert")]
    edges = [edge("Try", "End"), *(edge(one, other, port="error") for one, other in failures)]
    edges += [edge("Guard", "Try"), edge("Guard", "End"), edge("Try", "Alert", port="error", trigger=False)]
    return graph(nodes, edges, end=["End"])


def test_error_edges_are_drawn_apart() -> None:
    plan = plan_of(bounded_retry())
    lines = [line.strip(" │├└─") for line in shown(plan).splitlines()]
    for line in ("↺⤳ Try [port error]", "⤳ Guard [port error]", "⇥⤳ Alert [port error]", "↺ Try", "⇥ End"):
        assert line in lines
    chart = mermaid(plan)
    assert 'n0 -->|"↺ port error"| n0' in chart
    assert "linkStyle 1,2,3,6 stroke:#be185d,stroke-dasharray:9 3 2 3" in chart
    assert "linkStyle 4 stroke:#ea580c,stroke-width:2px" in chart
    drawn = picture(plan)
    assert drawn.count('<path class="edge failure explicit"') == 3
    assert drawn.count('<path class="edge failure data"') == 1
    assert "<title>Try → Try (error)</title>" in drawn and "port error" in texts(drawn)
    assert ".explicit" not in picture(plan_of(review_loop()))
    assert [edge.explicit for edge in draw(plan).edges if edge.port] == [True] * 4


def test_exit_edges_have_the_colour_of_their_role() -> None:
    nodes = [node("Writer", "agent", tools=["exit_loop"]), node("End")]
    edges = [edge("Writer", "Writer"), edge("Writer", "End", port="exit")]
    plan = plan_of(graph(nodes, edges, end=["End"]))
    assert "⇥⤳ End [port exit]" in shown(plan)
    assert "linkStyle 1 stroke-dasharray:9 3 2 3" in mermaid(plan)
    assert picture(plan).count('<path class="edge leave explicit"') == 1


# SVG.


def test_the_svg_shows_nodes_loops_conditions_start_and_end() -> None:
    drawing = picture(plan_of(review_loop()))
    said = texts(drawing)
    for words in ("review", "Writer", "loop_counter, 3 times", "loop Writer", "any: ACCEPT", "start", "end"):
        assert words in said
    assert "at most 3 rounds, by Loop Guard" in said
    assert drawing.count('<path class="edge back"') == 2
    assert drawing.count('<path class="edge leave"') == 2
    assert "prefers-color-scheme: dark" in drawing


def test_data_edges_are_dashed_and_a_vote_is_counted() -> None:
    assert '<path class="edge edge data"' in picture(plan_of(nested_loops()))
    assert "majority vote" in texts(picture(plan_of(voting())))


@pytest.mark.parametrize("name", NASTY)
def test_the_svg_is_well_formed_for_any_id(name: str) -> None:
    drawing = picture(plan_of(chain_of((name, "other"))))
    kept = [words for words in texts(drawing) if words not in ("start", "end", "literal")]
    assert " ".join(name.split()).replace("\x1b", "\N{REPLACEMENT CHARACTER}") in kept


def test_a_long_id_is_truncated_and_shown_in_full_on_hover() -> None:
    name = "非常长的名字" * 12
    drawing = picture(plan_of(graph([node(name)], [])))
    assert name not in texts(drawing)
    assert any(words.startswith("非常长的名字") and words.endswith("…") for words in texts(drawing))
    assert f"<title>{name} (literal)</title>" in drawing


def test_wide_characters_take_twice_the_width() -> None:
    assert text_width("评论员", 13) > 1.7 * text_width("abc", 13)
    assert text_width(fit("评论员和作者" * 5, 11, 100), 11) <= 100
    assert all(text_width(line, 11) <= 80 for line in wrap("one two three four five six " * 3, 11, 80, 3))


def test_lines_wrap_between_words_or_inside_names() -> None:
    assert wrap("one two three four", 11, 80, 3) == ("one two", "three four")
    assert wrap("functions:without_quotes", 11, 100, 3) == ("functions:", "without_quotes")
    assert wrap("x" * 30, 11, 100, 2)[0] == "x" * 14


# The layout.


@pytest.mark.parametrize("described", [review_loop(), nested_loops(), with_subgraph(), voting()])
def test_drawn_elements_do_not_overlap(described: dict[str, Any]) -> None:
    drawing = draw(plan_of(described))
    assert_tidy(drawing)
    for drawn in drawing.edges:
        assert_unbroken(drawn)


def test_a_subgraph_box_holds_its_nodes() -> None:
    drawing = draw(plan_of(with_subgraph()))
    outer = next(node.box for node in drawing.nodes if node.region)
    held = {node.id for node in drawing.nodes if outer.holds(node.box)}
    assert held == {"B", "Writer", "Reviewer", "Loop Guard", "Final Output"}


def test_long_edge_is_drawn_straight_down() -> None:
    described = review_loop()
    described["edges"].append(edge("Writer", "Final Output", trigger=False))
    [line] = [drawn for drawn in draw(plan_of(described)).edges if not drawn.triggers]
    assert [len(piece) for piece in line.route] == [1, 3, 1, 3]


def test_edges_avoid_nodes_and_end_at_their_target() -> None:
    drawing = draw(plan_of(nested_loops()))
    boxes = {node.key: node.box for node in drawing.nodes}
    for drawn in drawing.edges:
        if drawn.kind != "edge":
            continue
        points = [point for piece in drawn.route for point in piece]
        target = boxes[drawn.target]
        x, y = points[-1]
        assert target.x - 1 <= x <= target.right + 1 and target.y - 1 <= y <= target.bottom + 1
        for x, y in points[1:-1]:
            for box in boxes.values():
                assert not (box.x + 1 < x < box.right - 1 and box.y + 1 < y < box.bottom - 1)


@st.composite
def random_graphs(draw: st.DrawFn) -> dict[str, Any]:
    count = draw(st.integers(1, 9))
    letters = st.text("aM评🙂 <", min_size=1, max_size=12)
    names = [f"{number}{draw(letters)}" for number in range(count)]
    ends = st.tuples(st.sampled_from(names), st.sampled_from(names))
    edges = [
        edge(
            source,
            target,
            trigger=draw(st.booleans()),
            **(keyword(any=[draw(letters) * 3]) if draw(st.booleans()) else {}),
        )
        for source, target in draw(st.lists(ends, max_size=18, unique=True))
    ]
    kinds: st.SearchStrategy[Any] = st.sampled_from([node, node, node, repeated, council])
    return graph([draw(kinds)(name) for name in names], edges)


@settings(deadline=None, max_examples=150)
@given(random_graphs())
def test_random_graphs_are_drawn_tidily(described: dict[str, Any]) -> None:
    plan = plan_of(described)
    for density in DENSITIES:
        drawing = draw(plan, density=density)
        assert_tidy(drawing)
        for drawn in drawing.edges:
            assert_unbroken(drawn)
    ET.fromstring(picture(plan))
    assert shown(plan) and mermaid(plan)
