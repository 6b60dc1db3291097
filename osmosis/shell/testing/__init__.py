"""Stand-ins for testing rollouts and rewards: a model server, a trainer, contexts. Public as `osmosis_ai.testing`."""
