"""The difference between two rounds, word by word."""

from __future__ import annotations

from roundel.cli.word_diff import compare_words, counts, diff_text


def marked(before: str, after: str) -> str:
    return diff_text(compare_words(before, after), marked=True).plain


def test_words_are_removed_and_added() -> None:
    assert marked("Tea is a hot drink.", "Tea is a cold drink.") == "Tea is a -[hot] +[cold] drink."
    assert counts(compare_words("a b c", "a x y c d")) == (3, 1)


def test_the_last_word_and_its_successor_are_apart() -> None:
    assert marked("Drink tea.", "Drink coffee.").split() == ["Drink", "-[tea.]", "+[coffee.]"]


def test_only_words_count_and_not_the_space_between_them() -> None:
    assert counts(compare_words("one two\nthree", "one\n\ntwo three")) == (0, 0)


def test_chinese_is_compared_by_characters() -> None:
    assert marked("人们在早晨喝茶。", "人们在清晨喝茶。") == "人们在-[早]+[清]晨喝茶。"


def test_long_unchanged_passages_are_cut() -> None:
    before = "begin " + "same " * 500 + "end"
    shown = marked(before, before.replace("begin", "start"))
    assert shown.startswith("-[begin] +[start] same")
    assert "…" in shown and len(shown) < 200


def test_colours_replace_marks() -> None:
    text = diff_text(compare_words("old", "new"), marked=False)
    assert text.plain.split() == ["old", "new"]
    assert {str(span.style) for span in text.spans} == {"red strike", "green"}


def test_a_very_long_text_is_compared_in_part() -> None:
    before = " ".join(map(str, range(10_000)))
    assert marked(before, before.replace("5 ", "five ")).endswith("…")
