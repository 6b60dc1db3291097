"""Configuration of the managed gateway for native agents."""

from osmosis.shell.rollout.types.harbor import HarborGatewayConfig, HarborHealthcheckConfig

__all__ = ["HarborGatewayConfig", "HarborHealthcheckConfig"]
