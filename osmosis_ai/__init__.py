"""Documented import names for people who write rollouts and rewards; re-exports only."""
