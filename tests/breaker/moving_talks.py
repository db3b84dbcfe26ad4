"""Live loops around talks: bargains, questions, interviews and support, often with an answer of one word."""

from __future__ import annotations

import json
import random

from tests.breaker.series import Round, Series
from tests.breaker.stock import (
    ADJECTIVES,
    CITIES,
    NAMES,
    THINGS,
    VERBS,
    Kind,
    heard,
    paired,
    rising,
    shuffled,
)


def bargains(chance: random.Random, rounds: int) -> Series:
    """Two prices come closer; the sentences stay."""
    thing = chance.choice(("van", "piano", "flat", "boat", "domain", "painting"))
    middle = chance.randint(40, 90) * 100
    asks = [middle + 20 * round(value) for value in rising(chance, rounds, 4 * rounds, 2)]
    bids = [middle - 20 * round(value) for value in rising(chance, rounds, 5 * rounds, 2)]
    forms = chance.choice(
        (
            ("I want {} for it.", "I offer {}."),
            (
                f"My price for the {thing} is {{}} euros, and that is final.",
                "That is too much. I can pay {} euros.",
            ),
            ("最低 {} 元。", "太贵了，{} 元。"),
            (f'{{{{"item": "{thing}", "ask": {{}}}}}}', '{{"bid": {}}}'),
        )
    )
    if chance.random() < 0.4:
        texts = [forms[0].format(ask) for ask in asks]
        return Series("bargains", "", paired("Seller", texts, "Buyer", ["Too expensive."] * rounds))
    made: list[Round] = [
        [("Seller", forms[0].format(ask)), ("Buyer", forms[1].format(bid))]
        for ask, bid in zip(asks, bids, strict=True)
    ]
    return Series("bargains", "", made)


def auctions(chance: random.Random, rounds: int) -> Series:
    """Bids go up; bidders take turns."""
    price, people, texts = chance.randint(5, 60) * 10, chance.sample(NAMES, 3), []
    for _ in range(rounds):
        price += chance.choice((5, 10, 20))
        texts.append(f"{chance.choice(people)} bids {price}.")
    return Series(
        "auctions", "", heard(chance, "Bidder", texts, "Auctioneer", "Who bids more?", "Going once.")
    )


def support(chance: random.Random, rounds: int) -> Series:
    """A helper asks one thing after another; the customer says yes, no, or that it does not help."""
    questions = [
        "Is the lamp at the front green?", "Did you restart the router?",
        "Which version is shown under About?", "Does the cable sit firmly?",
        "Do other devices work?", "When did it last work?",
        "Is the flight mode off?", "Can you open the page in another browser?",
        "Do you use a proxy?", "Is the clock of the device right?",
        "Does it happen at night too?", "Did you change the password lately?",
        "Is the disk full?", "Do you see an error number?",
        "Have you tried a guest account?", "Is the firewall on?",
        "Does a cable help instead of radio?", "Did you install an update this week?",
        "Is a second user affected?", "Can you send me the log file?",
        "What does the support page say?", "Is the battery charged?",
        "Does the light blink?", "Is the device warm?",
        "Did you try another socket?",
    ]  # fmt: skip
    chance.shuffle(questions)
    replies = chance.choice((["No."], ["Yes, but it still does not work."], ["Yes.", "No."], ["还是不行。"]))
    answers = [chance.choice(replies) for _ in range(rounds)]
    return Series("support", "", paired("Helper", questions[:rounds], "Customer", answers))


def forms_by_field(chance: random.Random, rounds: int) -> Series:
    """A form is filled in: the form is shown each time, with one more answer."""
    fields = [
        f"{adjective} {thing}" for adjective, thing in zip(shuffled(chance, ADJECTIVES), THINGS, strict=False)
    ]
    fields += [f"count of {thing}" for thing in THINGS[20:]]
    fields = fields[: max(rounds, chance.randint(8, 25))]
    values: dict[str, int | None] = dict.fromkeys(fields)
    texts = []
    for field in chance.sample(fields, rounds):
        values[field] = chance.randint(1, 9)
        texts.append(json.dumps(values))
    return Series("forms_by_field", "", paired("Clerk", texts, "Checker", ["Fields are missing."] * rounds))


def interviews(chance: random.Random, rounds: int) -> Series:
    """Questions in the same words about another thing."""
    topics = chance.sample([f"{verb} {thing}" for verb in VERBS for thing in THINGS], rounds)
    form = chance.choice(
        (
            "Tell me about a time when you had to {} under pressure.",
            "How would you {} for a million users?",
            "Next question: how do you {}?",
            "请谈谈您如何 {}。",
        )
    )
    texts = [form.format(topic) for topic in topics]
    if chance.random() < 0.5:
        return Series(
            "interviews",
            "",
            heard(chance, "Interviewer", texts, "Secretary", "Noted.", "Next question, please."),
        )
    replies = [f"I would start small: {topic} by hand once, then measure." for topic in topics]
    return Series("interviews", "", paired("Interviewer", texts, "Candidate", replies))


def triage(chance: random.Random, rounds: int) -> Series:
    """Tickets get a label and an owner, in the same form."""
    owners, texts = chance.sample(NAMES, 3), []
    for number in chance.sample(range(100, 999), rounds):
        label, level = chance.choice(("bug", "question", "feature")), chance.choice(("low", "medium", "high"))
        texts.append(f"#{number}: {label}, priority {level}, assigned to {chance.choice(owners)}.")
    return Series("triage", "", heard(chance, "Triage", texts, "Lead", "Next ticket.", "OK."))


def incidents(chance: random.Random, rounds: int) -> Series:
    """The timeline of an incident grows; the state stays “open”."""
    events = [
        f"{name} starts to {verb} the {thing}"
        for name, verb, thing in zip(NAMES, VERBS * 2, THINGS, strict=False)
    ]
    chance.shuffle(events)
    minute, lines, texts = chance.randint(0, 500), [], []
    whole = chance.random() < 0.6
    for event in events[:rounds]:
        minute += chance.randint(1, 15)
        lines.append(f"{minute // 60:02}:{minute % 60:02} {event}")
        texts.append("Status: open\n" + ("\n".join(lines) if whole else lines[-1]))
    return Series(
        "incidents", "", heard(chance, "Scribe", texts, "Commander", "Not resolved.", "Still degraded.")
    )


def twenty_questions(chance: random.Random, rounds: int) -> Series:
    """Short questions of one pattern, answers of one word."""
    words = chance.sample([*ADJECTIVES, *(thing[:-1] for thing in THINGS)], rounds)
    form = chance.choice(("Is it {}?", "Has it to do with “{}”?", "它和 {} 有关吗？"))
    answers = [chance.choice(("No.", "No.", "Yes.")) for _ in range(rounds)]
    return Series(
        "twenty_questions", "", paired("Guesser", [form.format(word) for word in words], "Keeper", answers)
    )


def applicants(chance: random.Random, rounds: int) -> Series:
    """One person after another is invited, with the same words."""
    people = [
        f"{name} from {city}"
        for name, city in zip(shuffled(chance, NAMES), shuffled(chance, CITIES), strict=False)
    ]
    form = chance.choice(
        (
            "I called {}. No answer, so I left a message.",
            "Invitation sent to {}. I go on with the next one on the list.",
            "已联系 {}，等待回复。",
        )
    )
    texts = [form.format(person) for person in people[:rounds]]
    return Series(
        "applicants", "", heard(chance, "Recruiter", texts, "Manager", "Next one, please.", "好，下一位。")
    )


def fact_checks(chance: random.Random, rounds: int) -> Series:
    """Claims of an article are checked one by one; three voices, two of which say the same."""
    made: list[Round] = [
        [
            ("Checker", f"The claim about {city} holds: {chance.randint(2, 90)} sources agree."),
            ("Editor", "Fine. Check the next claim."),
            ("Publisher", '{"ready": false}'),
        ]
        for city in chance.sample(CITIES, rounds)
    ]
    return Series("fact_checks", "", made)


def tutoring(chance: random.Random, rounds: int) -> Series:
    """Small sums, right or wrong."""
    sign = chance.choice(("+", "×", "−"))
    made: list[Round] = []
    for left in chance.sample(range(11, 99), rounds):
        right = chance.randint(2, 9)
        answer = {"+": left + right, "×": left * right, "−": left - right}[sign]
        made.append(
            [
                ("Teacher", f"What is {left} {sign} {right}?"),
                ("Pupil", str(answer + chance.choice((0, 0, 1)))),
            ]
        )
    return Series("tutoring", "", made)


def chinese_tests(chance: random.Random, rounds: int) -> Series:
    """A Chinese team fixes one case after another; the count hardly moves."""
    parts = (
        "登录",
        "注册",
        "支付",
        "退款",
        "搜索",
        "导出",
        "导入",
        "分页",
        "排序",
        "缓存",
        "日志",
        "权限",
        "通知",
        "头像",
        "地址",
    )
    sides = ("空值", "超时", "重复", "边界")
    cases = [f"{part}{side}" for part in parts for side in sides]
    left = chance.randint(1, 3)
    texts = [f"已修复“{case}”的问题，请重新测试。" for case in chance.sample(cases, rounds)]
    return Series("chinese_tests", "", paired("开发", texts, "测试", [f"还有 {left} 个用例失败。"] * rounds))


KINDS: tuple[Kind, ...] = (
    bargains,
    auctions,
    support,
    forms_by_field,
    interviews,
    triage,
    incidents,
    twenty_questions,
    applicants,
    fact_checks,
    tutoring,
    chinese_tests,
)
