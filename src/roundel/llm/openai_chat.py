"""OpenAI's chat completions, with the field `name` that says which node a message comes from.

The client library has no place for the name of a speaker, so its model is extended at the one method that
converts the prompt of a user. The name is also part of the text (provider_messages.py): a version of the
library without this method would only lose the field.

Imported for models of OpenAI alone: the client library is an extra.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pydantic_ai.messages import UserPromptPart
from pydantic_ai.models.openai import OpenAIChatModel


@dataclass(repr=False)
class NamedPromptPart(UserPromptPart):
    """A message of a user with the name of its speaker."""

    name: str = field(default="", kw_only=True)


class NamedChatModel(OpenAIChatModel):
    """A model of OpenAI that sends the names of speakers. `clients.py` creates it."""

    sends_names = True

    async def _map_user_prompt(self, part: UserPromptPart) -> Any:
        prompt = await super()._map_user_prompt(part)
        if isinstance(part, NamedPromptPart):
            prompt["name"] = part.name
        return prompt
