"""Strands Agents on a rollout's model, from extra `strands`; loaded when its names are first used."""

from typing import TYPE_CHECKING

from osmosis.shell.rollout.optional import lazy_names

if TYPE_CHECKING:
    from osmosis.shell.rollout.integrations.strands import (  # noqa: F401 - one name is importable, but not public
        OsmosisRolloutModel,
        OsmosisStrandsAgent,
        StrandsAgentSampleSource,
    )

__all__ = ["OsmosisRolloutModel", "OsmosisStrandsAgent"]

_OPTIONAL = [*__all__, "StrandsAgentSampleSource"]

__getattr__ = lazy_names(
    __name__,
    feature="the Strands integration",
    extra="strands",
    names=dict.fromkeys(_OPTIONAL, "osmosis.shell.rollout.integrations.strands"),
)
