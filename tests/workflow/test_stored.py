"""The tags of stored structs, and the defaults that stores rely on.

The defaults that a store relies on are in `stored_defaults.json`; after a new field or struct,

    python -m tests.workflow.test_stored

adds it. It never changes a line that is there.
"""

from __future__ import annotations

import ast
import inspect
import json
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from msgspec import NODEFAULT, Struct
from msgspec.structs import replace

import roundel
from roundel.kernel import snapshot
from roundel.kernel.state import HandledFailure
from roundel.kernel.tool_loop import ToolLoopCall
from roundel.nodes import TYPES
from roundel.workflow import stored
from roundel.workflow.encoding import EncodingError, decode_workflow, encode_workflow
from roundel.workflow.graph import Node, Workflow
from roundel.workflow.memory_config import MEMORY_FORMS
from roundel.workflow.node_type import NodeType, NodeTypes
from roundel.workflow.stored import OLD_NAMES, STATE_TAGS, TAGS, WORKFLOW_TAGS, StoredStructs

DEFAULTS = Path(__file__).with_name("stored_defaults.json")
NOT_STORED = {"roundel.workflow.node_type:NodeType"}
"""Node types are stored by name, and parts of a plan by their place in it."""


def path_of(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def hints(kind: type) -> dict[str, Any]:
    """The types of the attributes of a class: of its fields, or those that `__init__` declares."""
    module = inspect.getmodule(kind)
    assert isinstance(module, ModuleType)
    if issubclass(kind, Struct):
        return typing.get_type_hints(kind)
    names = {**vars(stored), **vars(snapshot), **vars(module)}
    found: dict[str, Any] = {}
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ClassDef) and node.name == kind.__name__:
            for line in ast.walk(node):
                if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Attribute):
                    found[line.target.attr] = eval(ast.unparse(line.annotation), names)
                if isinstance(line, ast.Assign) and isinstance(line.value, ast.Call):  # self.x = Class()
                    made = names.get(ast.unparse(line.value.func))
                    found.setdefault(ast.unparse(line.targets[0]), made)
    return found


def reachable(kinds: Iterable[Any]) -> set[str]:
    """All structs in the values of these types; not what is beyond a node type or a plan."""
    found: set[str] = set()
    seen: list[Any] = []
    pending = list(kinds)
    for kind in pending:  # grows during the iteration
        if any(kind is one for one in seen):
            continue
        seen.append(kind)
        if not isinstance(kind, type) or not kind.__module__.startswith("roundel."):
            pending.extend(typing.get_args(kind))
            continue
        path = path_of(kind)
        if path in NOT_STORED or kind.__module__.startswith("roundel.plan."):
            continue
        if issubclass(kind, Struct):
            found.add(path)
        pending.extend(hint for name, hint in hints(kind).items() if name not in snapshot._TRANSIENT_FIELDS)
    return found


def in_workflows() -> set[str]:
    configs = [kind.config for kind in TYPES.values()]
    return reachable([Workflow, *configs, *MEMORY_FORMS.values()])


def in_snapshots() -> set[str]:
    requests = [kind.request for kind in TYPES.values()]
    mutable = {path_of(kind) for kind in snapshot._MUTABLE.values()}
    # The last two are in fields whose type says nothing: `Execution.loop_call`, `Run.ready_queue`.
    kinds = [*snapshot._MUTABLE.values(), *requests, ToolLoopCall, HandledFailure]
    return reachable(kinds) - mutable


def test_every_struct_of_a_workflow_has_a_tag_and_no_tag_is_left_over() -> None:
    assert in_workflows() == set(WORKFLOW_TAGS.values())


def test_every_struct_of_a_snapshot_has_a_tag_and_no_tag_is_left_over() -> None:
    found = in_snapshots()
    assert found <= set(TAGS.values())
    assert set(STATE_TAGS.values()) == found - set(WORKFLOW_TAGS.values())


def test_tags_are_unique_and_lead_to_their_structs() -> None:
    assert not WORKFLOW_TAGS.keys() & STATE_TAGS.keys()
    assert len(set(TAGS.values())) == len(TAGS)
    structs = StoredStructs()
    for tag, name in TAGS.items():
        assert path_of(structs.struct(tag)) == name
        assert structs.tag(structs.struct(tag)) == tag


def test_old_names_lead_to_tags() -> None:
    assert set(OLD_NAMES.values()) <= TAGS.keys()
    structs = StoredStructs()
    for name, tag in OLD_NAMES.items():
        assert structs.struct(name) is structs.struct(tag)


# Defaults.


def defaults() -> dict[str, dict[str, str]]:
    """By tag and field, what a field is that is not stored."""
    return {tag: dict(_defaults_of(tag)) for tag in WORKFLOW_TAGS}


def _defaults_of(tag: str) -> Iterator[tuple[str, str]]:
    before = stored.defaults_before(tag)
    for field in msgspec.structs.fields(StoredStructs().struct(tag)):
        if field.name in before:
            yield field.name, repr(before[field.name])
        elif field.default is not NODEFAULT:
            yield field.name, repr(field.default)
        elif field.default_factory is not NODEFAULT:
            yield field.name, repr(field.default_factory())


def recorded() -> dict[str, dict[str, str]]:
    return dict(json.loads(DEFAULTS.read_text("utf-8")))


def test_stored_workflows_keep_the_defaults_that_they_rely_on() -> None:
    """If this fails, put the default so far into DEFAULTS_BEFORE of stored.py."""
    assert defaults() == recorded()


class Named(Struct, frozen=True):
    colour: str = "red"
    size: int = 1


def test_a_changed_default_does_not_change_what_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    workflow = one_node("spot", Named())
    before = encode_workflow(workflow)

    class Changed(Struct, frozen=True):
        colour: str = "blue"
        size: int = 1

    Changed.__module__, Changed.__qualname__ = Named.__module__, Named.__qualname__
    monkeypatch.setattr(stored, "DEFAULTS_BEFORE", {"tests/spot/config": {"colour": "red"}})
    kinds = types_with(Changed)
    old = decode_workflow(before, kinds)
    assert old.graph.nodes[0].config == Changed("red")
    assert encode_workflow(old) == before
    new = replace(old, graph=replace(old.graph, nodes=(replace(old.graph.nodes[0], config=Changed()),)))
    assert decode_workflow(encode_workflow(new), kinds) == new


# Node types of packages.


class Inner(Struct, frozen=True):
    text: str = ""


class Outer(Struct, frozen=True):
    inner: Inner = Inner()


def types_with(config: type[Struct], **more: type[Struct]) -> NodeTypes:
    return NodeTypes([node_type(config, more)])


def node_type(config: type[Struct], more: dict[str, type[Struct]]) -> NodeType:
    return NodeType("spot", config, "For a test.", lambda node, services: lambda call: None, stored=more)


def one_node(name: str, config: Struct, **more: type[Struct]) -> Workflow:
    workflow = roundel.load({"graph": {"nodes": [{"id": "A", "type": "passthrough"}], "start": "A"}})
    node: Node = replace(
        workflow.graph.nodes[0], type=name, config=config, kind=node_type(type(config), more)
    )
    return replace(workflow, graph=replace(workflow.graph, nodes=(node,)))


def test_a_package_declares_tags_for_the_structs_in_its_config() -> None:
    text = encode_workflow(one_node("spot", Outer(Inner("a")), inner=Inner))
    assert '"tests/spot/config"' in text
    assert '"tests/spot/inner"' in text
    assert "test_stored" not in text
    read = decode_workflow(text, types_with(Outer, inner=Inner))
    assert read.graph.nodes[0].config == Outer(Inner("a"))


def test_a_package_finds_what_it_stored_before_tags() -> None:
    text = encode_workflow(one_node("spot", Outer(Inner("a")), inner=Inner))
    old = text.replace("tests/spot/config", path_of(Outer)).replace("tests/spot/inner", path_of(Inner))
    assert old != text
    assert decode_workflow(old, types_with(Outer, inner=Inner)).graph.nodes[0].config == Outer(Inner("a"))


def test_a_struct_without_a_tag_is_refused_with_what_to_do() -> None:
    with pytest.raises(EncodingError, match=r"test_stored:Inner has no tag; .*stored=\{'name': Inner\}"):
        encode_workflow(one_node("spot", Outer(Inner("a"))))


def test_a_struct_that_is_not_declared_is_not_created() -> None:
    text = encode_workflow(one_node("spot", Outer(Inner("a")), inner=Inner))
    with pytest.raises(EncodingError, match="no 'tests/spot/inner' in this version"):
        decode_workflow(text, types_with(Outer))
    with pytest.raises(EncodingError, match=f"no '{path_of(Inner)}'"):
        decode_workflow(text.replace("tests/spot/inner", path_of(Inner)), types_with(Outer))


if __name__ == "__main__":
    known = recorded() if DEFAULTS.exists() else {}
    merged = {tag: {**fields, **known.get(tag, {})} for tag, fields in defaults().items()}
    DEFAULTS.write_text(json.dumps(merged, indent=1, ensure_ascii=False) + "\n", "utf-8")
