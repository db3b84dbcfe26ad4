"""`expect` of Playwright, which looks more often.

Playwright looks at a page again after 20, 50, 100 and 100 ms, and then every 500 ms: a page that is ready
after 300 ms is found ready after 770 ms. It leaves out the intervals that are longer than a fifth of the time
that it has. So each expectation here is a row of short ones, which look every 50 ms.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from playwright.sync_api import Locator, Page
from playwright.sync_api import expect as playwright_expect

__all__ = ["expect"]

TIMEOUT = 30_000
"""Milliseconds. A machine that does other things as well takes longer than the usual five seconds."""
ATTEMPT = 400
"""Milliseconds of one of the short expectations."""


class _Patient:
    """The same methods as those of Playwright."""

    def __init__(self, assertions: Any) -> None:
        self._assertions = assertions

    def __getattr__(self, name: str) -> Callable[..., None]:
        check: Callable[..., None] = getattr(self._assertions, name)

        def attempts(*arguments: Any, timeout: float = TIMEOUT, **options: Any) -> None:
            __tracebackhide__ = True
            end = time.monotonic() + timeout / 1000
            while True:
                began = time.monotonic()
                seconds = max(0.001, min(ATTEMPT / 1000, end - began))
                try:
                    return check(*arguments, timeout=seconds * 1000, **options)
                except AssertionError:
                    now = time.monotonic()
                    # One that ends early never comes true: its selector is wrong, for example.
                    if now >= end or now - began < seconds / 2:
                        raise

        return attempts


if TYPE_CHECKING:
    from playwright.sync_api import expect
else:

    def expect(actual: Page | Locator) -> Any:
        """What is expected of a page, or of a part of it, within half a minute."""
        return _Patient(playwright_expect(actual))
