"""Events in the standard library's log, for those who have set one up.

The logger is `roundel`; a graph's `log_level` says from which level on its runs write to it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from roundel.kernel.events import Event

logger = logging.getLogger("roundel")

_LEVELS = {
    "run_started": logging.INFO,
    "run_finished": logging.INFO,
    "loop_round": logging.INFO,
    "loop_exit": logging.INFO,
    "human_input_required": logging.INFO,
    "limit_reached": logging.WARNING,
    "end_not_reached": logging.WARNING,
    "warning": logging.WARNING,
    "memory_error": logging.WARNING,
}
_NODE_LEVELS = {"completed": logging.INFO, "failed": logging.ERROR}


def event_logger(log_level: str) -> Callable[[Event], None] | None:
    """Writes events to the log; None if nobody would read them."""
    lowest = max(logging.getLevelNamesMapping()[log_level], logger.getEffectiveLevel())
    if not logger.hasHandlers():
        return None

    def write(event: Event) -> None:
        level = _level(event)
        if level >= lowest:
            logger.log(level, "%s %s %s %s", event.run_id, event.event, event.address or "", event.data)

    return write


def log_damage(error: BaseException) -> None:
    """Writes the traceback of what a step raised in its middle: a defect, of the engine or a plug-in."""
    if logger.hasHandlers():
        logger.error("a step broke off in its middle", exc_info=error)


def _level(event: Event) -> int:
    if event.event == "node_state_change":
        return _NODE_LEVELS.get(event.data["status"], logging.DEBUG)
    return _LEVELS.get(event.event, logging.DEBUG)
