"""Commands as a user without special rights: nothing is forbidden to root."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

NOBODY = 65534
AS_OTHER_USER = f"""
import codecs, os, shutil, sys, tempfile
from pathlib import Path
from click.testing import CliRunner
from roundel.cli import cli

store, arguments = Path(sys.argv[1]), sys.argv[2:]
with tempfile.TemporaryDirectory() as folder:  # imports what the command needs, while that may be read
    if os.path.isfile(store):
        shutil.copy(store, folder)
    CliRunner().invoke(cli, [*arguments, "--store", os.path.join(folder, store.name)])
codecs.lookup("ascii")
if os.getuid() == 0:
    os.setgroups([])
    os.setgid({NOBODY})
    os.setuid({NOBODY})
cli.main([*arguments, "--store", str(store)])
"""


def roundel_as_other_user(store: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command with `--store`, in a process of its own."""
    command = [sys.executable, "-c", AS_OTHER_USER, str(store), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tempfile.gettempdir(), timeout=120
    )
