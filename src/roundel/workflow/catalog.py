"""The catalog: everything that a workflow file can contain, described as plain data for forms and for
the manual.

`describe` walks the config types of all node types and of the file itself. A field of the result has
what the type says (`inspect_type` in schema.py), what its description says, and what the schema knows:
whether `${NAME}` may be written there. Objects refer to each other by name, so that a form can be built
for any of them.

Texts are in both languages as `{"en": …, "zh": …}`; `localize` selects one. Keys of the result are part
of the interface of web editors: names such as `lone` and `env_allowed` stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from roundel.workflow.description import UNITS, Description, Field, Short, TitleAndText, Variants, Widget
from roundel.workflow.graph import Edge, GraphSettings, NodeEnvelope
from roundel.workflow.loader import WorkflowFile
from roundel.workflow.node_type import ERROR_PORT, NodeType
from roundel.workflow.schema import (
    SchemaBuilder,
    ValueInfo,
    ValueType,
    field_infos,
    get_description,
    has_required_key,
    humanize,
    inspect_type,
    is_required,
    json_default,
    object_name,
)

Language = Literal["en", "zh"]
LocalizedText = dict[str, str]
"""One text by language."""

_WIDGETS: dict[ValueType, Widget] = {
    "text": "text",
    "integer": "number",
    "number": "number",
    "boolean": "switch",
    "object": "object",
    "any": "json",
}


def describe(types: Mapping[str, NodeType]) -> dict[str, Any]:
    """Describes every node type, and every other object of a workflow file, as plain JSON.

    `types` are the node types to include, usually `roundel.nodes.TYPES`."""
    catalog = _Catalog()
    for kind in (WorkflowFile, GraphSettings, NodeEnvelope, Edge):
        catalog.add_object(kind)
    kinds = dict.fromkeys(types[name] for name in types)
    node_types = {kind.name: catalog.node_type(kind) for kind in kinds}
    # The envelope declares `type` as text. Only here are the node types known.
    choice = next(field for field in catalog.objects["node"]["fields"] if field["key"] == "type")
    choice["choices"] = [{"value": name, "title": about["title"]} for name, about in node_types.items()]
    return {"node_types": node_types, "objects": catalog.objects}


def localize(data: Any, language: Language) -> Any:
    """Replaces each text in two languages by the one in `language`."""
    if isinstance(data, list):
        return [localize(item, language) for item in data]
    if not isinstance(data, dict):
        return data
    # No other mapping of the catalog has exactly these keys.
    if data.keys() == {"en", "zh"}:
        return data[language]
    return {key: localize(value, language) for key, value in data.items()}


class _Catalog:
    """Collects the described objects, each once by name, while the types are walked."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        self.builder = SchemaBuilder()

    def node_type(self, kind: NodeType) -> dict[str, Any]:
        config = self._content(kind.config, get_description(kind.config))
        title = kind.title or humanize(kind.name)
        zh_title, zh_text = kind.zh
        return {
            "name": kind.name,
            "aliases": list(kind.aliases),
            "title": _localized(title, zh_title or title),
            "description": _localized(kind.summary, zh_text or kind.summary),
            "ports": [{"name": name, "title": _localized(*text)} for name, text in _ports(kind).items()],
            **config,
            "example": kind.example,
        }

    def add_object(self, kind: Any) -> list[str]:
        """Adds a type, and everything that it contains. Returns the names of the objects that a value of
        the type may be."""
        if kind is Any:
            return []
        about = get_description(kind)
        if about.refers:
            return list(about.refers)
        name = object_name(kind, about)
        if name not in self.objects:
            self.objects[name] = {}  # Reserved, so that a type that contains itself does not recurse.
            self.objects[name] = {
                "name": name,
                "title": _localized(about.en[0], about.zh[0]),
                "description": _localized(about.en[1], about.zh[1]),
                **self._content(kind, about),
            }
        return [name]

    def _content(self, kind: Any, about: Description) -> dict[str, Any]:
        infos = field_infos(kind)
        aliases = getattr(kind, "__aliases__", {})
        fields = []
        if about.variants is not None:
            fields += self._selector(about.variants)
        for name, field in about.fields.items():
            others = [other for other, meant in aliases.items() if meant == name]
            fields.append(self._field(name, field, infos.get(name), others))
        return {
            "fields": fields,
            "variants": None if about.variants is None else self._variants(about.variants),
            "short": [self._short(short) for short in about.short],
            "alone": list(about.alone),
        }

    def _selector(self, variants: Variants) -> list[dict[str, Any]]:
        """The fields for the selecting key and for the config, which are not fields of any struct."""
        titles = {name: get_description(form) for name, form in variants.forms.items()}
        choices = {name: (about.en[0], about.zh[0]) for name, about in titles.items()}
        kind: Any = Literal.__getitem__(tuple(variants.forms))
        selector = Field(en=variants.en, zh=variants.zh, choices=choices, kind=kind, required=True)
        fields = [self._field(variants.key, selector, None, [])]
        if variants.config:
            text = f"The settings of the {variants.key}.", "该类型所需的设置。"
            config = Field(en=("Settings", text[0]), zh=("设置", text[1]), widget="object", kind=Any)
            fields.append(self._field(variants.config, config, None, []))
        return fields

    def _variants(self, variants: Variants) -> dict[str, Any]:
        objects = {name: self.add_object(form)[0] for name, form in variants.forms.items()}
        return {"key": variants.key, "config": variants.config or None, "objects": objects}

    def _short(self, short: Short) -> dict[str, Any]:
        value = inspect_type(short.kind)
        return {
            "key": short.key or None,
            "title": _localized(short.en[0], short.zh[0]),
            "description": _localized(short.en[1], short.zh[1]),
            "type": value.type,
            "shape": value.shape,
            "widget": short.widget or _default_widget(value),
            "choices": _choices(value, short.choices),
        }

    def _field(
        self, name: str, field: Field, info: msgspec.structs.FieldInfo | None, aliases: list[str]
    ) -> dict[str, Any]:
        kind = field.kind if field.kind is not None else info.type if info is not None else Any
        value = inspect_type(kind)
        # An object whose type depends on another key, such as `config` of a node.
        if value.type == "any" and field.widget == "object":
            value = ValueInfo("object", kind=Any)
        return {
            "key": name,
            "aliases": aliases,
            "title": _localized(field.en[0], field.zh[0]),
            "description": _localized(field.en[1], field.zh[1]),
            "type": value.type,
            "shape": value.shape,
            "lone": value.allows_single,
            "widget": field.widget or _default_widget(value),
            "unit": _unit(field),
            "required": is_required(field, info),
            "default": json_default(info),
            "choices": _choices(value, field.choices),
            "bounds": value.bounds,
            "objects": self.add_object(value.kind) if value.type == "object" else [],
            "env_allowed": self.builder.accepts_variable(value),
            "see": field.see or None,
        }


def _default_widget(value: ValueInfo) -> Widget:
    return "select" if value.choices else _WIDGETS[value.type]


def _choices(value: ValueInfo, titles: Mapping[str, TitleAndText]) -> list[dict[str, Any]] | None:
    if not value.choices:
        return None
    plain = {choice: (humanize(choice), humanize(choice)) for choice in value.choices}
    return [
        {"value": choice, "title": _localized(*titles.get(choice, text))} for choice, text in plain.items()
    ]


def _unit(field: Field) -> dict[str, Any] | None:
    return None if field.unit is None else {"name": field.unit, "title": _localized(*UNITS[field.unit])}


_ERROR_TITLE = ("The error, if the node fails", "节点失败时的错误")


def _ports(kind: NodeType) -> Mapping[str, TitleAndText]:
    """The ports of a node type that do not depend on its config. Without titles of its own, those of an
    empty config. Every type has the port `error`."""
    titles = dict(kind.port_titles)
    if not titles and not has_required_key(kind.config):
        config = kind.config()
        names = (*kind.ports(config), *kind.explicit_ports(config))
        titles = {name: (humanize(name), humanize(name)) for name in names}
    titles.setdefault(ERROR_PORT, _ERROR_TITLE)
    return titles


def _localized(en: str, zh: str) -> LocalizedText:
    return {"en": en, "zh": zh}
