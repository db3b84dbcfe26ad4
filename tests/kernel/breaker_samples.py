"""Messages of loops: series that make progress, and series that repeat themselves.

The breaker has to stay quiet on all of `LIVELY` and to trip on all of `DEAD`. Those of `VARIED` lock a loop
that only its cap bounds, much later.
"""

from __future__ import annotations

import json
from itertools import cycle, islice


def drafts(first: list[str], *changes: dict[int, str]) -> list[str]:
    """A text and its revisions: which sentences are said anew."""
    series, sentences = [" ".join(first)], list(first)
    for change in changes:
        for place, sentence in change.items():
            sentences[place : place + 1] = [sentence]
        series.append(" ".join(sentences))
    return series


def programs(first: str, *changes: tuple[str, str]) -> list[str]:
    """A program and its revisions: what is replaced by what."""
    series = [first]
    for old, new in changes:
        assert old in series[-1], old
        series.append(series[-1].replace(old, new))
    return series


TEA = [
    "Our new green tea is picked by hand in the first week of spring.",
    "It tastes of fresh grass and a little of honey.",
    "Every tin comes from one garden, and its name stands on the label.",
    "Try it this month and get a second tin for half the price.",
]
LETTER = [
    "Dear neighbours, we want to open a small workshop for bicycles in the old bakery.",
    "It will be open on Tuesdays and Saturdays, and whoever comes may use the tools for free.",
    "We ask for your help with shelves, lamps and a good deal of patience.",
    "The first meeting is on Friday at six, and there will be soup.",
]
STORY = [
    "The lighthouse keeper had not spoken to anybody since the ferry stopped running.",
    "He counted ships in a school notebook, and on Sundays he added them up.",
    "One evening a light answered his from the far side of the bay.",
    "It blinked twice, waited, and blinked twice again.",
    "He took the oars down from the wall.",
]
REPORT = [
    "The outage began at nine, when a certificate of the payment gateway ran out.",
    "Alarms went to a mailbox that nobody reads any more.",
    "Customers saw an empty basket and called the shops.",
    "At half past ten the certificate was renewed by hand.",
    "We will renew certificates by a job and watch the job itself.",
]
ABSTRACT = [
    "We study how cycles in dialogue systems come to an end.",
    "A corpus of four thousand conversations was labelled by two annotators.",
    "Most loops end because a participant loses interest, not because a goal is met.",
    "We propose a measure that needs neither a model nor training data.",
]
SERVER = """\
import socket

HOST, PORT = "127.0.0.1", 8080


def handle(connection):
    data = connection.recv(1024)
    connection.sendall(data)


def serve():
    server = socket.socket()
    server.bind((HOST, PORT))
    server.listen()
    while True:
        connection, _ = server.accept()
        handle(connection)


serve()
"""
QUERY = """\
SELECT customers.name, SUM(orders.total) AS turnover
FROM customers
JOIN orders ON orders.customer_id = customers.id
WHERE orders.created_at >= '2026-01-01'
GROUP BY customers.name
ORDER BY turnover DESC;
"""
LIBRARY = "\n\n".join(
    f'def {name}(values):\n    """{text}"""\n    {body}\n'
    for name, text, body in (
        ("total", "The sum of all values.", "return sum(values)"),
        ("mean", "The arithmetic mean; an empty list has none.", "return sum(values) / len(values)"),
        ("median", "The value in the middle.", "return sorted(values)[len(values) // 2]"),
        ("spread", "How far apart the smallest and the largest are.", "return max(values) - min(values)"),
        ("clamp", "Nothing below zero, nothing above one.", "return [min(1, max(0, v)) for v in values]"),
        ("ranks", "The place of each value in order.", "return [sorted(values).index(v) for v in values]"),
        ("unique", "Each value once, in order of first sight.", "return list(dict.fromkeys(values))"),
        ("pairs", "Neighbours, two by two.", "return list(zip(values, values[1:]))"),
        ("halves", "The first and the second half.", "m = len(values) // 2; return values[:m], values[m:]"),
        ("counts", "How often each value is there.", "return {v: values.count(v) for v in values}"),
    )
)

LIVELY: dict[str, list[str]] = {
    "an advertisement under revision": drafts(
        TEA,
        {1: "In the cup it is bright, with a taste of young grass and acacia honey."},
        {0: "Before sunrise, while the dew is still there, forty people climb our slope to pick green tea."},
        {3: "Come by this month: whoever buys one tin takes the second home for half."},
        {2: "No blends here. One garden fills each tin, and the family that tends it signs the label."},
        {
            1: "Pour it at eighty degrees, and it gives you meadow first, honey after.",
            3: "Offer ends in May.",
        },
        {0: "Spring lasts eight days on our slope; that is when this tea is made."},
    ),
    "a letter under revision": drafts(
        LETTER,
        {1: "Tuesday evenings are for repairs, Saturdays for children who want to learn how."},
        {2: "What is missing are shelves, two bright lamps, and somebody who knows about gears."},
        {3: "Come on Friday at six; Marta cooks soup, and the landlord will answer questions."},
        {0: "Dear neighbours, the bakery on the corner has stood empty for three years, and we have a plan."},
        {2: "If you own a truing stand that gathers dust, we would love to borrow it."},
    ),
    "a story under revision": drafts(
        STORY,
        {4: "He lifted the oars from their hooks and found that his hands were shaking."},
        {1: "Ships went into a school notebook, one stroke each; Sundays were for sums."},
        {0: "Since the ferry stopped, the keeper of the lighthouse had talked only to gulls."},
        {2: "Then, on the last night of October, somebody across the bay lit a lamp and covered it."},
        {3: "Two short flashes, darkness, two short flashes: not a buoy, a person."},
        {4: "By midnight he was rowing."},
    ),
    "a report under revision": drafts(
        REPORT,
        {1: "Three warnings had been sent, all of them to the address of a colleague who left in March."},
        {2: "For ninety minutes baskets looked empty, and 412 people telephoned."},
        {4: "From now on a scheduled task renews certificates, and a second one watches the first."},
        {0: "At 9:02 the certificate of the payment gateway expired, and every checkout failed."},
        {3: "Operations found the cause at 10:10 and replaced the certificate twenty minutes later."},
    ),
    "an abstract under revision": drafts(
        ABSTRACT,
        {3: "A measure by compression predicts the end two turns ahead, without any training."},
        {0: "Why do conversations between programs so often fail to stop?"},
        {1: "Two annotators marked 4,000 dialogues from five collections, and mostly agreed."},
        {2: "Contrary to what designers assume, goals end few of the loops; boredom of one side ends most."},
        {3: "Compressed size turns out to be a cheap early sign, and we release code and labels."},
    ),
    "a server that is written step by step": programs(
        SERVER,
        ("while True:", "while not stopping.is_set():"),
        ("import socket\n", "import socket\nimport threading\n\nstopping = threading.Event()\n"),
        (
            "        handle(connection)\n",
            "        threading.Thread(target=handle, args=(connection,)).start()\n",
        ),
        (
            "    data = connection.recv(1024)\n    connection.sendall(data)\n",
            "    with connection:\n        while data := connection.recv(1024):\n"
            "            connection.sendall(data)\n",
        ),
        ("    server.listen()\n", "    server.settimeout(1.0)\n    server.listen(backlog)\n"),
        ("def serve():", "def serve(backlog: int = 64) -> None:\n    # Closed when the process ends."),
    ),
    "a query that is made better": programs(
        QUERY,
        ("SUM(orders.total)", "COALESCE(SUM(orders.total - orders.discount), 0)"),
        ("JOIN orders ON", "LEFT JOIN orders ON"),
        ("WHERE orders.created_at >= '2026-01-01'\n", "  AND orders.status NOT IN ('cancelled', 'draft')\n"),
        ("ORDER BY turnover DESC;", "HAVING COUNT(orders.id) > 2\nORDER BY turnover DESC\nLIMIT 50;"),
        ("GROUP BY customers.name", "GROUP BY customers.id, customers.name, customers.region"),
        ("FROM customers", "FROM (SELECT * FROM customers WHERE deleted_at IS NULL) AS customers"),
    ),
    "small fixes to a long file": programs(
        LIBRARY,
        ("return sum(values) / len(values)", "return sum(values) / len(values) if values else float('nan')"),
        (
            "return sorted(values)[len(values) // 2]",
            "middle = sorted(values)\n    half = len(middle) // 2\n"
            "    return (middle[half] + middle[~half]) / 2",
        ),
        (
            "return [sorted(values).index(v) for v in values]",
            "place = {v: i for i, v in enumerate(sorted(values))}\n    return [place[v] for v in values]",
        ),
        ("return {v: values.count(v) for v in values}", "return dict(collections.Counter(values))"),
        ("return list(zip(values, values[1:]))", "return list(itertools.pairwise(values))"),
        (
            '"""How far apart the smallest and the largest are."""',
            '"""How far apart the extremes are; ValueError if there is nothing to compare."""',
        ),
    ),
    "diffs": [
        "--- a/cart.py\n+++ b/cart.py\n@@ -10,3 +10,4 @@\n def total(self):\n-    return sum(self.items)\n"
        "+    return sum(item.price for item in self.items)",
        "--- a/cart.py\n+++ b/cart.py\n@@ -2,2 +2,3 @@\n class Cart:\n+    currency = 'EUR'\n"
        "     items: list[Item]",
        "--- a/item.py\n+++ b/item.py\n@@ -5,2 +5,6 @@\n+    def __post_init__(self):\n"
        "+        if self.price < 0:\n+            raise ValueError('negative price')",
        "--- a/tests/test_cart.py\n+++ b/tests/test_cart.py\n@@ -1,0 +1,5 @@\n+def test_an_empty_cart():\n"
        "+    assert Cart([]).total() == 0",
        "--- a/README.md\n+++ b/README.md\n@@ -20,1 +20,2 @@\n-Prices are floats.\n"
        "+Prices are decimals with two places.\n+See `item.py`.",
        "--- a/item.py\n+++ b/item.py\n@@ -1,3 +1,3 @@\n-from dataclasses import dataclass\n"
        "+from decimal import Decimal\n+from attrs import frozen",
    ],
    "commit messages": [
        "Fix the rounding of discounts in the cart",
        "Add a test for carts without items",
        "Move the parser of dates into a module of its own",
        "Let the importer skip lines that hold only commas",
        "Document how to run the importer in a container",
        "Drop support for the old invoice layout",
        "Speed up search by an index on the customer's town",
    ],
    "states of a job as JSON": [
        json.dumps(state)
        for state in (
            {"step": "read sources", "found": ["orders.csv", "returns.csv"], "problem": None},
            {"step": "check columns", "missing": "currency", "asked": "should EUR be assumed?"},
            {"step": "convert", "rows": 1822, "note": "two dates were written as text"},
            {"step": "join returns", "matched": 310, "orphans": ["R-77", "R-81"], "plan": "list by hand"},
            {"step": "aggregate", "by": "week and shop", "outlier": "Leeds, week nine"},
            {"step": "explain outlier", "cause": "a school bought forty desks", "keep": True},
            {"step": "write report", "pages": 4, "charts": ["turnover", "returns by reason"]},
        )
    ],
    "decisions as JSON": [
        json.dumps(answer)
        for answer in (
            {"action": "search", "query": "ferry timetable Oban winter"},
            {"action": "open", "url": "https://ferries.example/oban", "why": "official operator"},
            {"action": "note", "text": "Sunday boat leaves at 10:15, not in storms"},
            {"action": "search", "query": "bus from Oban pier to Glasgow on Sunday"},
            {"action": "ask", "question": "Is a night in Oban acceptable?"},
            {"action": "book", "what": "guest house near the pier", "nights": 1},
        )
    ],
    "records as JSON with a common shape": [
        json.dumps({"name": name, "town": town, "skills": skills, "verdict": verdict})
        for name, town, skills, verdict in (
            ("Ines", "Porto", ["welding", "first aid"], "invite at once"),
            ("Tom", "Hull", ["book-keeping"], "ask about night shifts"),
            ("Aiko", "Sendai", ["translation", "archives"], "strong letter, weak dates"),
            ("Piet", "Gent", ["cranes"], "licence has run out"),
            ("Sara", "Lund", ["nursing", "Arabic"], "wants part time only"),
            ("Olu", "Jos", ["solar roofs", "teaching"], "best of the batch"),
        )
    ],
    "reviews with scores": [
        "Score: 4/10. The opening promises a story and then lists features; nobody will read on.",
        "Score: 5/10. Better start, but the second paragraph explains what the first has shown.",
        "Score: 6/10. Tight now. What is missing is a reason to act today.",
        "Score: 7/10. The offer helps; its deadline contradicts the footer, though.",
        "Score: 8/10. Dates agree. I would cut the adjectives around the garden.",
        "Score: 9/10. Clean and warm. One typo left: 'acccacia'.",
    ],
    "reviews in verdict and list form": [
        "VERDICT: REVISE\n- Name the audience.\n- Section two repeats the abstract.",
        "VERDICT: REVISE\n- Figure three has no axis labels.\n- Cite the survey by Okafor.",
        "VERDICT: REVISE\n- The limits of the corpus deserve a paragraph.\n- Shorten the title.",
        "VERDICT: REVISE\n- Table one mixes percent and counts.\n- Avoid 'clearly'.",
        "VERDICT: REVISE\n- Only language now: tenses in section four drift.",
        "VERDICT: ACCEPT\nThank you for the careful work.",
    ],
    "code review": [
        "`parse` catches every exception; please name the two that can happen.",
        "Now an empty file raises StopIteration, which the caller does not expect.",
        "Works. Could the column names be a constant? They are written out three times.",
        "The constant is fine, but tests still use the old spelling of `recieved`.",
        "One last thing: reading with the platform's encoding fails on Windows.",
        "Looks good to me, merge it after the release branch is cut.",
    ],
    "short answers": ["yes", "no", "maybe later", "ask Tom", "Tuesday", "too expensive", "fine", "blue"],
    "a guessing game": [
        "Is it alive?",
        "Is it larger than a house?",
        "Can you eat it?",
        "Is it made of metal?",
        "Would I find it in a kitchen?",
        "Does it have a handle?",
        "Is it a kettle?",
    ],
    "numbers as answers": ["50", "75", "62", "68", "71", "69", "70"],
    "names as answers": ["Paris", "Lima", "Oslo", "Cairo", "Quito", "Hanoi", "Accra"],
    "moves of a game": ["e4", "Nf3", "Bb5", "O-O", "Re1", "d4", "Nc3", "exd5"],
    "stages of a search": [
        "The error says 'connection reset', so I will look at the proxy's log first.",
        "The proxy never saw the request. Something between the client and it closes the socket.",
        "A capture shows a reset from our own side after exactly sixty seconds.",
        "Sixty seconds is the keep-alive of the pool; the server's is fifty-nine.",
        "Lowering the pool's value to fifty makes the error vanish in a thousand tries.",
        "I have written that into the settings and added a comment that explains why.",
    ],
    "a debate": [
        "Cities should ban cars from their centres, because streets are for people who live there.",
        "People who live there also need plumbers, and plumbers come with vans.",
        "Vans may enter until ten, as they do in Ghent; nobody there lacks a plumber.",
        "Ghent has a ring road and a tram. Where neither exists, shops moved to the outskirts.",
        "Shops moved before any ban; parking never saved a bookshop from the web.",
        "Then we agree that trade is not the point. What of the old, who cannot walk far?",
        "Taxis and small electric buses take them to the door, which a jammed street does not.",
    ],
    "a lesson": [
        "Let us start with fractions: what is a half of a third?",
        "Good. Now draw a rectangle and cut it so that this becomes visible.",
        "Exactly, six equal parts. Which operation have you used without noticing?",
        "Multiplication, right: numerators together, denominators together.",
        "Try two thirds of three quarters, and shorten the result if you can.",
        "One half, well done. Tomorrow we divide, which is the same thing upside down.",
    ],
    "an interview": [
        "How did you come to repair clocks?",
        "And who taught you to make the missing wheels yourself?",
        "Which of the towers here was the hardest?",
        "You said rust is less of an enemy than oil. Why is that?",
        "Has a town ever refused to switch back to the old movement?",
        "What will become of the workshop when you stop?",
    ],
    "plans that grow": [
        "1. Collect the receipts.",
        "1. Collect the receipts.\n2. Sort them by project and by month.",
        "1. Collect the receipts.\n2. Sort them by project and by month.\n"
        "3. Ask Bea about the two from Lyon.",
        "1. Collect the receipts.\n2. Sort them by project and by month.\n"
        "3. Ask Bea about the two from Lyon.\n4. Enter everything before the office closes on the ninth.",
        "1. Collect the receipts.\n2. Sort them by project and by month.\n"
        "3. Ask Bea about the two from Lyon.\n4. Enter everything before the office closes on the ninth.\n"
        "5. File a copy with the tax adviser.",
        "1. Collect the receipts.\n2. Sort them by project and by month.\n"
        "3. Ask Bea about the two from Lyon.\n4. Enter everything before the office closes on the ninth.\n"
        "5. File a copy with the tax adviser.\n6. Celebrate with cake.",
    ],
    "support": [
        "The printer is offline, and the lamp in front blinks orange.",
        "Orange means that the drum is worn. Is the page counter above twelve thousand?",
        "It says 15,210, and we have a new drum in the cupboard.",
        "Please open the left flap, press the green lever and pull the old drum out.",
        "Done; now it complains about a missing seal.",
        "That is the yellow strip on the new drum. Tear it off and close the flap.",
        "It prints again, thanks!",
    ],
    "translations of one text after the other": [
        "Guten Morgen, der Laden öffnet heute erst um zehn Uhr.",
        "Wegen der Lieferung bleibt der Hof bis zum Mittag gesperrt.",
        "Bitte stellen Sie Fahrräder an der Mauer neben dem Brunnen ab.",
        "Neue Kundinnen bekommen die erste Tasse Tee geschenkt.",
        "Am Sonntag liest eine Autorin aus ihrem Roman über das Wattenmeer.",
        "Verlorene Handschuhe liegen in der Kiste unter der Treppe.",
    ],
    "French prose": [
        "Le train partit avec une heure de retard, sans que personne protestât.",
        "Dans le compartiment, une femme triait des boutons par couleur.",
        "Elle m'en offrit un, bleu, en disant qu'il portait chance aux voyageurs.",
        "À la frontière, le douanier le fit tourner longtemps entre ses doigts.",
        "« C'est tout ce que vous avez à déclarer ? » demanda-t-il enfin.",
        "Je répondis que oui, et c'était presque vrai.",
    ],
    "Chinese prose": [
        "清晨的集市刚刚开门，卖豆腐的老人已经在招呼客人。",
        "小女孩拿着两枚硬币，想买一朵红色的纸花送给奶奶。",
        "摊主笑着说，今天的花不卖，只换一个故事。",
        "于是她讲起去年冬天，河面结冰，小船走不动的那一晚。",
        "周围的人都停下脚步，连豆腐摊的蒸汽也好像安静了。",
        "故事讲完，她得到了最大的一朵花，还有一块热豆腐。",
    ],
    "a Chinese draft under revision": drafts(
        [
            "我们的新茶在春天的第一周手工采摘。",
            "它有青草的香气，还带一点蜂蜜的甜味。",
            "每一罐都来自同一个茶园，标签上写着园主的名字。",
            "这个月购买，第二罐半价。",
        ],
        {1: "入口清亮，先是嫩草的鲜爽，随后有槐花蜜的回甘。"},
        {0: "日出以前，四十个人踏着露水上山，只采一芽一叶。"},
        {3: "本月到店的朋友，带走一罐，另一罐只收一半的钱。"},
        {2: "不拼配，不混装，哪家种的茶，就由哪家在罐上签名。"},
        {1: "八十度的水，三分钟，你会尝到整片山坡。"},
    ),
    "Chinese reviews": [
        "得分：五。开头太慢，读者不知道这篇文章要说什么。",
        "得分：六。第一段好多了，但是例子和结论没有关系。",
        "得分：七。例子换得合适，请再检查第三段的数字。",
        "得分：八。数字正确，语气还可以更亲切一些。",
        "得分：八。语气自然了，标题却显得太长。",
        "得分：九。标题简洁，可以发表。",
    ],
    "Russian notes": [
        "Сервер отвечает медленно только по утрам, когда идёт резервное копирование.",
        "Перенёс копирование на ночь, но очередь писем теперь растёт до полудня.",
        "Оказалось, почта ждёт того же диска; нужен отдельный том.",
        "Новый том подключён, письма уходят сразу, осталась проверка прав.",
        "Права исправлены, старые файлы удалены после сверки сумм.",
        "Закрываю задачу и записываю выводы для дежурных.",
    ],
    "results of tests": [
        "3 failed, 41 passed: test_login expects a redirect, test_logout and test_reset find no mail.",
        "2 failed, 42 passed: the mail is sent now, but its subject is still in English.",
        "1 failed, 43 passed: test_reset uses a token that has expired by the time it is read.",
        "1 failed, 44 passed: a new test for tokens fails in the time zone of Kiritimati.",
        "45 passed, one warning about a deprecated hash function.",
        "45 passed. Coverage of the login module is 97 %.",
    ],
    "thanks that move on": [
        "Thank you for the draft. Please add the prices.",
        "Thank you for the prices. Please check the one for the large tin.",
        "Thank you for checking. The photo on page two is of another garden.",
        "Thank you for the new photo. Could the caption say who took it?",
        "Thank you, that is perfect. Send it to the printer.",
        "Thank you both, the proofs arrive on Thursday.",
    ],
}

ANN = "Thank you for the update, please let me know if there is anything else that I can do for you today."
BEN = "You are welcome, please let me know if there is anything else that I can do for you today as well."
NAMES = ("Anna", "Bob", "Clara", "David", "Emma", "Frank", "Grace", "Henry", "Ida", "Jack")
TOWNS = ("Leeds", "York", "Bath", "Ely", "Hull", "Wells", "Ripon", "Truro", "Derby", "Exeter")
NUMBERS = (17, 4, 230, 88, 6, 1042, 91, 35, 770, 12)


def repeated(*texts: str) -> list[str]:
    return list(islice(cycle(texts), 10))


def varied(text: str) -> list[str]:
    """The same text, each time with other numbers and names."""
    return [
        text.format(n=number, name=name, town=town, i=place)
        for place, (number, name, town) in enumerate(zip(NUMBERS, NAMES, TOWNS, strict=True), 1)
    ]


DEAD: dict[str, list[str]] = {
    "the same again": repeated("I have looked at the file and everything seems to be in order."),
    "the same short word": repeated("OK"),
    "the same in Chinese": repeated("我已经检查了文件，一切正常，请问还有什么需要我做的吗？"),
    "the same JSON": repeated('{"status": "pending", "next": "wait for approval", "retries": 0}'),
    "the same program": repeated(SERVER),
    "the same but for white space": [f"{TEA[place % 2]}{' ' * place}\n" for place in range(10)],
    "the same in other letters": [
        text.upper() if place % 2 else text for place, text in enumerate(repeated(LETTER[1]))
    ],
    "two who are polite": repeated(ANN, BEN),
    "two who are polite, in short": repeated("Thank you!", "You're welcome!"),
    "two versions in turn": repeated(" ".join(TEA), " ".join(STORY)),
    "two opinions in turn": repeated(
        "I would write it in Rust, since speed matters most here.",
        "I would write it in Python, since the team knows it best.",
    ),
    "three versions in turn": repeated(" ".join(REPORT), " ".join(ABSTRACT), " ".join(LETTER)),
    "three short words in turn": repeated("rock", "paper", "scissors"),
    "a number that counts up": [
        f"Attempt {place // 2} failed: the connection was refused, trying again." for place in range(2, 12)
    ],
    "a time in front": varied("[12:0{i}:17] Still waiting for the reviewer, no answer so far."),
}
VARIED: dict[str, list[str]] = {
    "other numbers": varied("I have processed {n} of the files and will go on with the remaining ones now."),
    "numbers in JSON": varied('{{"status": "running", "elapsed_ms": {n}, "attempt": {i}, "error": null}}'),
    "another name": varied("Dear {name}, thank you for your message, we will come back to you shortly."),
    "other names and towns": varied(
        "Hello {name}, your parcel to {town} is on its way, have a nice day and thank you for your order!"
    ),
    "other names and numbers": varied(
        "The order {n} of {name} could not be found, please check the number and try again."
    ),
    "another name in Chinese": [
        f"{name}，您好！您的申请我们已经收到，工作人员会尽快与您联系，请您耐心等待，谢谢您的支持。"
        for name in ("张伟", "李娜", "王芳", "刘洋", "陈静", "杨勇", "赵敏", "黄磊", "周杰", "吴倩")
    ],
    "two who are polite, with names": [
        (ANN if place % 2 else BEN).replace("Thank you", f"Thank you, {name}").replace("welcome", f"{name}")
        for place, name in enumerate(NAMES)
    ],
    "one word that changes": [
        f"I have made the text a little {word} and hope that it is now what you had in mind."
        for word in (
            *("clearer", "shorter", "warmer", "lighter", "sharper"),
            *("simpler", "friendlier", "calmer", "bolder", "softer"),
        )
    ],
}
