"""Looks at this machine and at a workspace for `osmosis doctor`, and makes what is safe to make."""
