"""The list of runs and the drawer that starts one, in a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import Browser, Locator, Page, Route

from tests.web.axe import findings
from tests.web.expectations import expect
from tests.web.pages import Pages
from tests.web.samples import SAMPLES
from tests.web.site import Site

RUN_PAGE = re.compile(r"/runs/[0-9a-f]{8,}$")
SCRIPT = json.dumps({"Writer": ["a", "b", "c"], "Reviewer": ["no", "ACCEPT"]})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("site")) as made:
        yield made


@pytest.fixture(scope="module")
def runs(site: Site) -> dict[str, str]:
    """One run in each state."""
    names = ("polish", "letter", "analyst", "circles", "failing", "patch", "nested-slow")
    made = {name: site.start(name) for name in names}
    site.wait(made["polish"], "completed")
    site.wait(made["letter"], "waiting")
    site.wait(made["analyst"], "waiting")
    site.wait(made["circles"], "suspended_locked")
    site.wait(made["failing"], "failed")
    site.wait(made["patch"], "paused")
    return made


@pytest.fixture(scope="module")
def workflow(site: Site) -> str:
    templates = {one["name"]: one for one in site.call("GET", "/templates")["templates"]}
    variables = "  ROUNDS: 3\n  TONE: plain\n  API_KEY: ''"
    text = templates["review_loop"]["text"].replace("  ROUNDS: 3", variables)
    site.save("review", text)
    return "review"


def row(page: Page, run_id: str) -> Locator:
    return page.locator(f'[data-run="{run_id}"]')


def open_drawer(page: Page) -> Locator:
    # An empty list has a second button.
    expect(page.get_by_role("button", name="Start run").first).to_be_visible()
    page.keyboard.press("n")
    return page.get_by_role("dialog", name="Start run")


def test_shows_runs_in_all_states(pages: Pages, runs: dict[str, str]) -> None:
    page = pages.open("/")
    for name, status in {
        "letter": "Waiting",
        "analyst": "Approval",
        "circles": "Locked",
        "patch": "Paused",
        "polish": "Completed",
        "failing": "Failed",
    }.items():
        expect(row(page, runs[name]).locator(".status")).to_have_text(status)
    expect(row(page, runs["letter"])).to_contain_text("round 2 of ≤ 5 · Editor")
    expect(row(page, runs["letter"])).to_contain_text("Editor: Say what to change, or write OK.")
    expect(row(page, runs["analyst"])).to_contain_text("wants to call send_mail(to:")
    expect(row(page, runs["circles"])).to_contain_text("all 4 messages of Writer[4] and Writer[5]")
    expect(row(page, runs["circles"])).to_contain_text("novelty 0.00, at least 0.10")
    expect(row(page, runs["patch"])).to_contain_text("by the breakpoint cel:")
    expect(row(page, runs["polish"])).to_contain_text("4 rounds · score_threshold_reached")
    expect(row(page, runs["polish"]).get_by_role("img")).to_have_attribute(
        "aria-label", "4 scores, the last one 93, ends at 90"
    )
    expect(row(page, runs["failing"])).to_contain_text("429 Too Many Requests")
    for name, action in {
        "letter": "Answer",
        "analyst": "Review call",
        "circles": "Review lock",
        "failing": "Retry",
    }.items():
        link = row(page, runs[name]).get_by_role("link", name=re.compile(f"^{action}"))
        expect(link).to_have_attribute("href", f"/runs/{runs[name]}")


def test_a_running_loop_says_where_it_is(pages: Pages, runs: dict[str, str]) -> None:
    page = pages.open("/?workflow=duration_parser")
    running = row(page, runs["nested-slow"])
    expect(running).to_contain_text("in Planner[2]")
    expect(running.locator(".round-dots i")).to_have_count(10)


def test_filters_are_in_the_url(pages: Pages, runs: dict[str, str]) -> None:
    page = pages.open("/")
    expect(row(page, runs["letter"])).to_be_visible()
    page.get_by_label("Status:").select_option("failed")
    expect(page).to_have_url(re.compile(r"\?status=failed$"))
    expect(row(page, runs["failing"])).to_be_visible()
    expect(row(page, runs["letter"])).to_have_count(0)

    page.keyboard.press("/")
    page.keyboard.type("quarter")
    expect(page).to_have_url(re.compile(r"\?q=quarter&status=failed$"))
    page.reload()
    expect(page.get_by_role("searchbox")).to_have_value("quarter")
    expect(row(page, runs["failing"])).to_be_visible()

    page.go_back()
    expect(page).to_have_url(re.compile(r"/\?status=failed$"))
    expect(page.get_by_role("searchbox")).to_have_value("")
    page.go_back()
    expect(row(page, runs["letter"])).to_be_visible()
    expect(page.get_by_label("Status:")).to_have_value("")

    page.get_by_label("Started:").select_option("24h")
    expect(page.get_by_role("heading", name="Finished in the last 24 h")).to_be_visible()
    page.get_by_role("searchbox").fill("nothing is called like this")
    expect(page.get_by_text("No run matches these filters.")).to_be_visible()
    page.get_by_role("button", name="Clear filters").click()
    expect(row(page, runs["letter"])).to_be_visible()


def test_follows_runs_live(pages: Pages, site: Site, runs: dict[str, str]) -> None:
    page = pages.open("/?q=release")
    expect(row(page, runs["circles"])).to_be_visible()
    page.mouse.move(5, 5)
    started = site.start("circles", paused=True)
    expect(row(page, started).locator(".status")).to_have_text("Paused")
    site.call("POST", f"/runs/{started}/resume")
    expect(row(page, started).locator(".status")).to_have_text("Locked")
    # It came last, so it is first.
    expect(page.locator("[data-run]").first).to_have_attribute("data-run", started)


def test_nothing_moves_under_the_pointer(pages: Pages, site: Site, runs: dict[str, str]) -> None:
    page = pages.open("/?q=invitation")
    known = row(page, runs["letter"])
    expect(known).to_be_visible()
    known.hover()
    place = known.bounding_box()
    started = site.start("letter")
    offer = page.get_by_role("button", name="1 more run needs you")
    expect(offer).to_be_visible()
    expect(row(page, started)).to_have_count(0)
    assert known.bounding_box() == place
    # Texts change all the same.
    site.call("POST", f"/runs/{runs['letter']}/answer", {"text": "Sign it."})
    site.wait(runs["letter"], "waiting")
    expect(known).to_contain_text("round 3 of ≤ 5")
    assert known.bounding_box() == place
    offer.click()
    expect(row(page, started)).to_be_visible()


def test_keys_move_between_rows(pages: Pages, runs: dict[str, str]) -> None:
    page = pages.open("/?status=needs")
    links = page.locator("[data-run] .runs-name")
    expect(links.nth(3)).to_be_visible()
    page.keyboard.press("j")
    expect(links.nth(0)).to_be_focused()
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(links.nth(2)).to_be_focused()
    page.keyboard.press("k")
    expect(links.nth(1)).to_be_focused()
    path = links.nth(1).get_attribute("href")
    assert path is not None
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"{path}$"))
    page.go_back()
    expect(page).to_have_url(re.compile(r"\?status=needs$"))


def test_a_thousand_runs(pages: Pages) -> None:
    """Rows that are not in sight are not in the document, and pages follow as somebody scrolls."""
    asked: list[str] = []

    def answer(route: Route) -> None:
        query = route.request.url.partition("?")[2]
        if "status=completed" not in query:
            route.fulfill(json={"runs": [], "next": None})
            return
        found = re.search(r"cursor=(\d+)", query)
        first = int(found[1]) if found else 0
        asked.append(query)
        page_of = [view(number) for number in range(first, min(first + 100, 1000))]
        route.fulfill(json={"runs": page_of, "next": str(first + 100) if first < 900 else None})

    def view(number: int) -> dict[str, Any]:
        time = f"2026-01-01T{23 - number // 60:02}:{59 - number % 60:02}:00.000Z"
        return {
            "id": f"{number:012}",
            "workflow": "many",
            "status": "completed",
            "created": time,
            "updated": time,
            "input": f"number {number}",
            "loops": [],
            "scores": [],
            "results": [],
            "active": [],
            "questions": [],
            "usage": {},
            "work_seconds": 1,
        }

    page = pages.open("/settings")
    page.route(re.compile(r"/api/v1/runs\?"), answer)
    page.goto("/?workflow=many")
    expect(page.get_by_text("number 0", exact=True)).to_be_visible()
    scroller = page.locator(".runs-scroll")
    for first in range(100, 1000, 100):
        with page.expect_response(re.compile(f"cursor={first}")):
            scroller.evaluate("element => element.scrollTo(0, element.scrollHeight)")
        count = "1,000 runs" if first == 900 else f"{first + 100}+ runs"
        expect(page.get_by_text(count, exact=True)).to_be_visible()
    scroller.evaluate("element => element.scrollTo(0, element.scrollHeight)")
    expect(page.get_by_text("number 999", exact=True)).to_be_visible()
    assert page.locator("[data-run]").count() < 80
    assert len(asked) >= 10


def test_starts_a_run(pages: Pages, site: Site, workflow: str) -> None:
    pages.refusals = {422}
    page = pages.open("/")
    drawer = open_drawer(page)
    expect(drawer.get_by_text("Writer: at most 3 rounds, by Loop Guard")).to_be_visible()
    expect(drawer.get_by_label("API_KEY")).to_be_disabled()
    drawer.get_by_label("Input", exact=True).fill("a text about tea")
    drawer.get_by_label("TONE").fill("friendly")
    drawer.get_by_label("tokens", exact=True).fill("8,000")
    expect(drawer.get_by_text("limit 8,000").first).to_be_visible()
    expect(drawer.locator("pre")).to_contain_text("--var TONE=friendly")

    # The allow-list of the server has no provider of models: the server says so, at the workflow.
    drawer.get_by_role("button", name="Start run").click()
    expect(drawer.get_by_role("alert")).to_contain_text("the model provider 'openai' is not allowed")

    drawer.get_by_role("radio", name="Text").click()
    drawer.get_by_label("Replies as JSON or YAML").fill("Writer: [a, b")
    drawer.get_by_role("button", name="Start run").click()
    script = drawer.get_by_label("Replies as JSON or YAML")
    expect(script).to_have_attribute("aria-invalid", "true")
    drawer.get_by_label("Replies as JSON or YAML").fill(SCRIPT)
    page.keyboard.press("Control+Enter")
    expect(page).to_have_url(RUN_PAGE)
    expect(drawer).to_have_count(0)
    started = page.url.rpartition("/")[2]
    site.wait(started, "completed")
    assert site.call("GET", f"/runs/{started}")["input"] == "a text about tea"


def test_a_double_click_starts_one_run(pages: Pages, site: Site, workflow: str) -> None:
    page = pages.open("/")
    drawer = open_drawer(page)
    drawer.get_by_label("Input", exact=True).fill("only once")
    drawer.get_by_role("radio", name="Text").click()
    drawer.get_by_label("Replies as JSON or YAML").fill(SCRIPT)
    drawer.get_by_role("button", name="Start paused").dblclick()
    expect(page).to_have_url(RUN_PAGE)
    found = site.call("GET", "/runs?q=only+once")["runs"]
    assert [one["status"] for one in found] == ["paused"]


def test_a_draft_is_kept_and_an_earlier_run_is_a_script(pages: Pages, site: Site, workflow: str) -> None:
    first = site.start(SAMPLES["polish"], workflow=workflow, script=json.loads(SCRIPT), input="the first one")
    site.wait(first, "completed")
    page = pages.open("/")
    drawer = open_drawer(page)
    drawer.get_by_label("Input", exact=True).fill("the second one")
    page.keyboard.press("Escape")
    expect(drawer).to_have_count(0)
    page.reload()
    page.get_by_role("button", name="Start run").first.click()
    expect(drawer.get_by_label("Input", exact=True)).to_have_value("the second one")
    drawer.get_by_role("radio", name="Earlier run").click()
    drawer.get_by_label("The run whose replies are used again").select_option(first)
    with page.expect_request(re.compile(r"/api/v1/runs$")) as sent:
        drawer.get_by_role("button", name="Start run").click()
    expect(page).to_have_url(RUN_PAGE)
    body = sent.value.post_data_json
    assert body is not None
    replies = yaml.safe_load(body["script"])
    assert [reply["text"] for reply in replies["Writer"]] == ["a", "b"]


def test_a_link_opens_the_drawer_with_its_workflow(pages: Pages, site: Site, workflow: str) -> None:
    site.save("tea_line", SAMPLES["polish"].text)
    page = pages.open("/workflows")
    chosen = page.get_by_role("dialog", name="Start run").get_by_label("Workflow", exact=True)
    for name in ("tea_line", workflow):  # whatever the draft of the one before was
        page.get_by_role("link", name=f"Start run of {name}").click()
        expect(page).to_have_url(re.compile(rf"/\?start={name}$"))
        expect(chosen).to_have_value(f"saved:/{name}")
        page.go_back()
        expect(chosen).to_have_count(0)
        expect(page).to_have_url(re.compile("/workflows$"))
    page.go_forward()
    expect(chosen).to_have_value(f"saved:/{workflow}")
    page.keyboard.press("Escape")
    expect(chosen).to_have_count(0)
    expect(page).to_have_url(f"{site.address}/")
    page.go_back()
    expect(page).to_have_url(re.compile("/workflows$"))


def test_a_link_to_a_workflow_that_is_not_there(pages: Pages, workflow: str) -> None:
    page = pages.open("/?status=failed&start=nothing")
    drawer = page.get_by_role("dialog", name="Start run")
    expect(drawer.get_by_role("alert")).to_contain_text("There is no workflow nothing")
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile(r"/\?status=failed$"))


def test_speaks_chinese(pages: Pages, runs: dict[str, str]) -> None:
    page = pages.open("/", locale="zh-CN")
    expect(page.get_by_role("heading", name="需要你处理")).to_be_visible()
    expect(row(page, runs["circles"])).to_contain_text("循环在原地打转")
    expect(row(page, runs["analyst"])).to_contain_text("想调用")
    page.get_by_role("button", name="启动运行").click()
    drawer = page.get_by_role("dialog", name="启动运行")
    expect(drawer.get_by_role("heading", name="预测")).to_be_visible()


def test_an_empty_store_offers_examples(browser: Browser, tmp_path: Path) -> None:
    with Site(tmp_path) as empty:
        page = empty.page(browser)
        page.goto("/")
        expect(page.get_by_text("No run has been started here yet.")).to_be_visible()
        expect(page.locator(".runs-picture img")).to_have_count(2)
        page.get_by_role("button", name="Use this example: polish").click()
        drawer = page.get_by_role("dialog", name="Start run")
        expect(drawer.get_by_label("Input", exact=True)).to_have_value("a line that sells tea")
        expect(drawer.get_by_role("radio", name="Of the example")).to_be_checked()
        page.keyboard.press("Control+Enter")
        expect(page).to_have_url(RUN_PAGE)
        empty.wait(page.url.rpartition("/")[2], "completed")
        page.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_drawer_is_accessible(pages: Pages, runs: dict[str, str], workflow: str, scheme: str) -> None:
    page = pages.open("/", color_scheme=scheme)
    open_drawer(page)
    expect(page.get_by_text("Writer: at most 3 rounds, by Loop Guard")).to_be_visible()
    assert findings(page) == []
