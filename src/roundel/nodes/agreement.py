"""Agreement: whether a text agrees, by its words, in several languages.

It goes by words, without a model: that costs nothing, takes no time and gives the same result each time.
`consensus.py` asks it about the messages of participants.

A text agrees if one of the phrases occurs in it as a whole, depending on its clause. Negated ("I don't
think we agree", 不同意, 很难同意) or under a condition ("I agree if …") it is a no; as a question or a wish
("can we agree", 尽快达成共识) it says nothing. If there are several phrases, the last one counts: "I did not
agree, but now I agree". What is in quotation marks was said by somebody else, unless the whole text is the
quotation or it is introduced as the speaker's own answer. In doubt there is no agreement, which costs one
more round; the opposite mistake would end a discussion too early. Known limit: reservations ("I agree,
but …") count as agreement.

The tables come first: phrases, idioms, negations and conditions. The patterns are in lower case, since they
are matched against normalised text. Words of scripts without spaces are searched anywhere, others as whole
words.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

# Adverbs that leave the agreement whole; "partly" and "mostly" are not among them.
_WHOLLY = (
    *("", "do ", "also ", "now ", "too ", "can ", "can only ", "still ", "fully ", "completely ", "totally "),
    *("strongly ", "entirely ", "wholeheartedly ", "absolutely ", "definitely ", "certainly ", "wholly "),
    *(
        "really ",
        "truly ",
        "gladly ",
        "happily ",
        "am happy to ",
        "am glad to ",
        "have to ",
        "must ",
        "therefore ",
        "thus ",
        "then ",
    ),
)
_FULL = ("", "full ", "complete ", "total ", "broad ", "unanimous ", "general ")
_WE = ("I", "we")

AGREEING_PHRASES = (
    *(
        f"{who} {how}{verb}"
        for who in (*_WE, "we all", "we both")
        for how in _WHOLLY
        for verb in ("agree", "concur")
    ),
    *(f"{who} in {how}agreement" for who in ("I am", "I'm", "we are", "we're") for how in _FULL),
    *(f"reached {how}{what}" for how in ("", "a ", "an ", *_FULL[1:]) for what in ("consensus", "agreement")),
    *(f"there is {how}consensus" for how in ("now ", *_FULL)),
    *(f"{who} have {how}consensus" for who in ("we", "we now") for how in ("a ", *_FULL)),
    *("agreed", "couldn't agree more", "could not agree more", "consensus reached", "consensus is reached"),
    *("consensus has been reached", "consensus achieved", "both of us agree", "all of us agree"),
    *(
        f"{came} to {how}{what}"
        for came in ("came", "come")
        for how in ("", "a ", "an ")
        for what in ("consensus", "agreement")
    ),
    *(
        f"{who} {verb} no {how}objection{many}"
        for who in _WE
        for verb in ("have", "see", "raise")
        for how in ("", "further ", "more ", "other ", "remaining ")
        for many in ("", "s")
    ),
    *(f"{who} {how} object" for who in _WE for how in ("do not", "don't", "no longer", "will not", "won't")),
    *("达成共识", "达成了共识", "达成一致", "达成了一致", "意见一致", "共识已达成", "同意", "赞成", "赞同"),
    *("達成共識", "達成了共識", "達成一致", "達成了一致", "意見一致", "共識已達成", "贊成", "贊同"),
    *(f"{how}认同" for how in ("我", "我们", "完全", "非常", "高度", "十分", "也", "都", "表示")),
    *(f"{how}認同" for how in ("我", "我們", "完全", "非常", "高度", "十分", "也", "都", "表示")),
    *(
        f"{no}{any}{what}"
        for no in ("没有", "没", "无", "沒有", "沒", "無")
        for any in ("", "任何", "什么", "什麼", "其他", "更多")
        for what in ("异议", "異議", "意见", "意見")
    ),
    *("不反对", "不反對", "不再反对", "不再反對"),
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

STANDALONE_PHRASES = (
    *(f"{how}consensus" for how in _FULL),
    *(
        f"no {how}objection{many}{whose}"
        for how in ("", "further ", "more ")
        for many in ("", "s")
        for whose in ("", " from me", " from my side", " here")
    ),
    *("共识", "共識"),
)
"""What means agreement as a sentence of its own: "Consensus.", but not "consensus is far away"."""

DISSENTING_PHRASES = (
    *("I disagree", "I still disagree", "I strongly disagree", "I must disagree", "I have to disagree"),
    *("I respectfully disagree", "we disagree", "we still disagree", "I object", "I oppose", "no consensus"),
    *("no agreement", "I have objections", "I have an objection", "I have one objection"),
    *(
        "反对",
        "反對",
        "不敢苟同",
        "有异议",
        "有異議",
        "反対です",
        "反対します",
        "반대합니다",
        "ich widerspreche",
        "je refuse",
        "me opongo",
    ),
)

IDIOMS = re.compile(
    r"\b(?:"
    r"(?:no|without(?: any)?) (?:doubt|question|hesitation|problems?|issues?|concerns?|reservations?|"
    r"further (?:points|questions|comments|changes))"
    r"|not only(?: do| does| did)?|nothing (?:to add|more|further|else)"
    r"|(?:the|an|as|previously|mutually) agreed|agreed[- ]upon"
    r"|agreed? to (?:keep|continue|discuss|talk|wait|postpone|defer|revisit|meet)"
    r"|(?:you|they|he|she|who|others?)(?: all| both| have| had| has)? agreed"
    r")\b"
    r"|非常|特别|特別|未来|未來|不错|不錯|不仅|不僅|不但|不得不|毫不犹豫|毫不猶豫"
    r"|(?:很难|很難|没有?理由|沒有?理由|无法|無法|不能|不可能)不(?=同意|赞同|贊同|赞成|贊成|认同|認同)"
    r"|(?:没有?|沒有?|毫?无|毫?無)(?:任何|什么|什麼|其他)?(?:问题|問題|疑问|疑問)"
    r"|有(?:没|沒)有[^,。]{0,4}(?:异议|異議|意见|意見)"
    r"|\b(?:vous êtes|tu es|ils sont|elles sont|être|mettre) d'accord\b|\b(?:essere|mettersi) d'accordo\b"
    r"|\b(?:он|она|они|вы|ты) (?:не )?соглас\w+"
    r"|[你您妳他她](?:们|們)?(?:也|都|已经|已經)?(?:同意|赞同|贊同|赞成|贊成|认同|認同|没有?异议|沒有?異議)"
    r"|要我(?:们|們)?(?:同意|赞同|贊同|赞成|贊成)"
    r"|(?:征得|徵得|征求|徵求|经过?|經過?)[^,。]{0,8}同意"
)
"""Expressions that contain a phrase or a negation without meaning it: "no doubt", "they agreed", 不错.
They are blanked out, character by character, before anything else is searched, so that positions stay
valid."""

DENIED_OBJECTIONS = re.compile(
    r"\b(?:no|without(?: any)?) (?:further |more |other )?objections?\b"
    r"|(?:没有?|沒有?|毫?无|毫?無)(?:任何|什么|什麼|其他)?(?:异议|異議|意见|意見)|不反对|不反對"
)
"""Blanked out around a phrase, since the negation in them does not concern it: 没有异议我同意."""

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
    r"|refus(?:es?|ed|ing)|declin(?:es?|ed|ing)|doubts?|den(?:y|ies)|unable|unwilling|reluctant"
    r"|far from|short of|fail(?:s|ed)? to|struggl(?:e|es|ing) to"
    r"|(?:hard|difficult|impossible|hesitant)(?: for \w+)? to"
    r"|nicht|kein\w*|nie|niemals|weder|ohne|ne|n'\w+|pas|jamais|aucun\w*|sans|nunca|jamás|tampoco|sin"
    r"|não|nao|nem|sem|non|senza|niet|geen|nooit|zonder|не|нет|никогда|без|안|못"
    r")\b"
    r"|不|没|沒|未|无法|無法|无人|無人|拒绝|拒絕|难(?![道怪免得])|難(?![道怪免得])|别|別|非"
)
"""Searched before a phrase, in its clause."""

TRAILING_NEGATIONS = re.compile(
    r"\bdisagree"
    r"|\b(?:not|never|cannot|hardly|no longer|\w+n't)\s+(?:\w+\s+){0,4}(?:agree|agreed|consensus|agreement)\b"
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
    r"|(?<!i )(?<!i'd )(?<!would )\b(?:say|answer|reply|respond|write)(?: with)?\s*$"
    r"|\b(?:thinks|believes|claims|says|said|argues|assumes)(?: that)?\s*$"
    r"|希望|需要|想要|争取|爭取|如何|怎么|怎麼|怎样|怎樣|为了|為了|努力|尽快|盡快|尽早|盡早|才能|能否|是否|可否"
    r"|应该|應該|应当|應當|必须|必須|尝试|嘗試|试图|試圖|直到|让我们|讓我們|期待|有望|寻求|尋求|力求|距离|距離"
)
"""Searched before a phrase, in its clause: agreement is wanted, planned or asked for, but not given
yet."""

QUESTION_ENDINGS = re.compile(r"(?:吗|嗎|么|麼|か)\s*$")
"""Searched behind a phrase, at the end of its clause."""


QUOTATIONS = re.compile(
    r'"[^"\n]+"|“[^“”\n]+”|„[^„“”\n]+[“”]|«[^«»\n]+»|「[^「」\n]+」|『[^『』\n]+』|`[^`\n]+`'
    r"|(?<!\w)['‘](?:[^'‘’\n]|(?<=\w)['’](?=\w))+['’](?!\w)"
)

_OWN = (
    r"(?:final |own )?(?:answer|vote|ballot|verdict|view|position|response|reply|decision|conclusion|opinion)"
)
OWN_WORDS_BEFORE = re.compile(
    rf"(?:\b(?:my|our) {_OWN}(?: is| remains)?|\b(?:i|we) (?:vote|answer|reply|respond|choose)(?: with)?"
    r"|我的[^,，。]{0,6}[是为為]|我(?:投|选|選|回答))\s*[:：,，]?\s*$",
    re.IGNORECASE,
)
OWN_WORDS_BEHIND = re.compile(rf"\s*(?:is|remains) (?:my|our) {_OWN}\b", re.IGNORECASE)
"""What introduces a quotation as the speaker's own answer: "my answer is 'I agree'"."""


_MARKS = str.maketrans({"’": "'", "‘": "'", "´": "'", "`": "", "*": "", "_": ""})
_CONTEXT_LENGTH = 300
"""How many characters before and behind a phrase are searched. It bounds the work for text without
punctuation, in which the whole text is one clause."""
MAX_READ = 20_000
"""How many characters of a long text are read: its end, where it says what it comes to. In doubt there is no
agreement."""
_UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Scripts that put no space between words: Han, kana, Thai, Lao, Burmese, Khmer."""


def is_agreement(text: str, phrases: Iterable[str] | None = None) -> bool:
    """Whether a text agrees, by its last phrase that takes a side. `phrases` replace the built-in ones."""
    if phrases is None:
        return detect_stance(text, AGREEING_PHRASES, DISSENTING_PHRASES, STANDALONE_PHRASES) is True
    return detect_stance(text, phrases, DISSENTING_PHRASES) is True


def detect_stance(
    text: str, agreeing: Iterable[str], dissenting: Iterable[str] = (), standalone: Iterable[str] = ()
) -> bool | None:
    """True for agreement, False for dissent, None if no phrase takes a side. The last phrase that does
    decides, so the search goes backwards and stops there."""
    plain = _blank(IDIOMS, normalize_text(_strip_quotes(end_of(text))))
    pattern = _pattern(tuple(agreeing), tuple(dissenting), tuple(standalone))
    found = list(pattern.finditer(plain))
    if not found:
        return None
    # A phrase such as 没有异议 contains a negation, which must not count for another phrase of its clause.
    around = _blank(DENIED_OBJECTIONS, pattern.sub(_blank_agreement, plain))
    clauses = _split_clauses(plain)
    stances = (
        _phrase_stance(_phrase_context(around, clauses, *each.span()), each.lastgroup or "")
        for each in reversed(found)
    )
    return next((each for each in stances if each is not None), None)


def end_of(text: str) -> str:
    """The text, or what is read of one that is too long, from the beginning of a word on."""
    if len(text) <= MAX_READ:
        return text
    _cut, _blank, rest = text[-MAX_READ:].partition(" ")
    return rest or text[-MAX_READ:]


def _blank(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(lambda found: " " * len(found[0]), text)


def _blank_agreement(found: re.Match[str]) -> str:
    return found[0] if found.lastgroup == "against" else " " * len(found[0])


def normalize_text(text: str) -> str:
    """The text in one spelling: no capitals, no full-width letters, no Markdown emphasis, plain
    apostrophes."""
    return unicodedata.normalize("NFKC", text.translate(_MARKS)).casefold()


def _strip_quotes(text: str) -> str:
    """Without what quotes others: lines that begin with ">", and words in quotation marks. A text that is
    one quotation is the speaker's own."""
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(">")).strip()
    if QUOTATIONS.fullmatch(lines.strip("*_.。!！ ")):
        return lines

    def blank(found: re.Match[str]) -> str:
        own = OWN_WORDS_BEFORE.search(lines[max(0, found.start() - 60) : found.start()])
        own = own or OWN_WORDS_BEHIND.match(lines, found.end())
        return found[0] if own else " " * len(found[0])

    return QUOTATIONS.sub(blank, lines)


@lru_cache(maxsize=128)
def _pattern(
    agreeing: tuple[str, ...], dissenting: tuple[str, ...], standalone: tuple[str, ...]
) -> re.Pattern[str]:
    # Dissent comes before the sentences of one word: "no consensus" is no consensus.
    groups = {"for": agreeing, "against": dissenting, "alone": standalone}
    return re.compile("|".join(f"(?P<{name}>{_alternatives(each)})" for name, each in groups.items()))


def _alternatives(phrases: tuple[str, ...]) -> str:
    # The longest first, since a pattern takes the first alternative that matches: 同意 begins 同意します.
    words = sorted(
        {" ".join(normalize_text(phrase).split()) for phrase in phrases} - {""}, key=len, reverse=True
    )
    return "|".join(map(_whole_phrase, words)) or "(?!)"


def _whole_phrase(phrase: str) -> str:
    """Matches a phrase as whole words: "agreed" not in "disagreed" or "agreed-upon". Scripts without
    spaces have no word boundaries, so there a phrase matches anywhere.

    What must not stand before the phrase is looked at behind its first character, by which most of the many
    phrases are ruled out much faster."""
    first, rest = re.escape(phrase[0]), re.escape(phrase[1:]).replace(r"\ ", r"\s+")
    start = first if _UNSPACED.match(phrase) else rf"{first}(?<!\w{first})(?<!\w-{first})"
    end = "" if _UNSPACED.match(phrase[-1]) else r"(?!\w|-\w)"
    return start + rest + end


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
        clauses.append(Clause(start, found.start(), found[0].strip() or "\n"))
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


def _phrase_stance(context: PhraseContext, kind: str) -> bool | None:
    """What one phrase says. Doubted agreement is a no; doubted dissent says nothing, it is no yes."""
    if "?" in context.mark or QUESTION_ENDINGS.search(context.behind) or UNFULFILLED.search(context.before):
        return None
    if kind == "alone" and not _is_sentence(context):
        return None
    doubted = _is_negated(context) or _is_conditional(context)
    if kind == "against":
        return None if doubted else False
    return not doubted


def _is_sentence(context: PhraseContext) -> bool:
    """Whether a phrase is a clause of its own that a sentence ends with. A line break alone does not end a
    sentence: the phrase may be a heading."""
    return not context.before.strip() and not context.behind.strip() and context.mark[:1] in ("", *".!。;")


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
