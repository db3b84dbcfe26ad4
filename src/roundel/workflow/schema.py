"""Descriptions of config types, and the JSON Schema of workflow files that is made from them.

A description has two sources. The struct says what is certain: the keys, their types, bounds and
defaults. Its `__describe__` (description.py) says what a person needs: titles, texts, widgets and units.
A struct of another package that has no `__describe__` is described from its names and docstrings, so its
form is plain but complete. Nothing is stated twice, so the two cannot disagree (docs/decisions/0027).

The same descriptions feed three outputs: the JSON Schema here, the data for forms in catalog.py, and the
tables of the manual. The schema describes what the loader accepts; a test loads a workflow for each
field and compares.

Three rules keep the schema small, and easy to complete for an editor:

- A described object is one entry under `$defs`. Where it may be left empty, it is a second entry that
allows null, so that
  no property needs an `anyOf` for that.
- A value that may be written as a number or as `${NAME}` has a list of types. In JSON Schema a bound
applies to numbers
  only and a pattern to texts only, so both can stand beside each other.
- An object with a `type` (a node, a condition, a memory) lists its keys once, and has an `if` for each
type that describes
  the `config`. An editor then offers all types, and the keys of the one that was chosen; with `oneOf` it
  would report the mistakes of a config once for each type.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping
from functools import lru_cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from roundel.workflow.description import Description, Field, Variants
from roundel.workflow.fields import DURATION_PATTERN, SourceLocation, describe_expected, is_duration
from roundel.workflow.graph import GraphSettings, NodeEnvelope
from roundel.workflow.loader import WorkflowFile
from roundel.workflow.node_type import NodeType, NodeTypes

Shape = Literal["single", "list", "map"]
ValueType = Literal["text", "integer", "number", "boolean", "object", "any"]
_VALUE_TYPES: dict[Any, ValueType] = {str: "text", int: "integer", float: "number", bool: "boolean"}
_BOUND_NAMES = {"ge": "minimum", "gt": "exclusive_minimum", "le": "maximum", "lt": "exclusive_maximum"}


class ValueInfo(Struct, frozen=True):
    """What a type says about the values of a key. `inspect_type` creates it."""

    type: ValueType
    shape: Shape = "single"
    allows_single: bool = False
    """Whether a list of one item may be written without the list (`wrap` in fields.py)."""
    kind: Any = None
    """The type of one value: without its list, mapping, None and bounds."""
    choices: tuple[str, ...] = ()
    bounds: dict[str, float] = {}
    optional: bool = False


def inspect_type(kind: Any) -> ValueInfo:
    """Analyses the type of a key: what one value is, and whether the key has one, a list or a mapping of
    them.

    Lists of lists and unions of objects are "any": forms have no widget for them."""
    base, meta = strip_annotation(kind)
    options = [option for option in _union_members(base) if option is not NoneType]
    optional = len(options) < len(_union_members(base))
    if len(options) != 1:
        # A union of scalars is shown as its first type (`str | int` as text); any other union has no
        # single widget.
        first = inspect_type(options[0])
        plain = all(option in _VALUE_TYPES for option in options)
        return (
            msgspec.structs.replace(first, optional=optional)
            if plain
            else ValueInfo("any", optional=optional)
        )
    inner, own = strip_annotation(options[0])
    meta = own or meta
    origin = get_origin(inner)
    if origin in (tuple, list, dict):
        item = inspect_type(get_args(inner)[1 if origin is dict else 0])
        if item.shape != "single":
            return ValueInfo("any", "list" if origin is not dict else "map", kind=Any, optional=optional)
        allows_single = bool(meta is not None and (meta.extra or {}).get("wrap"))
        shape: Shape = "map" if origin is dict else "list"
        return msgspec.structs.replace(item, shape=shape, allows_single=allows_single, optional=optional)
    if origin is Literal:
        return ValueInfo("text", kind=inner, choices=tuple(map(str, get_args(inner))), optional=optional)
    if inner in _VALUE_TYPES:
        return ValueInfo(_VALUE_TYPES[inner], kind=inner, bounds=read_bounds(meta), optional=optional)
    return ValueInfo("any" if inner is Any else "object", kind=inner, optional=optional)


def strip_annotation(kind: Any) -> tuple[Any, Meta | None]:
    """Separates a type from its `Meta`."""
    if get_origin(kind) is Annotated:
        base, *notes = get_args(kind)
        return base, next((note for note in notes if isinstance(note, Meta)), None)
    return kind, None


def _union_members(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def read_bounds(meta: Meta | None) -> dict[str, float]:
    """The bounds of a number under the names of the catalog; those of JSON Schema are in
    `_SCHEMA_BOUNDS`."""
    found = {} if meta is None else {word: getattr(meta, name) for name, word in _BOUND_NAMES.items()}
    return {word: bound for word, bound in found.items() if bound is not None}


# Descriptions, given or derived. Cached by type, since the schema and the catalog visit most types many
# times.


@lru_cache(maxsize=512)
def get_description(kind: Any) -> Description:
    """The description of a type: its own, completed from names and docstrings where it has none.

    It contains every key, so that its users need not know where a text comes from."""
    given = kind.__describe__() if hasattr(kind, "__describe__") else Description()
    if given.complete or given.refers or given.variants or not is_struct(kind):
        return given
    fields = dict(given.fields)
    for info in key_fields(kind):
        if info.encode_name not in fields:
            fields[info.encode_name] = _derive_field(kind, info)
    en = given.en if given.en[0] else (humanize(kind.__name__), _first_paragraph(kind.__doc__))
    zh = given.zh if given.zh[0] else en
    return msgspec.structs.replace(given, fields=fields, en=en, zh=zh)


def is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def key_fields(kind: type[Struct]) -> list[msgspec.structs.FieldInfo]:
    """The fields of a struct that are keys in a file: all but its location."""
    return [info for info in msgspec.structs.fields(kind) if info.type is not SourceLocation]


def field_infos(kind: Any) -> dict[str, msgspec.structs.FieldInfo]:
    """The fields of a struct by key; empty for a type that is not a struct."""
    return {info.encode_name: info for info in key_fields(kind)} if is_struct(kind) else {}


def _derive_field(kind: type[Struct], info: msgspec.structs.FieldInfo) -> Field:
    """Describes a field without a description: by its `Meta`, else by its name and docstring, in both
    languages alike."""
    meta = strip_annotation(info.type)[1]
    title = (meta.title if meta is not None else None) or humanize(info.encode_name)
    text = (meta.description if meta is not None else None) or _field_docstrings(kind).get(info.name, "")
    return Field(en=(title, text), zh=(title, text))


def humanize(name: str) -> str:
    """`max_rounds` as "Max rounds"."""
    words = name.replace("_", " ").strip()
    return words[:1].upper() + words[1:]


@lru_cache(maxsize=256)
def _field_docstrings(kind: type) -> Mapping[str, str]:
    """The docstrings below the fields of a class, for structs of other packages.

    Python does not store them, so the source is parsed; without a source there are none."""
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    except (OSError, TypeError, SyntaxError):
        return {}
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        named = isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if named and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            found[field.target.id] = inspect.cleandoc(str(below.value.value))  # type: ignore[attr-defined]
    return found


def _first_paragraph(doc: str | None) -> str:
    return inspect.cleandoc(doc).partition("\n\n")[0].replace("\n", " ") if doc else ""


def has_required_key(kind: Any) -> bool:
    """Whether a config has a required key, so that `config` itself is required."""
    about = get_description(kind)
    if about.variants is not None:
        return True
    infos = field_infos(kind)
    return any(is_required(field, infos.get(name)) for name, field in about.fields.items())


def object_name(kind: Any, about: Description) -> str:
    """The name of a described object, under `$defs` and in the catalog. Types of other packages have
    none of their own."""
    return about.name or f"{kind.__module__}.{kind.__qualname__}"


def is_required(field: Field, info: msgspec.structs.FieldInfo | None) -> bool:
    if field.required is not None:
        return field.required
    return info is not None and info.required


def json_default(info: msgspec.structs.FieldInfo | None) -> Any:
    """The default of a key as JSON; None if it has none that could be written in a file, as for a
    struct."""
    if info is None or info.required:
        return None
    default: Any = info.default
    if isinstance(default, UnsetType) or default is msgspec.NODEFAULT:
        default = info.default_factory() if info.default_factory is not msgspec.NODEFAULT else None
    if isinstance(default, Struct) or default is UNSET:
        return None
    return msgspec.json.decode(msgspec.json.encode(default))


Schema = dict[str, Any]
SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"
VARIABLE_PATTERN = r"^\$\{[A-Za-z_][A-Za-z0-9_]*\}$"
REFERENCE = "#/$defs/"
NULL: Schema = {"type": "null"}
VARIABLE, VARIABLE_OR_NULL = "variable", "variable_or_null"
# The form of a secret variable under `vars` (variables.py).
SECRET: Schema = {
    "type": "object",
    "properties": {
        "value": {"title": "Value", "description": "The value, if it is in the file."},
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
    """The JSON Schema of a workflow file with these node types. This imports all of them.

    `node` and `graph` are defined by hand, since they contain each other, and since a node depends on
    the node types."""
    builder = SchemaBuilder()
    builder.define("node", builder.node(list(dict.fromkeys(types[name] for name in types))))
    builder.define("graph", builder.struct(GraphSettings))
    root = builder.struct(WorkflowFile)
    root["properties"]["vars"]["additionalProperties"] = {"anyOf": [SECRET, {}]}
    about = {"title": "Roundel workflow", "description": get_description(WorkflowFile).en[1]}
    return {
        "$schema": SCHEMA_DIALECT,
        **root,
        **about,
        "$defs": _reachable_definitions(root, builder.definitions),
    }


def _reachable_definitions(root: Schema, definitions: dict[str, Schema]) -> dict[str, Schema]:
    """The definitions that the root refers to. Of most objects only the variant that allows null is
    used."""
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


class SchemaBuilder:
    """Builds schemas, and collects the definitions that they refer to. A type may define
    `__schema__(builder)` instead of being described."""

    def __init__(self) -> None:
        # Without a title and a description: an editor would show these in place of the field's.
        variable = {"type": "string", "pattern": VARIABLE_PATTERN}
        self.definitions: dict[str, Schema] = {
            VARIABLE: variable,
            VARIABLE_OR_NULL: {**variable, "type": ["string", "null"]},
        }

    def define(self, name: str, schema: Schema) -> None:
        self.definitions[name] = schema

    def for_type(self, kind: Any, nullable: bool = False) -> Schema:
        """The schema of a type. `nullable` allows null, which the reader treats like a missing key.

        Scalars other than text may also be a `${VARIABLE}`, which has no type before it is
        substituted."""
        base, meta = strip_annotation(kind)
        if get_origin(base) in (Union, UnionType):
            nullable = nullable or NoneType in get_args(base)
            options = [option for option in get_args(base) if option is not NoneType]
            if len(options) > 1:
                return self._union(options, nullable)
            inner, own = strip_annotation(options[0])
            base, meta = inner, own or meta
        if base is Any:
            return {}
        origin = get_origin(base)
        if origin in (tuple, list):
            allows_single = meta is not None and (meta.extra or {}).get("wrap")
            return self._list(get_args(base)[0], bool(allows_single), nullable)
        if origin is dict:
            items = self.for_type(get_args(base)[1])
            return {"type": _type_names("object", nullable), "additionalProperties": items}
        if origin is Literal:
            words = {"$ref": f"{REFERENCE}{VARIABLE_OR_NULL if nullable else VARIABLE}"}
            return {"anyOf": [{"enum": list(get_args(base))}, words]}
        if base in _SCALARS:
            return self._scalar(base, meta, nullable)
        return self._object_reference(base, nullable)

    def _scalar(self, kind: Any, meta: msgspec.Meta | None, nullable: bool) -> Schema:
        if kind is str:
            text: Schema = {"type": _type_names("string", nullable)}
            return {**text, "minLength": meta.min_length} if meta and meta.min_length else text
        bounds = read_bounds(meta)
        duration = is_duration(meta)
        return {
            "type": [_SCALARS[kind], "string", *(["null"] if nullable else [])],
            "pattern": f"{VARIABLE_PATTERN}|^{DURATION_PATTERN}$" if duration else VARIABLE_PATTERN,
            "patternErrorMessage": f"Expected {describe_expected(kind)}, "
            f"{'or one with a unit (s, m, h, d), ' if duration else ''}or ${{NAME}}.",
            **{_SCHEMA_BOUNDS[word]: bound for word, bound in bounds.items()},
        }

    def _union(self, options: list[Any], nullable: bool) -> Schema:
        if all(option in _SCALARS for option in options):
            names = [_SCALARS[option] for option in options]
            return {"type": [*names, *(["null"] if nullable else [])]}
        return {"anyOf": [*map(self.for_type, options), *([NULL] if nullable else [])]}

    def _list(self, item: Any, allows_single: bool, nullable: bool) -> Schema:
        # A list of texts that may be written as one text needs no `anyOf`: `items` applies to arrays
        # only.
        items = self.for_type(item)
        if not allows_single:
            return {"type": _type_names("array", nullable), "items": items}
        if items.get("type") == "string":
            return {"type": ["array", "string", *(["null"] if nullable else [])], "items": items}
        many = {"type": _type_names("array", nullable), "items": items}
        return {"anyOf": [many, items]}

    # Described objects

    def _object_reference(self, kind: Any, nullable: bool) -> Schema:
        about = get_description(kind)
        if about.refers:
            references = [{"$ref": f"{REFERENCE}{name}"} for name in about.refers]
            choice = references[0] if len(references) == 1 else {"anyOf": references}
            return _or_null(choice) if nullable else choice
        name = object_name(kind, about)
        if name not in self.definitions:
            # Reserved before it is built, so that a type that contains itself refers to the entry and
            # does not recurse.
            self.definitions[name] = {}
            self.definitions[name] = self._object(kind, about)
        if not nullable:
            return {"$ref": f"{REFERENCE}{name}"}
        # The definition is copied, unless it is still being built (empty): then it is referred to.
        made = self.definitions[name] or {"$ref": f"{REFERENCE}{name}"}
        self.definitions.setdefault(f"{name}_or_null", _or_null(made))
        return {"$ref": f"{REFERENCE}{name}_or_null"}

    def _object(self, kind: Any, about: Description) -> Schema:
        """The schema of a described object, with its title and text: by `__schema__`, with short forms,
        or as a mapping."""
        if hasattr(kind, "__schema__"):
            made: Schema = kind.__schema__(self)
        elif about.short:
            made = self._with_short_forms(kind, about)
        else:
            made = self._mapping(kind, about)
        return {"title": about.en[0], "description": about.en[1], **made}

    def struct(self, kind: Any) -> Schema:
        """The schema of a mapping with the keys of a struct."""
        about = get_description(kind)
        return {"title": about.en[0], "description": about.en[1], **self._mapping(kind, about)}

    def _mapping(self, kind: Any, about: Description) -> Schema:
        """The long form of an object. Unknown keys are not allowed: the reader only warns, but an editor
        should mark them."""
        infos = field_infos(kind)
        properties: dict[str, Schema] = {}
        required = []
        if about.variants is not None:
            properties.update(self._selector(about.variants))
            required.append(about.variants.key)
            if not about.variants.config:
                return self._inline_variants(about.variants, properties)
        for name, field in about.fields.items():
            info = infos.get(name)
            properties[name] = self._property(field, info)
            if is_required(field, info):
                required.append(name)
        for other, name in getattr(kind, "__aliases__", {}).items():
            properties[other] = {**properties[name], "description": f"Another spelling of `{name}`."}
        schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
        if about.alone:
            # Each of these keys is a complete form. Without one of them, the required keys of the long
            # form apply.
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
        shorts = [self.for_type(short.kind) for short in about.short]
        if not (about.fields or about.variants):
            return {"anyOf": shorts}
        # A list of types instead of `anyOf`: keywords for objects apply to objects only, so the short
        # forms can stand beside the mapping, and an editor still completes its keys. If no short form is
        # free text, text must be a variable.
        mapping = self._mapping(kind, about)
        if any("type" not in short for short in shorts):  # a choice of words has none
            return {"anyOf": [{"type": mapping.pop("type")}, *shorts], **mapping}
        names = dict.fromkeys(["object", *(name for short in shorts for name in _as_list(short["type"]))])
        free = any(short["type"] == "string" for short in shorts)
        return {**mapping, "type": list(names), **({} if free else {"pattern": VARIABLE_PATTERN})}

    def _property(self, field: Field, info: msgspec.structs.FieldInfo | None) -> Schema:
        kind = field.kind if field.kind is not None else info.type if info is not None else Any
        required = is_required(field, info)
        schema = self.for_type(kind, nullable=not required)
        about: Schema = {"title": field.en[0], "description": field.en[1]}
        default = json_default(info)
        # Empty defaults say nothing that the type does not, so they are left out.
        if not required and default not in (None, "", [], {}):
            about["default"] = default
        return {**about, **schema}

    # Objects with a type

    def _selector(self, variants: Variants) -> dict[str, Schema]:
        titles = [get_description(form).en for form in variants.forms.values()]
        selector = {
            "title": variants.en[0],
            "description": variants.en[1],
            "enum": list(variants.forms),
            "enumDescriptions": [text or title for title, text in titles],
        }
        config = {"title": "Settings", "description": f"The settings of the {variants.key}."}
        return {variants.key: selector, **({variants.config: config} if variants.config else {})}

    def _inline_variants(self, variants: Variants, selector: dict[str, Schema]) -> Schema:
        """A mapping whose keys, beside the one that selects the form, are those of the form."""
        cases = []
        for name, form in variants.forms.items():
            mapping = self._mapping(form, get_description(form))
            # `additionalProperties: false` applies to each case alone, so the selecting key has to be
            # allowed in it.
            mapping["properties"] = {variants.key: True, **mapping["properties"]}
            choice = {"title": variants.en[0], "const": name}
            chosen = {"properties": {variants.key: choice}, "required": [variants.key]}
            cases.append({"if": chosen, "then": mapping})
        return {"type": "object", "properties": selector, "required": [variants.key], "allOf": cases}

    def _cases(self, variants: Variants) -> list[Schema]:
        return [self._case(variants, name, form) for name, form in variants.forms.items()]

    def _case(self, variants: Variants, name: str, form: Any) -> Schema:
        return _case(
            variants.key,
            [name],
            variants.config,
            self.for_type(form, not has_required_key(form)),
            has_required_key(form),
        )

    def node(self, kinds: list[NodeType]) -> Schema:
        """The schema of a node: the common keys, and an `if` for the config of each of these types."""
        schema = self.struct(NodeEnvelope)
        names = {name: kind.summary for kind in kinds for name in (kind.name, *kind.aliases)}
        choice = {"enum": list(names), "enumDescriptions": list(names.values())}
        about = {key: schema["properties"]["type"][key] for key in ("title", "description")}
        schema["properties"]["type"] = {**about, **choice}
        schema["allOf"] = [self._node_case(kind) for kind in kinds]
        return schema

    def _node_case(self, kind: NodeType) -> Schema:
        name, about = f"node.{kind.name}", get_description(kind.config)
        text = {"title": kind.title or humanize(kind.name), "description": kind.summary}
        config = {**self._object(kind.config, about), **text}
        required = has_required_key(kind.config)
        self.definitions[name] = config if required else _or_null(config)
        reference = {"$ref": f"{REFERENCE}{name}"}
        return _case("type", [kind.name, *kind.aliases], "config", reference, required)

    # Variables

    def accepts_variable(self, value: ValueInfo) -> bool:
        """Whether `${NAME}` may be written for a value, or for each value in a list or mapping.

        A variable of the environment is text, so the question is whether the reader accepts text there:
        as itself, or as a number, a truth value or one of some words. An object accepts it only in a
        short form; its fields decide for themselves."""
        if value.type != "object":
            return True
        return value.kind is not Any and _accepts_text(self.for_type(value.kind), self.definitions)


def _case(key: str, names: list[str], config: str, form: Schema, required: bool) -> Schema:
    chosen = {"title": "Type", **({"const": names[0]} if len(names) == 1 else {"enum": names})}
    settings = {"title": "Settings", **form}
    then: Schema = {"properties": {config: settings}, **({"required": [config]} if required else {})}
    return {"if": {"properties": {key: chosen}, "required": [key]}, "then": then}


def _accepts_text(schema: Schema, definitions: dict[str, Schema]) -> bool:
    if "$ref" in schema:
        return _accepts_text(
            definitions.get(schema["$ref"].rpartition("/")[2], {"type": "object"}), definitions
        )
    if "anyOf" in schema:
        return any(_accepts_text(option, definitions) for option in schema["anyOf"])
    return bool({"string", "number", "integer", "boolean"} & set(_as_list(schema.get("type", "string"))))


def _type_names(name: str, nullable: bool) -> str | list[str]:
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
