"""Which model answers: profiles under `models`, and what an agent says of its own."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from roundel.workflow.diagnostics import Report
from roundel.workflow.document import Located
from roundel.workflow.fields import Place

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
        if self.model or self.name:
            return check_model(self.model, self.provider, self.name, at, report)
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
    """Whether a model is named in one way only."""
    given = at.value if isinstance(at.value, dict) else {}
    if model and name:
        message = "the model is named twice, by 'model' and by 'name'"
        report.error("two-models", message, given.get("name", at), "keep one of the two")
        return False
    if model and provider and ":" in model:
        message = "the provider is named twice, by 'model' and by 'provider'"
        report.error("two-models", message, given.get("provider", at), "keep one of the two")
        return False
    return True
