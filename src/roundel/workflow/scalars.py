"""What a plain scalar stands for, by the core schema of YAML 1.2."""

from __future__ import annotations

import re
from typing import Final

MAX_DIGITS: Final = 4000  # Python refuses to write integers from 4300 digits on

_NAMED: Final[dict[str, bool | float | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **{sign + word: float(sign + "inf") for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")},
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_NUMBER = re.compile(
    r"(?P<decimal>[-+]?[0-9]+)|0o(?P<octal>[0-7]+)|0x(?P<hex>[0-9a-fA-F]+)"
    r"|[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
)
_BASES: Final = {"decimal": 10, "octal": 8, "hex": 16}
_LARGEST: Final = 10**MAX_DIGITS


def plain_value(text: str) -> bool | int | float | str | None:
    """OverflowError if it is an integer with too many digits."""
    if text in _NAMED:
        return _NAMED[text]
    match = _NUMBER.fullmatch(text) if text[0] in "+-.0123456789" else None
    if match is None:
        return text
    if match.lastgroup is None:
        return float(text)
    return _integer(match[match.lastgroup], _BASES[match.lastgroup])


def _integer(digits: str, base: int) -> int:
    # The digits are counted first, since it takes long to read a million of them.
    if len(digits.lstrip("+-")) > MAX_DIGITS:
        raise OverflowError
    number = int(digits, base)
    if number > _LARGEST:
        raise OverflowError
    return number
