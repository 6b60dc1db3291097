"""The package of the test rollout, which travels into sandboxes."""
