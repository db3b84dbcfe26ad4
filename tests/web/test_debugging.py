"""The page of a paused run: what waits, edits of it, and breakpoints."""

from __future__ import annotations

from playwright.sync_api import Page

from tests.web.expectations import expect
from tests.web.pages import Pages
from tests.web.site import Site


def _open(site: Site, page: Page) -> str:
    run = site.start("patch")
    site.wait(run, "paused")
    page.goto(f"/runs/{run}")
    expect(page.get_by_role("heading", name="Paused before Security")).to_be_visible()
    return run


def _queued(site: Site, run: str, node: str) -> str:
    queues = site.call("GET", f"/runs/{run}/state")["queues"]
    return str(next(queue for queue in queues if queue["node_id"] == node)["messages"][-1]["text"])


def test_where_it_is_paused_and_why(site: Site, page: Page) -> None:
    _open(site, page)
    main = page.get_by_role("article", name="Paused before Security")
    expect(main).to_contain_text('Breakpoint 2 was met: node == "Security" && round >= 3.')
    expect(main).to_contain_text("Nothing of Security has run yet in this round.")
    ready = page.get_by_role("region", name="Ready")
    expect(ready.get_by_role("listitem")).to_have_count(4)
    expect(ready.get_by_role("listitem").nth(0)).to_contain_text("1 message from Author triggers it.")
    expect(ready.get_by_role("listitem").nth(1)).to_contain_text("Held: Step runs one node.")
    expect(ready).to_contain_text("not ready: waits for Security and Style; no message yet")
    steps = page.get_by_label("What the steps run")
    expect(steps).to_contain_text("runs Security, then pauses")
    expect(steps).to_contain_text("to the next round of Author, here Author[4]")


def test_the_difference_to_what_it_got_before(site: Site, page: Page) -> None:
    _open(site, page)
    expect(page.get_by_role("img", name="3 lines added, 1 removed")).to_be_visible()
    page.get_by_label("what it got in").select_option("round 1")
    expect(page.get_by_role("img", name="4 lines added, 1 removed")).to_be_visible()


def test_an_edited_message_reaches_the_node(site: Site, page: Page) -> None:
    run = _open(site, page)
    message = page.get_by_label("Message 1 for Security")
    message.fill(message.input_value().replace("ValueError", "PermissionError"))
    expect(page.get_by_text("not saved")).to_be_visible()
    assert "PermissionError" not in _queued(site, run, "Security")
    page.get_by_role("button", name="Save the edit").click()
    main = page.get_by_role("article", name="Paused before Security")
    expect(main.get_by_text("edited", exact=True)).to_be_visible()
    assert "PermissionError" in _queued(site, run, "Security")
    assert "PermissionError" not in _queued(site, run, "Style")
    site.call("POST", f"/runs/{run}/step", {})
    expect(page.get_by_role("heading", name="Paused before Style")).to_be_visible()
    expect(page.get_by_text("The step is done.")).to_be_visible()


def test_an_edit_is_taken_back(site: Site, page: Page) -> None:
    _open(site, page)
    message = page.get_by_label("Message 1 for Security")
    before = message.input_value()
    message.fill("something else")
    page.get_by_role("button", name="Take back").click()
    expect(message).to_have_value(before)
    expect(page.get_by_role("button", name="Save the edit")).to_be_disabled()


def test_somebody_else_edits_the_same_message(site: Site, page: Page) -> None:
    run = _open(site, page)
    message = page.get_by_label("Message 1 for Security")
    message.fill("mine")
    site.call("POST", f"/runs/{run}/edit", {"at": "Author[3]/Security", "text": "theirs"})
    expect(page.get_by_text("Somebody else has changed this message meanwhile.")).to_be_visible()
    expect(message).to_have_value("mine")
    expect(page.get_by_role("button", name="Save the edit")).to_be_disabled()
    page.get_by_role("button", name="Keep mine").click()
    page.get_by_role("button", name="Save the edit").click()
    expect(page.get_by_text("not saved")).to_be_hidden()
    assert _queued(site, run, "Security") == "mine"


def test_an_edit_that_comes_too_late_can_start_a_fork(site: Site, page: Page) -> None:
    run = _open(site, page)
    page.get_by_label("Message 1 for Security").fill("a late thought")
    site.call("POST", f"/runs/{run}/step", {})
    expect(page.get_by_text("The run went on before your edit for Security was saved")).to_be_visible()
    late = page.get_by_role("status").filter(has_text="went on before your edit")
    expect(late.get_by_text("a late thought")).to_be_visible()
    page.get_by_role("button", name="Fork before Security with my edit").click()
    page.wait_for_url(lambda url: run not in url)
    fork = page.url.rsplit("/", 1)[1].partition("#")[0]
    assert site.call("GET", f"/runs/{fork}")["forked_at"] == "Author[3]/Security"


def test_another_node_and_the_variables(site: Site, page: Page) -> None:
    _open(site, page)
    ready = page.get_by_role("region", name="Ready", exact=True)
    ready.get_by_role("button", name="Style").click()
    expect(page.get_by_role("heading", name="Queue of Style")).to_be_visible()
    page.get_by_role("radio", name="State").click()
    expect(page.get_by_text("This run has no variables.")).to_be_visible()


def test_breakpoints_are_set_and_removed(site: Site, page: Page) -> None:
    run = _open(site, page)
    breakpoints = page.get_by_role("region", name="Breakpoints")
    expect(breakpoints.get_by_role("listitem")).to_have_count(2)
    expect(breakpoints.get_by_role("listitem").nth(1)).to_contain_text("met 1 ×")
    expect(breakpoints.get_by_role("listitem").nth(1)).to_contain_text("here")
    breakpoints.get_by_role("button", name="Add").click()
    page.get_by_label("Node, round or address").fill("Gate")
    page.keyboard.press("Enter")
    expect(breakpoints.get_by_role("listitem")).to_have_count(3)
    breakpoints.get_by_role("button", name="Remove the breakpoint Author[4]").click()
    expect(breakpoints.get_by_role("listitem")).to_have_count(2)
    texts = [one["text"] for one in site.call("GET", f"/runs/{run}/breakpoints")]
    assert texts == ['cel: node == "Security" && round >= 3', "Gate"]


def test_a_condition_that_cannot_be_read_is_not_set(site: Site, pages: Pages, page: Page) -> None:
    pages.refusals = {422}
    run = _open(site, page)
    breakpoints = page.get_by_role("region", name="Breakpoints")
    breakpoints.get_by_role("button", name="Add").click()
    page.get_by_role("radio", name="condition").click()
    condition = page.get_by_label("Condition in CEL")
    condition.fill('node == "Security" && round >=')
    page.get_by_role("button", name="Set breakpoint").click()
    expect(breakpoints.get_by_role("alert")).to_contain_text("at character")
    expect(condition).to_have_value('node == "Security" && round >=')
    condition.fill("round > 3")
    page.get_by_role("button", name="Set breakpoint").click()
    expect(breakpoints.get_by_role("listitem")).to_have_count(3)
    assert len(site.call("GET", f"/runs/{run}/breakpoints")) == 3
