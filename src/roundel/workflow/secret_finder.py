"""Finds the secrets of a workflow while it is loaded, and masks the texts that a run repeats of its
workflow.

Finding. `SecretFinder` collects secret values from variables (variables.py reports them while it
substitutes) and from the places of a file that contain secrets (`examine`): keys such as `api_key`,
headers, `env`, and URLs. Each secret has a reference name, under which the value has to be provided
again when a stored run is resumed. A secret from a variable has the name of the variable. Any other gets
`ROUNDEL_SECRET_1`, `_2` and so on, in the order in which they occur in the file; the order is fixed,
because the names are stored.

Masking. Most of a workflow is used and never repeated: a model gets its prompt with the real values. But
a literal's text is a message, a question is shown, and what a pure node, an edge or a debate writes
becomes part of the state of the run. Nobody could use a secret there without seeing it, so `mask_graph`
masks these texts when the workflow is loaded. A run then behaves the same whether its state stayed in
memory or was read from a store.

Two uses of secrets are errors instead. In a condition, since messages are masked: it could never match,
and if it were masked too, a person who types `***` would pass for one who knows the password. And in a
name, since names are shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from roundel.workflow.diagnostics import Report
from roundel.workflow.document import Located
from roundel.workflow.fields import SourceLocation
from roundel.workflow.graph import Edge, GraphDefinition, Node
from roundel.workflow.processor import RegexExtract
from roundel.workflow.secrets import (
    MASK,
    MIN_SECRET_LENGTH,
    SecretMasker,
    find_header_secrets,
    find_url_secrets,
    is_secret_name,
    read_environment_secrets,
)

REFERENCE_PREFIX: Final = "ROUNDEL_SECRET_"
_SECRET_KEYS: Final = ("api_key", "apiKey")
_SECRET_MAPPINGS: Final = ("headers", "extra_headers", "env")
_SCHEMES: Final = ("negotiate", "aws4-hmac-sha256")
"""Authentication schemes that are long enough to be taken for a key. Shorter ones (`Bearer`, `Basic`)
need no entry."""
_COMPARED_KEYS: Final = ("condition", "cel", "expr", "until", "items", "pattern")
"""Keys whose texts are compared with messages, and therefore cannot contain secrets."""
_SCHEMA_KEYS: Final = ("output_schema", "schema", "json_schema")
"""Keys that contain a JSON Schema. Names below them are properties of data: `env` is described there,
not set."""


class SecretFinder:
    """Collects the secrets of one workflow. The loader creates one, and the readers of all its files
    share it."""

    def __init__(self, searched: Collection[str] | None = None) -> None:
        """`searched` are the environment variables whose values are searched for in a file; None means all
        with the name of a secret."""
        self.found: dict[str, str] = {}
        """The secret values by reference name; they become `Workflow.secrets`."""
        self.masker = SecretMasker()
        self._values: dict[str, str] = {}
        """The inverse: the reference name of each value. A value has one name, however often it
        occurs."""
        self._marked: set[str] = set()
        """Variables with `secret: true`."""
        self._from_variables: set[str] = set()
        """Values that came from a variable. Only these are errors in a name (`check_names`)."""
        # Read once: a file is searched for each of them, in case somebody has written a key out.
        self._environment = {
            name: value
            for name, value in read_environment_secrets().items()
            if len(value) >= MIN_SECRET_LENGTH and (searched is None or name in searched)
        }
        self._hidden_values: dict[int, Located] = {}
        """Locations whose value is never quoted, however short, by `id`. The values are the locations
        themselves: they keep the objects alive, so that no other object can get the same id."""

    def mark_secret(self, name: str) -> None:
        """Notes that the file declares a variable as secret."""
        self._marked.add(name)

    def is_secret(self, name: str) -> bool:
        """Whether a variable is secret: by its name, or because the file declares it."""
        return name in self._marked or is_secret_name(name)

    def variable(self, name: str, value: Any) -> None:
        """Adds the value of a secret variable. The parts of a mapping or list are added as literals,
        since they would all have the same name."""
        if isinstance(value, (Mapping, list, tuple)):
            self.add_literal(value)
        elif (text := _text(value)) and text not in self._values:
            self._add(name if name not in self.found else self._next_reference(), text)
            self._from_variables.add(text)

    def add_literal(self, value: Any) -> None:
        """Adds a secret that the file itself contains; for a mapping or a list, everything in it."""
        if isinstance(value, (Mapping, list, tuple)):
            for inner in value.values() if isinstance(value, Mapping) else value:
                self.add_literal(inner)
        elif (text := _text(value)) and text not in self._values:
            self._add(self._next_reference(), text)

    def examine(self, root: Located, report: Report) -> None:
        """Searches a document for secrets, after variables were substituted in it.

        Iterative and in document order (a stack that is filled in reverse), since the order decides the
        reference names."""
        seen: set[int] = set()
        compared: list[Located] = []
        pending = [root]
        while pending:
            at = pending.pop()
            if id(at) in seen:  # Variables and aliases put the same object in many places.
                continue
            seen.add(id(at))
            if isinstance(at.value, dict):
                compared += (at.value[key] for key in _COMPARED_KEYS if key in at.value)
            pending.extend(reversed(list(self._scan_children(at))))
        if self.found:
            self._check_compared(compared, report)

    def _check_compared(self, pending: list[Located], report: Report) -> None:
        """Reports secrets in conditions. No condition ever sees a secret, and errors of a run quote
        conditions."""
        while pending:
            at = pending.pop()
            value = at.value
            if isinstance(value, (dict, list)):
                pending.extend(value.values() if isinstance(value, dict) else value)
            elif isinstance(value, str) and (names := self._secret_names_in(value)):
                message = f"{', '.join(names)} is secret, so it cannot be compared with messages"
                report.error("secret-in-condition", message, at, f"messages contain {MASK} in its place")

    def _secret_names_in(self, text: str) -> list[str]:
        return [
            name for value, name in self._values.items() if len(value) >= MIN_SECRET_LENGTH and value in text
        ]

    def _scan_children(self, at: Located) -> Iterator[Located]:
        value = at.value
        if isinstance(value, str):
            for name, secret in self._environment.items():
                if secret in value:  # Somebody has written the value out, instead of the variable.
                    self.variable(name, secret)
            self._add_url_secrets(value)
        elif isinstance(value, list):
            yield from value
        elif isinstance(value, dict):
            for key, item in value.items():
                if key in _SECRET_KEYS:
                    self._add_field(item)
                elif key in _SECRET_MAPPINGS and isinstance(item.value, dict):
                    for held in item.value.values():
                        self._add_field(held, header=key != "env")
                elif key in _SECRET_MAPPINGS:
                    self._add_field(item)  # Not a mapping: the error about that must not quote it.
                if key not in _SCHEMA_KEYS:
                    yield item

    def _add_field(self, at: Located, header: bool = False) -> None:
        self._hidden_values[id(at)] = at
        text = _text(at.value)
        for piece in self._secret_parts(text, header):
            self.add_literal(piece)
        if header:
            self.masker.add(*find_header_secrets(text))

    def _secret_parts(self, text: str, header: bool) -> list[str]:
        """The parts of a value that need a reference name. In `Bearer ${KEY}` it is KEY alone, which has
        its name already; the fewer parts, the fewer names a user has to provide again."""
        known = [value for value in self._values if len(value) >= MIN_SECRET_LENGTH and value in text]
        if not (known or header):
            return [text]
        for value in sorted(known, key=len, reverse=True):
            text = text.replace(value, " ")
        words = [
            word for word in text.split() if len(word) >= MIN_SECRET_LENGTH and word.lower() not in _SCHEMES
        ]
        return words if words or known else [text]

    def _add_url_secrets(self, text: str) -> None:
        for secret in find_url_secrets(text):
            if secret.values:
                self.add_literal(secret.values[0])
            self.masker.add(*secret.values)
        self.masker.add_urls(text)

    def is_hidden(self, at: Located) -> bool:
        """Whether messages must not quote the value at a location, however short it is."""
        return id(at) in self._hidden_values

    def mask_variables(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """The variables as expressions see them: secret ones are the mask, secrets inside others are
        masked."""
        return {
            name: MASK if self.is_secret(name) else self.masker.mask_value(value)
            for name, value in variables.items()
        }

    def check_names(self, names: Iterable[tuple[str, str, Located]], report: Report) -> None:
        """Reports secret variables in names, which are shown everywhere. `names` has what each one
        names.

        A secret from another place may happen to be part of a name (an `env` with `ROLE: reviewer`).
        That is no error; the masker of a run does not search for such a value."""
        for what, name, at in names:
            for variable in self._secret_names_in(name):
                if self.found[variable] in self._from_variables:
                    message = (
                        f"the name of a {what} contains the secret variable {variable}, and names are shown"
                    )
                    report.error("secret-in-name", message, at, "choose another name")

    def _add(self, name: str, text: str) -> None:
        self.found[name] = text
        self._values[text] = name
        self.masker.add(text)

    def _next_reference(self) -> str:
        number = 1
        while f"{REFERENCE_PREFIX}{number}" in self.found:
            number += 1
        return f"{REFERENCE_PREFIX}{number}"


def _text(value: Any) -> str:
    """A value as it occurs in texts; empty for a value that cannot be a secret."""
    if value is None or isinstance(value, (bool, dict, list)):
        return ""
    return str(value)


def mask_graph(graph: GraphDefinition, secrets: SecretMasker) -> GraphDefinition:
    """Masks the texts that a run of the graph repeats. Returns the same object if there is nothing to
    mask."""
    nodes = tuple(_mask_node(node, secrets) for node in graph.nodes)
    edges = tuple(_mask_edge(edge, secrets) for edge in graph.edges)
    changed = any(
        new is not old for new, old in zip((*nodes, *edges), (*graph.nodes, *graph.edges), strict=True)
    )
    return msgspec.structs.replace(graph, nodes=nodes, edges=edges) if changed else graph


def _mask_node(node: Node, secrets: SecretMasker) -> Node:
    # These types put texts of their config into messages, events or state; all others only use them.
    kind = node.kind
    repeats = kind.pure or kind.asks or kind.controller is not None
    if not repeats and not kind.bodies(node.config):
        return node
    config = _mask_config(node.config, secrets, repeats)
    return node if config is node.config else msgspec.structs.replace(node, config=config)


def _mask_edge(edge: Edge, secrets: SecretMasker) -> Edge:
    process = edge.process
    if process is None or process.regex is None:
        return edge
    made = _mask_extract(process.regex, secrets)
    if made is process.regex:
        return edge
    return msgspec.structs.replace(edge, process=msgspec.structs.replace(process, regex=made))


def _mask_extract(extract: RegexExtract, secrets: SecretMasker) -> RegexExtract:
    """The pattern itself is not masked: the loader rejects one with a secret (`_COMPARED_KEYS`)."""
    template, default = secrets.mask(extract.template), secrets.mask(extract.default_value)
    if template is extract.template and default is extract.default_value:
        return extract
    return msgspec.structs.replace(extract, template=template, default_value=default)


def _mask_config(value: Any, secrets: SecretMasker, repeats: bool) -> Any:
    """Masks the graphs in a config, and its own texts only if the node repeats them."""
    if isinstance(value, GraphDefinition):
        return mask_graph(value, secrets)
    if isinstance(value, Node):
        return _mask_node(value, secrets)
    if isinstance(value, str):
        return secrets.mask(value) if repeats else value
    if isinstance(value, Struct) and not isinstance(value, SourceLocation):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        made = {name: _mask_config(inner, secrets, repeats) for name, inner in fields.items()}
        changes = {name: inner for name, inner in made.items() if inner is not fields[name]}
        return msgspec.structs.replace(value, **changes) if changes else value
    if isinstance(value, tuple):
        items = tuple(_mask_config(item, secrets, repeats) for item in value)
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return secrets.mask_value(value) if repeats else value
