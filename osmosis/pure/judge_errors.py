"""The documented errors of rubric judging (requirement A4; contract `legacy_api.md` section 4.8).

They are RuntimeErrors, as documented, and OsmosisErrors, so that the command line reports them like any other. They can be
pickled: training code judges in worker processes.
"""

from __future__ import annotations

from typing import Any

from osmosis.pure.completion import ProviderError, one_line
from osmosis.pure.errors import ErrorCode, OsmosisError


class MissingAPIKeyError(OsmosisError, RuntimeError):
    """No API key was found for a provider. The message names the provider and the variable."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code=ErrorCode.AUTH_REQUIRED)


class ProviderRequestError(OsmosisError, RuntimeError):
    """A judge's call failed, or its reply was no judgement. `detail` says why and holds no secret.

    `status` is the provider's HTTP status where it gave one.
    """

    def __init__(self, provider: str, model: str, detail: str, *, status: int | None = None) -> None:
        shown = detail.strip() or "The provider gave no further detail."
        super().__init__(
            f"Provider '{provider}' request for model '{model}' failed. {shown}",
            code=ErrorCode.RATE_LIMITED if status == 429 else ErrorCode.PLATFORM_ERROR,
        )
        self.provider = provider
        self.model = model
        self.detail = detail
        self.status = status

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.provider, self.model, self.detail, self.status)


class ModelNotFoundError(ProviderRequestError):
    """The provider does not know the model (HTTP 404)."""


def _rebuild(
    kind: type[ProviderRequestError], provider: str, model: str, detail: str, status: int | None
) -> ProviderRequestError:
    return kind(provider, model, detail, status=status)


def call_error(provider: str, model: str, error: ProviderError, message: str) -> ProviderRequestError:
    """The documented error for a call that brought no completion. `message` is the provider's, without secrets."""
    status = error.provider_status
    kind = ModelNotFoundError if status == 404 else ProviderRequestError
    prefix = f"HTTP {status}: " if status is not None and status != 200 else ""
    return kind(provider, model, f"{prefix}{one_line(message)}", status=status)
