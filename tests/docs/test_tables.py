"""The tables of fields in the manual, and the entries of node types, are those that the descriptions give."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.manual import DOCS, PAGES
from tools.field_tables import MARKER, Manual

MANUAL = Manual()
WRITTEN = MANUAL.written()
MARKED = {(found["what"], found["name"]) for text in WRITTEN.values() for found in MARKER.finditer(text)}
ELSEWHERE = {"consensus": "judged_consensus", "map_settings": "tree_settings"}
"""Objects whose keys are all in the table of another."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_manual_tables_match_the_descriptions(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == WRITTEN[page.name], "out of date; run: make tables"


def test_every_field_is_in_a_table_of_the_manual() -> None:
    objects = MANUAL.data["objects"]
    plain = {name for name, about in objects.items() if about["fields"] and not about["variants"]}
    # What has short forms alone beside single keys is told in the prose, with its forms.
    plain -= {"score", "predicate", "expression_condition", *ELSEWHERE}
    assert {name for name in plain if ("fields", name) not in MARKED} == set()
    for name, other in ELSEWHERE.items():
        keys = {field["key"] for field in objects[name]["fields"]}
        assert keys <= {field["key"] for field in objects[other]["fields"]}


def test_every_node_type_has_an_entry_with_its_ports_fields_and_example() -> None:
    for name in MANUAL.data["node_types"]:
        assert ("node", name) in MARKED
    vote = MANUAL.part("node", "vote", "nodes.md")
    assert "| `approved` | Enough approve |" in vote
    assert "| `threshold` | number > 0 and ≤ 1 | `0.67` |" in vote
    assert "```yaml\n- id: Board\n" in vote


def test_unknown_marker_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("# Page\n\n<!-- fields: egde -->\n<!-- end -->\n")
    with pytest.raises(SystemExit, match=r"docs/page.md: `<!-- fields: egde -->` names nothing.*edge"):
        Manual(tmp_path).written()


def test_handwritten_text_around_tables_is_preserved(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(
        "# Page\n\nBefore.\n\n<!-- fields: price -->\nold\n<!-- end -->\n\nAfter.\n"
    )
    written = Manual(tmp_path).written()["page.md"]
    assert written.startswith("# Page\n\nBefore.\n\n<!-- fields: price -->\n| key | type |")
    assert written.endswith("<!-- end -->\n\nAfter.\n")
    assert "old" not in written


def test_every_manual_page_is_written() -> None:
    assert set(WRITTEN) == {page.name for page in DOCS.glob("*.md")}
