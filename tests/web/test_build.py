"""The built page: what is in it, and how large it is."""

from __future__ import annotations

import gzip
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hatchling.builders.wheel import WheelBuilder

from roundel.server.routes.page import FOLDER
from tests.web.site import ROOT

FRAME = "index.html"
LIST, MONITOR = "src/pages/runs/RunsPage.tsx", "src/pages/run/RunPage.tsx"
EDITOR = "src/pages/editor/EditorPage.tsx"


def manifest() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / "manifest.json").read_text())
    return found


def files_of(*entries: str) -> set[str]:
    """The scripts and styles that a page loads at once.

    What loads only when it is needed is not among them: for a run its dialogs, and the panes for runs that
    are locked, wait for a person, are debugged or have failed.
    """
    parts = manifest()
    pending, seen = list(entries), set(entries)
    files: set[str] = set()
    for name in pending:  # grows during the iteration
        part = parts[name]
        files |= {part["file"], *part.get("css", ())}
        for other in part.get("imports", []):
            if other not in seen:
                seen.add(other)
                pending.append(other)
    return files


def kilobytes(files: set[str]) -> float:
    return sum(len(gzip.compress((FOLDER / name).read_bytes(), 9)) for name in files) / 1000


@pytest.mark.parametrize(("page", "most"), [(LIST, 110), (MONITOR, 240), (EDITOR, 420)])
def test_pages_stay_small(page: str, most: int) -> None:
    size = kilobytes(files_of(FRAME, page))
    assert size <= most, f"{page}: {size:.1f} kB of scripts and styles, compressed"


def test_the_wheel_contains_the_page(tmp_path: Path) -> None:
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    names = set(zipfile.ZipFile(wheel).namelist())
    for file in FOLDER.rglob("*"):
        if file.is_file():
            assert f"roundel/{file.relative_to(ROOT / 'src' / 'roundel').as_posix()}" in names
    assert "roundel/server/page/index.html" in names


def test_the_page_loads_nothing_from_elsewhere() -> None:
    document = (FOLDER / "index.html").read_text()
    assert "<style" not in document and not re.search(r"<script(?![^>]*\bsrc=)", document)
    for file in FOLDER.rglob("*.css"):
        assert not re.search(r"url\((?!/assets/|data:image/svg)", file.read_text()), file.name
