"""Only one module of each language knows how addresses are written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYTHON = re.compile(
    r"""r?(find|index|partition|split)\("[/\[\].#]"\)    # address.rfind("[")
      | (starts|ends)with\("[\[\]]"
      | \+\ "/"\ *\)                                  # startswith(address + "/")
      | "[\[\]]"\ (not\ )?in\b
      | \\\[\(?(\\d|\[0-9\])                         # a pattern for the number of a round
      | "/\.""",
    re.VERBOSE,
)
OTHER_TEXTS = {
    "cli/options.py",  # keys of limits
    "cli/serve.py",  # names of modules
    "llm/addresses.py",  # of hosts
    "llm/clients.py",
    "llm/provider_messages.py",
    "llm/script.py",  # keys of scripts
    "nodes/python.py",
    "plan/overrides.py",
    "server/cursors.py",
    "server/library.py",
    "telemetry/export.py",
    "workflow/functions.py",
    "workflow/schema.py",
    "workflow/stored.py",
}
"""Modules that take other texts apart, with slashes and full stops."""
TYPESCRIPT = re.compile(
    r"""\\\[\(?\\d                                    # a pattern for the number of a round
      | (?<!text)\.(lastIndexOf|indexOf|split|endsWith|includes)\("[\[\]]"\)
      | ddress[a-z.]*\.(lastIndexOf|indexOf|split)\("[/.#]"\)
      | startsWith\(`\$\{(at|round|address)\}""",
    re.VERBOSE,
)
MAY_PARSE = {
    "workflow/address.py",
    *OTHER_TEXTS,
    "live/address.ts",
    "live/address_parts.ts",
    "graph/testing.ts",
}


def lines_that_parse(folder: Path, suffixes: tuple[str, ...], found: re.Pattern[str]) -> list[str]:
    return [
        f"{path.relative_to(folder)}:{number}: {line.strip()}"
        for path in sorted(folder.rglob("*"))
        if path.suffix in suffixes and path.relative_to(folder).as_posix() not in MAY_PARSE
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if found.search(line)
    ]


def test_python_takes_addresses_apart_in_one_module() -> None:
    assert not lines_that_parse(ROOT / "src" / "roundel", (".py",), PYTHON)


def test_typescript_takes_addresses_apart_in_one_module() -> None:
    found = lines_that_parse(ROOT / "web" / "src", (".ts", ".tsx"), TYPESCRIPT)
    assert not [line for line in found if ".test.ts" not in line]


@pytest.mark.parametrize(
    "line",
    [
        'stem = address[: address.rfind("[")]',
        'node = address.rpartition("/")[2]',
        'around = address.split("/")',
        '_ROUND = re.compile(r"(.+)\\[([0-9]+)\\]")',
        '_ROUND = re.compile(r"^(.*)\\[(\\d+)\\]")',
        'if address.endswith("]"):',
        'any(other.startswith(address + "/") for other in active)',
        'if "[" in address:',
    ],
)
def test_what_would_be_found(line: str) -> None:
    assert PYTHON.search(line)
