"""The canvas and the outline of the editor: drawing workflows with the mouse, and with the keyboard alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count

import pytest
from playwright.sync_api import Browser, Locator, Page

from tests.web.axe import findings
from tests.web.expectations import expect
from tests.web.site import Site

NAMES = count(1)

LINE = """version: 0.1.0
graph:
  id: line
  nodes:
    - id: Writer      # writes
      type: agent
    - id: Reviewer
      type: human
    - id: Final
      type: passthrough
  edges:
    - {from: Writer, to: Reviewer}
    - {from: Reviewer, to: Final}   # the way out
  start: Writer
  end: Final
"""

OPEN = """version: 0.1.0
graph:
  id: open
  nodes:
    - {id: Writer, type: agent}
    - {id: Reviewer, type: human}
    - {id: Final, type: passthrough}
  edges:
    - {from: Writer, to: Reviewer}
    - {from: Reviewer, to: Writer, condition: {type: keyword, config: {none: [OK]}}}
    - {from: Reviewer, to: Final, condition: {type: keyword, config: {any: [OK]}}}
  start: Writer
  end: Final
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("site")) as site:
        yield site


@pytest.fixture
def page(site: Site, browser: Browser) -> Iterator[Page]:
    page = site.page(browser)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    yield page
    page.context.close()
    assert errors == []


def edit(site: Site, page: Page, text: str) -> None:
    """Opens the editor with a new workflow."""
    name = f"canvas{next(NAMES)}"
    site.save(name, text)
    page.goto(f"/workflows/{name}/edit")
    expect(page.locator(".canvas-card").first).to_be_visible()


def card(page: Page, key: str) -> Locator:
    return page.locator(f'.canvas-card[data-card="{key}"]')


def text_of(page: Page) -> str:
    """What the text says now, as CodeMirror shows it."""
    lines: list[str] = page.locator(".cm-line").all_text_contents()
    return "\n".join(lines)


def graph_of(page: Page) -> tuple[set[str], set[str]]:
    """The nodes and the edges that the outline lists, each edge as `from to [port]`."""
    nodes = set(page.locator(".outline-node .graph-name").all_text_contents())
    edges: set[str] = set()
    source = ""
    for row in page.locator(".outline-row").all():
        kind = row.get_attribute("class") or ""
        if "outline-node" in kind:
            source = row.locator(".graph-name").inner_text()
        elif "outline-edge" in kind:
            edges.add(f"{source} {row.inner_text()}".replace("\n", " ").strip())
    return nodes, edges


def named(page: Page, name: str) -> None:
    """Types the name that a new node asks for, and waits until it is drawn."""
    field = page.locator(".canvas-prompt input")
    expect(field).to_be_focused()
    page.keyboard.type(name)
    page.keyboard.press("Enter")
    expect(card(page, name)).to_be_visible()


def drag(page: Page, start: Locator, end: Locator) -> None:
    """Drags with the mouse, from the middle of one thing to the middle of another."""
    start.hover()
    page.mouse.down()
    box = end.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=6)
    page.mouse.up()


def connect(page: Page, source: str, target: str, port: str = "") -> None:
    card(page, source).hover()
    drag(page, card(page, source).locator(f'[data-port="{port}"]'), card(page, target))


LOOP_EDGES = {
    "Writer to Reviewer",
    "Reviewer to Writer",
    "Reviewer to Guard",
    "Reviewer to Final",
    "Guard to Writer",
    "Guard to Final",
}


def draw_with_the_mouse(page: Page) -> None:
    """Draws the review loop from nothing."""
    page.goto("/workflows/new")
    body = page.locator(".canvas-body")
    expect(body).to_contain_text("Nothing is drawn yet")
    palette = page.locator(".palette")
    palette.locator('[data-type="agent"]').drag_to(body)
    named(page, "Writer")
    palette.locator('[data-type="human"]').drag_to(card(page, "Writer"))
    named(page, "Reviewer")
    palette.locator('[data-type="passthrough"]').drag_to(card(page, "Reviewer"))
    named(page, "Final")
    # From a port to empty space, with a choice of the type.
    card(page, "Reviewer").hover()
    port = card(page, "Reviewer").locator('[data-port=""]')
    port.hover()
    page.mouse.down()
    box = body.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] - 60, box["y"] + 60, steps=5)
    page.mouse.up()
    page.get_by_role("combobox", name="Add a node here").fill("counter")
    page.get_by_role("option").first.click()
    named(page, "Guard")
    connect(page, "Reviewer", "Writer")
    expect(page.locator(".graph-region-loop")).to_be_visible()
    connect(page, "Guard", "Writer")
    expect(page.locator(".canvas-counts")).to_have_text("4 nodes, 5 edges, 1 loop")
    connect(page, "Guard", "Final")
    card(page, "Final").click(button="right")
    page.get_by_role("menuitem", name="end").click()
    expect(card(page, "Final").locator(".graph-end-badge")).to_be_visible()


def test_the_review_loop_is_drawn_with_the_mouse(page: Page) -> None:
    draw_with_the_mouse(page)
    page.keyboard.press("o")
    expect(page.locator(".outline-edge")).to_have_count(6)
    nodes, edges = graph_of(page)
    assert nodes == {"Writer", "Reviewer", "Guard", "Final"}
    assert edges == LOOP_EDGES


def choose(page: Page, search: str) -> None:
    """Types into the list that is open, and takes the first that fits."""
    expect(page.locator("input[role=combobox]")).to_be_focused()
    page.keyboard.type(search)
    page.keyboard.press("Enter")


def join(page: Page, target: str, edges: int) -> None:
    page.keyboard.press("c")
    choose(page, target)
    expect(page.locator(".canvas-counts")).to_contain_text(f"{edges} edge")


def draw_with_the_keyboard(page: Page) -> None:
    """The same with keys alone."""
    page.goto("/workflows/new")
    expect(page.locator(".canvas-body")).to_contain_text("Nothing is drawn yet")
    expect(page.locator('.palette [data-type="agent"]')).to_be_visible()
    page.keyboard.press("a")
    expect(page.locator(".palette-search input")).to_be_focused()
    page.keyboard.type("agent")
    page.keyboard.press("Enter")
    named(page, "Writer")
    expect(card(page, "Writer").locator("button")).to_be_focused()
    for kind, name in (("human", "Reviewer"), ("passthrough", "Final")):
        page.keyboard.press("a")
        choose(page, kind)
        named(page, name)
        expect(card(page, name).locator("button")).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(card(page, "Reviewer").locator("button")).to_be_focused()
    join(page, "Writer", 3)
    # A second way on from the reviewer: the guard is added at the end, and connected both ways.
    page.keyboard.press("Escape")
    page.keyboard.press("Shift+F10")
    expect(page.get_by_role("menu")).to_be_visible()
    page.keyboard.press("Escape")
    expect(card(page, "Reviewer").locator("button")).to_be_focused()
    page.keyboard.press("a")
    choose(page, "loop_counter")
    named(page, "Guard")
    expect(card(page, "Guard").locator("button")).to_be_focused()
    join(page, "Writer", 5)
    join(page, "Final", 6)


def test_the_review_loop_is_drawn_with_the_keyboard_only(page: Page) -> None:
    draw_with_the_keyboard(page)
    page.keyboard.press("o")
    expect(page.locator(".outline-row").first).to_be_visible()
    nodes, edges = graph_of(page)
    assert nodes == {"Writer", "Reviewer", "Guard", "Final"}
    assert edges == LOOP_EDGES


def test_the_outline_does_the_same_without_the_canvas(site: Site, page: Page) -> None:
    edit(site, page, LINE)
    page.get_by_role("button", name="Outline", exact=True).click()
    page.get_by_role("button", name="Canvas", exact=True).click()
    expect(page.locator(".canvas-pane")).to_have_count(0)
    row = page.locator('.outline-row[data-key="Reviewer"]')
    row.click()
    page.keyboard.press("a")
    choose(page, "loop_counter")
    expect(page.locator(".canvas-prompt input")).to_be_focused()
    page.keyboard.type("Guard")
    page.keyboard.press("Enter")
    guard = page.locator('.outline-row[data-key="Guard"]')
    expect(guard).to_be_focused()
    page.keyboard.press("c")
    choose(page, "Writer")
    expect(page.locator(".outline-edge", has_text="to Writer")).to_be_visible()
    guard.click()
    page.keyboard.press("F2")
    page.keyboard.type("Counter")
    page.keyboard.press("Enter")
    expect(page.locator('.outline-row[data-key="Counter"]')).to_be_focused()
    page.keyboard.press("Delete")
    expect(page.locator('.outline-row[data-key="Counter"]')).to_have_count(0)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Control+z")
    expect(page.locator('.outline-row[data-key="Counter"]')).to_be_visible()


def test_edges_are_reconnected_and_deleted_and_all_is_undone(site: Site, page: Page) -> None:
    edit(site, page, LINE)
    before = text_of(page)
    page.locator('.canvas-hit[data-line="2"]').click(force=True)
    expect(page.locator(".canvas-grip")).to_have_count(2)
    drag(page, page.locator('[data-grip="to"]'), card(page, "Writer"))
    expect(page.locator(".cm-line", has_text="{from: Reviewer, to: Writer}   # the way out")).to_be_visible()
    changed = text_of(page)
    assert [one for one in changed.split("\n") if one not in before.split("\n")] == [
        "    - {from: Reviewer, to: Writer}   # the way out"
    ]
    expect(page.locator(".graph-region-loop")).to_be_visible()
    page.keyboard.press("Delete")
    expect(page.locator(".canvas-counts")).to_have_text("3 nodes, 1 edge")
    card(page, "Reviewer").click()
    page.keyboard.press("Delete")
    expect(card(page, "Reviewer")).to_have_count(0)
    expect(page.locator(".canvas-counts")).to_have_text("2 nodes, 0 edges")
    for _ in range(3):
        page.keyboard.press("Control+z")
    expect(page.locator(".canvas-counts")).to_have_text("3 nodes, 2 edges")
    assert text_of(page) == before


def test_a_moved_node_stores_one_line_and_tidy_forgets_it(site: Site, page: Page) -> None:
    edit(site, page, LINE)
    before = text_of(page)
    start = card(page, "Final").bounding_box()
    assert start is not None
    page.mouse.move(start["x"] + 60, start["y"] + 20)
    page.mouse.down()
    page.mouse.move(start["x"] + 180, start["y"] + 60, steps=5)
    page.mouse.up()
    expect(page.locator(".cm-line", has_text="position:")).to_have_count(1)
    added = [one for one in text_of(page).split("\n") if one not in before.split("\n")]
    assert len(added) == 1 and added[0].strip().startswith("position: [")
    end = card(page, "Final").bounding_box()
    assert end is not None
    assert abs(end["x"] - start["x"] - 120) < 3 and abs(end["y"] - start["y"] - 40) < 3
    page.get_by_role("button", name="Tidy").click()
    expect(page.locator(".cm-line", has_text="position:")).to_have_count(0)
    assert text_of(page) == before


def test_several_nodes_are_selected_aligned_copied_and_pasted(site: Site, page: Page) -> None:
    edit(site, page, LINE)
    body = page.locator(".editor-canvas")
    box = body.bounding_box()
    first, last = card(page, "Writer").bounding_box(), card(page, "Reviewer").bounding_box()
    assert box is not None and first is not None and last is not None
    page.keyboard.down("Shift")
    page.mouse.move(first["x"] - 20, first["y"] - 6)
    page.mouse.down()
    page.mouse.move(last["x"] + last["width"] + 20, last["y"] + last["height"] + 4, steps=5)
    page.mouse.up()
    page.keyboard.up("Shift")
    expect(page.locator(".canvas-card[data-selected]")).to_have_count(2)
    expect(page.get_by_role("button", name="Align left")).to_be_visible()
    page.keyboard.press("Control+c")
    page.keyboard.press("Control+v")
    expect(page.locator(".canvas-card")).to_have_count(5)
    expect(page.locator(".canvas-counts")).to_have_text("5 nodes, 3 edges")
    page.keyboard.press("Control+z")
    expect(page.locator(".canvas-card")).to_have_count(3)
    card(page, "Writer").click()
    page.keyboard.press("Control+d")
    expect(page.locator(".canvas-card")).to_have_count(4)
    page.keyboard.press("Control+z")
    expect(page.locator(".canvas-card")).to_have_count(3)
    page.keyboard.press("Control+a")
    expect(page.locator(".canvas-card[data-selected]")).to_have_count(3)
    page.keyboard.press("Escape")
    expect(page.locator(".canvas-card[data-selected]")).to_have_count(0)


def test_a_loop_without_a_guard_is_fixed_with_one_key(site: Site, page: Page) -> None:
    edit(site, page, OPEN)
    expect(page.locator(".canvas-region-open")).to_be_visible()
    expect(page.locator(".canvas-ghost-card")).to_be_visible()
    card(page, "Writer").click()
    page.keyboard.press("f")
    expect(page.locator(".canvas-region-open")).to_have_count(0)
    expect(page.locator(".graph-proved").first).to_contain_text("proved, by Loop Guard")
    page.keyboard.press("Control+z")
    expect(page.locator(".canvas-region-open")).to_be_visible()
    page.locator(".canvas-open-actions").get_by_role("button", name="Add a counter here").click()
    expect(page.locator(".graph-proved").first).to_contain_text("proved, by Loop Guard")
    page.keyboard.press("Control+z")
    page.locator(".canvas-open-actions").get_by_role("button", name="Set the cap").click()
    page.keyboard.type("7")
    page.keyboard.press("Enter")
    expect(page.locator(".cm-line", has_text="max_rounds: 7")).to_be_visible()
    expect(page.locator(".canvas-region-open")).to_have_count(0)


def test_the_canvas_keeps_the_last_drawing_of_a_broken_text(site: Site, page: Page) -> None:
    edit(site, page, LINE)
    page.locator(".cm-line", has_text="start: Writer").click()
    page.keyboard.press("End")
    page.keyboard.type("\n  x: [")
    banner = page.locator(".canvas-broken")
    expect(banner).to_contain_text("Line ")
    expect(page.locator(".canvas-card")).to_have_count(3)
    page.keyboard.press("Control+z")
    expect(banner).to_have_count(0)


def test_the_first_node_is_near_and_axe_is_content(site: Site, page: Page) -> None:
    edit(site, page, OPEN)
    page.locator(".palette-search input").focus()
    steps = 0
    while not page.evaluate("document.activeElement.matches('.canvas-card button')"):
        page.keyboard.press("Tab")
        steps += 1
        assert steps <= 5
    # The other panes have tests of their own.
    ours = ("canvas", "graph-", "palette", "react-flow")
    assert [one for one in findings(page) if any(name in one for name in ours)] == []


# Collapsed nodes.

TEAM = """version: 0.1.0
graph:
  id: team
  nodes:
    - {id: Planner, type: agent}
    - id: Team
      type: subgraph
      config:
        type: config
        config:
          id: inner
          nodes:
            - {id: Coder, type: agent}
            - {id: Tester, type: human}
            - {id: Done, type: passthrough}
          edges:
            - {from: Coder, to: Tester}
            - {from: Tester, to: Coder, condition: {type: keyword, config: {none: [OK]}}}
            - {from: Tester, to: Done, condition: {type: keyword, config: {any: [OK]}}}
          start: Coder
          end: Done
    - {id: Final, type: passthrough}
  edges:
    - {from: Planner, to: Team}
    - {from: Team, to: Final}
  start: Planner
  end: Final
"""


def test_a_graph_inside_is_collapsed_and_opened_with_the_mouse(site: Site, page: Page) -> None:
    edit(site, page, TEAM)
    expect(card(page, "Team/Coder")).to_be_visible()
    before = text_of(page)
    counts = page.locator(".canvas-counts")
    expect(counts).to_have_text("6 nodes, 5 edges, 1 loop")
    page.get_by_role("button", name="Collapse Team").click()
    expect(card(page, "Team")).to_contain_text("subgraph, 3 nodes")
    expect(card(page, "Team/Coder")).to_have_count(0)
    # What is wrong inside shows at the card, the counts stay, and the text has not changed.
    expect(card(page, "Team").locator(".canvas-problem")).to_have_attribute(
        "title", re.compile("only by its cap")
    )
    expect(counts).to_have_text("6 nodes, 5 edges, 1 loop")
    assert text_of(page) == before
    # It is kept in the browser.
    page.reload()
    expect(card(page, "Team")).to_contain_text("subgraph, 3 nodes")
    page.get_by_role("button", name="Open Team").click()
    expect(card(page, "Team/Coder")).to_be_visible()
    expect(page.get_by_role("button", name="Collapse Team")).to_be_visible()


def test_a_graph_inside_is_collapsed_and_opened_with_the_keyboard(site: Site, page: Page) -> None:
    edit(site, page, TEAM)
    team = page.locator('.editor-canvas button[data-key="Team"]')
    page.locator('.editor-canvas button[data-key="Planner"]').focus()
    page.keyboard.press("ArrowDown")
    expect(team).to_be_focused()
    page.keyboard.press(".")
    expect(card(page, "Team")).to_be_visible()
    expect(team).to_be_focused()
    expect(page.get_by_role("status").filter(has_text="Team is collapsed")).to_have_count(1)
    # The keys go past what is not drawn.
    page.keyboard.press("ArrowDown")
    expect(card(page, "Final").locator("button").first).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(team).to_be_focused()
    page.keyboard.press("Shift+F10")
    page.get_by_role("menuitem", name=re.compile("^Open(?! all)")).press("Enter")
    expect(card(page, "Team/Coder")).to_be_visible()
    expect(team).to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Collapse or open the graph inside")


def test_a_collapsed_node_is_a_collapsed_row_of_the_outline(site: Site, page: Page) -> None:
    edit(site, page, TEAM)
    page.keyboard.press("o")
    row = page.locator('.outline-row[data-row="Team"]')
    expect(row).to_have_attribute("aria-expanded", "true")
    row.click()
    page.keyboard.press("ArrowLeft")
    expect(row).to_have_attribute("aria-expanded", "false")
    expect(row).to_be_focused()
    expect(page.locator('.outline-row[data-row="Team/Coder"]')).to_have_count(0)
    expect(card(page, "Team")).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(row).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowRight")
    expect(row).not_to_be_focused()
    assert findings(page) == []


def test_what_is_looked_for_inside_a_collapsed_node_opens_it(site: Site, page: Page) -> None:
    edit(site, page, TEAM)
    page.get_by_role("button", name="Collapse Team").click()
    expect(card(page, "Team")).to_be_visible()
    # The text selects a node inside: the card says where it is, and stays closed.
    page.locator(".cm-line", has_text="id: Tester").click()
    expect(card(page, "Team")).to_have_attribute("data-holds", "true")
    card(page, "Planner").click()
    page.keyboard.press("/")
    choose(page, "Tester")
    expect(card(page, "Team/Tester").locator("button").first).to_be_focused()
    # A fix opens the node that gets the counter.
    page.get_by_role("button", name="Collapse Team").click()
    expect(card(page, "Team")).to_be_visible()
    page.keyboard.press("f")
    expect(card(page, "Team/Loop Guard")).to_be_visible()
    expect(page.locator(".canvas-problem")).to_have_count(0)
