"""Where a configured model lives: provider, base URL and key (E7, rulings 16 and 19, contract `eval_local.md` section 8.3).

A model path is `provider/model`; the model may contain further slashes. Base URL and key come from the provider's usual
variables in the environment that the caller passes in, which already holds the values of `--secrets-file`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from enum import StrEnum
from urllib.parse import urlsplit

import msgspec

from osmosis.pure.errors import ErrorCode, OsmosisError, Problem
from osmosis.pure.native_providers import NATIVE_ENDPOINTS
from osmosis.pure.provider_table import NATIVE_PROVIDERS, PROVIDERS
from osmosis.pure.request_policy import ProviderKind
from osmosis.pure.responses_models import RESPONSES_MODELS

NO_KEY = "no-key"
"""Sent as the bearer token to servers that ask for no key; some clients and gateways insist on a header."""


OFFICIAL_OPENAI = "https://api.openai.com/v1"


class Wire(StrEnum):
    """How a model is spoken to: OpenAI's chat completions, OpenAI's Responses API, or whatever LiteLLM translates to."""

    CHAT = "chat"
    RESPONSES = "responses"
    NATIVE = "native"


class Endpoint(msgspec.Struct, frozen=True):
    """A model and where it is reached.

    `model` is the name that the provider knows, `model_path` the configured one. `base_url` has no trailing slash; it is empty
    for a native provider at its usual place. `api_key_variable` names the variable that the key came from, None when no key is
    needed or the provider's credentials are more than a key. The key itself never shows in a printed endpoint.
    """

    provider: str
    model: str
    base_url: str
    api_key_variable: str | None
    api_key: str | None
    wire: Wire = Wire.CHAT

    @property
    def kind(self) -> ProviderKind:
        """Which rules a request has to keep (E31, E32)."""
        if self.wire is not Wire.NATIVE:
            return ProviderKind.OPENAI_COMPATIBLE
        if "claude" in self.model.lower() and self.provider in ("azure_ai", "vertex_ai"):
            return ProviderKind.ANTHROPIC
        return _KINDS.get(self.provider, ProviderKind.NATIVE)

    @property
    def model_path(self) -> str:
        """`provider/model`, as configured."""
        return f"{self.provider}/{self.model}"

    @property
    def chat_completions_url(self) -> str:
        """Where chat completions are posted."""
        return f"{self.base_url}/chat/completions"

    @property
    def url(self) -> str:
        """Where requests are posted; for a native provider at its usual place, the model's path."""
        if self.wire is Wire.NATIVE:
            return self.base_url or self.model_path
        return f"{self.base_url}/responses" if self.wire is Wire.RESPONSES else self.chat_completions_url

    @property
    def host(self) -> str:
        """Host and port, for messages; a native provider's name where only LiteLLM knows its host."""
        return urlsplit(self.base_url).netloc or self.provider

    @property
    def is_loopback(self) -> bool:
        """Whether the endpoint is on this machine."""
        return _is_loopback(self.base_url)

    def __repr__(self) -> str:
        shown = None if self.api_key is None else "[REDACTED]"
        return (
            f"Endpoint(provider={self.provider!r}, model={self.model!r}, base_url={self.base_url!r}, "
            f"api_key_variable={self.api_key_variable!r}, api_key={shown!r}, wire={self.wire.value!r})"
        )


_KINDS = {"anthropic": ProviderKind.ANTHROPIC, "azure": ProviderKind.AZURE}


def resolve(model_path: str, environment: Mapping[str, str], *, replay: bool = False) -> Endpoint:
    """The endpoint of `model_path`, from the variables in `environment`. With `replay`, no key or base URL is needed.

    A native provider's endpoint has the key and base URL of its usual variables where one key is all it takes; LiteLLM finds
    the rest, such as cloud credentials, in the environment itself.

    Raises OsmosisError naming every problem: a path without provider, an unknown provider, a missing key or base URL
    variable, a base URL that is no plain http(s) URL, a key that cannot stand in a header.
    """
    provider, model = _split(model_path)
    if provider not in PROVIDERS:
        return _resolve_native(provider, model, environment, replay=replay)
    default_url, url_variables, key_variables, key_needed = PROVIDERS[provider]
    url_variable = next((name for name in url_variables if environment.get(name, "").strip()), None)
    base_url = environment[url_variable].strip() if url_variable else default_url
    key_variable = next((name for name in key_variables if environment.get(name, "").strip()), None)
    key = environment[key_variable].strip() if key_variable else None
    if replay:
        return Endpoint(provider, model, (base_url or "").rstrip("/"), key_variable, None)
    problems = [
        *_url_problems(base_url, url_variable, url_variables),
        *_key_problems(key, key_variable, key_variables, needed=key_needed and not _own_server(base_url, url_variable)),
    ]
    if problems or base_url is None:
        raise _cannot_be_called(model_path, problems, keyless=key is None)
    base_url = base_url.rstrip("/")
    wire = Wire.RESPONSES if _needs_responses(provider, model, base_url) else Wire.CHAT
    return Endpoint(provider, model, base_url, key_variable, key, wire)


def _needs_responses(provider: str, model: str, base_url: str) -> bool:
    return provider == "openai" and base_url == OFFICIAL_OPENAI and model in RESPONSES_MODELS


def _resolve_native(provider: str, model: str, environment: Mapping[str, str], *, replay: bool) -> Endpoint:
    url_variables, key_variables = NATIVE_ENDPOINTS.get(provider, ((), ()))
    url_variable = next((name for name in url_variables if environment.get(name, "").strip()), None)
    base_url = environment[url_variable].strip() if url_variable else ""
    key_variable = next((name for name in key_variables if environment.get(name, "").strip()), None)
    key = environment[key_variable].strip() if key_variable else None
    if replay:
        return Endpoint(provider, model, base_url.rstrip("/"), key_variable, None, Wire.NATIVE)
    own_server = _own_server(base_url, url_variable)
    problems = [
        *(_url_problems(base_url, url_variable, url_variables) if base_url else ()),
        *_key_problems(key, key_variable, key_variables, needed=bool(key_variables) and not own_server),
    ]
    if problems:
        raise _cannot_be_called(f"{provider}/{model}", problems, keyless=key is None)
    return Endpoint(provider, model, base_url.rstrip("/"), key_variable, key, Wire.NATIVE)


def _cannot_be_called(model_path: str, problems: list[Problem], *, keyless: bool) -> OsmosisError:
    return OsmosisError(
        f"The model {model_path!r} cannot be called.",
        code=ErrorCode.AUTH_REQUIRED if keyless else ErrorCode.VALIDATION,
        problems=problems,
        hint="Set the variable in the environment, or put it into a file and pass --secrets-file FILE.",
        details={"model": model_path, "variables": [problem.key for problem in problems]},
    )


def _split(model_path: str) -> tuple[str, str]:
    provider, slash, model = model_path.strip().partition("/")
    if slash and model and (provider in PROVIDERS or provider in NATIVE_PROVIDERS):
        return provider, model
    where = "experiment.model_path"
    raise OsmosisError(
        f"The model {model_path!r} names no known provider.",
        problems=[Problem(where, "must have the form provider/model, for example openai/gpt-4.1-mini", where)],
        hint="For any OpenAI-compatible server use openai/MODEL and set OPENAI_BASE_URL.",
        details={"providers": sorted({*PROVIDERS, *NATIVE_PROVIDERS})},
    )


def _own_server(base_url: str | None, url_variable: str | None) -> bool:
    # A server on this machine usually asks for no key, whatever provider it stands in for.
    return url_variable is not None and base_url is not None and _is_loopback(base_url)


def _is_loopback(url: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _url_problems(base_url: str | None, variable: str | None, variables: tuple[str, ...]) -> list[Problem]:
    if base_url is None:
        return [Problem(variables[0], "is not set, and the provider has no default base URL", variables[0])]
    where = variable or "base URL"
    try:
        parts = urlsplit(base_url)
        _ = parts.port
    except ValueError as error:
        return [Problem(where, f"is not a URL: {error}", variable)]
    if parts.scheme not in ("http", "https") or not parts.hostname or not base_url.isprintable() or " " in base_url:
        return [Problem(where, "must be a URL such as https://host/v1", variable)]
    if parts.username is not None or parts.password is not None:
        return [Problem(where, "must not carry a user name or password; the URL is recorded", variable)]
    if parts.query or parts.fragment:
        return [Problem(where, "must not carry a query or fragment; the URL is recorded", variable)]
    return []


def _key_problems(key: str | None, variable: str | None, variables: tuple[str, ...], *, needed: bool) -> list[Problem]:
    if key is None:
        choices = " or ".join(variables)
        return [Problem(variables[0], f"no API key: {choices} is not set", variables[0])] if needed else []
    if not (key.isascii() and key.isprintable()):
        return [Problem(variable or variables[0], "holds characters that cannot stand in an HTTP header", variable)]
    return []
