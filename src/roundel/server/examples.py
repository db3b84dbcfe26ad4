"""The examples that ship with the package, as templates: text, script and picture.

They are the folder `examples/` of the repository, which the wheel contains as `roundel/examples`
(pyproject.toml), so that there is one copy of each, and the manual's tests run it. The comment at the head of
a workflow is its title and its description, and its first command has the input.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from msgspec import Struct

from roundel.drawing.assembly import draw
from roundel.drawing.drawing import Drawing
from roundel.drawing.svg import svg
from roundel.nodes.loading import draft_plan
from roundel.plan.graph import Plan
from roundel.workflow.policy import Policy

WORKFLOW, SCRIPT = "workflow.yaml", "script.yaml"
FIRST = ("review_loop", "polish", "human_review", "debate", "batch", "nested_loops")
"""What a new user should see first: the plain loop, and then one example for each other kind of loop."""
_SENTENCE = re.compile(r"(.+?)[.:;](?=\s|$)", re.DOTALL)
_INPUT = re.compile(r'--input "([^"]*)"')


class Example(Struct, frozen=True):
    """An example; `examples` creates it."""

    name: str
    """The name of the example."""
    title: str
    """A short title."""
    description: str
    """What it shows."""
    text: str
    """The text of the workflow."""
    script: str
    """The replies of models and people, for a run that costs nothing."""
    input: str
    """An input to try it with."""
    svg: str
    """Its picture."""
    drawing: Drawing | None
    """The same as data, for pages that draw it in their own colours; null if it has no graph."""


def examples_folder() -> Path | None:
    """The folder of the examples: in the package if it is installed, else in the repository; None if
    there is none."""
    package = Path(__file__).parents[1]
    places = (package / "examples", package.parents[1] / "examples")
    return next((place for place in places if (place / "review_loop" / WORKFLOW).is_file()), None)


@cache
def examples() -> tuple[Example, ...]:
    """All examples: those of `FIRST`, and the others by name. It takes a second, once; imports no code."""
    folder = examples_folder()
    if folder is None:
        return ()
    others = sorted({file.parent.name for file in folder.glob(f"*/{WORKFLOW}")}.difference(FIRST))
    return tuple(_read(folder / name / WORKFLOW) for name in (*FIRST, *others))


def _read(file: Path) -> Example:
    text = file.read_text(encoding="utf-8")
    script = file.with_name(SCRIPT)
    title, description = _headline(text)
    found = _INPUT.search("".join(_comment(text)))
    plan = _plan(file)
    return Example(
        name=file.parent.name,
        title=title,
        description=description,
        text=text,
        script=script.read_text(encoding="utf-8") if script.is_file() else "",
        input=found[1] if found else "",
        svg="" if plan is None else svg(draw(plan)),
        drawing=None if plan is None else draw(plan, density="compact"),
    )


def _comment(text: str) -> Iterator[str]:
    """The lines of the comment at the head of a text."""
    for line in text.splitlines():
        if not line.startswith("#"):
            return
        yield line[1:].strip() + "\n"


def _headline(text: str) -> tuple[str, str]:
    """The first sentence of the comment, and its first paragraph."""
    paragraph = "".join(_comment(text)).partition("\n\n")[0].replace("\n", " ").strip()
    found = _SENTENCE.match(paragraph)
    return (found[1] if found else paragraph), paragraph


def _plan(file: Path) -> Plan | None:
    # Under a policy nothing is imported. What it forbids does not matter: the picture shows no problems.
    plan, _ = draft_plan(file, policy=Policy(files=(str(file.parent),)))
    return plan
