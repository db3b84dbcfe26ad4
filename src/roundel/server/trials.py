"""Tries parts of a workflow on a message: conditions, processors, scores and templates.

The code is that of the engine. Python functions are not called: they are code, and only a run calls them.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct

from roundel.kernel.commands import Call
from roundel.nodes.prompt import Template
from roundel.nodes.score import Score, make_scorer
from roundel.nodes.services import NodeError
from roundel.server.text_jobs import Job
from roundel.workflow.condition import Condition, compile_condition
from roundel.workflow.diagnostics import Report
from roundel.workflow.fields import INVALID, Reader, locate_or_report
from roundel.workflow.functions import FunctionError, get_builtin
from roundel.workflow.message import Message
from roundel.workflow.policy import Policy
from roundel.workflow.processor import Processor, RegexExtract, compile_processor

Part = Literal["condition", "processor", "score", "template"]

MAX_CONFIG = 20_000
"""Characters of what is tried, as JSON."""
MAX_EXPRESSIONS = 50
"""Expressions in a template that is tried: each may take half a second."""
MAX_RESULT = 1_000_000
"""Characters of a result."""


class TryResult(Struct, frozen=True):
    """What became of it. An error is part of the answer: the text that is tried may well be wrong."""

    result: Any = None
    """condition: a truth value. score: a number, or null if there is none. template: a text. processor: the
    text and the data of the message, or null if it is dropped."""
    error: str | None = None
    """Why it did not work; null if it did."""


class _Refused(ValueError):
    """It cannot be tried; the text says why."""


class Try(Job, frozen=True, kw_only=True):
    """A part of a workflow, as it is written there, and a message to try it on."""

    kind: Part
    config: Any
    text: str = ""
    data: dict[str, Any] | None = None
    round: int = 1
    vars: dict[str, Any] = {}

    def perform(self, policy: Policy) -> bytes:
        message = Message(self.text, data=self.data)
        try:
            if len(msgspec.json.encode(self.config)) > MAX_CONFIG:
                raise _Refused(f"it has more than {MAX_CONFIG:,} characters")
            result = TryResult(_PARTS[self.kind](self, message))
        # RecursionError: data that is nested more deeply than the evaluator can follow.
        except (ValueError, NodeError, FunctionError, RecursionError) as error:
            result = TryResult(error=str(error) or type(error).__name__)
        encoded = msgspec.json.encode(result, enc_hook=str)
        if len(encoded) > MAX_RESULT:
            error_text = f"the result has more than {MAX_RESULT:,} characters"
            encoded = msgspec.json.encode(TryResult(error=error_text))
        return encoded


def _try_condition(given: Try, message: Message) -> bool:
    if given.config is None:
        return True
    condition: Condition | None = _read(given.config, Condition, "the condition")
    if condition is not None and condition.function is not None:
        _refuse_function("condition", condition.function)
    test = compile_condition(condition)
    run = {"id": "try", "input": given.text}
    return test is None or test(message, lambda: {"round": given.round, "run": run, "vars": given.vars})


def _try_processor(given: Try, message: Message) -> dict[str, Any] | None:
    processor: Processor = _read(given.config, Processor, "the processor")
    if processor.function is not None:
        _refuse_function("processor", processor.function)
    if processor.regex is not None:
        _refuse_large_result(processor.regex, given.text)
    process = compile_processor(processor)
    assert process is not None
    delivered = process(message)
    return None if delivered is None else {"text": delivered.text, "data": delivered.data}


def _refuse_large_result(extract: RegexExtract, text: str) -> None:
    """Refuses an extraction that may multiply the text: a template is written once for each match."""
    matches = len(text) + 1 if extract.multiple else 1
    template = extract.template
    if matches * len(template) + template.count("{match}") * len(text) > 20 * MAX_RESULT:
        raise _Refused("the template is too long for this text: the result could become too large")


def _try_score(given: Try, message: Message) -> int | float | None:
    score = None if given.config is None else _read(given.config, Score, "the score")
    return make_scorer(score)(message, given.round)


def _try_template(given: Try, message: Message) -> str:
    if not isinstance(given.config, str):
        raise _Refused("a template is a text")
    if given.config.count("{{") > MAX_EXPRESSIONS:
        raise _Refused(f"it has more than {MAX_EXPRESSIONS} expressions")
    return Template(given.config).render(Call("try", 0, (message,), None, 0, given.round))


_PARTS = {
    "condition": _try_condition,
    "processor": _try_processor,
    "score": _try_score,
    "template": _try_template,
}


def _read(config: Any, kind: Any, what: str) -> Any:
    """Reads a part as the loader does; `_Refused` with its errors."""
    report = Report()
    at = locate_or_report(config, report)
    found = INVALID if at is None else Reader(report).read(at, kind, what)
    if found is INVALID or not report.ok:
        raise _Refused(
            "; ".join(f"{one.message}{f' ({one.hint})' if one.hint else ''}" for one in report.errors)
        )
    return found


def _refuse_function(kind: Literal["condition", "processor"], name: str) -> None:
    """Functions of the engine are the same everywhere. All others are code, and only a run calls them."""
    if get_builtin(kind, name) is None:
        raise _Refused(f"'{name:.200}' is a Python function; it is called in a run, and cannot be tried")
