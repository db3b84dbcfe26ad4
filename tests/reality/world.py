"""The small world of the personas: what a work is, what it lacks, and how a revision improves it.

A work says what it is about, and its first draft lacks two things. A critic asks for the first that is
missing; a revision adds what was asked for. So a loop converges if its author sees the task, the draft and
the criticism, and only then.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Flaw(NamedTuple):
    """Something that a first draft lacks."""

    note: str
    """What a critic says about it."""
    cue: re.Pattern[str]
    """How an author recognises what is asked for, whoever asks."""
    remedy: str
    """What a revision adds."""


class Kind(NamedTuple):
    """A kind of work."""

    opening: str
    """The first draft about a `topic`."""
    pattern: re.Pattern[str]
    """A work inside of a message, whatever stands around it."""
    flaws: tuple[Flaw, ...]


TEXT = Kind(
    "About {topic}, in short.",
    re.compile(r"(?:Please! )?About (?P<topic>[^\n]{1,200}?), in short\.[^\n\"]*(?:\n(?!\s*\n)[^\n]+)*"),
    (
        Flaw(
            "It shows nothing; give the reader a picture.",
            re.compile(r"\bpicture\b"),
            " Steam curls above a blue cup.",
        ),
        Flaw("It stops too soon; add a farewell.", re.compile(r"\bfarewell\b"), " Until four, then."),
    ),
)
CODE = Kind(
    "# {topic}\ndef solve(data):\n    return data",
    re.compile(r"# (?P<topic>[^\n]+)\ndef solve\(data\):(?:\n    [^\n]*)*"),
    (
        Flaw("It fails on empty input.", re.compile(r"\bempty input\b"), "\n    # nothing in, nothing out"),
        Flaw("It fails on bad input.", re.compile(r"\bbad input\b"), "\n    # refuses what it cannot read"),
    ),
)


class Work(NamedTuple):
    kind: Kind
    topic: str
    text: str

    @property
    def missing(self) -> list[Flaw]:
        return [flaw for flaw in self.kind.flaws if flaw.remedy.strip() not in self.text]

    @property
    def improvements(self) -> int:
        return len(self.kind.flaws) - len(self.missing)

    def is_about(self, task: str) -> bool:
        return (
            self.topic.casefold() in task.casefold() or task.strip(" .").casefold() in self.topic.casefold()
        )

    def revised(self, criticism: str) -> Work:
        """With the one thing that the criticism asks for; the same if it asks for nothing that is missing."""
        for flaw in self.missing:
            if flaw.cue.search(criticism):
                return self._replace(text=self.text + flaw.remedy)
        if allowed := re.search(r"too many, (\d+) are allowed", criticism):
            topic = " ".join(self.topic.split()[: max(1, int(allowed[1]) - 4)])
            return begin(topic, self.kind)
        if "say please" in criticism.casefold() and not self.text.startswith("Please"):
            return self._replace(text=f"Please! {self.text}")
        if re.search(r"\blines, not 3\b", criticism):
            lines = (self.kind.opening.format(topic=self.topic), *(flaw.remedy for flaw in self.kind.flaws))
            return self._replace(text="\n".join(line.strip() for line in lines))
        return self


def begin(topic: str, kind: Kind = TEXT) -> Work:
    topic = topic.strip(" .")
    return Work(kind, topic, kind.opening.format(topic=topic))


def find(text: str, *kinds: Kind) -> Work | None:
    """The work in a text; the last one if there are several."""
    for kind in kinds or (TEXT, CODE):
        found = list(kind.pattern.finditer(text))
        if found:
            return Work(kind, found[-1]["topic"], found[-1][0])
    return None


def asks_for_a_change(text: str) -> bool:
    """Whether a text is about a work, and not a work or a task itself."""
    notes = any(flaw.cue.search(text) for kind in (TEXT, CODE) for flaw in kind.flaws)
    return notes or bool(re.search(r"are allowed|say please|lines, not \d", text, re.IGNORECASE))
