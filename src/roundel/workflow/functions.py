"""Named Python functions: conditions, edge processors and the functions of `python` nodes.

A name is looked for among the functions that belong to the workflow itself (given in Python), then
those registered here, then the entry points of installed packages, and, in the form
`module:function`, beside the workflow file and on the import path.

A function that is `pure` (it looks at nothing but its argument) is called inside the kernel; any
other is called by the host, and what it said goes to the journal.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from roundel.workflow.message import Message
from roundel.workflow.modules import modules_beside, names_of

Kind = Literal["condition", "processor", "function", "tool", "middleware"]
TOOL_FOLDER = "functions.function_calling"
"""Where files of the dialect keep their tools, beside the workflow."""
FAILED_CODE = "==CODE EXECUTION FAILED=="


class FunctionError(Exception):
    """A function of a user raised something; the text names it."""


def raised(error: BaseException) -> str:
    """An exception, by its name and its text."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, to be called inside the kernel: whatever it raises is a FunctionError, so that a
    SystemExit does not end the host. A KeyboardInterrupt may be a real one."""

    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise FunctionError(raised(error)) from error

    return call


class Function(Struct, frozen=True):
    name: str
    call: Callable[..., Any]
    pure: bool = False


_registered: dict[Kind, dict[str, Function]] = {
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


def tool(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function that agents may offer to their models under `name`."""
    return _register("tool", name, False)


def middleware(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a class of middleware that workflows may name."""
    return _register("middleware", name, False)


def _register(kind: Kind, name: str, pure: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def keep(call: Callable[..., Any]) -> Callable[..., Any]:
        _registered[kind][name] = Function(name, call, pure)
        return call

    return keep


class Finder:
    """Finds functions for one workflow."""

    def __init__(self, own: Mapping[str, Callable[..., Any]], folder: Path | None) -> None:
        self._own = own
        self._folder = folder

    def known(self, kind: Kind, name: str) -> bool:
        """Whether the name leads somewhere, without running any code of the user's."""
        if name in self._own or name in _registered[kind] or name in offered(kind):
            return True
        if kind == "tool" and self._tool_module(name) is not None:
            return True
        module = name.partition(":")[0]
        return ":" in name and self._module_exists(module)

    def names(self, kind: Kind) -> list[str]:
        return [*self._own, *_registered[kind], *offered(kind)]

    def find(self, kind: Kind, name: str) -> Function:
        """The function; LookupError says what is missing."""
        if name in self._own:
            return Function(name, self._own[name])
        if name in _registered[kind]:
            return _registered[kind][name]
        points = offered(kind)
        if name in points:
            return Function(name, points[name].load())
        module = self._tool_module(name) if kind == "tool" else None
        return Function(name, self.load(f"{module}:{name}" if module else name))

    def known_module(self, name: str) -> bool:
        """Whether there is a file of tools with this name beside the workflow."""
        return self._tool_file(name) is not None

    def module(self, name: str) -> Any:
        """The file of tools with this name, loaded; None if there is none."""
        path = self._tool_file(name)
        return None if path is None or self._folder is None else self._loaded(path, name)

    def _tool_file(self, name: str) -> Path | None:
        return self._file(f"{TOOL_FOLDER}.{name}") or self._file(name)

    def _tool_module(self, name: str) -> str | None:
        """The file in the folder of tools that defines a function."""
        folder = self._folder / Path(*TOOL_FOLDER.split(".")) if self._folder is not None else None
        for module in modules_beside(folder) if name.isidentifier() else ():
            if name in (names_of(module, folder) or ()):
                return f"{TOOL_FOLDER}.{module}"
        return None

    def load(self, reference: str) -> Callable[..., Any]:
        """The object behind `module:function`."""
        module_name, _, attribute = reference.partition(":")
        if not attribute:
            raise LookupError(f"there is no function '{reference}'")
        try:
            module = self._import(module_name)
        except (Exception, SystemExit) as error:  # whatever the code of a module does when it is run
            kind = "" if isinstance(error, ImportError) else f"{type(error).__name__}: "
            raise LookupError(f"cannot import '{module_name}': {kind}{error}") from error
        function = getattr(module, attribute, None)
        if not callable(function):
            raise LookupError(f"module '{module_name}' has no function '{attribute}'")
        return function  # type: ignore[no-any-return]

    def _module_exists(self, name: str) -> bool:
        if self._file(name) is not None:
            return True
        try:
            return importlib.util.find_spec(name) is not None
        except (ImportError, ValueError, AttributeError):
            return False
        except Exception:
            return True  # the package around it is there, and does not run: loading it says so

    def _file(self, name: str) -> Path | None:
        if self._folder is None or not re.fullmatch(r"\w+(\.\w+)*", name):
            return None
        path = self._folder.joinpath(*name.split(".")).with_suffix(".py")
        return path if os.path.isfile(path) else None  # noqa: PTH113 (it takes names of any length)

    def _import(self, name: str) -> Any:
        path = self._file(name)
        return import_module(name) if path is None else self._loaded(path, name)

    def _loaded(self, path: Path, name: str) -> Any:
        # A file beside the workflow is loaded under a name of its own, so that two workflows whose
        # folders both hold a `tools.py` never get each other's.
        unique = f"roundel_beside.{abs(hash(path.resolve()))}.{name}"
        if unique not in sys.modules:
            spec = importlib.util.spec_from_file_location(unique, path)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[unique] = module
            try:
                spec.loader.exec_module(module)
            except BaseException:
                del sys.modules[unique]
                raise
        return sys.modules[unique]


_points: dict[str, dict[str, Any]] = {}


def offered(kind: Kind) -> dict[str, Any]:
    """What installed packages offer of a kind."""
    return entry_points("roundel.middleware" if kind == "middleware" else f"roundel.{kind}s")


def entry_points(group: str) -> dict[str, Any]:
    """What installed packages offer under `group`; looked up once, and only when first asked for."""
    if group not in _points:
        from importlib.metadata import entry_points as installed

        _points[group] = {point.name: point for point in installed(group=group)}
    return _points[group]


# The names that workflow files of the dialect rely on.

_VERDICT = re.compile(r"verdict\s*:\s*\**\s*([A-Za-z]+)", re.IGNORECASE)


def _verdict_stops(message: Message) -> bool:
    found = _VERDICT.search(message.text)
    return found is not None and found[1].upper() in ("STOP", "DONE")


condition("true", pure=True)(lambda _: True)
condition("always_true", pure=True)(lambda _: True)
condition("false", pure=True)(lambda _: False)
condition("always_false", pure=True)(lambda _: False)
condition("contains_keyword", pure=True)(lambda message: "trigger" in message.text.lower())
condition("not_contains_keyword", pure=True)(lambda message: "trigger" not in message.text.lower())
condition("length_greater_than_5", pure=True)(lambda message: len(message.text) > 5)
condition("code_pass", pure=True)(lambda message: FAILED_CODE not in message.text)
condition("code_fail", pure=True)(lambda message: FAILED_CODE in message.text)
condition("should_stop_loop", pure=True)(_verdict_stops)
condition("need_reflection_loop", pure=True)(lambda message: not _verdict_stops(message))
processor("uppercase_payload", pure=True)(lambda message: message.text.upper())
