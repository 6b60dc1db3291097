"""Agent frameworks pointed at a rollout's model endpoint, their memories as its sample (rollout_protocol section 12)."""

import os

# Before either framework imports LiteLLM: it would fetch its price list from the network, and a sandbox has none.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
