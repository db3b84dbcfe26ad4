"""Python modules as they stand in files: found and looked into without running them."""

from __future__ import annotations

import os
import re
import symtable
from functools import lru_cache
from pathlib import Path
from symtable import SymbolTable

from roundel.workflow.imports import ModuleError, spec_of

_DEFINITION = re.compile(r"^(?:async[ \t]+)?def[ \t]+(\w+)", re.MULTILINE)
_DYNAMIC = {"globals", "vars", "locals", "exec", "setattr", "__getattr__", "__import__", "sys"}
"""A module that speaks of one of these may have names that its text does not show."""


def modules_beside(folder: Path | None) -> list[str]:
    """The modules that stand in a folder."""
    return sorted(path.stem for path in folder.glob("*.py")) if folder is not None else []


def names_of(module: str, folder: Path | None) -> set[str] | None:
    """What a module defines; None if that cannot be told from its text."""
    path = _path(module, folder)
    if path is None or path.suffix != ".py":
        return None
    try:
        text = path.read_text(encoding="utf-8")
        table = symtable.symtable(text, str(path), "exec")
    except (OSError, ValueError, SyntaxError, RecursionError):
        return None  # loading it says what is wrong
    if "import *" in text or any(name in _DYNAMIC for name in _mentioned(table)):
        return None
    return _defined(table)


def file_defining(name: str, folder: Path) -> Path | None:
    """The file in a folder that defines a function; not one that only imports it."""
    if not name.isidentifier() or name.startswith("_") or not os.path.isdir(folder):  # noqa: PTH112
        return None
    files = (folder / f"{module}.py" for module in modules_beside(folder))
    return next((file for file in files if name in _own_names(file)), None)


def _own_names(path: Path) -> frozenset[str]:
    try:
        status = path.stat()
        return _names_in(path, status.st_mtime_ns, status.st_size)
    except OSError:
        return frozenset()


@lru_cache(maxsize=256)
def _names_in(path: Path, _changed: int, _size: int) -> frozenset[str]:
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        table = symtable.symtable(text, str(path), "exec")
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        # Loading it will say what is wrong with it, once one of its functions is asked for.
        return frozenset(_DEFINITION.findall(text))
    symbols = table.get_symbols()
    return frozenset(each.get_name() for each in symbols if _binds(each) and not each.is_imported())


def _path(module: str, folder: Path | None) -> Path | None:
    if not re.fullmatch(r"\w+(\.\w+)*", module):
        return None
    own = folder.joinpath(*module.split(".")).with_suffix(".py") if folder is not None else None
    if own is not None and os.path.isfile(own):  # noqa: PTH113 (it takes names of any length)
        return own
    try:
        spec = spec_of(module)
    except ModuleError:  # loading it says what is wrong
        return None
    return Path(spec.origin) if spec is not None and spec.has_location and spec.origin else None


def _defined(table: SymbolTable) -> set[str]:
    own = {symbol.get_name() for symbol in table.get_symbols() if _binds(symbol)}
    for inner in table.get_children():
        own |= _made_global(inner)
    return own


def _binds(symbol: symtable.Symbol) -> bool:
    return symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()


def _made_global(table: SymbolTable) -> set[str]:
    found = {
        symbol.get_name() for symbol in table.get_symbols() if symbol.is_declared_global() and _binds(symbol)
    }
    return found.union(*map(_made_global, table.get_children()))


def _mentioned(table: SymbolTable) -> set[str]:
    return set(table.get_identifiers()).union(*map(_mentioned, table.get_children()))
