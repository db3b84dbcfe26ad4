"""Loads a workflow from a file, a text or a plain mapping, and reports every problem in it.

The three sources share one path. Each becomes a tree of `Located` values (document.py for files and
texts, `locate` for mappings), `${NAME}` is substituted (variables.py), secrets are collected
(secret_finder.py), and `WorkflowReader` reads the tree into structs. The reader stack has four layers,
each in its own module:

    Reader          fields.py        a value of a type, at a location
    NodeReader      graph.py         nodes, and the functions that they name
    GraphReader     graph_reader.py  graphs, and the names inside them
    WorkflowReader  loader.py        whole files, and the files of their subgraphs

Loading never stops at the first problem. The reader records it in the `Report` and continues, so that an
editor can show all problems of a file at once. A workflow is returned only if the report has no error;
the draft of a faulty one (graph_reader.py) can still be drawn, never run.

Order matters in two places. Substitution comes before reading, since a variable may stand for a number,
a list or a whole node. Secrets are collected before reading as well: errors quote values in shortened
form, and half a secret could not be found and masked afterwards.

A subgraph file is read by a second `WorkflowReader` that shares the mutable collections of the first one
(models, tools, names, drafts, secrets): these have one namespace in the whole workflow. Its `vars`,
`limits` and `.env` apply to that file alone. The function finder is shared as well, so `module:function`
always refers to the folder of the main file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

from msgspec import Meta, Struct
from msgspec.structs import replace

from roundel.workflow.allow_list import TRUSTED, Policy
from roundel.workflow.breakpoints import Debugging
from roundel.workflow.description import Description, Field
from roundel.workflow.diagnostics import Report, WorkflowError
from roundel.workflow.document import (
    AllowPaths,
    FileAccess,
    Located,
    OutsideFolderError,
    describe_refused_file,
    read_file,
    read_text,
    resolve_folders,
)
from roundel.workflow.fields import INVALID, child, has_misspelling, locate_or_report, warn_without_effect
from roundel.workflow.functions import EXIT_LOOP, FunctionFinder
from roundel.workflow.graph import GraphDefinition, Limits, MiddlewareUse, Workflow
from roundel.workflow.graph_reader import GraphReader
from roundel.workflow.limits import Breaker
from roundel.workflow.memory_config import MemorySettings
from roundel.workflow.model_profile import Profile
from roundel.workflow.node_type import NodeTypes
from roundel.workflow.policy import RefusalLocator, find_refusals
from roundel.workflow.secret_finder import SecretFinder, mask_graph
from roundel.workflow.tool_source import ToolSource
from roundel.workflow.variables import find_names, given_names, read_dotenv, substitute

MAX_FILE_DEPTH: Final = 32
MAX_FILES: Final = 1000
"""Uses of subgraph files in one workflow. Depth alone is no bound: ten files that each use the next one
twice are a thousand graphs."""
_NO_VARIABLE: Final = "add it to `vars`; the operator allows others under 'environment' of the allow-list"


class WorkflowFile(Struct, frozen=True, omit_defaults=True):
    """The top level of a workflow file. The loader creates it; a `Workflow` is built from it and the
    graph.

    `graph` is declared as Any, because `GraphReader.read_graph` reads it after everything else: an agent
    of the graph may name a model profile or a tool that stands below the graph in the file."""

    graph: Any = None
    version: str | int | float = ""
    vars: dict[str, Any] = {}
    models: dict[str, Profile] = {}
    tools: dict[str, ToolSource] = {}
    limits: Limits = Limits()
    breaker: Breaker | None = None
    memory: MemorySettings = MemorySettings()
    middleware: Annotated[tuple[MiddlewareUse, ...], Meta(extra={"wrap": True})] = ()
    debug: Debugging = Debugging()

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="workflow",
            en=("Workflow", "A workflow file: a graph and its models, tools and settings."),
            zh=("工作流", "工作流文件：一个图及其所需的内容。"),
            fields={
                "graph": Field(
                    en=(
                        "Graph",
                        "The nodes and edges. A file with `nodes` at the top level needs no `graph`.",
                    ),
                    zh=("图", "节点与边。如果文件顶层直接写有 `nodes`，则不需要 `graph`。"),
                    widget="graph",
                    kind=GraphDefinition,
                    required=True,
                    see="workflow-files.md#the-graph",
                ),
                "version": Field(
                    en=("Version", "The version of your workflow. Roundel does not use it."),
                    zh=("版本", "工作流的版本，仅供参考。"),
                ),
                "vars": Field(
                    en=(
                        "Variables",
                        "Values by name. Roundel replaces `${NAME}` elsewhere in the file with the value.",
                    ),
                    zh=("变量", "按名称给出的值，文件其他位置以 `${NAME}` 引用。"),
                    see="workflow-files.md#variables",
                ),
                "models": Field(
                    en=(
                        "Models",
                        "Model profiles, under names that you choose. Agents that name no profile use "
                        "`default`.",
                    ),
                    zh=("模型", "模型配置，名称自定。未指定模型的智能体使用 `default`。"),
                    see="agents.md",
                ),
                "tools": Field(
                    en=("Tools", "Tools for agents, under names that you choose."),
                    zh=("工具", "供智能体使用的工具，名称自定。"),
                    see="tools.md",
                ),
                "limits": Field(
                    en=("Limits", "How much a run may use. The limits of the graph take precedence."),
                    zh=("限额", "一次运行可用的资源；图自身的限额优先。"),
                    see="limits.md",
                ),
                "breaker": Field(
                    en=("Breaker", "When a run is locked because it makes no progress."),
                    zh=("熔断器", "运行没有进展时何时锁定。"),
                    see="limits.md#the-breaker",
                ),
                "memory": Field(
                    en=(
                        "Memory",
                        "The group whose memory runs share. Has no effect in the file of a subgraph.",
                    ),
                    zh=("记忆", "运行共享哪个分组的记忆。在子图文件中无效。"),
                    see="memory.md",
                ),
                "middleware": Field(
                    en=(
                        "Middleware",
                        "Code that runs around the nodes of a run, in order. Has no effect in the file "
                        "of a subgraph.",
                    ),
                    zh=("中间件", "围绕节点执行的代码，按顺序生效。在子图文件中无效。"),
                    see="middleware.md",
                ),
                "debug": Field(
                    en=("Debugging", "Where runs pause, so that you can inspect them."),
                    zh=("调试", "运行在何处暂停，以便检查。"),
                    see="debugging.md#breakpoints",
                ),
            },
        )


class LoadResult(Struct, frozen=True):
    """The outcome of loading: the workflow, its draft and the report. The `read_workflow_*` functions
    return it."""

    workflow: Workflow | None
    """None if the report has an error."""
    draft: Workflow | None
    """The workflow; if there are errors, the part of it that can be drawn; None if there is no graph at
    all."""
    report: Report


def load(
    source: str | os.PathLike[str],
    types: NodeTypes,
    variables: Mapping[str, Any] | None = None,
) -> Workflow:
    """Loads the workflow of a file. Raises WorkflowError with all diagnostics if there is an error.

    Warnings are dropped; use `examine` to get them."""
    workflow, report = examine(source, types, variables)
    if workflow is None:
        raise WorkflowError(report.diagnostics)
    return workflow


def examine(
    source: str | os.PathLike[str],
    types: NodeTypes,
    variables: Mapping[str, Any] | None = None,
    allow_paths: AllowPaths = (),
    policy: Policy = TRUSTED,
) -> tuple[Workflow | None, Report]:
    """Loads the workflow of a file. Returns it, or None if there are errors, together with the report.

    `allow_paths` are further folders whose files the workflow may name (docs/decisions/0012). Under a policy
    other than TRUSTED it may name only what that allows, and nothing is imported (docs/decisions/0034)."""
    reading = read_workflow_file(source, types, variables, allow_paths, policy)
    return reading.workflow, reading.report


def read_workflow_file(
    source: str | os.PathLike[str],
    types: NodeTypes,
    variables: Mapping[str, Any] | None = None,
    allow_paths: AllowPaths = (),
    policy: Policy = TRUSTED,
) -> LoadResult:
    """Like `examine`, and returns the draft of a faulty workflow too."""
    path = Path(source)
    report = Report(str(source), _secret_finder(policy))
    root = read_file(path, report)
    return _read_document(root, report, types, variables or {}, path, {}, allow_paths, policy)


def examine_text(
    text: str,
    types: NodeTypes,
    variables: Mapping[str, Any] | None = None,
    name: str = "<text>",
    policy: Policy = TRUSTED,
) -> tuple[Workflow | None, Report]:
    """Like `examine`, for a text without a file: no folder, so no `.env` and no functions beside it."""
    reading = read_workflow_text(text, types, variables, name, policy)
    return reading.workflow, reading.report


def read_workflow_text(
    text: str,
    types: NodeTypes,
    variables: Mapping[str, Any] | None = None,
    name: str = "<text>",
    policy: Policy = TRUSTED,
) -> LoadResult:
    """Like `examine_text`, and returns the draft of a faulty workflow too."""
    report = Report(name, _secret_finder(policy))
    return _read_document(read_text(text, report), report, types, variables or {}, None, {}, (), policy)


def _secret_finder(policy: Policy) -> SecretFinder:
    """Under a policy, a text that happens to contain a value of the environment must not be told so: only
    the variables that it may read count. What is shown is masked in any case."""
    finder = SecretFinder(None if policy.trusted else policy.environment)
    for name in policy.key_names:
        finder.mark_secret(name)
    return finder


def from_mapping(
    value: Mapping[str, Any],
    types: NodeTypes,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    variables: Mapping[str, Any] | None = None,
) -> Workflow:
    """Builds the workflow that a plain mapping describes. Raises WorkflowError if there is an error.

    `functions` are Python functions that the mapping refers to by name; they belong to this workflow
    alone."""
    workflow, report = examine_mapping(value, types, functions, variables)
    if workflow is None:
        raise WorkflowError(report.diagnostics)
    return workflow


def examine_mapping(
    value: Mapping[str, Any],
    types: NodeTypes,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    variables: Mapping[str, Any] | None = None,
    allow_paths: AllowPaths = (),
    policy: Policy = TRUSTED,
) -> tuple[Workflow | None, Report]:
    """Like `from_mapping`, but returns the report instead of raising."""
    report = Report("<python>", _secret_finder(policy))
    root = locate_or_report(value, report)
    reading = _read_document(root, report, types, variables or {}, None, functions or {}, allow_paths, policy)
    return reading.workflow, reading.report


def _read_document(
    root: Located | None,
    report: Report,
    types: NodeTypes,
    variables: Mapping[str, Any],
    path: Path | None,
    functions: Mapping[str, Callable[..., Any]],
    allow_paths: AllowPaths,
    policy: Policy,
) -> LoadResult:
    if root is None:
        return LoadResult(None, None, report)
    if not policy.trusted:
        # No folder: neither `.env` nor Python files beside it count, and stored runs of it do not read
        # the file again.
        path = None
    # Resolved, because FileAccess compares real paths: a main file reached through a link would
    # otherwise find its own subgraphs outside its folder.
    folder = path.resolve().parent if path else None
    reader = WorkflowReader(report, types, policy.finder(functions, folder), folder, variables, policy)
    if policy.trusted:
        reader.access = FileAccess(folder, resolve_folders(allow_paths))
    if path is not None:
        reader.file_chain = (path.resolve(),)
    workflow = reader.read_workflow(root, functions, str(path) if path else "")
    sound = workflow if report.ok else None
    return LoadResult(sound, sound or reader.draft, report)


class WorkflowReader(GraphReader):
    """Reads a whole file, and creates another `WorkflowReader` for each use of a subgraph file.

    `_read_document` creates the one for the main file."""

    def __init__(
        self,
        report: Report,
        types: NodeTypes,
        finder: FunctionFinder,
        folder: Path | None,
        variables: Mapping[str, Any],
        policy: Policy = TRUSTED,
    ) -> None:
        super().__init__(report, types)
        self.finder = finder
        self.policy = policy
        self.is_trusted = policy.trusted
        if not policy.trusted:
            self.access = policy.access()
        self.documents: dict[str, Located] = {}
        """Under a policy: each file by its name in reports, to find where something refused stands."""
        self.folder = folder
        self.top_folder = folder
        """The folder of the main file; `folder` is that of the file that this reader reads."""
        self.variables = variables
        """The overrides (`--var`, `variables=`). They apply to the files of subgraphs too."""
        self.variable_names: set[str] = set()
        """The variables that this file and those of its subgraphs have, if there are overrides."""
        self.file_chain: tuple[Path, ...] = ()
        """The files from the main one to this one, to detect a file that uses itself."""
        self.files: list[Path] = []
        """One entry for each use of a subgraph file; all readers of a workflow share the list."""
        self.texts: dict[str, str] = {}
        """The text of each subgraph file by its path, so that it is read from disk once; shared as well.
        The trees are not shared: variables of the using file are substituted in them."""
        self.draft: Workflow | None = None
        """What can be drawn, whether or not there are errors."""

    def read_workflow(
        self, at: Located, functions: Mapping[str, Callable[..., Any]], file: str
    ) -> Workflow | None:
        """Reads the main file. Sets `draft` in any case; returns None if the file itself has an
        error."""
        root = self._substitute_variables(at)
        settings = self._read_root(root)
        if isinstance(settings, WorkflowFile):
            self.vars = settings.vars
            self.names.append(("group", settings.memory.group_id, child(root, "memory", "group_id")))
            self._merge_definitions(settings, root)
            for use in settings.middleware:
                self.check_function("middleware", use.name, Located(use.name, use.at.line, use.at.column))
        graph = self._read_root_graph(root)
        # Only now are all names collected, those of subgraph files too, and all secrets found.
        self.secrets.check_names(self.names, self.report)
        self._check_overrides()
        # `read_graph` leaves exactly one draft, that of the whole graph; none if there is no mapping to
        # read.
        for drafted in self.drafts[-1:]:
            assert isinstance(drafted, GraphDefinition)
            self.draft = self._workflow(drafted, settings, functions, file)
            self._report_refusals(replace(self.draft, graph=drafted))
        if settings is INVALID or graph is INVALID:
            return None
        return self.draft

    def _check_overrides(self) -> None:
        """Reports overrides of variables that the workflow does not have. Not while it has other errors: a
        file that could not be read may have them."""
        known = ", ".join(sorted(self.variable_names)) or "none"
        for name in sorted(given_names(self.variables) - self.variable_names) if self.report.ok else ():
            hint = self.report.suggest(name, self.variable_names) or f"its variables: {known}"
            self.report.error("unknown-variable", f"the workflow has no variable '{name}'", None, hint)

    def _report_refusals(self, workflow: Workflow) -> None:
        """Reports everything that the policy does not allow, at its place. The graph is the one before
        secrets were masked in it."""
        locator = RefusalLocator(self.documents)
        for refusal in find_refusals(workflow, self.policy, os.environ):
            at = locator.locate(refusal)
            self.report.add(at.diagnostic(refusal.severity, "not-allowed", refusal.message, refusal.hint))

    def _workflow(
        self, graph: GraphDefinition, settings: Any, functions: Mapping[str, Callable[..., Any]], file: str
    ) -> Workflow:
        root = settings if isinstance(settings, WorkflowFile) else WorkflowFile()
        return Workflow(
            mask_graph(graph, self.secrets.masker) if self.secrets.found else graph,
            str(root.version),
            root.vars,
            self.models,
            self.tools,
            root.limits,
            root.breaker,
            root.memory,
            root.middleware,
            dict(functions),
            file,
            self.access,
            dict(self.variables),
            dict(self.secrets.found),
            root.debug,
        )

    def read_subgraph(self, at: Located) -> Any:
        """Reads the graph of a file that another file uses.

        Its `vars` and `limits` apply to this graph alone; its models, tools and breakpoints join those of
        the workflow. `memory` and `middleware` belong to a run as a whole, so they have no effect here."""
        root = self._substitute_variables(at)
        settings = self._read_root(root)
        if isinstance(settings, WorkflowFile):
            self.vars = {**self.vars, **settings.vars}
            idle = ("middleware",) if settings.memory == MemorySettings() else ("middleware", "memory")
            warn_without_effect(settings, idle, root, self.report)
            self._merge_definitions(settings, root)
        graph = self._read_root_graph(root)
        if settings is INVALID or graph is INVALID:
            return graph
        break_at = (*settings.debug.break_at, *graph.debug.break_at)
        return replace(graph, limits=graph.limits.over(settings.limits), debug=Debugging(break_at))

    def _merge_definitions(self, root: WorkflowFile, at: Located) -> None:
        """Adds the profiles and tools of a file to those of the workflow.

        A name has one meaning in the whole workflow, since agents of any file refer to it by name alone.
        Two files may repeat the same definition: locations do not count in the comparison
        (`SourceLocation.__eq__`)."""
        kinds: tuple[tuple[dict[str, Any], Mapping[str, Any], str], ...] = (
            (self.models, root.models, "models"),
            (self.tools, root.tools, "tools"),
        )
        for known, more, what in kinds:
            for name, made in more.items():
                if known.setdefault(name, made) != made:
                    message = f"'{name}' under '{what}' differs from the one in the file that uses this one"
                    self.report.error("two-meanings", message, child(at, what, name), "give it another name")
        for name, source in root.tools.items():
            if name == EXIT_LOOP:
                message = f"'{name}' is the name of a built-in tool"
                self.report.error("two-meanings", message, child(at, "tools", name), "give it another name")
            if source.python:
                self.check_function("function", source.python, child(at, "tools", name, "python"))
        for name, profile in root.models.items():
            for other in profile.fallback:
                if other not in self.models:
                    hint = self.report.suggest(other, self.models)
                    place = child(at, "models", name, "fallback")
                    self.report.error("unknown-profile", f"there is no model profile '{other}'", place, hint)

    def _substitute_variables(self, at: Located) -> Located:
        trusted = self.policy.trusted
        dotenv = read_dotenv(self.folder / ".env", self.report) if self.folder and trusted else {}
        environment = os.environ if trusted else self.policy.visible_environment(os.environ)
        # In a subgraph file, `self.vars` are the variables of the file that uses it. They come after the
        # file's own `vars` and before the environment.
        inherited = {**environment, **self.vars}
        if self.variables:
            self.variable_names |= find_names(at)
        remedy = "" if trusted else _NO_VARIABLE
        resolved = substitute(at, self.report, self.variables, inherited, dotenv, self.secrets, remedy)
        for name, value in (*self.variables.items(), *dotenv.items()):
            if self.secrets.is_secret(name):
                # Also one that no placeholder uses: tools and Python functions may read it themselves.
                self.secrets.variable(name, value)
        self.secrets.examine(resolved, self.report)
        if not trusted:
            self.documents[self.report.file] = resolved
        return resolved

    def _read_root(self, root: Located) -> Any:
        if isinstance(root.value, dict) and "graph" not in root.value and "nodes" in root.value:
            return WorkflowFile()  # The file is the graph itself; `read_graph` reports its unknown keys.
        return self.read_struct(root, WorkflowFile, "the workflow")

    def _read_root_graph(self, root: Located) -> Any:
        if not isinstance(root.value, dict):
            return self._report_wrong_type(root, "the workflow", "a mapping")
        if "nodes" in root.value and "graph" not in root.value:
            return self.read_graph(root)
        if "graph" not in root.value:
            if not has_misspelling(root, "graph", WorkflowFile):
                self.report.error("missing-key", "the workflow has no 'graph'", root)
            return INVALID
        return self.read_graph(root.value["graph"])

    def read_graph_file(self, at: Located) -> Any:
        """Reads the graph of another file, which a subgraph node names at this location.

        Called by the node type `subgraph`. The same file is read again for each use, since the variables
        of the using file may differ; circles and the number of uses are bounded for that reason."""
        name = str(at.value)
        try:
            path = self._find_file(name)
        except OutsideFolderError as outside:
            if self.access.confined:
                self.report.error("not-allowed", describe_refused_file(name), at, outside.hint)
                return INVALID
            message = f"the subgraph file '{name}' cannot be used: {outside}"
            self.report.error("outside-folder", message, at, outside.hint)
            return INVALID
        if path is None:
            hint = "searched: the folder of this file, its folder `subgraphs`, and the working folder"
            self.report.error("no-file", f"there is no subgraph file '{name}'", at, hint)
            return INVALID
        if path in self.file_chain:
            names = " → ".join(step.name for step in (*self.file_chain[self.file_chain.index(path) :], path))
            self.report.error("circular-file", f"subgraph files use each other in a cycle:  {names}", at)
            return INVALID
        if len(self.file_chain) > MAX_FILE_DEPTH or len(self.files) >= MAX_FILES:
            message = (
                f"with '{name}' there are too many subgraph files: "
                f"more than {MAX_FILE_DEPTH} inside each other, or {MAX_FILES} in all"
            )
            self.report.error("too-many-files", message, at)
            return INVALID
        self.files.append(path)
        return self._read_subgraph_file(path)

    def _find_file(self, name: str) -> Path | None:
        if self.access.confined:
            found = self.access.find(name, None)
            if found is None:
                raise OutsideFolderError(None)  # a text does not learn whether it is missing or forbidden
            return found.place
        folders = [folder for folder in (self.folder, self.top_folder, Path.cwd()) if folder is not None]
        # For subgraphs the working folder counts as outside unless the user allows it
        # (docs/decisions/0012). It is searched all the same: the error can then name the folder to
        # allow, instead of "no such file".
        places = [place / name for folder in folders for place in (folder, folder / "subgraphs")]
        # os.path.isfile returns False for a name that is too long or contains a NUL; Path.is_file
        # raises.
        there = next((place for place in places if os.path.isfile(place)), None)  # noqa: PTH113
        return None if there is None else self.access.resolve_inside(there)

    def _read_subgraph_file(self, path: Path) -> Any:
        # A report of its own, because a report has one file name. It is merged below even if the file
        # could not be read; what it says outside any node is then attributed to the node that uses the
        # file.
        # Where the folders of the operator are is nothing that a text has to know.
        report = Report(path.name if self.access.confined else os.path.relpath(path), self.secrets)
        root = read_file(path, report, self.texts)
        graph: Any = INVALID
        if root is not None:
            other = WorkflowReader(report, self.types, self.finder, path.parent, self.variables, self.policy)
            other.top_folder, other.file_chain, other.vars = (
                self.top_folder,
                (*self.file_chain, path),
                self.vars,
            )
            # Shared, not copied: see the module docstring.
            other.files, other.models, other.tools = self.files, self.models, self.tools
            other.texts, other.access, other.names = self.texts, self.access, self.names
            other.drafts, other.documents = self.drafts, self.documents
            other.variable_names = self.variable_names
            graph = other.read_subgraph(root)
        self.report.extend(report)
        return graph
