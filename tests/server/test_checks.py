"""Texts that need not be saved: check, forecast and try over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from roundel.cli.workflows import check_command, forecast_command
from roundel.drawing.assembly import draw
from roundel.drawing.svg import svg
from roundel.nodes.loading import check_models, draft_plan
from roundel.workflow.policy import TRUSTED, Policy
from tests.server.api import Server, serving

EXAMPLES = Path(__file__).parents[2] / "examples"
LOOP = """
graph:
  id: polish
  nodes:
    - {id: Writer, type: agent, config: {}}
    - {id: Reviewer, type: agent, config: {}}
    - {id: Counter, type: loop_counter, config: {max_iterations: 4}}
    - {id: Final, type: passthrough}
  edges:
    - {from: Writer, to: Reviewer}
    - {from: Reviewer, to: Counter}
    - {from: Counter, to: Final}
    - {from: Counter, to: Writer}
    - {from: Reviewer, to: Writer}
  start: Writer
  end: Final
"""


def played(story: Callable[[Server], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        async with serving(**options) as server:
            await story(server)

    asyncio.run(main())


def result_of(path: str, body: dict[str, Any], **options: Any) -> Any:
    """The answer to one request of an operator, compared with the schema of the route."""
    found: list[Any] = []

    async def story(server: Server) -> None:
        client = await server.client("operator")
        answer = await client.post(path, json=body)
        assert answer.status_code == 200, answer.text
        document = (await client.get("/api/v1/openapi.json")).json()
        schema = document["paths"][path]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
        jsonschema.validate(answer.json(), {**schema, "components": document["components"]})
        found.append(answer.json())

    played(story, **options)
    return found[0]


def check(text: str, **body: Any) -> Any:
    return result_of("/api/v1/check", {"text": text, **body})


def tried(kind: str, config: Any, text: str = "", **body: Any) -> Any:
    answer = result_of("/api/v1/try", {"kind": kind, "config": config, "text": text, **body})
    assert answer.keys() == {"result", "error"}
    return answer


# Checking.


def test_a_sound_text_has_loops_with_bounds_and_a_drawing() -> None:
    found = check(LOOP)
    assert found["ok"] is True and found["draft"] is False and found["workflow"] == "polish"
    assert not [one for one in found["diagnostics"] if one["severity"] == "error"]
    (loop,) = found["loops"]
    assert loop["id"] == "Writer" and loop["bounded_by"] and loop["cap"]
    drawing = found["drawing"]
    assert {node["id"] for node in drawing["nodes"]} == {"Writer", "Reviewer", "Counter", "Final"}
    assert [edge["source"] for edge in drawing["edges"] if edge["back"]] == ["Reviewer", "Counter"]
    assert [region["kind"] for region in drawing["regions"]] == ["loop"]
    assert all(edge["route"] for edge in drawing["edges"])


def test_the_answer_is_that_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    for file in sorted(EXAMPLES.glob("*/workflow.yaml")):
        if any(file.parent.glob("*.py")):
            continue  # a text has no folder with code beside it
        with pytest.raises(SystemExit):
            check_command.main([str(file), "--json"], standalone_mode=True)
        printed = json.loads(capsys.readouterr().out)
        # As trusted as on the command line: what a policy forbids is the subject of another test.
        options: dict[str, Any] = {"policy": TRUSTED}
        body = {"text": file.read_text(encoding="utf-8"), "name": str(file)}
        found = result_of("/api/v1/check", body, **options)
        assert found["diagnostics"] == printed["diagnostics"], file
        assert found["loops"] == printed["loops"], file
        plan, report = draft_plan(file)
        assert plan is not None
        check_models(plan, report)
        for density in ("normal", "compact"):
            found = result_of("/api/v1/check", {**body, "density": density}, **options)
            drawn = draw(plan, report.findings, density=density)
            assert found["drawing"] == json.loads(msgspec.json.encode(drawn)), file

        with pytest.raises(SystemExit):
            forecast_command.main([str(file), "--json"], standalone_mode=True)
        printed = json.loads(capsys.readouterr().out)
        told = result_of("/api/v1/forecast", body, **options)
        assert (told["forecast"], told["loops"]) == (printed["forecast"], printed["loops"]), file


def test_a_text_with_errors_is_drawn_with_its_errors_at_their_places() -> None:
    found = check(
        LOOP.replace("to: Counter}", "to: Countr}").replace("type: passthrough", "type: pasthrough")
    )
    assert found["ok"] is False and found["draft"] is True and found["loops"] == []
    errors = [one for one in found["diagnostics"] if one["severity"] == "error"]
    assert {"unknown-type"} <= {one["code"] for one in errors}
    assert all(one["line"] and one["column"] and one["message"] for one in errors)
    nodes = {node["id"]: node for node in found["drawing"]["nodes"]}
    assert nodes["Countr"]["missing"] is True
    assert [one["code"] for one in nodes["Final"]["problems"]] == ["unknown-type"]


TEAM = """
graph:
  nodes:
    - id: Team
      type: subgraph
      config:
        type: config
        config:
          nodes: [{id: A, type: passthrough}, {id: B, type: pasthrough}]
          edges: [{from: A, to: B}]
          start: A
    - {id: Final, type: passthrough}
  edges:
    - {from: Team, to: Final}
  start: Team
"""


def test_a_second_drawing_has_the_collapsed_nodes_as_cards_with_the_problems_inside_them() -> None:
    found = check(TEAM, collapsed=["Team", "Nobody"])
    whole = check(TEAM)
    assert found["drawing"] == whole["drawing"] and whole["collapsed_drawing"] is None
    nodes = {node["key"]: node for node in found["collapsed_drawing"]["nodes"]}
    assert nodes.keys() == {"Team", "Final"}
    assert nodes["Team"]["inside"] == {"nodes": 2, "edges": 1, "loops": 0}
    assert [one["code"] for one in nodes["Team"]["problems"]][-1] == "unknown-type"
    assert check(TEAM, collapsed=["Team/A", "Nobody"])["collapsed_drawing"] is None
    assert check("graph: [", collapsed=["Team"])["collapsed_drawing"] is None

    async def story(server: Server) -> None:
        client = await server.client("viewer")
        picture = await client.post("/api/v1/picture", json={"text": TEAM, "collapsed": ["Team"]})
        assert "2 nodes" in picture.text
        many = {"text": TEAM, "collapsed": ["Team"] * 1001}
        assert (await client.post("/api/v1/check", json=many)).status_code == 422

    played(story)


@pytest.mark.parametrize("text", ["", "{", "graph: 7", "- a\n- b", "\x00", "a: &a [*a]", "[" * 3000])
def test_a_text_without_a_graph_has_diagnostics_alone(text: str) -> None:
    found = check(text)
    assert found["ok"] is False and found["drawing"] is None and found["diagnostics"]


def test_a_picture_has_the_colours_that_are_asked_for_and_is_that_of_the_command_line() -> None:
    async def story(server: Server) -> None:
        client = await server.client("viewer")

        async def picture(text: str, **body: Any) -> Any:
            return await client.post("/api/v1/picture", json={"text": text, **body})

        file = EXAMPLES / "review_loop" / "workflow.yaml"
        text = file.read_text(encoding="utf-8")
        answer = await picture(text)
        assert answer.headers["content-type"] == "image/svg+xml"
        plan, _ = draft_plan(file)
        assert plan is not None and answer.text == svg(draw(plan))
        light, dark = [(await picture(text, scheme=scheme)).text for scheme in ("light", "dark")]
        assert "@media" in answer.text and "@media" not in light + dark
        assert "#12161f" in dark and "#12161f" not in light
        # A picture of a text with errors shows them; one without a graph has no picture.
        assert "fault" in (await picture(LOOP.replace("to: Reviewer", "to: Nobody", 1))).text
        assert (await picture("graph: [")).status_code == 422

    played(story)


def test_variables_replace_those_of_the_text_and_secrets_are_not_shown() -> None:
    text = LOOP.replace("max_iterations: 4", "max_iterations: '${rounds}'") + (
        "vars:\n  rounds: 4\n  password: hunter2hunter2\n  token: {value: abcdefgh12345, secret: true}\n"
    )
    found = check(text, variables={"rounds": 9})
    assert found["ok"] is True
    shown = {one["name"]: (one["value"], one["secret"]) for one in found["variables"]}
    assert shown["password"] == (None, True) and shown["token"] == (None, True)
    assert shown["rounds"][1] is False
    assert "hunter2hunter2" not in json.dumps(found) and "abcdefgh12345" not in json.dumps(found)
    assert "9" in json.dumps(found["loops"])


def test_what_the_policy_does_not_allow_is_an_error_and_nothing_is_imported() -> None:
    text = (
        "graph:\n  nodes:\n    - {id: A, type: python, config: {function: 'tests.deadline:x'}}\n  start: A\n"
    )
    assert [one["code"] for one in check(text)["diagnostics"]] == ["not-allowed"]
    allowed = Policy(functions=("tests.deadline:x",))
    assert result_of("/api/v1/check", {"text": text}, policy=allowed)["ok"] is True


# Forecasts.


def test_a_forecast_has_worst_and_typical_figures_and_takes_limits() -> None:
    plain = result_of("/api/v1/forecast", {"text": LOOP})
    assert plain["forecast"]["model_calls"]["worst"] > plain["forecast"]["model_calls"]["typical"] > 0
    limited = result_of("/api/v1/forecast", {"text": LOOP, "limits": {"rounds": 2}})
    assert limited["forecast"]["model_calls"]["worst"] < plain["forecast"]["model_calls"]["worst"]
    broken = result_of("/api/v1/forecast", {"text": "graph: 7"})
    assert broken["forecast"] is None and broken["diagnostics"]

    async def story(server: Server) -> None:
        client = await server.client("viewer")
        wrong = await client.post("/api/v1/forecast", json={"text": LOOP, "limits": {"raunds": 2}})
        assert wrong.status_code == 422 and "raunds" in wrong.json()["detail"]

    played(story)


# Who may do it.


def test_roles() -> None:
    async def story(server: Server) -> None:
        viewer, nobody = await server.client("viewer"), await server.anyone()
        for path in ("/api/v1/check", "/api/v1/forecast"):
            assert (await viewer.post(path, json={"text": LOOP})).status_code == 200
            assert (await nobody.post(path, json={"text": LOOP})).status_code == 401
        assert (await viewer.post("/api/v1/try", json={"kind": "score", "config": None})).status_code == 403

    played(story)


# Trying.


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (None, True),
        (True, True),
        (False, False),
        ("always_false", False),
        ({"cel": "text.contains('APPROVED') && data.score > 7"}, True),
        ({"cel": "round == 3 && vars.limit == 2 && run.input != ''"}, True),
        ({"type": "keyword", "config": {"any": ["APPROVED"]}}, True),
        ({"type": "keyword", "config": {"none": ["APPROVED"]}}, False),
        ({"type": "keyword", "config": {"regex": ["^app"], "case_sensitive": False}}, True),
        ({"type": "expression", "config": {"expr": "data.score < 5"}}, False),
    ],
)
def test_conditions(config: Any, expected: bool) -> None:
    answer = tried("condition", config, "APPROVED", data={"score": 8}, round=3, vars={"limit": 2})
    assert answer == {"result": expected, "error": None}


def test_processors() -> None:
    config: dict[str, Any] = {"pattern": r"(\w+)!", "group": 1}
    extract = {"type": "regex_extract", "config": config}
    found = tried("processor", extract, "one! two!", data={"a": 1})
    assert found["result"] == {"text": "one", "data": {"a": 1}}
    config |= {"multiple": True, "template": "- {match}"}
    assert tried("processor", extract, "one! two!")["result"]["text"] == "- one\n- two"
    config["on_no_match"] = "drop"
    assert tried("processor", extract, "none") == {"result": None, "error": None}
    upper = {"type": "function", "config": {"name": "uppercase_payload"}}
    assert tried("processor", upper, "a")["result"]["text"] == "A"


def test_scores() -> None:
    assert tried("score", None, 'It is {"score": 8.5}')["result"] == 8.5
    assert tried("score", "data.points * 2", data={"points": 4})["result"] == 8
    assert tried("score", {"regex": r"Score: (\d+)"}, "Score: 12")["result"] == 12
    assert tried("score", None, "no score") == {"result": None, "error": None}


def test_templates() -> None:
    template = "Round {{ round }}: {{ text }} ({{ data.who }}) {{"
    assert tried("template", template, "hi", data={"who": "Ann"}, round=2)["result"] == "Round 2: hi (Ann) {{"


@pytest.mark.parametrize(
    ("kind", "config", "reason"),
    [
        ("condition", "os:getcwd", "Python function"),
        ("condition", {"type": "function", "config": {"name": "my_check"}}, "Python function"),
        ("condition", {"cel": "data."}, ""),
        ("condition", {"cel": "data.missing > 3"}, "missing"),
        ("condition", {"type": "keyword", "config": {}}, "nothing to look for"),
        ("condition", 7, ""),
        ("condition", [[]], ""),
        ("processor", {"type": "function", "config": {"name": "code_save_and_run"}}, "Python function"),
        ("processor", {"type": "regex_extract", "config": {"pattern": "("}}, ""),
        ("processor", None, ""),
        ("score", {"regex": "no group"}, "one group"),
        ("score", "text.foo(", ""),
        ("template", "{{ 1 / 0 }}", ""),
        ("template", "{{ open('x') }}", ""),
        ("template", {"not": "text"}, "a template is a text"),
        ("template", "{{text}}" * 51, "more than 50 expressions"),
        ("template", "x" * 20_001, "more than 20,000 characters"),
    ],
)
def test_what_cannot_be_tried_says_why(kind: str, config: Any, reason: str) -> None:
    answer = tried(kind, config, "some text")
    assert answer["result"] is None and answer["error"] and reason in answer["error"]


def test_trying_is_bounded_in_time_and_size() -> None:
    slow = {"type": "keyword", "config": {"regex": ["(x+x+)+y"]}}
    assert "took more than" in tried("condition", slow, "x" * 10_000)["error"]
    costly = {"cel": "size(data.x.map(a, data.x)) > 0"}
    assert tried("condition", costly, data={"x": list(range(3000))})["error"]
    doubled = "{{ " + " + ".join(["text"] * 40) + " }}"
    assert tried("template", doubled * 20, "x" * 100_000)["error"]
    large = {"type": "regex_extract", "config": {"pattern": ".", "multiple": True, "template": "y" * 19_000}}
    assert "too large" in tried("processor", large, "x" * 100_000)["error"]
    nested: Any = 1
    for _ in range(150):
        nested = [nested]
    assert tried("condition", {"cel": "size(data.x) == 1"}, data={"x": nested})["error"]

    async def story(server: Server) -> None:
        client = await server.client("operator")
        answer = await client.post(
            "/api/v1/try", json={"kind": "score", "config": None, "text": "x" * 100_001}
        )
        assert answer.status_code == 422

    played(story)
