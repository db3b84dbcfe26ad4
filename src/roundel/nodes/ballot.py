"""What a vote says.

Looked at in this order: `vote` (or `score`) in structured fields, then in the last JSON object of the text
that has it; what stands behind "vote:" or the like; the first word, or the last line; then the last word for
or against, turned around if it is negated. What says none of it is an abstention.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from roundel.nodes.agreement import detect_stance, normalize_text
from roundel.nodes.json_objects import json_objects
from roundel.nodes.score import Number, as_number

Choice = Literal["approve", "reject", "abstain"]
VoteType = Literal["yes_no", "score_1_10"]

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
    rf"(?:\b(?:vote|ballot|verdict|decision)\b|投票|表决|表決|投)\s*(?:is|to|[:=为為是]|\s)*\s*(?:{_ANY_CHOICE})(?![a-z])"
)
# "No objections" is no vote, so a no has to stand alone.
_FIRST_WORD = re.compile(rf"\W*(?:{_ANY_CHOICE})(?:(?<=yes)(?!\w)|(?=\s*(?:[.,;:!\n。、-]|$)))")
_ABSTENTION = re.compile(rf"(?<![a-z])(?:{_WORDS['abstain']})(?![a-z])")
_SCORE_PATTERN = re.compile(
    r"(?:\b(?:score|rating|vote)\b|评分|評分|分数|分數|打分)\s*(?:is|[:=为為是])?\s*(-?\d+(?:\.\d+)?)"
    r"|(?<![\d.])(-?\d+(?:\.\d+)?)\s*(?:/\s*10\b|分)"
    r"|^\W*?(-?\d+(?:\.\d+)?)\W*$"
)
APPROVAL_SCORE = 5.5
"""Of a score from 1 to 10: what is above it approves, the rest rejects."""


class Ballot(Struct, frozen=True, omit_defaults=True):
    choice: Choice
    score: Number | None = None


def ballot(text: str, vote_type: VoteType = "yes_no", data: Mapping[str, Any] | None = None) -> Ballot:
    if vote_type == "score_1_10":
        return _read_score_ballot(text, data)
    for value in _field_values("vote", text, data):
        choice = _CHOICE.fullmatch(normalize_text(str(value)))
        if choice is not None:
            return Ballot(_matched_choice(choice))
    return Ballot(_choice_in_text(normalize_text(text)))


def _field_values(name: str, text: str, data: Mapping[str, Any] | None) -> Iterator[Any]:
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
    numbers = (next(filter(None, found.groups())) for found in _SCORE_PATTERN.finditer(normalize_text(text)))
    for value in (*_field_values("score", text, data), *_field_values("vote", text, data), *numbers):
        score = as_number(value)
        if score is not None and 1 <= score <= 10:
            return Ballot("approve" if score > APPROVAL_SCORE else "reject", score)
    return Ballot("abstain")
