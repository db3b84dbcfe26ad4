"""Edge conditions: always, never, by keywords, by a Python function, or by a CEL expression.

`Condition` is the struct in an edge. "Always" is None, so that the kernel spends nothing on an edge
without a condition. `compile_condition` turns a condition into a test that the kernel calls, when a plan
is compiled. Conditions by functions of users are not among these: the host calls the function, and its
answer is a fact (docs/decisions/0007). Keywords and expressions are bounded in cost (pattern.py,
expression.py), so the kernel evaluates them itself.

A bare text is the name of a function, which is what files of the dialect write. People also write an
expression or a keyword there; if no function has that name, `suggest_condition` finds out what was
probably meant.

A verdict is not a word that occurs somewhere: a model that is told to write ACCEPT also writes "I can't say
ACCEPT yet". `begins` and `only` test what an answer starts with, or consists of, behind the marks that models
put around it (`strip_marks`). `negate` turns a condition round, for the edge that takes everything else.

Whole words. `\\b` of regular expressions is no help in scripts that put no spaces between words: in
Chinese text every character would be part of one long word. `contains_word` treats characters of these
scripts as words of their own.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from operator import contains
from typing import Annotated, Any, ClassVar, Final

from msgspec import Meta, Struct

from roundel.workflow.description import Description, Field, Short, Variants
from roundel.workflow.document import Located
from roundel.workflow.expression import Expression, ExpressionError
from roundel.workflow.fields import INVALID, Reader, child
from roundel.workflow.functions import get_builtin, make_lazy, wrap_errors
from roundel.workflow.message import Message
from roundel.workflow.pattern import build_flags, check_pattern, compile_pattern

_UNSPACED_SCRIPTS: Final = frozenset(
    ("CJK", "IDEOGRAPHIC", "BOPOMOFO", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")
)
"""Scripts without spaces between words, by the first word of their characters' Unicode names. Python has
no table of scripts; the names are stable by a guarantee of the standard."""


def contains_word(text: str, word: str) -> bool:
    """Whether a text contains `word` as a whole word, and not as a part of a longer one.

    Adjacent letters, digits and `_` form a word. In scripts without spaces the end of a word cannot be
    determined, so there a character never belongs to the one beside it.
    """
    start = text.find(word)
    while start >= 0:
        begins = start == 0 or not _is_same_word(text[start - 1], text[start])
        if begins and _ends_word(text, start + len(word)):
            return True
        start = text.find(word, start + 1)
    return False


def begins_with(text: str, phrase: str) -> bool:
    """Whether a text begins with `phrase` as whole words. Both are without marks."""
    return text.startswith(phrase) and _ends_word(text, len(phrase))


def _ends_word(text: str, end: int) -> bool:
    return end == len(text) or not _is_same_word(text[end - 1], text[end])


_SPACES: Final = "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
_QUOTES: Final = (
    "\"'`\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u00ab\u00bb\u2039\u203a"  # straight, curly, angular
    "\u300a\u300b\u300c\u300d\u300e\u300f\u301d\u301e\u301f\uff02\uff07"  # Chinese, Japanese, full width
)
MARKS: Final = _SPACES + _QUOTES + "*_#>~-"
"""What models put around an answer: white space, quotes, and the marks of Markdown. A fixed list, so that it
does not depend on a version of Unicode."""
END_MARKS: Final = MARKS + ".!\u3002\uff01"


def strip_marks(text: str) -> str:
    """A text without the marks at both ends, and without full stops and exclamation marks at its end."""
    return text.lstrip(MARKS).rstrip(END_MARKS)


def _is_same_word(left: str, right: str) -> bool:
    """Whether two adjacent characters belong to one word. A combining mark belongs to the character
    before it."""
    if _is_mark(right):
        return left.isalnum() or _is_mark(left)
    return (_is_mark(left) or _is_word_character(left)) and _is_word_character(right)


def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] == "M"


def _is_word_character(character: str) -> bool:
    if character.isascii():
        return character.isalnum() or character == "_"
    # "HALFWIDTH KATAKANA LETTER A", "CJK UNIFIED IDEOGRAPH-4E00", "KATAKANA-HIRAGANA PROLONGED SOUND
    # MARK"
    name = unicodedata.name(character, "").removeprefix("HALFWIDTH ")
    return character.isalnum() and name.replace("-", " ").partition(" ")[0] not in _UNSPACED_SCRIPTS


EXPRESSION_NAMES = ("text", "data", "round", "run", "vars")
"""The names that an expression on an edge may use."""

Values = dict[str, Any]
WordList = Annotated[tuple[str, ...], Meta(extra={"wrap": True})]


class Keyword(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A condition by keywords. `none` is tested first, then `any`, `begins` and `only`, then `regex`. With
    `none` alone it is true if nothing is found."""

    any: WordList = ()
    none: WordList = ()
    regex: WordList = ()
    case_sensitive: bool = True
    word: bool = False
    """Whether `any` and `none` match whole words only, and not parts of words."""
    begins: WordList = ()
    only: WordList = ()
    negate: bool = False
    """Whether the condition is true for exactly the messages for which it would be false."""

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="keyword_condition",
            en=(
                "Keywords",
                "Looks for words in the text of the message. At least one of the lists must be given.",
            ),
            zh=("关键词", "在消息文本中查找词语。各列表至少填写一个。"),
            fields={
                "none": Field(
                    en=("None of", "If the message contains any of these, the condition is false."),
                    zh=("不含", "消息含有其中任何一个时，条件为假。"),
                ),
                "any": Field(
                    en=("Any of", "Else, if the message contains any of these, the condition is true."),
                    zh=("含有", "否则，消息含有其中任何一个时，条件为真。"),
                ),
                "begins": Field(
                    en=(
                        "Begins with",
                        "Else, if the message begins with any of these, as whole words, the condition is "
                        "true. Quotes and Markdown around the text do not count.",
                    ),
                    zh=(
                        "开头为",
                        "否则，消息以其中任何一个（按整词）开头时，条件为真。"
                        "文本外的引号和 Markdown 标记不计。",
                    ),
                    see="workflow-files.md#verdicts",
                ),
                "only": Field(
                    en=(
                        "Nothing but",
                        "Else, if the message is one of these and nothing else, the condition is true. "
                        "Quotes and Markdown around the text, and a full stop at its end, do not count.",
                    ),
                    zh=(
                        "仅为",
                        "否则，消息恰为其中一个时，条件为真。"
                        "文本外的引号和 Markdown 标记以及末尾的句号不计。",
                    ),
                    see="workflow-files.md#verdicts",
                ),
                "regex": Field(
                    en=(
                        "Patterns",
                        "Else, if any of these regular expressions is found, the condition is true.",
                    ),
                    zh=("正则表达式", "否则，任何一个正则表达式匹配时，条件为真。"),
                    widget="pattern",
                    see="workflow-files.md#patterns",
                ),
                "case_sensitive": Field(
                    en=("Case-sensitive", "Whether capital and small letters are different."),
                    zh=("区分大小写", "是否区分大写与小写字母。"),
                ),
                "word": Field(
                    en=(
                        "Whole words",
                        "Whether `any` and `none` match whole words only, and not parts of words.",
                    ),
                    zh=("整词匹配", "`any` 与 `none` 是否只匹配整个单词，而不匹配单词的一部分。"),
                ),
                "negate": Field(
                    en=(
                        "Negate",
                        "Whether the condition is true for exactly the messages for which it would be false: "
                        "for the edge that takes everything else.",
                    ),
                    zh=("取反", "是否将结果取反：条件在原本为假时为真，用于接收其余消息的边。"),
                    see="workflow-files.md#verdicts",
                ),
            },
        )

    def test(self) -> Callable[[str], bool]:
        """Compiles the keywords into a test of a text. Empty words are ignored: every text contains
        them."""
        fold = str if self.case_sensitive else str.casefold
        any_of = [fold(word) for word in self.any if word]
        none_of = [fold(word) for word in self.none if word]
        flags = build_flags(case_sensitive=self.case_sensitive)
        patterns = [compile_pattern(pattern, flags) for pattern in self.regex]
        begins = [phrase for word in self.begins if (phrase := strip_marks(fold(word)))]
        only = {phrase for word in self.only if (phrase := strip_marks(fold(word)))}
        otherwise = not (self.any or self.begins or self.only or self.regex)
        hits = contains_word if self.word else contains
        yes = not self.negate

        def holds(text: str) -> bool:
            folded = fold(text)
            # Loops instead of `any`, which creates a generator: this runs for each message on the edge.
            for word in none_of:
                if hits(folded, word):
                    return not yes
            for word in any_of:
                if hits(folded, word):
                    return yes
            if begins or only:
                bare = strip_marks(folded)
                if bare in only:
                    return yes
                for phrase in begins:
                    if begins_with(bare, phrase):
                        return yes
            found = otherwise or any(pattern.search(text) for pattern in patterns)
            return yes if found else not yes

        return holds


class FunctionRef(Struct, frozen=True, forbid_unknown_fields=True):
    """The config of a condition or processor by a Python function."""

    name: str

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="function_reference",
            en=("Function", "A Python function that gets the message."),
            zh=("函数", "接收消息的 Python 函数。"),
            fields={
                "name": Field(
                    en=("Name", "A registered name, or `module:function`."),
                    zh=("名称", "已注册的名称，或写作 `module:function`。"),
                    widget="function",
                    see="workflow-files.md#functions",
                ),
            },
        )


class Cel(Struct, frozen=True, forbid_unknown_fields=True):
    """The config of a condition by an expression."""

    expr: str

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="expression_condition",
            en=("Expression", "A CEL expression over the message."),
            zh=("表达式", "针对消息的 CEL 表达式。"),
            fields={
                "expr": Field(
                    en=(
                        "Expression",
                        "It knows `text`, `data`, `round`, `run` and `vars`, and must be true or false.",
                    ),
                    zh=("表达式", "可使用 `text`、`data`、`round`、`run` 和 `vars`，结果须为真或假。"),
                    widget="expression",
                    see="workflow-files.md#expressions",
                ),
            },
        )


class Condition(Struct, frozen=True, omit_defaults=True):
    """When an edge fires: exactly one of the fields is set. "Always" is not a Condition but None."""

    keyword: Keyword | None = None
    function: str | None = None
    expression: str | None = None
    never: bool = False

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="condition",
            en=("Condition", "When an edge fires."),
            zh=("条件", "边在何时触发。"),
            short=(
                Short(
                    kind=bool,
                    en=("Always or never", "True always fires, false never."),
                    zh=("总是或从不", "真表示总是触发，假表示从不触发。"),
                ),
                Short(
                    kind=str,
                    en=(
                        "Function",
                        "The name of a Python function that gets the message, or `module:function`.",
                    ),
                    zh=("函数", "接收消息的 Python 函数的名称，或写作 `module:function`。"),
                    widget="function",
                ),
            ),
            variants=Variants(
                forms=Condition.forms,
                en=("Type", "How it is decided whether the edge fires."),
                zh=("类型", "以何种方式判断边是否触发。"),
            ),
            fields={
                "cel": Field(
                    en=("CEL", "A CEL expression over the message, given alone, without a type."),
                    zh=("CEL 表达式", "针对消息的 CEL 表达式，单独填写，不需要类型。"),
                    widget="expression",
                    kind=str,
                    see="workflow-files.md#expressions",
                ),
            },
            alone=("cel",),
        )

    __uses__: ClassVar[dict[str, str]] = {"function": "condition"}

    forms: ClassVar[dict[str, type[Struct]]] = {
        "keyword": Keyword,
        "function": FunctionRef,
        "expression": Cel,
    }

    @classmethod
    def __read__(cls, at: Located, reader: Reader) -> Any:
        """Reads all forms: true, false, a name, `{cel: ...}`, or `{type, config}`."""
        value = at.value
        if value is None or value is True:
            return None
        if value is False:
            return cls(never=True)
        if isinstance(value, str):
            return cls.from_name(value)
        if isinstance(value, dict) and set(value) == {"cel"}:
            return cls.from_config(Cel, value["cel"], reader, short=True)
        return cls._read_variant(at, reader)

    @classmethod
    def from_name(cls, name: str) -> Condition | None:
        # Files of the dialect write `condition: "true"`. Decided here, these edges cost nothing in a
        # run.
        word = name.strip().lower()
        if word in ("true", "always_true", ""):
            return None
        return cls(never=True) if word == "false" else cls(function=name)

    @classmethod
    def _read_variant(cls, at: Located, reader: Reader) -> Any:
        form = reader.variant(at, cls.forms, "condition", alone=("cel",))
        if form is None:
            return INVALID
        kind, config = form
        return cls.from_config(kind, config, reader)

    @classmethod
    def from_config(cls, kind: type[Struct], at: Located, reader: Reader, short: bool = False) -> Any:
        what = "'cel' of the condition" if short else "the condition"
        config = reader.read(at, str if short else kind, what)
        if config is INVALID:
            return INVALID
        if isinstance(config, Keyword):
            return cls._from_keyword(config, at, reader)
        if isinstance(config, FunctionRef):
            return cls.from_name(config.name)
        source = config if isinstance(config, str) else config.expr
        place = at if short else child(at, "expr")
        return (
            cls(expression=source) if check_expression(source, EXPRESSION_NAMES, place, reader) else INVALID
        )

    @classmethod
    def _from_keyword(cls, config: Keyword, at: Located, reader: Reader) -> Any:
        if not (config.any or config.none or config.begins or config.only or config.regex):
            reader.report.error(
                "empty-condition",
                "the keyword condition has nothing to look for",
                at,
                "give at least one of any, none, regex, begins, only",
            )
            return INVALID
        for key in ("begins", "only"):
            for word in getattr(config, key):
                if not strip_marks(word):
                    message = f"{word!r} under '{key}' has no effect: it consists of marks that do not count"
                    reader.report.warning("without-effect", message, child(at, key), "look for it with 'any'")
        if config.word and not (config.any or config.none):
            message = "'word' has no effect: it applies to 'any' and 'none'"
            reader.report.warning("without-effect", message, child(at, "word"), "a pattern may use \\b")
        words, flags = child(at, "regex"), build_flags(case_sensitive=config.case_sensitive)
        places = words.value if isinstance(words.value, list) else [words]
        sound = [
            check_pattern(pattern, place, reader, flags)
            for pattern, place in zip(config.regex, places, strict=False)
        ]
        return INVALID if None in sound else cls(keyword=config)


def check_expression(source: str, names: tuple[str, ...], at: Located, reader: Reader) -> bool:
    """Compiles an expression while a file is read, and reports an error if it cannot be used."""
    try:
        Expression(source, names)
    except ExpressionError as error:
        reader.report.error("bad-expression", str(error), at)
        return False
    return True


ConditionTest = Callable[[Message, Callable[[], Values]], bool]
"""A test of a message. The second argument provides the names of an expression; it is a function, since
building them takes time and only expressions need them."""


def compile_condition(condition: Condition | None) -> ConditionTest | None:
    """Compiles a condition for the kernel; None means always.

    A condition by a function must be a built-in one here: the host calls all others. Patterns and
    expressions are compiled on first use (`make_lazy`), so that a stored run can be read where a newer
    library would reject one."""
    if condition is None:
        return None
    if condition.never:
        return lambda _message, _values: False
    if condition.keyword is not None:
        holds = make_lazy(condition.keyword.test)
        return lambda message, _values: holds(message.text)
    if condition.expression is not None:
        source = condition.expression
        true = make_lazy(lambda: Expression(source, EXPRESSION_NAMES).holds)
        return lambda message, values: true({"text": message.text, "data": message.data or {}, **values()})
    known = get_builtin("condition", condition.function or "")
    assert known is not None, condition.function
    function = wrap_errors(known)
    return lambda message, _values: bool(function(message))


_MAX_SUGGESTION_LENGTH: Final = 200
_IDENTIFIER: Final = re.compile(r"[A-Za-z_]\w*(?:[.:][A-Za-z_]\w*)*")
# What looks like an expression: rather too much than too little, since this is only a hint.
_EXPRESSION: Final = re.compile(
    r"[<>=]|&&|\|\||^\s*!"  # comparisons and logic
    rf"|\b(?:{'|'.join(EXPRESSION_NAMES)})\s*[.\[+*/%-]"  # data.score, data["score"]
    r"|\w\("  # has(data.score)
)


def suggest_condition(text: str) -> str:
    """A hint that shows the condition to write instead of an unknown function name; empty if the text
    may well be the name of a function. Called after no similar name was found."""
    text = " ".join(text.split())
    if len(text) > _MAX_SUGGESTION_LENGTH:
        return ""
    if _EXPRESSION.search(text):
        return f"an expression is written as condition: {{cel: {json.dumps(text, ensure_ascii=False)}}}"
    # An identifier in capitals, such as APPROVED, is more likely a keyword that an agent writes.
    if _IDENTIFIER.fullmatch(text) and not text.isupper():
        return ""
    word = text if re.fullmatch(r"\w+", text) else json.dumps(text, ensure_ascii=False)
    return f"a keyword is written as condition: {{type: keyword, config: {{begins: [{word}]}}}}"
