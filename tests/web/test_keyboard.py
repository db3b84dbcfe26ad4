"""The page by keyboard alone: these tests press keys, and never click or set the focus.

They read the page through locators, but reach everything with Tab, arrows and the keys of the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page

from tests.web.expectations import expect
from tests.web.site import Site

ACTIVE = """() => {
  const element = document.activeElement
  const style = getComputedStyle(element)
  const box = element.getBoundingClientRect()
  const hasOutline = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1
  return {
    html: element.outerHTML.slice(0, 200),
    isBody: element === document.body,
    isMarked: hasOutline || style.boxShadow !== 'none',
    isInView: box.bottom > 0 && box.right > 0 && box.top < innerHeight && box.left < innerWidth,
  }
}"""
RUN_PAGE = re.compile(r"/runs/[0-9a-f]{8,}$")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("site")) as running:
        yield running


def _open(site: Site, page: Page, sample: str, at: str = "") -> str:
    run = site.start(sample)
    site.wait(run)
    page.goto(f"/runs/{run}{at}")
    expect(page.locator(".run-page")).to_be_visible()
    return run


def _press(page: Page, key: str) -> None:
    """Presses a key. Whatever has the focus then is in view, and marked."""
    page.keyboard.press(key)
    active = page.evaluate(ACTIVE)
    if not active["isBody"]:
        assert active["isMarked"], f"after {key} nothing shows that this has the focus: {active['html']}"
        assert active["isInView"], f"after {key} the focus is out of sight: {active['html']}"


def _has_focus(wanted: Locator) -> bool:
    return bool(wanted.evaluate_all("found => found.includes(document.activeElement)"))


def _tab_to(page: Page, wanted: Locator, most: int = 60, key: str = "Tab") -> int:
    """Presses Tab until one of these elements has the focus, and returns how often."""
    expect(wanted.first).to_be_visible()
    for count in range(1, most + 1):
        _press(page, key)
        if _has_focus(wanted):
            return count
    raise AssertionError(f"{most} times {key} did not lead to {wanted}")


def _skip_to(page: Page, name: str) -> None:
    """Uses one of the links at the top of the page; they are the first things that Tab reaches."""
    _tab_to(page, page.get_by_role("button", name=name), 3)
    _press(page, "Enter")


def _replace(page: Page, text: str) -> None:
    page.keyboard.press("Control+A")
    page.keyboard.type(text)


# The list of runs.


def test_a_run_that_needs_a_person_is_opened_from_the_list(site: Site, page: Page) -> None:
    run = site.start("letter")
    site.wait(run, "waiting")
    page.goto("/")
    row = page.locator(f'[data-run="{run}"]')
    expect(row).to_be_visible()
    _skip_to(page, "Skip to the content")
    _tab_to(page, row.get_by_role("link", name=re.compile("^Answer")))
    _press(page, "Enter")
    expect(page).to_have_url(re.compile(f"/runs/{run}$"))
    expect(page.get_by_role("heading", name="Say what to change, or write OK.")).to_be_visible()
    expect(page.get_by_role("main")).to_be_focused()


def test_keys_lead_through_the_list(site: Site, page: Page) -> None:
    run = site.start("circles")
    site.wait(run, "suspended_locked")
    page.goto("/?status=needs")
    link = page.locator(f'[data-run="{run}"] .runs-name')
    expect(link).to_be_visible()
    for _ in range(page.locator("[data-run]").count()):
        _press(page, "j")
        if _has_focus(link):
            break
    expect(link).to_be_focused()
    _press(page, "Enter")
    expect(page.get_by_role("heading", name="The loop goes in circles")).to_be_visible()


# The page of a run.


def test_the_graph_is_near(site: Site, page: Page) -> None:
    _open(site, page, "polish")
    writer = page.locator('[data-key="Writer"]')
    assert _tab_to(page, page.get_by_role("button", name="Skip to the graph"), 5) <= 4
    _press(page, "Enter")
    expect(writer).to_be_focused()
    assert "#" not in page.url, "a skip link is no address in the run"
    order = []
    for _ in range(3):
        _press(page, "ArrowDown")
        order.append(page.evaluate("document.activeElement.dataset.key"))
    assert order == ["Critic", "Gate", "Final"]
    _press(page, "ArrowUp")
    expect(page.locator('[data-key="Gate"]')).to_be_focused()
    _press(page, "Home")
    expect(writer).to_be_focused()
    _press(page, "Enter")
    expect(page).to_have_url(re.compile(r"#Writer\[4\]/Writer$"))
    expect(writer).to_have_attribute("aria-pressed", "true")


def test_the_graph_is_near_in_a_narrow_window(site: Site, browser: Browser) -> None:
    """A page that is magnified is as narrow as a phone, and its reader may have a keyboard."""
    page = site.page(browser, viewport={"width": 390, "height": 844})
    _open(site, page, "circles")
    _skip_to(page, "Skip to the graph")
    expect(page.locator('[data-key="Writer"]')).to_be_focused()
    for _ in range(40):
        if _has_focus(page.get_by_role("button", name="Skip to the decision")):
            break
        _press(page, "Shift+Tab")
    _press(page, "Enter")
    expect(page.get_by_role("region", name="Decision")).to_be_focused()
    _tab_to(page, page.get_by_role("textbox", name="Reason"), 8)
    page.context.close()


def test_the_graph_is_also_a_list(site: Site, page: Page) -> None:
    _open(site, page, "nested")
    expect(page.locator(".graph-canvas [data-key]").first).to_be_visible()
    _press(page, "o")
    expect(page.get_by_role("tree", name="Outline")).to_be_visible()
    _press(page, "g")
    expect(page.locator('.graph-outline [data-key][tabindex="0"]')).to_be_focused()
    _press(page, "End")
    _press(page, "ArrowUp")
    expect(page.locator('.graph-outline [data-key][tabindex="0"]')).to_be_focused()


def test_rounds_are_opened_along_the_strip(site: Site, page: Page) -> None:
    _open(site, page, "polish")
    strip = page.get_by_role("region", name="Rounds")
    _tab_to(page, strip.get_by_role("button", name=re.compile("^Round 4")))
    _press(page, "ArrowLeft")
    _press(page, "ArrowLeft")
    second = strip.get_by_role("button", name=re.compile("^Round 2"))
    expect(second).to_be_focused()
    expect(page).to_have_url(re.compile(r"#Writer\[2\]$"))
    expect(page.get_by_role("heading", name="Round 2")).to_be_visible()
    expect(page.locator(".run-main")).to_contain_text("A picture. Now let me want it.")
    _press(page, "ArrowRight")
    expect(page.get_by_role("heading", name="Round 3")).to_be_visible()

    # The round that it is compared with: by a key, and by the list.
    compared = page.get_by_label("Compare with").first
    expect(compared).to_have_value("Writer[2]")
    _press(page, "Shift+ArrowLeft")
    expect(compared).to_have_value("Writer[1]")
    expect(strip.get_by_role("button", name=re.compile("^Round 1"))).to_have_accessible_name(
        re.compile("compared")
    )
    _tab_to(page, compared)
    page.keyboard.press("ArrowDown")
    expect(compared).not_to_have_value("Writer[1]")
    expect(page.get_by_role("heading", name="Round 3")).to_be_visible()


def test_nested_rounds_are_entered_and_left(site: Site, page: Page) -> None:
    run = site.start("nested-slow")
    page.goto(f"/runs/{run}#Planner[1].Coder[1]")
    expect(page.get_by_role("heading", name="Round 1")).to_be_visible()
    _press(page, "ArrowUp")
    expect(page).to_have_url(re.compile(r"#Planner\[1\]$"))
    _press(page, "ArrowDown")
    expect(page).to_have_url(re.compile(r"#Planner\[1\]\.Coder\[1\]$"))
    site.call("POST", f"/runs/{run}/stop", {"reason": "seen enough"})


def test_arrows_belong_to_what_has_the_focus(site: Site, page: Page) -> None:
    _open(site, page, "polish", "#Writer[2]")
    expect(page.get_by_role("heading", name="Round 2")).to_be_visible()
    scale = page.get_by_role("radiogroup", name="Scale of the strip")
    _tab_to(page, scale.get_by_role("radio", name="Time"))
    _press(page, "ArrowLeft")
    _press(page, "ArrowDown")
    expect(scale.get_by_role("radio", checked=True)).to_be_focused()
    chart = page.get_by_role("slider", name="Score")
    _tab_to(page, chart)
    _press(page, "ArrowRight")
    assert page.url.endswith("#Writer[2]"), "the round moved instead"


# Decisions.


def test_a_lock_is_understood_and_lifted(site: Site, page: Page) -> None:
    _open(site, page, "circles")
    expect(page.get_by_role("heading", name="The loop goes in circles")).to_be_visible()
    # The evidence scrolls with the arrow keys, which leave the round alone.
    _tab_to(page, page.locator(".locked-scroll"))
    _press(page, "ArrowDown")
    assert "#" not in page.url
    reason = page.get_by_role("textbox", name="Reason")
    _tab_to(page, page.get_by_role("textbox", name="Message that waits for Writer"))
    _replace(page, "Name the source of the figure, or leave it out.")

    # What is missing is a way to it.
    page.keyboard.press("Control+Enter")
    expect(reason).to_be_focused()
    page.keyboard.type("The writer has no source; I told it what to do without one.")
    for name in ("is understood", "is accepted", "were looked at"):
        _tab_to(page, page.get_by_role("checkbox", name=name), 4)
        _press(page, "Space")
    unlock = page.get_by_role("button", name=re.compile("^Unlock and continue"))
    _tab_to(page, unlock, 3)
    _press(page, "Enter")
    expect(page.get_by_role("heading", name="The loop goes in circles")).to_have_count(0)
    expect(page.locator(".locked-line")).to_contain_text("The writer has no source")
    expect(page.locator(".run-bar .status")).not_to_have_text("Locked")
    # The form is gone, and the pane in which it was has the focus.
    expect(page.locator(".run-side")).to_be_focused()


def test_a_question_is_answered(site: Site, page: Page) -> None:
    run = _open(site, page, "letter")
    expect(page.get_by_role("heading", name="Your answer")).to_be_visible()
    _skip_to(page, "Skip to the decision")
    expect(page.get_by_role("region", name="Decision")).to_be_focused()
    _tab_to(page, page.get_by_role("textbox", name="Answer", exact=True), 3)
    page.keyboard.type("Say until when.")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("asks, in round 3 of at most 5")).to_be_visible()
    _tab_to(page, page.get_by_role("button", name="OK, to Final"))
    _press(page, "Enter")
    expect(page.get_by_role("textbox", name="Answer", exact=True)).to_have_value("OK")
    _tab_to(page, page.get_by_role("button", name="Send to Final"))
    _press(page, "Enter")
    site.wait(run, "completed")
    expect(page.get_by_role("region", name="Guards")).to_be_focused()


def test_a_call_is_approved_with_changed_arguments(site: Site, page: Page) -> None:
    run = _open(site, page, "analyst")
    _tab_to(page, page.get_by_role("textbox", name="subject"))
    _replace(page, "Offer 1183: price of delivery")
    edit = page.get_by_role("radio", name="Edit and approve")
    _tab_to(page, edit)
    expect(edit).to_be_checked()
    # The arrow keys choose, and do not move the round.
    _press(page, "ArrowDown")
    expect(edit).not_to_be_checked()
    _press(page, "ArrowUp")
    expect(edit).to_be_checked()
    _tab_to(page, page.get_by_role("button", name="Approve with 1 change"))
    _press(page, "Enter")
    site.wait(run, "completed")


# Starting and debugging.


def test_a_run_is_started_from_the_drawer(site: Site, page: Page) -> None:
    page.goto("/")
    expect(page.get_by_role("button", name="Start run").first).to_be_visible()
    _press(page, "n")
    drawer = page.get_by_role("dialog", name="Start run")
    field = drawer.get_by_label("Input", exact=True)
    expect(field).to_be_focused()
    _replace(page, "a line about tea, by keyboard")
    workflow = drawer.get_by_label("Workflow", exact=True)
    _tab_to(page, workflow, 4, key="Shift+Tab")
    page.keyboard.type("polish")
    expect(workflow.locator("option:checked")).to_have_text("polish")
    expect(drawer.get_by_role("radio", name="Of the example")).to_be_checked()
    page.keyboard.press("Control+Enter")
    expect(page).to_have_url(RUN_PAGE)
    expect(page.get_by_role("main")).to_be_focused()
    run = page.url.rpartition("/")[2]
    site.wait(run, "completed")
    assert site.call("GET", f"/runs/{run}")["input"] == "a line about tea, by keyboard"


def test_a_breakpoint_is_set_and_the_run_is_stepped(site: Site, page: Page) -> None:
    run = _open(site, page, "patch")
    expect(page.get_by_role("heading", name="Paused before Security")).to_be_visible()
    _press(page, "g")
    expect(page.locator('[data-key="Author"]')).to_be_focused()
    _press(page, "End")
    final = page.locator('[data-key="Final"]')
    expect(final).to_be_focused()
    _press(page, "b")
    expect(page.get_by_role("region", name="Breakpoints")).to_contain_text("Final")
    expect(final).to_have_accessible_name(re.compile("breakpoint"))
    found = site.call("GET", f"/runs/{run}/state")["breakpoints"]
    assert "Final" in [one["text"] for one in found]

    # By its key, and by its button; the focus stays with the controls.
    _press(page, "s")
    expect(page.get_by_role("heading", name="Paused before Style")).to_be_visible()
    step = page.get_by_role("button", name="Step", exact=True)
    _tab_to(page, step, 60, key="Shift+Tab")
    _press(page, "Enter")
    expect(page.get_by_role("heading", name="Paused before Gate")).to_be_visible()
    controls = page.get_by_role("group", name="Control the run")
    expect(controls.or_(step)).to_have_count(2)
    assert controls.evaluate("element => element.contains(document.activeElement)")
    _press(page, "Shift+S")
    expect(page.get_by_role("heading", name="Paused before Author")).to_be_visible()
    _press(page, "p")
    site.wait(run, "paused", "completed")


# Dialogs.


@pytest.mark.parametrize("name", ["Fork", "Debug", "Stop"])
def test_a_dialog_gives_the_focus_back(site: Site, page: Page, name: str) -> None:
    _open(site, page, "letter")
    button = page.get_by_role("button", name=name, exact=True)
    _tab_to(page, button)
    _press(page, "Enter")
    dialog = page.locator("dialog[open]")
    expect(dialog).to_be_visible()
    for _ in range(12):
        _press(page, "Tab")
        assert page.evaluate("document.activeElement.closest('dialog, body').tagName") in ("DIALOG", "BODY")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(button).to_be_focused()


def test_a_dialog_from_a_menu_gives_the_focus_back(site: Site, page: Page) -> None:
    _open(site, page, "letter")
    more = page.get_by_role("button", name="More")
    _tab_to(page, more)
    _press(page, "Enter")
    _press(page, "Escape")
    expect(more).to_be_focused()
    _press(page, "Enter")
    _press(page, "End")
    _press(page, "Enter")
    dialog = page.get_by_role("dialog", name="Lock this run")
    expect(dialog.get_by_role("textbox")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(more).to_be_focused()


def test_a_run_is_found_by_its_words(site: Site, page: Page) -> None:
    run = site.start("failing")
    site.wait(run)
    page.goto("/settings")
    heading = page.get_by_role("heading", name="Settings")
    expect(heading).to_be_visible()
    _tab_to(page, page.get_by_role("button", name="Light or dark"))
    page.keyboard.press("Control+K")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("searchbox")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Light or dark")).to_be_focused()
    page.keyboard.press("Control+K")
    page.keyboard.type(run)
    expect(dialog.locator("button[aria-current]")).to_contain_text(run)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/runs/{run}$"))


def test_the_keys_are_listed_and_can_be_turned_off(site: Site, page: Page) -> None:
    _open(site, page, "polish")
    _press(page, "?")
    dialog = page.get_by_role("dialog", name="Keys")
    expect(dialog).to_contain_text("Go to the graph")
    _tab_to(page, dialog.get_by_role("checkbox", name="Use single keys"), 3)
    _press(page, "Space")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    page.keyboard.press("g")
    page.keyboard.press("n")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert page.evaluate("document.activeElement === document.body")


def test_the_account_closes_with_escape(site: Site, page: Page) -> None:
    page.goto("/settings")
    account = page.get_by_role("button", name="Account")
    _tab_to(page, account)
    _press(page, "Enter")
    _tab_to(page, page.get_by_role("button", name="Sign out"), 2)
    _press(page, "Escape")
    expect(page.get_by_role("button", name="Sign out")).to_have_count(0)
    expect(account).to_be_focused()


@pytest.mark.parametrize("sample", ["polish", "circles", "letter", "analyst", "failing", "patch"])
def test_tab_visits_everything_in_view_and_marked(site: Site, page: Page, sample: str) -> None:
    """Once around: the focus is marked and in sight at every stop, and is never trapped."""
    _open(site, page, sample)
    expect(page.locator(".graph-canvas [data-key]").first).to_be_visible()
    for _ in range(100):
        _press(page, "Tab")
        if page.evaluate("document.activeElement === document.body"):
            return
    raise AssertionError("Tab never leaves the page")
