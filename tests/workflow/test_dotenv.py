"""The lines of `.env` files."""

from __future__ import annotations

from pathlib import Path

import pytest

from roundel.workflow.diagnostics import Diagnostic, Report
from roundel.workflow.variables import read_dotenv


def dotenv(tmp_path: Path, text: str | bytes) -> tuple[dict[str, str], list[Diagnostic]]:
    path = tmp_path / ".env"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    report = Report("flow.yaml")
    values = read_dotenv(path, report)
    return values, report.diagnostics


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=1", "1"),
        ("  A = two words  ", "two words"),
        ("export A=1", "1"),
        ("A=", ""),
        ("A= # nothing", ""),
        ("A=x # a comment", "x"),
        ("A=x#y", "x#y"),
        ("A=it's", "it's"),
        ("A=a=b", "a=b"),
        ("A='one # two' # three", "one # two"),
        ("A='  x  '", "  x  "),
        ("A=''", ""),
        (r"A='a\n$b'", r"a\n$b"),
        (r'A="a\n\"b\" \\ \$c"', 'a\n"b" \\ $c'),
        ('A="x"# y', "x"),
        ("A=é", "é"),
    ],
)
def test_an_entry_is_a_name_and_a_value(tmp_path: Path, line: str, value: str) -> None:
    for text in (line, f"\ufeff# first\r\n\r\n{line}\r\n"):
        assert dotenv(tmp_path, text) == ({"A": value}, [])


@pytest.mark.parametrize(
    "line", ["secret", "1A=secret", "A='secret", 'A="secret" x', "=secret", "A B=secret", "- secret"]
)
def test_invalid_line_is_a_warning_without_its_text(tmp_path: Path, line: str) -> None:
    values, [found] = dotenv(tmp_path, f"# first\n\n{line}\nB=2\n")
    assert values == {"B": "2"}
    assert (found.code, found.severity, found.line) == ("bad-dotenv", "warning", 3)
    assert found.file == str(tmp_path / ".env")
    assert "secret" not in str(found)


def test_last_of_two_entries_wins(tmp_path: Path) -> None:
    assert dotenv(tmp_path, "A=1\nA=2")[0] == {"A": "2"}


def test_no_file_means_no_entries(tmp_path: Path) -> None:
    report = Report()
    assert read_dotenv(tmp_path / ".env", report) == {}
    assert report.diagnostics == []


def test_unreadable_file_is_a_warning(tmp_path: Path) -> None:
    values, [found] = dotenv(tmp_path, b"A=\xff\n")
    assert values == {} and found.severity == "warning"
    report = Report()
    assert read_dotenv(tmp_path, report) == {}
    assert [each.severity for each in report.diagnostics] == ["warning"]


def test_report_is_optional(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("bad line\nA=1")
    assert read_dotenv(tmp_path / ".env") == {"A": "1"}
