"""Words, and the critics and steps that invented series share."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence

from tests.breaker.series import Round, Series

Kind = Callable[[random.Random, int], Series]
SHORT, LONG = (6, 12), (15, 25)
"""The fewest and the most rounds of a series."""


def vary(kinds: Sequence[Kind], variants: int, long_every: int) -> Iterator[Series]:
    """So many series of each kind, of which each `long_every`-th is long."""
    for kind in kinds:
        for number in range(variants):
            chance = random.Random(f"{kind.__name__} {number}")
            rounds = chance.randint(*(SHORT if number % long_every else LONG))
            yield kind(chance, rounds)._replace(name=str(number))


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


NAMES = words(
    "Alma Bo Carla Deniz Edith Farid Greta Hugo Ines Jonas Kemal Lena Mira Nils Olga Pavel Qian Rosa Sven "
    "Tara Umut Vera Wanda Xenia Yusuf Zoe Anton Bella Cyril Dora Emil Flora Gustav Hanna Igor Judit"
)
CITIES = words(
    "Lisbon Porto Madrid Seville Lyon Turin Genoa Vienna Graz Prague Brno Krakow Gdansk Riga Tallinn Oslo "
    "Bergen Malmo Aarhus Bremen Leipzig Ghent Utrecht Basel Trieste Zagreb Split Athens Patras Sofia "
    "Varna Izmir"
)
THINGS = words(
    "orders invoices customers parcels refunds tickets sensors readings payments vouchers drivers routes "
    "depots contracts students courses grades rooms bookings meters tariffs samples batches recipes "
    "suppliers images reports alerts accounts sessions devices shipments"
)
VERBS = words(
    "load parse merge filter group count check split rank clean export match sort join scan pack store "
    "index verify collect"
)
ADJECTIVES = words(
    "quiet bright narrow early gentle broken steady hollow sudden patient golden distant bitter crowded "
    "silver frozen faithful restless careful shallow"
)
REFUSALS = (
    "Not yet.",
    "Still 1 failed.",
    "Almost. Please try again.",
    "Better, but it is not right yet.",
    "Not good enough. Please revise.",
    "Rejected.",
    "1 failed, 11 passed",
    "No.",
    "Close, but it does not meet the requirements yet.",
    "还不行，请继续修改。",
    "I checked your version against the list of requirements. At least one of them is still open. "
    "Please correct it and send the complete version again.",
)
URGES = ("Go on.", "Please continue.", "Continue with the next version.", "Thanks, keep going.", "请继续。")


def approach(chance: random.Random, slots: Sequence[Sequence[str]], rounds: int) -> list[list[str]]:
    """States that come closer to the last value of each slot; one slot takes its next value in each round."""
    moves = [place for place, values in enumerate(slots) for _ in values[1:]]
    assert len(moves) >= rounds - 1, f"{len(moves)} moves are too few for {rounds} rounds"
    chance.shuffle(moves)
    at = [0] * len(slots)
    states = [[values[0] for values in slots]]
    for place in moves:
        at[place] += 1
        states.append([values[now] for values, now in zip(slots, at, strict=True)])
    return states[-rounds:]


def variations(chance: random.Random, template: str, rounds: int, marks: str = "«»") -> list[str]:
    """The template with its marked places, such as «this|that», on their way to the last values."""
    parts = re.split(f"[{re.escape(marks)}]", template)
    slots = [place.split("|") for place in parts[1::2]]
    return [
        "".join(part + value for part, value in zip(parts[::2], [*state, ""], strict=True))
        for state in approach(chance, slots, rounds)
    ]


def mended(chance: random.Random, wrong: Sequence[str], right: Sequence[str], rounds: int) -> list[str]:
    """The wrong pieces of a text are replaced by the right ones, one in each round."""
    slots = [[old] if old == new else [old, new] for old, new in zip(wrong, right, strict=True)]
    return ["".join(state) for state in approach(chance, slots, rounds)]


def shuffled(chance: random.Random, values: Sequence[str]) -> list[str]:
    return chance.sample(list(values), len(values))


def rising(chance: random.Random, rounds: int, low: float, high: float, noise: float = 0.0) -> list[float]:
    """Figures on their way from low to high (or down, if high is lower), with noise."""
    step = (high - low) / rounds
    spread = abs(step) * noise
    return [low + step * number + chance.uniform(-spread, spread) for number in range(rounds)]


def solo(speaker: str, texts: Sequence[str]) -> list[Round]:
    return [[(speaker, text)] for text in texts]


def paired(speaker: str, texts: Sequence[str], other: str, answers: Sequence[str]) -> list[Round]:
    return [[(speaker, text), (other, answer)] for text, answer in zip(texts, answers, strict=True)]


def attended(chance: random.Random, speaker: str, texts: Sequence[str], *refusals: str) -> list[Round]:
    """The speaker alone, or with one or two others, most of whom hardly vary their words."""
    rounds = len(texts)
    refusals = refusals or REFUSALS
    fixed, second = chance.choice(refusals), chance.choice(REFUSALS)
    style = chance.choice(("alone", "fixed", "fixed", "two", "three", "score", "moving score", "left"))
    if style == "alone":
        return solo(speaker, texts)
    if style == "two":
        return paired(speaker, texts, "Critic", [chance.choice((fixed, second)) for _ in texts])
    if style == "score":
        verdict = json.dumps({"score": chance.randint(3, 7), "approved": False, "comment": fixed})
        return paired(speaker, texts, "Judge", [verdict] * rounds)
    if style == "moving score":
        scores = [round(score, 1) for score in rising(chance, rounds, 3.0, 9.0, 0.8)]
        return paired(
            speaker, texts, "Judge", [json.dumps({"score": score, "approved": False}) for score in scores]
        )
    if style == "left":
        left = [1 + (rounds - number) // 4 for number in range(rounds)]
        return paired(speaker, texts, "Checker", [f"{count} of the requirements are open." for count in left])
    answered = paired(speaker, texts, "Critic", [fixed] * rounds)
    if style == "three":
        urge = chance.choice(URGES)
        return [[*messages, ("Manager", urge)] for messages in answered]
    return answered


def heard(
    chance: random.Random, speaker: str, texts: Sequence[str], listener: str, *replies: str
) -> list[Round]:
    """The speaker alone, or with a listener of few words, or with one more who adds nothing."""
    style = chance.choice(("alone", "fixed", "fixed", "some", "three"))
    if style == "alone":
        return solo(speaker, texts)
    if style == "some":
        return paired(speaker, texts, listener, [chance.choice(replies) for _ in texts])
    reply = chance.choice(replies)
    answered = paired(speaker, texts, listener, [reply] * len(texts))
    if style == "three":
        note = chance.choice(("Noted.", '{"finished": false}', "Thanks, I am listening.", "收到。"))
        return [[*messages, ("Observer", note)] for messages in answered]
    return answered
