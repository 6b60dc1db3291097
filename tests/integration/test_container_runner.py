"""The runner inside a sandbox, with its paths in a directory (rollout_protocol 14)."""

from __future__ import annotations

import json

import pytest

from osmosis.pure.container_files import ContainerInput, decode_container_result, decode_grade, encode_container_file
from osmosis.pure.protocol import ErrorCategory
from osmosis.shell.rollout.agent_workflow import AgentWorkflow
from osmosis.shell.rollout.container.runner import ContainerPaths, agent_main, grader_main, sample_of
from osmosis.shell.rollout.context import SampleSource, get_rollout_context
from osmosis.shell.rollout.grader import Grader
from osmosis.shell.rollout.types.output import AgentWorkflowOutput
from osmosis.shell.rollout.types.sample import RolloutSample

PROMPT = [{"role": "user", "content": "q"}]
ANSWER = {"role": "assistant", "content": "a"}


@pytest.fixture
def paths(tmp_path):
    """A sandbox's directories, with the inputs in them."""
    paths = ContainerPaths(tmp_path)
    for directory, label in ((paths.agent, None), (paths.tests, "L")):
        directory.mkdir(parents=True)
        given = ContainerInput(rollout_id="r", prompt=PROMPT, label=label, metadata={"k": 1}, chat_completions_url="http://m")
        (directory / "container_input.json").write_bytes(encode_container_file(given))
    return paths


def active():
    """The context of the rollout that runs here."""
    context = get_rollout_context()
    assert context is not None
    return context


def whole(left):
    """The sample in a result, which has one."""
    sample = sample_of(left)
    assert sample is not None
    return sample


def result(paths):
    """What the workflow left."""
    return decode_container_result((paths.agent / "container_result.json").read_bytes())


class Listed(AgentWorkflow):
    """Returns messages, and leaves a file."""

    async def run(self, ctx):
        """See what is there."""
        assert (ctx.prompt, ctx.metadata, self.config) == (PROMPT, {"k": 1}, None)
        assert active().chat_completions_url == "http://m"
        (ctx.artifacts_dir / "made.txt").write_text("made")
        return [*ctx.prompt, ANSWER]


class Source(SampleSource):
    """A conversation that is kept elsewhere."""

    async def get_sample(self):
        """It."""
        return RolloutSample(messages=[ANSWER], metrics={"turns": 2, "odd": float("nan"), "tag": "x"})


class Ambient(AgentWorkflow):
    """Returns only metrics; the conversation is the source's."""

    async def run(self, ctx):
        """Register it."""
        active().set_sample_source(Source())
        return AgentWorkflowOutput(metrics={"extra": 1.0})


class Failing(AgentWorkflow):
    """Fails."""

    async def run(self, ctx):
        """So."""
        raise TimeoutError("no answer")


class Leaving(AgentWorkflow):
    """Tries to end the process."""

    async def run(self, ctx):
        """So."""
        raise SystemExit(3)


def test_messages_become_the_output(paths):
    """And a trajectory; the sample is made of the output when it is graded."""
    agent_main(Listed, paths=paths)
    left = result(paths)
    assert (left.status, left.sample) == ("success", None)
    assert left.output == {"messages": [*PROMPT, ANSWER], "metrics": {}, "info": {}}
    assert whole(left).messages == [*PROMPT, ANSWER]
    assert json.loads((paths.agent / "trajectory.json").read_bytes())["session_id"] == "r"


def test_an_ambient_sample_comes_whole(paths):
    """With a projection of it as the output, in which only finite numbers are metrics."""
    agent_main(Ambient, paths=paths)
    left = result(paths)
    assert left.sample["metrics"] == {"turns": 2, "tag": "x", "extra": 1.0}
    assert left.output["metrics"] == {"turns": 2.0, "extra": 1.0}
    assert whole(left).messages == [ANSWER]


@pytest.mark.parametrize(
    ("workflow", "message", "category"),
    [(Failing, "no answer", ErrorCategory.TIMEOUT), (Leaving, "SystemExit: 3", ErrorCategory.AGENT_ERROR)],
)
def test_a_failure_is_a_result(paths, workflow, message, category):
    """With its words and its category, and the process ends as if all were well."""
    agent_main(workflow, paths=paths)
    left = result(paths)
    assert (left.status, left.err_message, left.err_category) == ("failure", message, category)


def test_without_an_input_there_is_a_result_all_the_same(tmp_path):
    """That says what is missing."""
    agent_main(Listed, paths=ContainerPaths(tmp_path))
    assert "container_input.json" in str(result(ContainerPaths(tmp_path)).err_message)


class Marking(Grader):
    """Scores, with the label, and leaves a file."""

    async def grade(self, ctx):
        """One for an answer."""
        assert (ctx.label, ctx.metadata, ctx.sample.label) == ("L", {"k": 1}, "L")
        assert active().rollout_id == "r"
        (ctx.artifacts_dir / "note.txt").write_text("note")
        ctx.sample.metrics["seen"] = len(ctx.sample.messages)
        ctx.set_reward(0.75)


class Discarding(Grader):
    """Takes the sample out."""

    async def grade(self, ctx):
        """So."""
        ctx.sample.remove_sample = True


class Silent(Grader):
    """Decides nothing."""

    async def grade(self, ctx):
        """So."""


def grade(paths):
    """What the grader left beside the reward."""
    return decode_grade((paths.verifier / "grade.json").read_bytes())


def test_a_reward_comes_back_with_what_the_grader_added(paths):
    """The reward for Harbor, metrics beside it, and only the files that are new."""
    agent_main(Listed, paths=paths)
    grader_main(Marking, paths=paths)
    assert (paths.verifier / "reward.json").read_bytes() == b'{"reward":0.75}'
    assert (grade(paths).reward, grade(paths).metrics) == (0.75, {"seen": 2})
    kept = paths.verifier / ".osmosis-artifacts"
    assert sorted(path.name for path in kept.iterdir()) == ["note.txt"]


def test_a_sample_can_be_taken_out(paths):
    """Which the public runner cannot."""
    agent_main(Listed, paths=paths)
    grader_main(Discarding, paths=paths)
    assert grade(paths).remove_sample
    assert json.loads((paths.verifier / "reward.json").read_bytes()) == {"reward": 0.0, "removed": 1}


def test_a_grader_that_decides_nothing_has_failed(paths):
    """There is no reward, and a reason."""
    agent_main(Listed, paths=paths)
    with pytest.raises(RuntimeError, match="no reward after grading"):
        grader_main(Silent, paths=paths)
    assert not (paths.verifier / "reward.json").exists()
    assert grade(paths).error == "Sample has no reward after grading"


def test_a_native_agents_trajectory_is_graded(paths):
    """It is the only trace of the conversation."""
    agent_main(Listed, paths=paths)
    (paths.agent / "container_result.json").unlink()
    grader_main(Marking, paths=paths)
    assert grade(paths).metrics == {"seen": 2}


def test_nothing_to_grade_is_worth_nothing(paths):
    """Without result and trajectory."""
    grader_main(Marking, paths=paths)
    assert (paths.verifier / "reward.json").read_bytes() == b'{"reward":0.0}'
