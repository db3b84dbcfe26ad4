"""The page of a locked run: why it is locked, and how a person unlocks it."""

from __future__ import annotations

import re

from playwright.sync_api import Page

from tests.web.expectations import expect
from tests.web.pages import Pages
from tests.web.site import Site

CHECKS = ("Why it was locked", "What it costs to continue", "The workflow and its limits")
ALL_CHECKS = ["cause_understood", "cost_accepted", "workflow_reviewed"]


def _open(site: Site, page: Page, sample: str, **changes: object) -> str:
    run = site.start(sample, **changes)
    site.wait(run, "suspended_locked")
    page.goto(f"/runs/{run}")
    return run


def _confirm(page: Page, reason: str) -> None:
    page.get_by_label("Reason").fill(reason)
    for check in CHECKS:
        page.get_by_role("checkbox", name=check).check()


def test_a_dead_loop_is_explained(site: Site, page: Page) -> None:
    _open(site, page, "circles")
    expect(page.get_by_role("heading", name="The loop goes in circles")).to_be_visible()
    expect(page.get_by_text("Nothing is lost.")).to_be_visible()
    expect(page.get_by_role("img", name="Novelty by round")).to_have_attribute(
        "aria-label", "Novelty by round: round 1 1.00, round 2 1.00, round 3 1.00, round 4 0.00, round 5 0.00"
    )
    expect(page.get_by_label("Figures of the lock")).to_contain_text("1,860 of 3,501 tokens")
    table = page.get_by_role("region", name="What was repeated").get_by_role("table")
    expect(table.get_by_role("columnheader")).to_have_count(3)
    expect(table.get_by_role("row", name="Writer")).to_contain_text("repeats round 4, 4 → 5")
    expect(table.locator("mark", has_text=re.compile("^5$"))).to_have_class("locked-digits")
    page.get_by_role("radio", name="All 5 rounds").click()
    expect(table.get_by_role("columnheader")).to_have_count(5)
    waits = page.get_by_role("region", name="What waits")
    expect(waits.get_by_role("listitem")).to_have_count(2)
    expect(waits.get_by_role("listitem").nth(1)).to_contain_text("does not trigger")


def test_the_same_round_continues_with_an_edited_message(site: Site, page: Page) -> None:
    run = _open(site, page, "circles")
    message = page.get_by_label("Message that waits for Writer")
    expect(message).to_have_value("State the source of the 80 ms figure before this can go out.")
    message.fill("The 80 ms were measured by bench/search. Say so.")
    expect(page.get_by_text("edited", exact=True)).to_be_visible()
    _confirm(page, "The reviewer asked for a source nobody had given.")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("form", name="Unlock")).to_be_hidden()
    site.wait(run, "completed")
    view = site.call("GET", f"/runs/{run}")
    assert view["output"] == "ACCEPT"
    rounds = site.call("GET", f"/runs/{run}/rounds")[0]["rounds"]
    assert [one["number"] for one in rounds] == [1, 2, 3, 4, 5, 6]
    audit = site.call("GET", "/audit")["entries"]
    unlock = next(entry for entry in audit if entry["action"] == "run.unlock" and entry["subject"] == run)
    assert unlock["details"]["reason"] == "The reviewer asked for a source nobody had given."


def test_what_is_missing_leads_to_the_field(site: Site, page: Page) -> None:
    run = _open(site, page, "circles")
    button = page.get_by_role("button", name="Unlock and continue from round 5")
    expect(button).to_be_disabled()
    before = button.bounding_box()
    page.get_by_role("button", name="A reason is missing").click()
    expect(page.get_by_label("Reason")).to_be_focused()
    page.keyboard.type("late")
    expect(page.get_by_role("button", name="A reason is missing")).to_be_hidden()
    page.get_by_role("checkbox", name=CHECKS[0]).check()
    page.get_by_role("button", name="2 of 3 self-checks are open").click()
    expect(page.get_by_role("checkbox", name=CHECKS[1])).to_be_focused()
    for check in CHECKS[1:]:
        page.get_by_role("checkbox", name=check).check()
    expect(button).to_be_enabled()
    after = button.bounding_box()
    assert before is not None and after is not None
    assert (after["y"], after["height"], after["width"]) == (before["y"], before["height"], before["width"])
    assert site.status(run) == "suspended_locked"


def test_a_draft_survives_a_reload(site: Site, page: Page) -> None:
    _open(site, page, "circles")
    page.get_by_label("Reason").fill("half a reason")
    page.reload()
    expect(page.get_by_label("Reason")).to_have_value("half a reason")


def test_a_limit_is_raised(site: Site, page: Page) -> None:
    run = _open(site, page, "polish", limits={"rounds": 2})
    expect(page.get_by_role("heading", name="Round limit reached")).to_be_visible()
    raised = page.get_by_label("Raise rounds to")
    expect(raised).to_have_value("4")
    raised.fill("2")
    _confirm(page, "Two more will do.")
    expect(page.get_by_role("button", name="The new limit has to be higher")).to_be_visible()
    raised.fill("9")
    page.get_by_role("button", name="Unlock and continue from round 2").click()
    site.wait(run, "completed")
    assert len(site.call("GET", f"/runs/{run}/rounds")[0]["rounds"]) == 4


def test_a_budget_says_which_call_was_not_made(site: Site, page: Page) -> None:
    run = _open(site, page, "polish", limits={"tokens": 400})
    expect(page.get_by_role("heading", name="Token limit reached")).to_be_visible()
    figures = page.get_by_label("Figures of the lock")
    expect(figures).to_contain_text("320 tokens")
    expect(figures).to_contain_text("Writer[2]/Writer")
    expect(page.get_by_text("480 tokens would be enough")).to_be_visible()
    expect(page.get_by_label("Raise tokens to")).to_have_value("800")
    page.get_by_label("Raise tokens to").fill("5,000")
    _confirm(page, "It is nearly done.")
    page.get_by_role("button", name="Unlock and continue from round 2").click()
    site.wait(run, "completed")


def test_the_loop_is_left_by_an_exit(site: Site, page: Page) -> None:
    run = _open(site, page, "circles")
    page.get_by_role("radio", name="Leave the loop").click()
    expect(page.get_by_role("radio", name="Final")).to_be_checked()
    expect(page.get_by_role("radio", name="Reviewer")).to_have_count(0)
    expect(page.get_by_label("Message that waits for Writer")).to_have_count(0)
    _confirm(page, "Good enough.")
    page.get_by_role("button", name="Unlock and leave for Final").click()
    site.wait(run, "completed")
    assert len(site.call("GET", f"/runs/{run}/rounds")[0]["rounds"]) == 5


def test_somebody_else_is_faster(site: Site, page: Page) -> None:
    run = _open(site, page, "circles")
    page.get_by_label("Reason").fill("My own reason, long and good.")
    body = {"reason": "Source added by hand.", "checks": ALL_CHECKS}
    site.call("POST", f"/runs/{run}/unlock", body)
    side = page.get_by_role("region", name="Unlock", exact=True)
    expect(side).to_contain_text("Unlocked by tests")
    expect(side).to_contain_text("Source added by hand.")
    expect(side).to_contain_text("My own reason, long and good.")
    page.get_by_role("button", name="Go to round 6").click()
    expect(page.get_by_text("My own reason, long and good.")).to_be_hidden()


def test_a_person_locked_it(site: Site, page: Page) -> None:
    run = site.start("letter")
    site.wait(run, "waiting")
    site.call("POST", f"/runs/{run}/lock", {"reason": "It looks wrong."})
    site.wait(run, "suspended_locked")
    page.goto(f"/runs/{run}")
    expect(page.get_by_role("heading", name="A person locked the run")).to_be_visible()
    expect(page.get_by_text("tests locked it: “It looks wrong.”")).to_be_visible()
    _confirm(page, "It is right.")
    page.get_by_role("button", name="Unlock and continue from round 2").click()
    site.wait(run, "waiting")


def test_the_form_in_chinese(site: Site, pages: Pages) -> None:
    page = pages.open(locale="zh-CN")
    _open(site, page, "circles")
    expect(page.get_by_role("heading", name="循环在原地打转")).to_be_visible()
    expect(page.get_by_role("button", name="解锁，从第 5 轮继续")).to_be_visible()


def test_the_same_cause_twice_needs_a_change(site: Site, page: Page) -> None:
    run = _open(site, page, "polish", limits={"rounds": 1})
    page.get_by_label("Raise rounds to").fill("")
    _confirm(page, "One more.")
    page.get_by_role("button", name="Unlock and continue from round 1").click()
    expect(page.get_by_role("button", name="Unlock and continue from round 2")).to_be_visible()
    earlier = page.get_by_role("region", name="Earlier locks of this run")
    expect(earlier.get_by_role("listitem")).to_contain_text(
        "Round limit reached in round 1. tests: “One more.”"
    )
    page.get_by_label("Raise rounds to").fill("")
    _confirm(page, "And one more.")
    page.get_by_role("button", name="The same cause locked it twice").click()
    message = page.get_by_label("Message that waits for Writer")
    expect(message).to_be_focused()
    message.fill("Give me a picture.")
    page.get_by_role("button", name="Unlock and continue from round 2").click()
    expect(page.get_by_role("button", name="Unlock and continue from round 3")).to_be_visible()
    assert site.status(run) == "suspended_locked"


def test_a_viewer_sees_the_lock_and_no_form(site: Site, pages: Pages) -> None:
    page = pages.open(role="viewer")
    _open(site, page, "circles")
    expect(page.get_by_role("heading", name="The loop goes in circles")).to_be_visible()
    expect(page.get_by_text("To unlock the run takes the role operator.")).to_be_visible()
    expect(page.get_by_label("Reason")).to_have_count(0)
