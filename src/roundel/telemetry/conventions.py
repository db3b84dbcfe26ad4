"""The names of OpenTelemetry's conventions for generative AI, and our own names beside them.

The conventions are still in development, so all of their names are in one place here. The helpers that
spans and metrics share are here as well: addresses around an address, timestamps, and limits on the
number of labels.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import msgspec

from roundel.kernel.events import Event
from roundel.kernel.payloads import RunStarted

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
TOKEN_TYPE = "gen_ai.token.type"
WORKFLOW = "gen_ai.workflow.name"
AGENT = "gen_ai.agent.name"
FINISH_REASONS = "gen_ai.response.finish_reasons"
TOOL = "gen_ai.tool.name"
TOOL_CALL_ID = "gen_ai.tool.call.id"
ERROR_TYPE = "error.type"

INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"

RUN_ID = "roundel.run_id"
ADDRESS = "roundel.address"
NODE = "roundel.node"
LOOP = "roundel.loop"
ROUND = "roundel.round"
STATUS = "roundel.status"
REASON = "roundel.reason"
COST = "roundel.cost_usd"
CACHED = "roundel.cached"
CALL = "roundel.call"
PURPOSE = "roundel.purpose"
PARTIAL = "roundel.partial"
"""Marks a span whose beginning this process has not seen, because the run was resumed here."""

CAPTURE_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
CAPTURE_VALUES = ("true", "1", "span_only", "span_and_event")

TOKEN_BUCKETS = tuple(float(4**power) for power in range(14))
CALL_BUCKETS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
AGENT_BUCKETS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6)
WORKFLOW_BUCKETS = (1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0)

SCRIPT = "script"
"""The provider of scripted replies."""
_PROVIDERS = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "google": "gcp.gemini",
    "google-cloud": "gcp.vertex_ai",
    "google-gla": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "gemini": "gcp.gemini",
    "claude": "anthropic",
    "grok": "x_ai",
    "xai": "x_ai",
    "mistral": "mistral_ai",
    "moonshotai": "moonshot_ai",
    "openai-chat": "openai",
    "openai-responses": "openai",
}


def model_attributes(model: str) -> dict[str, Any]:
    """The attributes of a model, which events name as `provider:name`; an empty name is a script."""
    if not model:
        return {PROVIDER: SCRIPT}
    provider, colon, name = model.partition(":")
    if not colon:
        provider, name = "openai", model
    return {PROVIDER: _PROVIDERS.get(provider, provider), REQUEST_MODEL: name}


def format_message(role: str, text: str, stop: str = "") -> str:
    """One message, in the form that the conventions use for spans. `stop` says why a model stopped."""
    message: dict[str, Any] = {"role": role, "parts": [{"type": "text", "content": text}]}
    if role == "assistant":
        message["finish_reason"] = stop or "stop"
    return to_json([message])


def to_json(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=repr).decode()


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
NANOSECONDS_PER_SECOND = 1_000_000_000


@lru_cache(maxsize=16)  # events of one step share a timestamp
def to_nanoseconds(timestamp: str) -> int:
    """The timestamp of an event as OpenTelemetry counts time: nanoseconds since 1970.

    The time of the event is used, so that durations do not depend on when a process observes it. Integer
    arithmetic: a float has too few digits for nanoseconds.
    """
    return (datetime.fromisoformat(timestamp) - _EPOCH) // _MICROSECOND * 1000


MAX_NAMES = 200
MAX_RUNS = 1000
OTHER = "(other)"


class LabelLimiter:
    """Limits the number of names that become labels of a metric.

    Each label makes a series, and models may request tools that they invent. So all names after the
    first MAX_NAMES are reported as OTHER.
    """

    def __init__(self, max_names: int = MAX_NAMES) -> None:
        self._known: set[str] = set()
        self._max_names = max_names

    def __call__(self, name: str) -> str:
        if name not in self._known:
            if len(self._known) >= self._max_names:
                return OTHER
            self._known.add(name)
        return name


class RunRegistry:
    """The workflows of runs that were seen recently.

    The oldest of MAX_RUNS is dropped, so that a server that runs for months does not grow.
    """

    def __init__(self) -> None:
        self._runs: OrderedDict[str, str] = OrderedDict()

    def register(self, run_id: str, workflow: str) -> None:
        self._runs[run_id] = workflow
        if len(self._runs) > MAX_RUNS:
            self._runs.popitem(last=False)

    def lookup(self, event: Event) -> str:
        """The workflow of the run of an event; empty if the run began elsewhere and is not registered."""
        if isinstance(event.data, RunStarted) and event.run_id not in self._runs:
            self.register(event.run_id, event.data.workflow)
        return self._runs.get(event.run_id, "")
