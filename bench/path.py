"""A new user's path: from a server without a workflow to a review loop that has converged, in the browser.

Two paths, each with the mouse: the loop is drawn from nothing, or taken from a template. For each step:

    actions   clicks, drags and keys that it takes
    person    seconds that somebody needs who knows what to do, by the keystroke-level model of Card, Moran
              and Newell: 1.35 s to decide on an action, 1.1 s to point at something, 0.1 s to press or
              release a button, 0.28 s for a key, 0.4 s from the mouse to the keyboard or back
    page      seconds that the page needs until the next action is possible, with those of Playwright

The first visit takes longer: reading is not part of the model.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Locator, Page

from tests.web.expectations import expect
from tests.web.site import Site
from tests.web.test_editor_canvas import card, drag

DECIDE, POINT, BUTTON, KEY, HAND = 1.35, 1.1, 0.1, 0.28, 0.4


@dataclass
class Step:
    name: str
    clicks: int = 0
    drags: int = 0
    keys: int = 0
    person: float = 0.0
    page: float = 0.0


@dataclass
class Person:
    """Does things, and counts them."""

    page: Page
    steps: list[Step] = field(default_factory=list)
    began: float = 0.0

    def begin(self, name: str) -> None:
        self.end()
        self.steps.append(Step(name))
        self.began = time.monotonic()

    def end(self) -> None:
        if self.steps:
            self.steps[-1].page = time.monotonic() - self.began

    def click(self, what: Locator, button: str = "left") -> None:
        step = self.steps[-1]
        step.clicks += 1
        step.person += DECIDE + POINT + 2 * BUTTON
        what.click(button="right" if button == "right" else "left")

    def choose(self, what: Locator, value: str) -> None:
        """A value of a list that opens."""
        step = self.steps[-1]
        step.clicks += 2
        step.person += DECIDE + 2 * (POINT + 2 * BUTTON)
        what.select_option(value)

    def drag(self, what: Locator, to: Locator) -> None:
        step = self.steps[-1]
        step.drags += 1
        step.person += DECIDE + 2 * (POINT + BUTTON)
        expect(to).to_be_visible()
        drag(self.page, what, to)

    def type(self, text: str, *, then: str = "") -> None:
        """Into what has the focus."""
        step = self.steps[-1]
        keys = len(text) + bool(then)
        step.keys += keys
        step.person += DECIDE + 2 * HAND + keys * KEY
        self.page.keyboard.type(text)
        if then:
            self.page.keyboard.press(then)


def draw(person: Person) -> None:
    """The loop, from nothing."""
    page = person.page
    palette, form = page.locator(".palette"), page.locator(".editor-pane-form")
    person.begin("open a new workflow")
    person.click(page.get_by_role("link", name="Workflows"))
    person.click(page.get_by_role("link", name="New workflow").first)
    body = page.locator(".canvas-body")
    expect(body).to_contain_text("Nothing is drawn yet")

    person.begin("three nodes")
    for kind, place, name in (
        ("agent", body, "Writer"),
        ("agent", card(page, "Writer"), "Reviewer"),
        ("passthrough", card(page, "Reviewer"), "Final"),
    ):
        person.drag(palette.locator(f'[data-type="{kind}"]'), place)
        expect(page.locator(".canvas-prompt input")).to_be_focused()
        person.type(name, then="Enter")
        expect(card(page, name)).to_be_visible()

    person.begin("the way back, and the end")
    card(page, "Reviewer").hover()
    person.drag(card(page, "Reviewer").locator('[data-port=""]'), card(page, "Writer"))
    expect(page.locator(".graph-region-loop")).to_be_visible()
    person.click(card(page, "Final"), "right")
    person.click(page.get_by_role("menuitem", name="end"))
    expect(card(page, "Final").locator(".graph-end-badge")).to_be_visible()

    person.begin("when it goes back, and when it ends")
    for target, kind in (("Writer", "None of"), ("Final", "Any of")):
        person.click(card(page, "Reviewer"), "right")
        person.click(page.get_by_role("menuitem", name="Edges"))
        person.click(page.get_by_role("option", name=f"Reviewer to {target}"))
        person.choose(form.get_by_role("combobox", name="Fires"), "keyword")
        person.click(form.get_by_role("button", name=f"Add to {kind}"))
        expect(form.get_by_role("textbox", name=f"New entry of {kind}")).to_be_focused()
        person.type("ACCEPT", then="Enter")
        expect(form.get_by_role("textbox", name=f"{kind} 1")).to_have_value("ACCEPT")

    person.begin("the counter that is missing")
    person.click(page.locator(".proof").get_by_role("button", name="Add a counter"))
    expect(page.locator(".proof-row.proof-good")).to_contain_text("at most 3 rounds")


def take(person: Person) -> None:
    """A template with the loop."""
    page = person.page
    person.begin("open a new workflow")
    person.click(page.get_by_role("link", name="Workflows"))
    person.click(page.get_by_role("link", name="New workflow").first)
    person.begin("take the template")
    person.click(page.locator(".canvas-templates").get_by_role("link", name="review_loop"))
    expect(page.locator(".proof-row.proof-good")).to_contain_text("at most 3 rounds")


def run(person: Person, text: str) -> None:
    """Tries the loop, with the script that the page suggests."""
    page = person.page
    pane = page.get_by_role("region", name="Try it")
    person.begin("run it")
    person.click(page.get_by_role("button", name="Try it"))
    if text:
        person.click(pane.get_by_label("Input"))
        person.type(text)
    person.click(pane.get_by_role("button", name="Run", exact=True))
    expect(pane.locator(".try-status")).to_contain_text("Completed")
    expect(page.locator(".graph-region-round")).to_contain_text("of ≤ 3")
    person.end()


def show(name: str, steps: list[Step]) -> None:
    print(f"{name:<38} {'clicks':>7} {'drags':>6} {'keys':>5} {'person, s':>10} {'page, s':>8}")
    total = Step("in all", *(sum(column) for column in zip(*(_figures(step) for step in steps), strict=True)))
    for step in (*steps, total):
        clicks, drags, keys, person, page = _figures(step)
        print(f"  {step.name:<36} {clicks:>7} {drags:>6} {keys:>5} {person:>10.0f} {page:>8.1f}")
    print(flush=True)


def _figures(step: Step) -> tuple[int, int, int, float, float]:
    return step.clicks, step.drags, step.keys, step.person, step.page


def report() -> None:
    print("from an empty page to a review loop that has converged")
    for name, path, text in (("drawn from nothing", draw, "a line about tea"), ("from a template", take, "")):
        with tempfile.TemporaryDirectory() as folder, Site(Path(folder)) as site, site.browser() as browser:
            person = Person(site.page(browser))
            person.page.goto("/")
            path(person)
            run(person, text)
            show(name, person.steps)
