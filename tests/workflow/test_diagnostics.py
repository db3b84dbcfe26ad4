"""Findings: how they read, how they travel, and how they are collected."""

from __future__ import annotations

import pickle

import msgspec
import pytest

from roundel.workflow.diagnostics import MAX_SHOWN, Diagnostic, Report, WorkflowError, did_you_mean
from roundel.workflow.document import Located

FULL = Diagnostic(
    code="unknown-key",
    severity="warning",
    file="review.yaml",
    line=3,
    column=7,
    message="unknown key 'max_iteration'",
    hint="did you mean 'max_iterations'?",
)


def test_a_diagnostic_reads_like_a_line_of_a_compiler() -> None:
    assert str(FULL) == (
        "review.yaml:3:7: warning: unknown key 'max_iteration' (did you mean 'max_iterations'?)"
    )


@pytest.mark.parametrize(
    ("known", "text"),
    [
        ({}, "error: it is wrong"),
        ({"file": "a.yaml"}, "a.yaml: error: it is wrong"),
        ({"file": "a.yaml", "line": 2}, "a.yaml:2: error: it is wrong"),
        ({"line": 2, "column": 4}, "2:4: error: it is wrong"),
    ],
)
def test_unknown_parts_of_the_location_are_omitted(known: dict[str, object], text: str) -> None:
    found = msgspec.convert({"code": "x", "severity": "error", "message": "it is wrong", **known}, Diagnostic)
    assert str(found) == text


def test_a_diagnostic_is_json_with_its_fields_in_a_fixed_order() -> None:
    encoded = msgspec.json.encode(FULL)
    names = ["code", "severity", "file", "line", "column", "message", "hint"]
    assert list(msgspec.json.decode(encoded)) == names
    assert msgspec.json.decode(encoded, type=Diagnostic) == FULL


def test_the_fields_with_defaults_are_written_too() -> None:
    bare = Diagnostic(code="x", severity="error", message="m")
    assert msgspec.to_builtins(bare) == {
        "code": "x",
        "severity": "error",
        "file": "",
        "line": 0,
        "column": 0,
        "message": "m",
        "hint": "",
    }


def test_a_file_name_that_is_not_unicode_still_encodes() -> None:
    found = Diagnostic(code="x", severity="error", message="é", file="caf\udce9.yaml")
    assert msgspec.json.decode(msgspec.json.encode(found))["file"] == "caf?.yaml"
    assert found.message == "é"


def test_diagnostic_is_immutable() -> None:
    with pytest.raises(AttributeError):
        FULL.line = 9  # type: ignore[misc]


def test_report_accepts_a_value_a_pair_or_no_location() -> None:
    report = Report("a.yaml")
    report.error("one", "first", Located("text", 4, 2), "do this")
    report.warning("two", "second", (5, 1))
    report.warning("three", "third")
    assert [(d.code, d.severity, d.line, d.column, d.hint) for d in report.diagnostics] == [
        ("three", "warning", 0, 0, ""),
        ("one", "error", 4, 2, "do this"),
        ("two", "warning", 5, 1, ""),
    ]
    assert {d.file for d in report.diagnostics} == {"a.yaml"}


def test_a_report_is_sorted_by_file_then_line_then_column() -> None:
    report = Report("b.yaml")
    for line, column in [(10, 1), (9, 3), (9, 2)]:
        report.error("x", "m", (line, column))
    report.file = "a.yaml"
    report.error("x", "m", (99, 1))
    assert [(d.file, d.line, d.column) for d in report.diagnostics] == [
        ("a.yaml", 99, 1),
        ("b.yaml", 9, 2),
        ("b.yaml", 9, 3),
        ("b.yaml", 10, 1),
    ]


def test_duplicate_findings_are_reported_once() -> None:
    report = Report()
    for _ in range(3):
        report.error("x", "m", (1, 1))
    report.error("x", "m", (1, 2))
    assert len(report.diagnostics) == 2


def test_report_with_only_warnings_is_ok() -> None:
    mild, bad = Report(), Report()
    mild.warning("x", "m")
    bad.extend(mild)
    bad.error("y", "n")
    assert mild.ok and mild.errors == []
    assert not bad.ok and [d.code for d in bad.errors] == ["y"]


def test_report_merges_another_without_duplicates() -> None:
    ours, theirs = Report("a.yaml"), Report("b.yaml")
    ours.error("x", "m")
    theirs.error("x", "m")
    theirs.warning("y", "n")
    ours.extend(theirs)
    ours.extend(theirs)
    assert [(d.file, d.code) for d in ours.diagnostics] == [("a.yaml", "x"), ("b.yaml", "x"), ("b.yaml", "y")]


def test_an_error_shows_all_its_diagnostics_one_a_line() -> None:
    other = Diagnostic(code="x", severity="error", message="no nodes")
    error = WorkflowError([FULL, other])
    assert error.diagnostics == (FULL, other)
    assert str(error).split("\n") == [str(FULL), "error: no nodes"]


def test_error_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(WorkflowError([FULL])))
    assert error.diagnostics == (FULL,)


KEYS = ["max_iterations", "reset_on_emit", "message", "scope"]


@pytest.mark.parametrize(
    "word",
    ["max_iteration", "maxIterations", "max-iterations", "MAX_ITERATIONS", "Maxiteration", "max_itertions"],
)
def test_near_miss_suggests_the_right_word(word: str) -> None:
    assert did_you_mean(word, KEYS) == "did you mean 'max_iterations'?"


@pytest.mark.parametrize("word", ["temperature", "", "x", "m" * 1_000_000])
def test_no_suggestion_without_a_near_miss(word: str) -> None:
    assert did_you_mean(word, KEYS) == ""


def test_first_of_two_spellings_is_suggested() -> None:
    assert did_you_mean("toolIDs", ["tool_ids", "toolIds"]) == "did you mean 'tool_ids'?"


def filled(errors: int, warnings: int) -> Report:
    """Warnings first, and each problem in a line of its own."""
    report = Report("big.yaml")
    for number in range(warnings):
        report.warning("w", f"warning {number}", (number + 1, 1))
    for number in range(errors):
        report.error("e", f"error {number}", (warnings + number + 1, 1))
    return report


def test_a_report_shows_a_bounded_number_and_counts_the_rest() -> None:
    found = filled(errors=150, warnings=5000).diagnostics
    assert len(found) == MAX_SHOWN + 1
    assert sum(one.severity == "error" for one in found) == 150
    assert [one.line for one in found[:-1]] == sorted(one.line for one in found[:-1])
    assert (found[-1].code, found[-1].severity) == ("more-problems", "warning")
    assert found[-1].message == "there are 4,950 more warnings"


def test_hidden_errors_count_for_the_result() -> None:
    report = filled(errors=5000, warnings=1)
    assert not report.ok and report.counts == (5000, 1)
    assert {one.severity for one in report.diagnostics} == {"error"}
    assert report.diagnostics[-1].message == "there are 4,800 more errors and 1 more warning"
    assert [one.diagnostic for one in report.findings] == report.diagnostics

    around = Report("main.yaml")
    around.extend(report)
    assert around.counts == (5000, 1) and not around.ok


def test_a_report_with_as_many_as_are_shown_is_complete() -> None:
    report = filled(errors=MAX_SHOWN - 1, warnings=1)
    assert len(report.diagnostics) == MAX_SHOWN and report.diagnostics[-1].code == "e"
    report.error("e", "error 0", (2, 1))  # one that is there already
    assert len(report.diagnostics) == MAX_SHOWN


def test_suggestions_of_a_report_are_bounded() -> None:
    report, names = Report(), [f"name{number}" for number in range(1000)]
    hints = [report.suggest(f"nam{number}", names) for number in range(150)]
    assert hints[0] == "did you mean 'name0'?" and hints[-1] == ""
