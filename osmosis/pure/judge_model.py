"""Which model judges, with which key and how long it may take (A3, A5; contract `legacy_api.md` 4.1-4.4, `cli.md` section 8).

The environment comes in as a value. Where the key comes from: the key itself; else the variable that is named, and no other,
since falling back to another account's key would be a surprise; else the provider's usual variables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from osmosis.pure.errors import OsmosisError
from osmosis.pure.judge_errors import MissingAPIKeyError, ProviderRequestError
from osmosis.pure.provider_table import PROVIDERS
from osmosis.pure.providers import Endpoint, resolve

NATIVE_KEY_VARIABLES: dict[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "gemini": ("GEMINI_API_KEY",),
    "google": ("GEMINI_API_KEY",),
    "azure": ("AZURE_API_KEY",),
    "bedrock": ("AWS_ACCESS_KEY_ID",),
    "vertex_ai": ("GOOGLE_APPLICATION_CREDENTIALS",),
}
"""Where the keys of native providers stand (section 4.3); for others it is `<PROVIDER>_API_KEY`."""

_BARE_MODELS = (
    (("gpt-", "o1", "o3", "o4"), "openai"),
    (("claude",), "anthropic"),
    (("gemini",), "gemini"),
    (("grok",), "xai"),
)
_TIMEOUTS = (
    ("xai", "grok-4", 60.0),
    ("openai", "gpt-5", 45.0),
    ("xai", "", 45.0),
    ("gemini", "", 45.0),
    ("google", "", 45.0),
    ("cerebras", "", 60.0),
    ("openrouter", "", 60.0),
)
DEFAULT_TIMEOUT = 30.0
"""Seconds that one call may take where no row of the table says otherwise."""


class JudgeModel(msgspec.Struct, frozen=True):
    """A judge: the model, its settings, and the key (which no `repr` shows). `timeout` is in seconds, for one call."""

    provider: str
    model: str
    timeout: float
    api_key: str | None = None
    api_key_env: str | None = None
    system_prompt: str | None = None
    original_input: str | None = None
    reasoning_effort: str | None = None
    score_min: float | None = None
    score_max: float | None = None

    @property
    def path(self) -> str:
        """`provider/model`."""
        return f"{self.provider}/{self.model}"

    def __repr__(self) -> str:
        return f"JudgeModel({self.path!r})"


_KNOWN = frozenset(
    {
        "provider",
        "model",
        "api_key",
        "api_key_env",
        "timeout",
        "score_min",
        "score_max",
        "system_prompt",
        "original_input",
        "reasoning_effort",
    }
)


def read_model_info(model_info: object, timeout: object = None) -> JudgeModel:
    """`model_info` as documented. `timeout` (seconds) wins over the one in it.

    Raises TypeError for a missing or wrong member and for one that nobody knows, so that a misspelt setting is not ignored in
    silence; ValueError for a timeout that is no time.
    """
    if not isinstance(model_info, Mapping):
        raise TypeError(f"'model_info' must be a dict with 'provider' and 'model', got {type(model_info).__name__}")
    provider = _required(model_info, "provider").lower()
    model = _required(model_info, "model")
    if unknown := sorted(str(name) for name in model_info if name not in _KNOWN):
        raise TypeError(f"'model_info' has unknown members: {', '.join(unknown)}. Known are: {', '.join(sorted(_KNOWN))}")
    chosen = timeout if timeout is not None else model_info.get("timeout")
    return JudgeModel(
        provider=provider,
        model=model,
        timeout=_timeout(chosen, provider, model),
        api_key=_optional(model_info, "api_key"),
        api_key_env=_optional(model_info, "api_key_env"),
        system_prompt=_optional(model_info, "system_prompt"),
        original_input=_optional(model_info, "original_input"),
        reasoning_effort=_optional(model_info, "reasoning_effort"),
        score_min=model_info.get("score_min"),
        score_max=model_info.get("score_max"),
    )


def read_model_id(
    model: object, *, api_key: str | None = None, timeout: object = None, system_prompt: str | None = None
) -> JudgeModel:
    """A judge named by one string: `provider/model`, or a bare name whose provider is well known (`gpt-`, `claude`, ...).

    Raises TypeError for what is no name, ProviderRequestError for a bare name that tells no provider.
    """
    if not isinstance(model, str) or not model.strip():
        raise TypeError("'model' must be a non-empty string such as openai/gpt-5.2")
    provider, slash, name = model.strip().partition("/")
    if not slash:
        provider, name = _provider_of(provider), provider
    if not provider or not name:
        raise ProviderRequestError(
            provider or "unknown", name or model, "The model names no provider; write it as provider/model."
        )
    return JudgeModel(
        provider=provider.lower(),
        model=name,
        timeout=_timeout(timeout, provider.lower(), name),
        api_key=api_key if api_key and api_key.strip() else None,
        system_prompt=system_prompt,
    )


def _provider_of(name: str) -> str:
    return next((provider for beginnings, provider in _BARE_MODELS if name.lower().startswith(beginnings)), "")


def _required(model_info: Mapping[str, object], name: str) -> str:
    value = model_info.get(name)
    if not isinstance(value, str) or not value.strip():
        raise TypeError(f"'model_info' must include a '{name}' string")
    return value.strip()


def _optional(model_info: Mapping[str, object], name: str) -> str | None:
    value = model_info.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"'model_info.{name}' must be a string, got {type(value).__name__}")
    return value if value.strip() else None


def _timeout(value: object, provider: str, model: str) -> float:
    if value is None:
        return next(
            (seconds for name, beginning, seconds in _TIMEOUTS if name == provider and model.lower().startswith(beginning)),
            DEFAULT_TIMEOUT,
        )
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"'timeout' must be a number of seconds, got {type(value).__name__}")
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"'timeout' must be a positive number of seconds, got {value!r}")
    return float(value)


def key_variables(judge: JudgeModel) -> tuple[str, ...]:
    """The variables that may hold the judge's key, in the order in which they are looked at."""
    if judge.api_key_env is not None:
        return (judge.api_key_env,)
    return _usual_variables(judge.provider)


def _usual_variables(provider: str) -> tuple[str, ...]:
    if provider in PROVIDERS:
        return PROVIDERS[provider][2]
    return NATIVE_KEY_VARIABLES.get(provider, (f"{provider.upper()}_API_KEY",))


def find_key(judge: JudgeModel, environment: Mapping[str, str]) -> str | None:
    """The judge's key; None for a provider that asks for none. Raises MissingAPIKeyError.

    A server that stands in for a provider on this machine needs a key as well, whatever its value: that a call might go out
    with no key, or with none that was meant, is what the documented error guards against.
    """
    if judge.api_key is not None:
        return judge.api_key.strip()
    variables = key_variables(judge)
    if key := next((value for name in variables if (value := environment.get(name, "").strip())), None):
        return key
    if judge.api_key_env is None and judge.provider in PROVIDERS and not PROVIDERS[judge.provider][3]:
        return None
    named = " or ".join(f"'{name}'" for name in variables)
    raise MissingAPIKeyError(
        f"No API key for provider '{judge.provider}': the environment variable {named} is not set.\n"
        f"Set it with: export {variables[0]}='...'  (or pass 'api_key' or 'api_key_env' in model_info)"
    )


def judge_endpoint(judge: JudgeModel, environment: Mapping[str, str], *, replay: bool = False) -> Endpoint:
    """Where the judge is called. With `replay` nothing is, and no key is needed.

    Raises MissingAPIKeyError; ProviderRequestError for a provider that is unknown, or that this build cannot speak to, and for
    a base URL or key that cannot be used.
    """
    key = None if replay else find_key(judge, environment)
    variables = _usual_variables(judge.provider)
    own = {name: value for name, value in environment.items() if name not in variables}
    if key is not None:
        own[variables[0]] = key
    try:
        endpoint = resolve(judge.path, own, replay=replay)
    except OsmosisError as error:
        raise ProviderRequestError(judge.provider, judge.model, _reason(error)) from None
    source = next((name for name in key_variables(judge) if environment.get(name, "").strip()), None)
    return msgspec.structs.replace(endpoint, api_key_variable=None if judge.api_key else source)


def _reason(error: OsmosisError) -> str:
    problems = "; ".join(map(str, error.problems))
    return " ".join(part for part in (error.message, f"({problems})." if problems else "", error.hint or "") if part)
