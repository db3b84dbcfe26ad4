"""Runs the tests against a mutant, in a copy of the project."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

from msgspec import Struct

from tests.mutation.mutant import Mutant

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src"
TESTS = ("tests/kernel", "tests/plan", "tests/conformance")
OPTIONS = (
    "-x",
    "-q",
    "-n0",
    "--no-header",
    "--tb=line",
    "-p",
    "no:cacheprovider",
    "-p",
    "tests.mutation.plugin",
)
LONGEST = 5.0
"""Tests that took more seconds are left out: the largest random sweeps, while their lines are noted."""
SECONDS_A_TEST = 60
"""A test that takes longer has met an endless loop."""
SECONDS = 900
"""For all tests of one mutant."""
MEMORY = 4 << 30
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


class Verdict(Struct, frozen=True):
    killed: bool
    by: str
    """The first test that failed, or what else went wrong."""


class Trials:
    """Tries mutants one after the other in a copy of the project, which may be worked on meanwhile."""

    def __init__(self, folder: Path, longest: float = LONGEST) -> None:
        self._folder, self._sources = folder, folder / "src"
        self._longest = longest
        for name in ("src", "tests", "docs", "examples"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)

    def note(self, into: Path) -> None:
        """Which tests execute which lines; RuntimeError if one of them fails without any mutant."""
        done = self._run({"MUTATION_NOTE": str(into)}, None)
        if done is None or done.returncode:
            raise RuntimeError("the tests fail without any mutant:\n" + (done.stdout if done else "too slow"))

    def try_out(self, mutant: Mutant, notes: Path) -> Verdict:
        place = self._sources / mutant.path
        original = place.read_bytes()
        first, last = mutant.lines
        self._write(place, mutant.source.encode())
        try:
            line = f"{mutant.path}:{first}:{last}"
            wanted = {"MUTATION_NOTES": str(notes), "MUTATION_LINE": line}
            done = self._run({**wanted, "MUTATION_LONGEST": str(self._longest)}, SECONDS)
        finally:
            self._write(place, original)
        if done is None:
            return Verdict(True, "out of time")
        if not done.returncode:
            return Verdict(False, "")
        if "Timeout (" in done.stderr:
            return Verdict(True, "a test that does not end")
        failed = _FAILED.search(done.stdout)
        return Verdict(True, failed[1] if failed else (done.stdout + done.stderr).strip()[-300:])

    def _write(self, place: Path, source: bytes) -> None:
        place.write_bytes(source)
        # Python takes bytecode for current if time and size agree, and a mutant may have both.
        for compiled in place.parent.joinpath("__pycache__").glob(f"{place.stem}.*.pyc"):
            compiled.unlink()

    def _run(self, extra: dict[str, str], seconds: float | None) -> subprocess.CompletedProcess[str] | None:
        """None if it took too long."""
        command = [sys.executable, "-m", "pytest", *OPTIONS, "-o", f"faulthandler_timeout={SECONDS_A_TEST}"]
        with subprocess.Popen(
            [*command, *TESTS],
            cwd=self._folder,
            env={**os.environ, **extra, "PYTHONPATH": str(self._sources)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=_bound,  # noqa: PLW1509, there are no threads here
            start_new_session=True,
        ) as process:
            try:
                out, err = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.communicate()
                return None
        return subprocess.CompletedProcess(command, process.returncode, out, err)


def _bound() -> None:
    """An endless loop that gathers things must not take the whole machine."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
