"""Dead series: after some rounds of progress, every speaker repeats itself, exactly or but for noise.

Noise is what a person would not call news: letter case, white space, end marks, time stamps, random
identifiers, temporary paths, the number of the attempt. The noise is in all rounds, also in the live ones.
"""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from tests.breaker.series import Round, Series
from tests.breaker.stock import ADJECTIVES, CITIES, NAMES, THINGS, VERBS

Noise = Callable[[random.Random, str, int], str]
"""Turns a text into what is said in the given round."""

VARIANTS = 15
SPEAKERS = ("Coder", "Critic", "Manager")
# No two texts share a sentence, and a series uses each of them once, so only what shall repeat does.
PROSE = (
    "I fixed the bug in `{verb}_{thing}`. Please run the tests again.",
    "The {thing} of {city} cannot be loaded. I will try once more.",
    "Here is the {adjective} draft: {city} is worth a journey. {name} lives there and sells {thing}.",
    "Still 1 failed.",
    "Not good enough yet, please {verb} the {thing} again.",
    "Error: no connection to the {thing} of {name}.",
    "正在处理 {city} 的数据，请稍候。",
    "还不行，请{name}继续修改。",
    "测试没有通过。错误出现在 {thing} 模块。",
    "I agree with {name}. We should {verb} the {thing} first. Then we can decide.",
    "Sorry, I cannot {verb} {thing} without access to the folder.",
    "What do you think, {name}?",
    "Let me {verb} the {thing} before I answer.",
    "The {adjective} version from {city} is better. I keep it.",
    "Permission denied while opening the {thing} in {city}.",
    "You are right, I apologise for the mistake. The {thing} are now {adjective}.",
    "As I said, {name} has to {verb} it. There is nothing that I can add.",
    "Waiting for {name}.",
    "The train to {city} is full on that day. Shall I look for {thing} instead?",
    "My position stays the same: {city} needs more {thing}, not fewer.",
)
FORMAL = (
    '{{"score": 6, "approved": false, "comment": "{verb} the {thing}"}}',
    "def {verb}_{thing}({thing}):\n    if not {thing}:\n        return None\n    return sorted({thing})",
    "| item | owner |\n|---|---|\n| {thing} | {name} |",
    "- {verb} the {thing}\n- ask {name}\n- travel to {city}",
    "Traceback (most recent call last):\n  File \"{thing}.py\", line 12, in {verb}\nKeyError: '{name}'",
    "SELECT {thing} FROM {city} WHERE owner = '{name}';",
)


def repetitions() -> Iterator[Series]:
    for kind, (period, texts, noise) in KINDS.items():
        for number in range(VARIANTS):
            chance = random.Random(f"{kind} {number}")
            yield _stuck(chance, period, texts, noise)._replace(kind=kind, name=str(number))


def _stuck(chance: random.Random, period: int, texts: tuple[str, ...], noise: Noise) -> Series:
    speakers = SPEAKERS[: chance.randint(1, 3)]
    fresh = chance.randint(0, 3)
    said = iter(_filled(chance, text) for text in chance.sample(texts, len(speakers) * (fresh + period)))
    new: list[Round] = [[(speaker, next(said)) for speaker in speakers] for _ in range(fresh + period)]
    cycle = new[fresh:]
    repeated = [cycle[number % period] for number in range(max(8, 5 * period))]
    rounds = [
        [(speaker, noise(chance, text, number)) for speaker, text in messages]
        for number, messages in enumerate(new + repeated, 1)
    ]
    return Series("", "", rounds, first=fresh + period + 1)


def _filled(chance: random.Random, text: str) -> str:
    return text.format(
        verb=chance.choice(VERBS),
        thing=chance.choice(THINGS),
        city=chance.choice(CITIES),
        name=chance.choice(NAMES),
        adjective=chance.choice(ADJECTIVES),
    )


def _same(chance: random.Random, text: str, number: int) -> str:
    return text


def _case(chance: random.Random, text: str, number: int) -> str:
    return chance.choice((text, text.upper(), text.lower(), text.title()))


def _white_space(chance: random.Random, text: str, number: int) -> str:
    wide, broken, tabs = text.replace(" ", "  "), text.replace(". ", ".\n"), text.replace(" ", "\t")
    return chance.choice((text, f"  {text}", f"{text}\n", f"\n\n{text} ", wide, broken, tabs))


def _end_mark(chance: random.Random, text: str, number: int) -> str:
    chinese = text.endswith("。")
    marks = ("", "。", "！", "……", "！！") if chinese else ("", ".", "!", "...", "!!", "…")
    return text.rstrip(".。?") + chance.choice(marks)


def _moment(chance: random.Random, number: int) -> datetime:
    start = datetime(2025, 3, 14, 9, 30, tzinfo=UTC)
    return start + timedelta(hours=5 * number, seconds=chance.randint(0, 9000))


def _time_in_brackets(chance: random.Random, text: str, number: int) -> str:
    return f"[{_moment(chance, number):%Y-%m-%d %H:%M:%S}] {text}"


def _time_with_zone(chance: random.Random, text: str, number: int) -> str:
    return f"{_moment(chance, number):%Y-%m-%dT%H:%M:%S}.{chance.randint(0, 999):03}Z {text}"


def _time_on_every_line(chance: random.Random, text: str, number: int) -> str:
    moment = _moment(chance, number)
    lines = enumerate(text.split("\n"))
    return "\n".join(f"{moment + timedelta(seconds=at):%Y-%m-%d %H:%M:%S} {line}" for at, line in lines)


def _uuid(chance: random.Random, text: str, number: int) -> str:
    return f"{text} (request {uuid.UUID(int=chance.getrandbits(128), version=4)})"


def _address(chance: random.Random, text: str, number: int) -> str:
    return f"<Task object at 0x{chance.getrandbits(46) + 2**46:012x}> {text}"


def _identifier(chance: random.Random, text: str, number: int) -> str:
    digits = chance.choice((16, 20, 32, 40))
    return f"{text} [trace {chance.getrandbits(digits * 4):0{digits}x}]"


def _temporary_path(chance: random.Random, text: str, number: int) -> str:
    name = "".join(chance.choices("abcdefghijklmnopqrstuvwxyz0123456789_", k=8))
    return f"{text} (log in /tmp/tmp{name}/output.log)"


def _attempt(chance: random.Random, text: str, number: int) -> str:
    return f"Attempt {number}: {text}"


def _failed_attempt(chance: random.Random, text: str, number: int) -> str:
    return f"Attempt {number} failed: {text}"


def _chinese_attempt(chance: random.Random, text: str, number: int) -> str:
    return f"第{number}次尝试：{text}"


def _said_twice(chance: random.Random, text: str, number: int) -> str:
    """One sentence of the text, or all of it, once more in the same message."""
    sentences = [text] if text.endswith("。") else re.split(r"(?<=[.?]) ", text)
    place = chance.randrange(len(sentences))
    once_more = [*sentences[:place], sentences[place], *sentences[place:]]
    return " ".join(chance.choice((sentences, once_more, sentences * 2)))


def _much(chance: random.Random, text: str, number: int) -> str:
    return _time_in_brackets(chance, _uuid(chance, _attempt(chance, text, number), number), number)


KINDS: dict[str, tuple[int, tuple[str, ...], Noise]] = {
    "the same text": (1, PROSE + FORMAL, _same),
    "two in turn": (2, PROSE + FORMAL, _same),
    "three in turn": (3, PROSE + FORMAL, _same),
    "letter case": (1, PROSE, _case),
    "white space": (1, PROSE, _white_space),
    "end mark": (1, PROSE, _end_mark),
    "time in brackets": (1, PROSE + FORMAL, _time_in_brackets),
    "time with zone": (1, PROSE, _time_with_zone),
    "time on every line": (1, PROSE + FORMAL, _time_on_every_line),
    "UUID": (1, PROSE, _uuid),
    "address in memory": (1, PROSE, _address),
    "random identifier": (1, PROSE, _identifier),
    "temporary path": (1, PROSE, _temporary_path),
    "attempt": (1, PROSE, _attempt),
    "failed attempt": (1, PROSE, _failed_attempt),
    "attempt in Chinese": (1, PROSE, _chinese_attempt),
    "sentence said twice": (1, PROSE, _said_twice),
    "two in turn with time": (2, PROSE, _time_in_brackets),
    "three in turn with UUID": (3, PROSE, _uuid),
    "much noise at once": (1, PROSE, _much),
}
