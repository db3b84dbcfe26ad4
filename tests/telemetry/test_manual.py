"""The page on telemetry lists everything that there is."""

from __future__ import annotations

from roundel.telemetry import Metrics, conventions
from tests.docs.manual import DOCS, code, rows, sections
from tests.telemetry.in_memory import CIRCLE, RecordedTelemetry

PAGE = sections(DOCS / "telemetry.md")
OURS = ("gen_ai.", "roundel.", "error.")


def first_column(title: str) -> set[str]:
    return {word for cells in rows(PAGE[title]) for word in code(cells[0])}


def test_every_attribute_is_listed() -> None:
    constants = (value for name, value in vars(conventions).items() if name.isupper())
    names = {value for value in constants if isinstance(value, str) and value.startswith(OURS)}
    of_points = {conventions.TOKEN_TYPE}
    listed = first_column("Spans") | set(code(PAGE["Message content"]))
    assert names - of_points <= listed


def test_every_metric_is_listed() -> None:
    watch = RecordedTelemetry()
    watch.run(CIRCLE, script={"Talker": "I will look into it."})
    measures = vars(watch.telemetry._metrics._sink).values()
    instruments = {one.name for one in measures if hasattr(one, "name")}
    assert first_column("Metrics") == instruments


def test_every_series_is_listed() -> None:
    families = Metrics().registry.collect()
    names = {f"{one.name}_total" if one.type == "counter" else one.name for one in families}
    assert first_column("Prometheus") == names
