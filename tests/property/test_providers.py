"""Where a model lives, from its path and an environment passed in as a value (E7, rulings 16 and 19)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.errors import ErrorCode, OsmosisError
from osmosis.pure.provider_table import NATIVE_PROVIDERS, PROVIDERS
from osmosis.pure.providers import Endpoint, resolve

KEY = "sk-0123456789abcdef"


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
def test_every_provider_resolves_from_its_usual_variables(provider):
    """With its first variables set, each provider gives exactly that base URL, that key and the model after the first slash."""
    _, url_variables, key_variables, _ = PROVIDERS[provider]
    environment = {key_variables[0]: f" {KEY}\n"} | dict.fromkeys(url_variables[:1], "https://example.test/v1/")
    endpoint = resolve(f"{provider}/vendor/model:free", environment)
    expected = "https://example.test/v1" if url_variables else str(PROVIDERS[provider][0])
    assert endpoint == Endpoint(provider, "vendor/model:free", expected, key_variables[0], KEY)
    assert endpoint.model_path == f"{provider}/vendor/model:free"
    assert endpoint.chat_completions_url == f"{expected}/chat/completions"


@pytest.mark.parametrize("provider", sorted(name for name, row in PROVIDERS.items() if row[3]))
def test_a_missing_key_is_named(provider):
    """Without its key, a provider is refused with every variable that would do."""
    with pytest.raises(OsmosisError) as caught:
        resolve(f"{provider}/m", dict.fromkeys(PROVIDERS[provider][2], "  "))
    assert caught.value.code is ErrorCode.AUTH_REQUIRED
    for variable in PROVIDERS[provider][2]:
        assert variable in str(caught.value)
    assert "--secrets-file" in str(caught.value.hint)


def test_the_table_knows_the_usual_names():
    """The two most used providers stand in the table as their own documentation names them."""
    assert PROVIDERS["openai"] == (
        "https://api.openai.com/v1",
        ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
        ("OPENAI_API_KEY",),
        True,
    )
    assert PROVIDERS["openrouter"][0] == "https://openrouter.ai/api/v1"
    assert not PROVIDERS.keys() & NATIVE_PROVIDERS
    for base_url, url_variables, key_variables, _ in PROVIDERS.values():
        assert key_variables
        assert base_url is not None or url_variables
        assert base_url is None or (base_url.startswith(("https://", "http://")) and not base_url.endswith("/"))


def test_the_first_variable_that_is_set_wins():
    """`OPENAI_BASE_URL` goes before `OPENAI_API_BASE`; an empty one does not count."""
    both = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "https://one.test/v1", "OPENAI_API_BASE": "https://two.test/v1"}
    assert resolve("openai/m", both).base_url == "https://one.test/v1"
    assert resolve("openai/m", {**both, "OPENAI_BASE_URL": ""}).base_url == "https://two.test/v1"


@pytest.mark.parametrize("path", ["", "gpt-4", "openai", "openai/", "/m", "nobody/m", "OPENAI/m"])
def test_a_path_without_a_known_provider_shows_the_form(path):
    """A model path that names no known provider is refused with the form it should have."""
    with pytest.raises(OsmosisError, match="provider/model"):
        resolve(path, {})


@pytest.mark.parametrize("provider", ["anthropic", "gemini", "bedrock", "vertex_ai", "azure_ai", "chatgpt", "github_copilot"])
def test_native_providers_are_refused_with_the_way_out(provider):
    """A provider that needs translation is refused plainly, with what works instead."""
    with pytest.raises(OsmosisError, match="OpenAI-compatible endpoints only") as caught:
        resolve(f"{provider}/m", {})
    assert "OPENAI_BASE_URL" in str(caught.value.hint)


@pytest.mark.parametrize(
    "url",
    [
        *("example.test/v1", "ftp://example.test", "file:///etc/passwd", "http://", "http://[::1/v1", "http://exa mple.test"),
        *(
            "http://user:pw@example.test/v1",
            "http://example.test/v1?key=x",
            "http://example.test/#x",
            "http://example.test:port",
        ),
    ],
)
def test_a_bad_base_url_names_its_variable(url):
    """What is no plain http(s) URL, or would put a secret on record, is refused by the variable's name."""
    with pytest.raises(OsmosisError) as caught:
        resolve("openai/m", {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": KEY})
    assert [problem.key for problem in caught.value.problems] == ["OPENAI_BASE_URL"]
    assert "pw@" not in str(caught.value)
    assert "key=x" not in str(caught.value)


def test_all_problems_come_at_once():
    """A bad URL and a missing key are reported together."""
    with pytest.raises(OsmosisError) as caught:
        resolve("openai/m", {"OPENAI_BASE_URL": "nowhere"})
    assert [problem.key for problem in caught.value.problems] == ["OPENAI_BASE_URL", "OPENAI_API_KEY"]


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "[::1]:1", "127.9.9.9"])
def test_a_server_on_this_machine_needs_no_key(host):
    """A base URL on loopback makes the key optional, for any provider."""
    endpoint = resolve("openai/m", {"OPENAI_BASE_URL": f"http://{host}/v1"})
    assert (endpoint.api_key, endpoint.api_key_variable, endpoint.is_loopback) == (None, None, True)


@pytest.mark.parametrize("url", ["http://127.0.0.1.example.test/v1", "https://localhost.test/v1", "http://10.0.0.1/v1"])
def test_look_alikes_of_loopback_need_a_key(url):
    """Only this machine is exempt, not hosts that resemble it."""
    with pytest.raises(OsmosisError, match="OPENAI_API_KEY"):
        resolve("openai/m", {"OPENAI_BASE_URL": url})


def test_a_replay_needs_neither_key_nor_url():
    """Under replay the path alone is enough, and no key is carried even where one is set."""
    assert resolve("openai/m", {}, replay=True).base_url == "https://api.openai.com/v1"
    assert resolve("hosted_vllm/m", {}, replay=True).base_url == ""
    assert resolve("openai/m", {"OPENAI_API_KEY": KEY}, replay=True).api_key is None


@given(st.text(min_size=1).filter(lambda text: text.strip() and not (text.strip().isascii() and text.strip().isprintable())))
def test_a_key_that_cannot_stand_in_a_header_is_refused(key):
    """Line breaks and non-ASCII in a key are refused by the variable's name, and the key is not shown."""
    with pytest.raises(OsmosisError) as caught:
        resolve("openai/m", {"OPENAI_API_KEY": key})
    assert [problem.key for problem in caught.value.problems] == ["OPENAI_API_KEY"]
    assert len(key.strip()) < 3 or key.strip() not in str(caught.value)


def test_a_printed_endpoint_hides_its_key():
    """The key shows neither in `repr` nor in `str`."""
    endpoint = resolve("openai/m", {"OPENAI_API_KEY": KEY})
    assert KEY not in f"{endpoint!r} {endpoint} {[endpoint]}"
