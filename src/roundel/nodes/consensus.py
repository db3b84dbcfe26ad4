"""Consensus and votes: whether the messages of participants agree, and what a ballot says.

One definition for all nodes that need it: `loop` and `debate` (consensus), `vote` (ballots), and the
judge of a debate. It goes by words, without a model: that costs nothing, takes no time and gives the
same result each time.

**Consensus.** `phrase`: the latest message of every participant agrees, and there are at least two.
`vote`: enough of those who vote approve. `judge`: a model is asked, which is up to the node.
`stable_for` requires consensus in that many rounds in a row.

**Agreement.** A text agrees if one of the phrases occurs in it as a whole, depending on its clause.
Negated ("I don't think we agree", 不同意) or under a condition ("I agree if …") it is a no; as a
question or a wish ("can we agree", 尽快达成共识) it says nothing. If there are several phrases, the
last one counts: "I did not agree, but now I agree". In doubt there is no agreement, which costs one
more round; the opposite mistake would end a discussion too early. Known limits: words of others that
are quoted inside a sentence (lines that begin with ">" are recognised), and reservations ("I agree,
but …"), which count as agreement.

**Ballots.** A vote is searched in this order: `vote` (or `score`) in structured fields, then in the last
JSON object of the text that has it; what follows "vote:" or the like; the first word, or the last line;
then the last word for or against, reversed if it is negated. A text with none of these is an abstention.

The tables come first: phrases, idioms, negations and conditions in several languages. The patterns are
in lower case, since they are matched against normalised text. Words of scripts without spaces are
searched anywhere, others as whole words.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct

from roundel.nodes.score import Number, as_number
from roundel.nodes.structured_output import json_objects
from roundel.workflow.description import Description, Field
from roundel.workflow.diagnostics import Report
from roundel.workflow.document import Located
from roundel.workflow.fields import child
from roundel.workflow.message import Message

AGREEING_PHRASES = (
    *("I agree", "I do agree", "I also agree", "I now agree", "I too agree", "I can agree", "I concur"),
    *("I fully agree", "I completely agree", "I totally agree", "I strongly agree", "I entirely agree"),
    *("I wholeheartedly agree", "I am in agreement", "I'm in agreement", "I have to agree", "I must agree"),
    *("we agree", "we all agree", "we both agree", "we fully agree", "we concur", "we are in agreement"),
    *("agreed", "couldn't agree more", "could not agree more", "consensus reached", "consensus is reached"),
    *("consensus has been reached", "reached consensus", "reached a consensus", "reached an agreement"),
    *("we have consensus", "we have a consensus"),
    *("达成共识", "达成了共识", "达成一致", "达成了一致", "意见一致", "同意", "赞成"),
    *("達成共識", "達成了共識", "達成一致", "達成了一致", "意見一致", "贊成"),
    *(
        "同意します",
        "同意いたします",
        "賛成です",
        "賛成します",
        "合意しました",
        "合意に達しました",
        "異議なし",
    ),
    *("동의합니다", "동의해요", "찬성합니다", "합의했습니다", "합의에 도달했습니다"),
    *("ich stimme zu", "ich stimme dir zu", "ich stimme ihnen zu", "stimme zu", "wir stimmen zu"),
    *("einverstanden", "wir sind uns einig", "d'accord", "nous avons un consensus", "d'accordo"),
    *("estoy de acuerdo", "estoy totalmente de acuerdo", "estamos de acuerdo", "concuerdo"),
    *("estou de acordo", "estamos de acordo", "concordo", "concordamos"),
    *("akkoord", "ik ben het ermee eens", "we zijn het eens", "согласен", "согласна", "согласны"),
)

DISSENTING_PHRASES = (
    *("I disagree", "I still disagree", "I strongly disagree", "I must disagree", "I have to disagree"),
    *("I respectfully disagree", "we disagree", "we still disagree", "I object", "I oppose", "no consensus"),
    *("反对", "反對", "反対です", "反対します", "반대합니다", "ich widerspreche", "je refuse", "me opongo"),
)

IDIOMS = re.compile(
    r"\b(?:"
    r"(?:no|without(?: any)?) (?:doubt|question|hesitation|objections?|problems?|issues?|concerns?|"
    r"reservations?|further (?:points|questions|comments|objections|changes))"
    r"|not only|nothing (?:to add|more|further|else)"
    r"|(?:the|an|as|previously|mutually) agreed|agreed[- ]upon"
    r"|(?:you|they|he|she|who|others?)(?: all| both| have| had| has)? agreed"
    r")\b"
    r"|非常|特别|特別|未来|未來|不错|不錯|不仅|不僅|不但|不得不|毫不犹豫|毫不猶豫"
    r"|(?:没有?|沒有?|毫?无|毫?無)(?:任何|什么|什麼|其他)?(?:异议|異議|意见|意見|问题|問題|疑问|疑問)"
    r"|不反对|不反對"
    r"|\b(?:vous êtes|tu es|ils sont|elles sont|être|mettre) d'accord\b|\b(?:essere|mettersi) d'accordo\b"
    r"|\b(?:он|она|они|вы|ты) (?:не )?соглас\w+"
    r"|[你您妳他她](?:们|們)?(?:也|都)?同意|(?:征得|徵得|征求|徵求|经过?|經過?)[^,。]{0,8}同意"
)
"""Expressions that contain a phrase or a negation without meaning it: "no doubt", "they agreed", 不错.
They are blanked out, character by character, before anything else is searched, so that positions stay
valid."""

CLAUSE_BREAKS = re.compile(
    r"[.!?;:,\n。、()\[\]؟]+|\s[-–]+\s|—+"
    r"|\b(?:and|but|so|because|however|though|although|und|aber|weil|mais|pero|porque|maar|но)\b"
    r"|但是?|不过|不過|然而|可是|而且|所以|因为|因為|并且|並且"
)
"""Where a clause ends. "yet" is not among these words, since it occurs inside of negations ("not yet
agreed")."""

# Clauses that these marks separate still belong together: "if the price falls, I agree".

COMMAS = frozenset(",、:-–—")

NEGATIONS = re.compile(
    r"\b(?:"
    r"not|no|never|nobody|none|nor|neither|nothing|without|hardly|barely|scarcely|cannot|\w+n't"
    r"|(?:do|does|did|ca|wo|could|would|should|is|are|was|were|have|has|had)nt"
    r"|refuses?|declines?|doubts?|den(?:y|ies)|unable|unwilling|reluctant|far from|fail(?:ed)? to"
    r"|nicht|kein\w*|nie|niemals|weder|ohne|ne|n'\w+|pas|jamais|aucun\w*|sans|nunca|jamás|tampoco|sin"
    r"|não|nao|nem|sem|non|senza|niet|geen|nooit|zonder|не|нет|никогда|без|안|못"
    r")\b"
    r"|不|没|沒|未|无法|無法|无人|無人|难以|難以|别|別|非"
)
"""Searched before a phrase, in its clause."""

TRAILING_NEGATIONS = re.compile(
    r"\bdisagree"
    r"|^\s+(?:(?:with|on|to|about)\s+)?(?:almost\s+)?"
    r"(?:nothing|none|nobody|no one|neither|not at all|in no way)\b"
    r"|^[ぁ-ん]*?(?:ませ|ない|なか|かね)"
)
"""Searched behind a phrase, in its clause."""

CONDITIONS = re.compile(
    r"(?<!\w)(?:"
    r"(?<!even )if|unless|only (?:if|when|once)|provided|providing|assuming|supposing|(?:as|so) long as"
    r"|on condition|contingent|subject to|in case"
    r"|wenn|falls|sofern|vorausgesetzt|si(?= \w)|à condition|pourvu|siempre que|a menos que|con tal"
    r"|mits|tenzij|если|при условии|만약"
    r")(?!\w)"
    r"|如果|若(?!干)|假如|要是|除非|只要|倘若|前提|的话|的話|なら|たら|れば|限り"
)
"""Searched in the clause of a phrase, and at the beginning of the clause before or behind it."""

CONDITION_ENDS = re.compile(r"(?:的话|的話|なら|たら|れば|限り)\s*$")
"""Searched at the end of the clause before: Chinese and Japanese put the mark of a condition there."""

UNFULFILLED = re.compile(
    r"\b(?:hope|hoping|wish|whether|until|till|needs? to|wants? to|try to|trying to|in order to|how to)\b"
    r"|\b(?:can|could|shall|should|do|did|would|may|might|let|how|when|once|before)"
    r"(?:\s+(?:we|i|you|they|all|have|a))*\s*$"
    r"|\b(?:have|are)\s+(?:we|i|you|they)(?:\s+all)?\s*$"
    r"|希望|需要|想要|争取|爭取|如何|怎么|怎麼|怎样|怎樣|为了|為了|努力|尽快|盡快|尽早|盡早|才能|能否|是否|可否"
    r"|应该|應該|应当|應當|必须|必須|尝试|嘗試|试图|試圖|直到|让我们|讓我們|期待|有望|寻求|尋求|力求"
)
"""Searched before a phrase, in its clause: agreement is wanted, planned or asked for, but not given
yet."""

QUESTION_ENDINGS = re.compile(r"(?:吗|嗎|么|麼|か)\s*$")
"""Searched behind a phrase, at the end of its clause."""


_MARKS = str.maketrans({"’": "'", "‘": "'", "´": "'", "`": "", "*": "", "_": ""})
_CONTEXT_LENGTH = 300
"""How many characters before and behind a phrase are searched. It bounds the work for text without
punctuation, in which the whole text is one clause."""
_UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Scripts that put no space between words: Han, kana, Thai, Lao, Burmese, Khmer."""


def is_agreement(text: str, phrases: Iterable[str] = AGREEING_PHRASES) -> bool:
    """Whether a text agrees, by its last phrase that takes a side."""
    return detect_stance(text, phrases, DISSENTING_PHRASES) is True


def detect_stance(text: str, agreeing: Iterable[str], dissenting: Iterable[str] = ()) -> bool | None:
    """True for agreement, False for dissent, None if no phrase takes a side. The last phrase that does
    decides, so the search goes backwards and stops there."""
    plain = IDIOMS.sub(lambda found: " " * len(found[0]), normalize_text(_strip_quotes(text)))
    found = list(_pattern(tuple(agreeing), tuple(dissenting)).finditer(plain))
    clauses = _split_clauses(plain) if found else []
    stances = (
        _phrase_stance(_phrase_context(plain, clauses, *each.span()), each.lastgroup == "against")
        for each in reversed(found)
    )
    return next((each for each in stances if each is not None), None)


def normalize_text(text: str) -> str:
    """The text in one spelling: no capitals, no full-width letters, no Markdown emphasis, plain
    apostrophes."""
    return unicodedata.normalize("NFKC", text.translate(_MARKS)).casefold()


def _strip_quotes(text: str) -> str:
    """Without lines that quote another participant ("> I agree")."""
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(">"))


@lru_cache(maxsize=128)
def _pattern(agreeing: tuple[str, ...], dissenting: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(f"(?P<for>{_alternatives(agreeing)})|(?P<against>{_alternatives(dissenting)})")


def _alternatives(phrases: tuple[str, ...]) -> str:
    # The longest first, since a pattern takes the first alternative that matches: 同意 begins 同意します.
    words = sorted(
        {" ".join(normalize_text(phrase).split()) for phrase in phrases} - {""}, key=len, reverse=True
    )
    return "|".join(map(_whole_phrase, words)) or "(?!)"


def _whole_phrase(phrase: str) -> str:
    """Matches a phrase as whole words: "agreed" not in "disagreed" or "agreed-upon". Scripts without
    spaces have no word boundaries, so there a phrase matches anywhere."""
    start = "" if _UNSPACED.match(phrase) else r"(?<!\w)(?<!\w-)"
    end = "" if _UNSPACED.match(phrase[-1]) else r"(?!\w|-\w)"
    return start + re.escape(phrase).replace(r"\ ", r"\s+") + end


class Clause(NamedTuple):
    """A part of a sentence, by its position in the text."""

    start: int
    end: int
    mark: str
    """The punctuation or the word that ends it; empty at the end of the text."""


class PhraseContext(NamedTuple):
    """The surroundings of one phrase, on which `_phrase_stance` decides."""

    before: str
    """The words of its clause before it."""
    behind: str
    """The words of its clause behind it."""
    mark: str
    """What ends its clause."""
    previous: str
    """The clause before, if only a comma or the like separates them; else empty."""
    following: str
    """The clause behind, likewise."""


def _split_clauses(text: str) -> list[Clause]:
    clauses, start = [], 0
    for found in CLAUSE_BREAKS.finditer(text):
        clauses.append(Clause(start, found.start(), found[0].strip()))
        start = found.end()
    return [*clauses, Clause(start, len(text), "")]


def _phrase_context(text: str, clauses: list[Clause], start: int, end: int) -> PhraseContext:
    # By bisection: a long text has many clauses and many phrases. A phrase may span several clauses.
    first = bisect_right(clauses, start, key=attrgetter("start")) - 1
    last = bisect_left(clauses, end, lo=first, key=attrgetter("end"))

    def beside(number: int, comma: int) -> str:
        joined = 0 <= comma < len(clauses) and clauses[comma].mark in COMMAS
        return text[clauses[number].start : clauses[number].end][-_CONTEXT_LENGTH:].strip() if joined else ""

    return PhraseContext(
        text[max(clauses[first].start, start - _CONTEXT_LENGTH) : start],
        text[end : min(clauses[last].end, end + _CONTEXT_LENGTH)],
        clauses[last].mark,
        beside(first - 1, first - 1),
        beside(last + 1, last),
    )


def _phrase_stance(context: PhraseContext, dissent: bool) -> bool | None:
    """What one phrase says. Doubted agreement is a no; doubted dissent says nothing, it is no yes."""
    if "?" in context.mark or QUESTION_ENDINGS.search(context.behind) or UNFULFILLED.search(context.before):
        return None
    doubted = _is_negated(context) or _is_conditional(context)
    if dissent:
        return None if doubted else False
    return not doubted


def _is_negated(context: PhraseContext) -> bool:
    return bool(NEGATIONS.search(context.before) or TRAILING_NEGATIONS.search(context.behind))


def _is_conditional(context: PhraseContext) -> bool:
    words = CONDITIONS
    return bool(
        words.search(context.before)
        or words.search(context.behind)
        or words.match(context.previous)
        or CONDITION_ENDS.search(context.previous)
        or words.match(context.following)
    )


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
    rf"(?:\b(?:vote|ballot|verdict|decision)\b|投票|表决|表決|投)\s*(?:is|to|[:=为為是]|\s)*\s*(?:{_ANY_CHOICE})(?![a-z])"
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
    return Ballot(_choice_in_text(normalize_text(text)))


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
    numbers = (next(filter(None, found.groups())) for found in _SCORE_PATTERN.finditer(normalize_text(text)))
    for value in (*_field_values("score", text, data), *_field_values("vote", text, data), *numbers):
        score = as_number(value)
        if score is not None and 1 <= score <= 10:
            return Ballot("approve" if score > APPROVAL_SCORE else "reject", score)
    return Ballot("abstain")


class Consensus(Struct, frozen=True, omit_defaults=True):
    """When participants agree: the settings of `loop` and `debate`. `has_consensus` evaluates them."""

    method: Literal["phrase", "vote", "judge"] = "phrase"
    phrases: Annotated[tuple[str, ...], Meta(extra={"wrap": True})] = AGREEING_PHRASES
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
        if self.phrases and all(phrase.strip() for phrase in self.phrases):
            return True
        message = "'phrases' of the consensus is empty or contains an empty phrase"
        hint = "write the phrases that mean agreement, or leave it out"
        report.error("no-phrases", message, child(at, "phrases"), hint)
        return False


def phrase_consensus(latest: Mapping[str, str], phrases: Iterable[str] = AGREEING_PHRASES) -> bool:
    """Whether the latest text of each participant agrees, and there are at least two participants."""
    known_phrases = tuple(phrases)
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
    if config.method == "vote":
        ballots = (read_ballot(message.text, data=message.data) for message in latest.values())
        return vote_consensus(ballots, config.quorum)
    return phrase_consensus({name: message.text for name, message in latest.items()}, config.phrases)


def count_consecutive(count: int, held: bool) -> int:
    """The length of a series of rounds after one more round: it grows, or starts again at 0."""
    return count + 1 if held else 0
