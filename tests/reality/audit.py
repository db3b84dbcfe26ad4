"""What each agent of a loop was shown, from the record of the provider.

An agent that runs again needs the task, its own last answer, and the newest thing that was said to it.
Requests of any agent must have a form that every provider accepts, and must not contain the engine's
sentences as if a person had said them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from tests.reality.provider import Seen
from tests.reality.request import Prompt, Turn

NO_TASK = "no task"
NO_OWN = "own last answer missing"
NO_NEWS = "newest feedback missing"
NO_NAMES = "several speakers without names"
ENGINE = "words of the engine"
TWICE = "same text twice"
NO_ROLE = "no role"
_ENGINE = re.compile(
    r"(Loop|Time) limit reached|without its condition being met|There is nothing to repeat"
    r"|^(approved|rejected): \d|=== INPUT FROM",
    re.MULTILINE,
)
_BRACKETED = re.compile(r"\[[^\]]*\]")
_SHORT = 20
"""Characters. Shorter texts, such as verdicts, may well be said twice."""


class Finding(NamedTuple):
    agent: str
    problem: str
    requests: tuple[int, ...]
    """The numbers of the requests."""


class Cast(NamedTuple):
    """Who is who in a workflow."""

    roles: Mapping[str, str]
    """The role of each agent, by its id; an agent without a role has an empty one."""
    task: str
    """What the user asked for."""
    tasks_from: Mapping[str, str] = {}
    """Agents of an inner loop, whose task is what another agent said last."""
    notices: Iterable[str] = ()
    """Sentences of guards, which the file gives them."""
    independent: Iterable[str] = ()
    """Agents that begin anew each time, such as one that works on the elements of a list."""


def agent_of(seen: Seen, roles: Mapping[str, str]) -> str:
    """Who sent a request: the agents whose role the system message begins with. The longest role counts;
    several agents with one role are one name."""
    if seen.agent:
        return seen.agent
    system = seen.prompt.system
    fitting = [role for role in roles.values() if system.startswith(role)]
    longest = max(fitting, key=len, default=None)
    if longest is None:
        return "unknown"
    return "/".join(sorted(name for name, role in roles.items() if role == longest))


def audit(record: Sequence[Seen], cast: Cast) -> list[Finding]:
    found: dict[tuple[str, str], list[int]] = {}
    last: dict[str, str] = {}
    """What everybody said last, in the order in which they said it."""
    said: list[str] = []
    """All answers so far."""
    for seen in record:
        agent = agent_of(seen, cast.roles)
        if seen.number and not seen.fault:
            shown = _odd(seen, agent, last, said, cast) + _lacks(seen, agent, last, said, cast)
            for problem in refused(seen.prompt) + shown:
                found.setdefault((agent, problem), []).append(seen.number)
        if seen.answer:  # not while it only calls tools
            last.pop(agent, None)
            last[agent] = seen.answer
            said.append(seen.answer.strip())
    return [Finding(agent, problem, tuple(numbers)) for (agent, problem), numbers in found.items()]


def refused(prompt: Prompt) -> list[str]:
    """What some provider refuses, or answers badly."""
    roles = [turn.role for turn in prompt.turns]
    said = [turn.role for turn in prompt.turns if turn.role in ("user", "assistant", "tool")]
    first = roles.index(said[0]) if said else len(roles)
    answers = any(one == two == "assistant" for one, two in pairwise(said))
    checks = {
        "two system messages": roles.count("system") > 1,
        "system message behind others": "system" in roles[first:],
        "no user message": "user" not in said,
        "empty message": any(not turn.text.strip() for turn in prompt.turns if turn.role != "tool"),
        "begins with the assistant": said[:1] == ["assistant"],
        "ends with the assistant": said[-1:] == ["assistant"],
        "two answers in a row": answers,
    }
    return [name for name, holds in checks.items() if holds]


def _odd(seen: Seen, agent: str, last: Mapping[str, str], said: Sequence[str], cast: Cast) -> list[str]:
    turns = [turn for turn in seen.prompt.turns if turn.role in ("user", "assistant")]
    texts = [turn.text.strip() for turn in turns if len(turn.text.strip()) > _SHORT]
    users = [turn for turn in turns if turn.role == "user"]
    speakers = {name: text for name, text in last.items() if name != agent and _shows(users, text, said)}
    unnamed = [name for name, text in speakers.items() if not _is_named(users, name, text)]
    checks = {
        NO_ROLE: not seen.prompt.system,
        TWICE: len(texts) > len(set(texts)),
        ENGINE: any(_speaks_as_engine(turn.text, cast.notices) for turn in turns),
        NO_NAMES: len(speakers) > 1 and bool(unnamed),
    }
    return [name for name, holds in checks.items() if holds]


def _speaks_as_engine(text: str, notices: Iterable[str]) -> bool:
    unmarked = _BRACKETED.sub("", text)
    return bool(_ENGINE.search(unmarked)) or any(notice in unmarked for notice in notices)


def _lacks(seen: Seen, agent: str, last: Mapping[str, str], said: Sequence[str], cast: Cast) -> list[str]:
    """Nothing in the first request of an agent: nobody has said anything about it yet. Agents that share a
    role cannot be told apart, so nothing is said about them either."""
    if agent not in last or agent in cast.independent or "/" in agent or seen.prompt.called:
        return []
    users = [turn for turn in seen.prompt.turns if turn.role == "user"]
    own = [turn for turn in seen.prompt.turns if turn.role == "assistant"]
    since = list(last)[list(last).index(agent) + 1 :]
    task = last.get(cast.tasks_from.get(agent, ""), cast.task)
    checks = {
        NO_TASK: not _shows(users, task, said),
        NO_OWN: not any(last[agent].strip() in turn.text for turn in own),
        NO_NEWS: bool(since) and not _shows(users, last[since[-1]], said),
    }
    return [name for name, holds in checks.items() if holds]


def _shows(turns: Iterable[Turn], text: str, said: Sequence[str]) -> bool:
    """Whether a text is among the turns: as it is, or the texts of its JSON. Not inside of a longer answer,
    which may well quote it."""
    told = "\n".join(turn.text for turn in turns)
    text = text.strip()
    for longer in {answer for answer in said if text in answer and text != answer}:
        told = told.replace(longer, "")
    return text in told or any(part in told for part in _texts(text))


def _texts(answer: str) -> list[str]:
    """The texts of an answer that is a JSON object, perhaps in a fence: an edge may hand on one of them."""
    found = re.search(r"\{.*\}", answer, re.DOTALL)
    try:
        value: Any = json.loads(found[0]) if found else None
    except ValueError:
        return []
    values = value.values() if isinstance(value, dict) else ()
    return [text for text in values if isinstance(text, str) and len(text) > _SHORT]


def _is_named(turns: Iterable[Turn], name: str, text: str) -> bool:
    """By the field of the provider, or by words in front of the text."""
    said = re.escape(text.strip())
    return any(
        turn.name == name or name in turn.text[: found.start()]
        for turn in turns
        for found in re.finditer(said, turn.text)
    )
