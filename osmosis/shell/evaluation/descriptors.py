"""How many rollouts this process has file descriptors for (issue 3: file descriptors run out)."""

from __future__ import annotations

import resource

from osmosis.pure.concurrency import descriptor_ceiling


def descriptor_limit() -> int | None:
    """How many files this process may have open, as `ulimit -n` says; None without a limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def rollout_ceiling() -> int | None:
    """How many rollouts may be in flight; None without a limit. Each holds a long poll, and its model call two connections."""
    limit = descriptor_limit()
    return None if limit is None else descriptor_ceiling(limit)
