"""Reads typed values out of a located document, and reports every problem instead of the first.

The types are msgspec structs, from which schema.py also derives the JSON Schema. `Reader` walks a
document along a type: structs, lists and mappings recurse here, and only single values (leaves) are
converted by msgspec. msgspec could decode a whole document at once, but it stops at the first error and
names a path instead of a line; pydantic reports all errors, but importing it takes longer than all of
`roundel check` (docs/decisions/0001).

A type takes part in its own reading by these names:

    __read__(at, reader)    a classmethod that reads the whole value, for types with short forms
    __check__(at, report)   rules over several fields, called on the finished struct; False rejects it
    __aliases__             other spellings of its keys, each with the name of the key
    __hints__               a hint for keys that people try by mistake
    __strict__              an unknown key is an error, and not a warning

A list type with `Meta(extra={"wrap": True})` accepts a single item without the list.

A reader returns INVALID for a value that it could not read, after reporting the reason. Callers pass
INVALID on and continue with the siblings, so that one report has all errors. INVALID is not None, which
is a valid value of many keys, and not an exception, which would end the walk.

Unknown keys are warnings, since a file may be written for a later version. A key that misspells a known
one is an error: ignoring it would leave the key that was meant at its default, without a visible reason.
Under `limits`, `loops`, `breaker` and `retry`, all unknown keys are errors (`__strict__`): a limit that is
ignored is no limit, and nobody notices until the bill arrives.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import islice
from math import isfinite
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct, ValidationError

from roundel.workflow.diagnostics import Diagnostic, Report, Severity, did_you_mean, match_misspelling
from roundel.workflow.document import Located, locate
from roundel.workflow.secrets import MASK

MAX_UNKNOWN_KEYS: Final = 100
"""How many unknown keys of one mapping are compared with the known ones, which takes a millisecond each."""


class _Invalid:
    """The type of INVALID."""

    def __repr__(self) -> str:
        return "INVALID"


INVALID: Final = _Invalid()
"""The result of reading a value that could not be read. The report has the reason."""


Name = Annotated[str, Meta(min_length=1)]
Names = Annotated[tuple[str, ...], Meta(extra={"wrap": True})]
"""A list of names; a file may give one name alone instead."""
Positive = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0)]
Duration = Annotated[float, Meta(gt=0, le=100 * 365 * 86_400, extra={"duration": True})]
"""Seconds, up to a hundred years. A file may give them as text with a unit: `90s`, `30m`, `2h`, `3d`."""
DURATION_PATTERN = r"[0-9]+(\.[0-9]+)? ?[smhd]"
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def parse_duration(text: str) -> float | None:
    """The seconds of a text such as `2h`; None if it is no number with a unit."""
    text = text.strip()
    if not re.fullmatch(DURATION_PATTERN, text):
        return None
    return float(text[:-1]) * _UNIT_SECONDS[text[-1]]


def format_duration(seconds: float) -> str:
    """Seconds as a file would give them, in the largest unit that leaves a whole number: `2h`, `90s`."""
    unit = next((unit for unit in "dhm" if seconds % _UNIT_SECONDS[unit] == 0), "s")
    return f"{seconds / _UNIT_SECONDS[unit]:.15g}{unit}"


class SourceLocation(Struct, frozen=True):
    """The location of a node, an edge or another entry in its file. The reader fills it in.

    All locations are equal to each other, and have the same hash. Structs compare their fields, and a
    workflow that is moved within its file, or read from Python, has to be equal to the original. Code
    that needs to tell locations apart compares the fields (see `_is_default` in encoding.py)."""

    file: str = ""
    line: int = 0
    column: int = 0

    def diagnostic(self, severity: Severity, code: str, message: str, hint: str = "") -> Diagnostic:
        return Diagnostic(
            code=code,
            severity=severity,
            file=self.file,
            line=self.line,
            column=self.column,
            message=message,
            hint=hint,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SourceLocation)

    def __hash__(self) -> int:
        return 0


class Reader:
    """Reads values of a type at a location. The base of the readers in graph.py, graph_reader.py and
    loader.py; types get one in `__read__`, and narrow it if they need more."""

    def __init__(self, report: Report) -> None:
        self.report = report

    def read(self, at: Located, kind: Any, what: str) -> Any:
        """Reads a value of the type `kind`, or returns INVALID. `what` names the value in messages:
        "'id' of a node".

        A union of several types (other than None) has to consist of scalars, which msgspec tells apart.
        Unions of structs are types with a `__read__` of their own."""
        base, meta = _strip_annotation(kind)
        options = _union_members(base)
        if NoneType in options and at.value is None:
            return None
        options = tuple(option for option in options if option is not NoneType)
        if len(options) == 1:
            return self._read_one(at, options[0], meta, kind, what)
        return self._read_leaf(at, kind, what)

    def _read_one(self, at: Located, kind: Any, meta: Meta | None, full: Any, what: str) -> Any:
        # `full` is the type as declared: a leaf is converted with it, so that msgspec checks bounds and
        # allows None.
        base, own = _strip_annotation(kind)
        origin = get_origin(base)
        if base is Any:
            return at.plain()
        if hasattr(base, "__read__"):
            return base.__read__(at, self)
        if isinstance(base, type) and issubclass(base, Struct):
            return self.read_struct(at, base, what)
        if origin in (tuple, list):
            return self._read_list(at, get_args(base)[0], own or meta, what)
        if origin is dict:
            return self._read_mapping(at, get_args(base)[1], what)
        if is_duration(own or meta) and isinstance(at.value, str):
            seconds = parse_duration(at.value)
            at = at if seconds is None else Located(seconds, at.line, at.column)
        return self._read_leaf(at, full, what)

    def read_struct(self, at: Located, kind: type[Struct], what: str) -> Any:
        """Reads a mapping into a struct, without its `__read__`: types call this for their long form."""
        value = at.value
        if not isinstance(value, dict):
            return self._report_wrong_type(at, what, "a mapping")
        known, values, unknown = _fields(kind), {}, 0
        spellings, misspelt = _spellings(kind), set()
        hints: dict[str, str] = getattr(kind, "__hints__", {})
        is_strict, sound = getattr(kind, "__strict__", False), True
        for key, item in value.items():
            name = spellings.get(key)
            if name is None:
                unknown += 1
                if unknown > MAX_UNKNOWN_KEYS:
                    continue
                hint = hints.get(key, "")
                # The struct is made all the same: without it, what refers to it would be reported, too.
                misspelt.add(self.report_unknown_key(at, key, spellings, what, hint, is_strict=is_strict))
                continue
            result = self._read_field(item, known[name], key, what)
            sound = sound and result is not INVALID
            if result is not _ABSENT:
                if known[name].name in values:
                    self._warn_of_two_spellings(at, name, key, spellings, what)
                values[known[name].name] = result
        if unknown > MAX_UNKNOWN_KEYS:
            self._report_many_unknown_keys(at, unknown - MAX_UNKNOWN_KEYS, what)
        for name, field in known.items():
            if field.required and field.name not in values:
                sound = False
                # No second error for a key that was misspelt, or whose value was reported as invalid.
                if name not in misspelt and (name not in value or value[name].value is None):
                    self.report.error("missing-key", f"{what} has no '{name}'", at)
        return self._build(at, kind, values) if sound else INVALID

    def _report_many_unknown_keys(self, at: Located, count: int, what: str) -> None:
        """An error, since keys that are not compared may be misspelt."""
        message = f"{what} has {count:,} more unknown keys"
        hint = f"only the first {MAX_UNKNOWN_KEYS} are compared with the known keys"
        self.report.error("unknown-key", message, at, hint)

    def _warn_of_two_spellings(
        self, at: Located, name: str, key: str, spellings: Mapping[str, str], what: str
    ) -> None:
        """Two spellings of one key, of which the later in the file counts."""
        assert isinstance(at.value, dict)
        other = next(each for each in at.value if spellings.get(each) == name)
        message = f"{what} has both '{other}' and '{key}', which mean the same; '{key}' counts"
        self.report.warning("two-spellings", message, at.value[key], f"remove '{other}'")

    def _read_field(self, at: Located, field: msgspec.structs.FieldInfo, key: str, what: str) -> Any:
        # `key:` with nothing after it means the same as leaving the key out, unless null is a value of
        # the key.
        if at.value is None and NoneType not in _union_members(_strip_annotation(field.type)[0]):
            return _ABSENT
        return self.read(at, field.type, f"'{key}' of {what}")

    def _build(self, at: Located, kind: type[Struct], values: dict[str, Any]) -> Any:
        # `_fields` leaves out fields of the type SourceLocation. A struct may have a key called `at` as
        # well.
        if "at" in kind.__struct_fields__ and "at" not in _fields(kind):
            values["at"] = SourceLocation(self.report.file, at.line, at.column)
        made = kind(**values)
        check = getattr(made, "__check__", None)
        if check is not None and check(at, self.report) is False:
            return INVALID
        return made

    def report_unknown_key(
        self,
        at: Located,
        key: str,
        known: Mapping[str, str],
        what: str,
        hint: str = "",
        *,
        is_strict: bool = False,
    ) -> str | None:
        """Reports an unknown key. Returns the name of the key that it misspells, or None if it misspells
        none.

        `known` maps each spelling of a known key to its name. A given `hint` is more specific than a
        guess, so it turns the guess off."""
        place = locate_key(at, key)
        message = f"{what} has an unknown key '{key}'"
        meant = None if hint else _match_misspelt_key(at, key, known)
        if meant is not None:
            self.report.error("unknown-key", message, place, f"did you mean '{meant}'?")
            return known[meant]
        names = dict.fromkeys(known.values())
        hint = hint or self.report.suggest(key, names) or f"known keys: {', '.join(sorted(names))}"
        if is_strict:
            self.report.error("unknown-key", message, place, hint)
        else:
            self.report.warning("unknown-key", message, place, hint)
        return None

    def _read_list(self, at: Located, kind: Any, meta: Meta | None, what: str) -> Any:
        # Lists become tuples, since structs are frozen. All items are read before the result is
        # rejected, to report all their errors.
        if not isinstance(at.value, list):
            if meta is None or not (meta.extra or {}).get("wrap") or at.value is None:
                return self._report_wrong_type(at, what, "a list", "start each item with `- `")
            result = self.read(at, kind, what)
            return INVALID if result is INVALID else (result,)
        results = [self.read(item, kind, f"an item of {what}") for item in at.value]
        return INVALID if any(result is INVALID for result in results) else tuple(results)

    def _read_mapping(self, at: Located, kind: Any, what: str) -> Any:
        if not isinstance(at.value, dict):
            return self._report_wrong_type(at, what, "a mapping")
        results = {key: self.read(item, kind, f"'{key}' of {what}") for key, item in at.value.items()}
        return INVALID if any(result is INVALID for result in results.values()) else results

    def _read_leaf(self, at: Located, kind: Any, what: str) -> Any:
        if isinstance(at.value, (dict, list)):
            return self._report_wrong_type(at, what, describe_expected(kind))
        try:
            # Not strict for text: the value of an environment variable is always text, also where a
            # number or a truth value is wanted. Strict for numbers: otherwise 0 and 1 would pass as
            # false and true.
            value = msgspec.convert(at.value, kind, strict=isinstance(at.value, int))
        except (ValidationError, UnicodeEncodeError):  # The latter for lone surrogates.
            return self._report_wrong_type(at, what, describe_expected(kind), _leaf_hint(at.value, kind))
        # YAML has .inf and .nan. As a limit they would defeat comparisons, and JSON cannot store them.
        if isinstance(value, float) and not isfinite(value):
            return self._report_wrong_type(at, what, describe_expected(kind))
        return value

    def _report_wrong_type(self, at: Located, what: str, wanted: str, hint: str = "") -> _Invalid:
        # A value in the place of a secret is never quoted, however short. Any other is masked before
        # `_format_value` shortens it: a secret that is cut in two would no longer be found.
        secrets, value = self.report.secrets, at.value
        if secrets is not None and secrets.is_hidden(at):
            shown, hint = MASK, hint.replace(str(value), MASK)
        else:
            shown = _format_value(self.report.mask_value(value))
        self.report.error("wrong-type", f"{what} must be {wanted}, not {shown}", at, hint)
        return INVALID

    def variant(
        self,
        at: Located,
        forms: dict[str, type[Struct]],
        what: str,
        also: tuple[str, ...] = (),
        alone: tuple[str, ...] = (),
    ) -> tuple[type[Struct], Located] | None:
        """Reads `{type, config}`: returns the struct that `type` selects and the location of the config,
        which the caller reads. None, with an error in the report, if there is no such form.

        `forms` has a struct for each type. `also` are keys that may stand beside the two; `alone` are
        keys of a short form that has neither."""
        value = at.value
        if not isinstance(value, dict):
            self._report_wrong_type(
                at, f"the {what}", f"a mapping with 'type' ({', '.join(forms)}) and 'config'"
            )
            return None
        names = ("type", "config", *also)
        known = {name: name for name in (*names, *alone)}
        hints = {key: f"`{key}` is given alone, without 'type' and 'config'" for key in alone}
        others = [key for key in value if key not in names]
        unknown = [
            self.report_unknown_key(at, key, known, f"the {what}", hints.get(key, ""))
            for key in others[:MAX_UNKNOWN_KEYS]
        ]
        if len(others) > MAX_UNKNOWN_KEYS:
            self._report_many_unknown_keys(at, len(others) - MAX_UNKNOWN_KEYS, f"the {what}")
        if any(unknown):
            return None  # A missing 'type' would only be a consequence of the misspelling.
        if "type" not in value:
            self.report.error("missing-key", f"the {what} has no 'type'", at, f"one of {', '.join(forms)}")
            return None
        name = value["type"].value
        if not isinstance(name, str) or name not in forms:
            guess = self.report.suggest(name, forms) if isinstance(name, str) else ""
            hint = guess or f"known types: {', '.join(forms)}"
            self.report.error(
                "unknown-type", f"unknown {what} type {_format_value(name)}", value["type"], hint
            )
            return None
        config = value.get("config")
        if config is None or config.value is None:
            config = Located({}, at.line, at.column, {})
        elif not isinstance(config.value, dict):
            self._report_wrong_type(config, f"'config' of the {what}", "a mapping")
            return None
        return forms[name], config


def warn_without_effect(
    made: Struct, names: Iterable[str], at: Located, report: Report, hint: str = ""
) -> None:
    """Warns about keys that are accepted for compatibility, but have no effect in this version."""
    given = at.value if isinstance(at.value, dict) else {}
    for name in names:
        value = getattr(made, name)
        if value is not None and value is not False and value not in ((), [], {}, ""):
            message = f"'{name}' has no effect in this version"
            report.warning("without-effect", message, given.get(name, at), hint)


class _Absent:
    """The type of _ABSENT: a key without a value, which leaves the field at its default."""


_ABSENT: Final = _Absent()


def locate_or_report(value: Any, report: Report) -> Located | None:
    """Converts a Python value to a document; None, with an error in the report, if it is nested too
    deeply."""
    try:
        return locate(value)
    except ValueError as error:
        report.error("too-deep", str(error))
        return None


def child(at: Located, *path: str) -> Located:
    """Follows keys into a document as far as they exist. Use it to locate an error about a value that
    has been read already: if a key is missing, the error is located at the mapping."""
    for key in path:
        if not isinstance(at.value, dict) or key not in at.value:
            break
        at = at.value[key]
    return at


def locate_key(at: Located, key: str) -> Located:
    """The location of a key itself, for errors about the key instead of its value."""
    line, column = (at.keys or {}).get(key, (at.line, at.column))
    return Located(key, line, column)


def has_misspelling(at: Located, name: str, kind: type[Struct]) -> bool:
    """Whether a key here has been reported as a misspelling of `name`, so that `name` is not reported as
    missing."""
    keys, known = at.value if isinstance(at.value, dict) else {}, _spellings(kind)
    unknown = islice((key for key in keys if key not in known), MAX_UNKNOWN_KEYS)
    meant = (_match_misspelt_key(at, key, known) for key in unknown)
    return any(spelling is not None and known[spelling] == name for spelling in meant)


def _match_misspelt_key(at: Located, key: str, known: Mapping[str, str]) -> str | None:
    """The known key that an unknown key misspells. A known key that is given too cannot be the one that
    was meant."""
    assert isinstance(at.value, dict)
    given = {name for spelling, name in known.items() if spelling in at.value}
    return match_misspelling(key, [spelling for spelling, name in known.items() if name not in given])


@lru_cache(maxsize=512)
def _spellings(kind: type[Struct]) -> dict[str, str]:
    """All spellings of the keys of a struct, each with the key's name in the file (`from`, not
    `source`)."""
    known = {name: name for name in _fields(kind)}
    return {**known, **getattr(kind, "__aliases__", {})}


# Cached: msgspec computes the fields of a struct anew for each call, and every node of a file asks for
# them.
@lru_cache(maxsize=512)
def _fields(kind: type[Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    fields = msgspec.structs.fields(kind)
    return {field.encode_name: field for field in fields if field.type is not SourceLocation}


def _strip_annotation(kind: Any) -> tuple[Any, Meta | None]:
    if get_origin(kind) is Annotated:
        base, *notes = get_args(kind)
        return base, next((note for note in notes if isinstance(note, Meta)), None)
    return kind, None


def _union_members(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def describe_expected(kind: Any) -> str:
    """Describes the expected value in words, for messages: "a whole number of at least 1"."""
    base, meta = _strip_annotation(kind)
    options = [option for option in _union_members(base) if option is not NoneType]
    if len(options) > 1 or _strip_annotation(options[0])[0] is not base:
        return " or ".join(describe_expected(option) for option in options)
    if get_origin(base) is Literal:
        return f"one of {', '.join(str(word) for word in get_args(base))}"
    words = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
    return words.get(base, "a mapping") + _describe_bounds(meta)


def is_duration(meta: Meta | None) -> bool:
    """Whether a number may be written as text with a unit of time (`Duration`)."""
    return meta is not None and bool((meta.extra or {}).get("duration"))


def _describe_bounds(meta: Meta | None) -> str:
    if meta is None:
        return ""
    if is_duration(meta):
        return " of seconds above 0, or a text such as 90s, 30m, 2h or 3d (100 years at most)"
    signs = {"ge": "of at least", "gt": "above", "le": "of at most", "lt": "below"}
    limits = [
        f"{words} {getattr(meta, name)}" for name, words in signs.items() if getattr(meta, name) is not None
    ]
    if meta.min_length:
        limits.append("that is not empty")
    return f" {' and '.join(limits)}" if limits else ""


def _leaf_hint(value: object, kind: Any) -> str:
    """A hint for the usual mistakes: a number where text is wanted, `yes` of YAML 1.1, and a misspelt
    choice."""
    options = _union_members(_strip_annotation(kind)[0])
    if str in options and isinstance(value, (int, float)):
        return f'put it in quotes: "{value}"'
    if bool in options and isinstance(value, str) and value.lower() in ("yes", "no", "on", "off"):
        return f"YAML 1.2 reads `{value}` as text; write true or false"
    base = _strip_annotation(kind)[0]
    if get_origin(base) is Literal:
        return did_you_mean(str(value), [str(word) for word in get_args(base)])
    return ""


def _format_value(value: object) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "empty"
    text = repr(value) if not isinstance(value, bool) else str(value).lower()
    return text if len(text) <= 60 else f"{text[:57]}…"
