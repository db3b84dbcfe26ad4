"""Live loops around code: each round changes a little of a program, a query or a setting."""

from __future__ import annotations

import json
import random
import re

from tests.breaker.series import Series
from tests.breaker.stock import (
    NAMES,
    THINGS,
    VERBS,
    Kind,
    approach,
    attended,
    heard,
    paired,
    rising,
    shuffled,
    solo,
)

POOLS = (
    ("==", "!=", ">=", "<=", ">", "<"),
    ("+", "-", "*", "//", "%"),
    ("0", "1", "2", "-1"),
    ("and", "or", "and not"),
)
# Angle quotes mark the operators and constants that the coder has to find.
FUNCTIONS = (
    """def clamp(value, low, high):
    if low «>» high:
        low, high = high, low
    if value «<» low:
        return low «*» «1»
    if value «>» high:
        return high «+» «0»
    return value""",
    """def leap(year):
    if year % 400 «==» «0» «and» year «>» 1582:
        return True
    if year % 100 «==» «0»:
        return False
    return (year «%» 4) «==» (4 «*» «0»)""",
    """def search(items, wanted):
    low, high = «0», len(items) «*» «1»
    while low «<» high:
        middle = (low «+» high) // 2
        if items[middle] «<» wanted:
            low = middle «+» «1»
        elif items[middle] «>» wanted:
            high = middle
        else:
            return middle
    return -1""",
    """def change(cents, coins):
    ways = [«0»] «*» (cents + 1)
    ways[0] = «1»
    for coin in coins:
        for sum_ in range(coin, cents «+» «1»):
            if sum_ «>=» coin «and» coin «>» 0:
                ways[sum_] += ways[sum_ «-» coin]
    return ways[cents] if cents «>=» 0 else 0""",
    """fn overlap(a: (i64, i64), b: (i64, i64)) -> i64 {
    let start = if a.0 «>» b.0 { a.0 } else { b.0 };
    let end = if a.1 «<» b.1 { a.1 } else { b.1 };
    if end «>=» start { end «-» start «+» «1» } else { «0» }
}""",
    """const paginate = (items, page, size) => {
  const start = (page «-» «1») «*» size;
  const end = start «+» size;
  if (page «<» 1 || size «<=» «0») return [];
  return items.length «>» start ? items.slice(start, end) : [];
};""",
)


def _filled(chance: random.Random, template: str, rounds: int) -> list[str]:
    """The template with its marked places on their way to the right operators."""
    parts = re.split("[«»]", template)
    slots = []
    for right in parts[1::2]:
        others = [value for value in next(pool for pool in POOLS if right in pool) if value != right]
        if not template.startswith("def"):
            others = ["/" if value == "//" else value for value in others]
        slots.append([*shuffled(chance, others), right])
    return [
        "".join(part + value for part, value in zip(parts[::2], [*state, ""], strict=True))
        for state in approach(chance, slots, rounds)
    ]


def operators(chance: random.Random, rounds: int) -> Series:
    """One operator or constant of a function changes each time."""
    texts = _filled(chance, chance.choice(FUNCTIONS), rounds)
    lead = chance.choice(("", "Here is the function:\n\n", "I changed one operator.\n\n```\n"))
    texts = [lead + text + ("\n```" if "```" in lead else "") for text in texts]
    return Series("operators", "", attended(chance, "Coder", texts, "Still 1 failed.", "1 failed, 11 passed"))


def operators_and_test_run(chance: random.Random, rounds: int) -> Series:
    """As above, and the test run says the same each time."""
    texts = _filled(chance, chance.choice(FUNCTIONS), rounds)
    result = f"{'.' * chance.randint(3, 20)}F\n1 failed, {chance.randint(3, 20)} passed"
    return Series("operators_and_test_run", "", solo("Coder", texts), (result,) * rounds)


def patch_then_test(chance: random.Random, rounds: int) -> Series:
    """A new patch in every other round; the rounds between report the same failure."""
    patches = _filled(chance, chance.choice(FUNCTIONS), (rounds + 1) // 2)
    report = chance.choice(
        ("I ran the tests: 1 failed, 11 passed.", "Tests: still 1 failure.", "测试仍有 1 个失败。")
    )
    texts = [patches[number // 2] if number % 2 == 0 else report for number in range(rounds)]
    if chance.random() < 0.5:
        return Series("patch_then_test", "", solo("Coder", texts))
    return Series("patch_then_test", "", paired("Coder", texts, "Lead", ["Please go on."] * rounds))


def module_by_function(chance: random.Random, rounds: int) -> Series:
    """A module of eight functions, one of which gets a bit better each time."""
    slots = []
    for verb, thing in zip(chance.sample(VERBS, 8), chance.sample(THINGS, 8), strict=True):
        typed = f"def {verb}_{thing}({thing}: list[dict[str, str]]) -> list[dict[str, str]]:"
        body = f"    return [row for row in {thing} if row]"
        guard = f"    if not {thing}:\n        return []"
        text = f'    """{verb.capitalize()} the {thing}."""'
        bare = f"def {verb}_{thing}({thing}):\n{body}"
        versions = [bare, f"{typed}\n{body}", f"{typed}\n{text}\n{body}", f"{typed}\n{text}\n{guard}\n{body}"]
        slots.append(versions)
    texts = ["\n\n\n".join(state) for state in approach(chance, slots, rounds)]
    return Series("module_by_function", "", attended(chance, "Coder", texts, "mypy: Found errors in 1 file"))


def reports_of_tests(chance: random.Random, rounds: int) -> Series:
    """The coder says the same; the first failing test is another one each time."""
    names = [f"test_{verb}_{thing}" for verb in VERBS for thing in chance.sample(THINGS, 2)]
    chance.shuffle(names)
    counted = chance.random() < 0.5
    results = [
        f"FAILED tests/test_{name.split('_')[2]}.py::{name} - AssertionError\n"
        + (f"{rounds - number} failed, {40 + number} passed" if counted else "stopping after 1 failures")
        for number, name in enumerate(names[:rounds])
    ]
    said = chance.choice(
        ("Fixed it. Please run the tests again.", "Done, run it again.", "已修复，请重新运行。")
    )
    if chance.random() < 0.5:
        return Series("reports_of_tests", "", solo("Coder", [said] * rounds), tuple(results))
    return Series("reports_of_tests", "", paired("Coder", [said] * rounds, "Test", results))


def assertion_gap(chance: random.Random, rounds: int) -> Series:
    """Expected and found come closer; nothing else in the report changes."""
    expected = chance.randint(200, 900)
    gaps = sorted(chance.sample(range(1, 150), rounds), reverse=True)
    name = f"test_{chance.choice(VERBS)}_{chance.choice(THINGS)}"
    texts = [f"E   assert {expected - gap} == {expected}\nFAILED {name}\n1 failed" for gap in gaps]
    said = chance.choice(("I adjusted the rounding.", "Changed the weights once more.", "Another try."))
    return Series("assertion_gap", "", paired("Coder", [said] * rounds, "Test", texts))


def regexes(chance: random.Random, rounds: int) -> Series:
    """A pattern gets more exact, one part at a time."""
    shapes: tuple[list[list[str]], ...] = (
        [
            ["", "^"],
            [".+", ".*?", r"\w+", r"[\w.]+", r"[\w.+-]+"],
            ["@", "[@]", "@(?!-)"],
            [".+", r"\w+", r"[\w-]+", r"[a-z0-9-]+", r"(?:[a-z0-9-]+)", r"(?:[a-z0-9-]+\.)*[a-z0-9-]+"],
            [".", r"\.", r"[.]", r"(?:\.)"],
            [".+", r"\w+", r"\w{2,}", "[a-z]+", "[a-z]{2,}", "[a-z]{2,24}"],
            ["", "$", r"\Z"],
            ["", "  # ignore case", "  # ignore case, ASCII"],
        ],
        [
            ["", "^", r"\b"],
            [r"\d+", r"\d{4}", r"[12]\d{3}", r"(?:19|20)\d\d", r"(?P<year>(?:19|20)\d\d)"],
            [".", "-", "[-/]", "[-/.]"],
            [r"\d+", r"\d\d", r"[01]\d", r"(?:0\d|1[0-2])", "(?:0[1-9]|1[0-2])", "(?P<month>0[1-9]|1[0-2])"],
            [".", "-", "[-/]", "[-/.]"],
            [r"\d+", r"\d\d", r"[0-3]\d", r"(?:[0-2]\d|3[01])", r"(?:0[1-9]|[12]\d|3[01])"],
            ["", "$", r"\b", r"(?!\d)"],
            ["", "  # also 29 February"],
        ],
    )
    texts = ["".join(state) for state in approach(chance, chance.choice(shapes), rounds)]
    lead = chance.choice(("", "Pattern: ", "re.compile(r'", "The refined expression is "))
    texts = [lead + text + ("')" if lead.endswith("'") else "") for text in texts]
    bad = chance.randint(1, 4)
    return Series(
        "regexes", "", attended(chance, "Coder", texts, f"{bad} examples do not match.", "1 false positive.")
    )


def queries(chance: random.Random, rounds: int) -> Series:
    """An SQL query is refined clause by clause."""
    table, other = chance.sample(THINGS, 2)
    slots = [
        [
            "SELECT *",
            f"SELECT {table}.id",
            "SELECT a.id, a.total",
            "SELECT a.id, SUM(a.total)",
            "SELECT a.city",
        ],
        [f"FROM {table}", f"FROM {table} AS a", f"FROM {table} AS a\nJOIN {other} AS b ON b.id = a.id"],
        ["WHERE 1 = 1", "WHERE a.total > 0", "WHERE a.total >= 100", "WHERE a.total BETWEEN 100 AND 900"],
        ["", "  AND b.closed IS NULL", "  AND b.closed IS NOT NULL", "  AND NOT b.hidden"],
        ["", "GROUP BY a.id", "GROUP BY a.city", "GROUP BY a.city, a.year"],
        ["", "HAVING COUNT(*) > 1", "HAVING COUNT(*) > 2", "HAVING SUM(a.total) > 0"],
        ["ORDER BY 1", "ORDER BY 2", "ORDER BY 2 DESC", "ORDER BY 2 DESC, 1"],
        ["", "LIMIT 10", "LIMIT 20", "LIMIT 20 OFFSET 20"],
    ]
    texts = ["\n".join(part for part in state if part) + ";" for state in approach(chance, slots, rounds)]
    replies = ("The result still differs from the expected rows.", "Wrong number of rows.", "结果仍然不对。")
    return Series("queries", "", attended(chance, "Analyst", texts, *replies))


def settings(chance: random.Random, rounds: int) -> Series:
    """One setting of a file is tuned each round, and a load test measures it."""
    names = ("workers", "queue_size", "batch", "timeout_s", "cache_mb", "retries", "prefetch", "threads")
    slots = []
    for _ in names:
        start = chance.choice((1, 2, 4, 5, 10))
        slots.append([str(start * factor) for factor in (1, 2, 3, 4, 8)])
    mark = chance.choice((": ", " = ", "="))
    states = approach(chance, slots, rounds)
    texts = [
        "\n".join(f"{name}{mark}{value}" for name, value in zip(names, state, strict=True))
        for state in states
    ]
    if chance.random() < 0.4:
        return Series("settings", "", attended(chance, "Tuner", texts, "p95 is still above the target."))
    times = [f"p95 {value:.0f} ms, target 100 ms" for value in rising(chance, rounds, 900, 120, 1.5)]
    return Series("settings", "", solo("Tuner", texts), tuple(times))


def documents(chance: random.Random, rounds: int) -> Series:
    """A JSON document, one field of which is corrected each round; the validator finds one error."""
    person, other = chance.sample(NAMES, 2)
    slots = [
        ["", "unknown", person, f"{person} {other}", f"{person} {other}son"],
        ["null", "0", "17", "18", str(chance.randint(19, 80))],
        ["", "mail", f"{person}@example", f"{person.lower()}@example.org"],
        ["yes", "on", "enabled", "active"],
        ["2024", "2024-5", "2024-05", "2024-05-03", f"2024-05-{chance.randint(10, 28)}"],
        ["", "Germany", "DEU", "DE"],
        ["EUR", "EUR 12", "12", "12.5", "12.50"],
    ]
    keys = ("name", "age", "mail", "state", "since", "country", "fee")
    indent = chance.choice((None, 2))
    texts = [
        json.dumps(dict(zip(keys, state, strict=True)), indent=indent)
        for state in approach(chance, slots, rounds)
    ]
    replies = ("1 error: the document does not match the schema.", '{"valid": false, "errors": 1}')
    return Series("documents", "", attended(chance, "Filler", texts, *replies))


def reviews(chance: random.Random, rounds: int) -> Series:
    """A reviewer with few remarks left, each about another place; the coder always says that it is done."""
    remarks = [
        f"{chance.choice(('Nit', 'Minor', 'Remark'))}: `{verb}_{thing}` {about}"
        for verb, thing, about in zip(
            shuffled(chance, VERBS) * 2,
            shuffled(chance, THINGS),
            [
                chance.choice(
                    (
                        "has no docstring.",
                        "is too long.",
                        "needs a test.",
                        "hides an error.",
                        "is never called.",
                        "should return a list.",
                    )
                )
                for _ in THINGS
            ],
            strict=False,
        )
    ]
    tail = chance.choice((" Otherwise it looks good.", "", " One more remark after this one."))
    done = chance.choice(("Done.", "Fixed, please look again.", "Addressed in the last commit."))
    return Series(
        "reviews",
        "",
        paired("Reviewer", [text + tail for text in remarks[:rounds]], "Coder", [done] * rounds),
    )


def commits(chance: random.Random, rounds: int) -> Series:
    """One small commit per round, reported in the same form."""
    pairs = [(verb, thing) for verb in chance.sample(VERBS, 8) for thing in chance.sample(THINGS, 5)]
    form = chance.choice(
        (
            "{1}: {0} them in one pass",
            "refactor({1}): {0} without a copy\n\nNo change of behaviour.",
            "Committed: move `{0}` from utils to {1}. 1 file changed, all tests pass.",
            "feat({1}): add `{0}`",
        )
    )
    texts = [form.format(*pair) for pair in chance.sample(pairs, rounds)]
    return Series(
        "commits", "", heard(chance, "Coder", texts, "Maintainer", "Merged. Next one, please.", "LGTM", "OK.")
    )


def culprits(chance: random.Random, rounds: int) -> Series:
    """The history is searched for the commit that broke a test."""
    hashes = [f"{chance.getrandbits(28):07x}" for _ in range(rounds)]
    left = [2 ** (rounds - number) - 1 for number in range(rounds)]
    texts, results = [], []
    for commit, count in zip(hashes, left, strict=True):
        verdict = chance.choice(("good", "bad"))
        texts.append(chance.choice((f"{commit} is {verdict}.", f"git bisect {verdict} {commit}")))
        results.append(f"Bisecting: {count} revisions left to test after this")
    if rounds > 14 or chance.random() < 0.3:
        return Series("culprits", "", paired("Bisecter", texts, "Lead", ["Keep going."] * rounds))
    return Series("culprits", "", paired("Bisecter", texts, "git", results))


def upgrades(chance: random.Random, rounds: int) -> Series:
    """Dependencies are raised one by one; the build stays red until the last one."""
    packages = [
        f"{thing}-{kind}" for thing in chance.sample(THINGS, 10) for kind in ("core", "client", "cli")
    ]
    texts = []
    for package in chance.sample(packages, rounds):
        major, minor = chance.randint(0, 5), chance.randint(0, 20)
        texts.append(
            f"Bumped {package} from {major}.{minor} to {major}.{minor + 1} and updated the lock file."
        )
    return Series("upgrades", "", heard(chance, "Bot", texts, "CI", "Build failed.", "CI is still red."))


def warnings(chance: random.Random, rounds: int) -> Series:
    """A linter's findings, file by file."""
    left = chance.randint(rounds, rounds * 3)
    rules = ("E501", "F401", "B006", "N802", "W291")
    texts = []
    for thing in chance.sample(THINGS, rounds):
        line = chance.randint(1, 400)
        texts.append(f"src/{thing}.py:{line}:1: {chance.choice(rules)}\nFound {left} errors.")
        left -= chance.randint(0, 2) if left > 3 else 0
    return Series("warnings", "", paired("Linter", texts, "Coder", ["Fixed the first one."] * rounds))


def styles(chance: random.Random, rounds: int) -> Series:
    """A style sheet is tuned until the page looks like the picture."""
    names = ("padding", "margin", "gap", "width", "border-radius", "font-size", "line-height", "top")
    slots = [
        [f"{start + step * number}px" for number in range(5)] for start, step in _starts(chance, len(names))
    ]
    box = chance.choice((".card", "#menu", "header > nav", ".hero"))
    texts = []
    for state in approach(chance, slots, rounds):
        rows = "".join(f"  {name}: {value};\n" for name, value in zip(names, state, strict=True))
        texts.append(f"{box} {{\n{rows}}}")
    return Series(
        "styles", "", attended(chance, "Designer", texts, "The page still differs.", "Pixels differ.")
    )


def _starts(chance: random.Random, count: int) -> list[tuple[int, int]]:
    return [(chance.randint(2, 20), chance.choice((1, 2, 4))) for _ in range(count)]


KINDS: tuple[Kind, ...] = (
    operators,
    operators_and_test_run,
    patch_then_test,
    module_by_function,
    reports_of_tests,
    assertion_gap,
    regexes,
    queries,
    settings,
    documents,
    reviews,
    commits,
    culprits,
    upgrades,
    warnings,
    styles,
)
