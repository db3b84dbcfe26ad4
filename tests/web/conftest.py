"""What the tests of the page share: a server, a browser, and pages that must not log errors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.web.pages import Pages
from tests.web.site import Site


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One server for all tests that look only at what they have made themselves.

    A module whose tests look at lists of everything has a `site` of its own.
    """
    with Site(tmp_path_factory.mktemp("site")) as made:
        yield made


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with Site.browser() as made:
        yield made


@pytest.fixture
def pages(site: Site, browser: Browser) -> Iterator[Pages]:
    made = Pages(site, browser)
    yield made
    made.close()


@pytest.fixture
def page(pages: Pages) -> Page:
    return pages.open()
