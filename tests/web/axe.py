"""What axe-core finds wrong with a page.

Nothing is exempt. Where axe-core cannot see what is behind a text (a hatch, tints that lie over each other, a
text at the edge of what scrolls, a single digit), the contrast is measured in the picture of the page. All
else that axe-core leaves undecided counts as found.
"""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

from tests.web.contrast import low_contrasts
from tests.web.site import ROOT

AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
MEASURED = "color-contrast"
TRIES = 5


def findings(page: Page, scope: str | None = None) -> list[str]:
    """What is wrong in the document, or in the elements that match a selector, and what axe-core could not
    decide. The page may have scrolled afterwards."""
    page.evaluate(AXE.read_text())
    result = _results(page, scope)
    found = result["violations"] + [one for one in result["incomplete"] if one["id"] != MEASURED]
    undecided = {
        node["target"][-1]: node["html"]
        for one in result["incomplete"]
        if one["id"] == MEASURED
        for node in one["nodes"]
    }
    low = low_contrasts(page, list(undecided)) if undecided else {}
    return [f"{one['id']}: {one['help']}: {node['html'][:200]}" for one in found for node in one["nodes"]] + [
        f"{MEASURED}: {what}: {undecided[selector][:200]}" for selector, what in low.items()
    ]


def _results(page: Page, scope: str | None) -> dict[str, Any]:
    """What axe-core says. It says "incomplete" about the order of headings only if the page has changed
    while it was looking, as the page of a live run does; then it looks again."""
    result: dict[str, Any] = {}
    for _ in range(TRIES):
        result = page.evaluate(
            "(scope) => axe.run(scope ?? document, {resultTypes: ['violations', 'incomplete']})", scope
        )
        if all(one["id"] != "heading-order" for one in result["incomplete"]):
            break
    return result
