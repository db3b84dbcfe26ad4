"""Python functions that workflows name: conditions, edge processors, functions of `python` nodes, tools
and middleware.

`FunctionFinder` resolves a name for one workflow, in this order:

    1. functions that belong to the workflow itself, given in Python
    2. functions that the process has registered with the decorators here
    3. entry points of installed packages
    4. the folder `functions/` of the dialect, beside the workflow file or one folder up
    5. `module:function`: a file beside the workflow file, then the import path

Own functions come first, so that registering a function elsewhere in the process never changes a
workflow.

Looking up a name (`known`) does not run code where it can be avoided: files are read with `symtable`,
which compiles but does not execute. `roundel check` imports what a workflow uses in the end, to see
whether it can be imported; but a suggestion, or a search through all files of a folder, must not run the
code of functions that nobody uses.

Importing runs code of users inside the engine. `_import_guard` makes the outcome predictable, whatever
the code does: either a module, or a ModuleError with the reason. What the code prints goes to standard
error, since standard output may be read by a program.

The kernel calls only the built-in functions (`_BUILT_IN`). The host calls all others, and writes what
they return to the journal, so a stored run can be read where their code is missing
(docs/decisions/0007).
"""

from __future__ import annotations

import importlib.util
import os
import re
import symtable
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from functools import lru_cache
from importlib import import_module
from importlib.machinery import ModuleSpec
from pathlib import Path
from symtable import SymbolTable
from typing import Any, Final, Literal, ParamSpec, TypeVar

from msgspec import Struct

from roundel.workflow.message import Message

_MAX_CAUSE_LENGTH: Final = 300


class ModuleError(LookupError):
    """A module cannot be imported. The text names the module, the reason, and the line in its code."""


def import_by_name(name: str) -> Any:
    """Imports a module of the import path."""
    with _import_guard(name):
        return import_module(name)


def import_file(path: Path, name: str) -> Any:
    """Imports the module in a file. It runs once in a process.

    It is registered under a unique name, so that two workflows whose folders both have a `tools.py`
    never get each
    other's."""
    unique = f"roundel_beside.{abs(hash(path.resolve()))}.{name}"
    if unique not in sys.modules:
        spec = importlib.util.spec_from_file_location(unique, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        # Registered before it runs, as the import system does: dataclasses and pickle look their module
        # up there.
        sys.modules[unique] = module
        try:
            with _import_guard(name):
                spec.loader.exec_module(module)
        except BaseException:
            sys.modules.pop(unique, None)
            raise
    return sys.modules[unique]


def find_module_spec(name: str) -> ModuleSpec | None:
    """Locates a module of the import path; None if there is none.

    This runs the packages around the module, but not the module."""
    with _import_guard(name):
        try:
            return importlib.util.find_spec(name)
        except ModuleNotFoundError as error:
            if error.name is not None and f"{name}.".startswith(f"{error.name}."):
                return None
            raise  # The package around it exists, and fails to import another module.
        except (ValueError, AttributeError):
            return None


def load_entry_point(point: Any) -> Any:
    """Imports the object of an entry point."""
    with _import_guard(point.value):
        return point.load()


def get_function(module: Any, name: str, shown: str) -> Callable[..., Any]:
    """The function `name` of a module; LookupError if there is none. `shown` is the module's name in
    messages."""
    with _import_guard(shown):  # A module may have a `__getattr__`, which runs code as well.
        function = getattr(module, name, None)
    if not callable(function):
        raise LookupError(f"module '{shown}' has no function '{name}'")
    return function  # type: ignore[no-any-return]


@contextmanager
def _import_guard(name: str) -> Iterator[None]:
    """Surrounds the execution of module code. Everything that it raises becomes a ModuleError, except
    KeyboardInterrupt, which may come from the user of this process. Its output goes to standard
    error."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # Also SystemExit: sys.exit() in a module must not end the host.
        raise ModuleError(f"cannot import '{name}': {_format_cause(error)}") from error


def _format_cause(error: BaseException) -> str:
    try:
        text = " ".join(str(error).split())
    except Exception:  # An exception class of the module may have a faulty `__str__`.
        text = ""
    kind = type(error).__name__
    if not isinstance(error, ImportError) or not text:
        text = f"{kind}: {text}" if text else kind
    text = text if len(text) <= _MAX_CAUSE_LENGTH else f"{text[: _MAX_CAUSE_LENGTH - 1]}…"
    return text if isinstance(error, SyntaxError) else text + _error_location(error)


def _error_location(error: BaseException) -> str:
    """The last line in the traceback that belongs to code of the user, not to the import system or this
    file."""
    found, step = "", error.__traceback__
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        if file != __file__ and not file.startswith("<") and "importlib" not in Path(file).parts:
            found = f" ({Path(file).name}, line {step.tb_lineno})"
        step = step.tb_next
    return found


_DEFINITION = re.compile(r"^(?:async[ \t]+)?def[ \t]+(\w+)", re.MULTILINE)
_DYNAMIC = {"globals", "vars", "locals", "exec", "setattr", "__getattr__", "__import__", "sys"}
"""Identifiers whose use in a module means that it may define names that its text does not show."""


def list_modules(folder: Path | None) -> list[str]:
    """The names of the modules in a folder."""
    return sorted(path.stem for path in folder.glob("*.py")) if folder is not None else []


def defined_names(module: str, folder: Path | None) -> set[str] | None:
    """The names that a module defines, without running it; None if its text does not tell.

    None means "perhaps": callers must not report a name as missing then."""
    path = _module_path(module, folder)
    if path is None or path.suffix != ".py":
        return None
    try:
        text = path.read_text(encoding="utf-8")
        table = symtable.symtable(text, str(path), "exec")
    except (OSError, ValueError, SyntaxError, RecursionError):
        return None  # Importing it will report what is wrong.
    if "import *" in text or any(name in _DYNAMIC for name in _all_identifiers(table)):
        return None
    return _defined_in_table(table)


def find_defining_file(name: str, folder: Path) -> Path | None:
    """The file in a folder that defines a function. A file that only imports the function does not
    count."""
    if not name.isidentifier() or name.startswith("_") or not os.path.isdir(folder):  # noqa: PTH112
        return None
    files = (folder / f"{module}.py" for module in list_modules(folder))
    return next((file for file in files if name in _names_defined_in(file)), None)


def _names_defined_in(path: Path) -> frozenset[str]:
    try:
        status = path.stat()
        return _parse_defined_names(path, status.st_mtime_ns, status.st_size)
    except OSError:
        return frozenset()


# The modification time and the size are part of the key, so that a file that was edited is parsed again.
@lru_cache(maxsize=256)
def _parse_defined_names(path: Path, _changed: int, _size: int) -> frozenset[str]:
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        table = symtable.symtable(text, str(path), "exec")
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        # A guess by the text leads to an import that reports the syntax error, instead of "no such
        # function".
        return frozenset(_DEFINITION.findall(text))
    symbols = table.get_symbols()
    return frozenset(each.get_name() for each in symbols if _is_bound(each) and not each.is_imported())


def _module_path(module: str, folder: Path | None) -> Path | None:
    if not re.fullmatch(r"\w+(\.\w+)*", module):
        return None
    own = folder.joinpath(*module.split(".")).with_suffix(".py") if folder is not None else None
    if own is not None and os.path.isfile(own):  # noqa: PTH113 (it takes names of any length)
        return own
    try:
        spec = find_module_spec(module)
    except ModuleError:  # Importing it will report what is wrong.
        return None
    return Path(spec.origin) if spec is not None and spec.has_location and spec.origin else None


def _defined_in_table(table: SymbolTable) -> set[str]:
    own = {symbol.get_name() for symbol in table.get_symbols() if _is_bound(symbol)}
    for inner in table.get_children():
        own |= _declared_globals(inner)
    return own


def _is_bound(symbol: symtable.Symbol) -> bool:
    return symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()


def _declared_globals(table: SymbolTable) -> set[str]:
    found = {
        symbol.get_name()
        for symbol in table.get_symbols()
        if symbol.is_declared_global() and _is_bound(symbol)
    }
    return found.union(*map(_declared_globals, table.get_children()))


def _all_identifiers(table: SymbolTable) -> set[str]:
    return set(table.get_identifiers()).union(*map(_all_identifiers, table.get_children()))


FunctionKind = Literal["condition", "processor", "function", "tool", "middleware"]
Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")
CODE_FAILURE_MARKER = "==CODE EXECUTION FAILED=="
"""What files of the dialect write into a message when code failed; the conditions `code_pass` and
`code_fail` test it."""


class FunctionError(Exception):
    """A function of a user raised an exception, which the text names."""


def format_exception(error: BaseException) -> str:
    """Formats an exception as its type and its text."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def wrap_errors(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function that the kernel calls: whatever it raises becomes a FunctionError, so that a
    SystemExit does not end the host. KeyboardInterrupt passes, since it may come from the user of this
    process."""

    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise FunctionError(format_exception(error)) from error

    return call


def make_lazy(make: Callable[[], Callable[Parameters, Returned]]) -> Callable[Parameters, Returned]:
    """Defers creating a function to its first call.

    Reading a stored run calls none of them: its decisions are stored. So a pattern that a newer library
    would reject does not make the run unreadable."""
    made: Callable[Parameters, Returned] | None = None

    def call(*arguments: Parameters.args, **named: Parameters.kwargs) -> Returned:
        nonlocal made
        if made is None:
            made = make()
        return made(*arguments, **named)

    return call


class Function(Struct, frozen=True):
    """A function that was found by its name. The registry and `FunctionFinder` create it."""

    name: str
    call: Callable[..., Any]
    pure: bool = False
    """Whether it depends on its argument alone and does not block. The host then calls it directly,
    without a thread and without a commit before it. Its result is a fact all the same: nothing enforces
    the promise."""


_registered: dict[FunctionKind, dict[str, Function]] = {
    "condition": {},
    "processor": {},
    "function": {},
    "tool": {},
    "middleware": {},
}


def condition(name: str, *, pure: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function of a message as an edge condition under `name`."""
    return _register("condition", name, pure)


def processor(name: str, *, pure: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function of a message as an edge processor under `name`."""
    return _register("processor", name, pure)


def function(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function that `python` nodes may call under `name`."""
    return _register("function", name, False)


EXIT_LOOP = "exit_loop"
"""The built-in tool by which a model ends the loop around its agent (llm/toolbox.py). No other tool may
have this name, since the ports of an agent depend on it."""


def tool(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function that agents may offer to their models under `name`."""
    if name == EXIT_LOOP:
        raise ValueError(f"'{EXIT_LOOP}' is the name of a built-in tool; choose another name")
    return _register("tool", name, False)


def middleware(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a class of middleware that workflows may name."""
    return _register("middleware", name, False)


def _register(
    kind: FunctionKind, name: str, pure: bool
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    if (kind, name) in _BUILT_IN:
        raise ValueError(f"'{name}' is a built-in {kind}; register yours under another name")

    def register(call: Callable[..., Any]) -> Callable[..., Any]:
        _registered[kind][name] = Function(name, call, pure)
        return call

    return register


class FunctionFinder:
    """Finds functions for one workflow, whose functions and folder it knows. The loader creates one to
    check names, and a host another one to call them."""

    def __init__(self, own: Mapping[str, Callable[..., Any] | None], folder: Path | None) -> None:
        self._own = own
        self._folder = folder

    def known(self, kind: FunctionKind, name: str) -> bool:
        """Whether the name refers to something, without running the code that it refers to.

        For `module:function` only the module is looked for: `find` reports a missing function more
        precisely."""
        if name in self._own or name in _registered[kind] or name in installed_functions(kind):
            return True
        if self._find_dialect_file(kind, name) is not None:
            return True
        module = name.partition(":")[0]
        return ":" in name and self._module_exists(module)

    def names(self, kind: FunctionKind) -> list[str]:
        return [*self._own, *_registered[kind], *installed_functions(kind)]

    def find(self, kind: FunctionKind, name: str) -> Function:
        """Finds and imports a function. Raises LookupError, which says what is missing or why it cannot
        be imported."""
        if name in self._own:
            own = self._own[name]
            if own is None:
                raise LookupError(
                    f"the function '{name}' was given in Python, and its code is not stored with the run; "
                    "continue it in Python with the same workflow: roundel.resume(run, workflow=…)"
                )
            return Function(name, own)
        if name in _registered[kind]:
            return _registered[kind][name]
        points = installed_functions(kind)
        if name in points:
            return Function(name, load_entry_point(points[name]))
        file = self._find_dialect_file(kind, name)
        if file is not None:
            return Function(
                name, _ADAPTERS[kind](get_function(self._import_tree_file(file), name, _module_name(file)))
            )
        return Function(name, self.load(name))

    def module(self, name: str) -> Any:
        """Imports the file of tools with this name; None if there is none. Raises LookupError if it
        cannot be imported."""
        path = self._tool_file(name)
        if path is None:
            return None
        return import_file(path, name) if path == self._file(name) else self._import_tree_file(path)

    def load(self, reference: str) -> Callable[..., Any]:
        """The object behind `module:function`."""
        module_name, _, attribute = reference.partition(":")
        if not attribute:
            raise LookupError(f"there is no function '{reference}'")
        path = self._file(module_name)
        module = import_by_name(module_name) if path is None else import_file(path, module_name)
        return get_function(module, attribute, module_name)

    # The tree `functions/` of the dialect: beside the workflow file, or beside the folder that it is in.

    def _function_folders(self) -> list[Path]:
        folder = self._folder
        if folder is None:
            return []
        roots = [folder, folder.parent]
        # The files in `subgraphs/` are mostly used by workflows of the folder around it, and share its
        # functions.
        if folder.name == SUBGRAPHS_FOLDER:
            roots.append(folder.parent.parent)
        return [root / FUNCTIONS_FOLDER for root in dict.fromkeys(roots)]

    def _find_dialect_file(self, kind: FunctionKind, name: str) -> Path | None:
        """The file of the tree that defines a function of this kind; the first one, if several do."""
        folder = KIND_FOLDERS.get(kind)
        files = (
            (find_defining_file(name, tree / folder) for tree in self._function_folders()) if folder else ()
        )
        return next((file for file in files if file is not None), None)

    def _tool_file(self, name: str) -> Path | None:
        places = [tree / KIND_FOLDERS["tool"] / f"{name}.py" for tree in self._function_folders()]
        there = (path for path in places if _MODULE.fullmatch(name) and os.path.isfile(path))  # noqa: PTH113
        return next(there, None) or self._file(name)

    def _import_tree_file(self, path: Path) -> Any:
        """Imports a file of the tree. Such files import each other as `functions.…`, so the folder
        around the tree has to be on the import path; it is appended, so that it cannot shadow installed
        modules."""
        root = str(path.parents[2])
        if root not in sys.path:
            sys.path.append(root)
        return import_file(path, _module_name(path))

    def _module_exists(self, name: str) -> bool:
        if self._file(name) is not None:
            return True
        try:
            return find_module_spec(name) is not None
        except ModuleError:
            return True  # The package around it exists, and fails to run; importing it reports why.

    def _file(self, name: str) -> Path | None:
        if self._folder is None or not _MODULE.fullmatch(name):
            return None
        path = self._folder.joinpath(*name.split(".")).with_suffix(".py")
        return path if os.path.isfile(path) else None  # noqa: PTH113 (it takes names of any length)


def _module_name(file: Path) -> str:
    """A file of the tree as a module: `functions.edge.conditions`."""
    return ".".join((*file.parts[-3:-1], file.stem))


def _adapt_condition(function: Callable[..., Any]) -> Callable[[Message], Any]:
    """A condition of the dialect takes the text of a message instead of the message."""
    return lambda message: function(message.text)


def _adapt_processor(function: Callable[..., Any]) -> Callable[[Message, Path], Any]:
    """A processor of the dialect takes the text of a message and a context, which has the workspace of
    the run."""

    def process(message: Message, workspace: Path) -> Any:
        return function(message.text, {"python_workspace_root": workspace})

    return process


FUNCTIONS_FOLDER: Final = "functions"
SUBGRAPHS_FOLDER: Final = "subgraphs"
KIND_FOLDERS: Final[dict[FunctionKind, str]] = {
    "tool": "function_calling",
    "condition": "edge",
    "processor": "edge_processor",
}
"""The folders below `functions/` in which files of the dialect put functions of each kind."""
_ADAPTERS: Final[dict[FunctionKind, Callable[[Callable[..., Any]], Callable[..., Any]]]] = {
    "tool": lambda function: function,
    "condition": _adapt_condition,
    "processor": _adapt_processor,
}
_MODULE = re.compile(r"\w+(\.\w+)*")


_entry_points: dict[str, dict[str, Any]] = {}


def installed_functions(kind: FunctionKind) -> dict[str, Any]:
    """The entry points of installed packages for a kind of function."""
    return entry_points("roundel.middleware" if kind == "middleware" else f"roundel.{kind}s")


def entry_points(group: str) -> dict[str, Any]:
    """The entry points of a group, by name. Read once and on first use: it scans the metadata of all
    installed packages."""
    if group not in _entry_points:
        from importlib.metadata import entry_points as installed

        _entry_points[group] = {point.name: point for point in installed(group=group)}
    return _entry_points[group]


# The built-in functions are those that files of the dialect refer to by name.

_VERDICT = re.compile(r"verdict\s*:\s*\**\s*([A-Za-z]+)", re.IGNORECASE)


def _verdict_stops(message: Message) -> bool:
    found = _VERDICT.search(message.text)
    return found is not None and found[1].upper() in ("STOP", "DONE")


_BUILT_IN: Final[dict[tuple[FunctionKind, str], Callable[[Message], Any]]] = {
    ("condition", "true"): lambda _: True,
    ("condition", "always_true"): lambda _: True,
    ("condition", "false"): lambda _: False,
    ("condition", "always_false"): lambda _: False,
    ("condition", "contains_keyword"): lambda message: "trigger" in message.text.lower(),
    ("condition", "not_contains_keyword"): lambda message: "trigger" not in message.text.lower(),
    ("condition", "length_greater_than_5"): lambda message: len(message.text) > 5,
    ("condition", "code_pass"): lambda message: CODE_FAILURE_MARKER not in message.text,
    ("condition", "code_fail"): lambda message: CODE_FAILURE_MARKER in message.text,
    ("condition", "should_stop_loop"): _verdict_stops,
    ("condition", "need_reflection_loop"): lambda message: not _verdict_stops(message),
    ("processor", "uppercase_payload"): lambda message: message.text.upper(),
}
"""The functions that the kernel calls itself. Their results are stored like those of other
conditions."""
for (_kind, _name), _call in _BUILT_IN.items():
    _registered[_kind][_name] = Function(_name, _call, pure=True)


def get_builtin(kind: FunctionKind, name: str) -> Callable[[Message], Any] | None:
    return _BUILT_IN.get((kind, name))
