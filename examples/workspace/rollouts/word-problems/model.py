"""One call of the model, over the endpoint that the rollout's context names."""

from typing import Any

import httpx

from osmosis_ai.rollout import RolloutContext

# One client for all rollouts of this server. The endpoint is on loopback, where a proxy of the environment would only harm.
CLIENT = httpx.AsyncClient(timeout=httpx.Timeout(120.0, connect=10.0), trust_env=False)


class ModelCallError(RuntimeError):
    """The endpoint did not give a completion. The message is the endpoint's own."""


async def complete(context: RolloutContext, body: dict[str, Any]) -> dict[str, Any]:
    """Send `body` as a chat completion and return the assistant's message, with the call's `usage` beside its content.

    The body is a function of the conversation alone, without ids or times, so that a recorded call is found again on replay.
    Raises ModelCallError with the endpoint's message, and httpx.HTTPError when the endpoint cannot be reached.
    """
    response = await CLIENT.post(
        f"{context.chat_completions_url}/chat/completions",
        # The bridge calls the model of the eval config, whatever stands here.
        json={"model": "configured", **body},
        headers={"Authorization": f"Bearer {context.api_key}"},
    )
    if response.is_error:
        raise ModelCallError(f"model call failed with status {response.status_code}: {_reason(response)}")
    completion = response.json()
    content = completion["choices"][0]["message"]["content"] or ""
    return {"role": "assistant", "content": content, "usage": completion.get("usage")}


def _reason(response: httpx.Response) -> str:
    try:
        return str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return response.text[:500]
