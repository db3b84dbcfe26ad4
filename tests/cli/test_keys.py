"""Keys as terminals send them, and a line that is edited with them."""

from __future__ import annotations

import pytest

from roundel.cli.keys import KeyDecoder, KeyPress, LineEditor


def names(*pieces: bytes) -> list[str]:
    decoder = KeyDecoder()
    return [press.name for piece in pieces for press in decoder.feed(piece)]


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        (b"\x1b[A", "up"),
        (b"\x1bOB", "down"),
        (b"\x1b[C", "right"),
        (b"\x1b[5~", "page-up"),
        (b"\x1b[Z", "back-tab"),
        (b"\r", "enter"),
        (b"\x7f", "backspace"),
        (b"\x0c", "ctrl-l"),
        ("茶".encode(), "茶"),
    ],
)
def test_keys_have_names(sent: bytes, name: str) -> None:
    assert names(sent) == [name]


def test_sequences_and_characters_may_arrive_in_pieces() -> None:
    tea = "茶".encode()
    assert names(b"s\x1b", b"[", b"Aj", tea[:1], tea[1:]) == ["s", "up", "j", "茶"]


def test_unknown_sequences_and_alt_keys_type_nothing() -> None:
    assert names(b"\x1b[99;5~", b"\x1b[1;2P", b"\x1bq", b"s") == ["s"]


def test_a_lone_escape_is_a_key_once_nothing_follows() -> None:
    decoder = KeyDecoder()
    assert decoder.feed(b"\x1b") == []
    assert decoder.waits
    assert decoder.flush() == [KeyPress("escape")]
    assert not decoder.waits


def test_a_pasted_text_is_one_key_press() -> None:
    decoder = KeyDecoder()
    assert decoder.feed(b"\x1b[200~step\rcon") == []
    assert not decoder.waits, "a long paste is not taken for the key Esc"
    assert decoder.feed(b"tinue\x1b[201~q") == [KeyPress("paste", "step\ncontinue"), KeyPress("q", "q")]


def typed(line: LineEditor, *presses: str) -> list[bool | None]:
    return [line.press(KeyPress(name, name if len(name) == 1 else "")) for name in presses]


def test_a_line_is_edited_at_its_cursor() -> None:
    line = LineEditor("edit:", "tea is god")
    typed(line, "left", "o", "home", "delete", "T", "end", "!")
    assert line.text == "Tea is good!"
    typed(line, "ctrl-w", "ctrl-w", "backspace")
    assert line.text == "Tea"
    typed(line, "left", "ctrl-k", "ctrl-u", "backspace", "delete")
    assert line.text == ""


def test_enter_accepts_and_escape_cancels() -> None:
    assert typed(LineEditor(""), "a", "enter") == [None, True]
    assert typed(LineEditor(""), "a", "escape") == [None, False]


def test_a_pasted_text_becomes_one_line() -> None:
    line = LineEditor("")
    line.press(KeyPress("paste", "one\ntwo\n"))
    assert line.text == "one two"


@pytest.mark.parametrize("width", [8, 20, 80])
def test_a_long_line_shows_the_part_around_the_cursor(width: int) -> None:
    line = LineEditor("edit message 0:", "茶" * 100 + "end")
    assert line.render(width, str).cell_len <= width
    assert line.render(width, str).plain.endswith("d "), "the cursor is behind the text"
    typed(line, "home")
    assert line.render(width, str).cell_len <= width
