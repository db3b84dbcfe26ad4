"""The page in a browser: how fast it appears, how smoothly it moves, what it weighs. One table, each measure
with its target:

    size       JavaScript and CSS of each page, with gzip: what it loads at once (tests/web/test_build.py)
    content    when the first row of the list, and the first node of a run with 300 nodes, is drawn
    at rest    frames a second without any work: what this machine can show
    panning    frames a second while the graph of 300 nodes is moved, and the longest task
    events     the same while a run with more than 25,000 events streams; the heap after it, with the garbage
               collected
    reconnect  the first byte of a stream that continues at event 25,000
    tabs       eight tabs that all show a new run, and how long the API takes meanwhile
    editor     the same workflow in the editor: its first node, panning, and typing into its text

`roundel serve` is a process of its own and the browser is the Chromium of the system, without a GPU; both
and this process share the cores. So frames are a lower bound, and of times the best of several counts. A task
is measured by the clock: on a busy machine it also contains the time in which others had the core. The page
has to be built (`make page`).
"""

from __future__ import annotations

import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx2
import yaml
from playwright.sync_api import Browser, CDPSession, Page

from bench.drawing import workflow
from tests.web.samples import Sample
from tests.web.site import Site
from tests.web.test_build import EDITOR, FRAME, LIST, MONITOR, files_of, kilobytes

NODES = 300
ROUNDS = 10
"""Of each loop; two levels of them make more than 25,000 events."""
LOADS = 5
FAR = 25_000
TABS = 8
CALLS = 20
PAN_FRAMES = 240
WORDS = " ".join(f"word {place}" for place in range(20))
"""The conditions of the workflow look for these words, so that every node runs."""
ROW, NODE = ".runs-row", ".graph-card"
COMMENT = "# a comment that somebody writes\n"

# Notes when the first element of a kind is drawn, before any script of the page runs.
WATCH = """
new MutationObserver((_, self) => {
  if (!document.querySelector(".runs-row, .graph-card")) return;
  requestAnimationFrame(() => { window.firstContent = performance.now(); });
  self.disconnect();
}).observe(document, { childList: true, subtree: true });
"""
COUNT = """() => {
  const counted = window.counted = { frames: [], tasks: [], stop: false };
  const tick = (now) => { counted.frames.push(now); if (!counted.stop) requestAnimationFrame(tick); };
  requestAnimationFrame(tick);
  new PerformanceObserver((list) => {
    if (!counted.stop) for (const entry of list.getEntries()) counted.tasks.push(entry.duration);
  }).observe({ entryTypes: ["longtask"] });
}"""
PAN = """(frames) => new Promise((resolve) => {
  const pane = document.querySelector(".react-flow__pane");
  const viewport = document.querySelector(".react-flow__viewport");
  let moved = 0, before = viewport.style.transform, done = 0;
  const tick = () => {
    if (viewport.style.transform !== before) moved++;
    before = viewport.style.transform;
    if (done++ === frames) return resolve(moved);
    const deltaY = done % 160 < 120 ? 90 : -180;
    pane.dispatchEvent(new WheelEvent("wheel", { deltaY, bubbles: true, cancelable: true }));
    requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
})"""
COUNTED = "() => { window.counted.stop = true; return [window.counted.frames, window.counted.tasks]; }"


def sample() -> Sample:
    """Loops in loops without models, behind a person who lets the run begin."""
    described = workflow(NODES)
    graph = described["graph"]
    for node in graph["nodes"]:
        if node["type"] == "agent":
            node["type"] = "passthrough"
        elif node["type"] == "loop":
            node["config"]["max_rounds"] = ROUNDS
    graph["nodes"].append({"id": "Begin", "type": "human", "config": {"description": "Begin?"}})
    graph["edges"].append({"from": "Begin", "to": graph["start"]})
    graph["start"] = "Begin"
    text = yaml.safe_dump({"version": "0.1.0", **described, "breaker": False}, sort_keys=False)
    return Sample(text, WORDS, {})


def show(name: str, target: str, result: str, is_met: bool) -> None:
    print(f"{name:<46} {target:>14} {result:>14}  {'met' if is_met else 'MISSED'}", flush=True)


def at_most(name: str, most: float, value: float, unit: str) -> None:
    show(name, f"<= {most:g} {unit}", f"{value:,.0f} {unit}", value <= most)


def at_least(name: str, least: float, value: float, unit: str) -> None:
    show(name, f">= {least:g} {unit}", f"{value:,.0f} {unit}", value >= least)


def content(page: Page, path: str, selector: str) -> float:
    """Milliseconds until the first element of a kind is drawn."""
    page.goto(path)
    page.wait_for_selector(selector)
    # Polled from here: the content security policy forbids the polling of Playwright, which needs `eval`.
    while not page.evaluate("window.firstContent ?? 0"):
        page.wait_for_timeout(20)
    return float(page.evaluate("window.firstContent"))


def loads(site: Site, browser: Browser, path: str, selector: str) -> float:
    """The best of several loads, each in a fresh browser context."""
    found = []
    for _ in range(LOADS):
        page = site.page(browser)
        page.add_init_script(WATCH)
        found.append(content(page, path, selector))
        page.context.close()
    print(f"  first content at {', '.join(f'{one:.0f}' for one in sorted(found))} ms")
    return min(found)


def rates(page: Page) -> tuple[float, float, float]:
    """Frames a second, the longest pause between two, and the longest task, since `COUNT`."""
    frames, tasks = page.evaluate(COUNTED)
    gaps = [after - before for before, after in pairwise(frames)]
    return 1000 * len(gaps) / sum(gaps), max(gaps), max(tasks, default=0.0)


def pan(page: Page) -> None:
    """Moves the graph in every frame. Wheel steps that are sent from here would come in fewer frames the
    busier the machine is, and the page would look the smoother for it."""
    moved = page.evaluate(PAN, PAN_FRAMES)
    assert moved > 0.9 * PAN_FRAMES, f"the graph moved in only {moved} of {PAN_FRAMES} frames"


def says(page: Page, words: str) -> None:
    """Waits until a node says this to a screen reader."""
    node = page.locator("button[data-key] .hidden-text", has_text=words).first
    node.wait_for(state="attached", timeout=60_000)


def heap(session: CDPSession) -> float:
    session.send("HeapProfiler.collectGarbage")
    metrics: list[dict[str, Any]] = session.send("Performance.getMetrics")["metrics"]
    return next(float(one["value"]) for one in metrics if one["name"] == "JSHeapUsedSize")


def measure(site: Site) -> None:
    for name, module, most in (("list", LIST, 110), ("run", MONITOR, 240), ("editor", EDITOR, 420)):
        at_most(f"{name}: scripts and styles, gzip", most, kilobytes(files_of(FRAME, module)), "kB")
    run = site.start(sample())
    site.wait(run, "waiting")
    with site.browser() as browser:
        at_most("list: first row", 300, loads(site, browser, "/", ROW), "ms")
        at_most(f"run with {NODES} nodes: first node", 500, loads(site, browser, f"/runs/{run}", NODE), "ms")
        move(site, browser, run)
        stream(site, browser, run, "under events")
        reconnect(site, run)
        second = site.start(sample())
        site.wait(second, "waiting")
        stream(site, browser, second, "under events, zoomed out", zoomed_out=True)
        tabs(site, browser)
        edit(site, browser)


def move(site: Site, browser: Browser, run: str) -> None:
    page = site.page(browser)
    page.goto(f"/runs/{run}")
    page.wait_for_selector(NODE)
    page.wait_for_timeout(1000)
    page.evaluate(COUNT)
    page.wait_for_timeout(2000)
    print(f"  at rest {rates(page)[0]:.0f} frames/s")
    page.evaluate(COUNT)
    pan(page)
    smoothness("panning", 45, rates(page))
    page.context.close()


def smoothness(name: str, least: float, measured: tuple[float, float, float]) -> None:
    fps, gap, task = measured
    at_least(f"{name}: frames", least, fps, "/s")
    at_most(f"{name}: longest task", 100, task, "ms")
    print(f"  longest pause between two frames {gap:.0f} ms")


def stream(site: Site, browser: Browser, run: str, name: str, *, zoomed_out: bool = False) -> None:
    """Follows a run from its beginning to its end, with the last node in sight."""
    page = site.page(browser)
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    page.goto(f"/runs/{run}")
    page.wait_for_selector(".graph-card")
    if zoomed_out:
        page.click("button[aria-label=Fit]")
    page.keyboard.press("g")
    page.keyboard.press("End")
    says(page, "Out, passthrough, not run yet")
    page.wait_for_timeout(1000)
    nodes, before = page.locator(NODE).count(), heap(session)
    page.evaluate(COUNT)
    begin = time.monotonic()
    site.call("POST", f"/runs/{run}/answer", {"text": WORDS})
    while "Completed" not in page.title():
        page.wait_for_timeout(50)
    taken = time.monotonic() - begin
    smoothness(f"{name}, {nodes} nodes in sight", 50, rates(page))
    events = site.call("GET", f"/runs/{run}/state")["seq"]
    assert events > FAR, f"only {events} events"
    after = heap(session)
    at_most(f"{name}: heap", 80, after / 1e6, "MB")
    print(f"  {events:,} events in {taken:.1f} s; the heap is {after / before:.1f}× that before them")
    # The outline has all nodes, also those that are out of sight: none of their runs was missed.
    page.keyboard.press("o")
    says(page, f"done, {ROUNDS * ROUNDS} runs")
    says(page, "Out, passthrough, done, 1 run")
    page.context.close()


def reconnect(site: Site, run: str) -> None:
    """The best of several connections that continue near the end of a long run."""
    headers = {"authorization": f"Bearer {site.token}", "last-event-id": str(FAR)}
    taken = []
    for _ in range(CALLS):
        begin = time.perf_counter()
        with httpx2.stream("GET", f"{site.address}/api/v1/runs/{run}/events", headers=headers) as answer:
            next(answer.iter_raw())
            taken.append(1000 * (time.perf_counter() - begin))
    at_most(f"reconnect after event {FAR:,}: first byte", 100, min(taken), "ms")
    print(f"  median {statistics.median(taken):.0f} ms, worst {max(taken):.0f} ms")


def tabs(site: Site, browser: Browser) -> None:
    """Tabs of one browser, which share its few connections."""
    context = site.context(browser)
    pages = [context.new_page() for _ in range(TABS)]
    for page in pages:
        page.goto("/")
        page.wait_for_selector(".connection-live")
    run = site.start(sample())
    seen = 0
    for page in pages:
        page.bring_to_front()  # hidden tabs read the list when they are seen again
        page.wait_for_selector(f"[data-run='{run}']")
        seen += page.locator(".connection-live").count()
    show("tabs that are live", f"= {TABS}", str(seen), seen == TABS)
    read = "async () => { const t = performance.now(); await (await fetch('/api/v1/me')).json();"
    taken = [float(page.evaluate(f"{read} return performance.now() - t; }}")) for page in pages * 3]
    at_most(f"API from {TABS} tabs: median", 200, statistics.median(taken), "ms")
    context.close()


def edit(site: Site, browser: Browser) -> None:
    """The canvas and the text of a large workflow."""
    site.save("large", sample().text)
    path = "/workflows/large/edit"
    at_most(f"editor with {NODES} nodes: first node", 500, loads(site, browser, path, NODE), "ms")
    page = site.page(browser)
    page.goto(path)
    page.wait_for_selector(NODE)
    page.wait_for_timeout(2000)
    page.evaluate(COUNT)
    pan(page)
    smoothness("editor, panning", 45, rates(page))
    page.click(".cm-content")
    page.keyboard.press("Control+Home")
    page.evaluate(COUNT)
    page.keyboard.type(COMMENT, delay=60)
    page.wait_for_timeout(2000)  # the text is checked and drawn
    smoothness("editor, typing", 45, rates(page))
    page.context.close()


def report() -> None:
    print("the page in Chromium without a GPU")
    print(f"{'measure':<46} {'target':>14} {'result':>14}")
    with tempfile.TemporaryDirectory() as folder, Site(Path(folder)) as site:
        measure(site)
    print()
