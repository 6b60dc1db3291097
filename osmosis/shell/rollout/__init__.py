"""The rollout SDK: what authors of rollouts subclass, and the server and client around it (requirements E20, E28).

Documented import names live in `osmosis_ai.rollout`, which re-exports from here.
"""
