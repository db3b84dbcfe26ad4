"""Code that agents wrote, run as a program of its own with a time limit."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from roundel.nodes.services import NodeError
from roundel.workflow.functions import FAILED_CODE, processor
from roundel.workflow.message import Message

if TYPE_CHECKING:
    import asyncio

FENCE = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)
_FILE_BLOCK = re.compile(r"^[`*# ]*([\w./-]+\.\w+)[`*: ]*\n+```[^\n`]*\n(.*?)```", re.DOTALL | re.MULTILINE)
SAVED_CODE_TIMEOUT = 3


class ProgramResult(Struct, frozen=True):
    exit_code: int | None
    """None if it was stopped for taking too long."""
    out: str
    err: str

    def format_output(self) -> str:
        if self.exit_code == 0:
            return self.out
        return f"{FAILED_CODE}\n{self.err}" + (f"\n{self.out}" if self.out else "")


async def run_program(
    command: Sequence[str], folder: Path, seconds: float, encoding: str = "utf-8", env: Mapping[str, str] = {}
) -> ProgramResult:
    import asyncio

    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=folder,
            env={**os.environ, "PYTHONIOENCODING": encoding, **env},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise NodeError(f"cannot start '{command[0]}': {error}") from None
    try:
        out, err = await asyncio.wait_for(process.communicate(), seconds)
        return ProgramResult(
            process.returncode, out.decode(encoding, "replace"), err.decode(encoding, "replace")
        )
    except TimeoutError:
        return ProgramResult(None, "", f"no end after {seconds:g} seconds")
    finally:
        await _kill_process(process)


async def _kill_process(process: asyncio.subprocess.Process) -> None:
    """Nothing that the program started goes on after it."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


@processor("code_save_and_run")
async def save_and_run(message: Message, workspace: Path) -> str:
    """Writes the files that a message holds, runs main.py, and adds what came of it to the message."""
    if not _save_files(message.text, workspace):
        return f"{message.text}\n\n{FAILED_CODE}\nthe message holds no main.py"
    result = await run_program((sys.executable, "main.py"), workspace, SAVED_CODE_TIMEOUT)
    return f"{message.text}\n\n{result.format_output()}"


def _save_files(text: str, workspace: Path) -> bool:
    _clear_workspace(workspace)
    for name, code in _FILE_BLOCK.findall(text):
        path = (workspace / name).resolve()
        if not path.is_relative_to(workspace.resolve()):
            raise NodeError(f"the file name '{name}' leads out of the run's folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code, encoding="utf-8")
    return (workspace / "main.py").is_file()


def _clear_workspace(workspace: Path) -> None:
    import shutil

    for path in workspace.iterdir():
        if path.name == "attachments":
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
