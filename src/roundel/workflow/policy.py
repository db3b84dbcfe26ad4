"""Checks a workflow against a policy: finds every function, server, file, endpoint and secret in it.

`check_policy` is the one implementation. The loader uses it for texts, hosts use it before a run starts or
is resumed, and a server may use it at any time: a stored run has to obey the policy of today, not that of
the day on which it was started.

It is complete by construction. It walks all structs of a workflow, whatever they are, and reads from their
descriptions (`__describe__`) what a field contains: a field with the widget `function`, `tool`, `url` or
`file` is a use of one, also in node types of other packages. Three things are declared instead:

    __uses__    of a struct: fields that its description does not have under their own name, the kind of
                function where it is not `function`, and parameters of models (`parameter`)
    endpoints   of a node type: the model profiles that it really calls (node_type.py)
    runs_code   of a node type: whether it runs code of messages

MCP servers and model endpoints are checked as a whole: whether an address may be used depends on the key
beside it. Keys of models (allow_list.py) are searched for in all texts, as references and as values: a run
that is resumed has the values. Nothing here opens, imports or resolves anything.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, cast

from msgspec import Struct

from roundel.workflow.allow_list import RUNS_CODE, TRUSTED, Policy, key_reference, load_policy
from roundel.workflow.condition import suggest_condition
from roundel.workflow.description import Description
from roundel.workflow.diagnostics import Diagnostic, Severity
from roundel.workflow.document import (
    ALLOWED_FOLDERS_HINT,
    Located,
    describe_refused_file,
    resolve_within,
)
from roundel.workflow.fields import SourceLocation
from roundel.workflow.functions import EXIT_LOOP, FunctionKind
from roundel.workflow.graph import Node, Workflow
from roundel.workflow.memory_config import AUTO, LOCAL_PROVIDER, Embedding
from roundel.workflow.model_profile import Profile
from roundel.workflow.node_type import NodeType
from roundel.workflow.secrets import MIN_SECRET_LENGTH, find_url_secrets
from roundel.workflow.tool_source import LocalTooling, McpServer, RemoteTooling, make_server

__all__ = ["TRUSTED", "Policy", "RefusalLocator", "check_policy", "find_refusals", "load_policy"]

MAX_VISITED: Final = 500_000
"""Values that are looked at to find the places of all refusals of a text: less than a second."""
_USES: Final = frozenset({"function", "tool", "url", "file"})
"""The widgets of fields that name something outside the workflow."""
_FUNCTIONS: Final = frozenset({"function", "condition", "processor", "middleware"})
_PARAMETER_KEYS: Final = ("params", "parameters")
_HOST_HEADERS: Final = frozenset({"host", ":authority", "forwarded", "x-forwarded-host", "x-host"})
"""Headers that choose who gets a request behind an address. The address is checked, and these are not."""
_NOT_WALKED: Final = frozenset({"kind", "functions", "secrets", "variables", "access", "file", "at"})
"""Fields of nodes and workflows that are no part of the text; secrets are checked by their names."""
_KEY_FIELDS: Final = frozenset({"api_key", "headers"})
"""Where the key of an endpoint may stand, in a struct that describes the endpoint."""


class PolicyRefusal(Struct, frozen=True):
    """Something in a workflow that a policy does not allow. `find_refusals` creates it."""

    at: SourceLocation
    """Where the node, edge or entry begins that contains it."""
    value: str
    """The text that is refused, by which `RefusalLocator` finds it there."""
    message: str
    hint: str
    under: tuple[str, ...] = ()
    """For a key that is refused: the keys of the mapping that has it."""
    model_only: bool = False
    """It is a model that nobody has set up, with no address of the text's own. A run with a script calls no
    model, so it may name any: a text is tried out before it is allowed to cost anything."""

    @property
    def severity(self) -> Severity:
        """For a text that is being read: whether it will have a script is not known yet."""
        return "warning" if self.model_only else "error"


def check_policy(
    workflow: Workflow,
    policy: Policy,
    environment: Mapping[str, str] = os.environ,
    *,
    scripted: bool = False,
) -> list[Diagnostic]:
    """Everything in a workflow that a policy does not allow, as errors; none for TRUSTED.

    `environment` is where the values of secrets come from when a run is resumed. A `scripted` run calls no
    models."""
    refusals = find_refusals(workflow, policy, environment)
    found = [
        one.at.diagnostic("error", "not-allowed", one.message, one.hint)
        for one in refusals
        if not (scripted and one.model_only)
    ]
    return list(dict.fromkeys(found))


def find_refusals(
    workflow: Workflow, policy: Policy, environment: Mapping[str, str] = os.environ
) -> list[PolicyRefusal]:
    """Like `check_policy`, with what is needed to find the exact place in a text."""
    if policy.trusted:
        return []
    check = _PolicyCheck(workflow, policy, environment)
    check.visit(workflow, workflow.graph.at)
    check.check_secrets()
    return check.refusals


class _PolicyCheck:
    """One walk over a workflow."""

    def __init__(self, workflow: Workflow, policy: Policy, environment: Mapping[str, str]) -> None:
        self.refusals: list[PolicyRefusal] = []
        self._workflow, self._policy, self._environment = workflow, policy, environment
        self._access = policy.access()
        self._keys = {name: _forms_of_key(name, environment) for name in policy.key_names}
        self._uses: Mapping[str, Callable[[str, SourceLocation], None]] = {
            "tool": self._check_tool,
            "url": self._check_url,
            "file": self._check_file,
            "parameter": self._check_parameter,
        }

    def visit(self, value: Any, at: SourceLocation) -> None:
        """Checks a value and everything in it."""
        if isinstance(value, str):
            self._check_text(value, at)
        elif isinstance(value, NodeType):
            pass
        elif isinstance(value, Struct):
            own = getattr(value, "at", None)
            self._visit_struct(value, own if isinstance(own, SourceLocation) and own.line else at)
        elif isinstance(value, Mapping):
            for key, item in value.items():
                self.visit(key, at)
                self.visit(item, at)
        elif isinstance(value, (list, tuple, set, frozenset)):
            for item in value:
                self.visit(item, at)

    def check_secrets(self) -> None:
        """Refuses a secret whose value came from an environment variable that texts may not read. Secrets
        are stored by name and looked up again when a run is resumed, and a text chooses its names."""
        allowed = {*self._policy.environment, *self._policy.key_names}
        for name, value in self._workflow.secrets.items():
            if value and name not in allowed and self._environment.get(name) == value:
                message = f"the variable '{name}' would be read from the environment"
                hint = "choose another name; the operator allows names under 'environment' of the allow-list"
                self._refuse(self._workflow.graph.at, name, message, hint)

    # Structs

    def _visit_struct(self, value: Struct, at: SourceLocation) -> None:
        if isinstance(value, Node):
            self._visit_node(value, at)
        elif isinstance(value, Workflow):
            self._visit_fields(value, at, _NOT_WALKED)
        elif isinstance(value, McpServer):
            self._check_server(value, at)
            self._visit_fields(value, at)
        elif isinstance(value, (RemoteTooling, LocalTooling)):
            self._check_server(make_server(value), at)
            self._visit_fields(value, at)
        elif isinstance(value, Profile):
            self._check_endpoint(value, at)
            for name in value.params:
                self._check_parameter(name, at)
            for name in value.headers:
                self._check_header(name, at)
            self._visit_fields(value, at, _KEY_FIELDS)
        elif isinstance(value, Embedding):
            self._check_embedding(value, at)
            self._visit_fields(value, at, _KEY_FIELDS)
        else:
            self._check_uses(value, at)
            self._visit_fields(value, at)

    def _visit_fields(self, value: Struct, at: SourceLocation, without: frozenset[str] = frozenset()) -> None:
        for name in value.__struct_fields__:
            if name not in without:
                self.visit(getattr(value, name), at)

    def _visit_node(self, node: Node, at: SourceLocation) -> None:
        self._check_node(node, at)
        self._visit_fields(node, at, _NOT_WALKED | {"config"})
        if isinstance(node.config, Struct) and node.kind.endpoints(node.config, self._workflow):
            # Its `api_key` was checked with the profile that it belongs to.
            self._check_uses(node.config, at)
            self._visit_fields(node.config, at, _KEY_FIELDS)
        else:
            self.visit(node.config, at)

    def _check_node(self, node: Node, at: SourceLocation) -> None:
        name = node.kind.function(node.config)
        if name:
            self._check_function("function", name, at)
        if node.kind.runs_code(node.config) and not self._policy.python_code:
            message = f"node '{node.id}' runs code of messages, which is not allowed"
            hint = "name a function; the operator allows code with 'python_code' of the allow-list"
            self._refuse(at, node.type, message, hint)
        for profile in node.kind.endpoints(node.config, self._workflow):
            self._check_endpoint(profile, at)

    # Uses

    def _check_uses(self, value: Struct, at: SourceLocation) -> None:
        for name, use in field_uses(type(value)).items():
            for text in _texts(getattr(value, name)):
                self._check_use(use, text, at)

    def _check_use(self, use: str, text: str, at: SourceLocation) -> None:
        if use in _FUNCTIONS:
            self._check_function(cast("FunctionKind", use), text, at)
        else:
            self._uses[use](text, at)

    def _check_function(self, kind: FunctionKind, name: str, at: SourceLocation) -> None:
        if self._policy.allows_function(kind, name):
            return
        what = f"{kind} function" if kind in ("condition", "processor") else kind
        key = "python_code" if (kind, name) in RUNS_CODE else "functions"
        hint = f"the operator allows it under '{key}' of the allow-list"
        instead = suggest_condition(name) if kind == "condition" else ""
        self._refuse(at, name, f"the {what} '{name:.200}' is not allowed", instead or hint)

    def _check_tool(self, name: str, at: SourceLocation) -> None:
        if name != EXIT_LOOP and name not in self._workflow.tools:
            self._check_function("tool", name, at)

    def _check_url(self, url: str, at: SourceLocation) -> None:
        if self._policy.find_endpoint("", url) is None:
            self._refuse_address(url, at)

    def _check_parameter(self, name: str, at: SourceLocation) -> None:
        if not self._policy.allows_parameter(name):
            message = f"the parameter '{name:.200}' of a model is not allowed"
            hint = "the operator allows it under 'params' of the allow-list"
            self.refusals.append(PolicyRefusal(at, name, message, hint, _PARAMETER_KEYS))

    def _check_header(self, name: str, at: SourceLocation) -> None:
        if name.strip().lower() in _HOST_HEADERS:
            message = f"the header '{name:.200}' is not allowed: it may lead a request to another server"
            self.refusals.append(PolicyRefusal(at, name, message, "leave it out", ("headers",)))

    def _check_file(self, path: str, at: SourceLocation) -> None:
        if path == AUTO:
            return
        roots = self._access.allowed
        if not any(resolve_within(root / path, roots) is not None for root in roots):
            self._refuse(at, path, describe_refused_file(path), ALLOWED_FOLDERS_HINT)

    def _check_server(self, server: McpServer, at: SourceLocation) -> None:
        if self._policy.find_server(server) is not None:
            return
        value = server.url or server.command
        message = f"the MCP server '{_shown(value)}' is not allowed as it is written here"
        same = [name for name, known in self._policy.mcp.items() if (known.command or known.url) == value]
        equal = "with the same arguments, and without 'env', 'headers' and 'cwd'"
        hint = f"write the server '{same[0]}' of the operator {equal}" if same else _NAME_SERVER
        self._refuse(at, value, message, hint)

    def _check_embedding(self, embedding: Embedding, at: SourceLocation) -> None:
        provider, model = embedding.provider, embedding.model
        if provider == LOCAL_PROVIDER and (model.startswith(("/", ".", "~")) or ".." in model):
            self._check_file(model, at)  # the library takes a path in place of a name
        self._check_endpoint(
            Profile(provider=provider, name=model, base_url=embedding.base_url, api_key=embedding.api_key),
            at,
            scriptable=False,
        )

    def _check_endpoint(self, profile: Profile, at: SourceLocation, *, scriptable: bool = True) -> None:
        """Checks an endpoint together with the keys that are sent to it. A script can reply in place of a
        model, and makes no embeddings."""
        provider = profile.provider_and_name[0]
        # The operator's own model is for agents, not for embeddings.
        found = self._policy.find_model(profile, self._environment)
        endpoint = found if scriptable else self._policy.find_endpoint(provider, profile.base_url)
        if endpoint is None and profile.base_url:
            self._refuse_address(profile.base_url, at)
        elif endpoint is None:
            message = f"the model provider '{provider}' is not allowed"
            value = profile.model or profile.provider or profile.name
            hint = "the operator names it under 'models' of the allow-list"
            self.refusals.append(PolicyRefusal(at, value, message, hint, model_only=scriptable))
        own = endpoint.key if endpoint is not None else ""
        for text in (profile.api_key, *profile.headers.values()):
            for name in self._keys_in(text):
                if name != own:
                    self._refuse_key(name, text, at)

    def _check_text(self, text: str, at: SourceLocation) -> None:
        for name in self._keys_in(text):
            self._refuse_key(name, text, at)

    def _keys_in(self, text: str) -> Iterator[str]:
        return (name for name, forms in self._keys.items() if any(form in text for form in forms))

    # Refusals

    def _refuse_address(self, url: str, at: SourceLocation) -> None:
        message = f"the address '{_shown(url)}' is not allowed"
        self._refuse(at, url, message, "the operator names it as 'base_url' under 'models' of the allow-list")

    def _refuse_key(self, name: str, text: str, at: SourceLocation) -> None:
        message = f"the key {name} is not for this place"
        hint = "it is sent only to the model that it is listed with in the allow-list, as its 'api_key'"
        self._refuse(at, text, message, hint)

    def _refuse(self, at: SourceLocation, value: str, message: str, hint: str) -> None:
        self.refusals.append(PolicyRefusal(at, value, message, hint))


_NAME_SERVER: Final = "the operator names it under 'mcp' of the allow-list"


@lru_cache(maxsize=512)
def field_uses(kind: type[Struct]) -> Mapping[str, str]:
    """The fields of a struct that name something outside the workflow, each with what it names."""
    describe = getattr(kind, "__describe__", None)
    about: Description = describe() if describe is not None else Description()
    found = {
        name: field.widget
        for name, field in about.fields.items()
        if field.widget in _USES and name in kind.__struct_fields__
    }
    return {**found, **getattr(kind, "__uses__", {})}


class RefusalLocator:
    """Finds the exact places of what was refused. The loader creates one for the documents that it has read,
    by their names in reports.

    A text may have thousands of refusals, and each search walks a part of it, so the work is bounded: after
    that, a refusal is reported where its node, edge or entry begins."""

    def __init__(self, documents: Mapping[str, Located]) -> None:
        self._documents = documents
        self._entries: dict[str, dict[tuple[int, int], Located]] = {}
        """For each document its values by line and column; the outermost, where several begin."""
        self._left = MAX_VISITED

    def locate(self, refusal: PolicyRefusal) -> SourceLocation:
        """The first text that is equal to the refused one, in the entry that contains it. The entry itself
        if there is none, as for a value that has two parts."""
        at = refusal.at
        entry = self._entries_of(at.file).get((at.line, at.column))
        for one in () if entry is None else _walk(entry):
            self._left -= 1
            if self._left < 0:
                break
            if refusal.under:
                place = _find_key(one, refusal)
                if place is not None:
                    return SourceLocation(at.file, *place)
            elif one.value == refusal.value:
                return SourceLocation(at.file, one.line, one.column)
        return at

    def _entries_of(self, file: str) -> dict[tuple[int, int], Located]:
        if file not in self._entries:
            document = self._documents.get(file)
            found = self._entries[file] = {}
            for one in () if document is None else _walk(document):
                found.setdefault((one.line, one.column), one)
        return self._entries[file]


def _find_key(at: Located, refusal: PolicyRefusal) -> tuple[int, int] | None:
    """The line and column of a refused key, if a mapping has the mapping with it."""
    outer = at.value if isinstance(at.value, dict) else {}
    for name in refusal.under:
        inner = outer.get(name)
        if inner is not None and inner.keys and refusal.value in inner.keys:
            return inner.keys[refusal.value]
    return None


def _walk(root: Located) -> Iterator[Located]:
    """All values in document order, each once: aliases may repeat them."""
    pending, seen = [root], set()
    while pending:
        at = pending.pop()
        if id(at) in seen:
            continue
        seen.add(id(at))
        yield at
        value = at.value
        inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
        pending.extend(reversed(inner))


def _texts(value: Any) -> tuple[str, ...]:
    """The names in a field: one, several, the keys of a mapping, or none."""
    if isinstance(value, str):
        return (value,) if value else ()
    if isinstance(value, Mapping):
        return tuple(value)
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, (tuple, list)) else ()


def _forms_of_key(name: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    value = environment.get(name, "")
    return (key_reference(name), value) if len(value) >= MIN_SECRET_LENGTH else (key_reference(name),)


def _shown(url: str) -> str:
    """An address or a command for a message, without credentials."""
    for secret in find_url_secrets(url):
        url = url.replace(secret.place, secret.shown)
    return url[:200]
