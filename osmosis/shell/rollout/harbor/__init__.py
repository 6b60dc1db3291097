"""Rollouts as trials of the real Harbor, in any of its environments (contract: rollout_protocol section 13)."""
