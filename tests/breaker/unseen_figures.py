"""Live loops around times, numbers in other notations, tables and calculations."""

from __future__ import annotations

import random
from fractions import Fraction

from tests.breaker.series import Series
from tests.breaker.stock import (
    CITIES,
    NAMES,
    THINGS,
    Kind,
    approach,
    attended,
    heard,
    paired,
    solo,
    variations,
    words,
)

WEEK = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
FORMULA = (
    "=IFERROR(«SUM|SUMIF|SUMIFS»($«C|D|E»$«1|2»:$«C|D|E»$«40|90|120»,$«A|B»$«1|2»:$«A|B»$«40|90|120»,"
    '"«>|>=|<=»"&«F1|F2|G2|$G$2»)/«COUNT|COUNTA|COUNTIFS»(«A:A|B:B|$B$2:$B$120»),«""|0|NA()»)'
)
ONES = words(
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
TENS = words("twenty thirty forty fifty sixty seventy eighty ninety")
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def meetings(chance: random.Random, rounds: int) -> Series:
    """Two calendars look for a time; only the time changes, sometimes the day."""
    times = chance.sample([f"{hour:02}:{minute}" for hour in range(8, 18) for minute in ("00", "30")], 15)
    name, day = chance.choice(NAMES), chance.choice(WEEK)
    slots = [(day, time) for time in times]
    slots += [(WEEK[(WEEK.index(day) + 1) % 5], time) for time in times]
    form = chance.choice(
        (
            "Could {2} meet us on {0} at {1}?",
            "{0} {1}?",
            "How about {1} on {0}? {2} needs about half an hour.",
            '{{"propose": "{1}", "day": "{0}"}}',
            "{0}，{1} 可以吗？",
        )
    )
    texts = [form.format(*slot, name) for slot in slots[:rounds]]
    answers = ("That does not work, sorry.", "Busy.", "No. Another time?")
    return Series("meetings", "", heard(chance, "Assistant", texts, "Calendar", *answers))


def seats(chance: random.Random, rounds: int) -> Series:
    """One free place after another is asked for, by its number."""
    form, places = chance.choice(
        (
            ("Is seat {} free?", [f"{row}{letter}" for row in range(1, 30) for letter in "ABCDEF"]),
            (
                "Room {} for the workshop?",
                [f"{floor}.{room:02}" for floor in range(5) for room in range(1, 20)],
            ),
            ("Put the pallet into bay {}.", [f"{aisle}-{bay}" for aisle in "KLMN" for bay in range(1, 15)]),
            ("Platz {} bitte.", [str(number) for number in range(1, 90)]),
        )
    )
    taken = chance.choice(("Taken.", "Occupied, please choose another one.", "No.", "Belegt."))
    texts = [form.format(place) for place in chance.sample(places, rounds)]
    return Series("seats", "", paired("Clerk", texts, "System", [taken] * rounds))


def annealing(chance: random.Random, rounds: int) -> Series:
    """Simulated annealing: the temperature falls, the energy mostly does."""
    temperature, energy, texts = 1.0, chance.uniform(400, 900), []
    for _ in range(rounds):
        temperature *= 0.93
        energy += chance.uniform(-40, 12)
        texts.append(
            f"T={temperature:.3f} E={energy:.1f} {'accepted' if chance.random() < 0.7 else 'rejected'}"
        )
    return Series("annealing", "", heard(chance, "Solver", texts, "Controller", "Cool down.", "Continue."))


def formulas(chance: random.Random, rounds: int) -> Series:
    """A formula of a spreadsheet: a range, a column, a comparison."""
    texts = variations(chance, FORMULA, rounds)
    error = chance.choice(("#VALUE!", "#DIV/0!", "#N/A"))
    if chance.random() < 0.5:
        return Series("formulas", "", solo("Analyst", texts), (error,) * rounds)
    return Series("formulas", "", attended(chance, "Analyst", texts, f"The cell shows {error}", "Wrong sum."))


def feature_tables(chance: random.Random, rounds: int) -> Series:
    """A table in Markdown: one mark of yes or no flips."""
    rows = chance.sample(THINGS, 9)
    yes, no = chance.choice((("✓", "✗"), ("yes", "no"), ("x", "-"), ("✅", "❌")))
    slots = [[yes, no] if chance.random() < 0.5 else [no, yes] for _ in range(27)]
    texts = []
    for state in approach(chance, slots, rounds):
        lines = ["| | Free | Team | Enterprise |", "|---|---|---|---|"]
        lines += [f"| {row} | {' | '.join(state[at * 3 : at * 3 + 3])} |" for at, row in enumerate(rows)]
        texts.append("\n".join(lines))
    return Series("feature_tables", "", attended(chance, "Product", texts, "One cell is still wrong."))


def sprints(chance: random.Random, rounds: int) -> Series:
    """Stories are estimated again and again; the sum follows."""
    stories = chance.sample(THINGS, 8)
    slots = [[str(points) for points in chance.sample((1, 2, 3, 5, 8, 13), 4)] for _ in stories]
    short = chance.random() < 0.4
    texts = []
    for state in approach(chance, slots, rounds):
        total = sum(int(points) for points in state)
        lines = [f"- {story}: {points} SP" for story, points in zip(stories, state, strict=True)]
        texts.append(" ".join(state) if short else "\n".join([*lines, f"Total: {total} SP"]))
    return Series("sprints", "", attended(chance, "Team", texts, "We do not agree yet.", "Estimate again."))


def derivations(chance: random.Random, rounds: int) -> Series:
    """A calculation goes on line by line: derivatives of a power, or a recurrence of an integral."""
    power = chance.randint(rounds, rounds + 15)
    texts: list[str] = []
    if chance.random() < 0.5:
        factor = chance.randint(1, 9)
        for order in range(1, rounds + 1):
            factor *= power - order + 1
            exponent = str(power - order).translate(RAISED)
            texts.append(f"f⁽{str(order).translate(RAISED)}⁾(x) = {factor}·x{exponent}")
    else:
        for step in range(rounds):
            n = power - step
            texts.append(f"I_{n} = x^{n}·e^x − {n}·I_{n - 1}, where I_{n - 1} = ∫ x^{n - 1}·e^x dx")
    return Series(
        "derivations", "", heard(chance, "Solver", texts, "Teacher", "Correct. Next step.", "Go on.")
    )


def eliminations(chance: random.Random, rounds: int) -> Series:
    """Linear equations are solved: each round changes one row of the matrix."""
    size = 5
    while True:
        matrix = [[Fraction(chance.randint(-4, 4)) for _ in range(size + 1)] for _ in range(size)]
        states = _eliminated(matrix)
        if len(states) >= rounds:
            break
    texts = ["\n".join(" ".join(str(cell) for cell in row) for row in state) for state in states[:rounds]]
    return Series("eliminations", "", attended(chance, "Solver", texts, "Not in reduced form yet."))


def _eliminated(matrix: list[list[Fraction]]) -> list[list[list[Fraction]]]:
    states = [[list(row) for row in matrix]]
    for pivot in range(len(matrix)):
        if not matrix[pivot][pivot]:
            return []
        lead = matrix[pivot][pivot]
        if lead != 1:
            matrix[pivot] = [cell / lead for cell in matrix[pivot]]
            states.append([list(row) for row in matrix])
        for other in range(len(matrix)):
            factor = matrix[other][pivot]
            if other != pivot and factor:
                matrix[other] = [a - factor * b for a, b in zip(matrix[other], matrix[pivot], strict=True)]
                states.append([list(row) for row in matrix])
    return states


def _roman(number: int) -> str:
    text = ""
    for value, sign in ((50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")):
        text += sign * (number // value)
        number %= value
    return text


def chapters(chance: random.Random, rounds: int) -> Series:
    """Chapters with Roman numerals are worked through."""
    start = chance.randint(1, 30)
    form = chance.choice(
        (
            "Chapter {} is indexed.",
            "Canto {}: the metre is regular, no changes.",
            "Capitolo {}: riletto, nessun errore.",
            "{}",
            "Article {} of the statutes is checked against the new law; nothing to report.",
        )
    )
    texts = [form.format(_roman(number)) for number in range(start, start + rounds)]
    return Series("chapters", "", heard(chance, "Editor", texts, "Publisher", "Thanks. The next one."))


def histories(chance: random.Random, rounds: int) -> Series:
    """A chronicle: one year after another is corrected from the sources."""
    events = ("Charter", "Fire", "Plague", "Siege", "New walls", "Railway", "University")
    city = chance.choice(CITIES)
    slots = [[str(1000 + chance.randint(0, 49) + 120 * at + 50 * half) for half in (0, 1)] for at in range(7)]
    for years in slots:
        years[1:1] = [str(int(years[0]) + chance.randint(1, 20)), str(int(years[1]) - chance.randint(1, 9))]
        years.append(str(int(years[-1]) + 30))
    texts = [
        f"{city}: " + ", ".join(f"{event} {year}" for event, year in zip(events, state, strict=True))
        for state in approach(chance, slots, rounds)
    ]
    return Series("histories", "", attended(chance, "Historian", texts, "One year contradicts the archive."))


def coordinates(chance: random.Random, rounds: int) -> Series:
    """A position is refined or followed."""
    north, east, texts = chance.uniform(40, 60), chance.uniform(5, 25), []
    minutes = chance.random() < 0.5
    for _ in range(rounds):
        north += chance.uniform(0.002, 0.01)
        east += chance.uniform(-0.01, 0.01)
        if minutes:
            texts.append(f"N {int(north)}° {north % 1 * 60:06.3f}′ E {int(east)}° {east % 1 * 60:06.3f}′")
        else:
            texts.append(f"The buoy is at {north:.4f}, {east:.4f} and drifts.")
    return Series("coordinates", "", heard(chance, "Tracker", texts, "Coast guard", "Keep following it."))


def exposures(chance: random.Random, rounds: int) -> Series:
    """A photographer changes aperture, time or film speed, one at a time."""
    slots = [
        chance.sample(("f/1.8", "f/2.8", "f/4", "f/5.6", "f/8", "f/11", "f/16"), 7),
        chance.sample(("1/15", "1/30", "1/60", "1/125", "1/250", "1/500", "1/1000", "1/2000"), 8),
        chance.sample(("100", "200", "400", "800", "1600", "3200"), 6),
        chance.sample(("2700 K", "3200 K", "4300 K", "5200 K", "5600 K", "6500 K", "7500 K"), 7),
    ]
    texts = [
        f"{aperture}, {time} s, ISO {speed}, {white}"
        for aperture, time, speed, white in approach(chance, slots, rounds)
    ]
    verdict = chance.choice(("Too dark.", "The sky is burnt out.", "The colours are off.", "Noch nicht."))
    return Series("exposures", "", paired("Camera", texts, "Director", [verdict] * rounds))


def dosages(chance: random.Random, rounds: int) -> Series:
    """The dose of an invented drug, bed by bed."""
    drug, rate = chance.choice(("Velorin", "Astaphen", "Quilomab")), chance.choice((5, 10, 15, 25))
    ward, texts = chance.randint(1, 9), []
    for bed in range(1, rounds + 1):
        weight = chance.randint(45, 110)
        texts.append(
            f"Ward {ward}, bed {bed}: {drug} {weight} kg × 0.{rate:02} mg/kg = {weight * rate / 100:g} mg"
        )
    return Series("dosages", "", heard(chance, "Pharmacist", texts, "Nurse", "Checked.", "Noted, next bed."))


def fittings(chance: random.Random, rounds: int) -> Series:
    """A part is cut in sixteenths of an inch until it fits."""
    size = chance.randint(80, 200)
    texts = []
    for _ in range(rounds):
        size -= 1
        rest = Fraction(size % 16, 16)
        texts.append(f"Cut the shelf to {size // 16}{f' {rest}' if rest else ''} in.")
    answer = chance.choice(("Too long.", "Does not fit yet.", "Still jams on the left side."))
    return Series("fittings", "", paired("Carpenter", texts, "Fitter", [answer] * rounds))


def _in_words(number: int) -> str:
    if number < 20:
        return ONES[number - 1]
    ten, one = divmod(number, 10)
    return TENS[ten - 2] + (f"-{ONES[one - 1]}" if one else "")


def _in_chinese(number: int) -> str:
    signs = "一二三四五六七八九"
    ten, one = divmod(number, 10)
    return (signs[ten - 1] if ten > 1 else "") + ("十" if ten else "") + (signs[one - 1] if one else "")


def number_words(chance: random.Random, rounds: int) -> Series:
    """A count that is written out in words."""
    start = chance.randint(1, 70)
    form = chance.choice(("{} crates are on the truck.", "{}", "We have folded {} of the letters so far."))
    texts = [form.format(_in_words(number)).capitalize() for number in range(start, start + rounds)]
    if chance.random() < 0.3:
        texts = [f"已经装了{_in_chinese(number)}箱。" for number in range(start, start + rounds)]
    return Series("number_words", "", heard(chance, "Loader", texts, "Driver", "More.", "Go on."))


def subtitles(chance: random.Random, rounds: int) -> Series:
    """The cues of a film are timed, or one cue is moved until it fits the lips."""
    at, texts, line = chance.randint(5000, 900000), [], chance.choice(("- No.", "♪ ♪", "- Come here!", "…"))
    drift = chance.random() < 0.5
    for _ in range(rounds):
        at += chance.choice((20, 40, 80)) if drift else chance.randint(1500, 9000)
        clocks = [
            f"{ms // 3600000:02}:{ms // 60000 % 60:02}:{ms // 1000 % 60:02},{ms % 1000:03}"
            for ms in (at, at + 1200)
        ]
        texts.append(" --> ".join(clocks) + f"\n{line}")
    return Series("subtitles", "", attended(chance, "Subtitler", texts, "Out of sync.", "Next cue."))


def bookings(chance: random.Random, rounds: int) -> Series:
    """Flights are tried; all are full, too dear or too late."""
    start, end = chance.sample(CITIES, 2)
    texts = [
        f"{start}–{end}, {chance.randint(1, 30)} May, flight {chance.choice(('TP', 'LX', 'OS'))} {number}, "
        f"departs {chance.randint(5, 22):02}:{chance.choice(('05', '20', '35', '50'))}, "
        f"€{chance.randint(89, 640)}"
        for number in chance.sample(range(300, 4000), rounds)
    ]
    reply = chance.choice(("Sold out.", "Over the budget of €80.", "Does not fit the traveller's calendar."))
    return Series("bookings", "", paired("Agent", texts, "Desk", [reply] * rounds))


KINDS: tuple[Kind, ...] = (
    meetings,
    seats,
    annealing,
    formulas,
    feature_tables,
    sprints,
    derivations,
    eliminations,
    chapters,
    histories,
    coordinates,
    exposures,
    dosages,
    fittings,
    number_words,
    subtitles,
    bookings,
)
