"""Whose failure a failed sample is: the model's, or the infrastructure's under it (issue 8).

The table follows the categories of the rollout protocol and of the runner. A timeout counts as the model's: it had its time,
and an agent that never stops is the usual cause. An `error_type` that is not in the table (a server's free text) stays
unclassified, and wherever errors are left out as infrastructure's, unclassified ones are not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from types import MappingProxyType

import polars as pl

from osmosis.pure.canonical import truncate
from osmosis.pure.estimate import ErrorCount, ErrorOrigin, ErrorSummary
from osmosis.pure.outcome import ROLLOUT_FAILED
from osmosis.pure.protocol import ErrorCategory

ORIGINS = MappingProxyType(
    {
        ErrorCategory.AGENT_ERROR.value: ErrorOrigin.MODEL,
        ErrorCategory.VALIDATION_ERROR.value: ErrorOrigin.MODEL,
        ErrorCategory.TIMEOUT.value: ErrorOrigin.MODEL,
        ErrorCategory.HTTP_ERROR.value: ErrorOrigin.INFRASTRUCTURE,
        ErrorCategory.INTERNAL_ERROR.value: ErrorOrigin.INFRASTRUCTURE,
        ErrorCategory.LEASE_EXPIRED.value: ErrorOrigin.INFRASTRUCTURE,
        "rollout_protocol_error": ErrorOrigin.INFRASTRUCTURE,
        "server_crash": ErrorOrigin.INFRASTRUCTURE,
        ROLLOUT_FAILED: ErrorOrigin.UNCLASSIFIED,
    }
)
"""`error_type` of an index row -> origin."""

UNNAMED = "(none)"
_TYPE_LENGTH = 120
_SHOWN_TYPES = 20


def error_origin(error_type: str | None) -> ErrorOrigin:
    """The origin of a failed sample's error."""
    return ORIGINS.get(error_type or "", ErrorOrigin.UNCLASSIFIED)


def infrastructure_expression(error_type: str = "error_type") -> pl.Expr:
    """Column form of `error_origin(...) is INFRASTRUCTURE`: never null. To be used on failed rows."""
    names = [name for name, origin in ORIGINS.items() if origin is ErrorOrigin.INFRASTRUCTURE]
    return pl.col(error_type).is_in(names).fill_null(False)


def error_summary(types: Iterable[tuple[str | None, int]]) -> ErrorSummary:
    """The summary of (error_type, count) pairs, in any order, the most frequent type first."""
    by_type: Counter[str] = Counter()
    by_origin: Counter[ErrorOrigin] = Counter()
    for error_type, count in types:
        by_type[truncate(error_type or UNNAMED, _TYPE_LENGTH)] += count
        by_origin[error_origin(error_type)] += count
    ordered = sorted(by_type.items(), key=lambda pair: (-pair[1], pair[0]))
    return ErrorSummary(
        model=by_origin[ErrorOrigin.MODEL],
        infrastructure=by_origin[ErrorOrigin.INFRASTRUCTURE],
        unclassified=by_origin[ErrorOrigin.UNCLASSIFIED],
        types=tuple(ErrorCount(name, error_origin(name), count) for name, count in ordered[:_SHOWN_TYPES]),
        others=sum(count for _, count in ordered[_SHOWN_TYPES:]),
    )
