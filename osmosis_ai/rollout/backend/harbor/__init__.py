"""The backend that runs rollouts as Harbor trials, from extra `harbor`; loaded when its names are first used."""

from typing import TYPE_CHECKING

from osmosis.pure.harbor_task import TaskMode
from osmosis.shell.rollout.optional import lazy_names

if TYPE_CHECKING:
    from osmosis.shell.rollout.harbor.backend import HarborBackend

__all__ = ["HarborBackend", "TaskMode"]

__getattr__ = lazy_names(
    __name__, feature="HarborBackend", extra="harbor", names={"HarborBackend": "osmosis.shell.rollout.harbor.backend"}
)
