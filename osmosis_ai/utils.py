"""The decorators, under the name that older code imports from."""

from osmosis.shell.rewards import osmosis_reward, osmosis_rubric

__all__ = ["osmosis_reward", "osmosis_rubric"]
