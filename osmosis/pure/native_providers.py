"""Native providers: where their key and base URL stand, and what LiteLLM's translation would lose (E7, E32). Data and its use.

A row of NATIVE_ENDPOINTS is (variables that name another base URL, variables that hold the key), as LiteLLM 1.110.2 reads
them. A provider whose credentials are more than one key (Bedrock, Vertex AI) has no key variables here: LiteLLM reads what
it needs from the environment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from osmosis.pure.errors import Problem

NATIVE_ENDPOINTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "anthropic": (("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"), ("ANTHROPIC_API_KEY",)),
    "gemini": (("GEMINI_API_BASE",), ("GEMINI_API_KEY", "GOOGLE_API_KEY")),
    "azure": (("AZURE_API_BASE",), ("AZURE_API_KEY", "AZURE_OPENAI_API_KEY")),
    "azure_ai": (("AZURE_AI_API_BASE",), ("AZURE_AI_API_KEY",)),
    "cohere": (("COHERE_API_BASE",), ("COHERE_API_KEY", "CO_API_KEY")),
    "cohere_chat": (("COHERE_API_BASE",), ("COHERE_API_KEY", "CO_API_KEY")),
    "mistral": (("MISTRAL_API_BASE", "MISTRAL_AZURE_API_BASE"), ("MISTRAL_API_KEY",)),
    "huggingface": (("HF_API_BASE", "HUGGINGFACE_API_BASE"), ("HF_TOKEN", "HUGGINGFACE_API_KEY")),
    "replicate": ((), ("REPLICATE_API_KEY", "REPLICATE_API_TOKEN")),
    "databricks": (("DATABRICKS_API_BASE",), ("DATABRICKS_API_KEY",)),
    "minimax": (("MINIMAX_API_BASE",), ("MINIMAX_API_KEY",)),
    "cloudflare": ((), ("CLOUDFLARE_API_KEY",)),
    "ollama": (("OLLAMA_API_BASE",), ()),
    "ollama_chat": (("OLLAMA_API_BASE",), ()),
}


def native_problems(provider: str, fields: Mapping[str, Any]) -> tuple[Problem, ...]:
    """What `fields` asks for that LiteLLM would leave out of the provider's request without a word (E32: nothing dropped)."""
    rules = _LOST.get(provider, {})
    return tuple(
        Problem(name, message, name) for name, (lost, message) in rules.items() if name in fields and lost(fields[name])
    )


def _is_false(value: object) -> bool:
    return value is False


def _is_set(value: object) -> bool:
    return value is not None


_Rule = tuple[Callable[[object], bool], str]

_NO_PARALLEL: _Rule = (_is_false, "this provider cannot be told to make one tool call at a time")
_NO_USER: _Rule = (_is_set, "this provider takes no user; leave it out")
_GOOGLE: dict[str, _Rule] = {"parallel_tool_calls": _NO_PARALLEL, "user": _NO_USER}

_LOST: dict[str, dict[str, _Rule]] = {
    "gemini": _GOOGLE,
    "vertex_ai": _GOOGLE,
    "vertex_ai_beta": _GOOGLE,
}
"""Standard fields that LiteLLM counts as supported and then drops, found by sending each to a server that keeps bodies."""
