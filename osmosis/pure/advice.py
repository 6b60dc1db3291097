"""What a person can do about a finding that no repair mends (`eval verify`). One sentence for each kind of file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from osmosis.pure.finding import Finding, Severity

_FRESH = "or run again with --fresh, which archives this run"


def advice_on(findings: Iterable[Finding], dataset: str | None) -> tuple[str, ...]:
    """Advice on errors without a remedy, each sentence once, in the findings' order. `dataset` is the given one's label."""
    left = (finding for finding in findings if finding.severity is Severity.ERROR and finding.remedy is None)
    return tuple(dict.fromkeys(sentence for finding in left for sentence in _sentences(finding.path, dataset)))


def _sentences(path: str, dataset: str | None) -> Iterator[str]:
    top, _, rest = path.partition("/")
    if path in ("manifest.json", "events.jsonl"):
        yield f"{path} cannot be rebuilt: restore it from a copy of the run, {_FRESH}."
    elif path == "dataset_rows.jsonl" and dataset is None:
        yield f"{path}: `osmosis eval verify RUN --repair --dataset-file FILE` writes it again from the run's dataset."
    elif path == "source_files.json":
        yield (
            f"{path}: --repair writes it again where rollouts/ still holds the source of the run; "
            "else restore it from a copy of the run. "
            "Without it a refused resume cannot name the files that changed; no number rests on it."
        )
    elif path == "logs.txt":
        yield f"{path} cannot be rebuilt: restore it from a copy of the run. No number rests on it."
    elif top == "rollout_trials" and rest.endswith("/sample.json"):
        yield "A sample.json is read by `osmosis eval regrade` alone: restore it from a copy of the run, or do not regrade it."
    elif top == "rollout_trials":
        yield f"What is named below {top}/ has no sound copy in the run: restore it from a copy of the run, {_FRESH}."
    elif path == dataset:
        yield f"{dataset}: give the dataset as it was when the run was made."
