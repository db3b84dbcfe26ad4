"""The policy for workflows whose text is data: what the operator of a server allows them, by name.

A workflow that its user wrote may import, start and read what the user may. A text that reaches a server
is data of somebody else, so it may use only what the operator lists: functions, MCP servers, folders,
environment variables, model endpoints, networks. Everything is allowed by name; nothing is filtered by
rules about commands or code, since such rules are never complete.

`Policy()` allows nothing, `load_policy` reads an allow-list (docs/allow-list.md), and `TRUSTED`, the
default everywhere, allows everything. policy.py finds what a workflow uses and asks the methods
here; the run-time parts (the finder below, llm/clients.py, llm/toolbox.py) ask them again.

Secrets are bound to endpoints. `${OPENAI_API_KEY}` in a text stands for a reference, not for the value,
if the variable is the key of a listed model: so the value is no part of the workflow, and a text cannot
put it into a prompt, a header for another address, or an error message. The client that talks to the
endpoint replaces the reference (`bind`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final
from urllib.parse import urlsplit

from msgspec import Meta, Struct
from msgspec.structs import replace

from roundel.workflow.diagnostics import Report, WorkflowError
from roundel.workflow.document import FileAccess, Located, read_file, resolve_folders
from roundel.workflow.fields import INVALID, Name, Names, Reader, child
from roundel.workflow.functions import (
    Function,
    FunctionFinder,
    FunctionKind,
    get_builtin,
    installed_functions,
)
from roundel.workflow.model_profile import (
    PROVIDER_ALIASES,
    PROVIDERS,
    Profile,
    installed_providers,
    operator_model,
)
from roundel.workflow.quotas import Quotas
from roundel.workflow.secret_finder import SecretFinder
from roundel.workflow.tool_source import ALL_FUNCTIONS_SUFFIX, McpServer
from roundel.workflow.variables import substitute

WILDCARD: Final = ":*"
"""`package.module:*` allows the public functions that a module defines itself."""
RUNS_CODE: Final = frozenset({("processor", "code_save_and_run")})
"""Functions of the engine that run code of messages (nodes/python.py), so that they need `python_code`."""
_PROGRAM_VARIABLES: Final = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ", "SYSTEMROOT")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class AllowedModel(Struct, frozen=True, omit_defaults=True):
    """A model endpoint that texts may use: a provider at its own address, or an address. An item of
    `models` in an allow-list."""

    provider: str = ""
    base_url: str = ""
    key: str = ""
    """The environment variable with the key, which is sent to this endpoint and to no other."""

    def __check__(self, at: Located, report: Report) -> bool:
        if bool(self.provider) == bool(self.base_url):
            both = (
                "both a 'provider' and a 'base_url'" if self.provider else "no 'provider' and no 'base_url'"
            )
            message = f"an allowed model has {both}"
            report.error("bad-allow-list", message, at, "a key belongs to one of them")
            return False
        if self.base_url and not _is_address(self.base_url):
            hint = "for example https://models.example.com/v1; a key stands under 'key'"
            message = "'base_url' must be an http or https address without user, query and fragment"
            report.error("bad-allow-list", message, child(at, "base_url"), hint)
            return False
        return True


PARAMETERS: Final = frozenset(
    (
        *("temperature", "top_p", "top_k", "min_p", "typical_p", "seed", "logit_bias", "mirostat"),
        *("max_tokens", "max_completion_tokens", "max_output_tokens", "stop", "stop_sequences"),
        *("presence_penalty", "frequency_penalty", "repetition_penalty", "response_format"),
        *("thinking", "reasoning_effort", "openai_reasoning_effort", "openai_reasoning_summary"),
        *("anthropic_thinking", "anthropic_effort", "google_thinking_config", "google_safety_settings"),
        *("verbosity", "openai_text_verbosity", "tool_choice", "parallel_tool_calls"),
        *("protocol", "tool_loop_limit", "max_tool_calls", "maxToolCalls"),  # Roundel's own
    )
)
"""Parameters of models that every text may set: how a model writes. Any other may change who is called, how
often, at which price, or under which name of a host: `model`, `n`, `service_tier`, `extra_headers`."""


class Policy(Struct, frozen=True, omit_defaults=True):
    """What texts may use. The operator writes it as an allow-list; a server passes it to
    `nodes.loading` and to its engine.

    The fields are the keys of the file. A frozen value: a new list is a new policy."""

    trusted: ClassVar[bool] = False

    functions: Annotated[tuple[Name, ...], Meta(extra={"wrap": True})] = ()
    """Python functions: `module:function`, a registered name, or `module:*`."""
    mcp: dict[str, McpServer] = {}
    files: Names = ()
    """Folders in which texts may name files. Relative to the allow-list; absolute once it is loaded."""
    environment: Names = ()
    """Environment variables that `${NAME}` may read."""
    python_code: bool = False
    """Whether code in messages may run: `python` nodes without a function, `code_save_and_run`."""
    models: tuple[AllowedModel, ...] = ()
    networks: Names = ()
    """Private networks that outgoing addresses may be in, such as 10.1.0.0/16."""
    limits: Quotas = Quotas()
    """What groups and tokens may spend, and how many runs they may have at once."""
    params: Names = ()
    """Parameters of models that texts may set, besides `PARAMETERS`."""

    # Functions

    def allows_function(self, kind: FunctionKind, name: str) -> bool:
        """Whether a text may name the function. Nothing is imported to find out, not even whether it
        exists."""
        if (kind, name) in RUNS_CODE:
            return self.python_code
        if get_builtin(kind, name) is not None or name in self.functions or name in installed_functions(kind):
            return not name.endswith(WILDCARD)
        module, _, attribute = name.partition(":")
        listed = module + WILDCARD in self.functions
        if name.endswith(ALL_FUNCTIONS_SUFFIX):
            return listed
        return listed and attribute.isidentifier() and not attribute.startswith("_")

    def finder(self, own: Mapping[str, Callable[..., Any] | None], folder: Path | None) -> FunctionFinder:
        """The finder for a workflow under this policy. Functions come from the import path alone: a
        folder beside a workflow may be one that texts are saved in."""
        return AllowedFunctionFinder(own, self)

    # Servers, files, variables

    def find_server(self, server: McpServer) -> McpServer | None:
        """The allowed server that a text means, with the time limits of the text; None if there is none.

        Its program or address has to be equal. Environment, headers and folder of the program are those
        of the operator: a text leaves them out, or repeats them."""
        for known in self.mcp.values():
            same = (known.command, known.args, known.url) == (server.command, server.args, server.url)
            if same and all(
                getattr(server, name) in (empty, getattr(known, name))
                for name, empty in (("env", {}), ("headers", {}), ("cwd", ""))
            ):
                return replace(known, timeout=server.timeout, startup_timeout=server.startup_timeout)
        return None

    def access(self) -> FileAccess:
        """The files that a text may name: those in the allowed folders."""
        return FileAccess(None, resolve_folders(self.files), confined=True)

    def visible_environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """What `${NAME}` sees of the environment: the allowed variables, and references to the keys of
        models."""
        seen = {name: environment[name] for name in self.environment if name in environment}
        return {**seen, **{name: key_reference(name) for name in self.key_names}}

    def program_environment(self, environment: Mapping[str, str]) -> dict[str, str] | None:
        """The environment of programs that run code of messages: what a program needs to start, and the
        allowed variables. Not the whole one, which has the keys of the operator. None for no change."""
        names = {*_PROGRAM_VARIABLES, *self.environment}
        return {name: value for name, value in environment.items() if name in names}

    @property
    def key_names(self) -> tuple[str, ...]:
        """The environment variables that are keys of models."""
        return tuple(dict.fromkeys(model.key for model in self.models if model.key))

    # Models

    def allows_parameter(self, name: str) -> bool:
        return name in PARAMETERS or name in self.params

    def find_endpoint(self, provider: str, base_url: str) -> AllowedModel | None:
        """The allowed endpoint with this address, or of this provider if there is no address."""
        if base_url:
            wanted = normalize_url(base_url)
            return next(
                (one for one in self.models if one.base_url and normalize_url(one.base_url) == wanted), None
            )
        provider = PROVIDER_ALIASES.get(provider, provider)
        for one in self.models:
            if one.provider and PROVIDER_ALIASES.get(one.provider, one.provider) == provider:
                return one
        # A package that the operator has installed. It cannot replace a provider of the library.
        plugin = provider not in PROVIDERS and provider in installed_providers()
        return AllowedModel(provider=provider) if plugin else None

    def is_operators(self, profile: Profile, environment: Mapping[str, str] = os.environ) -> bool:
        """Whether it is the model that the operator has set for agents that name none (`$ROUNDEL_MODEL`), at
        the provider's own address. That setting allows this one model, with the key that the environment
        has for it; a text that names it itself gets no more than one that names none."""
        return not profile.base_url and ":".join(profile.provider_and_name) == operator_model(environment)

    def find_model(
        self, profile: Profile, environment: Mapping[str, str] = os.environ
    ) -> AllowedModel | None:
        """The allowed endpoint that a profile calls."""
        provider = profile.provider_and_name[0]
        endpoint = self.find_endpoint(provider, profile.base_url)
        if endpoint is None and self.is_operators(profile, environment):
            return AllowedModel(provider=provider)
        return endpoint

    def bind(self, profile: Profile, environment: Mapping[str, str] = os.environ) -> Profile | None:
        """The profile with the key of its endpoint in place of the reference to it; None if the endpoint
        is not allowed."""
        endpoint = self.find_model(profile, environment)
        if endpoint is None:
            return None
        value = environment.get(endpoint.key, "") if endpoint.key else ""
        reference = key_reference(endpoint.key)
        headers = {name: text.replace(reference, value) for name, text in profile.headers.items()}
        key = profile.api_key.replace(reference, value) if profile.api_key else value
        return replace(profile, api_key=key, headers=headers)

    @property
    def networks_key(self) -> tuple[str, ...] | None:
        """What clients that share connections have to agree on; None if addresses are not checked."""
        return self.networks


class TrustedPolicy(Policy, frozen=True):
    """The policy for workflows of the user who runs them: everything is allowed, as if there were no
    policy. A type of its own, so that no allow-list can turn it on."""

    trusted: ClassVar[bool] = True

    def allows_function(self, kind: FunctionKind, name: str) -> bool:
        return True

    def finder(self, own: Mapping[str, Callable[..., Any] | None], folder: Path | None) -> FunctionFinder:
        return FunctionFinder(own, folder)

    def find_server(self, server: McpServer) -> McpServer | None:
        return server

    def program_environment(self, environment: Mapping[str, str]) -> dict[str, str] | None:
        return None

    def allows_parameter(self, name: str) -> bool:
        return True

    def bind(self, profile: Profile, environment: Mapping[str, str] = os.environ) -> Profile | None:
        return profile

    @property
    def networks_key(self) -> tuple[str, ...] | None:
        return None


TRUSTED: Final = TrustedPolicy()


class AllowedFunctionFinder(FunctionFinder):
    """Finds functions that a policy allows, and refuses to import any other. `Policy.finder` creates it.

    The check of a workflow has refused the others already; this is the place where code is imported, so
    it does not rely on that."""

    def __init__(self, own: Mapping[str, Callable[..., Any] | None], policy: Policy) -> None:
        super().__init__(own, None)
        self._policy = policy

    def known(self, kind: FunctionKind, name: str) -> bool:
        return self._policy.allows_function(kind, name)

    def names(self, kind: FunctionKind) -> list[str]:
        return [name for name in self._policy.functions if not name.endswith(WILDCARD)]

    def find(self, kind: FunctionKind, name: str) -> Function:
        if not self._policy.allows_function(kind, name):
            raise LookupError(f"the function '{name}' is not allowed here")
        found = super().find(kind, name)
        module, _, _ = name.partition(":")
        by_wildcard = name not in self._policy.functions and module + WILDCARD in self._policy.functions
        # `module:*` is what the module defines: it may import `subprocess.run` for its own use.
        if by_wildcard and getattr(found.call, "__module__", None) != module:
            raise LookupError(f"the function '{name}' is not allowed here: '{module}' does not define it")
        return found

    def module(self, name: str) -> Any:
        return None


def key_reference(name: str) -> str:
    """What stands in a workflow for the key of a model. A run that is resumed without the variable has
    the same text in its place (encoding.py)."""
    return f"${{secret:{name}}}"


def normalize_url(url: str) -> str:
    """An address in the form in which two are compared: without what makes no difference to where it
    leads."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        return url
    if parts.username is not None or parts.query or parts.fragment or not host:
        return url
    shown = f"[{host}]" if ":" in host else host
    port_text = "" if port in (None, _DEFAULT_PORTS.get(parts.scheme)) else f":{port}"
    return f"{parts.scheme}://{shown}{port_text}{parts.path.rstrip('/')}"


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in _DEFAULT_PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return valid and not (parts.username is not None or parts.query or parts.fragment)


def load_policy(path: str | os.PathLike[str]) -> Policy:
    """Reads an allow-list. WorkflowError with all diagnostics if it has an error.

    Warnings count as errors here: an unknown key would be a permission that the operator believes to
    have given, or worse, a limit."""
    report = Report(str(path), SecretFinder())
    root = read_file(Path(path), report)
    policy = INVALID if root is None else _read_policy(root, Path(path), report)
    if policy is INVALID or report.diagnostics:
        raise WorkflowError(report.diagnostics)
    assert isinstance(policy, Policy)
    return policy


def _read_policy(root: Located, path: Path, report: Report) -> Any:
    if root.value is None:
        return Policy()
    # The operator's own variables: a header of an MCP server is `Bearer ${DOCS_TOKEN}`.
    secrets = report.secrets
    assert secrets is not None
    resolved = substitute(root, report, {}, os.environ, secrets=secrets)
    secrets.examine(resolved, report)
    policy = Reader(report).read_struct(resolved, Policy, "the allow-list")
    if policy is INVALID:
        return INVALID
    _check_functions(policy, resolved, report)
    _check_keys(policy, resolved, report)
    _check_networks(policy, resolved, report)
    folder = path.resolve().parent
    files = tuple(str(place) for place in resolve_folders(folder / name for name in policy.files))
    for name, place in zip(policy.files, files, strict=True):
        if not os.path.isdir(place):  # noqa: PTH112 (Path.is_dir raises for a name with a NUL)
            report.error("bad-allow-list", f"there is no folder '{name}'", _item(resolved, "files", name))
    servers = {
        name: replace(server, cwd=str(folder / server.cwd)) if server.cwd else server
        for name, server in policy.mcp.items()
    }
    return replace(policy, files=files, mcp=servers)


def _check_functions(policy: Policy, at: Located, report: Report) -> None:
    for name in policy.functions:
        if "*" in name and not (
            name.endswith(WILDCARD) and name.count("*") == 1 and len(name) > len(WILDCARD)
        ):
            message = f"'{name}' is no function: `*` stands for all functions of one module only"
            hint = "for example mypackage.tools:*"
            report.error("bad-allow-list", message, _item(at, "functions", name), hint)


def _check_keys(policy: Policy, at: Located, report: Report) -> None:
    for name in policy.key_names:
        if name in policy.environment:
            message = f"'{name}' is the key of a model, so texts must not read it"
            hint = "remove it from 'environment': ${" + name + "} as an api_key works without"
            report.error("bad-allow-list", message, _item(at, "environment", name), hint)


def _check_networks(policy: Policy, at: Located, report: Report) -> None:
    for name in policy.networks:
        try:
            ip_network(name)
        except ValueError as error:
            message = f"'{name}' is no network: {error}"
            report.error("bad-allow-list", message, _item(at, "networks", name), "for example 10.1.0.0/16")


def _item(at: Located, key: str, name: str) -> Located:
    """The location of an item of a list; that of the list if the item stands there alone."""
    place = child(at, key)
    items = place.value if isinstance(place.value, list) else []
    return next((item for item in items if item.value == name), place)
