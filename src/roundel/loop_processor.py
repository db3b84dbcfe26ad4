"""The decision of a `loop` node as a plain call, for loops that are written in Python.

    processor = LoopProcessor(max_rounds=3, exit_on_score=90)
    processor.process({"score": 91})["exit_reason"]  # "score_threshold_reached"

It shares its config and its decision with nodes/loop.py, so both decide the same. Only the count differs: a
given `iteration` is taken as it is, while a node never counts backwards.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from typing import Any, Literal

from roundel.kernel.events import stamp
from roundel.nodes.consensus import has_consensus
from roundel.nodes.loop import Config, ScoreHistory, decide_at, parse_iteration
from roundel.nodes.score import find_score, make_scorer
from roundel.workflow.diagnostics import Report, WorkflowError
from roundel.workflow.fields import INVALID, Reader, locate_or_report
from roundel.workflow.message import Message, as_message, json_text


class LoopProcessor:
    """Decides whether one loop continues. Each call of `process` is a round; a new loop needs a new
    processor.

    The settings are those of a `loop` node, and are checked as in a file: raises WorkflowError if they
    are wrong.
    """

    def __init__(
        self,
        *,
        max_rounds: int = 3,
        exit_on_score: float | None = None,
        exit_condition: Literal["max_rounds", "consensus"] = "max_rounds",
        score: str | Mapping[str, str] | None = None,
        patience: int | None = None,
        min_delta: float | None = None,
        consensus: Mapping[str, Any] | None = None,
    ) -> None:
        settings = {
            "max_rounds": max_rounds,
            "exit_on_score": exit_on_score,
            "exit_condition": exit_condition,
            "score": score,
            "patience": patience,
            "min_delta": min_delta,
            "consensus": consensus,
        }
        self._config = _read_config({name: value for name, value in settings.items() if value is not None})
        self._score_of = make_scorer(self._config.score)
        self._history = ScoreHistory()
        self._rounds_done = 0

    def process(self, input: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Returns what a `loop` node would add to the `data` of its message in this round.

        `input` may contain `iteration`, `score`, `weighted_score` and any other field of `data` that the
        expression for the score reads; `text`; and for a consensus either `consensus` (true or false) or
        `messages`: the latest message of each participant, by name. The result has `score_error` if the
        expression for the score failed.
        """
        fields = _mapping(input)
        # A given iteration is taken as it is, also a smaller one: the caller counts. No proof relies on the
        # count of a processor, unlike on that of a node.
        number = parse_iteration(fields.get("iteration")) or self._rounds_done + 1
        message = Message(json_text(fields.get("text", "")), data=fields)
        found = find_score(self._score_of, (message,), number)
        given = {"score": found.score, "consensus": self._has_consensus(fields)}
        decision = decide_at(self._config, given, self._history, number, number)
        # Only after the decision: a call that raises is not a round.
        self._rounds_done, self._history = number, decision.history
        decided = decision.fields(stamp(time.time()))
        return {**decided, "score_error": found.error} if found.error else decided

    def _has_consensus(self, fields: dict[str, Any]) -> bool:
        if "messages" not in fields:
            return fields.get("consensus") is True
        messages = fields["messages"]
        if not isinstance(messages, Mapping):
            raise TypeError(f"'messages' maps each participant to a message, and is not a {_kind(messages)}")
        latest = {str(name): as_message(message, "user") for name, message in messages.items()}
        return has_consensus(self._config.consensus, latest)


def _read_config(settings: dict[str, Any]) -> Config:
    report = Report("<python>")
    root = locate_or_report(settings, report)
    config = INVALID if root is None else Reader(report).read_struct(root, Config, "the LoopProcessor")
    if not report.ok or not isinstance(config, Config):
        raise WorkflowError(report.diagnostics)
    for found in report.diagnostics:
        warnings.warn(str(found), stacklevel=3)
    return config


def _mapping(input: Mapping[str, Any] | None) -> dict[str, Any]:
    if input is None:
        return {}
    if not isinstance(input, Mapping):
        raise TypeError(f"process() takes a mapping such as {{'score': 91}}, not a {_kind(input)}")
    return dict(input)


def _kind(value: object) -> str:
    return type(value).__name__
