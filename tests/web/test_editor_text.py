"""The editor: its text, what is proved about it, and saving, in a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, BrowserContext, Dialog, Locator, Page

from tests.web.axe import findings
from tests.web.expectations import expect
from tests.web.site import Site

REVIEW = """\
# Tea, until it is good.
graph:
  id: tea
  nodes:
    - {id: Writer, type: passthrough}
    - id: Reviewer  # a person
      type: human
    - id: Final
      type: passthrough
  edges:
    - {from: Writer, to: Reviewer}
    - {from: Reviewer, to: Writer, condition: {type: keyword, config: {none: [ACCEPT]}}}
    - {from: Reviewer, to: Final, condition: {type: keyword, config: {any: [ACCEPT]}}}
  start: Writer
  end: Final
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("site")) as made:
        yield made


@pytest.fixture
def page(site: Site, browser: Browser) -> Iterator[Page]:
    opened = site.page(browser)
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    # What the policy of the page blocks is logged as well.
    opened.on("console", lambda entry: errors.append(entry.text) if "policy" in entry.text.lower() else None)
    yield opened
    opened.context.close()
    assert errors == []


def context_of(site: Site, browser: Browser, name: str, role: str) -> BrowserContext:
    """The browser of somebody else."""
    token = site.call("POST", "/tokens", {"name": name, "role": role})["secret"]
    context = site.context(browser)
    answer = context.request.post("/api/v1/session", data={"token": token}, headers={"origin": site.address})
    assert answer.ok
    return context


def edit(page: Page, name: str) -> Locator:
    """Opens a workflow in the editor, and returns its text."""
    page.goto(f"/workflows/{name}/edit")
    text = page.locator(".cm-content")
    expect(text).to_be_visible()
    expect(chip(page)).to_be_visible()
    return text


def chip(page: Page) -> Locator:
    """Errors and warnings in the bar."""
    return page.locator(".editor-bar button.editor-chip")


def version(page: Page) -> Locator:
    return page.locator(".editor-bar .editor-chip[role=status]")


def type_at_end(page: Page, text: str) -> None:
    page.locator(".cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.insert_text(text)


def saved(site: Site, name: str) -> dict[str, Any]:
    found: dict[str, Any] = site.call("GET", f"/workflows/{name}")
    return found


def save_as_other(site: Site, name: str, text: str, tag: str) -> None:
    """What somebody else saves over the API."""
    headers = {"authorization": f"Bearer {site.token}", "if-match": tag}
    answer = httpx2.put(f"{site.address}/api/v1/workflows/{name}", json={"text": text}, headers=headers)
    assert answer.is_success, answer.text


def test_typing_is_checked_and_undone_from_anywhere(site: Site, page: Page) -> None:
    site.save("typing", REVIEW)
    edit(page, "typing")
    expect(chip(page)).to_have_text("1 warning")
    type_at_end(page, "  on_failure: never\n")
    expect(chip(page)).to_contain_text("1 error")
    expect(page.locator(".cm-lintRange-error")).to_have_text("never")
    expect(version(page)).to_have_text("version 1, not saved")
    row = page.locator(".proof-row", has_text="on_failure")
    expect(row).to_contain_text("line 16")
    # Undo also works while a button has the focus.
    page.get_by_role("button", name="Versions").focus()
    page.keyboard.press("Control+z")
    expect(version(page)).to_have_text("version 1")
    expect(chip(page)).to_have_text("1 warning")
    page.keyboard.press("Control+Shift+z")
    expect(version(page)).to_have_text("version 1, not saved")
    page.get_by_role("button", name="Undo").click()
    expect(version(page)).to_have_text("version 1")


def test_undo_is_one_for_all_views_also_while_the_text_is_hidden(site: Site, page: Page) -> None:
    site.save("hidden", REVIEW)
    edit(page, "hidden")
    type_at_end(page, "# more\n")
    page.get_by_role("group", name="Views").get_by_role("button", name="YAML").click()
    expect(page.locator(".cm-content")).to_have_count(0)
    page.keyboard.press("Control+z")
    expect(version(page)).to_have_text("version 1")
    page.keyboard.press("Control+y")
    page.get_by_role("group", name="Views").get_by_role("button", name="YAML").click()
    expect(page.locator(".cm-content")).to_contain_text("# more")


def test_a_loop_without_a_guard_is_repaired_with_one_click(site: Site, page: Page) -> None:
    site.save("loop", REVIEW)
    edit(page, "loop")
    row = page.locator(".proof-row", has_text="Writer")
    expect(row).to_contain_text("nothing but its cap of 100 rounds")
    expect(page.locator(".proof-forecast")).to_contain_text("with the counter")
    row.get_by_role("button", name="Add a counter").click()
    expect(row).to_contain_text("at most 3 rounds, by Loop Guard")
    expect(chip(page)).to_have_text("No errors")
    expect(page.locator(".cm-line.yaml-selected").first).to_contain_text("Loop Guard")
    page.keyboard.press("Control+s")
    expect(version(page)).to_have_text("version 2")
    now = saved(site, "loop")["text"].splitlines()
    assert [line for line in REVIEW.splitlines() if line not in now] == []
    assert len(now) > len(REVIEW.splitlines())


def test_the_box_in_the_text_repairs_as_well_and_a_cap_can_be_set(site: Site, page: Page) -> None:
    site.save("box", REVIEW)
    text = edit(page, "box")
    expect(page.locator(".yaml-box")).to_contain_text("only-capped")
    page.locator(".proof-row", has_text="Writer").get_by_role("button", name="Set the cap").click()
    page.get_by_label("The most rounds").fill("7")
    page.keyboard.press("Enter")
    expect(page.locator(".proof-row", has_text="Writer")).to_contain_text("its cap of 7 rounds")
    expect(text).to_contain_text("max_rounds: 7")
    expect(page.locator(".yaml-box")).to_have_count(0)
    page.keyboard.press("Control+z")
    page.locator(".yaml-box").get_by_role("button", name="Add a counter here").click()
    expect(chip(page)).to_have_text("No errors")


def test_places_in_the_text_select_items_and_problems_lead_to_places(site: Site, page: Page) -> None:
    site.save("places", REVIEW + "  on_failure: never\n")
    edit(page, "places")
    page.locator(".cm-line", has_text="a person").click()
    expect(page.locator(".cm-line.yaml-selected")).to_have_count(2)
    expect(page.locator(".cm-content")).to_be_focused()
    page.locator(".proof-row", has_text="on_failure").get_by_role("button", name="line 16").click()
    expect(page.locator(".cm-activeLine")).to_contain_text("on_failure")


def test_keys_types_and_nodes_are_completed(site: Site, page: Page) -> None:
    site.save("complete", REVIEW)
    edit(page, "complete")
    type_at_end(page, "  ")
    page.keyboard.type("on_f")
    # Enter is a new line for a moment after the list has opened, so that nobody accepts by accident.
    page.locator(".cm-tooltip-autocomplete li", has_text="on_failure").click()
    expect(page.locator(".cm-content")).to_contain_text("on_failure: ")
    page.keyboard.press("Control+Space")
    page.locator(".cm-tooltip-autocomplete li", has_text="cancel").click()
    expect(page.locator(".cm-content")).to_contain_text("on_failure: cancel")


def test_returns_of_a_text_stay(site: Site, page: Page) -> None:
    site.save("returns", REVIEW.replace("\n", "\r\n"))
    edit(page, "returns")
    page.locator(".cm-line", has_text="id: tea").click()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    page.keyboard.type("description: hot")
    page.keyboard.press("Control+s")
    expect(version(page)).to_have_text("version 2")
    now = saved(site, "returns")["text"]
    assert now == REVIEW.replace("  id: tea\n", "  id: tea\n  description: hot\n").replace("\n", "\r\n")


def test_the_keyboard_is_not_trapped(site: Site, page: Page) -> None:
    site.save("keys", REVIEW)
    text = edit(page, "keys")
    text.click()
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    expect(text).not_to_be_focused()
    expect(version(page)).to_have_text("version 1")


def test_a_new_workflow_gets_its_name_and_keeps_its_history(site: Site, page: Page) -> None:
    site.save("taken", REVIEW)
    page.goto("/workflows/new")
    expect(version(page)).to_have_text("new")
    page.locator(".cm-content").click()
    page.keyboard.insert_text(REVIEW)
    expect(version(page)).to_have_text("new, not saved")
    page.keyboard.press("Control+s")
    name = page.get_by_role("dialog").get_by_label("Name")
    expect(name).to_have_value("tea")
    name.fill("taken")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("There is a workflow taken already")
    name.fill("green tea")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/workflows/green%20tea/edit$"))
    expect(version(page)).to_have_text("version 1")
    assert saved(site, "green tea")["text"] == REVIEW
    page.get_by_role("button", name="Undo").click()
    expect(version(page)).to_have_text("version 1, not saved")


def test_an_empty_workflow_is_no_error_and_offers_templates(site: Site, page: Page) -> None:
    page.goto("/workflows/new")
    templates = page.locator(".canvas-templates").get_by_role("link")
    expect(templates).to_have_count(3)
    expect(chip(page)).to_have_text("No errors")
    expect(page.locator(".proof")).to_contain_text("Once you draw a loop")
    assert findings(page) == []
    # What is written already is not replaced.
    page.locator(".cm-content").click()
    page.keyboard.type("# tea")
    expect(chip(page)).to_have_text("1 error")
    expect(templates).to_have_count(0)
    page.keyboard.press("Control+z")
    expect(chip(page)).to_have_text("No errors")
    templates.first.click()
    expect(page).to_have_url(re.compile(r"/workflows/new\?template=review_loop$"))
    expect(page.locator(".proof-row.proof-good")).to_contain_text("at most 3 rounds, by Loop Guard")
    page.go_back()
    expect(templates).to_have_count(3)


def test_a_draft_is_saved_and_says_so(site: Site, page: Page) -> None:
    site.save("draft", REVIEW)
    edit(page, "draft")
    type_at_end(page, "  on_failure: never\n")
    page.keyboard.press("Control+s")
    expect(page.locator(".toasts")).to_contain_text("Saved as version 2, as a draft: 1 error prevents a run.")
    assert saved(site, "draft")["draft"] is True


def test_two_people_save(site: Site, browser: Browser, page: Page) -> None:
    site.save("both", REVIEW)
    other = context_of(site, browser, "ada", "author")
    theirs = other.new_page()
    edit(page, "both")
    edit(theirs, "both")
    type_at_end(theirs, "# Ada was here\n")
    theirs.keyboard.press("Control+s")
    expect(version(theirs)).to_have_text("version 2")
    type_at_end(page, "# mine\n")
    page.keyboard.press("Control+s")
    dialog = page.get_by_role("dialog", name="Somebody else has saved this workflow")
    expect(dialog).to_contain_text("ada saved version 2")
    expect(dialog.locator("del")).to_have_text("# Ada was here")
    expect(dialog.locator("ins")).to_have_text("# mine")
    # Keep editing, take theirs, and undo that: nothing is lost.
    dialog.get_by_role("button", name="Keep editing").click()
    expect(version(page)).to_have_text("version 1, not saved")
    page.keyboard.press("Control+s")
    dialog.get_by_role("button", name="Take theirs").click()
    expect(version(page)).to_have_text("version 2")
    page.keyboard.press("Control+z")
    expect(page.locator(".cm-content")).to_contain_text("# mine")
    # Theirs again, while mine is still unsaved: a copy, or on top.
    type_at_end(theirs, "# twice\n")
    theirs.keyboard.press("Control+s")
    expect(version(theirs)).to_have_text("version 3")
    page.keyboard.press("Control+s")
    dialog.get_by_role("button", name="Save mine on top").click()
    expect(version(page)).to_have_text("version 4")
    assert saved(site, "both")["text"] == REVIEW + "# mine\n"
    other.close()


def test_a_newer_version_is_noticed_when_the_reader_comes_back(site: Site, page: Page) -> None:
    site.save("newer", REVIEW)
    edit(page, "newer")
    save_as_other(site, "newer", REVIEW + "# theirs\n", '"1"')
    page.evaluate("dispatchEvent(new Event('focus'))")
    notice = page.locator(".editor-notice")
    expect(notice).to_contain_text("tests saved version 2")
    notice.get_by_role("button", name="Load it").click()
    expect(version(page)).to_have_text("version 2")
    expect(page.locator(".cm-content")).to_contain_text("# theirs")


def test_a_deleted_workflow_is_saved_again(site: Site, page: Page) -> None:
    site.save("gone", REVIEW)
    edit(page, "gone")
    type_at_end(page, "# mine\n")
    site.call("DELETE", "/workflows/gone")
    page.keyboard.press("Control+s")
    page.get_by_role("dialog", name="This workflow was deleted").get_by_role(
        "button", name="Save it again"
    ).click()
    expect(page.locator(".toasts")).to_contain_text("Saved as version")
    assert saved(site, "gone")["text"] == REVIEW + "# mine\n"


def test_versions_are_compared_and_restored(site: Site, page: Page) -> None:
    site.save("versions", REVIEW)
    save_as_other(site, "versions", REVIEW + "# second\n", '"1"')
    edit(page, "versions")
    page.get_by_role("button", name="Versions").click()
    drawer = page.get_by_role("dialog", name="Versions")
    drawer.get_by_role("button", name=re.compile("^Version 1 ")).click()
    expect(drawer.locator("ins")).to_have_text("# second")
    drawer.get_by_role("button", name="Restore version 1").click()
    expect(version(page)).to_have_text("version 2, not saved")
    expect(page.locator(".cm-content")).not_to_contain_text("# second")
    page.keyboard.press("Control+z")
    expect(version(page)).to_have_text("version 2")
    page.keyboard.press("Control+Shift+z")
    page.keyboard.press("Control+s")
    expect(version(page)).to_have_text("version 3")
    assert saved(site, "versions")["text"] == REVIEW


def test_changes_are_shown_in_the_text_and_reverted(site: Site, page: Page) -> None:
    site.save("changes", REVIEW)
    edit(page, "changes")
    type_at_end(page, "# mine\n")
    page.get_by_role("button", name="Changes").click()
    expect(page.locator(".cm-changedLine")).to_contain_text("# mine")
    page.get_by_role("button", name="Changes").click()
    expect(page.locator(".cm-changedLine")).to_have_count(0)


def test_leaving_asks_and_the_text_is_offered_again(site: Site, page: Page) -> None:
    site.save("leave", REVIEW)
    edit(page, "leave")
    type_at_end(page, "# mine\n")
    page.get_by_role("link", name="Settings").click()
    dialog = page.get_by_role("dialog", name="Leave without saving?")
    dialog.get_by_role("button", name="Stay").click()
    expect(page).to_have_url(re.compile("/leave/edit$"))
    asked: list[str] = []

    def accept(shown: Dialog) -> None:
        asked.append(shown.type)
        shown.accept()

    page.on("dialog", accept)
    page.reload()
    assert asked == ["beforeunload"]
    notice = page.locator(".editor-notice")
    expect(notice).to_contain_text("were not saved")
    notice.get_by_role("button", name="Restore").click()
    expect(page.locator(".cm-content")).to_contain_text("# mine")
    page.get_by_role("link", name="Settings").click()
    dialog.get_by_role("button", name="Leave", exact=True).click()
    expect(page).to_have_url(re.compile("/settings$"))


def test_readers_look_and_change_nothing(site: Site, browser: Browser) -> None:
    site.save("reader", REVIEW)
    context = context_of(site, browser, "guest", "viewer")
    page = context.new_page()
    text = edit(page, "reader")
    expect(page.locator(".editor-bar")).to_contain_text("read only")
    expect(page.get_by_role("button", name="Save")).to_have_count(0)
    text.click()
    page.keyboard.type("x")
    expect(version(page)).to_have_text("version 1")
    expect(page.get_by_role("button", name="Add a counter")).to_have_count(0)
    context.close()


def test_thousands_of_brackets_do_not_freeze_the_page(site: Site, page: Page) -> None:
    site.save("deep", REVIEW)
    edit(page, "deep")
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    page.keyboard.insert_text("[" * 200_000)
    expect(page.locator(".proof-row").first).to_contain_text("nested")
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    expect(version(page)).to_have_text("version 1")


def test_views_stay_and_panes_are_resized_by_keys(site: Site, page: Page) -> None:
    site.save("panes", REVIEW)
    edit(page, "panes")
    views = page.get_by_role("group", name="Views")
    views.get_by_role("button", name="Form").click()
    edge = page.get_by_role("separator", name="Change the size of Proof")
    before = int(edge.get_attribute("aria-valuenow") or 0)
    edge.press("ArrowUp")
    page.reload()
    expect(page.get_by_role("separator", name="Change the size of Proof")).to_have_attribute(
        "aria-valuenow", str(before + 16)
    )
    expect(views.get_by_role("button", name="Form")).to_have_attribute("aria-pressed", "false")
    views.get_by_role("button", name="Canvas").click()
    # The last view stays.
    views.get_by_role("button", name="YAML").click(force=True)
    expect(views.get_by_role("button", name="YAML")).to_have_attribute("aria-pressed", "true")


def test_the_editor_speaks_chinese(site: Site, browser: Browser) -> None:
    site.save("chinese", REVIEW)
    page = site.page(browser, locale="zh-CN")
    edit(page, "chinese")
    expect(chip(page)).to_have_text("1 个警告")
    expect(page.get_by_role("button", name="保存")).to_be_visible()
    expect(page.locator(".proof-row").first).to_contain_text("只有 100 轮的硬上限")
    page.locator(".cm-content").click()
    page.keyboard.press("Control+f")
    expect(page.locator(".cm-search")).to_contain_text("全部替换")
    page.context.close()
