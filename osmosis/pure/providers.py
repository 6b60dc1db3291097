"""Where a configured model lives: provider, base URL and key (E7, rulings 16 and 19, contract `eval_local.md` section 8.3).

A model path is `provider/model`; the model may contain further slashes. Base URL and key come from the provider's usual
variables in the environment that the caller passes in, which already holds the values of `--secrets-file`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from osmosis.pure.errors import ErrorCode, OsmosisError, Problem
from osmosis.pure.provider_table import NATIVE_PROVIDERS, PROVIDERS

NO_KEY = "no-key"
"""Sent as the bearer token to servers that ask for no key; some clients and gateways insist on a header."""


class Endpoint(msgspec.Struct, frozen=True):
    """An OpenAI-compatible endpoint and the model on it.

    `model` is the name that the provider knows, `model_path` the configured one. `base_url` has no trailing slash.
    `api_key_variable` names the variable that the key came from, None when no key is needed. The key itself never shows in a
    printed endpoint.
    """

    provider: str
    model: str
    base_url: str
    api_key_variable: str | None
    api_key: str | None

    @property
    def model_path(self) -> str:
        """`provider/model`, as configured."""
        return f"{self.provider}/{self.model}"

    @property
    def chat_completions_url(self) -> str:
        """Where chat completions are posted."""
        return f"{self.base_url}/chat/completions"

    @property
    def host(self) -> str:
        """Host and port, for messages."""
        return urlsplit(self.base_url).netloc

    @property
    def is_loopback(self) -> bool:
        """Whether the endpoint is on this machine."""
        return _is_loopback(self.base_url)

    def __repr__(self) -> str:
        shown = None if self.api_key is None else "[REDACTED]"
        return (
            f"Endpoint(provider={self.provider!r}, model={self.model!r}, base_url={self.base_url!r}, "
            f"api_key_variable={self.api_key_variable!r}, api_key={shown!r})"
        )


def resolve(model_path: str, environment: Mapping[str, str], *, replay: bool = False) -> Endpoint:
    """The endpoint of `model_path`, from the variables in `environment`. With `replay`, no key or base URL is needed.

    Raises OsmosisError naming every problem: a path without provider, an unknown or native provider, a missing key or base URL
    variable, a base URL that is no plain http(s) URL, a key that cannot stand in a header.
    """
    provider, model = _split(model_path)
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
        raise OsmosisError(
            f"The model {model_path!r} cannot be called.",
            code=ErrorCode.AUTH_REQUIRED if key is None else ErrorCode.VALIDATION,
            problems=problems,
            hint="Set the variable in the environment, or put it into a file and pass --secrets-file FILE.",
            details={"model": model_path, "variables": [problem.key for problem in problems]},
        )
    return Endpoint(provider, model, base_url.rstrip("/"), key_variable, key)


def _split(model_path: str) -> tuple[str, str]:
    provider, slash, model = model_path.strip().partition("/")
    if slash and model and provider in PROVIDERS:
        return provider, model
    where = "experiment.model_path"
    if slash and model and provider in NATIVE_PROVIDERS:
        raise OsmosisError(
            f"This build serves OpenAI-compatible endpoints only; {provider!r} needs translation.",
            problems=[Problem(where, f"{model_path!r} names a native provider", where)],
            hint="Use the provider's OpenAI-compatible endpoint as openai/MODEL with OPENAI_BASE_URL, or openrouter/MODEL.",
        )
    raise OsmosisError(
        f"The model {model_path!r} names no known provider.",
        problems=[Problem(where, "must have the form provider/model, for example openai/gpt-4.1-mini", where)],
        hint="For any OpenAI-compatible server use openai/MODEL and set OPENAI_BASE_URL.",
        details={"providers": sorted(PROVIDERS)},
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
