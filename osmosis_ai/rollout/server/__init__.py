"""The rollout server, from extra `server`; loaded when its names are first used."""

from typing import TYPE_CHECKING

from osmosis.shell.rollout.optional import lazy_names

if TYPE_CHECKING:
    from osmosis.shell.rollout.server import create_rollout_server

__all__ = ["create_rollout_server"]

__getattr__ = lazy_names(
    __name__, feature="the rollout server", extra="server", names={"create_rollout_server": "osmosis.shell.rollout.server"}
)
