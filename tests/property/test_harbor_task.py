"""Which task a row runs, and under which name (rollout_protocol 13.3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.harbor_task import (
    GitTask,
    LocalTask,
    PackageTask,
    TaskMode,
    choose_task,
    is_inside,
    trial_directory_name,
)


@pytest.mark.parametrize(
    ("metadata", "mode", "choice"),
    [
        (None, TaskMode.TEMPLATE, LocalTask("", inside=True)),
        ({"harbor_task_id": "ignored"}, TaskMode.TEMPLATE, LocalTask("", inside=True)),
        ({"harbor_task_id": "a/b"}, TaskMode.DATASET, LocalTask("a/b", inside=True)),
        ({"harbor_task": "./here"}, TaskMode.DATASET, LocalTask("./here", inside=False)),
        ({"harbor_task": "~/there"}, TaskMode.TEMPLATE, LocalTask("~/there", inside=False)),
        ({"harbor_task": "org/name"}, TaskMode.TEMPLATE, PackageTask("org/name", "latest", floating=True)),
        ({"harbor_task": "org/name@sha256:ab"}, TaskMode.DATASET, PackageTask("org/name", "sha256:ab", floating=False)),
        (
            {"harbor_task": "tasks/x", "git_url": "https://h/r", "git_commit_id": "c"},
            TaskMode.TEMPLATE,
            GitTask("https://h/r", "tasks/x", "c"),
        ),
    ],
)
def test_the_row_chooses_its_task(metadata, mode, choice):
    """A reference in the metadata wins over the mode."""
    assert choose_task(metadata, mode) == choice


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        (None, "harbor_task_id"),
        ({"harbor_task_id": "../x"}, "below the tasks directory"),
        ({"harbor_task_id": "/etc"}, "below the tasks directory"),
        ({"harbor_task_id": "a\\..\\..\\x"}, "below the tasks directory"),
        ({"harbor_task_id": 3}, "must be a string"),
        ({"harbor_task": "name"}, "org/name"),
        ({"harbor_task": "a/b/c"}, "org/name"),
        ({"harbor_task": " "}, "must be a string"),
        ({"harbor_task": "../x", "git_url": "u"}, "inside the repository"),
    ],
)
def test_a_wrong_choice_names_its_key(metadata, said):
    """And says what it should have been."""
    with pytest.raises(ValueError, match=said):
        choose_task(metadata, TaskMode.DATASET)


@given(st.text(max_size=40))
def test_an_id_below_the_tasks_directory_never_leaves_it(path):
    """Whatever the text, an accepted one has only plain segments."""
    if is_inside(path):
        assert all(part not in ("", ".", "..") for part in path.replace("\\", "/").split("/"))


@pytest.mark.parametrize(("rollout_id", "name"), [("r1", "r1"), ("ns::r1", "ns__r1"), ("a/b", "a_b"), ("é x", "é x")])
def test_usable_ids_name_their_trial(rollout_id, name):
    """One segment, whatever the id."""
    assert trial_directory_name(rollout_id) == name


@pytest.mark.parametrize("rollout_id", ["a:b", "a::b::c", "::b", "..", "a/../b", "a\nb", "", "c:\\x"])
def test_ids_that_harbor_cannot_use_are_refused(rollout_id):
    """Harbor's rule is stricter than the server's."""
    with pytest.raises(ValueError, match="cannot be the id"):
        trial_directory_name(rollout_id)
