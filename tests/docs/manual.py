"""Reads the manual: its blocks, its sections, its tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))

_BLOCK = re.compile(
    r"^(?P<fence>```+)(?P<kind>\w*)[^\n]*\n(?P<text>.*?)^(?P=fence)$", re.MULTILINE | re.DOTALL
)
_HEADING = re.compile(r"^#{1,6} +(?P<title>.+?) *$", re.MULTILINE)
_FILE = re.compile(r"# file: (?P<name>\S+)\n")
_DRAWN = re.compile(r"<!-- \$ (?P<command>[^\n]+) -->\s*")


class Block(NamedTuple):
    kind: str
    text: str
    line: int
    command: str
    """The command in a comment above the block, which prints what is in it."""

    @property
    def file(self) -> str:
        """The name of the file that it is; empty if it is none."""
        found = _FILE.match(self.text)
        return found["name"] if found else ""


class Example(NamedTuple):
    """A command as it is typed, and what it prints."""

    command: str
    output: str


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        above = text[: found.start()]
        comment = re.search(_DRAWN.pattern + r"\Z", above)
        yield Block(
            found["kind"], found["text"], above.count("\n") + 2, comment["command"] if comment else ""
        )


def examples(console: str) -> Iterator[Example]:
    for part in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
        command, _, output = part.replace("\\\n", "").partition("\n")
        yield Example(command, output)


def without_blocks(page: Path) -> str:
    """The prose, with blank lines where blocks were."""
    return _BLOCK.sub(lambda found: "\n" * found[0].count("\n"), page.read_text(encoding="utf-8"))


def sections(page: Path) -> dict[str, str]:
    """What stands under each heading, up to the next, without code marks in the heading."""
    text = without_blocks(page)
    found = list(_HEADING.finditer(text))
    ends = [heading.start() for heading in found[1:]] + [len(text)]
    return {
        heading["title"].replace("`", ""): text[heading.end() : end]
        for heading, end in zip(found, ends, strict=True)
    }


def rows(section: str) -> list[list[str]]:
    """The rows of the tables in a section, without their headings."""
    found = []
    for line in section.splitlines():
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if line.startswith("|") and not set(line) <= set("|-: "):
            found.append(cells)
        elif line.startswith("|"):
            found.pop()  # the row above the rule is the heading
    return found


def code(cell: str) -> list[str]:
    """The words in code marks."""
    return re.findall(r"`([^`]+)`", cell)


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives to headings."""
    titles = (found["title"] for found in _HEADING.finditer(without_blocks(page)))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
