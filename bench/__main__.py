"""Runs the benchmarks: all of them, or those that are named (`python -m bench cycle journal`)."""

import argparse
from collections.abc import Callable

from bench import (
    breaker,
    check,
    cycle,
    drawing,
    guards,
    journal,
    loop_agent,
    model_call,
    modules,
    page,
    path,
    requests,
    server,
    start,
    streams,
)

REPORTS: dict[str, Callable[[], object]] = {
    "cycle": cycle.report,
    "guards": guards.report,
    "loop_agent": loop_agent.report,
    "journal": journal.report,
    "model_call": model_call.report,
    "modules": modules.report,
    "streams": streams.report,
    "requests": requests.report,
    "server": server.report,
    "page": page.report,
    "path": path.report,
    "start": start.report,
    "check": check.report,
    "drawing": drawing.report,
    "breaker": breaker.report,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(REPORTS)}")
    names = parser.parse_args().names
    unknown = [name for name in names if name not in REPORTS]
    if unknown:
        parser.error(f"there is no benchmark '{unknown[0]}'; there are {', '.join(REPORTS)}")
    for name in names or REPORTS:
        REPORTS[name]()


if __name__ == "__main__":
    main()
