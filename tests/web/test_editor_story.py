"""One workflow from an empty page to its end: drawn, given conditions and a counter, saved, run with a
script, and answered by a person. Once with the mouse, and once with the keyboard alone."""

from __future__ import annotations

import json

from playwright.sync_api import Locator, Page

from tests.web.expectations import expect
from tests.web.pages import Pages
from tests.web.site import Site
from tests.web.test_editor_canvas import card, choose, draw_with_the_keyboard, draw_with_the_mouse

SCRIPT = json.dumps({"Writer": ["Tea is a drink.", "Nobody is a stranger where tea is poured."]})
CONDITIONS = (("Writer", "None of"), ("Guard", "None of"), ("Final", "Any of"))
"""The edges of the reviewer: where they lead, and whether they fire without the word OK or with it."""


def form(page: Page) -> Locator:
    return page.locator(".editor-pane-form")


def pane(page: Page) -> Locator:
    return page.get_by_role("region", name="Try it")


def expect_end(site: Site, page: Page, name: str) -> None:
    """The counter has ended the loop, and the run is what was saved."""
    expect(pane(page).locator(".try-status")).to_contain_text("Completed")
    expect(pane(page).get_by_role("region", name="Result")).to_contain_text("Loop limit reached (2)")
    expect(pane(page).locator(".try-round")).to_have_text(["Writer, round 1", "Writer, round 2"])
    expect(page.locator(".graph-region-round")).to_have_text("round 2 of ≤ 2")
    expect(card(page, "Final")).to_contain_text("×1")
    saved = site.call("GET", f"/workflows/{name}")
    assert "max_iterations: 2" in saved["text"]
    drawing = site.call("POST", "/check", {"text": saved["text"]})["drawing"]
    edges = {(one["source"], one["target"]): one["text"] for one in drawing["edges"] if one["kind"] == "edge"}
    assert edges == {
        ("Writer", "Reviewer"): "",
        ("Reviewer", "Writer"): "none: OK",
        ("Reviewer", "Guard"): "none: OK",
        ("Reviewer", "Final"): "any: OK",
        ("Guard", "Writer"): "",
        ("Guard", "Final"): "",
    }
    address = pane(page).get_by_role("link", name="Open the run").get_attribute("href")
    assert address is not None and site.status(address.rpartition("/")[2]) == "completed"


def test_a_review_loop_from_nothing_to_its_end_with_the_mouse(site: Site, pages: Pages) -> None:
    page = pages.open()
    draw_with_the_mouse(page)
    for target, kind in CONDITIONS:
        card(page, "Reviewer").click(button="right")
        page.get_by_role("menuitem", name="Edges").click()
        page.get_by_role("option", name=f"Reviewer to {target}").click()
        form(page).get_by_role("combobox", name="Fires").select_option("keyword")
        form(page).get_by_role("button", name=f"Add to {kind}").click()
        form(page).get_by_role("textbox", name=f"New entry of {kind}").fill("OK")
        page.keyboard.press("Enter")
        expect(form(page).get_by_role("textbox", name=f"{kind} 1")).to_have_value("OK")
    card(page, "Guard").click()
    form(page).get_by_role("textbox", name="Triggers").fill("2")
    expect(page.locator(".proof-row.proof-good")).to_contain_text("at most 2 rounds, by Guard")

    page.get_by_role("button", name="Save").click()
    page.get_by_role("dialog").get_by_label("Name").fill("drawn by mouse")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.locator(".editor-bar .editor-chip[role=status]")).to_have_text("version 1")

    page.get_by_role("button", name="Try it").click()
    pane(page).get_by_label("Input").fill("a line about tea")
    pane(page).get_by_label("Script", exact=True).fill(SCRIPT)
    pane(page).get_by_role("button", name="Run", exact=True).click()
    for answer in ("Who drinks it?", "Too long."):
        field = pane(page).get_by_label("Your answer as Reviewer")
        expect(field).to_have_value("")
        field.fill(answer)
        pane(page).get_by_role("button", name="Send").click()
        expect(pane(page).get_by_text(answer)).to_be_visible()
    expect_end(site, page, "drawn by mouse")


def tab_to(page: Page, wanted: Locator) -> None:
    """Presses Tab until something has the focus. In the text, Escape lets Tab leave."""
    expect(wanted).to_be_visible()
    for _ in range(200):
        if wanted.evaluate("(element) => element === document.activeElement"):
            return
        if page.evaluate("document.activeElement?.closest('.cm-editor') !== null"):
            page.keyboard.press("Escape")
        page.keyboard.press("Tab")
    raise AssertionError("Tab does not lead there")


def test_a_review_loop_from_nothing_to_its_end_with_the_keyboard_only(site: Site, pages: Pages) -> None:
    page = pages.open()
    draw_with_the_keyboard(page)
    for target, kind in CONDITIONS:
        page.keyboard.press("/")
        choose(page, "Reviewer")
        expect(card(page, "Reviewer").locator("button").first).to_be_focused()
        page.keyboard.press("e")
        choose(page, f"Reviewer to {target}")
        fires = form(page).get_by_role("combobox", name="Fires")
        tab_to(page, fires)
        for value in ("never", "keyword"):
            page.keyboard.press("ArrowDown")
            expect(fires).to_have_value(value)
        tab_to(page, form(page).get_by_role("button", name=f"Add to {kind}"))
        page.keyboard.press("Enter")
        expect(form(page).get_by_role("textbox", name=f"New entry of {kind}")).to_be_focused()
        page.keyboard.type("OK")
        page.keyboard.press("Enter")
        expect(form(page).get_by_role("textbox", name=f"{kind} 1")).to_have_value("OK")
        tab_to(page, page.locator(".editor-canvas button[data-key][tabindex='0']"))
    page.keyboard.press("/")
    choose(page, "Guard")
    expect(card(page, "Guard").locator("button").first).to_be_focused()
    tab_to(page, form(page).get_by_role("slider").first)
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".proof-row.proof-good")).to_contain_text("at most 2 rounds, by Guard")

    page.keyboard.press("Control+s")
    expect(page.get_by_role("dialog").get_by_label("Name")).to_be_focused()
    page.keyboard.press("Control+a")
    page.keyboard.type("drawn by keys")
    page.keyboard.press("Enter")
    expect(page.locator(".editor-bar .editor-chip[role=status]")).to_have_text("version 1")

    tab_to(page, page.get_by_role("button", name="Try it"))
    page.keyboard.press("Enter")
    tab_to(page, pane(page).get_by_label("Input"))
    page.keyboard.type("a line about tea")
    tab_to(page, pane(page).get_by_label("Script", exact=True))
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(SCRIPT)
    tab_to(page, pane(page).get_by_role("button", name="Run", exact=True))
    page.keyboard.press("Enter")
    for answer in ("Who drinks it?", "Too long."):
        field = pane(page).get_by_label("Your answer as Reviewer")
        expect(field).to_have_value("")
        expect(field).to_be_focused()
        page.keyboard.type(answer)
        page.keyboard.press("Control+Enter")
        expect(pane(page).get_by_text(answer)).to_be_visible()
    expect_end(site, page, "drawn by keys")
