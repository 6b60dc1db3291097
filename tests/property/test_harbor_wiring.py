"""How native agents find the bridge (rollout_protocol 13.6)."""

from __future__ import annotations

import pytest

from osmosis.pure.harbor_wiring import DEFAULT_MODEL, wire_native_agent

URL = "http://172.17.0.1:8123/v1/rollouts/r"
OPENAI = {"OPENAI_API_BASE": URL, "OPENAI_BASE_URL": URL, "OPENAI_API_KEY": "k"}


def wire(agent, *, url=URL, key="k", model=DEFAULT_MODEL, **kwargs):
    """The wiring of an agent with a user's keyword arguments."""
    return wire_native_agent(agent, url=url, key=key, model=model, kwargs=kwargs)


def test_terminus_takes_the_endpoint_as_arguments():
    """Its summaries would be calls of their own, so they are off unless asked for; a user's other arguments stay."""
    wiring = wire("terminus-2", llm_kwargs={"timeout": 3, "api_key": "mine"}, max_turns=2)
    assert wiring.kwargs == {
        "enable_summarize": False,
        "max_turns": 2,
        "api_base": URL,
        "llm_kwargs": {"timeout": 3, "api_key": "k"},
    }
    assert wire("terminus-2", enable_summarize=True).kwargs["enable_summarize"] is True


def test_mini_swe_agent_takes_it_from_its_environment():
    """And the effort of reasoning where its model configuration has a place for it."""
    wiring = wire("mini-swe-agent", reasoning_effort="low", config={"model": {"model_kwargs": {"top_p": 1}}})
    assert wiring.env == {**OPENAI, "MSWEA_COST_TRACKING": "ignore_errors"}
    assert wiring.kwargs == {"config": {"model": {"model_kwargs": {"reasoning_effort": "low", "top_p": 1}}}}


def test_opencode_gets_a_provider_of_its_own():
    """Under a name that the user's configuration does not use, with the key in the environment and not in the configuration."""
    wiring = wire("opencode", model="openai/m-1", opencode_config={"provider": {"osmosis-rollout": {}}, "theme": "x"})
    assert wiring.model_name == "osmosis-rollout-2/m-1"
    config = wiring.kwargs["opencode_config"]
    assert config["theme"] == "x"
    assert config["compaction"]["auto"] is False
    provider = config["provider"]["osmosis-rollout-2"]
    assert provider["npm"] == "@ai-sdk/openai-compatible"
    assert provider["options"] == {"baseURL": "{env:OPENAI_BASE_URL}", "apiKey": "{env:OPENAI_API_KEY}"}
    assert wiring.env == OPENAI
    with pytest.raises(ValueError, match="provider/model"):
        wire("opencode", model="m-1")


def test_the_oracle_needs_nothing():
    """No model, no URL."""
    wiring = wire("oracle", url="")
    assert (wiring.kwargs, wiring.env, wiring.model_name) == ({}, {}, None)


def test_without_a_key_there_is_a_dummy():
    """Clients refuse an empty one."""
    assert wire("mini-swe-agent", key=None).env["OPENAI_API_KEY"] == "dummy"


def test_mistakes_are_told():
    """An unknown name with the known ones, a missing URL."""
    with pytest.raises(ValueError, match="mini-swe-agent, opencode, oracle, terminus-2"):
        wire("terminus")
    with pytest.raises(ValueError, match="needs a chat completions URL"):
        wire("opencode", url="")
