"""Osmosis: local-first evaluation of LLM agents.

`osmosis.pure` holds the functional core (values in, values out); `osmosis.shell` holds everything that touches the world.
Importing this package imports neither.
"""

__version__ = "0.3.10"
