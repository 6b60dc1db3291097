"""The remote rollout API: an agent loop as an HTTP server for a trainer that owns the model (A6; `legacy_api.md` 5-8)."""
