"""The manual lists all there is, and nothing else: keys and defaults, options, codes, events, names."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator
from typing import get_args, get_type_hints

import click
import msgspec
import pytest
from msgspec import Struct

import roundel
from roundel.api import Options
from roundel.cli import COMMANDS, EXIT, INVALID, cli
from roundel.hosts.engine import Result
from roundel.kernel.commands import Call
from roundel.kernel.events import Event
from roundel.llm.python_tool import INJECTED_PARAMETERS
from roundel.llm.script import ScriptLine
from roundel.nodes import prompt
from roundel.nodes.agent_config import STATUS_CODES, ModelRetry
from roundel.nodes.agent_config import Config as AgentConfig
from roundel.nodes.loop import Config, decide_round
from roundel.nodes.python import _ARGUMENTS
from roundel.nodes.services import ToolResult
from roundel.plan.forecast import ASSUMPTIONS
from roundel.plan.proof import Proof
from roundel.workflow import functions
from roundel.workflow.condition import EXPRESSION_NAMES
from roundel.workflow.diagnostics import Diagnostic
from roundel.workflow.expression import _KNOWN_FUNCTIONS
from roundel.workflow.expression_tree import MACROS
from roundel.workflow.fields import SourceLocation
from roundel.workflow.memory_config import MEMORY_FORMS
from tests.docs.manual import DOCS, code, rows, sections
from tests.docs.source import diagnostics, event_names

FILES = sections(DOCS / "workflow-files.md")
NODES = sections(DOCS / "nodes.md")
PYTHON = sections(DOCS / "python.md")


def defaults(kind: type[Struct]) -> dict[str, str]:
    """The keys of a struct, each with its default as the manual writes it."""
    fields = [field for field in msgspec.structs.fields(kind) if field.type is not SourceLocation]
    return {field.encode_name: _default(field) for field in fields}


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    value = field.default
    plain = isinstance(value, (bool, int, float, str)) and value != ""
    return f"`{json.dumps(value)}`" if plain else "–"


def documented(section: str) -> dict[str, str]:
    """The keys in the table of a section that has the columns key, type, default, meaning."""
    return {code(cells[0])[0]: cells[2] for cells in rows(section) if len(cells) == 4}


def first_column(section: str) -> list[str]:
    return [word for cells in rows(section) for word in code(cells[0])]


def test_every_key_of_a_script_is_listed_with_its_default() -> None:
    assert documented(FILES["Script files"]) == defaults(ScriptLine)


def test_the_fields_of_a_proof_and_of_a_decision_are_listed() -> None:
    assert first_column(sections(DOCS / "proof.md")["JSON output"]) == list(Proof.__struct_fields__)
    decision = decide_round(Config(), {})
    listed = first_column(sections(DOCS / "loop.md")["Output fields"])
    assert listed == [*decision.fields(""), "score_error"]


def test_manual_of_agents_and_tools_is_complete() -> None:
    agents, tools = sections(DOCS / "agents.md"), sections(DOCS / "tools.md")
    assert first_column(agents["Model input"]) == list(prompt.PROMPT_VARIABLES)
    listed = first_column(agents["Retries and fallback"])
    assert set(listed) == set(ModelRetry.__struct_fields__)
    assert all(str(status) in agents["Retries and fallback"] for status in STATUS_CODES)
    statuses = set(get_args(get_type_hints(ToolResult)["status"]))
    assert set(first_column(tools["Call results"])) == statuses
    assert set(first_column(tools["Python functions"])[-3:]) == set(INJECTED_PARAMETERS)
    limits = get_args(get_type_hints(AgentConfig)["on_limit"])
    assert first_column(tools["Rounds and their limit"]) == list(limits)


def test_manual_of_memory_is_complete() -> None:
    assert first_column(FILES["Memories"]) == list(MEMORY_FORMS)


def test_forecast_assumptions_are_in_the_manual() -> None:
    assert all(assumption in (DOCS / "proof.md").read_text(encoding="utf-8") for assumption in ASSUMPTIONS)


def test_the_names_of_expressions_are_listed() -> None:
    assert first_column(FILES["Expressions"]) == list(EXPRESSION_NAMES)
    times = {name for name in _KNOWN_FUNCTIONS if name.startswith("get")}
    words = set(code(FILES["Expressions"]))
    assert _KNOWN_FUNCTIONS - times <= words
    assert set(MACROS) <= words


def test_builtin_functions_are_listed() -> None:
    # One is registered when its module is imported, which running a workflow does.
    importlib.import_module("roundel.nodes.python")
    registered = {
        name
        for known in functions._registered.values()
        for name, function in known.items()
        if function.call.__module__.startswith("roundel.")
    }
    assert set(first_column(FILES["Functions"])) == registered


def test_the_parameters_of_a_function_are_listed() -> None:
    listed = [code(cells[0]) for cells in rows(NODES["Functions"])]
    assert [words[0] for words in listed if words][: len(_ARGUMENTS)] == list(_ARGUMENTS)


def commands() -> Iterator[tuple[str, click.Command]]:
    """All of them, and those inside others."""
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", one) for inner, one in command.commands.items())


@pytest.mark.parametrize(("name", "command"), list(commands()))
def test_every_option_of_a_command_is_listed(name: str, command: click.Command) -> None:
    options = {word for option in command.params for word in option.opts if word.startswith("-")}
    section = sections(DOCS / "command-line.md")[name]
    listed = {word.split()[0] for cells in rows(section) for word in code(cells[0])}
    assert listed == options
    for option in command.params:
        if isinstance(option.type, click.Choice):
            assert all(f"{option.opts[0]} {choice}" in section for choice in option.type.choices)


def test_every_exit_code_is_listed() -> None:
    listed = {int(cells[0]) for cells in rows(sections(DOCS / "command-line.md")["Exit codes"])}
    assert listed == {*EXIT.values(), INVALID}
    statuses = rows(sections(DOCS / "running.md")["Run statuses"])
    ends = {code(cells[0])[0]: int(cells[1]) for cells in statuses}
    assert ends == EXIT


def test_every_diagnostic_is_listed() -> None:
    cells = [row for section in sections(DOCS / "errors.md").values() for row in rows(section)]
    listed = [(code(row[0])[0], severity) for row in cells for severity in row[1].split(", ")]
    assert sorted(listed) == sorted(diagnostics())


def test_every_event_is_listed() -> None:
    pages = sections(DOCS / "events.md")
    assert set(pages) - {"Events", "The envelope"} == event_names()
    assert first_column(pages["The envelope"]) == list(Event.__struct_fields__)


def test_every_option_of_a_run_is_in_the_manual() -> None:
    assert {"on_event", *Options.__annotations__} <= set(first_column(PYTHON["Running a workflow"]))


def test_the_public_names_of_python_are_in_the_manual() -> None:
    text = (DOCS / "python.md").read_text(encoding="utf-8")
    assert not [name for name in roundel.__all__ if not re.search(rf"\b{name}\b", text)]


def test_the_fields_of_results_calls_and_diagnostics_are_listed() -> None:
    assert set(Result.__struct_fields__) | {"completed"} <= set(first_column(PYTHON["Running a workflow"]))
    assert set(Call.__struct_fields__) - {"site"} <= set(first_column(PYTHON["Custom node types"]))
    assert set(Diagnostic.__struct_fields__) <= set(code(PYTHON["Checking a workflow"]))


def test_every_method_of_runs_is_listed() -> None:
    methods = {name for name in vars(roundel.Runs) if not name.startswith("_")} - {"store", "engine"}
    assert methods == {name.partition("(")[0] for name in first_column(PYTHON["The service layer"])} - {
        "method"
    }
