"""The masker: values of secrets are found however they are written, and nothing else is changed."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from roundel.workflow.secrets import MASK, SecretMasker, StreamMasker, is_secret_name

KEY = "sk-live-0123456789"
ODD = 'pass "word" ä\\0'


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in [name for name in os.environ if is_secret_name(name) or "://" in os.environ[name]]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "house_token", "Secret", "PGPASSWORD", "keys"])
def test_secret_names_are_recognised(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["TOPIC", "PATH", "K_E_Y", "user"])
def test_ordinary_names_are_not_secret(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    "written",
    [
        ODD,
        json.dumps(ODD),
        json.dumps(ODD, ensure_ascii=False),
        json.dumps(json.dumps({"inner": ODD})),
        repr(ODD),
        quote(ODD),
        quote(ODD, safe=""),
        quote_plus(ODD),
        str({"key": [ODD]}),
    ],
)
def test_encoded_secret_is_masked(written: str) -> None:
    mask_value = SecretMasker([ODD]).mask(f"before {written} after")
    assert MASK in mask_value
    assert "word" not in mask_value
    assert mask_value.startswith("before ") and mask_value.endswith(" after")


def test_longest_secret_is_masked_first() -> None:
    secrets = SecretMasker(["sk-0123456", "sk-0123456-and-more"])
    assert secrets.mask("sk-0123456-and-more, sk-0123456") == "***, ***"


def test_key_after_its_scheme_is_masked() -> None:
    secrets = SecretMasker()
    secrets.add_header(f"Bearer {KEY}")
    assert secrets.mask(f"Bearer {KEY} or {KEY}") == "*** or ***"


def test_lines_of_a_multiline_secret_are_masked() -> None:
    secrets = SecretMasker(["-----BEGIN-----\nMIIBVAIBADANBg\nkqhkiG9w0BAQEF\n"])
    assert secrets.mask("cannot read MIIBVAIBADANBg") == "cannot read ***"


def test_credentials_of_a_url() -> None:
    secrets = SecretMasker()
    secrets.add_urls("https://ann:pa55%40word@host/v1?api_key=q-0123456&page=2")
    basic = base64.b64encode(b"ann:pa55@word").decode()
    text = f"https://ann:pa55%40word@host/v1?api_key=q-0123456&page=2 pa55@word q-0123456 {basic} ann"
    assert secrets.mask(text) == "https://ann:***@host/v1?api_key=***&page=2 *** *** *** ann"


def test_password_in_basic_authentication_is_masked() -> None:
    word = base64.b64encode(b"ann:pa55-word").decode()
    secrets = SecretMasker()
    secrets.add_header(f"Basic {word}")
    assert secrets.mask(f"{word} is pa55-word") == "*** is ***"


def test_token_used_as_url_user_is_masked() -> None:
    secrets = SecretMasker()
    secrets.add_urls("https://ghp_0123456789abcdef:x-oauth-basic@host and ssh://git@host")
    assert secrets.mask("ghp_0123456789abcdef x-oauth-basic git") == "*** x-oauth-basic git"


# Short values.


@pytest.mark.parametrize("short", ["", "a", "1234567"])
def test_short_value_is_not_masked(short: str) -> None:
    assert SecretMasker([short]).mask(f"a{short} 12345678") == f"a{short} 12345678"


def test_short_password_is_masked_only_in_its_url() -> None:
    secrets = SecretMasker()
    secrets.add_urls("http://ann:tea@host/?key=cup")
    assert (
        secrets.mask("http://ann:tea@host/?key=cup tea in a cup")
        == "http://ann:***@host/?key=*** tea in a cup"
    )


def test_format_keywords_and_names_are_not_masked() -> None:
    secrets = SecretMasker(["assistant", "complete", "Reviewer", "tool_call"], names=["The Reviewer"])
    text = "assistant completed The Reviewer tool_calls"
    assert secrets.mask(text) == text


# Data.


class Box(Struct, frozen=True):
    address: str
    held: Any
    count: int = 0


def test_data_is_masked_at_any_depth() -> None:
    box = Box(KEY, {"list": [KEY, ("x", KEY)], f"key {KEY}": 1, "inner": Box("a", KEY)})
    mask_value = SecretMasker([KEY]).mask_value(box, frozenset({"address"}))
    assert mask_value == Box(KEY, {"list": [MASK, ("x", MASK)], f"key {MASK}": 1, "inner": Box("a", MASK)})


def test_a_number_in_data_may_be_a_secret() -> None:
    secrets = SecretMasker(["12345678"])
    assert secrets.mask_value({"pin": 12345678, "size": 1234567}) == {"pin": MASK, "size": 1234567}
    assert secrets.mask_value(Box("a", None, 12345678)).count == 12345678


def test_data_without_secrets_is_the_same_object() -> None:
    box = Box("a", {"list": ["x", 1, None, True, 1.5, ("y",)]})
    assert SecretMasker([KEY]).mask_value(box) is box


def test_secrets_are_detected_in_json() -> None:
    secrets = SecretMasker([ODD])
    assert secrets.found_in(json.dumps({"x": ODD}, ensure_ascii=False).encode())
    assert not secrets.found_in(b'{"x": "word"}')
    assert not SecretMasker().found_in(b"anything")


# The environment.


def test_environment_secrets_are_reloaded_when_they_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not SecretMasker()
    monkeypatch.setenv("HOUSE_TOKEN", KEY)
    monkeypatch.setenv("DATABASE_URL", "postgres://ann:pa55-word@db/house")
    assert SecretMasker().mask(f"{KEY} pa55-word") == "*** ***"
    monkeypatch.setenv("HOUSE_TOKEN", "another-0123456")
    assert SecretMasker().mask(f"{KEY} another-0123456") == f"{KEY} ***"


# A text that comes in pieces.


@given(st.data())
def test_masked_stream_does_not_depend_on_chunk_boundaries(data: st.DataObject) -> None:
    secrets = SecretMasker([KEY, "sk-live-0123456789-longer"])
    parts = data.draw(st.lists(st.sampled_from([KEY, "sk-live", "sk-live-0123456789-longer", " ", "tea"])))
    text = "".join(parts) + " the end."
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)))))
    stream, shown = StreamMasker(secrets), ""
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        shown += stream.feed(text[start:end])
        assert KEY not in shown
    assert shown == secrets.mask(text)


# Nothing else is changed.

texts = st.text(st.sampled_from('abk-019 "\\/%ä\n*:@=?&')) | st.text()
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner) | st.tuples(inner, inner),
)


@given(texts, st.lists(st.text(st.sampled_from('abk-019 "\\/%ä'), max_size=12)))
def test_a_text_without_secrets_is_left_as_it_is(text: str, secrets: list[str]) -> None:
    known = [
        secret for secret in secrets if not any(line and line in text for line in [secret, secret.strip()])
    ]
    masker = SecretMasker(known)
    mask_value = masker.mask(text)
    forms = [
        form for secret in known for form in (secret, quote(secret), quote_plus(secret), repr(secret)[1:-1])
    ]
    forms += [json.dumps(secret)[1:-1] for secret in known]
    if not any(form and form in text for form in forms if len(form) >= 8):
        assert mask_value is text or mask_value == text


@given(values)
def test_data_without_secrets_is_left_as_it_is(value: Any) -> None:
    assert SecretMasker(["never-in-there-0123456789"]).mask_value(value) is value


@given(texts, texts)
def test_a_secret_is_always_masked(before: str, after: str) -> None:
    secrets = SecretMasker([KEY, ODD])
    for key in (KEY, ODD):
        assert key not in secrets.mask(f"{before}{key}{after}")


def test_a_stream_does_not_cut_a_secret_that_ends_like_another_begins() -> None:
    stream = StreamMasker(SecretMasker(["abcd-0123", "0123-efgh"]))
    shown = stream.feed("abcd-0123") + stream.feed("-efgh ") + stream.feed("the end.")
    assert "abcd" not in shown
    assert shown.endswith("the end.")
