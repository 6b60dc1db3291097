"""What a trace says about a rollout and its model calls: OpenTelemetry's names for generative AI (semantic conventions 1.37).

Neither messages nor answers nor error texts are traced, only numbers, names and settings, so that no secret and no content of a
dataset leaves with a trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from osmosis.pure.canonical import decode_json
from osmosis.pure.members import decode_member
from osmosis.pure.providers import Endpoint
from osmosis.pure.usage import CallUsage

Attributes = dict[str, str | int | float | bool | tuple[str, ...]]

_SETTINGS = (
    ("temperature", "gen_ai.request.temperature", (int, float)),
    ("top_p", "gen_ai.request.top_p", (int, float)),
    ("top_k", "gen_ai.request.top_k", (int, float)),
    ("max_tokens", "gen_ai.request.max_tokens", (int,)),
    ("max_completion_tokens", "gen_ai.request.max_tokens", (int,)),
    ("seed", "gen_ai.request.seed", (int,)),
    ("frequency_penalty", "gen_ai.request.frequency_penalty", (int, float)),
    ("presence_penalty", "gen_ai.request.presence_penalty", (int, float)),
)
_PROVIDER_NAMES = {
    "gemini": "gcp.gemini",
    "vertex_ai": "gcp.vertex_ai",
    "bedrock": "aws.bedrock",
    "azure": "azure.ai.openai",
    "azure_ai": "azure.ai.inference",
    "mistral": "mistral_ai",
    "xai": "x_ai",
    "watsonx": "ibm.watsonx.ai",
}


def rollout_attributes(rollout_id: str, source_row: int, run_index: int) -> Attributes:
    """A rollout's span. `source_row` is the position in the dataset file."""
    return {
        "gen_ai.operation.name": "invoke_agent",
        "osmosis.rollout.id": rollout_id,
        "osmosis.row": source_row,
        "osmosis.run": run_index,
    }


def usage_attributes(calls: tuple[CallUsage, ...], cost_usd: float | None) -> Attributes:
    """Tokens, and US dollars where they are known. Empty when nothing was reported."""
    attributes: Attributes = {}
    if calls:
        attributes["gen_ai.usage.input_tokens"] = sum(call.prompt_tokens for call in calls)
        attributes["gen_ai.usage.output_tokens"] = sum(call.completion_tokens for call in calls)
    if cost_usd is not None:
        attributes["osmosis.cost_usd"] = cost_usd
    return attributes


def request_attributes(endpoint: Endpoint, body: bytes, *, stream: bool) -> Attributes:
    """A call's span when it begins. `body` is the shaped request."""
    fields: Mapping[str, Any] = decode_json(body)
    parts = urlsplit(endpoint.base_url)
    attributes: Attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": _PROVIDER_NAMES.get(endpoint.provider, endpoint.provider),
        "gen_ai.request.model": endpoint.model,
        "gen_ai.output.type": "json" if isinstance(fields.get("response_format"), dict) else "text",
        "osmosis.stream": stream,
    }
    if parts.hostname:
        attributes["server.address"] = parts.hostname
        attributes["server.port"] = parts.port or (443 if parts.scheme == "https" else 80)
    for name, attribute, kinds in _SETTINGS:
        value = fields.get(name)
        if isinstance(value, kinds) and not isinstance(value, bool):
            attributes[attribute] = value
    return attributes


def answer_attributes(members: dict[str, bytes]) -> Attributes:
    """What an answer, or the last chunk with a choice of a stream, says about itself."""
    attributes: Attributes = {}
    for name in ("id", "model"):
        if isinstance(value := decode_member(members, name), str):
            attributes[f"gen_ai.response.{name}"] = value
    choices = decode_member(members, "choices")
    reasons = (
        [choice.get("finish_reason") for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else []
    )
    if named := tuple(reason for reason in reasons if isinstance(reason, str)):
        attributes["gen_ai.response.finish_reasons"] = named
    return attributes
