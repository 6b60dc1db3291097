"""Harbor's verifier, for bundled graders and hostile rewards."""

from osmosis.shell.rollout.harbor.verifier import OsmosisVerifier

__all__ = ["OsmosisVerifier"]
