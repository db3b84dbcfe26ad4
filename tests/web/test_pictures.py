"""Every page and state: it can be drawn, has no error, fits its width, and axe finds nothing serious in it.

The pictures go to a temporary folder; `make pictures` writes those of the manual.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

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


def address(picture: Picture, runs: dict[str, str]) -> str:
    if picture.path in ("compare", "choose"):
        return f"/runs/{runs['polish']}/compare/{runs['fork'] if picture.path == 'compare' else 'choose'}"
    if picture.path:
        return picture.path
    return f"/runs/{runs[picture.sample]}" + (f"#{picture.at}" if picture.at else "")
