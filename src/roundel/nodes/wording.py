"""The words by which agreement is recognised, in several languages; all in small letters.

Scripts without spaces are looked for as they are, the others as whole words.
"""

from __future__ import annotations

import re

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
"""Turns of phrase that hold a phrase, or a no, and do not mean it."""

CLAUSE_BREAKS = re.compile(
    r"[.!?;:,\n。、()\[\]؟]+|\s[-–]+\s|—+"
    r"|\b(?:and|but|so|because|however|though|although|und|aber|weil|mais|pero|porque|maar|но)\b"
    r"|但是?|不过|不過|然而|可是|而且|所以|因为|因為|并且|並且"
)
"""Where a clause ends. Words that stand in a negation ("not yet agreed") are not among them."""

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
"""Before a phrase, in its clause."""

TRAILING_NEGATIONS = re.compile(
    r"\bdisagree"
    r"|^\s+(?:(?:with|on|to|about)\s+)?(?:almost\s+)?"
    r"(?:nothing|none|nobody|no one|neither|not at all|in no way)\b"
    r"|^[ぁ-ん]*?(?:ませ|ない|なか|かね)"
)
"""Behind a phrase, in its clause."""

CONDITIONS = re.compile(
    r"(?<!\w)(?:"
    r"(?<!even )if|unless|only (?:if|when|once)|provided|providing|assuming|supposing|(?:as|so) long as"
    r"|on condition|contingent|subject to|in case"
    r"|wenn|falls|sofern|vorausgesetzt|si(?= \w)|à condition|pourvu|siempre que|a menos que|con tal"
    r"|mits|tenzij|если|при условии|만약"
    r")(?!\w)"
    r"|如果|若(?!干)|假如|要是|除非|只要|倘若|前提|的话|的話|なら|たら|れば|限り"
)
"""In the clause of a phrase, or at the beginning of the one before or behind it."""

CONDITION_ENDS = re.compile(r"(?:的话|的話|なら|たら|れば|限り)\s*$")
"""At the end of the clause before."""

UNFULFILLED = re.compile(
    r"\b(?:hope|hoping|wish|whether|until|till|needs? to|wants? to|try to|trying to|in order to|how to)\b"
    r"|\b(?:can|could|shall|should|do|did|would|may|might|let|how|when|once|before)"
    r"(?:\s+(?:we|i|you|they|all|have|a))*\s*$"
    r"|\b(?:have|are)\s+(?:we|i|you|they)(?:\s+all)?\s*$"
    r"|希望|需要|想要|争取|爭取|如何|怎么|怎麼|怎样|怎樣|为了|為了|努力|尽快|盡快|尽早|盡早|才能|能否|是否|可否"
    r"|应该|應該|应当|應當|必须|必須|尝试|嘗試|试图|試圖|直到|让我们|讓我們|期待|有望|寻求|尋求|力求"
)
"""Before a phrase, in its clause: it is not so yet."""

QUESTION_ENDINGS = re.compile(r"(?:吗|嗎|么|麼|か)\s*$")
"""Behind a phrase, at the end of its clause."""
