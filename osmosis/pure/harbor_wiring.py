"""How each of Harbor's own agents is pointed at the model bridge (contract: rollout_protocol 13.6).

A table of functions, one an agent: what the trial's agent needs as keyword arguments, environment and model name. The values a
user gave win over ours, except for where the model is and with which key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

DEFAULT_MODEL: Final = "openai/osmosis-rollout"
NO_KEY: Final = "dummy"
PRIVATE_PROVIDER: Final = "osmosis-rollout"

Kwargs = Mapping[str, Any]


class AgentWiring(msgspec.Struct, frozen=True):
    """What goes into the trial's agent. `env` may hold the key; it reaches the sandbox's processes only."""

    kwargs: dict[str, Any]
    env: dict[str, str]
    model_name: str | None


class WiringRequest(msgspec.Struct, frozen=True):
    """One rollout: the chat URL as the sandbox sees it, the key, the model, the user's own keyword arguments."""

    url: str
    key: str
    model: str
    kwargs: Kwargs


def wire_native_agent(agent: str, *, url: str, key: str | None, model: str, kwargs: Kwargs) -> AgentWiring:
    """The wiring of a native agent. Raises ValueError for an unknown agent, a missing URL, or a model name it cannot use."""
    check_native_agent(agent)
    if not url and agent != "oracle":
        raise ValueError(f"The agent {agent} needs a chat completions URL, and this rollout has none")
    return _WIRINGS[agent](WiringRequest(url, key or NO_KEY, model, kwargs))


def check_native_agent(agent: str) -> None:
    """Raise ValueError with the known names unless `agent` is one of them."""
    if agent not in _WIRINGS:
        raise ValueError(f"Unknown native agent {agent!r}; known are {', '.join(sorted(_WIRINGS))}")


def _openai_environment(request: WiringRequest) -> dict[str, str]:
    return {"OPENAI_API_BASE": request.url, "OPENAI_BASE_URL": request.url, "OPENAI_API_KEY": request.key}


def _oracle(request: WiringRequest) -> AgentWiring:
    return AgentWiring(dict(request.kwargs), {}, None)


def _terminus_2(request: WiringRequest) -> AgentWiring:
    own = _merged(request.kwargs, {"api_base": request.url, "llm_kwargs": {"api_key": request.key}})
    return AgentWiring({"enable_summarize": False, **own}, {}, request.model)


def _mini_swe_agent(request: WiringRequest) -> AgentWiring:
    own = dict(request.kwargs)
    effort = own.pop("reasoning_effort", None)
    if effort is not None:
        own["config"] = _merged({"model": {"model_kwargs": {"reasoning_effort": effort}}}, own.get("config") or {})
    return AgentWiring(own, {**_openai_environment(request), "MSWEA_COST_TRACKING": "ignore_errors"}, request.model)


def _opencode(request: WiringRequest) -> AgentWiring:
    _, slash, name = request.model.partition("/")
    if not slash or not name:
        raise ValueError(f"The agent opencode needs a model name of the form provider/model, not {request.model!r}")
    given = request.kwargs.get("opencode_config") or {}
    provider = _free_provider(given.get("provider") or {})
    entry = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Osmosis",
        "options": {"baseURL": "{env:OPENAI_BASE_URL}", "apiKey": "{env:OPENAI_API_KEY}"},
        "models": {name: {}},
    }
    config = _merged({"compaction": {"auto": False, "prune": False}}, given)
    config = _merged(config, {"provider": {provider: entry}})
    return AgentWiring({**request.kwargs, "opencode_config": config}, _openai_environment(request), f"{provider}/{name}")


def _free_provider(taken: Kwargs) -> str:
    """A provider id that the user's own configuration does not use."""
    if PRIVATE_PROVIDER not in taken:
        return PRIVATE_PROVIDER
    number = 2
    while f"{PRIVATE_PROVIDER}-{number}" in taken:
        number += 1
    return f"{PRIVATE_PROVIDER}-{number}"


def _merged(below: Kwargs, above: Kwargs) -> dict[str, Any]:
    """`below` with the values of `above` on top, objects merged into their namesakes."""
    result = dict(below)
    for name, value in above.items():
        present = result.get(name)
        both = isinstance(present, Mapping) and isinstance(value, Mapping)
        result[name] = _merged(present, value) if both else value  # type: ignore[arg-type]
    return result


_WIRINGS: Final[Mapping[str, Callable[[WiringRequest], AgentWiring]]] = {
    "oracle": _oracle,
    "terminus-2": _terminus_2,
    "mini-swe-agent": _mini_swe_agent,
    "opencode": _opencode,
}
