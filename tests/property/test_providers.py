"""Where a model lives, from its path and an environment passed in as a value (E7, rulings 16 and 19)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.errors import ErrorCode, OsmosisError
from osmosis.pure.provider_table import NATIVE_PROVIDERS, PROVIDERS
from osmosis.pure.providers import Endpoint, Wire, resolve
from osmosis.pure.request_policy import ProviderKind

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


@pytest.mark.parametrize(("provider", "variable"), [("anthropic", "ANTHROPIC_API_KEY"), ("gemini", "GOOGLE_API_KEY")])
def test_a_native_provider_needs_its_key_alone(provider, variable):
    """The key comes from the usual variable, the host is LiteLLM's to know, and a missing key is named."""
    endpoint = resolve(f"{provider}/m", {variable: f" {KEY} "})
    assert endpoint == Endpoint(provider, "m", "", variable, KEY, Wire.NATIVE)
    assert (endpoint.host, endpoint.url) == (provider, f"{provider}/m")
    assert KEY not in repr(endpoint)
    with pytest.raises(OsmosisError) as caught:
        resolve(f"{provider}/m", {})
    assert "no API key" in str(caught.value)


@pytest.mark.parametrize("provider", ["bedrock", "vertex_ai", "chatgpt", "github_copilot"])
def test_credentials_that_are_more_than_a_key_are_left_to_the_translation(provider):
    """Such a model resolves without any variable; the preflight call tells whether the credentials are there."""
    assert resolve(f"{provider}/m", {}) == Endpoint(provider, "m", "", None, None, Wire.NATIVE)


@pytest.mark.parametrize(
    ("model_path", "kind"),
    [
        ("openai/m", ProviderKind.OPENAI_COMPATIBLE),
        ("openrouter/anthropic/claude-x", ProviderKind.OPENAI_COMPATIBLE),
        ("anthropic/claude-x", ProviderKind.ANTHROPIC),
        ("vertex_ai/claude-x", ProviderKind.ANTHROPIC),
        ("azure_ai/Claude-X", ProviderKind.ANTHROPIC),
        ("azure/m", ProviderKind.AZURE),
        ("gemini/m", ProviderKind.NATIVE),
        ("vertex_ai/gemini-x", ProviderKind.NATIVE),
    ],
)
def test_the_kind_decides_the_metadata_rule(model_path, kind):
    """Each provider has the rules of E32, Claude on somebody else's cloud those of Anthropic."""
    keys = dict.fromkeys(("OPENAI_API_KEY", "OPENROUTER_API_KEY", "ANTHROPIC_API_KEY", "AZURE_API_KEY"), KEY)
    assert resolve(model_path, {**keys, "GEMINI_API_KEY": KEY, "AZURE_AI_API_KEY": KEY}).kind is kind


@pytest.mark.parametrize(
    ("model", "variables", "wire"),
    [
        ("gpt-5-pro", {}, Wire.RESPONSES),
        ("gpt-5-pro", {"OPENAI_BASE_URL": "https://api.openai.com/v1/"}, Wire.RESPONSES),
        ("gpt-5-pro", {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}, Wire.CHAT),
        ("gpt-4.1-mini", {}, Wire.CHAT),
    ],
)
def test_the_official_endpoint_is_spoken_to_as_the_model_needs(model, variables, wire):
    """Only models that need the Responses API get it, and only where it is known to be (ruling 20)."""
    assert resolve(f"openai/{model}", {"OPENAI_API_KEY": KEY, **variables}).wire is wire


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
