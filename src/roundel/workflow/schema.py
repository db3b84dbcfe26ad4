"""The JSON Schema of workflow files, for editors, made from the types that the reader uses."""

from __future__ import annotations

import inspect
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from roundel.workflow.fields import Place
from roundel.workflow.graph import Edge, Envelope, Settings
from roundel.workflow.loader import Root
from roundel.workflow.node_type import NodeType, NodeTypes

Schema = dict[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"
PLACEHOLDER: Schema = {"type": "string", "pattern": r"^\$\{[A-Za-z_][A-Za-z0-9_]*\}$"}
VARIABLES: Schema = {
    "type": "object",
    "additionalProperties": {
        "anyOf": [
            {
                "type": "object",
                "properties": {"value": {}, "secret": {"const": True}},
                "required": ["secret"],
                "additionalProperties": False,
                "description": "A secret: its value is neither stored nor shown. Without one it comes from "
                "--var, the environment or .env.",
            },
            {},
        ]
    },
}
_SCALARS: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def workflow_schema(types: NodeTypes) -> Schema:
    """The schema of a whole file."""
    maker = SchemaMaker()
    kinds = list(dict.fromkeys(types[name] for name in types))
    maker.definitions["node"] = {"oneOf": [maker.node(kind) for kind in kinds]}
    graph = maker.struct(Settings)
    graph["properties"]["nodes"] = {"anyOf": _one_or_more({"$ref": "#/$defs/node"})}
    graph["properties"]["edges"] = {"anyOf": [*_one_or_more(maker.of(Edge)), {"type": "null"}]}
    graph["required"] = ["nodes"]
    maker.definitions["graph"] = graph
    root = maker.struct(Root)
    root["properties"]["graph"] = {"$ref": "#/$defs/graph"}
    root["properties"]["vars"] = {"anyOf": [VARIABLES, {"type": "null"}]}
    root["required"] = ["graph"]
    return {"$schema": DIALECT, "title": "Roundel workflow", **root, "$defs": maker.definitions}


def _one_or_more(item: Schema) -> list[Schema]:
    return [{"type": "array", "items": item}, item]


class SchemaMaker:
    def __init__(self) -> None:
        self.definitions: dict[str, Schema] = {}

    def of(self, kind: Any) -> Schema:
        """The schema of a type; scalars other than text may also be a `${VARIABLE}`."""
        if get_origin(kind) is Annotated:
            base, *notes = get_args(kind)
            meta = next((note for note in notes if isinstance(note, Meta)), None)
            return self._bounded(self.of(base), meta)
        if get_origin(kind) in (Union, UnionType):
            return self._union(kind)
        if kind is Any:
            return {}
        if hasattr(kind, "__schema__"):
            made: Schema = kind.__schema__(self)
            return made
        if isinstance(kind, type) and issubclass(kind, Struct):
            return self._named(kind)
        return self._plain(kind)

    def _plain(self, kind: Any) -> Schema:
        origin = get_origin(kind)
        if origin in (tuple, list):
            return {"type": "array", "items": self.of(get_args(kind)[0])}
        if origin is dict:
            return {"type": "object", "additionalProperties": self.of(get_args(kind)[1])}
        if origin is Literal:
            return {"enum": list(get_args(kind))}
        name = _SCALARS[kind]
        return {"type": name} if kind is str else {"anyOf": [{"type": name}, PLACEHOLDER]}

    def _union(self, kind: Any) -> Schema:
        options = [self.of(option) for option in get_args(kind) if option is not NoneType]
        if NoneType in get_args(kind):
            options.append({"type": "null"})
        return {"anyOf": options}

    def _bounded(self, schema: Schema, meta: Meta | None) -> Schema:
        if meta is None:
            return schema
        if (meta.extra or {}).get("wrap"):
            return {"anyOf": [schema["items"], schema]}
        words = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "min_length": "minLength"}
        bounds = {
            word: getattr(meta, name) for name, word in words.items() if getattr(meta, name) is not None
        }
        target = schema["anyOf"][0] if "anyOf" in schema else schema
        target.update(bounds)
        return schema

    def _named(self, kind: type[Struct]) -> Schema:
        name = f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}"
        if name not in self.definitions:
            self.definitions[name] = {}  # a place for types that hold themselves
            self.definitions[name] = self.struct(kind)
        return {"$ref": f"#/$defs/{name}"}

    def struct(self, kind: type[Struct]) -> Schema:
        properties: dict[str, Schema] = {}
        required = []
        for field in msgspec.structs.fields(kind):
            if field.type is Place:
                continue
            properties[field.encode_name] = self._field(field)
            if field.required:
                required.append(field.encode_name)
        for other, name in getattr(kind, "__aliases__", {}).items():
            properties[other] = properties[name]
        schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
        if required:
            schema["required"] = required
        if kind.__doc__:
            schema["description"] = inspect.cleandoc(kind.__doc__)
        return schema

    def _field(self, field: msgspec.structs.FieldInfo) -> Schema:
        schema = self.of(field.type)
        nothing = {"type": "null"}
        if not field.required and schema and nothing not in schema.get("anyOf", ()):
            schema = {"anyOf": [*schema.get("anyOf", [schema]), nothing]}
        if isinstance(field.default, (str, int, float, bool)) and field.default != "":
            schema = {**schema, "default": field.default}
        return schema

    def variants(
        self, forms: dict[str, type[Struct]], extra: dict[str, Schema] | None = None
    ) -> list[Schema]:
        """`{type, config}` for each form."""
        return [
            {
                "type": "object",
                "properties": {
                    "type": {"const": name},
                    "config": self._config(form),
                    **(extra or {}),
                },
                "required": ["type", "config"] if _needed(form) else ["type"],
                "additionalProperties": False,
            }
            for name, form in forms.items()
        ]

    def node(self, kind: NodeType) -> Schema:
        schema = self.struct(Envelope)
        names = [kind.name, *kind.aliases]
        schema["properties"]["type"] = {"const": names[0]} if len(names) == 1 else {"enum": names}
        schema["properties"]["config"] = self._config(kind.config)
        schema["description"] = kind.summary
        if _needed(kind.config):
            schema["required"] = [*schema["required"], "config"]
        return schema

    def _config(self, kind: type[Struct]) -> Schema:
        schema = self.of(kind)
        return schema if _needed(kind) else {"anyOf": [schema, {"type": "null"}]}


def _needed(config: type[Struct]) -> bool:
    return any(field.required for field in msgspec.structs.fields(config))
