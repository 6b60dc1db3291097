"""Rollouts in real sandboxes, with the real Harbor."""
