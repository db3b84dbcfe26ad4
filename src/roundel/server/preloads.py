"""What the browser loads together with the document, and not only when a script asks for it.

The page is split by its addresses: a browser learns which part it needs only when the frame has run, and then
what that part needs. The server knows the address from the beginning, and the manifest of the build names its
files, so all of them are on their way at once. The entry `EARLY` also asks the API for what the
address shows, while the scripts are still loading.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

FRAME = "index.html"
EARLY = "src/early.ts"
FONT = "/inter-latin-wght-normal.woff2"
"""The font of almost all text. Without it the first paint would be laid out twice."""
HEAD_END = "</head>"
FIRST_SCRIPT = "<script"

Manifest = Mapping[str, Mapping[str, Any]]


def with_preloads(document: str, manifest: Manifest, module: str) -> str:
    """The document with links to the files that a module needs; as it is if the build does not know it."""
    known = list(_closure(manifest, FRAME))
    needed = [name for name in _closure(manifest, module) if name not in known]
    links = [_link("modulepreload", manifest[name]["file"]) for name in needed]
    links += [_link("stylesheet", file) for name in needed for file in manifest[name].get("css", ())]
    fonts = [part["file"] for name, part in manifest.items() if name.endswith(FONT)]
    links += [_link("preload", file, ' as="font" type="font/woff2"') for file in fonts]
    document = document.replace(HEAD_END, "".join(f"  {link}\n  " for link in links) + HEAD_END, 1)
    if EARLY in manifest:
        # First of all: a browser opens few connections, and answers of the API take longest.
        script = f'<script type="module" async crossorigin src="/{escape(manifest[EARLY]["file"])}"></script>'
        document = document.replace(FIRST_SCRIPT, f"{script}\n    {FIRST_SCRIPT}", 1)
    return document


def _closure(manifest: Manifest, module: str) -> Iterator[str]:
    """A module, and what it imports, each once."""
    pending = [module] if module in manifest else []
    seen = set(pending)
    for name in pending:  # grows during the iteration
        yield name
        new = [other for other in manifest[name].get("imports", ()) if other not in seen]
        seen.update(new)
        pending += new


def _link(rel: str, file: str, more: str = "") -> str:
    return f'<link rel="{rel}"{more} crossorigin href="/{escape(file)}">'
