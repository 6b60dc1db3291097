"""LLM judges: calls through the bridge's own path, and the documented functions around them (A3-A5, E41)."""
