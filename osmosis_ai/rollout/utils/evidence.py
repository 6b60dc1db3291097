"""The evidence of Harbor trials."""

from osmosis.shell.rollout.harbor.evidence import trial_evidence_inventory, verify_trial_evidence

__all__ = ["trial_evidence_inventory", "verify_trial_evidence"]
