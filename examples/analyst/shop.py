"""The tools of the analyst."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

SOLD = {"green": [410, 380, 450, 400, 390, 420, 440], "oolong": [150, 240, 310, 420, 530, 610, 700]}


def sales(tea: Literal["green", "oolong"], days: int = 7) -> dict[str, Any]:
    """How much of a tea was sold in the last days.

    Args:
        tea: The kind of tea.
        days: How many days to look back, at most 7.
    """
    sold = SOLD[tea][-days:]
    return {"tea": tea, "grams": sum(sold), "last_day": sold[-1]}


def order(tea: str, grams: int, idempotency_key: str, workspace: Path) -> str:
    """Order tea from the importer.

    Args:
        tea: The kind of tea.
        grams: How much of it.
    """
    # The key is the same if the call is made again after a crash, so that nothing is ordered twice.
    orders = workspace / "orders.json"
    known = json.loads(orders.read_text(encoding="utf-8")) if orders.exists() else {}
    known.setdefault(idempotency_key, {"tea": tea, "grams": grams})
    orders.write_text(json.dumps(known), encoding="utf-8")
    return f"Ordered {grams} grams of {tea}."
