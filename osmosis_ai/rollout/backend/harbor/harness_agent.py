"""The Harbor agent that runs a workflow in a sandbox."""

from osmosis.shell.rollout.harbor.harness_agent import OsmosisHarnessInstalledAgent

__all__ = ["OsmosisHarnessInstalledAgent"]
