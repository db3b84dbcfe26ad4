"""Live loops around figures: the sentence stays, the number in it moves."""

from __future__ import annotations

import json
import random

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
    rising,
    shuffled,
    solo,
)


def accuracies(chance: random.Random, rounds: int) -> Series:
    """A metric that improves with noise; sometimes it says the same twice."""
    metric = chance.choice(("accuracy", "F1", "recall", "BLEU", "准确率", "R²"))
    digits = chance.choice((2, 3, 4)) if rounds <= 12 else chance.choice((3, 4))
    values = rising(chance, rounds, chance.uniform(0.4, 0.6), 0.97, 1.2)
    form = chance.choice(
        (
            "{} {}",
            "The model now reaches {} {}.",
            "Trained again with the extra data. {}: {}",
            "validation {} = {}, training continues",
        )
    )
    texts = [form.format(metric, f"{value:.{digits}f}") for value in values]
    return Series(
        "accuracies", "", heard(chance, "Trainer", texts, "Owner", "The target is 0.98.", "Not yet.")
    )


def losses(chance: random.Random, rounds: int) -> Series:
    """A training log: epoch, loss and rate."""
    loss, texts = chance.uniform(2.0, 6.0), []
    for epoch in range(1, rounds + 1):
        loss *= chance.uniform(0.8, 0.99)
        texts.append(f"epoch {epoch}: loss {loss:.4f}, learning rate {0.1 * 0.9**epoch:.5f}")
    return Series("losses", "", heard(chance, "Trainer", texts, "Scheduler", "Go on.", "Next epoch."))


def percents(chance: random.Random, rounds: int) -> Series:
    """Percent done, and nothing else changes."""
    values = sorted(chance.sample(range(1, 100), rounds))
    form = chance.choice(
        (
            "{}% done",
            "The import of the archive is running, {}% complete.",
            "Progress: {}%",
            "[{}%] copying files",
            "已完成 {}%。",
            '{{"state": "running", "percent": {}}}',
        )
    )
    texts = [form.format(value) for value in values]
    return Series(
        "percents", "", heard(chance, "Worker", texts, "Waiter", "Wait until it is done.", "Not yet.")
    )


def trials(chance: random.Random, rounds: int) -> Series:
    """The log of a search for hyper-parameters: the best score rarely moves, the parameters always do."""
    best = 0.6
    texts: list[str] = []
    seen = set()
    while len(texts) < rounds:
        point = (
            chance.choice((16, 32, 64, 128)),
            chance.choice((2, 3, 4, 6)),
            chance.choice((0.1, 0.2, 0.3, 0.5)),
        )
        if point in seen:
            continue
        seen.add(point)
        score = chance.uniform(0.5, 0.95)
        best = max(best, score)
        texts.append(
            f"trial with batch={point[0]}, layers={point[1]}, dropout={point[2]}: "
            f"{score:.2f}, best {best:.2f}"
        )
    return Series(
        "trials", "", heard(chance, "Search", texts, "Owner", "Below the target of 0.96.", "Next trial.")
    )


def guesses(chance: random.Random, rounds: int) -> Series:
    """A number is guessed by halves; the answers are of two words."""
    low, high = 0, 2 ** (rounds + 1)
    secret = chance.randrange(1, high, 2)
    texts, answers = [], []
    for _ in range(rounds):
        middle = (low + high) // 2
        texts.append(f"Is it {middle}?")
        answers.append("Higher." if secret > middle else "Lower.")
        low, high = (middle, high) if secret > middle else (low, middle)
    return Series("guesses", "", paired("Guesser", texts, "Keeper", answers))


def thresholds(chance: random.Random, rounds: int) -> Series:
    """The largest load that a service bears, found by halves."""
    low, high = 0, chance.randint(40, 70) * 10**6
    texts = []
    for _ in range(rounds):
        middle = (low + high) // 2
        fits = chance.random() < 0.5
        texts.append(f"{middle} messages per day: {'stable' if fits else 'too many errors'}")
        low, high = (middle, high) if fits else (low, middle)
    return Series("thresholds", "", heard(chance, "Load test", texts, "Owner", "Narrow it down further."))


def crawls(chance: random.Random, rounds: int) -> Series:
    """Pages visited, pages waiting; the page of the moment."""
    visited, waiting = chance.randint(1, 30), chance.randint(50, 400)
    site = f"https://{chance.choice(THINGS)}.example"
    texts = []
    paths = [f"{thing}/{number}" for thing in THINGS for number in range(1, 5)]
    for path in chance.sample(paths, rounds):
        visited += chance.randint(1, 12)
        waiting += chance.randint(-12, 9)
        texts.append(f"Fetched {site}/{path}. {visited} pages visited, {waiting} in the queue, 0 errors.")
    short = chance.random() < 0.3
    texts = [text.split(". ", 1)[1] if short else text for text in texts]
    return Series(
        "crawls", "", heard(chance, "Crawler", texts, "Owner", "Continue until the queue is empty.")
    )


def cleaning(chance: random.Random, rounds: int) -> Series:
    """A report on data, with the same lines and other counts."""
    names = ("rows", "duplicates", "empty cells", "bad dates", "unknown cities")
    counts = [chance.randint(5000, 9000), *(chance.randint(rounds * 4, 400) for _ in names[1:])]
    texts = []
    for _ in range(rounds):
        place = chance.randrange(1, len(names))
        fixed = chance.randint(1, 4)
        counts[place] -= fixed
        if names[place] == "duplicates":
            counts[0] -= fixed
        texts.append(
            "Report\n" + "\n".join(f"- {name}: {count}" for name, count in zip(names, counts, strict=True))
        )
    return Series("cleaning", "", attended(chance, "Cleaner", texts, "The table is not clean yet."))


def conversions(chance: random.Random, rounds: int) -> Series:
    """Units, one figure after another."""
    units = chance.choice((("km", "miles", 0.6214), ("kg", "pounds", 2.2046), ("litres", "gallons", 0.2642)))
    values = chance.sample(range(2, 400), rounds)
    form = chance.choice(("{} {} are {:.2f} {}.", "{} {} = {:.1f} {}", "Converted: {} {} → {:.2f} {}"))
    texts = [form.format(value, units[0], value * units[2], units[1]) for value in values]
    return Series(
        "conversions", "", heard(chance, "Converter", texts, "User", "Next value, please.", "Thanks. Next.")
    )


def recipes(chance: random.Random, rounds: int) -> Series:
    """A recipe is scaled and balanced, one ingredient at a time."""
    parts = ("flour", "butter", "sugar", "milk", "almonds", "honey")
    slots = []
    for _ in parts:
        base = chance.choice((20, 50, 80, 120))
        slots.append([f"{round(base * factor)} g" for factor in (1, 1.25, 1.5, 2, 2.5, 3)])
    guests = chance.randint(6, 30)
    texts = []
    for state in approach(chance, slots, rounds):
        rows = "\n".join(f"{amount} {part}" for part, amount in zip(parts, state, strict=True))
        texts.append(f"Cake for {guests} guests\n{rows}\nMix, rest for one hour, bake for 40 minutes.")
    return Series(
        "recipes", "", attended(chance, "Cook", texts, "The proportions are not right yet.", "Too dry.")
    )


def estimates(chance: random.Random, rounds: int) -> Series:
    """A root by small steps: more and more digits hold."""
    wanted = chance.choice((2, 3, 5, 7, 11, 13, 17))
    low, high, texts = 1.0, float(wanted), []
    form = chance.choice(
        ("x = {:.8f}", "My estimate is {:.8f}.", "The next iterate is {:.8f}; error still too large.")
    )
    for _ in range(rounds):
        middle = (low + high) / 2
        texts.append(form.format(middle))
        low, high = (middle, high) if middle * middle < wanted else (low, middle)
    return Series("estimates", "", heard(chance, "Solver", texts, "Checker", "Not precise enough."))


def budgets(chance: random.Random, rounds: int) -> Series:
    """A table of costs: one cell and the sum change."""
    rows = chance.sample(THINGS, 6)
    costs = {row: chance.randint(20, 90) * 10 for row in rows}
    texts = []
    for number in range(rounds):
        row = rows[number % len(rows)] if chance.random() < 0.5 else chance.choice(rows)
        costs[row] -= chance.choice((1, 2, 5, 10))
        body = "\n".join(f"| {name} | {cost} |" for name, cost in costs.items())
        texts.append(f"| item | cost |\n|---|---|\n{body}\n| sum | {sum(costs.values())} |")
    limit = sum(costs.values()) - 50
    return Series("budgets", "", attended(chance, "Planner", texts, f"Still over the limit of {limit}."))


def scores(chance: random.Random, rounds: int) -> Series:
    """The draft is not shown; only the scores of a judge move."""
    names = chance.sample(("clarity", "style", "facts", "length", "tone"), 3)
    slots = [[str(score) for score in range(1, 10)] for _ in names]
    texts = []
    for state in approach(chance, slots, min(rounds, 25)):
        verdict = dict(zip(names, (int(score) for score in state), strict=True))
        texts.append(json.dumps({**verdict, "verdict": "revise"}, indent=chance.choice((None, None, 1))))
    said = chance.choice(("I revised the draft.", "New version saved in the shared folder.", "草稿已更新。"))
    return Series("scores", "", paired("Writer", [said] * rounds, "Judge", texts))


def ledgers(chance: random.Random, rounds: int) -> Series:
    """A table grows by a row each round."""
    cities, rows, texts = shuffled(chance, CITIES), [], []
    for city in cities[:rounds]:
        rows.append(f"{city},{chance.randint(10, 999)},{chance.random() * 100:.1f}")
        texts.append("city,orders,share\n" + "\n".join(rows))
    return Series(
        "ledgers", "", heard(chance, "Collector", texts, "Owner", "Rows are missing.", "Next city.")
    )


def batches(chance: random.Random, rounds: int) -> Series:
    """A migration in batches: same sentence, next range."""
    size, start = chance.choice((100, 500, 1000)), chance.randint(0, 50) * 1000
    total = start + size * rounds * 2
    texts = []
    for number in range(rounds):
        low = start + size * number
        texts.append(f"Moved rows {low + 1} to {low + size} of {total}. No errors.")
    return Series("batches", "", heard(chance, "Migrator", texts, "Operator", "Continue.", "OK, next batch."))


def stocks(chance: random.Random, rounds: int) -> Series:
    """A shelf is counted: one article per round, in three voices."""
    articles = [f"{thing[:-1]} box {letter}" for thing in chance.sample(THINGS, 10) for letter in "ABC"]
    made = []
    for article in chance.sample(articles, rounds):
        count = chance.randint(0, 60)
        made.append(
            [
                ("Counter", f"{article}: {count} pieces."),
                ("Clerk", f"Noted, {count}."),
                ("Boss", chance.choice(("Next.", "Next.", "Go on."))),
            ]
        )
    return Series("stocks", "", made)


def thermostats(chance: random.Random, rounds: int) -> Series:
    """A controller reports what a tool measured; only the tool's figure moves."""
    start, goal = chance.uniform(12, 16), chance.uniform(21, 24)
    values = rising(chance, rounds, start, goal, 0.3)
    command = chance.choice(("Heat at full power.", "Keep the valve open.", "继续加热。"))
    results = tuple(f"room {value:.2f} °C, goal {goal:.1f} °C" for value in values)
    return Series("thermostats", "", solo("Controller", [command] * rounds), results)


def tallies(chance: random.Random, rounds: int) -> Series:
    """Votes come in; one of four counts goes up each round."""
    people = chance.sample(NAMES, 4)
    votes = dict.fromkeys(people, 0)
    texts = []
    for _ in range(rounds):
        votes[chance.choice(people)] += 1
        texts.append(", ".join(f"{name} {count}" for name, count in votes.items()))
    return Series("tallies", "", heard(chance, "Teller", texts, "Chair", "Next ballot.", "No majority yet."))


def stamped(chance: random.Random, rounds: int) -> Series:
    """Progress among what is no progress: a time stamp, a random identifier, the number of the attempt."""
    values = sorted(chance.sample(range(101, 990), rounds))
    thing, start = chance.choice(THINGS), chance.randint(0, 20)
    form = chance.choice(
        (
            "[2025-06-{day:02} 08:{minute:02}:{second:02}] Attempt {number}: accuracy 0.{value}",
            "2025-06-{day:02}T08:{minute:02}:{second:02}Z INFO {thing}: {value} of 990 matched (run {mark})",
            "第{number}次尝试：{thing} 的匹配率为 0.{value}。",
            "Attempt {number} wrote /tmp/tmp{mark}/report.txt with {value} {thing}.",
        )
    )
    texts = [
        form.format(
            day=number % 28 + 1,
            minute=chance.randint(0, 59),
            second=chance.randint(0, 59),
            number=number,
            value=value,
            thing=thing,
            mark=f"{chance.getrandbits(64):016x}",
        )
        for number, value in enumerate(values, start + 1)
    ]
    return Series("stamped", "", heard(chance, "Matcher", texts, "Owner", "Not all yet.", "Try again."))


KINDS: tuple[Kind, ...] = (
    accuracies,
    losses,
    percents,
    trials,
    guesses,
    thresholds,
    crawls,
    cleaning,
    conversions,
    recipes,
    estimates,
    budgets,
    scores,
    ledgers,
    batches,
    stocks,
    thermostats,
    tallies,
    stamped,
)
