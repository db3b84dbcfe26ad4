"""What models of different roles answer: functions from a prompt to a reply, and nothing else.

They know only what they are sent. An author without its draft begins anew, or asks for the text; a critic
without a text asks for one; a secretary who gets "I agree." says that nobody told it what was agreed.
`chatty` answers as models like to: with lead-ins, fenced JSON, and verdicts inside of negations. A role that
asks for the answer alone gets no lead-in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from tests.llm.wire import Reply
from tests.reality.request import Json, Prompt, Tool, Turn
from tests.reality.world import CODE, TEXT, Kind, Work, asks_for_a_change, begin, find

ASKS_BACK = "Could you share the text that you would like me to work on?"
NO_WORK = "There is nothing here that I could judge. Please paste it."
SEES_NOTHING = "I see no text here."
"""What a person says who is shown none."""
UNTOLD = "What was decided? I was only told that somebody agrees."
LEAD_IN, LEAD_OUT = "Sure! Here it is:\n\n", "\n\nLet me know if anything should change."
_ASIDES = "|".join(f"^{re.escape(text)}" for text in (ASKS_BACK, NO_WORK, UNTOLD, SEES_NOTHING))
_ASIDE = re.compile(
    rf"{_ASIDES}|^\[.*\]$|^(Loop|Time) limit reached|^There is nothing to repeat|^The loop ended after"
    r"|^(approved|rejected): \d|^Answer \w+\.$|^Continue\.$"
    r"|^[A-Z]{2,}\b([^a-z]*$|[.:!] )|^I can't say|\"score\"|\bI agree\b|^I propose|^That reads well",
    re.DOTALL | re.MULTILINE,
)
"""What is neither a task nor a work: sentences of the engine, questions back, verdicts."""
_SPEAKER = re.compile(r"^[A-Z][\w ]{0,30}: (?=\S)")
_SHOUTED = re.compile(r"\b[A-Z]{2,}\b")
_NO_VERDICTS = {"JSON", "YAML", "OK", "I"}


def reply_to(prompt: Prompt, chatty: bool = False) -> Reply:
    """The reply to a request."""
    if calls := _calls(prompt):
        return Reply(tool_calls=calls)
    if prompt.schema is not None:
        return Reply(
            _fenced(
                _fill(prompt.schema, *_judgement(prompt), task_of(prompt)), chatty and not prompt.is_strict
            )
        )
    results = [turn.text for turn in prompt.turns if turn.role == "tool"]
    if results and not find(results[-1]):
        return Reply("From the tools: " + "; ".join(results))
    return Reply(persona(prompt.system)(prompt, chatty))


# The conversation.


def _words(turn: Turn) -> str:
    """What was said, without the name of the speaker in front of it, and without lead-ins."""
    text = turn.text.strip()
    text = _SPEAKER.sub("", text) if turn.role == "user" else text
    return text.removeprefix(LEAD_IN.strip()).removesuffix(LEAD_OUT.strip()).strip()


def task_of(prompt: Prompt) -> str:
    """The first thing that a user said that is neither a work nor about one."""
    for turn in prompt.conversation:
        text = _words(turn)
        if (
            turn.role == "user"
            and text
            and not (_ASIDE.search(text) or find(text) or asks_for_a_change(text))
        ):
            return text.splitlines()[0]
    return ""


def _newest_work(prompt: Prompt, *kinds: Kind) -> Work | None:
    return next(filter(None, (find(turn.text, *kinds) for turn in reversed(prompt.conversation))), None)


def _judgement(prompt: Prompt) -> tuple[int, str]:
    """The score of the newest work, and what to say about it."""
    work, task = _newest_work(prompt), task_of(prompt)
    if work is None:
        return 0, NO_WORK
    if task and not work.is_about(task):
        return 10, f"This is not what was asked for: {task}"
    return 100 - 20 * len(work.missing), work.missing[0].note if work.missing else "Well done."


# Authors.


def _around_works(turn: Turn) -> str:
    work = find(turn.text)
    return turn.text.replace(work.text, "") if work else turn.text


def _author(prompt: Prompt, kind: Kind) -> str:
    draft, task = _newest_work(prompt, kind), task_of(prompt)
    heard = [_around_works(turn) for turn in prompt.conversation if turn.role == "user"]
    if draft is None and not task:
        return f"{ASKS_BACK} I only see this: {heard[-1] if heard else 'nothing'}"
    work = draft or begin(task, kind)
    for criticism in reversed(heard):
        if (revised := work.revised(criticism)) != work:
            return revised.text
    if (
        draft is not None
        and work.missing
        and re.search(r"\b(improve|better)\b", prompt.system, re.IGNORECASE)
    ):
        return work.revised(work.missing[0].note).text
    return work.text


def _wants_it_alone(prompt: Prompt) -> bool:
    return bool(re.search(r"\b(alone|only|nothing else|nothing but)\b", prompt.system, re.IGNORECASE))


def _led_in(text: str, prompt: Prompt, chatty: bool) -> str:
    if not chatty or _wants_it_alone(prompt) or text.startswith(ASKS_BACK):
        return text
    return f"{LEAD_IN}{text}{LEAD_OUT}"


def writer(prompt: Prompt, chatty: bool) -> str:
    text = _author(prompt, TEXT)
    work = find(text)
    if "DONE" in prompt.system and work is not None and not work.missing:
        text += " DONE"
    return _led_in(text, prompt, chatty)


def coder(prompt: Prompt, chatty: bool) -> str:
    text = _author(prompt, CODE)
    is_wrapped = chatty and find(text, CODE) and not _wants_it_alone(prompt)
    return f"Here is the code:\n\n```python\n{text}\n```" if is_wrapped else text


def shortener(prompt: Prompt, chatty: bool) -> str:
    """Keeps the beginning of what it is given: of a work the first sentence, else all words but the last."""
    work, task = _newest_work(prompt), task_of(prompt)
    if work is None and not task:
        return ASKS_BACK
    own = [turn.text for turn in prompt.conversation if turn.role == "assistant"]
    words = (own[-1] if own else task).split()
    text = re.split(r"(?<=[.!?])\s", work.text)[0] if work else " ".join(words[: max(1, len(words) - 1)])
    return _led_in(text, prompt, chatty)


def proofreader(prompt: Prompt, chatty: bool) -> str:
    work = _newest_work(prompt)
    return _led_in(work.text if work else ASKS_BACK, prompt, chatty)


def searcher(prompt: Prompt, chatty: bool) -> str:
    """Finds a shorter way than the last that it can see."""
    said = [int(km) for turn in prompt.conversation for km in re.findall(r"(\d+) km", turn.text)]
    task = task_of(prompt)
    if not said and not task:
        return "What should I look for?"
    found = f"{min(said, default=5000) - 200} km"
    return _led_in(f"{found}: {task}" if task else found, prompt, chatty)


# Critics.


def critic(prompt: Prompt, chatty: bool) -> str:
    """Judges in the form that its role asks for: JSON, or a word if it accepts."""
    score, note = _judgement(prompt)
    role = prompt.system
    if "JSON" in role:
        return _fenced({"score": score, "note": note}, chatty)
    word = next((word for word in _SHOUTED.findall(role) if word not in _NO_VERDICTS), "")
    if "score" in role.lower():
        return f"{note} Score: {score}"
    if score == 100:
        return f"{word}. {note}".strip(". ") + "." if chatty or not word else word
    return f"I can't say {word} yet. {note}" if chatty and word else note


def judge(prompt: Prompt, chatty: bool) -> str:
    """Yes if everybody agrees, or if a work is there and lacks nothing."""
    said = "\n".join(turn.text for turn in prompt.conversation)
    agreed = len(re.findall(r"(?<!can't say )I agree\b", said)) > 1
    work = _newest_work(prompt)
    answer = "Yes." if agreed or (work and not work.missing) else "No."
    return f"{answer} I have read it twice." if chatty else answer


# Speakers.


def debater(prompt: Prompt, chatty: bool) -> str:
    """Proposes a day, then gives in to the last proposal of somebody else, and says so."""
    said = [
        (turn.role, day) for turn in prompt.conversation for day in re.findall(r"I propose (\w+)", turn.text)
    ]
    own = [day for role, day in said if role == "assistant"]
    others = [day for role, day in said if role != "assistant"]
    settled = [day for turn in prompt.conversation for day in re.findall(r"So (\w+) it is", turn.text)]
    if settled:
        return "I agree."
    if own and others:
        return f"So {others[-1]} it is. I agree."
    if not task_of(prompt) and not others:
        return "What are we to decide?"
    day = ("Monday", "Friday")[len(others) % 2]
    return f"I don't agree yet. I propose {day}." if others and chatty else f"I propose {day}."


def polite(prompt: Prompt, chatty: bool) -> str:
    """Never decides, as its role says only that it should agree with somebody."""
    names = re.findall(r"^Agree with (\w+)", prompt.system)
    return f"Whatever day suits you best is fine with me, {names[0]}, so please go ahead and choose one."


def secretary(prompt: Prompt, chatty: bool) -> str:
    """Needs the matter itself: works, answers, or what was settled on."""
    said = [turn.text for turn in prompt.conversation if turn.role == "user"]
    settled = [day for text in said for day in re.findall(r"So (\w+) it is", text)]
    works = [work.text for text in said if (work := find(text))]
    answers = [part for text in said for part in re.findall(r"Answer to [^;\n]+", text)]
    if settled:
        return _led_in(f"It was decided: {settled[-1]}.", prompt, chatty)
    if works or answers:
        return _led_in("; ".join(dict.fromkeys(works or answers)), prompt, chatty)
    return UNTOLD


def planner(prompt: Prompt, chatty: bool) -> str:
    task, role = task_of(prompt), prompt.system
    if not task:
        return ASKS_BACK
    parts = [f"{task}, part {number}" for number in (1, 2)]
    if keyed := re.search(r'\{"(\w+)": ?\[', role):
        return _fenced({keyed[1]: parts}, chatty)
    if "array" in role:
        return _fenced(parts, chatty)
    heard = [turn.text for turn in prompt.conversation if asks_for_a_change(turn.text)]
    return f"Build {task}." + (f" Mind this: {heard[-1]}" if heard else "")


def researcher(prompt: Prompt, chatty: bool) -> str:
    task = task_of(prompt)
    if "number" in prompt.system:
        return "The answer is 8." if chatty and "alone" not in prompt.system else "8"
    return f"Answer to {task}" if task else "What is the question?"


def assistant(prompt: Prompt, chatty: bool) -> str:
    """A model that nobody gave a role: it does what the user says, and comments on what it is shown."""
    works = [find(turn.text) for turn in prompt.conversation]
    task = task_of(prompt)
    if any(works) and not (task and any(asks_for_a_change(turn.text) for turn in prompt.conversation)):
        return "That reads well. What would you like me to do with it?"
    if task.endswith("?"):
        return debater(prompt, chatty)
    return writer(prompt, chatty)


PERSONAS: tuple[tuple[str, Callable[[Prompt, bool], str]], ...] = (
    (r"^agree with \w+ on", polite),
    (r"say i agree|debate", debater),
    (r"json array|\{\"\w+\": ?\[|build next|accept next|\bplan\b", planner),
    (r"(^|[.:] )(criticise|judge|review|assess|run the tests|say)\b", critic),
    (r"you are fair|yes or no", judge),
    (r"write down|join what|summari|combine", secretary),
    (r"\b(code|parser|function|program)\b", coder),
    (r"^answer\b", researcher),
    (r"shorter|one sentence", shortener),
    (r"correct the spelling", proofreader),
    (r"find a better", searcher),
    (r"writ|draft|revis|improve|polish|slogan", writer),
)
"""The first whose words are in the role."""


def persona(role: str) -> Callable[[Prompt, bool], str]:
    return next((found for words, found in PERSONAS if re.search(words, role, re.IGNORECASE)), assistant)


# Tools and schemas.


def _calls(prompt: Prompt) -> tuple[tuple[None, str, Json], ...]:
    """Each tool once, or once for each value of an enumeration; `exit_loop` only with a work that lacks
    nothing."""
    work = _newest_work(prompt)
    for tool in prompt.tools:
        if tool.name in prompt.called:
            continue
        if tool.name == "exit_loop":
            if work and not work.missing:
                return ((None, tool.name, {"reason": "it is good", "result": work.text}),)
            continue
        return tuple((None, tool.name, given) for given in _arguments(tool, work.text if work else ""))
    return ()


def _arguments(tool: Tool, text: str) -> list[Json]:
    properties = tool.parameters.get("properties", {})
    required: list[str] = tool.parameters.get("required") or list(properties)
    wanted = {key: properties[key] for key in required}
    given = {key: _fill(schema, 5, text or "Tea.") for key, schema in wanted.items()}
    choices = [(key, value) for key, schema in wanted.items() for value in schema.get("enum", ())]
    return [{**given, key: value} for key, value in choices] or [given]


def _fill(schema: Json, score: int, note: str, task: str = "") -> Any:
    """A value that fits a schema: numbers are the score, texts the note, truth is a full score, and a list of
    texts has the parts of the task."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "string")
    if kind == "object":
        named = schema.get("properties", {})
        wanted = schema.get("required") or list(named)
        return {
            key: _fill(named.get(key, {"type": "integer"}), score, note, task) for key in (*named, *wanted)
        }
    if kind == "array":
        items = schema.get("items", {})
        if task and items.get("type") == "string":
            return [f"{task}, part {number}" for number in (1, 2)]
        return [_fill(items, score, note, task)]
    values: Json = {"integer": score, "number": score, "boolean": score == 100}
    return values.get(kind, note)


def _fenced(value: Any, chatty: bool) -> str:
    text = json.dumps(value)
    return f"Here is my answer:\n\n```json\n{text}\n```" if chatty else text
