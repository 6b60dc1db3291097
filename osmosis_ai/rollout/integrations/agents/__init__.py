"""Agent frameworks on a rollout's model; each has an extra of its own."""
