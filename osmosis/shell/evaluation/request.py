"""What one `osmosis eval run` asks for: the command line as a record. Light to import; the runner is not."""

from __future__ import annotations

from pathlib import Path

import msgspec


class RunRequest(msgspec.Struct, frozen=True):
    """One request. Paths are as they were given, relative to `working_directory`.

    `secrets_file` `-` is standard input; `rows` is the unparsed selection; `output` is the root below which run directories
    lie. `record`, `replay` and `replay_or_record` exclude each other. `tunnel` names a tunnel program to manage,
    `advertise_url` a public way to `listener_port` that the user keeps, `listener_host` one more address of this machine.
    """

    config_path: Path
    working_directory: Path
    name: str | None = None
    output: Path | None = None
    dataset_file: Path | None = None
    secrets_file: str | None = None
    rows: str | None = None
    fresh: bool = False
    retry_failed: bool = False
    max_in_flight: int | None = None
    record: Path | None = None
    replay: Path | None = None
    rollout_port: int | None = None
    listener_port: int | None = None
    tunnel: str | None = None
    advertise_url: str | None = None
    replay_or_record: Path | None = None
    listener_host: str | None = None
