"""The examples, made quick: their scripts with no delays."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import yaml

from tests.docs.manual import ROOT

EXAMPLES = ROOT / "examples"
TIMED = "timer"
"""Its loop ends by the clock, so its delays stay."""


def copy_examples(folder: Path) -> Path:
    copied = folder / "examples"
    shutil.copytree(EXAMPLES, copied, ignore=shutil.ignore_patterns("__pycache__", ".roundel"))
    for workflow in copied.glob("*/workflow.yaml"):
        if workflow.parent.name != TIMED:
            for script in workflow.parent.glob("*.yaml"):
                _make_quick(script)
    return copied


def _make_quick(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    value = yaml.safe_load(text)
    if "graph" not in value:  # a script, not a workflow
        path.write_text(
            yaml.safe_dump(_without_delays(value), allow_unicode=True, sort_keys=False), encoding="utf-8"
        )


def _without_delays(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_delays(item) for key, item in value.items() if key != "delay"}
    return [_without_delays(item) for item in value] if isinstance(value, list) else value
