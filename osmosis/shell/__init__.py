"""The imperative shell: performs effects, reports events, and asks `osmosis.pure` what they mean."""
