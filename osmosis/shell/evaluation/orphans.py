"""Rollout servers and tunnels whose supervisor was killed: found at the next start by their recorded identity, and stopped.

A server notices by itself that its supervisor is gone and ends; this is for one that does not get that far.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from osmosis.pure.errors import OsmosisError
from osmosis.shell.evaluation.process_identity import ProcessRecord, stop_group
from osmosis.shell.evaluation.run_directory import RunDirectory, locked

SERVER_RECORD = "server.json"
TUNNEL_RECORD = "tunnel.json"
_KINDS = {SERVER_RECORD: "rollout server", TUNNEL_RECORD: "tunnel"}
_GRACE_SECONDS = 5.0


def stop_orphans(output_root: Path, announce: Callable[[str], None]) -> None:
    """Stop what earlier invocations left running in any run below `output_root`. A run that is locked is in good hands."""
    paths = [path for name in _KINDS for path in output_root.glob(f"*/{name}")]
    for path in sorted(paths):
        if path.parent.is_symlink() or path.is_symlink():
            continue
        directory = RunDirectory(output_root, path.parent.name)
        try:
            with locked(directory):
                _stop_orphan(path, announce)
        except OsmosisError:
            continue


def _stop_orphan(path: Path, announce: Callable[[str], None]) -> None:
    try:
        record = msgspec.json.decode(path.read_bytes(), type=ProcessRecord)
    except (OSError, msgspec.MsgspecError):
        record = None
    if record is not None and stop_group(record, _GRACE_SECONDS):
        kind = _KINDS[path.name]
        announce(f"stopped a {kind} that an earlier run left behind (process {record.pid}, port {record.port})")
    path.unlink(missing_ok=True)
