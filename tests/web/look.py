"""Takes pictures of pages, to look at them: `python -m tests.web.look nested --dark --out nested.png`.

The argument is a sample (tests/web/samples.py), whose run is then shown; or a path such as `/` or
`/settings`, with runs of all samples in the store.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tests.web.samples import SAMPLES
from tests.web.site import Site


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", help="a sample or a path")
    parser.add_argument("--at", default="", help="the address in the run, such as 'Writer[2]'")
    parser.add_argument("--size", default="1440x900")
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--language", default="en-GB", help="zh-CN for Chinese")
    parser.add_argument("--wait", type=float, default=1.0, help="seconds after the page is loaded")
    parser.add_argument("--click", action="append", default=[], help="a selector to click on first")
    parser.add_argument("--press", action="append", default=[], help="a key to press first")
    parser.add_argument("--out", default="page.png")
    given = parser.parse_args()
    width, _, height = given.size.partition("x")
    with tempfile.TemporaryDirectory() as folder, Site(Path(folder)) as site:
        if given.what in SAMPLES:
            run = site.start(given.what)
            if "slow" in given.what:
                time.sleep(4)
            else:
                site.wait(run)
            path = f"/runs/{run}"
        else:
            for name in SAMPLES:
                site.start(name)
            time.sleep(3)
            path = given.what
        with site.browser() as browser:
            page = site.page(
                browser,
                viewport={"width": int(width), "height": int(height)},
                color_scheme="dark" if given.dark else "light",
                locale=given.language,
            )
            page.on("console", lambda message: print(message.type, message.text))
            page.on("pageerror", lambda error: print("error", error))
            page.goto(path + (f"#{given.at}" if given.at else ""))
            page.wait_for_timeout(given.wait * 1000)
            for selector in given.click:
                page.click(selector)
                page.wait_for_timeout(400)
            for key in given.press:
                page.keyboard.press(key)
                page.wait_for_timeout(400)
            page.screenshot(path=given.out)
            print(page.url)


if __name__ == "__main__":
    main()
