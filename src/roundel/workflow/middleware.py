"""Which middleware a workflow runs with: the entries under `middleware`, in their order."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from roundel.workflow.document import Located
from roundel.workflow.fields import Place, Reader


class MiddlewareUse(Struct, frozen=True, omit_defaults=True):
    """A name (of an entry point, of what was registered, or `module:Class`), and what it is made with."""

    name: str
    config: dict[str, Any] = {}
    at: Place = Place()

    @classmethod
    def __read__(cls, at: Located, reader: Reader) -> Any:
        if isinstance(at.value, str):
            return cls(at.value, at=Place(reader.report.file, at.line, at.column))
        return reader.read_struct(at, cls, "an item of 'middleware'")

    @classmethod
    def __schema__(cls, maker: Any) -> dict[str, Any]:
        return {"anyOf": [{"type": "string"}, maker.struct(cls)]}
