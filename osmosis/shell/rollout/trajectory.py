"""Writing what a rollout leaves behind: trajectory, sample, diagnostics (contract: rollout_protocol section 9; ruling 27).

Files appear whole or not at all, so a runner that looks at any moment never reads half of one. Failing to write them never
changes a rollout's result.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from osmosis import __version__
from osmosis.pure.canonical import decode_json, well_formed
from osmosis.pure.json_safe import json_safe
from osmosis.pure.protocol import encode
from osmosis.pure.trajectory import Trajectory, encode_trajectory
from osmosis.pure.trajectory_conversion import Conversation, SampleReport, TrajectoryReport, convert_conversation, read_report
from osmosis.shell.rollout.artifacts import artifact_root as default_artifact_root
from osmosis.shell.rollout.artifacts import make_directory
from osmosis.shell.rollout.file_worker import off_loop
from osmosis.shell.rollout.types.execution import ExecutionResult
from osmosis.shell.rollout.types.sample import RolloutSample
from osmosis.shell.rollout.wire_sample import wire_sample

if TYPE_CHECKING:
    import httpx

__all__ = ["SampleReport", "TrajectoryReport", "convert_sample_to_trajectory", "report_from_response", "save_trajectory"]

logger = logging.getLogger(__name__)

TRAJECTORY_NAME = "trajectory.json"
SAMPLE_NAME = "sample.json"
DIAGNOSTICS_NAME = "diagnostics.json"

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def convert_sample_to_trajectory(
    sample: RolloutSample,
    *,
    rollout_id: str,
    request_label: str | None = None,
    request_metadata: dict[str, Any] | None = None,
    request_extra_fields: dict[str, Any] | None = None,
    report: TrajectoryReport | None = None,
) -> Trajectory | None:
    """The trajectory document of a sample; None if it has no `trajectory_messages`."""
    if sample.trajectory_messages is None:
        return None
    conversation = Conversation(
        rollout_id=rollout_id,
        messages=sample.trajectory_messages,
        label=sample.label,
        reward=sample.reward,
        metrics=sample.metrics,
        extra_fields=sample.extra_fields,
        request_label=request_label,
        request_metadata=request_metadata,
        request_extra_fields=request_extra_fields,
    )
    return convert_conversation(conversation, sdk_version=__version__, report=report)


async def save_trajectory(
    *,
    rollout_id: str,
    result: ExecutionResult,
    request_label: str | None = None,
    request_metadata: dict[str, Any] | None = None,
    request_extra_fields: dict[str, Any] | None = None,
    report: TrajectoryReport | None = None,
    artifact_root: Path | str | None = None,
    diagnostics: Mapping[str, Any] | None = None,
) -> None:
    """Write `trajectory.json`, `sample.json` and `diagnostics.json` of a rollout, those that apply. Never raises.

    Diagnostics default to the result's `extra_fields`. A sample whose `trajectory_messages` is None leaves no files.
    """
    directory = os.path.join(default_artifact_root() if artifact_root is None else artifact_root, rollout_id)
    noted = result.extra_fields if diagnostics is None else diagnostics
    files: dict[str, bytes] = {}
    try:
        if noted is not None:
            files[DIAGNOSTICS_NAME] = _diagnostics(noted)
        if result.sample is not None:
            trajectory = convert_sample_to_trajectory(
                result.sample,
                rollout_id=rollout_id,
                request_label=request_label,
                request_metadata=request_metadata,
                request_extra_fields=request_extra_fields,
                report=report,
            )
            if trajectory is not None:
                files[SAMPLE_NAME] = _sample(result)
                files[TRAJECTORY_NAME] = encode_trajectory(trajectory)
    except Exception:
        # Messages and metrics are user code's; whatever their types do here must not cost the rollout its result.
        logger.exception("The trajectory of rollout %s cannot be written", rollout_id)
    if not files:
        return
    try:
        await off_loop(lambda: _write_all(directory, files))
    except OSError as error:
        logger.warning("The trajectory of rollout %s was not written: %s", rollout_id, error)


def report_from_response(response: httpx.Response) -> TrajectoryReport | None:
    """The report under the key `trajectory` of an answer's JSON object; None if there is none or it is malformed."""
    try:
        body = decode_json(response.content)
    except ValueError:
        return None
    return read_report(body.get("trajectory")) if isinstance(body, dict) else None


def _sample(result: ExecutionResult) -> bytes:
    sample = wire_sample(result)
    return b"" if sample is None else encode(sample) + b"\n"


def _diagnostics(values: Mapping[str, Any]) -> bytes:
    plain, _ = json_safe(json.loads(json.dumps(_stringified(values), default=str)))
    return well_formed(json.dumps(plain, ensure_ascii=False, indent=2, sort_keys=True, allow_nan=False)).encode()


def _stringified(value: Any) -> Any:
    """`value` with every key a string, so that keys sort, and numbers that JSON lacks as words."""
    if isinstance(value, Mapping):
        return {str(key): _stringified(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_stringified(item) for item in value]
    if isinstance(value, float) and value - value != 0:
        return str(value)
    return value


def _write_all(directory: str, files: Mapping[str, bytes]) -> None:
    """Write the files in order. What comes before `trajectory.json` is whole once that is there, so only it needs care: a
    reader looks at nothing before the trajectory has appeared. A name that is taken already is replaced in one step too.

    The directory is there as a rule, made for the artifacts before the rollout began; it is made here only where it is missed.
    """
    for name, data in files.items():
        try:
            _write_one(directory, name, data)
        except FileNotFoundError:
            make_directory(directory)
            _write_one(directory, name, data)


def _write_one(directory: str, name: str, data: bytes) -> None:
    if name == TRAJECTORY_NAME or not _write_new(os.path.join(directory, name), data):
        _replace(directory, name, data)


def _write_new(path: str, data: bytes) -> bool:
    try:
        descriptor = os.open(path, _NEW_FILE, 0o666)
    except FileExistsError:
        return False
    _write_out(descriptor, data)
    return True


def _replace(directory: str, name: str, data: bytes) -> None:
    unfinished = os.path.join(directory, f".{name}.{os.getpid()}.tmp")
    try:
        descriptor = os.open(unfinished, _NEW_FILE, 0o666)
    except FileExistsError:
        os.unlink(unfinished)
        descriptor = os.open(unfinished, _NEW_FILE, 0o666)
    try:
        _write_out(descriptor, data)
        os.replace(unfinished, os.path.join(directory, name))
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        raise


def _write_out(descriptor: int, data: bytes) -> None:
    """Write all of it and close. Without a file object: each call that the kernel is asked for lets go of the interpreter."""
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)
