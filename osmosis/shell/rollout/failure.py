"""How an exception of user code is reported (contract: rollout_protocol section 5)."""

from __future__ import annotations

from typing import Final

from osmosis.pure.canonical import well_formed
from osmosis.pure.protocol import ErrorCategory

_VALIDATION_ERRORS: Final = (ValueError, TypeError, AssertionError)

# Sandbox libraries are optional, so their exceptions are known by name.
_HTTP_ERRORS: Final = frozenset(
    {"SandboxConnectionException", "SandboxRateLimitException", "PoolStateStoreUnavailableException"}
)
_HTTP_STATUS_ERRORS: Final = frozenset({"SandboxApiException", "SandboxAPIError"})
_HTTP_STATUSES: Final = frozenset({401, 402, 403, 429, 500, 502, 503, 504})


class DeadlineExceededError(TimeoutError):
    """A phase of a rollout took longer than its limit."""

    def __init__(self, phase: str, limit_sec: float, queued_sec: float = 0.0) -> None:
        queued = f" ({queued_sec:.1f}s of it spent queued)" if queued_sec >= 0.1 else ""
        super().__init__(f"{phase} exceeded its {float(limit_sec)}s deadline{queued}")


def error_category(error: BaseException) -> ErrorCategory:
    """The category of an exception: by type, and for sandbox libraries by the names of its classes."""
    if isinstance(error, TimeoutError):
        return ErrorCategory.TIMEOUT
    if isinstance(error, _VALIDATION_ERRORS):
        return ErrorCategory.VALIDATION_ERROR
    names = {kind.__name__ for kind in type(error).__mro__}
    status = getattr(error, "status_code", None)
    if names & _HTTP_ERRORS or (names & _HTTP_STATUS_ERRORS and isinstance(status, int) and status in _HTTP_STATUSES):
        return ErrorCategory.HTTP_ERROR
    return ErrorCategory.AGENT_ERROR


def error_text(error: BaseException) -> str:
    """What an exception says, or the name of its class if it says nothing. A `sys.exit(0)` says more than "0"."""
    said = well_formed(str(error))
    if isinstance(error, Exception):
        return said or type(error).__name__
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
