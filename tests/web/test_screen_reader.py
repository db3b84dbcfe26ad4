"""What a screen reader gets: regions with names, headings in order, and what happens in a run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.web.expectations import expect
from tests.web.samples import held_polish
from tests.web.site import Site

OUTLINE = """() => [...document.querySelectorAll('h1, h2, h3, h4, h5, h6')]
  .filter((heading) => heading.checkVisibility() && heading.closest('dialog:not([open])') === null)
  .map((heading) => Number(heading.tagName[1]))"""
LISTEN = """() => {
  window.announced = []
  const region = [...document.querySelectorAll('.hidden-text[role="status"]')].at(-1)
  new MutationObserver(() => window.announced.push(region.textContent))
    .observe(region, {childList: true, characterData: true, subtree: true})
}"""
PATHS = ("/", "/workflows", "/memory", "/audit", "/settings")
SAMPLES = ("polish", "circles", "letter", "analyst", "failing", "patch", "debate", "batch")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("site")) as running:
        yield running


def _open(site: Site, page: Page, what: str) -> None:
    if what not in SAMPLES:
        page.goto(what)
    else:
        run = site.start(what)
        site.wait(run)
        page.goto(f"/runs/{run}")
        expect(page.locator(".run-page")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_be_visible()


@pytest.mark.parametrize("what", PATHS + SAMPLES)
def test_headings_have_an_order(site: Site, page: Page, what: str) -> None:
    _open(site, page, what)
    levels: list[int] = page.evaluate(OUTLINE)
    assert levels.count(1) == 1, "a page has one title"
    assert levels[0] == 1
    for before, after in pairwise(levels):
        assert after <= before + 1, f"a level is left out: {levels}"


@pytest.mark.parametrize("what", PATHS + SAMPLES)
def test_a_page_has_its_landmarks(site: Site, page: Page, what: str) -> None:
    _open(site, page, what)
    for role in ("banner", "main"):
        expect(page.get_by_role(role)).to_have_count(1)
    expect(page.get_by_role("navigation", name="Main")).to_have_count(1)
    if what in SAMPLES:
        for name in ("Rounds", "Graph", "Round"):
            expect(page.get_by_role("region", name=name, exact=True)).to_have_count(1)
        side = page.get_by_role("region", name=re.compile("^(Guards|Decision)$"))
        expect(side).to_have_count(1)


def _announced(page: Page) -> list[str]:
    said: list[Any] = page.evaluate("window.announced")
    return [str(one) for one in said]


def _hears(page: Page, text: str) -> None:
    page.wait_for_function("(text) => window.announced.includes(text)", arg=text)


def test_rounds_and_the_end_are_announced(site: Site, page: Page) -> None:
    run = site.start(held_polish("announced"), paused=True)
    page.goto(f"/runs/{run}")
    expect(page.locator(".run-page")).to_be_visible()
    page.evaluate(LISTEN)
    site.call("POST", f"/runs/{run}/resume")
    for number in (2, 3, 4):
        site.open_gate(f"announced-{number - 1}")
        _hears(page, f"Round {number} of Writer began")
    site.open_gate("announced-4")
    site.wait(run, "completed")
    _hears(page, "The run is Completed")
    said = _announced(page)
    assert not any("tea" in one for one in said), "text is not read out as it is written"
    assert len(said) == len(set(said)), "nothing is said twice"


def test_a_lock_is_announced(site: Site, page: Page) -> None:
    run = site.start("circles", paused=True)
    page.goto(f"/runs/{run}")
    expect(page.locator(".run-page")).to_be_visible()
    page.evaluate(LISTEN)
    site.call("POST", f"/runs/{run}/resume")
    _hears(page, "The run is locked in round 5")
    expect(page).to_have_title(re.compile("Locked"))


def test_each_question_is_announced(site: Site, page: Page) -> None:
    run = site.start("letter")
    site.wait(run, "waiting")
    page.goto(f"/runs/{run}")
    status = page.locator('.hidden-text[role="status"]')
    expect(status).to_have_text("Editor asks a question in round 2")
    site.call("POST", f"/runs/{run}/answer", {"text": "Say until when."})
    # A text that stays the same would not be read out again.
    expect(status).to_have_text("Editor asks a question in round 3")
