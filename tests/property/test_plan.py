"""What locks a run: manifests read back, each changed input named and nothing else, the plan's items counted out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from osmosis.pure.canonical import canonical_json
from osmosis.pure.errors import OsmosisError
from osmosis.pure.plan import (
    MOST_WORK_ITEMS,
    DatasetIdentity,
    Manifest,
    RunInputs,
    as_object,
    check_size,
    compare_inputs,
    decode_manifest,
    encode_manifest,
    planned_rows,
    work_items,
)
from tests.strategies import run
from tests.strategies.data import json_values, selections

GROUPS = RunInputs.__struct_fields__


@given(run.manifests())
def test_a_manifest_is_read_back_and_written_again(manifest: Manifest) -> None:
    """The same values, and the same bytes: they are the run's identity."""
    data = encode_manifest(manifest)
    found = decode_manifest(data, "manifest.json")
    assert found == manifest
    assert encode_manifest(found) == data


@given(run.inputs)
def test_the_lock_is_every_input_in_one_order(inputs: RunInputs) -> None:
    """All groups stand there, also empty ones; only an absent cassette, parent or fingerprint is left out."""
    value = as_object(inputs)
    optional = ("cassette", "regraded_from")
    assert list(value) == [name for name in GROUPS if name not in optional or getattr(inputs, name) is not None]
    assert set(value["timeouts"]) == {"agent_timeout_sec", "grader_timeout_sec"}
    assert len(value["versions"]) == 3
    assert msgspec.convert(value, RunInputs) == inputs


@given(run.inputs)
def test_equal_inputs_are_no_change(inputs: RunInputs) -> None:
    """What was written compares equal to what is computed again."""
    assert compare_inputs(as_object(inputs), inputs) == ()


@pytest.mark.parametrize("group", GROUPS)
@given(before=run.inputs, other=run.inputs)
def test_each_changed_group_is_named_and_nothing_else(group: str, before: RunInputs, other: RunInputs) -> None:
    """One group with another value: exactly that one is named, with both values. With the same value, none is."""
    old, new = getattr(before, group), getattr(other, group)
    changes = compare_inputs(as_object(before), msgspec.structs.replace(before, **{group: new}))
    differs = _dataset_differs(old, new) if group == "dataset" else old != new
    assert {change.group for change in changes} == ({group} if differs else set())
    assert all(change.before != change.after for change in changes)
    assert all(change.path == group or change.path.startswith(f"{group}.") for change in changes)


def _dataset_differs(old: DatasetIdentity, new: DatasetIdentity) -> bool:
    """By the rows, and by the fingerprint where both have one, else by SHA-256 (ruling 4)."""
    fingerprints = old.fingerprint is not None and new.fingerprint is not None
    contents = (old.fingerprint, new.fingerprint) if fingerprints else (old.sha256, new.sha256)
    return old.selected_source_rows != new.selected_source_rows or contents[0] != contents[1]


@given(run.inputs, st.data())
def test_changes_are_named_together_and_in_order(before: RunInputs, data: st.DataObject) -> None:
    """Several groups changed: all of them are named, sorted; comparing the other way round names the same ones."""
    after = data.draw(run.inputs)
    changes = compare_inputs(as_object(before), after)
    groups = [change.group for change in changes]
    assert groups == sorted(groups)
    assert set(groups) == {change.group for change in compare_inputs(as_object(after), before)}
    assert {g for g in GROUPS if g != "dataset" and getattr(before, g) != getattr(after, g)} == set(groups) - {"dataset"}


@given(run.inputs, st.sets(st.sampled_from([group for group in GROUPS if group != "cassette"])))
def test_a_key_that_an_older_manifest_lacks_is_no_change(inputs: RunInputs, missing: set[str]) -> None:
    """An older version recorded less; that alone locks nobody out (ruling 4)."""
    before = {key: value for key, value in as_object(inputs).items() if key not in missing}
    assert compare_inputs(before, inputs) == ()


@given(run.inputs, st.data())
def test_a_key_that_an_older_group_lacks_is_no_change(inputs: RunInputs, data: st.DataObject) -> None:
    """The same inside a group: an older dataset without a fingerprint, an older list of versions."""
    before = as_object(inputs)
    group = data.draw(st.sampled_from(["rollout", "timeouts", "versions"]))
    lost = data.draw(st.sampled_from(sorted(before[group])))
    before[group] = {key: value for key, value in before[group].items() if key != lost}
    before["dataset"] = {key: value for key, value in before["dataset"].items() if key != "fingerprint"}
    assert compare_inputs(before, inputs) == ()


@given(run.inputs, run.names, run.names)
def test_a_variable_that_comes_or_goes_is_a_change(inputs: RunInputs, name: str, value: str) -> None:
    """`env` is compared whole: there, absence is a value."""
    assume(name not in inputs.env)
    more = msgspec.structs.replace(inputs, env={**inputs.env, name: value})
    for before, after in ((inputs, more), (more, inputs)):
        (change,) = compare_inputs(as_object(before), after)
        assert (change.group, change.path) == ("env", f"env.{name}")
        assert "(absent)" in (change.before, change.after)


@given(run.inputs, run.fingerprints)
def test_replaying_a_live_run_is_a_change(inputs: RunInputs, cassette: str) -> None:
    """A run that heard a model and one that hears a cassette are two runs (ruling 21)."""
    live = msgspec.structs.replace(inputs, cassette=None)
    replayed = msgspec.structs.replace(inputs, cassette=cassette)
    for before, after in ((live, replayed), (replayed, live)):
        assert [change.group for change in compare_inputs(as_object(before), after)] == ["cassette"]


@given(st.dictionaries(st.sampled_from(GROUPS) | run.names, json_values, max_size=6), run.inputs)
def test_any_manifest_can_be_compared(before: dict[str, Any], after: RunInputs) -> None:
    """A manifest of another version may hold anything; comparing never fails, and unknown keys are no change."""
    known = {change.group for change in compare_inputs(before, after)}
    assert known <= {*before, "cassette"} & {*GROUPS}


@given(st.binary(max_size=40) | json_values.map(canonical_json))
def test_what_is_no_manifest_is_refused_in_words(data: bytes) -> None:
    """One OsmosisError with a way out, whatever the file holds."""
    with pytest.raises(OsmosisError) as caught:
        decode_manifest(data, "manifest.json")
    assert "manifest.json" in str(caught.value)
    assert caught.value.hint


@given(run.manifests(), st.integers(-5, 5).filter(lambda version: version != 1))
def test_another_schema_is_named(manifest: Manifest, version: int) -> None:
    """Both versions are named, so that a person knows which program to use."""
    with pytest.raises(OsmosisError, match=f"schema version {version}; this version of Osmosis reads 1"):
        decode_manifest(encode_manifest(msgspec.structs.replace(manifest, schema_version=version)), "m")


@given(run.manifests(), selections)
def test_planned_rows_are_the_recorded_ones(manifest: Manifest, rows) -> None:
    """The selector that the manifest records gives the selection back; one that does not parse is an error in words."""
    dataset = {**manifest.inputs["dataset"], "selected_source_rows": str(rows)}
    assert planned_rows(msgspec.structs.replace(manifest, inputs={**manifest.inputs, "dataset": dataset})) == rows
    for broken in ({}, {"dataset": None}, {"dataset": {"selected_source_rows": ""}}, {"dataset": {"selected_source_rows": 3}}):
        with pytest.raises(OsmosisError, match="does not name its dataset rows"):
            planned_rows(msgspec.structs.replace(manifest, inputs=broken))


@given(st.integers(0, 8), st.integers(1, 4))
def test_every_item_is_planned_once_in_order(rows: int, n: int) -> None:
    """rows x n items, sorted, runs of a row together, and the same on every call."""
    items = list(work_items(rows, n))
    assert len(items) == len(set(items)) == rows * n
    assert items == sorted(items) == list(work_items(rows, n))


@pytest.mark.parametrize("rows", [1, 7, MOST_WORK_ITEMS])
def test_a_run_has_a_largest_size(rows):
    """A slip in `n` is refused with the numbers, before any item is made; the bound itself is allowed."""
    check_size(rows, MOST_WORK_ITEMS // rows, "x.toml")
    with pytest.raises(OsmosisError, match="work items; a run has at most 10,000,000") as caught:
        check_size(rows, MOST_WORK_ITEMS // rows + 1, "x.toml")
    assert [problem.where for problem in caught.value.problems] == ["x.toml"]
