"""Which model answers: profiles under `models`, and what an agent says of its own."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from roundel.workflow.diagnostics import Report
from roundel.workflow.document import Located
from roundel.workflow.fields import Place
from roundel.workflow.providers import check_provider

Names = Annotated[tuple[str, ...], Meta(extra={"wrap": True})]
Amount = Annotated[float, Meta(ge=0)]
Seconds = Annotated[float, Meta(gt=0)]
DEFAULT_PROFILE = "default"


class Price(Struct, frozen=True, omit_defaults=True):
    """US dollars for a million tokens."""

    input: Amount
    output: Amount


class Profile(Struct, frozen=True, omit_defaults=True):
    """A model, and how it is asked."""

    provider: str = ""
    name: str = ""
    model: str = ""
    """Both in one, as `provider:name`."""
    base_url: str = ""
    api_key: str = ""
    headers: dict[str, str] = {}
    params: dict[str, Any] = {}
    timeout: Seconds | None = None
    """The seconds that one call may take."""
    price: Price | None = None
    fallback: Names = ()
    """Other profiles, tried in turn when this model does not answer."""
    cache: bool = False
    """Whether a request that was answered before gets the same answer, without a call."""
    at: Place = Place()

    __aliases__: ClassVar[dict[str, str]] = {
        "parameters": "params",
        "baseUrl": "base_url",
        "apiKey": "api_key",
    }

    def __check__(self, at: Located, report: Report) -> bool:
        if not check_model(self.model, self.provider, self.name, at, report):
            return False
        if self.model or self.name:
            return True
        report.error("no-model", "a profile has neither 'model' nor 'name'", at, "for example openai:gpt-4o")
        return False

    @property
    def named(self) -> tuple[str, str]:
        return named(self.model, self.provider, self.name)


def named(model: str, provider: str, name: str) -> tuple[str, str]:
    """Provider and name of a model; without a provider it is `openai`, whose protocol most servers speak."""
    if model:
        first, colon, rest = model.partition(":")
        return (first, rest) if colon else (provider or "openai", model)
    return provider or "openai", name


def check_model(model: str, provider: str, name: str, at: Located, report: Report) -> bool:
    """Whether a model, where there is one, is named in one way only, with a provider that there is."""
    given = at.value if isinstance(at.value, dict) else {}
    for key in ("model", "provider", "name"):
        if key in given and given[key].value is not None and not str(given[key].value).strip():
            hint = f"write a {key}, or leave it out; is a variable empty?"
            report.error("no-model", f"'{key}' of a model is empty", given[key], hint)
            return False
    if model and name:
        message = "the model is named twice, by 'model' and by 'name'"
        report.error("two-models", message, given.get("name", at), "keep one of the two")
        return False
    if model and provider and ":" in model:
        message = "the provider is named twice, by 'model' and by 'provider'"
        hint = "keep one of the two; a model whose name has a colon is written with 'provider' and 'name'"
        report.error("two-models", message, given.get("provider", at), hint)
        return False
    return _check_named(model, provider, given.get("model" if ":" in model else "provider", at), report)


def _check_named(model: str, provider: str, at: Located, report: Report) -> bool:
    first, colon, rest = model.partition(":")
    if colon and not (first.strip() and rest.strip()):
        message = f"the model '{model}' has no {'name' if first.strip() else 'provider'}"
        report.error("no-model", message, at, "for example openai:gpt-4o")
        return False
    named_provider = first if colon else provider
    return not named_provider or check_provider(named_provider, at, report)
