"""What calls cost: from the config, the provider or the bundled table, and absent where nobody knows."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.model_prices import ModelPrice, call_cost, price_of, total_cost
from osmosis.pure.providers import Endpoint, Wire, resolve
from osmosis.pure.usage import CallUsage, UsageDetails, read_details

HERE = Endpoint("openai", "m", "http://127.0.0.1:1/v1", None, None)
prices = st.floats(0, 1000)
counts = st.integers(0, 10**9)


@pytest.mark.parametrize(
    ("model_path", "variables", "known"),
    [
        ("openai/gpt-4.1-mini", {"OPENAI_API_KEY": "k" * 9}, True),
        ("openai/gpt-4.1-mini", {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}, False),
        ("openai/no-such-model", {"OPENAI_API_KEY": "k" * 9}, False),
        ("anthropic/claude-sonnet-4-5", {"ANTHROPIC_API_KEY": "k" * 9}, True),
        ("anthropic/claude-sonnet-4-5", {"ANTHROPIC_API_BASE": "http://127.0.0.1:1"}, False),
        ("gemini/gemini-2.5-flash", {"GEMINI_API_KEY": "k" * 9}, True),
        ("groq/openai/gpt-oss-20b", {"GROQ_API_KEY": "k" * 9}, True),
        ("hosted_vllm/m", {"HOSTED_VLLM_API_BASE": "http://127.0.0.1:1/v1"}, False),
    ],
)
def test_where_a_price_is_known(model_path, variables, known):
    """The bundled table speaks for the providers' own endpoints only; a stated price holds everywhere."""
    endpoint = resolve(model_path, variables)
    assert (price_of(endpoint) is not None) is known
    own = ModelPrice(1.0, 2.0)
    assert price_of(endpoint, own) is own


def test_the_bundled_prices_are_read_right():
    """Known models have their published prices a million tokens, with caching, long prompts and cache writing."""
    mini = price_of(Endpoint("openai", "gpt-4.1-mini", "https://api.openai.com/v1", None, None))
    assert mini == ModelPrice(0.4, 1.6, 0.1)
    claude = price_of(Endpoint("anthropic", "claude-sonnet-4-5", "", None, None, Wire.NATIVE))
    assert claude is not None
    assert (claude.input, claude.output, claude.cached_input, claude.cache_write) == (3, 15, 0.3, 3.75)
    gemini = price_of(Endpoint("gemini", "gemini-2.5-pro", "", None, None, Wire.NATIVE))
    assert gemini == ModelPrice(1.25, 10.0, 0.125, None, 200_000, ModelPrice(2.5, 15.0, 0.25))


def test_a_cost_by_hand():
    """1,000 prompt tokens, of them 300 cached and 100 written, and 50 answered, at 2, 10, 0.5 and 2.5 dollars a million."""
    price = ModelPrice(2.0, 10.0, 0.5, 2.5)
    cost = call_cost(HERE, price, CallUsage(1000, 50, 1050), UsageDetails(300, 100))
    assert cost == pytest.approx((600 * 2 + 300 * 0.5 + 100 * 2.5 + 50 * 10) / 1e6)
    assert call_cost(HERE, ModelPrice(2.0, 10.0), CallUsage(1000, 50, 1050), UsageDetails(300, 100)) == pytest.approx(0.0025)


def test_long_prompts_cost_more():
    """Beyond the step, the whole call has the higher price."""
    price = ModelPrice(1.0, 1.0, long_from=100, long=ModelPrice(2.0, 3.0))
    assert call_cost(HERE, price, CallUsage(100, 0, 100), None) == pytest.approx(1e-4)
    assert call_cost(HERE, price, CallUsage(101, 10, 111), None) == pytest.approx((202 + 30) / 1e6)


def test_hidden_reasoning_is_billed():
    """Tokens that only the total counts are output."""
    assert call_cost(HERE, ModelPrice(0.0, 1.0), CallUsage(3, 2, 9), None) == pytest.approx(6e-6)


@given(prices, prices, st.none() | prices, counts, counts, st.none() | counts, st.none() | counts)
def test_a_cost_is_never_negative_or_endless(input_, output, cached, prompt, completion, hit, written):
    """Whatever a provider says about its cache, no part is billed twice and nothing is paid back."""
    usage = CallUsage(prompt, completion, prompt + completion)
    cost = call_cost(HERE, ModelPrice(input_, output, cached), usage, UsageDetails(hit, written))
    assert cost is not None
    most = (prompt * max(input_, cached or 0) + completion * output) / 1e6
    assert math.isfinite(cost)
    assert -1e-9 <= cost <= most * (1 + 1e-9) + 1e-9


def test_only_a_provider_that_bills_by_it_is_believed():
    """OpenRouter's `cost` is the cost; the same member of any other server is not, and without a price it stays unknown."""
    details = read_details({"cost": 0.25})
    router = Endpoint("openrouter", "m", "https://openrouter.ai/api/v1", None, None)
    assert call_cost(router, None, None, details) == 0.25
    assert call_cost(HERE, None, CallUsage(1, 1, 2), details) is None
    assert call_cost(HERE, ModelPrice(1, 1), None, None) is None


@pytest.mark.parametrize(
    ("usage", "details"),
    [
        ({"prompt_tokens": 3}, None),
        ("none", None),
        ({"prompt_tokens_details": {"cached_tokens": 2}}, UsageDetails(2)),
        ({"prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 1}}, UsageDetails(2, 1)),
        ({"cache_read_input_tokens": 2, "cache_creation_input_tokens": 4}, UsageDetails(2, 4)),
        ({"prompt_cache_hit_tokens": 5}, UsageDetails(5)),
        ({"cost": -1, "prompt_tokens_details": {"cached_tokens": True}}, None),
        ({"cost": float("nan")}, None),
    ],
)
def test_details_of_usage(usage, details):
    """Each provider's spelling of cached tokens is understood, and nonsense is no detail."""
    assert read_details(usage) == details


def test_a_total_is_known_only_as_a_whole():
    """One call of unknown cost makes the sum unknown; no call makes no cost."""
    assert total_cost([0.1, 0.2]) == 0.3
    assert total_cost([0.1, None]) is None
    assert total_cost([]) is None
