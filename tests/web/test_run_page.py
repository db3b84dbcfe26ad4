"""The page of a run: watching it, in any tab, language and theme, through reloads and restarts."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from playwright.sync_api import Browser, Page, Position

from tests.web.expectations import expect
from tests.web.pages import Pages
from tests.web.samples import held_nested, held_polish
from tests.web.site import Site


def cell(page: Page, number: int) -> re.Pattern[str]:
    return re.compile(rf"^Round {number}\b")


def test_a_run_is_watched_from_start_to_end(site: Site, page: Page) -> None:
    run = site.start(held_polish("watched"))
    page.goto(f"/runs/{run}")
    status = page.locator(".run-bar .status")
    expect(status).to_have_text("Running")
    strip = page.locator(".strip")
    for number in range(1, 5):
        expect(strip.get_by_role("button", name=cell(page, number)).first).to_be_visible()
        expect(strip.get_by_role("button", name=cell(page, number + 1))).to_have_count(0)
        expect(status).to_have_text("Running")
        site.open_gate(f"watched-{number}")
    expect(status).to_have_text("Completed")
    main = page.locator(".run-main")
    expect(main.get_by_role("heading", name="Round 4")).to_be_visible()
    main.get_by_role("radiogroup", name="View of the output").first.get_by_text("Output").click()
    expect(main).to_contain_text("Picked before the sun is up. Yours by four.")
    assert "#" not in page.url, "events never change the address"


def test_a_selection_stays_is_a_link_and_goes_back(site: Site, page: Page) -> None:
    run = site.start(held_nested("selection"))
    page.goto(f"/runs/{run}")
    expect(page.locator(".strip")).to_contain_text("Coder")
    page.goto(f"/runs/{run}#Planner[2].Coder[1]")
    main = page.locator(".run-main")
    expect(main).to_contain_text("Fractions are cut off")
    page.goto(f"/runs/{run}#Planner[2].Coder[2]")
    expect(main).to_contain_text("Weeks are missing")
    newest = page.locator(".strip").get_by_role("button", name=cell(page, 5))
    expect(newest).to_have_count(0)
    site.open_gate("selection-4")
    expect(newest.first).to_be_visible()
    expect(main).to_contain_text("Weeks are missing")
    page.go_back()
    expect(main).to_contain_text("Fractions are cut off")
    page.reload()
    expect(main).to_contain_text("Fractions are cut off")
    site.call("POST", f"/runs/{run}/stop", {"reason": "seen enough"})
    expect(page.locator(".run-bar .status")).to_have_text("Stopped")
    expect(main).to_contain_text("Fractions are cut off")


def test_charts_are_read_by_pointer_and_keys(site: Site, page: Page) -> None:
    run = site.start("polish")
    site.wait(run)
    page.goto(f"/runs/{run}#Writer[2]")
    score = page.locator(".plots-chart", has_text="Score")
    tokens = page.locator(".plots-chart", has_text="Tokens")
    chart = score.locator(".chart")
    expect(score.get_by_role("img", name="Score per round. 84, exit ≥ 90")).to_be_visible()
    box = chart.bounding_box()
    assert box is not None
    third: Position = {"x": box["width"] * 0.25, "y": 30}  # the axis has ten rounds
    chart.hover(position=third)
    expect(score).to_contain_text("round 3: 61")
    expect(tokens).to_contain_text("round 3:")  # all are read at the same round
    page.mouse.move(0, 0)
    expect(score).to_contain_text("84, exit ≥ 90")
    slider = score.get_by_role("slider", name="Score")
    slider.focus()
    expect(slider).to_have_attribute("aria-valuetext", "round 2: 84")
    page.keyboard.press("ArrowLeft")
    expect(slider).to_have_attribute("aria-valuetext", "round 1: 58")
    assert page.url.endswith("#Writer[2]"), "reading selects nothing"
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: url.endswith("#Writer[1]"))
    chart.click(position=third)
    page.wait_for_url(lambda url: url.endswith("#Writer[3]"))


def test_text_appears_while_it_is_written(site: Site, page: Page) -> None:
    run = site.start("stream")
    page.goto(f"/runs/{run}")
    main = page.locator(".run-main")
    # From where the page has come in: what was written before is transient. "Outline" is a word of the page.
    # Found and read in one look: what an expectation has found may be drawn anew before a second one.
    found = page.wait_for_function(
        r"""() => {
            const text = document.querySelector(".run-main")?.textContent ?? "";
            return [...text.matchAll(/\bline (\d+) line/g)].at(-1)?.[1];
        }"""
    )
    newest = int(found.json_value())
    expect(main).to_contain_text(re.compile(rf"\bline {newest + 2}\b"))
    expect(main).not_to_contain_text("It ends.")
    assert site.status(run) == "running", "the reply is still being written"
    site.call("POST", f"/runs/{run}/stop", {"reason": "seen enough"})


def test_the_page_returns_after_a_restart_of_the_server(browser: Browser, tmp_path: Path) -> None:
    with Site(tmp_path) as site:
        run = site.start(held_polish("restart"))
        site.open_gate("restart-1")
        page = site.page(browser)
        page.goto(f"/runs/{run}")
        expect(page.locator(".connection")).to_have_text("Live")
        expect(page.locator(".strip")).to_contain_text("Writer")
        site.end(signal.SIGKILL)
        expect(page.locator(".connection")).not_to_have_text("Live")
        site.serve()
        expect(page.locator(".connection")).to_have_text("Live")
        for number in (2, 3, 4):
            site.open_gate(f"restart-{number}")
        site.wait(run, "completed")
        expect(page.locator(".run-bar .status")).to_have_text("Completed")
        strip = page.locator(".strip")
        expect(strip.get_by_role("button", name=cell(page, 4)).first).to_be_visible()
        expect(page.locator(".run-main")).to_contain_text("Yours by four.")  # before it is loaded again
        page.reload()
        expect(page.locator(".run-main")).to_contain_text("Yours by four.")
        page.context.close()


def test_eight_tabs_are_live(site: Site, browser: Browser) -> None:
    context = site.context(browser)
    runs = [site.start("letter") for _ in range(8)]
    tabs = []
    for run in runs:
        tab = context.new_page()
        tab.goto(f"/runs/{run}")
        tabs.append(tab)
    for tab in tabs:
        expect(tab.locator(".run-bar .status")).to_have_text("Waiting")
    for run in runs:
        site.call("POST", f"/runs/{run}/answer", {"text": "OK"})
    for tab in tabs:
        expect(tab.locator(".run-bar .status")).to_have_text("Completed")
    took = tabs[7].evaluate(
        """async () => {
            const began = performance.now();
            await fetch("/api/v1/me");
            return performance.now() - began;
        }"""
    )
    assert took < 10_000, "the eighth tab found a free connection"
    context.close()


def test_the_page_in_chinese(site: Site, pages: Pages) -> None:
    run = site.start("letter")
    site.wait(run, "waiting")
    page = pages.open(f"/runs/{run}", locale="zh-CN")
    expect(page.locator(".run-bar .status")).to_have_text("等待中")
    expect(page.locator("html")).to_have_attribute("lang", "zh")


def test_dark_by_the_system_and_by_choice(pages: Pages) -> None:
    page = pages.open("/", color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(background) == "rgb(19, 24, 34)"
    page.get_by_role("button", name="Light or dark").click()
    assert page.evaluate(background) == "rgb(255, 255, 255)"
    page.reload()
    assert page.evaluate(background) == "rgb(255, 255, 255)"


def test_a_viewer_watches_and_controls_nothing(site: Site, browser: Browser) -> None:
    run = site.start("letter")
    site.wait(run, "waiting")
    token = site.token_for("viewer")
    context = browser.new_context(base_url=site.address, locale="en-GB")
    page = context.new_page()
    page.goto(f"/runs/{run}")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator(".run-bar .status")).to_have_text("Waiting")
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    context.close()


def test_a_run_that_is_not_there(pages: Pages) -> None:
    pages.refusals = {404}
    page = pages.open("/runs/nothing")
    expect(page.get_by_role("alert")).to_contain_text("Not found")
