"""Invented live series: loops that make progress although much of the text stays the same."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import lru_cache

from tests.breaker.revisions import versions
from tests.breaker.series import CONSTANT, Series, alone, reviewed

FIXES = ("value", "<=", "not", "result", "other", "None", "self.limit", "+ 1")


@lru_cache(1)
def paragraphs() -> list[str]:
    """Prose of the manual."""
    found = [
        part for path, texts in versions().items() if path.endswith(".md") for part in texts[-1].split("\n\n")
    ]
    plain = [
        part for part in found if 80 < len(part) < 600 and not re.match(r"[#|`>*-]", part) and "|" not in part
    ]
    return [" ".join(part.split()) for part in plain]


@lru_cache(1)
def all_sentences() -> list[str]:
    found = [part for text in paragraphs() for part in re.split(r"(?<=[.!?])\s+", text)]
    return [part for part in dict.fromkeys(found) if 30 < len(part) < 120 and part[-1] in ".!?"]


def sentences(chance: random.Random, count: int) -> list[str]:
    return chance.sample(all_sentences(), count)


def made_up() -> Iterator[Series]:
    for number in range(60):
        chance = random.Random(number)
        for make in (_one_fix_a_round, _tests, _lists, _polishing, _tables, _countdowns, _talks):
            for series in make(chance):
                yield series._replace(name=str(number))


def _one_fix_a_round(chance: random.Random) -> Iterator[Series]:
    """A coder changes one word in another line of a short file each time."""
    lines = chance.choice(list(versions().values()))[-1].split("\n")
    start = chance.randrange(max(1, len(lines) - 25))
    lines = lines[start : start + 25]
    places = [place for place, line in enumerate(lines) if len(line.split()) >= 3]
    chance.shuffle(places)
    texts = ["\n".join(lines)]
    for place in places[:7]:
        words = lines[place].split(" ")
        word = chance.choice([at for at, word in enumerate(words) if word])
        words[word] = chance.choice([fix for fix in FIXES if fix != words[word]])
        lines[place] = " ".join(words)
        texts.append("\n".join(lines))
    yield Series("one fix a round, alone", "", alone(texts))
    yield Series("one fix a round, the same comment", "", reviewed(texts))


def _tests(chance: random.Random) -> Iterator[Series]:
    """The coder says the same each time, and each time another test fails."""
    names = chance.sample(("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"), 7)
    output = [
        f"FAILED tests/test_parts.py::test_{name}\n{7 - number} failed in {chance.random():.2f}s"
        for number, name in enumerate(names)
    ]
    yield Series("test output", "", alone(["I fixed it, please run the tests again."] * 7), tuple(output))


def _lists(chance: random.Random) -> Iterator[Series]:
    words = chance.sample(
        sorted({word for text in paragraphs() for word in text.split() if word.isalpha()}), 10
    )
    mark = chance.choice(("- ", "* ", "1. ", "Buy ", "- [ ] "))
    grown = [words[:count] for count in range(2, 10)]
    yield Series("growing list", "", reviewed(["\n".join(mark + word for word in some) for some in grown]))
    yield Series(
        "growing sentence", "", alone([f"We need {', '.join(some)} for the party." for some in grown])
    )


def _polishing(chance: random.Random) -> Iterator[Series]:
    """Sentences are said anew, added and dropped, or a word or two in one of them."""
    text, fresh = sentences(chance, chance.randint(3, 10)), sentences(chance, 20)
    texts = [" ".join(text)]
    for _ in range(7):
        place, how = chance.randrange(len(text)), chance.choice(("replace", "add", "drop", "words"))
        if how == "replace":
            text[place] = fresh.pop()
        elif how == "add":
            text.insert(place, fresh.pop())
        elif how == "drop" and len(text) > 2:
            del text[place]
        else:
            words = text[place].split()
            at = chance.randrange(len(words))
            words[at : at + 1] = chance.sample(fresh[0].split(), 2)
            text[place] = " ".join(words)
        texts.append(" ".join(text))
    yield Series("polishing", "", reviewed(texts))
    yield Series("translation", "", reviewed(sentences(chance, 7)))


def _tables(chance: random.Random) -> Iterator[Series]:
    rows, columns = chance.randint(3, 12), chance.randint(3, 6)
    table = [[chance.randint(0, 999) for _ in range(columns)] for _ in range(rows)]
    texts = []
    for _ in range(7):
        row = chance.randrange(rows)
        table[row] = [chance.randint(0, 999) for _ in range(columns)]
        table[chance.randrange(rows)][chance.randrange(columns)] = chance.randint(0, 999)
        texts.append("\n".join(" | ".join(map(str, row)) for row in table))
    yield Series("table of numbers", "", reviewed(texts))
    yield Series("numbers as answers", "", alone([str(number) for number in chance.sample(range(1000), 7)]))


def _countdowns(chance: random.Random) -> Iterator[Series]:
    start = chance.randint(7, 30)
    left = [start - round_ for round_ in range(7)]
    text = chance.choice(
        ("{} tests are still failing.", "{} left", "Only {} of 40 remain, the others are done.")
    )
    yield Series("countdown", "", reviewed([text.format(number) for number in left]))
    yield Series("failed and passed", "", reviewed([f"{n} failed, {40 - n} passed" for n in left]))


def _talks(chance: random.Random) -> Iterator[Series]:
    said = sentences(chance, 14)
    pairs = zip(said[::2], said[1::2], strict=True)
    yield Series("debate", "", [[("Ann", one), ("Ben", other)] for one, other in pairs])
    words = ["yes", "no", "maybe", "fine", "sure", "never", "later", "now", "good", "bad", "hot", "cold"]
    chance.shuffle(words)
    pairs = zip(words[::2], words[1::2], strict=True)
    yield Series("chat", "", [[("Ann", one), ("Ben", other)] for one, other in pairs])
    yield Series("questions to one who waits", "", [[("Ann", one), ("Ben", CONSTANT)] for one in said[:7]])
