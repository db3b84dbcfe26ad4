"""Variables: substitutes `${NAME}` everywhere in a document except in keys, and reads `.env` files.

A name is looked up among the overrides (`--var`), in the `vars` of the file, in the environment, and in
`.env`. Only the values of `vars` may contain placeholders themselves; values from outside are taken
literally, so that a `${` in a password does no harm. A placeholder that is the whole text is replaced by
the value itself, which may be a number, a list or a mapping; inside a longer text, by its text.

The variables are resolved first, each once and in the order of their dependencies (`_lookup` recurses
along a chain of names, which detects circles). Then one walk over the document replaces the
placeholders, without recursing into values. Nodes without placeholders stay the same objects, so that
most of a document is not copied.

Everything is bounded, since a few lines can describe gigabytes: `a: "${b}${b}"`, `b: "${c}${c}"`, and so
on. The bounds count characters that would be added before they are added.

An override that no document of the workflow knows is an error (`find_names`): it would change nothing.

A variable of `vars` may be marked as secret: `{value: x, secret: true}`. Without a `value` it is looked
up outside, as if it were not in `vars`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from roundel.workflow.diagnostics import Diagnostic, Report, did_you_mean, match_misspelling
from roundel.workflow.document import MAX_DEPTH, Located, locate
from roundel.workflow.secret_finder import SecretFinder

# The common core of the `.env` dialects: `NAME=value`, an optional `export`, quotes, and comments after
# a blank. Values are not expanded, and do not span lines: programs differ there.
_ENTRY = re.compile(r"\s*(?:export\s+)?(?P<name>[^\W\d][\w.-]*)\s*=(?P<value>.*)")
_QUOTED = re.compile(r"""\s*(?:'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)")\s*(?:\#.*)?""")
_COMMENT = re.compile(r"\s\#.*")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t"}


def read_dotenv(path: Path, report: Report | None = None) -> dict[str, str]:
    """Reads the entries of a `.env` file; none if there is no such file.

    A file that cannot be read, or a faulty line, is a warning: perhaps nothing refers to it."""
    report = report or Report()
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        _warn_dotenv(report, path, 0, f"the file cannot be read: {getattr(error, 'strerror', error)}")
        return {}
    return dict(_parse_entries(text.split("\n"), path, report))


def _parse_entries(lines: list[str], path: Path, report: Report) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _ENTRY.fullmatch(line)
        value = _parse_entry_value(match["value"]) if match else None
        if match and value is not None:
            yield match["name"], value
        else:
            # The line is not quoted, since it may contain a secret.
            _warn_dotenv(report, path, number, "this line is not NAME=VALUE, and is ignored")


def _parse_entry_value(text: str) -> str | None:
    if not text.lstrip().startswith(("'", '"')):
        return _COMMENT.sub("", text).strip()
    quoted = _QUOTED.fullmatch(text)
    if quoted is None:
        return None
    if quoted["double"] is None:
        return quoted["single"]
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), quoted["double"])


def _warn_dotenv(report: Report, path: Path, line: int, message: str) -> None:
    report.add(Diagnostic(code="bad-dotenv", severity="warning", file=str(path), line=line, message=message))


MAX_VALUE: Final = 1024 * 1024
"""How much a single value may grow by substitution, in characters and values."""
MAX_TOTAL: Final = 16 * MAX_VALUE
"""How much all values of a document may grow together."""

_EMPTY: Final[Mapping[str, Any]] = MappingProxyType({})
_PLACEHOLDER = re.compile(r"\$(?P<escape>\$)?\{(?P<name>(?!\d)\w+)\}")
_MAX_CHAIN_LENGTH: Final = 32
"""How many variables may refer to each other in a row; looking them up recurses."""
_MAX_SUGGESTIONS: Final = 20
"""How many unknown names get a suggestion. Each is compared with all variables of the environment."""


class InheritedVariables(dict[str, Any]):
    """The variables of an earlier run, and those that were given in addition. A workflow need not have the
    former: it may have changed since."""

    def __init__(self, inherited: Mapping[str, Any], given: Mapping[str, Any] = _EMPTY) -> None:
        super().__init__({**inherited, **given})
        self.given = frozenset(given)


def given_names(variables: Mapping[str, Any]) -> frozenset[str]:
    """The variables that a workflow must have: all of them, except for inherited ones."""
    return variables.given if isinstance(variables, InheritedVariables) else frozenset(variables)


def find_names(root: Located) -> set[str]:
    """The variables of a document: those under `vars`, and those that a placeholder uses, whether or not
    another value hides the placeholder."""
    own = root.value.get("vars") if isinstance(root.value, dict) else None
    names = set(own.value) if own is not None and isinstance(own.value, dict) else set()
    pending, seen = [root], set()
    while pending:
        value = pending.pop().value
        if isinstance(value, str):
            names.update(found["name"] for found in _PLACEHOLDER.finditer(value) if not found["escape"])
        elif isinstance(value, (dict, list)) and id(value) not in seen:  # an alias occurs in several places
            seen.add(id(value))
            pending += value.values() if isinstance(value, dict) else value
    return names


def substitute(
    root: Located,
    report: Report,
    overrides: Mapping[str, Any] = _EMPTY,
    environment: Mapping[str, Any] = _EMPTY,
    dotenv: Mapping[str, str] = _EMPTY,
    secrets: SecretFinder | None = None,
    remedy: str = "",
) -> Located:
    """Substitutes the placeholders of a document; branches without any stay the same objects.

    `secrets` collects the values of secret variables. `remedy` says what to do about a variable without a
    value, if it cannot simply be set."""
    own = root.value.get("vars") if isinstance(root.value, dict) else None
    variables = own.value if own is not None else None
    if not isinstance(variables, dict):
        if variables is not None:
            report.error("bad-vars", "vars must be a mapping of names to values", own)
        variables = {}
    secrets = secrets or SecretFinder()
    declared = _unwrap_secrets(variables, secrets, report)
    substitution = _Substitution(report, secrets, declared, overrides, environment, dotenv)
    substitution.remedy = remedy
    return substitution.document(root, own)


def _unwrap_secrets(
    variables: dict[str, Located], secrets: SecretFinder, report: Report
) -> dict[str, Located]:
    """Replaces `{value, secret: true}` by the value, and marks the variable as secret. A secret without
    a value is left out, so that it is looked up outside."""
    plain = {}
    for name, node in variables.items():
        if not _is_marked_secret(name, node, report):
            plain[name] = node
            continue
        secrets.mark_secret(name)
        assert isinstance(node.value, dict)
        value = node.value.get("value")
        if value is not None and value.value is not None:
            plain[name] = value
    return plain


def _is_marked_secret(name: str, node: Located, report: Report) -> bool:
    # A mapping with other keys beside `secret` is ordinary data, unless it looks like a misspelt mark:
    # to treat a secret as data would show it.
    given = node.value
    if not isinstance(given, dict) or "secret" not in given:
        return False
    others = [key for key in given if key not in ("value", "secret")]
    is_true = given["secret"].value is True
    if not others and is_true:
        return True
    if not others:
        message = f"'secret' of the variable '{name}' must be true"
        hint = "write {value: …, secret: true}, or the value alone if it is not secret"
        report.error("secret-variable", message, given["secret"], hint)
    elif is_true and len(others) == 1 and "value" not in given and match_misspelling(others[0], ["value"]):
        message = f"the secret variable '{name}' has an unknown key '{others[0]}'"
        report.error("secret-variable", message, given[others[0]], "did you mean 'value'?")
    return False


class _Substitution:
    """The substitution in one document. All caches are by the `id` of a node or by name, and live as
    long as it."""

    def __init__(
        self,
        report: Report,
        secrets: SecretFinder,
        variables: dict[str, Located],
        overrides: Mapping[str, Any],
        *outside: Mapping[str, Any],
    ) -> None:
        self._report = report
        self._secrets = secrets
        self._variables = variables
        self._overrides = overrides
        self._external_sources = outside
        self._values: dict[str, Located | None] = {}
        """The resolved variables; None for one without a value, which has been reported."""
        self._texts: dict[str, str] = {}
        """The same as text, for placeholders inside longer texts."""
        self._chain: list[str] = []
        """The variables that are being resolved, each used by the one before it."""
        self._substituted: dict[int, Located] = {}
        """The result for each node, so that a node in several places (an alias) is substituted once, and
        stays one node."""
        self._extents: dict[int, tuple[int, int]] = {}
        self._added_size = 0
        self.remedy = ""
        self._hints: dict[str, str] = {}

    def document(self, root: Located, own: Located | None) -> Located:
        """Resolves the variables, then substitutes them in the whole document."""
        # All variables, also unused ones: their mistakes are reported, and secrets among them are found.
        for name, node in self._variables.items():
            self._lookup(name, node, 1)
            if name in self._overrides and self._secrets.is_secret(name):
                # An override replaces it, but the secret in the file is a secret all the same.
                self._secrets.add_literal(node.plain())
        if own is not None and isinstance(own.value, dict) and own.value:
            self._substituted[id(own)] = self._resolve_vars(own, own.value)
        return self._walk(root, 1)

    def _resolve_vars(self, own: Located, given: dict[str, Located]) -> Located:
        # `vars` itself is replaced by the resolved values, and is not walked again: a text that came
        # from outside, and contains `${`, is not a placeholder.
        values = {name: self._values[name] or node for name, node in self._variables.items()}
        for name in self._overrides.keys() & values.keys():
            node = self._variables[name]
            values[name] = Located(values[name].value, node.line, node.column, values[name].keys)
        changed = any(values.get(name) is not node for name, node in given.items())
        return Located(values, own.line, own.column, own.keys) if changed else own

    # Looking up

    def _lookup(self, name: str, at: Located, depth: int) -> Located | None:
        """The value of a variable; None, with an error in the report, if there is none."""
        if name not in self._values:
            if name in self._chain:
                self._refuse_cycle(name, at)
                return None
            if len(self._chain) >= _MAX_CHAIN_LENGTH:
                self._refuse_chain(at)
                return None
            found = self._values[name] = self._find_value(name, at, depth)
            if found is not None and self._secrets.is_secret(name):
                self._secrets.variable(name, found.plain())
        elif self._values[name] is None and name not in self._variables:
            # Reported at each place that uses it. A variable of `vars` that failed was reported there,
            # once.
            self._refuse_unknown(name, at)
        return self._values[name]

    def _find_value(self, name: str, at: Located, depth: int) -> Located | None:
        # The order of precedence. Only `vars` is resolved further; the others are literal.
        if name in self._overrides:
            return locate(self._overrides[name])
        if name in self._variables:
            return self._resolve(name, depth)
        for source in self._external_sources:
            if name in source:
                return locate(source[name])
        self._refuse_unknown(name, at)
        return None

    def _resolve(self, name: str, depth: int) -> Located | None:
        """Substitutes the placeholders in the value of a variable of the file."""
        node = self._variables[name]
        self._chain.append(name)
        value = self._walk(node, depth + 1)
        self._chain.pop()
        # Checked for each variable, not only at the end: the next variable of the chain would multiply
        # it.
        if value is not node and self._get_extent(value)[0] - self._get_extent(node)[0] > MAX_VALUE:
            self._refuse_size(node)
            return None
        return value

    def _refuse_cycle(self, name: str, at: Located) -> None:
        circle = [*self._chain[self._chain.index(name) :], name]
        # A frequent mistake is `PATH: "${PATH}:bin"`: the author means the environment's variable, which
        # `vars` hides.
        hides = any(name in source for source in self._external_sources)
        hint = f"{name} in `vars` hides the one of the environment; give it another name" if hides else ""
        self._report.error(
            "variable-cycle", f"variables refer to each other in a circle: {' → '.join(circle)}", at, hint
        )

    def _refuse_chain(self, at: Located) -> None:
        message = f"more than {_MAX_CHAIN_LENGTH} variables refer to each other in a row"
        self._report.error("variable-chain", message, at)

    def _refuse_unknown(self, name: str, at: Located) -> None:
        # Cached by name: a name that is used a thousand times is compared with the known names once.
        if name not in self._hints:
            self._hints[name] = self._suggestion(name)
        self._report.error("unresolved-variable", f"${{{name}}} has no value", at, self._hints[name])

    def _suggestion(self, name: str) -> str:
        ways = self.remedy or f"add it to `vars`, set the environment variable {name}, or pass --var {name}=…"
        if len(self._hints) >= _MAX_SUGGESTIONS:
            return ways
        names = [
            name for source in (self._overrides, self._variables, *self._external_sources) for name in source
        ]
        guess = did_you_mean(name, names)
        return f"{guess} Or {ways}" if guess else ways

    def _refuse_size(self, at: Located) -> None:
        message = f"variables make this value more than {MAX_VALUE // 1024**2} MB larger"
        self._report.error("variable-too-large", message, at)

    # Substitution

    def _walk(self, node: Located, depth: int) -> Located:
        # Most nodes are scalars without placeholders: these leave before the cache is consulted.
        value = node.value
        if isinstance(value, str):
            if "${" not in value:
                return node
        elif not isinstance(value, (dict, list)):
            return node
        made = self._substituted.get(id(node))
        if made is None:
            made = self._substituted[id(node)] = self._substitute_node(node, depth)
        return made

    def _substitute_node(self, node: Located, depth: int) -> Located:
        value = node.value
        if depth > MAX_DEPTH + 1:
            self._refuse_depth(node)
            return node
        if isinstance(value, dict):
            entries = {key: self._walk(item, depth + 1) for key, item in value.items()}
            changed = any(entries[key] is not item for key, item in value.items())
            return Located(entries, node.line, node.column, node.keys) if changed else node
        if isinstance(value, list):
            items = [self._walk(item, depth + 1) for item in value]
            changed = any(new is not old for new, old in zip(items, value, strict=True))
            return Located(items, node.line, node.column) if changed else node
        assert isinstance(value, str)
        only = _PLACEHOLDER.fullmatch(value)
        if only and not only["escape"]:
            return self._substitute_whole(only["name"], node, depth)
        return self._substitute_inside(value, node, depth)

    def _refuse_depth(self, at: Located) -> None:
        self._report.error("too-deep", f"with its variables, this is nested more than {MAX_DEPTH} deep", at)

    def _substitute_whole(self, name: str, node: Located, depth: int) -> Located:
        """Replaces a text that is nothing but a placeholder. The value keeps its type, so `max: ${N}` is
        a number.

        On any error the placeholder stays, and reading continues with it."""
        found = self._lookup(name, node, depth)
        if found is None:
            return node
        if isinstance(found.value, (dict, list)):
            size, height = self._get_extent(found)
            # The value is shared, not copied, so its size and height are checked without walking it
            # again.
            if depth - 1 + height > MAX_DEPTH:
                self._refuse_depth(node)
                return node
            if not self._is_within_limit(size, node):
                return node
        # The location of the placeholder: an error about the value is shown where it is used.
        return Located(found.value, node.line, node.column, found.keys)

    def _substitute_inside(self, text: str, node: Located, depth: int) -> Located:
        """Replaces placeholders inside a longer text by the texts of their values."""
        parts: list[str] = []
        end = 0
        for match in _PLACEHOLDER.finditer(text):
            parts += (text[end : match.start()], self._text_of(match, node, depth))
            end = match.end()
        growth = sum(map(len, parts)) - end
        if not parts or not self._is_within_limit(max(growth, 0), node):
            return node
        return Located("".join(parts) + text[end:], node.line, node.column)

    def _text_of(self, match: re.Match[str], node: Located, depth: int) -> str:
        name = match["name"]
        if match["escape"]:
            return match[0][1:]  # `$${NAME}` is the text `${NAME}`.
        if name not in self._texts:
            found = self._lookup(name, node, depth)
            if found is None:
                return match[0]
            if isinstance(found.value, (dict, list)) and self._get_extent(found)[0] > MAX_VALUE:
                self._refuse_size(node)
                return match[0]
            # The size was checked before: turning a large value into text would be the damage itself.
            self._texts[name] = _to_text(found)
        return self._texts[name]

    # Bounds

    def _is_within_limit(self, growth: int, at: Located) -> bool:
        if growth > MAX_VALUE:
            self._refuse_size(at)
            return False
        # The total is reported once, at the value that exceeds it; later values are left out silently.
        before, self._added_size = self._added_size, self._added_size + growth
        if before <= MAX_TOTAL < self._added_size:
            message = f"variables make the workflow more than {MAX_TOTAL // 1024**2} MB larger up to here"
            self._report.error("variable-too-large", message, at)
        return self._added_size <= MAX_TOTAL

    def _get_extent(self, node: Located) -> tuple[int, int]:
        """The size of a node in characters and values, and its height in levels. Cached, so that sharing
        costs nothing."""
        if id(node) not in self._extents:
            self._extents[id(node)] = self._measure(node)
        return self._extents[id(node)]

    def _measure(self, node: Located) -> tuple[int, int]:
        value = node.value
        if isinstance(value, str):
            return len(value), 0
        if not isinstance(value, (dict, list)):
            return 1, 0
        items, keys = (value.values(), value) if isinstance(value, dict) else (value, ())
        extents = [self._get_extent(item) for item in items]
        size = 1 + sum(map(len, keys)) + sum(size for size, _ in extents)
        return size, 1 + max((height for _, height in extents), default=0)


def _to_text(node: Located) -> str:
    """A value as text: as YAML would write a scalar, and JSON for lists and mappings."""
    value = node.value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dict, list)):
        return json.dumps(node.plain(), ensure_ascii=False, default=str)
    return str(value)
