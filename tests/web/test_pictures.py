"""Every page and state: it can be drawn, has no error, fits its width, and axe finds nothing serious in it.

The pictures go to a temporary folder; `make pictures` writes those of the manual.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from playwright.sync_api import Page

from tests.web.axe import findings
from tests.web.expectations import expect
from tests.web.pages import Pages, settle
from tests.web.site import ROOT, Site

FOLDER = os.environ.get("ROUNDEL_PICTURES", "")
"""Where `make pictures` wants them."""


class Picture(Struct, frozen=True):
    """A page in a state."""

    name: str
    path: str = ""
    sample: str = ""
    at: str = ""
    size: tuple[int, int] = (1440, 900)
    dark: bool = False
    language: str = "en-GB"
    until: str = ""
    """A text that is there when the page is complete."""

    @property
    def options(self) -> dict[str, Any]:
        return {
            "viewport": {"width": self.size[0], "height": self.size[1]},
            "color_scheme": "dark" if self.dark else "light",
            "locale": self.language,
        }


PHONE, SMALL = (390, 844), (1024, 768)
NESTED = "Planner[2].Coder[3]"
PICTURES = [
    Picture("runs", path="/", until="Needs you"),
    Picture("runs-dark", path="/", dark=True, until="Needs you"),
    Picture("runs-zh", path="/", language="zh-CN", until="运行"),
    Picture("runs-phone", path="/", size=PHONE, until="Needs you"),
    Picture("run", sample="nested-slow", at=NESTED, until="Coder"),
    Picture("run-dark", sample="nested-slow", at=NESTED, dark=True, until="Coder"),
    Picture("run-small", sample="nested-slow", at=NESTED, size=SMALL, until="Coder"),
    Picture("run-phone", sample="nested-slow", at=NESTED, size=PHONE, until="Coder"),
    Picture("run-zh", sample="nested-slow", at=NESTED, language="zh-CN", until="Coder"),
    Picture("nested", sample="nested", until="Coder"),
    Picture("completed", sample="polish", until="Yours by four."),
    Picture("locked", sample="circles", until="circles"),
    Picture("locked-dark", sample="circles", dark=True, until="circles"),
    Picture("locked-phone", sample="circles", size=PHONE, until="circles"),
    Picture("question", sample="letter", until="Say what to change, or write OK."),
    Picture("question-dark", sample="letter", dark=True, until="Say what to change, or write OK."),
    Picture("question-phone", sample="letter", size=PHONE, until="Say what to change, or write OK."),
    Picture("approval", sample="analyst", until="send_mail"),
    Picture("approval-dark", sample="analyst", dark=True, until="send_mail"),
    Picture("failed", sample="failing", until="RateLimited"),
    Picture("failed-dark", sample="failing", dark=True, until="RateLimited"),
    Picture("debug", sample="patch", until="Paused before Security"),
    Picture("debug-dark", sample="patch", dark=True, until="Paused before Security"),
    Picture("parallel", sample="batch", until="Translator"),
    Picture("debate", sample="debate", until="Council"),
    Picture("long", sample="long", at="Tuner[157]", until="Tuner"),
    Picture("compare", path="compare", until="same"),
    Picture("compare-dark", path="compare", dark=True, until="same"),
    Picture("compare-choose", path="choose", until="review"),
    Picture("workflows", path="/workflows", until="review"),
    Picture("workflows-phone", path="/workflows", size=PHONE, dark=True, until="review"),
    Picture("template", path="/workflows?template=polish", until="Script"),
    Picture("template-phone", path="/workflows?template=polish", size=PHONE, dark=True, until="Script"),
    Picture("memory", path="/memory?group=tea", until="oolong"),
    Picture("memory-phone", path="/memory?group=tea", size=PHONE, dark=True, until="oolong"),
    Picture("audit", path="/audit", until="run.start"),
    Picture("audit-phone", path="/audit", size=PHONE, dark=True, until="run.start"),
    Picture("settings", path="/settings", until="Tokens"),
    Picture("settings-dark", path="/settings", dark=True, until="Tokens"),
    Picture("settings-phone", path="/settings", size=PHONE, dark=True, until="Tokens"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("site")) as site:
        text = (ROOT / "examples" / "review_loop" / "workflow.yaml").read_text()
        site.save("review_loop", text)
        site.call("POST", "/memory/tea", {"text": "Guests like oolong best."})
        yield site


@pytest.fixture(scope="module")
def runs(site: Site) -> dict[str, str]:
    """One run of each sample that has a picture."""
    found = {}
    for sample in dict.fromkeys(one.sample for one in PICTURES if one.sample):
        found[sample] = site.start(sample)
        if "slow" not in sample:
            site.wait(found[sample])
    site.call("GET", f"/runs/{found['nested-slow']}/state")
    polish = found["polish"]
    body = {
        "at": "Writer[3]",
        "message": "It promises nothing. Say when it arrives.",
        "limits": {"tokens": 8000},
    }
    found["fork"] = site.call("POST", f"/runs/{polish}/fork", body)["id"]
    site.wait(found["fork"])
    return found


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_every_page_and_state(pages: Pages, runs: dict[str, str], picture: Picture, tmp_path: Path) -> None:
    page = pages.open(address(picture, runs), **picture.options)
    expect(page.locator("body")).to_contain_text(picture.until)
    settle(page)
    place = Path(FOLDER or tmp_path) / f"{picture.name}.png"
    page.screenshot(path=place, animations="disabled")
    assert place.stat().st_size > 10_000, "an empty page"
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, "it is wider than the window"
    assert findings(page) == []
    if picture.sample:
        expect(page.locator(".run-main")).not_to_be_empty()
    if picture.sample and picture.size != PHONE:
        expect(page.locator(".strip")).to_be_visible()
        expect(page.locator(".run-graph")).to_be_visible()


# The editor. Its pictures show one workflow: a loop in a loop, of which the outer one has no guard.

PARSER = """# Builds a parser of durations such as 1h30m.
version: 0.8.0
graph:
  id: duration_parser
  limits: {tokens: 60000, seconds: 900}
  nodes:
    - id: Planner
      type: agent
      config:
        role: Say in one sentence what to build next.
      context_window: -1   # it remembers its plans
    - id: Coder
      type: agent
      config:
        role: Write the function.
    - id: Tester
      type: agent
      config:
        role: Run the tests and give a score.
    - id: Test Gate        # ends the inner loop
      type: loop
      config:
        max_rounds: 10
        exit_on_score: 95
        patience: 3
        min_delta: 1
        keep: best
    - id: Reviewer
      type: human
      config:
        description: Say SHIP, or what is missing.
    - id: Final
      type: passthrough
  edges:
    - {from: Planner, to: Coder}
    - {from: Coder, to: Tester}
    - {from: Tester, to: Test Gate}
    - {from: Test Gate, to: Coder, port: continue}
    - {from: Test Gate, to: Reviewer, port: exit}
    - {from: Reviewer, to: Planner, condition: {type: keyword, config: {none: [SHIP]}}}
    - {from: Reviewer, to: Final, condition: {type: keyword, config: {any: [SHIP]}}}
  start: Planner
  end: Final
"""
CODE = [
    "def parse(text): return int(text)",
    "Splits the number from its unit with a pattern, and knows h, m and s.",
    "Adds up several units, and refuses an empty string with ValueError.",
    "Reads fractions such as 1.5h, and keeps the sign of negative durations.",
    "Rejects repeated units, and names the position of what it cannot read.",
]
TESTS = [
    (41, "Only bare seconds pass."),
    (60, "Single units work; 1h30m fails."),
    (78, "Combined units are right. Missing: decimals."),
    (90, "One case left, 2h2h is accepted."),
    (96, "Everything green but a message about whitespace."),
]
PARSER_SCRIPT = {
    "Planner": "Accept hours and minutes, then seconds.",
    "Coder": CODE,
    "Tester": [json.dumps({"score": score, "note": note}) for score, note in TESTS],
}


def select_gate(site: Site, page: Page) -> None:
    page.locator('.editor-canvas button[data-key="Test Gate"]').click()
    expect(page.locator(".form-head")).to_contain_text("Test Gate")


def only_canvas(site: Site, page: Page) -> None:
    """A phone shows one view at a time."""
    expect(page.locator(".canvas-card").first).to_be_visible()


def try_it(site: Site, page: Page) -> None:
    page.get_by_role("button", name="Try it").click()
    pane = page.get_by_role("region", name="Try it")
    pane.get_by_label("Input").fill("a parser of durations")
    pane.get_by_label("Script", exact=True).fill(json.dumps(PARSER_SCRIPT, indent=2))
    pane.get_by_role("button", name="Run", exact=True).click()
    expect(pane.get_by_label("Your answer as Reviewer")).to_be_visible()
    expect(pane.locator(".try-round").last).to_have_text(f"Coder, round {len(CODE)}")


def versions(site: Site, page: Page) -> None:
    page.get_by_role("button", name="Versions").click()
    drawer = page.get_by_role("dialog")
    drawer.get_by_role("button", name="Version 2").click()
    expect(drawer.get_by_role("button", name="Restore version 2")).to_be_enabled()


def conflict(site: Site, page: Page) -> None:
    """Somebody else saves while the text is edited."""
    page.locator(".cm-line", has_text="max_rounds: 10").click()
    page.keyboard.press("End")
    page.keyboard.press("Backspace")
    page.keyboard.press("Backspace")
    page.keyboard.type("6")
    name = page.url.split("/")[-2]
    theirs = PARSER.replace("seconds: 900", "seconds: 600").replace("max_rounds: 10", "max_rounds: 8")
    site.save(name, theirs, **{"if-match": '"3"'})
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_be_visible()


EDITOR: list[tuple[Picture, Callable[[Site, Page], None]]] = [
    (Picture("editor"), select_gate),
    (Picture("editor-dark", dark=True), select_gate),
    (Picture("editor-zh", language="zh-CN"), select_gate),
    (Picture("editor-small", size=SMALL), select_gate),
    (Picture("editor-phone", size=PHONE), only_canvas),
    (Picture("editor-try"), try_it),
    (Picture("editor-versions"), versions),
    (Picture("editor-conflict"), conflict),
]


@pytest.mark.parametrize(("picture", "prepare"), EDITOR, ids=[picture.name for picture, _ in EDITOR])
def test_every_state_of_the_editor(
    site: Site, pages: Pages, picture: Picture, prepare: Callable[[Site, Page], None], tmp_path: Path
) -> None:
    # The one that somebody else changes is a workflow of its own.
    name = "durations" if prepare is conflict else "duration_parser"
    pages.refusals = {412}
    known = [one["name"] for one in site.call("GET", "/workflows")["workflows"]]
    for version, rounds in enumerate(() if name in known else ("10", "4", "10")):
        condition = {"if-match": f'"{version}"'} if version else {}
        site.save(name, PARSER.replace("max_rounds: 10", f"max_rounds: {rounds}"), **condition)
    page = pages.open(f"/workflows/{name}/edit", **picture.options)
    expect(page.locator(".canvas-card").first).to_be_visible()
    prepare(site, page)
    settle(page)
    place = Path(FOLDER or tmp_path) / f"{picture.name}.png"
    page.screenshot(path=place, animations="disabled")
    assert place.stat().st_size > 10_000, "an empty page"
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, "it is wider than the window"
    assert findings(page) == []


def address(picture: Picture, runs: dict[str, str]) -> str:
    if picture.path in ("compare", "choose"):
        return f"/runs/{runs['polish']}/compare/{runs['fork'] if picture.path == 'compare' else 'choose'}"
    if picture.path:
        return picture.path
    return f"/runs/{runs[picture.sample]}" + (f"#{picture.at}" if picture.at else "")
