"""Configuration of workflows and graders."""

from osmosis.shell.rollout.types.config import AgentWorkflowConfig, BaseConfig, ConcurrencyConfig, GraderConfig

__all__ = ["AgentWorkflowConfig", "BaseConfig", "ConcurrencyConfig", "GraderConfig"]
