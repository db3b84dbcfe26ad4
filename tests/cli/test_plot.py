"""Rounds, drawn as text and as SVG."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from roundel.cli.plot import measures, svg
from roundel.cli.text_plot import TextPlot, bar, sparkline
from roundel.runs.rounds import LoopRounds, Round
from tests.cli.stored_runs import prepare, roundel, run

SVG = "{http://www.w3.org/2000/svg}"


def loop(count: int, name: str = "Writer", *, cost: float | None = 0.01) -> LoopRounds:
    rounds = tuple(
        Round(f"{name}[{n}]", n, 50 + n % 50, 1000 * n, cost, 1 / n, 0.5 * n) for n in range(1, count + 1)
    )
    return LoopRounds(name, rounds, "exit_edge")


def text(*loops: LoopRounds, width: int = 80) -> list[str]:
    page = StringIO()
    Console(file=page, width=width, no_color=True).print(TextPlot(loops))
    return [line.rstrip() for line in page.getvalue().splitlines()]


def test_a_few_rounds_have_a_bar_each() -> None:
    lines = text(loop(3))
    assert lines[0] == "Writer  3 rounds · exit_edge"
    assert lines[1].split() == ["round", "score", "tokens", "cost", "novelty", "time"]
    assert [line.split()[0] for line in lines[2:5]] == ["1", "2", "3"]
    assert lines[4].split()[1:10:2] == ["53", "3,000", "$0.01", "0.33", "1.5"]
    assert "53 best" in lines[5] and "6,000 in all" in lines[5] and "0.61 mean" in lines[5]


@pytest.mark.parametrize("count", [1, 24, 25, 1000])
def test_plot_fits_into_80_columns(count: int) -> None:
    lines = text(loop(count), loop(2, "審査の輪", cost=None))
    assert max(map(len, lines)) <= 80
    assert not any("…" in line for line in lines)
    assert sum(line.startswith(("Writer", "審査の輪")) for line in lines) == 2


def test_many_rounds_are_drawn_in_lines() -> None:
    lines = text(loop(200))
    assert [line.split()[0] for line in lines[1::2]] == ["score", "tokens", "cost", "novelty", "time"]
    assert "1,000 → 200k" in lines[3]


def test_bars_and_lines() -> None:
    assert (bar(0, 4), bar(0.0001, 4), bar(0.5, 4), bar(1, 4), bar(7, 4)) == ("", "▏", "██", "████", "████")
    assert sparkline([0, 0.5, 1, None], 1) == ("  █ ", "▁██ ")
    upper, lower = sparkline(range(1000), 1000, 10)
    assert len(upper) == len(lower) == 10
    assert lower[-1] == "█" and lower[0] == "▁"


def test_unknown_measures_are_omitted() -> None:
    bare = LoopRounds("A", (Round("A[1]", 1, None, 0, None, None, 0),), "")
    assert [measure.name for measure in measures(bare)] == ["time"]
    partly = LoopRounds("A", (*loop(1).rounds, Round("A[2]", 2, None, 0, None, None, 1)), "")
    costs = {measure.name: measure.total for measure in measures(partly)}
    assert costs["cost"] == ("≥ $0.01", "in all")
    assert "–" in text(partly)[3]
    assert text(bare)[0] == "A  1 round · in flight"


@pytest.mark.parametrize("count", [1, 4, 30, 31, 3000])
def test_svg_has_a_chart_for_each_measure(count: int) -> None:
    page = ET.fromstring(svg([loop(count), loop(2, "<b>&")], "a & b"))
    assert page.find(f"{SVG}title").text == "a & b: the rounds of its loops"  # type: ignore[union-attr]
    charts = page.findall(f"{SVG}g")
    assert len(charts) == 10
    width, height = float(page.attrib["width"]), float(page.attrib["height"])
    for chart in charts:
        words = [one.text for one in chart.iter(f"{SVG}text")]
        assert words[0] in {"score", "tokens", "cost", "novelty", "time"}
        assert "round" in words and "0" in words, "both axes are labelled"
        card = chart.find(f"{SVG}rect")
        assert card is not None
        assert float(card.attrib["x"]) + float(card.attrib["width"]) <= width
        assert float(card.attrib["y"]) + float(card.attrib["height"]) <= height
        for word in chart.iter(f"{SVG}text"):
            assert 0 <= float(word.attrib["x"]) <= width


def test_a_run_is_plotted(tmp_path: Path) -> None:
    prepare(tmp_path)
    run(tmp_path)
    for answer in ("shorter", "OK"):
        roundel(tmp_path, "answer", "last", answer)
    shown = roundel(tmp_path, "plot", "last")
    assert shown.exit_code == 0
    assert "Writer  2 rounds · exit_edge" in shown.stdout and "90 best" in shown.stdout
    assert roundel(tmp_path, "plot", "last", "--format", "svg", "--loop", "Writer").stdout.startswith("<svg")
    assert roundel(tmp_path, "plot", "last", "--out", "rounds.svg").stderr.startswith("wrote rounds.svg\n")
    assert ET.fromstring((tmp_path / "rounds.svg").read_text()).tag == f"{SVG}svg"
    roundel(tmp_path, "plot", "last", "--out", "rounds.txt")
    assert (tmp_path / "rounds.txt").read_text().startswith("Writer  2 rounds")


@pytest.mark.parametrize("name", ["rounds.png", "rounds.pdf", "rounds.JPG"])
def test_a_picture_that_cannot_be_drawn_is_refused(tmp_path: Path, name: str) -> None:
    prepare(tmp_path)
    run(tmp_path)
    refused = roundel(tmp_path, "plot", "last", "--out", name)
    assert refused.exit_code == 2
    assert "SVG (.svg) or as text (.txt)" in refused.stderr and "--out rounds.svg" in refused.stderr
    assert not (tmp_path / name).exists()
    # An explicit format wins over the name, and the case of the letters does not matter.
    assert roundel(tmp_path, "plot", "last", "--out", name, "--format", "svg").exit_code == 0
    assert roundel(tmp_path, "plot", "last", "--out", "rounds.SVG").exit_code == 0
    assert (tmp_path / "rounds.SVG").read_text().startswith("<svg")


def test_a_run_without_loops(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text("graph: {start: A, nodes: [{id: A, type: passthrough}]}\n")
    (tmp_path / "script.yaml").write_text("{}\n")
    run(tmp_path)
    shown = roundel(tmp_path, "plot", "last")
    assert shown.exit_code == 1 and "entered no loop" in shown.stderr
