"""Live loops around plans, puzzles and proofs: often the same words in another order."""

from __future__ import annotations

import random
from itertools import pairwise

from tests.breaker.series import Round, Series
from tests.breaker.stock import (
    CITIES,
    NAMES,
    THINGS,
    VERBS,
    Kind,
    approach,
    attended,
    heard,
    paired,
    shuffled,
    solo,
)

COLOURS = ("red", "blue", "green", "yellow", "white", "black")


def _nearer_to_order(chance: random.Random, items: list[str], rounds: int) -> list[list[str]]:
    """Permutations up to the given one; each swaps two neighbours that stood in the wrong order."""
    wanted = list(items)
    while True:
        chance.shuffle(items)
        states = [list(items)]
        row = list(items)
        while row != wanted:
            places = [at for at in range(len(row) - 1) if wanted.index(row[at]) > wanted.index(row[at + 1])]
            at = chance.choice(places)
            row[at], row[at + 1] = row[at + 1], row[at]
            states.append(list(row))
        if len(states) >= rounds:
            return states[-rounds:]


def rankings(chance: random.Random, rounds: int) -> Series:
    """Priorities are ordered: two neighbours change places, no word changes."""
    items = chance.sample(THINGS, 12)
    mark = chance.choice(("lines", "sentence", "numbers"))
    texts = []
    for row in _nearer_to_order(chance, items, rounds):
        if mark == "sentence":
            texts.append("The order is " + ", ".join(row) + ".")
        elif mark == "numbers":
            texts.append("\n".join(f"{number}. {item}" for number, item in enumerate(row, 1)))
        else:
            texts.append("\n".join(row))
    return Series("rankings", "", attended(chance, "Owner", texts, "The order is not right yet.", "Not yet."))


def seating(chance: random.Random, rounds: int) -> Series:
    """Guests change seats at three tables."""
    guests = chance.sample(NAMES, 12)
    texts = []
    for row in _nearer_to_order(chance, guests, rounds):
        tables = (row[:4], row[4:8], row[8:])
        texts.append(
            "\n".join(f"Table {number}: {', '.join(table)}" for number, table in enumerate(tables, 1))
        )
    complaint = f"{chance.choice(NAMES)} is still unhappy."
    return Series(
        "seating", "", attended(chance, "Host", texts, complaint, "Two guests do not fit together.")
    )


def schedules(chance: random.Random, rounds: int) -> Series:
    """A timetable, one slot of which moves each round until nothing clashes."""
    talks = [
        f"{verb} {thing}"
        for verb, thing in zip(chance.sample(VERBS, 6), chance.sample(THINGS, 6), strict=True)
    ]
    times = [f"{day} {hour}:00" for day in ("Mon", "Tue", "Wed") for hour in (9, 11, 14, 16)]
    slots = [chance.sample(times, 6) for _ in talks]
    texts = [
        "\n".join(f"{time}  {talk}" for talk, time in zip(talks, state, strict=True))
        for state in approach(chance, slots, rounds)
    ]
    return Series(
        "schedules", "", attended(chance, "Planner", texts, "There is still a clash.", "1 conflict")
    )


def itineraries(chance: random.Random, rounds: int) -> Series:
    """A journey: one stop, night or train is changed."""
    cities = chance.sample(CITIES, 25)
    stops = [cities[start : start + 5] for start in range(0, 25, 5)]
    nights = [[f"{count} nights" for count in chance.sample(range(2, 9), 4)] for _ in range(3)]
    texts = [
        (
            f"Start in {state[0]}. By train to {state[1]} ({state[5]}), then {state[2]} ({state[6]}) and "
            f"{state[3]} ({state[7]}). Fly home from {state[4]}."
        )
        for state in approach(chance, [*stops, *nights], rounds)
    ]
    return Series("itineraries", "", attended(chance, "Guide", texts, "Too expensive.", "Hmm, not quite."))


def masterminds(chance: random.Random, rounds: int) -> Series:
    """Guesses of four colours; the answers are of few words."""
    secret = [chance.choice(COLOURS) for _ in range(4)]
    made: list[Round] = []
    seen: set[tuple[str, ...]] = {tuple(secret)}
    while len(made) < rounds:
        guess = [chance.choice((colour, chance.choice(COLOURS))) for colour in secret]
        if tuple(guess) in seen:
            continue
        seen.add(tuple(guess))
        right = sum(one == other for one, other in zip(guess, secret, strict=True))
        made.append([("Player", " ".join(guess)), ("Keeper", f"{right} right")])
    return Series("masterminds", "", made)


def towers(chance: random.Random, rounds: int) -> Series:
    """The tower of Hanoi: moves recur, positions do not."""
    pegs: dict[str, list[int]] = {"A": [5, 4, 3, 2, 1], "B": [], "C": []}
    moves: list[tuple[str, str]] = []

    def move(count: int, source: str, target: str, spare: str) -> None:
        if count:
            move(count - 1, source, spare, target)
            moves.append((source, target))
            move(count - 1, spare, target, source)

    move(5, *_pegs(chance))
    form = chance.choice(("Move disk {} from {} to {}.", "Disk {}: {} → {}", "把圆盘 {} 从 {} 移到 {}。"))
    texts, results = [], []
    for source, target in moves:
        disk = pegs[source].pop()
        pegs[target].append(disk)
        texts.append(form.format(disk, source, target))
        results.append(
            "; ".join(f"{name}: {' '.join(map(str, disks)) or '-'}" for name, disks in pegs.items())
        )
    start = chance.randint(0, len(moves) - rounds)
    texts, results = texts[start : start + rounds], results[start : start + rounds]
    if chance.random() < 0.5:
        return Series("towers", "", solo("Player", texts), tuple(results))
    return Series("towers", "", paired("Player", texts, "Board", results))


def _pegs(chance: random.Random) -> tuple[str, str, str]:
    return chance.choice((("A", "B", "C"), ("A", "C", "B")))


def knights(chance: random.Random, rounds: int) -> Series:
    """A knight crosses the board and never visits a square twice."""
    steps = [(a, b) for a in (-2, -1, 1, 2) for b in (-2, -1, 1, 2) if abs(a) != abs(b)]
    while True:
        path = [(chance.randrange(8), chance.randrange(8))]
        while len(path) <= rounds:
            near = [(path[-1][0] + a, path[-1][1] + b) for a, b in steps]
            free = [(x, y) for x, y in near if 0 <= x < 8 and 0 <= y < 8 and (x, y) not in path]
            if not free:
                break
            path.append(chance.choice(free))
        if len(path) > rounds:
            break
    squares = [f"{'abcdefgh'[x]}{y + 1}" for x, y in path]
    form = chance.choice(("N{1}", "The knight goes from {0} to {1}.", "I move my knight to {1} and attack."))
    texts = [form.format(*pair) for pair in pairwise(squares)]
    return Series("knights", "", heard(chance, "White", texts, "Black", "I pass.", "Your move.", "该你了。"))


def hangman(chance: random.Random, rounds: int) -> Series:
    """Letters of a sentence are found one by one; the letters that do not occur leave it as it is."""
    sentence = chance.choice(
        (
            "quick jets vex a puzzled fox who brings my lamb",
            "my wizard jukebox plays quiet hymns of gravel caves",
        )
    )
    letters = shuffled(chance, tuple("abcdefghijklmnopqrstuvwxyz"))[:rounds]
    answers, found = [], set(" ")
    for letter in letters:
        found.add(letter)
        answers.append("".join(sign if sign in found else "_" for sign in sentence))
    form = chance.choice(("{}", "Is there a “{}”?", "I guess {}."))
    return Series(
        "hangman", "", paired("Guesser", [form.format(letter) for letter in letters], "Keeper", answers)
    )


def sudokus(chance: random.Random, rounds: int) -> Series:
    """Cells are filled in, told in a sentence or shown as a grid."""
    shift = chance.sample(range(9), 9)
    rows = [[(shift[(3 * row + row // 3 + column) % 9]) + 1 for column in range(9)] for row in range(9)]
    cells = chance.sample([(row, column) for row in range(9) for column in range(9)], rounds + 8)
    open_ = set(cells)
    grid, texts = chance.random() < 0.5, []
    for row, column in cells[:rounds]:
        open_.discard((row, column))
        if grid:
            lines = (
                " ".join("." if (at, place) in open_ else str(digit) for place, digit in enumerate(digits))
                for at, digits in enumerate(rows)
            )
            texts.append("\n".join(lines))
        else:
            texts.append(f"Row {row + 1}, column {column + 1} must be {rows[row][column]}.")
    return Series(
        "sudokus",
        "",
        heard(chance, "Solver", texts, "Checker", "Correct. Next cell.", "The grid is not full."),
    )


def proofs(chance: random.Random, rounds: int) -> Series:
    """A proof in numbered steps of one form."""
    letters = shuffled(chance, tuple("abcdefghjkmnpqrstuvwxyz"))
    facts, texts = list(pairwise(letters)), []
    form = chance.choice(
        (
            "From {0} → {1} and {1} → {2} we get {0} → {2}.",
            "Since {0} divides {1}, and {1} divides {2}, {0} divides {2}.",
            "因为 {0} ≤ {1} 且 {1} ≤ {2}，所以 {0} ≤ {2}。",
        )
    )
    first = facts[0][0]
    for low, high in facts[1:]:
        texts.append(form.format(first, low, high))
        if len(texts) % 9 == 0:
            first = low
    texts += [form.format(letters[number], letters[number + 2], letters[number + 5]) for number in range(10)]
    return Series(
        "proofs",
        "",
        heard(chance, "Prover", texts[:rounds], "Assistant", "The goal is still open.", "1 goal left"),
    )


def divisors(chance: random.Random, rounds: int) -> Series:
    """Euclid's steps, from two large numbers down."""
    small, large = chance.randint(2, 9), chance.randint(10, 30)
    pairs = []
    for _ in range(rounds):
        pairs.append((large, small))
        small, large = large, large * chance.randint(1, 2) + small
    texts = [f"gcd({large}, {small}) = gcd({small}, {large % small})" for large, small in reversed(pairs)]
    return Series("divisors", "", heard(chance, "Prover", texts, "Assistant", "Not finished.", "Next step."))


def mazes(chance: random.Random, rounds: int) -> Series:
    """A robot walks; it says where it is and goes on."""
    x, y, texts = chance.randint(0, 9), chance.randint(0, 9), []
    for _ in range(rounds):
        way = chance.choice(("north", "east"))
        x, y = (x, y + 1) if way == "north" else (x + 1, y)
        texts.append(f"I went {way} and stand at ({x}, {y}). The exit is not visible.")
    return Series("mazes", "", heard(chance, "Robot", texts, "Base", "Keep exploring.", "Go on."))


def crossings(chance: random.Random, rounds: int) -> Series:
    """Teams of two are formed, another pair each round; everyone keeps appearing."""
    people = chance.sample(NAMES, 8)
    pairs = chance.sample([(a, b) for a in people for b in people if a < b], rounds)
    form = chance.choice(("{} crosses the bridge with {}.", "{} and {} row over.", "{} 和 {} 一起过河。"))
    texts = [form.format(*pair) for pair in pairs]
    return Series(
        "crossings", "", heard(chance, "Ferry", texts, "Guard", "Not all are across.", "Who is next?")
    )


KINDS: tuple[Kind, ...] = (
    rankings,
    seating,
    schedules,
    itineraries,
    masterminds,
    towers,
    knights,
    hangman,
    sudokus,
    proofs,
    divisors,
    mazes,
    crossings,
)
