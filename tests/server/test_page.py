"""The files of the web page, as the server sends them; tests/web is about what the page does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roundel.server.routes import page
from roundel.server.security import HEADERS
from tests.server.api import Server, serving


def story(work: Callable[[Server], Any]) -> None:
    async def tell() -> None:
        async with serving() as server:
            await work(server)

    asyncio.run(tell())


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "page"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html><title>Roundel</title>")
    (folder / "theme.js").write_text("// dark or light")
    (folder / "assets" / "index-1a2b.js").write_text("console.log('page')")
    (tmp_path / "secret.txt").write_text("swordfish")
    files = page.page_files(folder)
    monkeypatch.setattr(page, "page_files", lambda: files)
    return folder


@pytest.mark.usefixtures("built")
def test_every_address_of_the_page_is_the_same_document() -> None:
    async def work(server: Server) -> None:
        anyone = await server.anyone()
        for place in (
            "/",
            "/runs/5b1c",
            "/runs/5b1c/compare/77aa",
            "/workflows",
            "/workflows/a",
            "/settings",
        ):
            answer = await anyone.get(place)
            assert answer.status_code == 200 and "<title>Roundel</title>" in answer.text, place
            assert answer.headers["content-type"].startswith("text/html")
            assert answer.headers["cache-control"] == "no-cache"
            for name, value in HEADERS.items():
                assert answer.headers[name] == value
            again = await anyone.get(place, headers={"if-none-match": answer.headers["etag"]})
            assert again.status_code == 304 and not again.content

    story(work)


@pytest.mark.usefixtures("built")
def test_assets_are_kept_by_browsers_and_sent_compressed() -> None:
    async def work(server: Server) -> None:
        anyone = await server.anyone()
        answer = await anyone.get("/assets/index-1a2b.js", headers={"accept-encoding": "gzip"})
        assert answer.text == "console.log('page')" and "immutable" in answer.headers["cache-control"]
        assert answer.headers["content-encoding"] == "gzip"
        assert answer.headers["content-type"].startswith("text/javascript")
        plain = await anyone.get("/assets/index-1a2b.js", headers={"accept-encoding": "identity"})
        assert "content-encoding" not in plain.headers and plain.text == answer.text
        assert (await anyone.get("/theme.js")).text == "// dark or light"

    story(work)


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize(
    "path",
    ["/assets/nothing.js", "/assets/..%2findex.html", "/assets/%2e%2e%2f%2e%2e%2fsecret.txt", "/index.html"],
)
def test_nothing_else_is_a_file(path: str) -> None:
    async def work(server: Server) -> None:
        answer = await (await server.anyone()).get(path)
        assert answer.status_code == 404 and "swordfish" not in answer.text

    story(work)


def test_an_installation_without_the_page_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "page_files", dict)

    async def work(server: Server) -> None:
        text = (await (await server.anyone()).get("/")).text
        assert "/api/v1/openapi.json" in text and "make page" in text

    story(work)


def test_a_document_names_what_its_address_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    font = "node_modules/inter/files/inter-latin-wght-normal.woff2"
    manifest = {
        "index.html": {"file": "assets/index-1a2b.js", "imports": ["_frame.js"]},
        "_frame.js": {"file": "assets/frame-3c4d.js", "css": ["assets/frame-5e6f.css"]},
        "_chart.js": {"file": "assets/chart-7a8b.js", "imports": ["_frame.js"]},
        "src/early.ts": {"file": "assets/early-9c0d.js"},
        "src/pages/run/RunPage.tsx": {
            "file": "assets/RunPage-1e2f.js",
            "css": ["assets/RunPage-3a4b.css"],
            "imports": ["_frame.js", "_chart.js", "index.html"],
        },
        font: {"file": "assets/inter-latin-5c6d.woff2"},
    }
    document = '<head><script src="/theme.js"></script></head>'
    (tmp_path / "index.html").write_text(document)
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    files = page.page_files(tmp_path)
    monkeypatch.setattr(page, "page_files", lambda: files)

    async def work(server: Server) -> None:
        anyone = await server.anyone()
        run = (await anyone.get("/runs/5b1c")).text
        for link in (
            '<link rel="modulepreload" crossorigin href="/assets/RunPage-1e2f.js">',
            '<link rel="modulepreload" crossorigin href="/assets/chart-7a8b.js">',
            '<link rel="stylesheet" crossorigin href="/assets/RunPage-3a4b.css">',
            '<link rel="preload" as="font" type="font/woff2" crossorigin '
            'href="/assets/inter-latin-5c6d.woff2">',
        ):
            assert run.count(link) == 1, link
        # The build itself names what every address needs.
        assert "frame-" not in run and "index-" not in run
        assert run.index("early-9c0d.js") < run.index("theme.js")
        assert "RunPage" not in (await anyone.get("/settings")).text
        assert (await anyone.get("/manifest.json")).status_code == 404

    story(work)
