"""Model profiles: the entries under `models`, and the names of model providers.

An agent names a profile, or gives a model of its own with the same keys. A model is written as
`provider:name`, or with `provider` and `name`; the second form is needed for names that contain a colon.

The providers are a table here, because importing the library that implements them takes seconds, and a
workflow should be checked in a fraction of one. A test compares the table with the library's own. A
newer version of the library may know more providers, so an unknown one is a warning and not an error,
unless it misspells a known one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Final

from msgspec import Meta, Struct

from roundel.workflow.description import Description, Field
from roundel.workflow.diagnostics import Report, did_you_mean, match_misspelling
from roundel.workflow.document import Located
from roundel.workflow.fields import Names, Seconds, SourceLocation
from roundel.workflow.functions import entry_points

PROVIDER_ALIASES: Final = {
    "gemini": "google",
    "google-gla": "google",
    "google-vertex": "google-cloud",
    "claude": "anthropic",
}
"""Other names of providers."""
PROVIDERS: Final = (
    *("openai", "openai-chat", "openai-responses", "openai-decisions", "openai-codex", "openai-chatgpt"),
    *("anthropic", "google", "google-cloud", "azure", "azure-responses", "bedrock", "bedrock-mantle"),
    *("alibaba", "cerebras", "cohere", "crusoe", "deepseek", "elevenlabs", "fireworks", "github"),
    *("github-copilot", "groq", "heroku", "huggingface", "litellm", "meta", "mistral", "moonshotai"),
    *("nebius", "ollama", "openrouter", "ovhcloud", "sambanova", "sentence-transformers", "snowflake"),
    *("system-one", "together", "typesafe", "vercel", "vllm", "voyageai", "xai", "zai"),
)
GATEWAY_PREFIX: Final = "gateway/"
"""The prefix of a provider that is reached through the gateway of pydantic-ai."""


def installed_providers() -> dict[str, Any]:
    """The providers of installed packages by name, as entry points that are not imported yet."""
    return entry_points("roundel.providers")


def check_provider(name: str, at: Located, report: Report, also: Iterable[str] = ()) -> bool:
    """Whether a provider may be used. Reports an error for a misspelt one, and a warning for an unknown
    one."""
    known = (*PROVIDERS, *PROVIDER_ALIASES, *also)
    if name in known or name.startswith(GATEWAY_PREFIX) or name in installed_providers():
        return True
    meant = match_misspelling(name, (*known, *installed_providers()))
    if meant is not None:
        message = f"there is no model provider '{name}'"
        report.error("unknown-provider", message, at, f"did you mean '{meant}'?")
        return False
    hint = "for an OpenAI-compatible server, use openai with its base_url"
    report.warning("unknown-provider", f"the model provider '{name}' is not known", at, hint)
    return True


MODEL_VARIABLE: Final = "ROUNDEL_MODEL"
"""The environment variable with the model of agents that name none."""


class ModelChoiceError(ValueError):
    """The model that was given for agents without one is not `provider:name`, or has no known provider."""


def choose_model(
    given: str | None = None, option: str = "model", environment: Mapping[str, str] = os.environ
) -> str:
    """The model for agents that name none: the given one (`--model`, `model=`), else that of the environment;
    empty if there is neither. ModelChoiceError."""
    if given is not None:
        return parse_model(given, option)
    return parse_model(named, f"${MODEL_VARIABLE}") if (named := operator_model(environment)) else ""


def operator_model(environment: Mapping[str, str] = os.environ) -> str:
    """What the environment says, unchecked. On a server, it is the choice of its operator."""
    return environment.get(MODEL_VARIABLE, "").strip()


def parse_model(text: str, option: str) -> str:
    """A model as `provider:name`; ModelChoiceError, in which `option` is what it was given by.

    Stricter than a file, in which a name alone belongs to `openai`, and an unknown provider is a warning:
    here it is more often a slip, and it would decide who gets the texts of all agents."""
    provider, colon, name = text.strip().partition(":")
    if not (provider and colon and name):
        example = f"openai:{provider}" if provider and not colon else "openai:gpt-4o"
        raise ModelChoiceError(f"{option} takes PROVIDER:NAME, not '{text}'; for example {example}")
    known = (*PROVIDERS, *PROVIDER_ALIASES, *installed_providers())
    if provider not in known and not provider.startswith(GATEWAY_PREFIX):
        hint = did_you_mean(provider, known) or "a server that speaks OpenAI's protocol is `openai`"
        raise ModelChoiceError(f"{option} names the model provider '{provider}', which is not known; {hint}")
    return f"{provider}:{name}"


Amount = Annotated[float, Meta(ge=0)]
DEFAULT_PROFILE = "default"


class Price(Struct, frozen=True, omit_defaults=True):
    """The price of a model, in US dollars for a million tokens. It overrides the known price."""

    input: Amount
    output: Amount

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="price",
            en=("Price", "What a model costs per million tokens."),
            zh=("价格", "模型每百万 token 的价格。"),
            fields={
                "input": Field(
                    en=("Input", "The price of tokens that the model reads."),
                    zh=("输入价格", "模型读取的 token 的价格。"),
                    widget="money",
                    unit="usd_per_million_tokens",
                ),
                "output": Field(
                    en=("Output", "The price of tokens that the model writes."),
                    zh=("输出价格", "模型生成的 token 的价格。"),
                    widget="money",
                    unit="usd_per_million_tokens",
                ),
            },
        )


def model_fields() -> dict[str, Field]:
    """The descriptions of the keys that select a model, for profiles and for agents without a
    profile."""
    return {
        "provider": Field(
            en=("Provider", "The provider, if you write it separately from the name."),
            zh=("提供商", "与名称分开填写时的模型提供商。"),
        ),
        "name": Field(
            en=("Model name", "The name of the model, if you write it separately from the provider."),
            zh=("模型名称", "与提供商分开填写时的模型名称。"),
        ),
        "base_url": Field(
            en=("Address", "The address of the model, instead of the provider's default address."),
            zh=("地址", "模型的服务地址，取代提供商的默认地址。"),
            widget="url",
        ),
        "api_key": Field(
            en=(
                "API key",
                "The API key of the provider. Prefer the environment or a variable.",
            ),
            zh=("API 密钥", "提供商的密钥。建议放在环境变量或工作流变量中。"),
            widget="secret",
            see="agents.md#api-keys",
        ),
    }


class Profile(Struct, frozen=True, omit_defaults=True):
    """A model profile: which model, and how to call it."""

    provider: str = ""
    name: str = ""
    model: str = ""
    """Provider and name in one, as `provider:name`."""
    base_url: str = ""
    api_key: str = ""
    headers: dict[str, str] = {}
    params: dict[str, Any] = {}
    timeout: Seconds | None = None
    """The time limit of one call, in seconds."""
    price: Price | None = None
    fallback: Names = ()
    """Names of other profiles, tried in order when this model fails."""
    cache: bool = False
    """Whether a request that was answered before gets the same answer again, without a call."""
    at: SourceLocation = SourceLocation()

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="model_profile",
            en=("Model profile", "A model and its settings. Agents select it with `profile_id`."),
            zh=("模型配置", "一个模型及其调用方式。智能体通过 `profile_id` 引用。"),
            fields={
                "model": Field(
                    en=("Model", "The model, as `provider:name`."),
                    zh=("模型", "模型，写作 `provider:name`。"),
                    see="agents.md#model-selection",
                ),
                **model_fields(),
                "headers": Field(
                    en=("Headers", "Additional HTTP headers for each request."),
                    zh=("请求头", "每个请求附加的 HTTP 头。"),
                    widget="secret",
                ),
                "params": Field(
                    en=("Parameters", "Parameters for the provider, such as `temperature`."),
                    zh=("参数", "传给提供商的参数，例如 `temperature`。"),
                    see="agents.md#parameters",
                ),
                "timeout": Field(
                    en=("Time limit", "How long one call may take."),
                    zh=("时间限制", "单次调用最长可用的时间。"),
                    widget="duration",
                    unit="seconds",
                ),
                "price": Field(
                    en=(
                        "Price",
                        "The price of the model, if Roundel does not know it or yours is different.",
                    ),
                    zh=("价格", "模型的价格；用于价格未知或与公开价格不同的情况。"),
                    see="agents.md#cost",
                ),
                "fallback": Field(
                    en=("Fallback", "Other profiles to try, in this order, if the model does not answer."),
                    zh=("备用模型", "模型没有响应时依次尝试的其他模型配置。"),
                    widget="model",
                ),
                "cache": Field(
                    en=(
                        "Cache",
                        "Whether to reuse the stored answer for an identical request, without a call.",
                    ),
                    zh=("缓存", "相同的请求是否直接使用之前的答案，不再调用模型。"),
                    see="agents.md#response-cache",
                ),
            },
        )

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
    def provider_and_name(self) -> tuple[str, str]:
        return provider_and_name(self.model, self.provider, self.name)


def provider_and_name(model: str, provider: str, name: str) -> tuple[str, str]:
    """The provider and the name of a model. Without a provider it is `openai`, whose protocol most
    servers implement."""
    if model:
        first, colon, rest = model.partition(":")
        return (first, rest) if colon else (provider or "openai", model)
    return provider or "openai", name


def check_model(model: str, provider: str, name: str, at: Located, report: Report) -> bool:
    """Whether a model is given in one way only, with a valid provider. No model at all is fine here: an
    agent may use a profile.

    The location is that of the mapping, whose raw values are checked first: an empty text usually comes
    from an empty variable, and would look like a missing key."""
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
    return _check_provider_name(
        model, provider, given.get("model" if ":" in model else "provider", at), report
    )


def _check_provider_name(model: str, provider: str, at: Located, report: Report) -> bool:
    first, colon, rest = model.partition(":")
    if colon and not (first.strip() and rest.strip()):
        message = f"the model '{model}' has no {'name' if first.strip() else 'provider'}"
        report.error("no-model", message, at, "for example openai:gpt-4o")
        return False
    named_provider = first if colon else provider
    return not named_provider or check_provider(named_provider, at, report)
