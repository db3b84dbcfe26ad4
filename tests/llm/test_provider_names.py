"""The table of providers that `check` knows, against the library that speaks to them."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from roundel.workflow.model_profile import PROVIDER_ALIASES, PROVIDERS

providers = pytest.importorskip("pydantic_ai.providers")


def names_of_the_library() -> set[str]:
    """Those in the cases of its own look-up; it has no list of them."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(providers.infer_provider_class)))
    patterns = [case.pattern for node in ast.walk(tree) if isinstance(node, ast.Match) for case in node.cases]
    values = [value for pattern in patterns for value in ast.walk(pattern) if isinstance(value, ast.Constant)]
    return {str(value.value) for value in values}


def test_provider_table_lists_every_library_provider() -> None:
    assert len(PROVIDERS) == len(set(PROVIDERS))
    missing = names_of_the_library() - set(PROVIDERS)
    assert not missing, f"add to roundel.workflow.model_profile.PROVIDERS: {sorted(missing)}"


def test_provider_table_lists_no_unknown_provider() -> None:
    gone = set(PROVIDERS) - names_of_the_library()
    assert not gone, f"remove from roundel.workflow.model_profile.PROVIDERS: {sorted(gone)}"
    assert set(PROVIDER_ALIASES.values()) <= set(PROVIDERS)
    assert not set(PROVIDER_ALIASES) & set(PROVIDERS)


def test_check_does_not_import_the_library(tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text("graph: {start: A, nodes: [{id: A, type: agent, config: {model: 'openai:gpt-4o'}}]}")
    program = "import sys, roundel; roundel.check(sys.argv[1]); print('pydantic_ai' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program, str(file)], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "False\n"
