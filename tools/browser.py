"""Makes sure that there is a Chromium for the tests of the web page: installs it with apt where that is
possible, and explains what to do where it is not. It never fails: the tests that need a browser say so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.web.browser import find_browser

QUIETLY = Path(__file__).with_name("quietly.sh")
PACKAGES = ("fonts-noto-cjk",)
BROWSERS = ("chromium-headless-shell", "chromium")
"""Older systems have no package of the headless shell alone."""
HELP = (
    "No Chromium was found, so the tests of the web page are skipped. Install it (Debian: `apt-get install "
    "chromium-headless-shell fonts-noto-cjk`), or set ROUNDEL_CHROMIUM to the path of one."
)


def main() -> None:
    if find_browser() is not None:
        return
    if shutil.which("apt-get") is not None and (os.geteuid() == 0 or _may_sudo()):
        print("== chromium, with apt-get", flush=True)
        if _install():
            return
    print(HELP, file=sys.stderr)


def _may_sudo() -> bool:
    if shutil.which("sudo") is None:
        return False
    return subprocess.run(("sudo", "-n", "true"), capture_output=True, check=False).returncode == 0


def _install() -> bool:
    prefix = () if os.geteuid() == 0 else ("sudo", "-n")
    if not _works(*prefix, "apt-get", "update"):
        return False
    browser = next(filter(_is_known, BROWSERS), BROWSERS[-1])
    return _works(*prefix, "apt-get", "install", "-y", "--no-install-recommends", browser, *PACKAGES)


def _is_known(package: str) -> bool:
    return subprocess.run(("apt-cache", "show", package), capture_output=True, check=False).returncode == 0


def _works(*command: str) -> bool:
    """Runs the command; shows progress, and its output only if it fails."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run(("sh", QUIETLY, *command), env=environment, check=False).returncode == 0


if __name__ == "__main__":
    main()
