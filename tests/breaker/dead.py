"""Dead series: loops that repeat the same content, in thirty ways.

Each kind makes eighteen messages and says which of them is the first that repeats anything. Up to two fresh
rounds go before them. The other speakers, if there are any, repeat themselves in the same way, or always say
the same.
"""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from tests.breaker.lively import paragraphs, sentences
from tests.breaker.revisions import versions
from tests.breaker.series import Series

MESSAGES = 18
Kind = Callable[[random.Random, int], tuple[list[str], int]]
NAMES = (
    *("Anna", "Ben", "Clara", "David", "Elena", "Farid", "Greta", "Hamid", "Ines", "Jonas"),
    *("Klara", "Luis", "Mona", "Nils", "Olga", "Pavel", "Quinn", "Rosa"),
)
TOWNS = ("Berlin", "Lisbon", "Osaka", "Quito", "Lagos", "Turin", "Perth", "Minsk", "Lyon", "Delhi", "Cairo")
MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October"]
SHORT = (
    "The task is still pending.",
    "I am working on it and will report soon.",
    "Done, please check.",
    "No change so far.",
    "Please provide more details about the request.",
    "The build failed again with the same error.",
    "I agree, let us proceed.",
)
CHINESE = (
    "我还在处理这个问题,请稍等。",
    "任务仍在进行中,没有新的进展。",
    "测试仍然失败,请再检查一次。",
)
CHINESE_NAMES = ("张伟", "王芳", "李娜", "刘洋", "陈静", "杨磊", "赵敏", "黄强")


@lru_cache(1)
def functions() -> list[str]:
    pattern = re.compile(r"^def \w+\(.*?(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
    texts = [texts[-1] for path, texts in versions().items() if path.endswith(".py")]
    found = [match[0] for text in texts for match in pattern.finditer(text)]
    return [text for text in found if 5 < text.count("\n") < 25]


def long_text(chance: random.Random) -> str:
    return "\n".join(chance.sample(paragraphs(), 8))


def some_text(chance: random.Random, number: int) -> str:
    """Something short, a paragraph, a function or a long text."""
    makers: tuple[Callable[[], str], ...] = (
        lambda: chance.choice(SHORT),
        lambda: chance.choice(paragraphs()),
        lambda: chance.choice(functions()),
        lambda: long_text(chance),
    )
    return makers[number % 4]()


def picked(chance: random.Random, names: Sequence[str]) -> list[str]:
    """A name for each message, all of them before one comes again."""
    found: list[str] = []
    while len(found) < MESSAGES:
        found += chance.sample(names, len(names))
    return found[:MESSAGES]


def filled(text: str, names: list[str]) -> list[str]:
    return [text.format(name) for name in names]


def exact(chance: random.Random, number: int) -> tuple[list[str], int]:
    return [some_text(chance, number)] * MESSAGES, 1


def two_in_turn(chance: random.Random, number: int) -> tuple[list[str], int]:
    return [some_text(chance, number), some_text(chance, number + 1)] * (MESSAGES // 2), 2


def three_in_turn(chance: random.Random, number: int) -> tuple[list[str], int]:
    return ([some_text(chance, number + other) for other in range(3)] * (MESSAGES // 3)), 3


def white_space(chance: random.Random, number: int) -> tuple[list[str], int]:
    text = some_text(chance, number)
    spread = [re.sub(" ", lambda _: " " * chance.randint(1, 3), text) for _ in range(9)]
    broken = [text.replace("\n", "\n\n") + "\n" * chance.randint(0, 3) for _ in range(8)]
    return [text, *spread, *broken], 1


def indentation(chance: random.Random, _number: int) -> tuple[list[str], int]:
    lines = chance.choice(functions()).split("\n")
    return ["\n".join(" " * chance.randint(0, 8) + line for line in lines) for _ in range(MESSAGES)], 1


def letters(chance: random.Random, number: int) -> tuple[list[str], int]:
    text = some_text(chance, number)
    changes = (str.upper, str.title, str.lower, str.capitalize)
    return [text, *(chance.choice(changes)(text) for _ in range(MESSAGES - 1))], 1


def punctuation(chance: random.Random, _number: int) -> tuple[list[str], int]:
    text = chance.choice(SHORT).rstrip(".")
    return [text + chance.choice((".", "!", "!!", "...", "?", "")) for _ in range(MESSAGES)], 1


def toggling(chance: random.Random, number: int) -> tuple[list[str], int]:
    lines = long_text(chance).split("\n") if number % 2 else sentences(chance, 5)
    without = list(lines)
    del without[chance.randrange(len(lines))]
    return ["\n".join(lines), "\n".join(without)] * (MESSAGES // 2), 2


def reordering(chance: random.Random, number: int) -> tuple[list[str], int]:
    parts = sentences(chance, chance.randint(4, 14) if number % 2 else 6)
    glue = "\n" if number % 3 else " "
    return [glue.join(chance.sample(parts, len(parts))) for _ in range(MESSAGES)], 1


def pending(chance: random.Random, _number: int) -> tuple[list[str], int]:
    return [chance.choice((*SHORT[:4], *CHINESE))] * MESSAGES, 1


def tool_call(chance: random.Random, _number: int) -> tuple[list[str], int]:
    return [f'I will call search("{chance.choice(NAMES)}") now.'] * MESSAGES, 1


def same_chinese(chance: random.Random, _number: int) -> tuple[list[str], int]:
    return [chance.choice(CHINESE)] * MESSAGES, 1


def counter(chance: random.Random, _number: int) -> tuple[list[str], int]:
    text = chance.choice(
        (
            "Attempt {} failed, I will try again.",
            "Round {}: nothing new to report.",
            "Still waiting ({}).",
            "Retry number {} did not work either; the server does not answer.",
        )
    )
    start = chance.randint(1, 50)
    return [text.format(start + count) for count in range(MESSAGES)], 1


def time_stamps(chance: random.Random, _number: int) -> tuple[list[str], int]:
    text = chance.choice(
        (
            "[2026-11-{:02d} {:02d}:{:02d}] The job is still running.",
            "The check of 2026-11-{:02d} was repeated at {:02d}:{:02d} without a result.",
        )
    )
    return [
        text.format(day, chance.randint(0, 23), chance.randint(0, 59)) for day in range(1, MESSAGES + 1)
    ], 1


def dates(chance: random.Random, _number: int) -> tuple[list[str], int]:
    months = picked(chance, MONTHS)
    return [
        f"The meeting was moved to {month} {chance.randint(1, 28)}, please confirm." for month in months
    ], 1


def numbers(chance: random.Random, _number: int) -> tuple[list[str], int]:
    text = chance.choice(paragraphs())
    scores = [(chance.randint(10, 99), chance.random()) for _ in range(MESSAGES)]
    return [f"{text} The score is {score} and the loss is {loss:.3f}." for score, loss in scores], 1


def numbers_in_a_long_text(chance: random.Random, _number: int) -> tuple[list[str], int]:
    lines = long_text(chance).split("\n")
    place = chance.randrange(len(lines))
    texts = []
    for _ in range(MESSAGES):
        line = (
            f"Version {chance.randint(1, 99)}.{chance.randint(0, 9)}, checked {chance.randint(1, 30)} times."
        )
        texts.append("\n".join([*lines[:place], line, *lines[place:]]))
    return texts, 1


def name(chance: random.Random, _number: int) -> tuple[list[str], int]:
    text = chance.choice(
        (
            "Thank you, {}, for the helpful remark. I will look into it.",
            "I have asked {} to look at the proposal once more.",
            "As {} said, we need more time before we decide.",
            "Let me forward this to {}, who knows the details.",
        )
    )
    return filled(text, picked(chance, NAMES)), 1


def two_names(chance: random.Random, _number: int) -> tuple[list[str], int]:
    pairs = zip(picked(chance, NAMES), picked(chance, TOWNS), strict=True)
    return [
        f"I have sent {who} to {where} to check it, and expect an answer soon." for who, where in pairs
    ], 1


def name_in_a_long_text(chance: random.Random, _number: int) -> tuple[list[str], int]:
    lines = long_text(chance).split("\n")
    place = chance.randrange(len(lines))
    said = filled("This paragraph was approved by {} without any further remarks.", picked(chance, NAMES))
    return ["\n".join([*lines[:place], line, *lines[place:]]) for line in said], 1


def name_in_a_paragraph(chance: random.Random, _number: int) -> tuple[list[str], int]:
    words = chance.choice(paragraphs()).split(" ")
    place = chance.randrange(len(words))
    return [" ".join([*words[:place], who, *words[place + 1 :]]) for who in picked(chance, NAMES)], 1


def chinese_name(chance: random.Random, _number: int) -> tuple[list[str], int]:
    text = chance.choice(("我已经请{}再看一遍这个方案,请稍等。", "感谢{}的意见,我会再检查一次。"))
    return filled(text, picked(chance, CHINESE_NAMES)), 1


def two_messages_with_names(chance: random.Random, _number: int) -> tuple[list[str], int]:
    texts = (
        "I have asked {} to look at the first proposal again.",
        "The second one goes to {} for another review.",
    )
    return [texts[place % 2].format(who) for place, who in enumerate(picked(chance, NAMES))], 2


def identifiers(chance: random.Random, _number: int) -> tuple[list[str], int]:
    text = chance.choice(
        (
            "Request {0} was rejected by the gateway.",
            "Saved the result to /tmp/run-{1}/out.txt, continuing.",
            "Trace {1}: no handler found, retrying with a new id.",
        )
    )
    return [text.format(_uuid(chance), f"{chance.getrandbits(32):08x}") for _ in range(MESSAGES)], 1


def json_with_identifiers(chance: random.Random, _number: int) -> tuple[list[str], int]:
    text = '{{\n  "status": "pending",\n  "id": "{}",\n  "attempt": {},\n  "message": "no result yet"\n}}'
    return [text.format(_uuid(chance), attempt) for attempt in range(MESSAGES)], 1


def _uuid(chance: random.Random) -> uuid.UUID:
    return uuid.UUID(int=chance.getrandbits(128))


def growth(chance: random.Random, number: int) -> tuple[list[str], int]:
    text, more = some_text(chance, number), chance.choice(SHORT)
    glue = "\n" if number % 2 else " "
    return [glue.join([text, *[more] * count]) for count in range(1, MESSAGES + 1)], 1


def growth_by_a_word(_chance: random.Random, _number: int) -> tuple[list[str], int]:
    return [
        f"This is {'very ' * count}important, so do not forget it." for count in range(1, MESSAGES + 1)
    ], 1


def growth_of_itself(chance: random.Random, _number: int) -> tuple[list[str], int]:
    text = chance.choice(SHORT)
    return [" ".join([text] * count) for count in range(1, MESSAGES + 1)], 1


def quoting(chance: random.Random, number: int) -> tuple[list[str], int]:
    texts = [some_text(chance, number)]
    while len(texts) < MESSAGES:
        quoted = "\n".join(f"> {line}" for line in texts[-1].split("\n"))
        texts.append(f"{quoted}\n\nI agree with this.")
    return texts, 2


def quoting_in_a_sentence(chance: random.Random, number: int) -> tuple[list[str], int]:
    texts = [chance.choice(SHORT) if number % 2 else sentences(chance, 1)[0]]
    while len(texts) < MESSAGES:
        texts.append(f'You said: "{texts[-1]}"')
    return texts, 2


EXACT: tuple[Kind, ...] = (
    *(exact, two_in_turn, three_in_turn, white_space, indentation, letters, punctuation, toggling, pending),
    *(tool_call, same_chinese, counter, json_with_identifiers, growth, growth_of_itself, quoting),
)
"""Nothing changes but the form, and what is different in every message."""
REORDERED: tuple[Kind, ...] = (reordering, growth_by_a_word, quoting_in_a_sentence)
"""Known words in another order, or said again."""
VARIED: tuple[Kind, ...] = (
    *(time_stamps, dates, numbers, numbers_in_a_long_text, name, two_names, name_in_a_long_text),
    *(name_in_a_paragraph, chinese_name, two_messages_with_names, identifiers),
)
"""Other numbers and names in the same places."""


def dead(kinds: tuple[Kind, ...], speakers: tuple[int, ...], each: int = 6) -> Iterator[Series]:
    for kind in kinds:
        for number in range(each):
            for count in speakers:
                yield _dead(kind, number, count)


def _dead(kind: Kind, number: int, speakers: int) -> Series:
    title = f"{kind.__name__} {number} {speakers}"
    chance = random.Random(title)
    messages, first = kind(chance, number)
    voices = [messages]
    for other in range(1, speakers):
        same = [chance.choice(SHORT)] * MESSAGES
        voices.append(kind(random.Random(f"{title} {other}"), number + other)[0] if number % 2 else same)
    fresh = [chance.sample(paragraphs(), number % 3) for _ in voices]
    series = [[*before, *voice] for before, voice in zip(fresh, voices, strict=True)]
    rounds = [
        [(f"Speaker {speaker}", voice[place]) for speaker, voice in enumerate(series)]
        for place in range(len(series[0]))
    ]
    return Series(kind.__name__.replace("_", " "), title, rounds, first=number % 3 + first + 1)
