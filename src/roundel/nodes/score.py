"""Find the score of a round: in fields, in JSON, by an expression or by a pattern."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from roundel.nodes.services import NodeError
from roundel.nodes.structured_output import json_objects
from roundel.workflow.condition import check_expression
from roundel.workflow.description import Description, Field, Short
from roundel.workflow.document import Located
from roundel.workflow.expression import Expression, ExpressionError
from roundel.workflow.fields import INVALID, Reader
from roundel.workflow.message import Message
from roundel.workflow.pattern import Pattern, PatternError, check_pattern, compile_pattern

Number = int | float
SCORE_VARIABLES = ("text", "data", "round")
"""The variables of an expression for a score."""

_KEYS = ("score", "weighted_score")
_MAX_NUMBER_LENGTH = 40
"""Characters of a number that is given as text; longer text is no score."""


class Score(Struct, frozen=True, omit_defaults=True):
    """Where a message has its score: a CEL expression, or `{regex: …}` with one group."""

    expression: str = ""
    regex: str = ""

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="score",
            en=("Score", "How to find the score of a message: a CEL expression, or a pattern."),
            zh=("得分", "消息的得分在何处：CEL 表达式，或正则表达式。"),
            complete=True,
            short=(
                Short(
                    kind=str,
                    en=(
                        "Expression",
                        "A CEL expression over `text`, `data` and `round` that returns a number.",
                    ),
                    zh=("表达式", "针对 `text`、`data` 和 `round` 的 CEL 表达式，结果为数字。"),
                    widget="expression",
                ),
            ),
            fields={
                "regex": Field(
                    en=("Pattern", "A regular expression with one group, which matches the number."),
                    zh=("正则表达式", "带一个分组的正则表达式，分组内为数字。"),
                    widget="pattern",
                    kind=str,
                    required=True,
                    see="workflow-files.md#patterns",
                ),
            },
        )

    @classmethod
    def __read__(cls, at: Located, reader: Reader) -> Any:
        if isinstance(at.value, str):
            return cls(at.value) if check_expression(at.value, SCORE_VARIABLES, at, reader) else INVALID
        if isinstance(at.value, dict) and "regex" in at.value:
            for key in at.value.keys() - {"regex"}:
                reader.report_unknown_key(at, key, {"regex": "regex"}, "the score")
            return cls._pattern(at.value["regex"], reader)
        hint = "for example `score: data.points` or `score: {regex: 'Score: (\\d+)'}`"
        reader.report.error("wrong-type", "'score' must be a CEL expression or a {regex: …}", at, hint)
        return INVALID

    @classmethod
    def _pattern(cls, at: Located, reader: Reader) -> Any:
        source = reader.read(at, str, "'regex' of the score")
        pattern = None if source is INVALID else check_pattern(source, at, reader)
        if pattern is None:
            return INVALID
        groups = pattern.groups
        if groups != 1:
            message = f"the pattern of the score must have one group, and has {groups}"
            hint = "put the number in ( ), and write (?: ) for other groups"
            reader.report.error("bad-pattern", message, at, hint)
        return cls(regex=source) if groups == 1 else INVALID


class ScoreResult(Struct, frozen=True):
    """The score of a round; None if no message has one."""

    score: Number | None = None
    error: str = ""
    """Why the expression failed, if it failed and no message has a score."""


def as_number(value: object) -> Number | None:
    """A finite number, also one that is given as text; None for anything else, true and false
    included."""
    if isinstance(value, str):
        return _parse_number(value) if len(value) <= _MAX_NUMBER_LENGTH else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return value if math.isfinite(value) else None
    except OverflowError:  # an integer that is too large for a float
        return None


def _parse_number(text: str) -> Number | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return as_number(int(value) if value.is_integer() else value)


def score_from_fields(fields: Mapping[str, Any]) -> Number | None:
    """The score in structured fields: `score`, else `weighted_score`."""
    return next((found for key in _KEYS if (found := as_number(fields.get(key))) is not None), None)


Scorer = Callable[[Message, int], Number | None]
"""Finds the score of a message in a round; raises ExpressionError if the expression fails."""


def make_scorer(source: Score | None) -> Scorer:
    """The function that finds scores as configured; without a configuration by the key `score`."""
    if source is None:
        return lambda message, _round: _score_by_key(message)
    if source.regex:
        pattern = compile_pattern(source.regex)
        return lambda message, _round: _score_by_pattern(message, pattern)
    expression = Expression(source.expression, SCORE_VARIABLES)
    return lambda message, round: as_number(
        expression.evaluate({"text": message.text, "data": message.data or {}, "round": round})
    )


def _score_by_pattern(message: Message, pattern: Pattern) -> Number | None:
    try:
        match = pattern.search(message.text)
    except PatternError as error:
        raise NodeError(f"'score' failed: {error}") from None
    return as_number(match[1]) if match else None


def _score_by_key(message: Message) -> Number | None:
    # The last object with a score wins: a model that reasons in JSON gives its result at the end.
    found = score_from_fields(message.data or {})
    objects = () if found is not None else reversed(list(json_objects(message.text)))
    return next((score for each in objects if (score := score_from_fields(each)) is not None), found)


def find_score(score_of: Scorer, messages: Iterable[Message], round: int) -> ScoreResult:
    """The score of the last message that has one. An expression may fail for messages without the field
    that it uses, so an error is reported only if no message has a score."""
    error = ""
    for message in reversed(tuple(messages)):
        try:
            score = score_of(message, round)
        except ExpressionError as problem:
            error = error or str(problem)
            continue
        if score is not None:
            return ScoreResult(score)
    return ScoreResult(error=error)
