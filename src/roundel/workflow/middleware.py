"""Which middleware a workflow runs with: the entries under `middleware`, in their order."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from roundel.workflow.description import Description, Field, Short
from roundel.workflow.document import Located
from roundel.workflow.fields import Place, Reader


class MiddlewareUse(Struct, frozen=True, omit_defaults=True):
    """A name (of an entry point, of what was registered, or `module:Class`), and what it is made with."""

    name: str
    config: dict[str, Any] = {}
    at: Place = Place()

    @staticmethod
    def __describe__() -> Description:
        name = Field(
            en=("Name", "The name of an entry point, of a registered class, or `module:Class`."),
            zh=("名称", "入口点或已注册的类的名称，或写作 `module:Class`。"),
            widget="function",
        )
        return Description(
            name="middleware",
            en=("Middleware", "Code around the nodes of a run, and its settings."),
            zh=("中间件", "围绕节点执行的代码及其设置。"),
            short=(Short(kind=str, key="name", en=name.en, zh=name.zh, widget="function"),),
            fields={
                "name": name,
                "config": Field(
                    en=("Settings", "The arguments with which the class is created."),
                    zh=("设置", "创建该类时传入的参数。"),
                ),
            },
        )

    @classmethod
    def __read__(cls, at: Located, reader: Reader) -> Any:
        if isinstance(at.value, str):
            return cls(at.value, at=Place(reader.report.file, at.line, at.column))
        return reader.read_struct(at, cls, "an item of 'middleware'")
