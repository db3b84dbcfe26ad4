"""The names of model providers, known without importing the library that speaks to them.

That takes seconds, and a workflow is to be checked in a fraction of one. A test holds the table against the
library's own; a provider that only a newer version knows is therefore a warning, not an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from roundel.workflow.diagnostics import Report
from roundel.workflow.document import Located
from roundel.workflow.functions import entry_points
from roundel.workflow.spelling import misspelling_of

ALIASES: Final = {
    "gemini": "google",
    "google-gla": "google",
    "google-vertex": "google-cloud",
    "claude": "anthropic",
}
"""What providers are also called."""
PROVIDERS: Final = (
    *("openai", "openai-chat", "openai-responses", "openai-decisions", "openai-codex", "openai-chatgpt"),
    *("anthropic", "google", "google-cloud", "azure", "azure-responses", "bedrock", "bedrock-mantle"),
    *("alibaba", "cerebras", "cohere", "crusoe", "deepseek", "elevenlabs", "fireworks", "github"),
    *("github-copilot", "groq", "heroku", "huggingface", "litellm", "meta", "mistral", "moonshotai"),
    *("nebius", "ollama", "openrouter", "ovhcloud", "sambanova", "sentence-transformers", "snowflake"),
    *("system-one", "together", "typesafe", "vercel", "vllm", "voyageai", "xai", "zai"),
)
GATEWAY: Final = "gateway/"
"""Stands before the name of a provider that is reached through pydantic-ai's gateway."""


def offered_providers() -> dict[str, Any]:
    """The providers of installed packages, by name: entry points that are not loaded yet."""
    return entry_points("roundel.providers")


def check_provider(name: str, at: Located, report: Report, also: Iterable[str] = ()) -> bool:
    """Whether a provider may be used: it is known, or no misspelling of one that is."""
    known = (*PROVIDERS, *ALIASES, *also)
    if name in known or name.startswith(GATEWAY) or name in offered_providers():
        return True
    meant = misspelling_of(name, (*known, *offered_providers()))
    if meant is not None:
        message = f"there is no model provider '{name}'"
        report.error("unknown-provider", message, at, f"did you mean '{meant}'?")
        return False
    hint = "for a server that speaks OpenAI's protocol write openai, with its base_url"
    report.warning("unknown-provider", f"the model provider '{name}' is not known", at, hint)
    return True
