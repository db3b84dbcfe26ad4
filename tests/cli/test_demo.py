"""The demo: what a newcomer sees first."""

from __future__ import annotations

import subprocess
import sys


def test_demo_without_a_terminal_completes_without_prompting() -> None:
    command = [sys.executable, "-m", "roundel", "demo"]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0
    shown = " ".join((done.stdout + done.stderr).split())
    assert "left after 4 rounds score_threshold_reached" in shown
    assert "Picked before the sun is up. Yours by four." in shown
    assert "locked: the loop goes in circles, at Ann[3]" in shown
    assert "AGREED: Thursday the 19th, at nine." in shown
    assert shown.index("locked:") < shown.index("unlocked, as this command does") < shown.index("AGREED")
