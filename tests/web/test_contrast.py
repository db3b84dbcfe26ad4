"""The measured contrast: it sees what is really behind a text."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.web.contrast import low_contrasts

CASES = {
    # Half of what is behind the text is as dark as the text.
    "hatched": (
        '<p id="text" style="color: #222; '
        'background: repeating-linear-gradient(45deg, #222 0 6px, #fff 6px 12px)">'
        "A text on a hatch</p>",
        "contrast 1.00, and 4.5 is needed",
    ),
    "tints": (
        '<div style="background: rgb(0 0 0 / 30%)">'
        '<p id="text" style="color: #555; background: rgb(0 0 0 / 30%)">'
        "A text on two tints</p></div>",
        "contrast 1.79, and 4.5 is needed",
    ),
    "opacity": (
        '<div style="opacity: 0.4"><p id="text" style="color: #000">A text that is half there</p></div>',
        "contrast 2.85, and 4.5 is needed",
    ),
    "large": ('<p id="text" style="color: #888; font-size: 30px">A large text</p>', ""),
    "out of sight": (
        '<div style="height: 100px; overflow: auto"><div style="height: 900px"></div>'
        '<p id="text" style="color: #777">A text to scroll to</p></div>',
        "contrast 4.48, and 4.5 is needed",
    ),
    "line": (
        '<p id="text" style="color: #222; background: linear-gradient(#222 0 1px, #fff 1px)">'
        "A text with a thin line above</p>",
        "",
    ),
    "never shown": (
        '<div style="height: 0; overflow: clip"><p id="text">A text that nothing shows</p></div>',
        "no place of the page shows it",
    ),
}


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with browser.new_context() as context:
        yield context.new_page()


@pytest.mark.parametrize("name", CASES)
def test_the_contrast_is_measured_where_the_text_is(page: Page, name: str) -> None:
    html, wrong = CASES[name]
    page.set_content(html)
    assert low_contrasts(page, ["#text"]).get("#text", "") == wrong
    assert page.evaluate("document.adoptedStyleSheets.length") == 0, "the text is shown again"
