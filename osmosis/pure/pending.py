"""What a run that was cut short has not written yet, told from what is damaged (issue 3, rulings 1 and 2).

While a run goes on, its index grows in the order of completion, copies follow their results, and `metrics.json` says `running`
with counts alone. A run that was killed is left like that, and nothing is wrong with it: its next start, or a repair, writes
what is due. `metrics.json` is written first when an invocation begins and last when it ends, so it tells which of the two it
is.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping

import msgspec

from osmosis.pure.artifacts import EntryKind
from osmosis.pure.errors import OsmosisError
from osmosis.pure.finding import FileFact, Finding, Severity
from osmosis.pure.metrics_file import EvalRunStatus, Metrics, decode_metrics
from osmosis.pure.projection_audit import COPIES, INDEX, METRICS, SUMMARY, Rebuilt, stem_of

PENDING = "is not written to its end, because the run was cut short: its next start or --repair writes it"
_RESUMED = b', "resumed": true'


def is_cut_short(entries: Mapping[str, FileFact], records: int) -> bool:
    """Whether the projections are those of a run that went on until it was killed. `records` are the journal's."""
    metrics = _metrics(entries.get(METRICS))
    if metrics is None:
        return METRICS not in entries and records == 0
    return metrics.eval_run.status is EvalRunStatus.RUNNING and metrics.summary.counts is None


def _metrics(entry: FileFact | None) -> Metrics | None:
    if entry is None or entry.content is None:
        return None
    try:
        return decode_metrics(entry.content, METRICS)
    except OsmosisError:
        return None


def excused(
    finding: Finding, entry: FileFact | None, due: Rebuilt | None, with_result: Container[str], retried: Collection[str]
) -> Finding:
    """`finding` about a projection of a run that was cut short: a warning where that explains it.

    `entry` and `due` are what lies at its path and what a rebuild writes there. `with_result` are all rollouts of which the
    journal has a result, `retried` the stems of items that ran more than once: their copies may be those of the time before.
    """
    if finding.severity is Severity.WARNING or not _explained(finding.path, entry, due, with_result, retried):
        return finding
    return msgspec.structs.replace(finding, what=PENDING, line=None, severity=Severity.WARNING)


def _explained(
    path: str, entry: FileFact | None, due: Rebuilt | None, with_result: Container[str], retried: Collection[str]
) -> bool:
    if entry is None:
        return True
    if entry.kind is not EntryKind.FILE or entry.trouble is not None:
        return False
    if path in (INDEX, SUMMARY):
        return _has_grown(entry.content or b"", (due.content if due else None) or b"", with_result)
    if path == METRICS:
        return _same_run(entry, due)
    return path.partition("/")[0] in COPIES and stem_of(path) in retried


def _same_run(entry: FileFact, due: Rebuilt | None) -> bool:
    ours, theirs = _metrics(entry), _metrics(FileFact(EntryKind.FILE, content=due.content) if due else None)
    return ours is not None and theirs is not None and ours.eval_run.id == theirs.eval_run.id


class _Indexed(msgspec.Struct, frozen=True):
    rollout_id: str


_decoder = msgspec.json.Decoder(_Indexed)


def _has_grown(there: bytes, due: bytes, with_result: Container[str]) -> bool:
    """Whether an index has lines of known results alone, each as is due but for the mark of resumed ones; the last line may
    be torn."""
    wanted = {_rollout(line): line for line in due.replace(_RESUMED, b"").split(b"\n")[:-1]}
    *lines, torn = there.replace(_RESUMED, b"").split(b"\n")
    for line in lines:
        rollout_id = _rollout(line)
        if rollout_id is None or wanted.get(rollout_id, line) != line or rollout_id not in with_result:
            return False
    return not torn or any(line.startswith(torn) for line in wanted.values())


def _rollout(line: bytes) -> str | None:
    try:
        return _decoder.decode(line).rollout_id
    except (msgspec.MsgspecError, RecursionError):
        return None
