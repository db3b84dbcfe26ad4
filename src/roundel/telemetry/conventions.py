"""The names of OpenTelemetry's conventions for generative AI, and those of our own beside them.

They are still in development there, so they stand in one place here.
"""

from __future__ import annotations

from typing import Any

import msgspec

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
TOKEN_TYPE = "gen_ai.token.type"
WORKFLOW = "gen_ai.workflow.name"
AGENT = "gen_ai.agent.name"
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
PARTIAL = "roundel.partial"
"""Its beginning was not seen: the run has gone on from elsewhere."""

CAPTURE_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
CAPTURE_VALUES = ("true", "1", "span_only", "span_and_event")

TOKEN_BUCKETS = tuple(float(4**power) for power in range(14))
CALL_BUCKETS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
AGENT_BUCKETS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6)
WORKFLOW_BUCKETS = (1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0)

SCRIPT = "script"
"""The provider of what a script says."""
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
    """Of a model as it stands in events, `provider:name`; of a script if it is empty."""
    if not model:
        return {PROVIDER: SCRIPT}
    provider, colon, name = model.partition(":")
    if not colon:
        provider, name = "openai", model
    return {PROVIDER: _PROVIDERS.get(provider, provider), REQUEST_MODEL: name}


def format_message(role: str, text: str) -> str:
    """One message, in the form in which messages stand in spans."""
    message: dict[str, Any] = {"role": role, "parts": [{"type": "text", "content": text}]}
    if role == "assistant":
        message["finish_reason"] = "stop"
    return to_json([message])


def to_json(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=repr).decode()
