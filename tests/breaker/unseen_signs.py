"""Live loops in signs rather than words: boards, codes, chords, colours and brackets."""

from __future__ import annotations

import random

from tests.breaker.series import Round, Series
from tests.breaker.stock import (
    CITIES,
    Kind,
    approach,
    attended,
    heard,
    mended,
    paired,
    shuffled,
    solo,
    variations,
    words,
)

CRON = "«1|5|*/10|*/15|0|30» «*|0|6|*/2|22|4» «1|15|1,15|L|*» «1|1-6|*/3|JAN,JUL|*» «0|1|1-5|MON,THU|SUN|6|*»"
# Played in London 1851, Berlin 1852 and Paris 1858.
GAMES = (
    "e4 e5 f4 exf4 Bc4 Qh4+ Kf1 b5 Bxb5 Nf6 Nf3 Qh6 d3 Nh5 Nh4 Qg5 Nf5 c6 g4 Nf6 Rg1 cxb5 h4 Qg6 h5 Qg5 Qf3 "
    "Ng8 Bxf4 Qf6 Nc3 Bc5 Nd5 Qxb2 Bd6 Bxg1 e5 Qxa1+ Ke2 Na6 Nxg7+ Kd8 Qf6+ Nxf6 Be7#",
    "e4 e5 Nf3 Nc6 Bc4 Bc5 b4 Bxb4 c3 Ba5 d4 exd4 O-O d3 Qb3 Qf6 e5 Qg6 Re1 Nge7 Ba3 b5 Qxb5 Rb8 Qa4 Bb6 "
    "Nbd2 Bb7 Ne4 Qf5 Bxd3 Qh5 Nf6+ gxf6 exf6 Rg8 Rad1 Qxf3 Rxe7+ Nxe7 Qxd7+ Kxd7 Bf5+ Ke8 Bd7+ Kf8 Bxe7#",
    "e4 e5 Nf3 d6 d4 Bg4 dxe5 Bxf3 Qxf3 dxe5 Bc4 Nf6 Qb3 Qe7 Nc3 c6 Bg5 b5 Nxb5 cxb5 Bxb5+ Nbd7 O-O-O Rd8 "
    "Rxd7 Rxd7 Rd1 Qe6 Bxd7+ Nxd7 Qb8+ Nxb8 Rd8#",
)
PICTURES = (
    "...../\\.....\n..../##\\....\n.../#()#\\...\n../######\\..\n.|..[]....|.\n.|..__.[].|.\n_|__||____|_",
    "..___/\\___..\n./..o..o..\\.\n|....<>....|\n|..\\____/..|\n.\\________/.\n..||....||..\n._||_..._||_",
    "......|>....\n.....|\\.....\n..../||\\\\...\n.../_||_\\\\..\n\\----------/\n.\\o..o..o./.\n~~~~~~~~~~~~",
)


def crontabs(chance: random.Random, rounds: int) -> Series:
    """The line of a schedule is corrected field by field."""
    texts = variations(chance, CRON, rounds)
    command = chance.choice(("", " /srv/backup.sh", " python -m jobs.report"))
    return Series(
        "crontabs", "", attended(chance, "Operator", [text + command for text in texts], "Wrong time.", "No.")
    )


def subnets(chance: random.Random, rounds: int) -> Series:
    """Address ranges are given out, one after another."""
    second, third, size = chance.randint(0, 250), chance.randint(0, 200), chance.choice((24, 26, 28))
    step = 2 ** (32 - size)
    site = chance.random() < 0.5
    texts = []
    for number in range(rounds):
        at = third * 256 + number * step
        net = f"10.{second}.{at // 256}.{at % 256}/{size}"
        texts.append(f"{net} → {CITIES[number]}" if site else f"Next free range: {net}")
    return Series("subnets", "", heard(chance, "Network", texts, "Planner", "Assigned. Next site."))


def parentheses(chance: random.Random, rounds: int) -> Series:
    """The same numbers and signs; only the brackets move until the result is right."""
    numbers = [chance.randint(2, 9) for _ in range(7)]
    signs = [chance.choice("+-*") for _ in range(6)]
    found: dict[str, int] = {}
    while len(found) < rounds:
        text, value = _bracketed(chance, numbers, signs)
        found.setdefault(text[1:-1], value)
    shown = chance.random() < 0.5
    texts = [f"{text} = {value}" if shown else text for text, value in found.items()]
    return Series("parentheses", "", attended(chance, "Player", texts, "That is not 1000.", "Wrong result."))


def _bracketed(chance: random.Random, numbers: list[int], signs: list[str]) -> tuple[str, int]:
    if len(numbers) == 1:
        return str(numbers[0]), numbers[0]
    at = chance.randint(1, len(numbers) - 1)
    left, one = _bracketed(chance, numbers[:at], signs[: at - 1])
    right, two = _bracketed(chance, numbers[at:], signs[at:])
    sign = signs[at - 1]
    value = one + two if sign == "+" else one - two if sign == "-" else one * two
    return f"({left} {sign} {right})", value


def hexdumps(chance: random.Random, rounds: int) -> Series:
    """A binary file is read line by line, or patched byte by byte."""
    if chance.random() < 0.5:
        start = chance.randrange(0, 4096, 16)
        texts = [
            f"{start + 16 * line:08x}: " + " ".join(f"{chance.randrange(256):02x}" for _ in range(8))
            for line in range(rounds)
        ]
        return Series("hexdumps", "", heard(chance, "Reader", texts, "Analyst", "No header here. Go on."))
    old, new = ([f"{chance.randrange(256):02x} " for _ in range(32)] for _ in range(2))
    texts = [text.strip() for text in mended(chance, old, new, rounds)]
    return Series("hexdumps", "", attended(chance, "Patcher", texts, "The checksum is wrong."))


def permissions(chance: random.Random, rounds: int) -> Series:
    """The rights of files are corrected, one bit at a time."""
    paths = ("/srv/app", "/srv/app/logs", "/srv/keys", "/var/spool/app")
    wrong = "rwxrwxrwx" * 4
    right = "".join(chance.choice((flag, "-", "-", "-")) for flag in wrong)
    while sum(one != other for one, other in zip(wrong, right, strict=True)) < 24:
        right = "".join(chance.choice((flag, "-", "-")) for flag in wrong)
    texts = [
        "\n".join(f"{text[at * 9 : at * 9 + 9]} {path}" for at, path in enumerate(paths))
        for text in mended(chance, wrong, right, rounds)
    ]
    return Series("permissions", "", attended(chance, "Admin", texts, "The audit still finds 1 open path."))


def colours(chance: random.Random, rounds: int) -> Series:
    """A colour in hexadecimal figures comes closer to the wanted one, channel by channel."""
    slots = [[f"{value:02x}" for value in chance.sample(range(256), 9)] for _ in range(3)]
    form = chance.choice(
        ("#{}", "button {{ background: #{}; }}", "How about #{} for the logo?", "--accent: #{};")
    )
    texts = [form.format("".join(state)) for state in approach(chance, slots, rounds)]
    return Series(
        "colours",
        "",
        attended(chance, "Designer", texts, "The contrast is below 4.5:1.", "Too dull.", "再亮一点。"),
    )


def chess(chance: random.Random, rounds: int) -> Series:
    """Famous games, move by move; the players say nothing else."""
    moves = chance.choice(GAMES).split()
    style = chance.choice(("numbers", "turns", "board"))
    start = chance.randint(0, len(moves) - rounds)
    played = list(enumerate(moves))[start : start + rounds]
    white, black = chance.sample(("Anna", "Boris", "White", "Black", "Player 1", "Player 2"), 2)
    if style == "turns":
        turns: list[Round] = [[(black if at % 2 else white, move)] for at, move in played]
        return Series("chess", "", turns)
    texts = [f"{at // 2 + 1}{'...' if at % 2 else '.'} {move}" for at, move in played]
    if style == "numbers":
        return Series("chess", "", solo("Engine", texts))
    return Series(
        "chess", "", paired("Engine", texts, "Board", ["The move is legal. The game goes on."] * rounds)
    )


def automata(chance: random.Random, rounds: int) -> Series:
    """Generations of a cellular automaton, of one or two dimensions."""
    dead, alive = chance.choice((("0", "1"), (".", "#"), ("□", "■"), ("-", "o")))
    flat = chance.random() < 0.5
    while True:
        states = [_random_board(chance, flat)]
        rule = chance.choice((30, 45, 110))
        while len(states) < rounds:
            states.append(_next_row(states[-1], rule) if flat else _next_board(states[-1]))
        if len({repr(state) for state in states}) == rounds:
            break
    texts = ["\n".join("".join(alive if cell else dead for cell in row) for row in state) for state in states]
    return Series("automata", "", heard(chance, "Board", texts, "Viewer", "Next generation."))


def _random_board(chance: random.Random, flat: bool) -> list[list[int]]:
    rows, columns = (1, 31) if flat else (9, 9)
    return [[chance.randint(0, 1) for _ in range(columns)] for _ in range(rows)]


def _next_row(state: list[list[int]], rule: int) -> list[list[int]]:
    row = state[0]
    return [
        [rule >> (4 * row[at - 1] + 2 * row[at] + row[(at + 1) % len(row)]) & 1 for at in range(len(row))]
    ]


def _next_board(state: list[list[int]]) -> list[list[int]]:
    size = len(state)
    around = [(y, x) for y in (-1, 0, 1) for x in (-1, 0, 1) if (y, x) != (0, 0)]
    counts = [
        [sum(state[(y + dy) % size][(x + dx) % size] for dy, dx in around) for x in range(size)]
        for y in range(size)
    ]
    return [
        [int(counts[y][x] == 3 or (counts[y][x] == 2 and state[y][x])) for x in range(size)]
        for y in range(size)
    ]


def ascii_art(chance: random.Random, rounds: int) -> Series:
    """A picture of characters gets one character right each time."""
    right = chance.choice(PICTURES)
    wrong = "".join(sign if sign == "\n" else "." for sign in right)
    texts = mended(chance, wrong, right, rounds)
    return Series("ascii_art", "", attended(chance, "Painter", texts, "I cannot see it yet.", "A bit more."))


def gray_codes(chance: random.Random, rounds: int) -> Series:
    """Switches are tried, one flip per round, no position twice."""
    off, on = chance.choice((("0", "1"), ("○", "●"), ("off ", "on "), ("_", "|")))
    order = shuffled(chance, "abcde")
    start = chance.randrange(32)
    texts = []
    for number in range(rounds):
        code = (start + number) % 32
        bits = dict(zip(order, f"{code ^ code >> 1:05b}", strict=True))
        texts.append("".join(on if bits[place] == "1" else off for place in "abcde").strip())
    return Series("gray_codes", "", attended(chance, "Finder", texts, "The lock stays shut.", "Nothing."))


def chords(chance: random.Random, rounds: int) -> Series:
    """Eight bars of music; one chord is replaced each time."""
    roots = words("C C# D Eb E F F# G Ab A Bb B")
    endings = ("", "m", "7", "m7", "maj7", "sus4", "dim", "6", "m7b5")
    every = [root + ending for root in roots for ending in endings]
    slots = [chance.sample(every, 4) for _ in range(8)]
    texts = ["| " + " | ".join(state) + " |" for state in approach(chance, slots, rounds)]
    return Series(
        "chords", "", attended(chance, "Composer", texts, "The ending does not resolve.", "Hm, no.")
    )


def knitting(chance: random.Random, rounds: int) -> Series:
    """Rows of a pattern: few signs, another order."""
    stitches = ("k1", "p1", "k2", "p2", "yo", "k2tog", "ssk")
    start = chance.randint(1, 40)
    texts = [
        f"Row {start + row}: {', '.join(chance.choices(stitches, k=6))}; repeat to the end."
        for row in range(rounds)
    ]
    return Series("knitting", "", heard(chance, "Designer", texts, "Knitter", "Done, next row.", "Done."))


def emoji(chance: random.Random, rounds: int) -> Series:
    """A story or a sticker in pictures: one picture changes."""
    pools = ("🌧️⛅☀️🌈🌙", "🐶🐱🦊🐻🐸", "🏠🏰⛺🏝️🚀", "🍎🍕🍜🍰🍵", "😀😢😡😱😴", "🚗🚲🚂⛵🛸", "🎸🥁🎻🎺🎹")
    slots = [chance.sample([sign for sign in pool if sign != "\ufe0f"], 5) for pool in pools]
    texts = ["".join(state) for state in approach(chance, slots, rounds)]
    return Series("emoji", "", attended(chance, "Artist", texts, "🤔", "Not funny enough.", "👎"))


def truth_tables(chance: random.Random, rounds: int) -> Series:
    """The rows of a truth table, one per round, alone or all so far."""
    true, false = chance.choice((("T", "F"), ("1", "0"), ("true", "false"), ("w", "f")))
    mask, grows = chance.getrandbits(32), chance.random() < 0.4
    rows = []
    for number in range(rounds):
        bits = [number >> place & 1 for place in range(4, -1, -1)]
        rows.append(" ".join(true if bit else false for bit in (*bits, mask >> number & 1)))
    texts = ["\n".join(rows[: number + 1]) for number in range(rounds)] if grows else rows
    return Series("truth_tables", "", heard(chance, "Logician", texts, "Reader", "Next row.", "Right."))


def seat_maps(chance: random.Random, rounds: int) -> Series:
    """The plan of a hall fills up, one sign at a time."""
    free, taken = chance.choice((("o", "x"), ("□", "■"), ("_", "#"), ("🟩", "🟥")))
    cells = [[free, taken] for _ in range(36)]
    texts = [
        "\n".join("".join(state[row * 6 : row * 6 + 6]) for row in range(6))
        for state in approach(chance, cells, 37)[:rounds]
    ]
    return Series("seat_maps", "", heard(chance, "Box office", texts, "Usher", "Not full yet.", "Sold."))


def sliding_puzzles(chance: random.Random, rounds: int) -> Series:
    """Eight tiles and a gap; the board never looks the same twice."""
    seen: list[str] = []
    while len(seen) < rounds:
        gap = seen[-1].index("_") if seen else 8
        near = [at for at in range(9) if abs(at % 3 - gap % 3) + abs(at // 3 - gap // 3) == 1]
        boards = [_swapped(seen[-1], gap, at) for at in near] if seen else []
        fresh = [board for board in boards if board not in seen]
        seen = [*seen, chance.choice(fresh)] if fresh else ["12345678_"]
    texts = ["\n".join(state[row : row + 3] for row in (0, 3, 6)) for state in reversed(seen)]
    return Series("sliding_puzzles", "", attended(chance, "Solver", texts, "Not solved.", "Go on."))


def _swapped(board: str, one: int, other: int) -> str:
    tiles = list(board)
    tiles[one], tiles[other] = tiles[other], tiles[one]
    return "".join(tiles)


KINDS: tuple[Kind, ...] = (
    crontabs,
    subnets,
    parentheses,
    hexdumps,
    permissions,
    colours,
    chess,
    automata,
    ascii_art,
    gray_codes,
    chords,
    knitting,
    emoji,
    truth_tables,
    seat_maps,
    sliding_puzzles,
)
