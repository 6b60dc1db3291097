"""Agent frameworks on a rollout's model."""
