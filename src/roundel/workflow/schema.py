"""The JSON Schema of workflow files, for editors, made from the descriptions of all that a file can contain.

Three rules keep it small, and easy to complete for an editor:

- A described object is one entry under `$defs`. Where it may be left empty, it is a second entry that allows
  null, so that no property needs an `anyOf` for that.
- What may be written as a number or as `${NAME}` has a list of types. In JSON Schema a bound applies to
  numbers only and a pattern to texts only, so both stand beside each other.
- An object with a `type` (a node, a condition, a memory) lists its keys once, and an `if` for each type says
  what the `config` is. An editor then offers all types, and the keys of the one that was chosen; with `oneOf`
  it would report the mistakes of a config once for each type.
"""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from roundel.workflow.config_types import (
    Value,
    bare,
    bounds_of,
    default_of,
    description_of,
    infos_of,
    is_required,
    needs,
    object_name,
    titled,
)
from roundel.workflow.description import Description, Field, Variants
from roundel.workflow.fields import expected
from roundel.workflow.graph import Envelope, Settings
from roundel.workflow.loader import Root
from roundel.workflow.node_type import NodeType, NodeTypes

Schema = dict[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"
PATTERN = r"^\$\{[A-Za-z_][A-Za-z0-9_]*\}$"
REFERENCE = "#/$defs/"
NULL: Schema = {"type": "null"}
VARIABLE, VARIABLE_OR_NULL = "variable", "variable_or_null"
SECRET: Schema = {
    "type": "object",
    "properties": {
        "value": {"title": "Value", "description": "The value, if it stands in the file."},
        "secret": {"title": "Secret", "description": "Marks the variable as secret.", "const": True},
    },
    "required": ["secret"],
    "additionalProperties": False,
    "description": "A secret: its value is neither stored nor shown. Without one it comes from --var, the "
    "environment or .env.",
}
_SCALARS: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}
_SCHEMA_BOUNDS = {
    "minimum": "minimum",
    "exclusive_minimum": "exclusiveMinimum",
    "maximum": "maximum",
    "exclusive_maximum": "exclusiveMaximum",
}


def workflow_schema(types: NodeTypes) -> Schema:
    """The schema of a whole file."""
    maker = SchemaMaker()
    maker.define("node", maker.node(list(dict.fromkeys(types[name] for name in types))))
    maker.define("graph", maker.struct(Settings))
    root = maker.struct(Root)
    root["properties"]["vars"]["additionalProperties"] = {"anyOf": [SECRET, {}]}
    about = {"title": "Roundel workflow", "description": description_of(Root).en[1]}
    return {"$schema": DIALECT, **root, **about, "$defs": _used(root, maker.definitions)}


def _used(root: Schema, definitions: dict[str, Schema]) -> dict[str, Schema]:
    """The definitions that the root leads to. Most objects are only used in the form that allows null."""
    found: set[str] = set()
    waiting: list[Any] = [root]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            name = part["$ref"].removeprefix(REFERENCE) if isinstance(part.get("$ref"), str) else ""
            if name and name not in found:
                found.add(name)
                waiting.append(definitions[name])
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return {name: schema for name, schema in sorted(definitions.items()) if name in found}


class SchemaMaker:
    def __init__(self) -> None:
        variable = {"type": "string", "pattern": PATTERN}  # a text here would hide that of the field
        self.definitions: dict[str, Schema] = {
            VARIABLE: variable,
            VARIABLE_OR_NULL: {**variable, "type": ["string", "null"]},
        }

    def define(self, name: str, schema: Schema) -> None:
        self.definitions[name] = schema

    def of(self, kind: Any, nullable: bool = False) -> Schema:
        """The schema of a type; scalars other than text may also be a `${VARIABLE}`."""
        base, meta = bare(kind)
        if get_origin(base) in (Union, UnionType):
            nullable = nullable or NoneType in get_args(base)
            options = [option for option in get_args(base) if option is not NoneType]
            if len(options) > 1:
                return self._union(options, nullable)
            inner, own = bare(options[0])
            base, meta = inner, own or meta
        if base is Any:
            return {}
        origin = get_origin(base)
        if origin in (tuple, list):
            lone = meta is not None and (meta.extra or {}).get("wrap")
            return self._list(get_args(base)[0], bool(lone), nullable)
        if origin is dict:
            items = self.of(get_args(base)[1])
            return {"type": _types("object", nullable), "additionalProperties": items}
        if origin is Literal:
            words = {"$ref": f"{REFERENCE}{VARIABLE_OR_NULL if nullable else VARIABLE}"}
            return {"anyOf": [{"enum": list(get_args(base))}, words]}
        if base in _SCALARS:
            return self._scalar(base, meta, nullable)
        return self._named(base, nullable)

    def _scalar(self, kind: Any, meta: msgspec.Meta | None, nullable: bool) -> Schema:
        if kind is str:
            text: Schema = {"type": _types("string", nullable)}
            return {**text, "minLength": meta.min_length} if meta and meta.min_length else text
        bounds = bounds_of(meta)
        return {
            "type": [_SCALARS[kind], "string", *(["null"] if nullable else [])],
            "pattern": PATTERN,
            "patternErrorMessage": f"Expected {expected(kind)}, or ${{NAME}}.",
            **{_SCHEMA_BOUNDS[word]: bound for word, bound in bounds.items()},
        }

    def _union(self, options: list[Any], nullable: bool) -> Schema:
        if all(option in _SCALARS for option in options):
            names = [_SCALARS[option] for option in options]
            return {"type": [*names, *(["null"] if nullable else [])]}
        return {"anyOf": [*map(self.of, options), *([NULL] if nullable else [])]}

    def _list(self, item: Any, lone: bool, nullable: bool) -> Schema:
        items = self.of(item)
        if not lone:
            return {"type": _types("array", nullable), "items": items}
        if items.get("type") == "string":
            return {"type": ["array", "string", *(["null"] if nullable else [])], "items": items}
        many = {"type": _types("array", nullable), "items": items}
        return {"anyOf": [many, items]}

    # Described objects

    def _named(self, kind: Any, nullable: bool) -> Schema:
        about = description_of(kind)
        if about.refers:
            references = [{"$ref": f"{REFERENCE}{name}"} for name in about.refers]
            choice = references[0] if len(references) == 1 else {"anyOf": references}
            return _or_null(choice) if nullable else choice
        name = object_name(kind, about)
        if name not in self.definitions:
            self.definitions[name] = {}  # a place for types that hold themselves
            self.definitions[name] = self._object(kind, about)
        if not nullable:
            return {"$ref": f"{REFERENCE}{name}"}
        made = self.definitions[name] or {"$ref": f"{REFERENCE}{name}"}  # empty while it is being made
        self.definitions.setdefault(f"{name}_or_null", _or_null(made))
        return {"$ref": f"{REFERENCE}{name}_or_null"}

    def _object(self, kind: Any, about: Description) -> Schema:
        if hasattr(kind, "__schema__"):
            made: Schema = kind.__schema__(self)
        elif about.short:
            made = self._with_short_forms(kind, about)
        else:
            made = self._mapping(kind, about)
        return {"title": about.en[0], "description": about.en[1], **made}

    def struct(self, kind: Any) -> Schema:
        """The schema of a mapping with the keys of a struct."""
        about = description_of(kind)
        return {"title": about.en[0], "description": about.en[1], **self._mapping(kind, about)}

    def _mapping(self, kind: Any, about: Description) -> Schema:
        infos = infos_of(kind)
        properties: dict[str, Schema] = {}
        required = []
        if about.variants is not None:
            properties.update(self._selector(about.variants))
            required.append(about.variants.key)
            if not about.variants.config:
                return self._inline(about.variants, properties)
        for name, field in about.fields.items():
            info = infos.get(name)
            properties[name] = self._property(field, info)
            if is_required(field, info):
                required.append(name)
        for other, name in getattr(kind, "__aliases__", {}).items():
            properties[other] = {**properties[name], "description": f"Another spelling of `{name}`."}
        schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
        if about.alone:
            # Each of these keys is a whole form of its own; without one of them the rest is required.
            key = about.alone[0] if len(about.alone) == 1 else None
            given = {"required": [key]} if key else {"anyOf": [{"required": [one]} for one in about.alone]}
            rest = {"else": {"required": required}} if required else {"else": False}
            schema |= {"if": given, "then": {"maxProperties": 1}, **rest}
        elif required:
            schema["required"] = required
        if about.variants is not None:
            schema["allOf"] = self._cases(about.variants)
        return schema

    def _with_short_forms(self, kind: Any, about: Description) -> Schema:
        shorts = [self.of(short.kind) for short in about.short]
        if not (about.fields or about.variants):
            return {"anyOf": shorts}
        mapping = self._mapping(kind, about)
        names = dict.fromkeys(["object", *(name for short in shorts for name in _as_list(short["type"]))])
        free = any(short["type"] == "string" for short in shorts)
        return {**mapping, "type": list(names), **({} if free else {"pattern": PATTERN})}

    def _property(self, field: Field, info: msgspec.structs.FieldInfo | None) -> Schema:
        kind = field.kind if field.kind is not None else info.type if info is not None else Any
        required = is_required(field, info)
        schema = self.of(kind, nullable=not required)
        about: Schema = {"title": field.en[0], "description": field.en[1]}
        default = default_of(info)
        if not required and default not in (None, "", [], {}):
            about["default"] = default
        return {**about, **schema}

    # Objects with a type

    def _selector(self, variants: Variants) -> dict[str, Schema]:
        titles = [description_of(form).en for form in variants.forms.values()]
        selector = {
            "title": variants.en[0],
            "description": variants.en[1],
            "enum": list(variants.forms),
            "enumDescriptions": [text or title for title, text in titles],
        }
        config = {"title": "Settings", "description": f"What the {variants.key} needs to know."}
        return {variants.key: selector, **({variants.config: config} if variants.config else {})}

    def _inline(self, variants: Variants, selector: dict[str, Schema]) -> Schema:
        """A mapping that has the keys of a form beside the one that chooses it."""
        cases = []
        for name, form in variants.forms.items():
            mapping = self._mapping(form, description_of(form))
            mapping["properties"] = {variants.key: True, **mapping["properties"]}
            choice = {"title": variants.en[0], "const": name}
            chosen = {"properties": {variants.key: choice}, "required": [variants.key]}
            cases.append({"if": chosen, "then": mapping})
        return {"type": "object", "properties": selector, "required": [variants.key], "allOf": cases}

    def _cases(self, variants: Variants) -> list[Schema]:
        return [self._case(variants, name, form) for name, form in variants.forms.items()]

    def _case(self, variants: Variants, name: str, form: Any) -> Schema:
        return _case(variants.key, [name], variants.config, self.of(form, not needs(form)), needs(form))

    def node(self, kinds: list[NodeType]) -> Schema:
        """A node of any of these types."""
        schema = self.struct(Envelope)
        names = {name: kind.summary for kind in kinds for name in (kind.name, *kind.aliases)}
        choice = {"enum": list(names), "enumDescriptions": list(names.values())}
        about = {key: schema["properties"]["type"][key] for key in ("title", "description")}
        schema["properties"]["type"] = {**about, **choice}
        schema["allOf"] = [self._node_case(kind) for kind in kinds]
        return schema

    def _node_case(self, kind: NodeType) -> Schema:
        name, about = f"node.{kind.name}", description_of(kind.config)
        text = {"title": kind.title or titled(kind.name), "description": kind.summary}
        config = {**self._object(kind.config, about), **text}
        required = needs(kind.config)
        self.definitions[name] = config if required else _or_null(config)
        reference = {"$ref": f"{REFERENCE}{name}"}
        return _case("type", [kind.name, *kind.aliases], "config", reference, required)

    # What may stand in a field

    def takes_variable(self, value: Value) -> bool:
        """Whether `${NAME}` may be written for a value, or for each value in a list or mapping.

        A variable of the environment is text. So this asks whether text is read there: as itself, or as a
        number, a truth value or one of some words. An object has fields of its own, which say so."""
        if value.type != "object":
            return True
        return value.kind is not Any and _takes_text(self.of(value.kind), self.definitions)


def _case(key: str, names: list[str], config: str, form: Schema, required: bool) -> Schema:
    chosen = {"title": "Type", **({"const": names[0]} if len(names) == 1 else {"enum": names})}
    settings = {"title": "Settings", **form}
    then: Schema = {"properties": {config: settings}, **({"required": [config]} if required else {})}
    return {"if": {"properties": {key: chosen}, "required": [key]}, "then": then}


def _takes_text(schema: Schema, definitions: dict[str, Schema]) -> bool:
    if "$ref" in schema:
        return _takes_text(
            definitions.get(schema["$ref"].rpartition("/")[2], {"type": "object"}), definitions
        )
    if "anyOf" in schema:
        return any(_takes_text(option, definitions) for option in schema["anyOf"])
    return bool({"string", "number", "integer", "boolean"} & set(_as_list(schema.get("type", "string"))))


def _types(name: str, nullable: bool) -> str | list[str]:
    return [name, "null"] if nullable else name


def _as_list(names: str | list[str]) -> list[str]:
    return [names] if isinstance(names, str) else names


def _or_null(schema: Schema) -> Schema:
    if "type" in schema:
        names = _as_list(schema["type"])
        return {**schema, "type": [*names, "null"]} if "null" not in names else schema
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], NULL]}
    return {"anyOf": [schema, NULL]}
