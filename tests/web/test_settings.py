"""Settings, the audit log, memory and workflows, in a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Page

from tests.web.expectations import expect
from tests.web.pages import Pages
from tests.web.samples import SAMPLES
from tests.web.site import Site

DRAFT = "graph: {nodes: [{id: A, type: agent}], edges: [{from: A, to: B}], start: A}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("site")) as made:
        yield made


def test_a_token_is_created_shown_once_and_revoked(site: Site, page: Page) -> None:
    page.goto("/settings#tokens")
    page.get_by_role("button", name="Create token").click()
    dialog = page.get_by_role("dialog", name="Create token")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.get_by_text("Give it a name.")).to_be_visible()
    dialog.get_by_label("Name").fill("nightly")
    dialog.get_by_label("Role").select_option("operator")
    dialog.get_by_label("Groups").fill("tea, cake")
    dialog.get_by_label("Expires").select_option("In 7 days")
    dialog.get_by_role("button", name="Create").click()
    shown = page.get_by_role("dialog", name="Copy the token now")
    secret = shown.get_by_label("Token").input_value()
    who = httpx2.get(f"{site.address}/api/v1/me", headers={"authorization": f"Bearer {secret}"}).json()
    assert (who["name"], who["role"], sorted(who["groups"])) == ("nightly", "operator", ["cake", "tea"])
    shown.get_by_role("button", name="Done").click()
    row = page.get_by_role("table", name="Tokens").get_by_role("row").filter(has_text="nightly")
    expect(row).to_contain_text("operator")
    assert secret not in page.content()

    page.get_by_role("button", name="Revoke nightly").click()
    page.get_by_role("dialog", name="Revoke token").get_by_role("button", name="Revoke", exact=True).click()
    expect(row).to_have_count(0)
    refused = httpx2.get(f"{site.address}/api/v1/me", headers={"authorization": f"Bearer {secret}"})
    assert refused.status_code == 401

    page.goto("/audit")
    table = page.get_by_role("table", name="Audit log")
    expect(table.get_by_role("row").filter(has_text="token.revoke")).to_be_visible()
    page.get_by_label("Action").select_option("token.create")
    expect(table.get_by_role("row").filter(has_text="token.revoke")).to_have_count(0)
    expect(table.get_by_role("row").filter(has_text="nightly")).to_contain_text("tests admin")


def test_the_audit_log_leads_to_runs_and_is_exported(site: Site, page: Page, tmp_path: Path) -> None:
    run = site.start("letter")
    site.wait(run, "waiting")
    site.call("POST", f"/runs/{run}/stop", {"reason": "enough"})
    page.goto("/audit")
    page.get_by_label("Target").fill(run[:6])
    page.get_by_label("Who").select_option("tests")
    page.get_by_label("When").select_option("last hour")
    table = page.get_by_role("table", name="Audit log")
    expect(table.get_by_role("row").filter(has_text="run.")).to_have_count(2)  # the answer and the stop
    page.get_by_label("Search what is shown").fill(f"{run} stop")
    row = table.get_by_role("row").filter(has_text="run.stop")
    expect(row).to_contain_text("reason: enough")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export as JSON").click()
    target = tmp_path / "audit.json"
    download.value.save_as(target)
    assert [(one["action"], one["subject"]) for one in json.loads(target.read_text())] == [("run.stop", run)]
    row.get_by_role("link").click()
    expect(page).to_have_url(re.compile(f"/runs/{run}$"))


def test_a_viewer_sees_less_and_is_told_why(site: Site, pages: Pages) -> None:
    site.save("for_viewers", SAMPLES["polish"].text)
    viewer = pages.open("/settings", role="viewer")
    expect(viewer.get_by_text("Only administrators see and create tokens.")).to_be_visible()
    expect(viewer.get_by_role("button", name="Create token")).to_have_count(0)
    expect(viewer.get_by_role("region", name="Your access")).to_contain_text("You may look at everything")
    viewer.goto("/audit")
    expect(viewer.get_by_text("Only administrators see the audit log.")).to_be_visible()
    viewer.goto("/memory")
    expect(viewer.get_by_text("You may read.")).to_be_visible()
    expect(viewer.get_by_role("button", name="Add text")).to_have_count(0)
    viewer.goto("/workflows")
    expect(viewer.get_by_role("link", name="for_viewers")).to_be_visible()
    expect(viewer.get_by_role("button", name=re.compile("Delete"))).to_have_count(0)
    expect(viewer.get_by_role("link", name=re.compile("Start run"))).to_have_count(0)


def test_the_settings_of_the_browser_stay(page: Page) -> None:
    page.goto("/settings")
    browser = page.get_by_role("region", name="This browser")
    page.get_by_label("Search time zones").fill("tok")
    page.get_by_label("Time zone", exact=True).select_option("Asia/Tokyo")
    expect(browser.get_by_role("status")).to_contain_text("GMT+9")
    page.get_by_role("radio", name="Dark").click()
    page.get_by_label("Use single keys").uncheck()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("combobox", name="Language").select_option("中文")
    expect(page.get_by_role("heading", name="设置", level=1)).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="设置", level=1)).to_be_visible()
    expect(page.get_by_label("时区", exact=True)).to_have_value("Asia/Tokyo")
    expect(page.get_by_label("启用单键")).not_to_be_checked()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.goto("/audit")
    expect(page.get_by_role("table", name="审计日志")).to_contain_text("GMT+9")


def test_what_the_server_allows(page: Page) -> None:
    page.goto("/settings")
    expect(page.get_by_role("region", name="Models")).to_contain_text("the operator allows none")
    expect(page.get_by_role("region", name="Tools")).to_contain_text("tests.web.tools:*")
    server = page.get_by_role("region", name="Server", exact=True)
    expect(server).to_contain_text("sqlite")
    expect(server).to_contain_text("of at most 200")


def test_memory_is_added_found_promoted_and_deleted(site: Site, page: Page) -> None:
    page.goto("/memory?group=tea")
    expect(page.get_by_text("This group remembers nothing yet.")).to_be_visible()
    page.get_by_role("button", name="Add text").click()
    dialog = page.get_by_role("dialog", name="Add to long-term memory")
    dialog.get_by_label("Text").fill("Guests like oolong best.")
    dialog.get_by_role("button", name="Add").click()
    table = page.get_by_role("table", name="Entries")
    expect(table).to_contain_text("Guests like oolong best.")

    run = site.start("polish", group="tea")
    site.wait(run, "completed")
    page.get_by_role("radio", name="Outputs of a run").click()
    page.get_by_label("Run", exact=True).select_option(run)
    page.get_by_role("button", name="Promote Writer[4]/Writer").click()
    page.get_by_role("dialog").get_by_role("button", name="Promote").click()
    page.get_by_role("radio", name="Entries").click()
    page.get_by_label("Memory", exact=True).select_option("long_term")
    expect(table).to_contain_text("Yours by four.")
    page.get_by_label("Search", exact=True).fill("oolong")
    expect(table).not_to_contain_text("Yours by four.")
    page.get_by_role("button", name=re.compile("Delete entry")).click()
    page.get_by_role("dialog", name="Delete entry").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No entry has these words.")).to_be_visible()
    page.get_by_role("button", name="Delete all").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete all").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_label("Search", exact=True).fill("")
    expect(page.get_by_text("This group remembers nothing yet.")).to_be_visible()
    assert site.call("GET", "/memory/tea")["entries"] == []


def test_workflows_with_drawing_bounds_and_versions(site: Site, pages: Pages, page: Page) -> None:
    pages.refusals = {404}  # it is looked for after it was deleted
    text = SAMPLES["nested"].text
    site.save("duration parser", text)
    site.save("duration parser", text.replace("max_rounds: 10", "max_rounds: 7"), **{"if-match": '"1"'})
    site.save("unfinished", DRAFT)
    page.goto("/workflows")
    table = page.get_by_role("table", name="Workflows")
    expect(table.get_by_role("row").filter(has_text="unfinished")).to_contain_text("draft, 1 error")
    row = table.get_by_role("row").filter(has_text="duration parser")
    start = row.get_by_role("link", name="Start run of duration parser")
    assert start.get_attribute("href") == "/?start=duration%20parser"
    row.get_by_role("link", name="duration parser", exact=True).click()
    expect(page.get_by_role("img", name="The graph of duration parser")).to_be_visible()
    expect(page.get_by_text("at most 7 rounds, by Test Gate, 21 in a whole run")).to_be_visible()
    expect(page.get_by_role("region", name="Text")).to_contain_text("max_rounds: 7")
    version = page.get_by_label("Version")
    version.select_option(version.locator("option").last.get_attribute("value"))
    expect(page.get_by_role("region", name="Text")).to_contain_text("max_rounds: 10")
    expect(page.get_by_text("The newest version is 2.")).to_be_visible()

    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    expect(page).to_have_url(re.compile("/workflows$"))
    expect(table.get_by_role("row").filter(has_text="duration parser")).to_have_count(0)
    page.goto("/workflows/duration%20parser")
    expect(page.get_by_text("This workflow was deleted.")).to_be_visible()
    expect(page.get_by_role("region", name="Text")).to_contain_text("max_rounds: 7")


def test_errors_of_a_draft_lead_to_their_lines(site: Site, page: Page) -> None:
    site.save("wrong", "graph:\n  nodes: [{id: A, type: agent}]\n  edges: [{from: A, to: B}]\n  start: A\n")
    page.goto("/workflows/wrong")
    page.get_by_role("button", name="line 3").click()
    here = page.locator(".workflows-here")
    expect(here).to_contain_text("edges")
    expect(page.get_by_text("Bounds are proved when the errors are gone.")).to_be_visible()


def test_templates_are_shown(page: Page) -> None:
    page.goto("/workflows")
    page.get_by_role("link", name=re.compile("^review_loop")).click()
    expect(page.get_by_role("img", name="The graph of review_loop")).to_be_visible()
    expect(page.get_by_role("heading", name="Script")).to_be_visible()
