"""Pages of a browser that must not log errors."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Page

from tests.web.expectations import expect
from tests.web.site import Site


class Pages:
    """Opens pages, and collects what they log as an error and the exceptions that they do not catch."""

    def __init__(self, site: Site, browser: Browser) -> None:
        self._site, self._browser = site, browser
        self._opened: list[Page] = []
        self._errors: list[str] = []
        self.refusals: set[int] = set()
        """The statuses with which the server refuses requests in this test. Browsers log each as an error."""

    def open(self, path: str = "", *, role: str = "", **options: Any) -> Page:
        """A page of its own browser profile, signed in as an administrator or with another role."""
        token = self._site.token_for(role) if role else ""
        page = self._site.page(self._browser, token=token, **options)
        self._opened.append(page)
        page.on("console", self._on_message)
        page.on("pageerror", lambda error: self._errors.append(str(error)))
        if path:
            page.goto(path)
        return page

    def _on_message(self, message: ConsoleMessage) -> None:
        refused = re.search(r"responded with a status of (\d+)", message.text)
        if message.type == "error" and not (refused and int(refused[1]) in self.refusals):
            self._errors.append(message.text)

    def close(self) -> None:
        """Closes all pages; fails if one has logged an error."""
        for page in self._opened:
            page.context.close()
        assert not self._errors, self._errors


def settle(page: Page) -> None:
    """Waits until a page has all its parts and fonts, and has not changed for a moment. Pages of live runs
    never rest: they get 600 ms."""
    page.wait_for_load_state("load")
    expect(page.locator(".loading:visible")).to_have_count(0)
    if page.locator(".graph-canvas:visible").count():
        expect(page.locator(".graph-canvas .graph-card").first).to_be_attached()
    page.evaluate(
        """() => document.fonts.ready.then(() => new Promise((done) => {
            let pause = setTimeout(done, 200);
            new MutationObserver(() => {
                clearTimeout(pause);
                pause = setTimeout(done, 200);
            }).observe(document, {subtree: true, childList: true, characterData: true, attributes: true});
            setTimeout(done, 600);
        }))"""
    )
