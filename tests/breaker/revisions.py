"""Lively series from real revisions: successive versions of this project's own files, as git has them, and
the edits between them one by one.

The history ends at a fixed commit, so that the series are the same in every later clone.
"""

from __future__ import annotations

import difflib
import re
import subprocess
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from tests.breaker.series import Series, alone, discussed, reviewed

ROOT = Path(__file__).parents[2]
LAST = "3595836"
VERSIONS = 7
FUNCTION_VERSIONS = 4
MOST_EDITS = 40
"""Of a large commit so many edits are made."""
KINDS = (".py", ".md", ".yaml", ".yml", ".json", ".toml")
_FUNCTION = re.compile(r"^(?:async )?def (\w+)\(.*?(?=^\S|\Z)", re.MULTILINE | re.DOTALL)


def git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode:
        raise RuntimeError(
            f"git {arguments[0]} failed: {done.stderr.strip()}; the series need the project's history up to "
            f"{LAST} (in a shallow clone: git fetch --unshallow)"
        )
    return done.stdout


@lru_cache(1)
def versions() -> dict[str, list[str]]:
    """The texts of each file that was changed often enough, in order."""
    commits: dict[str, list[str]] = {}
    commit = ""
    for line in git("log", "--first-parent", "--reverse", "--format=@%H", "--name-only", LAST).splitlines():
        if line.startswith("@"):
            commit = line[1:]
        elif line.endswith(KINDS):
            commits.setdefault(line, []).append(commit)
    wanted = [(path, one) for path, ids in commits.items() if len(ids) >= VERSIONS for one in ids]
    found: dict[str, list[str]] = {}
    for (path, _), text in zip(wanted, _contents([f"{one}:{path}" for path, one in wanted]), strict=True):
        texts = found.setdefault(path, [])
        if text and (not texts or texts[-1] != text):
            texts.append(text)
    return found


def _contents(names: list[str]) -> Iterator[str]:
    """What git has under these names; empty where a file was deleted."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), "cat-file", "--batch"],
        input="".join(f"{name}\n" for name in names).encode(),
        capture_output=True,
        check=True,
    )
    data, at = done.stdout, 0
    for _ in names:
        end = data.index(b"\n", at)
        header = data[at:end].split()
        at = end + 1
        if header[-1] == b"missing":
            yield ""
            continue
        size = int(header[-1])
        yield data[at : at + size].decode("utf-8", "replace")
        at += size + 1


def windows(texts: list[str], size: int) -> Iterator[list[str]]:
    """Successive versions, unless two in a row differ from an earlier one by numbers alone."""
    for start in range(len(texts) - size + 1):
        window = texts[start : start + size]
        plain = [_coarse(text) for text in window]
        known = [plain[place] in plain[:place] for place in range(size)]
        if not any(one and other for one, other in pairwise(known)):
            yield window


def _coarse(text: str) -> str:
    return " ".join(re.sub(r"\S*\d\S*", "0", text.lower()).split())


def revisions() -> Iterator[Series]:
    """Whole files, their changes and their functions; a writer alone, or with reviewers of two kinds."""
    for path, texts in versions().items():
        for number, window in enumerate(windows(texts, VERSIONS)):
            name = f"{path} {number}"
            yield Series("file, alone", name, alone(window))
            yield Series("file, the same comment", name, reviewed(window))
            yield Series("file, distinct comments", name, discussed(window))
            yield Series("diff", name, reviewed([_diff(*pair) for pair in pairwise(window)]))
        if path.endswith(".py"):
            yield from _functions(path, texts)
        for number, (before, after) in enumerate(pairwise(texts)):
            yield from _edits(f"{path} {number}", before.splitlines(), after.splitlines())


def _edits(name: str, before: list[str], after: list[str]) -> Iterator[Series]:
    """A commit, made edit by edit: the same line may change in many places, or the numbers in many lines."""
    texts = ["\n".join(before)]
    done: list[str] = []
    reached = 0
    for start, end, new in _single_edits(before, after):
        done += [*before[reached:start], *new]
        reached = end
        texts.append("\n".join([*done, *before[reached:]]))
    for start in range(0, min(len(texts) - VERSIONS, MOST_EDITS) + 1, 3):
        window = texts[start : start + VERSIONS]
        yield Series("edit by edit, alone", f"{name} {start}", alone(window))
        yield Series("edit by edit, the same comment", f"{name} {start}", reviewed(window))


def _single_edits(before: list[str], after: list[str]) -> Iterator[tuple[int, int, list[str]]]:
    """What is replaced by what; line by line, where so many lines replace as many others."""
    for tag, a, b, c, d in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "replace" and b - a == d - c:
            yield from ((a + line, a + line + 1, [after[c + line]]) for line in range(b - a))
        elif tag != "equal":
            yield a, b, after[c:d]


def _diff(before: str, after: str) -> str:
    return "".join(difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True)))


def _functions(path: str, texts: list[str]) -> Iterator[Series]:
    history: dict[str, list[str]] = {}
    for text in texts:
        for found in _FUNCTION.finditer(text):
            versions = history.setdefault(found[1], [])
            if not versions or versions[-1] != found[0]:
                versions.append(found[0])
    for name, versions in history.items():
        for number, window in enumerate(windows(versions, FUNCTION_VERSIONS)):
            yield Series("function", f"{path} {name} {number}", reviewed(window))
