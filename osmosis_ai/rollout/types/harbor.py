"""Configuration of the managed native gateway."""

from osmosis.shell.rollout.types.harbor import HarborGatewayConfig, HarborHealthcheckConfig

__all__ = ["HarborGatewayConfig", "HarborHealthcheckConfig"]
