"""Imports the modules that workflows name.

Whatever the code of such a module does, the outcome is the module or a ModuleError that says why not.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, Final

_LONGEST_CAUSE: Final = 300


class ModuleError(LookupError):
    """A module that cannot be imported; the text says which, and why."""


def import_named(name: str) -> Any:
    """A module of the import path."""
    with _running(name):
        return import_module(name)


def import_file(path: Path, name: str) -> Any:
    """The module in a file, which is run once a process.

    It is loaded under a name of its own, so that two workflows whose folders both hold a `tools.py` never
    get each other's."""
    unique = f"roundel_beside.{abs(hash(path.resolve()))}.{name}"
    if unique not in sys.modules:
        spec = importlib.util.spec_from_file_location(unique, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[unique] = module
        try:
            with _running(name):
                spec.loader.exec_module(module)
        except BaseException:
            sys.modules.pop(unique, None)
            raise
    return sys.modules[unique]


def spec_of(name: str) -> ModuleSpec | None:
    """Where a module of the import path is; None if there is none. It runs the packages around the module."""
    with _running(name):
        try:
            return importlib.util.find_spec(name)
        except ModuleNotFoundError as error:
            if error.name is not None and f"{name}.".startswith(f"{error.name}."):
                return None
            raise  # a package around it is there, and lacks another
        except (ValueError, AttributeError):
            return None


def load_entry_point(point: Any) -> Any:
    """What an installed package offers."""
    with _running(point.value):
        return point.load()


def function_of(module: Any, name: str, shown: str) -> Callable[..., Any]:
    """The function of a module, which is shown as `shown`; LookupError if it has none."""
    with _running(shown):  # a module may have a `__getattr__` of its own
        function = getattr(module, name, None)
    if not callable(function):
        raise LookupError(f"module '{shown}' has no function '{name}'")
    return function  # type: ignore[no-any-return]


@contextmanager
def _running(name: str) -> Iterator[None]:
    """Runs code of a module: it prints to standard error, since standard output may be for machines."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: a module does not end the program
        raise ModuleError(f"cannot import '{name}': {_cause(error)}") from error


def _cause(error: BaseException) -> str:
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = ""
    kind = type(error).__name__
    if not isinstance(error, ImportError) or not text:
        text = f"{kind}: {text}" if text else kind
    text = text if len(text) <= _LONGEST_CAUSE else f"{text[: _LONGEST_CAUSE - 1]}…"
    return text if isinstance(error, SyntaxError) else text + _place(error)


def _place(error: BaseException) -> str:
    """The last line of the module's own code that was run, and not of the import system."""
    found, step = "", error.__traceback__
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        if file != __file__ and not file.startswith("<") and "importlib" not in Path(file).parts:
            found = f" ({Path(file).name}, line {step.tb_lineno})"
        step = step.tb_next
    return found
