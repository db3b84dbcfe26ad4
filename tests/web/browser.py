"""Where the browser of the system is."""

from __future__ import annotations

import os
import shutil

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first one found is used. The headless shell is Chromium without its windows: it starts in a third of
the time."""


def find_browser() -> str | None:
    """The Chromium of the system, or the one that ROUNDEL_CHROMIUM names; None if there is none."""
    for name in (os.environ.get("ROUNDEL_CHROMIUM", ""), *NAMES):
        found = shutil.which(name) if name else None
        if found is not None:
            return found
    return None
