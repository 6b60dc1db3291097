"""Hypothesis strategies, one module a room, that every property test draws from."""
