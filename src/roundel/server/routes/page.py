"""The web page: the files that `make` builds from web/, which the wheel contains.

All of them are read once and kept, with a compressed copy: together they have less than two megabytes. Files
under `/assets` have a digest in their names and never change; the others are asked for again each time. Each
address of the page itself, such as `/runs/5b1c8e0f2a7d`, is answered with the same document, which then shows
what the address says; only the links differ that tell the browser what this address will need
(`roundel.server.preloads`).
"""

from __future__ import annotations

import gzip
import hashlib
import json
import mimetypes
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Request
from msgspec import Struct
from starlette.responses import PlainTextResponse, Response

from roundel.server.admission import Route
from roundel.server.preloads import with_preloads
from roundel.server.problems import not_found

router = APIRouter(include_in_schema=False, route_class=Route)
FOLDER = Path(__file__).parents[1] / "page"
NOT_BUILT = (
    "Roundel is running. Its API is described at /api/v1/openapi.json.\n"
    "This installation has no web page: in a clone of the project, `make page` builds it.\n"
)
DOCUMENT = "index.html"
MANIFEST = "manifest.json"
PLACES = {
    "/": "src/pages/runs/RunsPage.tsx",
    "/runs/{run_id}": "src/pages/run/RunPage.tsx",
    "/runs/{run_id}/compare/{other_id}": "src/pages/compare/ComparePage.tsx",
    "/runs/{rest:path}": "",
    "/workflows/new": "src/pages/editor/EditorPage.tsx",
    "/workflows/{name}/edit": "src/pages/editor/EditorPage.tsx",
    "/workflows{rest:path}": "src/pages/workflows/WorkflowsPage.tsx",
    "/memory": "src/pages/memory/MemoryPage.tsx",
    "/audit": "src/pages/audit/AuditPage.tsx",
    "/settings": "src/pages/settings/SettingsPage.tsx",
}
"""The addresses of the page itself, each with the module that shows it (web/src/app/App.tsx)."""
COMPRESSED = (".html", ".js", ".css", ".svg")
FOREVER = "public, max-age=31536000, immutable"
ASK_AGAIN = "no-cache"


class PageFile(Struct, frozen=True):
    """A file of the page, in memory."""

    body: bytes
    compressed: bytes | None
    media_type: str
    etag: str
    caching: str


@cache
def page_files(folder: Path = FOLDER) -> dict[str, PageFile]:
    """All files of the page by their paths, and its document by each place; empty if it is not built."""
    files = {
        path.relative_to(folder).as_posix(): _file(path, path.read_bytes(), folder)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    if DOCUMENT in files:
        manifest = json.loads(files[MANIFEST].body) if MANIFEST in files else {}
        document = files[DOCUMENT].body.decode()
        for place, module in PLACES.items():
            body = with_preloads(document, manifest, module).encode()
            files[place] = _file(folder / DOCUMENT, body, folder)
    return files


def _file(path: Path, body: bytes, folder: Path) -> PageFile:
    return PageFile(
        body,
        gzip.compress(body, mtime=0) if path.suffix in COMPRESSED else None,
        mimetypes.guess_type(path.name)[0] or "application/octet-stream",
        f'"{hashlib.sha256(body).hexdigest()[:16]}"',
        FOREVER if path.parent == folder / "assets" else ASK_AGAIN,
    )


def _respond(request: Request, name: str) -> Response:
    file = page_files().get(name)
    if file is None:
        raise not_found()
    headers = {"cache-control": file.caching, "etag": file.etag, "vary": "accept-encoding"}
    if request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=headers)
    body = file.body
    if file.compressed is not None and "gzip" in request.headers.get("accept-encoding", ""):
        body = file.compressed
        headers["content-encoding"] = "gzip"
    return Response(body, media_type=file.media_type, headers=headers)


def _document(place: str) -> Callable[[Request], Awaitable[Response]]:
    async def get_page(request: Request) -> Response:
        """The document of the page."""
        if DOCUMENT not in page_files():
            return PlainTextResponse(NOT_BUILT)
        return _respond(request, place)

    return get_page


for place in PLACES:
    router.add_api_route(place, _document(place))


@router.get("/assets/{name}")
async def get_asset(request: Request, name: str) -> Response:
    return _respond(request, f"assets/{name}")


@router.get("/favicon.svg")
@router.get("/theme.js")
async def get_file(request: Request) -> Response:
    return _respond(request, request.url.path.removeprefix("/"))
