"""Drives rollouts through the documented client, whichever package it comes from.

Run by the tests in the environment of the public package: `python drive.py URL`, with a JSON list of rollouts on stdin (each an
object of arguments for `run_rollout`, `cancel` among them for those that are to be cancelled). Prints a JSON list of results.
"""

import asyncio
import json
import sys

from osmosis_ai.rollout.client import RolloutClient


async def run(client, rollout):
    """One rollout from start to end."""
    arguments = dict(rollout)
    cancelled = arguments.pop("cancel", False)
    handle = await client.run_rollout_async(**arguments)
    if cancelled:
        await client.cancel_rollout(arguments["rollout_id"])
    result = await handle
    return result.model_dump(mode="json", exclude={"sample": {"trajectory_messages"}})


async def drive(url, rollouts):
    """All of them at once; the results in order."""
    client = RolloutClient(url=url)
    try:
        await client.health()
        results = await asyncio.gather(*(run(client, rollout) for rollout in rollouts))
        await client.wait_idle(poll_interval_sec=0.1)
    finally:
        await client.aclose()
    return results


if __name__ == "__main__":
    json.dump(asyncio.run(drive(sys.argv[1], json.load(sys.stdin))), sys.stdout)
