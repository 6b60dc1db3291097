"""OpenAI Agents SDK on a rollout's model, from extra `openai-agents`; loaded when its names are first used."""

from typing import TYPE_CHECKING

from osmosis.shell.rollout.optional import lazy_names

if TYPE_CHECKING:
    from osmosis.shell.rollout.integrations.openai_agents import (
        OsmosisAgent,
        OsmosisLitellmModel,
        OsmosisMemorySession,
        OsmosisRolloutModel,
        SessionSampleSource,
    )

__all__ = ["OsmosisAgent", "OsmosisLitellmModel", "OsmosisMemorySession", "OsmosisRolloutModel", "SessionSampleSource"]

__getattr__ = lazy_names(
    __name__,
    feature="the OpenAI Agents integration",
    extra="openai-agents",
    names=dict.fromkeys(__all__, "osmosis.shell.rollout.integrations.openai_agents"),
)
