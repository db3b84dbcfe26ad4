"""What a tool of an MCP server gave, as text for a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roundel.workflow.message import json_text

if TYPE_CHECKING:
    from mcp.types import CallToolResult, ContentBlock


def result_text(result: CallToolResult) -> str:
    parts = [_block_text(block) for block in result.content]
    if result.structured_content is not None and not any(block.type == "text" for block in result.content):
        parts.append(json_text(result.structured_content))
    return "\n".join(parts)


def _block_text(block: ContentBlock) -> str:
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return f"[{block.type} {block.mime_type}, {_decoded_size(block.data)} bytes]"
        case "resource_link":
            return f"[resource {block.name} {block.uri}]"
        case "resource":
            resource = block.resource
            if hasattr(resource, "text"):
                return resource.text
            kind = f" {resource.mime_type}" if resource.mime_type else ""
            return f"[resource {resource.uri}{kind}, {_decoded_size(resource.blob)} bytes]"


def _decoded_size(encoded: str) -> int:
    """How many bytes a base64 text stands for."""
    return len(encoded) * 3 // 4 - encoded.count("=", -2)
