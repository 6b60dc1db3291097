"""Documented import names for people who write rollouts and rewards; re-exports only, each loaded when it is first used."""

from osmosis import __version__

_JUDGE = {
    "evaluate_rubric": "osmosis.shell.judge.evaluate",
    "evaluate_rubric_async": "osmosis.shell.judge.evaluate",
    "evaluate_rubrics": "osmosis.shell.judge.evaluate_many",
    "RubricBatch": "osmosis.shell.judge.types",
    "RubricItem": "osmosis.shell.judge.types",
    "RubricOutcome": "osmosis.shell.judge.types",
    "RubricProgress": "osmosis.shell.judge.types",
    "RubricResult": "osmosis.shell.judge.types",
    "MissingAPIKeyError": "osmosis.pure.judge_errors",
    "ModelNotFoundError": "osmosis.pure.judge_errors",
    "ProviderRequestError": "osmosis.pure.judge_errors",
}
_REWARDS = {
    "osmosis_reward": "osmosis.shell.rewards",
    "osmosis_rubric": "osmosis.shell.rewards",
    "reward_grader": "osmosis.shell.reward_grader",
    "trainer_reward": "osmosis.shell.trainer_reward",
}

__all__ = ["__version__", *_JUDGE, *_REWARDS]


def __getattr__(name: str) -> object:
    from osmosis.shell.rollout.optional import lazy_names

    extra = "rubric" if name in _JUDGE else "remote-rollout"
    value = lazy_names(__name__, feature=name, extra=extra, names=_JUDGE | _REWARDS)(name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
