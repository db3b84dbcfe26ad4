"""Makes sure that there is a Chromium for the tests of the web page: installs it with apt where that is
possible, and explains what to do where it is not. It never fails: the tests that need a browser say so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from tests.web.browser import find_browser

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
    return shutil.which("sudo") is not None and _works("sudo", "-n", "true")


def _install() -> bool:
    prefix = () if os.geteuid() == 0 else ("sudo", "-n")
    quiet = ("-y", "-qq", "--no-install-recommends")
    install = (*prefix, "apt-get", "install", *quiet)
    if not _works(*prefix, "apt-get", "update", "-qq"):
        return False
    return any(_works(*install, browser, *PACKAGES) for browser in BROWSERS)


def _works(*command: str) -> bool:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout[-2000:], done.stderr[-2000:], sep="\n", file=sys.stderr)
    return done.returncode == 0


if __name__ == "__main__":
    main()
