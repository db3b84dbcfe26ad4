"""Live loops around databases, infrastructure, builds and files of code."""

from __future__ import annotations

import random

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
    variations,
)

TERRAFORM = """resource "aws_db_instance" "orders" {
  engine                  = "postgres"
  engine_version          = "«13.4|14.9|15.4|16.1»"
  instance_class          = "db.«t3|m5|m6g|r6g».«medium|large|xlarge»"
  allocated_storage       = «20|50|100|200»
  multi_az                = «false|true»
  storage_encrypted       = «false|true»
  backup_retention_period = «0|1|7|14|30»
  backup_window           = "«01|02|03|04»:00-«05|06|07»:00"
  deletion_protection     = «false|true»
  publicly_accessible     = «true|false»
  port                    = «3306|5433|5432»
}"""
DOCKERFILE = """FROM python:«3.9|3.10|3.11|3.12»-«alpine|bullseye|slim»
ENV PYTHONUNBUFFERED=«0|1» PIP_NO_CACHE_DIR=«off|0|1»
RUN apt-get update «&|;|&&» apt-get install -y «gcc|gcc make|gcc make libpq-dev»
WORKDIR «/|/app|/srv/app»
COPY «. .|requirements.txt .|requirements.txt ./»
RUN pip install «requirements.txt|-r requirements.txt|--no-deps -r requirements.txt»
USER «root|1000|app»
EXPOSE «80|8000|8080»
CMD ["«flask|uvicorn|gunicorn»", "«app|app:main|app.main:app»", "--workers", "«1|2|4»"]"""
OPENAPI = """paths:
  /«order|orders»/{«id|order_id|orderId»}:
    «post|put|patch|get»:
      operationId: «order|fetchOrder|getOrder»
      parameters:
        - name: «id|order_id|orderId»
          in: «body|query|path»
          required: «false|true»
          schema: {type: «number|integer|string», format: «int32|int64|uuid»}
      responses:
        '«201|204|200»': {$ref: '#/components/«schemas|responses»/«Orders|Order»'}
        '«500|400|404»': {$ref: '#/components/responses/«Error|Missing|NotFound»'}
      security: [{«basic|apiKey|oauth2»: [«read|orders|orders:read»]}]"""
CASE = """from shop import Cart, Item, Voucher, connect
import logging
logging.basicConfig(level="DEBUG")
db = connect("sqlite://")
db.migrate()
cart = Cart(db, owner="test")
cart.rename("weekend")
cart.add(Item("tea", 3))
cart.add(Item("milk", 1))
cart.add(Item("bread", 2))
cart.note("leave at the door")
cart.remove("milk")
cart.add(Item("jam", 1))
cart.apply(Voucher("SPRING", 10))
cart.currency = "EUR"
cart.language = "de"
cart.save()
cart.reload()
cart.set_quantity("tea", 0)
cart.set_quantity("jam", -1)
cart.sort("name")
for line in cart.lines():
    print(line)
print(cart.owner)
print(cart.weight())
print(cart.discount())
print(cart.total())"""


def sql_migrations(chance: random.Random, rounds: int) -> Series:
    """One migration of the same shape per table; a tool applies it."""
    tables = chance.sample(THINGS, rounds)
    number = chance.randint(1, 60)
    form = chance.choice(
        (
            "ALTER TABLE {} ADD COLUMN deleted_at timestamptz NULL;",
            "CREATE INDEX CONCURRENTLY idx_{0}_created ON {0} (created_at);",
            "ALTER TABLE {} ALTER COLUMN id TYPE bigint;",
        )
    )
    texts = [form.format(table) for table in tables]
    if chance.random() < 0.4:
        return Series("sql_migrations", "", solo("Migrator", texts), ("OK, 0 rows affected",) * rounds)
    applied = tuple(f"migration {number + step:04} applied" for step in range(rounds))
    told = chance.choice((texts, ["Next migration written."] * rounds))
    return Series("sql_migrations", "", heard(chance, "Migrator", told, "DBA", "Next table."), applied)


def terraform(chance: random.Random, rounds: int) -> Series:
    """One argument of a resource changes; the plan always speaks of one change."""
    texts = variations(chance, TERRAFORM, rounds)
    plan = "Plan: 0 to add, 1 to change, 0 to destroy."
    results = (plan,) * rounds if chance.random() < 0.5 else ()
    return Series(
        "terraform", "", attended(chance, "Engineer", texts, "The policy check still fails."), results
    )


def dockerfiles(chance: random.Random, rounds: int) -> Series:
    texts = variations(chance, DOCKERFILE, rounds)
    step = chance.randint(4, 9)
    failure = f"ERROR: failed to solve: process did not complete successfully: exit code: 1 [{step}/{step}]"
    return Series("dockerfiles", "", paired("Builder", texts, "Docker", [failure] * rounds))


def openapi(chance: random.Random, rounds: int) -> Series:
    texts = variations(chance, OPENAPI, rounds)
    return Series(
        "openapi",
        "",
        attended(chance, "Designer", texts, "The linter reports 1 problem.", "Not RESTful yet."),
    )


def type_errors(chance: random.Random, rounds: int) -> Series:
    """The coder says the same; the type checker finds fewer errors each time."""
    errors = sorted(chance.sample(range(1, 90), rounds), reverse=True)
    files = [1 + count // 6 for count in errors]
    report = tuple(
        f"Found {count} errors in {many} files (checked 48 source files)"
        for count, many in zip(errors, files, strict=True)
    )
    said = chance.choice(
        ("I added annotations. Please run mypy again.", "Fixed the next error.", "已修复，请再检查。")
    )
    if chance.random() < 0.5:
        return Series("type_errors", "", solo("Coder", [said] * rounds), report)
    return Series("type_errors", "", paired("Coder", [said] * rounds, "Checker", report))


def growing_tests(chance: random.Random, rounds: int) -> Series:
    """One more test per round: only its name is new, or only the number of tests that pass."""
    passed = chance.randint(3, 150)
    pairs = [(verb, thing) for verb in VERBS for thing in THINGS]
    tests = [
        f"def test_{verb}_{thing}_when_empty():\n    assert {verb}_{thing}([]) == []"
        for verb, thing in chance.sample(pairs, rounds)
    ]
    results = tuple(f"{passed + step} passed in 0.{chance.randint(10, 99)}s" for step in range(rounds))
    style = chance.choice(("tests", "counts", "both"))
    texts = ["Added a test."] * rounds if style == "counts" else tests
    return Series(
        "growing_tests",
        "",
        heard(chance, "Tester", texts, "Lead", "Coverage is below 90%.", "One more test, please."),
        () if style == "tests" else results,
    )


def rebases(chance: random.Random, rounds: int) -> Series:
    """The to-do list of an interactive rebase: a command changes, or two lines change places."""
    lines = [
        [chance.choice(("pick", "edit")), f"{chance.getrandbits(28):07x} {verb} {thing}"]
        for verb, thing in zip(chance.sample(VERBS, 6), chance.sample(THINGS, 6), strict=True)
    ]
    texts: list[str] = []
    while len(texts) < rounds:
        at = chance.randrange(1, 6)
        if chance.random() < 0.6:
            lines[at][0] = chance.choice(("pick", "squash", "fixup", "reword", "edit", "drop"))
        else:
            lines[at], lines[at - 1] = lines[at - 1], lines[at]
        text = "\n".join(" ".join(line) for line in lines)
        if text not in texts:
            texts.append(text)
    return Series("rebases", "", attended(chance, "Coder", texts, "The history does not read well yet."))


def resolutions(chance: random.Random, rounds: int) -> Series:
    """A resolver goes back from version to version of a package until nothing conflicts."""
    package = chance.choice(("numpy", "pydantic", "grpcio", "urllib3", "protobuf"))
    versions = [
        f"{major}.{minor}.{patch}" for major in (3, 2, 1) for minor in (9, 4, 1) for patch in (5, 2, 0)
    ]
    start = chance.randint(0, len(versions) - rounds)
    form = chance.choice(("Trying {0}=={1}.", "{0}=={1}", '{{"package": "{0}", "try": "{1}"}}'))
    texts = [form.format(package, version) for version in versions[start : start + rounds]]
    conflict = f"ResolutionImpossible: the requirements conflict with {package}."
    return Series("resolutions", "", paired("Resolver", texts, "Index", [conflict] * rounds))


def latencies(chance: random.Random, rounds: int) -> Series:
    """A benchmark after each optimisation: three figures in milliseconds, the rest stays."""
    middle = rising(chance, rounds, chance.uniform(80, 160), 20, 0.9)
    results = tuple(
        f"p50 {value:.1f} ms | p95 {value * 2.3:.1f} ms | p99 {value * 4.1:.1f} ms | errors 0.0%"
        for value in middle
    )
    said = chance.choice(("Optimised the hot path.", "Done. Please measure again.", "再测一次。"))
    if chance.random() < 0.5:
        return Series("latencies", "", solo("Engineer", [said] * rounds), results)
    return Series("latencies", "", paired("Engineer", [said] * rounds, "Bench", results))


def moved_functions(chance: random.Random, rounds: int) -> Series:
    """Functions move between three modules; their names stay."""
    functions = [f"{verb}_{thing}" for verb, thing in zip(VERBS[:12], chance.sample(THINGS, 12), strict=True)]
    modules = ("api", "core", "store")
    slots = [shuffled(chance, modules) for _ in functions]
    texts = []
    for state in approach(chance, slots, rounds):
        parts = [
            f"{module}.py: "
            + ", ".join(f for f, place in zip(functions, state, strict=True) if place == module)
            for module in modules
        ]
        texts.append("\n".join(parts))
    return Series(
        "moved_functions", "", attended(chance, "Architect", texts, "There is still an import cycle.")
    )


def logs(chance: random.Random, rounds: int) -> Series:
    """A long log is read; each round quotes the next entry of the same form."""
    second = chance.randint(0, 40000)
    texts = []
    for _ in range(rounds):
        second += chance.randint(1, 900)
        clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
        texts.append(
            f"{clock} worker-{chance.randint(1, 9)} ERROR timeout after {chance.choice((5, 30, 60))} s "
            f"on connection {chance.randint(1000, 9999)}"
        )
    return Series(
        "logs", "", heard(chance, "Analyst", texts, "Lead", "Not the cause. Read on.", "Look further.")
    )


def reproductions(chance: random.Random, rounds: int) -> Series:
    """A script that crashes is made smaller, one line less each time; it crashes all the same."""
    lines = CASE.split("\n")
    whole = [f"{number:2} {line}" for number, line in enumerate(lines, 1)]
    kept = whole if chance.random() < 0.3 else lines
    texts = ["\n".join(kept)]
    left = list(kept)
    while len(texts) < rounds:
        left.pop(chance.randrange(1, len(left)))
        texts.append("\n".join(left))
    crash = "ValueError: quantity must not be negative"
    if chance.random() < 0.5:
        return Series("reproductions", "", solo("Reducer", texts), (crash,) * rounds)
    return Series("reproductions", "", paired("Reducer", texts, "Runner", [f"Still fails. {crash}"] * rounds))


def releases(chance: random.Random, rounds: int) -> Series:
    """Version numbers go up, by a candidate, a patch or a minor release."""
    major, minor, patch, candidate = 1, chance.randint(0, 12), chance.randint(0, 5), 1
    form = chance.choice(
        (
            "v{} is tagged.",
            "Released {} to the staging channel; the smoke tests run.",
            "{}",
            '{{"tag": "{}", "state": "built"}}',
            "版本 {} 已发布。",
        )
    )
    texts = []
    for _ in range(rounds):
        step = chance.choice(("candidate", "candidate", "patch", "minor"))
        if step == "candidate":
            candidate += 1
        elif step == "patch":
            patch, candidate = patch + 1, 1
        else:
            minor, patch, candidate = minor + 1, 0, 1
        texts.append(form.format(f"{major}.{minor}.{patch}-rc.{candidate}"))
    return Series(
        "releases", "", heard(chance, "Release bot", texts, "QA", "Found a blocker.", "Next build.")
    )


def owners(chance: random.Random, rounds: int) -> Series:
    """A file of code owners: one path gets another owner."""
    paths = ("/api/", "/web/", "/docs/", "/tools/", "*.sql", "*.proto", "/deploy/", "/tests/", "/i18n/")
    slots = [[f"@{name.lower()}" for name in chance.sample(NAMES, 4)] for _ in paths]
    texts = [
        "\n".join(f"{path} {owner}" for path, owner in zip(paths, state, strict=True))
        for state in approach(chance, slots, rounds)
    ]
    return Series("owners", "", attended(chance, "Maintainer", texts, "Someone in the list has left."))


KINDS: tuple[Kind, ...] = (
    sql_migrations,
    terraform,
    dockerfiles,
    openapi,
    type_errors,
    growing_tests,
    rebases,
    resolutions,
    latencies,
    moved_functions,
    logs,
    reproductions,
    releases,
    owners,
)
