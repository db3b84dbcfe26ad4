"""Consensus and votes: whether the messages of participants agree, and what a ballot says.

One definition for all nodes that need it: `loop` and `debate` (consensus), `vote` (ballots), and the
judge of a debate. It goes by words, without a model: that costs nothing, takes no time and gives the
same result each time.

**Consensus.** `phrase`: the latest message of every participant agrees, and there are at least two.
`vote`: enough of those who vote approve. `judge`: a model is asked, which is up to the node.
`stable_for` requires consensus in that many rounds in a row.

Whether a text agrees is decided in agreement.py.

**Ballots.** A vote is searched in this order: `vote` (or `score`) in structured fields, then in the last
JSON object of the text that has it; what follows "vote:" or the like; the first word, or the last line;
then the last word for or against, reversed if it is negated. A text with none of these is an abstention.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from roundel.nodes.agreement import MAX_READ, detect_stance, end_of, is_agreement, normalize_text
from roundel.nodes.score import Number, as_number
from roundel.nodes.structured_output import json_objects
from roundel.workflow.description import Description, Field
from roundel.workflow.diagnostics import Report
from roundel.workflow.document import Located
from roundel.workflow.evaluation_budget import note_work
from roundel.workflow.fields import child
from roundel.workflow.message import Message

Choice = Literal["approve", "reject", "abstain"]
VoteType = Literal["yes_no", "score_1_10"]

# Words of ballots. They are wider than the phrases above: in a vote a bare "support" or "veto" is a
# choice.
_FOR = ("approve", "approved", "accept", "accepted", "in favour", "in favor", "I agree", "agreed", "support")
_FOR_CHINESE = ("赞成", "贊成", "同意", "支持", "批准", "通过", "通過")
_AGAINST = ("reject", "rejected", "disapprove", "oppose", "opposed", "against", "I disagree", "veto")
_AGAINST_CHINESE = ("反对", "反對", "否决", "否決")
_WORDS: dict[Choice, str] = {
    "reject": r"no|nay|nope|false|reject(?:ed|s)?|disapproved?|oppose[ds]?|against|disagree|den(?:y|ied)|veto"
    r"|反对|反對|否决|否決|不(?:同意|赞成|贊成|支持|批准|通过|通過)|否",
    "abstain": r"abstain(?:ed|ing|s)?|abstention|neutral|弃权|棄權|中立",
    "approve": r"yes|yea|yep|aye|true|approve[ds]?|accept(?:ed|s)?|agreed?|in favou?r|for|support(?:ed|s)?"
    r"|赞成|贊成|同意|支持|批准|通过|通過|是",
}
_ANY_CHOICE = "|".join(f"(?P<{choice}>{words})" for choice, words in _WORDS.items())
_CHOICE = re.compile(rf"\W*(?:{_ANY_CHOICE})[^\w?]*")
_LABELLED_CHOICE = re.compile(
    rf"(?:\b(?:vote|ballot|verdict|decision)\b|投票|表决|表決|投)\s*(?:is|to|[:=为為是\"'“「]|\s)*(?:{_ANY_CHOICE})(?![a-z])"
)
# "No objections" is no vote against, so a word has to be followed by punctuation or the end of the line.
# Only "yes" counts before other words.
_FIRST_WORD = re.compile(rf"\W*(?:{_ANY_CHOICE})(?:(?<=yes)(?!\w)|(?=\s*(?:[.,;:!\n。、-]|$)))")
_ABSTENTION = re.compile(rf"(?<![a-z])(?:{_WORDS['abstain']})(?![a-z])")
_SCORE_PATTERN = re.compile(
    r"(?:\b(?:score|rating|vote)\b|评分|評分|分数|分數|打分)\s*(?:is|[:=为為是])?\s*(-?\d+(?:\.\d+)?)"
    r"|(?<![\d.])(-?\d+(?:\.\d+)?)\s*(?:/\s*10\b|分)"
    r"|^\W*?(-?\d+(?:\.\d+)?)\W*$"
)
APPROVAL_SCORE = 5.5
"""The middle of the scale from 1 to 10: a score above it approves, any other rejects."""


class Ballot(Struct, frozen=True, omit_defaults=True):
    """One vote, as `read_ballot` found it in a message."""

    choice: Choice
    score: Number | None = None


def read_ballot(text: str, vote_type: VoteType = "yes_no", data: Mapping[str, Any] | None = None) -> Ballot:
    """Finds the vote in a message; an abstention if it contains none. See the module docstring for the
    order."""
    if vote_type == "score_1_10":
        return _read_score_ballot(text, data)
    for value in _field_values("vote", text, data):
        choice = _CHOICE.fullmatch(normalize_text(str(value)))
        if choice is not None:
            return Ballot(_matched_choice(choice))
    return Ballot(_choice_in_text(normalize_text(_ends_of(text))))


def _ends_of(text: str) -> str:
    """The text, or what is read of one that is too long: a vote stands at its beginning or at its end."""
    return text if len(text) <= MAX_READ else f"{text[:MAX_READ]}\n{end_of(text)}"


def _field_values(name: str, text: str, data: Mapping[str, Any] | None) -> Iterator[Any]:
    """The values of a field: of the data, then of the JSON objects in the text, the last one first."""
    found = [data or {}, *reversed(list(json_objects(text)))]
    return (fields[name] for fields in found if fields.get(name) is not None)


def _matched_choice(found: re.Match[str]) -> Choice:
    return next(choice for choice in _WORDS if found[choice])


def _choice_in_text(text: str) -> Choice:
    *_, last = ["", *filter(None, map(str.strip, text.splitlines()))]
    labelled = next(reversed(list(_LABELLED_CHOICE.finditer(text))), None)
    found = labelled or _FIRST_WORD.match(text) or _CHOICE.fullmatch(last)
    if found is not None:
        return _matched_choice(found)
    if _ABSTENTION.search(text):
        return "abstain"
    opinion = detect_stance(text, _FOR + _FOR_CHINESE, _AGAINST + _AGAINST_CHINESE)
    return "abstain" if opinion is None else "approve" if opinion else "reject"


def _read_score_ballot(text: str, data: Mapping[str, Any] | None) -> Ballot:
    shown = normalize_text(_ends_of(text))
    numbers = (next(filter(None, found.groups())) for found in _SCORE_PATTERN.finditer(shown))
    for value in (*_field_values("score", text, data), *_field_values("vote", text, data), *numbers):
        score = as_number(value)
        if score is not None and 1 <= score <= 10:
            return Ballot("approve" if score > APPROVAL_SCORE else "reject", score)
    return Ballot("abstain")


class Consensus(Struct, frozen=True, omit_defaults=True):
    """When participants agree: the settings of `loop` and `debate`. `has_consensus` evaluates them."""

    method: Literal["phrase", "vote", "judge"] = "phrase"
    phrases: Annotated[tuple[str, ...], Meta(extra={"wrap": True})] | None = None
    """None: the phrases of agreement.py."""
    quorum: Annotated[float, Meta(gt=0, le=1)] = 0.67
    stable_for: Annotated[int, Meta(ge=1)] = 1
    judge: Any = None
    """The node that decides, with `method: judge`; only `debate` can run one (`JudgedConsensus`)."""
    question: str = "Do the participants agree? Answer yes or no."

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="consensus",
            en=("Consensus", "When participants agree."),
            zh=("共识", "参与者何时算作达成一致。"),
            fields={
                "method": Field(
                    en=("Method", "How to determine agreement."),
                    zh=("判定方式", "如何判定是否一致。"),
                    choices={
                        "phrase": ("By phrases", "按措辞"),
                        "vote": ("By votes", "按投票"),
                        "judge": ("By a judge", "由裁判判定"),
                    },
                ),
                "phrases": Field(
                    en=(
                        "Phrases",
                        "By phrases: what means agreement, such as `I agree`, in several languages if not "
                        "set.",
                    ),
                    zh=("措辞", "按措辞判定时：哪些话表示同意；不填则使用多种语言的常见说法，如 `I agree`。"),
                ),
                "quorum": Field(
                    en=(
                        "Quorum",
                        "By votes: the share of votes that must approve. Two of three are less than 0.67.",
                    ),
                    zh=("通过比例", "按投票判定时：赞成票须达到的比例。三分之二小于 0.67。"),
                ),
                "stable_for": Field(
                    en=("Stable for", "The number of consecutive rounds that must have consensus."),
                    zh=("持续轮次", "须连续多少轮达成共识。"),
                    unit="rounds",
                ),
                "judge": Field(
                    en=("Judge", "By a judge: the node that decides. A `loop` cannot have one."),
                    zh=("裁判", "由裁判判定时：作出判定的节点。`loop` 不能使用裁判。"),
                ),
                "question": Field(
                    en=("Question", "By a judge: the question for the judge."),
                    zh=("问题", "由裁判判定时：向裁判提出的问题。"),
                    widget="textarea",
                ),
            },
        )

    def __check__(self, at: Located, report: Report) -> bool:
        if self.phrases is None or (self.phrases and all(phrase.strip() for phrase in self.phrases)):
            return True
        message = "'phrases' of the consensus is empty or contains an empty phrase"
        hint = "write the phrases that mean agreement, or leave it out"
        report.error("no-phrases", message, child(at, "phrases"), hint)
        return False


def phrase_consensus(latest: Mapping[str, str], phrases: Iterable[str] | None = None) -> bool:
    """Whether the latest text of each participant agrees, and there are at least two participants."""
    known_phrases = None if phrases is None else tuple(phrases)
    return len(latest) >= 2 and all(is_agreement(text, known_phrases) for text in latest.values())


def vote_consensus(ballots: Iterable[Ballot], quorum: float) -> bool:
    """Whether enough of those who did not abstain approve."""
    cast = [vote.choice == "approve" for vote in ballots if vote.choice != "abstain"]
    return bool(cast) and sum(cast) / len(cast) >= quorum


def has_consensus(config: Consensus, latest: Mapping[str, Message]) -> bool:
    """Whether the latest messages of the participants are consensus, by phrases or by votes. The method
    `judge` needs a call of a node, which is up to the caller.

    The result depends on Unicode tables and patterns: inside of a kernel step, call it through
    `decide`."""
    note_work(sum(min(len(message.text), MAX_READ) for message in latest.values()))
    if config.method == "vote":
        ballots = (read_ballot(message.text, data=message.data) for message in latest.values())
        return vote_consensus(ballots, config.quorum)
    return phrase_consensus({name: message.text for name, message in latest.items()}, config.phrases)


def count_consecutive(count: int, held: bool) -> int:
    """The length of a series of rounds after one more round: it grows, or starts again at 0."""
    return count + 1 if held else 0
