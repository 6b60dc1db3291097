"""Promises kept for all inputs: round trips, idempotence, truncation, model-based state machines."""
