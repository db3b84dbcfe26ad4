"""The pages on which a person is asked, the page of a failed run, and the buttons that control a run."""

from __future__ import annotations

from typing import Any

import msgspec
import yaml
from playwright.sync_api import Locator, Page, Route

from tests.web.axe import findings
from tests.web.expectations import expect
from tests.web.pages import Pages
from tests.web.samples import SAMPLES
from tests.web.site import Site


def _open(site: Site, page: Page, sample: str, *statuses: str) -> str:
    run = site.start(sample)
    site.wait(run, *statuses)
    page.goto(f"/runs/{run}")
    return run


def _data(site: Site, run: str, name: str) -> list[dict[str, Any]]:
    """The data of all events with this name."""
    return [event["data"] for event in site.events(run, name)]


def _answer(site: Site, run: str) -> dict[str, Any]:
    """What the last answer says."""
    answer = _data(site, run, "human_input_received")[-1]
    return {name: answer[name] for name in ("text", "data") if name in answer}


def _answer_field(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Answer", exact=True)


PANES = ".people, .people-side, .failed, .failed-side, .controls, dialog[open]"


def _assert_accessible(page: Page) -> None:
    """The panes of these pages; other tests are about the rest."""
    assert findings(page, PANES) == []


# Questions.


def test_a_question_stands_next_to_its_draft(site: Site, page: Page) -> None:
    _open(site, page, "letter", "waiting")
    expect(page.get_by_role("heading", name="Say what to change, or write OK.")).to_be_visible()
    expect(page.get_by_text("asks, in round 2 of at most 5")).to_be_visible()
    draft = page.get_by_role("region", name="Draft", exact=True).last
    expect(draft.locator("ins").first).to_have_text("Please come ")
    page.get_by_role("radio", name="Draft").click()
    expect(draft).to_have_text("Please come to tea on Sunday at four.")
    said = page.get_by_role("region", name="Said so far").get_by_role("listitem")
    expect(said).to_have_count(4)
    expect(said.nth(2)).to_contain_text("Say when.")
    rules = page.get_by_role("region", name="What each answer does").get_by_role("listitem")
    expect(rules.nth(0)).to_contain_text('text == "OK"')
    expect(rules.nth(0)).to_contain_text("Final gets it, and the loop is left")
    expect(rules.nth(1)).to_contain_text("Writer begins round 3 of at most 5, Patience counts 2 of 5")
    expect(page.get_by_text("is the answer. This holds even if nothing is running then.")).to_be_visible()
    _assert_accessible(page)


def test_an_answer_completes_the_run(site: Site, page: Page) -> None:
    run = _open(site, page, "letter", "waiting")
    page.get_by_role("button", name="OK, to Final").click()
    expect(_answer_field(page)).to_have_value("OK")
    expect(page.get_by_role("button", name="Send to Final")).to_be_enabled()
    assert site.status(run) == "waiting", "a quick answer only fills the field"
    _answer_field(page).press("Control+Enter")
    site.wait(run, "completed")
    assert _answer(site, run) == {"text": "OK"}
    expect(_answer_field(page)).to_have_count(0)
    expect(page.get_by_text("Your draft for")).to_have_count(0)


def test_an_answer_may_have_data(site: Site, page: Page) -> None:
    run = _open(site, page, "letter", "waiting")
    _answer_field(page).fill("Shorter.")
    page.get_by_role("button", name="Add", exact=True).click()
    field = page.get_by_role("textbox", name="Data")
    field.fill('{"by": ')
    expect(page.get_by_text("This is no JSON object.")).to_be_visible()
    expect(page.get_by_role("button", name="Send")).to_be_disabled()
    field.fill('{"by": "ada"}')
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_text("asks, in round 3 of at most 5")).to_be_visible()
    assert _answer(site, run) == {"text": "Shorter.", "data": {"by": "ada"}}
    expect(_answer_field(page)).to_have_value("")


def test_a_draft_survives_a_reload_and_takes_quotations(site: Site, page: Page) -> None:
    _open(site, page, "letter", "waiting")
    _answer_field(page).fill("Say until when.")
    expect(page.get_by_text("draft kept")).to_be_visible()
    page.reload()
    expect(_answer_field(page)).to_have_value("Say until when.")
    page.get_by_role("radio", name="Draft").click()
    page.get_by_role("region", name="Draft", exact=True).last.select_text()
    page.get_by_role("button", name="Quote the selection").click()
    expect(_answer_field(page)).to_have_value("Say until when.\n\n> Please come to tea on Sunday at four.\n")


def test_the_server_says_where_an_answer_goes(site: Site, page: Page) -> None:
    """The page itself cannot evaluate this condition."""
    letter = SAMPLES["letter"]
    flow = yaml.safe_load(letter.text)
    for edge in flow["graph"]["edges"]:
        if edge["from"] == "Editor":
            leaves = edge["to"] == "Final"
            edge["condition"] = {"cel": "size(text) < 4" if leaves else "size(text) >= 4"}
    run = site.start(msgspec.structs.replace(letter, text=yaml.safe_dump(flow)))
    site.wait(run, "waiting")
    page.goto(f"/runs/{run}")
    _answer_field(page).fill("Say until when.")
    expect(page.get_by_role("button", name="Send to Writer")).to_be_visible()
    _answer_field(page).fill("Yes")
    expect(page.get_by_role("button", name="Send to Final")).to_be_visible()
    expect(page.get_by_text("not to Writer: size(text) >= 4")).to_be_visible()


def test_somebody_else_is_faster(site: Site, page: Page) -> None:
    run = _open(site, page, "letter", "waiting")
    _answer_field(page).fill("Say that there will be cake.")
    site.call("POST", f"/runs/{run}/answer", {"text": "OK"})
    lost = page.get_by_role("status").filter(has_text="Your draft for Writer[2]/Editor was not sent.")
    expect(lost).to_contain_text("Somebody else answered")
    expect(lost).to_contain_text("OK")
    expect(lost.get_by_role("button", name="Fork at this round")).to_be_visible()
    page.reload()
    expect(lost).to_be_visible()
    lost.get_by_role("button", name="Discard").click()
    expect(lost).to_have_count(0)


def test_an_answer_that_comes_too_late_is_kept(site: Site, pages: Pages, page: Page) -> None:
    pages.refusals = {409}
    run = _open(site, page, "letter", "waiting")

    def refuse(route: Route) -> None:
        problem = {"type": "urn:roundel:problem:conflict", "status": 409, "detail": "it asks nobody"}
        route.fulfill(status=409, json=problem)

    page.route(f"**/runs/{run}/answer", refuse)
    _answer_field(page).fill("Say until when.")
    page.get_by_role("button", name="Send to Writer").click()
    expect(page.get_by_role("alert")).to_contain_text("it asks nobody")
    expect(page.get_by_role("alert")).to_contain_text("Your draft is kept.")
    expect(page.get_by_role("button", name="Fork at this round")).to_be_visible()
    expect(_answer_field(page)).to_have_value("Say until when.")


# Approval of tool calls.


def test_a_call_is_approved_with_changed_arguments(site: Site, page: Page) -> None:
    run = _open(site, page, "analyst", "waiting")
    expect(page.get_by_role("heading", name="Call send_mail?")).to_be_visible()
    before = page.get_by_role("region", name="Before this call")
    expect(before).to_contain_text("read_offer(id: 1183)")
    expect(page.get_by_role("region", name="In the same reply")).to_contain_text("read_offer(id: 1190)")
    expect(page.get_by_role("button", name="Approve", exact=True)).to_be_enabled()
    page.get_by_role("textbox", name="subject").fill("Offer 1183: price of delivery")
    page.get_by_role("textbox", name="attach").fill('["offer.pdf"]')
    expect(page.get_by_role("radio", name="Edit and approve")).to_be_checked()
    expect(page.get_by_text("edited", exact=True)).to_have_count(2)
    _assert_accessible(page)
    page.get_by_role("textbox", name="Note").fill("The subject was unclear.")
    page.get_by_role("button", name="Approve with 2 changes").click()
    site.wait(run, "completed")
    call = [one for one in _data(site, run, "tool_call") if one["name"] == "send_mail"][-1]
    assert call["status"] == "completed"
    assert call["arguments"] == {
        "to": "sales@example.com",
        "subject": "Offer 1183: price of delivery",
        "body": "Your offer 1183 does not name the price of delivery. Could you add it today?",
        "attach": ["offer.pdf"],
    }
    answer = _data(site, run, "human_input_received")[-1]
    assert answer["data"]["reason"] == "The subject was unclear."


def test_a_call_is_approved_as_it_was_asked(site: Site, page: Page) -> None:
    run = _open(site, page, "analyst", "waiting")
    page.get_by_role("textbox", name="to", exact=True).fill("nobody@example.com")
    page.get_by_role("radio", name="Approve as asked").check()
    expect(page.get_by_text("throws your 1 change away")).to_be_visible()
    page.keyboard.press("Control+Enter")
    site.wait(run, "completed")
    call = [one for one in _data(site, run, "tool_call") if one["name"] == "send_mail"][-1]
    assert call["arguments"]["to"] == "sales@example.com"


def test_arguments_that_do_not_fit_are_not_sent(site: Site, page: Page) -> None:
    _open(site, page, "analyst", "waiting")
    page.get_by_role("textbox", name="attach").fill("[")
    expect(page.get_by_role("alert")).to_have_text("This is no JSON.")
    expect(page.get_by_role("button", name="Approve with 1 change")).to_be_disabled()
    page.get_by_role("textbox", name="attach").fill("[]")
    expect(page.get_by_role("button", name="Approve", exact=True)).to_be_enabled()
    page.get_by_role("radio", name="JSON").click()
    page.get_by_role("textbox", name="Arguments as JSON").fill('{"to": "a@example.com"}')
    expect(page.get_by_text("removed: subject, body, attach")).to_be_visible()
    expect(page.get_by_role("button", name="Approve with 4 changes")).to_be_enabled()


def test_a_call_is_rejected_with_a_reason(site: Site, page: Page) -> None:
    run = _open(site, page, "analyst", "waiting")
    page.get_by_role("radio", name="Reject").check()
    expect(page.get_by_role("button", name="Reject the call")).to_be_disabled()
    page.get_by_role("textbox", name="Reason for Analyst").fill("Ask by phone: leave the price open.")
    page.get_by_role("button", name="Reject the call").click()
    site.wait(run, "completed")
    call = [one for one in _data(site, run, "tool_call") if one["name"] == "send_mail"][-1]
    assert call["status"] == "rejected"
    assert "Ask by phone: leave the price open." in call["result"]


# Failures.


def test_a_retry_reports_that_the_run_failed_again(site: Site, page: Page) -> None:
    run = _open(site, page, "failing", "failed")
    expect(page.get_by_role("heading", name="The provider refused: too many requests")).to_be_visible()
    expect(page.get_by_text("failed in round 2 of at most 10")).to_be_visible()
    expect(page.get_by_text("RateLimited: 429 Too Many Requests")).to_be_visible()
    expect(page.get_by_role("region", name="Who could have handled it")).to_contain_text("there is none")
    plan = page.get_by_role("region", name="What a retry does")
    expect(plan).to_contain_text("Writer[2]/Writer")
    expect(plan).to_contain_text("Critic, Gate, Final")
    expect(plan).to_contain_text("1 round, 3 executions")
    _assert_accessible(page)
    page.get_by_role("button", name="Retry round 2").click()
    expect(page.get_by_text("The retry failed, too.")).to_be_visible()
    expect(page.get_by_role("region", name="Attempts")).to_contain_text("the run was retried once")
    assert len(_data(site, run, "run_finished")) == 2


def test_a_retry_with_changes_says_what_is_wrong_with_them(site: Site, page: Page) -> None:
    _open(site, page, "failing", "failed")
    page.get_by_role("radio", name="With changes").click()
    page.get_by_role("textbox", name="tokens").fill("many")
    expect(page.get_by_role("alert")).to_have_text("A limit is a number above zero.")
    expect(page.get_by_role("button", name="Retry round 2")).to_be_disabled()
    page.get_by_role("textbox", name="tokens").fill("90,000")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("The retry failed, too.")).to_be_visible()


# Controls.


def test_a_run_is_paused_and_stepped_by_keys(site: Site, page: Page) -> None:
    run = _open(site, page, "patch", "paused")
    expect(page.get_by_role("button", name="Step", exact=True)).to_be_visible()
    before = len(_data(site, run, "node_state_change"))
    page.keyboard.press("s")
    expect(page.get_by_role("button", name="Step", exact=True)).to_be_enabled()
    site.wait(run, "paused")
    assert len(_data(site, run, "node_state_change")) > before
    page.get_by_role("button", name="Continue").click()
    site.wait(run, "completed", "paused")


def test_stopping_a_run_is_confirmed(site: Site, pages: Pages, page: Page) -> None:
    run = _open(site, page, "letter", "waiting")
    _answer_field(page).fill("OK")
    page.get_by_role("button", name="Stop").click()
    dialog = page.get_by_role("dialog", name="Stop this run?")
    dialog.get_by_role("button", name="Cancel").click()
    assert site.status(run) == "waiting"
    page.get_by_role("button", name="Stop").click()
    dialog.get_by_role("textbox", name="Reason").fill("no longer needed")
    page.keyboard.press("Control+Enter")
    assert site.status(run) == "waiting", "the answer behind the dialog was sent"
    _assert_accessible(page)
    dialog.get_by_role("button", name="Stop the run").click()
    site.wait(run, "stopped")
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    page.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Delete").click()
    pages.refusals = {404}  # a request of the page may still be under way when the run is gone
    page.get_by_role("dialog").get_by_role("button", name="Delete the run").click()
    expect(page).to_have_url(f"{site.address}/")


def test_locking_a_run_takes_a_reason(site: Site, page: Page) -> None:
    run = _open(site, page, "letter", "waiting")
    page.get_by_role("button", name="More").click()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Lock this run")
    expect(dialog.get_by_role("button", name="Lock the run")).to_be_disabled()
    dialog.get_by_role("textbox", name="Why it has to wait").fill("the text is wrong")
    dialog.get_by_role("button", name="Lock the run").click()
    site.wait(run, "suspended_locked")
    expect(dialog).to_have_count(0)


def test_breakpoints_are_set_from_the_bar(site: Site, pages: Pages, page: Page) -> None:
    pages.refusals.add(422)
    run = _open(site, page, "letter", "waiting")
    page.get_by_role("button", name="Debug").click()
    dialog = page.get_by_role("dialog", name="Breakpoints")
    dialog.get_by_role("textbox", name="Node or address").fill("Nowhere")
    dialog.get_by_role("button", name="Add").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Nowhere")
    dialog.get_by_role("textbox", name="Node or address").fill("Final")
    dialog.get_by_role("button", name="Add").click()
    expect(dialog.get_by_role("listitem")).to_contain_text("Final")
    assert [one["text"] for one in site.call("GET", f"/runs/{run}/breakpoints")] == ["Final"]
    dialog.get_by_role("button", name="Close").last.click()
    expect(page.get_by_role("button", name="Debug, 1 breakpoint")).to_be_visible()


def test_a_viewer_reads_and_does_not_decide(site: Site, pages: Pages) -> None:
    page = pages.open(role="viewer")
    _open(site, page, "letter", "waiting")
    expect(page.get_by_text("To answer takes the role operator.")).to_be_visible()
    expect(_answer_field(page)).to_have_count(0)
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
