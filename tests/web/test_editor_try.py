"""Trying a workflow in the editor: the unsaved text runs with a script, in a browser."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page

from tests.web.axe import findings
from tests.web.expectations import expect
from tests.web.pages import Pages
from tests.web.samples import SAMPLES
from tests.web.site import ROOT, Site

EXAMPLE = ROOT / "examples" / "human_review"
# Not quite the example, which would bring its own script.
TEXT = (EXAMPLE / "workflow.yaml").read_text() + "# ours\n"
SCRIPT = (EXAMPLE / "writer_only.yaml").read_text()


def open_pane(site: Site, page: Page, name: str) -> Locator:
    """Saves the example, changes its text without saving it, and opens the pane."""
    site.save(name, TEXT)
    page.goto(f"/workflows/{name}/edit")
    expect(card(page, "Writer")).to_be_visible()
    page.locator(".cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.insert_text("# not saved\n")
    expect(page.locator(".editor-bar .editor-chip[role=status]")).to_have_text("version 1, not saved")
    page.get_by_role("button", name="Try it").click()
    return page.get_by_role("region", name="Try it")


def card(page: Page, key: str) -> Locator:
    return page.locator(f".canvas-card[data-card={key}]")


def run_id(pane: Locator) -> str:
    address = pane.get_by_role("link", name="Open the run").first.get_attribute("href")
    assert address is not None
    return address.rpartition("/")[2]


def status(pane: Locator) -> Locator:
    return pane.locator(".try-status")


def answer(pane: Locator, text: str) -> None:
    field = pane.get_by_label("Your answer as Editor")
    expect(field).to_have_value("")
    field.fill(text)
    pane.get_by_role("button", name="Send").click()


def test_the_unsaved_text_runs_asks_and_is_recorded(site: Site, page: Page, tmp_path: Path) -> None:
    pane = open_pane(site, page, "try-review")
    script = pane.get_by_label("Script", exact=True)
    # What is suggested answers for the agent, and leaves the person to whoever tries it.
    expect(script).to_have_value(re.compile(r'^Writer: \[.+\]$(.|\n)+^# Editor: \["OK"\]$', re.MULTILINE))
    script.fill(SCRIPT)
    pane.get_by_label("Input").fill("an invitation to tea")
    pane.get_by_role("button", name="Run", exact=True).click()

    expect(status(pane)).to_contain_text("Waiting")
    expect(card(page, "Editor")).to_have_class(re.compile("graph-is-waiting"))
    expect(pane.locator(".try-prompt")).to_contain_text("Say what to change")
    round_text = page.locator(".graph-region-round")
    expect(round_text).to_have_text("round 1 of ≤ 5")
    assert findings(page, ".try") == []
    answer(pane, "Say when.")
    expect(round_text).to_have_text("round 2 of ≤ 5")
    expect(card(page, "Writer")).to_contain_text("×2")
    pane.get_by_role("button", name="OK", exact=True).click()
    pane.get_by_role("button", name="Send").click()

    expect(status(pane)).to_contain_text("Completed")
    expect(pane.get_by_role("region", name="Result")).to_contain_text("Sunday at four")
    expect(pane.locator(".try-round")).to_have_text(["Writer, round 1", "Writer, round 2"])
    expect(card(page, "Writer")).to_have_class(re.compile("graph-is-completed"))
    first = run_id(pane)
    assert site.status(first) == "completed"
    assert "# not saved" not in site.call("GET", "/workflows/try-review")["text"]

    with page.expect_download() as download:
        pane.get_by_role("button", name="Download script").click()
    assert download.value.suggested_filename == "try-review.script.yaml"
    pane.get_by_role("button", name="Use as script").click()
    expect(script).to_have_value(re.compile("Say when"))
    download.value.save_as(tmp_path / "script.yaml")
    assert script.input_value() == (tmp_path / "script.yaml").read_text()

    # The record answers for the person, too.
    pane.get_by_role("button", name="Run again").click()
    expect(pane.get_by_role("link", name="Open the run")).not_to_have_attribute("href", f"/runs/{first}")
    expect(status(pane)).to_contain_text("Completed")
    expect(pane.get_by_role("region", name="Result")).to_contain_text("Sunday at four")

    # The text has changed since.
    page.get_by_role("button", name="Undo").click()
    expect(pane.get_by_text("The run shows an older text.")).to_be_visible()

    # The script stays for the next time.
    page.reload()
    page.get_by_role("button", name="Try it").click()
    expect(script).to_have_value(re.compile("Say when"))


def test_an_example_brings_its_script(page: Page) -> None:
    page.goto("/workflows/new?template=human_review")
    page.get_by_role("button", name="Try it").click()
    pane = page.get_by_role("region", name="Try it")
    expect(pane.get_by_label("Script", exact=True)).to_have_value((EXAMPLE / "script.yaml").read_text())
    pane.get_by_role("button", name="Run", exact=True).click()
    expect(status(pane)).to_contain_text("Completed")
    pane.get_by_role("switch", name="Use real models").click()
    expect(pane.get_by_label("Script", exact=True)).to_have_count(0)


def test_steps_pause_before_each_node(site: Site, page: Page) -> None:
    pane = open_pane(site, page, "try-steps")
    pane.get_by_role("button", name="Step", exact=True).click()
    expect(status(pane)).to_contain_text("Paused")
    expect(status(pane)).to_contain_text("Next: Writer")
    expect(card(page, "Writer")).to_have_attribute("data-ready", "next")
    expect(pane.locator(".try-row")).to_have_count(0)

    pane.get_by_role("button", name="Step", exact=True).click()
    expect(status(pane)).to_contain_text("Next: Editor")
    expect(pane.locator(".try-row")).to_have_count(1)
    expect(card(page, "Writer")).to_have_class(re.compile("graph-is-completed"))

    pane.get_by_role("button", name="Continue").click()
    expect(status(pane)).to_contain_text("Waiting")
    pane.get_by_role("button", name="Stop").click()
    expect(status(pane)).to_contain_text("Stopped")
    assert site.status(run_id(pane)) == "stopped"


def test_refusals_are_said_at_their_field(site: Site, pages: Pages) -> None:
    pages.refusals.add(422)
    page = pages.open()
    pane = open_pane(site, page, "try-refused")
    script = pane.get_by_label("Script", exact=True)
    script.fill("Writer: []")
    pane.get_by_role("button", name="Run", exact=True).click()
    expect(pane.locator(".field-error")).to_contain_text("no reply")
    expect(script).to_have_attribute("aria-invalid", "true")

    script.fill("Writer: [{error: no such model}]")
    pane.get_by_role("button", name="Run", exact=True).click()
    expect(pane.locator(".try-failure")).to_contain_text("no such model")
    expect(card(page, "Writer")).to_have_class(re.compile("graph-is-failed"))


def test_a_lock_says_why_and_leads_to_its_page(site: Site, page: Page) -> None:
    pane = open_pane(site, page, "try-locked")
    pane.get_by_label("Script", exact=True).fill("Writer: [the same]\nEditor: [again]\n")
    pane.get_by_role("button", name="Run", exact=True).click()
    expect(status(pane)).to_contain_text("Locked")
    lock = pane.locator(".try-lock")
    expect(lock).to_contain_text("The loop goes in circles")
    expect(lock.get_by_role("link")).to_have_attribute("href", f"/runs/{run_id(pane)}")


def test_a_new_run_stops_the_one_before(site: Site, page: Page) -> None:
    pane = open_pane(site, page, "try-again")
    pane.get_by_role("button", name="Run", exact=True).click()
    expect(status(pane)).to_contain_text("Waiting")
    first = run_id(pane)
    page.get_by_role("button", name="Undo").click()
    older = pane.locator(".try-older")
    older.get_by_role("button", name="Run again").click()
    expect(pane.get_by_role("link", name="Open the run")).not_to_have_attribute("href", f"/runs/{first}")
    expect(older).to_have_count(0)
    assert site.status(first) == "stopped"


def ask_for_approval(site: Site, page: Page, name: str) -> Locator:
    """Tries a workflow whose agent wants to send a mail."""
    sample = SAMPLES["analyst"]
    site.save(name, sample.text)
    page.goto(f"/workflows/{name}/edit")
    expect(card(page, "Analyst")).to_be_visible()
    page.get_by_role("button", name="Try it").click()
    pane = page.get_by_role("region", name="Try it")
    pane.get_by_label("Script", exact=True).fill(json.dumps(sample.script))
    pane.get_by_role("button", name="Run", exact=True).click()
    form = pane.get_by_role("form", name="Decision about a call of send_mail")
    expect(form).to_contain_text("Analyst wants to call send_mail. You decide.")
    return pane


def mail_call(site: Site, pane: Locator) -> dict[str, Any]:
    """The last event about the call of send_mail."""
    calls: list[dict[str, Any]] = [one["data"] for one in site.events(run_id(pane), "tool_call")]
    return [one for one in calls if one["name"] == "send_mail"][-1]


def test_a_tool_call_is_approved_with_other_arguments_in_the_pane(site: Site, page: Page) -> None:
    pane = ask_for_approval(site, page, "try-approve")
    assert findings(page, ".try") == []
    subject = pane.get_by_label("subject")
    expect(subject).to_have_value("Offer 1183")
    subject.fill("Offer 1183, delivery")
    expect(pane.get_by_role("radio", name="Edit and approve")).to_be_checked()
    attach = pane.get_by_label("attach")
    attach.fill("[")
    expect(pane.get_by_role("button", name="Approve with 2 changes")).to_be_disabled()
    attach.fill("[]")
    pane.get_by_role("button", name="Approve with 1 change").click()
    expect(status(pane)).to_contain_text("Completed")
    call = mail_call(site, pane)
    assert call["status"] == "completed"
    assert call["arguments"]["subject"] == "Offer 1183, delivery"
    assert call["arguments"]["to"] == "sales@example.com"


def test_a_tool_call_is_rejected_with_a_reason_in_the_pane(site: Site, page: Page) -> None:
    pane = ask_for_approval(site, page, "try-reject")
    pane.get_by_role("radio", name="Reject").check()
    reject = pane.get_by_role("button", name="Reject the call")
    expect(reject).to_be_disabled()
    reason = pane.get_by_role("textbox", name=re.compile("Reason"))
    reason.fill("not today")
    reason.press("Control+Enter")
    expect(status(pane)).to_contain_text("Completed")
    call = mail_call(site, pane)
    assert call["status"] == "rejected" and "not today" in str(call)


def test_readers_are_told_why_they_cannot_try(site: Site, pages: Pages) -> None:
    site.save("try-reader", TEXT)
    page = pages.open("/workflows/try-reader/edit", role="viewer")
    button = page.get_by_role("button", name="Try it")
    expect(button).to_have_attribute("aria-disabled", "true")
    expect(button).to_have_attribute("title", re.compile("role author"))
    # Playwright does not click what is disabled; keys reach it all the same.
    button.press("Enter")
    expect(page.locator(".toasts")).to_contain_text("role author")
    expect(page.locator(".try")).to_have_count(0)
