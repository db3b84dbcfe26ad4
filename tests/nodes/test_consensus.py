"""Consensus: which texts agree, how a vote is parsed, and when there is enough agreement."""

from __future__ import annotations

from typing import Any

import pytest

import roundel
from roundel.nodes.consensus import (
    Ballot,
    Choice,
    Consensus,
    count_consecutive,
    has_consensus,
    is_agreement,
    phrase_consensus,
    read_ballot,
    vote_consensus,
)
from roundel.workflow.message import Message

AGREE = [
    *("I agree", "I agree.", "I AGREE!", "i agree with the plan", "I  agree", "I\nagree", "Ｉ ａｇｒｅｅ"),
    *(
        "Yes, I agree.",
        "No, I agree with Bo.",
        "My view: I agree",
        "1. I agree",
        "I agree...",
        "I agree, don't you?",
    ),
    *("**I agree**", "_I agree_", "“I agree” is my answer", "I’m in agreement", "I agree — good work"),
    *("Agreed.", "Yes, agreed!", "Agreed, let us go on", "We agree", "We all agree on this"),
    *("I fully agree with Ada", "I couldn't agree more", "I could not agree more.", "I think that I agree"),
    *("Consensus reached.", "We have reached a consensus", "Consensus has been reached"),
    # A no that does not concern the phrase.
    *(
        "I agree that we should not ship",
        "I don't see any problem, I agree",
        "I have no objections and I agree",
    ),
    *("I have no doubt that we agree", "I agree even if it costs more", "I don't disagree, I agree"),
    *("I agree, and if anything we should be faster", "Nothing to add. I agree."),
    # What was said before does not count any more.
    *("At first I did not agree, but now I agree", "I disagree with Cy. With you I agree."),
    "> I don't agree\nI agree",
    # Chinese
    *(
        "达成共识",
        "我们达成共识。",
        "我们已经达成了共识",
        "同意",
        "同意。",
        "我同意",
        "我同意这个方案",
        "我们同意",
    ),
    *("我非常同意", "没有异议，我同意", "没有异议我同意", "我不得不同意", "特别赞成", "達成共識", "我贊成"),
    # Japanese, Korean
    *("同意します", "賛成です。", "合意に達しました", "異議なし", "동의합니다", "저는 동의합니다."),
    # European languages
    *("Ich stimme zu.", "Einverstanden!", "Ich bin einverstanden", "Wir sind uns einig"),
    *("Je suis d'accord", "Je suis tout à fait d’accord avec toi", "D'accord."),
    *("Estoy de acuerdo", "Sí, estoy de acuerdo con el plan", "Concordo com isso", "Sono d'accordo"),
    *("Akkoord", "Я согласен", "Да, мы согласны"),
]

DO_NOT_AGREE = [
    *("", "   ", "yes", "agree", "agreement", "hi agree", "the AI agree", "I agree-ish", "disagreed"),
    *("I don't agree", "I don't agree at all", "I do not agree", "I can't agree", "I cannot agree"),
    *("I don't think I agree", "I don’t think that we agree", "I dont think I agree", "I'm not sure I agree"),
    *(
        "not agreed",
        "It is not agreed",
        "We have not yet agreed",
        "Nothing was agreed",
        "I never said I agree",
    ),
    *("Nobody thinks we agree", "I doubt we agree", "No consensus reached", "Consensus was not reached"),
    *("I disagree", "We disagree", "I agree to disagree", "I agree that we disagree"),
    *("We agree on nothing", "I agree with nothing you say"),
    "I agree with the goal, but I disagree with the price",
    "I agree. No wait, I don't think we agree.",
    # Questions and wishes
    *("I agree?", "I agree?!", "Do we agree?", "Agreed?", "Can we agree on the price", "I hope we agree"),
    *("Let us talk until we agree", "Once we agree, we ship", "It is unclear whether we agree"),
    # Conditions
    *(
        "I would agree if it were cheaper",
        "I agree if you lower the price",
        "I agree, if you lower the price",
    ),
    *("If you lower the price, I agree", "I agree unless it rains", "I agree provided that we test it"),
    # Somebody else, or something else
    *("You agreed yesterday", "They have agreed", "the agreed price is too high", "As agreed, my view"),
    *("the agreed-upon plan", "> I agree", "  > I agree\nWell."),
    # Chinese
    *(
        "不同意",
        "我不同意",
        "我不能同意",
        "我并不同意",
        "没有达成共识",
        "未达成共识",
        "尚未达成共识",
        "还没有达成共识",
    ),
    *("我不认为我们达成共识", "无法达成共识", "沒有達成共識", "反对", "我反对", "我同意目标，但是我反对价格"),
    *(
        "希望达成共识",
        "让我们尽快达成共识",
        "如何达成共识",
        "你同意吗？",
        "我们达成共识了吗",
        "是否同意",
        "你同意",
    ),
    *("如果降价，我同意", "如果降价我同意", "只要降价，我就同意", "降价的话，我同意", "除非降价，同意"),
    # Japanese, Korean
    *(
        "同意しません",
        "同意できません",
        "賛成できません",
        "同意しますか",
        "동의하지 않습니다",
        "안 동의합니다",
    ),
    # European languages
    *("Ich stimme nicht zu", "Nicht einverstanden", "Ich bin nicht einverstanden"),
    *("Ich stimme zu, wenn der Preis fällt", "Je ne suis pas d'accord", "Pas d'accord", "Vous êtes d'accord"),
    *("No estoy de acuerdo", "De acuerdo con el informe es caro", "Não concordo", "Non sono d'accordo"),
    *("Niet akkoord", "Я не согласен", "Я несогласен", "Он согласен"),
]


@pytest.mark.parametrize("text", AGREE)
def test_texts_that_express_agreement(text: str) -> None:
    assert is_agreement(text)


@pytest.mark.parametrize("text", DO_NOT_AGREE)
def test_texts_that_express_no_agreement(text: str) -> None:
    assert not is_agreement(text)


@pytest.mark.parametrize(
    ("text", "phrases", "expected"),
    [
        ("LGTM", ["lgtm"], True),
        ("not LGTM", ["lgtm"], False),
        ("I agree", ["lgtm"], False),
        ("all good ✅", ["✅"], True),
        ("成交！", ["成交"], True),
        ("不成交", ["成交"], False),
        ("Verdict: APPROVED", ["approved"], True),
        ("unapproved", ["approved"], False),
        ("Yes, deal!", ["yes, deal"], True),
        ("I don't say: yes, deal", ["yes, deal"], True),
        ("C++ it is", ["C++ it is"], True),
        ("anything", [], False),
        ("anything", [" "], False),
    ],
)
def test_custom_agreement_phrases(text: str, phrases: list[str], expected: bool) -> None:
    assert is_agreement(text, phrases) is expected


@pytest.mark.parametrize("piece", ["I agree. ", "can we agree ", "if ", "不同意", "> I agree\n", "("])
def test_agreement_check_handles_long_texts(piece: str) -> None:
    is_agreement(piece * 10_000)


# By words


def test_consensus_requires_at_least_two_and_all_to_agree() -> None:
    assert phrase_consensus({"Ada": "I agree", "Bo": "达成共识"})
    assert not phrase_consensus({"Ada": "I agree", "Bo": "I don't agree"})
    assert not phrase_consensus({"Ada": "I agree", "Bo": "Well."})
    assert not phrase_consensus({"Ada": "I agree"})
    assert not phrase_consensus({})
    assert phrase_consensus({"Ada": "deal", "Bo": "Deal!"}, ["deal"])


# By votes


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        *[
            (text, "approve")
            for text in ("yes", "Yes.", "YES, it works", "Yes I do", "aye", "approve", "APPROVED")
        ],
        *[(text, "approve") for text in ("No objections, I approve", "I support it", "I am in favour of it")],
        *[
            (text, "approve")
            for text in ("Vote: yes", "**Vote:** Approve", "I vote to approve.", "I vote for it")
        ],
        *[(text, "approve") for text in ("Talk.\nFinal vote: Approve\n", "I voted: no. Now my vote: yes")],
        *[(text, "approve") for text in ('{"vote": "yes"}', '{"vote": true}', '{"vote": "Approve."}')],
        *[
            (text, "approve")
            for text in ("赞成", "我赞成。", "投票：赞成", "我投赞成票", "同意", "贊成", "是")
        ],
        *[
            (text, "reject")
            for text in ("no", "No.", "NO - too slow", "No, I like it not", "Rejected", "nay")
        ],
        *[
            (text, "reject")
            for text in ("I cannot approve this", "I do not approve", "I reject it", "I'm against it")
        ],
        *[(text, "reject") for text in ("My vote is no", "I vote against it", "Decision: not approved")],
        *[(text, "reject") for text in ("It is slow.\n\nReject", '{"vote": "No"}', '{"vote": false}')],
        ('Why:\n```json\n{"vote": "reject", "why": "yes, it is slow"}\n```', "reject"),
        *[(text, "reject") for text in ("反对", "我反对这个方案", "我不赞成", "不同意", "我投反对票", "否")],
        *[
            (text, "abstain")
            for text in ("abstain", "I abstain, though I support the goal", '{"vote": "abstain"}')
        ],
        *[(text, "abstain") for text in ("弃权", "我弃权", "maybe", "", "Notable", "Yesterday was nice")],
        *[(text, "abstain") for text in ("Approve?", "There is no reason to reject this")],
    ],
)
def test_ballot_is_read_from_text(text: str, choice: Choice) -> None:
    assert read_ballot(text) == Ballot(choice)


def test_structured_ballot_fields_override_the_text() -> None:
    assert read_ballot("no", data={"vote": "approve"}).choice == "approve"
    assert read_ballot("no", data={"vote": "perhaps"}).choice == "reject"
    assert read_ballot("6", "score_1_10", {"score": 2}) == Ballot("reject", 2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8", Ballot("approve", 8)),
        ("8/10, a little long", Ballot("approve", 8)),
        ("Score: 7.5", Ballot("approve", 7.5)),
        ("**Score:** 6", Ballot("approve", 6)),
        ("评分：9", Ballot("approve", 9)),
        ("我打9分", Ballot("approve", 9)),
        ('{"score": 10}', Ballot("approve", 10)),
        ('{"score": 1}', Ballot("reject", 1)),
        ('{"vote": 3}', Ballot("reject", 3)),
        ("5.5", Ballot("reject", 5.5)),
        ("0", Ballot("abstain")),
        ("11", Ballot("abstain")),
        ("-3", Ballot("abstain")),
        ("Score: 85", Ballot("abstain")),
        ("none", Ballot("abstain")),
    ],
)
def test_ballot_scores_from_1_to_10(text: str, expected: Ballot) -> None:
    assert read_ballot(text, "score_1_10") == expected


@pytest.mark.parametrize(
    ("approve", "reject", "abstain", "quorum", "expected"),
    [
        (2, 1, 0, 0.66, True),
        (2, 1, 0, 0.67, False),  # two thirds are less than 0.67
        (3, 1, 0, 0.75, True),
        (3, 2, 0, 0.6, True),
        (1, 1, 0, 0.5, True),
        (1, 1, 0, 0.51, False),
        (1, 0, 5, 1, True),
        (9, 1, 0, 1, False),
        (0, 1, 0, 0.01, False),
        (0, 0, 3, 0.01, False),
        (0, 0, 0, 0.01, False),
    ],
)
def test_abstentions_do_not_count(
    approve: int, reject: int, abstain: int, quorum: float, expected: bool
) -> None:
    ballots = [Ballot("approve")] * approve + [Ballot("reject")] * reject + [Ballot("abstain")] * abstain
    assert vote_consensus(ballots, quorum) is expected


def test_consensus_by_phrases_or_votes() -> None:
    latest = {"Ada": Message("I agree"), "Bo": Message("no", data={"vote": "yes"})}
    assert has_consensus(Consensus(method="vote", quorum=1), latest)
    assert not has_consensus(Consensus(), latest)
    assert has_consensus(Consensus(phrases=("I agree", "no")), {**latest, "Bo": Message("no!")})


def test_consecutive_consensus_rounds_are_counted() -> None:
    counts, count = [], 0
    for held in (True, True, False, True, True, True):
        count = count_consecutive(count, held)
        counts.append(count)
    assert counts == [1, 2, 0, 1, 2, 3]


# Settings


@pytest.mark.parametrize(
    ("settings", "code", "line", "message"),
    [
        ("method: shouting", "wrong-type", 8, "must be one of phrase, vote, judge, not 'shouting'"),
        ("phrases: []", "no-phrases", 8, "of the consensus is empty or contains an empty phrase"),
        ("phrases: [' ']", "no-phrases", 8, "of the consensus is empty or contains an empty phrase"),
        ("phrases: {a: b}", "wrong-type", 8, "'phrases' of"),
        ("quorum: 0", "wrong-type", 8, "must be a number above 0 and of at most 1, not 0"),
        ("quorum: 1.01", "wrong-type", 8, "must be a number above 0 and of at most 1, not 1.01"),
        ("stable_for: 0", "wrong-type", 8, "must be a whole number of at least 1, not 0"),
        ("stable_for: 1.5", "wrong-type", 8, "must be a whole number of at least 1, not 1.5"),
    ],
)
def test_invalid_consensus_settings_are_rejected(
    tmp_path: Any, settings: str, code: str, line: int, message: str
) -> None:
    path = tmp_path / "flow.yaml"
    path.write_text(
        "graph:\n  start: Gate\n  nodes:\n    - id: Gate\n      type: loop\n      config:\n"
        f"        exit_condition: consensus\n        consensus: {{{settings}}}\n",
        encoding="utf-8",
    )
    _, report = roundel.check(path)
    [found] = [found for found in report.errors if found.code != "guard-wiring"]
    assert (found.code, found.line) == (code, line)
    assert message in found.message
