"""Live loops around texts: a draft grows, shrinks or gets better, and most of it stays as it is."""

from __future__ import annotations

import random

from tests.breaker.series import Series
from tests.breaker.stock import (
    ADJECTIVES,
    CITIES,
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
    variations,
)

# Each bracket lists the words that a writer tries in this place, from the first to the last.
PARAGRAPHS = [
    " ".join(text.split())
    for text in (
        """The [old|ancient|weathered|grey] harbour [lay|slept|rested|waited] below the
        [town|village|cliffs|terraces]. Every [morning|dawn|day] the fishermen [went|rowed|sailed|drifted]
        out before [light|sunrise|the first bell], and every [night|evening|dusk] they
        [came|returned|hurried] home with [little|half a net|almost nothing]. Nobody
        [complained|grumbled|spoke of it], for the [sea|water|tide] had [fed|kept|carried] them for
        centuries.""",
        """Our [tool|product|service|platform] helps [people|teams|small teams|clinics]
        [plan|organise|arrange|schedule] their [work|shifts|rosters|night shifts] [well|better|in
        minutes|without phone calls]. It [reads|imports|takes] the [wishes|preferences|requests] of
        everyone, [finds|proposes|computes] a [fair|balanced|just] plan, and [tells|informs|notifies] those
        whose [hours|days|weekends] change.""",
        """We [think|believe|argue|show] that [cheap|simple|small|low-cost] sensors [can|could|suffice to]
        [detect|find|locate] [leaks|faults|losses] in [pipes|networks|water mains]. In a [test|trial|field
        study] with [ten|forty|two hundred] [homes|houses|households], the [method|approach|procedure]
        [found|detected|revealed] [most|nearly all|nine of ten] of the [cases|leaks|incidents] within [a
        week|two days|a day].""",
        """Dear [all|team|colleagues|friends], the [office|building|branch] will be [closed|shut|unavailable]
        on [Monday|Tuesday|Friday] because of [work|repairs|maintenance] on the [roof|lifts|power
        supply|heating]. Please [work|stay|plan to work] [elsewhere|from home|remotely], and
        [take|remove|collect] your [things|plants|laptops] [before|by] [noon|four|the evening].
        [Thanks|Thank you|Many thanks] for your [help|patience|understanding].""",
    )
]
CHINESE = (
    "[清晨|黎明|拂晓]，[老人|渔夫|船夫]推开[木门|院门|旧门]，[看见|望见|瞧见][江面|河面|湖面]上[飘着|浮着|笼着]"
    "一层[薄雾|白雾|轻雾]。[他|老渔夫][慢慢|缓缓|静静]地[走|踱|行]到[岸边|码头|柳树下]，[解开|松开|拉起]"
    "[绳子|缆绳|船缆]，[心里|胸中][想着|念着|惦记着][远方|城里|海外]的[儿子|女儿|孙子]。",
    "本[系统|平台|服务][支持|提供|实现]对[订单|账单|合同]的[检查|审核|核对]。当[数据|字段|金额][错误|异常|不一致]时，"
    "[程序|系统后台|任务]会[通知|提醒|告知][用户|管理员|负责人]，并[记录|保存|写入][原因|日志|说明]。"
    "请在[三天|五天|一周]内[处理|修正|确认]。",
)
FILLERS = (
    "really", "very", "in fact", "as everybody knows", "more or less", "so to speak", "actually", "basically",
    "by and large", "to be honest", "of course", "perhaps", "quite", "rather", "somehow", "at this point",
    "needless to say", "for the most part", "in a way", "literally", "simply", "just", "as it were",
    "clearly", "generally", "it seems", "to some extent",
)  # fmt: skip
LINES = (
    "There once was a {0} {1} in {2}",
    "and {3} went singing from {2} to the sea,",
    "O {0} {1}, who left you by the road?",
    "the {1} of {3} are {0} tonight,",
    "In {2} the rain is {0}, and {3} keeps the {1}",
)


def _tried(chance: random.Random, template: str, rounds: int) -> list[str]:
    return variations(chance, template, rounds, marks="[]")


def polishing(chance: random.Random, rounds: int) -> Series:
    """A writer tries another word in one place each time."""
    texts = _tried(chance, chance.choice(PARAGRAPHS), rounds)
    replies = (
        "Better, but polish it once more.",
        "The wording is not right yet.",
        "One word still bothers me.",
    )
    return Series("polishing", "", attended(chance, "Writer", texts, *replies))


def polishing_in_chinese(chance: random.Random, rounds: int) -> Series:
    texts = _tried(chance, chance.choice(CHINESE), rounds)
    return Series(
        "polishing_in_chinese", "", attended(chance, "作者", texts, "还不够好，请再改。", "继续润色。")
    )


def polishing_and_explaining(chance: random.Random, rounds: int) -> Series:
    """The writer sends the whole text, the editor names the place, a manager says the same each time."""
    texts = _tried(chance, chance.choice(PARAGRAPHS), rounds)
    made = []
    for before, after in zip([texts[0], *texts], texts, strict=False):
        old = next(
            (a for a, b in zip(before.split(), after.split(), strict=False) if a != b), before.split()[0]
        )
        remark = f"I replaced a word near “{old.strip('.,')}”."
        made.append([("Writer", after), ("Editor", remark), ("Publisher", "Not ready to print.")])
    return Series("polishing_and_explaining", "", made)


def outlines(chance: random.Random, rounds: int) -> Series:
    """The outline of an essay grows by a line each time."""
    topics = [f"{adjective} {thing}" for adjective, thing in zip(ADJECTIVES, THINGS, strict=False)]
    lines, texts = [f"Title: On {chance.choice(CITIES)} and its {chance.choice(THINGS)}"], []
    points = shuffled(chance, topics) + [
        f"the {thing} of {city}" for thing, city in zip(THINGS, CITIES, strict=True)
    ]
    for number in range(rounds):
        mark = f"{number // 4 + 1}." if number % 4 == 0 else "   -"
        lines.append(f"{mark} {chance.choice(('Why', 'How', 'When'))} {points[number]} matter")
        texts.append("\n".join(lines))
    return Series("outlines", "", attended(chance, "Writer", texts, "Too short.", "Add another point."))


def shortening(chance: random.Random, rounds: int) -> Series:
    """A text loses one filler each time until it fits a limit."""
    words = _tried(chance, chance.choice(PARAGRAPHS), 2)[-1].split()
    fillers = shuffled(chance, FILLERS)[: rounds + 2]
    for filler in fillers:
        words.insert(chance.randrange(1, len(words)), filler)
    texts = []
    for filler in fillers[:rounds]:
        words.remove(filler)
        texts.append(" ".join(words))
    if chance.random() < 0.5:
        counts = [f"{len(text.split())} words, the limit is 40." for text in texts]
        return Series("shortening", "", paired("Writer", texts, "Counter", counts))
    return Series("shortening", "", attended(chance, "Writer", texts, "Too long.", "Still too long."))


def translations(chance: random.Random, rounds: int) -> Series:
    """A Chinese translation is corrected word by word; the source is repeated each time."""
    sources = (
        ("The meeting was moved to Friday because the manager is travelling.",
         "[会议|这次会议|本次会议|例会][搬到|移到|改到|推迟到][周五|星期五|本周五]，[因为|由于][管理人|经理|主管]"
         "[在旅行|在出行|出差|正在出差][了|中|期间]，[请|烦请|敬请][知道|了解|知悉][。|，谢谢。|，多谢。]"
         "[祝好|此致|顺颂商祺][王|小王|王敏]"),
        ("Keep the device dry and do not open its cover.",
         "[保持|请保持|务必保持|使][装置|设备|仪器|机器][干|干燥|干爽]，[不要|请勿|切勿|严禁][开|打开|拆开|开启]"
         "[它的|其|该][盖|盖子|外壳|机壳]，[不然|否则|以免][坏|损坏|受损]，[有问题|如有问题|若有疑问]"
         "[找|联系|请联系][我们|客服|售后][吧|。|，谢谢。]"),
    )  # fmt: skip
    source, template = chance.choice(sources)
    texts = [f"Source: {source}\nTranslation: {text}" for text in _tried(chance, template, rounds)]
    replies = ("The translation is not idiomatic yet.", "One word is still wrong.", "译文仍不自然。")
    return Series("translations", "", attended(chance, "Translator", texts, *replies))


def poems(chance: random.Random, rounds: int) -> Series:
    """A poem grows line by line; only the new line is sent, or all of it."""
    nouns, places = shuffled(chance, THINGS), shuffled(chance, CITIES)
    lines = [
        chance.choice(LINES).format(chance.choice(ADJECTIVES), noun, place, chance.choice(NAMES))
        for noun, place in zip(nouns, places, strict=True)
    ]
    whole = chance.random() < 0.5
    texts = ["\n".join(lines[: number + 1]) if whole else lines[number] for number in range(rounds)]
    return Series("poems", "", heard(chance, "Poet", texts, "Reader", "One more line.", "Lovely. Go on."))


def letters(chance: random.Random, rounds: int) -> Series:
    """The draft of a mail: names, dates, places and times are corrected."""
    days = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
    slots = [
        chance.sample(NAMES, 4),
        shuffled(chance, days),
        [f"{day} May" for day in chance.sample(range(1, 31), 4)],
        [f"{hour}:{minute}" for hour, minute in ((9, "00"), (9, "30"), (14, "00"), (14, "15"), (16, "45"))],
        chance.sample(CITIES, 4),
        [str(number) for number in chance.sample(range(2, 40), 4)],
        chance.sample(NAMES, 4),
    ]
    form = chance.choice(
        (
            "Dear {0},\n\nthank you for the call. We meet on {1}, {2}, at {3} in {4}. "
            "Please bring {5} copies of the contract.\n\nKind regards\n{6}",
            "Hi {0}, the workshop is on {1} ({2}) at {3}, hotel Central, {4}, for {5} people. Ask {6}.",
            "{0}，您好！会议定于 {2}（{1}）{3} 在 {4} 举行，共 {5} 人参加。联系人：{6}。",
        )
    )
    texts = [form.format(*state) for state in approach(chance, slots, rounds)]
    replies = ("One detail is still wrong, see the calendar.", "Not correct yet.", "信息还有一处不对。")
    return Series("letters", "", attended(chance, "Assistant", texts, *replies))


def glossaries(chance: random.Random, rounds: int) -> Series:
    """A glossary in three languages gets an entry per round, shown alone or with all others."""
    entries = [
        "invoice – Rechnung – 发票", "order – Bestellung – 订单", "parcel – Paket – 包裹",
        "refund – Erstattung – 退款", "stock – Lagerbestand – 库存", "supplier – Lieferant – 供应商",
        "discount – Rabatt – 折扣", "tax – Steuer – 税", "contract – Vertrag – 合同",
        "delivery – Lieferung – 交货", "customs – Zoll – 海关", "warranty – Garantie – 保修",
        "payment – Zahlung – 付款", "receipt – Quittung – 收据", "offer – Angebot – 报价",
        "account – Konto – 账户", "deadline – Frist – 期限", "penalty – Strafe – 罚款",
        "freight – Fracht – 运费", "insurance – Versicherung – 保险", "branch – Filiale – 分公司",
        "budget – Haushalt – 预算", "profit – Gewinn – 利润", "loss – Verlust – 亏损",
        "currency – Währung – 货币",
    ]  # fmt: skip
    chance.shuffle(entries)
    whole = chance.random() < 0.5
    texts = ["\n".join(entries[: number + 1]) if whole else entries[number] for number in range(rounds)]
    return Series(
        "glossaries", "", heard(chance, "Terminologist", texts, "Lead", "Weiter, bitte.", "下一个。", "Next.")
    )


def brand_names(chance: random.Random, rounds: int) -> Series:
    """Ideas for a name, all of them refused."""
    heads = ("Nova", "Luma", "Brio", "Vela", "Tero", "Quanta", "Mira", "Sol", "Arbo", "Kora")
    tails = ("ly", "via", "desk", "mint", "flow", "nest", "pad", "lane")
    ideas = chance.sample([head + tail for head in heads for tail in tails], rounds)
    form = chance.choice(
        ("{}", "How about “{}”?", "Next idea: {}. Short, and easy to say in many languages.")
    )
    texts = [form.format(idea) for idea in ideas]
    return Series(
        "brand_names", "", heard(chance, "Namer", texts, "Founder", "Taken.", "No.", "I do not like it.")
    )


def checklists(chance: random.Random, rounds: int) -> Series:
    """Boxes are ticked one by one; no word changes."""
    tasks = [f"{verb} the {thing}" for verb in VERBS for thing in chance.sample(THINGS, 2)]
    tasks = chance.sample(tasks, rounds + chance.randint(1, 4))
    order = chance.sample(range(len(tasks)), rounds)
    texts = []
    for number in range(rounds):
        done = set(order[: number + 1])
        texts.append("\n".join(f"- [{'x' if at in done else ' '}] {task}" for at, task in enumerate(tasks)))
    return Series("checklists", "", heard(chance, "Worker", texts, "Foreman", "Not all boxes are ticked."))


def clauses(chance: random.Random, rounds: int) -> Series:
    """Two lawyers change periods, sums and a “not” in a contract."""
    slots = [
        [f"{days} days" for days in (7, 10, 14, 21, 30)],
        ["may", "may not", "shall", "shall not", "must"],
        [f"{sum_} euros" for sum_ in range(chance.randint(1, 5) * 1000, 20000, 2500)][:5],
        ["before", "after", "until", "within one week of"],
        [f"{share} per cent" for share in (2, 3, 5, 8, 10)],
        ["written", "electronic", "oral", "signed"],
        ["buyer", "seller", "carrier", "insurer"],
    ]
    form = (
        "The {6} {1} withdraw within {0}. A {5} notice is required {3} delivery. "
        "The penalty is {4} of the price, at most {2}."
    )
    texts = [form.format(*state) for state in approach(chance, slots, rounds)]
    if chance.random() < 0.5:
        return Series("clauses", "", attended(chance, "Lawyer", texts, "My client does not agree."))
    pairs = [[("Lawyer A" if number % 2 else "Lawyer B", text)] for number, text in enumerate(texts)]
    return Series("clauses", "", pairs)


def answers(chance: random.Random, rounds: int) -> Series:
    """A list of questions and answers is written one entry at a time, in the same words."""
    form = chance.choice(
        (
            "Q: Can I {0} {1} myself?\nA: Yes. Open the menu, choose “{1}”, and press “{0}”.",
            "Q: Where do I {0} {1}?\nA: On the page “{1}”, with the button “{0}”.",
        )
    )
    pairs = chance.sample([(verb, thing) for verb in VERBS for thing in THINGS], rounds)
    texts = [form.format(*pair) for pair in pairs]
    return Series("answers", "", heard(chance, "Writer", texts, "Editor", "Good. Next entry.", "Next."))


def summaries(chance: random.Random, rounds: int) -> Series:
    """A summary is corrected while its score hardly moves."""
    texts = _tried(chance, chance.choice(PARAGRAPHS), rounds)
    scores = [
        f"Score {score:.1f} of 10. Below 9, so revise." for score in rising(chance, rounds, 6.8, 7.6, 2.0)
    ]
    return Series("summaries", "", paired("Writer", texts, "Judge", scores))


def headlines(chance: random.Random, rounds: int) -> Series:
    """Very short texts: one of five words changes."""
    slots = [
        chance.sample(CITIES, 6),
        ["opens", "builds", "plans", "wants", "gets", "loses"],
        ["first", "second", "new", "last", "oldest", "largest"],
        ["bridge", "museum", "market", "station", "theatre", "bakery"],
        ["today", "tomorrow", "next week", "in May", "at last", "again"],
    ]
    texts = [" ".join(state) for state in approach(chance, slots, rounds)]
    return Series(
        "headlines", "", heard(chance, "Editor", texts, "Chief", "Not catchy.", "Another one, please.")
    )


KINDS: tuple[Kind, ...] = (
    polishing,
    polishing_in_chinese,
    polishing_and_explaining,
    outlines,
    shortening,
    translations,
    poems,
    letters,
    glossaries,
    brand_names,
    checklists,
    clauses,
    answers,
    summaries,
    headlines,
)
