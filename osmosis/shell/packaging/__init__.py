"""Bundles: a rollout project as a wheel that can run in a sandbox, and the packages that go with it."""
