"""Agreement: which texts agree, and which only contain the words."""

from __future__ import annotations

import pytest

from roundel.nodes.agreement import is_agreement
from tests.nodes.agreement_table import AFTER, BEFORE

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


@pytest.mark.parametrize(
    "piece",
    ["I agree. ", "can we agree ", "if ", "不同意", "> I agree\n", "(", "“I agree ", "'I agree ", "没有异议"],
)
def test_agreement_check_handles_long_texts(piece: str) -> None:
    is_agreement(piece * 10_000)


@pytest.mark.parametrize(("text", "expected"), [*BEFORE, *AFTER])
def test_sentences_of_a_discussion(text: str, expected: bool) -> None:
    assert is_agreement(text) is expected


def test_single_words_agree_only_as_sentences_and_only_by_default() -> None:
    assert is_agreement("Consensus.")
    assert not is_agreement("**Consensus**\nWe looked at three options.")
    assert not is_agreement("Consensus: none so far")
    assert not is_agreement("Consensus.", ["deal"])
    assert is_agreement("consensus it is", ["consensus"])
